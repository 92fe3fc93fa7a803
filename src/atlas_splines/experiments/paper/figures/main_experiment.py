"""Figures of the main experiment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from atlas_splines.experiments.drawings import Drawing, NotInThisRun
from atlas_splines.experiments.paper.results import (
    INPUTS,
    MODELS,
    Pictures,
    Table,
    TrialResults,
    cells_where,
    fit_off_target,
    mean_errors,
    need,
    outside,
    pick,
    stack,
)
from atlas_splines.experiments.style import (
    BLACK,
    VERMILLION,
    colour_bar,
    common_scale,
    count,
    draw_map,
    headline,
    lines_with_label,
    name_inputs,
    note,
    nothing_here,
    number,
    panels,
)
from atlas_splines.plots import draw_box
from atlas_splines.plots.style import CHANGE_COLOURS, VALUE_COLOURS

__all__ = ["DRAWINGS", "draw_errors"]

Array = NDArray[np.floating]


def inspection_2d(pictures: Pictures) -> Figure:
    """The 2-D trial, with the guarantee above and without it below."""
    rows = [need(pictures, "main", ["target_1", f"{m}_1", "target_2", f"{m}_2"]) for m in ("finest", "all")]
    (box,) = need(pictures, "main", ["box"])
    names = ["target of Task 1", "model after Task 1", "target of Task 2", "model after Task 2"]
    changes = [np.abs(row[3] - row[2]) for row in rows]
    figure, grid = panels(2, 5, 4.6, sharex=True, sharey=True)
    values, sizes = common_scale([image for row in rows for image in row]), common_scale(changes, low=0)
    for axes, row, change in zip(grid, rows, changes, strict=True):
        for k, image in enumerate(row):
            draw_map(axes[k], image, names[k] if row is rows[0] else "", values)
        draw_map(axes[4], change, "distance from target" if row is rows[0] else "", sizes, CHANGE_COLOURS)
        for panel in axes[2:]:
            draw_box(panel, box)
    name_inputs(grid)
    grid[0, 0].set_ylabel("with the guarantee\n$x_2$")
    grid[1, 0].set_ylabel("without\n$x_2$")
    colour_bar(
        figure, grid[0, 3].images[0], grid[:, :4], "output", orientation="horizontal", aspect=50, pad=0.02
    )
    colour_bar(
        figure,
        grid[0, 4].images[0],
        grid[:, 4],
        "|model − target|",
        orientation="horizontal",
        aspect=12,
        pad=0.02,
    )
    apart = outside(box, len(changes[0]))
    mean = [number(float(change[apart].mean())) for change in changes]
    text = f"Mean distance from the target outside the box: {mean[0]} with the guarantee, {mean[1]} without"
    return headline(figure, text)


def validation_curves(table: Table, column: str, limits: tuple[float, float] | None, task: str) -> Figure:
    """All validation curves of a task by the number of inputs, coloured by the trial's noise."""
    table = table[[bool(len(curve)) for curve in table[column]]]
    if not len(table):
        raise NotInThisRun(f"No trial with curves of {task} is in this run.")
    figure, grid = panels(1, 3, 3.7, sharey=True)
    noise, ends = Normalize(0, max(1.0, float(np.quantile(table["noise"], 0.95)))), []
    for axes, inputs in zip(grid[0], INPUTS, strict=True):
        rows = table[table["inputs"] == inputs]
        axes.set(title=f"n = {inputs}: {count([len(rows)], 'curve')}", xlabel="epoch", yscale="log")
        if not len(rows):
            nothing_here(axes)
            continue
        curves = stack(list(rows[column]))
        lines = draw_curves(axes, curves, np.asarray(rows["noise"]), noise)
        middle = np.nanmedian(curves, axis=0)
        axes.plot(np.arange(1, middle.size + 1), middle, color=VERMILLION, lw=2.4, label="median")
        ends.append(f"{number(middle[0])} to {number(middle[-1])} (n = {inputs})")
    if limits:
        grid[0, 0].set_ylim(*limits)
    grid[0, 0].set_ylabel("validation MAE (noisy targets)")
    grid[0, 0].legend(*lines_with_label(grid[0]), loc="upper right")
    colour_bar(figure, lines, grid[0], "standard deviation of the noise", extend="max")
    text = "from the first to the last epoch the median goes from"
    return headline(figure, f"{task}: {text} {', '.join(ends)}")


def draw_curves(axes: Axes, curves: Array, colour: Array, scale: Normalize) -> LineCollection:
    """Draw many curves as one picture; an SVG of thousands of points would be large."""
    epochs = np.arange(1, curves.shape[1] + 1)
    segments = [np.column_stack([epochs, curve])[np.isfinite(curve)] for curve in curves]
    lines = LineCollection(segments, array=colour, cmap=VALUE_COLOURS, norm=scale, lw=0.7, alpha=0.6)
    lines.set_rasterized(True)
    axes.add_collection(lines)
    axes.autoscale_view()
    return lines


def task_1_validation(results: Table) -> Figure:
    """All validation curves of Task 1."""
    return validation_curves(pick(results, "main", "finest"), "validation_1", None, "Task 1")


