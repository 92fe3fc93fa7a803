"""What every method offers: fit a task, predict, and say how many bytes it keeps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.tasks import Task

__all__ = [
    "BATCH",
    "RATES",
    "Method",
    "Setup",
    "batches",
    "box_of",
    "falling_rate",
    "far_from",
    "likely_task",
    "one_hot",
    "output_gradient",
    "outputs_by_task",
    "softmax",
]

Array = NDArray[np.floating]
Options = Mapping[str, Any]
BATCH = 250  # rows of a gradient step
RATES = (0.01, 0.003, 0.03)  # of learning, which most methods are tuned over


class Setup(NamedTuple):
    """What a method knows before it sees data."""

    inputs: int
    classes: int  # 0 for a regression
    seed: int
    steps: int  # gradient steps on a task
    bounded: bool = True  # whether all inputs that will come lie in the unit cube

    @property
    def outputs(self) -> int:
        """Columns of a prediction."""
        return self.classes or 1


class Method(ABC):
    """A method of the arena.

    Subclasses are made as ``Method(setup, **settings)``, with settings from `GRID`: at most six, so that all
    get the same tuning. The first is the default.
    """

    GRID: ClassVar[Sequence[Options]]
    gives_probabilities: ClassVar[bool] = False  # of classes; other outputs become some by a softmax

    @abstractmethod
    def fit(self, task: Task) -> None:
        """Learn ``task.X`` and ``task.y``; ask ``task.replaces`` which kept points are no longer true."""

    @abstractmethod
    def predict(self, X: Array) -> Array:
        """Return outputs of shape (rows, outputs); for a classification the largest is the class."""

    def covers(self, X: Array, y: Array) -> NDArray[np.bool_] | None:
        """Whether each target lies in its 90 % interval, or set of classes; None without such intervals."""
        return None

    @property
    @abstractmethod
    def bytes_kept(self) -> int:
        """What must be kept for predictions and for the next task: coefficients, copies, data."""


def one_hot(y: Array, classes: int) -> Array:
    """Targets as columns: class numbers become indicators.

    Examples
    --------
    >>> one_hot(np.array([1.0, 0.0]), 2)
    array([[0., 1.],
           [1., 0.]])
    """
    return np.eye(classes)[y.astype(np.intp)] if classes else y[:, None]


def output_gradient(outputs: Array, targets: Array, classes: int) -> Array:
    """Gradient of the mean loss by the outputs: absolute error, or cross-entropy of the softmax.

    Examples
    --------
    >>> output_gradient(np.array([[3.0], [0.0]]), np.array([[1.0], [1.0]]), classes=0)
    array([[ 0.5],
           [-0.5]])
    """
    if not classes:
        return np.sign(outputs - targets) / len(outputs)
    return (softmax(outputs) - targets) / len(outputs)


def softmax(outputs: Array) -> Array:
    """Probabilities of the classes, (rows, classes)."""
    exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def batches(random: np.random.Generator, rows: int, size: int = BATCH) -> NDArray[np.intp]:
    """Numbers of the rows of a batch, drawn with replacement."""
    return random.integers(0, rows, size)


def falling_rate(rate: float, step: int, steps: int) -> float:
    """A learning rate that falls to zero as a cosine.

    Examples
    --------
    >>> [round(falling_rate(0.01, step, 4), 4) for step in range(5)]
    [0.01, 0.0085, 0.005, 0.0015, 0.0]
    """
    return rate * (1 + math.cos(math.pi * step / steps)) / 2


def likely_task(X: Array, boxes: Sequence[Array]) -> NDArray[np.intp]:
    """Number of each point's task, for methods that must know: nobody tells them here.

    Of the boxes of the tasks' data, (2, inputs) each, the one that holds most coordinates of the point, and
    the latest if several do.

    Examples
    --------
    >>> boxes = [np.array([[0.0], [1.0]]), np.array([[0.4], [0.6]])]
    >>> likely_task(np.array([[0.5], [0.9]]), boxes)
    array([1, 0])
    """
    held = np.stack([((low <= X) & (high >= X)).sum(axis=1) for low, high in boxes])
    return len(boxes) - 1 - held[::-1].argmax(axis=0)


def box_of(X: Array) -> Array:
    """The box of some data: its lower and upper corner, (2, inputs)."""
    return np.stack([X.min(axis=0), X.max(axis=0)])


def outputs_by_task(X: Array, boxes: Sequence[Array], outputs_of: Callable[[int], Array]) -> Array:
    """At each point the outputs of its likely task; `outputs_of` gives those of a task at all points.

    At all points, whoever they belong to: a matrix product of other rows rounds otherwise.
    """
    tasks = likely_task(X, boxes)
    parts = {int(k): outputs_of(int(k)) for k in np.unique(tasks)}
    out = np.empty_like(next(iter(parts.values())))
    for k, part in parts.items():
        out[tasks == k] = part[tasks == k]
    return out


def far_from(X: Array, count: int, random: np.random.Generator) -> Array:
    """Points all over the cube that are not among the new data X: at most `count` of them.

    A point is among the data if it is as close to a row of it as 95 of 100 rows are to their neighbours.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(X)
    apart = tree.query(X[:500], k=2)[0][:, 1]
    points = random.random((2 * count, X.shape[1]))
    return points[tree.query(points)[0] > np.quantile(apart, 0.95)][:count]
