"""Change detection: whether the rows of an update get charts of their own.

They do if one test says so. Its null hypothesis is that a chart would not halve the out-of-sample error of
what the owners of the rows could learn from them, or that the rows lie where known rows do, so that the
world has changed everywhere. The larger of two p-values rejects it (Berger's intersection-union test, whose
level is that of each).
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
from atlas_splines.updates.plan import COARSEST_FENCE, Count, Cover, plan_windows
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

RIM = 4 / cell_count(COARSEST_FENCE)  # of the widest fence: three cells, and one that the rows are in
MOST_CHARTS = 64  # of a model; then all rows are pooled

NOISE = "noise explains the rows: pooled"
DRIFT = "the rows contradict what was known, and no chart is clearly better: pooled, memories adapt"
CHARTED = "the rows contradict what was known in their place: a chart"


@dataclass(frozen=True)
class ChangeDetectionRules:
    """When a chart is opened. `benchmarks/change_detection.py` prints both kinds of errors of these rules.

    Attributes
    ----------
    level
        Rate of false alarms: of windows in which no chart would halve the error, or of which the rows are a
        random sample of the known ones, so many at most get one. With 1e-4 two windows of the first 60
        batches of `transformer` and `beijing` get one, and with this none; it is nominal, as a t-test of five
        blocks takes gains for normal.
    min_gain
        Factor by which a chart has to lower the mean squared error. Whoever predicts rows with less than
        that times the error of their noise has nothing to gain, so the same factor tells which rows noise
        explains.
    min_rows
        Of a chart, at least: with fewer there are not ten in a block of rows that is left out.
    """

    level: float = 1e-5
    min_gain: float = 2.0
    min_rows: int = 50


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
    """Charts around rows that contradict what is known, where the test finds a change; and why, in words."""
    strange = [part for part in parts if not part.is_noise(rules.min_gain)]
    if not strange:
        return [], NOISE
    pool = needed_pool(state)
    mask = np.any([part.mask for part in strange], axis=0) & ~has_new_level(pool, rows.points)
    if mask.sum() < rules.min_rows or len(state.charts) >= MOST_CHARTS:
        return [], DRIFT
    domain = reach(state, with_rim(state, rows.points))
    every, rows = rows, rows.take(mask)
    out_of_sample, known = prequential_errors(strange, len(every))[mask], None
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
        # owners that have learned the other blocks predict better than those that have learned none: a chart
        # that gains too little on these would not gain enough, and to learn blocks takes twice an update
        if gain_p_value(out_of_sample[inside], errors, own.weights, rules) > rules.level:
            continue
        known = known_errors(strange, len(every))[mask] if known is None else known
        if gain_p_value(known[inside], errors, own.weights, rules) <= rules.level:
            found.append(solved.chart)
    return found, CHARTED if found else DRIFT


def gain_p_value(
    known: Array,
    errors: Array,
    weights: NDArray[np.floating] | None = None,
    rules: ChangeDetectionRules = CHANGE_RULES,
) -> float:
    """One-sided p-value of "a chart does not lower the error by the factor that is asked for".

    A paired t-test over the blocks that were left out, of (owner − factor·chart) / (owner +
    factor·chart): errors of neighbours in time are alike, so a block counts as one observation, and as
    each is between −1 and 1, a few wild rows do not decide. With logarithms of the ratio, a chart that is
    perfect in one block and good in the others was missed for the variance; with these, ten blocks and a
    level of 1e-4, charts opened on the drifting stream `transformer`, whose error grew by 5 %.

    Parameters
    ----------
    known, errors
        Squared out-of-sample errors of the owners and of the chart, shape (rows,).
    weights
        Of the rows.
    rules
        Factor that is asked for.

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
    """P-value of "the rows are a random sample of the known ones", by the share of these in their box.

    The box of a random sample holds a share with the distribution Beta(rows − 2·inputs + 1, 2·inputs),
    whatever the distribution of rows: each of its faces takes one row (Wilks 1942, Tukey 1947). If known
    rows are outside, the change is in one place; otherwise it is one of everything, and memories adapt to
    it.

    Examples
    --------
    >>> round(coverage_p_value(0.95, 100, 2), 2), coverage_p_value(0.5, 100, 2) < 1e-4
    (0.26, True)
    """
    if rows < 2 * inputs:
        return 1.0
    return float(beta.cdf(min(coverage, 1.0), rows - 2 * inputs + 1, 2 * inputs))


def coverage_of(pool: Pool, box: Domain) -> float:
    """Share of the known rows in a box (inputs, 2): counted, or by radial basis functions without rows."""
    low, high = box.T
    if pool.memory is None:
        return pool.features.share_in_box(pool.total, low, high)
    kept = pool.memory.rows
    inside = ((kept.points >= low) & (kept.points <= high)).all(axis=1)
    return float(kept.weights[inside].sum(dtype=np.float64) / kept.weights.sum(dtype=np.float64))


def prequential_errors(parts: Sequence[RoutedRows], rows: int) -> Array:
    """Squared error of each row by its owner before it has learned any of them; zero without one."""
    errors = np.zeros(rows)
    for part in parts:
        residuals = part.pool.residuals_on(part.phi, part.points, part.targets)
        shares = part.pool.expert_shares
        own = np.tensordot(shares[shares > 0], residuals[shares > 0], axes=1)
        errors[part.mask] = (own**2).mean(axis=1) * (part.size**2).mean()
    return errors


def known_errors(parts: Sequence[RoutedRows], rows: int) -> Array:
    """Squared error of each row once its owner has learned all others but its block; zero without one."""
    errors = np.zeros(rows)
    for part in parts:
        own = part.grown.cross_validated_errors(
            part.pool, part.phi, part.points, part.targets, part.weights, blocks(len(part.points))
        )
        errors[part.mask] = own * (part.size**2).mean()
    return errors


def has_new_level(pool: Pool, points: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Rows with a category that no row had so far, shape (rows,).

    All of those lie at the place of the population, among known levels that a chart there would predict for.
    What is new about them becomes an effect of the level.
    """
    keys = pool.features.keys(points)
    steps = coordinates_of(keys) * STEPS
    came_later = (keys >= 0) & (steps == np.rint(steps))
    return np.asarray((came_later & ~np.isin(keys, pool.total.levels.keys)).any(axis=1))


def with_rim(state: State, points: NDArray[np.floating]) -> NDArray[np.floating]:
    """Points, and two more as far beyond those outside the domain as the rim of a fence is wide.

    Rows outside a domain are predicted as at its nearest face. A chart that reached up to a face would
    predict all rows beyond it, such as all weeks after the one that it is of.
    """
    (lowest, highest), low, high = state.lattice.domain.T, points.min(axis=0), points.max(axis=0)
    ends = np.where(low < lowest, low - RIM, low), np.where(high > highest, high + RIM, high)
    return np.vstack([points, *(end.astype(points.dtype) for end in ends)])
