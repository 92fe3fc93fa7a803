"""Compression of patches: a Gram matrix of low rank is stored as some of its rows, by exact elimination.

Elimination is modular: residues for three primes are combined by the Chinese remainder theorem (Knuth, The
Art of Computer Programming, volume 2, 4.3.2).
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Archive, parse
from atlas_splines.files.compression import from_planes, inflated, planes
from atlas_splines.model.linear_algebra import symmetric, triangle_rows, upper_triangle

__all__ = ["MOST_SHARE", "pack", "rows_of_gram", "triangle_of_gram", "unpack", "work_of"]

PRIMES = (2147483629, 2147483587, 2147483579)  # below 2³¹, so that products of residues fit into 64 bits
MOST_SHARE = 0.125  # of the rows; with more, too little is saved
BLOCK = 64  # rows of a matrix that are computed at once

Matrix = NDArray[np.int64]


def work_of(rows: int, features: int) -> int:
    """Cost of a matrix from some of its rows, in units of about 1.5 nanoseconds."""
    return rows * features**2


def rows_of_gram(gram: Matrix) -> tuple[NDArray[np.int64], Matrix] | None:
    """Rows that determine a symmetric matrix, and their numbers; None if too many are needed.

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
    """The upper triangle of the symmetric matrix with these rows, shape (rows, features).

    It is computed in blocks of rows, which needs little memory besides the triangle itself.
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
    """The rows after elimination, L, and these over their pivots, S: LᵀS is the matrix, modulo a prime."""
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

    Halves of residues have 16 bits, so sums of their products are integers that a float represents exactly,
    and matrix products can compute them, twenty times as fast as adding up row after row.
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
    # the true numbers fit into 64 bits, so intermediate overflows cancel
    last = np.where(last > third // 2, last - third, last)
    with np.errstate(over="ignore"):
        return np.asarray(residues[0] + first * digits + np.int64(first * second) * last)


LEVEL = 9  # of zlib
GRAM = ".gram"  # how names of matrices of sums end
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")
MOST_TEXT = 32 * 2**20  # bytes of a header, as in a file

# Limit of the cost of all matrices that are stored as rows, in the units of `work_of`: so much, which takes a
# second and is that of 24 matrices of 550 features, or so much per byte of the file, which is their cost too.
# Matrices beyond it are packed as they are.
MOST_WORK, WORK_PER_BYTE = 500_000_000, 100

Bytes = NDArray[np.uint8]


def pack(header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> dict[str, Bytes]:
    """A header and its tensors as compressed bytes.

    Examples
    --------
    >>> packed = pack({"a": 1}, {"zeros": np.zeros(1000)})
    >>> list(packed), packed["tensors"].size < 50
    (['header', 'tensors'], True)
    """
    bodies, places, work = [], {}, 0
    for name, array in tensors.items():
        few = _few_rows(name, array, MOST_WORK - work)
        work += 0 if few is None else work_of(*few[1].shape)
        bodies.append(planes(array if few is None else few[1]))
        places[name] = [array.dtype.name, list(array.shape), None if few is None else few[0].tolist()]
    text = json.dumps({"header": header, "tensors": places}, allow_nan=False, separators=(",", ":"))
    return {
        "header": np.frombuffer(zlib.compress(text.encode(), LEVEL), np.uint8),
        "tensors": np.frombuffer(zlib.compress(b"".join(bodies), LEVEL), np.uint8),
    }


def unpack(archive: Archive, kind: str) -> Archive:
    """The archive that was packed; raise a ValueError if it is invalid."""
    packed = [archive.tensor(name, "uint8", (None,)) for name in ("header", "tensors")]
    content = parse(inflated(packed[0], MOST_TEXT, least=0).decode())
    if not isinstance(content, dict) or content.keys() != {"header", "tensors"}:
        raise ValueError("its packed header is not one")
    places = {name: _Place.of(name, value) for name, value in dict(content["tensors"]).items()}
    _check_sizes(archive, list(places.values()))
    stored = sum(place.stored for place in places.values())
    body = inflated(packed[1], stored)
    if len(body) != stored or not isinstance(content["header"], dict):
        raise ValueError("its packed tensors do not fit together")
    tensors, start = {}, 0
    for name, place in places.items():
        tensors[name] = place.array(body, start)
        start += place.stored
    return Archive(kind, content["header"], tensors, reserved=archive.reserved, claim=archive.held)


def _check_sizes(archive: Archive, places: list[_Place]) -> None:
    """Refuse sizes that take more memory or time than the size of the file justifies, before allocation."""
    work = sum(place.work for place in places)
    if work > max(MOST_WORK, WORK_PER_BYTE * archive.held):
        raise ValueError("its matrices would take far more time than a file of its size should")
    archive.reserve(sum(place.size + place.stored for place in places))


def _few_rows(
    name: str, array: NDArray[Any], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Rows that determine a Gram matrix; None for other arrays, if they are many, or if it is too costly."""
    if not name.endswith(GRAM) or array.dtype != np.int64:
        return None
    few = rows_of_gram(symmetric(array, _side(array.size)))
    return few if few is not None and work_of(*few[1].shape) <= most else None


def _side(size: int) -> int:
    """Number of rows of a matrix whose upper triangle has so many numbers."""
    return (math.isqrt(8 * size + 1) - 1) // 2


class _Place(NamedTuple):
    """How a tensor is stored."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows: tuple[int, ...] | None  # numbers of the stored rows of a Gram matrix

    @classmethod
    def of(cls, name: str, value: object) -> _Place:
        """The place from a header, checked."""
        if isinstance(value, list) and len(value) == 3 and isinstance(value[1], list):
            dtype, shape, rows = value
            sizes = all(type(size) is int and 0 <= size < 2**40 for size in shape)
            if dtype in DTYPES and sizes and len(shape) <= 3 and cls._are_rows(dtype, shape, rows):
                return cls(np.dtype(dtype), tuple(shape), None if rows is None else tuple(rows))
        raise ValueError(f"packed tensor {name!r} has no dtype and shape")

    @staticmethod
    def _are_rows(dtype: str, shape: list[int], rows: object) -> bool:
        if rows is None:
            return True
        features = _side(shape[0]) if len(shape) == 1 else 0
        known = isinstance(rows, list) and all(type(k) is int and 0 <= k < features for k in rows)
        whole = features * (features + 1) // 2 == (shape[0] if shape else 0)
        return known and whole and dtype == "int64" and len(cast(list[int], rows)) <= MOST_SHARE * features

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def stored(self) -> int:
        """Bytes of the tensor that are stored."""
        return self.size if self.rows is None else len(self.rows) * _side(self.shape[0]) * self.dtype.itemsize

    @property
    def work(self) -> int:
        """Cost of restoring the tensor."""
        return 0 if self.rows is None else work_of(len(self.rows), _side(self.shape[0]))

    def array(self, body: bytes, start: int) -> NDArray[Any]:
        """The tensor from the bytes at an offset."""
        flat = from_planes(np.frombuffer(body, np.uint8, self.stored, start), self.dtype)
        if self.rows is None:
            return np.asarray(flat.reshape(self.shape))
        features = _side(self.shape[0])
        return triangle_of_gram(np.array(self.rows, np.int64), flat.reshape(len(self.rows), features))
