"""AtlasRegressor and AtlasClassifier as a user has them: never updated, or updated with pooled evidence."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.experiments.arena.methods.base import Method, Setup
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["Auto", "Never", "Pool"]

Array = NDArray[np.floating]


class Estimator(Method):
    """An estimator with its defaults; subclasses say which options differ."""

    GRID = ({"loss": "auto"}, {"loss": "absolute_error"})
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, setup: Setup, loss: str) -> None:
        self.setup = setup
        self.estimator: AtlasRegressor | AtlasClassifier
        if setup.classes:  # which has one loss; evidence of the unit cube needs no large model beside it
            self.estimator = AtlasClassifier(
                members=1, terms=0, density=0, domain=[(0, 1)] * setup.inputs, random_state=setup.seed,
                **self.options,
            )  # fmt: skip
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

    @property
    def bytes_kept(self) -> int:
        """The whole estimator, with what it needs for the next update."""
        return len(pickle.dumps(self.estimator))


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
