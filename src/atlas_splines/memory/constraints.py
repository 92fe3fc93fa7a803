"""Cones: weights of features that make their sum monotone, and the best weights among these.

A spline rises if the steps from each of its coefficients to the next are not negative; a feature that rises
by itself needs a weight that is not negative: docs/math.md, section 11.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf
from scipy.optimize import nnls

__all__ = ["Cone", "Face", "factor_of", "solve_within"]

Array = NDArray[np.float64]

MOST_PIVOTS = 30  # for each weight of a sign, before its search is given up


@dataclass(frozen=True, eq=False)
class Cone:
    """Which weights of features are allowed.

    Weights are seen as steps: of a spline in `ranges` the first coefficient and the differences to the next
    ones, of all other features the weights themselves.

    Attributes
    ----------
    ranges
        Features of each spline that has to rise or to fall.
    monotonic
        Sign that each step must have, or zero, for each output; 0 if it is free: shape (features, outputs).

    Examples
    --------
    >>> cone = Cone((slice(0, 3),), np.array([[0], [1], [1]]))
    >>> cone.weights_of(np.array([[1.0], [0.5], [2.0]])).T
    array([[1. , 1.5, 3.5]])
    """

    ranges: tuple[slice, ...]
    monotonic: NDArray[np.int8]

    def weights_of(self, steps: Array) -> Array:
        """Weights that have these steps, along the first axis; they rise to the last bit where steps do."""
        weights = steps.copy()
        for spline in self.ranges:
            np.cumsum(steps[spline], axis=0, out=weights[spline])
        return weights

    def steps_of(self, weights: Array) -> Array:
        """Steps that weights have, along the first axis."""
        steps = weights.copy()
        for spline in self.ranges:
            steps[spline] = np.diff(weights[spline], axis=0, prepend=0)
        return steps

    def pulled_back(self, slopes: Array) -> Array:
        """Slopes with respect to steps, of slopes with respect to weights, along the first axis."""
        pulled = slopes.copy()
        for spline in self.ranges:
            pulled[spline] = np.cumsum(slopes[spline][::-1], axis=0)[::-1]
        return pulled

    def in_steps(self, matrix: Array) -> Array:
        """A quadratic form of weights as one of steps."""
        return self.pulled_back(self.pulled_back(matrix).T)

    @property
    def order(self) -> tuple[NDArray[np.intp], int]:
        """All features, those that are free first, and the number of these."""
        is_bound = self.monotonic.any(axis=1)
        return np.argsort(is_bound, kind="stable"), int((~is_bound).sum())


@dataclass(frozen=True, eq=False)
class Face:
    """The steps that are not held at zero: within these the best weights are those of plain least squares.

    Attributes
    ----------
    basis
        Weights that one unit of each of these steps has, shape (features, steps).
    steps
        Their values, shape (steps, outputs).
    kept
        Numbers of these steps among all features.
    """

    basis: Array
    steps: Array
    kept: NDArray[np.intp]


def solve_within(precision: Array, moment: Array, cone: Cone) -> tuple[Array, Array, Face]:
    """Weights w in a cone that minimise wᵀΛw/2 − wᵀb for each output, with the factor on their face.

    The steps that are free are eliminated by a Cholesky factor; its corner leaves least squares with weights
    that are not negative for the others.

    Parameters
    ----------
    precision, moment
        Λ, shape (features, features), and b, shape (features, outputs).
    cone
        The cone.

    Examples
    --------
    >>> cone = Cone((slice(0, 3),), np.array([[0], [1], [1]]))
    >>> solve_within(np.eye(3), np.array([[1.0], [3.0], [2.0]]), cone)[0].T.round(6)
    array([[1. , 2.5, 2.5]])
    """
    turned, wanted = cone.in_steps(precision), cone.pulled_back(moment)
    order, free = cone.order
    factor = factor_of(turned[np.ix_(order, order)])
    half = solve_triangular(factor, wanted[order], lower=True, check_finite=False)  # (features, outputs)
    corner, bound = factor[free:, free:].T, order[free:]
    steps = np.zeros_like(moment)
    for p, monotonic in enumerate(
        cone.monotonic[bound].T if len(bound) else ()
    ):  # nnls of nothing harms memory
        found, _ = nnls(corner * monotonic, half[free:, p], maxiter=MOST_PIVOTS * max(len(bound), 1))
        steps[bound, p] = monotonic * found
    rest = half[:free] - factor[free:, :free].T @ steps[bound]
    steps[order[:free]] = solve_triangular(
        factor[:free, :free], rest, lower=True, trans="T", check_finite=False
    )
    kept = np.flatnonzero(~cone.monotonic.any(axis=1) | steps.any(axis=1))
    basis = cone.weights_of(np.eye(len(steps))[:, kept])
    face = Face(basis, steps[kept], kept)
    return cone.weights_of(steps), factor_of(turned[np.ix_(kept, kept)]), face


def factor_of(precision: Array) -> Array:
    """Lower Cholesky factor."""
    factor, failed = dpotrf(precision, lower=1)
    if failed:
        raise ArithmeticError("the statistics are not those of any data")
    return np.asarray(factor)
