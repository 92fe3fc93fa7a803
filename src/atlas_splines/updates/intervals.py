"""Doubt: what a state with charts knows about its errors, and where it has rows.

Inside a chart its own spread speaks, faded in as its predictions are, equation (23); outside its box not one
bit of it is heard.
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
Ask = Callable[[ErrorModel, State, Array, Array], Array]

# Predictions at which quantiles of a monotone model are looked at: four to each knot of a scale, with splines
# of 13 cells. Eight times as many move a quantile by less than 0.002 standard deviations of the target.
NODES, NODES_BEYOND = 65, 8
KEPT = 2.0**32  # parts of a leverage that are told apart
PIECE = 4096  # rows whose quantiles are held at once, for all nodes


def error_model_of(state: State) -> ErrorModel | None:
    """What a state, or that of a chart's content, knows about its errors."""
    if isinstance(state.pooled, ErrorModel):  # of a chart that was trained
        return state.pooled
    return state.pooled.combined_error_model if isinstance(state.pooled, Pool) else None


def open_ends(state: State) -> Array:
    """How far the slope at either end of each input goes on beyond it, from 0 to 1: shape (inputs, 2)."""
    error_model = error_model_of(state)
    if error_model is None or error_model.data_density is None:
        return np.ones((state.lattice.inputs, 2))
    return error_model.data_density.open_ends


def needed_error_model(state: State) -> ErrorModel:
    """The spread of a state, or a sentence that there is none."""
    error_model = error_model_of(state)
    if error_model is None:
        raise ValueError(
            "this model does not know how far off it is: fit it again with features of at least 1, or update "
            "it with 100 rows or more"
        )
    return error_model


@dataclass(frozen=True)
class Coverage:
    """How rows that were not learned yet lay in the intervals of a coverage.

    Attributes
    ----------
    share
        Share of the rows that did.
    width
        Mean width of intervals, in units of the model's output; nothing is known of that for classes.
    rows
        Weight of these rows.
    """

    share: float
    width: float
    rows: float


def coverage_before_learning(state: State, coverage: float, of_updates: bool = False) -> tuple[Coverage, ...]:
    """Of the rows of the fit, in intervals made without them, or of all rows of updates: for each output.

    Without a spread there is none; of classes together there is one. A share is NaN where nothing was
    watched, as in files of older versions.
    """
    pool = state.pooled
    error_model = pool.combined_error_model if isinstance(pool, Pool) else None
    if error_model is None:
        return ()
    return tuple(coverage_of(scores, coverage, of_updates=of_updates) for scores in error_model.scores)


def coverage_of(
    scores: ConformalScores, coverage: float, size: float = 1.0, of_updates: bool = False
) -> Coverage:
    """How rows that were watched lay in the intervals of a coverage."""
    share, rows = scores.out_of_sample_coverage(coverage, of_updates)
    return Coverage(share, scores.width(coverage) * size, rows)


def recent_coverage(state: State, coverage: float) -> tuple[Coverage, ...]:
    """Of the pooled rows of the latest updates, before each was learned; with the width of now."""
    pool = state.pooled
    if not isinstance(pool, Pool) or pool.combined_error_model is None:
        return ()
    seen = [batch.seen.histograms for batch in pool.recent if isinstance(batch.seen, Residuals)]
    tallies = [reduce(ScoreHistogram.joined, each) for each in zip(*seen, strict=True)]
    watched = int(np.argmin(np.abs(LADDER - coverage)))
    return tuple(
        Coverage(float(histogram.covered[watched]), scores.width(coverage), histogram.rows)
        for histogram, scores in zip(tallies, pool.combined_error_model.scores, strict=False)
    )


def coverage_of_charts(state: State, coverage: float) -> tuple[Coverage, ...]:
    """Of the rows of charts, of parts of each that the other parts have not learned: all charts together."""
    found = [
        [coverage_of(scores, coverage, size) for scores, size in zip(own.scores, sizes, strict=False)]
        for own, sizes in ((error_model_of(state_of(c.content)), c.size.tolist()) for c in state.charts)
        if own is not None
    ]
    return tuple(together(parts) for parts in zip(*found, strict=True))


def together(parts: Sequence[Coverage]) -> Coverage:
    """The mean of some, by their rows."""
    rows = [max(part.rows, 1.0) for part in parts]
    shares, widths = [part.share for part in parts], [part.width for part in parts]
    return Coverage(
        float(np.average(shares, weights=rows)), float(np.average(widths, weights=rows)), float(sum(rows))
    )


def interval_ends(state: State, points: Points, predicted: Array, coverages: Array) -> Array:
    """Ends of intervals, less what is said: shape (rows, outputs, coverages, 2).

    Parameters
    ----------
    state
        A state with a spread.
    points
        Points of its domain, in its dtype, shape (rows, inputs).
    predicted
        Its predictions there, shape (rows, outputs).
    coverages
        Shares of the rows to come that intervals shall hold, shape (coverages,).
    """
    return blended(
        state,
        points,
        predicted,
        lambda error_model, _, at, told: error_model.ends(at, told, coverages),
        sized=True,
    )


