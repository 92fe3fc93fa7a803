"""Consolidation: charts folded into the coefficients of one model again, if that costs little.

A model with a memory is solved for, and has a memory of synthetic rows afterwards; one without is trained.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.memory.batches import summed
from atlas_splines.memory.data_density import DataDensity
from atlas_splines.memory.error_model import ErrorModel, relevant_inputs
from atlas_splines.memory.features import Features
from atlas_splines.memory.initial_fit import InitialFit, fit_features
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.posterior import sums_of
from atlas_splines.memory.statistics import Statistics
from atlas_splines.memory.to_atlas import fold
from atlas_splines.model.atlas import Atlas, commit, model_in, state_of
from atlas_splines.model.checks import check_inputs, check_number, check_size
from atlas_splines.model.evaluate import evaluate, share_kept
from atlas_splines.model.lattice import MAX_DENSITY
from atlas_splines.model.log import next_id
from atlas_splines.model.losses import find_loss
from atlas_splines.model.monotone import constrained
from atlas_splines.model.resize import expanded
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import COORDINATE_BITS, Offsets, State, coordinates_of, inputs_of
from atlas_splines.model.train import Schedule, Seed, Split, train_density
from atlas_splines.updates.initial_memory import FEATURES
from atlas_splines.updates.intervals import deviations, quantile_levels
from atlas_splines.updates.log import Consolidation
from atlas_splines.updates.routing import memory_in
from atlas_splines.updates.synthetic_sample import synthetic_sample_of
from atlas_splines.updates.update import points_in

__all__ = ["consolidate"]

Array = NDArray[np.floating]

BATCH_SIZE = 100  # rows
RATE_DIVISORS = (1, 3, 10, 30)  # of the learning rate, one after the other
MORE_TERMS = 10  # than the model had, by default
LEAST_JUDGING = 20_000  # points on which a trained model is judged
MOST_SOLVED = 3000  # points of each kind that a model is solved from, and judged on
MOST_COUNTED = 20_000  # synthetic rows whose places are counted
ROWS_A_LEVEL = 8  # synthetic ones of each category that has an effect of its own
QUANTILES = 40  # of the error model that synthetic errors are drawn from


def consolidate(
    model: Atlas,
    X: ArrayLike | None = None,
    *,
    tolerance: float,
    density: int | None = None,
    terms: int | None = None,
    samples: int = 20_000,
    epochs: int = 50,
    learning_rate: float = 0.01,
    random_state: Seed = None,
    progress: bool = False,
) -> Consolidation:
    """Fold all charts into the coefficients of the model, if that costs little.

    Another model learns the predictions of the present one, on points of the whole domain and of each
    chart. It takes its place only if the mean absolute change is at most the tolerance: on new points over
    the domain, on new points of each chart's box, and on X. Its charts are then gone, and no earlier update
    can be reverted any more.

    The model of an estimator is solved for, on points like the known rows too. Its memory is that of
    synthetic rows then, with the predictions and the errors of the present model, which count as much as
    the rows that it has learned; so it goes on learning, and has intervals. Of a plain `Atlas` a larger one
    is trained. A model that keeps rows keeps its charts: the next update would derive it from the rows
    alone.

    Parameters
    ----------
    model
        The model, changed in place.
    X
        Points that matter most; they are learned too.
    tolerance
        Largest mean absolute change of predictions that is acceptable.
    density, terms
        Size of a trained model, at least that of the old one; by default one density finer, and 10 more
        terms.
    samples
        Points sampled over the domain, and as many again over the boxes of the charts; at most 3,000 each
        where a model is solved for.
    epochs, learning_rate, progress
        Of training, as in `train`.
    random_state
        Seed of the points.

    Returns
    -------
    Consolidation

    Examples
    --------
    >>> import numpy as np
    >>> from atlas_splines import Atlas, update
    >>> X = 0.2 + 0.5 * np.random.default_rng(0).random((500, 1))
    >>> model = Atlas(inputs=1, density=2)
    >>> done = update(model, X, np.sin(5 * X), random_state=0)
    >>> consolidate(model, tolerance=0.1, samples=1000, random_state=0).replaced, model.charts
    (True, ())
    """
    start = time.perf_counter()
    check_number("tolerance", tolerance, least=0)
    if not model.charts:
        raise ValueError("the model has no charts to fold in")
    pool = memory_in(state_of(model))
    if pool is not None and pool.memory is not None:
        raise ValueError(
            "this model keeps rows, and each update derives it from them anew, without charts that were "
            "folded in; keep its charts, or fit all data again"
        )
    random = np.random.default_rng(random_state)
    samples = check_size("samples", samples, least=1)
    matters = [] if X is None else [check_inputs(X, model.domain, model.dtype)]
    if pool is None:
        successor = _larger_without_charts(model, density, terms)
        points = np.vstack(_sample(model, samples, random) + matters)
        schedule = Schedule("mae", BATCH_SIZE, learning_rate, RATE_DIVISORS, epochs, progress=progress)
        rows = Rows(points, evaluate(state_of(model), points), np.ones(len(points), model.dtype))
        train_density(successor, Split(rows, None), schedule, random)
        assessed = _sample(model, max(samples, LEAST_JUDGING), random) + matters
    else:
        samples = min(samples, MOST_SOLVED)
        points = np.vstack(_sample(model, samples, random) + matters)
        successor, points = _solved_without_charts(state_of(model), pool, points, random)
        assessed = _sample(model, samples, random) + matters
    changes = _changes(model, successor, assessed)
    error = float(max(change.mean() for change in changes))
    replaced = error <= tolerance
    done = Consolidation(
        id=next_id(model.updates),
        kind="consolidation",
        time=datetime.now(timezone.utc),
        rows=len(points),
        before=model.fingerprint(),
        after=(successor if replaced else model).fingerprint(),
        replaced=replaced,
        error=error,
        worst=float(max(change.max() for change in changes)),
        seconds=time.perf_counter() - start,
    )
    if replaced:
        commit(model, state_of(successor), done)
    return done


def _larger_without_charts(model: Atlas, density: int | None, terms: int | None) -> Atlas:
    """The coefficients of a model, grown to a size."""
    finest = min(model.density + 1, MAX_DENSITY)
    if density is not None:
        finest = check_size("density", density, least=model.density, most=MAX_DENSITY)
    pairs = model.terms + MORE_TERMS if terms is None else check_size("terms", terms, least=model.terms)
    bare = state_of(model).with_charts(())
    return model_in(expanded(bare, finest - model.density, pairs - model.terms))


def _solved_without_charts(
    state: State, pool: Pool, points: Array, random: np.random.Generator
) -> tuple[Atlas, Array]:
    """A model without charts that predicts the same, its memory of synthetic rows, and their points."""
    known = synthetic_sample_of(state, len(points) // 2)
    if known is not None:
        points = np.vstack([points, known.points.clip(*state.lattice.domain.T).astype(points.dtype)])
    outputs = _without_offsets(state, points)
    solved = fit_features(
        points.astype(np.float64),
        outputs,
        budget=FEATURES,
        monotonic=pool.features.monotonic,
        levels=pool.features.levels,
        is_out_of_sample=False,
    )
    grown = _memory_of(state, pool, solved, points, outputs)
    if pool.error_model is not None or pool.combined_error_model is not None:
        grown = replace(grown, error_model=_error_model_of(state, grown, pool.combined_error_model, random))
    grown = grown.with_output_mode("decayed") if pool.output_mode == "decayed" else grown
    return model_in(grown.state_like(state.with_charts(()))), points


def _memory_of(
    state: State, pool: Pool, solved: InitialFit, points: Array, outputs: NDArray[np.float64]
) -> Pool:
    """The memory of synthetic rows: their targets are the predictions, their variance that of the errors.

    For classes these are p and p(1 − p), as of labels. They count as much as all rows that the model and
    its charts have learned. Each point comes twice, one standard deviation above its prediction and one
    below: so the sums are those of data, as a file has to have them, and no weight moves.
    """
    is_class, unit = pool.loss == "cross-entropy", points.astype(np.float64)
    labels = find_loss(pool.loss).labels(outputs).astype(np.float64) if is_class else outputs
    if is_class:
        apart = np.sqrt(labels * (1 - labels))
    elif pool.combined_error_model is not None:
        apart = deviations(state, points, outputs)
    else:
        apart = np.tile(np.sqrt(pool.first.noise), (len(points), 1))
    charts = (memory_in(state_of(chart.content)) for chart in state.charts)
    count = pool.total.count + sum(own.total.count for own in charts if own is not None)
    count -= (
        sums_of(pool.total).levels.rows.sum() if len(pool.total.levels) else 0
    )  # those of levels come below
    count = max(count, 1.0)
    first, weights = (
        _level_rows(state, pool, solved.features, points),
        np.full(len(points), count / len(points)),
    )
    for targets in (labels + apart, labels - apart):
        first = first + summed(solved.features, unit, targets, weights / 2, by_level=False)
    base = fold(solved.features, solved.posterior.weights, pool.dtype) if is_class else None
    fitted = None if base is None else state_of(constrained(base, pool.features.monotonic))
    grown = Pool.of_sums(
        solved.features,
        solved.posterior.prior,
        first,
        pool.half_lives,
        fitted,
        pool.loss,
        pool.dtype,
        pool.weight_unit,
    )
    return replace(grown, fewest=pool.fewest)


def _without_offsets(state: State, points: Array) -> NDArray[np.float64]:
    """Outputs at points without the effects of levels, which the memory of a model adds to them."""
    outputs = evaluate(state, points).astype(np.float64)
    if state.offsets is not None:
        shift = np.zeros((len(points), state.outputs), state.dtype)
        state.offsets.add_to(points, shift)
        outputs -= share_kept(state, points)[:, None] * shift
    return outputs


def _level_rows(state: State, pool: Pool, features: Features, points: Array) -> Statistics:
    """Sums of synthetic rows of each level, outside charts, that count as its rows do: its effect stays."""
    levels, sums = sums_of(pool.total).levels, Statistics(len(features), state.outputs)
    outside = points[share_kept(state, points) == 1]
    if not len(levels) or not len(outside):
        return sums
    keys = np.repeat(levels.keys, ROWS_A_LEVEL)
    rows = outside[np.arange(len(keys)) % len(outside)]
    rows[np.arange(len(keys)), keys >> COORDINATE_BITS] = coordinates_of(keys)
    outputs = evaluate(state, rows).astype(np.float64)
    if pool.loss == "cross-entropy":
        outputs = find_loss(pool.loss).labels(outputs).astype(np.float64)
    weights = np.repeat(np.asarray(levels.rows, np.float64), ROWS_A_LEVEL) / ROWS_A_LEVEL
    return summed(features, rows.astype(np.float64), outputs, weights)


def _error_model_of(
    state: State, grown: Pool, known: ErrorModel | None, random: np.random.Generator
) -> ErrorModel | None:
    """The error model of a state and its charts as one, from errors that are drawn from its quantiles.

    To these comes how far predictions move. Of classes it has no places, so that of the state stays.
    """
    count = int(np.clip(grown.total.count, 1, MOST_COUNTED))
    like = synthetic_sample_of(state, count)
    if like is None or known is None:
        return known
    inputs = relevant_inputs(grown.features)
    points = like.points.clip(*state.lattice.domain.T).astype(state.dtype)
    unit = points.astype(np.float64).clip(0, 1)
    data_density = DataDensity.of(unit, inputs)
    if grown.loss == "cross-entropy":
        return replace(known, data_density=data_density)
    outputs = evaluate(state, points).astype(np.float64)
    errors, part = np.empty_like(outputs), random.permutation(len(points)) % QUANTILES
    for k in range(QUANTILES):
        own = part == k
        errors[own] = quantile_levels(state, points[own], outputs[own], (k + 0.5) / QUANTILES)
    after = evaluate(grown.state_like(state.with_charts(())), points).astype(np.float64)
    return ErrorModel.of(
        *(unit, after, outputs + errors, None),
        inputs=inputs,
        loss=grown.loss,
        data_density=data_density,
        monotonic=grown.features.monotonic,
    )


def _changes(model: Atlas, successor: Atlas, parts: list[Array]) -> list[Array]:
    """How far predictions move at the points of each part."""
    old, new = state_of(model), state_of(successor)
    return [np.abs(evaluate(new, part) - evaluate(old, part)) for part in parts]


def _sample(model: Atlas, samples: int, random: np.random.Generator) -> list[Array]:
    """Points over the domain, and points over the box of each chart."""
    parts = [points_in(model.domain, samples, random)]
    for chart in model.charts:
        share = max(samples // len(model.charts), 100)
        parts.append(points_in(chart.window.box_in(model.domain), share, random))
    return [with_levels(part.astype(model.dtype), state_of(model).offsets, random) for part in parts]


def with_levels(points: Array, offsets: Offsets | None, random: np.random.Generator) -> Array:
    """Points of which half have levels with offsets, in the box of all points: no others would have any."""
    if offsets is None:
        return points
    for j in inputs_of(offsets.keys):
        places = coordinates_of(offsets.keys[offsets.keys >> COORDINATE_BITS == j])
        near = places[(places >= points[:, j].min()) & (places <= points[:, j].max())]
        if len(near):
            points[::2, j] = random.choice(near, len(points[::2]))
    return points
