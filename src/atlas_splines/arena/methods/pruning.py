"""Continual learning by pruning, with graceful forgetting (Golkar and others, 2019)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.arena.methods.base import Setup, one_hot
from atlas_splines.arena.methods.mlp import MLP, RATES
from atlas_splines.arena.tasks import Task

__all__ = ["Pruning"]

Array = NDArray[np.floating]
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


class Pruning(MLP):
    """After each task the fewest units that do nearly as well are frozen; the others are free for the next.

    Free units do not feed frozen ones, so the latter compute what they did. Only the output is shared: with
    one head for all tasks, which nobody tells apart here, later units add to it.
    """

    GRID = tuple({"rate": rate, "tolerance": tolerance} for tolerance in (0.1, 0.5) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, tolerance: float) -> None:
        super().__init__(setup, rate, width=128)
        self.tolerance = tolerance
        self.used = [np.zeros(width, np.bool_) for width in self.network.sizes[1:-1]]
        self.free = np.ones_like(self.network.parameters)  # 1 where training may change a parameter

    projects = True

    def project(self, gradient: Array) -> Array:
        """Frozen parameters do not move."""
        return gradient * self.free

    def remember(self, task: Task) -> None:
        """Prune to the fewest units, freeze them, and start the others afresh."""
        targets = one_hot(task.y, self.setup.classes)
        values = self.network.activations(task.X)
        whole = self.loss(values[-1], targets)
        for share in SHARES:
            kept = [self.strongest(k, values[k + 1], share) for k in range(len(self.used))]
            before = self.network.parameters.copy()
            self.silence([~units for units in kept])
            if share == 1 or self.loss(self.network.outputs(task.X), targets) <= (1 + self.tolerance) * whole:
                break
            self.network.parameters = before
        self.used = kept
        self.freeze()

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
        every = np.ones(self.setup.outputs, np.bool_)
        weights, free = (self.network.layers(v) for v in (self.network.parameters, self.free))
        for k, read_by in enumerate([*self.used, every]):
            free[k][0][:, read_by], free[k][1][read_by] = 0, 0
            fresh = ~read_by
            fan_in = weights[k][0].shape[0]
            weights[k][0][:, fresh] = self.random.normal(0, np.sqrt(2 / fan_in), (fan_in, fresh.sum()))
        free[-1][0][~self.used[-1]] = 1  # free units may learn to speak; they start silent

    def loss(self, outputs: Array, targets: Array) -> float:
        """Mean error of the outputs: absolute, or cross-entropy."""
        if not self.setup.classes:
            return float(np.abs(outputs - targets).mean())
        shifted = outputs - outputs.max(axis=1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return float(-(targets * logs).sum(axis=1).mean())

    @property
    def bytes_kept(self) -> int:
        """The parameters, and a bit for each that says whether it is frozen."""
        return super().bytes_kept + self.free.size // 8
