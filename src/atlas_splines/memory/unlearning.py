"""Unlearning: rows of updates leave the sums that hold them, as far as the log tells which these are.

Sums do not say whose rows they are of. Who learned the rows of an update follows from its entry in the log,
and from the charts that stood then; where that cannot be told, nothing is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import reduce
from operator import sub

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.charts import Chart, overlap
from atlas_splines.core.lattice import Domain
from atlas_splines.core.model import state_of
from atlas_splines.core.records import Record
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import State
from atlas_splines.evidence.batches import Batch, Voice
from atlas_splines.evidence.expert_weights import ExpertWeights
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.readout import sums_of
from atlas_splines.evidence.spread import Spread
from atlas_splines.evidence.statistics import Statistics
from atlas_splines.memory.footprints import BoxFootprint
from atlas_splines.memory.log import Update
from atlas_splines.memory.owners import (
    ELSEWHERE,
    MODEL,
    as_doubles,
    chart_of,
    evidence_of,
    local_rows,
    needed_pool,
    owners_of,
)
from atlas_splines.memory.pooling import forget_rows

__all__ = [
    "NOT_THERE",
    "checked",
    "dependences",
    "forget_sums",
    "learners_of",
    "less",
    "restarted",
    "subtracted",
]

Array = NDArray[np.float64]

RELATIVE, ABSOLUTE = 1e-6, 1e-9  # by which sums may be off in a file
NO_DATA = (
    "without these rows the sums would be those of no data, as weights of a fit are rounded; fit it again"
)
NOT_THERE = "the sums never held some of the rows; check them"
WAY_OUT = (
    "forget the rows of one update at a time, all of them, or give atlas_splines.versions.forget its data"
)


def learners_of(state: State, log: Sequence[Record], record: Record, rows: Rows) -> NDArray[np.intp]:
    """Who learned rows of an update by evidence: number of a chart, MODEL, or ELSEWHERE if nobody did.

    Rows of an update that trained charts or coefficients are in no sums.
    """
    own = [chart for chart in state.charts if chart.update == record.id]
    if record.kind != "pool" and not any(map(learns, own)):
        return np.full(len(rows), ELSEWHERE)
    for other in charts_gone_since(log, record.time):
        if other.id < record.id and may_hold(other, rows):
            raise ValueError(
                f"rows of update {record.id} may have joined a chart of update {other.id}, which was taken "
                "back since"
            )
    then = state.with_charts(chart for chart in state.charts if chart.update <= record.id)
    owners = owners_of(then, rows)  # charts stand in the order of their updates, so numbers are the same
    for k in np.unique(owners[owners >= 0]).tolist():
        if not knew(log, record, state.charts[k]):
            raise ValueError(
                f"whether rows of update {record.id} have joined a chart of update {state.charts[k].update} "
                "cannot be told"
            )
    return owners


def learns(chart: Chart) -> bool:
    """Whether a chart speaks alone, by evidence that rows can join."""
    return chart.replaces and evidence_of(state_of(chart.content)) is not None


def charts_gone_since(log: Sequence[Record], time: datetime) -> Iterator[Update]:
    """Updates whose charts could be joined at some time, and were taken back later."""
    for record in log:
        if not isinstance(record, Update) or record.kind != "chart" or record.reverted is None:
            continue
        if record.reverted > time and record.settings.get("retention") != "chart":
            yield record


def may_hold(update: Update, rows: Rows) -> bool:
    """Whether a chart of an update, which is gone, may have held some of the rows."""
    if not isinstance(update.footprint, BoxFootprint):  # it was more than its charts
        return True
    return any(bool((fence.window(rows.points) == 1).any()) for fence in update.footprint.fences)


def knew(log: Sequence[Record], record: Record, chart: Chart) -> bool:
    """Whether a chart is known to have stood when an update came: one merged from elsewhere had not.

    Either its evidence tells, or each update since has begun with what an earlier one had left.
    """
    pool = evidence_of(state_of(chart.content))
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
    """Why rows of an update, or all of them, cannot be taken out without the data of others."""
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
        pool = evidence_of(state_of(chart.content))
        if pool is not None and (pool.recent or pool.experts.rows):
            yield f"rows of later updates have joined a chart of update {number}"
        if any(overlap(chart.fence.box_in(domain), other.fence.box_in(domain)) for other in later):
            yield f"a later chart stands where update {number} has one"


def subtracted(state: State, log: Sequence[Record], record: Record, rows: Rows, is_whole: bool) -> State:
    """The state without the charts of an update, and without rows of it in all other evidence."""
    owners = learners_of(state, log, record, rows)
    charts = [
        chart_less(chart, record.id, rows.take(owners == k), is_whole)
        for k, chart in enumerate(state.charts)
        if chart.update != record.id
    ]
    remaining = state.with_charts(charts)
    pool, rest = evidence_of(state), rows.take(owners == MODEL)
    if pool is None or not len(rest):
        return remaining
    return less(pool, record.id, *as_doubles(rest), is_whole).state_like(remaining)


def chart_less(chart: Chart, update: int, rows: Rows, is_whole: bool) -> Chart:
    """A chart without rows of an update."""
    pool = evidence_of(state_of(chart.content))
    if pool is None or not len(rows):
        return chart
    return chart_of(chart, less(pool, update, *local_rows(chart.fence, chart.size, rows), is_whole))


def less(
    pool: Pool, update: int, points: Array, targets: Array, weights: Array, is_whole: bool = False
) -> Pool:
    """The pool without rows of an update; if it is recent, what is left of it can still be taken back.

    Number 0 is the fit, whose rows are in no sums by level. Features that came with the update go too.
    """
    own = next((batch for batch in pool.recent if batch.update == update), None)
    spread = None if pool.whole_spread is None else pool.whole_spread.forgotten(points)
    if own is not None and is_whole and pool.memory is None:  # as it was added, to the bit
        total, others = pool.total - own.statistics, [batch for batch in pool.recent if batch is not own]
    else:  # it may have come before bumps that reach its rows, and is not counted in these then
        pool = pool.without_growth(None, points)
        total, others = less_rows(pool, update, points, targets, weights)
    rest = restarted(checked(pool, total), total, others, pool.fitted, spread)
    return rest.dropping(pool.held(points, targets, weights), update).without_growth(update, points)


def less_rows(
    pool: Pool, update: int, points: Array, targets: Array, weights: Array
) -> tuple[Statistics, list[Batch]]:
    """The sums of a pool without rows of an update, and its recent updates without them."""
    sums, batches = pool.summed(points, targets, weights), list(pool.recent)
    total = pool.total - sums if update and pool.fewest == 1 else pool.less(points, targets, weights)
    if pool.fewest > 1:  # which rows of a level are in its sums is not known
        keys, sums = pool.features.keys(points), sums.without_levels()
        batches = [replace(b, statistics=b.statistics.without_levels_at(keys)) for b in batches]
    recent = [
        replace(batch, statistics=batch.statistics - sums) if batch.update == update else batch
        for batch in batches
    ]
    return total, [checked_batch(batch) for batch in recent if batch.statistics.count > 0]


def checked_batch(batch: Batch) -> Batch:
    """A batch, or a sentence that rows were taken out of it that it never had."""
    if (np.diagonal(batch.statistics.gram) < 0).any():
        raise ValueError(NOT_THERE)
    return batch


def checked(pool: Pool, total: Statistics) -> Pool:
    """The pool, or a sentence that a total is not that of a part of its rows."""
    diagonal = np.diagonal(total.gram)
    if (diagonal < 0).any() or (total.square < 0).any() or total.count <= 0:
        raise ValueError(NOT_THERE)
    most = np.sqrt(diagonal[:, None] * total.square)  # (Σφy)² ≤ Σφ²·Σy²: a file with others is not written
    if (np.abs(total.moment) > most * (1 + RELATIVE) + ABSOLUTE).any():
        raise ValueError(NO_DATA)
    return pool


def restarted(
    pool: Pool, total: Statistics, recent: Sequence[Batch], fitted: State | None, spread: Spread | None
) -> Pool:
    """The pool of a total, of which some updates can be taken back: a function of these, and of no order.

    What updates have taught of errors fades, and so depends on their order: `spread` is what is kept.
    """
    candidates = replace(pool, fitted=fitted).candidates
    older = reduce(sub, [batch.statistics for batch in recent], total)
    voice: Voice = "fading" if pool.voice == "fading" else "exact"
    return replace(
        pool,
        older=older,
        faded=tuple(sums_of(older) for _ in pool.half_lives),
        experts=ExpertWeights.of(candidates),
        # whichever is taken back, who speaks goes on
        recent=tuple(replace(batch.of_first(candidates), seen=None, before=voice) for batch in recent),
        fitted=fitted,
        voice=voice,
        spread=spread,
        class_weights=None,
    )


# --- rows of which nobody says when they came -----------------------------------------------------------


def forget_sums(
    state: State, log: Sequence[Record], digest: str, rows_in: Callable[[Domain], Rows]
) -> tuple[State, list[Record]]:
    """The state of a model that keeps sums alone without some rows, and its log.

    Parameters
    ----------
    state, log
        The model.
    digest
        That of the rows: those of one update leave whoever learned them. Others leave the sums of the model,
        and are refused where a chart stands or has stood, for nobody knows who learned them.
    rows_in
        The rows in the coordinates of the model, those beyond a domain at its edge.
    """
    known = [each for each in log if each.id and each.data == digest]
    record = next((each for each in reversed(known) if each.reverted is None), None)
    if known and record is None:
        raise ValueError(f"the rows are those of update {known[-1].id}, which was taken back: they are gone")
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
    """Refuse rows that a chart may have learned, or the model before it was opened."""
    standing = [chart for chart in state.charts if chart.fence.contains(rows.points).any()]
    if standing:
        count = int(np.any([chart.fence.contains(rows.points) for chart in standing], axis=0).sum())
        raise ValueError(
            f"{count:,} of the rows lie where update {standing[-1].update} has opened a chart, and sums do "
            f"not tell who learned them; {WAY_OUT}"
        )
    for record in log:
        if record.kind == "chart" and record.reverted is None and not record.data:
            raise ValueError(
                f"some of the rows may be those of update {record.id}, which are in no sums; {WAY_OUT}"
            )
    for gone in charts_gone_since(log, datetime.min.replace(tzinfo=timezone.utc)):
        if may_hold(gone, rows):
            raise ValueError(
                f"a chart of update {gone.id}, which was taken back, may have learned some of the rows; "
                f"{WAY_OUT}"
            )
