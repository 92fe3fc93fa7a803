"""The plan of an update, shared by `footprint` and `update`, with windows around its rows from a k-d split.

The split is that of a k-d tree (Bentley 1975), at the cut that saves most volume of bounding boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model import splines
from atlas_splines.model.charts import Window, overlap, window_around
from atlas_splines.model.checks import check_size
from atlas_splines.model.lattice import Domain
from atlas_splines.model.state import State
from atlas_splines.updates.footprint import BoxFootprint, CrossFootprint, Footprint, RestFootprint

__all__ = [
    "POOLING",
    "RETENTIONS",
    "Count",
    "Cover",
    "Retention",
    "UpdatePlan",
    "check_cover",
    "plan_update",
    "plan_windows",
    "split_points",
    "windows_around",
]

Cover = Literal["touch", "inside"]
Count = int | Literal["auto"]
Array = NDArray[np.floating]

NO_INPUTS = np.zeros(0, np.intp)


@dataclass(frozen=True)
class WindowRules:
    """How rows are covered by windows; not benchmarked.

    Attributes
    ----------
    max_charts, min_rows
        Of an automatic cover: charts, at most, and rows of each, at least.
    max_volume
        Share of the volume that both halves may have after a cut of an automatic cover.
    coarsest, finest
        Densities of windows: around few or wide data, and around much or narrow data.
    near_gaps
        A box at most so many mean gaps between rows from a face of the domain extends to it.
    """

    max_charts: int = 8
    min_rows: int = 50
    max_volume: float = 0.7
    coarsest: int = 5
    finest: int = 12
    near_gaps: int = 5


WINDOW_RULES = WindowRules()


def check_cover(cover: Cover, charts: Count) -> None:
    """Raise if these are not options of a cover."""
    if cover not in get_args(Cover):
        raise ValueError(f"cover must be 'touch' or 'inside', not {cover!r}")
    if charts != "auto":
        check_size("charts", charts, least=1)


def plan_windows(
    points: Array, domain: Domain, cover: Cover, charts: Count, spanned: NDArray[np.intp] = NO_INPUTS
) -> tuple[Window, ...]:
    """Windows of the charts that an update with these inputs would open.

    Along inputs that are `spanned` a window covers the domain: where the model is constrained to be monotone,
    a window that ended inside would make it rise and fall.
    """
    check_cover(cover, charts)
    return windows_around(split_points(points, charts, domain, spanned), domain, cover, spanned)


def split_points(
    points: Array, charts: Count, domain: Domain, spanned: NDArray[np.intp] = NO_INPUTS
) -> list[Array]:
    """The points of each chart, not split along spanned inputs, whose values are set to the lower end."""
    if spanned.size:
        points = points.copy()
        points[:, spanned] = domain[spanned, 0]
    if charts == "auto":
        return kd_split(points, WINDOW_RULES.max_charts, WINDOW_RULES.min_rows, WINDOW_RULES.max_volume)
    return kd_split(points, charts, max(len(points) // (4 * charts), 1), np.inf)


def windows_around(
    parts: list[Array], domain: Domain, cover: Cover, spanned: NDArray[np.intp] = NO_INPUTS
) -> tuple[Window, ...]:
    """A window around each part of the points."""
    corners = [snapped(part, domain) if cover == "touch" else part for part in parts]
    densities = [window_density(part) for part in parts]
    return tuple(
        window_around(part, density, cover, domain).spanning(spanned, domain, part.dtype)
        for part, density in zip(corners, densities, strict=True)
    )


def window_density(points: Array) -> int:
    """Density whose cells are as narrow as the mean gap between rows along the narrowest input.

    The rim of a window is three cells wide, about the gaps of the data at the edge of its box. Inputs along
    which the data is constant do not count. A single point has no gaps and gets the coarsest density.
    """
    spans = np.ptp(points, axis=0)
    if not spans.any():
        return WINDOW_RULES.coarsest
    narrowest = float(spans[spans > 0].min())
    densities = range(WINDOW_RULES.coarsest, WINDOW_RULES.finest)
    fine_enough = (d for d in densities if narrowest * splines.cell_count(d) >= len(points))
    return next(fine_enough, WINDOW_RULES.finest)


def snapped(points: Array, domain: Domain) -> Array:
    """Corners of the bounding box, moved to a face of the domain that is only a few gaps between rows away.

    Data that fills the domain up to a face hardly ever has a row exactly on that face.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    lowest, highest = domain.T.astype(points.dtype)
    near = WINDOW_RULES.near_gaps * (high - low) / len(points)
    return np.stack(
        [np.where(low - lowest <= near, lowest, low), np.where(highest - high <= near, highest, high)]
    )


def kd_split(points: Array, max_parts: int, min_rows: int, max_volume: float) -> list[Array]:
    """Cut the points into boxes, greedily at the cut that saves most volume, while it saves enough."""
    parts = [points]
    cuts = [best_cut(points, min_rows, max_volume)]
    while len(parts) < max_parts:
        k = max(range(len(parts)), key=lambda part: cuts[part].saving)
        if cuts[k].saving == -np.inf:
            break
        halves = [parts[k][cuts[k].lower], parts[k][~cuts[k].lower]]
        parts[k : k + 1] = halves
        cuts[k : k + 1] = [best_cut(half, min_rows, max_volume) for half in halves]
    return parts


