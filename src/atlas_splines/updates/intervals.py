"""Prediction intervals, quantiles, coverage and support of a state with charts.

Conformal prediction (Vovk, Gammerman and Shafer 2005) with the error models of a state and of its charts:
inside a window that of the chart is blended in as its predictions are, equation (23) in docs/math.md; outside
it has no effect on any bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.conformal import LADDER, ConformalScores, ScoreHistogram
from atlas_splines.memory.data_density import DataDensity
from atlas_splines.memory.error_model import ErrorModel, Residuals
from atlas_splines.memory.pool import Pool
from atlas_splines.model.atlas import state_of
from atlas_splines.model.state import State

__all__ = [
    "COVERAGE",
    "Coverage",
    "coverage_before_learning",
    "coverage_of_charts",
    "deviations",
    "error_model_of",
    "interval_ends",
    "largest_surprisal",
    "needed_density",
    "needed_error_model",
    "open_ends",
    "quantile_levels",
    "recent_coverage",
    "support_of",
]

Array = NDArray[np.float64]
Points = NDArray[np.floating]
Quantity = Callable[[ErrorModel, State, Array, Array], Array]

COVERAGE = 0.9  # of the intervals that are drawn, listed and assessed: a convention

# Predictions at which quantiles of a monotone model are evaluated: four to each knot of a scale, with splines
# of 13 cells. Eight times as many move a quantile by less than 0.002 standard deviations of the target.
NODES, NODES_BEYOND = 65, 8
RESOLUTION = 2.0**32  # of a leverage: its last bits depend on the number of rows in a matrix product
PIECE = 4096  # rows whose quantiles are held at once, for all nodes


def error_model_of(state: State) -> ErrorModel | None:
    """The error model of a state, or of a chart's content; None without one."""
    if isinstance(state.pooled, ErrorModel):  # of a chart that was trained
        return state.pooled
    return state.pooled.combined_error_model if isinstance(state.pooled, Pool) else None


def open_ends(state: State) -> Array:
    """Factor of the slope of extrapolation at either end of each input, from 0 to 1: shape (inputs, 2)."""
    error_model = error_model_of(state)
    if error_model is None or error_model.data_density is None:
        return np.ones((state.lattice.inputs, 2))
    return error_model.data_density.open_ends


def needed_error_model(state: State) -> ErrorModel:
    """The error model of a state; raise without one."""
    error_model = error_model_of(state)
    if error_model is None:
        raise ValueError(
            "this model has no error model: fit it again with features of at least 1, or update it with 100 "
            "rows or more"
        )
    return error_model


@dataclass(frozen=True)
class Coverage:
    """Empirical coverage and width of intervals on out-of-sample rows.

    Attributes
    ----------
    share
        Share of the rows inside their intervals.
    width
        Mean width of intervals, in units of the model's output; NaN for classes.
    rows
        Weight of these rows.
    """

    share: float
    width: float
    rows: float


def coverage_before_learning(state: State, coverage: float, of_updates: bool = False) -> tuple[Coverage, ...]:
    """Out-of-sample coverage of the rows of the fit, or prequential coverage of all updates, for each output.

    Empty without an error model; classes have a single entry. A share is NaN where nothing was counted, as in
    files of older versions.
    """
    pool = state.pooled
    error_model = pool.combined_error_model if isinstance(pool, Pool) else None
    if error_model is None:
        return ()
    return tuple(coverage_of(scores, coverage, of_updates=of_updates) for scores in error_model.scores)


def coverage_of(
    scores: ConformalScores, coverage: float, size: float = 1.0, of_updates: bool = False
) -> Coverage:
    """Coverage and width by the counts of conformal scores."""
    share, rows = scores.out_of_sample_coverage(coverage, of_updates)
    return Coverage(share, scores.width(coverage) * size, rows)


