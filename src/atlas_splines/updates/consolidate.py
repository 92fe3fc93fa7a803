"""Consolidation: model and charts are distilled into one model, if predictions change little.

Knowledge distillation on synthetic rows (Hinton, Vinyals and Dean 2015). A model with a memory is solved for
and keeps a memory, of the synthetic rows; one without is trained.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class ConsolidationRules:
    """Sizes of consolidation; not benchmarked.

    Attributes
    ----------
    batch_size, rate_divisors, added_terms
        Of a trained model: rows of a batch, divisors of the learning rate one after the other, and terms that
        it has more than before, by default.
    assessed
        Points that a trained model is compared on, at least.
    solved
        Points of each kind that a model is solved from and compared on, at most.
    density_rows
        Synthetic rows of which the data density is made, at most.
    level_rows
        Synthetic rows of each level with a random effect.
    quantiles
        Of the error model that synthetic errors are drawn from.
    """

    batch_size: int = 100
    rate_divisors: tuple[int, ...] = (1, 3, 10, 30)
    added_terms: int = 10
    assessed: int = 20_000
    solved: int = 3000
    density_rows: int = 20_000
    level_rows: int = 8
    quantiles: int = 40


RULES = ConsolidationRules()


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
    """Distil the model and its charts into one model without charts, if predictions change little.

    Another model is fitted to the predictions of the present one, on points of the whole domain and of each
    chart. It replaces the present one only if the mean absolute change is at most the tolerance: on new
    points of the domain, on new points of each chart's box, and on X. Earlier updates can then no longer be
    reverted.

    The model of an estimator is solved for, also on a synthetic sample of the known rows. Its memory is then
    that of synthetic rows with the predictions and errors of the present model, weighted as the rows that it
    has learned, so that updates and intervals continue. A plain `Atlas` is trained, with more coefficients. A
    model that keeps rows keeps its charts: the next update would derive it from the rows alone.

    Parameters
    ----------
    model
        The model, changed in place.
    X
        Points where the change must be small; they are fitted too.
    tolerance
        Largest mean absolute change of predictions that is acceptable.
    density, terms
        Size of a trained model, at least the present one; by default one density finer, and 10 more
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
        raise ValueError("the model has no charts to consolidate")
    pool = memory_in(state_of(model))
    if pool is not None and pool.memory is not None:
        raise ValueError(
            "this model keeps rows, and each update derives it from them anew, which would undo a "
            "consolidation; keep its charts, or fit all data again"
        )
    random = np.random.default_rng(random_state)
    samples = check_size("samples", samples, least=1)
    required = [] if X is None else [check_inputs(X, model.domain, model.dtype)]
    if pool is None:
        successor = _larger_without_charts(model, density, terms)
        points = np.vstack(_sample(model, samples, random) + required)
        schedule = Schedule(
            "mae", RULES.batch_size, learning_rate, RULES.rate_divisors, epochs, progress=progress
        )
        rows = Rows(points, evaluate(state_of(model), points), np.ones(len(points), model.dtype))
        train_density(successor, Split(rows, None), schedule, random)
        assessed = _sample(model, max(samples, RULES.assessed), random) + required
    else:
        samples = min(samples, RULES.solved)
        points = np.vstack(_sample(model, samples, random) + required)
        successor, points = _solved_without_charts(state_of(model), pool, points, random)
        assessed = _sample(model, samples, random) + required
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
    """The model without charts, expanded to a size."""
    finest = min(model.density + 1, MAX_DENSITY)
    if density is not None:
        finest = check_size("density", density, least=model.density, most=MAX_DENSITY)
    pairs = (
        model.terms + RULES.added_terms if terms is None else check_size("terms", terms, least=model.terms)
    )
    bare = state_of(model).with_charts(())
    return model_in(expanded(bare, finest - model.density, pairs - model.terms))


