"""Few rows of a matrix of sums from which all of it follows, exactly.

Σφφᵀ of n rows of data has rank n at most. If that is less than the number of features, n independent rows of
the matrix determine it, as products of what elimination leaves of them. That is computed modulo three primes,
without any rounding, and put together by the Chinese remainder theorem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_SHARE", "all_of_gram", "rows_of_gram"]

PRIMES = (2147483629, 2147483587, 2147483579)  # below 2³¹, so that products of residues fit into 64 bits
MOST_SHARE = 0.125  # of the rows, above which too little would be saved

Matrix = NDArray[np.int64]


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
    >>> rows.shape, bool((all_of_gram(numbers, rows) == phi.T @ phi).all())
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
        exact = np.array_equal(all_of_gram(found, rows), gram)
    except ValueError:
        exact = False
    return (found, rows) if exact else None


def all_of_gram(numbers: NDArray[np.int64], rows: Matrix) -> Matrix:
    """The symmetric matrix, shape (features, features), of which these rows are known."""
    residues = [residue_of_gram(numbers, rows, prime) for prime in PRIMES]
    first, second, third = PRIMES
    digits = (residues[1] - residues[0]) * pow(first, -1, second) % second
    partial = (residues[0] + first % third * digits) % third
    last = (residues[2] - partial) * pow(first * second, -1, third) % third
    # the true numbers fit into 64 bits, so what overflows on the way is gone again in the end
    last = np.where(last > third // 2, last - third, last)
    with np.errstate(over="ignore"):
        return np.asarray(residues[0] + first * digits + np.int64(first * second) * last)


def residue_of_gram(numbers: NDArray[np.int64], rows: Matrix, prime: int) -> Matrix:
    """The whole matrix modulo a prime."""
    left = rows % prime
    total = np.zeros((rows.shape[1], rows.shape[1]), np.int64)
    for k, number in enumerate(numbers.tolist()):
        diagonal = int(left[k, number])
        if not diagonal:
            raise ValueError("rows of a matrix of sums depend on each other")
        scaled = left[k] * pow(diagonal, -1, prime) % prime
        total += left[k][:, None] * scaled[None, :] % prime
        left[k + 1 :] = (left[k + 1 :] - left[k + 1 :, [number]] * scaled[None, :]) % prime
    return np.asarray(total % prime)
