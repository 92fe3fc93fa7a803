"""Figures: error and time of the methods, and how far each is from the best on each table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from opponents import ATLAS, BOOSTING, CATBOOST, METHODS
from summary import CLASSIFICATION, REGRESSION, geometric_mean, grid, ranks, ratios

from atlas_splines.experiments.style import BLUE, GREEN, GREY, STYLE, VERMILLION, headline, panels

SHOWN = {REGRESSION: ("rmse", "regression, by RMSE"), CLASSIFICATION: ("log_loss", "classes, by log loss")}
COLOURS = {ATLAS: VERMILLION, BOOSTING: BLUE, CATBOOST: GREEN}
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
    for axes, task in zip(grid_of_axes[0], tasks(lines), strict=True):
        measure, title = SHOWN[task]
        values, seconds = grid(lines, task, measure), grid(lines, task, "fit_seconds")
        average = ranks(values)
        times = {name: geometric_mean(ratios(seconds, name, BOOSTING)) for name in values}
        for place, method in enumerate(sorted(times, key=lambda name: times[name])):
            axes.plot(times[method], average[method], "o", color=colour(method), markersize=8)
            axes.annotate(
                label(values, method), (times[method], average[method]), xytext=(0, -15 if place % 2 else 7),
                textcoords="offset points", ha="center", fontsize=8,
            )  # fmt: skip
        axes.set(
            xscale="log", xlabel="seconds to fit ÷ HistGradientBoosting", ylabel="average rank", title=title
        )
        axes.margins(0.18, 0.12)
        axes.invert_yaxis()
    return headline(
        figure, "Average rank and time of each method: the best are at the top, the quickest at the left"
    )


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
