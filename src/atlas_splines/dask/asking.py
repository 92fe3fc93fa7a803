"""What is asked of each part of the data, there: a sketch of its rows, sums of them, predictions, errors."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.extension import extended
from atlas_splines.core.model import Atlas, model_in, state_of
from atlas_splines.dask.partitions import as_numbers
from atlas_splines.dask.sketches import EVERY, Sketch, sketch_of
from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.memory.summing import RowSums, Summer, without_sums

__all__ = [
    "RowsToSum",
    "Scored",
    "Sketching",
    "errors_of",
    "interval_ends",
    "predicted",
    "predictor",
    "sketched",
    "summed_rows",
]

Array = NDArray[Any]

MARGIN = 4  # a part of so many times the usual size still has enough rows below its limit
ROWS_AT_ONCE = 65_536  # that are held more than once; a multiple of what is summed together


@dataclass(frozen=True)
class Sketching:
    """Which sketch is wanted.

    Attributes
    ----------
    size
        Different rows that it has at most.
    seed
        Of the hashes.
    parts
        Parts of all data, or None to leave out nothing beforehand.
    of_classes
        Whether targets are classes.
    """

    size: int
    seed: int
    parts: int | None
    of_classes: bool

    def limit(self, rows: int) -> int:
        """Hash from which on a part with so many rows leaves rows out: few of them are in the sample."""
        if self.parts is None or not rows:
            return EVERY
        return min(EVERY, EVERY * MARGIN * self.size // (rows * self.parts))


def sketched(X: Any, y: Any = None, weights: Any = None, *, asked: Sketching) -> Sketch:
    """The sketch of a part."""
    table = as_numbers(X)
    targets = np.zeros(len(table)) if y is None else np.asarray(y)
    counted = np.ones(len(table)) if weights is None else np.asarray(weights, np.float64)
    if not len(table) == len(targets) == len(counted):
        raise ValueError(
            f"a partition has {len(table)} rows of X, {len(targets)} of y and {len(counted)} of "
            "sample_weight; give each row one of each"
        )
    if asked.of_classes and targets.dtype.kind == "f" and (targets != np.rint(targets)).any():
        raise ValueError("y has numbers that are no classes; use DaskAtlasRegressor")
    return sketch_of(
        table,
        targets,
        counted,
        size=asked.size,
        limit=asked.limit(len(table)),
        seed=asked.seed,
        of_classes=asked.of_classes,
    )


class RowsToSum:
    """What a part needs to sum its rows: checks and map of an estimator, and the features of its model.

    Parameters
    ----------
    estimator
        A fitted estimator.
    confined
        Whether rows outside the domain are refused.
    """

    def __init__(self, estimator: AtlasEstimator, confined: bool = False) -> None:
        self.estimator, self.confined = copy.copy(estimator), confined
        self.summer = Summer(state_of(estimator.model_))
        self.estimator.model_ = bare(estimator.model_)

    def __call__(self, X: Any, y: Array, weights: Array | None) -> RowSums:
        """Sums of rows."""
        checked = self.estimator._checked(X, y, weights)
        if self.confined and not self.estimator._inside(checked[0]).all():
            raise ValueError("some rows of X lie outside the domain that was given; widen it")
        return self.summer(self.estimator._rows(*checked))


def bare(model: Atlas) -> Atlas:
    """A model of the same domain that has learned nothing."""
    small = Atlas(model.inputs, model.outputs, terms=0, density=0, dtype=model.dtype.name)
    return model_in(extended(state_of(small), *model.domain.T))


def summed_rows(X: Any, y: Any, weights: Any = None, *, asked: RowsToSum) -> RowSums:
    """Sums of the rows of a part, some rows at a time."""
    total = RowSums({}, {})
    targets, counted = np.asarray(y), None if weights is None else np.asarray(weights)
    for begin in range(0, len(X), ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        some = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
        total += asked(some, targets[rows], None if counted is None else counted[rows])
    return total


def predictor(estimator: AtlasEstimator) -> AtlasEstimator:
    """The estimator without log and sums, which predicts the same: small."""
    small = estimator._now()
    small.model_ = model_in(without_sums(state_of(small.model_)))
    return small


def predicted(X: Any, *, asked: tuple[AtlasEstimator, str, tuple[int, ...], Any]) -> Array:
    """What a method of the estimator says of the rows of a part."""
    estimator, method, shape, dtype = asked
    if not len(X):
        return np.empty((0, *shape), dtype)
    return np.asarray(getattr(estimator, method)(X), dtype)


def interval_ends(X: Any, *, asked: tuple[AtlasEstimator, Any, tuple[int, ...]]) -> Array:
    """Low and high ends of the intervals of the rows of a part, along the last axis."""
    estimator, coverage, shape = asked
    if not len(X):
        return np.empty((0, *shape))
    return np.stack(estimator.predict_interval(X, coverage), axis=-1)


@dataclass(frozen=True, eq=False)
class Scored:
    """Sums that a score is made of.

    Attributes
    ----------
    weight
        Sum of the weights.
    mean, spread
        Of the targets: their mean, and the sum of squared distances from it, shape (targets,).
    errors
        Sum of squared errors, or of the weights of wrong classes, shape (targets,).
    """

    weight: float
    mean: Array
    spread: Array
    errors: Array

    def __add__(self, other: Scored) -> Scored:
        weight = self.weight + other.weight
        if not weight:
            return self
        apart, share = other.mean - self.mean, other.weight / weight
        return Scored(
            weight,
            self.mean + share * apart,
            self.spread + other.spread + self.weight * share * apart**2,
            self.errors + other.errors,
        )


def errors_of(X: Any, y: Any, weights: Any = None, *, asked: tuple[AtlasEstimator, bool]) -> Scored:
    """Errors on the rows of a part; of classes they are 0 or 1."""
    estimator, of_classes = asked
    targets = np.asarray(y)
    targets = targets[:, None] if targets.ndim == 1 else targets
    counted = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    if not counted.sum():
        nothing = np.zeros(targets.shape[1])
        return Scored(0.0, nothing, nothing, nothing)
    said = estimator.predict(X).reshape(targets.shape)
    wrong = (said != targets).astype(np.float64) if of_classes else (targets - said) ** 2
    numbers = wrong if of_classes else targets.astype(np.float64)
    mean = np.average(numbers, axis=0, weights=counted)
    return Scored(float(counted.sum()), mean, counted @ (numbers - mean) ** 2, counted @ wrong)
