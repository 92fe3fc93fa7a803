"""Doubt: what a state with charts knows about its errors, and where it has rows.

Inside a chart its own spread speaks, faded in as its predictions are, equation (23); outside its box not one
bit of it is heard.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.model import state_of
from atlas_splines.core.state import State
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.spread import Spread

__all__ = ["deviations", "interval_ends", "most_surprise", "quantile_levels", "spread_of", "support_of"]

Array = NDArray[np.float64]
Points = NDArray[np.floating]
Ask = Callable[[Spread, State, Array, Array], Array]


def spread_of(state: State) -> Spread | None:
    """What a state, or that of a chart's content, knows about its errors."""
    if isinstance(state.evidence, Spread):  # of a chart that was trained
        return state.evidence
    return state.evidence.whole_spread if isinstance(state.evidence, Pool) else None


def needed_spread(state: State) -> Spread:
    """The spread of a state, or a sentence that there is none."""
    spread = spread_of(state)
    if spread is None:
        raise ValueError(
            "this model does not know how far off it is: fit it again with features of at least 1, or update "
            "it with 100 rows or more"
        )
    return spread


def interval_ends(state: State, points: Points, said: Array, coverages: Array) -> Array:
    """Ends of intervals, less what is said: shape (rows, outputs, coverages, 2).

    Parameters
    ----------
    state
        A state with a spread.
    points
        Points of its domain, in its dtype, shape (rows, inputs).
    said
        Its predictions there, shape (rows, outputs).
    coverages
        Shares of the rows to come that intervals shall hold, shape (coverages,).
    """
    return blended(
        state, points, said, lambda spread, _, at, told: spread.ends(at, told, coverages), sized=True
    )


def quantile_levels(state: State, points: Points, said: Array, quantile: float) -> Array:
    """A quantile of the targets, less what is said: shape (rows, outputs)."""
    return blended(
        state, points, said, lambda spread, _, at, told: spread.level(at, told, quantile), sized=True
    )


def deviations(state: State, points: Points, said: Array) -> Array:
    """Standard deviation of the errors: shape (rows, outputs)."""
    return blended(state, points, said, lambda spread, _, at, told: spread.deviation(at, told), sized=True)


def most_surprise(state: State, points: Points, said: Array, coverages: Array) -> Array:
    """The largest −log p of a class that is in the set of a coverage, shape (rows, coverages)."""
    return blended(
        state, points, said, lambda spread, _, at, told: spread.most_surprise(len(at), coverages), sized=False
    )


def support_of(state: State, points: Points) -> Array:
    """How much evidence stands behind predictions, of what known rows have: from 0 to 1, shape (rows,)."""
    return blended(state, points, np.zeros((len(points), state.outputs)), own_support, sized=False)


def own_support(spread: Spread, state: State, points: Array, _: Array) -> Array:
    """Support by the evidence of one state, without charts."""
    if spread.presence is None:
        raise ValueError("this model was fitted by a version that did not count where rows are: fit it again")
    pool, leverage = state.evidence, None
    if isinstance(pool, Pool) and spread.presence.counts_leverage:
        leverage = pool.first.leverage(pool.features(points))
    return spread.presence.support(points, leverage)


def blended(state: State, points: Points, said: Array, ask: Ask, sized: bool) -> Array:
    """What the spread of a state says, and inside charts theirs; `sized` if in units of the target."""
    values = ask(needed_spread(state), state, points.astype(np.float64), said)
    for chart in state.charts:
        content = state_of(chart.content)
        own, window = spread_of(content), chart.fence.window(points).astype(np.float64)
        inside = window > 0
        if own is None or not inside.any():
            continue
        size = chart.size.astype(np.float64)
        local = chart.fence.to_local(points[inside]).astype(np.float64)
        found = ask(own, content, local, said[inside] / size)
        if sized:
            found = found * size.reshape(1, -1, *[1] * (found.ndim - 2))
        share = window[inside].reshape(-1, *[1] * (found.ndim - 1))
        values[inside] = (1 - share) * values[inside] + share * found
    return values
