"""Length scales: how fast data varies along each input, by a Gaussian process of a sample of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

__all__ = ["length_scales"]

Array = NDArray[np.float64]

SAMPLE = 320  # rows that length scales are found from; the cost is cubic
STEPS = 30  # of the optimiser
NEGLIGIBLE = 1e-5  # share of the likelihood's logarithm that a step must gain, or it is the last


def length_scales(points: Array, targets: Array, random: np.random.Generator) -> Array:
    """Length scale of each input: those of the Gaussian process that makes a sample of the data most likely.

    An input that does not matter gets a long one. Shape (inputs,).
    """
    rows = random.permutation(len(points))[:SAMPLE]
    spread = points.std(axis=0) + 1e-3
    x, y = points[rows] / spread, targets[rows] - targets[rows].mean(axis=0)
    inputs, variance = x.shape[1], float(y.var()) + 1e-6
    usual = -0.5 * np.log(inputs)
    start = np.concatenate([np.full(inputs, usual), np.log([variance, 0.1 * variance])])
    bounds = [(-6, 4)] * inputs + [(np.log(variance) - 5, np.log(variance) + 8), (np.log(1e-4 * variance), 3)]
    options = {"maxiter": STEPS, "ftol": NEGLIGIBLE}
    found = minimize(
        negative_likelihood, start, (x, y, usual), "L-BFGS-B", True, bounds=bounds, options=options
    )
    return spread * np.exp(-found.x[:inputs])


def negative_likelihood(parameters: Array, x: Array, y: Array, usual: float) -> tuple[float, Array]:
    """Negative log likelihood of a Gaussian process and its gradient.

    Parameters are the logarithms of 1/ℓ_j, of the variance and of the noise. A wide normal prior keeps 1/ℓ_j
    from running away where the data does not tell.
    """
    inputs, outputs = x.shape[1], y.shape[1]
    variance, noise = np.exp(parameters[inputs:])
    z = x * np.exp(parameters[:inputs])
    squared = (z**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2 * z @ z.T
    kernel = variance * np.exp(-0.5 * np.maximum(squared, 0))  # (rows, rows)
    factor, failed = dpotrf(kernel + variance + noise * np.eye(len(x)), lower=1)
    if failed:
        return 1e12, np.zeros_like(parameters)
    half = dpotri(factor, lower=1)[0]  # zero above the diagonal, as the factor is
    inverse = half + half.T
    inverse[np.diag_indices_from(inverse)] /= 2
    solved = inverse @ y
    outer = solved @ solved.T - outputs * inverse  # −2·d(−log likelihood)/d(covariance)
    pull = outer * kernel
    by_length = 2 * ((z**2).T @ pull.sum(axis=1) - np.einsum("ij,ij->j", z, pull @ z))
    by_variance = pull.sum() + variance * outer.sum()
    gradient = -0.5 * np.concatenate([-by_length, [by_variance, noise * np.trace(outer)]])
    apart = parameters[:inputs] - usual
    gradient[:inputs] += apart / 4
    value = 0.5 * (y * solved).sum() + outputs * np.log(np.diag(factor)).sum() + (apart**2).sum() / 8
    return float(value), gradient
