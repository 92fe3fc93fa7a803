"""ATLAS in plain NumPy, written as the paper writes it: what the fast code is compared with."""

import numpy as np

from atlas_splines import Atlas, splines
from atlas_splines.kernels import EPSILON, FIRST_DECAY, SECOND_DECAY
from atlas_splines.losses import LOSSES


def randomize(model: Atlas, seed: int = 0, size: float = 0.3) -> Atlas:
    """Give every coefficient of every density a random value."""
    random = np.random.default_rng(seed)
    for density in range(model.density + 1):
        for view in (model.f(density), model.g(density), model.h(density)):
            view[:] = random.normal(size=view.shape, scale=size)
    return model


def sums(model: Atlas, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """F (rows, outputs), G and H (rows, outputs, terms) in float64."""
    F = np.zeros((len(X), model.outputs))
    G = np.zeros((len(X), model.outputs, model.terms))
    H = np.zeros_like(G)
    for density in range(model.density + 1):
        basis = np.stack([splines.basis(column, density) for column in X.T.astype(float)])  # (n, rows, λ)
        F += np.einsum("jni,pji->np", basis, model.f(density))
        G += np.einsum("jni,pkji->npk", basis, model.g(density))
        H += np.einsum("jni,pkji->npk", basis, model.h(density))
    return F, G, H


def evaluate(model: Atlas, X: np.ndarray) -> np.ndarray:
    F, G, H = sums(model, X)
    scale = np.exp(-model.damping) / np.arange(1, model.terms + 1) ** 2
    return F + (scale * (np.exp(G) - np.exp(H))).sum(axis=2)


def coefficients(model: Atlas) -> list[np.ndarray]:
    """Views of the trainable coefficients, in the column order of `Atlas.gradient`."""
    return [view for d in model.trained_densities for view in (model.f(d), model.g(d), model.h(d))]


def gather(model: Atlas) -> np.ndarray:
    """Trainable coefficients as one vector, in the column order of `Atlas.gradient`."""
    return np.concatenate([view.ravel() for view in coefficients(model)])


def assign(model: Atlas, vector: np.ndarray) -> None:
    start = 0
    for view in coefficients(model):
        view[:] = vector[start : start + view.size].reshape(view.shape)
        start += view.size


class PlainAdam:
    """Adam over the whole vector; `lazy` leaves alone every row of coefficients that the batch misses."""

    def __init__(self, model: Atlas, learning_rate: float, lazy: bool) -> None:
        self.model, self.learning_rate, self.lazy = model, learning_rate, lazy
        self.m, self.v, self.t = (np.zeros(model.n_trainable) for _ in range(3))

    def step(self, X: np.ndarray, y: np.ndarray, loss: str, weight: np.ndarray) -> None:
        model = self.model
        slope = LOSSES[loss].gradient(evaluate(model, X), y) * (weight / weight.sum())[:, None]
        gradient = model.gradient(X).T @ slope.ravel()
        moved = self.touched(X) if self.lazy else np.ones(gradient.size, bool)
        self.t += moved
        self.m = np.where(moved, FIRST_DECAY * self.m + (1 - FIRST_DECAY) * gradient, self.m)
        self.v = np.where(moved, SECOND_DECAY * self.v + (1 - SECOND_DECAY) * gradient**2, self.v)
        t = np.maximum(self.t, 1)
        rate = self.learning_rate * np.sqrt(1 - SECOND_DECAY**t) / (1 - FIRST_DECAY**t)
        change = np.where(moved, rate * self.m / (np.sqrt(self.v) + EPSILON), 0)
        assign(model, gather(model) - change)

    def touched(self, X: np.ndarray) -> np.ndarray:
        """Coefficients of the basis functions that are active at some row of X."""
        marks = Atlas(**configuration(self.model))
        for density in marks.trained_densities:
            for j in range(marks.inputs):
                cells, _ = splines.active(X[:, j], density)
                for view in (marks.f(density), marks.g(density), marks.h(density)):
                    view[..., j, np.unique(cells[:, None] + np.arange(4))] = 1
        return gather(marks).astype(bool)


def configuration(model: Atlas) -> dict:
    names = ("inputs", "outputs", "terms", "density", "trainable", "damping", "dtype")
    return {name: getattr(model, name) for name in names}
