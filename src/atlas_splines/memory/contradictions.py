"""Contradictions: whether rows that do not fit what is known get charts of their own.

They do if a chart predicts them better, in cross-validation, than anything that their owners could learn from
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.extension import reach
from atlas_splines.core.model import model_in, state_of
from atlas_splines.core.offsets import coordinates_of
from atlas_splines.core.rows import Rows
from atlas_splines.core.splines import cell_count
from atlas_splines.core.state import State
from atlas_splines.evidence.design import design
from atlas_splines.evidence.features import Features
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.presence import Presence
from atlas_splines.evidence.random_effects import STEPS
from atlas_splines.evidence.readout import Prior, sums_of
from atlas_splines.evidence.spread import Spread, telling_inputs
from atlas_splines.memory.chart_learning import usual_size
from atlas_splines.memory.covers import COARSEST_FENCE, Count, Cover, plan_fences
from atlas_splines.memory.owners import Part, blocks, local_rows, needed_pool

__all__ = ["CHARTED", "DRIFT", "LEAST_CHART_ROWS", "NOISE", "charts_for", "with_rim"]

Array = NDArray[np.float64]

CHART_FEATURES = 150  # of a chart
LEAST_CHART_ROWS = 50
ROWS_AN_INPUT = 20  # that varies; fewer cannot tell a change in one place from drift, unless it is obvious
SURE = 2.0  # standard errors by which a chart must be better than the pool
CLEARLY = 0.5  # share of the error of those who know the place that a chart must be below
PURE = 0.9  # share of the rows where a chart says something else, beyond doubt: drift is more in some places
OBVIOUS = 0.02  # share of their error below which there is no doubt
HOPEFUL = 0.2  # share of their error for coarse splines alone, above which a chart is not obvious
MOST_KNOWN = 0.95  # share of the known rows in a box from which on a change is one of everything: drift
LAND = 0.25  # of the width of the first domain, along which rows beyond it spread
RIM = 4 / cell_count(COARSEST_FENCE)  # of the widest fence: three cells, and one that the rows are in
MOST_CHARTS = 64  # of a model; then all rows are pooled

NOISE = "noise explains the rows: pooled"
DRIFT = "the rows contradict what was known, and no chart is clearly better: pooled, memories adapt"
CHARTED = "the rows contradict what was known in their place: a chart"


def charts_for(
    state: State, update: int, rows: Rows, parts: Sequence[Part], cover: Cover, charts: Count
) -> tuple[list[Chart], str]:
    """Charts around rows that contradict what is known, where they are clearly better; and why, in words."""
    strange = [part for part in parts if not part.is_noise]
    if not strange:
        return [], NOISE
    mask = np.any([part.mask for part in strange], axis=0) & ~has_new_level(needed_pool(state), rows.points)
    if mask.sum() < LEAST_CHART_ROWS or len(state.charts) >= MOST_CHARTS:
        return [], DRIFT
    pool, domain = needed_pool(state), reach(state, with_rim(state, rows.points))
    known, rows = known_of(strange, rows).take(mask), rows.take(mask)
    found: list[Chart] = []
    for fence in plan_fences(rows.points, domain, cover, charts, state.monotone_inputs):
        inside = np.asarray(fence.window(rows.points) == 1)
        everywhere = pool.features.crowding(pool.total, *fence.box_in(domain).T) > MOST_KNOWN
        if inside.sum() >= LEAST_CHART_ROWS and not everywhere:
            chart = better_chart(update, rows.take(inside), known.take(inside), fence, pool)
            found += [] if chart is None else [chart]
    return found, CHARTED if found else DRIFT


@dataclass(frozen=True, eq=False)
class Known:
    """What those who own rows say of them.

    Attributes
    ----------
    said
        Predictions before the update, shape (rows, outputs).
    doubt
        Variance of these, shape (rows, outputs).
    errors
        Squared error of each row once its owner has learned all rows but those of its block, shape (rows,).
    """

    said: Array
    doubt: Array
    errors: Array

    def take(self, rows: NDArray[np.bool_]) -> Known:
        """What is said of some of the rows."""
        return Known(self.said[rows], self.doubt[rows], self.errors[rows])


def known_of(parts: Sequence[Part], rows: Rows) -> Known:
    """Ask the owner of each row; of those that have no part nothing is known."""
    shape = rows.targets.shape
    known = Known(np.zeros(shape), np.zeros(shape), np.zeros(len(rows)))
    for part in parts:
        readout = part.pool.most_trusted
        known.said[part.mask] = readout.predict(part.phi, part.levels) * part.size
        known.doubt[part.mask] = readout.leverage(part.phi)[:, None] * readout.noise * part.size**2
        errors = part.grown.errors_in_turn(
            part.pool, part.phi, part.points, part.targets, part.weights, blocks(len(part.points))
        )
        known.errors[part.mask] = errors * (part.size**2).mean()
    return known


def better_chart(update: int, rows: Rows, known: Known, fence: Fence, pool: Pool) -> Chart | None:
    """A chart that learns these rows by evidence of its own; None if it is not clearly better."""
    size = usual_size(rows.targets, pool.loss).astype(pool.dtype)
    points, targets, weights = local_rows(fence, size, rows)
    enough = bool(len(rows) >= ROWS_AN_INPUT * np.count_nonzero(np.ptp(points, axis=0)))
    if not enough and additive_error(points, targets, weights, size) > HOPEFUL * known.errors.mean():
        return None
    chosen, readout = design(points, targets, CHART_FEATURES, signs=pool.features.signs)
    own = Pool.start(chosen, readout.prior, points, targets, weights, loss=pool.loss, dtype=pool.dtype)
    phi, judge = chosen(points), sums_of(own.total).readout(readout.prior)
    left = judge.left_in_turn(phi, targets, own.counted(weights), blocks(len(points)))
    said = (targets - left) * size
    doubt = known.doubt + readout.leverage(phi)[:, None] * readout.noise * size.astype(np.float64) ** 2
    if not is_convincing(rows, known, said, doubt, enough):
        return None
    own = replace(own, fewest=pool.fewest, undo=pool.undo)
    if pool.whole_spread is not None:
        own = replace(own, spread=chart_spread(own, points, targets - left, targets, weights))
    content = model_in(replace(state_of(own.model), evidence=own, signs=chosen.signs))
    return Chart(update, fence, content, size, replaces=True)


def has_new_level(pool: Pool, points: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Rows with a category that no row had so far, shape (rows,).

    All of those lie at the place of the population, among known levels that a chart there would speak for.
    What is new about them becomes an effect of the level.
    """
    keys = pool.features.keys(points)
    steps = coordinates_of(keys) * STEPS
    came_later = (keys >= 0) & (steps == np.rint(steps))
    return np.asarray((came_later & ~np.isin(keys, pool.total.levels.keys)).any(axis=1))


