"""Classes: the readout that makes classes most likely, by Newton's way with a curvature that bounds all.

The cross-entropy of softmax(φW) curves at most half as much as least squares do (Böhning and Lindsay, 1988),
so one Cholesky factor serves every step: L-BFGS on W, seen through it, needs a few dozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp

from atlas_splines.evidence.cones import Cone, factor_of
from atlas_splines.evidence.readout import Readout

__all__ = ["ClassPrior", "Mapper", "class_prior", "mean_entropy", "most_likely"]

Array = NDArray[np.float64]
Numbers = NDArray[np.intp]
Mapper = Callable[[Callable[[int], Array], Iterable[int]], Iterable[Any]]

FIRST_STRENGTH = 10.0  # of the prior, over that of least squares
STRONGER, WEAKER = (100.0,), (1.0, 0.1)  # strengths that are tried from there, while that helps
JUDGED = 1000  # rows that the strength of the prior is chosen on
FOLDS = 4
STEPS = 40  # of the optimiser
JUDGING_STEPS = 10  # of it, where only the strength of the prior is in question
SHARPEST = 20.0  # factor of the scores


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """How large the weights of classes are expected to be, as rows that were set aside tell.

    Attributes
    ----------
    precision
        Precision of the weights of each feature, shape (features,).
    sharpness
        Factor that calibrates the scores.
    entropy
        Mean cross-entropy of the calibrated scores on rows that were set aside.
    """

    precision: Array
    sharpness: float
    entropy: float


def class_prior(
    phi: Array,
    labels: Array,
    weights: Array,
    readout: Readout,
    seed: int = 0,
    groups: Numbers | None = None,
    run: Mapper = map,
) -> ClassPrior:
    """The prior of classes that predicts rows set aside best, and how sure to be of their scores.

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
    groups
        Rows with the same number are set aside together, shape (rows,).
    run
        Maps a function over numbers, in threads or not.

    Examples
    --------
    >>> from scipy.special import softmax
    >>> from atlas_splines.evidence.readout import Prior, readout_of
    >>> x, ones = np.linspace(-1, 1, 200)[:, None], np.ones(200)
    >>> phi, labels = np.hstack([np.ones_like(x), x]), np.hstack([x < 0, x >= 0]).astype(float)
    >>> prior = class_prior(phi, labels, ones, readout_of(phi, labels, Prior.flat([2]), steps=2))
    >>> W = prior.sharpness * most_likely(phi, labels, ones, prior.precision)
    >>> softmax(np.array([[1.0, -0.5], [1.0, 0.5]]) @ W, axis=1).round(1)
    array([[1., 0.],
           [0., 1.]])
    """
    # a score of classes is about twice as sure as one of least squares
    precision = readout.prior.diagonal / 4
    sample = np.random.default_rng(seed).permutation(len(phi))[:JUDGED]
    fold = folds_of(len(sample), None if groups is None else groups[sample])
    entropy, sharpness, strength = best_strength(
        phi[sample], labels[sample], weights[sample], precision, fold, run, readout.prior.cone
    )
    return ClassPrior(strength * precision, sharpness, entropy)


def folds_of(rows: int, groups: Numbers | None) -> Numbers:
    """Number of the fold of each row: that of its group, if there are several groups.

    Examples
    --------
    >>> folds_of(6, None), folds_of(6, np.array([7, 7, 9, 8, 9, 2]))
    (array([0, 1, 2, 3, 0, 1]), array([1, 1, 3, 2, 3, 0]))
    """
    if groups is None or len(np.unique(groups)) < 2:  # a sample may have missed all groups but a large one
        return np.arange(rows) % FOLDS
    return np.unique(groups, return_inverse=True)[1] % FOLDS


def best_strength(
    phi: Array,
    labels: Array,
    weights: Array,
    precision: Array,
    fold: Numbers,
    run: Mapper,
    cone: Cone | None = None,
) -> tuple[float, float, float]:
    """Lowest mean cross-entropy on rows set aside, the factor of the scores and the strength of the prior."""
    rows = phi, labels, weights, fold, run, cone
    entropy, sharpness, first = set_aside(*rows, FIRST_STRENGTH * precision, [None] * FOLDS)
    best = (entropy, sharpness, FIRST_STRENGTH)
    for side in (WEAKER, STRONGER):
        found = first
        for strength in side:
            entropy, sharpness, found = set_aside(*rows, strength * precision, found)
            if entropy >= best[0]:
                break
            best = (entropy, sharpness, strength)
        if best[2] != FIRST_STRENGTH:
            break
    return best


def set_aside(
    phi: Array,
    labels: Array,
    weights: Array,
    fold: Numbers,
    run: Mapper,
    cone: Cone | None,
    precision: Array,
    starts: Sequence[Array | None],
) -> tuple[float, float, list[Array]]:
    """Calibrated cross-entropy of each fold without itself, the factor, and the weights without each fold.

    They start from weights that are near, those for another precision, or else from zero.
    """

    def without_fold(k: int) -> Array:
        learned = fold != k
        rows = phi[learned], labels[learned], weights[learned]
        return most_likely(*rows, precision, JUDGING_STEPS, starts[k], cone)

    found, scores = list(run(without_fold, range(FOLDS))), np.zeros_like(labels)
    for k, W in enumerate(found):
        scores[fold == k] = phi[fold == k] @ W
    return *calibrated(scores, labels, weights), found


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
    phi: Array,
    labels: Array,
    weights: Array,
    precision: Array,
    steps: int = STEPS,
    start: Array | None = None,
    cone: Cone | None = None,
) -> Array:
    """Weights of least cross-entropy plus ½ Σ precision·W², in a cone if there is one: (features, classes).

    Starts from weights that may be near, or else from zero.
    """
    shape = (phi.shape[1], labels.shape[1])
    curvature = phi.T @ (phi * (weights / 2)[:, None])
    curvature[np.diag_indices(shape[0])] += precision
    view = FreeView(curvature) if cone is None else ConeView(curvature, cone)

    def loss(flat: Array) -> tuple[float, Array]:
        W = view.weights_of(flat.reshape(shape))
        scores, pull = phi @ W, precision[:, None] * W
        total = logsumexp(scores, axis=1, keepdims=True)
        value = weights @ (total[:, 0] - (scores * labels).sum(axis=1)) + 0.5 * (W * pull).sum()
        slope = phi.T @ (weights[:, None] * (np.exp(scores - total) - labels)) + pull
        return float(value), view.pulled_back(slope).ravel()

    first = np.zeros(shape) if start is None else view.seen_of(start)
    found = minimize(
        loss,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=view.bounds,
        options={"maxiter": steps * view.patience},
    )
    return view.weights_of(found.x.reshape(shape))


class FreeView:
    """Weights L⁻ᵀV of variables V along which the bound curves by 1 everywhere."""

    bounds = None
    patience = 1

    def __init__(self, curvature: Array) -> None:
        self.factor = cholesky(curvature, lower=True, check_finite=False)

    def weights_of(self, seen: Array) -> Array:
        """Weights of variables."""
        return np.asarray(solve_triangular(self.factor, seen, lower=True, trans="T", check_finite=False))

    def seen_of(self, weights: Array) -> Array:
        """Variables of weights."""
        return np.asarray(self.factor.T @ weights)

    def pulled_back(self, slopes: Array) -> Array:
        """Slopes with respect to variables, of slopes with respect to weights."""
        return np.asarray(solve_triangular(self.factor, slopes, lower=True, check_finite=False))


class ConeView:
    """Weights in a cone: their free steps are seen through a factor, and those with a sign as they are.

    The free ones follow the others, so that the bound does not mix both; and signs are bounds.
    """

    patience = 4  # times as many steps of the optimiser: what has a sign is only scaled

    def __init__(self, curvature: Array, cone: Cone) -> None:
        self.cone = cone
        order, free = cone.order
        factor = factor_of(cone.in_steps(curvature)[np.ix_(order, order)])
        scale = 1 / np.sqrt((factor[free:, free:] ** 2).sum(axis=1))
        inner = np.diag(np.concatenate([np.ones(free), scale]))
        inner[:free, free:] = -factor[free:, :free].T * scale
        inner[:free] = solve_triangular(
            factor[:free, :free], inner[:free], lower=True, trans="T", check_finite=False
        )
        self.steps = np.empty_like(inner)  # (features, variables): steps of variables
        self.steps[np.ix_(order, order)] = inner
        self.bounds = [
            (0.0 if sign > 0 else None, 0.0 if sign < 0 else None) for sign in cone.signs.ravel().tolist()
        ]

    def weights_of(self, seen: Array) -> Array:
        """Weights of variables."""
        return self.cone.weights_of(self.steps @ seen)

    def seen_of(self, weights: Array) -> Array:
        """Variables of weights."""
        return np.asarray(np.linalg.solve(self.steps, self.cone.steps_of(weights)))

    def pulled_back(self, slopes: Array) -> Array:
        """Slopes with respect to variables, of slopes with respect to weights."""
        return np.asarray(self.steps.T @ self.cone.pulled_back(slopes))
