"""Screening: which inputs matter, how finely, and which pairs of them, each by the log evidence it gains."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpbtrf, dpbtrs

from atlas_splines.core import kernels, splines
from atlas_splines.evidence.features import COARSE, FINEST

__all__ = ["PAIRS_GAIN", "coarse_gains", "finer_splines", "interacting_pairs"]

Array = NDArray[np.float64]

GAIN = 3.0  # in log evidence, for which finer splines of an input are worth it
ROWS_A_FUNCTION = 4  # finer splines need at least this many rows for each function
MOST_FUNCTIONS = 2048  # of all inputs at one density: a model has room for them, whichever are used
MOST_PAIRS = 6
PAIRS_GAIN = 100.0  # in log evidence, for which pairs are worth it: bumps of all inputs know most of them
BINS = 8  # of an input, when its pairs are judged
BIN_PRECISION = 3.0  # of the prior of a mean, when pairs are judged
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


def finer_splines(
    points: Array, left: Array, budget: int, finest: int = FINEST
) -> tuple[tuple[int, int], ...]:
    """Pairs (input, density) of finer splines that what coarse ones leave asks for, the most wanted first.

    None is finer than the finest, which depends on what other channels of the model need.
    """
    most = min(MOST_FUNCTIONS // points.shape[1], splines.basis_size(finest))
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
    functions, rows = splines.basis_size(density), len(column)
    banded, moment = np.zeros((functions, splines.ACTIVE)), np.zeros((functions, left.shape[1]))
    kernels.spline_sums(np.ascontiguousarray(column), left, density, banded, moment)
    square = (left**2).sum(axis=0) + 1e-12
    for precision in PRECISIONS:
        factor = dpbtrf((banded + precision * np.eye(1, splines.ACTIVE)).T, lower=1)[0]
        explained = (moment * dpbtrs(factor, moment, lower=1)[0]).sum(axis=0)
        volume = functions * np.log(precision) / 2 - np.log(factor[0]).sum()
        yield float(
            left.shape[1] * volume - rows / 2 * np.log1p(-np.minimum(explained / square, 1 - 1e-9)).sum()
        )


def interacting_pairs(points: Array, left: Array) -> tuple[tuple[int, int], ...]:
    """Pairs of inputs that what splines leave depends on, the best first; none if all gain little.

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
    best = [k for k in np.argsort(-gains)[:MOST_PAIRS] if gains[k] > GAIN]
    if gains[best].sum() < PAIRS_GAIN:
        return ()
    return tuple((int(first[k]), int(second[k])) for k in best)


def pair_gains(points: Array, left: Array) -> Array:
    """Gain in log evidence by a mean for each cell of the bins of two inputs, shape (inputs, inputs)."""
    rows, inputs = points.shape
    shape = (inputs, BINS, inputs, BINS)
    members = np.zeros((rows, inputs * BINS))  # 1 for the bin of each input that a row is in
    for j, column in enumerate(points.T):
        members[np.arange(rows), j * BINS + bins_of(column)] = 1
    sizes = (members.T @ members).reshape(shape)
    gains = np.zeros((inputs, inputs))
    for column in left.T:
        centred = column - column.mean()
        sums = (members.T @ (members * centred[:, None])).reshape(shape)
        explained = (sums**2 / (sizes + BIN_PRECISION)).sum(axis=(1, 3)) / (centred @ centred + 1e-12)
        gains -= rows / 2 * np.log1p(-np.minimum(explained, 1 - 1e-9))
    return gains - left.shape[1] / 2 * np.log1p(sizes / BIN_PRECISION).sum(axis=(1, 3))


def bins_of(column: Array) -> NDArray[np.intp]:
    """Number of the bin of each row: the values of a column that has few, otherwise its quantiles."""
    values = np.unique(column)
    if len(values) > BINS:
        values = np.unique(np.quantile(column, np.arange(BINS) / BINS))
    return np.asarray(np.searchsorted(values, column, side="right") - 1)
