"""Blame: a prediction as an exact sum over what was learned.

With features, length scales, boxes and shares as they are, what a model predicts is linear in the targets
that it has learned: φᵀΛ⁻¹Σφy over rows and updates for the smooth part, and kᵀ(K + R)⁻¹y over the rows of a
box, (62) of docs/math.md. What a row adds to a local regression on residuals is what it has left of its own
target. Scores of classes are no linear function of labels; at their optimum they are one of the residuals
y − p, with the curvature that the optimiser sees (the representer theorem). Whatever is not attributed (rows
that are no longer kept, and rounding to float32) is the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from atlas_splines.memory.box_regression import BoxRegression, LinearPart
from atlas_splines.memory.candidates import recent_rules_of
from atlas_splines.memory.features import Features
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.local_memory import Mixture, Regression
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.posterior import Posterior, sums_of
from atlas_splines.memory.softmax import CLASS_RULES
from atlas_splines.memory.statistics import UNIT, on_grid
from atlas_splines.model.atlas import state_of
from atlas_splines.model.charts import Chart, visible_charts
from atlas_splines.model.evaluate import evaluate_anywhere
from atlas_splines.model.state import State, levelled

__all__ = ["Influences", "RowBlame", "blamed"]

Array = NDArray[np.float64]
Numbers = NDArray[np.intp]

MOST_NUMBERS = 2**22  # in an array of influences
SAME = 1e-6  # relative difference of sums that rounding explains
FIT = 0  # number of the fit among updates


@dataclass(frozen=True, eq=False)
class RowBlame:
    """Rows that raise and that lower a prediction most.

    Attributes
    ----------
    numbers
        Numbers of the rows among those that are held, shape (points, rows): those with the largest
        contributions of either sign, from the most positive to the most negative.
    values
        Their contributions, shape (points, rows).
    updates
        The update that each came with, 0 for the fit, of the same shape.
    """

    numbers: Numbers
    values: Array
    updates: Numbers


@dataclass(frozen=True, eq=False)
class Influences:
    """Contributions to outputs at points.

    Attributes
    ----------
    updates
        Numbers of the updates, 0 for the fit, rising.
    values
        Shape (points, updates, outputs).
    rest
        What is not attributed, shape (points, outputs).
    rows
        Of the first output (of two classes: of their difference), if rows are held.
    """

    updates: tuple[int, ...]
    values: Array
    rest: Array
    rows: RowBlame | None


def blamed(
    state: State,
    points: Array,
    origins: Numbers | None = None,
    direction: Array | None = None,
    most: int = 10,
) -> Influences:
    """Outputs at points, shape (points, inputs), as sums over updates.

    Parameters
    ----------
    state
        The state.
    points
        In the domain or not.
    origins
        The update of each row that the memory of the state holds, if that differs from what it has noted.
    direction
        How outputs are weighed to rank rows, shape (outputs,).
    most
        Rows for and against.
    """
    inside = points.clip(*state.lattice.domain.T).astype(state.dtype).astype(np.float64)
    pool = state.pooled if isinstance(state.pooled, Pool) else None
    found = _Sum(len(points), state.outputs)
    rows: RowBlame | None = None
    if pool is None:
        below = state.with_charts(())
        found.add(FIT, evaluate_anywhere(below, points))
    elif pool.memory is not None:
        own = pool.memory.newest.updates if origins is None else origins[-len(pool.memory.newest) :]
        weights = np.eye(state.outputs)[0] if direction is None else direction
        parts = [
            _chunk(pool, state, points[some], inside[some], own.astype(np.intp), weights, most, found, some)
            for some in _pieces(len(points), len(own) * state.outputs)
        ]
        rows = RowBlame(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("numbers", "values", "updates")
            )
        )
    else:
        _add_sums(pool, inside, found, FIT, np.ones(len(points)), np.ones(state.outputs))
    for chart in visible_charts(state.charts, state.lattice.domain):
        membership = chart.window.membership(inside).astype(np.float64)
        if chart.replaces:
            found.scale(1 - membership)
            if rows is not None:
                rows = RowBlame(rows.numbers, rows.values * (1 - membership)[:, None], rows.updates)
        _add_chart(chart, inside, membership, found)
    predicted = evaluate_anywhere(state, points)
    updates = tuple(sorted(found.parts))
    values = (
        np.stack([found.parts[number] for number in updates], axis=1)
        if updates
        else np.zeros((len(points), 0, state.outputs))
    )
    return Influences(updates, values, predicted - values.sum(axis=1), rows)


@dataclass
class _Sum:
    """Contributions while they are summed."""

    points: int
    outputs: int
    parts: dict[int, Array] = field(default_factory=dict)

    def add(self, update: int, values: Array, some: slice = slice(None)) -> None:
        own = self.parts.setdefault(update, np.zeros((self.points, self.outputs)))
        own[some] += values

    def scale(self, share: Array) -> None:
        for values in self.parts.values():
            values *= share[:, None]


def _pieces(points: int, size: int) -> Iterator[slice]:
    step = max(MOST_NUMBERS // max(size, 1), 1)
    return (slice(begin, min(begin + step, points)) for begin in range(0, points, step))


# --- rows that are held ---------------------------------------------------------------------------------


def _chunk(
    pool: Pool,
    state: State,
    points: Array,
    inside: Array,
    origins: Numbers,
    direction: Array,
    most: int,
    found: _Sum,
    some: slice,
) -> RowBlame:
    """Contributions of all held rows to some points, summed by update."""
    assert pool.memory is not None
    influence = _pool_rows(pool, inside)
    later = None if state.later is None else state.later.includes(inside)
    if state.later is not None and later is not None and later.any() and pool.memory.later is not None:
        # what predicts beyond the end of a clock is another mixture of the same rows
        beyond = points[later] - points[later].clip(0, 1)
        unit = inside[later].clip(0, 1)
        line = unit + np.sign(beyond) * levelled(np.abs(beyond))  # the linear part goes on beyond the cube
        base = _mixture_rows(pool, pool.memory.later, unit, line)
        influence[later] = pool.base_share * base + _other_rows(pool, unit)
    for number in np.unique(origins):
        found.add(int(number), influence[:, origins == number].sum(axis=1), some)
    single = influence @ direction
    order = np.argsort(-single, axis=1, kind="stable")
    ends = min(most, order.shape[1] // 2 + order.shape[1] % 2)
    chosen = np.concatenate([order[:, :ends], order[:, max(order.shape[1] - most, ends) :]], axis=1)
    return RowBlame(chosen, np.take_along_axis(single, chosen, axis=1), origins[chosen])


def _pool_rows(pool: Pool, inside: Array) -> Array:
    """Contributions of the rows of a pool at points of the unit cube, shape (points, rows, outputs)."""
    assert pool.memory is not None
    unit = inside.clip(0, 1)
    found = _other_rows(pool, unit)
    if pool.base_share > 0:
        found += pool.base_share * _mixture_rows(pool, pool.memory.known, unit)
    return found


def _other_rows(pool: Pool, unit: Array) -> Array:
    """Those of all candidates but the base: statistics, recent local regressions, and effects of levels."""
    memory = pool.memory
    assert memory is not None
    rows, features = memory.newest, pool.features
    found = np.zeros((len(unit), len(rows), pool.total.outputs))
    phi = features(unit)
    keys = features.keys(unit)
    for k, share in enumerate(pool.expert_shares[: 1 + len(pool.half_lives)].tolist()):
        if share > 0:
            posterior = pool.posteriors[k]
            decay = np.ones(len(rows)) if k == 0 else _decays(pool, k - 1, rows)
            found += pool.inverse_temperature * share * _smooth_rows(posterior, features, rows, decay, phi)
            found += pool.inverse_temperature * share * _level_rows(posterior, features, rows, decay, keys)
    effects = pool.base_effects
    if effects is not None and pool.kept_share:
        found += (
            pool.inverse_temperature
            * pool.kept_share
            * _level_rows(pool.first, features, rows, np.ones(len(rows)), keys)
        )
    if any(pool.recent_shares):
        regression = memory.regression(features, pool.first, pool.loss)
        rules = recent_rules_of(pool.loss)
        for k, share in enumerate(pool.recent_shares):
            if share > 0:
                boxed = memory._recent(k, rules)
                begin = len(rows) - boxed.ends[-1]
                part = _box_rows(boxed, unit, regression.targets[begin:])
                found[:, begin:] += pool.inverse_temperature * share * part
    return found


def _mixture_rows(pool: Pool, mixture: Mixture, unit: Array, line: Array | None = None) -> Array:
    """Contributions of rows to the mixture of parts that a local memory predicts by.

    The linear part may be evaluated at other points.
    """
    memory = pool.memory
    assert memory is not None
    regression = memory.regression(pool.features, pool.first, pool.loss)
    rows = regression.rows
    found = np.zeros((len(unit), len(rows), pool.total.outputs))
    if mixture.smooth:
        phi = pool.features(unit)
        if pool.loss == "cross-entropy":
            found += mixture.smooth * _class_rows(pool, regression, phi)
        else:
            found += mixture.smooth * _smooth_rows(pool.first, pool.features, rows, np.ones(len(rows)), phi)
    if mixture.linear:
        found += mixture.linear * _linear_rows(rows, unit if line is None else line, regression)
    for part in mixture.components:
        if part.share > 0:
            boxed = regression.in_boxes(part.kernel)
            found += part.share * _box_rows(boxed, unit, regression.left_by(part.of))
    return found


def _smooth_rows(posterior: Posterior, features: Features, rows: HeldRows, decay: Array, phi: Array) -> Array:
    """φᵀΛ⁻¹φ_i·y_i of each row, with features and targets on the grid of the sums."""
    solved = _inverse(posterior, phi)  # (points, features)
    found = np.empty((len(phi), len(rows), rows.targets.shape[1]))
    for some in _pieces(len(rows), len(features)):
        own = rows.take(some)
        points, weights = own.points.astype(np.float64), own.weights.astype(np.float64)
        targets = own.targets.astype(np.float64)
        whole, grid, root = on_grid(features(points), targets, weights, posterior.weights.shape)
        grid = grid / UNIT
        if posterior.effects is not None:  # the weights leave effects to the levels, (45)
            in_sums = (own.updates > 0)[:, None]
            grid = grid - root / UNIT * np.where(in_sums, posterior.effects.at(features.keys(points)), 0.0)
        influence = (solved @ (whole / UNIT).T) * decay[some]
        found[:, some] = influence[:, :, None] * grid
    return found


def _level_rows(
    posterior: Posterior, features: Features, rows: HeldRows, decay: Array, keys: Numbers
) -> Array:
    """What each row adds to the effects of the levels of points: its rest over the precision, (45)."""
    effects = posterior.effects
    found = np.zeros((len(keys), len(rows), rows.targets.shape[1]))
    if effects is None:
        return found
    points = rows.points.astype(np.float64)
    own = features.keys(points)
    left = rows.targets.astype(np.float64) - posterior.predict(features(points), own)
    weights = rows.weights.astype(np.float64) * decay * (rows.updates > 0)
    for column in range(keys.shape[1]):
        same = (keys[:, column, None] == own[None, :, column]) & (keys[:, column, None] >= 0)
        number = np.searchsorted(effects.keys, own[:, column]).clip(0, max(len(effects.keys) - 1, 0))
        known = effects.keys[number] == own[:, column] if len(effects.keys) else np.zeros(len(rows), bool)
        value = np.where(known[:, None], effects.values[number], 0.0)
        each = np.where(known[:, None], weights[:, None] * (left + value) / effects.precision[number], 0.0)
        found += same[:, :, None] * each
    return found


def _inverse(posterior: Posterior, phi: Array) -> Array:
    """Λ⁻¹φ of each point, shape (points, features); on the face of a cone where weights lie on one."""
    basis = None if posterior.face is None else posterior.face.basis
    seen = phi if basis is None else phi @ basis
    solved = cho_solve((posterior.factor, True), seen.T, check_finite=False).T
    return np.asarray(solved if basis is None else solved @ basis.T)


def _decays(pool: Pool, number: int, rows: HeldRows) -> Array:
    """What each row counts in decayed statistics: by the rows of later updates, or by its own age."""
    life = pool.half_lives[number]
    weights = rows.weights.astype(np.float64)
    order, first = np.unique(rows.updates, return_index=True)
    counts = np.array([weights[rows.updates == update].sum() for update in order[np.argsort(first)]])
    later = counts[::-1].cumsum()[::-1] - counts
    by_update = dict(zip(order[np.argsort(first)].tolist(), (0.5 ** (later / life)).tolist(), strict=True))
    keep = np.array([by_update[update] for update in rows.updates.tolist()])
    is_first = rows.updates == order[np.argsort(first)][0]
    aged = keep * np.where(
        is_first, 0.5 ** (np.arange(int(is_first.sum()) - 1, -1, -1)[np.cumsum(is_first) - 1] / life), 1.0
    )
    moment = pool.decaying[number].moment
    size = np.abs(moment).max()
    for candidate in (keep, aged):  # which of the two it was shows in the sums
        found = np.zeros_like(moment)
        for some in _pieces(len(rows), len(pool.features)):
            own = rows.take(some)
            phi = pool.features(own.points.astype(np.float64))
            found += phi.T @ ((weights * candidate)[some, None] * own.targets)
        if np.abs(found - moment).max() < 1e3 * SAME * size:
            return candidate
    return keep


def _linear_rows(rows: HeldRows, unit: Array, regression: Regression) -> Array:
    """Contributions of rows to the linear part: ridge regression on standardised coordinates."""
    weights, targets = regression.distinct.row_weights, regression.targets
    influence = LinearPart.influences(rows.points, weights, unit)
    return np.asarray(influence[:, :, None] * targets)


def _box_rows(boxed: BoxRegression, unit: Array, targets: Array) -> Array:
    """kᵀC⁻¹ of the box of each point, times what each row has to explain: (points, rows, outputs)."""
    points = np.ascontiguousarray(unit, np.float32)
    own = boxed.boxes.find(points)
    rows = boxed.rows
    influence = np.zeros((len(unit), len(rows.points)))
    rates = boxed.kernel.rates.astype(np.float64)
    for box in np.unique(own).tolist():
        inside, here = boxed.inside[box], own == box
        if not len(inside):
            continue
        distances = np.zeros((len(inside), int(here.sum())))
        for j in np.flatnonzero(rates):
            apart = rows.points[inside, j].astype(np.float64)[:, None] - points[here, j].astype(np.float64)
            distances += rates[j] * np.abs(apart)
        influence[np.ix_(here, inside)] = boxed.factor(box).solve(1 + np.exp(-distances)).T
    by_row = influence[:, rows.place] * (rows.row_weights / rows.weights[rows.place])
    return np.asarray(by_row[:, :, None] * targets)


def _class_rows(pool: Pool, regression: Regression, phi: Array) -> Array:
    """Contributions of rows to smooth scores of classes, by the residuals y − p at their optimum."""
    rules, rows = CLASS_RULES, regression.rows
    found = np.zeros((len(phi), len(rows), pool.total.outputs))
    if pool.first.prior.cone is not None:
        return found
    weights, targets = regression.distinct.row_weights, regression.targets
    step = -(-len(rows) // rules.most_rows)
    own = rows.take(slice(None, None, step))
    features = pool.features(own.points.astype(np.float64))
    scores = features @ regression.smooth_weights
    chances, weighed = softmax(scores, axis=1), weights[::step, None]
    curvature = np.maximum((chances * (1 - chances)).max(axis=1), rules.least_curvature)[:, None]
    precision = pool.first.prior.diagonal / rules.weaker_prior
    lower = cho_factor(features.T @ (weighed * curvature * features) + np.diag(precision), lower=True)
    influence = cho_solve(lower, phi.T).T @ features.T  # (points, rows)
    found[:, ::step] = influence[:, :, None] * (weighed * (curvature * scores + targets[::step] - chances))
    return found


# --- sums alone -----------------------------------------------------------------------------------------


def _add_sums(pool: Pool, unit: Array, found: _Sum, first: int, membership: Array, size: Array) -> None:
    """Contributions by update of a pool that keeps sums: those of older updates are one with the first."""
    unit = unit.clip(0, 1)
    phi = pool.features(unit)

    def add(update: int, values: Array) -> None:
        found.add(update, membership[:, None] * size * values)

    for k, share in enumerate(pool.expert_shares[: 1 + len(pool.half_lives)].tolist()):
        if share > 0:
            solved = pool.inverse_temperature * share * _inverse(pool.posteriors[k], phi)
            for update, sums in _moments(pool, k, first):
                add(update, solved @ sums)
    if pool.base_share > 0 and pool.initial is not None:
        add(first, pool.base_share * evaluate_anywhere(pool.initial, unit))


def _moments(pool: Pool, memory: int, first: int) -> list[tuple[int, Array]]:
    """Σφy of each update as one memory holds it, the first one's with all that are older."""
    if not memory:
        parts = [(first, sums_of(pool.checkpoint).moment)]
        return parts + [(batch.update, batch.sums.moment) for batch in pool.recent]
    life, keep, parts = pool.half_lives[memory - 1], 1.0, []
    for batch in pool.recent[::-1]:
        parts.append((batch.update, keep * batch.sums.moment))
        keep *= 0.5 ** (batch.sums.count / life)
    return [(first, keep * pool.decayed[memory - 1].moment), *parts[::-1]]


def _add_chart(chart: Chart, inside: Array, membership: Array, found: _Sum) -> None:
    """Contributions of the content of a chart, which came with its update or joined it later."""
    content = state_of(chart.content)
    pool = content.pooled if isinstance(content.pooled, Pool) else None
    local = chart.window.to_local(inside).astype(content.dtype).astype(np.float64)
    size = chart.size.astype(np.float64)
    near = membership > 0
    if pool is None or pool.memory is not None or pool.loss == "cross-entropy":
        values = np.zeros((len(inside), found.outputs))
        values[near] = membership[near, None] * size * evaluate_anywhere(content, local[near])
        found.add(chart.update, values)
        return
    _add_sums(pool, local, found, chart.update, membership, size)
