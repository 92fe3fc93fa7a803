"""Multinomial logistic regression on features with a Gaussian prior, and stacking of several class scores.

The Hessian of the cross-entropy of softmax(φW) is at most half that of least squares (Böhning and Lindsay,
1988), and about that at the probabilities of least squares: L-BFGS on W, preconditioned by one Cholesky
factor of the latter, needs some ten steps. Leave-one-out scores are one Newton step from the solution
(Rahnama Rad and Maleki, 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import ssyrk, strsm
from scipy.linalg.lapack import spotrf
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from atlas_splines.memory.constraints import Cone, factor_of
from atlas_splines.memory.posterior import Posterior

__all__ = [
    "CLASS_RULES",
    "ClassRules",
    "ClassScores",
    "class_scores",
    "class_shares",
    "most_likely",
]

Array = NDArray[np.float64]
Singles = NDArray[np.float32]
Numbers = NDArray[np.intp]

STEPS = 40  # of the optimiser, from zero and preconditioned by the bound of the Hessian


@dataclass(frozen=True)
class ClassRules:
    """Rules of the fit of classes, chosen on one fold of the tables of `benchmarks/tabular`.

    Attributes
    ----------
    weaker_prior
        Divisor of the prior precision of least squares: scores of a softmax are about twice those of least
        squares. A search for it gained nothing once shares are chosen on all rows.
    steps
        Optimiser steps. For separable classes later ones only make scores larger.
    least_curvature, least_guess
        Least curvature of a row in the preconditioner, and least probability that it is computed at.
    least_rest
        Least value of 1 − leverage in a leave-one-out score.
    share_deviations
        Prior standard deviations of the shares of smooth and of local scores, around (1, 0). Local scores are
        regressions on indicators, about a tenth of softmax scores.
    imaginary_rows
        Pseudo-rows of a uniform class distribution, spread over all rows: n rows without an error do not
        imply that the next has none.
    largest_share, least_share
        Largest share of any scores; least share of local ones, with less of which they are left out.
    folds
        Folds for out-of-fold scores with constraints, where there is no Newton step.
    most_rows
        Rows whose features are in memory at the same time.
    """

    weaker_prior: float = 4.0
    steps: int = 20
    least_curvature: float = 0.02
    least_guess: float = 0.01
    least_rest: float = 0.02
    share_deviations: tuple[float, ...] = (0.3, 3.0)
    imaginary_rows: float = 1.0
    largest_share: float = 30.0
    least_share: float = 0.05
    folds: int = 4
    most_rows: int = 50_000


CLASS_RULES = ClassRules()
RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)  # relative, in turn until a factor exists in single precision


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Class scores from features.

    Attributes
    ----------
    weights
        Weights of the features, shape (features, classes).
    leave_out
        Computes `left_out`, which takes a third of the whole time and which an update does not need.
    """

    weights: Array
    leave_out: Callable[[], Array]

    @cached_property
    def left_out(self) -> Array:
        """Leave-one-out scores, or without each row's group: shape (rows, classes)."""
        return self.leave_out()


def class_scores(
    phi: Array,
    labels: Array,
    weights: Array,
    posterior: Posterior,
    groups: Numbers | None = None,
    rules: ClassRules = CLASS_RULES,
) -> ClassScores:
    """Maximum a posteriori weights of features, and leave-one-out scores.

    Parameters
    ----------
    phi, labels, weights
        Features (rows, features), class indicators (rows, classes), and weights of rows, about 1.
    posterior
        Least squares on the same data: it has the prior, the initial probabilities, and constraints if any.
    groups
        Rows with the same number are left out together, shape (rows,).
    rules
        Rules of the fit.

    Examples
    --------
    >>> from atlas_splines.memory.posterior import Prior, posterior_of
    >>> x, ones = np.linspace(-1, 1, 200)[:, None], np.ones(200)
    >>> phi, labels = np.hstack([np.ones_like(x), x]), np.hstack([x < 0, x >= 0]).astype(float)
    >>> found = class_scores(phi, labels, ones, posterior_of(phi, labels, Prior.flat([2]), steps=2))
    >>> softmax(np.array([[1.0, -0.5], [1.0, 0.5]]) @ found.weights, axis=1).round(1)
    array([[1., 0.],
           [0., 1.]])
    """
    precision, cone = posterior.prior.diagonal / rules.weaker_prior, posterior.prior.cone
    if cone is not None:
        return _scores_within(cone, phi, labels, weights, precision, groups, rules)
    features = np.ascontiguousarray(phi, np.float32)
    targets = _free(labels).astype(np.float32)
    precision = precision / 2 if targets.shape[1] == 1 else precision  # of a difference of two scores
    guess = (phi @ posterior.weights).clip(rules.least_guess, 1 - rules.least_guess)
    guess = _free(guess / guess.sum(axis=1, keepdims=True))
    curvature = np.maximum(
        _curvature_unit(targets) * (guess * (1 - guess)).max(axis=1), rules.least_curvature
    )
    factor = _curvature_factor(features, weights * curvature, precision)
    found = _descend(features, targets, weights, precision, factor, rules)
    given = (features, found, targets, weights, precision, groups, rules)
    return ClassScores(_of_classes(found.astype(np.float64)), lambda: _of_classes(_left_out(*given)))


