"""Routing: rows go to the model or to the newest chart that holds them, after an innovation test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.initial_fit import missing_bases
from atlas_splines.memory.local_memory import LocalMemory
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.posterior import Posterior
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.model.charts import Chart, Window
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import Keys, State

__all__ = [
    "ELSEWHERE",
    "MODEL",
    "Innovation",
    "RoutedRows",
    "as_doubles",
    "blocks",
    "chart_of",
    "innovation",
    "is_quiet",
    "local_rows",
    "memory_in",
    "memory_of",
    "needed_pool",
    "parts_of",
    "route",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Innovation:
    """Innovation statistic of new rows: prequential errors relative to their predictive variance.

    Attributes
    ----------
    ratio
        Mean squared error over the predictive variance of noise and weights: about 1 without a change.
    ratio_error
        Standard error of the ratio.
    """

    ratio: float
    ratio_error: float

    def is_noise(self, tolerance: float = 1.0) -> bool:
        """Whether noise explains the rows: the ratio is at most 1 + tolerance, within two standard errors.

        Every model is misspecified, so on new rows of the same distribution the ratio is somewhat above 1.
        """
        return self.ratio <= 1 + tolerance + 2 * self.ratio_error


def is_quiet(
    posterior: Posterior, phi: Array, y: Array, weights: Array | None, levels: Keys, tolerance: float = 1.0
) -> bool:
    """Whether noise alone explains new rows, a sufficient condition for `Innovation.is_noise`.

    Leverages of 200 rows take as long as a Cholesky factor, and most updates do not need them.

    Parameters
    ----------
    posterior, phi, y, weights, levels
        As in `innovation`.
    tolerance
        As in `Innovation.is_noise`.
    """
    squares = ((y - posterior.predict(phi, levels)) ** 2 / posterior.noise).mean(axis=1)
    return float(np.average(squares, weights=weights)) <= 1 + tolerance


def innovation(
    posterior: Posterior, phi: Array, y: Array, weights: Array | None = None, levels: Keys | None = None
) -> Innovation:
    """Innovation test: errors on new rows against their predictive variance σ²(1 + φᵀΛ⁻¹φ), plus effects.

    Parameters
    ----------
    posterior
        The posterior before the rows.
    phi, y, weights, levels
        The new rows, as in `Statistics.add`.

    Examples
    --------
    >>> from atlas_splines.memory.posterior import Prior, solve
    >>> from atlas_splines.memory.statistics import Statistics
    >>> random = np.random.default_rng(0)
    >>> phi, statistics = random.uniform(-1, 1, (600, 2)), Statistics(2)
    >>> y = phi @ [[2.0], [-1.0]] + 0.1 * random.normal(size=(600, 1))
    >>> statistics.add(phi[:500], y[:500])
    >>> posterior = solve(statistics, Prior.flat([2]))
    >>> [innovation(posterior, phi[500:], new).is_noise() for new in (y[500:], 1 - y[500:])]
    [True, False]
    """
    variance = posterior.noise * (1 + posterior.leverage(phi))[:, None]  # (rows, outputs)
    predicted = phi @ posterior.weights
    if posterior.effects is not None and levels is not None:
        predicted = predicted + posterior.effects.at(levels)
        variance = variance + posterior.noise * posterior.effects.variance(levels)
    squares = ((y - predicted) ** 2 / variance).mean(axis=1)
    ratio = float(np.average(squares, weights=weights))
    ratio_error = float(np.sqrt(np.average((squares - ratio) ** 2, weights=weights) / len(squares)))
    return Innovation(ratio, ratio_error)


RESERVE = (
    0.25  # of the features of a model, for regions without rows so far; measured in benchmarks/growth.py
)
BLOCKS = 5  # of consecutive rows in block cross-validation
MODEL = -1  # owner of rows that no replacing chart holds
ELSEWHERE = -2  # owner of rows that were learned already


def memory_in(state: State) -> Pool | None:
    """The pool of a state, if it has one."""
    return state.pooled if isinstance(state.pooled, Pool) else None


def needed_pool(state: State) -> Pool:
    """The pool of a state; raise without one."""
    pool = memory_in(state)
    if pool is None:
        raise ValueError("this model has no memory to add rows to; fit it again, or use retention='chart'")
    return pool


def memory_of(state: State) -> LocalMemory | None:
    """The rows that a model keeps, if it keeps any."""
    pool = memory_in(state)
    return None if pool is None else pool.memory


def route(state: State, rows: Rows) -> NDArray[np.intp]:
    """Number of the newest chart whose memory receives each row, or MODEL: shape (rows,)."""
    routes = np.full(len(rows), MODEL)
    for k, chart in enumerate(state.charts):
        if chart.replaces and memory_in(state_of(chart.content)) is not None:
            routes[chart.window.membership(rows.points) == 1] = k
    return routes


def chart_of(chart: Chart, pool: Pool) -> Chart:
    """A chart with another memory."""
    return replace(chart, content=model_in(pool.state_like(state_of(chart.content))))


def as_doubles(rows: Rows) -> tuple[Array, Array, Array]:
    """Points, targets and weights in float64."""
    return rows.points.astype(np.float64), rows.targets.astype(np.float64), rows.weights.astype(np.float64)


def local_rows(window: Window, size: NDArray[np.floating], rows: Rows) -> tuple[Array, Array, Array]:
    """Rows in the coordinates and units of a chart."""
    points, targets, weights = as_doubles(rows)
    return window.to_local(points).astype(np.float64), targets / size, weights


def blocks(rows: int) -> list[NDArray[np.intp]]:
    """Blocks of consecutive rows: neighbours in time are correlated and are left out together."""
    return np.array_split(np.arange(rows), min(BLOCKS, rows))


@dataclass(frozen=True, eq=False)
class RoutedRows:
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
    grew: tuple[int, ...] = ()  # radial basis functions that were added for these rows

    def widened(self, features: int) -> RoutedRows:
        """The part with features added to the model where no others reach, within the budget."""
        if self.owner != MODEL:
            return self
        room = int((1 + RESERVE) * features) - len(self.pool.features)
        centres = missing_bases(self.pool.features, self.points, self.phi, max(room, 0))
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
        """Whether noise explains the rows: squared errors up to `ratio` times the predictive variance."""
        rows = (self.phi, self.targets, self.weights, self.levels)
        posterior = self.pool.preferred
        return is_quiet(posterior, *rows, ratio - 1) or innovation(posterior, *rows).is_noise(ratio - 1)

    @cached_property
    def grown(self) -> Pool:
        """The memory of the owner with the rows added."""
        rows = self.points, self.targets, self.weights
        if self.is_first:
            return self.pool.extended_by(*rows)
        phi = self.phi if "phi" in vars(self) else None  # otherwise they are computed piece by piece
        return self.pool.learned(self.update, *rows, phi=phi, grew=self.grew)


def parts_of(state: State, update: int, rows: Rows, routes: NDArray[np.intp]) -> list[RoutedRows]:
    """The rows of each owner."""
    parts = []
    for owner in np.unique(routes[routes != ELSEWHERE]).tolist():
        mask = routes == owner
        part = rows.take(mask)
        if owner == MODEL:
            pool, size, local = needed_pool(state), np.ones(part.targets.shape[1]), as_doubles(part)
        else:
            chart = state.charts[owner]
            pool, size = needed_pool(state_of(chart.content)), chart.size.astype(np.float64)
            local = local_rows(chart.window, chart.size, part)
        is_first = owner != MODEL and state.charts[owner].update == update
        parts.append(RoutedRows(owner, mask, update, is_first, pool, size, *local))
    return parts
