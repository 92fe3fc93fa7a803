"""Change detection: one test decides whether the rows of an update get charts of their own.

Null hypothesis: a chart would not halve the out-of-sample error of the memories that the rows are routed to,
or the rows are distributed as known rows are, so that the change is global. It is rejected by the larger of
two p-values: the intersection-union test of Berger (1982), whose level is that of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, t

from atlas_splines.memory.pool import Pool
from atlas_splines.memory.random_effects import STEPS
from atlas_splines.model.charts import Chart
from atlas_splines.model.lattice import Domain
from atlas_splines.model.resize import reach
from atlas_splines.model.rows import Rows
from atlas_splines.model.splines import cell_count
from atlas_splines.model.state import State, coordinates_of
from atlas_splines.updates.plan import WINDOW_RULES, Count, Cover, plan_windows
from atlas_splines.updates.routing import RoutedRows, blocks, needed_pool
from atlas_splines.updates.solved_charts import solve_chart

__all__ = [
    "CHANGE_RULES",
    "CHARTED",
    "DRIFT",
    "NOISE",
    "ChangeDetectionRules",
    "charts_for",
    "coverage_p_value",
    "gain_p_value",
    "prequential_errors",
    "with_rim",
]

Array = NDArray[np.float64]

RIM = 4 / cell_count(WINDOW_RULES.coarsest)  # of the widest window: three cells, and the one of the rows

NOISE = "noise explains the rows: pooled"
DRIFT = "the rows contradict what was known, and no chart is clearly better: pooled, memories adapt"
CHARTED = "the rows contradict what was known in their place: a chart"


@dataclass(frozen=True)
class ChangeDetectionRules:
    """When a chart is opened. `benchmarks/change_detection.py` prints both kinds of errors of these rules.

    Attributes
    ----------
    level
        False-alarm rate: the share of windows that get a chart although it would not halve the error, or
        although their rows are a random sample of the known ones. With 1e-4 two windows of the first 60
        batches of `transformer` and `beijing` get one, and with this none; it is nominal, as a t-test of five
        blocks assumes normal gains.
    min_gain
        Factor by which a chart has to lower the mean squared error. Predictions with less than that times
        the noise variance leave nothing to gain, so the innovation test uses the same factor.
    min_rows
        Of a chart, at least: with fewer there are not ten in a block of rows that is left out.
    max_charts
        Of a model, at most; then all rows are pooled. Not benchmarked.
    """

    level: float = 1e-5
    min_gain: float = 2.0
    min_rows: int = 50
    max_charts: int = 64


CHANGE_RULES = ChangeDetectionRules()


def charts_for(
    state: State,
    update: int,
    rows: Rows,
    parts: Sequence[RoutedRows],
    cover: Cover,
    charts: Count,
    rules: ChangeDetectionRules = CHANGE_RULES,
) -> tuple[list[Chart], str]:
    """Charts in windows where the test finds a change, and the reason in words."""
    surprising = [part for part in parts if not part.is_noise(rules.min_gain)]
    if not surprising:
        return [], NOISE
    pool = needed_pool(state)
    mask = np.any([part.mask for part in surprising], axis=0) & ~has_new_level(pool, rows.points)
    if mask.sum() < rules.min_rows or len(state.charts) >= rules.max_charts:
        return [], DRIFT
    domain = reach(state, with_rim(state, rows.points))
    every, rows = rows, rows.take(mask)
    out_of_sample, known = prequential_errors(surprising, len(every))[mask], None
    found: list[Chart] = []
    for window in plan_windows(rows.points, domain, cover, charts, state.monotone_inputs):
        inside = np.asarray(window.membership(rows.points) == 1)
        count = int(inside.sum())
        if count < rules.min_rows:
            continue
        if coverage_p_value(coverage_of(pool, window.box_in(domain)), count, len(domain)) > rules.level:
            continue
        own = rows.take(inside)
        solved = solve_chart(update, own, window, pool, blocks(count))
        errors = ((solved.predicted - own.targets) ** 2).mean(axis=1)
        # Memories that were updated with the other blocks predict better than those that were not. A chart
        # that gains too little over the latter is rejected first: block cross-validation costs two updates.
        if gain_p_value(out_of_sample[inside], errors, own.weights, rules) > rules.level:
            continue
        known = known_errors(surprising, len(every))[mask] if known is None else known
        if gain_p_value(known[inside], errors, own.weights, rules) <= rules.level:
            found.append(solved.chart)
    return found, CHARTED if found else DRIFT


def gain_p_value(
    known: Array,
    errors: Array,
    weights: NDArray[np.floating] | None = None,
    rules: ChangeDetectionRules = CHANGE_RULES,
) -> float:
    """One-sided p-value of the hypothesis that a chart does not lower the error by the required factor.

    A paired t-test over blocks of (memory − factor·chart) / (memory + factor·chart). Errors of neighbours in
    time are correlated, so a block counts as one observation; each is between −1 and 1, so a few outliers do
    not decide. With logarithms of the ratio, a chart that is perfect in one block and good in the others was
    missed because of their variance; with these, ten blocks and a level of 1e-4, charts opened on the
    drifting stream `transformer`, whose error grew by 5 %.

    Parameters
    ----------
    known, errors
        Squared out-of-sample errors of the memories and of the chart, shape (rows,).
    weights
        Of the rows.
    rules
        The factor required.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> errors = random.normal(size=100) ** 2
    >>> bool(gain_p_value(20 * random.normal(size=100) ** 2, errors) < 1e-3)
    True
    >>> bool(gain_p_value(random.normal(size=100) ** 2, errors) > 0.5)
    True
    """
    weights = np.ones(len(known)) if weights is None else weights.astype(np.float64)
    least = 1e-12 * max(float(known.mean()), np.finfo(np.float64).tiny)  # neither may be zero
    owner, chart = (
        np.array([np.average(each[part], weights=weights[part]) for part in blocks(len(known))]) + least
        for each in (known, errors)
    )
    chart *= rules.min_gain
    gains = (owner - chart) / (owner + chart)
    if len(gains) < 2:
        return 1.0
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return float(t.sf(gains.mean() / max(error, 1e-12), len(gains) - 1))


def coverage_p_value(coverage: float, rows: int, inputs: int) -> float:
    """P-value of the hypothesis that rows are a random sample of known ones, by the share in their box.

    The bounding box of a random sample holds a share distributed as Beta(rows − 2·inputs + 1, 2·inputs),
    whatever the distribution of rows: a tolerance region (Wilks 1942, Tukey 1947). If known rows lie outside,
    the change is local; otherwise it is global, and the memories adapt to it.

    Examples
    --------
    >>> round(coverage_p_value(0.95, 100, 2), 2), coverage_p_value(0.5, 100, 2) < 1e-4
    (0.26, True)
    """
    if rows < 2 * inputs:
        return 1.0
    return float(beta.cdf(min(coverage, 1.0), rows - 2 * inputs + 1, 2 * inputs))


def coverage_of(pool: Pool, box: Domain) -> float:
    """Share of the known rows in a box (inputs, 2): counted, or estimated where no rows are kept."""
    low, high = box.T
    if pool.memory is None:
        return pool.features.share_in_box(pool.total, low, high)
    kept = pool.memory.rows
    inside = ((kept.points >= low) & (kept.points <= high)).all(axis=1)
    return float(kept.weights[inside].sum(dtype=np.float64) / kept.weights.sum(dtype=np.float64))


def prequential_errors(parts: Sequence[RoutedRows], rows: int) -> Array:
    """Squared prequential error of each row by its memory, shape (rows,); zero without one."""
    errors = np.zeros(rows)
    for part in parts:
        residuals = part.pool.residuals_on(part.phi, part.points, part.targets)
        shares = part.pool.expert_shares
        own = np.tensordot(shares[shares > 0], residuals[shares > 0], axes=1)
        errors[part.mask] = (own**2).mean(axis=1) * (part.size**2).mean()
    return errors


def known_errors(parts: Sequence[RoutedRows], rows: int) -> Array:
    """Squared error of each row in block cross-validation of its memory, shape (rows,); zero without one."""
    errors = np.zeros(rows)
    for part in parts:
        own = part.grown.cross_validated_errors(
            part.pool, part.phi, part.points, part.targets, part.weights, blocks(len(part.points))
        )
        errors[part.mask] = own * (part.size**2).mean()
    return errors


def has_new_level(pool: Pool, points: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Rows with an unseen category, shape (rows,).

    They are encoded as the mean of all levels, where a chart would also predict for known levels. Their
    deviation becomes a random effect of the level instead.
    """
    keys = pool.features.keys(points)
    steps = coordinates_of(keys) * STEPS
    came_later = (keys >= 0) & (steps == np.rint(steps))
    return np.asarray((came_later & ~np.isin(keys, pool.total.levels.keys)).any(axis=1))


def with_rim(state: State, points: NDArray[np.floating]) -> NDArray[np.floating]:
    """Points, and two more that lie the rim of a window beyond those outside the domain.

    Rows outside the domain are predicted as at its nearest face. A chart that reached a face would predict
    all rows beyond it, such as all weeks after its own.
    """
    (lowest, highest), low, high = state.lattice.domain.T, points.min(axis=0), points.max(axis=0)
    ends = np.where(low < lowest, low - RIM, low), np.where(high > highest, high + RIM, high)
    return np.vstack([points, *(end.astype(points.dtype) for end in ends)])
