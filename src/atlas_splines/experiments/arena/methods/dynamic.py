"""Meta continual learning by dynamic programming (Krishnan and Balaprakash, 2020).

The optimal cost over all tasks to come obeys an equation of Hamilton, Jacobi and Bellman. What is minimised
at each moment is J_P + J_N + ΔJ_PN: the cost of past tasks, estimated from an experience array; the cost of
the new task; and how the cost of both changes when the parameters move on to the new task. As the authors
do, ΔJ_PN is a finite difference: a copy θ_B of the prediction layer θ₂ takes some gradient steps on the new
task, and ΔJ_PN = J_PN(θ₁, θ_B) − J_PN(θ₁, θ₂). The representation θ₁, all layers before, goes down
J_P + J_N + β ΔJ_PN, so that it serves a prediction layer that has moved; θ₂ goes down J_P + J_N.

Departures: both parts step at once, by Adam, instead of in turns; θ_B is held constant in the gradient, so
second derivatives are left out; and the experience array is a uniform sample of what is still true.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import (
    BATCH,
    RATES,
    Setup,
    batches,
    one_hot,
    output_gradient,
)
from atlas_splines.experiments.arena.methods.network import Adam
from atlas_splines.experiments.arena.methods.replay import Reservoir
from atlas_splines.experiments.arena.tasks import Task

__all__ = ["DynamicProgramming"]

Array = NDArray[np.floating]
LOOKAHEAD_STEPS = 3  # gradient steps of the copied layer, ζ in the article
LOOKAHEAD_RATE = 0.01


class DynamicProgramming(Reservoir):
    """A network trained on past cost, new cost and the sensitivity of both to the change."""

    GRID = tuple({"rate": rate, "sensitivity": beta} for beta in (0.1, 0.5) for rate in RATES)

    def __init__(self, setup: Setup, rate: float, sensitivity: float) -> None:
        super().__init__(setup, rate, share=0.5)
        self.sensitivity = sensitivity

    def fit(self, task: Task) -> None:
        """Train on the task and on the experience array, then add the task to the array."""
        self.keep(~task.replaces(self.X))
        new = task.X.astype(np.float32), one_hot(task.y, self.setup.classes).astype(np.float32)
        past = self.X, one_hot(self.y, self.setup.classes).astype(np.float32)
        adam, steps = Adam(self.network.parameters.size), self.setup.steps
        old = round(self.share * BATCH) if len(self.X) else 0
        for step in range(steps):
            rate = self.rate * (1 + np.cos(np.pi * step / steps)) / 2
            gradient = self.cost_gradient(self.some(new, BATCH - old), self.some(past, old))
            self.network.parameters -= adam.step(gradient, rate)
        self.remember(task)

    def some(self, rows: tuple[Array, Array], count: int) -> tuple[Array, Array]:
        """So many of the rows."""
        X, targets = rows
        chosen = batches(self.random, max(len(X), 1), count)
        return X[chosen], targets[chosen]

    def cost_gradient(self, new: tuple[Array, Array], past: tuple[Array, Array]) -> Array:
        """Gradient of J_P + J_N + β ΔJ_PN by θ₁, and of J_P + J_N by θ₂."""
        network = self.network
        if not len(past[0]):
            return network.gradient(*new)
        X, targets = (np.vstack(pair) for pair in zip(new, past, strict=True))  # J_PN is the mean of both
        here = network.gradient(X, targets)
        before, ahead = network.parameters, self.looked_ahead(*new)
        network.parameters = ahead
        there = network.gradient(X, targets)
        network.parameters = before
        gradient = here + np.float32(self.sensitivity) * (there - here)
        last = self.last_layer_size
        gradient[-last:] = here[-last:]
        return gradient

    def looked_ahead(self, X: Array, targets: Array) -> Array:
        """Parameters whose prediction layer has moved on to the new task: θ₁ and θ_B."""
        parameters = self.network.parameters.copy()
        hidden = self.network.activations(X)[-2]  # (rows, width)
        weights, biases = self.network.layers(parameters)[-1]
        for _ in range(LOOKAHEAD_STEPS):
            error = output_gradient(hidden @ weights + biases, targets, self.setup.classes)
            weights -= LOOKAHEAD_RATE * hidden.T @ error
            biases -= LOOKAHEAD_RATE * error.sum(axis=0)
        return parameters

    @property
    def last_layer_size(self) -> int:
        """Weights and biases of the prediction layer: they stand last in the parameters."""
        inputs, outputs = self.network.shapes[-1]
        return (inputs + 1) * outputs
