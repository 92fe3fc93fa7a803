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
    """How new rows look to a model that has not learned them.

    Attributes
    ----------
    ratio
        Mean squared error over what noise and uncertain weights explain: about 1 if nothing is new.
    ratio_error
        Standard error of the ratio.
    """

    ratio: float
    ratio_error: float

    def is_noise(self, tolerance: float = 1.0) -> bool:
        """Whether noise explains the rows: the ratio is at most 1 + tolerance, within two standard errors.

        A model is never quite right, so on fresh rows of the same world the ratio is somewhat above 1.
        """
        return self.ratio <= 1 + tolerance + 2 * self.ratio_error


def is_quiet(
    posterior: Posterior, phi: Array, y: Array, weights: Array | None, levels: Keys, tolerance: float = 1.0
) -> bool:
    """Whether noise alone explains new rows: then it does so together with uncertain weights all the more.

    Leverages of 200 rows take as long as a Cholesky factor, and most updates need none of them.

    Parameters
    ----------
    posterior, phi, y, weights, levels
        As in `innovation`.
    tolerance
        As in `Surprise.is_noise`.
    """
    squares = ((y - posterior.predict(phi, levels)) ** 2 / posterior.noise).mean(axis=1)
    return float(np.average(squares, weights=weights)) <= 1 + tolerance


def innovation(
    posterior: Posterior, phi: Array, y: Array, weights: Array | None = None, levels: Keys | None = None
) -> Innovation:
    """Compare the errors on new rows with their variance in the posterior, σ²(1 + φᵀΛ⁻¹φ), and of effects.

    Parameters
    ----------
    posterior
        What was known before.
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
    spread = float(np.sqrt(np.average((squares - ratio) ** 2, weights=weights) / len(squares)))
    return Innovation(ratio, spread)


RESERVE = 0.25  # of the features of a model, for places that rows come to later
BLOCKS = 5  # of consecutive rows, held out in turn
MODEL = -1  # owner of rows that no chart speaks for alone
ELSEWHERE = -2  # owner of rows that were learned already


def memory_in(state: State) -> Pool | None:
    """The pool of a state, if it has one."""
    return state.pooled if isinstance(state.pooled, Pool) else None


def needed_pool(state: State) -> Pool:
    """The pool of a state, or a sentence that there is none."""
    pool = memory_in(state)
    if pool is None:
        raise ValueError("this model keeps no evidence to add to; fit it anew, or use retention='chart'")
    return pool


def memory_of(state: State) -> LocalMemory | None:
    """The rows that a model keeps, if it keeps any."""
    pool = memory_in(state)
    return None if pool is None else pool.memory


def route(state: State, rows: Rows) -> NDArray[np.intp]:
    """Number of the newest chart with evidence that speaks alone for each row, or that of the model."""
    routes = np.full(len(rows), MODEL)
    for k, chart in enumerate(state.charts):
        if chart.replaces and memory_in(state_of(chart.content)) is not None:
            routes[chart.window.membership(rows.points) == 1] = k
    return routes


def chart_of(chart: Chart, pool: Pool) -> Chart:
    """A chart with another evidence."""
    return replace(chart, content=model_in(pool.state_like(state_of(chart.content))))


def as_doubles(rows: Rows) -> tuple[Array, Array, Array]:
    """Points, targets and weights in float64."""
    return rows.points.astype(np.float64), rows.targets.astype(np.float64), rows.weights.astype(np.float64)


def local_rows(window: Window, size: NDArray[np.floating], rows: Rows) -> tuple[Array, Array, Array]:
    """Rows in the coordinates and units of a chart."""
    points, targets, weights = as_doubles(rows)
    return window.to_local(points).astype(np.float64), targets / size, weights


def blocks(rows: int) -> list[NDArray[np.intp]]:
    """Consecutive rows, as they came: neighbours in time are alike, and shall not vouch for each other."""
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
    grew: tuple[int, ...] = ()  # bumps that the pool was widened by for these rows

    def widened(self, features: int) -> RoutedRows:
        """The part with more features of the model, if it needs and may have them."""
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
        """Whether noise explains the rows to their owner: squared errors up to so many times as large."""
        rows = (self.phi, self.targets, self.weights, self.levels)
        posterior = self.pool.preferred
        return is_quiet(posterior, *rows, ratio - 1) or innovation(posterior, *rows).is_noise(ratio - 1)

    @cached_property
    def grown(self) -> Pool:
        """The owner's evidence with the rows."""
        rows = self.points, self.targets, self.weights
        if self.is_first:
            return self.pool.extended_by(*rows)
        phi = self.phi if "phi" in vars(self) else None  # else they are made piece by piece
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
