"""Figures of Experiments A–D in the appendix."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_splines.experiments.drawings import Drawing, NotInThisRun
from atlas_splines.experiments.paper.results import (
    LETTERS,
    Pictures,
    Table,
    TrialResults,
    need,
    outside,
    pick,
    stack,
)
from atlas_splines.experiments.paper.trials import APPENDIX_BOX, STAGE_EPOCHS, STAGES
from atlas_splines.experiments.style import (
    BLACK,
    BLUE,
    GREY,
    VERMILLION,
    colour_bar,
    common_scale,
    count,
    draw_map,
    headline,
    name_inputs,
    number,
    panels,
)
from atlas_splines.plots import draw_box
from atlas_splines.plots.style import CHANGE_COLOURS

__all__ = ["DRAWINGS", "HOLE"]

HOLE = APPENDIX_BOX.T  # (low, high) of each input: what Task 2 changes
NOISE_MAE = float(np.sqrt(2 / np.pi))  # mean size of a standard normal variable


def appendix_training(results: Table, letter: str) -> Figure:
    """Training and validation curves of both tasks of an experiment A–D."""
    rows = pick(results, letter, "finest")
    if not len(rows):
        raise NotInThisRun(f"No trial of Experiment {letter} is in this run.")
    figure, grid = panels(1, 2, 3.7, sharey=True, width_ratios=[2.2, 1])
    floor = NOISE_MAE * float(np.mean(rows["noise"]))
    ends = [draw_task(axes, rows, task, floor) for task, axes in enumerate(grid[0], start=1)]
    grid[0, 0].set(ylabel="MAE, noisy targets", yscale="log")
    for stage in range(STAGES):
        grid[0, 0].axvline(STAGE_EPOCHS * stage + 0.5, color=GREY, lw=0.8, ls=":")
        label = f"r = {stage}\nM = {2 * stage}"
        grid[0, 0].text(
            STAGE_EPOCHS * stage + 3,
            0.98,
            label,
            transform=grid[0, 0].get_xaxis_transform(),
            va="top",
            fontsize=9,
        )
    grid[0, 0].set_xticks(range(0, STAGES * STAGE_EPOCHS + 1, STAGE_EPOCHS))
    low, high = grid[0, 0].get_ylim()
    grid[0, 0].set_ylim(low, high * (high / low) ** 0.25)
    grid[0, 1].legend(loc="upper right")
    text = f"Experiment {letter}: the median validation MAE ends at {number(ends[0])} in Task 1"
    return headline(figure, f"{text} and at {number(ends[1])} in Task 2; noise alone makes {number(floor)}")


def draw_task(axes: Axes, rows: Table, task: int, floor: float) -> float:
    """Draw all training and validation curves of a task and their medians; return the last validation."""
    last = float("nan")
    kinds = (("training", BLUE, "-"), ("validation", VERMILLION, "--"))
    for kind, colour, line in kinds:
        curves = stack(list(rows[f"{kind}_{task}"]))
        if not len(curves):
            continue
        epochs, middle = np.arange(1, curves.shape[1] + 1), np.nanmedian(curves, axis=0)
        axes.plot(epochs, curves.T, color=colour, lw=0.5, alpha=0.25, rasterized=True)
        axes.plot(epochs, middle, color=colour, ls=line, lw=1.8, label=f"{kind}, median")
        last = float(middle[-1])
    axes.axhline(floor, color=BLACK, lw=1, ls=(0, (1, 2)), label="noise alone")
    axes.set(title=f"Task {task}: {count([len(rows)], 'trial')}", xlabel="epoch")
    return last


def appendix_expansions(results: Table, pictures: Pictures, letter: str) -> Figure:
    """The model after each expansion, beside the target."""
    images = need(pictures, letter, [*(f"stage_{stage}" for stage in range(STAGES)), "target_1"])
    stages = stack(list(pick(results, letter, "finest")["stage_clean"]))
    errors = (
        stages.mean(axis=0) if len(stages) else np.abs(np.array(images[:STAGES]) - images[-1]).mean((1, 2))
    )
    figure, grid = panels(2, 3, 5.6, sharex=True, sharey=True)
    scale = common_scale(images)
    for stage, (axes, image) in enumerate(zip(grid.flat, images, strict=True)):
        named = f"r = {stage}, M = {2 * stage}: MAE {number(errors[stage])}" if stage < STAGES else "target"
        draw_map(axes, image, named, scale)
    name_inputs(grid)
    colour_bar(figure, grid[0, 0].images[0], grid, "output", aspect=40)
    best = int(np.argmin(errors))
    who = f"mean of {count([len(stages)], 'trial')}" if len(stages) else "this trial"
    ends = f"from {number(errors[0])} at r = 0 to {number(errors[-1])} at r = {STAGES - 1}"
    text = f"Experiment {letter}: the clean test MAE goes {ends}, and is lowest at r = {best} ({who})"
    return headline(figure, text)


def appendix_inspection(pictures: Pictures, letter: str) -> Figure:
    """Targets and outputs of both tasks, and what Task 2 did off target."""
    images = need(pictures, letter, ["target_1", f"stage_{STAGES - 1}", "target_2", "finest_2"])
    names = ["target of Task 1", "model after Task 1", "target of Task 2", "model after Task 2"]
    change = np.abs(images[3] - images[2])
    figure, grid = panels(1, 5, 3.1, sharex=True, sharey=True)
    scale = common_scale(images)
    for axes, image, name in zip(grid[0], images, names, strict=False):
        draw_map(axes, image, name, scale)
    draw_map(grid[0, 4], change, "distance from target", common_scale([change], low=0), CHANGE_COLOURS)
    for axes in grid[0, 2:]:
        draw_box(axes, HOLE)
    name_inputs(grid)
    colour_bar(figure, grid[0, 3].images[0], grid[0, :4], "output", orientation="horizontal", aspect=50)
    colour_bar(
        figure, grid[0, 4].images[0], grid[0, 4], "|model − target|", orientation="horizontal", aspect=12
    )
    apart = outside(HOLE, len(change))
    before, after = np.abs(images[1] - images[2])[apart].mean(), change[apart].mean()
    text = f"Experiment {letter}: Task 2 takes the mean distance outside the box from {number(before)}"
    return headline(figure, f"{text} to {number(after)}")


def drawings_of(position: int, letter: str) -> list[Drawing[TrialResults]]:
    """The three figures of an experiment; the paper has four numbers for each."""
    first, name = 10 + 4 * position, f"experiment-{letter.lower()}"
    return [
        Drawing(
            f"{name}-training",
            "paper",
            f"Experiment {letter}: training curves of both tasks",
            "Training and validation error of every trial (thin) and their median (thick). Each dotted line "
            "is an expansion: one more density, two more pairs of exponentials. Task 2 trains in a small "
            "box in the middle only, and is validated everywhere.",
            lambda run: appendix_training(run.table, letter),
            beside=f"Figures {first} and {first + 2}",
        ),
        Drawing(
            f"{name}-expansions",
            "paper",
            f"Experiment {letter}: outputs after each expansion",
            "The model after 30 epochs at each size, and the target. The errors are clean: against the "
            "target without noise, on the test set.",
            lambda run: appendix_expansions(run.table, run.pictures, letter),
            beside=f"Figure {first + 1}",
        ),
        Drawing(
            f"{name}-inspection",
            "paper",
            f"Experiment {letter}: targets and outputs of both tasks",
            "Task 2 sets the outlined box to zero. What it changes elsewhere shows in the last panel, as the "
            "distance from the Task 2 target.",
            lambda run: appendix_inspection(run.pictures, letter),
            beside=f"Figure {first + 3}",
        ),
    ]


DRAWINGS = [drawing for position, letter in enumerate(LETTERS) for drawing in drawings_of(position, letter)]
