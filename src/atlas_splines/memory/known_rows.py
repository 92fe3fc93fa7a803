"""Known rows: points much like the rows that a state with charts has learned, and shares of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.charts import Fence
from atlas_splines.core.model import state_of
from atlas_splines.core.state import State
from atlas_splines.evidence.lookalikes import Lookalikes, draw_lookalikes
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.presence import Presence, cells_of
from atlas_splines.memory.doubt import spread_of
from atlas_splines.memory.footprints import BoxFootprint, Footprint

__all__ = ["DRAWN", "lookalikes_of", "rows_near", "with_known_rows"]

Array = NDArray[np.float64]
Area = TypeVar("Area", bound=Footprint)

DRAWN = 4000  # points: a share of them is off by less than a hundredth


def lookalikes_of(state: State, count: int = DRAWN) -> Lookalikes | None:
    """So many points like the rows that a state and its charts know; None if they were not counted.

    They are the same each time.
    """
    found = presences_of(state)
    rows = np.array([presence.visits.alone[0].sum() for presence, _ in found])
    if not found or not rows.sum():
        return None
    random = np.random.default_rng(0)
    counts = np.diff(np.rint(count * np.cumsum([0.0, *rows]) / rows.sum())).astype(int).tolist()
    parts = [
        placed(draw_lookalikes(presence, each, random), fence)
        for (presence, fence), each in zip(found, counts, strict=True)
    ]
    return Lookalikes(np.vstack([part.points for part in parts]), np.vstack([part.slack for part in parts]))


def presences_of(state: State) -> list[tuple[Presence, Fence | None]]:
    """Where the rows of a state have been, and those of its charts, with the fence of each."""
    spread = spread_of(state)
    if spread is None or spread.presence is None:
        return []
    own: list[tuple[Presence, Fence | None]] = [(spread.presence, None)]
    for chart in state.charts:
        inner = spread_of(state_of(chart.content))
        if inner is not None and inner.presence is not None:
            own.append((inner.presence, chart.fence))
    return own


def rows_near(state: State, j: int, units: Array) -> Array:
    """How many of the rows that a state and its charts know are in the cell of each coordinate of an input.

    Rows beyond what they are counted over are in the cells at its ends.
    """
    found = np.zeros(units.shape)
    for presence, fence in presences_of(state):
        low, high = (0.0, 1.0) if fence is None else fence.box[j]
        inside = (units - low) / (high - low)
        is_there = (inside >= 0) & (inside <= 1)
        cells = cells_of(inside.clip(0, 1), presence.cells)
        found += np.where(is_there, presence.visits.alone[j, cells], 0)
    return found


def placed(drawn: Lookalikes, fence: Fence | None) -> Lookalikes:
    """Points of the box of a chart, in the coordinates of its model."""
    if fence is None:
        return drawn
    low, high = fence.box.T
    return Lookalikes(low + drawn.points * (high - low), drawn.slack * (high - low))


def with_known_rows(state: State, area: Area) -> Area:
    """A footprint that tells which share of the rows that a state knows lie in it.

    Two sketches are asked: points like known rows, of which too few go together, and the bumps of the
    evidence, too many of which stand in the middle of the rows. Where these find more, it is the mean.
    """
    if presences_of(state) and area.volume == 1:
        return replace(area, known_rows=1.0)
    known = lookalikes_of(state)
    if known is None:
        return area
    share = float(area._meets(known.low, known.high).mean())
    return replace(area, known_rows=min((share + max(share, crowding_in(state, area))) / 2, 1.0))


def crowding_in(state: State, area: Footprint) -> float:
    """Share of the known rows in boxes, as the bumps of the model's own evidence tell; 0 without bumps."""
    pool = state.evidence
    if not isinstance(area, BoxFootprint) or not isinstance(pool, Pool) or not pool.features.bumps:
        return 0.0
    rows = [presence.visits.alone[0].sum() for presence, _ in presences_of(state)]
    boxes = [fence.box_in(area.domain) for fence in area.fences]
    found = sum(pool.features.crowding(pool.total, *box.T) for box in boxes)
    return float(found * rows[0] / sum(rows))
