"""Pictures of the arena. Titles state findings, and every number in them is computed from what is drawn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from atlas_splines.experiments.arena.measures import mean
from atlas_splines.experiments.arena.methods import METHODS
from atlas_splines.experiments.arena.ranking import Results, Row, critical_difference, table
from atlas_splines.experiments.drawings import Drawing
from atlas_splines.experiments.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RATIOS,
    VERMILLION,
    Line,
    LineStyle,
    as_map,
    colour_bar,
    headline,
    number,
)
from atlas_splines.plots.style import VALUE_COLOURS

__all__ = ["DRAWINGS"]

Array = NDArray[np.floating]
WIDTH = 9.5  # inches; the names of the methods need more than the paper's figures
LINES: dict[str, tuple[str, Line, str]] = {  # whose memory is drawn over time
    "atlas-charts": (VERMILLION, "-", "D"),
    "atlas-rehearsal": (GREEN, ":", "^"),
    "atlas-paper": (BLUE, "-", "o"),
    "mlp": (GREY, "--", "s"),
    "mlp-ewc": (GREY, ":", "v"),
    "mlp-rehearsal": (BLACK, "--", "P"),
    "progressive": (ORANGE, "-.", "X"),
    "kan": (PURPLE, "-.", "*"),
}
FOLLOWED = {name: LineStyle(METHODS[name].label, *drawn) for name, drawn in LINES.items()}


def colour_of(method: str) -> str:
    """ATLAS in colour, what keeps all data in grey, the rest black."""
    if METHODS[method].keeps_all:
        return GREY
    return VERMILLION if method.startswith("atlas") else BLACK


# --- ranks -----------------------------------------------------------------------------------------------


def rank_figure(results: Results) -> Figure:
    """Mean ranks, and bars over those that cannot be told apart."""
    rows = sorted((row for row in table(results) if not row.keeps_all), key=lambda row: row.rank)
    cells = len(results.ranked_cells())
    distance = critical_difference(len(rows), cells) if len(rows) > 1 else 0.0
    figure = Figure(figsize=(WIDTH, 1.6 + 0.24 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        axes.plot([0, row.rank], [place, place], color="#dddddd", lw=1, zorder=1)
        axes.plot(row.rank, place, "o", color=colour_of(row.method), ms=6, zorder=3)
        axes.annotate(f"{row.rank:.1f}", (row.rank, place), (8, 0), textcoords="offset points", va="center")
    axes.axvspan(rows[0].rank, rows[0].rank + distance, color=VERMILLION, alpha=0.08, lw=0)
    for group, (first, last) in enumerate(cliques([row.rank for row in rows], distance)):
        x = len(rows) + 0.6 + 0.35 * group
        axes.plot([x, x], [first - 0.2, last + 0.2], color=BLACK, lw=2.5, solid_capstyle="butt")
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set(xlabel="mean rank over the cells (1 is best)", xlim=(0, None), ylim=(len(rows) - 0.4, -0.6))
    axes.grid(axis="y", visible=False)
    near = sum(row.rank <= rows[0].rank + distance for row in rows) - 1
    return headline(
        figure,
        f"First by mean rank over {cells} cells of protocols 1 to 5: {rows[0].label}, {rows[0].rank:.1f}; "
        f"{near} others are within the critical difference of {distance:.1f} (shaded)",
    )


def cliques(ordered: Sequence[float], distance: float) -> list[tuple[int, int]]:
    """Longest runs of sorted ranks that span less than a distance, as first and last place.

    Examples
    --------
    >>> cliques([1.0, 2.0, 4.0, 4.5], 2.5)
    [(0, 1), (1, 3)]
    """
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ordered):
        last = max(k for k, other in enumerate(ordered) if other - rank <= distance)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


# --- errors ----------------------------------------------------------------------------------------------


def ratio_figure(results: Results) -> Figure:
    """Final error over that of retraining, for each method and cell."""
    rows = table(results)
    with np.errstate(all="ignore"):
        logs = np.log(results.ratios())  # (methods, cells, seeds)
    order = [results.methods.index(row.method) for row in rows]
    ratios = np.array([[np.exp(mean(logs[m, c])) for c in range(len(results.cells))] for m in order])
    figure = Figure(figsize=(WIDTH + 1, 1.8 + 0.27 * len(rows)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(np.clip(ratios, 0.1, 100), cmap=RATIOS, norm=LogNorm(0.1, 10), aspect="auto")
    for (i, j), ratio in np.ndenumerate(ratios):
        text = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
        dark = np.isfinite(ratio) and not 0.2 < ratio < 5
        axes.text(
            j,
            i,
            text if np.isfinite(ratio) else "–",
            ha="center",
            va="center",
            fontsize=7.5,
            color="white" if dark else "black",
        )
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set_xticks(range(len(results.cells)), results.cells, rotation=35, ha="right")
    as_map(axes)
    bar = colour_bar(figure, image, axes, "final error / error of retraining", shrink=0.6, extend="max")
    bar.ax.set_yticks([0.1, 0.2, 0.5, 1, 2, 5, 10], ["0.1", "0.2", "0.5", "1", "2", "5", "10"])
    return headline(figure, ratio_finding(rows, ratios))


def ratio_finding(rows: Sequence[Row], ratios: Array) -> str:
    """In how many cells the first method is within 1.1 of retraining."""
    first = next((k for k, row in enumerate(rows) if not row.keeps_all), 0)
    known = ratios[first][np.isfinite(ratios[first])]
    within = int((known <= 1.1).sum())
    return (
        f"{rows[first].label}, first by rank, is within 1.1 of retraining in {within} of {len(known)} cells; "
        f"its worst is {number(float(known.max()) if len(known) else np.nan)} times"
    )


def time_figure(results: Results) -> Figure:
    """Error on the first task after each later one."""
    cells = [cell for cell in results.cells if results.protocol[cell] in (2, 3, 5, 6)][:6] or results.cells[
        :1
    ]
    columns = min(3, len(cells))
    figure = Figure(figsize=(WIDTH, 0.6 + 2.9 * -(-len(cells) // columns)), layout="constrained")
    grid = figure.subplots(-(-len(cells) // columns), columns, squeeze=False)
    for axes, cell in zip(grid.ravel(), cells, strict=False):
        draw_memory(axes, results, cell)
    for axes in grid.ravel()[len(cells) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("error on the first task")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return headline(figure, "Memory of the first task while later ones are learned")


def draw_memory(axes: Axes, results: Results, cell: str) -> None:
    """Mean over seeds of S[i, 0] for each followed method."""
    for method, style in FOLLOWED.items():
        curves = [[row[0] for row in run["S"]] for run in results.runs(method, cell)]
        if curves:
            mean_curve = np.nanmean(np.array(curves, np.float64), axis=0)
            axes.plot(np.arange(1, 1 + len(mean_curve)), mean_curve, ms=4, **style.options)
    drawn = [value for line in axes.lines for value in np.asarray(line.get_ydata())]
    axes.set(title=cell, xlabel="tasks learned", yscale="log" if min(drawn, default=1) > 0 else "linear")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def matrix_figure(results: Results) -> Figure:
    """R[i, j], the error on task j after task i, of some methods on the longest sequence."""
    cell = max(results.cells, key=lambda name: (task_count(results, name), -results.cells.index(name)))
    through = {r["method"] for r in results.records.values() if r["cell"] == cell and r["status"] == "ok"}
    chosen = [method for method in FOLLOWED if method in through] or sorted(through)[:4]
    shown = {method: mean_matrix(results, method, cell) for method in chosen}
    figure = Figure(figsize=(WIDTH, 0.9 + 2.2 * -(-len(shown) // 4)), layout="constrained")
    if not shown:
        return headline(figure, "No method went through a sequence, so there are no errors to show")
    grid = figure.subplots(-(-len(shown) // 4), 4, squeeze=False, sharex=True, sharey=True)
    known = np.concatenate([matrix[np.isfinite(matrix)] for matrix in shown.values()])
    norm = LogNorm(max(known.min(), 1e-3), max(known.max(), 2e-3))
    for axes, (method, matrix) in zip(grid.ravel(), shown.items(), strict=False):
        tasks = len(matrix) + 0.5
        image = axes.imshow(matrix, cmap=VALUE_COLOURS, norm=norm, extent=(0.5, tasks, tasks, 0.5))
        axes.set_title(METHODS[method].label, fontsize=9)
        as_map(axes)
    for axes in grid.ravel()[len(shown) :]:
        axes.set_visible(False)
    figure.supxlabel("error on task", fontsize=9)
    figure.supylabel("after task", fontsize=9)
    colour_bar(figure, image, grid, "error", shrink=0.8)
    return headline(figure, f"Errors on all tasks after each task: {cell} (below the diagonal: memory)")


def task_count(results: Results, cell: str) -> int:
    """Number of tasks of a cell, zero if no method went through it."""
    sizes = (len(r["R"]) for (_, name, _), r in results.records.items() if name == cell and "R" in r)
    return next(sizes, 0)


def mean_matrix(results: Results, method: str, cell: str) -> Array:
    """Mean of R over the seeds that a method went through."""
    matrices = [run["R"] for run in results.runs(method, cell)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an entry that no seed has is NaN
        return np.asarray(np.nanmean(np.array(matrices, np.float64), axis=0))


def region_figure(results: Results) -> Figure:
    """Error inside the newest region and outside it, each over that of retraining."""
    rows = [row for row in table(results) if not row.keeps_all]
    with np.errstate(all="ignore"):
        sides = {
            name: np.log(results.ratios(name)[:, results.ranked_cells()]) for name in ("inside", "outside")
        }
    figure = Figure(figsize=(WIDTH, 1.4 + 0.25 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        inside, outside = (
            np.exp(mean(sides[name][results.methods.index(row.method)].ravel())) for name in sides
        )
        axes.plot([inside, outside], [place, place], color="#cccccc", lw=2, zorder=1)
        axes.plot(inside, place, "s", color=BLUE, label="in the newest region" if not place else None)
        axes.plot(outside, place, "o", color=VERMILLION, label="elsewhere" if not place else None)
    axes.axvline(1, color=BLACK, lw=0.8)
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    axes.set(
        xscale="log", xlabel="error / error of retraining (geometric mean)", ylim=(len(rows) - 0.4, -0.6)
    )
    axes.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axes.grid(axis="y", visible=False)
    axes.legend(loc="upper right")
    return headline(
        figure, "What is learned in the newest region, and what is kept elsewhere, relative to retraining"
    )


def cost_figure(results: Results) -> Figure:
    """What each method needs: error, bytes, and time for training and prediction."""
    rows = table(results)
    columns = {
        "ratio": "error / retraining",
        "kilobytes": "kept, kB",
        "train_seconds": "training, s of one core",
        "predict_microseconds": "prediction, µs a row",
    }
    figure = Figure(figsize=(WIDTH + 1, 1.4 + 0.25 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(columns), sharey=True)
    for axes, (name, label) in zip(panels, columns.items(), strict=True):
        for place, row in enumerate(rows):
            axes.plot(max(getattr(row, name), 1e-3), place, "o", color=colour_of(row.method), ms=5)
        axes.set(xscale="log", xlabel=label, ylim=(len(rows) - 0.4, -0.6))
    panels[0].axvline(1, color=BLACK, lw=0.8)
    panels[0].set_yticks(range(len(rows)), [row.label for row in rows])
    return headline(figure, cost_finding(rows))


def cost_finding(rows: Sequence[Row]) -> str:
    """What the method with the least ratio costs."""
    known = [row for row in rows if not row.keeps_all and np.isfinite(row.ratio)]
    if not known:
        return "What memory costs"
    best = min(known, key=lambda row: row.ratio)
    return (
        f"What memory costs: {best.label} has the least ratio, {best.ratio:.2f}, and keeps "
        f"{number(best.kilobytes)} kB (ATLAS in colour, methods that keep all data in grey)"
    )


DRAWINGS: list[Drawing[Results]] = [
    Drawing(
        "critical-difference",
        "pictures",
        "",
        "Mean ranks of the final error among methods that do not keep all data; ranks are "
        "taken for each cell and seed. Methods beside one bar at the right cannot be told apart at 5 % "
        "(Nemenyi's test over cells).",
        rank_figure,
    ),
    Drawing(
        "ratio-to-retraining",
        "pictures",
        "",
        "Final error, the mean over all tasks, over that of retraining from scratch on "
        "all data: the better of ATLAS and MLP for each problem. Geometric means over seeds; 1 or less is as "
        "good as retraining.",
        ratio_figure,
    ),
    Drawing(
        "memory-over-time",
        "pictures",
        "",
        "Error on the first task after each task, on points whose target never changes. A "
        "flat line forgets nothing.",
        time_figure,
    ),
    Drawing(
        "error-matrix",
        "pictures",
        "",
        "R[i, j], the mean over seeds of the error on task j after task i. Above the diagonal a task has not "
        "been learned yet; along a column, below it, a method without forgetting keeps its colour.",
        matrix_figure,
    ),
    Drawing(
        "inside-and-outside",
        "pictures",
        "",
        "Protocols 1 to 5. Blue: error on the last task. Red: mean error on earlier ones.",
        region_figure,
    ),
    Drawing(
        "cost",
        "pictures",
        "",
        "Protocols 1 to 5 for the ratio, all protocols for bytes and seconds.",
        cost_figure,
    ),
]
