"""A pi-sigma network (Shin and Ghosh, 1991): a product of sums."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.autograd import parameter_bytes, predict, train
from atlas_splines.experiments.arena.methods.base import Method, Setup, one_hot
from atlas_splines.experiments.arena.methods.network import draw_from
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["PiSigma"]

Array = NDArray[np.floating]


class Product(torch.nn.Module):
    """Each output is a product of linear functions of the inputs, which start near one."""

    def __init__(self, inputs: int, outputs: int, order: int) -> None:
        super().__init__()
        self.order = order
        self.sums = torch.nn.Linear(inputs, outputs * order)
        torch.nn.init.normal_(self.sums.weight, std=0.5 / inputs**0.5)
        torch.nn.init.ones_(self.sums.bias)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Outputs, (rows, outputs)."""
        product, *others = self.sums(X).chunk(self.order, dim=1)
        for factor in others:  # prod() is slow to differentiate
            product = product * factor
        return product


class PiSigma(Method):
    """Trained on each task from where it was."""

    GRID = tuple({"rate": rate, "order": order} for order in (3, 2) for rate in (0.01, 0.003, 0.03))

    def __init__(self, setup: Setup, rate: float, order: int) -> None:
        self.setup, self.rate = setup, rate
        torch.manual_seed(setup.seed)
        self.random = np.random.default_rng(setup.seed)
        self.module = Product(setup.inputs, setup.outputs, order)

    def fit(self, task: Task) -> None:
        """Train on the task."""
        draw = draw_from(task.X, one_hot(task.y, self.setup.classes), self.random)
        train(self.module, draw, self.setup.classes, self.setup.steps, self.rate)

    def predict(self, X: Array) -> Array:
        """Outputs of the network."""
        return predict(self.module, X)

    @property
    def bytes_kept(self) -> int:
        """The parameters."""
        return parameter_bytes(self.module)
