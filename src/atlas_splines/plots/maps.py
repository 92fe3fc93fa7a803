"""Maps of functions over the unit square."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from atlas_splines.plots.style import ACCENT, CHANGE_COLOURS, DPI, VALUE_COLOURS

__all__ = ["draw_box", "draw_map", "save_maps"]

Image = NDArray[np.floating]
Box = tuple[tuple[float, float], tuple[float, float]] | Image  # (low, high) of each input


def draw_map(
    axes: Axes, image: Image, *, title: str, low: float, high: float, colours: str = VALUE_COLOURS
) -> Axes:
    """Draw values over the unit square, ``image[i, j]`` at x₁ = i and x₂ = j of an even grid.

    Examples
    --------
    >>> axes = Figure().subplots()
    >>> draw_map(axes, np.eye(3), title="identity", low=0, high=1) is axes
    True
    """
    scale, square = Normalize(low, high), (0, 1, 0, 1)
    axes.imshow(image.T, origin="lower", extent=square, cmap=colours, norm=scale, interpolation="none")
    axes.set(title=title, xlabel="$x_1$", ylabel="$x_2$", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.grid(False)
    return axes


def draw_box(axes: Axes, box: Box, label: str | None = None) -> Axes:
    """Outline a box of the unit square, given as (low, high) for each input.

    Examples
    --------
    >>> axes = draw_box(Figure().subplots(), ((0.2, 0.4), (0.5, 0.9)))
    >>> len(axes.patches)
    1
    """
    (left, right), (bottom, top) = box
    size = (right - left, top - bottom)
    axes.add_patch(Rectangle((left, bottom), *size, fill=False, color=ACCENT, lw=2, label=label))
    return axes


def save_maps(path: Path, values: Mapping[str, Image], changes: Mapping[str, Image], box: Box) -> None:
    """Save a row of value maps above a row of as many change maps, each row with one colour scale."""
    figure = Figure(figsize=(8, 6.8), layout="constrained")
    above, below = figure.subplots(2, len(values), squeeze=False)
    lowest = min(float(image.min()) for image in values.values())
    draw_maps(above, values, box, lowest, VALUE_COLOURS, "prediction")
    draw_maps(below, changes, box, 0.0, CHANGE_COLOURS, "size of the change")
    figure.savefig(path, dpi=DPI)


def draw_maps(
    panels: NDArray[np.object_], maps: Mapping[str, Image], box: Box, low: float, colours: str, label: str
) -> None:
    """Draw maps side by side with one colour scale, and outline a box in each."""
    high = max(float(image.max()) for image in maps.values())
    for axes, (title, image) in zip(panels, maps.items(), strict=True):
        draw_box(draw_map(axes, image, title=title, low=low, high=high, colours=colours), box)
    panels[0].figure.colorbar(panels[0].images[0], ax=list(panels), label=label, shrink=0.85)
