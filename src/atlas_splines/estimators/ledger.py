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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.random_effects import LATER
from atlas_splines.memory.statistics import HEAVIEST
from atlas_splines.model import kernels
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.model.immutable import Recomputing
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.state import State
from atlas_splines.updates.log import as_numbers, digest_text, row_hashes
from atlas_splines.updates.routing import memory_in, needed_pool
from atlas_splines.updates.update import state_after

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator
    from atlas_splines.tables.encoding import Column, Encoding
    from atlas_splines.tables.new_columns import LaterCategories, NewColumn

__all__ = [
    *("FRAME_RULES", "Contribution", "FrameRules", "Ledger", "Removed"),
    *("counting_rows", "derive", "derived_next", "framed_anew", "framed_rows", "held_rows", "in_rows"),
    "knowing_before",
]

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
    growth, fewest_rows
        Rows over those that the frame was chosen from, and rows at least, from which on an update by
        "auto" chooses it anew from all rows that count. On seven streams of `benchmarks/streams.py` the
        error with 1.5 was 0.92 of that with the frame of the fit; on four of them 2 is as good (bike +0.2 %,
        seoul +0.2 %, power-plant −0.8 %, beijing −1.1 %) in four fifths of the time.
    recent_states, spaced_states
        States after the latest contributions that are remembered, and at most so many at even distances
        further back, from which a revert goes on. With 548 features a state is 19 MB, and one of the latest
        71 MB with its factors, which spaced ones do not keep: to make them again took 0.4 s.
    """

    most_rows: int = 50_000
    growth: float = 2.0
    fewest_rows: int = 1000
    recent_states: int = 3
    spaced_states: int = 8


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
        Encoded inputs of the columns of the fit, shape (rows, inputs), with NaN for missing values; targets
        or labels, shape (rows,) or (rows, targets); and weights, shape (rows,).
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
    columns
        What the rows hold in columns that came after the fit, and of categories that did, if they hold any.
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
    columns: tuple[NewColumn, ...] = ()

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def hashes(self) -> list[bytes]:
        """Hash of each row: inputs, targets, weight and what new columns hold, shape (rows,)."""
        return hashes_with(self.columns, self.X, self.y, self.weights.astype(np.float32))

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
        came = [[each.name, each.kind, each.layout, each.zone] for each in self.columns]
        digest.update(json.dumps(came).encode() if came else b"")
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
        left = (each.take(rows) for each in self.columns)
        return replace(
            self,
            columns=tuple(each for each in left if not each.is_blank),
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

    def joined(
        self, X: Array, y: Array, weights: Array, categories: Sequence[NewColumn] = ()
    ) -> Contribution:
        """The contribution with further rows of the same fit, which may have categories of their own."""
        columns = self.columns
        if self.columns or categories:
            from atlas_splines.tables.new_columns import appended  # it loads pyarrow

            columns = appended(self.columns, len(self), categories, len(X))
        return replace(
            self,
            columns=columns,
            X=np.vstack([self.X, X]),
            y=np.concatenate([self.y, y]),
            weights=np.concatenate([self.weights, weights]),
        )


def hashes_with(columns: Sequence[NewColumn], X: Array, y: Array, weights: Array) -> list[bytes]:
    """Hash of each row; what columns that came later hold counts by their names, where it is not missing.

    So rows that lack a column keep the hash that they had before it came.
    """
    hashes = row_hashes(X, y, weights) if len(X) else []
    if not columns:
        return hashes
    contents = [each.contents for each in sorted(columns, key=lambda each: each.name)]
    found = []
    for own, *parts in zip(hashes, *contents, strict=True):
        held = b"\0\0".join(part for part in parts if part)
        found.append(hashlib.blake2b(own + held, digest_size=len(own)).digest() if held else own)
    return found


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
    def base(self) -> int:
        """Inputs of the columns of the fit."""
        return int(self.fit.X.shape[1])

    @property
    def announced_classes(self) -> Array:
        """Classes of the fit, and those that were announced since: no update brings them."""
        told = [each.classes for each in self.contributions if each.kind in ("fit", "classes")]
        return np.unique(np.concatenate([classes for classes in told if classes is not None]))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Columns that came after the fit, in their order, encoded by the first rows that have them."""
        parts: dict[str, list[NewColumn]] = {}
        for each in self.contributions:
            for column in each.columns:
                if column.input is None:
                    parts.setdefault(column.name, []).append(column)
        if not parts:
            return ()
        from atlas_splines.tables.new_columns import column_of  # it loads pyarrow

        return tuple(map(column_of, parts.values()))

    @cached_property
    def later(self) -> dict[int, LaterCategories]:
        """Categories of columns of the fit that came after it, by the (first) inputs of these.

        They stand in the order of the first contributions that have them.
        """
        names: dict[int, str] = {}
        found: dict[int, dict[str, None]] = {}
        for each in self.contributions:
            for column in each.columns:
                if column.input is not None:
                    names.setdefault(column.input, column.name)
                    found.setdefault(column.input, {}).update(dict.fromkeys(column.categories or ()))
        if not found:
            return {}
        if not found.keys() <= self._blanks.keys():
            raise ValueError("the ledger has categories of a column that has none")
        from atlas_splines.tables.new_columns import LaterCategories  # it loads pyarrow

        return {j: LaterCategories(names[j], tuple(known), self._blanks[j]) for j, known in found.items()}

    @property
    def _blanks(self) -> dict[int, float]:
        """Values of the (first) inputs of columns of categories where these are missing."""
        return {j: blank for j, _, blank in self.fit.options["levels"]}

    @cached_property
    def is_coded(self) -> bool:
        """Whether rows have codes of categories that came after the fit, without the names of these.

        So have files from before contributions had names, and rows that were learned as bare numbers.
        """
        coded = [j for j, *_ in self.fit.options["levels"]]
        return bool(coded) and any((each.X[:, coded] >= LATER).any() for each in self.contributions)

    def until(self, count: int) -> Ledger:
        """The ledger of the first contributions alone."""
        return Ledger(self.contributions[:count], self.parameters)

    def split(self, X: Array, columns: Sequence[Column] = ()) -> tuple[Array, tuple[NewColumn, ...]]:
        """Inputs of the columns of the fit, and what rows hold of columns and categories that came later.

        The columns of the table may be more, or know more categories, than those of the ledger, which count
        if none are given.
        """
        begins = np.cumsum([0, *(len(column.inputs) for column in columns)]).tolist()
        placed = list(zip(begins, columns, strict=False))
        since = [column for j, column in placed if j >= self.base] or self.columns
        named = not self.is_coded and (any(column.others for column in columns) or self.later)
        if not since and not named:
            return X, ()
        from atlas_splines.tables.new_columns import LaterCategories, split

        later: Mapping[int, LaterCategories] = self.later if named and not columns else {}
        if named and columns:
            later = {
                j: LaterCategories(column.name, column.others, self._blanks[j])
                for j, column in placed
                if j in self._blanks and j < self.base
            }
        return split(X, self.base, since, later)

    def named(self, X: Array, columns: Sequence[Column]) -> Array:
        """Inputs of rows that are not learned, in which categories that no row was of are missing."""
        begins, known = np.cumsum([0, *(len(column.inputs) for column in columns)]).tolist(), np.array(X)
        for j, column in zip(begins, columns, strict=False):
            if column.categories is not None:
                unknown = known[:, j] >= LATER + len(column.others)
                known[unknown, j] = self._blanks.get(j, np.nan)
        return known

    def canonical(self, X: Array, contribution: Contribution) -> Array:
        """Inputs of rows that become the last contribution: their categories may have had other codes."""
        if all(column.input is None for column in contribution.columns):
            return X
        return replace(self, contributions=(*self.contributions, contribution)).wide(contribution).X

    def encoding_of(self, encoding: Encoding) -> Encoding:
        """An encoding of the fit with the columns and the categories that came later, and no others."""
        from atlas_splines.tables.new_columns import grown  # it loads pyarrow

        return grown(encoding, self.base, self.columns, None if self.is_coded else self.later)

    def row_hashes(self, X: Array, y: Array, weights: Array, columns: Sequence[Column] = ()) -> list[bytes]:
        """Hash of each row of inputs, as contributions have them; columns are as in `split`."""
        base, held = self.split(X, columns)
        return hashes_with(held, base, y, weights)

    def wide(self, contribution: Contribution) -> Contribution:
        """A contribution with the inputs of all columns; what rows have not is missing."""
        if not self.columns and not contribution.columns:
            return contribution
        from atlas_splines.tables.new_columns import encoded, levels_of, trends_of, with_codes

        held = {each.name: each for each in contribution.columns}
        inputs = [encoded(each, held.get(each.name), len(contribution)) for each in self.columns]
        X = with_codes(contribution.X, contribution.columns, self.later)
        X = np.column_stack([X, *(part for parts in inputs for part in parts)])
        options = dict(contribution.options)
        if contribution.kind == "fit":
            options["levels"] = [*options["levels"], *levels_of(self.columns, self.base)]
            options["trends"] = [*options["trends"], *trends_of(self.columns, self.base)]
        return replace(contribution, X=X, columns=(), options=options)

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
        found = self.leading_to(model_in(learned["model_"]).fingerprint())
        found.states[self.keys[-1]] = learned
        return found

    def leading_to(self, fingerprint: str) -> Ledger:
        """The ledger of a model with this content hash."""
        found = replace(self, fingerprint=fingerprint)
        found.states.update(self.states)
        return found

    def _changed(self, contributions: Sequence[Contribution]) -> Ledger:
        """Another list, with the remembered states of prefixes that both have."""
        changed = Ledger(tuple(contributions), self.parameters)
        known = [(k, key) for k, key in enumerate(changed.keys) if key in self.states]
        recent = len(known) - FRAME_RULES.recent_states
        for number, (k, key) in enumerate(known):
            if number >= recent:
                changed.states[key] = self.states[key]
            elif changed.is_spaced(k):
                changed.states[key] = without_caches(self.states[key])
        return changed

    def is_spaced(self, place: int) -> bool:
        """Whether the state after the contribution at a place is one of those at even distances.

        Distances are powers of two: as the list grows every second of these states is dropped, none moves.
        """
        distance = 1
        while distance * FRAME_RULES.spaced_states < len(self.contributions):
            distance *= 2
        return place % distance == 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        """Nothing of it changes, and a copy of an estimator remembers the same states."""
        return self


