"""Methods that keep all data that is still true; and a linear model, since it is scikit-learn's too."""

from __future__ import annotations

import pickle
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from atlas_splines.experiments.arena.methods.atlas import Charts
from atlas_splines.experiments.arena.methods.base import Method, Setup, one_hot
from atlas_splines.experiments.arena.methods.mlp import MLP
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["Boosting", "Linear", "NearestNeighbours", "RetrainedAtlas", "RetrainedMLP"]

Array = NDArray[np.floating]
FEW_CLASSES = 3  # an iteration grows a tree for each class: of more classes there are fewer iterations


class Linear(Method):
    """Ridge regression, fitted to each task anew."""

    GRID = tuple({"alpha": alpha} for alpha in (1.0, 1e-3, 1e-2, 1e-1, 10.0, 100.0))

    def __init__(self, setup: Setup, alpha: float) -> None:
        self.setup = setup
        self.model = Ridge(alpha=alpha)

    def fit(self, task: Task) -> None:
        """Fit the task."""
        self.model.fit(task.X, one_hot(task.y, self.setup.classes))

    def predict(self, X: Array) -> Array:
        """Outputs of the model."""
        return np.asarray(self.model.predict(X)).reshape(len(X), -1)

    @property
    def bytes_kept(self) -> int:
        """Coefficients and intercepts."""
        return 8 * (self.setup.inputs + 1) * self.setup.outputs


class Stored(Method):
    """Keeps all rows, and drops those that a task replaces."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.X, self.y = np.zeros((0, setup.inputs), np.float32), np.zeros(0, np.float32)

    def fit(self, task: Task) -> None:
        """Keep the rows, and learn everything from scratch."""
        true = ~task.replaces(self.X)
        self.X = np.vstack([self.X[true], task.X.astype(np.float32)])
        self.y = np.append(self.y[true], task.y.astype(np.float32))
        self.learn()

    @abstractmethod
    def learn(self) -> None:
        """Learn all rows."""

    @property
    def bytes_kept(self) -> int:
        """The rows."""
        return self.X.nbytes + self.y.nbytes


class NearestNeighbours(Stored):
    """Mean of the nearest rows, the nearer the more."""

    GRID = tuple({"neighbours": k} for k in (10, 1, 3, 5, 20, 40))
    gives_probabilities = True

    def __init__(self, setup: Setup, neighbours: int) -> None:
        super().__init__(setup)
        self.neighbours = neighbours

    def learn(self) -> None:
        """Build the index."""
        count = min(self.neighbours, len(self.X))
        self.model = KNeighborsRegressor(count, weights="distance")
        self.model.fit(self.X, one_hot(self.y, self.setup.classes))

    def predict(self, X: Array) -> Array:
        """Mean of the neighbours' targets."""
        return np.asarray(self.model.predict(X)).reshape(len(X), -1)


class Boosting(Stored):
    """Gradient boosting of trees on histograms, on all rows."""

    GRID = tuple(
        {"rate": rate, "iterations": iterations} for iterations in (100, 50) for rate in (0.1, 0.05, 0.3)
    )
    gives_probabilities = True

    def __init__(self, setup: Setup, rate: float, iterations: int) -> None:
        super().__init__(setup)
        self.options: dict[str, Any] = {
            "learning_rate": rate,
            "max_iter": iterations if setup.classes <= FEW_CLASSES else iterations // 5,
            "early_stopping": False,
            "random_state": setup.seed,
        }
        self.known = np.zeros(0, np.intp)  # classes seen so far

    def learn(self) -> None:
        """Fit all rows."""
        if not self.setup.classes:
            self.model = HistGradientBoostingRegressor(**self.options).fit(self.X, self.y)
            return
        self.known = np.unique(self.y).astype(np.intp)
        self.model = HistGradientBoostingClassifier(**self.options).fit(self.X, self.y.astype(np.intp))

    def predict(self, X: Array) -> Array:
        """Predictions, or the probability of each class."""
        if not self.setup.classes:
            return np.asarray(self.model.predict(X))[:, None]
        out = np.zeros((len(X), self.setup.classes))
        out[:, self.known] = self.model.predict_proba(X)
        return out

    @property
    def bytes_kept(self) -> int:
        """The rows and the trees."""
        return super().bytes_kept + len(pickle.dumps(self.model))


class Retrained(Stored):
    """Another method, made anew for each task and trained on all rows."""

    kind: type[Method]

    def __init__(self, setup: Setup, **settings: Any) -> None:
        super().__init__(setup)
        self.settings, self.tasks = settings, 0

    def learn(self) -> None:
        """Start from scratch, with the steps of all tasks so far."""
        self.tasks += 1
        make: Any = self.kind
        self.model: Method = make(self.setup._replace(steps=self.tasks * self.setup.steps), **self.settings)
        self.model.fit(Task(self.X, self.y, self.X[:0], self.y[:0]))

    def predict(self, X: Array) -> Array:
        """Outputs of the model."""
        return self.model.predict(X)

    @property
    def bytes_kept(self) -> int:
        """The rows and the model."""
        return super().bytes_kept + self.model.bytes_kept


class RetrainedAtlas(Retrained):
    """ATLAS from scratch."""

    GRID = Charts.GRID
    kind = Charts  # what is fitted once is not updated


class RetrainedMLP(Retrained):
    """The MLP from scratch."""

    GRID = MLP.GRID
    kind = MLP
