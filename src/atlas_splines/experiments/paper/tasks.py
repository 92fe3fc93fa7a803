"""The tasks of the paper's experiments: random targets, and regions of them that change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["APPENDIX", "BoxTasks", "Sample", "Task", "TwoTasks", "box_tasks", "rbf_target", "two_tasks"]

Array = NDArray[np.floating]
Target = Callable[[Array], Array]

RBFS = 1000
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


@dataclass(frozen=True)
class Task:
    """Training data of one task: noisy targets on the whole domain, or on one box."""

    X: Array  # (samples, inputs)
    y: Array  # (samples,)
    low: Array  # (inputs,) lower corner of the box
    width: float

    def inside(self, X: Array) -> NDArray[np.bool_]:
        """Which points are in the task's box."""
        return np.asarray(((self.low <= X) & (self.low + self.width >= X)).all(axis=1))


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

    tasks: list[Task]
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
    tasks: list[Task] = []
    clean: list[Array] = []
    for k in range(boxes + 1):
        extent = width if k else 1.0
        low = (1 - extent) * random.random(inputs)
        target = rbf_target(random, inputs)
        X = low + extent * random.random((samples if k == 0 else box_samples or samples, inputs))
        tasks.append(Task(X, target(X) + noise * random.normal(size=len(X)), low, extent))
        values = target(test_X)
        clean.append(np.where(tasks[k].inside(test_X), values, clean[-1]) if k else values)
    return BoxTasks(tasks, noise, test_X, np.array(clean))


# --- the main experiment, exactly as in the paper's Methodology ------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Points with clean and with noisy targets."""

    X: Array  # (samples, inputs)
    clean: Array  # (samples,)
    noisy: Array  # (samples,)


@dataclass(frozen=True)
class TwoTasks:
    """One trial of the main experiment.

    Attributes
    ----------
    learning_rate, noise
        Drawn for the trial.
    box
        Lower and upper corner of the region that changes, shape (2, inputs).
    train, validation, test
        A sample for each of the two tasks. Task 2 trains in the box only, and is tested everywhere.
    targets
        The functions of the two tasks.
    """

    learning_rate: float
    noise: float
    box: Array
    train: tuple[Sample, Sample]
    validation: tuple[Sample, Sample]
    test: tuple[Sample, Sample]
    targets: tuple[Target, Target]

    def inside(self, X: Array) -> NDArray[np.bool_]:
        """Which points are in the region that changes."""
        return in_box(X, self.box)


def in_box(X: Array, box: Array) -> NDArray[np.bool_]:
    """Which points are in a box, given as its lower and upper corner."""
    return np.asarray(((box[0] <= X) & (box[1] >= X)).all(axis=1))


def two_tasks(inputs: int, width: float, trial: int, samples: int = 10_000) -> TwoTasks:
    """Draw a trial: learning rate, noise level, targets, region and data, all from its number.

    Examples
    --------
    >>> data = two_tasks(2, 0.3, trial=0, samples=50)
    >>> data.train[1].X.shape, bool(data.inside(data.train[1].X).all())
    ((50, 2), True)
    """
    random = np.random.default_rng([inputs, round(1000 * width), trial])
    learning_rate = 1e-6 + 0.01 * random.random()
    noise = float(random.exponential())
    first, second = rbf_target(random, inputs), rbf_target(random, inputs)
    low = (1 - width) * random.random(inputs)
    box = np.stack([low, low + width])

    def changed(X: Array) -> Array:
        values, inside = first(X), in_box(X, box)
        values[inside] = second(X[inside]) if inside.any() else 0
        return values

    def sample(target: Target, X: Array) -> Sample:
        # noise goes to validation and test targets too, as in the authors' program
        clean = target(X)
        return Sample(X, clean, clean + noise * random.normal(size=len(X)))

    def everywhere() -> Array:
        return random.random((samples, inputs))

    return TwoTasks(
        learning_rate,
        noise,
        box,
        train=(sample(first, everywhere()), sample(second, low + width * everywhere())),
        validation=(sample(first, everywhere()), sample(changed, everywhere())),
        test=(sample(first, everywhere()), sample(changed, everywhere())),
        targets=(first, changed),
    )


# --- the appendix ----------------------------------------------------------------------------------------


def spiral(X: Array) -> Array:
    """Experiment A: sin(30r + θ) + 2, with θ = arctan2((x₁−½)², (x₂−½)²)."""
    x, y = X.T - 0.5
    return np.sin(30 * np.hypot(x, y) + np.arctan2(x**2, y**2)) + 2


def ridges(X: Array) -> Array:
    """Experiment B: cos²(20x₁−10) + cos²(10x₂−5) + a narrow bump in the middle."""
    x, y = 20 * X.T - 10
    return np.cos(x) ** 2 + np.cos(y / 2) ** 2 + np.exp(-(x**2) - y**2)


def waves(X: Array) -> Array:
    """Experiment C: 2 + cos(20x₁−10)·cos(20x₂−10)."""
    return 2 + np.cos(20 * X - 10).prod(axis=1)


def sigmoid_of_waves(X: Array) -> Array:
    """Experiment D: 2 + σ(sin 2πx₁ · sin 2πx₂)."""
    return 2 + 1 / (1 + np.exp(-np.sin(2 * np.pi * X).prod(axis=1)))


APPENDIX: dict[str, Target] = {"A": spiral, "B": ridges, "C": waves, "D": sigmoid_of_waves}