def without_caches(learned: Mapping[str, Any]) -> dict[str, Any]:
    """What an estimator has learned, without what follows from it: a quarter of the memory."""
    state = learned["model_"]
    contents = (model_in(_bare(state_of(chart.content))) for chart in state.charts)
    charts = tuple(replace(chart, content=each) for chart, each in zip(state.charts, contents, strict=True))
    return {**learned, "model_": replace(_bare(state), charts=charts)}


def _bare(state: State) -> State:
    """A state whose memory is as after loading a file."""
    pool = memory_in(state)
    if pool is None:
        return state
    recent, memory = tuple(map(copy.copy, pool.recent)), copy.copy(pool.memory)
    return replace(state, pooled=replace(pool, recent=recent, memory=memory))


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


@ONE_THREAD_EACH
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
    for number in range(count + 1, len(ledger.contributions) + 1):
        draft = derived_next(draft, ledger.until(number))
        if number > len(ledger.contributions) - FRAME_RULES.recent_states:
            ledger.states[ledger.keys[number - 1]] = draft._learned
        elif ledger.is_spaced(number - 1):
            ledger.states[ledger.keys[number - 1]] = without_caches(draft._learned)
    draft = draft._with_columns_of(ledger)._encoding_if_needed()
    draft.ledger_ = ledger.remembering(draft._learned)
    return draft


