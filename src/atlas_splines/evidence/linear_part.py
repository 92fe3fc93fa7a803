"""The linear part: ridge regression on the coordinates of rows, which may go on beyond all known rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LinearPart", "linear_left_out"]

Array = NDArray[np.float64]

RIDGE = 1.0  # rows of a standardised input that the prior of its slope is worth
MOST_LEVERAGE = 0.999  # of a row on its own prediction


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A linear function of coordinates.

    Attributes
    ----------
    constant, slopes
        Shapes (outputs,) and (inputs, outputs).

    Examples
    --------
    >>> points = np.random.default_rng(0).random((200, 2))
    >>> LinearPart.of(points, 1 + points @ [[2.0], [0.0]], np.ones(200)).slopes.round(1) + 0
    array([[2.],
           [0.]])
    """

    constant: Array
    slopes: Array

    @classmethod
    def of(cls, points: NDArray[np.floating], targets: Array, weights: Array) -> LinearPart:
        """The ridge regression of targets, shape (rows, outputs)."""
        design, middle, spread = _design(points)
        root = np.sqrt(weights)[:, None]
        solved = _solve((root * design).T @ (root * design), (root * design).T @ (root * targets))
        slopes = solved[1:] / spread[:, None]
        return cls(solved[0] - middle @ slopes, slopes)

    def __call__(self, points: NDArray[np.floating]) -> Array:
        """Predictions, shape (rows, outputs)."""
        return np.asarray(self.constant + points.astype(np.float64) @ self.slopes)


def linear_left_out(
    points: NDArray[np.floating],
    targets: Array,
    weights: Array,
    blocks: Sequence[NDArray[np.intp]] = (),
) -> tuple[Array, list[Array]]:
    """Leave-one-out predictions, and for each block those for all rows by all rows but its own.

    Both are of shape (rows, outputs); rows of a block are given by their numbers.
    """
    design, _, _ = _design(points)
    rows, wanted = np.sqrt(weights)[:, None] * design, np.sqrt(weights)[:, None] * targets
    gram, moment = rows.T @ rows, rows.T @ wanted
    inverse = np.linalg.inv(gram + np.diag(_prior(len(gram))))
    leverage = np.einsum("ij,ij->i", rows @ inverse, rows).clip(0, MOST_LEVERAGE)
    alone = targets - (targets - design @ (inverse @ moment)) / (1 - leverage)[:, None]
    without = [
        design @ _solve(gram - rows[own].T @ rows[own], moment - rows[own].T @ wanted[own]) for own in blocks
    ]
    return alone, without


def _design(points: NDArray[np.floating]) -> tuple[Array, Array, Array]:
    """A constant beside the standardised inputs, and what these were standardised by."""
    middle, spread = points.mean(axis=0, dtype=np.float64), points.std(axis=0, dtype=np.float64)
    spread = np.where(spread > 0, spread, 1.0)
    return np.hstack([np.ones((len(points), 1)), (points - middle) / spread]), middle, spread


def _prior(features: int) -> Array:
    """Precision of each weight; the constant is free."""
    return np.concatenate([[1e-6], np.full(features - 1, RIDGE)])


def _solve(gram: Array, moment: Array) -> Array:
    return np.asarray(np.linalg.solve(gram + np.diag(_prior(len(gram))), moment))
