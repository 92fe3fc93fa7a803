"""Scikit-learn with bounded memory: a network, and boosting on a reservoir or on a window."""

from __future__ import annotations

import pickle

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import SplineTransformer, StandardScaler

from atlas_splines.experiments.arena.methods.base import Method, Setup, one_hot
from atlas_splines.experiments.arena.methods.stored import Boosting
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["ForgettingSplines", "ReservoirBoosting", "SteppedMLP", "WindowBoosting"]

Array = NDArray[np.floating]
FIRST_EPOCHS = 100
RESERVOIR = 2000
WINDOW = 3000


KNOTS = 8  # of an input, at quantiles of the first rows
RIDGE = 1.0
LEAST = 0.01  # probability of a class: least squares of indicators leave the range from 0 to 1


class SteppedMLP(Method):
    """`MLPRegressor.partial_fit`: some epochs on each batch, on inputs scaled by the first one.

    Or that of `MLPClassifier`, which is told all classes.
    """

    GRID = tuple({"epochs": epochs, "rate": rate} for rate in (0.001, 0.003) for epochs in (20, 5, 1))

    gives_probabilities = True

    def __init__(self, setup: Setup, epochs: int, rate: float) -> None:
        self.random = np.random.default_rng(setup.seed)
        self.epochs, self.fitted = epochs, False
        self.scaler = StandardScaler()
        kind = MLPClassifier if setup.classes else MLPRegressor
        self.told = {"classes": np.arange(setup.classes)} if setup.classes else {}
        self.model = kind(hidden_layer_sizes=(100, 100), learning_rate_init=rate, random_state=setup.seed)

    def fit(self, task: Task) -> None:
        """Pass over the task's rows several times, more often over the first."""
        if not self.fitted:
            self.scaler.fit(task.X)
        X = self.scaler.transform(task.X)
        for _ in range(self.epochs if self.fitted else FIRST_EPOCHS):
            order = self.random.permutation(len(X))
            self.model.partial_fit(X[order], task.y[order], **self.told)
        self.fitted = True

    def predict(self, X: Array) -> Array:
        """Predictions of the network, or the probability of each class."""
        X = self.scaler.transform(X)
        return np.asarray(self.model.predict_proba(X) if self.told else self.model.predict(X)[:, None])

    @property
    def bytes_kept(self) -> int:
        """The parameters and the two moments of Adam."""
        return len(pickle.dumps((self.scaler, self.model)))


class ReservoirBoosting(Boosting):
    """Boosting refitted on a uniform sample of all rows seen, without those no longer true.

    Each row draws a number, and those with the least are kept.
    """

    def __init__(self, setup: Setup, rate: float, iterations: int) -> None:
        super().__init__(setup, rate, iterations)
        self.random = np.random.default_rng(setup.seed)
        self.drawn = np.zeros(0, np.float32)

    def fit(self, task: Task) -> None:
        """Add the rows, keep as many as there is room for, and learn those from scratch."""
        true = ~task.replaces(self.X)
        drawn = np.append(self.drawn[true], self.random.random(len(task.y), np.float32))
        X = np.vstack([self.X[true], task.X.astype(np.float32)])
        y = np.append(self.y[true], task.y.astype(np.float32))
        kept = np.sort(np.argsort(drawn, kind="stable")[:RESERVOIR])
        self.X, self.y, self.drawn = X[kept], y[kept], drawn[kept]
        self.learn()

    @property
    def bytes_kept(self) -> int:
        """The rows, their numbers and the trees."""
        return super().bytes_kept + self.drawn.nbytes


class WindowBoosting(Boosting):
    """Boosting refitted on the latest rows."""

    def fit(self, task: Task) -> None:
        """Add the rows, drop those before the window, and learn it from scratch."""
        true = ~task.replaces(self.X)
        self.X = np.vstack([self.X[true], task.X.astype(np.float32)])[-WINDOW:]
        self.y = np.append(self.y[true], task.y.astype(np.float32))[-WINDOW:]
        self.learn()


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
