"""Entries of the log: what updates, consolidations and removals did, and digests of their rows."""

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
    """The digest of rows that come piece by piece.

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
        """Take in rows: inputs, targets and, if they differ from one, weights."""
        self.add_hashes(sorted_hashes(X, y, weights))

    def add_hashes(self, hashes: Hashes) -> None:
        """Take in rows of which the hashes are known."""
        self._parts.append(hashes)

    def watching(self, pieces: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The same pieces, (X, y) or (X, y, weights), taken in as they pass."""
        for piece in pieces:
            self.add(*piece)
            yield piece

    @property
    def hashes(self) -> Hashes:
        """The hashes of all rows so far."""
        return np.sort(np.concatenate([packed([]), *self._parts]))

    @property
    def distinct(self) -> int:
        """How many different rows there were so far."""
        return len(np.unique(self.hashes))

    @property
    def text(self) -> str:
        """The digest of all rows so far."""
        return hashlib.sha256(self.hashes.tobytes()).hexdigest()


def digest_text(hashes: Iterable[bytes]) -> str:
    """The SHA-256 over the sorted hashes of rows, as 64 hexadecimal digits."""
    return hashlib.sha256(b"".join(sorted(hashes))).hexdigest()


def sorted_hashes(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Hashes:
    """The hashes of rows, sorted: 16 bytes for each of them, and nothing else."""
    return np.sort(packed(row_hashes(X, y, weights)))


def packed(hashes: Iterable[bytes]) -> Hashes:
    """Hashes as an array."""
    return np.frombuffer(b"".join(hashes), f"S{ROW_BYTES}")


def row_hashes(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> list[bytes]:
    """A hash of each row, of its inputs, targets and weight as float64; a name is a number by its own hash.

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
    table[np.isnan(table)] = np.nan  # of which there are many
    size, data = 8 * table.shape[1], table.astype("<f8").tobytes()
    starts = range(0, len(data), size)
    return [hashlib.blake2b(data[k : k + size], digest_size=ROW_BYTES).digest() for k in starts]


def as_numbers(targets: ArrayLike) -> NDArray[np.float64]:
    """Targets as numbers; those that are names by a hash of 48 bits, whatever other names there are."""
    values = np.asarray(targets)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    names, places = np.unique(values.astype(str), return_inverse=True)
    hashes = [hashlib.blake2b(name.encode(), digest_size=6).digest() for name in names.tolist()]
    return np.array([float(int.from_bytes(each, "little")) for each in hashes])[places.reshape(values.shape)]


# Different rows that an update must have to be known again: a few may well come twice, row by row in a
# stream, or all alike from a sensor at rest.
LEAST_DISTINCT = 20


@dataclass(eq=False)
class Update(Record):
    """One update of a model: what it was, what it could change, and what it did.

    Attributes
    ----------
    footprint
        The points whose prediction it could change.
    seconds
        Time spent.
    error_before, error_after
        Mean loss on the new data before and after; after, on rows that were just learned.
    held_out
        How well rows of the new data were predicted without having learned them, and with all others; None if
        that was not found: for "rehearsal", "both" and "none", and for a single row.
    history
        The last training: of the last chart at its finest, or of the model.
    reason
        What was done and why, where that was decided by the data.
    settings
        The options that it was made with, to make it again; empty for updates from before they were noted.
    caution
        One sentence if rows that were known before are predicted worse now, or if updates find larger errors
        each time; otherwise empty.
    """

    footprint: Footprint
    seconds: float
    error_before: float
    error_after: float
    history: History
    reason: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    held_out: HeldOut | None = None
    caution: str = ""

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
        """The error after, and on which rows it is."""
        if self.held_out is None:
            return f"{self.error_after:.4g} after, on rows just learned"
        way = "cross-validated" if self.held_out.crossed else "held out"
        return f"{self.held_out.error:.4g} after, {way}"


@dataclass(eq=False)
class Consolidation(Record):
    """What `consolidate` did.

    Attributes
    ----------
    replaced
        Whether the model was replaced by the one without charts.
    error
        Mean absolute change of the predictions: over the domain or in a chart's box, whichever is more.
    worst
        Largest change of a prediction that was seen.
    seconds
        Time spent.
    """

    replaced: bool
    error: float
    worst: float
    seconds: float

    def __repr__(self) -> str:
        verdict = "charts folded in" if self.replaced else "model kept as it was"
        errors = f"error {self.error:.4g}, worst {self.worst:.4g}"
        return f"<Consolidation: {verdict}, {errors}, {self.seconds:.3g} s>"


@dataclass(eq=False)
class Removal(Record):
    """Rows that no longer count: those of an update that was reverted, or rows that were forgotten.

    Its ``kind`` is "revert" or "forget", and ``rows`` is how many rows they were.

    Attributes
    ----------
    updates
        Numbers of the updates that they had come with; 0 is the fit.
    """

    updates: tuple[int, ...] = ()

    def __repr__(self) -> str:
        verb = "reverted" if self.kind == "revert" else "forgotten"
        names = [f"update {number}" if number else "the fit" for number in self.updates]
        return f"<Removal {self.id}: {self.rows} rows of {', '.join(names)} {verb}>"


def log_without(log: Sequence[Record], whole: Sequence[int], removal: Removal, state: State) -> list[Record]:
    """A log with one more entry, which takes all rows of some updates out; their entries are marked.

    Entries of updates with charts in the state that results stay in full.
    """
    marked = [
        replace(record, reverted=removal.time) if record.id in whole and record.id else record
        for record in log
    ]
    return shortened([*marked, removal], partial(is_held, state))


def log_in(state: State, log: Sequence[Record]) -> list[Record]:
    """A log as a model in this state has it, which may have other inputs than when an entry was made.

    Coordinates of then mean nothing in them, so the footprint of such an entry is everything.
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
    """The update that learned the same rows, and that nothing may have taken back.

    Parameters
    ----------
    log
        All entries.
    now
        Content hash of the model: a change without an entry, such as `forget`, may have taken rows out.
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
