"""Thinning: fewer bumps that predict as well, for data of which each row has its price.

Sums over rows cost the square of the number of features. Which bumps can go is told by the sums of a sample:
no row is looked at.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpotri

from atlas_splines.evidence.features import Features
from atlas_splines.evidence.readout import Prior, Readout
from atlas_splines.evidence.statistics import Statistics

__all__ = ["kept_features", "thinned_prior"]

Array = NDArray[np.float64]

ENOUGH = 2.0  # times the tolerance, in standard deviations of a target: errors up to there may grow
LEAST_BUMPS = 100  # that stay: what rows to come have to say is not known, and so few cost little


def kept_features(
    features: Features, statistics: Statistics, readout: Readout, tolerance: float
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
    readout
        What they say.
    tolerance
        Share by which the root of the mean squared error may grow; with 0 all are kept.

    Examples
    --------
    >>> from atlas_splines.evidence.design import solve_first
    >>> points = np.random.default_rng(0).random((2000, 2))
    >>> solved = solve_first(points, np.sin(3 * points.sum(axis=1, keepdims=True)), budget=200)
    >>> kept = kept_features(solved.features, solved.statistics, solved.readout, 0.01)
    >>> 100 < kept.sum() < 150 < len(kept)
    True
    """
    kept = np.ones(len(features), np.bool_)
    bumps = sum(len(group.centres) for group in features.bumps)
    if not tolerance or readout.face is not None or bumps <= LEAST_BUMPS:
        return kept
    precision = readout.prior.diagonal
    inverse = inverse_of(readout.factor)  # Λ⁻¹
    weights = readout.weights.copy()
    left = statistics.square - np.einsum("ij,ij->j", weights, statistics.moment)  # (outputs,)
    usual = left / (statistics.count - determined(inverse, precision, kept))
    variance = statistics.square / statistics.count - (statistics.moment[0] / statistics.count) ** 2
    allowed = np.maximum((1 + tolerance) ** 2 * usual, (ENOUGH * tolerance) ** 2 * variance)
    may_go = np.arange(len(features)) >= len(features) - bumps
    for _ in range(bumps - LEAST_BUMPS):
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


def thinned_prior(prior: Prior, kept: NDArray[np.bool_]) -> Prior:
    """The prior of the features that are kept; groups that lose all of them are gone."""
    sizes = np.add.reduceat(kept, prior.starts, dtype=np.int64) * (np.array(prior.sizes) > 0)
    there = (sizes > 0) | (np.array(prior.sizes) == 0)
    return replace(prior, sizes=tuple(sizes[there].tolist()), precisions=prior.precisions[there])
