"""Doubt along a column: how wide intervals are there, and where no evidence is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from atlas_splines.core.model import state_of
from atlas_splines.memory.doubt import interval_ends, spread_of, support_of
from atlas_splines.plots.columns import Array
from atlas_splines.plots.style import FAINT, QUIET

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["INTERVAL_LABEL", "KNOWN", "Doubt", "doubt_at", "draw_doubt", "most_supported"]

COVERAGE = 0.9
KNOWN = 30  # points whose support is asked for: that costs more than predictions
INTERVAL_LABEL = "mean 90 % interval"


@dataclass(frozen=True, eq=False)
class Doubt:
    """How sure predictions are at places along a column.

    Attributes
    ----------
    ends
        Mean of the low and high ends of intervals, less the prediction, shape (places, 2); None for classes.
    is_unknown
        Where no point has any support, shape (places,).
    """

    ends: Array | None
    is_unknown: NDArray[np.bool_]


def most_supported(estimator: AtlasEstimator, sample: Array) -> Array:
    """The points of a sample that are most like known rows, shape (points, inputs)."""
    state = state_of(estimator.model_)
    spread = spread_of(state)
    if spread is None or spread.presence is None:
        return sample[:KNOWN]
    support = support_of(state, sample.astype(estimator.model_.dtype))
    return sample[np.argsort(-support, kind="stable")[:KNOWN]]


def doubt_at(estimator: AtlasEstimator, points: Array, output: int) -> Doubt | None:
    """Doubt at points in the model's coordinates, shape (places, points, inputs); None if it is not known."""
    state = state_of(estimator.model_)
    spread = spread_of(state)
    if spread is None:
        return None
    places = len(points)
    flat = points.reshape(-1, points.shape[-1]).astype(estimator.model_.dtype)
    is_unknown = np.zeros(places, np.bool_)
    if spread.presence is not None:
        is_unknown = (support_of(state, flat).reshape(places, -1) == 0).all(axis=1)
        is_unknown &= not is_unknown.all()  # if no point is like a known row, they tell nothing
    if not spread.scales:
        return Doubt(None, is_unknown)
    said = estimator.model_(flat).astype(np.float64)
    ends = interval_ends(state, flat, said, np.array([COVERAGE]))[:, :, 0]  # (places · points, outputs, 2)
    middle = estimator._values(said)
    around = [(estimator._values(said + ends[:, :, side]) - middle)[:, output] for side in (0, 1)]
    return Doubt(np.stack(around, axis=-1).reshape(places, -1, 2).mean(axis=1), is_unknown)


def draw_doubt(axes: Axes, x: Array, middle: Array, doubt: Doubt) -> None:
    """Shade the intervals around a line, and dim what is without support; all of shape (places,)."""
    if doubt.ends is not None:
        low, high = middle[:, None].T + doubt.ends.T
        axes.fill_between(x, low, high, color=QUIET, alpha=0.18, lw=0, zorder=0.5, label=INTERVAL_LABEL)
    if doubt.is_unknown.any():
        axes.fill_between(
            x, 0, 1, where=doubt.is_unknown, transform=axes.get_xaxis_transform(), zorder=3, lw=0,
            facecolor=(1, 1, 1, 0.75), edgecolor=FAINT, hatch="////", label="no support",
        )  # fmt: skip
