"""The look of all figures: colours, lines, panels, maps, and how numbers and findings are written."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from atlas_splines.plots import draw_map as draw_plain_map
from atlas_splines.plots.style import VALUE_COLOURS

__all__ = [
    "STYLE",
    "WIDTH",
    "LineStyle",
    "as_map",
    "colour_bar",
    "common_scale",
    "count",
    "draw_map",
    "headline",
    "note",
    "number",
    "panels",
]

Array = NDArray[np.floating]
Panels = Any  # an array of Axes, (rows, columns)
Line = Literal["-", "--", "-.", ":"]

# the colours of Okabe and Ito, which can be told apart by everybody
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILLION, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#767676"
RATIOS = "RdYlBu_r"  # colours of a map of ratios: blue is better than the reference, red is worse

STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.titlesize": 11.5,
    "figure.titleweight": "bold",
}
WIDTH = 9.0  # inches
ON_WHITE: dict[str, Any] = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 2}
HEADLINE_LENGTH = 88  # characters in a line of the headline


@dataclass(frozen=True)
class LineStyle:
    """How a model or method is drawn wherever it appears; line and marker tell it apart in grey."""

    label: str
    colour: str
    line: Line
    marker: str

    @property
    def options(self) -> dict[str, Any]:
        """The same as matplotlib calls it."""
        return {"color": self.colour, "ls": self.line, "marker": self.marker, "label": self.label}


# --- panels and words --------------------------------------------------------------------------------------


def panels(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Panels]:
    """Make a figure of the common width, and its axes as an array (rows, columns)."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def headline(figure: Figure, text: str) -> Figure:
    """State the finding above the panels, in lines of about the same length."""
    for symbol in "=≥>−+":
        text = text.replace(f" {symbol} ", f"\xa0{symbol}\xa0")  # no line ends within an equation
    lines = textwrap.wrap(text, HEADLINE_LENGTH)
    even = next(
        width for width in range(20, HEADLINE_LENGTH + 1) if len(textwrap.wrap(text, width)) == len(lines)
    )
    figure.suptitle(textwrap.fill(text, even), x=0.01, ha="left")
    return figure


def note(axes: Axes, text: str, x: float = 0.97, y: float = 0.95) -> None:
    """Write into a corner of a panel, on white so that lines do not cross it."""
    side = "right" if x > 0.5 else "left"
    axes.text(x, y, text, transform=axes.transAxes, ha=side, va="top", fontsize=9, bbox=ON_WHITE)


def nothing_here(axes: Axes) -> None:
    """Mark a panel that a partial run cannot fill."""
    axes.text(0.5, 0.5, "no trials yet", transform=axes.transAxes, ha="center", color=GREY)


def lines_with_label(row: Panels) -> tuple[list[Any], list[str]]:
    """Legend entries of the first panel that has any: in a partial run the first one may be empty."""
    found = [axes.get_legend_handles_labels() for axes in row]
    return next(((handles, labels) for handles, labels in found if handles), ([], []))


def count(values: Sequence[int], noun: str) -> str:
    """Write how many there are, as a range where cells differ.

    Examples
    --------
    >>> count([30, 30], "trial"), count([1], "trial"), count([28, 30], "trial")
    ('30 trials', '1 trial', '28–30 trials')
    """
    low, high = min(values), max(values)
    return f"{low} {noun}{'' if low == 1 else 's'}" if low == high else f"{low}–{high} {noun}s"


def number(value: float) -> str:
    """Write a number with three digits that count.

    Examples
    --------
    >>> number(0.001156), number(12.345), number(1234.5), number(0.0)
    ('0.00116', '12.3', '1,234', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


# --- maps --------------------------------------------------------------------------------------------------


def as_map(axes: Axes) -> None:
    """Give a panel the look of a map: no grid, no frame, no tick marks."""
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=5)


def draw_map(axes: Axes, image: Array, title: str, scale: Normalize, colours: str = VALUE_COLOURS) -> None:
    """Draw an image over the unit square, its first index along x₁."""
    low, high = float(scale.vmin or 0), float(scale.vmax or 0)
    draw_plain_map(axes, image, title=title, low=low, high=high, colours=colours)
    as_map(axes)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.label_outer()


def colour_bar(figure: Figure, drawn: Any, axes: Any, label: str, **options: Any) -> Any:
    """Add the colour bar of a map or of lines beside some panels, and return it."""
    bar: Any = figure.colorbar(drawn, ax=list(np.ravel(axes)), label=label, **options)
    bar.solids.set(rasterized=True, alpha=1)  # otherwise an SVG has a polygon for each of its 256 colours
    bar.outline.set_visible(False)
    return bar


def name_inputs(grid: Panels) -> None:
    """Label the inputs on the outer panels of a grid of maps."""
    for axes in grid[-1]:
        axes.set_xlabel("$x_1$")
    for axes in grid[:, 0]:
        axes.set_ylabel("$x_2$")


def common_scale(images: Sequence[Array], low: float | None = None) -> Normalize:
    """Return one colour scale for all images."""
    least = min(float(image.min()) for image in images) if low is None else low
    return Normalize(least, max(float(image.max()) for image in images))
