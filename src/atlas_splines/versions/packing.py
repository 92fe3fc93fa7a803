"""Packing: a header and named arrays, compressed into two arrays of bytes, and back.

Bytes of the same weight stand together before they are compressed: most high bytes of sums are zero.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Archive, parse

__all__ = ["pack", "unpack"]

LEVEL = 9  # of zlib
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
    places = {name: [array.dtype.name, list(array.shape)] for name, array in tensors.items()}
    text = json.dumps({"header": header, "tensors": places}, allow_nan=False, separators=(",", ":"))
    body = b"".join(_planes(tensors[name]) for name in places)
    return {
        "header": np.frombuffer(zlib.compress(text.encode(), LEVEL), np.uint8),
        "tensors": np.frombuffer(zlib.compress(body, LEVEL), np.uint8),
    }


def unpack(archive: Archive, kind: str) -> Archive:
    """What was packed, as an archive of a kind; a ValueError says what is wrong with it."""
    packed = [archive.tensor(name, "uint8", (None,)) for name in ("header", "tensors")]
    content = parse(_inflated(packed[0], MOST_TEXT).decode())
    if not isinstance(content, dict) or content.keys() != {"header", "tensors"}:
        raise ValueError("its packed header is not one")
    places = {name: _place(name, value) for name, value in dict(content["tensors"]).items()}
    sizes = {name: int(np.prod(shape)) * dtype.itemsize for name, (dtype, shape) in places.items()}
    archive.reserve(2 * sum(sizes.values()))
    body = _inflated(packed[1], sum(sizes.values()))
    if len(body) != sum(sizes.values()) or not isinstance(content["header"], dict):
        raise ValueError("its packed tensors do not fit together")
    tensors, start = {}, 0
    for name, (dtype, shape) in places.items():
        part = np.frombuffer(body, np.uint8, sizes[name], start).reshape(dtype.itemsize, -1)
        tensors[name] = np.ascontiguousarray(part.T).reshape(-1).view(dtype).reshape(shape)
        start += sizes[name]
    return Archive(kind, content["header"], tensors)


def _planes(array: NDArray[Any]) -> bytes:
    """First bytes of all numbers, then all second bytes, and so on."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.ascontiguousarray(flat.reshape(-1, array.dtype.itemsize).T).tobytes()


def _place(name: str, value: object) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Dtype and shape of a tensor."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], list):
        dtype, shape = value
        sizes = all(type(size) is int and 0 <= size < 2**40 for size in shape)
        if dtype in DTYPES and sizes and len(shape) <= 3:
            return np.dtype(dtype), tuple(shape)
    raise ValueError(f"packed tensor {name!r} has no dtype and shape")


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
