"""Packing: a header and named arrays, compressed into two arrays of bytes, and back.

Bytes of the same weight stand together before they are compressed: most high bytes of sums are zero. Of a
matrix of sums of few rows of data only so many rows are kept, from which the others follow.
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
from atlas_splines.versions.gram_rows import MOST_SHARE, all_of_gram, rows_of_gram

__all__ = ["pack", "unpack"]

LEVEL = 9  # of zlib
GRAM = ".gram"  # how names of matrices of sums end
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")
MOST_TEXT = 32 * 2**20  # bytes of a header, as in a file

Bytes = NDArray[np.uint8]


def pack(header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> dict[str, Bytes]:
    """A header and its tensors as compressed bytes.

    Examples
    --------
    >>> packed = pack({"a": 1}, {"zeros": np.zeros(1000)})
    >>> list(packed), packed["tensors"].size < 50
    (['header', 'tensors'], True)
    """
    bodies, places = [], {}
    for name, array in tensors.items():
        few = _few_rows(name, array)
        bodies.append(_planes(array if few is None else few[1]))
        places[name] = [array.dtype.name, list(array.shape), None if few is None else few[0].tolist()]
    text = json.dumps({"header": header, "tensors": places}, allow_nan=False, separators=(",", ":"))
    return {
        "header": np.frombuffer(zlib.compress(text.encode(), LEVEL), np.uint8),
        "tensors": np.frombuffer(zlib.compress(b"".join(bodies), LEVEL), np.uint8),
    }


def unpack(archive: Archive, kind: str) -> Archive:
    """What was packed, as an archive of a kind; a ValueError says what is wrong with it."""
    packed = [archive.tensor(name, "uint8", (None,)) for name in ("header", "tensors")]
    content = parse(_inflated(packed[0], MOST_TEXT).decode())
    if not isinstance(content, dict) or content.keys() != {"header", "tensors"}:
        raise ValueError("its packed header is not one")
    places = {name: _Place.of(name, value) for name, value in dict(content["tensors"]).items()}
    archive.reserve(2 * sum(place.size for place in places.values()))
    stored = sum(place.stored for place in places.values())
    body = _inflated(packed[1], stored)
    if len(body) != stored or not isinstance(content["header"], dict):
        raise ValueError("its packed tensors do not fit together")
    tensors, start = {}, 0
    for name, place in places.items():
        tensors[name] = place.array(body, start)
        start += place.stored
    return Archive(kind, content["header"], tensors)


def _planes(array: NDArray[Any]) -> bytes:
    """First bytes of all numbers, then all second bytes, and so on."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.ascontiguousarray(flat.reshape(-1, array.dtype.itemsize).T).tobytes()


def _few_rows(name: str, array: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Rows of a matrix of sums that tell all of it, if it is one, and they are few."""
    if not name.endswith(GRAM) or array.dtype != np.int64:
        return None
    return rows_of_gram(_full(array))


def _full(triangle: NDArray[np.int64]) -> NDArray[np.int64]:
    """The symmetric matrix of an upper triangle."""
    features = _side(triangle.size)
    matrix = np.zeros((features, features), np.int64)
    upper = np.triu_indices(features)
    matrix[upper] = triangle
    matrix.T[upper] = triangle
    return matrix


def _side(size: int) -> int:
    """Rows of a matrix whose upper triangle has so many numbers."""
    return (math.isqrt(8 * size + 1) - 1) // 2


class _Place(NamedTuple):
    """Where a tensor is, and as what."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows: tuple[int, ...] | None  # numbers of the rows that are there, of a matrix of sums

    @classmethod
    def of(cls, name: str, value: object) -> _Place:
        """The place that a header tells, checked."""
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
        """Bytes of it that are stored."""
        return self.size if self.rows is None else len(self.rows) * _side(self.shape[0]) * self.dtype.itemsize

    def array(self, body: bytes, start: int) -> NDArray[Any]:
        """The tensor, whose bytes begin somewhere."""
        planes = np.frombuffer(body, np.uint8, self.stored, start).reshape(self.dtype.itemsize, -1)
        flat = np.ascontiguousarray(planes.T).reshape(-1).view(self.dtype)
        if self.rows is None:
            return np.asarray(flat.reshape(self.shape))
        features = _side(self.shape[0])
        matrix = all_of_gram(np.array(self.rows, np.int64), flat.reshape(len(self.rows), features))
        return np.asarray(matrix[np.triu_indices(features)])


def _inflated(data: Bytes, most: int) -> bytes:
    """Bytes as they were before they were compressed; no more than so many."""
    try:
        engine = zlib.decompressobj()
        text = engine.decompress(data.tobytes(), most + 1)
    except zlib.error:
        raise ValueError("its packed bytes are damaged") from None
    if len(text) > most or not engine.eof or engine.unused_data:
        raise ValueError("its packed bytes are more or less than they should be")
    return text
