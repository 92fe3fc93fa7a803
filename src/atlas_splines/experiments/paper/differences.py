"""Every point on which we differ from the paper, with evidence that is computed now."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines import Atlas, Trainer, train
from atlas_splines.analysis import (
    expected_off_target,
    gradient_bound,
    gradient_norm,
    orthogonality_distance,
    overlap,
)
from atlas_splines.experiments.boxes import rbf_target
from atlas_splines.experiments.style import number

__all__ = ["Difference", "differences", "gradient_sizes", "optimizer_reach"]

Array = NDArray[np.floating]


class Difference(NamedTuple):
    """One point on which we differ from the paper, with computed evidence."""

    paper: str
    ours: str
    evidence: str


def differences() -> list[Difference]:
    """Every point on which we differ, with evidence computed now."""
    return [
        threshold_difference(),
        bound_difference(),
        count_difference(),
        optimizer_difference(),
        damping_difference(),
        counting_difference(),
    ]


def threshold_difference() -> Difference:
    """The threshold of distal orthogonality."""
    model, x, y = Atlas(1, terms=0, density=1, dtype="float64"), 0.05, 0.56
    product = float(overlap(model, [[x]], [[y]])[0, 0])
    return Difference(
        "Gradients are orthogonal if every input differs by more than 2⁻ʳ.",
        "False for every r ≥ 1. The exact threshold is 4/(2ʳ⁺² − 3).",
        f"r = 1: x = {x} and y = {y} are {y - x:.2f} > {2**-1} apart, and their gradients have inner product "
        f"{product:.8f}. The exact threshold is {orthogonality_distance(1):g}; at r = 4 it is "
        f"{orthogonality_distance(4):.5f}, not {2**-4}.",
    )


def bound_difference() -> Difference:
    """The bound of the gradient."""
    random = np.random.default_rng(0)
    model, X = Atlas(8), random.random((2000, 8))
    fresh = gradient_sizes(model, X)
    train(model, X, 3 * np.sin(7 * X[:, 0]) * X[:, 1], epochs=5, random_state=0)
    trained = gradient_sizes(model, X)
    return Difference(
        "The 1-norm of the gradient is below U = 4nuπ²(1 + exp u_g + exp u_h).",
        "True but loose: the norm is known exactly, and n(1 + π²/6·(exp u_g + exp u_h)) bounds it.",
        f"n = 8, M = 10, r = 4, all coefficients zero: exact {number(fresh.exact)}, our bound "
        f"{number(fresh.bound)}, U {number(fresh.paper)}. After five epochs: exact {number(trained.exact)} "
        f"at most, our bound {number(trained.bound)}, U {number(trained.paper)}.",
    )


def count_difference() -> Difference:
    """The number of coefficients."""
    real, paper = Atlas(2).n_parameters, 2**5 * 2 * 21
    return Difference(
        "A model has about 2ʳ⁺¹·n·(2M + 1) coefficients in all.",
        "It has (2ʳ⁺³ − 4)·n·(2M + 1).",
        f"n = 2, M = 10, r = 4: {real:,} counted, {(2**7 - 4) * 2 * 21:,} by our formula, {paper:,} by the "
        f"paper's. The count is {real / paper:g} times the paper's.",
    )


def optimizer_difference() -> Difference:
    """Dense Adam."""
    dense, lazy = ((change, far) for _, change, far in map(optimizer_reach, ("adam", "lazy-adam")))
    farthest = [float(change[far].max()) for change, far in (dense, lazy)]
    moved = float((dense[0][dense[1]] > 0).mean())
    return Difference(
        "Distal orthogonality keeps an update away from distant inputs; training uses Adam.",
        "Dense Adam moves coefficients whose gradient is zero, by momentum from earlier batches. Lazy Adam "
        "does not.",
        "One input, two tasks with the state carried over: of the points out of reach of Task 2, "
        f"{moved:.0%} change with dense Adam, by up to {number(farthest[0])}; with lazy Adam the largest "
        f"change is {farthest[1]:g}.",
    )


def damping_difference() -> Difference:
    """The constant in front of the exponentials."""
    random = np.random.default_rng(1)
    target, (X, T) = rbf_target(random, 2), random.random((2, 4000, 2))
    errors = []
    for damping in (0.0, 10.0):
        model = Atlas(2, damping=damping)
        train(model, X, target(X), epochs=30, optimizer="adam", random_state=0)
        errors.append(float(np.abs(model(T)[:, 0] - target(T)).mean()))
    return Difference(
        "Each pair of exponentials is scaled by k⁻².",
        "The authors' program scales by k⁻²·e⁻¹⁰, which the paper does not mention: the option damping=10.",
        f"e⁻¹⁰ is {np.exp(-10):.2g}. One target of the main experiment, n = 2, 4,000 samples without noise: "
        f"after 30 epochs the test error is {number(errors[0])} without it, {number(errors[1])} with it.",
    )


def counting_difference() -> Difference:
    """What k counts in the estimate of the off-target error."""
    inputs, width, k = 8, 0.3, 2
    formula = comb(inputs, k) * width ** (inputs - k) * (1 - width) ** k
    inside = (np.random.default_rng(0).random((200_000, inputs)) < width).sum(axis=1)
    return Difference(
        "In p(ε_k) = C(n, k)·δⁿ⁻ᵏ·(1 − δ)ᵏ, k is the number of inputs inside the updated region.",
        "k is the number of inputs outside; only so do ε_k = (n − k)/n and p(ε_k) fit together.",
        f"n = {inputs}, δ = {width}, k = {k}: p = {formula:.4f}. Of 200,000 random points "
        f"{(inside == k).mean():.4f} have {k} inputs inside, and {(inputs - inside == k).mean():.4f} have "
        f"{k} outside. The estimate is then δ − δⁿ = {float(expected_off_target(width, inputs)):.4f}.",
    )


# --- what is measured for them -----------------------------------------------------------------------------


class Sizes(NamedTuple):
    """Size of the gradient of a model: the largest found, our bound on it, and the paper's."""

    exact: float
    bound: float
    paper: float


