"""Tasks on each partition of the data: a sketch of its rows, sums of them, predictions, errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.dask.partitions import EVERY, Sketch, as_numbers, sketch_of
from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.estimators.out_of_core import RowsToSum, SummedRows
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.tables.frames import cells_of
from atlas_splines.updates.partial_sums import without_sums

__all__ = [
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


@dataclass(frozen=True)
class Sketching:
    """Parameters of a sketch.

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
    of_cells
        Whether inputs are cells of a table, which may hold more than numbers.
    """

    size: int
    seed: int
    parts: int | None
    of_classes: bool
    of_cells: bool = False

    def limit(self, rows: int) -> int:
        """Hash threshold of a part with so many rows, above which few rows can be in the sample."""
        if self.parts is None or not rows:
            return EVERY
        return min(EVERY, EVERY * MARGIN * self.size // (rows * self.parts))


def sketched(X: Any, y: Any = None, weights: Any = None, *, task: Sketching) -> Sketch:
    """The sketch of a part."""
    table, elsewhere = cells_of(X, [*map(str, X.columns)]) if task.of_cells else (as_numbers(X), None)
    targets = np.zeros(len(X)) if y is None else np.asarray(y)
    counted = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    if not len(X) == len(targets) == len(counted):
        raise ValueError(
            f"a partition has {len(X)} rows of X, {len(targets)} of y and {len(counted)} of "
            "sample_weight; give each row one of each"
        )
    if task.of_classes and targets.dtype.kind == "f" and (targets != np.rint(targets)).any():
        raise ValueError("y has numbers that are not classes; use DaskAtlasRegressor")
    return sketch_of(
        table,
        targets,
        counted,
        size=task.size,
        limit=task.limit(len(X)),
        seed=task.seed,
        of_classes=task.of_classes,
        elsewhere=elsewhere,
    )


def summed_rows(X: Any, y: Any, weights: Any = None, *, task: RowsToSum) -> SummedRows:
    """Sums of the rows of a part."""
    return task(X, y, weights)


def predictor(estimator: AtlasEstimator) -> AtlasEstimator:
    """A small estimator with the same predictions, without log, sums and ledger."""
    small = estimator._now()
    small.model_, small.ledger_ = model_in(without_sums(state_of(small.model_))), None
    return small


def predicted(X: Any, *, task: tuple[AtlasEstimator, str, tuple[int, ...], Any]) -> Array:
    """Results of a method of the estimator for the rows of a part."""
    estimator, method, shape, dtype = task
    if not len(X):
        return np.empty((0, *shape), dtype)
    return np.asarray(getattr(estimator, method)(X), dtype)


def interval_ends(X: Any, *, task: tuple[AtlasEstimator, Any, tuple[int, ...]]) -> Array:
    """Low and high ends of the intervals of the rows of a part, along the last axis."""
    estimator, coverage, shape = task
    if not len(X):
        return np.empty((0, *shape))
    return np.stack(estimator.predict_interval(X, coverage), axis=-1)


@dataclass(frozen=True, eq=False)
class Scored:
    """Sufficient statistics of a score.

    Attributes
    ----------
    weight
        Sum of the weights.
    mean, error_model
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


def errors_of(X: Any, y: Any, weights: Any = None, *, task: tuple[AtlasEstimator, bool]) -> Scored:
    """Errors on the rows of a part; of classes they are 0 or 1."""
    estimator, of_classes = task
    targets = np.asarray(y)
    targets = targets[:, None] if targets.ndim == 1 else targets
    counted = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    if not counted.sum():
        nothing = np.zeros(targets.shape[1])
        return Scored(0.0, nothing, nothing, nothing)
    if not of_classes and not np.isfinite(targets.astype(np.float64)).all():
        raise ValueError("y is missing, or infinite, in some rows; leave these out")
    predictions = estimator.predict(X).reshape(targets.shape)
    wrong = (predictions != targets).astype(np.float64) if of_classes else (targets - predictions) ** 2
    numbers = wrong if of_classes else targets.astype(np.float64)
    mean = np.average(numbers, axis=0, weights=counted)
    return Scored(float(counted.sum()), mean, counted @ (numbers - mean) ** 2, counted @ wrong)
