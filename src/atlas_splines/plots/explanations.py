"""Pictures of explanations: a waterfall of one row, a swarm of all rows, and a column against its values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from atlas_splines.explain.explanation import Explanation, text_of
from atlas_splines.plots.style import ACCENT, DPI, MAIN, QUIET, VALUE_COLOURS

__all__ = ["draw_beeswarm", "draw_dependence", "draw_waterfall", "save_explanation"]

Array = NDArray[np.float64]

MOST_COLUMNS = 12  # that a picture has a line for


def draw_waterfall(axes: Axes, explanation: Explanation, row: int = 0, most: int = MOST_COLUMNS) -> Axes:
    """Draw how one prediction comes about, column by column from the mean.

    Parameters
    ----------
    axes
        Where to draw.
    explanation
        An explanation of one output; `of_output` chooses one of several.
    row
        Number of the row.
    most
        Columns with a bar of their own; the others are one bar.

    Examples
    --------
    >>> found = Explanation(np.array([[1.0, -2.0]]), np.array([3.0]), np.array([[0.1, 0.2]]), ["a", "b"])
    >>> draw_waterfall(Figure().subplots(), found).get_title()
    'target 2 = 3 on average'
    """
    single = _single(explanation)
    values, names = single.values[row], single.feature_names
    order = np.argsort(-np.abs(values), kind="stable")
    texts = [f"{names[j]} = {text_of(single.data[row, j])}" for j in order[:most]]
    bars = values[order[:most]].tolist()
    if len(order) > most:
        texts, bars = (
            [*texts, f"{len(order) - most} other columns"],
            [*bars, float(values[order[most:]].sum())],
        )
    base = float(single.base_values[row])
    starts = base + np.concatenate([np.cumsum(bars[::-1])[::-1][1:], [0.0]])  # the smallest comes first
    colours = [ACCENT if value > 0 else MAIN for value in bars]
    axes.barh(range(len(bars)), bars, left=starts, color=colours)
    for k, (value, start) in enumerate(zip(bars, starts.tolist(), strict=True)):
        axes.annotate(f" {value:+.4g} ", (max(start, start + value), k), va="center", fontsize=8)
    axes.axvline(base, color=QUIET, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(bars)), texts)
    axes.invert_yaxis()
    axes.use_sticky_edges = False
    axes.margins(x=0.18)
    axes.set_xlabel(single.unit)
    axes.set_title(f"{single.unit} {single.predictions[row]:.4g} = {base:.4g} on average", fontsize=10)
    return axes


def draw_beeswarm(axes: Axes, explanation: Explanation, most: int = MOST_COLUMNS) -> Axes:
    """Draw the contributions of all rows, a line for each column, with the colour of the value.

    Parameters
    ----------
    axes, explanation, most
        As in `draw_waterfall`; the columns with the largest mean contribution are drawn.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=(50, 2)) * [2, 1]
    >>> found = Explanation(values, np.zeros(50), values, ["a", "b"])
    >>> [text.get_text() for text in draw_beeswarm(Figure().subplots(), found).get_yticklabels()]
    ['a', 'b']
    """
    single = _single(explanation)
    order = np.argsort(-np.abs(single.values).mean(axis=0), kind="stable")[:most]
    for k, j in enumerate(order.tolist()):
        values = single.values[:, j]
        heights = k + _spread(values)
        shades = _shades(single.data[:, j])
        missing = np.isnan(shades)
        axes.scatter(values[missing], heights[missing], s=9, color=QUIET, linewidths=0)
        axes.scatter(
            values[~missing],
            heights[~missing],
            s=9,
            c=shades[~missing],
            cmap=VALUE_COLOURS,
            vmin=0,
            vmax=1,
            linewidths=0,
        )
    axes.axvline(0, color=QUIET, linewidth=0.8)
    axes.set_yticks(range(len(order)), [single.feature_names[j] for j in order])
    axes.invert_yaxis()
    axes.set_xlabel(f"what the column adds to the {single.unit} (bright: large values)")
    return axes


def draw_dependence(axes: Axes, explanation: Explanation, column: int | str) -> Axes:
    """Draw what a column adds against its values.

    Parameters
    ----------
    axes, explanation
        As in `draw_waterfall`.
    column
        Number or name of the column.

    Examples
    --------
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> found = Explanation(x**2, np.zeros(20), x, ["size"])
    >>> draw_dependence(Figure().subplots(), found, "size").get_xlabel()
    'size'
    """
    single = _single(explanation)
    if isinstance(column, str) and column not in single.feature_names:
        raise ValueError(f"there is no column {column!r}; these are {', '.join(single.feature_names)}")
    j = single.feature_names.index(column) if isinstance(column, str) else column
    data = single.data[:, j]
    numbers = _numbers(data)
    if numbers is None:
        labels = sorted({text_of(value) for value in data})
        places = np.array([labels.index(text_of(value)) for value in data])
        axes.set_xticks(range(len(labels)), labels, rotation=30 if len(labels) > 4 else 0, fontsize=8)
        axes.scatter(places + 0.6 * (_spread(single.values[:, j])), single.values[:, j], s=9, color=MAIN)
    else:
        axes.scatter(numbers, single.values[:, j], s=9, color=MAIN, linewidths=0)
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set_xlabel(single.feature_names[j])
    axes.set_ylabel(f"added to the {single.unit}")
    return axes


def save_explanation(path: Path, explanation: Explanation) -> None:
    """Save a picture of one row as a waterfall, of several as a swarm; one panel for each output."""
    outputs = explanation.output_names
    parts = [explanation.of_output(k) for k in range(len(outputs))] if outputs else [explanation]
    lines = min(len(explanation.feature_names), MOST_COLUMNS) + 3
    figure = Figure(figsize=(8, 0.4 * lines * len(parts)), layout="constrained")
    panels = figure.subplots(len(parts), squeeze=False)[:, 0]
    for part, panel in zip(parts, panels, strict=True):
        if len(part) == 1:
            draw_waterfall(panel, part)
        else:
            draw_beeswarm(panel, part)
    figure.savefig(path, dpi=DPI)


def _single(explanation: Explanation) -> Explanation:
    """An explanation of single columns and of one output, or a sentence."""
    if explanation.output_names:
        raise ValueError("the explanation has several outputs; choose one with of_output")
    return explanation.of_alone()


def _numbers(data: NDArray[Any]) -> Array | None:
    """Values as numbers, NaN where they are missing; None if some are texts."""
    try:
        return np.array([np.nan if value is None else value for value in data.tolist()], np.float64)
    except (TypeError, ValueError):
        return None


def _shades(data: NDArray[Any]) -> Array:
    """Rank of each value from 0 to 1, NaN where it is missing; texts by their order."""
    numbers = _numbers(data)
    if numbers is None:
        labels = sorted({text_of(value) for value in data})
        numbers = np.array([labels.index(text_of(value)) for value in data], np.float64)
        numbers[[text_of(value) == "missing" for value in data]] = np.nan
    known = np.unique(numbers[~np.isnan(numbers)])
    ranks = np.searchsorted(known, numbers) / max(len(known) - 1, 1)
    return np.where(np.isnan(numbers), np.nan, ranks)


def _spread(values: Array) -> Array:
    """How far each point is moved aside so that those with nearly the same value do not hide each other."""
    bins = np.digitize(values, np.linspace(values.min(), values.max() + 1e-12, 40))
    moved = np.zeros(len(values))
    for number in np.unique(bins):
        own = np.flatnonzero(bins == number)
        places = np.arange(len(own)) - (len(own) - 1) / 2
        moved[own] = 0.7 * places / max(len(values) / 8, len(own))
    return moved
