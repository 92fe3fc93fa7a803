"""The digest of some data: the same whatever the order of its rows, and whatever pieces they come in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Hashes", "RowDigest", "digest_text", "packed", "row_hashes", "sorted_hashes"]

ROW_BYTES = 16  # of the hash of a row
Hashes = NDArray[np.bytes_]  # of rows, of 16 bytes each, sorted


class RowDigest:
    """The digest of rows that come piece by piece.

    Examples
    --------
    >>> one, other = RowDigest(), RowDigest()
    >>> one.add([[1.0], [2.0]], [3.0, 4.0])
    >>> other.add([[2.0]], [4.0])
    >>> other.add([[1.0]], [3.0])
    >>> one.text == other.text
    True
    """

    def __init__(self) -> None:
        self._parts: list[Hashes] = []

    def add(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Take in rows: inputs, targets and, if they differ from one, weights."""
        self.add_hashes(sorted_hashes(X, y, weights))

    def add_hashes(self, hashes: Hashes) -> None:
        """Take in rows of which the hashes are known."""
        self._parts.append(hashes)

    def watching(self, pieces: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The same pieces, (X, y) or (X, y, weights), taken in as they pass."""
        for piece in pieces:
            self.add(*piece)
            yield piece

    @property
    def hashes(self) -> Hashes:
        """The hashes of all rows so far."""
        return np.sort(np.concatenate([packed([]), *self._parts]))

    @property
    def distinct(self) -> int:
        """How many different rows there were so far."""
        return len(np.unique(self.hashes))

    @property
    def text(self) -> str:
        """The digest of all rows so far."""
        return hashlib.sha256(self.hashes.tobytes()).hexdigest()


def digest_text(hashes: Iterable[bytes]) -> str:
    """The SHA-256 over the sorted hashes of rows, as 64 hexadecimal digits."""
    return hashlib.sha256(b"".join(sorted(hashes))).hexdigest()


def sorted_hashes(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Hashes:
    """The hashes of rows, sorted: 16 bytes for each of them, and nothing else."""
    return np.sort(packed(row_hashes(X, y, weights)))


def packed(hashes: Iterable[bytes]) -> Hashes:
    """Hashes as an array."""
    return np.frombuffer(b"".join(hashes), f"S{ROW_BYTES}")


def row_hashes(X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> list[bytes]:
    """A hash of each row, of its inputs, targets and weight as float64; a name is a number by its own hash.

    Examples
    --------
    >>> [first, second, third] = row_hashes([[0.0], [-0.0], [1.0]], [2.0, 2.0, 2.0])
    >>> first == second, first == third
    (True, False)
    """
    inputs = np.asarray(X, np.float64)
    if not len(inputs):
        return []
    ones = np.ones(len(inputs))
    counted = ones if weights is None else np.asarray(weights, np.float64)
    columns = [inputs.reshape(len(inputs), -1), as_numbers(y).reshape(len(inputs), -1)]
    table: NDArray[np.float64] = np.column_stack([*columns, counted]) + 0.0  # −0 becomes 0
    table[np.isnan(table)] = np.nan  # of which there are many
    size, data = 8 * table.shape[1], table.astype("<f8").tobytes()
    starts = range(0, len(data), size)
    return [hashlib.blake2b(data[k : k + size], digest_size=ROW_BYTES).digest() for k in starts]


def as_numbers(targets: ArrayLike) -> NDArray[np.float64]:
    """Targets as numbers; those that are names by a hash of 48 bits, whatever other names there are."""
    values = np.asarray(targets)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    names, places = np.unique(values.astype(str), return_inverse=True)
    hashes = [hashlib.blake2b(name.encode(), digest_size=6).digest() for name in names.tolist()]
    return np.array([float(int.from_bytes(each, "little")) for each in hashes])[places.reshape(values.shape)]
