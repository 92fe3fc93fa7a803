"""A pi-sigma network (Shin and Ghosh, 1991): a product of sums."""

from __future__ import annotations

import torch

from atlas_splines.experiments.arena.methods.autograd import TorchMethod
from atlas_splines.experiments.arena.methods.base import RATES, Setup

__all__ = ["PiSigma"]


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


class PiSigma(TorchMethod):
    """Products of two or three sums."""

    GRID = tuple({"rate": rate, "order": order} for order in (3, 2) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, order: int) -> None:
        super().__init__(setup, rate)
        self.module = Product(setup.inputs, setup.outputs, order)
