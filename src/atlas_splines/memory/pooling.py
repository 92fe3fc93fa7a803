"""Pooling: rows of an update join the evidence of a model, or of the chart that they fall into.

Rows that noise explains are pooled. Rows that contradict what is known may get charts of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.extension import reaching, with_outputs
from atlas_splines.core.model import state_of
from atlas_splines.core.records import NOT_APART
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import State
from atlas_splines.evidence.batches import Voice
from atlas_splines.evidence.pool import FEWEST_ROWS, UNSEEN
from atlas_splines.memory.change_detection import charts_for, with_rim
from atlas_splines.memory.covers import Count, Cover
from atlas_splines.memory.first_rows import FEATURES
from atlas_splines.memory.owners import (
    ELSEWHERE,
    MODEL,
    Part,
    as_doubles,
    chart_of,
    evidence_of,
    local_rows,
    needed_pool,
    owners_of,
    parts_of,
)

__all__ = ["POOLED", "TOO_FEW", "Pooled", "forget_rows", "pool_rows", "settled", "with_classes"]

POOLED = "pooled with all rows before"
TOO_FEW = f"sums of fewer than {FEWEST_ROWS} rows are not kept apart, {NOT_APART}"


@dataclass(frozen=True, eq=False)
class Pooled:
    """What pooling has done: the new state, and why it is that."""

    state: State
    kind: Literal["chart", "pool"]
    reason: str
    fences: tuple[Fence, ...]  # of new charts
    is_local: bool  # whether nothing but new charts has changed


def pool_rows(
    state: State,
    update: int,
    rows: Rows,
    decide: bool,
    cover: Cover,
    charts: Count,
    features: int = FEATURES,
    rest: Iterable[Rows] = (),
) -> Pooled:
    """Learn rows by evidence.

    Parameters
    ----------
    state
        A state with a pool.
    update
        Number of the update.
    rows
        Its rows.
    decide
        Whether the data decides: charts may be opened where rows contradict what is known, and the memories
        that predict best speak. Otherwise all rows are pooled, and the exact memory speaks. Without rows for
        the pool, whoever speaks goes on.
    cover, charts, features
        As in `update`.
    rest
        Further rows of the update, in pieces: they join the charts that they fall into, or the pool.
    """
    pool = needed_pool(state)
    voice: Voice = pool.voice if pool.voice == "fading" else "mixture" if decide else "exact"
    # a class that is new is no change of the world: rows of classes open no charts by themselves
    decide = decide and pool.loss != "cross-entropy"
    owners = owners_of(state, rows)
    parts = parts_of(state, update, rows, owners)
    new: list[Chart] = []
    reason = POOLED
    if decide:
        parts = [part.widened(features) for part in parts]
        new, reason = charts_for(state, update, rows, parts, cover, charts)
        bumps = sum(sum(part.grew) for part in parts)
        reason += f"; {bumps} new features where none had reached" if bumps and not new else ""
    if new:
        state = reaching(state, with_rim(state, rows.points))
        for chart in new:
            owners[chart.fence.window(rows.points) == 1] = ELSEWHERE
        parts = parts_of(state, update, rows, owners)
    joins = int((owners >= 0).sum())
    grown = joined(state, parts)
    grown = grown.with_charts((*grown.charts, *new))
    counts = Counter(owners[owners != ELSEWHERE].tolist())
    grown, further = joined_by_rest(grown, update, rest)
    counts += further
    joins += sum(further[k] for k in range(len(state.charts)))
    if any(count < pool.fewest for count in counts.values()):
        grown = settled(grown, update)
        reason += f"; {TOO_FEW}"
    said = needed_pool(grown)
    stays = said is pool  # then who speaks stays too: the update can be taken back with its charts
    return Pooled(
        grown if stays else said.with_voice(voice).state_like(grown),
        kind="chart" if new else "pool",
        reason=f"{reason}; {joins} rows joined a chart" if joins else reason,
        fences=tuple(chart.fence for chart in new),
        is_local=not joins and stays,
    )


def joined_by_rest(state: State, update: int, rest: Iterable[Rows]) -> tuple[State, Counter[int]]:
    """The state with further rows of an update, and how many of them have joined each owner."""
    counts: Counter[int] = Counter()
    for piece in rest:
        inside = piece.inside(state.lattice.domain)
        owners = owners_of(state, inside)
        state = joined(state, parts_of(state, update, inside, owners))
        counts += Counter(owners.tolist())
    return state, counts


def settled(state: State, update: int) -> State:
    """The state in which sums of an update are not kept apart: it cannot be taken back without its rows."""
    charts = list(state.charts)
    for k, chart in enumerate(charts):
        pool = evidence_of(state_of(chart.content))
        if pool is not None and pool.holds(update):
            charts[k] = chart_of(chart, pool.settling(update))
    model = evidence_of(state)
    return replace(
        state.with_charts(charts), evidence=state.evidence if model is None else model.settling(update)
    )


def joined(state: State, parts: Sequence[Part]) -> State:
    """The state with the evidence of rows, each with its owner; its coefficients are those of before."""
    grown = {part.owner: part.grown for part in parts}
    charts = [chart_of(chart, grown[k]) if k in grown else chart for k, chart in enumerate(state.charts)]
    return replace(state.with_charts(charts), evidence=grown.get(MODEL, state.evidence))


def with_classes(state: State, places: NDArray[np.intp], outputs: int) -> State:
    """The state with more classes, which no row so far was of; the old ones get these places."""
    if state.charts:
        raise ValueError("classes cannot be added where charts stand; call consolidate() first, or fit again")
    pool = evidence_of(state)
    larger = with_outputs(state, places, outputs, UNSEEN)
    return larger if pool is None else pool.with_outputs(places, outputs).state_like(larger)


def forget_rows(state: State, rows: Rows) -> State:
    """The state without rows that were learned by evidence, of the model or of the chart they fall into.

    Rows that the model keeps are its own, also where a later chart stands. A row that it never learned is
    refused as long as it keeps all that it has learned; otherwise nobody can know.
    """
    pool, owners = needed_pool(state), owners_of(state, rows)
    is_kept = pool.updates_of(*as_doubles(rows)) >= 0
    owners[is_kept] = MODEL
    strange = int((~is_kept & (owners == MODEL)).sum())
    if strange and pool.keeps_all:
        raise ValueError(
            f"{strange:,} of the rows are not among those that the model has learned; check them"
        )
    state = state.with_charts(
        chart_without(chart, rows.take(owners == k)) if (owners == k).any() else chart
        for k, chart in enumerate(state.charts)
    )
    rest = rows.take(owners == MODEL)
    if not len(rest):
        return state
    return pool.forgotten(*as_doubles(rest)).with_voice("exact").state_like(state)


def chart_without(chart: Chart, rows: Rows) -> Chart:
    """A chart that has forgotten rows."""
    pool = needed_pool(state_of(chart.content))
    return chart_of(chart, pool.forgotten(*local_rows(chart.fence, chart.size, rows)))
