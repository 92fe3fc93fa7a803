"""AtlasRegressor and AtlasClassifier as a user has them: never updated, or updated with pooled evidence."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.experiments.arena.methods.base import Method, Setup
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["Auto", "Never", "Pool", "Sums"]

Array = NDArray[np.floating]


class Estimator(Method):
    """An estimator with its defaults; subclasses say which options differ."""

    GRID = ({"loss": "auto"}, {"loss": "absolute_error"})
    gives_probabilities = True
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, setup: Setup, loss: str) -> None:
        self.setup = setup
        self.estimator: AtlasRegressor | AtlasClassifier
        if setup.classes:  # which has one loss
            self.estimator = AtlasClassifier(
                random_state=setup.seed, **self.options, **(small_model(setup) if setup.bounded else {})
            )
        else:
            self.estimator = AtlasRegressor(loss=loss, random_state=setup.seed, **self.options)

    def fit(self, task: Task) -> None:
        """Fit the first task, and update with the others."""
        if isinstance(self.estimator, AtlasClassifier):
            self.estimator.partial_fit(task.X, task.y, classes=np.arange(self.setup.classes), accept=True)
        else:
            self.estimator.partial_fit(task.X, task.y, accept=True)

    def predict(self, X: Array) -> Array:
        """Predictions, or the probability of each class."""
        if isinstance(self.estimator, AtlasClassifier):
            return np.asarray(self.estimator.predict_proba(X))
        return np.asarray(self.estimator.predict(X))[:, None]

    def covers(self, X: Array, y: Array) -> NDArray[np.bool_]:
        """Whether targets lie in the intervals or sets of classes, as the estimator is now."""
        if isinstance(self.estimator, AtlasClassifier):
            return np.asarray(self.estimator.predict_set(X))[np.arange(len(y)), y.astype(np.intp)]
        low, high = self.estimator.predict_interval(X)
        return (low <= y) & (y <= high)

    @property
    def bytes_kept(self) -> int:
        """The whole estimator, with what it needs for the next update."""
        return len(pickle.dumps(self.estimator))


def small_model(setup: Setup) -> dict[str, Any]:
    """Options for digits: sums of features of the unit cube need no large model beside them."""
    return {"members": 1, "terms": 0, "density": 0, "domain": [(0, 1)] * setup.inputs}


class Never(Estimator):
    """Fitted to the first task, and never updated: what an update must not be worse than."""

    fitted = False

    def fit(self, task: Task) -> None:
        """Fit the first task only."""
        if not self.fitted:
            super().fit(task)
            self.fitted = True


class Pool(Estimator):
    """Updates add their evidence to that of all data before."""

    options: ClassVar[dict[str, Any]] = {"retention": "pool"}


class Auto(Estimator):
    """The estimator decides by the evidence whether to pool, to open charts or to fade."""

    options: ClassVar[dict[str, Any]] = {"retention": "auto"}


class Sums(Estimator):
    """As `Auto`, and no row is kept: sums of features alone."""

    options: ClassVar[dict[str, Any]] = {"retention": "auto", "memory": "sums"}
