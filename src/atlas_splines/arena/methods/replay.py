"""Rehearsal from a reservoir of 1000 rows (Vitter, 1985), and pseudo-rehearsal (Robins, 1995)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from atlas_splines.arena.methods.base import BATCH, Setup, batches, far_from, one_hot
from atlas_splines.arena.methods.mlp import MLP, RATES
from atlas_splines.arena.tasks import Task

__all__ = ["PseudoRehearsal", "Reservoir", "mixed"]

Array = NDArray[np.floating]
Draw = Callable[[], tuple[Array, ...]]
CAPACITY = 1000


class Reservoir(MLP):
    """A part of each batch comes from a uniform sample of all rows seen, without those no longer true."""

    GRID = tuple({"rate": rate, "share": share} for share in (0.5, 0.25) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, share: float) -> None:
        super().__init__(setup, rate)
        self.share, self.seen = share, 0
        self.X = np.zeros((0, setup.inputs), np.float32)
        self.y = np.zeros(0, np.float32)

    def draw(self, task: Task) -> Draw:
        """New rows and kept rows in each batch."""
        stale = task.replaces(self.X)
        self.X, self.y = self.X[~stale], self.y[~stale]
        targets, old = (one_hot(y, self.setup.classes) for y in (task.y, self.y))
        return mixed(task.X, targets, self.X, old, self.share, self.random)

    def remember(self, task: Task) -> None:
        """Reservoir sampling: each row seen so far is kept with the same probability."""
        for x, y in zip(task.X, task.y, strict=True):
            self.seen += 1
            if len(self.X) < CAPACITY:
                self.X, self.y = np.vstack([self.X, x.astype(np.float32)]), np.append(self.y, np.float32(y))
            elif (place := self.random.integers(self.seen)) < CAPACITY:
                self.X[place], self.y[place] = x, y

    @property
    def bytes_kept(self) -> int:
        """The parameters and the rows."""
        return super().bytes_kept + self.X.nbytes + self.y.nbytes


class PseudoRehearsal(MLP):
    """A part of each batch is random points, away from the new data, labelled by the network as it was."""

    GRID = tuple({"rate": rate, "share": share} for share in (0.5, 0.25) for rate in RATES)

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
            labels = np.exp(labels - labels.max(axis=1, keepdims=True))
            labels /= labels.sum(axis=1, keepdims=True)
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
