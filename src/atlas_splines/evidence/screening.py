"""Screening: which inputs matter, and how finely, each by the log evidence that its splines gain."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded

from atlas_splines.core import splines
from atlas_splines.evidence.features import COARSE, FINEST

__all__ = ["coarse_gains", "finer_splines"]

Array = NDArray[np.float64]

GAIN = 3.0  # in log evidence, for which finer splines of an input are worth it
ROWS_A_FUNCTION = 4  # finer splines need at least this many rows for each function
MOST_FUNCTIONS = 2048  # of all inputs at one density: a model has room for them, whichever are used
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


def finer_splines(points: Array, left: Array, budget: int) -> tuple[tuple[int, int], ...]:
    """Pairs (input, density) of finer splines that what coarse ones leave asks for, the most wanted first."""
    most = MOST_FUNCTIONS // points.shape[1]
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
    cells, weights = splines.active(column, density)  # (rows,), (rows, 4)
    functions, rows = splines.basis_size(density), len(column)
    banded = np.zeros((splines.ACTIVE, functions))  # diagonals of Σφφᵀ, the lower ones
    moment = np.zeros((functions, left.shape[1]))
    for a in range(splines.ACTIVE):
        for b in range(a + 1):
            banded[a - b] += np.bincount(cells + b, weights[:, a] * weights[:, b], functions)
        for p in range(left.shape[1]):
            moment[:, p] += np.bincount(cells + a, weights[:, a] * left[:, p], functions)
    square = (left**2).sum(axis=0) + 1e-12
    for precision in PRECISIONS:
        factor = cholesky_banded(banded + precision * np.eye(splines.ACTIVE, 1), lower=True)
        explained = (moment * cho_solve_banded((factor, True), moment)).sum(axis=0)
        volume = functions * np.log(precision) / 2 - np.log(factor[0]).sum()
        yield float(
            left.shape[1] * volume - rows / 2 * np.log1p(-np.minimum(explained / square, 1 - 1e-9)).sum()
        )
