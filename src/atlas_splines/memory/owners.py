"""Owners of rows: the model, or the newest chart with evidence that speaks alone where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.model import model_in, state_of
from atlas_splines.core.offsets import Keys
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import State
from atlas_splines.evidence.growth import missing_bumps
from atlas_splines.evidence.local_memory import LocalMemory
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.verdicts import is_quiet, surprise

__all__ = [
    "ELSEWHERE",
    "MODEL",
    "Part",
    "as_doubles",
    "blocks",
    "chart_of",
    "evidence_of",
    "local_rows",
    "memory_of",
    "needed_pool",
    "owners_of",
    "parts_of",
]

Array = NDArray[np.float64]

RESERVE = 0.25  # of the features of a model, for places that rows come to later
BLOCKS = 5  # of consecutive rows, held out in turn
MODEL = -1  # owner of rows that no chart speaks for alone
ELSEWHERE = -2  # owner of rows that were learned already


def evidence_of(state: State) -> Pool | None:
    """The pool of a state, if it has one."""
    return state.evidence if isinstance(state.evidence, Pool) else None


def needed_pool(state: State) -> Pool:
    """The pool of a state, or a sentence that there is none."""
    pool = evidence_of(state)
    if pool is None:
        raise ValueError("this model keeps no evidence to add to; fit it anew, or use retention='chart'")
    return pool


def memory_of(state: State) -> LocalMemory | None:
    """The rows that a model keeps, if it keeps any."""
    pool = evidence_of(state)
    return None if pool is None else pool.memory


def owners_of(state: State, rows: Rows) -> NDArray[np.intp]:
    """Number of the newest chart with evidence that speaks alone for each row, or that of the model."""
    owners = np.full(len(rows), MODEL)
    for k, chart in enumerate(state.charts):
        if chart.replaces and evidence_of(state_of(chart.content)) is not None:
            owners[chart.fence.window(rows.points) == 1] = k
    return owners


def chart_of(chart: Chart, pool: Pool) -> Chart:
    """A chart with another evidence."""
    return replace(chart, content=model_in(pool.state_like(state_of(chart.content))))


def as_doubles(rows: Rows) -> tuple[Array, Array, Array]:
    """Points, targets and weights in float64."""
    return rows.points.astype(np.float64), rows.targets.astype(np.float64), rows.weights.astype(np.float64)


def local_rows(fence: Fence, size: NDArray[np.floating], rows: Rows) -> tuple[Array, Array, Array]:
    """Rows in the coordinates and units of a chart."""
    points, targets, weights = as_doubles(rows)
    return fence.to_local(points).astype(np.float64), targets / size, weights


def blocks(rows: int) -> list[NDArray[np.intp]]:
    """Consecutive rows, as they came: neighbours in time are alike, and shall not vouch for each other."""
    return np.array_split(np.arange(rows), min(BLOCKS, rows))


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one owner, in its coordinates and units."""

    owner: int  # number of a chart, or MODEL
    mask: NDArray[np.bool_]  # which of all rows these are
    update: int
    is_first: bool  # whether the owner was opened by this update
    pool: Pool
    size: Array  # (outputs,) unit of the owner's targets
    points: Array
    targets: Array
    weights: Array
    grew: tuple[int, ...] = ()  # bumps that the pool was widened by for these rows

    def widened(self, features: int) -> Part:
        """The part with more features of the model, if it needs and may have them."""
        if self.owner != MODEL:
            return self
        room = int((1 + RESERVE) * features) - len(self.pool.features)
        centres = missing_bumps(self.pool.features, self.points, self.phi, max(room, 0))
        grew = tuple(map(len, centres))
        return replace(self, pool=self.pool.widened(centres), grew=grew) if sum(grew) else self

    @cached_property
    def phi(self) -> Array:
        """Features of the rows."""
        return self.pool.features(self.points)

    @cached_property
    def levels(self) -> Keys:
        """Keys of the levels of the rows."""
        return self.pool.features.keys(self.points)

    def is_noise(self, ratio: float) -> bool:
        """Whether noise explains the rows to their owner: squared errors up to so many times as large."""
        rows = (self.phi, self.targets, self.weights, self.levels)
        readout = self.pool.most_trusted
        return is_quiet(readout, *rows, ratio - 1) or surprise(readout, *rows).is_noise(ratio - 1)

    @cached_property
    def grown(self) -> Pool:
        """The owner's evidence with the rows."""
        rows = self.points, self.targets, self.weights
        if self.is_first:
            return self.pool.extended_by(*rows)
        phi = self.phi if "phi" in vars(self) else None  # else they are made piece by piece
        return self.pool.learned(self.update, *rows, phi=phi, grew=self.grew)


def parts_of(state: State, update: int, rows: Rows, owners: NDArray[np.intp]) -> list[Part]:
    """The rows of each owner."""
    parts = []
    for owner in np.unique(owners[owners != ELSEWHERE]).tolist():
        mask = owners == owner
        part = rows.take(mask)
        if owner == MODEL:
            pool, size, local = needed_pool(state), np.ones(part.targets.shape[1]), as_doubles(part)
        else:
            chart = state.charts[owner]
            pool, size = needed_pool(state_of(chart.content)), chart.size.astype(np.float64)
            local = local_rows(chart.fence, chart.size, part)
        is_first = owner != MODEL and state.charts[owner].update == update
        parts.append(Part(owner, mask, update, is_first, pool, size, *local))
    return parts
