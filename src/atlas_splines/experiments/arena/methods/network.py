"""A multilayer perceptron written out in NumPy, with all parameters in one vector.

At these sizes it is three times as fast as PyTorch; a test compares their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.methods.base import batches, falling_rate, output_gradient

__all__ = ["Adam", "Network", "train"]

Array = NDArray[np.floating]
Change = Callable[[Array], Array]


class Network:
    """ReLU layers and a linear one; layer k may read `extra[k]` more inputs, given from outside."""

    def __init__(
        self, sizes: Sequence[int], classes: int, random: np.random.Generator, extra: Sequence[int] = ()
    ) -> None:
        self.sizes, self.classes = list(sizes), classes
        self.extra = list(extra) or [0] * (len(sizes) - 1)
        shapes = [(a + e, b) for a, b, e in zip(sizes, sizes[1:], self.extra, strict=False)]
        self.parameters = np.zeros(sum((a + 1) * b for a, b in shapes), np.float32)
        self.shapes = shapes
        for k, (weights, biases) in enumerate(self.layers(self.parameters)):
            weights[:], biases[:] = self.fresh(k, random)

    def fresh(self, layer: int, random: np.random.Generator) -> tuple[Array, Array]:
        """Weights and biases that a layer starts from."""
        shape = self.shapes[layer]
        weights = random.normal(0, np.sqrt(2 / shape[0]), shape)
        if layer:
            return weights, np.zeros(shape[1])
        weights *= np.sqrt(12)  # as for inputs of variance one: that of the unit interval is 1/12
        return weights, -(weights * random.random(shape)).sum(axis=0)  # units bend within the unit cube

    def layers(self, vector: Array) -> list[tuple[Array, Array]]:
        """Views of a vector like the parameters: weights (inputs, outputs) and biases of each layer."""
        views, start = [], 0
        for a, b in self.shapes:
            middle, end = start + a * b, start + (a + 1) * b
            views.append((vector[start:middle].reshape(a, b), vector[middle:end]))
            start = end
        return views

    def activations(self, X: Array, extra: Sequence[Array] = ()) -> list[Array]:
        """What each layer reads, and the outputs."""
        values: list[Array] = [np.asarray(X, np.float32)]
        layers = self.layers(self.parameters)
        for k, (weights, biases) in enumerate(layers):
            if self.extra[k]:
                values[-1] = np.hstack([values[-1], extra[k]])
            values.append(values[-1] @ weights + biases)
            if k < len(layers) - 1:
                np.maximum(values[-1], 0, out=values[-1])
        return values

    def outputs(self, X: Array, extra: Sequence[Array] = ()) -> Array:
        """Outputs, shape (rows, outputs)."""
        return self.activations(X, extra)[-1]

    def errors(self, values: list[Array], last: Array) -> list[Array]:
        """Derivatives by what each layer returns, from those by the outputs: (rows, width) each."""
        layers = self.layers(self.parameters)
        errors: list[Array] = [np.asarray(last, np.float32)]
        for k in range(len(layers) - 1, 0, -1):
            own = self.sizes[k]  # inputs from outside do not depend on these parameters
            errors.insert(0, errors[0] @ layers[k][0][:own].T * (values[k][:, :own] > 0))
        return errors

    def gradient(self, X: Array, targets: Array, extra: Sequence[Array] = ()) -> Array:
        """Gradient of the mean loss by all parameters."""
        values = self.activations(X, extra)
        errors = self.errors(values, output_gradient(values[-1], targets, self.classes))
        gradient = np.empty_like(self.parameters)
        for (weights, biases), value, error in zip(self.layers(gradient), values, errors, strict=False):
            np.matmul(value.T, error, out=weights)
            error.sum(axis=0, out=biases)
        return gradient

    def row_gradients(self, X: Array, direction: Array) -> Array:
        """Gradient of direction·outputs at each row by all parameters, shape (rows, parameters)."""
        values = self.activations(X)
        errors = self.errors(values, direction)
        parts = []
        for value, error in zip(values, errors, strict=False):
            parts += [(value[:, :, None] * error[:, None, :]).reshape(len(X), -1), error]
        return np.hstack(parts)


class Adam:
    """Adam on a vector."""

    def __init__(self, size: int) -> None:
        self.first, self.second = np.zeros((2, size), np.float32)
        self.steps = 0

    def step(self, gradient: Array, rate: np.float64) -> Array:
        """What to subtract from the parameters."""
        self.steps += 1
        self.first += 0.1 * (gradient - self.first)
        self.second += 0.001 * (np.square(gradient) - self.second)
        scale = np.sqrt(self.second / (1 - 0.999**self.steps)) + 1e-8
        return rate / (1 - 0.9**self.steps) * self.first / scale


def train(
    network: Network,
    draw: Callable[[], tuple[Array, ...]],
    steps: int,
    rate: float,
    penalty: Change | None = None,
    project: Change | None = None,
) -> None:
    """Adam with a learning rate that falls to zero as a cosine.

    Parameters
    ----------
    draw
        Gives the inputs and targets of the next batch, and what else the layers read.
    penalty
        Gradient of what is added to the loss, from the parameters.
    project
        What may remain of a gradient. It is applied to Adam's step too, because its scaling turns vectors.
    """
    adam = Adam(network.parameters.size)
    for step in range(steps):
        X, targets, *extra = draw()
        gradient = network.gradient(X, targets, extra)
        if penalty is not None:
            gradient += penalty(network.parameters)
        if project is not None:
            gradient = project(gradient)
        now = np.float64(falling_rate(rate, step, steps))  # of NumPy's type, it makes the step float64
        change = adam.step(gradient, now)
        network.parameters -= change if project is None else project(change)


def draw_from(X: Array, targets: Array, random: np.random.Generator) -> Callable[[], tuple[Array, ...]]:
    """Batches of the rows of X and their targets."""
    X, targets = X.astype(np.float32), targets.astype(np.float32)

    def draw() -> tuple[Array, ...]:
        rows = batches(random, len(X))
        return X[rows], targets[rows]

    return draw
