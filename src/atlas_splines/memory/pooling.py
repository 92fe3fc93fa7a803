"""Pooling: rows of an update join the evidence of a model, or of the chart that they fall into.

Rows that noise explains are pooled. Rows that contradict what is known get a chart of their own if that
predicts them better, in cross-validation, than anything the pool could learn from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.extension import reach, reaching, with_outputs
from atlas_splines.core.model import Atlas, model_in, state_of
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import Signs, State
from atlas_splines.evidence.batches import Voice
from atlas_splines.evidence.design import Solved, design, solve_first
from atlas_splines.evidence.features import Features
from atlas_splines.evidence.growth import missing_bumps
from atlas_splines.evidence.pool import HALF_LIVES, UNSEEN, Pool
from atlas_splines.evidence.presence import Presence
from atlas_splines.evidence.readout import Prior, sums_of
from atlas_splines.evidence.spread import Spread, telling_inputs
from atlas_splines.evidence.statistics import HEAVIEST
from atlas_splines.evidence.verdicts import surprise
from atlas_splines.memory.chart_learning import usual_size
from atlas_splines.memory.covers import Count, Cover, plan_fences

__all__ = [
    "FEATURES",
    "LEAST_CHART_ROWS",
    "Pooled",
    "add_first_rows",
    "as_first_rows",
    "evidence_of",
    "first_spread",
    "forget_rows",
    "pool_rows",
    "solve_rows",
    "speak_as_fitted",
    "start_pool",
    "with_classes",
]

Array = NDArray[np.float64]

FEATURES = 550  # of a model
RESERVE = 0.25  # of these, for places that rows come to later
CHART_FEATURES = 150  # of a chart
LEAST_CHART_ROWS = 50
ROWS_AN_INPUT = 20  # that varies; fewer cannot tell a change in one place from drift, unless it is obvious
BLOCKS = 5  # of consecutive rows, held out in turn
SURE = 2.0  # standard errors by which a chart must be better than the pool
CLEARLY = 0.5  # share of the error of those who know the place that a chart must be below
JUDGED = 2000  # known rows whose leverage is found
MOST_LEVERAGE = 0.999  # of a row on its own prediction
PURE = (
    0.9  # share of the rows where a chart says something else, beyond doubt: drift changes some places more
)
OBVIOUS = 0.02  # share of their error below which there is no doubt
HOPEFUL = 0.2  # share of their error for coarse splines alone, above which a chart is not obvious
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


def solve_rows(
    rows: Rows,
    features: int = FEATURES,
    seed: int = 0,
    signs: Signs = (),
    looks_ahead: bool = True,
    pairs: bool = True,
    tolerance: float = 0.0,
) -> Solved:
    """Features for the first rows, and the readout of these.

    Parameters
    ----------
    rows
        The rows.
    features
        How many features the statistics may be of.
    seed
        Of the choice of features.
    signs
        Which way each output has to go along each input; empty if all are free.
    looks_ahead
        Whether to tell what other rows say of each.
    pairs
        Whether some bumps may be of two inputs only.
    tolerance
        Share by which errors may grow for the sake of fewer features.
    """
    return solve_first(*as_first_rows(rows), features, seed, signs, looks_ahead, pairs, tolerance)


def as_first_rows(rows: Rows) -> tuple[Array, Array, Array]:
    """Points, targets and weights of the first rows, as their statistics count them."""
    points, targets, weights = as_doubles(rows)
    return points, targets, np.minimum(weights / weights.mean(), HEAVIEST)


def start_pool(
    model: Atlas,
    rows: Rows,
    solved: Solved,
    *,
    loss: str,
    half_life: float | None = None,
    spread: Spread | None = None,
) -> Atlas:
    """The model, which was fitted to these rows, with their evidence; its predictions stay as they are.

    Parameters
    ----------
    model
        A model on the unit cube, without charts.
    rows
        The data of its fit.
    solved
        Features and sums of these rows.
    loss
        Name of its loss.
    half_life
        Rows after which evidence counts half; by default several memories are kept and mixed.
    spread
        How far off the model is on rows that it has not learned.
    """
    lives = HALF_LIVES if half_life is None else (half_life,)
    pool = Pool.of_sums(
        solved.features,
        solved.readout.prior,
        solved.statistics,
        lives,
        state_of(model),
        loss,
        model.dtype.name,
        unit=float(rows.weights.astype(np.float64).mean()),
    )
    pool = replace(pool, spread=spread)
    if half_life is not None:
        pool = pool.with_voice("fading")
    return model_in(replace(state_of(model), evidence=pool))


def first_spread(
    rows: Rows,
    solved: Solved,
    loss: str,
    judged: NDArray[np.intp],
    said: Array,
    factor: Array,
) -> Spread | None:
    """How far off a fitted model is, and where its rows are; None if nothing is known of its errors.

    Parameters
    ----------
    rows, solved, loss
        The data of the fit, its features and sums, and the name of the loss.
    judged, said, factor
        Numbers of rows of which something was said by models that had not learned them, what that was, and by
        how much the errors of the fitted model are larger, as in `Spread.of`.
    """
    if not len(judged):
        return None
    points, targets, weights = as_first_rows(rows)
    inputs = telling_inputs(solved.features)
    some = np.linspace(0, len(points) - 1, min(len(points), JUDGED)).astype(int)
    own = solved.readout.leverage(solved.features(points[some])) * weights[some]
    others = own / (1 - np.minimum(own, MOST_LEVERAGE))  # the leverage of a row on what the others say
    return Spread.of(
        points[judged],
        said,
        targets[judged],
        weights[judged],
        inputs=inputs,
        loss=loss,
        presence=Presence.of(points, inputs, some, others),
        factor=factor,
    )


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
    return pool.with_voice("exact").state_like(state)


def speak_as_fitted(state: State) -> State:
    """The state in which the first model speaks, with all evidence kept; only before any update."""
    return needed_pool(state).with_voice("mixture").state_like(state)


def with_classes(state: State, places: NDArray[np.intp], outputs: int) -> State:
    """The state with more classes, which no row so far was of; the old ones get these places."""
    if state.charts:
        raise ValueError("classes cannot be added where charts stand; call consolidate() first, or fit again")
    pool = evidence_of(state)
    larger = with_outputs(state, places, outputs, UNSEEN)
    return larger if pool is None else pool.with_outputs(places, outputs).state_like(larger)


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
    return pool.with_voice("exact").state_like(state)


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
    features: int = FEATURES,
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
        that predict best speak. Otherwise all rows are pooled, and the exact memory speaks. Without rows for
        the pool, whoever speaks goes on.
    cover, charts, features
        As in `update`.
    rest
        Further rows of the update, in pieces: they join the charts that they fall into, or the pool.
    """
    pool = needed_pool(state)
    # a class that is new is no change of the world: classes are pooled, and never fade by themselves
    decide = decide and pool.loss != "cross-entropy"
    voice: Voice = pool.voice if pool.voice == "fading" else "mixture" if decide else "exact"
    owners = owners_of(state, rows)
    parts = parts_of(state, update, rows, owners)
    new: list[Chart] = []
    reason = POOLED
    if decide:
        parts = [part.widened(features) for part in parts]
        new, reason = charts_for(state, update, rows, parts, cover, charts)
        bumps = sum(sum(part.grew) for part in parts)
        reason += f"; {bumps} new features where none had reached" if bumps and not new else ""
    if new:
        state = reaching(state, rows.points)
        for chart in new:
            owners[chart.fence.window(rows.points) == 1] = ELSEWHERE
        parts = parts_of(state, update, rows, owners)
    joins = int((owners >= 0).sum())
    grown = joined(state, parts)
    grown = grown.with_charts((*grown.charts, *new))
    for piece in rest:
        inside = piece.inside(grown.lattice.domain)
        owners = owners_of(grown, inside)
        grown = joined(grown, parts_of(grown, update, inside, owners))
        joins += int(((owners >= 0) & (owners < len(state.charts))).sum())
    said = needed_pool(grown)
    stays = said is pool  # then who speaks stays too: the update can be taken back with its charts
    return Pooled(
        grown if stays else said.with_voice(voice).state_like(grown),
        kind="chart" if new else "pool",
        reason=f"{reason}; {joins} rows joined a chart" if joins else reason,
        fences=tuple(chart.fence for chart in new),
        is_local=not joins and stays,
    )


