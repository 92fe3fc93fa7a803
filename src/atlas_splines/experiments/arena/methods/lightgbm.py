"""LightGBM that goes on from its trees: each batch adds some, and none is grown again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods import imported
from atlas_splines.experiments.arena.methods.base import Method, Setup
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["ContinuedLightGBM"]

Array = NDArray[np.floating]
FIRST_TREES = 100  # LightGBM's own number


class ContinuedLightGBM(Method):
    """`lightgbm.train` with `init_model`: trees on the errors that the ones before make on the new rows."""

    GRID = tuple({"trees": trees, "rate": rate} for trees in (10, 20, 5) for rate in (0.1, 0.05))
    gives_probabilities = True

    def __init__(self, setup: Setup, trees: int, rate: float) -> None:
        self.package = imported("lightgbm", "bench")
        self.trees, self.classes = trees, setup.classes
        objective = {"objective": "multiclass", "num_class": setup.classes} if setup.classes else {}
        self.options: dict[str, Any] = {
            "learning_rate": rate, "num_threads": 1, "seed": setup.seed, "verbose": -1, **objective,
        }  # fmt: skip
        self.model: Any = None

    def fit(self, task: Task) -> None:
        """Add trees for the rows of the task, more for the first."""
        rows = self.package.Dataset(task.X, task.y)
        trees = self.trees if self.model else FIRST_TREES
        self.model = self.package.train(self.options, rows, trees, init_model=self.model)

    def predict(self, X: Array) -> Array:
        """Predictions of all trees, or the probability of each class."""
        outputs = np.asarray(self.model.predict(X, num_threads=1))
        return outputs if self.classes else outputs[:, None]

    @property
    def bytes_kept(self) -> int:
        """The trees."""
        return len(self.model.model_to_string())
