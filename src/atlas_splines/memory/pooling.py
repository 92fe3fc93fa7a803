"""Pooling: rows of an update join the evidence of a model, or of the chart that they fall into.

Rows that noise explains are pooled. Rows that contradict what is known get a chart of their own if that
predicts them better, in cross-validation, than anything the pool could learn from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.model import Atlas, model_in, state_of
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import State
from atlas_splines.evidence.design import design
from atlas_splines.evidence.pool import HALF_LIVES, Pool, Voice
from atlas_splines.evidence.readout import Prior, Readout, solve
from atlas_splines.evidence.statistics import Statistics
from atlas_splines.evidence.verdicts import surprise
from atlas_splines.memory.chart_learning import usual_size
from atlas_splines.memory.covers import Count, Cover, fences_around, split_points

__all__ = [
    "FEATURES",
    "LEAST_CHART_ROWS",
    "Pooled",
    "add_first_rows",
    "evidence_of",
    "forget_rows",
    "in_domain_of",
    "pool_rows",
    "speak_as_fitted",
    "start_pool",
]

Array = NDArray[np.float64]

FEATURES = 550  # of a model
CHART_FEATURES = 150  # of a chart
LEAST_CHART_ROWS = 50
ROWS_AN_INPUT = 20  # that varies; fewer cannot tell a change in one place from drift, unless it is obvious
BLOCKS = 5  # of consecutive rows, held out in turn
SURE = 2.0  # standard errors by which a chart must be better than the pool
CLEARLY = 0.5  # share of the error of those who know the place that a chart must be below
PURE = (
    0.9  # share of the rows where a chart says something else, beyond doubt: drift changes some places more
)
OBVIOUS = 0.02  # share of their error below which there is no doubt
MOST_KNOWN = 0.95  # share of the known rows in a box from which on a change is one of everything: drift
MOST_CHARTS = 64  # of a model; then all rows are pooled
MODEL = -1  # owner of rows that no chart speaks for alone
ELSEWHERE = -2  # owner of rows that were learned already

POOLED = "pooled with all rows before"
NOISE = "noise explains the rows: pooled"
DRIFT = "the rows contradict what was known, and no chart is clearly better: pooled, memories adapt"
CHARTED = "the rows contradict what was known in their place: a chart"


@dataclass(frozen=True, eq=False)
class Pooled:
    """What pooling has done: the new state, and why it is that."""

    state: State
    kind: Literal["chart", "pool"]
    reason: str
    fences: tuple[Fence, ...]  # of new charts
    is_local: bool  # whether nothing but new charts has changed


def start_pool(
    model: Atlas,
    rows: Rows,
    *,
    loss: str,
    features: int = FEATURES,
    half_life: float | None = None,
    seed: int = 0,
) -> Atlas:
    """The model, which was fitted to these rows, with their evidence; its predictions stay as they are.

    Parameters
    ----------
    model
        A model on the unit cube, without charts.
    rows
        The data of its fit.
    loss
        Name of its loss.
    features
        How many features the statistics may be of.
    half_life
        Rows after which evidence counts half; by default several memories are kept and mixed.
    seed
        Of the choice of features.
    """
    points, targets, weights = as_doubles(rows)
    chosen, readout = design(points, targets, features, seed)
    lives = HALF_LIVES if half_life is None else (half_life,)
    pool = Pool.start(
        chosen, readout.prior, points, targets, weights, lives, state_of(model), loss, model.dtype.name
    )
    if half_life is not None:
        pool = replace(pool, voice="fading")
    return model_in(replace(state_of(model), evidence=pool))


def evidence_of(state: State) -> Pool | None:
    """The pool of a state, if it has one."""
    return state.evidence if isinstance(state.evidence, Pool) else None


def needed_pool(state: State) -> Pool:
    """The pool of a state, or a sentence that there is none."""
    pool = evidence_of(state)
    if pool is None:
        raise ValueError("this model keeps no evidence to add to; fit it anew, or use retention='chart'")
    return pool


def add_first_rows(state: State, rows: Rows) -> State:
    """The state of all first data, of which a part was fitted: the readout of the exact memory."""
    pool = needed_pool(state).extended_by(*as_doubles(rows))
    return replace(pool, voice="exact").state_like(state)


def in_domain_of(smaller: State, state: State) -> State:
    """A pooled state in the domain of another: beyond that, evidence says what it says at its edge."""
    if np.array_equal(smaller.lattice.domain, state.lattice.domain):
        return state
    return needed_pool(state).state_like(smaller.with_charts(state.charts))


def speak_as_fitted(state: State) -> State:
    """The state in which the first model speaks, with all evidence kept; only before any update."""
    return replace(needed_pool(state), voice="mixture").state_like(state)


def forget_rows(state: State, rows: Rows) -> State:
    """The state without rows that were learned by evidence, of the model or of the chart they fall into."""
    owners = owners_of(state, rows)
    state = state.with_charts(
        chart_without(chart, rows.take(owners == k)) if (owners == k).any() else chart
        for k, chart in enumerate(state.charts)
    )
    rest = rows.take(owners == MODEL)
    if not len(rest):
        return state
    pool = needed_pool(state).forgotten(*as_doubles(rest))
    return replace(pool, voice="exact").state_like(state)


def as_doubles(rows: Rows) -> tuple[Array, Array, Array]:
    """Points, targets and weights in float64."""
    return rows.points.astype(np.float64), rows.targets.astype(np.float64), rows.weights.astype(np.float64)


def pool_rows(
    state: State,
    update: int,
    rows: Rows,
    decide: bool,
    cover: Cover,
    charts: Count,
    rest: Iterable[Rows] = (),
) -> Pooled:
    """Learn rows by evidence.

    Parameters
    ----------
    state
        A state with a pool.
    update
        Number of the update.
    rows
        Its rows.
    decide
        Whether the data decides: charts may be opened where rows contradict what is known, and the memories
        that predict best speak. Otherwise all rows are pooled, and the exact memory speaks.
    cover, charts
        As in `update`.
    rest
        Further rows of the update, in pieces: they join the charts that they fall into, or the pool.
    """
    pool = needed_pool(state)
    # a class that is new is no change of the world: classes are pooled, and never fade by themselves
    decide = decide and pool.loss != "cross-entropy"
    voice: Voice = pool.voice if pool.voice == "fading" else "mixture" if decide else "exact"
    owners = owners_of(state, rows)
    new: list[Chart] = []
    reason = POOLED
    if decide:
        new, reason = charts_for(state, update, rows, owners, cover, charts)
        for chart in new:
            owners[chart.fence.window(rows.points) == 1] = ELSEWHERE
    grown = joined(state, update, rows, owners)
    joins = int((owners >= 0).sum())
    grown = grown.with_charts((*grown.charts, *new))
    for piece in rest:
        owners = owners_of(grown, piece)
        grown = joined(grown, update, piece, owners)
        joins += int(((owners >= 0) & (owners < len(state.charts))).sum())
    said = needed_pool(grown)
    stays = said is pool and voice == pool.voice
    return Pooled(
        grown if stays else replace(said, voice=voice).state_like(grown),
        kind="chart" if new else "pool",
        reason=f"{reason}; {joins} rows joined a chart" if joins else reason,
        fences=tuple(chart.fence for chart in new),
        is_local=not joins and stays,
    )


def joined(state: State, update: int, rows: Rows, owners: NDArray[np.intp]) -> State:
    """The state with the evidence of rows, each with its owner; its coefficients are those of before."""
    charts = [
        chart_with(chart, update, rows.take(owners == k)) if (owners == k).any() else chart
        for k, chart in enumerate(state.charts)
    ]
    pooled = rows.take(owners == MODEL)
    pool = needed_pool(state)
    pool = pool.learned(update, *as_doubles(pooled)) if len(pooled) else pool
    return replace(state.with_charts(charts), evidence=pool)


# --- charts that are there ------------------------------------------------------------------------------


def owners_of(state: State, rows: Rows) -> NDArray[np.intp]:
    """Number of the newest chart with evidence that speaks alone for each row, or that of the model."""
    owners = np.full(len(rows), MODEL)
    for k, chart in enumerate(state.charts):
        if chart.replaces and evidence_of(state_of(chart.content)) is not None:
            owners[chart.fence.window(rows.points) == 1] = k
    return owners


def chart_with(chart: Chart, update: int, rows: Rows) -> Chart:
    """A chart that has learned more rows: of its first data, if it was opened by this update."""
    pool, local = needed_pool(state_of(chart.content)), local_rows(chart.fence, chart.size, rows)
    return chart_of(
        chart, pool.extended_by(*local) if chart.update == update else pool.learned(update, *local)
    )


def chart_without(chart: Chart, rows: Rows) -> Chart:
    """A chart that has forgotten rows."""
    pool = needed_pool(state_of(chart.content))
    return chart_of(chart, pool.forgotten(*local_rows(chart.fence, chart.size, rows)))


def chart_of(chart: Chart, pool: Pool) -> Chart:
    """A chart with another evidence."""
    return replace(chart, content=model_in(pool.state_like(state_of(chart.content))))


def local_rows(fence: Fence, size: NDArray[np.floating], rows: Rows) -> tuple[Array, Array, Array]:
    """Rows in the coordinates and units of a chart."""
    points, targets, weights = as_doubles(rows)
    return fence.to_local(points).astype(np.float64), targets / size, weights


# --- new charts -----------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Rows of one owner, in its coordinates and units."""

    mask: NDArray[np.bool_]  # which of all rows these are
    pool: Pool
    size: Array  # (outputs,) unit of the owner's targets
    points: Array
    targets: Array
    weights: Array

    @property
    def readout(self) -> Readout:
        """What the memory that the owner trusts most says."""
        return self.pool.readouts[int(np.argmax(self.pool.trust[: len(self.pool.readouts)]))]


