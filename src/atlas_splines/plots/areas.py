"""Places where predictions differ, as bars along each column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_splines.memory.footprints import Footprint
from atlas_splines.plots.footprints import LANE_GAP, draw_bars, explained
from atlas_splines.plots.style import ACCENT, DPI, LANE_COLOUR

__all__ = ["draw_areas", "save_areas"]

MOST_AREAS = 20


def draw_areas(axes: Axes, areas: Sequence[Footprint]) -> Axes:
    """Draw places as rows; each column has a lane, and a bar where the place has it.

    Parameters
    ----------
    axes
        Where to draw.
    areas
        Footprints, such as ``areas`` of `versions.diff`. Of more than 20 the first 20 are drawn.

    Examples
    --------
    >>> from atlas_splines import Atlas, footprint
    >>> area = footprint(Atlas(inputs=2), [[0.1, 0.1], [0.3, 0.3]])
    >>> axes = draw_areas(Figure().subplots(), [area])
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['place 1']
    """
    shown = areas[:MOST_AREAS]
    names: Sequence[str] = ()
    for row, area in enumerate(shown):
        inner, names, to_units = explained(area)
        for lane in range(len(names)):
            low, high = to_units(lane, inner.domain[lane])
            parts = np.array(area.intervals(lane)).reshape(-1, 2)
            shares = LANE_GAP + (1 - 2 * LANE_GAP) * (parts - low) / (high - low)
            draw_bars(axes, (lane + shares).clip(lane, lane + 1).tolist(), row, ACCENT)
    for lane in range(len(names)):
        axes.axvspan(lane + LANE_GAP, lane + 1 - LANE_GAP, color=LANE_COLOUR, lw=0, zorder=0)
    axes.set_yticks(range(len(shown)), [f"place {k + 1}" for k in range(len(shown))])
    axes.set_xticks(np.arange(len(names)) + 0.5, list(names))
    axes.tick_params(length=0, labelsize="small")
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0, max(len(names), 1)), ylim=(max(len(shown), 1) - 0.5, -0.5))
    return axes


def save_areas(path: Path, areas: Sequence[Footprint]) -> None:
    """Save a picture of places."""
    figure = Figure(figsize=(8, 1 + 0.35 * min(max(len(areas), 1), MOST_AREAS)), layout="constrained")
    draw_areas(figure.subplots(), areas)
    figure.savefig(path, dpi=DPI)
