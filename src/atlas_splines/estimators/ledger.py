"""The ledger: everything that an estimator has learned, as a list of contributions it is derived from.

A fitted estimator is a function of this list (event sourcing): the fit to the rows of the first contribution,
then one update after the other in the order of their clocks. Reverting an update, forgetting rows and merging
two models change the list and nothing else, and the model is derived from what is left: bit for bit that of a
life in which nothing else ever came. docs/explanation/ledger.md says what follows.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core import kernels
from atlas_splines.core.model import model_in
from atlas_splines.core.remembering import Recomputing
from atlas_splines.memory.row_digest import as_numbers, digest_text, row_hashes

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["FRAME_RULES", "Contribution", "FrameRules", "Ledger", "Removed", "derive", "framed_rows"]

Array = NDArray[Any]
Estimator = TypeVar("Estimator", bound="AtlasEstimator")


@dataclass(frozen=True)
class FrameRules:
    """Which rows of a fit the frame is chosen from, and which derived states are remembered.

    Attributes
    ----------
    most_rows
        Rows from which encodings, domain, features, length scales and shares are chosen at most: those with
        the smallest keyed hashes (a bottom-k sketch, Cohen and Kaplan 2007), so that a forgotten row which is
        not among them leaves the frame as it is. The others join the sums and the boxes afterwards. Error and
        time of larger samples are compared by `benchmarks/ledger.py frame`.
    recent_states, spaced_states
        States after the latest contributions that are remembered, and others further back: a state holds the
        sums of all features, some megabytes.
    """

    most_rows: int = 50_000
    recent_states: int = 3
    spaced_states: int = 3


FRAME_RULES = FrameRules()


@dataclass(frozen=True, eq=False)
class Contribution(Recomputing):
    """Rows that were learned together: those of the fit, or of one update.

    Attributes
    ----------
    number
        Number of its entry in the log; 0 for the fit, and for what has no entry.
    time
        Its clock, in UTC: contributions are learned in this order.
    X, y, weights
        Encoded inputs, shape (rows, inputs), with NaN for missing values; targets or labels, shape (rows,) or
        (rows, targets); and weights, shape (rows,).
    kind
        "fit", "update", "reach" (the domain grew to rows that were not learned) or "classes" (which were
        announced, without rows).
    options
        How it was learned, as JSON: the seed, the retention, and the parameters that matter.
    groups
        Number of the group of each row of a fit, shape (rows,), if it had any.
    fitted
        Rows that `fit` was given; others came by `fit_more`.
    classes
        Classes that were announced, rows of them or not.
    """

    number: int
    time: datetime
    X: Array
    y: Array
    weights: Array
    kind: str
    options: Mapping[str, Any]
    groups: NDArray[np.int64] | None = None
    fitted: int = 0
    classes: Array | None = None

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def hashes(self) -> list[bytes]:
        """Hash of each row: inputs, targets and weight, shape (rows,)."""
        return row_hashes(self.X, self.y, self.weights.astype(np.float32)) if len(self) else []

    @cached_property
    def digest(self) -> str:
        """Digest of the rows, whatever their order."""
        return digest_text(self.hashes)

    @cached_property
    def identity(self) -> bytes:
        """Hash of everything that a state depends on: rows in their order, and options."""
        digest = hashlib.sha256(b"".join(self.hashes))
        facts = [self.number, self.kind, self.fitted, dict(self.options), self.y.dtype.kind]
        digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
        digest.update(b"" if self.groups is None else self.groups.tobytes())
        digest.update(b"" if self.classes is None else repr(self.classes.tolist()).encode())
        return digest.digest()

    @property
    def order(self) -> tuple[datetime, str]:
        """Place among others: by the clock, and by the rows where clocks agree."""
        return self.time, self.digest

    def take(self, rows: NDArray[np.bool_]) -> Contribution:
        """Some of the rows."""
        groups, classes = None if self.groups is None else self.groups[rows], self.classes
        if classes is not None and not self.options.get("announced"):
            classes = np.unique(self.y[rows])
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            weights=self.weights[rows],
            groups=groups,
            fitted=int(rows[: self.fitted].sum()),
            classes=classes,
        )

    def without(self, gone: Counter[bytes]) -> tuple[Contribution, Counter[bytes]]:
        """The contribution less equal rows, the latest first, and which of these it had."""
        left, stays = gone.copy(), np.ones(len(self), np.bool_)
        for k in reversed(range(len(self))):
            if left[self.hashes[k]] > 0:
                left[self.hashes[k]] -= 1
                stays[k] = False
        found = gone - left
        return (self.take(stays) if found else self), found

    def joined(self, X: Array, y: Array, weights: Array) -> Contribution:
        """The contribution with further rows of the same fit."""
        return replace(
            self,
            X=np.vstack([self.X, X]),
            y=np.concatenate([self.y, y]),
            weights=np.concatenate([self.weights, weights]),
        )


@dataclass(frozen=True)
class Removed:
    """Rows that were taken out of a contribution: its number, how many, and whether none is left."""

    number: int
    rows: int
    is_whole: bool


@dataclass(frozen=True, eq=False)
class Ledger(Recomputing):
    """All contributions, the fit first and the others by their clocks; never changed in place.

    Attributes
    ----------
    contributions
        The contributions.
    parameters
        Parameters of the estimator when it was fitted.
    fingerprint
        Content hash of the model that is derived from all of it; empty if that was not derived yet.

    Examples
    --------
    >>> from atlas_splines import AtlasRegressor
    >>> X = np.random.default_rng(0).random((80, 1))
    >>> model = AtlasRegressor(random_state=0).fit(X[:60], X[:60, 0]).partial_fit(X[60:], X[60:, 0])
    >>> [len(each) for each in model.ledger_.contributions]
    [60, 20]
    >>> [len(each) for each in model.ledger_.without(1).contributions]
    [60]
    """

    contributions: tuple[Contribution, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def fit(self) -> Contribution:
        """Contribution 0: the rows of the fit."""
        return self.contributions[0]

    @cached_property
    def rows(self) -> int:
        """Rows of all contributions."""
        return sum(map(len, self.contributions))

    @property
    def numbers(self) -> list[int]:
        """Numbers of the updates that stand."""
        return [each.number for each in self.contributions if each.number]

    @cached_property
    def keys(self) -> list[bytes]:
        """Hash of each prefix of the list, of one contribution first: what the state after it depends on."""
        facts = sorted((name, _plain(value)) for name, value in self.parameters.items())
        keys = [hashlib.sha256(repr(facts).encode()).digest()]
        for each in self.contributions:
            keys.append(hashlib.sha256(keys[-1] + each.identity).digest())
        return keys[1:]

    @cached_property
    def states(self) -> dict[bytes, dict[str, Any]]:
        """What was learned after prefixes of the list, by their keys: for speed alone."""
        return {}

    def with_(self, contribution: Contribution) -> Ledger:
        """The ledger with one more contribution."""
        others = sorted([*self.contributions[1:], contribution], key=lambda each: each.order)
        return self._changed([self.fit, *others])

    def with_fit(self, fit: Contribution) -> Ledger:
        """The ledger with other rows of the fit."""
        return self._changed([fit, *self.contributions[1:]])

    def without(self, number: int) -> Ledger:
        """The ledger without an update."""
        return self._changed([each for each in self.contributions if not number or each.number != number])

    def without_rows(self, hashes: Iterable[bytes]) -> tuple[Ledger, list[Removed]]:
        """The ledger without rows, and what each contribution lost.

        A contribution that has exactly these rows loses them; otherwise the latest one that has a row does. A
        ValueError says how many rows are in none, or that no row would be left to fit.
        """
        gone = Counter(hashes)
        exact = [each for each in self.contributions if len(each) and Counter(each.hashes) == gone]
        kept: list[Contribution] = []
        removed: list[Removed] = []
        for each in reversed(self.contributions):
            wanted = gone if not exact or each is exact[-1] else Counter()
            rest, found = each.without(wanted)
            gone = gone - found
            if found:
                removed.append(Removed(each.number, found.total(), not len(rest)))
            if len(rest) or not found:
                kept.append(rest)
        if gone:
            raise ValueError(
                f"{gone.total():,} of the rows are not among those that the model has learned; check them"
            )
        if not kept or kept[-1].kind != "fit" or not kept[-1].fitted:
            raise ValueError("no row of the fit would be left; fit a new model instead")
        return self._changed(kept[::-1]), removed[::-1]

    def renumbered(self, numbers: Mapping[int, int]) -> Ledger:
        """The ledger with other numbers of its updates."""
        return self._changed(
            [replace(each, number=numbers.get(each.number, each.number)) for each in self.contributions]
        )

    def remembering(self, learned: dict[str, Any]) -> Ledger:
        """The ledger that remembers what an estimator has learned from all of it."""
        found = replace(self, fingerprint=model_in(learned["model_"]).fingerprint())
        found.states.update(self.states | {self.keys[-1]: learned})
        return found

    def _changed(self, contributions: Sequence[Contribution]) -> Ledger:
        """Another list, with the remembered states of prefixes that both have."""
        changed = Ledger(tuple(contributions), self.parameters)
        known = [key for key in changed.keys if key in self.states]
        spaced = known[: -FRAME_RULES.recent_states]
        step = -(-len(spaced) // FRAME_RULES.spaced_states) if spaced else 1
        for key in {*known[:1], *spaced[::step], *known[-FRAME_RULES.recent_states :]}:
            changed.states[key] = self.states[key]
        return changed


def _plain(value: Any) -> Any:
    """A parameter as numbers, strings and lists of Python, which have one way to be written."""
    if isinstance(value, Mapping):
        return sorted((repr(_plain(key)), _plain(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def framed_rows(contribution: Contribution, rules: FrameRules = FRAME_RULES) -> NDArray[np.bool_]:
    """Mask of the rows of a fit that its frame is chosen from, shape (rows,).

    They are all that `fit` was given, or of more those with the smallest hashes.
    """
    mask = np.arange(len(contribution)) < contribution.fitted
    if contribution.fitted <= rules.most_rows:
        return mask
    hashes = np.full(len(contribution), np.uint64(contribution.options["seeds"][0]))
    targets = as_numbers(contribution.y).reshape(len(contribution), -1)
    kernels.mix_rows(hashes, np.column_stack([contribution.X, targets, contribution.weights]))
    hashes[~mask] = np.iinfo(np.uint64).max
    chosen = np.zeros(len(mask), np.bool_)
    chosen[np.argsort(hashes, kind="stable")[: rules.most_rows]] = True
    return chosen


def derive(estimator: Estimator, ledger: Ledger, *, afresh: bool = False) -> Estimator:
    """The estimator that has learned the contributions of a ledger, and nothing else; its log is empty.

    Parameters
    ----------
    estimator
        Its columns and parameters count, and nothing that it has learned.
    ledger
        The contributions.
    afresh
        Whether to fit again even where the state after a part of the list is remembered.
    """
    count = 0
    for k, key in enumerate(ledger.keys if not afresh else ()):
        count = k + 1 if key in ledger.states else count
    if count:
        draft = estimator._with_learned(ledger.states[ledger.keys[count - 1]])
    else:
        draft = _fitted(estimator, ledger)
        ledger.states[ledger.keys[0]] = draft._learned
        count = 1
    for contribution in ledger.contributions[count:]:
        draft = draft._taught(contribution)
    draft.ledger_ = ledger.remembering(draft._learned)
    return draft


def _fitted(estimator: Estimator, ledger: Ledger) -> Estimator:
    """An estimator that was fitted to contribution 0, with the parameters of then."""
    draft, now = copy.copy(estimator), estimator.get_params(deep=False)
    draft.set_params(**{name: value for name, value in ledger.parameters.items() if name in now})
    draft._fit_contribution(ledger.fit)
    return draft.set_params(**now)