def joined(state: State, parts: Sequence[Part]) -> State:
    """The state with the evidence of rows, each with its owner; its coefficients are those of before."""
    grown = {part.owner: part.grown for part in parts}
    charts = [chart_of(chart, grown[k]) if k in grown else chart for k, chart in enumerate(state.charts)]
    return replace(state.with_charts(charts), evidence=grown.get(MODEL, state.evidence))


# --- charts that are there ------------------------------------------------------------------------------


def owners_of(state: State, rows: Rows) -> NDArray[np.intp]:
    """Number of the newest chart with evidence that speaks alone for each row, or that of the model."""
    owners = np.full(len(rows), MODEL)
    for k, chart in enumerate(state.charts):
        if chart.replaces and evidence_of(state_of(chart.content)) is not None:
            owners[chart.fence.window(rows.points) == 1] = k
    return owners


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

    @property
    def is_noise(self) -> bool:
        """Whether noise explains the rows to their owner."""
        return surprise(self.pool.most_trusted, self.phi, self.targets, self.weights).is_noise()

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


def known_of(parts: Sequence[Part], rows: Rows) -> Known:
    """Ask the owner of each row; of those that have no part nothing is known."""
    shape = rows.targets.shape
    known = Known(np.zeros(shape), np.zeros(shape), np.zeros(len(rows)))
    for part in parts:
        readout = part.pool.most_trusted
        known.said[part.mask] = part.phi @ readout.weights * part.size
        known.doubt[part.mask] = readout.leverage(part.phi)[:, None] * readout.noise * part.size**2
        errors = part.grown.errors_in_turn(
            part.pool, part.phi, part.points, part.targets, part.weights, blocks(len(part.points))
        )
        known.errors[part.mask] = errors * (part.size**2).mean()
    return known


