"""One picture of a fitted estimator: what it does, and what it has been through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model.atlas import state_of
from atlas_splines.plots.categories import (
    Categories,
    category_columns,
    category_effects,
    draw_categories,
    made_possible,
)
from atlas_splines.plots.columns import PLACES, Array, beyond, check_fitted, places_of, sketched_rows
from atlas_splines.plots.footprints import (
    EVERYTHING,
    MOST_RUNS,
    draw_updates,
    row_label,
    runs_of,
    sentence_on,
)
from atlas_splines.plots.intervals import INTERVAL_LABEL
from atlas_splines.plots.shapes import (
    BAND_LABEL,
    SAMPLE_SIZE,
    as_rows,
    draw_effect,
    effect_curves,
    sample_points,
)
from atlas_splines.plots.style import DPI, PICTURES
from atlas_splines.updates.synthetic_sample import synthetic_sample_of

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator
    from atlas_splines.model.log import Record

__all__ = ["save_inspection"]

MOST_COLUMNS = 12
SCALE_PERCENTILES = (2, 98)  # the rim of a domain, where data is rare, does not set the scale

Shown = int | Categories  # number of an input, or a column of categories


def save_inspection(path: Path, estimator: AtlasEstimator, *, X: ArrayLike | None = None) -> None:
    """Save a picture of a fitted estimator: the shape of each column, and the footprint of each update.

    If each update can change every prediction, as pooled ones can, a line says so in place of footprints.
    Columns of categories are bars. Of more than 12 columns, those with the largest effect are drawn; a column
    that was constant in the first data has none. All shapes have one scale, so that effects can be compared;
    it holds every mean prediction, and all but the most extreme 2 % of each band on either side. Of several
    targets or classes the first is drawn; of two classes the second.

    Parameters
    ----------
    path
        Where to write; it ends in .png, .svg or .pdf.
    estimator
        A fitted `AtlasRegressor` or `AtlasClassifier`.
    X
        Rows to average over, such as the training data. Without X these are points like the rows that the
        estimator has learned, drawn from counts of these.
    """
    path = Path(path)
    if path.suffix not in PICTURES:
        raise ValueError(f"cannot write {path}: a picture ends in .png, .svg or .pdf")
    inspection(estimator, X).savefig(path, dpi=DPI)


def inspection(estimator: AtlasEstimator, X: ArrayLike | None = None) -> Figure:
    """The figure that `save_inspection` saves."""
    check_fitted(estimator)
    runs = runs_of(estimator.update_log_)
    output = 1 if len(getattr(estimator, "classes_", ())) == 2 else 0
    rows = None if X is None else as_rows(estimator, X)
    categories = category_columns(estimator)
    sample = made_possible(sample_points(estimator, rows), categories)
    every = columns_of(estimator, categories)
    shown_rows = sketched_rows(estimator) if rows is None else rows
    columns = most_influential(estimator, every, shown_rows, sample, output)
    across = 3 if len(columns) in (5, 6) else min(len(columns), 4)
    down = -(-len(columns) // across)
    heights = [2.6 * down + 0.8, *height_of_updates(runs)]
    figure = Figure(figsize=(max(2.9 * across, 7), sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    panels = parts[0].subplots(down, across, sharey=True, squeeze=False)
    draw_shapes(panels, estimator, columns, shown_rows, sample, output)
    if rows is None and runs:  # the rows of a fit lie in its domain
        report_beyond(panels, estimator, columns, shown_rows)
    which = f"the {len(columns)} most influential of {len(every)} columns"
    shown = "each column" if len(columns) == len(every) else which
    parts[0].suptitle(f"Effect of {shown}, over {where_from(estimator, rows)}")
    if runs:
        parts[1].suptitle(updates_title(runs))
    if runs and not says_all(runs):
        draw_updates(parts[1].subplots(), estimator, inputs_of(columns))
    return figure


def columns_of(estimator: AtlasEstimator, categories: list[Categories]) -> list[Shown]:
    """Columns that can be drawn, in their order."""
    of_input: dict[int, Categories] = {each.inputs[0]: each for each in categories}
    hidden = {j for each in categories for j in each.inputs[1:]}
    return [of_input.get(j, j) for j in range(len(estimator._input_names)) if j not in hidden]


def inputs_of(columns: Sequence[Shown]) -> list[int]:
    """Numbers of the inputs of some columns."""
    return [j for column in columns for j in ([column] if isinstance(column, int) else column.inputs)]


def where_from(estimator: AtlasEstimator, rows: Array | None) -> str:
    """What effects are averaged over."""
    if rows is not None:
        return "rows of data"
    known = synthetic_sample_of(state_of(estimator.model_), 1)
    return "random points of the domain" if known is None else "points like the rows learned"


def says_all(runs: list[list[Record]]) -> bool:
    """Whether one line says all of the footprints: each of the updates can change every prediction."""
    return len(runs) == 1 and sentence_on(runs[0][0]) == EVERYTHING


def height_of_updates(runs: list[list[Record]]) -> list[float]:
    """Inches of the lower part of an inspection, if there is one."""
    if not runs or says_all(runs):
        return [0.5] * len(runs)
    return [0.3 * min(len(runs), MOST_RUNS) + 1.2]


def updates_title(runs: list[list[Record]]) -> str:
    """What the lower part of an inspection shows, or says."""
    if says_all(runs):
        return f"Footprint of each update: every prediction ({row_label(runs[0])})"
    return "Footprint of each update" + (f" since {runs[-MOST_RUNS][0].id}" if len(runs) > MOST_RUNS else "")


def most_influential(
    estimator: AtlasEstimator, columns: list[Shown], rows: Array | None, sample: Array, output: int
) -> list[Shown]:
    """Columns to draw, in their order: all, or those along which predictions vary most where rows are.

    A column that was constant has no effect, whatever the model says where it has seen nothing.
    """
    if len(columns) <= MOST_COLUMNS:
        return columns
    varied = [k for k, each in enumerate(columns) if not estimator.domain_.constant[inputs_of([each])].all()]
    varied = varied or list(range(len(columns)))
    few = sample[: SAMPLE_SIZE // 4]
    variation = [variation_of(estimator, columns[k], rows, few, output) for k in varied]
    return [columns[k] for k in sorted(varied[place] for place in np.argsort(variation)[-MOST_COLUMNS:])]


def variation_of(
    estimator: AtlasEstimator, column: Shown, rows: Array | None, sample: Array, output: int
) -> float:
    """How much predictions vary along a column."""
    if isinstance(column, Categories):
        curves = category_effects(estimator, column, np.arange(len(column.names)), sample, output)
    else:
        places = places_of(estimator, column, rows, PLACES // 6)
        curves = effect_curves(estimator, column, places.units, sample, output)
    return float(curves.std(axis=0).mean())


def report_beyond(
    panels: NDArray[np.object_], estimator: AtlasEstimator, columns: list[Shown], rows: Array | None
) -> None:
    """Say below columns which share of the rows learned were counted at an end of the domain."""
    for axes, column in zip(panels.ravel().tolist(), columns, strict=False):
        if not isinstance(column, Categories):
            told = beyond(estimator, column, places_of(estimator, column, rows).whole)
            axes.set_xlabel("\n".join([axes.get_xlabel(), *told]))


def draw_shapes(
    panels: NDArray[np.object_],
    estimator: AtlasEstimator,
    columns: list[Shown],
    rows: Array | None,
    sample: Array,
    output: int,
) -> None:
    """Draw the shapes of columns on panels that share a scale, and one legend below them."""
    every: list[Axes] = panels.ravel().tolist()
    bands, means = [], []
    for axes, column in zip(every, columns, strict=False):
        if isinstance(column, Categories):
            draw_categories(axes, estimator, column, sample, output)
        else:
            draw_effect(axes, estimator, column, rows, sample, output)
        axes.spines[["top", "right"]].set_visible(False)
        bands += [heights_of(band) for band in bands_of(axes)]
        means.append(np.asarray(axes.lines[0].get_ydata()))
    for axes in panels[:, 1:].ravel().tolist():
        axes.set_ylabel("")
    for axes in every[len(columns) :]:
        axes.remove()
    ends = np.concatenate([*(np.percentile(band, SCALE_PERCENTILES) for band in bands), *means])
    low, high = ends.min(), ends.max()
    every[0].set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    lines = {
        label: line
        for axes in reversed(every[: len(columns)])
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    every[0].figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False)


def bands_of(axes: Axes) -> list[Collection]:
    """The band of effects, and that of intervals if there is one."""
    return [band for band in axes.collections if band.get_label() in (BAND_LABEL, INTERVAL_LABEL)]


def heights_of(band: Collection) -> Array:
    """How high the corners of a band are."""
    return np.concatenate([np.asarray(path.vertices)[:, 1] for path in band.get_paths()])
