"""Additions of updates to the sufficient statistics of a model, and their union, which is exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import digests_of, version_of
from atlas_splines.io.memory import pool_header, pool_tensors
from atlas_splines.memory.batches import Batch, OutputMode
from atlas_splines.memory.error_model import ErrorModel
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.local_memory import LocalMemory, Mixture
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.statistics import Statistics
from atlas_splines.model.atlas import Atlas, is_held, model_in, snapshot_of, state_of, state_without
from atlas_splines.model.charts import Chart
from atlas_splines.model.lattice import Domain
from atlas_splines.model.log import START, Record, chain_of, chained, folded_of, next_id, shortened, unfolded
from atlas_splines.model.resize import reaching
from atlas_splines.model.state import State
from atlas_splines.updates.incremental import restarted
from atlas_splines.updates.routing import chart_of, memory_in
from atlas_splines.versions.diff import chart_digest, same_tables

__all__ = [
    "MODEL",
    "Additions",
    "PoolAdditions",
    "Route",
    "additions_of",
    "chain_at",
    "check_memory",
    "follow",
    "followed",
    "logged",
    "merged",
    "pool_additions",
    "pool_digest",
    "pools_of",
    "renumbered",
    "route",
    "states_of",
    "taken_back",
]

Array = NDArray[np.float64]

FORGOTTEN = "rows that the base had were forgotten; merge first, and forget afterwards"


@dataclass(frozen=True, eq=False)
class PoolAdditions:
    """The additions to a pool.

    Attributes
    ----------
    batches
        Statistics of the latest updates, each by itself.
    rest
        Sums of all other rows that were added; None if there were none.
    centres
        Radial basis functions that were added to each group, shape (functions, inputs); empty without any.
    radial_bases
        Their number in each group before.
    output_mode
        The output mode afterwards.
    has_base
        Whether the initial model is still a candidate, or that of kept rows is one.
    error_model
        The error model before; None without one.
    rows
        The rows that were added, if rows are kept.
    grown
        Update of each of the added functions, for each group; 0 if unknown.
    """

    batches: tuple[Batch, ...]
    rest: Statistics | None
    centres: tuple[Array, ...]
    radial_bases: tuple[int, ...]
    output_mode: OutputMode
    has_base: bool
    error_model: ErrorModel | None
    rows: HeldRows | None = None
    grown: tuple[tuple[int, ...], ...] = ()

    @property
    def grew(self) -> bool:
        """Whether features were added."""
        return any(len(centres) for centres in self.centres)


def pool_digest(pool: Pool) -> str:
    """Hash of a pool."""
    return version_of("pool", digests_of({"pool": pool_header(pool)}, pool_tensors(pool, "pool")))


def pool_additions(
    old: Pool | None, new: Pool | None, last: int, error_model: ErrorModel | None = None
) -> PoolAdditions:
    """The additions to a pool by updates after the last of an older one.

    `error_model` is that of the base, with all its updates that were not reverted. Raises a ValueError if the
    pool is not the older one plus additions.
    """
    if old is None or new is None:
        raise ValueError("its memory was dropped or started since")
    centres = added_bases(old, new)
    check_same_kind(old, new)
    wider = old.widened(centres) if any(map(len, centres)) else old
    batches = tuple(batch for batch in new.recent if batch.update > last)
    rest = rest_of(wider.total, new.total, batches)
    radial_bases = tuple(len(group.centres) for group in old.features.radial_bases)
    rows = added_rows(old.memory, new.memory, last)
    grown = grown_with(new, centres)
    return PoolAdditions(
        batches, rest, centres, radial_bases, new.output_mode, new.has_base, error_model, rows, grown
    )


def grown_with(pool: Pool, centres: Sequence[Array]) -> tuple[tuple[int, ...], ...]:
    """Updates of the last radial basis functions of each group, as many as there are centres."""
    known = pool.grown or ((),) * len(centres)
    pairs = zip(known, centres, strict=True)
    return tuple(
        (*[0] * (len(c) - len(updates)), *updates[max(len(updates) - len(c), 0) :]) for updates, c in pairs
    )


def added_rows(old: LocalMemory | None, new: LocalMemory | None, last: int) -> HeldRows | None:
    """Kept rows of updates after the last of an older memory; None if no rows are kept."""
    if old is None or new is None:
        return None
    is_new = new.rows.updates > last
    known, before = new.rows.take(~is_new).hashes, old.rows.hashes
    if not np.array_equal(
        known, before[len(before) - len(known) :]
    ):  # the oldest may have been dropped within the budget
        raise ValueError(FORGOTTEN)
    return new.rows.take(is_new)


def added_bases(old: Pool, new: Pool) -> tuple[Array, ...]:
    """Radial basis functions of each group that only the newer pool has."""
    one, other = old.features, new.features
    kinds = [
        (
            each.coarse,
            each.linear,
            each.fine,
            each.monotonic,
            each.levels,
            [group.sides for group in each.radial_bases],
        )
        for each in (one, other)
    ]
    same = kinds[0] == kinds[1]
    for a, b in zip(one.radial_bases, other.radial_bases, strict=False):
        same = same and np.array_equal(a.lengths, b.lengths)
        same = same and np.array_equal(a.centres, b.centres[: len(a.centres)])
    if not same:
        raise ValueError("its memory has other features")
    pairs = zip(one.radial_bases, other.radial_bases, strict=True)
    return tuple(b.centres[len(a.centres) :] for a, b in pairs)


def check_same_kind(old: Pool, new: Pool) -> None:
    """Refuse pools with other half-lives, losses, units or priors."""
    ways = [
        (pool.half_lives, pool.loss, pool.dtype, pool.weight_unit, pool.prior.steps, *pool.prior.precisions)
        for pool in (old, new)
    ]
    if ways[0] != ways[1]:
        raise ValueError("its memory counts rows in another way")
    fits = old.initial, new.initial
    same = fits[1] is None or (fits[0] is not None and np.array_equal(fits[0].table, fits[1].table))
    if not same or memory_frame(old.memory) != memory_frame(new.memory):
        raise ValueError("its memory starts from another fit")


def memory_frame(memory: LocalMemory | None) -> tuple[object, ...]:
    """What the fit chose of a local memory, without its rows."""
    if memory is None:
        return ()

    def chosen(mixture: Mixture | None) -> tuple[object, ...]:
        if mixture is None:
            return ()
        parts = [
            (each.of, each.share, each.kernel.rates.tobytes(), each.kernel.noise)
            for each in mixture.components
        ]
        return (mixture.smooth, mixture.linear, *parts)

    return (chosen(memory.known), chosen(memory.later), memory.clocks, memory.box_rows, memory.budget)


def check_memory(pool: Pool, added: PoolAdditions) -> None:
    """Refuse additions with rows for a model that keeps none, and additions without for one that does."""
    if pool.memory is None and added.rows is not None:
        raise ValueError(
            "it carries rows, and the model keeps sums alone; use one of a model with memory='sums'"
        )
    if pool.memory is not None and added.rows is None:
        raise ValueError(
            "it carries sums alone, and the model keeps rows; use one of a model with memory='rows'"
        )


def rest_of(old: Statistics, new: Statistics, batches: Sequence[Batch]) -> Statistics | None:
    """Sums of the rows between two totals that are not in the batches; None without any."""
    try:
        rest = new - old
        for batch in batches:
            rest = rest - batch.statistics
    except ValueError:
        rest = None
    if rest is None or (np.diagonal(rest.gram) < 0).any():
        raise ValueError(FORGOTTEN)
    return None if rest == Statistics(rest.features, rest.outputs) else rest


def renumbered(pool: Pool, numbers: Mapping[int, int]) -> Pool:
    """The pool with other numbers of its updates."""
    if all(numbers.get(update, update) == update for update in updates_in(pool)):
        return pool
    recent = [replace(batch, update=numbers.get(batch.update, batch.update)) for batch in pool.recent]
    memory = pool.memory
    if memory is not None:
        memory = replace(memory, rows=renumbered_rows(memory.rows, numbers).in_order())
    grown = tuple(tuple(numbers.get(update, update) for update in updates) for updates in pool.grown)
    recent = sorted(recent, key=lambda batch: batch.update)
    return replace(pool, recent=tuple(recent), memory=memory, grown=grown)


def updates_in(pool: Pool) -> list[int]:
    """Numbers of the updates in a pool."""
    kept = [] if pool.memory is None else np.unique(pool.memory.rows.updates).tolist()
    grown = [update for updates in pool.grown for update in updates]
    return [*kept, *grown, *(batch.update for batch in pool.recent)]


def renumbered_rows(rows: HeldRows, numbers: Mapping[int, int]) -> HeldRows:
    """Rows with other numbers of their updates."""
    old, place = np.unique(rows.updates, return_inverse=True)
    new = np.array([numbers.get(update, update) for update in old.tolist()], np.int32)
    return replace(rows, updates=new[place])


def followed(pool: Pool, added: PoolAdditions) -> Pool:
    """The pool after the added updates, one after the other, bit for bit as on the other side."""
    check_memory(pool, added)
    grown = grown_by(pool, added, {})
    for batch in added.batches:
        grown = replace(grown, recent=(*grown.recent, batch))
        grown = grown if len(grown.recent) <= grown.undo else grown._checkpointed()
    grown = grown if added.rows is None else grown.keeping(added.rows)
    return grown.with_output_mode(added.output_mode)


def merged(ours: Pool, added: PoolAdditions, numbers: Mapping[int, int]) -> Pool:
    """The pool of all rows, where both sides have added some; its own updates are numbered already.

    `numbers` are those that the added updates get.
    """
    check_memory(ours, added)
    sizes = [len(group.centres) for group in ours.features.radial_bases]
    grown = [size - before for size, before in zip(sizes, added.radial_bases, strict=True)]
    if added.grew and any(grown):
        raise ValueError(
            "features were added on both sides, for rows that none had reached; "
            "update one side with the rows of the other instead"
        )
    pool = grown_by(ours, added, numbers)
    places = ours.features.without_bases(grown).places_in(ours.features) if any(grown) else None
    theirs = [
        replace(batch, update=numbers[batch.update], statistics=wide(batch.statistics, places, pool))
        for batch in added.batches
    ]
    parts = [batch.statistics for batch in theirs]
    parts += [] if added.rest is None else [wide(added.rest, places, pool)]
    total = reduce(add, parts, pool.total)
    recent = sorted([*pool.recent, *theirs], key=lambda batch: batch.update)[-pool.undo :]
    both = restarted(pool, total, recent, pool.initial if added.has_base else None, added.error_model)
    if both.memory is None or added.rows is None:
        return both
    rows = both.memory.rows.joined(renumbered_rows(added.rows, numbers)).in_order()
    none = rows.take(slice(0))
    return replace(both, memory=replace(both.memory, rows=none)).keeping(rows)


def grown_by(pool: Pool, added: PoolAdditions, numbers: Mapping[int, int]) -> Pool:
    """The pool with the features that were added, each with the number of its update."""
    if not added.grew:
        return pool
    grown = pool.widened(added.centres)
    known = pool.grown or ((),) * len(added.centres)
    new = [tuple(numbers.get(update, update) for update in updates) for updates in added.grown]
    return replace(grown, grown=tuple((*old, *more) for old, more in zip(known, new, strict=True)))


def wide(sums: Statistics, places: NDArray[np.intp] | None, pool: Pool) -> Statistics:
    """Sums, padded with zeros to the features of a pool."""
    return sums if places is None else sums.widened(places, len(pool.features))


Route = tuple[int, int]  # an update and which of its charts, or MODEL

MODEL: Route = (0, 0)
ADDITIVE = ("pool", "chart")  # kinds of updates that change no earlier coefficients


@dataclass(frozen=True, eq=False)
class Additions:
    """The additions to a model since a version, its base.

    Attributes
    ----------
    last, chain
        Number of the last update of the base, and the hash over its log.
    base_domain, base_density
        Domain and density of the base.
    domain
        The domain now.
    records
        Entries of the log since.
    reverted
        Times at which updates of the base were reverted since, by their number.
    charts
        Charts that were opened since, and not reverted.
    pools
        Additions to the memory of the model, or of a chart of the base.
    digests
        Digests of all pools of the base.
    state
        The state now, if it is available.
    """

    last: int
    chain: str
    base_domain: Domain
    base_density: int
    domain: Domain
    records: tuple[Record, ...]
    reverted: Mapping[int, datetime]
    charts: tuple[Chart, ...]
    pools: Mapping[Route, PoolAdditions]
    digests: Mapping[Route, str]
    state: State | None = None


def additions_of(base: Atlas, side: Atlas) -> Additions:
    """The additions to a model since its base; raise a ValueError if it has changed otherwise."""
    base, side = snapshot_of(base), snapshot_of(side)
    last = next_id(base.updates) - 1
    if chain_at(side.updates, last) != chain_of(base.updates):
        raise ValueError("its log does not continue that of the base")
    records = tuple(record for record in unfolded(side.updates) if record.id > last)
    for record in records:
        if record.kind not in ADDITIVE:
            raise ValueError(f"its update {record.id} ({record.kind}) has changed coefficients of the base")
    reverted = reverted_since(base.updates, side.updates, last)
    start = taken_back(state_of(base), reverted)
    now = state_of(side)
    check_charts(start.charts, now.charts)
    digests = [
        {owner: pool_digest(pool) for owner, pool in pools_of(state).items()} for state in (start, now)
    ]
    routes = route(start)
    inner = zip(routes, map(memory_in, states_of(start)), map(memory_in, states_of(now)), strict=False)
    error_models = {owner: pool.combined_error_model for owner, pool in pools_of(start).items()}
    added = {
        owner: pool_additions(one, other, last, error_models.get(owner))
        for owner, one, other in inner
        if digests[0].get(owner) != digests[1].get(owner)
    }
    check_untouched(start, now, routes, added)
    return Additions(
        last,
        chain_of(base.updates),
        start.lattice.domain,
        start.density,
        now.lattice.domain,
        records,
        reverted,
        now.charts[len(start.charts) :],
        added,
        digests[0],
        now,
    )


def chain_at(log: Sequence[Record], last: int) -> str:
    """The hash over a log up to an update; empty if there is none, or if its entry is folded."""
    folded = folded_of(log)
    if (folded is not None and folded.last > last) or last > next_id(log) - 1:
        return ""
    before = [record for record in unfolded(log) if record.id <= last]
    return reduce(chained, before, START if folded is None else folded.chain)


def reverted_since(base: Sequence[Record], side: Sequence[Record], last: int) -> dict[int, datetime]:
    """Updates of the base that were reverted since, in the order of that."""
    standing = {record.id for record in base if record.reverted is None}
    found = {
        record.id: record.reverted
        for record in side
        if record.reverted is not None and record.id <= last and record.id in standing
    }
    return dict(sorted(found.items(), key=lambda item: item[1]))


def taken_back(state: State, updates: Iterable[int]) -> State:
    """The state without some updates; raise if one cannot be reverted."""
    for update in updates:
        if not is_held(state, update):
            raise ValueError(f"update {update} was reverted on one side, and no longer can be on the other")
        state = state_without(state, update)
    return state


def route(state: State) -> list[Route]:
    """Keys of the possible memories of a state: the model, then each chart."""
    updates = [chart.update for chart in state.charts]
    return [MODEL, *((update, updates[:k].count(update)) for k, update in enumerate(updates))]


def states_of(state: State) -> list[State]:
    """The state of the model, then that inside each chart."""
    return [state, *(state_of(chart.content) for chart in state.charts)]


def pools_of(state: State) -> dict[Route, Pool]:
    """Every pool of a state, by its key."""
    found = zip(route(state), map(memory_in, states_of(state)), strict=True)
    return {owner: pool for owner, pool in found if pool is not None}


def check_charts(before: Sequence[Chart], now: Sequence[Chart]) -> None:
    """Refuse charts that do not begin with those of before."""
    same = len(now) >= len(before) and all(
        (one.update, one.replaces, one.window.density) == (other.update, other.replaces, other.window.density)
        and np.array_equal(one.window.cells, other.window.cells)
        for one, other in zip(before, now, strict=False)
    )
    if not same:
        raise ValueError("it does not have the charts of the base")


def check_untouched(
    before: State, now: State, routes: Sequence[Route], added: Mapping[Route, object]
) -> None:
    """Refuse coefficients that have changed without an addition to their memory."""
    if MODEL not in added and not same_tables(before.with_charts(()), now.with_charts(())):
        raise ValueError("its coefficients were trained since")
    for owner, one, other in zip(routes[1:], before.charts, now.charts, strict=False):
        if owner not in added and chart_digest(one) != chart_digest(other):
            raise ValueError("a chart of the base was trained since")


# --- adding it again ------------------------------------------------------------------------------------


def follow(model: Atlas, added: Additions) -> Atlas:
    """The base with its additions, bit for bit; raise a ValueError if these are incomplete."""
    if any(addition.rest is not None for addition in added.pools.values()):
        raise ValueError("more updates were pooled since than are kept apart")
    state = taken_back(state_of(model), added.reverted)
    pools = {
        owner: followed(pool, added.pools[owner])
        for owner, pool in pools_of(state).items()
        if owner in added.pools
    }
    if len(pools) < len(added.pools):
        raise ValueError("rows were added to a chart that is not there")
    charts = [
        chart_of(chart, pools[owner]) if owner in pools else chart
        for owner, chart in zip(route(state)[1:], state.charts, strict=True)
    ]
    state = reaching(state, added.domain.T).with_charts((*charts, *added.charts))
    if MODEL in pools:
        state = pools[MODEL].state_like(state)
    return model_in(state, logged(model.updates, added.records, added.reverted, state))


def logged(
    log: Sequence[Record], records: Sequence[Record], reverted: Mapping[int, datetime], state: State
) -> list[Record]:
    """A log with more entries, and some marked as reverted."""
    marked = [
        replace(record, reverted=reverted[record.id]) if record.id in reverted else record for record in log
    ]
    return shortened([*marked, *records], partial(is_held, state))
