"""Feature selection: length scales of the data, relevant inputs and pairs of them, and pruning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpbtrf, dpbtrs, dpotrf, dpotri, dpotrs
from scipy.optimize import minimize

from atlas_splines.memory.features import COARSE, FINEST, Features
from atlas_splines.memory.posterior import Posterior, Prior
from atlas_splines.memory.statistics import Statistics
from atlas_splines.model import kernels, splines

__all__ = [
    "PAIRS_GAIN",
    "coarse_gains",
    "finer_splines",
    "interacting_pairs",
    "kept_features",
    "length_scales",
    "pruned_prior",
]

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
    error_model = points.std(axis=0) + 1e-3
    x, y = points[rows] / error_model, targets[rows] - targets[rows].mean(axis=0)
    inputs, variance = x.shape[1], float(y.var()) + 1e-6
    usual = -0.5 * np.log(inputs)
    start = np.concatenate([np.full(inputs, usual), np.log([variance, 0.1 * variance])])
    bounds = [(-6, 4)] * inputs + [(np.log(variance) - 5, np.log(variance) + 8), (np.log(1e-4 * variance), 3)]
    options = {"maxiter": STEPS, "ftol": NEGLIGIBLE}
    found = minimize(
        negative_likelihood, start, (x, y, usual), "L-BFGS-B", True, bounds=bounds, options=options
    )
    return error_model * np.exp(-found.x[:inputs])


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


GAIN = 3.0  # in log evidence, for which finer splines of an input are worth it
ROWS_A_FUNCTION = 4  # finer splines need at least this many rows for each function
MOST_FUNCTIONS = 2048  # of all inputs at one density: a model has room for them, whichever are used
MOST_PAIRS = 6
PAIRS_GAIN = 100.0  # in log evidence, for which pairs are worth it: bumps of all inputs know most of them
BINS = 8  # of an input, when its pairs are judged
BIN_PRECISION = 3.0  # of the prior of a mean, when pairs are judged
PRECISIONS = (0.3, 3.0, 30.0)  # of the prior of splines, when they are judged


def coarse_gains(points: Array, targets: Array) -> Array:
    """Gain in log evidence by coarse splines of each input alone, shape (inputs,).

    Examples
    --------
    >>> points = np.random.default_rng(0).random((200, 2))
    >>> coarse_gains(points, points[:, :1]) > 0
    array([ True, False])
    """
    left = targets - targets.mean(axis=0)
    return np.array([max(spline_gains(column, left, COARSE)) for column in points.T])


def finer_splines(
    points: Array, left: Array, budget: int, finest: int = FINEST
) -> tuple[tuple[int, int], ...]:
    """Pairs (input, density) of finer splines that what coarse ones leave asks for, the most wanted first.

    None is finer than the finest, which depends on what other channels of the model need.
    """
    most = min(MOST_FUNCTIONS // points.shape[1], splines.basis_size(finest))
    wanted = sorted(
        ((*best_density(column, left, most), j) for j, column in enumerate(points.T)), reverse=True
    )
    chosen: list[tuple[int, int]] = []
    for gain, density, j in wanted:
        if gain > GAIN and splines.basis_size(density) <= budget:
            chosen.append((j, density))
            budget -= splines.basis_size(density)
    return tuple(chosen)


def best_density(column: Array, left: Array, most: int) -> tuple[float, int]:
    """The largest gain in log evidence by splines of one input, and their density.

    A column of few values, such as a category, needs no more functions than it has values.
    """
    most = min(most, len(column) // ROWS_A_FUNCTION, 2 * len(np.unique(column)))
    best = (0.0, COARSE)
    for density in range(COARSE + 1, FINEST + 1):
        if splines.basis_size(density) > most:
            break
        best = max(best, (max(spline_gains(column, left, density)), density))
    return best


def spline_gains(column: Array, left: Array, density: int) -> Iterable[float]:
    """Gain in log evidence by splines of one input at a density, for each precision of the prior."""
    functions, rows = splines.basis_size(density), len(column)
    banded, moment = np.zeros((functions, splines.ACTIVE)), np.zeros((functions, left.shape[1]))
    kernels.spline_sums(np.ascontiguousarray(column), left, density, banded, moment)
    square = (left**2).sum(axis=0) + 1e-12
    for precision in PRECISIONS:
        factor = dpbtrf((banded + precision * np.eye(1, splines.ACTIVE)).T, lower=1)[0]
        explained = (moment * dpbtrs(factor, moment, lower=1)[0]).sum(axis=0)
        volume = functions * np.log(precision) / 2 - np.log(factor[0]).sum()
        yield float(
            left.shape[1] * volume - rows / 2 * np.log1p(-np.minimum(explained / square, 1 - 1e-9)).sum()
        )


def interacting_pairs(points: Array, left: Array) -> tuple[tuple[int, int], ...]:
    """Pairs of inputs that what splines leave depends on, the best first; none if all gain little.

    Examples
    --------
    >>> points = np.random.default_rng(0).random((2000, 4))
    >>> interacting_pairs(points, np.sign(points[:, 1:2] - 0.5) * np.sign(points[:, 3:] - 0.5))[0]
    (1, 3)
    >>> interacting_pairs(points, np.random.default_rng(1).normal(size=(2000, 1)))
    ()
    """
    first, second = np.triu_indices(points.shape[1], 1)
    gains = pair_gains(points, left)[first, second]
    best = [k for k in np.argsort(-gains)[:MOST_PAIRS] if gains[k] > GAIN]
    if gains[best].sum() < PAIRS_GAIN:
        return ()
    return tuple((int(first[k]), int(second[k])) for k in best)


def pair_gains(points: Array, left: Array) -> Array:
    """Gain in log evidence by a mean for each cell of the bins of two inputs, shape (inputs, inputs)."""
    rows, inputs = points.shape
    shape = (inputs, BINS, inputs, BINS)
    members = np.zeros((rows, inputs * BINS))  # 1 for the bin of each input that a row is in
    for j, column in enumerate(points.T):
        members[np.arange(rows), j * BINS + bins_of(column)] = 1
    sizes = (members.T @ members).reshape(shape)
    gains = np.zeros((inputs, inputs))
    for column in left.T:
        centred = column - column.mean()
        sums = (members.T @ (members * centred[:, None])).reshape(shape)
        explained = (sums**2 / (sizes + BIN_PRECISION)).sum(axis=(1, 3)) / (centred @ centred + 1e-12)
        gains -= rows / 2 * np.log1p(-np.minimum(explained, 1 - 1e-9))
    return gains - left.shape[1] / 2 * np.log1p(sizes / BIN_PRECISION).sum(axis=(1, 3))


def bins_of(column: Array) -> NDArray[np.intp]:
    """Number of the bin of each row: the values of a column that has few, otherwise its quantiles."""
    values = np.unique(column)
    if len(values) > BINS:
        values = np.unique(np.quantile(column, np.arange(BINS) / BINS))
    return np.asarray(np.searchsorted(values, column, side="right") - 1)


ENOUGH = 2.0  # times the tolerance, in standard deviations of a target: errors up to there may grow
LEAST_BUMPS = 100  # that stay: what rows to come have to say is not known, and so few cost little


def kept_features(
    features: Features, statistics: Statistics, posterior: Posterior, tolerance: float
) -> NDArray[np.bool_]:
    """Which features are kept, shape (features,): all but bumps without which errors hardly grow.

    The bump goes that the readout misses least, one after the other: without feature j the squared errors
    grow by w_j²/(Λ⁻¹)_jj, (43). What counts is how large errors would be with endless rows, Σe²/(n − d) for
    d weights that the rows determine, so that features do not stay for the noise that they have learned.
    Errors may grow by the tolerance, or up to twice that share of the target's standard deviation.

    Parameters
    ----------
    features
        The features.
    statistics
        Sums of some rows.
    posterior
        What they say.
    tolerance
        Share by which the root of the mean squared error may grow; with 0 all are kept.

    Examples
    --------
    >>> from atlas_splines.memory.initial_fit import fit_features
    >>> points = np.random.default_rng(0).random((2000, 2))
    >>> solved = fit_features(points, np.sin(3 * points.sum(axis=1, keepdims=True)), budget=200)
    >>> kept = kept_features(solved.features, solved.statistics, solved.posterior, 0.01)
    >>> 100 < kept.sum() < 150 < len(kept)
    True
    """
    kept = np.ones(len(features), np.bool_)
    radial_bases = sum(len(group.centres) for group in features.radial_bases)
    if not tolerance or posterior.face is not None or radial_bases <= LEAST_BUMPS:
        return kept
    precision = posterior.prior.diagonal
    inverse = inverse_of(posterior.factor)  # Λ⁻¹
    weights = posterior.weights.copy()
    left = statistics.square - np.einsum("ij,ij->j", weights, statistics.moment)  # (outputs,)
    usual = left / (statistics.count - determined(inverse, precision, kept))
    variance = statistics.square / statistics.count - (statistics.moment[0] / statistics.count) ** 2
    allowed = np.maximum((1 + tolerance) ** 2 * usual, (ENOUGH * tolerance) ** 2 * variance)
    may_go = np.arange(len(features)) >= len(features) - radial_bases
    for _ in range(radial_bases - LEAST_BUMPS):
        own = np.diag(inverse)
        cost = np.full(len(features), np.inf)
        cost[may_go] = (weights[may_go] ** 2 / usual).sum(axis=1) / own[may_go]
        j = int(np.argmin(cost))
        left = left + weights[j] ** 2 / own[j]
        column = inverse[:, j] / own[j]
        weights -= np.outer(column, weights[j])
        inverse = dger(-1.0, column, inverse[j].copy(), a=inverse, overwrite_a=True)  # where it is
        may_go[j] = False
        without = kept.copy()
        without[j] = False
        errors = left / (statistics.count - determined(inverse, precision, without))
        if np.mean(errors / allowed) > 1:
            break
        kept = without
    return kept


def inverse_of(factor: Array) -> Array:
    """Λ⁻¹ of the lower Cholesky factor of Λ."""
    lower = np.tril(dpotri(factor, lower=1)[0])
    return np.asfortranarray(lower + np.tril(lower, -1).T)


def determined(inverse: Array, precision: Array, kept: NDArray[np.bool_]) -> float:
    """How many weights the rows determine, and not the prior."""
    return float((1 - precision * np.diag(inverse))[kept].sum())


def pruned_prior(prior: Prior, kept: NDArray[np.bool_]) -> Prior:
    """The prior of the features that are kept; groups that lose all of them are gone."""
    sizes = np.add.reduceat(kept, prior.starts, dtype=np.int64) * (np.array(prior.sizes) > 0)
    there = (sizes > 0) | (np.array(prior.sizes) == 0)
    return replace(prior, sizes=tuple(sizes[there].tolist()), precisions=prior.precisions[there])
