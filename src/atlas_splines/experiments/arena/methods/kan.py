"""Kolmogorov–Arnold networks (Liu and others, 2024), from the package pykan."""

from __future__ import annotations

from kan import KAN as PyKAN

from atlas_splines.experiments.arena.methods.autograd import TorchMethod, train_on_all
from atlas_splines.experiments.arena.methods.base import Setup, one_hot
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["KAN"]

STEPS = 100  # at most: one of pykan's steps costs about as much as twenty of the MLP
QUASI_NEWTON_STEPS = 200
MANY_INPUTS = 16  # beyond it there is no hidden layer, which would take too long


class KAN(TorchMethod):
    """Trained on each task from where it was, by Adam or, at rate 0, by L-BFGS on all rows of the task.

    No hidden layer, a fine grid and L-BFGS is its authors' own example.
    """

    GRID = tuple(
        {"hidden": hidden, "grid": grid, "rate": rate}
        for hidden, grid, rate in (
            (0, 50, 0.03), (0, 50, 0.1), (5, 10, 0.03), (5, 10, 0.01), (0, 100, 0.0), (0, 200, 0.0)
        )
    )  # fmt: skip

    def __init__(self, setup: Setup, hidden: int, grid: int, rate: float) -> None:
        super().__init__(setup._replace(steps=min(STEPS, setup.steps)), rate)
        middle = [hidden] if hidden and setup.inputs <= MANY_INPUTS else []
        module = PyKAN(
            width=[setup.inputs, *middle, setup.outputs], grid=grid, k=3, seed=setup.seed, grid_range=[0, 1],
            noise_scale=0.1, sp_trainable=False, sb_trainable=False, auto_save=False,
        )  # fmt: skip
        module.speed()
        self.module = module

    def fit(self, task: Task) -> None:
        """Train on the task."""
        if self.rate > 0:
            super().fit(task)
            return
        targets = one_hot(task.y, self.setup.classes)
        train_on_all(self.module, task.X, targets, self.setup.classes, QUASI_NEWTON_STEPS)
