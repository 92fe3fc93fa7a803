"""Few rows of a matrix of sums from which all of it follows, exactly.

Σφφᵀ of n rows of data has rank n at most. If that is less than the number of features, n independent rows of
the matrix determine it, as products of what elimination leaves of them. That is computed modulo three primes,
without any rounding, and put together by the Chinese remainder theorem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.linear_algebra import triangle_rows, upper_triangle

__all__ = ["MOST_SHARE", "rows_of_gram", "triangle_of_gram", "work_of"]

PRIMES = (2147483629, 2147483587, 2147483579)  # below 2³¹, so that products of residues fit into 64 bits
MOST_SHARE = 0.125  # of the rows, above which too little would be saved
BLOCK = 64  # rows of a matrix that are computed at once

Matrix = NDArray[np.int64]


def work_of(rows: int, features: int) -> int:
    """What a matrix from some of its rows costs, in units of about 1.5 nanoseconds."""
    return rows * features**2


def rows_of_gram(gram: Matrix) -> tuple[NDArray[np.int64], Matrix] | None:
    """Numbers of rows of a symmetric matrix, and these rows, from which all of it follows; None if too many.

    Parameters
    ----------
    gram
        A symmetric matrix of whole numbers, shape (features, features).

    Examples
    --------
    >>> phi = np.arange(32).reshape(2, 16)
    >>> numbers, rows = rows_of_gram(phi.T @ phi)
    >>> rows.shape, np.array_equal(triangle_of_gram(numbers, rows), upper_triangle(phi.T @ phi))
    ((2, 16), True)
    """
    most = int(MOST_SHARE * len(gram))
    prime = PRIMES[0]
    left = gram % prime
    numbers: list[int] = []
    while left.any():
        candidates = np.flatnonzero(np.diagonal(left))
        if len(numbers) >= most or not candidates.size:
            return None
        pivot = int(candidates[0])
        numbers.append(pivot)
        scaled = left[pivot] * pow(int(left[pivot, pivot]), -1, prime) % prime
        left = (left - left[pivot][:, None] * scaled[None, :]) % prime
    found = np.array(numbers, np.int64)
    rows = gram[found]
    try:
        exact = np.array_equal(triangle_of_gram(found, rows), upper_triangle(gram))
    except ValueError:
        exact = False
    return (found, rows) if exact else None


def triangle_of_gram(numbers: NDArray[np.int64], rows: Matrix) -> NDArray[np.int64]:
    """The upper triangle of the symmetric matrix of which these rows, shape (rows, features), are known.

    It is computed in blocks of its rows: beside the triangle itself little memory is needed.
    """
    features = rows.shape[1]
    factors = [factors_of(numbers, rows, prime) for prime in PRIMES]
    triangle = np.empty(features * (features + 1) // 2, np.int64)
    parts = triangle_rows(triangle, features)
    for start in range(0, features, BLOCK):
        block = from_residues(
            [product(*pair, prime, start) for pair, prime in zip(factors, PRIMES, strict=True)]
        )
        for k, row in enumerate(block):
            parts[start + k][:] = row[k:]
    return triangle


def factors_of(numbers: NDArray[np.int64], rows: Matrix, prime: int) -> tuple[Matrix, Matrix]:
    """What elimination leaves of the rows, and that over its pivots: LᵀS is the matrix, modulo a prime."""
    left = rows % prime
    scaled = np.empty_like(left)
    for k, number in enumerate(numbers.tolist()):
        diagonal = int(left[k, number])
        if not diagonal:
            raise ValueError("rows of a matrix of sums depend on each other")
        scaled[k] = left[k] * pow(diagonal, -1, prime) % prime
        left[k + 1 :] = (left[k + 1 :] - left[k + 1 :, [number]] * scaled[k]) % prime
    return left, scaled


def product(left: Matrix, scaled: Matrix, prime: int, start: int) -> Matrix:
    """A block of rows of LᵀS from some row on, and as many of its columns, modulo a prime.

    Halves of residues have 16 bits, so sums of their products are whole numbers that a float holds exactly:
    fast matrix products can compute them, which is twenty times as fast as adding up one row after another.
    """
    high, low = halves(left[:, start : start + BLOCK].T)
    above, below = halves(scaled[:, start:])
    upper = (high @ above).astype(np.int64) % prime
    middle = (high @ below + low @ above).astype(np.int64) % prime
    lower = (low @ below).astype(np.int64)
    return np.asarray((upper * (2**32 % prime) + (middle << 16) + lower) % prime)


def halves(residues: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The upper and the lower half of residues of 31 bits, as floats."""
    return (residues >> 16).astype(np.float64), (residues & 0xFFFF).astype(np.float64)


def from_residues(residues: list[Matrix]) -> Matrix:
    """The numbers of 64 bits that have these residues, by the Chinese remainder theorem."""
    first, second, third = PRIMES
    digits = (residues[1] - residues[0]) * pow(first, -1, second) % second
    partial = (residues[0] + first % third * digits) % third
    last = (residues[2] - partial) * pow(first * second, -1, third) % third
    # the true numbers fit into 64 bits, so what overflows on the way is gone again in the end
    last = np.where(last > third // 2, last - third, last)
    with np.errstate(over="ignore"):
        return np.asarray(residues[0] + first * digits + np.int64(first * second) * last)