def task_2_validation(results: Table, model: str) -> Figure:
    """Validation curves of Task 2 at width 0.1, on the same axis for both models."""
    tables = {name: pick(results, "main", name, width=0.1) for name in ("finest", "all")}
    curves = [stack(list(table["validation_2"])) for table in tables.values()]
    seen = np.concatenate([curve[np.isfinite(curve)] for curve in curves])
    limits = (float(seen.min()) / 1.15, float(seen.max()) * 1.15) if seen.size else None
    figure = validation_curves(tables[model], "validation_2", limits, "Task 2")
    kind = "With the guarantee" if model == "finest" else "Without the guarantee"
    return headline(figure, f"{kind}, δ = 0.1. {figure.get_suptitle()}".replace("\n", " "))


def draw_errors(axes: Axes, means: Table, inputs: int, models: Sequence[str]) -> None:
    """Draw mean error against width for some models, with standard errors."""
    for model in models:
        rows = means[(means["inputs"] == inputs) & (means["model"] == model)]
        axes.errorbar(rows["width"], rows["mean"], rows["sem"], capsize=2, lw=1.3, **MODELS[model].options)
    cells = means[(means["inputs"] == inputs) & means["model"].isin(models)]
    trials = f": {count(list(cells['count']), 'trial')} a point" if len(cells) else ""
    axes.set(title=f"n = {inputs}{trials}", xlim=(0.05, 0.95), xticks=[0.1, 0.3, 0.5, 0.7, 0.9])
    if not len(cells):
        nothing_here(axes)


def error_by_width(results: Table) -> Figure:
    """Both of the paper's models, and its estimate fitted to the first."""
    means = mean_errors(results)
    figure, grid = panels(1, 3, 4.1, sharey=True)
    agreement = []
    for axes, inputs in zip(grid[0], INPUTS, strict=True):
        draw_errors(axes, means, inputs, ["finest", "all"])
        axes.set_xlabel("width δ of the changed region")
        rows = means[(means["inputs"] == inputs) & (means["model"] == "finest")]
        if len(rows):
            agreement.append(draw_fit(axes, rows, inputs))
    grid[0, 0].set(ylabel="test MAE on Task 2, noisy targets")
    grid[0, 0].set_ylim(0, grid[0, 0].get_ylim()[1] * 1.25)
    figure.legend(*grid[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    better, cells = cells_where(means, "finest", "all")
    fits = ", ".join(text for text in agreement if text)
    text = f"The guarantee has the lower mean error in {better} of {cells} cells"
    return headline(figure, f"{text}; a + b(δ − δⁿ) fits it with {fits}" if fits else text)


def draw_fit(axes: Axes, rows: Table, inputs: int) -> str:
    """Draw the fitted estimate, write its agreement into the panel, and return it for the headline."""
    width, error = np.asarray(rows["width"]), np.asarray(rows["mean"])
    fit = fit_off_target(width, error, inputs)
    x = np.linspace(0.1, 0.9, 81)
    axes.plot(x, fit(x, inputs), color=BLACK, lw=1.2, ls=(0, (1, 1)), label="a + b(δ − δⁿ), fitted")
    if np.isnan(fit.r2):
        why = "δ − δⁿ = 0: a constant" if inputs == 1 else "too few widths to judge"
        note(
            axes,
            f"{why}, a = {number(fit.offset)};\nmeans from {number(error.min())} to {number(error.max())}",
        )
        return ""
    curve = f"{number(fit.offset)} {'+' if fit.slope >= 0 else '−'} {number(abs(fit.slope))}(δ − δⁿ)"
    note(axes, f"{curve}\nR² = {fit.r2:.2f}, correlation {fit.correlation:.2f}")
    return f"R² = {fit.r2:.2f} (n = {inputs})"


DRAWINGS: list[Drawing[TrialResults]] = [
    Drawing(
        "inspection-2d",
        "paper",
        "One 2-D trial, with and without the guarantee",
        "Task 2 shows new values in the outlined box only. With the guarantee its gradients reach the points "
        "that share a coordinate with the box: a cross. Without it coarse functions carry it further.",
        lambda run: inspection_2d(run.pictures),
        beside="Figure 5",
    ),
    Drawing(
        "task-1-validation",
        "paper",
        "All validation curves of Task 1",
        "Every trial and every width, with the guarantee. The targets are noisy: a perfect model would still "
        "have 0.8 times the standard deviation of the noise, which is the colour of a curve.",
        lambda run: task_1_validation(run.table),
        beside="Figure 6",
    ),
    Drawing(
        "task-2-validation-without",
        "paper",
        "Task 2 validation at width 0.1, without the guarantee",
        "Validation is over the whole domain, training in the box only. The axis is that of the next figure.",
        lambda run: task_2_validation(run.table, "all"),
        beside="Figure 7",
    ),
    Drawing(
        "task-2-validation-with",
        "paper",
        "Task 2 validation at width 0.1, with the guarantee",
        "The same trials as in the figure before, on the same axis.",
        lambda run: task_2_validation(run.table, "finest"),
        beside="Figure 8",
    ),
    Drawing(
        "test-error-by-width",
        "paper",
        "Test error against the width of the changed region",
        "Means over trials with their standard errors. The dotted curve is the paper's estimate δ − δⁿ, "
        "scaled and shifted by least squares to the model with the guarantee. For one input the estimate is "
        "zero at every width: it predicts a constant, and there is no R² to give.",
        lambda run: error_by_width(run.table),
        beside="Figure 9",
    ),
]
