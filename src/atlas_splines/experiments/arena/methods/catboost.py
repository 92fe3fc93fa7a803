"""CatBoost, which is refitted on all rows."""

from __future__ import annotations

import pickle

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods import imported
from atlas_splines.experiments.arena.methods.base import Setup
from atlas_splines.experiments.arena.methods.stored import Stored

__all__ = ["RefittedCatBoost"]

Array = NDArray[np.floating]


class RefittedCatBoost(Stored):
    """CatBoost on all rows, with its defaults but for the number of trees."""

    GRID = tuple({"trees": trees} for trees in (1000, 300))
    gives_probabilities = True

    def __init__(self, setup: Setup, trees: int) -> None:
        super().__init__(setup)
        package = imported("catboost", "bench")
        self.kind = package.CatBoostClassifier if setup.classes else package.CatBoostRegressor
        self.options = {
            "iterations": trees, "random_seed": setup.seed, "thread_count": 1, "verbose": False,
            "allow_writing_files": False,
        }  # fmt: skip

    def learn(self) -> None:
        """Fit all rows."""
        targets = self.y.astype(np.intp) if self.setup.classes else self.y
        self.model = self.kind(**self.options).fit(self.X, targets)

    def predict(self, X: Array) -> Array:
        """Predictions, or the probability of each class."""
        if not self.setup.classes:
            return np.asarray(self.model.predict(X, thread_count=1))[:, None]
        out = np.zeros((len(X), self.setup.classes))
        out[:, self.model.classes_.astype(np.intp)] = self.model.predict_proba(X, thread_count=1)
        return out

    @property
    def bytes_kept(self) -> int:
        """The rows and the trees."""
        return super().bytes_kept + len(pickle.dumps(self.model))
