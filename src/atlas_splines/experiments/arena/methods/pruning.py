"""Continual learning by pruning, with graceful forgetting (Golkar and others, 2019)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import RATES, Setup, box_of, one_hot, outputs_by_task
from atlas_splines.experiments.arena.methods.mlp import MLP
from atlas_splines.experiments.arena.methods.network import train
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["Pruning"]

Array = NDArray[np.floating]
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)  # of the free units, so that some are left for the next task


class Pruning(MLP):
    """After each task the fewest units that do nearly as well are frozen; the others are free for the next.

    Free units do not feed frozen ones, so the latter compute what they did. Each task has an output layer of
    its own; as nobody tells tasks apart here, the box of each task's data is kept, and the likely one taken.
    """

    GRID = tuple({"rate": rate, "tolerance": tolerance} for tolerance in (0.1, 0.5) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, tolerance: float) -> None:
        super().__init__(setup, rate, hidden=2, width=128)
        self.tolerance = tolerance
        self.used = [np.zeros(width, np.bool_) for width in self.network.sizes[1:-1]]
        self.free = np.ones_like(self.network.parameters)  # 1 where training may change a parameter
        self.heads: list[tuple[Array, Array]] = []  # weights and biases of the output layer, for each task
        self.boxes: list[Array] = []  # (2, inputs) each

    projects = True

    def project(self, gradient: Array) -> Array:
        """Frozen parameters do not move."""
        return gradient * self.free

    def remember(self, task: Task) -> None:
        """Prune to the fewest units, train them a little more, freeze them, and start the others afresh."""
        self.used = self.fewest(task)
        self.silence([~units for units in self.used])
        self.train_what_is_left(task)
        weights, biases = self.network.layers(self.network.parameters)[-1]
        self.heads.append((weights.copy(), biases.copy()))
        self.boxes.append(box_of(task.X))
        self.freeze()

    def predict(self, X: Array) -> Array:
        """Outputs of the layer that each point's task has."""
        last = self.network.activations(X)[-2]

        def outputs_of(k: int) -> Array:
            weights, biases = self.heads[k]
            return last @ weights + biases

        return outputs_by_task(X, self.boxes, outputs_of)

    def fewest(self, task: Task) -> list[NDArray[np.bool_]]:
        """The fewest units of each hidden layer that lose no more than is tolerated, or the most allowed."""
        targets = one_hot(task.y, self.setup.classes)
        values, whole = self.network.activations(task.X), self.network.parameters.copy()
        allowed = (1 + self.tolerance) * self.loss(values[-1], targets)
        for share in SHARES:
            kept = [self.strongest(k, values[k + 1], share) for k in range(len(self.used))]
            self.silence([~units for units in kept])
            loss = self.loss(self.network.outputs(task.X), targets)
            self.network.parameters = whole.copy()
            if loss <= allowed:
                break
        return kept

    def train_what_is_left(self, task: Task) -> None:
        """Train without the units that were cut."""
        free, self.free = self.free, self.free.copy()
        for (weights, _), units in zip(self.network.layers(self.free)[1:], self.used, strict=True):
            weights[~units] = 0
        train(self.network, self.draw(task), self.setup.steps // 2, self.rate, project=self.project)
        self.free = free

    def strongest(self, layer: int, activations: Array, share: float) -> NDArray[np.bool_]:
        """The used units of a hidden layer, and the share of the free ones that feed the next layer most."""
        outgoing = np.abs(self.network.layers(self.network.parameters)[layer + 1][0]).sum(axis=1)
        strength = np.where(self.used[layer], -1, activations.mean(axis=0) * outgoing)
        chosen = self.used[layer].copy()
        chosen[np.argsort(-strength)[: int(np.ceil(share * (~chosen).sum()))]] = True
        return chosen

    def silence(self, units: list[NDArray[np.bool_]]) -> None:
        """Cut what units of each hidden layer send on."""
        layers = self.network.layers(self.network.parameters)
        for k, silent in enumerate(units):
            layers[k + 1][0][silent] = 0

    def freeze(self) -> None:
        """Freeze what used units read; give free units new weights, which used ones do not read."""
        weights, free = (self.network.layers(v) for v in (self.network.parameters, self.free))
        for k, used in enumerate(self.used):
            free[k][0][:, used], free[k][1][used] = 0, 0
            fresh_weights, fresh_biases = self.network.fresh(k, self.random)
            weights[k][0][:, ~used] = fresh_weights[:, ~used]
            weights[k][1][~used] = fresh_biases[~used]

    def loss(self, outputs: Array, targets: Array) -> float:
        """Mean error of the outputs: absolute, or cross-entropy."""
        if not self.setup.classes:
            return float(np.abs(outputs - targets).mean())
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return float(-(targets * logs).sum(axis=1).mean())

    @property
    def bytes_kept(self) -> int:
        """The parameters with a bit for each that says whether it is frozen, output layers, and boxes."""
        layers = sum(weights.nbytes + biases.nbytes for weights, biases in self.heads)
        return super().bytes_kept + self.free.size // 8 + layers + sum(box.nbytes for box in self.boxes)
