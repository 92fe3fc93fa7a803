"""Length scales: how fast data varies along each input, by a Gaussian process of a sample of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize

__all__ = ["length_scales"]

Array = NDArray[np.float64]

SAMPLE = (
    200  # rows that length scales are found from; 320 take thrice as long for the same errors on 23 tables
)
STEPS = 15  # of the optimiser
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
    kernel = z @ z.T  # (rows, rows); changed in place, as a copy costs as much as the arithmetic
    half_square = 0.5 * np.einsum("ij,ij->i", z, z)
    kernel -= half_square
    kernel -= half_square[:, None]
    np.exp(np.minimum(kernel, 0, out=kernel), out=kernel)
    kernel *= variance
    covariance = kernel + variance
    covariance[np.diag_indices_from(covariance)] += noise
    factor, failed = dpotrf(covariance.T, lower=1, overwrite_a=1)
    if failed:
        return 1e12, np.zeros_like(parameters)
    log_root = np.log(np.diag(factor)).sum()
    solved = dpotrs(factor, y, lower=1)[0]
    half = dpotri(factor, lower=1, overwrite_c=1)[0]  # zero above the diagonal, as the factor is
    half[np.diag_indices_from(half)] /= 2
    outer = solved @ solved.T  # −2·d(−log likelihood)/d(covariance), once the inverse is subtracted
    half *= outputs
    outer -= half
    outer -= half.T
    pull = outer * kernel
    by_length = 2 * ((z**2).T @ pull.sum(axis=1) - np.einsum("ij,ij->j", z, pull @ z))
    by_variance = pull.sum() + variance * outer.sum()
    gradient = -0.5 * np.concatenate([-by_length, [by_variance, noise * np.trace(outer)]])
    apart = parameters[:inputs] - usual
    gradient[:inputs] += apart / 4
    value = 0.5 * (y * solved).sum() + outputs * log_root + (apart**2).sum() / 8
    return float(value), gradient
