"""Ridge regression on splines of single inputs, with a forgetting factor: recursive least squares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from sklearn.preprocessing import SplineTransformer

from atlas_splines.experiments.arena.methods.base import Method, Setup, one_hot
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["ForgettingSplines"]

Array = NDArray[np.floating]
KNOTS = 8  # of an input, at quantiles of the first rows
RIDGE = 1.0
LEAST = 0.01  # probability of a class: least squares of indicators leave the range from 0 to 1


class ForgettingSplines(Method):
    """Sums of φφᵀ and φy that each row multiplies by a factor below 1; weights are solved for from them.

    Classes are regressed as indicators, whose predictions are cut off below.
    """

    GRID = tuple({"half_life": rows} for rows in (1000.0, 300.0, 3000.0, np.inf))
    gives_probabilities = True

    def __init__(self, setup: Setup, half_life: float) -> None:
        self.classes, self.factor = setup.classes, 0.5 ** (1 / half_life)
        self.splines = SplineTransformer(KNOTS, knots="quantile", extrapolation="linear", include_bias=False)
        self.fitted = False

    def fit(self, task: Task) -> None:
        """Let the sums decay by a factor for each row, add the rows, and solve."""
        if not self.fitted:
            size = 1 + self.splines.fit(task.X).n_features_out_
            self.squares, self.products = np.zeros((size, size)), np.zeros((size, self.classes or 1))
            self.fitted = True
        features, targets = self.features(task.X), one_hot(task.y, self.classes)
        decay = self.factor ** len(task.y)
        age = self.factor ** np.arange(len(task.y) - 1, -1, -1)[:, None]
        self.squares = decay * self.squares + (age * features).T @ features
        self.products = decay * self.products + features.T @ (age * targets)
        ridge = RIDGE * np.eye(len(self.squares))
        self.weights = solve(self.squares + ridge, self.products, assume_a="pos")

    def features(self, X: Array) -> Array:
        """A constant, and splines of each input, which go on as lines."""
        return np.hstack([np.ones((len(X), 1)), self.splines.transform(X)])

    def predict(self, X: Array) -> Array:
        """Predictions, or the probability of each class."""
        outputs = self.features(X) @ self.weights
        if not self.classes:
            return outputs
        cut = outputs.clip(LEAST, None)
        return cut / cut.sum(axis=1, keepdims=True)

    @property
    def bytes_kept(self) -> int:
        """The sums and the weights."""
        return self.squares.nbytes + self.products.nbytes + self.weights.nbytes