def charts_for(
    state: State, update: int, rows: Rows, parts: Sequence[Part], cover: Cover, charts: Count
) -> tuple[list[Chart], str]:
    """Charts around rows that contradict what is known, where they are clearly better; and why, in words."""
    strange = [part for part in parts if not part.is_noise]
    if not strange:
        return [], NOISE
    mask = np.any([part.mask for part in strange], axis=0)
    if mask.sum() < LEAST_CHART_ROWS or len(state.charts) >= MOST_CHARTS:
        return [], DRIFT
    pool, domain = needed_pool(state), reach(state, rows.points)
    known, rows = known_of(strange, rows).take(mask), rows.take(mask)
    found: list[Chart] = []
    for fence in plan_fences(rows.points, domain, cover, charts, state.monotone_inputs):
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
    enough = len(rows) >= ROWS_AN_INPUT * np.count_nonzero(np.ptp(points, axis=0))
    if not enough and additive_error(points, targets, weights, size) > HOPEFUL * known.errors.mean():
        return None
    chosen, readout = design(points, targets, CHART_FEATURES, signs=pool.features.signs)
    own = Pool.start(chosen, readout.prior, points, targets, weights, loss=pool.loss, dtype=pool.dtype)
    phi, judge = chosen(points), sums_of(own.total).readout(readout.prior)
    left = judge.left_in_turn(phi, targets, own.counted(weights), blocks(len(points)))
    said = (targets - left) * size
    alone = ((said - rows.targets) ** 2).mean(axis=1)
    gain, share = known.errors - alone, alone.mean() / known.errors.mean()
    is_better = gain.mean() > SURE * gain.std() / np.sqrt(len(gain))
    doubt = known.doubt + readout.leverage(phi)[:, None] * readout.noise * size.astype(np.float64) ** 2
    differs = ((said - known.said) ** 2 > SURE**2 * doubt).any(axis=1)
    is_news = is_beyond(rows).mean() > 0.5  # features end at the first domain: the pool cannot learn it
    is_change = share < CLEARLY and differs.mean() >= PURE
    if not is_better or not (share < OBVIOUS or (enough and (is_news or is_change))):
        return None
    if pool.whole_spread is not None:
        inputs = telling_inputs(chosen)
        own = replace(
            own,
            spread=Spread.of(
                *(points, targets - left, targets, own.counted(weights)),
                inputs=inputs,
                loss=pool.loss,
                presence=Presence.of(points, inputs),
            ),
        )
    content = model_in(replace(state_of(own.model), evidence=own, signs=chosen.signs))
    return Chart(update, fence, content, size, replaces=True)


def additive_error(points: Array, targets: Array, weights: Array, size: NDArray[np.floating]) -> float:
    """Mean squared error, block by block, of coarse splines alone: to see fast what is not obvious."""
    inputs = points.shape[1]
    splines = Features(inputs, tuple(range(inputs)), (), ())
    pool = Pool.start(splines, Prior.flat(splines.sizes), points, targets, weights, half_lives=())
    left = pool.first.left_in_turn(splines(points), targets, pool.counted(weights), blocks(len(points)))
    return float(((left * size) ** 2).mean())


def is_beyond(rows: Rows) -> NDArray[np.bool_]:
    """Rows outside the unit cube, for which features are those of the nearest point in it."""
    return np.asarray(((rows.points < 0) | (rows.points > 1)).any(axis=1))


def blocks(rows: int) -> list[NDArray[np.intp]]:
    """Consecutive rows, as they came: neighbours in time are alike, and shall not vouch for each other."""
    return np.array_split(np.arange(rows), min(BLOCKS, rows))
