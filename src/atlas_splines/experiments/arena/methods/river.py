"""Trees that learn row by row, from the package river: a Hoeffding tree, and an adaptive random forest."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river.forest import ARFRegressor
from river.tree import HoeffdingAdaptiveTreeRegressor

from atlas_splines.experiments.arena.methods.base import Method, Setup
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["AdaptiveForest", "HoeffdingTree"]

Array = NDArray[np.floating]


class RowByRow(Method):
    """A regressor of river, which is given one row after the other."""

    model: Any

    def fit(self, task: Task) -> None:
        """Learn the rows in their order."""
        for row, y in zip(as_dictionaries(task.X), task.y.tolist(), strict=True):
            self.model.learn_one(row, y)

    def predict(self, X: Array) -> Array:
        """Predict the rows."""
        return np.array([[self.model.predict_one(row)] for row in as_dictionaries(X)], np.float64)

    @property
    def bytes_kept(self) -> int:
        """The trees, with the statistics in their leaves."""
        return len(pickle.dumps(self.model))


class HoeffdingTree(RowByRow):
    """A tree that splits when the evidence is enough, and grows anew where the world changes."""

    GRID = tuple({"grace": grace} for grace in (200, 50, 100, 400))

    def __init__(self, setup: Setup, grace: int) -> None:
        self.model = HoeffdingAdaptiveTreeRegressor(grace_period=grace, seed=setup.seed)


class AdaptiveForest(RowByRow):
    """Trees on resampled rows, each replaced when its error drifts (Gomes and others, 2018)."""

    GRID = tuple({"trees": trees, "grace": grace} for trees in (10, 30) for grace in (50, 20, 100))

    def __init__(self, setup: Setup, trees: int, grace: int) -> None:
        self.model = ARFRegressor(n_models=trees, grace_period=grace, seed=setup.seed)


def as_dictionaries(X: Array) -> list[dict[int, float]]:
    """Rows as river has them: from the number of an input to its value.

    Examples
    --------
    >>> as_dictionaries(np.array([[0.5, 1.0]]))
    [{0: 0.5, 1: 1.0}]
    """
    return [dict(enumerate(row)) for row in X.tolist()]
