"""Trees that learn row by row, from the package river: a Hoeffding tree, and two kinds of forest."""

from __future__ import annotations

import pickle
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river.forest import AMFClassifier, AMFRegressor, ARFClassifier, ARFRegressor
from river.tree import HoeffdingAdaptiveTreeClassifier, HoeffdingAdaptiveTreeRegressor

from atlas_splines.experiments.arena.methods.base import Method, Setup
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["AdaptiveForest", "HoeffdingTree", "MondrianForest"]

Array = NDArray[np.floating]


class RowByRow(Method):
    """A model of river, which is given one row after the other: subclasses make it."""

    gives_probabilities = True

    def __init__(self, setup: Setup, **settings: Any) -> None:
        self.classes = setup.classes
        self.model = self.make(setup, **settings)

    @abstractmethod
    def make(self, setup: Setup, **settings: Any) -> Any:
        """A regressor, or a classifier if there are classes."""

    def fit(self, task: Task) -> None:
        """Learn the rows in their order."""
        targets = task.y.astype(np.intp) if self.classes else task.y
        for row, y in zip(as_dictionaries(task.X), targets.tolist(), strict=True):
            self.model.learn_one(row, y)

    def predict(self, X: Array) -> Array:
        """Predict the rows, or the probability of each class."""
        rows = as_dictionaries(X)
        if not self.classes:
            return np.array([[self.model.predict_one(row)] for row in rows], np.float64)
        known = [self.model.predict_proba_one(row) for row in rows]
        return np.array([[of.get(k, 0.0) for k in range(self.classes)] for of in known], np.float64)

    @property
    def bytes_kept(self) -> int:
        """The trees, with the statistics in their leaves."""
        return len(pickle.dumps(self.model))


class HoeffdingTree(RowByRow):
    """A tree that splits when the evidence is enough, and grows anew where the world changes."""

    GRID = tuple({"grace": grace} for grace in (200, 50, 100, 400))

    def make(self, setup: Setup, **settings: Any) -> Any:
        """The tree, with the rows between two attempts to split a leaf."""
        kind = HoeffdingAdaptiveTreeClassifier if setup.classes else HoeffdingAdaptiveTreeRegressor
        return kind(grace_period=settings["grace"], seed=setup.seed)


class AdaptiveForest(RowByRow):
    """Trees on resampled rows, each replaced when its error drifts (Gomes and others, 2018)."""

    GRID = tuple({"trees": trees, "grace": grace} for trees in (10, 30) for grace in (50, 20, 100))

    def make(self, setup: Setup, **settings: Any) -> Any:
        """The forest, with its number of trees and the rows between two attempts to split a leaf."""
        kind = ARFClassifier if setup.classes else ARFRegressor
        return kind(n_models=settings["trees"], grace_period=settings["grace"], seed=setup.seed)


class MondrianForest(RowByRow):
    """Trees that split at random times and average all of their prunings (Mourtada and others, 2021)."""

    GRID = tuple({"trees": trees} for trees in (10, 30))

    def make(self, setup: Setup, **settings: Any) -> Any:
        """The forest, with its number of trees."""
        kind = AMFClassifier if setup.classes else AMFRegressor
        return kind(n_estimators=settings["trees"], seed=setup.seed)


def as_dictionaries(X: Array) -> list[dict[int, float]]:
    """Rows as river has them: from the number of an input to its value.

    Examples
    --------
    >>> as_dictionaries(np.array([[0.5, 1.0]]))
    [{0: 0.5, 1: 1.0}]
    """
    return [dict(enumerate(row)) for row in X.tolist()]
