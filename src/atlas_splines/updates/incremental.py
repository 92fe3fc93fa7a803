"""Incremental and decremental learning: rows join the memory they are routed to, and leave it.

Cauwenberghs and Poggio (2000), Incremental and decremental support vector machine learning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import reduce
from operator import sub
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.batches import Batch, OutputMode
from atlas_splines.memory.error_model import ErrorModel
from atlas_splines.memory.expert_weights import ExpertWeights
from atlas_splines.memory.pool import FEWEST_ROWS, UNSEEN, Pool
from atlas_splines.memory.posterior import sums_of
from atlas_splines.memory.statistics import Statistics
from atlas_splines.model.atlas import state_of
from atlas_splines.model.charts import Chart, Window, overlap
from atlas_splines.model.lattice import Domain
from atlas_splines.model.log import NOT_APART, Record
from atlas_splines.model.resize import reaching, with_outputs
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import State
from atlas_splines.updates.change_detection import charts_for, with_rim
from atlas_splines.updates.footprint import BoxFootprint
from atlas_splines.updates.initial_memory import FEATURES
from atlas_splines.updates.log import Update
from atlas_splines.updates.plan import Count, Cover
from atlas_splines.updates.routing import (
    ELSEWHERE,
    MODEL,
    RoutedRows,
    as_doubles,
    chart_of,
    local_rows,
    memory_in,
    needed_pool,
    parts_of,
    route,
)

__all__ = [
    "NOT_THERE",
    "POOLED",
    "TOO_FEW",
    "Pooled",
    "checked",
    "dependences",
    "forget_rows",
    "forget_sums",
    "learners_of",
    "less",
    "pool_rows",
    "restarted",
    "settled",
    "subtracted",
    "with_classes",
]

POOLED = "pooled with all rows before"
TOO_FEW = f"sums of fewer than {FEWEST_ROWS} rows are not kept apart, {NOT_APART}"


@dataclass(frozen=True, eq=False)
class Pooled:
    """The result of pooling: the new state and the reason for what was done."""

    state: State
    kind: Literal["chart", "pool"]
    reason: str
    windows: tuple[Window, ...]  # of new charts
    is_local: bool  # whether only new charts were added


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
    """Add rows to the memories that they are routed to, and open charts where change is detected.

    Parameters
    ----------
    state
        A state with a pool.
    update
        Number of the update.
    rows
        Its rows.
    decide
        Whether change detection is on: charts may be opened, and the output mode becomes the mixture.
        Otherwise all rows are pooled, and the output mode is that of the cumulative statistics. Without rows
        for the model it stays.
    cover, charts, features
        As in `update`.
    rest
        Further rows of the update, in pieces: they join the charts that they fall into, or the model.
    """
    pool = needed_pool(state)
    output_mode: OutputMode = (
        pool.output_mode if pool.output_mode == "decayed" else "ensemble" if decide else "cumulative"
    )
    # no charts for classes: an unseen class would count as a change
    decide = decide and pool.loss != "cross-entropy"
    routes = route(state, rows)
    parts = parts_of(state, update, rows, routes)
    new: list[Chart] = []
    reason = POOLED
    if decide:
        parts = [part.widened(features) for part in parts]
        new, reason = charts_for(state, update, rows, parts, cover, charts)
        radial_bases = sum(sum(part.grew) for part in parts)
        reason += f"; {radial_bases} new features where none had reached" if radial_bases and not new else ""
    if new:
        state = reaching(state, with_rim(state, rows.points))
        for chart in new:
            routes[chart.window.membership(rows.points) == 1] = ELSEWHERE
        parts = parts_of(state, update, rows, routes)
    joins = int((routes >= 0).sum())
    grown = joined(state, parts)
    grown = grown.with_charts((*grown.charts, *new))
    counts = Counter(routes[routes != ELSEWHERE].tolist())
    grown, further = joined_by_rest(grown, update, rest)
    counts += further
    joins += sum(further[k] for k in range(len(state.charts)))
    if any(count < pool.fewest for count in counts.values()):
        grown = settled(grown, update)
        reason += f"; {TOO_FEW}"
    predicted = needed_pool(grown)
    stays = predicted is pool  # then the output mode stays too: the update is reverted with its charts
    return Pooled(
        grown if stays else predicted.with_output_mode(output_mode).state_like(grown),
        kind="chart" if new else "pool",
        reason=f"{reason}; {joins} rows joined a chart" if joins else reason,
        windows=tuple(chart.window for chart in new),
        is_local=not joins and stays,
    )


def joined_by_rest(state: State, update: int, rest: Iterable[Rows]) -> tuple[State, Counter[int]]:
    """The state with further rows of an update, and how many of them each memory received."""
    counts: Counter[int] = Counter()
    for piece in rest:
        inside = piece.inside(state.lattice.domain)
        routes = route(state, inside)
        state = joined(state, parts_of(state, update, inside, routes))
        counts += Counter(routes.tolist())
    return state, counts


def settled(state: State, update: int) -> State:
    """The state in which sums of an update are not kept apart: it cannot be reverted without its rows."""
    charts = list(state.charts)
    for k, chart in enumerate(charts):
        pool = memory_in(state_of(chart.content))
        if pool is not None and pool.holds(update):
            charts[k] = chart_of(chart, pool.with_checkpointed(update))
    model = memory_in(state)
    return replace(
        state.with_charts(charts), pooled=state.pooled if model is None else model.with_checkpointed(update)
    )


def joined(state: State, parts: Sequence[RoutedRows]) -> State:
    """The state with updated memories; its coefficients are not solved for yet."""
    grown = {part.owner: part.grown for part in parts}
    charts = [chart_of(chart, grown[k]) if k in grown else chart for k, chart in enumerate(state.charts)]
    return replace(state.with_charts(charts), pooled=grown.get(MODEL, state.pooled))


def with_classes(state: State, places: NDArray[np.intp], outputs: int) -> State:
    """The state with unseen classes added; `places` are the outputs of the old ones."""
    if state.charts:
        raise ValueError("classes cannot be added where charts stand; call consolidate() first, or fit again")
    pool = memory_in(state)
    larger = with_outputs(state, places, outputs, UNSEEN)
    return larger if pool is None else pool.with_outputs(places, outputs).state_like(larger)


def forget_rows(state: State, rows: Rows) -> State:
    """The state without pooled rows, each removed from the memory it is routed to.

    Rows that the model keeps are removed from the model, also inside a later chart. A row that was never
    learned is refused if the model keeps all its rows; otherwise this cannot be checked.
    """
    pool, routes = needed_pool(state), route(state, rows)
    is_kept = pool.updates_of(*as_doubles(rows)) >= 0
    routes[is_kept] = MODEL
    unknown = int((~is_kept & (routes == MODEL)).sum())
    if unknown and pool.keeps_all:
        raise ValueError(
            f"{unknown:,} of the rows are not among those that the model has learned; check them"
        )
    state = state.with_charts(
        chart_without(chart, rows.take(routes == k)) if (routes == k).any() else chart
        for k, chart in enumerate(state.charts)
    )
    rest = rows.take(routes == MODEL)
    if not len(rest):
        return state
    return pool.forgotten(*as_doubles(rest)).with_output_mode("cumulative").state_like(state)


def chart_without(chart: Chart, rows: Rows) -> Chart:
    """A chart without rows."""
    pool = needed_pool(state_of(chart.content))
    return chart_of(chart, pool.forgotten(*local_rows(chart.window, chart.size, rows)))


Array = NDArray[np.float64]

RELATIVE, ABSOLUTE = 1e-6, 1e-9  # rounding errors of decayed sums, as `io` accepts them
NO_DATA = (
    "without these rows the sums would be those of no data, as weights of a fit are rounded; fit it again"
)
NOT_THERE = "the sums never held some of the rows; check them"
WAY_OUT = (
    "forget the rows of one update at a time, all of them, or give atlas_splines.versions.forget its data"
)


def learners_of(state: State, log: Sequence[Record], record: Record, rows: Rows) -> NDArray[np.intp]:
    """Memory that each row of an update was added to: number of a chart, MODEL, or ELSEWHERE for none.

    Rows of an update that trained charts or coefficients are in no statistics.
    """
    own = [chart for chart in state.charts if chart.update == record.id]
    if record.kind != "pool" and not any(map(learns, own)):
        return np.full(len(rows), ELSEWHERE)
    for other in charts_gone_since(log, record.time):
        if other.id < record.id and may_hold(other, rows):
            raise ValueError(
                f"rows of update {record.id} may have joined a chart of update {other.id}, which was "
                "reverted since"
            )
    then = state.with_charts(chart for chart in state.charts if chart.update <= record.id)
    routes = route(then, rows)  # charts are in the order of their updates, so numbers are the same
    for k in np.unique(routes[routes >= 0]).tolist():
        if not knew(log, record, state.charts[k]):
            raise ValueError(
                f"whether rows of update {record.id} have joined a chart of update {state.charts[k].update} "
                "cannot be determined"
            )
    return routes


def learns(chart: Chart) -> bool:
    """Whether a chart replaces the model and has a memory that rows can join."""
    return chart.replaces and memory_in(state_of(chart.content)) is not None


def charts_gone_since(log: Sequence[Record], time: datetime) -> Iterator[Update]:
    """Updates whose charts rows could join at some time, and that were reverted later."""
    for record in log:
        if not isinstance(record, Update) or record.kind != "chart" or record.reverted is None:
            continue
        if record.reverted > time and record.settings.get("retention") != "chart":
            yield record


def may_hold(update: Update, rows: Rows) -> bool:
    """Whether a chart of a reverted update may have held some of the rows."""
    if not isinstance(update.footprint, BoxFootprint):  # it had pooled rows too
        return True
    return any(bool((window.membership(rows.points) == 1).any()) for window in update.footprint.windows)


def knew(log: Sequence[Record], record: Record, chart: Chart) -> bool:
    """Whether a chart provably existed at the time of an update: one that was merged in later did not.

    Either its memory holds rows of the update, or the fingerprints in the log form a chain between the two.
    """
    pool = memory_in(state_of(chart.content))
    if chart.update == record.id or (pool is not None and pool.holds(record.id)):
        return True
    earlier = [other for other in log if chart.update <= other.id < record.id]
    before = record.before
    while earlier:
        other = earlier.pop()
        if other.after == before:
            if other.id == chart.update:
                return True
            before = other.before
    return False


def dependences(state: State, record: Record, is_whole: bool) -> Iterator[str]:
    """Reasons why rows of an update, or all of them, cannot be removed without the data of other updates."""
    number, domain = record.id, state.lattice.domain
    own = [chart for chart in state.charts if chart.update == number]
    later = [chart for chart in state.charts if chart.update > number]
    if record.kind not in ("pool", "chart"):
        yield f"update {number} ({record.kind}) has trained coefficients"
    if own and not is_whole:
        yield f"update {number} has opened charts for these and for other rows"
    if any(not chart.replaces for chart in later):
        yield f"later charts were fitted on top of update {number}"
    for chart in own:
        pool = memory_in(state_of(chart.content))
        if pool is not None and (pool.recent or pool.expert_weights.rows):
            yield f"rows of later updates have joined a chart of update {number}"
        if any(overlap(chart.window.box_in(domain), other.window.box_in(domain)) for other in later):
            yield f"a later chart stands where update {number} has one"


def subtracted(state: State, log: Sequence[Record], record: Record, rows: Rows, is_whole: bool) -> State:
    """The state without the charts of an update, and without its rows in all other memories."""
    routes = learners_of(state, log, record, rows)
    charts = [
        chart_less(chart, record.id, rows.take(routes == k), is_whole)
        for k, chart in enumerate(state.charts)
        if chart.update != record.id
    ]
    remaining = state.with_charts(charts)
    pool, rest = memory_in(state), rows.take(routes == MODEL)
    if pool is None or not len(rest):
        return remaining
    return less(pool, record.id, *as_doubles(rest), is_whole).state_like(remaining)


def chart_less(chart: Chart, update: int, rows: Rows, is_whole: bool) -> Chart:
    """A chart without rows of an update."""
    pool = memory_in(state_of(chart.content))
    if pool is None or not len(rows):
        return chart
    return chart_of(chart, less(pool, update, *local_rows(chart.window, chart.size, rows), is_whole))


def less(
    pool: Pool, update: int, points: Array, targets: Array, weights: Array, is_whole: bool = False
) -> Pool:
    """The pool without rows of an update; if it is recent, its other rows can still be reverted.

    Number 0 is the fit, whose rows are in no sums by level. Features that the update added are removed.
    """
    own = next((batch for batch in pool.recent if batch.update == update), None)
    error_model = None if pool.combined_error_model is None else pool.combined_error_model.forgotten(points)
    if own is not None and is_whole and pool.memory is None:  # subtracts what was added, bit for bit
        total, others = pool.total - own.statistics, [batch for batch in pool.recent if batch is not own]
    else:  # radial basis functions that were added later do not count its rows
        pool = pool.without_growth(None, points)
        total, others = less_rows(pool, update, points, targets, weights)
    rest = restarted(checked(pool, total), total, others, pool.initial, error_model)
    return rest.dropping(pool.held(points, targets, weights), update).without_growth(update, points)


def less_rows(
    pool: Pool, update: int, points: Array, targets: Array, weights: Array
) -> tuple[Statistics, list[Batch]]:
    """Statistics of a pool without rows of an update, and its recent updates without them."""
    sums, batches = pool.summed(points, targets, weights), list(pool.recent)
    total = pool.total - sums if update and pool.fewest == 1 else pool.less(points, targets, weights)
    if pool.fewest > 1:  # sums by level do not record which rows they hold
        keys, sums = pool.features.keys(points), sums.without_levels()
        batches = [replace(b, statistics=b.statistics.without_levels_at(keys)) for b in batches]
    recent = [
        replace(batch, statistics=batch.statistics - sums) if batch.update == update else batch
        for batch in batches
    ]
    return total, [checked_batch(batch) for batch in recent if batch.statistics.count > 0]


def checked_batch(batch: Batch) -> Batch:
    """The batch; raise if rows were subtracted that it never held."""
    if (np.diagonal(batch.statistics.gram) < 0).any():
        raise ValueError(NOT_THERE)
    return batch


def checked(pool: Pool, total: Statistics) -> Pool:
    """The pool; raise if a total cannot be that of a part of its rows."""
    diagonal = np.diagonal(total.gram)
    if (diagonal < 0).any() or (total.square < 0).any() or total.count <= 0:
        raise ValueError(NOT_THERE)
    most = np.sqrt(
        diagonal[:, None] * total.square
    )  # Cauchy–Schwarz, (Σφy)² ≤ Σφ²·Σy²: files without it are refused
    if (np.abs(total.moment) > most * (1 + RELATIVE) + ABSOLUTE).any():
        raise ValueError(NO_DATA)
    return pool


def restarted(
    pool: Pool,
    total: Statistics,
    recent: Sequence[Batch],
    fitted: State | None,
    error_model: ErrorModel | None,
) -> Pool:
    """The pool of a total, some updates of which can be reverted: independent of the order of updates.

    The decayed statistics of errors depend on that order, so only `error_model` is kept.
    """
    candidates = replace(pool, initial=fitted).candidates
    older = reduce(sub, [batch.statistics for batch in recent], total)
    output_mode: OutputMode = "decayed" if pool.output_mode == "decayed" else "cumulative"
    return replace(
        pool,
        checkpoint=older,
        decayed=tuple(sums_of(older) for _ in pool.half_lives),
        expert_weights=ExpertWeights.of(candidates),
        # whichever is reverted, the output mode stays
        recent=tuple(replace(batch.of_first(candidates), seen=None, before=output_mode) for batch in recent),
        initial=fitted,
        output_mode=output_mode,
        error_model=error_model,
        class_weights=None,
    )


# --- rows whose update is not given ----------------------------------------------------------------------


def forget_sums(
    state: State, log: Sequence[Record], digest: str, rows_in: Callable[[Domain], Rows]
) -> tuple[State, list[Record]]:
    """Remove rows from a model that keeps sums alone; returns its state and log.

    Parameters
    ----------
    state, log
        The model.
    digest
        That of the rows. Rows of one update are removed from the memories that received them. Others are
        removed from the model, and refused inside a present or former chart, as sums do not record which
        memory received them.
    rows_in
        The rows in the coordinates of the model, clipped to a domain.
    """
    known = [each for each in log if each.id and each.data == digest]
    record = next((each for each in reversed(known) if each.reverted is None), None)
    if known and record is None:
        raise ValueError(f"the rows are those of update {known[-1].id}, which was reverted: they are gone")
    try:
        if isinstance(record, Update):
            for reason in dependences(state, record, is_whole=True):
                raise ValueError(
                    f"{reason}; revert later updates first, or give the data of all updates to "
                    "atlas_splines.versions.forget"
                )
            state = subtracted(state, log, record, rows_in(record.footprint.domain), is_whole=True)
            now = datetime.now(timezone.utc)
            return state, [replace(each, reverted=now) if each is record else each for each in log]
        rows = rows_in(state.lattice.domain)
        refuse_unclear(state, log, rows)
        state = forget_rows(state, rows)
        pool = needed_pool(state)
        checked(pool, pool.total)
        return state, list(log)
    except ArithmeticError:
        raise ValueError(NOT_THERE) from None


def refuse_unclear(state: State, log: Sequence[Record], rows: Rows) -> None:
    """Refuse rows that may be in a chart, or in the model from before it was opened."""
    standing = [chart for chart in state.charts if chart.window.contains(rows.points).any()]
    if standing:
        count = int(np.any([chart.window.contains(rows.points) for chart in standing], axis=0).sum())
        raise ValueError(
            f"{count:,} of the rows lie where update {standing[-1].update} has opened a chart, and sums do "
            f"not record whether the chart or the model learned them; {WAY_OUT}"
        )
    for record in log:
        if record.kind == "chart" and record.reverted is None and not record.data:
            raise ValueError(
                f"some of the rows may be those of update {record.id}, which are in no sums; {WAY_OUT}"
            )
    for gone in charts_gone_since(log, datetime.min.replace(tzinfo=timezone.utc)):
        if may_hold(gone, rows):
            raise ValueError(
                f"a chart of update {gone.id}, which was reverted, may have learned some of the rows; "
                f"{WAY_OUT}"
            )
