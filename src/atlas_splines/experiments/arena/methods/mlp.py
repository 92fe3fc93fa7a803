"""A multilayer perceptron that is trained plainly, task after task."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import RATES, Method, Setup, one_hot
from atlas_splines.experiments.arena.methods.network import Network, draw_from, train
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["MLP"]

Array = NDArray[np.floating]
WIDTH = 64  # units of a hidden layer


class MLP(Method):
    """Trained on each task from where it was; other methods change a part of this."""

    GRID = tuple({"rate": rate, "hidden": hidden} for hidden in (3, 2) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, hidden: int = 3, width: int = WIDTH) -> None:
        self.setup, self.rate = setup, rate
        self.random = np.random.default_rng(setup.seed)
        sizes = [setup.inputs, *[width] * hidden, setup.outputs]
        self.network = Network(sizes, setup.classes, self.random)

    def fit(self, task: Task) -> None:
        """Train on the task's rows."""
        train(
            self.network, self.draw(task), self.setup.steps, self.rate, penalty=self.penalty_gradient,
            project=self.project if self.projects else None,
        )  # fmt: skip
        self.remember(task)

    def draw(self, task: Task) -> Callable[[], tuple[Array, ...]]:
        """Batches of the task."""
        return draw_from(task.X, one_hot(task.y, self.setup.classes), self.random)

    projects = False

    def penalty_gradient(self, parameters: Array) -> Array:
        """Nothing is added to the loss."""
        return np.zeros(1, np.float32)

    def project(self, gradient: Array) -> Array:
        """Gradients are taken as they are."""
        return gradient

    def remember(self, task: Task) -> None:
        """Nothing is kept of a task."""

    def predict(self, X: Array) -> Array:
        """Outputs of the network."""
        return self.network.outputs(X)

    @property
    def bytes_kept(self) -> int:
        """The parameters."""
        return self.network.parameters.nbytes
