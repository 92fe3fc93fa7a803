"""Categories as bars: what a prediction is for each of them, at points that some row could be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from atlas_splines.plots.columns import Array
from atlas_splines.plots.shapes import (
    BAND_LABEL,
    BAND_PERCENTILES,
    MEAN_LABEL,
    output_label,
    predict,
)
from atlas_splines.plots.style import MAIN, QUIET, RUG_HEIGHT
from atlas_splines.tables.encoding import Column

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["Categories", "category_columns", "category_effects", "draw_categories", "made_possible"]

MOST_BARS = 12
LONGEST = 12  # letters of a label


@dataclass(frozen=True, eq=False)
class Categories:
    """A column of categories, and the inputs that it becomes.

    Attributes
    ----------
    column
        The column.
    inputs
        Numbers of its inputs.
    units
        Their coordinates in the model for each category, shape (categories, inputs).
    """

    column: Column
    inputs: list[int]
    units: Array

    @property
    def names(self) -> tuple[str, ...]:
        """The categories."""
        return self.column.categories or ()

    def codes(self, points: Array) -> NDArray[np.intp]:
        """The nearest category of points in the model's coordinates, shape (points,)."""
        distances = np.abs(points[:, None, self.inputs] - self.units).sum(axis=2)  # (points, categories)
        return np.asarray(distances.argmin(axis=1))


def category_columns(estimator: AtlasEstimator) -> list[Categories]:
    """The columns of categories of an estimator."""
    found, first = [], 0
    for column in estimator.encoding_.parts if hasattr(estimator, "encoding_") else []:
        inputs = list(range(first, first + len(column.inputs)))
        first += len(inputs)
        if column.categories is not None:
            count = len(column.categories)
            raw = np.full((count, len(estimator.domain_.knots)), np.nan)
            raw[:, inputs] = np.eye(count) if column.one_hot else np.arange(count)[:, None]
            found.append(Categories(column, inputs, estimator.domain_.to_unit(raw)[:, inputs]))
    return found


def made_possible(sample: Array, columns: list[Categories]) -> Array:
    """Points that some row could be: of the inputs of a column of categories, those of the nearest one."""
    possible = sample.copy()
    for each in columns:
        possible[:, each.inputs] = each.units[each.codes(sample)]
    return possible


def draw_categories(
    axes: Axes, estimator: AtlasEstimator, column: Categories, sample: Array, output: int
) -> Axes:
    """Draw the mean prediction for each category as a bar, from the mean over all of them.

    Thin lines are the effect for 80 % of the points, each shifted to the mean of all; grey at the bottom is
    how often a category occurs. Of more than 12 the most frequent are drawn.
    """
    counts = np.bincount(column.codes(sample), minlength=len(column.names))
    shown = np.sort(np.argsort(-counts, kind="stable")[:MOST_BARS])
    curves = category_effects(estimator, column, shown, sample, output)  # (categories, points)
    means, middle = curves.mean(axis=1), float(curves.mean())
    low, high = np.percentile(curves, BAND_PERCENTILES, axis=1)
    if hasattr(estimator, "classes_"):
        low, high = low.clip(0, 1), high.clip(0, 1)
    places = np.arange(len(shown))
    axes.bar(places, means - middle, bottom=middle, width=0.7, color=MAIN, alpha=0.35, lw=0)
    axes.plot(places, means, "_", color=MAIN, ms=14, mew=2, label=MEAN_LABEL)
    axes.vlines(places, low, high, color=MAIN, lw=1, label=BAND_LABEL)
    heights = RUG_HEIGHT * counts[shown] / max(counts.max(), 1)
    axes.vlines(places, 0, heights, color=QUIET, alpha=0.6, lw=3, transform=axes.get_xaxis_transform())
    labels = [shortened(column.names[k]) for k in shown]
    turned = len("".join(labels)) > 24
    axes.set_xticks(places, labels, rotation=60 if turned else 0, ha="right" if turned else "center")
    axes.set(xlabel=column.column.name, ylabel=output_label(estimator, output), xlim=(-0.6, len(shown) - 0.4))
    return axes


def category_effects(
    estimator: AtlasEstimator, column: Categories, shown: NDArray[np.intp], sample: Array, output: int
) -> Array:
    """Prediction of each point with each of some categories, shifted so that all points have one mean."""
    points = np.repeat(sample[None], len(shown), axis=0)  # (categories, points, inputs)
    points[:, :, column.inputs] = column.units[shown][:, None]
    indicators = estimator.domain_.indicators
    missing = len(estimator.domain_.knots) + np.flatnonzero(np.isin(indicators, column.inputs))
    points[:, :, missing] = 0
    curves = predict(estimator, points.reshape(-1, sample.shape[1]))[:, output].reshape(len(shown), -1)
    return np.asarray(curves - curves.mean(axis=0) + curves.mean())


def shortened(name: str) -> str:
    """A name that fits below a bar."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