def derived_next(estimator: Estimator, ledger: Ledger) -> Estimator:
    """The estimator after the last contribution of a ledger, from that after those before it.

    One that brings a column is fitted together with all rows before it that count: features, length scales
    and shares are chosen anew, and rows that lack the column are missing there.
    """
    newest, before = ledger.contributions[-1], ledger.until(len(ledger.contributions) - 1)
    if len(ledger.columns) == len(before.columns):
        if newest.classes is not None:
            estimator = knowing_before(estimator, before, newest.classes)
        return framed_anew(taught(estimator, ledger.wide(newest)), ledger)
    counted = [*_counting(estimator, before), (newest, newest.weights > 0)]
    parts = [ledger.wide(each).take(counts) for each, counts in counted]
    known = estimator._known_classes
    classes = None if known is None else np.union1d(known, newest.y)
    whole = _as_fit(ledger, parts, classes, newest.time)
    draft = _with_parameters(estimator._with_columns_of(ledger), ledger, whole)
    for each in before.contributions:
        draft = taught(draft, ledger.wide(each)) if each.kind in ("reach", "classes") else draft
    return draft


def knowing_before(estimator: Estimator, ledger: Ledger, classes: Array) -> Estimator:
    """The estimator after a ledger, which knows more classes before it learns of them.

    Charts have no such output: where some stand all is derived again, with the classes announced right after
    the fit. What brings them has to say so each time, so that they go with it.
    """
    known = estimator._known_classes
    if known is None or np.isin(classes, known).all() or not estimator.model_.charts:
        return estimator._knowing_classes(classes)
    fit = ledger.fit
    nothing = fit.take(np.zeros(len(fit), np.bool_))
    # those that are known come where they came: whoever gives them too must not move them
    new = np.setdiff1d(classes, known)
    announced = replace(nothing, kind="classes", groups=None, options={}, classes=new)
    return derive(estimator, Ledger((fit, announced, *ledger.contributions[1:]), ledger.parameters))


