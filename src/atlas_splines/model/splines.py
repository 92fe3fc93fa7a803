"""Uniform cubic B-splines in plain NumPy: slow, exact, and the oracle for the kernels.

Equation numbers refer to docs/math.md.

Examples
--------
>>> import numpy as np
>>> from atlas_splines.model import splines
>>> splines.basis(np.array([0.0, 0.5, 1.0]), density=0).sum(axis=1)
array([1., 1., 1.])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["activation", "active", "basis", "basis_size", "cell_count", "spline", "whole_cells"]

ACTIVE = 4  # a cubic B-spline has four non-zero basis functions at every point


def basis_size(density: int) -> int:
    """Number of basis functions λ = 2^(ρ+2) of one input at a density.

    Examples
    --------
    >>> basis_size(4)
    64
    """
    return int(2 ** (density + 2))


def cell_count(density: int) -> int:
    """Number of cells w = λ − 3 between the knots of [0, 1].

    Examples
    --------
    >>> cell_count(4)
    61
    """
    return basis_size(density) - 3


def whole_cells(x: NDArray[np.floating], density: int) -> NDArray[np.floating]:
    """Least whole number of cells that reach from 0 to x or beyond; rounding does not add one.

    Examples
    --------
    >>> whole_cells(np.array([0.1, 3 / 61, 1.0]), density=4)
    array([ 7.,  3., 61.])
    """
    width = cell_count(density)
    cells = np.rint(x * width)
    return np.where(cells / width >= x, cells, cells + 1)


def activation(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the cubic B-spline S(x) on its support [0, 4], equation (1).

    Examples
    --------
    >>> activation(np.array([0.0, 1.0, 2.0, 3.0, 4.0])) * 6
    array([0., 1., 4., 1., 0.])
    """
    t = x - np.floor(x)
    pieces = [t**3, -3 * t**3 + 3 * t**2 + 3 * t + 1, 3 * t**3 - 6 * t**2 + 4, (1 - t) ** 3]
    return np.select([np.floor(x) == i for i in range(ACTIVE)], pieces, default=0.0) / 6


def basis(x: NDArray[np.floating], density: int) -> NDArray[np.floating]:
    """Evaluate every basis function at every point, as the paper writes it, equation (2).

    Parameters
    ----------
    x
        Points in [0, 1], shape (points,).
    density
        The density ρ.

    Returns
    -------
    array of shape (points, λ)

    Examples
    --------
    >>> basis(np.array([1.0]), density=0) * 6
    array([[0., 1., 4., 1.]])
    """
    i = np.arange(1, basis_size(density) + 1)  # the paper counts from one
    return activation(cell_count(density) * np.asarray(x)[:, None] + 4 - i)


def active(x: NDArray[np.floating], density: int) -> tuple[NDArray[np.intp], NDArray[np.floating]]:
    """Return the cell of each point and the weights of its four basis functions, equations (3) and (26).

    Parameters
    ----------
    x
        Points, any shape. Beyond [0, 1] the lattice of cells goes on evenly.
    density
        The density ρ.

    Returns
    -------
    cells
        Zero-based cell, the shape of `x`; functions cell … cell + 3 (zero-based) are active. Below 0 cells
        are negative.
    weights
        Their values, shape (..., 4).

    Examples
    --------
    >>> cells, weights = active(np.array([0.0, 1.0]), density=1)
    >>> cells
    array([0, 4])
    >>> weights * 6
    array([[1., 4., 1., 0.],
           [0., 1., 4., 1.]])
    """
    scaled = np.asarray(x) * cell_count(density)
    # x = 1 belongs to the last cell, with t = 1, and so does every knot above
    cells = np.where(scaled < cell_count(density), np.floor(scaled), np.ceil(scaled) - 1)
    t = scaled - cells
    u, square = 1 - t, t * t  # products: powers of arrays are slow
    cube = square * t
    weights = np.stack(
        [u * u * u, 3 * cube - 6 * square + 4, -3 * cube + 3 * square + 3 * t + 1, cube], axis=-1
    )
    weights /= 6
    return cells.astype(np.intp), weights


def spline(coefficients: NDArray[np.floating], x: NDArray[np.floating]) -> NDArray[np.floating]:
    """Evaluate a ρ-density spline with λ coefficients at points in [0, 1], equation (2).

    Examples
    --------
    >>> spline(np.ones(8), np.array([0.1, 0.9]))
    array([1., 1.])
    """
    density = int(np.log2(coefficients.size)) - 2
    cells, weights = active(x, density)
    return (coefficients[cells[..., None] + np.arange(ACTIVE)] * weights).sum(axis=-1)
