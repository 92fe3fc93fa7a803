"""Progressive networks (Rusu and others, 2016): a new column for each task, which reads the frozen ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import (
    RATES,
    Method,
    Setup,
    batches,
    box_of,
    one_hot,
    outputs_by_task,
)
from atlas_splines.experiments.arena.methods.network import Network, train
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["Progressive"]

Array = NDArray[np.floating]


class Progressive(Method):
    """Columns of two hidden layers with lateral connections.

    Their authors tell the network which task a point belongs to. Here nobody does: it keeps the box of each
    task's data, and takes the likely one.
    """

    GRID = tuple({"rate": rate, "width": width} for width in (32, 16) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, width: int) -> None:
        self.setup, self.rate, self.width = setup, rate, width
        self.random = np.random.default_rng(setup.seed)
        self.columns: list[Network] = []
        self.boxes: list[Array] = []  # (2, inputs) each

    def fit(self, task: Task) -> None:
        """Train a new column; the others stay as they are."""
        lateral = len(self.columns) * self.width
        sizes = [self.setup.inputs, self.width, self.width, self.setup.outputs]
        column = Network(sizes, self.setup.classes, self.random, extra=[0, lateral, lateral])
        X, targets = task.X.astype(np.float32), one_hot(task.y, self.setup.classes).astype(np.float32)
        features = self.features(X, len(self.columns))

        def draw() -> tuple[Array, ...]:
            rows = batches(self.random, len(X))
            return X[rows], targets[rows], *(part[rows] for part in features)

        train(column, draw, self.setup.steps, self.rate)
        self.columns.append(column)
        self.boxes.append(box_of(X))

    def features(self, X: Array, count: int) -> list[Array]:
        """What a column after the first `count` reads at each of its layers, besides its own."""
        read = [np.zeros((len(X), 0), np.float32) for _ in range(3)]
        for column in self.columns[:count]:
            values = column.activations(X, read)
            hidden = [values[k][:, : self.width] for k in (1, 2)]  # without what it read itself
            read = [read[0], np.hstack([read[1], hidden[0]]), np.hstack([read[2], hidden[1]])]
        return read

    def predict(self, X: Array) -> Array:
        """Outputs of the column that each point belongs to."""
        X = X.astype(np.float32)
        return outputs_by_task(X, self.boxes, lambda k: self.columns[k].outputs(X, self.features(X, k)))

    @property
    def bytes_kept(self) -> int:
        """All columns and boxes."""
        return sum(part.nbytes for part in (*self.boxes, *(column.parameters for column in self.columns)))
