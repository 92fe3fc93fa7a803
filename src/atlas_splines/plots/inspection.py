"""One picture of a fitted estimator: what it does, and what it has been through."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from atlas_splines.core.records import count_of
from atlas_splines.plots.columns import PLACES, check_fitted, places_along
from atlas_splines.plots.doubt import INTERVAL_LABEL
from atlas_splines.plots.footprints import MOST_UPDATES, draw_updates
from atlas_splines.plots.shapes import BAND_LABEL, SAMPLE_SIZE, draw_shape, effect_curves, sample_points
from atlas_splines.plots.style import DPI, PICTURES

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["save_inspection"]

MOST_COLUMNS = 12
SCALE_PERCENTILES = (2, 98)  # the rim of a domain, where data is rare, does not set the scale


def save_inspection(path: Path, estimator: AtlasEstimator) -> None:
    """Save a picture of a fitted estimator: the shape of each column, and the footprint of each update.

    Of more than 12 columns, those with the largest effect are drawn; a column that was constant in the first
    data has none. All shapes have one scale, so that effects can be compared; it holds every mean prediction,
    and all but the most extreme 2 % of the bands on either side. An estimator keeps no data, so
    shapes are averaged over random points of the domain. Of several targets or classes the first is drawn;
    of two classes the second.

    Parameters
    ----------
    path
        Where to write; it ends in .png, .svg or .pdf.
    estimator
        A fitted `AtlasRegressor` or `AtlasClassifier`.
    """
    path = Path(path)
    if path.suffix not in PICTURES:
        raise ValueError(f"cannot write {path}: a picture ends in .png, .svg or .pdf")
    inspection(estimator).savefig(path, dpi=DPI)


def inspection(estimator: AtlasEstimator) -> Figure:
    """The figure that `save_inspection` saves."""
    check_fitted(estimator)
    names, records = estimator._input_names, estimator.update_log_[-MOST_UPDATES:]
    output = 1 if len(getattr(estimator, "classes_", ())) == 2 else 0
    columns = most_influential(estimator, output)
    across = 3 if len(columns) in (5, 6) else min(len(columns), 4)
    down = -(-len(columns) // across)
    heights = [2.6 * down + 0.8, 0.3 * len(records) + 1.2][: 2 if records else 1]
    figure = Figure(figsize=(max(2.9 * across, 7), sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    panels = parts[0].subplots(down, across, sharey=True, squeeze=False)
    draw_shapes(panels, estimator, columns, output)
    which = f"the {len(columns)} most influential of {len(names)} columns"
    shown = "each column" if len(columns) == len(names) else which
    parts[0].suptitle(f"Effect of {shown}, over random points of the domain")
    if records:
        draw_updates(parts[1].subplots(), estimator, columns)
        parts[1].suptitle(updates_title(count_of(estimator.update_log_)))
    return figure


def updates_title(count: int) -> str:
    """What the lower part of an inspection shows."""
    some = f" (the newest {MOST_UPDATES} of {count})" if count > MOST_UPDATES else ""
    return f"Footprint of each update{some}"


def most_influential(estimator: AtlasEstimator, output: int) -> list[int]:
    """Columns to draw, in their order: all, or those along which predictions vary most.

    A column that was constant has no effect, whatever the model says where it has seen nothing.
    """
    count = len(estimator._input_names)
    if count <= MOST_COLUMNS:
        return list(range(count))
    columns = np.flatnonzero(~estimator.domain_.constant).tolist() or list(range(count))
    sample = sample_points(estimator, None)[: SAMPLE_SIZE // 4]
    curves = []
    for j in columns:
        places = places_along(estimator.model_, j, PLACES // 6)
        curves.append(effect_curves(estimator, j, places, sample, output))
    variation = [curve.std(axis=0).mean() for curve in curves]
    return sorted(columns[place] for place in np.argsort(variation)[-MOST_COLUMNS:])


def draw_shapes(
    panels: NDArray[np.object_], estimator: AtlasEstimator, columns: list[int], output: int
) -> None:
    """Draw the shapes of columns on panels that share a scale, and one legend below them."""
    every: list[Axes] = panels.ravel().tolist()
    bands, means = [], []
    for axes, column in zip(every, columns, strict=False):
        draw_shape(axes, estimator, column, output=output).spines[["top", "right"]].set_visible(False)
        bands += [np.asarray(band.get_paths()[0].vertices)[:, 1] for band in bands_of(axes)]
        means.append(np.asarray(axes.lines[0].get_ydata()))
    for axes in panels[:, 1:].ravel().tolist():
        axes.set_ylabel("")
    for axes in every[len(columns) :]:
        axes.remove()
    low, high = np.percentile(np.concatenate(bands), SCALE_PERCENTILES)
    low, high = min(low, np.min(means)), max(high, np.max(means))
    every[0].set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    lines = {
        label: line
        for axes in every[: len(columns)]
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    every[0].figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False)


def bands_of(axes: Axes) -> list[Collection]:
    """The band of effects, and that of intervals if there is one."""
    return [band for band in axes.collections if band.get_label() in (BAND_LABEL, INTERVAL_LABEL)]
