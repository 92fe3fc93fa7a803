"""Our figures beside the paper's: the same experiments with rehearsal and charts."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from atlas_splines.experiments.drawings import Drawing, NotInThisRun
from atlas_splines.experiments.paper.figures.appendix import HOLE
from atlas_splines.experiments.paper.figures.main_experiment import draw_errors
from atlas_splines.experiments.paper.results import (
    INPUTS,
    LETTERS,
    MODELS,
    Pictures,
    Table,
    TrialResults,
    cells_where,
    mean_errors,
    need,
    outside,
    pick,
)
from atlas_splines.experiments.style import (
    colour_bar,
    common_scale,
    count,
    draw_map,
    headline,
    lines_with_label,
    name_inputs,
    nothing_here,
    number,
    panels,
)
from atlas_splines.plots import draw_box
from atlas_splines.plots.style import CHANGE_COLOURS, VALUE_COLOURS

__all__ = ["DRAWINGS"]

Array = NDArray[np.floating]

PLAIN_AND_CHARTS = {"finest": "plain training", "charts": "charts"}


def error_with_charts(results: Table) -> Figure:
    """All four models, on noisy and on clean targets."""
    figure, grid = panels(2, 3, 6.4, sharex=True, sharey="row")
    for row, (column, name) in zip(grid, (("test_noisy", "noisy"), ("test_clean", "clean")), strict=True):
        means = mean_errors(results, column)
        for axes, inputs in zip(row, INPUTS, strict=True):
            draw_errors(axes, means, inputs, list(MODELS))
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.label_outer()
        row[0].set_ylabel(f"test MAE on Task 2, {name} targets")
    for axes in grid[1]:
        axes.set(xlabel="width δ of the changed region", title="")
    figure.legend(*grid[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    better, cells = cells_where(means, "charts", "finest")
    overall = means.groupby("model")["mean"].mean()
    listed = ", ".join(f"{number(overall[m])} {m}" for m in ("charts", "rehearsal") if m in overall)
    plain = f" against {number(overall['finest'])} with the guarantee alone" if "finest" in overall else ""
    text = f"On clean targets charts have a lower error than the paper's model in {better} of {cells} cells"
    return headline(figure, f"{text}; mean error {listed}{plain}" if listed else text)


def inspection_with_charts(pictures: Pictures) -> Figure:
    """The 2-D trial again: what three ways of learning Task 2 change."""
    names = {"finest": "plain training", "rehearsal": "rehearsal", "charts": "charts"}
    before, target = need(pictures, "main", ["finest_1", "target_2"])
    after = need(pictures, "main", [f"{name}_2" for name in names])
    (box,) = need(pictures, "main", ["box"])
    figure, grid = panels(3, 3, 7.9, sharex=True, sharey=True)
    rows = [after, [np.abs(a - target) for a in after], [np.abs(a - before) for a in after]]
    scales = [common_scale(after), common_scale(rows[1], low=0), common_scale(rows[2], low=0)]
    labels = ["output after Task 2", "|model − target|", "|change by Task 2|"]
    apart = outside(box, len(target))
    for k, (axes, images) in enumerate(zip(grid, rows, strict=True)):
        for panel, image, name in zip(axes, images, names.values(), strict=True):
            mean = f"mean outside the box: {number(float(image[apart].mean()))}"
            draw_map(panel, image, mean if k else name, scales[k], CHANGE_COLOURS if k else VALUE_COLOURS)
            draw_box(panel, box)
        colour_bar(figure, axes[0].images[0], axes, labels[k], aspect=18)
    name_inputs(grid)
    moved = [
        f"{(change[apart] > 0).mean():.1%} by {name}"
        for change, name in zip(rows[2], names.values(), strict=True)
    ]
    return headline(figure, f"How much of the picture outside the box Task 2 changed: {', '.join(moved)}")


def appendix_with_charts(results: Table, pictures: Pictures) -> Figure:
    """Task 2 of A–D: off-target difference with plain training and with charts, and the errors."""
    letters = [x for x in LETTERS if {f"{x}/{m}_2" for m in (*PLAIN_AND_CHARTS, "target")} <= set(pictures)]
    if not letters:
        raise NotInThisRun("No trial of Experiments A–D is in this run.")
    figure, grid = panels(3, 4, 7.4)
    maps = {
        (model, letter): np.abs(np.subtract(*need(pictures, letter, [f"{model}_2", "target_2"])))
        for model in PLAIN_AND_CHARTS
        for letter in letters
    }
    scale = common_scale(list(maps.values()), low=0)
    for row, (model, name) in zip(grid, PLAIN_AND_CHARTS.items(), strict=False):
        for axes, letter in zip(row, LETTERS, strict=True):
            draw_difference(axes, maps.get((model, letter)), f"{letter}, {name}", scale)
    name_inputs(grid[:2])
    for axes in grid[1]:
        axes.tick_params(labelbottom=True)
    drawn = next(axes.images[0] for axes in grid[0] if axes.images)
    colour_bar(figure, drawn, grid[:2], "|model − target|", aspect=30)
    for axes in grid[2, 1:]:
        axes.sharey(grid[2, 0])
    ratios = [draw_places(axes, results, letter) for axes, letter in zip(grid[2], LETTERS, strict=True)]
    grid[2, 0].set_ylabel("clean test MAE")
    figure.legend(*lines_with_label(grid[2]), loc="outside lower center", ncols=2)
    known = [f"{ratio:.2g} ({x})" for x, ratio in zip(LETTERS, ratios, strict=True) if np.isfinite(ratio)]
    text = "Outside the box the error of plain training, divided by that of charts, is"
    return headline(figure, f"{text} {', '.join(known) or 'not known yet'}")


def draw_difference(axes: Axes, image: Array | None, title: str, scale: Normalize) -> None:
    """Draw the size of a difference with the hole outlined, or say that there is none yet."""
    axes.set(title=title)
    if image is None:
        nothing_here(axes)
        return
    draw_map(axes, np.abs(image), title, scale, CHANGE_COLOURS)
    draw_box(axes, HOLE)


def draw_places(axes: Axes, results: Table, letter: str) -> float:
    """Draw every trial's error inside and outside the box for both models; return the ratio outside."""
    outer, trials = [], 0
    for shift, (model, name) in zip((-0.15, 0.15), PLAIN_AND_CHARTS.items(), strict=True):
        style, rows, places = MODELS[model], pick(results, letter, model), np.arange(2) + shift
        trials = max(trials, len(rows))
        if len(rows):
            errors = np.asarray(rows[["test_inside", "test_outside"]], np.float64)  # (trials, 2)
            means = np.nanmean(errors, axis=0)
            axes.plot(places, errors.T, style.marker, color=style.colour, ms=3, alpha=0.3, rasterized=True)
            axes.plot(
                places, means, style.marker, color=style.colour, ms=8, mfc="none", label=f"{name}: mean"
            )
            axes.set_yscale("log")  # without data a logarithmic axis cannot be drawn
            outer.append(float(means[1]))
    axes.set(xticks=[0, 1], xticklabels=["inside", "outside"], xlim=(-0.5, 1.5))
    axes.set_title(f"{letter}: {count([trials], 'trial')}")
    return outer[0] / outer[1] if len(outer) == 2 else float("nan")


DRAWINGS: list[Drawing[TrialResults]] = [
    Drawing(
        "test-error-by-width-with-charts",
        "ours",
        "Test error against width, with rehearsal and charts",
        "The paper's two models and two ways to learn Task 2 without forgetting: rehearsal on points "
        "labelled by the model as it was, and charts that add to the model inside the box only. Above with "
        "noise in the test targets, as in the paper; below without. The error axes are logarithmic.",
        lambda run: error_with_charts(run.table),
        beside="Figure 9",
    ),
    Drawing(
        "inspection-2d-with-charts",
        "ours",
        "The 2-D trial again, with rehearsal and charts",
        "Outputs, their distance from the Task 2 target, and what Task 2 changed. White in the last row "
        "means that nothing changed.",
        lambda run: inspection_with_charts(run.pictures),
        beside="Figure 5",
    ),
    Drawing(
        "experiments-a-to-d-with-charts",
        "ours",
        "Experiments A–D, Task 2 with charts",
        "Distance from the Task 2 target after plain training and with a chart, on one scale, and the clean "
        "test errors of all trials (small) with their means (large).",
        lambda run: appendix_with_charts(run.table, run.pictures),
        beside="Figures 13, 17, 21 and 25",
    ),
]