def recent_coverage(state: State, coverage: float) -> tuple[Coverage, ...]:
    """Prequential coverage of the pooled rows of the latest updates, with the present width."""
    pool = state.pooled
    if not isinstance(pool, Pool) or pool.combined_error_model is None:
        return ()
    seen = [batch.seen.histograms for batch in pool.recent if isinstance(batch.seen, Residuals)]
    tallies = [reduce(ScoreHistogram.joined, each) for each in zip(*seen, strict=True)]
    level = int(np.argmin(np.abs(LADDER - coverage)))
    return tuple(
        Coverage(float(histogram.covered[level]), scores.width(coverage), histogram.rows)
        for histogram, scores in zip(tallies, pool.combined_error_model.scores, strict=False)
    )


def coverage_of_charts(state: State, coverage: float) -> tuple[Coverage, ...]:
    """Cross-validated coverage of the rows of charts, all charts combined."""
    found = [
        [coverage_of(scores, coverage, size) for scores, size in zip(own.scores, sizes, strict=False)]
        for own, sizes in ((error_model_of(state_of(c.content)), c.size.tolist()) for c in state.charts)
        if own is not None
    ]
    return tuple(weighted_mean(parts) for parts in zip(*found, strict=True))


def weighted_mean(parts: Sequence[Coverage]) -> Coverage:
    """Mean coverage, weighted by rows."""
    rows = [max(part.rows, 1.0) for part in parts]
    shares, widths = [part.share for part in parts], [part.width for part in parts]
    return Coverage(
        float(np.average(shares, weights=rows)), float(np.average(widths, weights=rows)), float(sum(rows))
    )


def interval_ends(state: State, points: Points, predicted: Array, coverages: Array) -> Array:
    """Ends of intervals relative to the predictions, shape (rows, outputs, coverages, 2).

    Parameters
    ----------
    state
        A state with an error model.
    points
        Points of its domain, in its dtype, shape (rows, inputs).
    predicted
        Its predictions there, shape (rows, outputs).
    coverages
        Nominal shares of future rows inside the intervals, shape (coverages,).
    """
    return blended(
        state,
        points,
        predicted,
        lambda error_model, _, at, outputs: error_model.ends(at, outputs, coverages),
        sized=True,
    )


def quantile_levels(state: State, points: Points, predicted: Array, quantile: float) -> Array:
    """A quantile of the targets relative to the predictions, shape (rows, outputs).

    For a monotone state it is monotone too: along constrained inputs it depends on the prediction alone, and
    prediction plus level never decreases with the prediction.
    """
    if not len(state.monotone_inputs):
        return unconstrained_levels(state, points, predicted, quantile)
    nodes, held = prediction_nodes(state), points.copy()
    held[:, state.monotone_inputs] = 0.5  # scales of older files depend on these inputs
    pieces = [slice(begin, begin + PIECE) for begin in range(0, len(points), PIECE)]
    found = [monotone_levels(state, held[rows], predicted[rows], quantile, nodes) for rows in pieces]
    return np.concatenate([np.zeros((0, predicted.shape[1])), *found])


def unconstrained_levels(state: State, points: Points, predicted: Array, quantile: float) -> Array:
    """The quantile of the errors, without constraints, shape (rows, outputs)."""
    return blended(
        state,
        points,
        predicted,
        lambda error_model, _, at, outputs: error_model.quantile(at, outputs, quantile),
        sized=True,
    )


def monotone_levels(state: State, points: Points, predicted: Array, quantile: float, nodes: Array) -> Array:
    """Levels with which the quantile never decreases with the prediction, shape (rows, outputs).

    The mean of the least monotone majorant of the quantile and of its greatest monotone minorant; the
    quantile itself where it increases. Linear between nodes, shape (nodes, outputs).
    """
    levels = np.stack(
        [unconstrained_levels(state, points, np.tile(node, (len(predicted), 1)), quantile) for node in nodes]
    )
    raw = nodes[:, None] + levels  # (nodes, rows, outputs)
    above, below = np.maximum.accumulate(raw), np.minimum.accumulate(raw[::-1])[::-1]
    levels = (above + below) / 2 - nodes[:, None]
    found = np.empty(predicted.shape)
    for k, (own, at) in enumerate(zip(nodes.T, predicted.T, strict=True)):
        left = (np.searchsorted(own, at, side="right") - 1).clip(0, len(own) - 2)
        place = ((at - own[left]) / (own[left + 1] - own[left])).clip(0, 1)
        low, high = (levels[left + side, np.arange(len(at)), k] for side in (0, 1))
        found[:, k] = low + place * (high - low)
    return found


