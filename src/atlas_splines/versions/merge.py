"""Merging: updates that were made apart come together, and it does not matter who merges whom."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from atlas_splines.estimators.reaching import needed_domain
from atlas_splines.files.archive import Archive, version_of
from atlas_splines.io.save_load import to_archive
from atlas_splines.memory.pool import Pool
from atlas_splines.model.atlas import Atlas, is_held, model_in, snapshot_of, state_of
from atlas_splines.model.charts import Chart, overlap
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.log import Record, folded_of, next_id, unfolded
from atlas_splines.model.resize import cropped, reaching, reduced
from atlas_splines.model.state import State
from atlas_splines.tables.encoding import Encoding
from atlas_splines.tables.new_columns import grown
from atlas_splines.updates.footprint import BoxFootprint, Footprint
from atlas_splines.updates.routing import chart_of, memory_in
from atlas_splines.updates.update import update
from atlas_splines.versions.contributions import (
    MODEL,
    Additions,
    Route,
    additions_of,
    followed,
    logged,
    merged,
    pool_digest,
    pools_of,
    renumbered,
    reverted_since,
    route,
    taken_back,
)
from atlas_splines.versions.delta import delta_of, joined, ledger_of, new_charts
from atlas_splines.versions.diff import encoding_of, entry_key, joint_domain
from atlas_splines.versions.version import Versioned, estimator_of, model_of, with_model

__all__ = ["Conflict", "MergeConflict", "Side", "merge", "merged_with"]

Side = Literal["ours", "theirs"]
SIDES: tuple[Side, Side] = ("ours", "theirs")
LEARNED = ("model.", "estimator.ledger")  # parts of a file in which versions of one model differ


@dataclass(frozen=True)
class Conflict:
    """Two updates, made apart, that both speak for the same place.

    Attributes
    ----------
    area
        A box around the place; in the units of the columns for estimators.
    ours, theirs
        Entries of both updates, with their errors; None for evidence that was pooled under a chart which
        adds to it.
    """

    area: Footprint
    ours: Record | None
    theirs: Record | None


class MergeConflict(ValueError):
    """Updates that were made apart overlap, so somebody must say which one counts.

    Attributes
    ----------
    conflicts
        Where they overlap.
    """

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = list(conflicts)
        places = "one place" if len(conflicts) == 1 else f"{len(conflicts)} places"
        super().__init__(
            f"updates of both sides speak for {places}; choose ours or theirs, or give rows to learn there"
        )


@ONE_THREAD_EACH
def merge(
    base: Versioned,
    ours: Versioned,
    theirs: Versioned,
    *,
    prefer: Side | None = None,
    rows: tuple[ArrayLike, ArrayLike] | None = None,
) -> Versioned:
    """Bring the updates together that two versions of a model have had since their common base.

    Evidence adds up, and charts that do not overlap are both kept: the result has the same bits whoever
    merges, in either order. Where rows were pooled on both sides the exact memory speaks until the next
    update: memories that fade depend on the order of updates, and start again from the exact sums.

    Parameters
    ----------
    base
        The version that both come from.
    ours, theirs
        The two versions; they stay as they are.
    prefer
        Whose charts count where both have one.
    rows
        Inputs and targets to learn anew there, instead of both.

    Returns
    -------
    The merged version. Charts that overlap get a `MergeConflict`, and what cannot be merged exactly a
    ValueError of one sentence.

    Examples
    --------
    >>> from atlas_splines import update
    >>> from atlas_splines.versions import version
    >>> base = Atlas(inputs=1)
    >>> ours, theirs = base.copy(), base.copy()
    >>> done = update(ours, [[0.1], [0.2]], [1.0, 1.0], epochs=5, random_state=0)
    >>> done = update(theirs, [[0.8], [0.9]], [2.0, 2.0], epochs=5, random_state=0)
    >>> both = merge(base, ours, theirs)
    >>> len(both.charts), version(both) == version(merge(base, theirs, ours))
    (2, True)
    """
    archives = [to_archive(each) for each in (base, ours, theirs)]
    digests = [archive.digests for archive in archives]
    by_rows = all(ledger_of(each) is not None for each in (base, ours, theirs))
    if by_rows:
        check_columns(base, ours, theirs)
    else:
        check_family(archives, digests)
    versions = [version_of(archive.kind, parts) for archive, parts in zip(archives, digests, strict=True)]
    if versions[0] == versions[2] or versions[1] == versions[2]:
        return ours
    if versions[0] == versions[1]:
        return theirs
    if by_rows:
        return united(base, ours, theirs, prefer, rows)
    base, ours, theirs = without_reverted(base, ours, theirs)
    sides = [side_of(base, each, name) for each, name in ((ours, SIDES[0]), (theirs, SIDES[1]))]
    joined = Joining(snapshot_of(model_of(ours)), sides[1])
    if joined.conflicts and prefer is None and rows is None:
        raise MergeConflict([in_columns(conflict, ours) for conflict in joined.conflicts])
    result = with_model(ours, joined.model("both" if rows is not None else prefer))
    return result if rows is None else taught(result, joined.conflicts, *rows)


def check_columns(base: Versioned, ours: Versioned, theirs: Versioned) -> None:
    """Refuse sides of other columns, targets or parameters."""
    frames = []
    for thing in (base, ours, theirs):
        estimator = estimator_of(thing)
        assert estimator is not None
        parameters = {name: repr(value) for name, value in estimator.get_params(deep=False).items()}
        frames.append((type(estimator), parameters, *columns_of_fit(thing)))
    for frame, name in zip(frames[1:], SIDES, strict=True):
        if frame != frames[0]:
            raise ValueError(f"{name} is no version of the base: its columns, target or parameters differ")


def columns_of_fit(thing: Versioned) -> tuple[tuple[str, ...], Encoding | None]:
    """Names of the inputs, and the encoding, without the columns that came after the fit."""
    estimator, ledger, encoding = estimator_of(thing), ledger_of(thing), encoding_of(thing)
    assert estimator is not None
    assert ledger is not None
    names = estimator._input_names[: ledger.base]
    if encoding is None:
        return names, None
    found = grown(encoding, ledger.base, ())
    is_own = not (estimator.encoding_.of_frame and found.is_plain)  # or else it is there for what came
    return names, found if is_own else None


def united(
    base: Versioned,
    ours: Versioned,
    theirs: Versioned,
    prefer: Side | None,
    rows: tuple[ArrayLike, ArrayLike] | None,
) -> Versioned:
    """The estimator of the contributions of both sides.

    Where both have opened charts in one place, the contributions of the side that is not preferred which did
    so are left out, or those of both sides if rows are given to learn there instead.
    """
    deltas = []
    for side, name in ((ours, SIDES[0]), (theirs, SIDES[1])):
        try:
            deltas.append(delta_of(base, side))
        except ValueError as error:
            raise ValueError(f"{name} cannot be merged: {error}") from None
    conflicts = conflicts_between(ours, theirs, deltas[0].last)
    if conflicts and prefer is None and rows is None:
        raise MergeConflict([in_columns(conflict, ours) for conflict in conflicts])
    lost = {
        "ours": {each.ours.id for each in conflicts if each.ours} if prefer == "theirs" or rows else set(),
        "theirs": {each.theirs.id for each in conflicts if each.theirs}
        if prefer == "ours" or rows
        else set(),
    }
    mine, other = estimator_of(ours), estimator_of(theirs)
    assert mine is not None
    assert other is not None
    for number in sorted(lost["ours"]):
        mine = copy.copy(mine).revert(number)
    for number in sorted(lost["theirs"]):
        other = copy.copy(other).revert(number)
    delta = delta_of(base, other._taking_frames()) if lost["theirs"] else deltas[1]
    result = joined(mine, delta)._taking_frames()
    return result if rows is None else taught(result, conflicts, *rows)


def conflicts_between(ours: Versioned, theirs: Versioned, last: int) -> list[Conflict]:
    """Places where updates of both sides have opened charts."""
    states = [state_of(model_of(each)) for each in (ours, theirs)]
    if len({len(state.lattice.domain) for state in states}) > 1:  # a column came: all is fitted again
        return []
    domain = joint_domain(*(state.lattice.domain for state in states))
    logs = [{record.id: record for record in model_of(each).updates} for each in (ours, theirs)]
    common = {entry_key(record) for record in logs[0].values()} & {entry_key(r) for r in logs[1].values()}
    found = []
    for one, other in itertools.product(new_charts(ours, last), new_charts(theirs, last)):
        entries = logs[0][one.update], logs[1][other.update]
        is_shared = any(entry_key(entry) in common for entry in entries)
        if not is_shared and overlap(one.window.box_in(domain), other.window.box_in(domain)):
            windows = [replace(chart.window, domain=domain) for chart in (one, other)]
            smallest = min(windows, key=lambda window: window.volume)
            found.append(Conflict(BoxFootprint(domain, states[0].dtype, (smallest,)), *entries))
    return found


def merged_with(model: Atlas, added: Additions) -> Atlas:
    """A model with what was added to a version that it comes from."""
    joined = Joining(snapshot_of(model), added)
    if joined.conflicts:
        raise MergeConflict(joined.conflicts)
    return joined.model(None)


def check_family(archives: Sequence[Archive], digests: Sequence[Mapping[str, str]]) -> None:
    """Refuse what differs in more than a model."""
    frames = [
        (archive.kind, {part: digest for part, digest in parts.items() if not part.startswith(LEARNED)})
        for archive, parts in zip(archives, digests, strict=True)
    ]
    for frame, name in zip(frames[1:], SIDES, strict=True):
        if frame != frames[0]:
            raise ValueError(f"{name} is no version of the base: its columns, target or parameters differ")


def without_reverted(base: Versioned, ours: Versioned, theirs: Versioned) -> list[Versioned]:
    """The base and both sides without updates of the base that one of the sides has taken back since.

    Who has taken them back does not matter then, nor what they were a part of on the other side.
    """
    last = next_id(model_of(base).updates) - 1
    found = [reverted_since(model_of(base).updates, model_of(side).updates, last) for side in (ours, theirs)]
    times = {id: min(each[id] for each in found if id in each) for each in found for id in each}
    times = dict(sorted(times.items(), key=lambda item: (item[1], item[0])))
    return [without_updates(each, times) for each in (base, ours, theirs)] if times else [base, ours, theirs]


def without_updates(thing: Versioned, times: Mapping[int, datetime]) -> Versioned:
    """A model that has taken some updates back at some times, if it had not already."""
    model = snapshot_of(model_of(thing))
    standing = [record.id for record in model.updates if record.reverted is None]
    state = taken_back(state_of(model), [id for id in times if id in standing])
    log = [replace(record, reverted=times.get(record.id, record.reverted)) for record in model.updates]
    if estimator_of(thing) is not None:
        state = reduced(state, needed_domain(state, log))
    return with_model(thing, model_in(state, log))


def side_of(base: Versioned, side: Versioned, name: Side) -> Additions:
    """What a side has added to the base, or why it cannot be merged."""
    try:
        return additions_of(model_of(base), model_of(side))
    except ValueError as error:
        raise ValueError(f"{name} cannot be merged: {error}") from None


class Joining:
    """A model that is about to be joined with what was added to a version which it comes from.

    Attributes
    ----------
    conflicts
        Places for which both sides have charts.
    """

    def __init__(self, ours: Atlas, added: Additions) -> None:
        self.ours, self.added = ours, added
        folded = folded_of(ours.updates)
        if folded is not None and folded.last > added.last:
            raise ValueError("updates since the base are folded in the log already; merge more often")
        self.records = [record for record in unfolded(ours.updates) if record.id > added.last]
        self.numbers, self.their_numbers = self._number()
        own = {record.id for record in ours.updates if record.reverted is None}
        self.state = taken_back(state_of(ours), [id for id in added.reverted if id in own])
        self.digests = {owner: pool_digest(pool) for owner, pool in pools_of(self.state).items()}
        self.domain = joint_domain(self.state.lattice.domain, added.domain)
        new = [chart for chart in self.state.charts if chart.update > added.last]
        self.our_charts = [renumbered_chart(chart, self.numbers) for chart in new]
        self.their_charts = [renumbered_chart(chart, self.their_numbers) for chart in added.charts]
        self.pairs = self._overlapping()

    def _number(self) -> tuple[dict[int, int], dict[int, int]]:
        """Numbers of all new updates, by the time they were made at."""
        ours = {entry_key(record): record.id for record in self.records}
        theirs = {entry_key(record): record.id for record in self.added.records}
        if ours.keys() & theirs.keys():
            raise ValueError("both sides have an update in common since the base; take a later base")
        places = {key: self.added.last + 1 + k for k, key in enumerate(sorted({**ours, **theirs}))}
        return {id: places[key] for key, id in ours.items()}, {id: places[key] for key, id in theirs.items()}

    # --- conflicts --------------------------------------------------------------------------------------

    def _overlapping(self) -> list[tuple[Chart | None, Chart | None]]:
        """Charts of both sides at one place, and charts that add to what the other side has changed."""
        pairs: list[tuple[Chart | None, Chart | None]] = [
            (one, other)
            for one in self.our_charts
            for other in self.their_charts
            if overlap(one.window.box_in(self.domain), other.window.box_in(self.domain))
        ]
        if MODEL in self.added.pools:
            pairs += [(chart, None) for chart in self.our_charts if not chart.replaces]
        if self._has_changed(MODEL):
            pairs += [(None, chart) for chart in self.their_charts if not chart.replaces]
        return pairs

    def _has_changed(self, owner: Route) -> bool:
        """Whether our pool is not that of the base."""
        return self.digests.get(owner) != self.added.digests.get(owner)

    @property
    def conflicts(self) -> list[Conflict]:
        """Where both sides have charts."""
        ours = {self.numbers[record.id]: record for record in self.records}
        theirs = {self.their_numbers[record.id]: record for record in self.added.records}
        return [
            Conflict(
                self._area([chart for chart in (one, other) if chart is not None]),
                None if one is None else ours[one.update],
                None if other is None else theirs[other.update],
            )
            for one, other in self.pairs
        ]

    def _area(self, charts: Sequence[Chart]) -> Footprint:
        """The smaller of the boxes, which has all that they have in common."""
        windows = [replace(chart.window, domain=self.domain) for chart in charts]
        smallest = min(windows, key=lambda window: window.volume)
        return BoxFootprint(self.domain, self.state.dtype, (smallest,))

    # --- joining ----------------------------------------------------------------------------------------

    def model(self, prefer: Side | Literal["both"] | None) -> Atlas:
        """The model of both sides; where they have a conflict, without the charts of one side, or of both."""
        dropped = [chart for pair in self.pairs for chart in self._dropped(pair, prefer)]
        pools = self._pools()
        old = [
            with_pool(chart, pools.get(owner))
            for owner, chart in zip(route(self.state)[1:], self.state.charts, strict=True)
            if chart.update <= self.added.last
        ]
        new = [chart for chart in [*self.our_charts, *self.their_charts] if chart not in dropped]
        charts = [*old, *sorted(new, key=lambda chart: chart.update)]
        state = self._table(pools.get(MODEL)).with_charts(charts)
        return model_in(state, self._log(state, dropped))

    @staticmethod
    def _dropped(
        pair: tuple[Chart | None, Chart | None], prefer: Side | Literal["both"] | None
    ) -> list[Chart]:
        """The charts of a conflict that do not count."""
        ours, theirs = pair
        losers = {"ours": [theirs], "theirs": [ours], "both": [ours, theirs]}
        return [chart for chart in losers.get(prefer or "", []) if chart is not None]

    def _pools(self) -> dict[Route, Pool]:
        """The evidence of the model, and of each chart of the base."""
        found = {
            owner: self._pool(owner, pool)
            for owner, pool in pools_of(self.state).items()
            if owner[0] <= self.added.last
        }
        for owner in self.added.pools.keys() - found.keys():
            raise ValueError(
                f"rows were added to a chart of update {owner[0]}, which was taken back elsewhere"
            )
        return found

    def _pool(self, owner: Route, pool: Pool) -> Pool:
        own = renumbered(pool, self.numbers)
        addition = self.added.pools.get(owner)
        if addition is None:
            return own
        if self._has_changed(owner):
            return merged(own, addition, self.their_numbers)
        if self.added.state is not None:
            return renumbered(pools_of(self.added.state)[owner], self.their_numbers)
        numbered = [replace(batch, update=self.their_numbers[batch.update]) for batch in addition.batches]
        return followed(own, replace(addition, batches=tuple(numbered)))

    def _table(self, pool: Pool | None) -> State:
        """The state of the model without charts: that of a side if it knows all, or else of all evidence."""
        theirs, ours = MODEL in self.added.pools, self._has_changed(MODEL)
        if not theirs and not ours:
            base = cropped(self.state.with_charts(()), self.added.base_domain, self.added.base_density)
            if base is None:
                raise ValueError("its domain is not that of the base, extended")
            return replace(reaching(base, self.domain.T), pooled=pool)
        for state, knows_all in ((self.state, not theirs), (self.added.state, not ours)):
            if knows_all and state is not None and np.array_equal(state.lattice.domain, self.domain):
                return replace(state.with_charts(()), pooled=pool)
        assert pool is not None
        return pool.state_like(reaching(self.state.with_charts(()), self.domain.T))

    def _log(self, state: State, dropped: Sequence[Chart]) -> list[Record]:
        """The log of both, by time; an update of which nothing is left is marked as taken back."""
        ours = [replace(record, id=self.numbers[record.id]) for record in self.records]
        theirs = [replace(record, id=self.their_numbers[record.id]) for record in self.added.records]
        records = sorted([*ours, *theirs], key=lambda record: record.id)
        newest = max(record.time for record in records) if records else None
        gone = {chart.update for chart in dropped if not is_held(state, chart.update)}
        marked = [replace(record, reverted=newest) if record.id in gone else record for record in records]
        old = [record for record in self.ours.updates if record.id <= self.added.last]
        known = {record.id: record.reverted for record in old if record.reverted is not None}
        reverted = {id: min(time, known.get(id, time)) for id, time in self.added.reverted.items()}
        return logged(old, marked, reverted, state)


def renumbered_chart(chart: Chart, numbers: Mapping[int, int]) -> Chart:
    """A chart with other numbers of updates."""
    pool = memory_in(state_of(chart.content))
    numbered = replace(chart, update=numbers[chart.update])
    return numbered if pool is None else with_memory(numbered, renumbered(pool, numbers))


def with_memory(chart: Chart, pool: Pool) -> Chart:
    """A chart that says the same, with its evidence numbered in another way."""
    return replace(chart, content=model_in(replace(state_of(chart.content), pooled=pool)))


def with_pool(chart: Chart, pool: Pool | None) -> Chart:
    """A chart that says what a pool says; it need not be solved if that has the rows it had."""
    old = memory_in(state_of(chart.content))
    if pool is None or old is None or pool is old:
        return chart
    return with_memory(chart, pool) if same_rows(old, pool) else chart_of(chart, pool)


def same_rows(one: Pool, other: Pool) -> bool:
    """Whether two pools are of the same rows, and say the same of them."""
    numbers = {batch.update: k for k, batch in enumerate(other.recent)}
    places = {batch.update: k for k, batch in enumerate(one.recent)}
    return pool_digest(renumbered(one, places)) == pool_digest(renumbered(other, numbers))


def in_columns(conflict: Conflict, thing: Versioned) -> Conflict:
    """A conflict in the units of the columns of an estimator."""
    estimator = estimator_of(thing)
    if estimator is None:
        return conflict
    known = conflict.area.domain
    ours, theirs = (
        None if record is None else estimator._in_own_units(record, known)
        for record in (conflict.ours, conflict.theirs)
    )
    return Conflict(estimator._in_columns(conflict.area, known), ours, theirs)


def taught(thing: Versioned, conflicts: Sequence[Conflict], X: ArrayLike, y: ArrayLike) -> Versioned:
    """A model that has learned rows where there was a conflict, by charts."""
    estimator = estimator_of(thing)
    areas = [(conflict if estimator is None else in_columns(conflict, thing)).area for conflict in conflicts]
    if estimator is not None:
        table, targets, weights = estimator._checked(X, y, None)
    else:
        table, targets = np.asarray(X, np.float64), np.asarray(y, np.float64)
    inside = np.any([np.zeros(len(table), bool), *(area._contains(table) for area in areas)], axis=0)
    if areas and not inside.any():
        raise ValueError("none of the rows lies where the sides have a conflict; choose ours or theirs")
    if not areas:
        return thing
    if estimator is not None:
        estimator._update(table[inside], targets[inside], weights[inside], retention="chart", accept=True)
    else:
        update(model_of(thing), table[inside], targets[inside], random_state=0, accept=True)
    return thing