def gradient_sizes(model: Atlas, X: Array) -> Sizes:
    """Compare the exact 1-norm at some points with our bound and the paper's U.

    U = 4nuπ²(1 + exp u_g + exp u_h), with the least u that it allows, 2/3, and with u_g and u_h the largest
    sums of coefficients in size.

    Examples
    --------
    >>> sizes = gradient_sizes(Atlas(1), np.array([[0.5]]))
    >>> round(sizes.exact, 2), round(sizes.bound, 2), round(sizes.paper, 2)
    (4.1, 4.29, 78.96)
    """
    densities = range(model.density + 1)
    largest = np.exp(
        [_largest_sum([coefficients(rho) for rho in densities]) for coefficients in (model.g, model.h)]
    )
    paper = 4 * model.inputs * 2 / 3 * np.pi**2 * (1 + largest.sum())
    return Sizes(float(gradient_norm(model, X).max()), float(gradient_bound(model)[0]), float(paper))


def _largest_sum(coefficients: Sequence[Array]) -> float:
    """Bound the size of every exponent: sum its largest coefficients over densities and inputs."""
    return float(sum(np.abs(theta[0]).max(axis=-1).sum(axis=-1) for theta in coefficients).max())


def optimizer_reach(optimizer: str) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Learn two tasks in a row: points, the change that Task 2 makes there, and which are out of its reach.

    Out of reach are points at least `orthogonality_distance` away from the data of Task 2.

    Examples
    --------
    >>> x, change, far = optimizer_reach("lazy-adam")
    >>> float(change[far].max())
    0.0
    """
    random, x, low, high = np.random.default_rng(0), np.linspace(0, 1, 801), 0.4, 0.5
    trainer = Trainer(Atlas(1), optimizer=optimizer, random_state=0)
    first, second = random.random((2000, 1)), low + (high - low) * random.random((2000, 1))
    trainer.run(first, np.sin(6 * first), epochs=5)
    before = trainer.model(x[:, None])[:, 0]
    trainer.run(second, np.full(2000, 2.0), epochs=5)
    reach = orthogonality_distance(trainer.model.density)
    return x, np.abs(trainer.model(x[:, None])[:, 0] - before), (x <= low - reach) | (x >= high + reach)
