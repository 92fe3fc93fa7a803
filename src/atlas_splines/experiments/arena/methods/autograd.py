"""Training of small PyTorch modules, for the methods whose gradients are not written out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

__all__ = ["data_loss", "minimise", "parameter_bytes", "predict", "train", "train_on_all"]

Array = NDArray[np.floating]


def minimise(
    parameters: list[torch.nn.Parameter], loss: Callable[[], torch.Tensor], steps: int, rate: float
) -> None:
    """Adam with a learning rate that falls to zero as a cosine, on what ``loss()`` says at each step."""
    optimizer = torch.optim.Adam(parameters, lr=rate, fused=True)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 + math.cos(math.pi * step / steps)) / 2
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


def predict(module: torch.nn.Module, X: Array) -> Array:
    """Outputs, shape (rows, outputs)."""
    with torch.no_grad():
        return np.asarray(module(torch.from_numpy(X.astype(np.float32))).numpy())


def parameter_bytes(module: torch.nn.Module) -> int:
    """Bytes of all parameters."""
    return sum(p.numel() * p.element_size() for p in module.parameters())