def _fitted(estimator: Estimator, ledger: Ledger) -> Estimator:
    """An estimator that was fitted to contribution 0, with the parameters of then."""
    alone = ledger.until(1)
    return _with_parameters(estimator._with_columns_of(alone), ledger, alone.wide(ledger.fit))


def _with_parameters(estimator: Estimator, ledger: Ledger, fit: Contribution) -> Estimator:
    """An estimator that was fitted to rows with the parameters of a ledger."""
    draft, now = copy.copy(estimator), estimator.get_params(deep=False)
    draft.set_params(**{name: value for name, value in ledger.parameters.items() if name in now})
    draft._fit_contribution(fit)
    return draft.set_params(**now)


def _as_fit(
    ledger: Ledger, parts: Sequence[Contribution], classes: Array | None, time: datetime
) -> Contribution:
    """Rows of contributions as those of one fit; categories that came later join what the others choose."""
    X, y, weights = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "weights")
    )
    fit = ledger.wide(ledger.fit)
    coded = [j for j, *_ in fit.options["levels"]]
    later = (X[:, coded] >= LATER).any(axis=1)
    order = np.argsort(later, kind="stable")
    return replace(
        fit,
        X=X[order],
        y=y[order],
        weights=weights[order].astype(np.float64),
        groups=None,
        fitted=int((~later).sum()),
        classes=classes,
        time=time,
    )


def taught(estimator: Estimator, contribution: Contribution) -> Estimator:
    """The estimator after one more contribution; nothing of that is assessed or logged."""
    draft = copy.copy(estimator)
    if contribution.kind == "reach":
        larger, _ = draft._model_reaching(contribution.X, far=True)
        draft.model_ = model_in(state_of(larger))
        return draft
    if contribution.classes is not None:
        draft = draft._knowing_classes(contribution.classes)
    if contribution.kind == "classes":
        return draft
    options, asked = contribution.options, draft.extrapolation
    draft.extrapolation = options["extrapolation"]
    model, points = draft._to_learn(contribution.X, options["retention"], options["far"])
    extend = draft._levels_off(options["retention"])
    state = state_after(
        model,
        contribution.number,
        points,
        draft._targets(contribution.y),
        retention=options["retention"],
        extend=extend,
        features=options["features"],
        batch_size=options["batch_size"],
        learning_rate=options["learning_rate"],
        loss=draft._loss,
        sample_weight=draft._weighed(contribution.y, contribution.weights),
        random_state=options["seed"],
    )
    grew = not extend and model is not draft.model_
    if not grew or model_in(state).fingerprint() != model.fingerprint():  # else it grew for nothing
        draft.model_ = model_in(state)
    draft.extrapolation = asked
    return draft


