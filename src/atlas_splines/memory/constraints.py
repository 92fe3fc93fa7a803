"""Constraints: weights of features whose sum is monotone form a convex cone; constrained least squares in it.

A spline increases if its consecutive coefficients do (monotone P-splines: Pya and Wood, 2015); a feature that
increases by itself needs a non-negative weight. The active-set solver is NNLS (Lawson and Hanson, 1974):
docs/math.md, section 11.
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

MOST_PIVOTS = 30  # of the active-set method for each constrained weight; scipy's default is 3


@dataclass(frozen=True, eq=False)
class Cone:
    """Cone of the weights that satisfy all constraints.

    Constraints are on steps: for a spline in `ranges` the first coefficient and the differences of
    consecutive ones, for all other features the weights themselves.

    Attributes
    ----------
    ranges
        Features of each monotone spline.
    monotonic
        Sign that each step must have, for each output; 0 if it is free: shape (features, outputs).

    Examples
    --------
    >>> cone = Cone((slice(0, 3),), np.array([[0], [1], [1]]))
    >>> cone.weights_of(np.array([[1.0], [0.5], [2.0]])).T
    array([[1. , 1.5, 3.5]])
    """

    ranges: tuple[slice, ...]
    monotonic: NDArray[np.int8]

    def weights_of(self, steps: Array) -> Array:
        """Weights from steps, along the first axis; exactly monotone where steps have the sign."""
        weights = steps.copy()
        for spline in self.ranges:
            np.cumsum(steps[spline], axis=0, out=weights[spline])
        return weights

    def pulled_back(self, slopes: Array) -> Array:
        """Gradients with respect to steps from gradients with respect to weights, along the first axis."""
        pulled = slopes.copy()
        for spline in self.ranges:
            pulled[spline] = np.cumsum(slopes[spline][::-1], axis=0)[::-1]
        return pulled

    def in_steps(self, matrix: Array) -> Array:
        """A quadratic form of weights as one of steps."""
        return self.pulled_back(self.pulled_back(matrix).T)

    @property
    def order(self) -> tuple[NDArray[np.intp], int]:
        """All features, unconstrained ones first, and the number of these."""
        is_constrained = self.monotonic.any(axis=1)
        return np.argsort(is_constrained, kind="stable"), int((~is_constrained).sum())


@dataclass(frozen=True, eq=False)
class Face:
    """The steps that are not zero by an active constraint: on them the solution is plain least squares.

    Attributes
    ----------
    basis
        Weights per unit of each of these steps, shape (features, steps).
    steps
        Their values, shape (steps, outputs).
    kept
        Features of these steps.
    """

    basis: Array
    steps: Array
    kept: NDArray[np.intp]


def solve_within(precision: Array, moment: Array, cone: Cone) -> tuple[Array, Array, Face]:
    """Weights w in a cone that minimise wᵀΛw/2 − wᵀb for each output, with the Cholesky factor on their face.

    Unconstrained steps are eliminated by a Cholesky factor; its trailing block leaves non-negative least
    squares for the others.

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
    gram, wanted = cone.in_steps(precision), cone.pulled_back(moment)
    order, free = cone.order
    factor = factor_of(gram[np.ix_(order, order)])
    half = solve_triangular(factor, wanted[order], lower=True, check_finite=False)  # (features, outputs)
    corner, constrained = factor[free:, free:].T, order[free:]
    steps = np.zeros_like(moment)
    for p, monotonic in enumerate(
        cone.monotonic[constrained].T if len(constrained) else ()
    ):  # nnls with no columns corrupts memory
        found, _ = nnls(corner * monotonic, half[free:, p], maxiter=MOST_PIVOTS * max(len(constrained), 1))
        steps[constrained, p] = monotonic * found
    rest = half[:free] - factor[free:, :free].T @ steps[constrained]
    steps[order[:free]] = solve_triangular(
        factor[:free, :free], rest, lower=True, trans="T", check_finite=False
    )
    kept = np.flatnonzero(~cone.monotonic.any(axis=1) | steps.any(axis=1))
    basis = cone.weights_of(np.eye(len(steps))[:, kept])
    face = Face(basis, steps[kept], kept)
    return cone.weights_of(steps), factor_of(gram[np.ix_(kept, kept)]), face


def factor_of(precision: Array) -> Array:
    """Lower Cholesky factor."""
    factor, failed = dpotrf(precision, lower=1)
    if failed:
        raise ArithmeticError("the statistics are not those of any data")
    return np.asarray(factor)
