"""ATLAS in plain NumPy, written as the paper writes it: what the fast code is compared with."""

import numpy as np

from atlas_splines import Atlas
from atlas_splines.model import splines
from atlas_splines.model.atlas import state_of
from atlas_splines.model.kernels import EPSILON, FIRST_DECAY, SECOND_DECAY
from atlas_splines.model.losses import LOSSES


def randomize(model: Atlas, seed: int = 0, size: float = 0.3) -> Atlas:
    """Give every coefficient of every density a random value."""
    random = np.random.default_rng(seed)
    for density in range(model.density + 1):
        for view in (model.f(density), model.g(density), model.h(density)):
            view[:] = random.normal(size=view.shape, scale=size)
    return model


def families(model: Atlas):
    """Density, input, first function (zero-based) and coefficients (functions, outputs, 2M + 1), row by row."""
    start, width = 0, 2 * model.terms + 1
    for density in range(model.density + 1):
        for j, ends in enumerate(model.domain.astype(model.dtype)):
            first, last = splines.active(ends, density)[0]
            rows = state_of(model).table[start : start + last - first + 4, : model.outputs * width]
            yield density, j, first, rows.reshape(-1, model.outputs, width)
            start += len(rows)


def sums(model: Atlas, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """F (rows, outputs), G and H (rows, outputs, terms) in float64."""
    total = np.zeros((len(X), model.outputs, 2 * model.terms + 1))
    for density, j, first, theta in families(model):
        i = first + 1 + np.arange(len(theta))  # equation (2), where it goes on beyond the unit cube too
        scaled = splines.cell_count(density) * X[:, j].astype(float)
        total += np.einsum("ni,ipc->npc", splines.activation(scaled[:, None] + 4 - i), theta)
    return total[:, :, -1], total[:, :, : model.terms], total[:, :, model.terms : -1]


def evaluate(model: Atlas, X: np.ndarray) -> np.ndarray:
    F, G, H = sums(model, X)
    scale = np.exp(-model.damping) / np.arange(1, model.terms + 1) ** 2
    return F + (scale * (np.exp(G) - np.exp(H))).sum(axis=2)


def coefficients(model: Atlas) -> list[np.ndarray]:
    """Views of the trainable coefficients, in the column order of `Atlas.gradient`."""
    views, end = [], state_of(model).table.shape[0]
    for density in reversed(state_of(model).trained_densities):
        start = end - sum(len(theta) for d, _, _, theta in families(model) if d == density)
        rows = state_of(model).table[start:end, : model.outputs * (2 * model.terms + 1)]
        block = rows.reshape(end - start, model.outputs, -1).transpose(
            1, 2, 0
        )  # (outputs, 2M + 1, functions)
        views = [block[:, -1], block[:, : model.terms], block[:, model.terms : -1], *views]
        end = start
    return views


def gather(model: Atlas) -> np.ndarray:
    """Trainable coefficients as one vector, in the column order of `Atlas.gradient`."""
    return np.concatenate([view.ravel() for view in coefficients(model)])


def assign(model: Atlas, vector: np.ndarray) -> None:
    start = 0
    for view in coefficients(model):
        view[:] = vector[start : start + view.size].reshape(view.shape)
        start += view.size


def slope_along(model: Atlas, X: np.ndarray, direction: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Slope of each output as the trainable coefficients go along a direction, by finite differences."""
    start = gather(model)
    assign(model, start + step * direction)
    above = evaluate(model, X)
    assign(model, start - step * direction)
    below = evaluate(model, X)
    assign(model, start)
    return (above - below) / (2 * step)


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
        marks = self.model.copy()
        state_of(marks).table[:] = 0
        for density, j, first, theta in families(marks):
            cells, _ = splines.active(X[:, j], density)
            theta[np.unique(cells[:, None] + np.arange(4)) - first] = 1
        return gather(marks).astype(bool)