class Cut(NamedTuple):
    """A cut in two: the volume it saves, and the rows of the lower half."""

    saving: float
    lower: NDArray[np.bool_]


def best_cut(points: Array, min_rows: int, max_volume: float) -> Cut:
    """The cut along any input that saves most volume, with a saving of −∞ if none saves enough."""
    whole = box_volume(points)
    best = Cut(-np.inf, np.zeros(len(points), np.bool_))
    for j in range(points.shape[1]):
        ordered = np.unique(points[:, j])
        if ordered.size < 2:
            continue
        gap = int(np.argmax(np.diff(ordered)))
        for edge in (ordered[gap], *np.quantile(points[:, j], [0.25, 0.5, 0.75])):
            lower = points[:, j] <= edge
            if min(lower.sum(), (~lower).sum()) >= min_rows:
                volume = box_volume(points[lower]) + box_volume(points[~lower])
                if volume < max_volume * whole:
                    best = max(best, Cut(whole - volume, lower), key=lambda cut: cut.saving)
    return best


def box_volume(points: Array) -> float:
    """Volume of the bounding box, with a margin so that flat boxes have a volume."""
    return float(np.prod(np.ptp(points, axis=0).astype(np.float64) + 0.02))


Retention = Literal["auto", "pool", "chart", "rehearsal", "both", "none"]

RETENTIONS: tuple[Retention, ...] = get_args(Retention)
POOLING = ("auto", "pool")  # those that need a model with a memory


@dataclass(frozen=True, eq=False)
class UpdatePlan:
    """What an update will do: `footprint` reports it and `update` carries it out.

    Attributes
    ----------
    retention
        How the update avoids forgetting.
    footprint
        The points whose prediction it can change.
    windows
        Those of the charts it opens.
    unaffected
        Those of the charts that pooling these rows does not change.
    not_rehearsed
        Region of the new rows, outside which rehearsal samples its points; None without rehearsal.
    """

    retention: Retention
    footprint: Footprint
    windows: tuple[Window, ...] = ()
    unaffected: tuple[Window, ...] = ()
    not_rehearsed: Footprint | None = None


def plan_update(state: State, points: Array, retention: Retention, cover: Cover, charts: Count) -> UpdatePlan:
    """Plan an update with these inputs; raise if it cannot be made."""
    if retention not in RETENTIONS:
        raise ValueError(f"retention must be one of {', '.join(RETENTIONS)}, not {retention!r}")
    check_cover(cover, charts)
    domain, dtype = state.lattice.domain, state.dtype
    if retention == "auto" and state.pooled is None:
        retention = "chart"
    if retention in POOLING:
        unaffected = _unaffected(state, points)
        return UpdatePlan(retention, RestFootprint(domain, dtype, unaffected), unaffected=unaffected)
    if retention == "none":
        density = state.trained_densities[0]
        touched = _touched_cells(points, density)
        return UpdatePlan(retention, CrossFootprint(domain, dtype, density, touched))
    spanned = state.monotone_inputs
    parts = split_points(points, charts, domain, spanned)
    windows = () if retention == "rehearsal" else windows_around(parts, domain, cover, spanned)
    if retention == "chart":
        return UpdatePlan(retention, BoxFootprint(domain, dtype, windows), windows)
    is_wide = cover == "touch" and windows
    around_data = windows if is_wide else windows_around(parts, domain, "touch", spanned)
    not_rehearsed = BoxFootprint(domain, dtype, around_data)
    return UpdatePlan(retention, _everything(state), windows, not_rehearsed=not_rehearsed)


def _unaffected(state: State, points: Array) -> tuple[Window, ...]:
    """Windows of replacing charts where neither they nor later overlapping charts receive any points."""
    domain, windows = state.lattice.domain, [chart.window for chart in state.charts if chart.replaces]
    joined = [bool((window.membership(points) == 1).any()) for window in windows]
    boxes = [window.box_in(domain) for window in windows]
    return tuple(
        window
        for k, window in enumerate(windows)
        if not any(joined[j] and overlap(boxes[j], boxes[k]) for j in range(k, len(windows)))
    )


def _everything(state: State) -> CrossFootprint:
    """The footprint of an update that can change every prediction."""
    domain = state.lattice.domain
    cells = tuple(np.arange(np.floor(low), np.ceil(high), dtype=np.intp) for low, high in domain)
    return CrossFootprint(domain, state.dtype, 0, cells)


def _touched_cells(points: Array, density: int) -> tuple[NDArray[np.intp], ...]:
    """Cells of each input that share a basis function with a cell of the points."""
    cells, _ = splines.active(points, density)
    return tuple(np.unique(np.unique(column)[:, None] + np.arange(-3, 4)) for column in cells.T)
