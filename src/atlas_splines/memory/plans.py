"""Plans: what an update will do and what it can change, known before any training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core import splines
from atlas_splines.core.charts import Fence, overlap
from atlas_splines.core.state import State
from atlas_splines.memory.covers import Count, Cover, check_cover, fences_around, split_points
from atlas_splines.memory.footprints import BoxFootprint, CrossFootprint, Footprint, RestFootprint

__all__ = ["BY_EVIDENCE", "RETENTIONS", "Retention", "UpdatePlan", "plan_update"]

Retention = Literal["auto", "pool", "chart", "rehearsal", "both", "none"]
Array = NDArray[np.floating]

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
    fences
        Those of the charts it opens.
    left_alone
        Those of the charts that evidence of these rows does not touch.
    not_rehearsed
        Where the new data speaks: rehearsal takes its points from elsewhere. None if nothing is rehearsed.
    """

    retention: Retention
    footprint: Footprint
    fences: tuple[Fence, ...] = ()
    left_alone: tuple[Fence, ...] = ()
    not_rehearsed: Footprint | None = None


def plan_update(state: State, points: Array, retention: Retention, cover: Cover, charts: Count) -> UpdatePlan:
    """Plan an update with these inputs, or say why it cannot be made."""
    if retention not in RETENTIONS:
        raise ValueError(f"retention must be one of {', '.join(RETENTIONS)}, not {retention!r}")
    check_cover(cover, charts)
    domain, dtype = state.lattice.domain, state.dtype
    if retention == "auto" and state.evidence is None:
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
    fences = () if retention == "rehearsal" else fences_around(parts, domain, cover, spanned)
    if retention == "chart":
        return UpdatePlan(retention, BoxFootprint(domain, dtype, fences), fences)
    is_around = cover == "touch" and fences
    around_data = fences if is_around else fences_around(parts, domain, "touch", spanned)
    not_rehearsed = BoxFootprint(domain, dtype, around_data)
    return UpdatePlan(retention, _everything(state), fences, not_rehearsed=not_rehearsed)


def _left_alone(state: State, points: Array) -> tuple[Fence, ...]:
    """Fences of charts that speak alone where they are, below none that some of the points fall into."""
    domain, fences = state.lattice.domain, [chart.fence for chart in state.charts if chart.replaces]
    joined = [bool((fence.window(points) == 1).any()) for fence in fences]
    boxes = [fence.box_in(domain) for fence in fences]
    return tuple(
        fence
        for k, fence in enumerate(fences)
        if not any(joined[j] and overlap(boxes[j], boxes[k]) for j in range(k, len(fences)))
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
