"""Distributed sufficient statistics: rows are summed where they are, and only their sums reach the model.

A worker needs the features and windows of a model, a few kilobytes; the model adds up the sums (map-reduce).
They are exact, so the result does not depend on how the rows are partitioned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.features import Features
from atlas_splines.memory.kept_rows import HeldRows, NewestRows
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.statistics import HEAVIEST, Statistics
from atlas_splines.model.atlas import Atlas, model_in, state_of, take_state
from atlas_splines.model.charts import Window
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import Keys, State
from atlas_splines.updates.assess import assess_pooled
from atlas_splines.updates.footprint import RestFootprint
from atlas_splines.updates.incremental import TOO_FEW, settled
from atlas_splines.updates.intervals import error_model_of
from atlas_splines.updates.log import RowDigest, Update, learned_before
from atlas_splines.updates.routing import MODEL, as_doubles, chart_of, local_rows, memory_in, needed_pool
from atlas_splines.updates.synthetic_sample import with_known_rows

__all__ = ["RowSums", "Summer", "add_first_sums", "add_to_newest_update", "of_all_rows", "without_sums"]

Array = NDArray[np.float64]

# A matrix product may round the last of an odd number of rows differently, so rows are padded to a multiple.
ROWS_TOGETHER = 64
ROWS_AT_ONCE = 2048  # whose features are held: few enough for a cache


@dataclass(frozen=True, eq=False)
class RowSums:
    """Exact sums of rows, for each destination: the model, or a chart that replaces it.

    Attributes
    ----------
    rows
        Number of rows of each destination.
    statistics
        Their sums.

    Examples
    --------
    >>> one = RowSums({0: 1}, {0: Statistics(2)})
    >>> (one + RowSums({0: 2, 1: 5}, {0: Statistics(2), 1: Statistics(3)})).rows
    {0: 3, 1: 5}
    """

    rows: dict[int, int]
    statistics: dict[int, Statistics]

    def __add__(self, other: RowSums) -> RowSums:
        rows, statistics = dict(self.rows), dict(self.statistics)
        for destination, more in other.statistics.items():
            rows[destination] = rows.get(destination, 0) + other.rows[destination]
            statistics[destination] = statistics[destination] + more if destination in statistics else more
        return RowSums(rows, statistics)

    def __sub__(self, other: RowSums) -> RowSums:
        """The sums without a subset of their rows."""
        rows, statistics = dict(self.rows), dict(self.statistics)
        for destination, fewer in other.statistics.items():
            rows[destination] -= other.rows[destination]
            statistics[destination] = statistics[destination] - fewer
        left = [destination for destination in rows if rows[destination]]
        return RowSums(
            {destination: rows[destination] for destination in left},
            {destination: statistics[destination] for destination in left},
        )


@dataclass(frozen=True, eq=False)
class Route:
    """A destination of rows, as far as their sums depend on it."""

    features: Features
    unit: float  # weight that counts as one row
    window: Window | None = None  # of a chart
    size: NDArray[np.floating] | None = None  # (outputs,) of a chart

    def held(self, rows: Rows) -> HeldRows:
        """Rows as the local memory of the destination keeps them."""
        points, targets, weights = as_doubles(rows)
        return HeldRows.of(points, targets, np.minimum(weights / self.unit, HEAVIEST))

    def sums(self, rows: Rows) -> Statistics:
        """Sums of rows, independent of how rows are grouped into calls."""
        rows = padded(rows)
        if self.window is None or self.size is None:
            points, targets, weights = as_doubles(rows)
        else:
            points, targets, weights = local_rows(self.window, self.size, rows)
        statistics = Statistics(len(self.features), targets.shape[1])
        counted = np.minimum(weights / self.unit, HEAVIEST)
        statistics.add_pieces(self._pieces(points, targets, counted))
        return statistics

    def _pieces(
        self, points: Array, targets: Array, counted: Array
    ) -> Iterator[tuple[Array, Array, Array, Keys]]:
        """Features, targets, weights and levels of rows, piece by piece, in a buffer that is reused."""
        table = np.empty((min(len(points), ROWS_AT_ONCE), len(self.features)))
        for begin in range(0, len(points), ROWS_AT_ONCE):
            part = slice(begin, begin + ROWS_AT_ONCE)
            phi = table[: len(points[part])]
            self.features.write(points[part], phi)
            yield phi, targets[part], counted[part], self.features.keys(points[part])


def padded(rows: Rows) -> Rows:
    """The rows, padded with copies of the first one of weight zero."""
    missing = -len(rows) % ROWS_TOGETHER
    padding = rows.take(np.zeros(missing, np.intp))
    return rows.join(replace(padding, weights=np.zeros_like(padding.weights)))


class Summer:
    """Sums rows for a model: what is needed of it without its memory, small enough to be sent to workers.

    Parameters
    ----------
    state
        A state with a memory.
    """

    def __init__(self, state: State) -> None:
        pool = needed_pool(state)
        self._routes: dict[int, Route] = {MODEL: route_of(pool)}
        self._kept = 0 if pool.memory is None else pool.memory.budget  # rows, at most
        self._sizes = state.lattice.inputs, state.outputs
        for k, chart in enumerate(state.charts):
            own = memory_in(state_of(chart.content))
            if chart.replaces and own is not None:
                self._routes[k] = replace(route_of(own), window=chart.window, size=chart.size)

    @property
    def no_rows(self) -> NewestRows:
        """An empty set of the rows that the model keeps."""
        return NewestRows.none(*self._sizes, self._kept)

    def newest(self, rows: Rows, numbers: NDArray[np.int64] | None) -> NewestRows:
        """The newest of the rows by their numbers in a table, as the model keeps them; none without."""
        if numbers is None or not self._kept:
            return self.no_rows
        newest = slice(-self._kept, None)
        own = np.flatnonzero(self._routes_of(rows) == MODEL)[newest]
        return NewestRows(self._routes[MODEL].held(rows.take(own)), numbers[own], self._kept)

    def held(self, rows: Rows) -> HeldRows:
        """Rows as the model keeps them, without those of charts."""
        return self._routes[MODEL].held(rows.take(self._routes_of(rows) == MODEL))

    def _routes_of(self, rows: Rows) -> NDArray[np.intp]:
        routes = np.full(len(rows), MODEL)
        for k, destination in self._routes.items():
            if destination.window is not None:
                routes[destination.window.membership(rows.points) == 1] = k
        return routes

    @ONE_THREAD_EACH
    def __call__(self, rows: Rows) -> RowSums:
        """Sums of the rows of each destination."""
        routes = self._routes_of(rows)
        masks = {k: routes == k for k in self._routes}
        present = {k: mask for k, mask in masks.items() if mask.any()}
        return RowSums(
            {k: int(mask.sum()) for k, mask in present.items()},
            {k: self._routes[k].sums(rows.take(mask)) for k, mask in present.items()},
        )


def route_of(pool: Pool) -> Route:
    """The destination of rows that join a pool."""
    return Route(pool.features, pool.weight_unit)


def without_sums(state: State) -> State:
    """The state with the same predictions and intervals but without memory, to be sent to workers."""
    charts = (
        replace(chart, content=model_in(without_sums(state_of(chart.content)))) for chart in state.charts
    )
    return replace(state.with_charts(charts), pooled=error_model_of(state))


@ONE_THREAD_EACH
def of_all_rows(
    state: State, sums: RowSums, assessed: Rows, loss: str, held: HeldRows | None = None
) -> tuple[State, State]:
    """The state of all data of a fit, a part of which was fitted; the sums are those of all rows.

    The posterior of all rows replaces the fitted model, unless that has the lower error on the assessed rows,
    which neither has learned in this comparison. The second state has not learned them. With a local memory,
    `held` are the rows that it keeps, and the model is derived from these and the sums.
    """
    summer = Summer(state)
    pool, rest = needed_pool(state), sums - summer(assessed)
    others = None if held is None else held.without(summer.held(assessed))
    without = pool.of_all(rest.statistics[MODEL]).without_base().keeping_of(0, others)
    out_of_sample = without.state_like(state)
    whole = pool.of_all(sums.statistics[MODEL]).keeping_of(0, held)
    is_derived = pool.memory is not None
    if not is_derived and assessed.loss(model_in(out_of_sample), loss) > assessed.loss(model_in(state), loss):
        return whole.state_like(state), state
    whole = replace(whole.without_base(), error_model=without.assessed_by(*as_doubles(assessed)))
    return whole.state_like(state), out_of_sample


@ONE_THREAD_EACH
def add_first_sums(state: State, sums: RowSums, held: HeldRows | None = None) -> State:
    """`add_first_rows` with sums in place of rows."""
    pool = needed_pool(state)
    pool = pool.of_all(pool.total + sums.statistics[MODEL]).keeping_of(0, held)
    return pool.with_output_mode("cumulative").state_like(state)


@ONE_THREAD_EACH
def add_to_newest_update(
    model: Atlas,
    assessed: Rows,
    sums: RowSums,
    loss: str,
    data: str = "",
    accept: bool = True,
    held: HeldRows | None = None,
) -> Update | None:
    """Add the sums of further rows to the newest update, in place.

    Parameters
    ----------
    model
        A model that has learned some of the rows of its newest update.
    assessed
        These rows.
    sums
        Sums of all others.
    loss
        Of the log.
    data
        Digest of all rows, if it is known.
    accept
        Whether rows of an earlier update are learned again.
    held
        All rows of the update that a local memory keeps, if there is one.

    Returns
    -------
    the earlier update with the same rows, if there is one: then nothing has joined, and the model is not to
    be kept
    """
    done = model.updates[-1]
    assert isinstance(done, Update)
    if data and not accept:
        sample = RowDigest()
        sample.add(assessed.points, assessed.targets, assessed.weights)
        known = learned_before(model.updates[:-1], done.before, sample, data)
        if known is not None:
            return known
    state = joined_by(state_of(model), done.id, sums, held)
    if TOO_FEW in done.reason or has_few(state_of(model), done.id, sums):
        state = settled(state, done.id)
        state = needed_pool(state).state_like(state)
        done.reason += "" if TOO_FEW in done.reason else f"; {TOO_FEW}"
    draft = model_in(state)
    joins = sum(sums.rows[k] for k in sums.rows if k != MODEL and model.charts[k].update != done.id)
    done.rows += sum(sums.rows.values())
    done.reason += f"; {joins} rows joined a chart" if joins else ""
    if done.settings.get("retention") == "auto":
        done.reason += f"; decided on a sample of {len(assessed):,} of {done.rows:,} rows, all learned"
    done.data = data if not data or done.data else ""
    done.after = draft.fingerprint()
    done.footprint = with_known_rows(state_of(model), RestFootprint(draft.domain, draft.dtype, ()))
    done.error_after = assessed.inside(draft.domain).loss(draft, loss)
    done.held_out = assess_pooled(state_of(draft), done.id, assessed, loss)
    take_state(model, state_of(draft))
    return None


def has_few(state: State, update: int, sums: RowSums) -> bool:
    """Whether sums of too few rows would be kept apart, for a memory without other rows of the update."""
    fewest = needed_pool(state).fewest
    pools = {MODEL: memory_in(state)}
    pools |= {k: memory_in(state_of(chart.content)) for k, chart in enumerate(state.charts)}
    return any(
        count < fewest and (pool := pools[k]) is not None and not pool.holds(update)
        for k, count in sums.rows.items()
    )


def joined_by(state: State, update: int, sums: RowSums, held: HeldRows | None) -> State:
    """The state with further rows of its newest update."""
    charts = list(state.charts)
    for k in sorted(sums.statistics.keys() - {MODEL}):
        pool, statistics = needed_pool(state_of(charts[k].content)), sums.statistics[k]
        is_first = charts[k].update == update
        grown = pool.of_all(pool.total + statistics) if is_first else pool.joined_by(update, statistics)
        charts[k] = chart_of(charts[k], grown)
    state = state.with_charts(charts)
    if MODEL not in sums.statistics:
        return state
    return needed_pool(state).joined_by(update, sums.statistics[MODEL], held).state_like(state)