def is_convincing(rows: Rows, known: Known, said: Array, doubt: Array, enough: bool) -> bool:
    """Whether what a chart says of rows that it has not learned is clearly better than what is known of them.

    Parameters
    ----------
    rows, known
        The rows, and what their owners say of them.
    said, doubt
        What the chart says, and the variance of the difference to what is known, shapes (rows, outputs).
    enough
        Whether there are enough rows to tell a change in one place from drift.
    """
    alone = ((said - rows.targets) ** 2).mean(axis=1)
    gain, share = known.errors - alone, alone.mean() / known.errors.mean()
    is_better = gain.mean() > SURE * gain.std() / np.sqrt(len(gain))
    differs = ((said - known.said) ** 2 > SURE**2 * doubt).any(axis=1)
    is_news = in_new_land(rows).mean() > 0.5  # features end at the first domain: the pool cannot learn it
    is_change = share < CLEARLY and differs.mean() >= PURE
    return bool(is_better and (share < OBVIOUS or (enough and (is_news or is_change))))


def chart_spread(own: Pool, points: Array, said: Array, targets: Array, weights: Array) -> Spread:
    """How far off a chart is on its rows, of which each was predicted by others."""
    inputs = telling_inputs(own.features)
    return Spread.of(
        *(points, said, targets, own.counted(weights)),
        inputs=inputs,
        loss=own.loss,
        presence=Presence.of(points, inputs),
        signs=own.features.signs,
    )


def additive_error(points: Array, targets: Array, weights: Array, size: NDArray[np.floating]) -> float:
    """Mean squared error, block by block, of coarse splines alone: to see fast what is not obvious."""
    inputs = points.shape[1]
    splines = Features(inputs, tuple(range(inputs)), (), ())
    pool = Pool.start(splines, Prior.flat(splines.sizes), points, targets, weights, half_lives=())
    left = pool.first.left_in_turn(splines(points), targets, pool.counted(weights), blocks(len(points)))
    return float(((left * size) ** 2).mean())


def in_new_land(rows: Rows) -> NDArray[np.bool_]:
    """Rows outside the unit cube that spread along the input which they leave it by.

    Features are those of the nearest point in it, so the pool learns all but what varies along that input. A
    week of a trend hardly does; the chart that it once got spoke for all weeks to come, and bike hours by
    week had 2 to 14 % more error with it.
    """
    beyond = (rows.points < 0) | (rows.points > 1)
    return np.asarray((beyond & (np.ptp(rows.points, axis=0) >= LAND)).any(axis=1))


def with_rim(state: State, points: NDArray[np.floating]) -> NDArray[np.floating]:
    """Points, and two more as far beyond those outside the domain as the rim of a fence is wide.

    Rows outside a domain are predicted as at its nearest face. A chart that reached up to a face would speak
    for all rows beyond it, such as all weeks after the one that it is of.
    """
    (lowest, highest), low, high = state.lattice.domain.T, points.min(axis=0), points.max(axis=0)
    ends = np.where(low < lowest, low - RIM, low), np.where(high > highest, high + RIM, high)
    return np.vstack([points, *(end.astype(points.dtype) for end in ends)])
