"""The initial memory: sufficient statistics and error model of the rows of a fit, and of more of its data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.data_density import DataDensity
from atlas_splines.memory.error_model import ErrorModel, relevant_inputs
from atlas_splines.memory.expert_weights import ExpertWeights
from atlas_splines.memory.initial_fit import InitialFit, fit_features
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.local_memory import LocalMemory
from atlas_splines.memory.pool import HALF_LIVES, RECENT, Pool
from atlas_splines.memory.posterior import MOST_LEVERAGE, solve
from atlas_splines.memory.statistics import HEAVIEST
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import Monotonic, State
from atlas_splines.updates.routing import as_doubles, needed_pool

__all__ = [
    "FEATURES",
    "add_first_rows",
    "as_first_rows",
    "initial_error_model",
    "solve_rows",
    "start_pool",
    "use_initial_model",
]

Array = NDArray[np.float64]

FEATURES = 550  # of a model
LEVERAGE_ROWS = 2000  # whose leverage is found for the data density: not benchmarked


def solve_rows(
    rows: Rows,
    features: int = FEATURES,
    seed: int = 0,
    monotonic: Monotonic = (),
    pairs: bool = True,
    tolerance: float = 0.0,
    levels: tuple[int, ...] = (),
    fewest: int = 1,
) -> InitialFit:
    """Features for the rows of a fit, and the posterior that a pool of their statistics has.

    Parameters are those of `fit_features`.
    """
    solved = fit_features(
        *as_first_rows(rows), features, seed, monotonic, False, pairs, tolerance, levels, fewest
    )
    return replace(
        solved, posterior=solve(solved.statistics, solved.posterior.prior), prior=solved.posterior.prior
    )


def as_first_rows(rows: Rows) -> tuple[Array, Array, Array]:
    """Points, targets and weights of the rows of a fit, as their statistics count them."""
    points, targets, weights = as_doubles(rows)
    return points, targets, np.minimum(weights / weights.mean(), HEAVIEST)


def start_pool(
    model: Atlas,
    solved: InitialFit,
    *,
    loss: str,
    unit: float = 1.0,
    half_life: float | None = None,
    error_model: ErrorModel | None = None,
    memory: LocalMemory | None = None,
    fewest: int = 1,
    undo: int = RECENT,
) -> Atlas:
    """A fitted model with the memory of its rows; predictions do not change.

    Parameters
    ----------
    model
        A model on the unit cube, without charts.
    solved
        Features and statistics of these rows.
    loss
        Name of its loss.
    unit
        Weight that counts as one row: the mean sample weight.
    half_life
        Of exponentially weighted statistics, in rows; by default several are kept and mixed.
    error_model
        Of out-of-sample errors of the model.
    memory
        The rows that it keeps.
    fewest
        Fewest rows whose sums are kept apart.
    undo
        Most updates whose sums are kept apart.
    """
    lives = HALF_LIVES if half_life is None else (half_life,)
    pool = Pool.of_sums(
        solved.features,
        solved.posterior.prior if solved.prior is None else solved.prior,
        solved.statistics,
        lives,
        state_of(model),
        loss,
        model.dtype.name,
        unit=unit,
    )
    if memory is not None:
        pool = replace(pool, initial=None, memory=memory)
        pool = replace(pool, expert_weights=ExpertWeights.of(pool.candidates)).derived_as(state_of(model))
    pool = replace(pool.with_error_model(error_model), fewest=fewest, undo=undo)
    if half_life is not None:
        pool = pool.with_output_mode("decayed")
    return model_in(replace(state_of(model), pooled=pool))


def initial_error_model(
    rows: Rows,
    solved: InitialFit,
    loss: str,
    assessed: NDArray[np.intp],
    predicted: Array,
    factor: Array,
) -> ErrorModel | None:
    """Error model of a fit from out-of-sample predictions, with its data density; None without any.

    Parameters
    ----------
    rows, solved, loss
        The data of the fit, its features and sums, and the name of the loss.
    assessed, predicted, factor
        Numbers of the rows with out-of-sample predictions, these predictions, and the ratio of the errors of
        the fitted model to theirs, as in `ErrorModel.of`.
    """
    if not len(assessed):
        return None
    points, targets, weights = as_first_rows(rows)
    inputs = relevant_inputs(solved.features)
    some = np.linspace(0, len(points) - 1, min(len(points), LEVERAGE_ROWS)).astype(int)
    own = solved.posterior.leverage(solved.features(points[some])) * weights[some]
    others = own / (1 - np.minimum(own, MOST_LEVERAGE))  # leverage of a row on its leave-one-out prediction
    return ErrorModel.of(
        points[assessed],
        predicted,
        targets[assessed],
        weights[assessed],
        inputs=inputs,
        loss=loss,
        data_density=DataDensity.of(points, inputs, some, others),
        factor=factor,
        monotonic=solved.features.monotonic,
    )


def add_first_rows(state: State, pieces: Iterable[Rows], held: HeldRows | None = None) -> State:
    """The state of all data of a fit, a part of which was fitted: the posterior of the cumulative statistics.

    The model is derived once, after the last piece. With a local memory, `held` may be all rows that it
    keeps; otherwise those of the pieces are appended to those that it has.
    """
    before = pool = needed_pool(state)
    for rows in pieces:
        pool = pool.extended_by(*as_doubles(rows), assess=before)
    return pool.keeping_of(0, held).with_output_mode("cumulative").state_like(state)


def use_initial_model(state: State) -> State:
    """The state with the output mode of the initial model; only before any update."""
    return needed_pool(state).with_output_mode("ensemble").state_like(state)