def class_shares(
    scores: Sequence[Array], labels: Array, weights: Array, rules: ClassRules = CLASS_RULES
) -> Array:
    """Shares of out-of-sample scores by penalised maximum likelihood, near (1, 0, …) if rows are few.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> true, noise = random.normal(size=(2, 2000, 2))
    >>> labels = (true + random.gumbel(size=true.shape)).argmax(axis=1)[:, None] == [0, 1]
    >>> class_shares([true, noise], labels.astype(float), np.ones(2000)).round()
    array([1., 0.])
    """
    stacked = np.stack(scores)  # (scores, rows, classes)
    rows, classes = labels.shape
    imaginary = min(rules.imaginary_rows / rows, 1.0)
    wanted = weights[:, None] * ((1 - imaginary) * labels + imaginary / classes)
    linear = (stacked * wanted).sum(axis=(1, 2))
    alone, deviations = np.eye(len(scores))[0], np.array(rules.share_deviations[: len(scores)])

    def loss(shares: Array) -> tuple[float, Array]:
        mixed = np.tensordot(shares, stacked, 1)
        total = logsumexp(mixed, axis=1, keepdims=True)
        apart = (shares - alone) / deviations
        value = weights @ total[:, 0] - shares @ linear + 0.5 * apart @ apart
        chances = weights[:, None] * np.exp(mixed - total)
        return float(value), (stacked * chances).sum(axis=(1, 2)) - linear + apart / deviations

    bounds = [(0, rules.largest_share)] * len(scores)
    return np.asarray(minimize(loss, alone, jac=True, method="L-BFGS-B", bounds=bounds).x)


# --- two classes are one column: the score of the second relative to the first --------------------------


def _free(of_classes: Array) -> Array:
    """The second of two columns, or all columns of more than two classes."""
    return of_classes[:, 1:] if of_classes.shape[1] == 2 else of_classes


def _of_classes(free: Array) -> Array:
    """Scores of two classes from their difference, ∓ half of it; others as they are."""
    return np.hstack([-free / 2, free / 2]) if free.shape[1] == 1 else free


def _probabilities(scores: Array) -> Array:
    """Probability of the second class, or of all classes: shape (rows, columns)."""
    return np.asarray(expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1))


def _curvature_unit(targets: Singles) -> float:
    """Factor of p(1 − p) in the curvature: with more than two classes that of the bound."""
    return 1.0 if targets.shape[1] == 1 else 2.0


def _descend(
    features: Singles, targets: Singles, weights: Array, precision: Array, factor: Singles, rules: ClassRules
) -> Singles:
    """Weights of least penalised cross-entropy, in single precision, which halves the memory traffic."""
    shape = (features.shape[1], targets.shape[1])
    pull, weigh = precision.astype(np.float32)[:, None], weights.astype(np.float32)[:, None]

    def weights_at(seen: Array) -> Singles:
        return np.asarray(strsm(1.0, factor, seen.reshape(shape).astype(np.float32), lower=1, trans_a=1))

    def loss(seen: Array) -> tuple[float, Array]:
        found = weights_at(seen)
        scores = features @ found
        if shape[1] == 1:
            total, chances = np.logaddexp(np.float32(0), scores), expit(scores)
        else:
            total = logsumexp(scores, axis=1, keepdims=True)
            chances = np.exp(scores - total)
        each = total.sum(axis=1, dtype=np.float64) - (scores * targets).sum(axis=1, dtype=np.float64)
        pulled = pull * found
        slope = features.T @ (weigh * (chances - targets)) + pulled
        value = weights @ each + 0.5 * (found * pulled).sum(dtype=np.float64)
        return float(value), np.asarray(strsm(1.0, factor, slope, lower=1), np.float64).ravel()

    options = {"maxiter": rules.steps, "ftol": 1e-7, "gtol": 1e-3}
    seen = minimize(loss, np.zeros(np.prod(shape)), jac=True, method="L-BFGS-B", options=options).x
    return weights_at(seen)


def _curvature_factor(features: Singles, curvature: Array, precision: Array) -> Singles:
    """Lower Cholesky factor of Σ curvature·φφᵀ + precision."""
    scaled = np.sqrt(curvature).astype(np.float32)[:, None] * features
    total = ssyrk(1.0, scaled.T, lower=1)
    diagonal = np.diag_indices(len(total))
    total[diagonal] += precision.astype(np.float32)
    for ridge in RIDGES:
        ridged = total.copy(order="F")
        ridged[diagonal] *= np.float32(1 + ridge)
        factor, failed = spotrf(ridged, lower=1, overwrite_a=1, clean=1)
        if not failed:
            return np.asarray(factor)
    raise ArithmeticError("the features of the rows are too similar to distinguish their classes")


