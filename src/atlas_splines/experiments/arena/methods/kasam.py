"""KASAM (van Deventer and others, 2022): splines inside a Kolmogorov–Arnold sum."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.autograd import TorchMethod, train
from atlas_splines.experiments.arena.methods.base import RATES, Setup, far_from, one_hot
from atlas_splines.experiments.arena.methods.replay import mixed
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["KASAM", "RehearsedKASAM", "basis", "features"]

Array = NDArray[np.floating]


def basis(x: torch.Tensor, cells: int) -> torch.Tensor:
    """Uniform cubic B-splines on [0, 1] with so many cells: (..., cells + 3)."""
    centre = torch.arange(-1, cells + 2, dtype=x.dtype)
    t = (x[..., None] * cells - centre).abs()
    inner, outer = 2 / 3 - t**2 + t**3 / 2, (2 - t).clamp(min=0) ** 3 / 6
    return torch.where(t < 1, inner, outer)


def features(X: Array, cells: int) -> Array:
    """Basis functions of all inputs side by side, (rows, inputs·(cells + 3)): training needs them again."""
    return basis(torch.from_numpy(X.astype(np.float32)), cells).flatten(1).numpy()


class KolmogorovArnold(torch.nn.Module):
    """f(x) + Σ_q Φ_q(σ(Σ_p φ_qp(x_p))), with splines f_p, φ_qp and Φ_q; it is given the `features` of x.

    Inner sums pass a sigmoid, since outer splines live on [0, 1].
    """

    def __init__(self, inputs: int, outputs: int, cells: int) -> None:
        super().__init__()
        middle, functions = 2 * min(inputs, 8) + 1, cells + 3
        self.cells = cells
        self.additive = torch.nn.Parameter(torch.zeros(inputs * functions, outputs))
        self.inner = torch.nn.Parameter(torch.randn(inputs * functions, middle))
        self.outer = torch.nn.Parameter(0.1 * torch.randn(middle * functions, outputs))

    def forward(self, phi: torch.Tensor) -> torch.Tensor:
        """Outputs, (rows, outputs)."""
        middle = torch.sigmoid(phi @ self.inner)
        return phi @ self.additive + basis(middle, self.cells).flatten(1) @ self.outer


class KASAM(TorchMethod):
    """Trained on each task from where it was."""

    GRID = tuple({"rate": rate, "cells": cells} for cells in (13, 5) for rate in RATES)
    share = 0.0  # of random points in a batch

    def __init__(self, setup: Setup, rate: float, cells: int) -> None:
        super().__init__(setup, rate)
        self.cells, self.trained = cells, False
        self.module = KolmogorovArnold(setup.inputs, setup.outputs, cells)

    def fit(self, task: Task) -> None:
        """Train on the task, and on what the model said elsewhere if it rehearses."""
        points, labels = self.elsewhere(task)
        targets = one_hot(task.y, self.setup.classes)
        new, old = features(task.X, self.cells), features(points, self.cells)
        draw = mixed(new, targets, old, labels, self.share, self.random)
        train(self.module, draw, self.setup.classes, self.setup.steps, self.rate)
        self.trained = True

    def elsewhere(self, task: Task) -> tuple[Array, Array]:
        """Random points away from the new data, labelled by the model as it is."""
        rehearses = self.share > 0 and self.trained
        points = far_from(task.X, len(task.X), self.random) if rehearses else task.X[:0]
        outputs = torch.from_numpy(self.predict(points))
        return points, (torch.softmax(outputs, dim=1) if self.setup.classes else outputs).numpy()

    def predict(self, X: Array) -> Array:
        """Outputs of the model."""
        return super().predict(features(X, self.cells))


class RehearsedKASAM(KASAM):
    """With pseudo-rehearsal, as its authors propose."""

    share = 0.5
