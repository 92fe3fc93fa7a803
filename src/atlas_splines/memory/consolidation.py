"""Consolidation: charts folded into the coefficients of one model again, if that costs little."""

from __future__ import annotations

import time
from datetime import datetime, timezone

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.core.checks import check_inputs, check_number, check_size
from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.extension import expanded
from atlas_splines.core.growing import Schedule, Split, train_density
from atlas_splines.core.lattice import MAX_DENSITY
from atlas_splines.core.model import Atlas, commit, model_in, state_of
from atlas_splines.core.offsets import COORDINATE_BITS, Offsets, coordinates_of, inputs_of
from atlas_splines.core.records import next_id
from atlas_splines.core.rows import Rows
from atlas_splines.core.training import Seed
from atlas_splines.memory.log import Consolidation
from atlas_splines.memory.owners import evidence_of
from atlas_splines.memory.sampling import points_in

__all__ = ["consolidate"]

Array = NDArray[np.floating]

BATCH_SIZE = 100  # rows
RATE_DIVISORS = (1, 3, 10, 30)  # of the learning rate, one after the other
MORE_TERMS = 10  # than the model had, by default
LEAST_JUDGING = 20_000  # points on which the new model is judged


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
    """Fold all charts into the coefficients of the model by rehearsal, if that costs little.

    A model of the chosen size learns what the present one says, on points of the whole domain and of each
    chart. It takes its place only if the mean absolute change is at most the tolerance: on new points over
    the domain, on new points of each chart's box, and on X. Its charts are then gone, and can no longer be
    reverted. A model that keeps rows keeps its charts: the next update would derive it from the rows alone.

    Parameters
    ----------
    model
        The model, changed in place.
    X
        Points that matter most; they are learned too.
    tolerance
        Largest mean absolute change of predictions that is acceptable.
    density, terms
        Size of the new model, at least that of the old one; by default one density finer, and 10 more terms.
    samples
        Points sampled over the domain, and as many again over the boxes of the charts.
    epochs, learning_rate, random_state, progress
        As in `train`.

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
    pool = evidence_of(state_of(model))
    if pool is not None and pool.memory is not None:
        raise ValueError(
            "this model keeps rows, and each update derives it from them anew, without charts that were "
            "folded in; keep its charts, or fit all data again"
        )
    random = np.random.default_rng(random_state)
    successor = _larger_without_charts(model, density, terms)
    matters = [] if X is None else [check_inputs(X, model.domain, model.dtype)]
    points = np.vstack(_sample(model, check_size("samples", samples, least=1), random) + matters)
    schedule = Schedule("mae", BATCH_SIZE, learning_rate, RATE_DIVISORS, epochs, progress=progress)
    rows = Rows(points, evaluate(state_of(model), points), np.ones(len(points), model.dtype))
    train_density(successor, Split(rows, None), schedule, random)
    changes = _changes(model, successor, _sample(model, max(samples, LEAST_JUDGING), random) + matters)
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


def _changes(model: Atlas, successor: Atlas, parts: list[Array]) -> list[Array]:
    """How far predictions move at the points of each part."""
    old, new = state_of(model), state_of(successor)
    return [np.abs(evaluate(new, part) - evaluate(old, part)) for part in parts]


def _sample(model: Atlas, samples: int, random: np.random.Generator) -> list[Array]:
    """Points over the domain, and points over the box of each chart."""
    parts = [points_in(model.domain, samples, random)]
    for chart in model.charts:
        share = max(samples // len(model.charts), 100)
        parts.append(points_in(chart.fence.box_in(model.domain), share, random))
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
