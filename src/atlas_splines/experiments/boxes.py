"""Random targets on the unit cube, and boxes of it that change: what the paper and the arena learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["WIDTHS", "BoxTask", "BoxTasks", "Target", "box_tasks", "in_box", "rbf_target"]

Array = NDArray[np.floating]
Target = Callable[[Array], Array]

RBFS = 1000
WIDTHS = [round(0.1 * k, 1) for k in range(1, 10)]  # of the box that the paper's second task changes
CHUNK = 500  # points whose distances to all centres are held at a time: they stay in the cache


def rbf_target(random: np.random.Generator, inputs: int) -> Target:
    """Sum of 1000 radial functions w·exp(−s·‖x − c‖): c uniform, s exponential of mean 10, w normal.

    Examples
    --------
    >>> target = rbf_target(np.random.default_rng(0), inputs=2)
    >>> target(np.array([[0.5, 0.5]])).shape
    (1,)
    """
    centres = random.random((RBFS, inputs)).astype(np.float32)
    scales = random.exponential(10, RBFS).astype(np.float32)
    weights = random.normal(size=RBFS).astype(np.float32)
    squares = np.square(centres).sum(axis=1)

    def chunk(x: Array) -> Array:
        # ‖x − c‖² = ‖x‖² + ‖c‖² − 2x·c: a matrix product instead of a loop over inputs, then in place
        work = (-2 * x) @ centres.T
        work += squares
        work += np.square(x).sum(axis=1)[:, None]
        np.sqrt(np.maximum(work, 0, out=work), out=work)
        work *= -scales
        return np.exp(work, out=work) @ weights

    def target(X: Array) -> Array:
        points = X.astype(np.float32)
        return np.concatenate([chunk(points[i : i + CHUNK]) for i in range(0, len(X), CHUNK)])

    return target


def in_box(X: Array, box: Array) -> NDArray[np.bool_]:
    """Which points are in a box, given as its lower and upper corner."""
    return np.asarray(((box[0] <= X) & (box[1] >= X)).all(axis=1))


@dataclass(frozen=True)
class BoxTask:
    """Training data of one task: noisy targets on the whole domain, or on one box."""

    X: Array  # (samples, inputs)
    y: Array  # (samples,)
    low: Array  # (inputs,) lower corner of the box
    width: float

    def inside(self, X: Array) -> NDArray[np.bool_]:
        """Which points are in the task's box."""
        return in_box(X, np.stack([self.low, self.low + self.width]))


@dataclass(frozen=True)
class BoxTasks:
    """A first task on the whole domain, and later ones that each change one box of it.

    Attributes
    ----------
    tasks
        Training data, in order.
    noise
        Standard deviation of the noise on the training targets.
    test_X, test_y
        Points over the whole domain, and the clean target after each task, shape (tasks, points).
    """

    tasks: list[BoxTask]
    noise: float
    test_X: Array
    test_y: Array

    def surviving(self) -> tuple[Array, Array]:
        """All training data that later tasks have not changed: what retraining from scratch would use."""
        kept_X, kept_y = [], []
        for k, task in enumerate(self.tasks):
            changed = np.zeros(len(task.X), np.bool_)
            for later in self.tasks[k + 1 :]:
                changed |= later.inside(task.X)
            kept_X.append(task.X[~changed])
            kept_y.append(task.y[~changed])
        return np.vstack(kept_X), np.concatenate(kept_y)


def box_tasks(
    inputs: int,
    width: float,
    seed: int,
    *,
    boxes: int = 1,
    samples: int = 10_000,
    box_samples: int | None = None,
) -> BoxTasks:
    """The paper's two tasks, or a longer sequence of boxes.

    The noise level is exponential with mean one. Each box lies anywhere in the domain, and its target is
    drawn like the first one, independently.

    Examples
    --------
    >>> trial = box_tasks(2, 0.3, seed=0, samples=100)
    >>> [len(task.X) for task in trial.tasks], trial.test_y.shape
    ([100, 100], (2, 100))
    """
    random = np.random.default_rng([inputs, round(1000 * width), boxes, seed])
    noise = float(random.exponential())
    test_X = random.random((samples, inputs))
    tasks: list[BoxTask] = []
    clean: list[Array] = []
    for k in range(boxes + 1):
        extent = width if k else 1.0
        low = (1 - extent) * random.random(inputs)
        target = rbf_target(random, inputs)
        X = low + extent * random.random((samples if k == 0 else box_samples or samples, inputs))
        tasks.append(BoxTask(X, target(X) + noise * random.normal(size=len(X)), low, extent))
        values = target(test_X)
        clean.append(np.where(tasks[k].inside(test_X), values, clean[-1]) if k else values)
    return BoxTasks(tasks, noise, test_X, np.array(clean))