def _solved_without_charts(
    state: State, pool: Pool, points: Array, random: np.random.Generator
) -> tuple[Atlas, Array]:
    """A model without charts that is fitted to the predictions, and the points that it was fitted on."""
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
    """The memory of synthetic rows: their means are the predictions, their variances those of the errors.

    For classes these are p and p(1 − p). Their total weight is that of all rows that the model and its charts
    have learned. Each point is added twice, one standard deviation above its prediction and one below: the
    sums are then those of real data, as files require, and the weights stay those of the predictions.
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
    # rows of levels are added by `_level_rows`
    count -= sums_of(pool.total).levels.rows.sum() if len(pool.total.levels) else 0
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
    """Predictions without the random effects of levels, which the memory adds: shape (points, outputs)."""
    outputs = evaluate(state, points).astype(np.float64)
    if state.offsets is not None:
        shift = np.zeros((len(points), state.outputs), state.dtype)
        state.offsets.add_to(points, shift)
        outputs -= share_kept(state, points)[:, None] * shift
    return outputs


def _level_rows(state: State, pool: Pool, features: Features, points: Array) -> Statistics:
    """Sums of synthetic rows of each level, outside charts, weighted as its rows: its random effect stays."""
    levels, sums = sums_of(pool.total).levels, Statistics(len(features), state.outputs)
    outside = points[share_kept(state, points) == 1]
    if not len(levels) or not len(outside):
        return sums
    keys = np.repeat(levels.keys, RULES.level_rows)
    rows = outside[np.arange(len(keys)) % len(outside)]
    rows[np.arange(len(keys)), keys >> COORDINATE_BITS] = coordinates_of(keys)
    outputs = evaluate(state, rows).astype(np.float64)
    if pool.loss == "cross-entropy":
        outputs = find_loss(pool.loss).labels(outputs).astype(np.float64)
    weights = np.repeat(np.asarray(levels.rows, np.float64), RULES.level_rows) / RULES.level_rows
    return summed(features, rows.astype(np.float64), outputs, weights)


def _error_model_of(
    state: State, grown: Pool, known: ErrorModel | None, random: np.random.Generator
) -> ErrorModel | None:
    """One error model for a state and its charts, of errors drawn from their quantiles plus the change.

    For classes the conformal scores of the state stay, as they do not depend on the place.
    """
    count = int(np.clip(grown.total.count, 1, RULES.density_rows))
    sample = synthetic_sample_of(state, count)
    if sample is None or known is None:
        return known
    inputs = relevant_inputs(grown.features)
    points = sample.points.clip(*state.lattice.domain.T).astype(state.dtype)
    unit = points.astype(np.float64).clip(0, 1)
    data_density = DataDensity.of(unit, inputs)
    if grown.loss == "cross-entropy":
        return replace(known, data_density=data_density)
    outputs = evaluate(state, points).astype(np.float64)
    errors, part = np.empty_like(outputs), random.permutation(len(points)) % RULES.quantiles
    for k in range(RULES.quantiles):
        own = part == k
        errors[own] = quantile_levels(state, points[own], outputs[own], (k + 0.5) / RULES.quantiles)
    after = evaluate(grown.state_like(state.with_charts(())), points).astype(np.float64)
    return ErrorModel.of(
        *(unit, after, outputs + errors, None),
        inputs=inputs,
        loss=grown.loss,
        data_density=data_density,
        monotonic=grown.features.monotonic,
    )


def _changes(model: Atlas, successor: Atlas, parts: list[Array]) -> list[Array]:
    """Absolute changes of predictions at the points of each part, shape (points, outputs)."""
    old, new = state_of(model), state_of(successor)
    return [np.abs(evaluate(new, part) - evaluate(old, part)) for part in parts]


def _sample(model: Atlas, samples: int, random: np.random.Generator) -> list[Array]:
    """Uniform points of the domain, and of the box of each chart."""
    parts = [points_in(model.domain, samples, random)]
    for chart in model.charts:
        share = max(samples // len(model.charts), 100)
        parts.append(points_in(chart.window.box_in(model.domain), share, random))
    return [with_levels(part.astype(model.dtype), state_of(model).offsets, random) for part in parts]


def with_levels(points: Array, offsets: Offsets | None, random: np.random.Generator) -> Array:
    """Points of which half have levels with offsets: a uniform sample would hardly have any."""
    if offsets is None:
        return points
    for j in inputs_of(offsets.keys):
        places = coordinates_of(offsets.keys[offsets.keys >> COORDINATE_BITS == j])
        near = places[(places >= points[:, j].min()) & (places <= points[:, j].max())]
        if len(near):
            points[::2, j] = random.choice(near, len(points[::2]))
    return points
