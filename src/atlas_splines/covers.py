"""Covers: fences around the data of an update, one or several."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines import splines
from atlas_splines.charts import Fence, fence_around
from atlas_splines.model import check_size

__all__ = ["Count", "Cover", "plan_fences"]

Cover = Literal["touch", "inside"]
Count = int | Literal["auto"]
Array = NDArray[np.floating]

MOST_CHARTS = 8  # an automatic cover has at most so many charts,
LEAST_ROWS = 50  # each with at least so many rows,
WORTHWHILE = 0.7  # and a cut must bring the volume below this share
COARSEST_FENCE, FINEST_FENCE = 5, 12
NEAR_GAPS = 5  # a box so many mean gaps from a face of the cube reaches it


def plan_fences(points: Array, cover: Cover, charts: Count) -> tuple[Fence, ...]:
    """Fences of the charts that an update with these inputs would open."""
    if cover not in ("touch", "inside"):
        raise ValueError(f"cover must be 'touch' or 'inside', not {cover!r}")
    most = MOST_CHARTS if charts == "auto" else check_size("charts", charts, least=1)
    parts = split(points, most, WORTHWHILE if charts == "auto" else np.inf)
    return tuple(fence_around(snapped(part), fence_density(part), cover) for part in parts)


def fence_density(points: Array) -> int:
    """Density whose cells are as narrow as the mean gap between rows along the narrowest input.

    The rim of a fence is three cells wide: about what the data leaves open of its own box.
    """
    narrowest = float(np.ptp(points, axis=0).min())
    densities = range(COARSEST_FENCE, FINEST_FENCE)
    fine_enough = (d for d in densities if narrowest * splines.cell_count(d) >= len(points))
    return next(fine_enough, FINEST_FENCE)


def snapped(points: Array) -> Array:
    """Corners of the bounding box, moved to a face of the cube where it is only a few gaps between rows away.

    Data that fills the cube up to a face hardly ever has a row exactly on it.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    near = NEAR_GAPS * (high - low) / len(points)
    return np.stack([np.where(low <= near, 0, low), np.where(1 - high <= near, 1, high)]).astype(points.dtype)


def split(points: Array, most: int, worthwhile: float) -> list[Array]:
    """Cut the points into boxes, always at the cut that saves most volume, while it is worthwhile."""
    parts = [points]
    while len(parts) < most:
        cuts = [best_cut(part) for part in parts]
        savings = [
            box_volume(part) - volume if volume < worthwhile * box_volume(part) else -np.inf
            for part, (volume, _) in zip(parts, cuts, strict=True)
        ]
        k = int(np.argmax(savings))
        mask = cuts[k][1]
        if mask is None or savings[k] == -np.inf:
            break
        parts[k : k + 1] = [parts[k][mask], parts[k][~mask]]
    return parts


def best_cut(points: Array) -> tuple[float, NDArray[np.bool_] | None]:
    """Volume of both halves, and the rows of the lower one, for the best cut along any input."""
    best: tuple[float, NDArray[np.bool_] | None] = (np.inf, None)
    for j in range(points.shape[1]):
        ordered = np.unique(points[:, j])
        if ordered.size < 2:
            continue
        gap = int(np.argmax(np.diff(ordered)))
        for edge in (ordered[gap], *np.quantile(points[:, j], [0.25, 0.5, 0.75])):
            lower = points[:, j] <= edge
            if min(lower.sum(), (~lower).sum()) >= LEAST_ROWS:
                volume = box_volume(points[lower]) + box_volume(points[~lower])
                best = min(best, (volume, lower), key=lambda cut: cut[0])
    return best


def box_volume(points: Array) -> float:
    """Volume of the bounding box, with a margin so that a flat box counts too."""
    return float(np.prod(np.ptp(points, axis=0).astype(np.float64) + 0.02))
