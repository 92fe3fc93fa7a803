"""Figures: error and time of the methods, and how far each is from the best on each table."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from opponents import ATLAS, BOOSTING, CATBOOST, METHODS
from summary import CLASSIFICATION, REGRESSION, geometric_mean, grid, ranks, ratios

from atlas_splines.experiments.style import BLUE, GREEN, GREY, STYLE, VERMILLION, headline, panels

SHOWN = {REGRESSION: ("rmse", "regression, by RMSE"), CLASSIFICATION: ("log_loss", "classes, by log loss")}
COLOURS = {ATLAS: VERMILLION, BOOSTING: BLUE, CATBOOST: GREEN}
Spot = tuple[str, float, float]  # label, x and y of a point
POINT = 6.0  # pixels around a point that labels keep clear of
SIDES: list[tuple[float, float, Any]] = [
    *((0, 11, "center"), (0, -11, "center"), (9, 0, "left"), (-9, 0, "right")),
    *((9, 9, "left"), (9, -9, "left"), (-9, 9, "right"), (-9, -9, "right")),
    *((0, 22, "center"), (0, -22, "center"), (12, 20, "left"), (12, -20, "left")),
    *((-12, 20, "right"), (-12, -20, "right")),
]  # offsets of labels from their points, in points, and how they are aligned: the first that is free is taken
FARTHEST = 4.0  # ratios beyond are drawn at the edge


def tasks(lines: pd.DataFrame) -> list[str]:
    return [task for task in SHOWN if task in set(lines["task"])]


def colour(method: str) -> str:
    return COLOURS.get(method, GREY)


def label(values: pd.DataFrame, method: str) -> str:
    """The name of a method, and how many cases it ran if not all."""
    cases = values[method].count()
    return METHODS[method].label + ("" if cases == len(values) else f" ({cases} of {len(values)})")


def draw_methods(lines: pd.DataFrame) -> Figure:
    """Average rank against time to fit."""
    figure, grid_of_axes = panels(1, len(tasks(lines)), 4.2)
    spots: dict[Axes, list[Spot]] = defaultdict(list)
    for axes, task in zip(grid_of_axes[0], tasks(lines), strict=True):
        measure, title = SHOWN[task]
        values, seconds = grid(lines, task, measure), grid(lines, task, "fit_seconds")
        average = ranks(values)
        times = {name: geometric_mean(ratios(seconds, name, BOOSTING)) for name in values}
        for method in times:
            axes.plot(times[method], average[method], "o", color=colour(method), markersize=8)
            spots[axes].append((label(values, method), times[method], average[method]))
        axes.set(
            xscale="log", xlabel="seconds to fit ÷ HistGradientBoosting", ylabel="average rank", title=title
        )
        axes.margins(0.18, 0.12)
        axes.invert_yaxis()
    headline(
        figure, "Average rank and time of each method: the best are at the top, the quickest at the left"
    )
    for axes, own in spots.items():
        write_labels(axes, own)
    return figure


def write_labels(axes: Axes, spots: list[Spot]) -> None:
    """Label points, each at the first of several sides where it covers no other label and no point."""
    figure: Any = axes.figure
    figure.draw_without_rendering()  # sizes are known from here on
    places = [axes.transData.transform(spot[1:]) for spot in spots]
    taken = [Bbox.from_bounds(x - POINT, y - POINT, 2 * POINT, 2 * POINT) for x, y in places]
    for text, x, y in sorted(spots, key=lambda spot: spot[2]):
        for place in SIDES:
            written = axes.annotate(
                text, (x, y), xytext=place[:2], textcoords="offset points", ha=place[2], va="center", fontsize=8,
            )  # fmt: skip
            written.set_in_layout(False)
            box = written.get_window_extent()
            inside = axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1
            if (inside and not any(box.overlaps(other) for other in taken)) or place == SIDES[-1]:
                break
            written.remove()
        taken.append(box)


def draw_ratios(axes: Axes, values: pd.DataFrame) -> None:
    """For each case the error of each method ÷ the smallest."""
    to_best = values.div(values.min(axis=1), axis=0).clip(upper=FARTHEST)
    places = np.arange(len(to_best))[::-1]
    for method in sorted(values, key=lambda name: name in COLOURS):
        style: Any = {"s": 46, "zorder": 3} if method in COLOURS else {"s": 22, "alpha": 0.55}
        name = METHODS[method].label if method in COLOURS else None
        axes.scatter(to_best[method], places, color=colour(method), label=name, linewidths=0, **style)
    axes.scatter([], [], color=GREY, s=22, alpha=0.55, label="others", linewidths=0)
    axes.set_yticks(places, list(to_best.index))
    axes.set(xscale="log", xlabel="error ÷ the smallest")
    axes.set_xticks([1, 1.5, 2, 3, FARTHEST], ["1", "1.5", "2", "3", f"≥ {FARTHEST:g}"])
    axes.minorticks_off()


def draw_tables(lines: pd.DataFrame) -> Figure:
    """How far each method is from the best on each table."""
    most = max(len(grid(lines, task, SHOWN[task][0])) for task in tasks(lines))
    figure, grid_of_axes = panels(1, len(tasks(lines)), 1.6 + 0.22 * most)
    for axes, task in zip(grid_of_axes[0], tasks(lines), strict=True):
        measure, title = SHOWN[task]
        draw_ratios(axes, grid(lines, task, measure))
        axes.set_title(title)
    handles, names = grid_of_axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4)
    return headline(figure, "Error of each method on each table, as a ratio to the smallest")


def save_figures(lines: pd.DataFrame, folder: Any) -> None:
    with rc_context(STYLE):
        for name, draw in (("methods", draw_methods), ("tables", draw_tables)):
            draw(lines).savefig(folder / f"{name}.png", dpi=100, metadata={"Software": None})
