"""Rehearsal from a reservoir of 1000 rows, and pseudo-rehearsal (Robins, 1995)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import (
    BATCH,
    RATES,
    Setup,
    batches,
    far_from,
    one_hot,
    softmax,
)
from atlas_splines.experiments.arena.methods.mlp import MLP
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["PseudoRehearsal", "Reservoir", "mixed"]

Array = NDArray[np.floating]
Draw = Callable[[], tuple[Array, ...]]
CAPACITY = 1000  # rows
GRID = tuple({"rate": rate, "share": share} for share in (0.5, 0.25) for rate in RATES)


class Reservoir(MLP):
    """A part of each batch comes from a uniform sample of all rows seen, without those no longer true.

    Each row draws a number, and those with the least are kept: what remains when rows are dropped, or others
    come, is a uniform sample still.
    """

    GRID = GRID

    def __init__(self, setup: Setup, rate: float, share: float) -> None:
        super().__init__(setup, rate)
        self.share = share
        self.X = np.zeros((0, setup.inputs), np.float32)
        self.y = np.zeros(0, np.float32)
        self.drawn = np.zeros(0, np.float32)

    def draw(self, task: Task) -> Draw:
        """New rows and kept rows in each batch."""
        self.keep(~task.replaces(self.X))
        targets, old = (one_hot(y, self.setup.classes) for y in (task.y, self.y))
        return mixed(task.X, targets, self.X, old, self.share, self.random)

    def remember(self, task: Task) -> None:
        """Add the task's rows, and keep as many as there is room for."""
        self.X = np.vstack([self.X, task.X.astype(np.float32)])
        self.y = np.append(self.y, task.y.astype(np.float32))
        self.drawn = np.append(self.drawn, self.random.random(len(task.y), np.float32))
        self.keep(np.argsort(self.drawn, kind="stable")[:CAPACITY])

    def keep(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> None:
        """Keep some of the rows."""
        self.X, self.y, self.drawn = self.X[rows], self.y[rows], self.drawn[rows]

    @property
    def bytes_kept(self) -> int:
        """The parameters, the rows and their numbers."""
        return super().bytes_kept + self.X.nbytes + self.y.nbytes + self.drawn.nbytes


class PseudoRehearsal(MLP):
    """A part of each batch is random points, away from the new data, labelled by the network as it was."""

    GRID = GRID

    def __init__(self, setup: Setup, rate: float, share: float) -> None:
        super().__init__(setup, rate)
        self.share, self.trained = share, False

    def draw(self, task: Task) -> Draw:
        """New rows and labelled random points in each batch."""
        count = len(task.X) if self.trained else 0
        points = far_from(task.X, count, self.random) if count else task.X[:0]
        self.trained = True
        labels = self.network.outputs(points)
        if self.setup.classes:
            labels = softmax(labels)
        return mixed(task.X, one_hot(task.y, self.setup.classes), points, labels, self.share, self.random)


def mixed(X: Array, y: Array, old_X: Array, old_y: Array, share: float, random: np.random.Generator) -> Draw:
    """Batches with a share of old rows, if there are any."""
    old = round(share * BATCH) if len(old_X) else 0
    points, targets = (np.vstack(pair).astype(np.float32) for pair in ((X, old_X), (y, old_y)))

    def draw() -> tuple[Array, ...]:
        rows = batches(random, len(X), BATCH - old)
        if old:
            rows = np.append(rows, len(X) + batches(random, len(old_X), old))
        return points[rows], targets[rows]

    return draw
