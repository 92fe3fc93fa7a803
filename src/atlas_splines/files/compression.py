"""Compression: large tensors of a file that repeat themselves, deflated.

Bytes of the same weight stand together before they are compressed: the high bytes of sums are zero, and those
of columns with few different values repeat. docs/format.md describes how a file has them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_INFLATED", "compressed", "decompressed", "from_planes", "inflated", "planes"]

Array = NDArray[Any]
Shapes = dict[str, list[Any]]  # dtype and shape of tensors by name, as JSON has them

DTYPES = ("float32", "float64", "int32", "int64")

# Bytes of all tensors of a file that are compressed, and of tables that are written by their columns: reading
# them takes so much, whatever the size of the file. A classifier of 200 classes has one table of a third of
# it, and after an update, which mixes that with what was solved for, one of two thirds as well.
MOST_INFLATED = 320 * 2**20

# Bytes of those that are compressed: they can come from a thousandth of that, in less than a second. Rows of
# 100,000 and 280 inputs with two values each have room in it.
MOST_COMPRESSED = 128 * 2**20

LEVEL = 6  # of zlib
LEAST_BYTES = 2**16  # of a tensor that is compressed
WORTHWHILE = 0.75  # of its bytes that may be left, or a tensor stays as it is
TRIED = (
    2**16
)  # numbers at its beginning that tell whether it is worthwhile: noise takes long and stays as it is


# --- writing ------------------------------------------------------------------------------------------


def compressed(tensors: Mapping[str, Array], room: int = MOST_COMPRESSED) -> tuple[dict[str, Array], Shapes]:
    """The tensors of a file, those for which it is worthwhile as compressed bytes, and what these were.

    Parameters
    ----------
    tensors
        The tensors by name.
    room
        Bytes of those that may be compressed, if these are less than usual.

    Examples
    --------
    >>> small, shapes = compressed({"zeros": np.zeros((100, 100)), "few": np.ones(3)})
    >>> small["zeros"].nbytes < 200, shapes
    (True, {'zeros': ['float64', [100, 100]]})
    >>> bool((decompressed(small, shapes)["zeros"] == 0).all())
    True
    """
    found, shapes, room = {}, {}, min(room, MOST_COMPRESSED)
    for name, array in tensors.items():
        small = _deflated(array) if array.nbytes <= room else None
        if small is not None:
            room -= array.nbytes
            shapes[name] = [array.dtype.name, list(array.shape)]
        found[name] = array if small is None else small
    return found, shapes


def _deflated(array: Array) -> NDArray[np.uint8] | None:
    """The compressed bytes of a tensor; None if that is not worthwhile."""
    if array.dtype.name not in DTYPES or array.nbytes < LEAST_BYTES:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    for part in (flat[:TRIED], flat):
        small = zlib.compress(planes(part), LEVEL)
        if len(small) > WORTHWHILE * part.nbytes:
            return None
    return np.frombuffer(small, np.uint8)


def planes(array: Array) -> bytes:
    """First bytes of all numbers, then all second bytes, and so on."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.ascontiguousarray(flat.reshape(-1, array.dtype.itemsize).T).tobytes()


# --- reading ------------------------------------------------------------------------------------------


def decompressed(
    tensors: Mapping[str, Array], shapes: Mapping[str, Any], is_damaged: bool = False
) -> dict[str, Array]:
    """The tensors that `compressed` was given; a ValueError says what is wrong with one.

    All sizes are checked before any tensor is made. Of a file that `is_damaged`, bytes that cannot be
    decompressed are left as they are.
    """
    sizes = {name: _size_of(name, shape, tensors) for name, shape in shapes.items()}
    if sum(sizes.values()) > MOST_COMPRESSED:
        raise ValueError(f"its compressed tensors would take more than {MOST_COMPRESSED:,} bytes of memory")
    found = dict(tensors)
    for name, size in sizes.items():
        dtype, shape = shapes[name]
        try:
            found[name] = from_planes(inflated(tensors[name], size), np.dtype(dtype)).reshape(shape)
        except ValueError as error:
            if not is_damaged:
                raise ValueError(f"tensor {shortened(name)}: {error}") from None
    return found


def _size_of(name: str, value: object, tensors: Mapping[str, Array]) -> int:
    """Bytes of a tensor that is compressed, after all checks of what is said of it."""
    given = tensors.get(name)
    if given is None or given.dtype != np.uint8 or given.ndim != 1:
        raise ValueError(f"tensor {shortened(name)} is not compressed bytes")
    dtype, shape = value if isinstance(value, list) and len(value) == 2 else (None, None)
    sizes = shape if isinstance(shape, list) and len(shape) <= 3 else [None]
    if dtype not in DTYPES or any(type(size) is not int or not 0 <= size < 2**40 for size in sizes):
        raise ValueError(f"compressed tensor {shortened(name)} has no dtype and shape")
    return int(math.prod(sizes)) * np.dtype(dtype).itemsize


def from_planes(body: bytes | NDArray[np.uint8], dtype: np.dtype[Any]) -> Array:
    """The numbers that `planes` was given, one after the other."""
    rows = np.frombuffer(body, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(rows.T).reshape(-1).view(dtype)


def inflated(data: NDArray[np.uint8], size: int, least: int | None = None) -> bytes:
    """Bytes as they were before they were compressed: so many, or from `least` on."""
    try:
        engine = zlib.decompressobj()
        text = engine.decompress(data.tobytes(), size + 1)
    except zlib.error:
        raise ValueError("its packed bytes are damaged") from None
    enough = len(text) >= (size if least is None else least)
    if len(text) > size or not enough or not engine.eof or engine.unused_data:
        raise ValueError("its packed bytes are more or less than they should be")
    return text