def _left_out(
    features: Singles,
    found: Singles,
    targets: Singles,
    weights: Array,
    precision: Array,
    groups: Numbers | None,
    rules: ClassRules,
) -> Array:
    """Leave-one-out scores, or without each row's group: one Newton step from the weights of all rows."""
    scores = (features @ found).astype(np.float64)
    chances, left_out = _probabilities(scores), scores.copy()
    for k in range(scores.shape[1]):
        curvature = weights * np.maximum(_curvature_unit(targets) * chances[:, k] * (1 - chances[:, k]), 1e-6)
        factor = _curvature_factor(features, curvature, precision)
        seen = strsm(1.0, factor, features.T, lower=1)  # (features, rows): inner products are leverages
        errors = weights * (targets[:, k] - chances[:, k])
        if groups is None:
            leverage = np.einsum("ij,ij->j", seen, seen).astype(np.float64)
            left_out[:, k] -= errors * leverage / np.maximum(1 - curvature * leverage, rules.least_rest)
            continue
        for own in _members(groups):
            among = (seen[:, own].T @ seen[:, own]).astype(np.float64)
            rest = np.eye(len(own)) - curvature[own, None] * among
            left_out[own, k] -= among @ np.linalg.solve(rest, errors[own])
    return left_out


def _members(groups: Numbers) -> list[Numbers]:
    """Row numbers of each group."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def _scores_within(
    cone: Cone,
    phi: Array,
    labels: Array,
    weights: Array,
    precision: Array,
    groups: Numbers | None,
    rules: ClassRules,
) -> ClassScores:
    """The same with constraints on the weights, and out-of-fold scores."""

    def out_of_fold() -> Array:
        fold = np.arange(len(phi)) if groups is None else groups
        left_out = np.empty_like(labels)
        for k in range(rules.folds):
            own = fold % rules.folds == k
            if own.any() and not own.all():
                rest = most_likely(phi[~own], labels[~own], weights[~own], precision, cone=cone)
                left_out[own] = phi[own] @ rest
        return left_out

    return ClassScores(most_likely(phi, labels, weights, precision, cone=cone), out_of_fold)


def most_likely(
    phi: Array,
    labels: Array,
    weights: Array,
    precision: Array,
    steps: int = STEPS,
    cone: Cone | None = None,
) -> Array:
    """Weights of least cross-entropy plus ½ Σ precision·W², with constraints if any: (features, classes)."""
    shape = (phi.shape[1], labels.shape[1])
    curvature = phi.T @ (phi * (weights / 2)[:, None])
    curvature[np.diag_indices(shape[0])] += precision
    variables = Preconditioned(curvature) if cone is None else Constrained(curvature, cone)

    def loss(flat: Array) -> tuple[float, Array]:
        W = variables.weights_of(flat.reshape(shape))
        scores, pull = phi @ W, precision[:, None] * W
        total = logsumexp(scores, axis=1, keepdims=True)
        value = weights @ (total[:, 0] - (scores * labels).sum(axis=1)) + 0.5 * (W * pull).sum()
        slope = phi.T @ (weights[:, None] * (np.exp(scores - total) - labels)) + pull
        return float(value), variables.pulled_back(slope).ravel()

    found = minimize(
        loss,
        np.zeros(shape).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=variables.bounds,
        options={"maxiter": steps * variables.patience},
    )
    return variables.weights_of(found.x.reshape(shape))


class Preconditioned:
    """Preconditioned variables V of weights L⁻ᵀV, for which the Hessian of the bound is the identity."""

    bounds = None
    patience = 1

    def __init__(self, curvature: Array) -> None:
        self.factor = cholesky(curvature, lower=True, check_finite=False)

    def weights_of(self, seen: Array) -> Array:
        """Weights from variables."""
        return np.asarray(solve_triangular(self.factor, seen, lower=True, trans="T", check_finite=False))

    def pulled_back(self, slopes: Array) -> Array:
        """Gradients with respect to variables from gradients with respect to weights."""
        return np.asarray(solve_triangular(self.factor, slopes, lower=True, check_finite=False))


class Constrained:
    """Constrained weights: free steps are preconditioned by a factor, and steps with a sign are only scaled.

    Free steps are conditioned on the others, so the Hessian of the bound is block diagonal; signs become
    bounds.
    """

    patience = 4  # times as many steps of the optimiser, for want of a full preconditioner

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
        self.steps = np.empty_like(inner)  # (features, variables): steps per unit of each variable
        self.steps[np.ix_(order, order)] = inner
        self.bounds = [
            (0.0 if sign > 0 else None, 0.0 if sign < 0 else None) for sign in cone.monotonic.ravel().tolist()
        ]

    def weights_of(self, seen: Array) -> Array:
        """Weights from variables."""
        return self.cone.weights_of(self.steps @ seen)

    def pulled_back(self, slopes: Array) -> Array:
        """Gradients with respect to variables from gradients with respect to weights."""
        return np.asarray(self.steps.T @ self.cone.pulled_back(slopes))
