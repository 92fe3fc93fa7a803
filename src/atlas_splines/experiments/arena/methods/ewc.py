"""Elastic weight consolidation (Kirkpatrick and others, 2017), and its online form (Schwarz, 2018)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import Setup, softmax
from atlas_splines.experiments.arena.methods.mlp import MLP
from atlas_splines.experiments.arena.methods.network import Network
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["EWC", "OnlineEWC", "fisher"]

Array = NDArray[np.floating]
FISHER_ROWS = 500
STRENGTHS = (30.0, 1.0, 1000.0)


class EWC(MLP):
    """A quadratic penalty for each earlier task: λ/2 Σ_k Σ_i F_ki (θ_i − θ*_ki)²."""

    GRID = tuple({"rate": rate, "strength": strength} for rate in (0.01, 0.003) for strength in STRENGTHS)

    def __init__(self, setup: Setup, rate: float, strength: float) -> None:
        super().__init__(setup, rate)
        self.strength = strength
        self.fishers: list[Array] = []
        self.anchors: list[Array] = []

    def penalty(self, parameters: Array) -> float:
        """The penalty itself."""
        pairs = zip(self.fishers, self.anchors, strict=True)
        return float(self.strength / 2 * sum((F * (parameters - anchor) ** 2).sum() for F, anchor in pairs))

    def penalty_gradient(self, parameters: Array) -> Array:
        """λ Σ_k F_k (θ − θ*_k)."""
        gradient = np.zeros_like(parameters)
        for F, anchor in zip(self.fishers, self.anchors, strict=True):
            gradient += F * (parameters - anchor)
        return np.float32(self.strength) * gradient

    def remember(self, task: Task) -> None:
        """Keep the diagonal of the Fisher information and the parameters of the task."""
        self.fishers.append(fisher(self.network, task.X[:FISHER_ROWS]))
        self.anchors.append(self.network.parameters.copy())

    @property
    def bytes_kept(self) -> int:
        """The parameters, and two vectors like them for each task."""
        return super().bytes_kept + sum(
            F.nbytes + a.nbytes for F, a in zip(self.fishers, self.anchors, strict=True)
        )


class OnlineEWC(EWC):
    """One penalty for all earlier tasks: their Fisher information fades, the last parameters are meant."""

    FADING = 0.95

    def remember(self, task: Task) -> None:
        """Add the task to the one Fisher information there is."""
        super().remember(task)
        *before, now = self.fishers
        self.fishers = [now + self.FADING * before[0] if before else now]
        self.anchors = self.anchors[-1:]


def fisher(network: Network, X: Array) -> Array:
    """Diagonal of the Fisher information: mean squared gradients of the log-likelihood.

    The likelihood is the one whose negative logarithm is the loss. For a regression, of scale one, that gives
    the mean of (∂f/∂θ)²; for classes the mean over the model's own distribution, Σ_c p_c (∂ log p_c/∂θ)².
    """
    outputs = network.outputs(X)
    if not network.classes:
        return np.square(network.row_gradients(X, np.ones_like(outputs))).mean(axis=0)
    p = softmax(outputs)
    total = np.zeros_like(network.parameters)
    for c in range(network.classes):
        direction = np.eye(network.classes, dtype=p.dtype)[c] - p  # ∂ log p_c / ∂ outputs
        total += (p[:, c : c + 1] * np.square(network.row_gradients(X, direction))).mean(axis=0)
    return total
