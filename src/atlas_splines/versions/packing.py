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

from atlas_splines.core.linear_algebra import symmetric
from atlas_splines.files.archive import Archive, parse
from atlas_splines.files.compression import from_planes, inflated, planes
from atlas_splines.versions.gram_rows import MOST_SHARE, rows_of_gram, triangle_of_gram, work_of

__all__ = ["pack", "unpack"]

LEVEL = 9  # of zlib
GRAM = ".gram"  # how names of matrices of sums end
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")
MOST_TEXT = 32 * 2**20  # bytes of a header, as in a file

# What all matrices that come as few rows may cost, in the units of `work_of`: so much, which takes a second
# and is that of 24 matrices of 550 features, or so much for each byte of the file, which is what those cost.
# What would cost more is packed as it is.
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
    """What was packed, as an archive of a kind; a ValueError says what is wrong with it."""
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
    """Refuse what would take more memory or time than a file of this size has a claim to, before it does."""
    work = sum(place.work for place in places)
    if work > max(MOST_WORK, WORK_PER_BYTE * archive.held):
        raise ValueError("its matrices would take far more time than a file of its size should")
    archive.reserve(sum(place.size + place.stored for place in places))


def _few_rows(
    name: str, array: NDArray[Any], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Rows of a matrix of sums that tell all of it, if it is one, they are few, and that is not much work."""
    if not name.endswith(GRAM) or array.dtype != np.int64:
        return None
    few = rows_of_gram(symmetric(array, _side(array.size)))
    return few if few is not None and work_of(*few[1].shape) <= most else None


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

    @property
    def work(self) -> int:
        """What it costs to make the tensor of what is stored."""
        return 0 if self.rows is None else work_of(len(self.rows), _side(self.shape[0]))

    def array(self, body: bytes, start: int) -> NDArray[Any]:
        """The tensor, whose bytes begin somewhere."""
        flat = from_planes(np.frombuffer(body, np.uint8, self.stored, start), self.dtype)
        if self.rows is None:
            return np.asarray(flat.reshape(self.shape))
        features = _side(self.shape[0])
        return triangle_of_gram(np.array(self.rows, np.int64), flat.reshape(len(self.rows), features))