def framed_anew(estimator: Estimator, ledger: Ledger, rules: FrameRules = FRAME_RULES) -> Estimator:
    """The estimator after all contributions of a ledger; its frame is chosen anew if that is due.

    It is after an update that was learned by "auto" if rows have grown by a share since the last time. Charts
    which the data has decided for are part of what is fitted: rows in one that came before it no longer
    count. As long as the user has opened one, or rows have categories without a place, nothing is changed.
    Nor is it while no candidate that has learned all rows has a share: if classes are swapped, half of the
    rows before and half after, length scales that suit all rows are those of noise.
    """
    newest = ledger.contributions[-1]
    if newest.kind != "update" or newest.options["retention"] != "auto" or not estimator._can_frame(ledger):
        return estimator
    pool = needed_pool(state_of(estimator.model_))
    framed = int((pool.kept_updates == 0).sum())
    if not max(rules.fewest_rows, rules.growth * framed) <= ledger.rows <= rules.most_rows:
        return estimator
    if not pool.complete_share:
        return estimator
    return estimator._framed_by(counting_rows(estimator, ledger), ledger.parameters)


def held_rows(estimator: AtlasEstimator, ledger: Ledger, unit: float) -> HeldRows:
    """Rows of a ledger as points that a local memory keeps, unless charts or placed levels changed them.

    The weight `unit` counts as one row.
    """
    held = None
    for each in ledger.contributions:
        if each.kind not in ("fit", "update"):
            continue
        weights = estimator._weighed(each.y, each.weights)
        if each.kind == "fit":
            framed = framed_rows(each)
            order = np.concatenate([np.flatnonzero(framed), np.flatnonzero(~framed)])
            counted = in_rows(weights[framed])[0].astype(np.float64)
            rest = weights[~framed].astype(np.float32).astype(np.float64) / unit
            counted = np.concatenate([counted / counted.mean(), rest])
        else:
            order = np.flatnonzero(weights > 0)
            counted = weights[order].astype(np.float32).astype(np.float64) / unit
        points = estimator.domain_.to_unit(ledger.wide(each).X[order]).astype(np.float32)
        targets = estimator._targets(each.y[order]).astype(np.float64)
        rows = HeldRows.of(points, targets, np.minimum(counted, HEAVIEST), each.number)
        held = rows if held is None else held.joined(rows)
    assert held is not None
    return held


def counting_rows(estimator: AtlasEstimator, ledger: Ledger) -> Contribution:
    """Rows of all contributions but those inside a chart that came before it, as those of one fit."""
    parts = [ledger.wide(each).take(counts) for each, counts in _counting(estimator, ledger)]
    X, y, weights = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "weights")
    )
    fit, classes = ledger.wide(ledger.fit), estimator._known_classes
    # classes that no row which counts is of stay known
    announced = classes is not None and not np.isin(classes, y).all()
    whole = replace(fit, X=X, y=y, weights=weights.astype(np.float64), groups=None, fitted=len(X))
    return replace(whole, classes=classes, options={**fit.options, "announced": announced})


def _counting(estimator: AtlasEstimator, ledger: Ledger) -> Iterator[tuple[Contribution, NDArray[np.bool_]]]:
    """Contributions that have rows, and which of these count: none inside a chart that came later."""
    place = {each.number: k for k, each in enumerate(ledger.contributions) if each.number}
    for k, each in enumerate(ledger.contributions):
        if each.kind in ("fit", "update"):
            points = estimator._points_inside(ledger.wide(each).X)
            later = [chart for chart in estimator.model_.charts if place[chart.update] > k]
            memberships = [chart.window.membership(points) == 1 for chart in later]
            yield each, ~np.any([np.zeros(len(points), np.bool_), *memberships], axis=0) & (each.weights > 0)


def in_rows(weights: Array) -> tuple[Array, float]:
    """Weights of which the mean counts as one row, and that mean: the unit of weights does not matter.

    Stacking weighs rows against what is expected beforehand, and optimisers add a constant to gradients. Five
    digits of a weight are kept: in another unit the last ones are rounded otherwise, and training may take
    another turn for that.

    Examples
    --------
    >>> in_rows(np.array([0.0, 2.0, 6.0]))
    (array([0. , 0.5, 1.5], dtype=float32), 4.0)
    """
    unit = float(weights[weights > 0].mean(dtype=np.float64)) if weights.any() else 1.0
    digits, exponents = np.frexp(weights / unit)
    return np.ldexp(np.rint(digits * 2**16) / 2**16, exponents).astype(np.float32), unit
