"""Log entries of updates, consolidations and removals, and order-free digests of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model.atlas import is_held
from atlas_splines.model.log import Folded, Record, gaps_in, shortened
from atlas_splines.model.state import State
from atlas_splines.model.train import History
from atlas_splines.updates.footprint import Footprint, RestFootprint
from atlas_splines.updates.metrics import HeldOut

__all__ = [
    "Consolidation",
    "Folded",
    "Hashes",
    "Record",
    "Removal",
    "RowDigest",
    "Update",
    "digest_text",
    "learned_before",
    "log_in",
    "log_without",
    "packed",
    "row_hashes",
    "sorted_hashes",
]

ROW_BYTES = 16  # of the hash of a row
Hashes = NDArray[np.bytes_]  # of rows, of 16 bytes each, sorted


class RowDigest:
    """A digest of rows that is computed piece by piece, independent of their order.

    Examples
    --------
    >>> one, other = RowDigest(), RowDigest()
    >>> one.add([[1.0], [2.0]], [3.0, 4.0])
    >>> other.add([[2.0]], [4.0])
    >>> other.add([[1.0]], [3.0])
    >>> one.text == other.text
    True
    """

    def __init__(self) -> None:
        self._parts: list[Hashes] = []

    def add(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add rows: inputs, targets and, if they differ from one, weights."""
        self.add_hashes(sorted_hashes(X, y, weights))

    def add_hashes(self, hashes: Hashes) -> None:
        """Add rows by their hashes."""
        self._parts.append(hashes)

    def watching(self, pieces: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The same pieces, (X, y) or (X, y, weights), each added as it is yielded."""
        for piece in pieces:
            self.add(*piece)
            yield piece

    @property
    def hashes(self) -> Hashes:
        """The hashes of all rows so far."""
        return np.sort(np.concatenate([packed([]), *self._parts]))

    @property
    def distinct(self) -> int:
        """Number of distinct rows so far."""
        return len(np.unique(self.hashes))

    @property
    def text(self) -> str:
        """The digest of all rows so far."""
        return hashlib.sha256(self.hashes.tobytes()).hexdigest()


def digest_text(hashes: Iterable[bytes]) -> str:
    """The SHA-256 over the sorted hashes of rows, as 64 hexadecimal digits."""
    return hashlib.sha256(b"".join(sorted(hashes))).hexdigest()


def sorted_hashes(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Hashes:
    """The hashes of rows, sorted, 16 bytes each."""
    return np.sort(packed(row_hashes(X, y, weights)))


def packed(hashes: Iterable[bytes]) -> Hashes:
    """Hashes as an array."""
    return np.frombuffer(b"".join(hashes), f"S{ROW_BYTES}")


def row_hashes(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> list[bytes]:
    """A hash of each row: of its inputs, targets and weight as float64, with strings hashed to numbers.

    Examples
    --------
    >>> [first, second, third] = row_hashes([[0.0], [-0.0], [1.0]], [2.0, 2.0, 2.0])
    >>> first == second, first == third
    (True, False)
    """
    inputs = np.asarray(X, np.float64)
    if not len(inputs):
        return []
    ones = np.ones(len(inputs))
    counted = ones if weights is None else np.asarray(weights, np.float64)
    columns = [inputs.reshape(len(inputs), -1), as_numbers(y).reshape(len(inputs), -1)]
    table: NDArray[np.float64] = np.column_stack([*columns, counted]) + 0.0  # −0 becomes 0
    table[np.isnan(table)] = np.nan  # one of its many bit patterns
    size, data = 8 * table.shape[1], table.astype("<f8").tobytes()
    starts = range(0, len(data), size)
    return [hashlib.blake2b(data[k : k + size], digest_size=ROW_BYTES).digest() for k in starts]


def as_numbers(targets: ArrayLike) -> NDArray[np.float64]:
    """Targets as numbers; strings by a hash of 48 bits, which does not depend on other strings."""
    values = np.asarray(targets)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    names, places = np.unique(values.astype(str), return_inverse=True)
    hashes = [hashlib.blake2b(name.encode(), digest_size=6).digest() for name in names.tolist()]
    return np.array([float(int.from_bytes(each, "little")) for each in hashes])[places.reshape(values.shape)]


# Distinct rows from which on a repeated update is recognised: a few rows of a stream may well be equal, as
# may all rows of a sensor at rest. Not benchmarked.
LEAST_DISTINCT = 20


@dataclass(eq=False)
class Update(Record):
    """The log entry of an update: its rows, its footprint, and the errors before and after.

    Attributes
    ----------
    footprint
        The points whose prediction it could change.
    seconds
        Time spent.
    error_before, error_after
        Mean loss on the new rows before and after; after, it is the training error.
    held_out
        Out-of-sample error of the new rows after the update; None if it was not computed: for "rehearsal",
        "both" and "none", and for a single row.
    history
        The last training: of the last chart at its finest density, or of the model.
    reason
        What was done and why, where change detection decided.
    settings
        The options, to repeat the update; empty in files of older versions.
    warning
        A warning in one sentence if known rows are predicted worse, or if errors have grown with each of the
        latest updates; otherwise empty.
    """

    footprint: Footprint
    seconds: float
    error_before: float
    error_after: float
    history: History
    reason: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    held_out: HeldOut | None = None
    warning: str = ""

    def __repr__(self) -> str:
        return self._describe(str(self.settings.get("loss", "error")))

    def _describe(self, measure: str) -> str:
        gone = ", reverted" if self.reverted else ""
        return (
            f"<Update {self.id}: {self.kind}, {self.rows} rows, {measure} {self.error_before:.4g} before and "
            f"{self._after}, {self.footprint._shares}, {self.seconds:.3g} s{gone}>"
        )

    @property
    def _after(self) -> str:
        """The error after the update, and how it was estimated."""
        if self.held_out is None:
            return f"{self.error_after:.4g} after, on rows just learned"
        method = "cross-validated" if self.held_out.cross_validated else "held out"
        return f"{self.held_out.error:.4g} after, {method}"


@dataclass(eq=False)
class Consolidation(Record):
    """The log entry of a consolidation.

    Attributes
    ----------
    replaced
        Whether the model was replaced by the one without charts.
    error
        Mean absolute change of the predictions: over the domain or in a chart's box, whichever is larger.
    worst
        Largest change of a prediction on the same points.
    seconds
        Time spent.
    """

    replaced: bool
    error: float
    worst: float
    seconds: float

    def __repr__(self) -> str:
        outcome = "charts consolidated" if self.replaced else "model kept as it was"
        errors = f"error {self.error:.4g}, worst {self.worst:.4g}"
        return f"<Consolidation: {outcome}, {errors}, {self.seconds:.3g} s>"


@dataclass(eq=False)
class Removal(Record):
    """The log entry of rows that were removed: those of a reverted update, or forgotten ones.

    Its ``kind`` is "revert" or "forget", and ``rows`` is their number.

    Attributes
    ----------
    updates
        Numbers of the updates that had added them; 0 is the fit.
    """

    updates: tuple[int, ...] = ()

    def __repr__(self) -> str:
        verb = "reverted" if self.kind == "revert" else "forgotten"
        names = [f"update {number}" if number else "the fit" for number in self.updates]
        return f"<Removal {self.id}: {self.rows} rows of {', '.join(names)} {verb}>"


def log_without(log: Sequence[Record], whole: Sequence[int], removal: Removal, state: State) -> list[Record]:
    """The log after a removal; entries of updates whose rows are all gone are marked as reverted.

    Entries of updates with charts in the resulting state stay in full.
    """
    marked = [
        replace(record, reverted=removal.time) if record.id in whole and record.id else record
        for record in log
    ]
    return shortened([*marked, removal], partial(is_held, state))


def log_in(state: State, log: Sequence[Record]) -> list[Record]:
    """The log of a model whose inputs may have changed since an entry was made.

    Coordinates of such an entry have no meaning any more, so its footprint becomes everything.
    """
    inputs = len(state.lattice.domain)
    unit = np.tile([0.0, 1.0], (inputs, 1))
    return [
        replace(record, footprint=RestFootprint(unit, state.dtype, (), known_rows=1.0))
        if isinstance(record, Update) and record.footprint.inputs != inputs
        else record
        for record in log
    ]


def learned_before(
    log: Sequence[Record], now: str, digest: RowDigest, text: str | None = None
) -> Update | None:
    """The update that learned the same rows and was provably not removed since; None without one.

    Parameters
    ----------
    log
        All entries.
    now
        Fingerprint of the model: a change without a log entry may have removed rows.
    digest
        That of the rows.
    text
        The digest of all rows, if only some are in the other one.
    """
    if digest.distinct < LEAST_DISTINCT:
        return None
    found = text or digest.text
    same = [each for each in log if isinstance(each, Update) and each.data == found and not each.reverted]
    if not same:
        return None
    last = next(each.after for each in reversed(log) if not each.reverted)
    gaps = [gap for gap in gaps_in(log) if gap > same[-1].id]
    return None if gaps or last != now else same[-1]
