"""Orthogonal gradient descent (Farajtabar and others, 2020), and PCA-OGD (Doan and others, 2021)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import RATES, Setup, one_hot
from atlas_splines.experiments.arena.methods.mlp import MLP
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["OGD", "PCAOGD", "orthonormal"]

Array = NDArray[np.floating]
PCA_ROWS = 200  # whose gradients the principal directions are taken from


class OGD(MLP):
    """Steps are orthogonal to the gradients of outputs at points of earlier tasks."""

    GRID = tuple({"rate": rate, "directions": kept} for kept in (20, 10) for rate in RATES)
    projects = True

    def __init__(self, setup: Setup, rate: float, directions: int) -> None:
        super().__init__(setup, rate)
        self.directions = directions
        self.basis = np.zeros((0, self.network.parameters.size), np.float32)  # orthonormal rows

    def project(self, gradient: Array) -> Array:
        """Take away what lies in the basis: g − Σ_v (v·g) v."""
        return gradient - (self.basis @ gradient) @ self.basis

    def gradients(self, task: Task, rows: int) -> Array:
        """Gradients of outputs at some of the task's points; of the true class, if there are classes."""
        chosen = self.random.choice(len(task.X), min(rows, len(task.X)), replace=False)
        classes = self.setup.classes
        direction = one_hot(task.y[chosen], classes) if classes else np.ones((len(chosen), 1))
        return self.network.row_gradients(task.X[chosen], direction)

    def remember(self, task: Task) -> None:
        """Add directions of the task."""
        self.basis = orthonormal(self.basis, self.gradients(task, self.directions))

    @property
    def bytes_kept(self) -> int:
        """The parameters and the basis."""
        return super().bytes_kept + self.basis.nbytes


class PCAOGD(OGD):
    """The same number of directions, but the principal ones of many gradients."""

    def remember(self, task: Task) -> None:
        """Add the principal directions of the task."""
        gradients = self.project_rows(self.gradients(task, PCA_ROWS))
        principal = np.linalg.svd(gradients, full_matrices=False)[2][: self.directions]
        self.basis = orthonormal(self.basis, principal)

    def project_rows(self, gradients: Array) -> Array:
        """Each row without its part in the basis."""
        return gradients - (gradients @ self.basis.T) @ self.basis


def orthonormal(basis: Array, new: Array) -> Array:
    """Extend orthonormal rows by what new rows add, as Gram and Schmidt do.

    Examples
    --------
    >>> orthonormal(np.array([[1.0, 0.0]]), np.array([[3.0, 0.0], [1.0, 2.0]]))
    array([[1., 0.],
           [0., 1.]])
    """
    for row in new:
        rest = row
        for _ in range(2):  # twice is enough for float32
            rest = rest - (basis @ rest) @ basis
        length, whole = float(np.linalg.norm(rest)), float(np.linalg.norm(row))
        if length > 1e-4 * whole > 0:
            basis = np.vstack([basis, rest / length])
    return basis