def prediction_nodes(state: State) -> Array:
    """Predictions of each output at which quantiles are evaluated, increasing: shape (nodes, outputs).

    They depend on the state alone, so that the quantile of a row does not depend on other rows. Outside the
    range of the knots levels are constant; the nodes there let the monotone function meet the quantile again.
    """
    charts = ((error_model_of(state_of(chart.content)), chart.size) for chart in state.charts)
    parts = [(needed_error_model(state), np.ones(state.outputs)), *charts]
    even = np.linspace(0, 1, NODES)
    columns = []
    for k in range(state.outputs):
        knots = [
            resampled(float(size[k]) * error_model.scales[k].knots, even)
            for error_model, size in parts
            if error_model
        ]
        inner = resampled(np.sort(np.concatenate(knots)), even)
        width = max(inner[-1] - inner[0], 1e-9)
        rising = inner + even * (1e-9 * width)  # strictly increasing
        beyond = width * np.arange(1, NODES_BEYOND + 1) / NODES_BEYOND
        columns.append(np.concatenate([rising[0] - beyond[::-1], rising, rising[-1] + beyond]))
    return np.stack(columns, axis=1)


def resampled(values: Array, places: Array) -> Array:
    """Values between evenly spaced ones, at places from 0 to 1."""
    return np.interp(places, np.linspace(0, 1, len(values)), values)


def deviations(state: State, points: Points, predicted: Array) -> Array:
    """Standard deviation of the errors: shape (rows, outputs)."""
    return blended(
        state,
        points,
        predicted,
        lambda error_model, _, at, outputs: error_model.deviation(at, outputs),
        sized=True,
    )


def largest_surprisal(state: State, points: Points, predicted: Array, coverages: Array) -> Array:
    """The largest −log p of a class inside the prediction set of a coverage, shape (rows, coverages)."""
    return blended(
        state,
        points,
        predicted,
        lambda error_model, _, at, outputs: error_model.largest_surprisal(len(at), coverages),
        sized=False,
    )


def support_of(state: State, points: Points) -> Array:
    """Support of predictions relative to that of known rows, from 0 to 1, shape (rows,)."""
    return blended(state, points, np.zeros((len(points), state.outputs)), own_support, sized=False)


def own_support(error_model: ErrorModel, state: State, points: Array, _: Array) -> Array:
    """Support by the data density and leverage of one state, without charts."""
    data_density, pool, leverage = needed_density(error_model), state.pooled, None
    if isinstance(pool, Pool) and data_density.counts_leverage:
        leverage = rounded(pool.first.leverage(pool.features(points)))
    return data_density.support(points, leverage)


def rounded(values: Array) -> Array:
    """Values without their last bits, which depend on the number of rows of the call.

    Otherwise a chart, which takes rows of the call, would change the values of the others.
    """
    digits, exponents = np.frexp(values)
    return np.ldexp(np.rint(digits * RESOLUTION) / RESOLUTION, exponents)


def needed_density(error_model: ErrorModel) -> DataDensity:
    """The data density of an error model; raise without one."""
    if error_model.data_density is None:
        raise ValueError(
            "this model was fitted by a version that did not count the density of rows: fit it again"
        )
    return error_model.data_density


def blended(state: State, points: Points, predicted: Array, quantity: Quantity, sized: bool) -> Array:
    """A quantity of the error model, blended with those of charts; `sized` if in units of the target."""
    values = quantity(needed_error_model(state), state, points.astype(np.float64), predicted)
    for chart in state.charts:
        content = state_of(chart.content)
        own, membership = error_model_of(content), chart.window.membership(points).astype(np.float64)
        inside = membership > 0
        if own is None or not inside.any():
            continue
        size = chart.size.astype(np.float64)
        local = chart.window.to_local(points[inside]).astype(np.float64)
        found = quantity(own, content, local, predicted[inside] / size)
        if sized:
            found = found * size.reshape(1, -1, *[1] * (found.ndim - 2))
        share = membership[inside].reshape(-1, *[1] * (found.ndim - 1))
        values[inside] = (1 - share) * values[inside] + share * found
    return values
