"""The plan of an update, one for footprint and update, with the windows around its rows."""

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
    "BY_EVIDENCE",
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

MOST_CHARTS = 8  # of an automatic cover
LEAST_ROWS = 50  # of each chart of an automatic cover
WORTHWHILE = 0.7  # a cut of an automatic cover must bring the volume below this share
COARSEST_FENCE = 5  # density of a fence around a few rows, or around wide data
FINEST_FENCE = 12  # density of a fence around many rows, or around narrow data
NOWHERE = np.zeros(0, np.intp)  # no inputs
NEAR_GAPS = 5  # a box so many mean gaps from a face of the domain reaches it


def check_cover(cover: Cover, charts: Count) -> None:
    """Raise if these are no options of a cover."""
    if cover not in get_args(Cover):
        raise ValueError(f"cover must be 'touch' or 'inside', not {cover!r}")
    if charts != "auto":
        check_size("charts", charts, least=1)


def plan_windows(
    points: Array, domain: Domain, cover: Cover, charts: Count, spanned: NDArray[np.intp] = NOWHERE
) -> tuple[Window, ...]:
    """Fences of the charts that an update with these inputs would open.

    Along inputs that are `spanned` a fence reaches from one end of the domain to the other: where a model has
    to rise or fall along an input, a window that ends there would take it up and down.
    """
    check_cover(cover, charts)
    return windows_around(split_points(points, charts, domain, spanned), domain, cover, spanned)