def quantile_levels(state: State, points: Points, predicted: Array, quantile: float) -> Array:
    """A quantile of the targets, less what is said: shape (rows, outputs).

    Of a monotone state it goes the way of the mean: along constrained inputs it depends on the
    prediction alone, and prediction and level together never fall as the prediction rises.
    """
    if not len(state.monotone_inputs):
        return free_levels(state, points, predicted, quantile)
    nodes, held = prediction_nodes(state), points.copy()
    held[:, state.monotone_inputs] = 0.5  # scales of older files depend on these inputs
    pieces = [slice(begin, begin + PIECE) for begin in range(0, len(points), PIECE)]
    found = [rising_levels(state, held[rows], predicted[rows], quantile, nodes) for rows in pieces]
    return np.concatenate([np.zeros((0, predicted.shape[1])), *found])


def free_levels(state: State, points: Points, predicted: Array, quantile: float) -> Array:
    """The quantile of the errors where a prediction is said, shape (rows, outputs)."""
    return blended(
        state,
        points,
        predicted,
        lambda error_model, _, at, told: error_model.quantile(at, told, quantile),
        sized=True,
    )


def rising_levels(state: State, points: Points, predicted: Array, quantile: float, nodes: Array) -> Array:
    """Levels that never let a quantile fall as the prediction rises, shape (rows, outputs).

    The mean of the lowest rising function above the quantile and of the highest one below it; the quantile
    itself where it rises. Linear between nodes, shape (nodes, outputs).
    """
    levels = np.stack(
        [free_levels(state, points, np.tile(node, (len(predicted), 1)), quantile) for node in nodes]
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
    """Predictions of each output at which quantiles are looked at, rising: shape (nodes, outputs).

    They depend on the state alone, so a row gets the same quantile whatever rows are beside it. Beyond the
    first predictions levels are constant; some nodes there let the rising function meet the quantile again.
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
        rising = inner + even * (1e-9 * width)  # no two are the same
        beyond = width * np.arange(1, NODES_BEYOND + 1) / NODES_BEYOND
        columns.append(np.concatenate([rising[0] - beyond[::-1], rising, rising[-1] + beyond]))
    return np.stack(columns, axis=1)


def resampled(values: Array, places: Array) -> Array:
    """Values between evenly spaced ones, at places from 0 to 1."""
    return np.interp(places, np.linspace(0, 1, len(values)), values)


def deviations(state: State, points: Points, predicted: Array) -> Array:
    """Standard deviation of the errors: shape (rows, outputs)."""
    return blended(
        state, points, predicted, lambda error_model, _, at, told: error_model.deviation(at, told), sized=True
    )


def largest_surprisal(state: State, points: Points, predicted: Array, coverages: Array) -> Array:
    """The largest −log p of a class that is in the set of a coverage, shape (rows, coverages)."""
    return blended(
        state,
        points,
        predicted,
        lambda error_model, _, at, told: error_model.largest_surprisal(len(at), coverages),
        sized=False,
    )


def support_of(state: State, points: Points) -> Array:
    """How much evidence stands behind predictions, of what known rows have: from 0 to 1, shape (rows,)."""
    return blended(state, points, np.zeros((len(points), state.outputs)), own_support, sized=False)


def own_support(error_model: ErrorModel, state: State, points: Array, _: Array) -> Array:
    """Support by the evidence of one state, without charts."""
    data_density, pool, leverage = needed_density(error_model), state.pooled, None
    if isinstance(pool, Pool) and data_density.counts_leverage:
        leverage = rounded(pool.first.leverage(pool.features(points)))
    return data_density.support(points, leverage)


def rounded(values: Array) -> Array:
    """Values without their last bits, which depend on how many rows are asked about.

    So a chart elsewhere, which leaves fewer of them to others, does not change any.
    """
    digits, exponents = np.frexp(values)
    return np.ldexp(np.rint(digits * KEPT) / KEPT, exponents)


def needed_density(error_model: ErrorModel) -> DataDensity:
    """Where the rows of a spread have been, or a sentence that it is not known."""
    if error_model.data_density is None:
        raise ValueError("this model was fitted by a version that did not count where rows are: fit it again")
    return error_model.data_density


def blended(state: State, points: Points, predicted: Array, ask: Ask, sized: bool) -> Array:
    """What the spread of a state says, and inside charts theirs; `sized` if in units of the target."""
    values = ask(needed_error_model(state), state, points.astype(np.float64), predicted)
    for chart in state.charts:
        content = state_of(chart.content)
        own, membership = error_model_of(content), chart.window.membership(points).astype(np.float64)
        inside = membership > 0
        if own is None or not inside.any():
            continue
        size = chart.size.astype(np.float64)
        local = chart.window.to_local(points[inside]).astype(np.float64)
        found = ask(own, content, local, predicted[inside] / size)
        if sized:
            found = found * size.reshape(1, -1, *[1] * (found.ndim - 2))
        share = membership[inside].reshape(-1, *[1] * (found.ndim - 1))
        values[inside] = (1 - share) * values[inside] + share * found
    return values
