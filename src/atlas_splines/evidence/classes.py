"""Classes: the readout that makes classes most likely, by Newton's way with a curvature that bounds all.

The cross-entropy of softmax(φW) curves at most half as much as least squares do (Böhning and Lindsay, 1988),
so one Cholesky factor serves every step: L-BFGS on W, seen through it, needs a few dozen. How strong the
prior is to be is chosen on a sample, with rows set aside in turn; all these problems are solved at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.linalg.lapack import dtrtri
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from atlas_splines.evidence.readout import Readout

__all__ = ["FOLDS", "class_weights"]

Array = NDArray[np.float64]

STRENGTHS = (100.0, 10.0, 1.0, 0.1)  # of the prior, over that of least squares
JUDGED = 1000  # rows that the strength of the prior is chosen on
FOLDS = 4
STEPS = 40  # of the optimiser
NEGLIGIBLE = 1e-6  # share of the loss that a step must gain, or it is the last
JUDGING_STEPS = 15  # of it, where only the strength of the prior is in question
SHARPEST = 20.0  # factor of the scores


class Strength(NamedTuple):
    """A strength of the prior, and how well classes are predicted with it."""

    strength: float
    entropy: float  # mean cross-entropy on rows set aside
    sharpness: float  # factor of the scores with which it is that
    scores: Array  # of these rows by readouts without them, (rows, classes)
    weights: Array  # mean of these readouts, (features, classes): more rows may start from it


def class_weights(
    phi: NDArray[np.floating],
    labels: Array,
    weights: Array | None,
    readout: Readout,
    seed: int = 0,
    folds: NDArray[np.intp] | None = None,
) -> tuple[Array, NDArray[np.intp], Array]:
    """Weights W for which softmax(φW) predicts classes best, calibrated on rows that were set aside.

    Also returns the numbers of these rows, and their scores by readouts without them.

    Parameters
    ----------
    phi
        Features, shape (rows, features); float32 is enough, and faster.
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

    Examples
    --------
    >>> from atlas_splines.evidence.readout import Prior, readout_of
    >>> x = np.linspace(-1, 1, 200)[:, None]
    >>> phi, labels = np.hstack([np.ones_like(x), x]), np.hstack([x < 0, x >= 0]).astype(float)
    >>> W, _, _ = class_weights(phi, labels, None, readout_of(phi, labels, Prior.flat([2]), steps=2))
    >>> from scipy.special import softmax
    >>> softmax(np.array([[1.0, -0.5], [1.0, 0.5]]) @ W, axis=1).round(1)
    array([[1., 0.],
           [0., 1.]])
    """
    weights = np.ones(len(phi)) if weights is None else weights
    precision = readout.prior.diagonal / 4  # scores of classes are about twice as sure as least squares
    gram = readout.factor @ readout.factor.T - np.diag(readout.prior.diagonal)
    sample = np.random.default_rng(seed).permutation(len(phi))[:JUDGED]
    fold = np.arange(len(sample)) % FOLDS if folds is None else folds[sample]
    if len(np.unique(fold)) < 2:  # all other groups are so small that the sample has missed them
        fold = np.arange(len(sample)) % FOLDS
    best = best_strength(phi[sample], labels[sample], weights[sample], precision, gram, fold)
    found = most_likely(phi, labels, weights, best.strength * precision, gram, best.weights)
    return best.sharpness * found, sample, best.sharpness * best.scores


def best_strength(
    phi: NDArray[np.floating],
    labels: Array,
    weights: Array,
    precision: Array,
    gram: Array,
    fold: NDArray[np.intp],
) -> Strength:
    """The strength of the prior with the lowest mean cross-entropy on rows set aside.

    Each strength starts from the weights of the one before, and the first that is no better is the last.
    """
    numbers, place = np.unique(fold, return_inverse=True)
    rows, shape = np.arange(len(phi)), (-1, len(numbers), labels.shape[1])
    learned = np.where(place[:, None] == np.arange(len(numbers)), 0.0, weights[:, None])  # (rows, folds)
    found: Array | None = None
    best: Strength | None = None
    for strength in STRENGTHS:
        found = most_likely(phi, labels, learned, strength * precision, gram, found, JUDGING_STEPS)
        scores = (phi @ found.astype(phi.dtype)).reshape(shape)[rows, place].astype(np.float64)
        entropy, sharpness = calibrated(scores, labels, weights)
        if best is not None and entropy >= best.entropy:
            break
        best = Strength(strength, entropy, sharpness, scores, found.reshape(shape).mean(axis=1))
    assert best is not None  # there is a strength to begin with
    return best


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


def most_likely(
    phi: NDArray[np.floating],
    labels: Array,
    weights: Array,
    precision: Array,
    gram: Array,
    start: Array | None = None,
    steps: int = STEPS,
) -> Array:
    """Weights of least cross-entropy plus ½ Σ precision·W², shape (features, classes).

    Parameters
    ----------
    phi, labels
        As in `class_weights`.
    weights
        Weight of each row, shape (rows,); or of each row in each of several problems that are solved at once,
        shape (rows, problems): then the result has the shape (features, problems · classes).
    precision
        Of the prior of each feature, shape (features,).
    gram
        Σφφᵀ of these rows or of more, shape (features, features): steps are seen through it.
    start
        Where to start, in the shape of the result; zero by default.
    steps
        Of the optimiser.
    """
    rows, features = phi.shape
    weights = weights.reshape(rows, -1, 1)  # (rows, problems, 1)
    share = weights[:, :, 0].max(axis=1) @ np.einsum("ij,ij->i", phi, phi) / np.trace(gram)
    curvature = share / 2 * gram
    curvature[np.diag_indices(features)] += precision
    factor = cholesky(curvature, lower=True, check_finite=False)
    half, _ = dtrtri(factor, lower=1)  # W = L⁻ᵀ·(what the optimiser sees), so that steps are of one size

    def loss(flat: Array) -> tuple[float, Array]:
        W = half.T @ flat.reshape(features, -1)
        scores = (phi @ W.astype(phi.dtype)).astype(np.float64).reshape(rows, -1, labels.shape[1])
        scores -= scores.max(axis=2, keepdims=True)
        own = np.einsum("ijk,ik->ij", scores, labels)
        chances = np.exp(scores, out=scores)  # in place: rows may be many
        total = chances.sum(axis=2, keepdims=True)
        pull = precision[:, None] * W
        value = (weights * (np.log(total) - own[:, :, None])).sum() + 0.5 * (W * pull).sum()
        chances /= total
        chances -= labels[:, None]
        chances *= weights
        slope = half @ (phi.T @ chances.reshape(rows, -1).astype(phi.dtype) + pull)
        return float(value), slope.ravel()

    if start is None:
        start = np.zeros((features, weights.shape[1] * labels.shape[1]))
    options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": NEGLIGIBLE}
    found = minimize(loss, (factor.T @ start).ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(half.T @ found.x.reshape(features, -1))
