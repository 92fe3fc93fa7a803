"""Additions: what the updates since an earlier version have added to a model, and how it is added again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, reduce

import numpy as np

from atlas_splines.core.charts import Chart
from atlas_splines.core.extension import reaching
from atlas_splines.core.lattice import Domain
from atlas_splines.core.model import Atlas, is_held, model_in, snapshot_of, state_of, state_without
from atlas_splines.core.records import (
    START,
    Record,
    chain_of,
    chained,
    folded_of,
    next_id,
    shortened,
    unfolded,
)
from atlas_splines.core.state import State
from atlas_splines.evidence.pool import Pool
from atlas_splines.memory.owners import chart_of, evidence_of
from atlas_splines.versions.differences import chart_digest, same_tables
from atlas_splines.versions.pools import PoolAdditions, followed, pool_additions, pool_digest

__all__ = [
    "MODEL",
    "Additions",
    "Owner",
    "additions_of",
    "chain_at",
    "follow",
    "logged",
    "owners_of",
    "pools_of",
    "states_of",
    "taken_back",
]

Owner = tuple[int, int]  # an update and which of its charts, or MODEL

MODEL: Owner = (0, 0)
ADDITIVE = ("pool", "chart")  # kinds of updates that leave alone what was there


@dataclass(frozen=True, eq=False)
class Additions:
    """What was added to a model since some version, its base.

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
        When updates of the base were taken back since, by their number.
    charts
        Charts that were opened since, and stand.
    pools
        What was added to the evidence of the model, or of a chart of the base.
    digests
        Digests of all pools of the base.
    state
        The state now, if it is at hand.
    """

    last: int
    chain: str
    base_domain: Domain
    base_density: int
    domain: Domain
    records: tuple[Record, ...]
    reverted: Mapping[int, datetime]
    charts: tuple[Chart, ...]
    pools: Mapping[Owner, PoolAdditions]
    digests: Mapping[Owner, str]
    state: State | None = None


def additions_of(base: Atlas, side: Atlas) -> Additions:
    """What a model has that its base had not; a ValueError says why it is more than an addition."""
    base, side = snapshot_of(base), snapshot_of(side)
    last = next_id(base.updates) - 1
    if chain_at(side.updates, last) != chain_of(base.updates):
        raise ValueError("its log does not go on from that of the base")
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
    owners = owners_of(start)
    inner = zip(owners, map(evidence_of, states_of(start)), map(evidence_of, states_of(now)), strict=False)
    spreads = {owner: pool.whole_spread for owner, pool in pools_of(start).items()}
    added = {
        owner: pool_additions(one, other, last, spreads.get(owner))
        for owner, one, other in inner
        if digests[0].get(owner) != digests[1].get(owner)
    }
    check_untouched(start, now, owners, added)
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
    """The hash over a log when an update was its last; empty if there was none such, or it cannot be told."""
    folded = folded_of(log)
    if (folded is not None and folded.last > last) or last > next_id(log) - 1:
        return ""
    before = [record for record in unfolded(log) if record.id <= last]
    return reduce(chained, before, START if folded is None else folded.chain)


def reverted_since(base: Sequence[Record], side: Sequence[Record], last: int) -> dict[int, datetime]:
    """Updates of the base that were taken back since, oldest deed first."""
    standing = {record.id for record in base if record.reverted is None}
    found = {
        record.id: record.reverted
        for record in side
        if record.reverted is not None and record.id <= last and record.id in standing
    }
    return dict(sorted(found.items(), key=lambda item: item[1]))


def taken_back(state: State, updates: Iterable[int]) -> State:
    """The state without some updates, or a sentence that it cannot do without one."""
    for update in updates:
        if not is_held(state, update):
            raise ValueError(f"update {update} was taken back on one side, and no longer can be on the other")
        state = state_without(state, update)
    return state


def owners_of(state: State) -> list[Owner]:
    """Who may have evidence in a state: the model, then each chart."""
    updates = [chart.update for chart in state.charts]
    return [MODEL, *((update, updates[:k].count(update)) for k, update in enumerate(updates))]


def states_of(state: State) -> list[State]:
    """The state of the model, then that inside each chart."""
    return [state, *(state_of(chart.content) for chart in state.charts)]


def pools_of(state: State) -> dict[Owner, Pool]:
    """Every pool of a state, by its owner."""
    found = zip(owners_of(state), map(evidence_of, states_of(state)), strict=True)
    return {owner: pool for owner, pool in found if pool is not None}


def check_charts(before: Sequence[Chart], now: Sequence[Chart]) -> None:
    """Refuse charts that are not those of before, with others after them."""
    same = len(now) >= len(before) and all(
        (one.update, one.replaces, one.fence.density) == (other.update, other.replaces, other.fence.density)
        and np.array_equal(one.fence.cells, other.fence.cells)
        for one, other in zip(before, now, strict=False)
    )
    if not same:
        raise ValueError("it has not the charts of the base")


def check_untouched(
    before: State, now: State, owners: Sequence[Owner], added: Mapping[Owner, object]
) -> None:
    """Refuse coefficients that have changed where no evidence was added."""
    if MODEL not in added and not same_tables(before.with_charts(()), now.with_charts(())):
        raise ValueError("its coefficients were trained since")
    for owner, one, other in zip(owners[1:], before.charts, now.charts, strict=False):
        if owner not in added and chart_digest(one) != chart_digest(other):
            raise ValueError("a chart of the base was trained since")


# --- adding it again ------------------------------------------------------------------------------------


def follow(model: Atlas, added: Additions) -> Atlas:
    """The base with what was added to it, to the bit; a ValueError if that is more than it can tell."""
    if any(addition.rest is not None for addition in added.pools.values()):
        raise ValueError("more updates were pooled since than can be told apart")
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
        for owner, chart in zip(owners_of(state)[1:], state.charts, strict=True)
    ]
    state = reaching(state, added.domain.T).with_charts((*charts, *added.charts))
    if MODEL in pools:
        state = pools[MODEL].state_like(state)
    return model_in(state, logged(model.updates, added.records, added.reverted, state))


def logged(
    log: Sequence[Record], records: Sequence[Record], reverted: Mapping[int, datetime], state: State
) -> list[Record]:
    """A log with more entries, and some marked as taken back."""
    marked = [
        replace(record, reverted=reverted[record.id]) if record.id in reverted else record for record in log
    ]
    return shortened([*marked, *records], partial(is_held, state))
