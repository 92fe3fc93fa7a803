"""Classes: the readout that makes classes most likely, by Newton's way with a curvature that bounds all.

The cross-entropy of softmax(φW) curves at most half as much as least squares do (Böhning and Lindsay, 1988),
so one Cholesky factor serves every step: L-BFGS on W, seen through it, needs a few dozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp, softmax

from atlas_splines.evidence.readout import Readout

__all__ = ["FOLDS", "class_weights"]

Array = NDArray[np.float64]
Mapper = Callable[[Callable[[int], Array], Iterable[int]], Iterable[Any]]

STRENGTHS = (0.1, 1.0, 10.0, 100.0)  # of the prior, over that of least squares
JUDGED = 1000  # rows that the strength of the prior is chosen on
FOLDS = 4
STEPS = 40  # of the optimiser
JUDGING_STEPS = 15  # of it, where only the strength of the prior is in question
SHARPEST = 20.0  # factor of the scores


def class_weights(
    phi: Array,
    labels: Array,
    weights: Array | None,
    readout: Readout,
    seed: int = 0,
    folds: NDArray[np.intp] | None = None,
    run: Mapper = map,
) -> tuple[Array, NDArray[np.intp], Array]:
    """Weights W for which softmax(φW) predicts classes best, calibrated on rows that were set aside.

    Also returns the numbers of these rows, and their scores by readouts without them.

    Parameters
    ----------
    phi
        Features, shape (rows, features).
    labels
        Indicators of classes, shape (rows, classes).
    weights
        Weight of each row, about 1; shape (rows,).
    readout
        Least squares of the same data, whose prior tells the sizes of features' weights.
    seed
        Of the choice of rows to set aside.
    folds
        Those with the same number are set aside together, shape (rows,); by default any.
    run
        Maps a function over numbers, in threads or not.

    Examples
    --------
    >>> from atlas_splines.evidence.readout import Prior, readout_of
    >>> x = np.linspace(-1, 1, 200)[:, None]
    >>> phi, labels = np.hstack([np.ones_like(x), x]), np.hstack([x < 0, x >= 0]).astype(float)
    >>> W, _, _ = class_weights(phi, labels, None, readout_of(phi, labels, Prior.flat([2]), steps=2))
    >>> softmax(np.array([[1.0, -0.5], [1.0, 0.5]]) @ W, axis=1).round(1)
    array([[1., 0.],
           [0., 1.]])
    """
    weights = np.ones(len(phi)) if weights is None else weights
    precision = (
        readout.prior.diagonal / 4
    )  # a score of classes is about twice as sure as one of least squares
    sample = np.random.default_rng(seed).permutation(len(phi))[:JUDGED]
    fold = np.arange(len(sample)) % FOLDS if folds is None else folds[sample]
    if len(np.unique(fold)) < 2:  # all other groups are so small that the sample has missed them
        fold = np.arange(len(sample)) % FOLDS
    _, sharpness, strength, scores = best_strength(
        phi[sample], labels[sample], weights[sample], precision, fold, run
    )
    found = sharpness * most_likely(phi, labels, weights, strength * precision)
    return found, sample, sharpness * scores


def best_strength(
    phi: Array, labels: Array, weights: Array, precision: Array, fold: NDArray[np.intp], run: Mapper
) -> tuple[float, float, float, Array]:
    """Lowest mean cross-entropy on rows set aside, factor of scores, strength of the prior, the scores."""

    def without_fold(k: int, strength: float) -> Array:
        learned = fold != k
        return most_likely(
            phi[learned], labels[learned], weights[learned], strength * precision, JUDGING_STEPS
        )

    numbers = np.unique(fold).tolist()
    judged = []
    for strength in STRENGTHS:
        scores = np.zeros_like(labels)
        for k, found in zip(numbers, run(partial(without_fold, strength=strength), numbers), strict=True):
            scores[fold == k] = phi[fold == k] @ found
        judged.append((*calibrated(scores, labels, weights), strength, scores))
    return min(judged, key=lambda choice: choice[:3])


def calibrated(scores: Array, labels: Array, weights: Array) -> tuple[float, float]:
    """Lowest mean cross-entropy that a common factor of the scores reaches, and that factor."""
    found = minimize_scalar(
        lambda log_factor: mean_entropy(np.exp(log_factor) * scores, labels, weights),
        bounds=(-np.log(SHARPEST), np.log(SHARPEST)),
        method="bounded",
    )
    return float(found.fun), float(np.exp(found.x))


def mean_entropy(scores: Array, labels: Array, weights: Array) -> float:
    """Mean cross-entropy of the softmax of scores."""
    each = logsumexp(scores, axis=1) - (scores * labels).sum(axis=1)
    return float(np.average(each, weights=weights))


def most_likely(phi: Array, labels: Array, weights: Array, precision: Array, steps: int = STEPS) -> Array:
    """Weights of least cross-entropy plus ½ Σ precision·W², shape (features, classes)."""
    features, classes = phi.shape[1], labels.shape[1]
    curvature = phi.T @ (phi * (weights / 2)[:, None])
    curvature[np.diag_indices(features)] += precision
    factor = cholesky(curvature, lower=True, check_finite=False)
    seen = solve_triangular(
        factor, phi.T, lower=True, check_finite=False
    ).T  # φL⁻ᵀ, so that steps are of one size

    def loss(flat: Array) -> tuple[float, Array]:
        through = flat.reshape(features, classes)
        W = solve_triangular(factor, through, lower=True, trans="T", check_finite=False)
        scores = seen @ through
        pull = precision[:, None] * W
        value = weights.sum() * mean_entropy(scores, labels, weights) + 0.5 * (W * pull).sum()
        slope = seen.T @ (weights[:, None] * (softmax(scores, axis=1) - labels))
        slope += solve_triangular(factor, pull, lower=True, check_finite=False)
        return float(value), slope.ravel()

    found = minimize(
        loss, np.zeros(features * classes), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    )
    through = found.x.reshape(features, classes)
    return np.asarray(solve_triangular(factor, through, lower=True, trans="T", check_finite=False))
