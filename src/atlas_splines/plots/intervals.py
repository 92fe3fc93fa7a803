"""Uncertainty along a column: mean prediction intervals, and stretches without training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from atlas_splines.model.atlas import state_of
from atlas_splines.plots.columns import Array, Places
from atlas_splines.plots.style import FAINT, QUIET
from atlas_splines.updates.intervals import COVERAGE, error_model_of, interval_ends
from atlas_splines.updates.synthetic_sample import rows_near

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["FEW", "INTERVAL_LABEL", "UNKNOWN_LABEL", "Uncertainty", "draw_uncertainty", "uncertainty_at"]

FEW = 30  # points whose intervals are averaged: they cost more than predictions
INTERVAL_LABEL = "mean 90 % interval"
UNKNOWN_LABEL = "no row learned"
LEAST_RUN = 0.05  # of the length of a line


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Prediction intervals at places along a column.

    Attributes
    ----------
    ends
        Mean of the low and high ends of intervals, less the prediction, shape (places, 2); None for classes.
    is_unknown
        Where no row that was learned has such a value, shape (places,).
    """

    ends: Array | None
    is_unknown: NDArray[np.bool_]


def uncertainty_at(
    estimator: AtlasEstimator, j: int, units: Array, points: Array, output: int
) -> Uncertainty | None:
    """Uncertainty at places along an input; None without an error model.

    Parameters
    ----------
    estimator
        A fitted estimator.
    j, units
        The input, and coordinates along it, shape (places,).
    points
        Points at each of these, shape (places, points, inputs), whose intervals are averaged.
    output
        The target.
    """
    state = state_of(estimator.model_)
    error_model = error_model_of(state)
    if error_model is None:
        return None
    is_unknown = np.zeros(units.shape, np.bool_)
    if error_model.data_density is not None:
        is_unknown = rows_near(state, j, units.clip(*estimator.model_.domain[j])) == 0
    if not error_model.scales:
        return Uncertainty(None, is_unknown)
    inside = points.reshape(-1, points.shape[-1]).clip(*estimator.model_.domain.T)
    flat = inside.astype(estimator.model_.dtype)
    predicted = estimator.model_(flat).astype(np.float64)
    ends = interval_ends(state, flat, predicted, np.array([COVERAGE]))[
        :, :, 0
    ]  # (places · points, outputs, 2)
    middle = estimator._values(predicted)
    around = [(estimator._values(predicted + ends[:, :, side]) - middle)[:, output] for side in (0, 1)]
    return Uncertainty(np.stack(around, axis=-1).reshape(units.size, -1, 2).mean(axis=1), is_unknown)


def draw_uncertainty(axes: Axes, places: Places, middle: Array, uncertainty: Uncertainty) -> None:
    """Shade the intervals around a line, shape (places,), and dim stretches without training rows."""
    x = places.outline
    if uncertainty.ends is not None:
        low, high = (places.heights(middle + ends) for ends in uncertainty.ends.T)
        axes.fill_between(x, low, high, color=QUIET, alpha=0.18, lw=0, zorder=0.5, label=INTERVAL_LABEL)
    is_dimmed = uncertainty.is_unknown if places.whole else wide_runs(places.values, uncertainty.is_unknown)
    if is_dimmed.any():
        axes.fill_between(
            x, 0, 1, where=places.heights(is_dimmed), transform=axes.get_xaxis_transform(), zorder=3, lw=0,
            facecolor=(1, 1, 1, 0.75), edgecolor=FAINT, hatch="////", label=UNKNOWN_LABEL,
        )  # fmt: skip


def wide_runs(x: Array, is_so: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask without its short runs: those over a stretch of an axis that is too short to show.

    A column whose values are rounded has nothing between any two of them.

    Examples
    --------
    >>> x = np.arange(100.0)
    >>> print(wide_runs(x, x < 3).sum(), wide_runs(x, x > 80).sum())
    0 19
    """
    edges = np.flatnonzero(np.diff(is_so, prepend=False, append=False)).reshape(-1, 2)
    kept = np.zeros_like(is_so)
    for begin, end in edges.tolist():
        kept[begin:end] = x[end - 1] - x[begin] >= LEAST_RUN * np.ptp(x)
    return kept
