"""Training of small PyTorch modules, for the methods whose gradients are not written out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from atlas_splines.experiments.arena.methods.base import Method, Setup, falling_rate, one_hot
from atlas_splines.experiments.arena.methods.network import draw_from
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["TorchMethod", "data_loss", "minimise", "parameter_bytes", "train", "train_on_all"]

Array = NDArray[np.floating]


def minimise(
    parameters: list[torch.nn.Parameter], loss: Callable[[], torch.Tensor], steps: int, rate: float
) -> None:
    """Adam with a learning rate that falls to zero as a cosine, on what ``loss()`` says at each step."""
    optimizer = torch.optim.Adam(parameters, lr=rate, fused=True)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = falling_rate(rate, step, steps)
        value = loss()
        optimizer.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def data_loss(module: torch.nn.Module, draw: Callable[[], tuple[Array, ...]], classes: int) -> torch.Tensor:
    """Absolute error or cross-entropy on a batch."""
    X, targets = map(torch.from_numpy, draw())
    outputs = module(X)
    return cross_entropy(outputs, targets) if classes else (outputs - targets).abs().mean()


def train(
    module: torch.nn.Module, draw: Callable[[], tuple[Array, ...]], classes: int, steps: int, rate: float
) -> None:
    """`minimise` absolute error or cross-entropy."""
    minimise(list(module.parameters()), lambda: data_loss(module, draw, classes), steps, rate)


def train_on_all(module: torch.nn.Module, X: Array, targets: Array, classes: int, steps: int) -> None:
    """L-BFGS on all rows at once, on squared error or cross-entropy."""
    inputs, wanted = (torch.from_numpy(part.astype(np.float32)) for part in (X, targets))
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = torch.optim.LBFGS(trained, max_iter=steps, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        outputs = module(inputs)
        loss = cross_entropy(outputs, wanted) if classes else (outputs - wanted).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]


def parameter_bytes(module: torch.nn.Module) -> int:
    """Bytes of the parameters of a module."""
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())


class TorchMethod(Method):
    """A method with a module of PyTorch, trained on each task from where it was."""

    module: torch.nn.Module

    def __init__(self, setup: Setup, rate: float) -> None:
        self.setup, self.rate = setup, rate
        self.random = np.random.default_rng(setup.seed)
        torch.manual_seed(setup.seed)  # the module starts from it

    def fit(self, task: Task) -> None:
        """Train on the task."""
        draw = draw_from(task.X, one_hot(task.y, self.setup.classes), self.random)
        train(self.module, draw, self.setup.classes, self.setup.steps, self.rate)

    def predict(self, X: Array) -> Array:
        """Outputs of the module, (rows, outputs)."""
        with torch.no_grad():
            return np.asarray(self.module(torch.from_numpy(X.astype(np.float32))).numpy())

    @property
    def bytes_kept(self) -> int:
        """The parameters."""
        return parameter_bytes(self.module)
