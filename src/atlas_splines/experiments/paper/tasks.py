"""The tasks of the paper's experiments: random targets, and regions of them that change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.boxes import Target, in_box, rbf_target

__all__ = ["APPENDIX", "Sample", "TwoTasks", "noisy_sample", "two_tasks"]

Array = NDArray[np.floating]


# --- the main experiment, exactly as in the paper's Methodology ------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Points with clean and with noisy targets."""

    X: Array  # (samples, inputs)
    clean: Array  # (samples,)
    noisy: Array  # (samples,)


def noisy_sample(target: Target, X: Array, noise: float, random: np.random.Generator) -> Sample:
    """Targets at some points, with normal noise of a standard deviation."""
    clean = target(X)
    return Sample(X, clean, clean + noise * random.normal(size=len(X)))


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
        return noisy_sample(target, X, noise, random)

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
