"""Linear algebra on one thread, and packed storage of symmetric matrices.

Matrices are small here, and the bits of a product depend on how many BLAS threads share it.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import scipy.linalg  # noqa: F401  # with NumPy's, the library that is limited
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

__all__ = ["ONE_THREAD_EACH", "symmetric", "triangle_rows", "upper_triangle"]

Number = TypeVar("Number", bound=np.generic)


class OneThreadEach(ContextDecorator):
    """A reentrant context in which BLAS uses the calling thread only.

    Idle BLAS threads spin, so that more of them take longer for a small matrix, and many times as long where
    others need the cores too. The limit holds for the whole process: entries are counted, and the last exit
    restores the limits, since each on its own would restore those that it found, which may be another's.
    """

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.limit = libraries().limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *reason: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.limit.restore_original_limits()


@cache
def libraries() -> ThreadpoolController:
    """BLAS libraries of this process, cached: the search takes longer than many predictions."""
    return ThreadpoolController()


ONE_THREAD_EACH = OneThreadEach()


def triangle_rows(upper: NDArray[Number], side: int) -> list[NDArray[Number]]:
    """Views of the rows of a packed upper triangle, each from the diagonal on."""
    ends = np.cumsum(np.arange(side, 0, -1)).tolist()
    return [upper[end - size : end] for end, size in zip(ends, range(side, 0, -1), strict=True)]


def upper_triangle(matrix: NDArray[Number]) -> NDArray[Number]:
    """The upper triangle of a symmetric matrix, row by row.

    Examples
    --------
    >>> upper_triangle(np.array([[1, 2], [2, 3]]))
    array([1, 2, 3])
    """
    side = len(matrix)
    upper = np.empty(side * (side + 1) // 2, matrix.dtype)
    for k, row in enumerate(triangle_rows(upper, side)):
        row[:] = matrix[k, k:]
    return upper


def symmetric(upper: NDArray[Number], side: int) -> NDArray[Number]:
    """The symmetric matrix of an upper triangle.

    Row by row: indices of all numbers would take four times the memory of the triangle.

    Examples
    --------
    >>> symmetric(np.array([1, 2, 3]), side=2)
    array([[1, 2],
           [2, 3]])
    """
    matrix = np.empty((side, side), upper.dtype)
    for k, row in enumerate(triangle_rows(upper, side)):
        matrix[k, k:] = matrix[k:, k] = row
    return matrix