def parts_of(state: State, rows: Rows, owners: NDArray[np.intp]) -> Iterator[Part]:
    """The rows of each owner."""
    for owner in np.unique(owners):
        mask = owners == owner
        part = rows.take(mask)
        if owner == MODEL:
            yield Part(mask, needed_pool(state), np.ones(part.targets.shape[1]), *as_doubles(part))
        else:
            chart = state.charts[owner]
            pool, size = needed_pool(state_of(chart.content)), chart.size.astype(np.float64)
            yield Part(mask, pool, size, *local_rows(chart.fence, chart.size, part))


def contradicting(state: State, rows: Rows, owners: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Rows that their owner cannot explain by noise, together with its other rows."""
    found = np.zeros(len(rows), np.bool_)
    for part in parts_of(state, rows, owners):
        phi = part.pool.features(part.points)
        found[part.mask] = not surprise(part.readout, phi, part.targets, part.weights).is_noise()
    return found


@dataclass(frozen=True, eq=False)
class Known:
    """What those who own rows say of them.

    Attributes
    ----------
    said
        Predictions before the update, shape (rows, outputs).
    doubt
        Variance of these, shape (rows, outputs).
    errors
        Squared error of each row once its owner has learned all rows but those of its block, shape (rows,).
    """

    said: Array
    doubt: Array
    errors: Array

    def take(self, rows: NDArray[np.bool_]) -> Known:
        """What is said of some of the rows."""
        return Known(self.said[rows], self.doubt[rows], self.errors[rows])


def known_of(state: State, rows: Rows, owners: NDArray[np.intp]) -> Known:
    """Ask the owner of each row."""
    shape = rows.targets.shape
    known = Known(np.zeros(shape), np.zeros(shape), np.zeros(len(rows)))
    for part in parts_of(state, rows, owners):
        phi, readout = part.pool.features(part.points), part.readout
        known.said[part.mask] = phi @ readout.weights * part.size
        known.doubt[part.mask] = readout.leverage(phi)[:, None] * readout.noise * part.size**2
        errors = errors_in_turn(part.pool, part.points, part.targets, part.weights)
        known.errors[part.mask] = errors * (part.size**2).mean()
    return known


def charts_for(
    state: State, update: int, rows: Rows, owners: NDArray[np.intp], cover: Cover, charts: Count
) -> tuple[list[Chart], str]:
    """Charts around rows that contradict what is known, where they are clearly better; and why, in words."""
    strange = contradicting(state, rows, owners)
    if not strange.any():
        return [], NOISE
    if strange.sum() < LEAST_CHART_ROWS or len(state.charts) >= MOST_CHARTS:
        return [], DRIFT
    rows = rows.take(strange)
    known, pool, domain = known_of(state, rows, owners[strange]), needed_pool(state), state.lattice.domain
    found: list[Chart] = []
    for fence in fences_around(split_points(rows.points, charts), domain, cover):
        inside = np.asarray(fence.window(rows.points) == 1)
        everywhere = pool.features.crowding(pool.total, *fence.box_in(domain).T) > MOST_KNOWN
        if inside.sum() >= LEAST_CHART_ROWS and not everywhere:
            chart = better_chart(update, rows.take(inside), known.take(inside), fence, pool)
            found += [] if chart is None else [chart]
    return found, CHARTED if found else DRIFT


def better_chart(update: int, rows: Rows, known: Known, fence: Fence, pool: Pool) -> Chart | None:
    """A chart that learns these rows by evidence of its own; None if it is not clearly better."""
    size = usual_size(rows.targets, pool.loss).astype(pool.dtype)
    points, targets, weights = local_rows(fence, size, rows)
    chosen, readout = design(points, targets, CHART_FEATURES)
    own = Pool.start(chosen, readout.prior, points, targets, weights, loss=pool.loss, dtype=pool.dtype)
    phi = chosen(points)
    said = said_in_turn(phi, targets, weights, own.total, readout.prior) * size
    alone = ((said - rows.targets) ** 2).mean(axis=1)
    gain, share = known.errors - alone, alone.mean() / known.errors.mean()
    is_better = gain.mean() > SURE * gain.std() / np.sqrt(len(gain))
    doubt = known.doubt + readout.leverage(phi)[:, None] * readout.noise * size.astype(np.float64) ** 2
    differs = ((said - known.said) ** 2 > SURE**2 * doubt).any(axis=1)
    enough = len(rows) >= ROWS_AN_INPUT * np.count_nonzero(np.ptp(points, axis=0))
    is_news = is_beyond(rows).mean() > 0.5  # features end at the first domain: the pool cannot learn it
    is_change = share < CLEARLY and differs.mean() >= PURE
    if not is_better or not (share < OBVIOUS or (enough and (is_news or is_change))):
        return None
    content = model_in(replace(state_of(own.model), evidence=own))
    return Chart(update, fence, content, size, replaces=True)


def is_beyond(rows: Rows) -> NDArray[np.bool_]:
    """Rows outside the unit cube, for which features are those of the nearest point in it."""
    return np.asarray(((rows.points < 0) | (rows.points > 1)).any(axis=1))


def blocks(rows: int) -> Iterator[NDArray[np.intp]]:
    """Consecutive rows, as they came: neighbours in time are alike, and shall not vouch for each other."""
    yield from np.array_split(np.arange(rows), min(BLOCKS, rows))


def said_in_turn(phi: Array, targets: Array, weights: Array, total: Statistics, prior: Prior) -> Array:
    """Prediction for each row, from a readout of all rows but those of its block: shape (rows, outputs)."""
    said = np.empty_like(targets)
    for held in blocks(len(phi)):
        rest = total.copy()
        rest.subtract(phi[held], targets[held], weights[held])
        said[held] = phi[held] @ solve(rest, prior).weights
    return said


def errors_in_turn(pool: Pool, points: Array, targets: Array, weights: Array) -> Array:
    """Squared error of each row, from the pool with all rows but those of its block: shape (rows,)."""
    errors = np.empty(len(points))
    for held in blocks(len(points)):
        rest = np.setdiff1d(np.arange(len(points)), held)
        grown = pool.learned(0, points[rest], targets[rest], weights[rest]) if len(rest) else pool
        errors[held] = grown.trust @ grown.errors_on(points[held], targets[held])
    return errors
