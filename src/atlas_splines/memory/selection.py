"""Feature selection: length scales, relevant inputs and interactions by marginal likelihood, and pruning.

Automatic relevance determination (Neal, 1996; Rasmussen and Williams, 2006, section 5.1) and backward
elimination.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    "SELECTION_RULES",
    "SelectionRules",
    "coarse_gains",
    "finer_splines",
    "interacting_pairs",
    "kept_features",
    "length_scales",
    "pruned_prior",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SelectionRules:
    """Rules of feature selection; where no measurement is given, none chose the value.

    Attributes
    ----------
    sample
        Rows of the Gaussian process that gives length scales. 320 take three times as long for the same
        errors on 23 tables.
    steps, tolerance
        Optimiser steps for length scales, at most, and the relative gain in log likelihood below which it
        stops.
    gain
        Log marginal likelihood for which an input gets finer splines, or a pair is a candidate.
    rows_per_function
        Least rows for each function of finer splines.
    most_functions
        Functions of all inputs at one density, at most: the limit of a model's table.
    most_pairs, pairs_gain
        Pairs at most, and the log marginal likelihood for which they pay: functions of all inputs model most
        interactions.
    bins, bin_precision
        Bins of an input in the test of its pairs, and precision of the prior of a bin's mean.
    precisions
        Prior precisions of splines in the test of a density.
    free_error
        Times the tolerance, in standard deviations of a target: errors may always grow up to there.
    least_centres
        Radial basis functions that stay: later rows may need them, and so few cost little.
    """

    sample: int = 200
    steps: int = 15
    tolerance: float = 1e-5
    gain: float = 3.0
    rows_per_function: int = 4
    most_functions: int = 2048
    most_pairs: int = 6
    pairs_gain: float = 100.0
    bins: int = 8
    bin_precision: float = 3.0
    precisions: tuple[float, ...] = (0.3, 3.0, 30.0)
    free_error: float = 2.0
    least_centres: int = 100


SELECTION_RULES = SelectionRules()


def length_scales(points: Array, targets: Array, random: np.random.Generator) -> Array:
    """Length scale of each input, shape (inputs,): maximum likelihood of a Gaussian process.

    Long for irrelevant inputs.
    """
    rows = random.permutation(len(points))[: SELECTION_RULES.sample]
    deviations = points.std(axis=0) + 1e-3
    x, y = points[rows] / deviations, targets[rows] - targets[rows].mean(axis=0)
    inputs, variance = x.shape[1], float(y.var()) + 1e-6
    usual = -0.5 * np.log(inputs)
    start = np.concatenate([np.full(inputs, usual), np.log([variance, 0.1 * variance])])
    bounds = [(-6, 4)] * inputs + [(np.log(variance) - 5, np.log(variance) + 8), (np.log(1e-4 * variance), 3)]
    options = {"maxiter": SELECTION_RULES.steps, "ftol": SELECTION_RULES.tolerance}
    found = minimize(
        negative_likelihood, start, (x, y, usual), "L-BFGS-B", True, bounds=bounds, options=options
    )
    return deviations * np.exp(-found.x[:inputs])


def negative_likelihood(parameters: Array, x: Array, y: Array, usual: float) -> tuple[float, Array]:
    """Negative log likelihood of a Gaussian process and its gradient.

    Parameters are the logarithms of 1/ℓ_j, of the signal variance and of the noise variance. A wide normal
    prior keeps 1/ℓ_j bounded where the data does not determine it.
    """
    inputs, outputs = x.shape[1], y.shape[1]
    variance, noise = np.exp(parameters[inputs:])
    z = x * np.exp(parameters[:inputs])
    kernel = z @ z.T  # (rows, rows); updated in place, since a copy costs as much as the arithmetic
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
    weighted = outer * kernel
    by_length = 2 * ((z**2).T @ weighted.sum(axis=1) - np.einsum("ij,ij->j", z, weighted @ z))
    by_variance = weighted.sum() + variance * outer.sum()
    gradient = -0.5 * np.concatenate([-by_length, [by_variance, noise * np.trace(outer)]])
    apart = parameters[:inputs] - usual
    gradient[:inputs] += apart / 4
    value = 0.5 * (y * solved).sum() + outputs * log_root + (apart**2).sum() / 8
    return float(value), gradient


def coarse_gains(points: Array, targets: Array) -> Array:
    """Gain in log marginal likelihood by coarse splines of each input alone, shape (inputs,).

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
    """Pairs (input, density) of finer splines that gain on the residuals of coarse ones, best first.

    None is finer than `finest`, which depends on the other channels of the model.
    """
    most = min(SELECTION_RULES.most_functions // points.shape[1], splines.basis_size(finest))
    wanted = sorted(
        ((*best_density(column, left, most), j) for j, column in enumerate(points.T)), reverse=True
    )
    chosen: list[tuple[int, int]] = []
    for gain, density, j in wanted:
        if gain > SELECTION_RULES.gain and splines.basis_size(density) <= budget:
            chosen.append((j, density))
            budget -= splines.basis_size(density)
    return tuple(chosen)


def best_density(column: Array, left: Array, most: int) -> tuple[float, int]:
    """Largest gain in log marginal likelihood by splines of one input, and their density.

    A column of few values, such as a category, needs no more functions than values.
    """
    most = min(most, len(column) // SELECTION_RULES.rows_per_function, 2 * len(np.unique(column)))
    best = (0.0, COARSE)
    for density in range(COARSE + 1, FINEST + 1):
        if splines.basis_size(density) > most:
            break
        best = max(best, (max(spline_gains(column, left, density)), density))
    return best


def spline_gains(column: Array, left: Array, density: int) -> Iterable[float]:
    """Gains in log marginal likelihood by splines of one input at a density, for each prior precision."""
    functions, rows = splines.basis_size(density), len(column)
    banded, moment = np.zeros((functions, splines.ACTIVE)), np.zeros((functions, left.shape[1]))
    kernels.spline_sums(np.ascontiguousarray(column), left, density, banded, moment)
    square = (left**2).sum(axis=0) + 1e-12
    for precision in SELECTION_RULES.precisions:
        factor = dpbtrf((banded + precision * np.eye(1, splines.ACTIVE)).T, lower=1)[0]
        explained = (moment * dpbtrs(factor, moment, lower=1)[0]).sum(axis=0)
        volume = functions * np.log(precision) / 2 - np.log(factor[0]).sum()
        yield float(
            left.shape[1] * volume - rows / 2 * np.log1p(-np.minimum(explained / square, 1 - 1e-9)).sum()
        )


def interacting_pairs(points: Array, left: Array) -> tuple[tuple[int, int], ...]:
    """Pairs of inputs with an interaction in the residuals of splines, the best first; none for little gain.

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
    best = [k for k in np.argsort(-gains)[: SELECTION_RULES.most_pairs] if gains[k] > SELECTION_RULES.gain]
    if gains[best].sum() < SELECTION_RULES.pairs_gain:
        return ()
    return tuple((int(first[k]), int(second[k])) for k in best)


def pair_gains(points: Array, left: Array) -> Array:
    """Gain in log marginal likelihood by a mean for each cell of two inputs' bins, shape (inputs, inputs)."""
    rows, inputs = points.shape
    shape = (inputs, SELECTION_RULES.bins, inputs, SELECTION_RULES.bins)
    members = np.zeros((rows, inputs * SELECTION_RULES.bins))  # indicators of the bin of each input
    for j, column in enumerate(points.T):
        members[np.arange(rows), j * SELECTION_RULES.bins + bins_of(column)] = 1
    sizes = (members.T @ members).reshape(shape)
    gains = np.zeros((inputs, inputs))
    for column in left.T:
        centred = column - column.mean()
        sums = (members.T @ (members * centred[:, None])).reshape(shape)
        explained = (sums**2 / (sizes + SELECTION_RULES.bin_precision)).sum(axis=(1, 3)) / (
            centred @ centred + 1e-12
        )
        gains -= rows / 2 * np.log1p(-np.minimum(explained, 1 - 1e-9))
    return gains - left.shape[1] / 2 * np.log1p(sizes / SELECTION_RULES.bin_precision).sum(axis=(1, 3))


def bins_of(column: Array) -> NDArray[np.intp]:
    """Bin of each row: by distinct values if there are few, otherwise by quantiles."""
    values = np.unique(column)
    if len(values) > SELECTION_RULES.bins:
        values = np.unique(np.quantile(column, np.arange(SELECTION_RULES.bins) / SELECTION_RULES.bins))
    return np.asarray(np.searchsorted(values, column, side="right") - 1)


def kept_features(
    features: Features, statistics: Statistics, posterior: Posterior, tolerance: float
) -> NDArray[np.bool_]:
    """Mask of the features to keep, shape (features,): all but centres without which errors hardly grow.

    Backward elimination: the centre with the smallest cost is removed first; without feature j the squared
    errors grow by w_j²/(Λ⁻¹)_jj, (43). The criterion estimates the error with unlimited rows, Σe²/(n − d) for
    d effective degrees of freedom, so that features are not kept for fitted noise. Errors may grow by the
    tolerance, or up to twice that share of the target's standard deviation.

    Parameters
    ----------
    features
        The features.
    statistics
        Statistics of some rows.
    posterior
        Posterior from them.
    tolerance
        Relative growth of the root mean squared error that is allowed; with 0 all are kept.

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
    if not tolerance or posterior.face is not None or radial_bases <= SELECTION_RULES.least_centres:
        return kept
    precision = posterior.prior.diagonal
    inverse = inverse_of(posterior.factor)  # Λ⁻¹
    weights = posterior.weights.copy()
    left = statistics.square - np.einsum("ij,ij->j", weights, statistics.moment)  # (outputs,)
    usual = left / (statistics.count - effective_freedom(inverse, precision, kept))
    variance = statistics.square / statistics.count - (statistics.moment[0] / statistics.count) ** 2
    allowed = np.maximum(
        (1 + tolerance) ** 2 * usual, (SELECTION_RULES.free_error * tolerance) ** 2 * variance
    )
    removable = np.arange(len(features)) >= len(features) - radial_bases
    for _ in range(radial_bases - SELECTION_RULES.least_centres):
        own = np.diag(inverse)
        cost = np.full(len(features), np.inf)
        cost[removable] = (weights[removable] ** 2 / usual).sum(axis=1) / own[removable]
        j = int(np.argmin(cost))
        left = left + weights[j] ** 2 / own[j]
        column = inverse[:, j] / own[j]
        weights -= np.outer(column, weights[j])
        inverse = dger(-1.0, column, inverse[j].copy(), a=inverse, overwrite_a=True)  # in place
        removable[j] = False
        without = kept.copy()
        without[j] = False
        errors = left / (statistics.count - effective_freedom(inverse, precision, without))
        if np.mean(errors / allowed) > 1:
            break
        kept = without
    return kept


def inverse_of(factor: Array) -> Array:
    """Λ⁻¹ from the lower Cholesky factor of Λ."""
    lower = np.tril(dpotri(factor, lower=1)[0])
    return np.asfortranarray(lower + np.tril(lower, -1).T)


def effective_freedom(inverse: Array, precision: Array, kept: NDArray[np.bool_]) -> float:
    """Effective degrees of freedom of the features that are kept: Σ 1 − λ(Λ⁻¹)_jj."""
    return float((1 - precision * np.diag(inverse))[kept].sum())


def pruned_prior(prior: Prior, kept: NDArray[np.bool_]) -> Prior:
    """The prior of the features that are kept; groups that become empty are dropped."""
    sizes = np.add.reduceat(kept, prior.starts, dtype=np.int64) * (np.array(prior.sizes) > 0)
    there = (sizes > 0) | (np.array(prior.sizes) == 0)
    return replace(prior, sizes=tuple(sizes[there].tolist()), precisions=prior.precisions[there])