def split_points(
    points: Array, charts: Count, domain: Domain, spanned: NDArray[np.intp] = NOWHERE
) -> list[Array]:
    """The points of each chart; nothing is split along inputs that are spanned: all are at the lower end."""
    if spanned.size:
        points = points.copy()
        points[:, spanned] = domain[spanned, 0]
    if charts == "auto":
        return split(points, MOST_CHARTS, LEAST_ROWS, WORTHWHILE)
    return split(points, charts, max(len(points) // (4 * charts), 1), np.inf)


def windows_around(
    parts: list[Array], domain: Domain, cover: Cover, spanned: NDArray[np.intp] = NOWHERE
) -> tuple[Window, ...]:
    """A fence around each part of the points."""
    corners = [snapped(part, domain) if cover == "touch" else part for part in parts]
    densities = [window_density(part) for part in parts]
    return tuple(
        window_around(part, density, cover, domain).spanning(spanned, domain, part.dtype)
        for part, density in zip(corners, densities, strict=True)
    )


def window_density(points: Array) -> int:
    """Density whose cells are as narrow as the mean gap between rows along the narrowest input.

    The rim of a fence is three cells wide: about what the data leaves open of its own box. An input along
    which the data is constant does not count. A single place has no gaps, and does not support a needle.
    """
    spans = np.ptp(points, axis=0)
    if not spans.any():
        return COARSEST_FENCE
    narrowest = float(spans[spans > 0].min())
    densities = range(COARSEST_FENCE, FINEST_FENCE)
    fine_enough = (d for d in densities if narrowest * splines.cell_count(d) >= len(points))
    return next(fine_enough, FINEST_FENCE)


def snapped(points: Array, domain: Domain) -> Array:
    """Corners of the bounding box, moved to a face of the domain that is only a few gaps between rows away.

    Data that fills the domain up to a face hardly ever has a row exactly on it.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    lowest, highest = domain.T.astype(points.dtype)
    near = NEAR_GAPS * (high - low) / len(points)
    return np.stack(
        [np.where(low - lowest <= near, lowest, low), np.where(highest - high <= near, highest, high)]
    )


def split(points: Array, most: int, least_rows: int, worthwhile: float) -> list[Array]:
    """Cut the points into boxes, always at the cut that saves most volume, while it is worthwhile."""
    parts = [points]
    cuts = [best_cut(points, least_rows, worthwhile)]
    while len(parts) < most:
        k = max(range(len(parts)), key=lambda part: cuts[part].saving)
        if cuts[k].saving == -np.inf:
            break
        halves = [parts[k][cuts[k].lower], parts[k][~cuts[k].lower]]
        parts[k : k + 1] = halves
        cuts[k : k + 1] = [best_cut(half, least_rows, worthwhile) for half in halves]
    return parts


class Cut(NamedTuple):
    """A cut in two: the volume it saves, and the rows of the lower half."""

    saving: float
    lower: NDArray[np.bool_]


def best_cut(points: Array, least_rows: int, worthwhile: float) -> Cut:
    """The cut along any input that saves most volume, with a saving of −∞ if none is worthwhile."""
    whole = box_volume(points)
    best = Cut(-np.inf, np.zeros(len(points), np.bool_))
    for j in range(points.shape[1]):
        ordered = np.unique(points[:, j])
        if ordered.size < 2:
            continue
        gap = int(np.argmax(np.diff(ordered)))
        for edge in (ordered[gap], *np.quantile(points[:, j], [0.25, 0.5, 0.75])):
            lower = points[:, j] <= edge
            if min(lower.sum(), (~lower).sum()) >= least_rows:
                volume = box_volume(points[lower]) + box_volume(points[~lower])
                if volume < worthwhile * whole:
                    best = max(best, Cut(whole - volume, lower), key=lambda cut: cut.saving)
    return best


def box_volume(points: Array) -> float:
    """Volume of the bounding box, with a margin so that a flat box counts too."""
    return float(np.prod(np.ptp(points, axis=0).astype(np.float64) + 0.02))


Retention = Literal["auto", "pool", "chart", "rehearsal", "both", "none"]

RETENTIONS: tuple[Retention, ...] = get_args(Retention)
BY_EVIDENCE = ("auto", "pool")  # those that need a model with evidence


@dataclass(frozen=True, eq=False)
class UpdatePlan:
    """What an update will do; `footprint` promises it, and `update` keeps to it.

    Attributes
    ----------
    retention
        How the update learns without forgetting.
    footprint
        The points whose prediction it can change.
    windows
        Those of the charts it opens.
    left_alone
        Those of the charts that evidence of these rows does not touch.
    not_rehearsed
        Where the new data speaks: rehearsal takes its points from elsewhere. None if nothing is rehearsed.
    """

    retention: Retention
    footprint: Footprint
    windows: tuple[Window, ...] = ()
    left_alone: tuple[Window, ...] = ()
    not_rehearsed: Footprint | None = None


def plan_update(state: State, points: Array, retention: Retention, cover: Cover, charts: Count) -> UpdatePlan:
    """Plan an update with these inputs, or say why it cannot be made."""
    if retention not in RETENTIONS:
        raise ValueError(f"retention must be one of {', '.join(RETENTIONS)}, not {retention!r}")
    check_cover(cover, charts)
    domain, dtype = state.lattice.domain, state.dtype
    if retention == "auto" and state.pooled is None:
        retention = "chart"
    if retention in BY_EVIDENCE:
        left_alone = _left_alone(state, points)
        return UpdatePlan(retention, RestFootprint(domain, dtype, left_alone), left_alone=left_alone)
    if retention == "none":
        density = state.trained_densities[0]
        touched = _touched_cells(points, density)
        return UpdatePlan(retention, CrossFootprint(domain, dtype, density, touched))
    spanned = state.monotone_inputs
    parts = split_points(points, charts, domain, spanned)
    windows = () if retention == "rehearsal" else windows_around(parts, domain, cover, spanned)
    if retention == "chart":
        return UpdatePlan(retention, BoxFootprint(domain, dtype, windows), windows)
    is_around = cover == "touch" and windows
    around_data = windows if is_around else windows_around(parts, domain, "touch", spanned)
    not_rehearsed = BoxFootprint(domain, dtype, around_data)
    return UpdatePlan(retention, _everything(state), windows, not_rehearsed=not_rehearsed)


def _left_alone(state: State, points: Array) -> tuple[Window, ...]:
    """Fences of charts that speak alone where they are, below none that some of the points fall into."""
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
