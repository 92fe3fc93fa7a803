"""Compression of tensors: byte shuffling with DEFLATE, and tables by distinct columns in blocks of rows.

Byte planes are compressed as in the shuffle filter of HDF5.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from itertools import accumulate, pairwise
from reprlib import repr as shortened
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MOST_INFLATED",
    "compressed",
    "decompressed",
    "from_planes",
    "inflated",
    "joined_tables",
    "planes",
    "spread_tables",
]

Array = NDArray[Any]
Shapes = dict[str, list[Any]]  # dtype and shape of tensors by name, as JSON has them

DTYPES = ("float32", "float64", "int32", "int64")

# Limit of the bytes of all compressed tensors of a file and of tables that are written by their columns, as
# reading may take so much whatever the size of the file. A classifier of 200 classes has one table of a third
# of it, and after an update, which combines that with the posterior, one of two thirds as well.
MOST_INFLATED = 320 * 2**20

# Limit of the bytes of compressed tensors: a thousandth of that in a file can inflate to it, in less than a
# second. 100,000 rows of 280 inputs with two values each fit.
MOST_COMPRESSED = 128 * 2**20

LEVEL = 6  # of zlib
LEAST_BYTES = 2**16  # tensors and tables of fewer bytes are written as they are: nothing is gained
MAX_RATIO = 0.75  # of compressed to plain bytes; with more a tensor stays as it is
TRIED = 2**16  # numbers that are compressed first: noise takes long and is not compressible


# --- writing ------------------------------------------------------------------------------------------


def compressed(tensors: Mapping[str, Array], room: int = MOST_COMPRESSED) -> tuple[dict[str, Array], Shapes]:
    """The tensors of a file, compressible ones as bytes, with the dtypes and shapes of these.

    Parameters
    ----------
    tensors
        The tensors by name.
    room
        Limit of the bytes that are compressed, if lower than usual.

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
    """The compressed bytes of a tensor; None if it is not compressible."""
    if array.dtype.name not in DTYPES or array.nbytes < LEAST_BYTES:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    for part in (flat[:TRIED], flat):
        small = zlib.compress(planes(part), LEVEL)
        if len(small) > MAX_RATIO * part.nbytes:
            return None
    return np.frombuffer(small, np.uint8)


def planes(array: Array) -> bytes:
    """Byte planes: the first bytes of all numbers, then all second bytes, and so on."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.ascontiguousarray(flat.reshape(-1, array.dtype.itemsize).T).tobytes()


# --- reading ------------------------------------------------------------------------------------------


def decompressed(
    tensors: Mapping[str, Array], shapes: Mapping[str, Any], is_damaged: bool = False
) -> dict[str, Array]:
    """The inverse of `compressed`; raise a ValueError if a tensor is invalid.

    All sizes are checked before any tensor is allocated. In a file that `is_damaged`, bytes that cannot be
    decompressed stay as they are.
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
    """Bytes of a compressed tensor, after checks of its dtype and shape."""
    given = tensors.get(name)
    if given is None or given.dtype != np.uint8 or given.ndim != 1:
        raise ValueError(f"tensor {shortened(name)} is not compressed bytes")
    dtype, shape = value if isinstance(value, list) and len(value) == 2 else (None, None)
    sizes = shape if isinstance(shape, list) and len(shape) <= 3 else [None]
    if dtype not in DTYPES or any(type(size) is not int or not 0 <= size < 2**40 for size in sizes):
        raise ValueError(f"compressed tensor {shortened(name)} has no dtype and shape")
    return int(math.prod(sizes)) * np.dtype(dtype).itemsize


def from_planes(body: bytes | NDArray[np.uint8], dtype: np.dtype[Any]) -> Array:
    """The inverse of `planes`, flat."""
    rows = np.frombuffer(body, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(rows.T).reshape(-1).view(dtype)


def inflated(data: NDArray[np.uint8], size: int, least: int | None = None) -> bytes:
    """Decompressed bytes: so many, or at least `least`."""
    try:
        engine = zlib.decompressobj()
        text = engine.decompress(data.tobytes(), size + 1)
    except zlib.error:
        raise ValueError("its packed bytes are damaged") from None
    enough = len(text) >= (size if least is None else least)
    if len(text) > size or not enough or not engine.eof or engine.unused_data:
        raise ValueError("its packed bytes are more or less than they should be")
    return text


# Rows of a block: in a shorter one more columns agree, at the cost of a number for each column. Of 16 to 256
# this gives the smallest tables for 40 and 200 classes; for 2 and 10 they differ by less than 0.6 MB.
HEIGHT = 128

# Tables of fewer columns are written as they are: their rows would be padded to far more than what is stored.
LEAST_COLUMNS = 64

TABLE = ".table"  # suffix of the names of tables
SAME = ".same"  # suffix of tensors that hold the name of another table with the same coefficients
PARTS = ("cut", "level", "columns", "which")
BITS = {4: np.uint32, 8: np.uint64}


# --- writing ------------------------------------------------------------------------------------------


def joined_tables(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors of a file, with tables by their distinct columns where these take less than half.

    Tables that agree bit for bit, such as those of a model and of its initial model, are written once.

    Examples
    --------
    >>> shared = np.tile(np.arange(640, dtype=np.float32)[:, None], 400)
    >>> small = joined_tables({"model.table": shared})
    >>> sorted(small), sum(part.nbytes for part in small.values()) < shared.nbytes / 10
    (['model.table.columns', 'model.table.cut', 'model.table.level', 'model.table.which'], True)
    >>> bool((spread_tables(small)["model.table"] == shared).all())
    True
    """
    tables = [name for name, array in tensors.items() if name.endswith(TABLE) and _is_large(array)]
    found = {name: array for name, array in tensors.items() if name not in tables}
    room = MOST_INFLATED
    for k, name in enumerate(tables):
        array = tensors[name]
        other = next((each for each in tables[:k] if _are_same(tensors[each], array)), None)
        parts = _parts_of(array) if other is None and array.nbytes <= room else None
        if other is not None and other + SAME not in found:
            found[name + SAME] = np.frombuffer(other.encode(), np.uint8)
        elif parts is not None:
            room -= array.nbytes
            found |= {f"{name}.{part}": value for part, value in parts.items()}
        else:
            found[name] = array
    return found


def _is_large(array: Array) -> bool:
    return array.ndim == 2 and array.shape[1] >= LEAST_COLUMNS and array.nbytes >= LEAST_BYTES


def _are_same(one: Array, other: Array) -> bool:
    """Whether two tables agree bit for bit."""
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    return bool(np.array_equal(_bits(one[0]), _bits(other[0])) and np.array_equal(_bits(one), _bits(other)))


def _parts_of(table: Array) -> dict[str, Array] | None:
    """The parts of a table; None if they are not less than half of it."""
    flat = _leading_rows(table)
    level = np.where((table[:flat] == table[0]).all(axis=0), table[0], table.dtype.type(0)) if flat else None
    level = np.zeros(table.shape[1], table.dtype) if level is None else level
    columns, which = [], []
    for begin in range(0, len(table), HEIGHT):
        block = table[begin : begin + HEIGHT]
        if begin == 0:
            block = block.copy()
            block[:flat, level != 0] = 0
        numbers, first = _numbered(block)
        if not np.array_equal(_bits(block), _bits(block)[:, first[numbers]]):
            return None  # two columns of the same hash
        columns.append(block.T[first].reshape(-1))
        which.append(numbers)
    cut = np.array([len(table), flat, HEIGHT], np.int64)
    found = dict(zip(PARTS, (cut, level, np.concatenate(columns), np.stack(which)), strict=True))
    return found if 2 * sum(part.nbytes for part in found.values()) < table.nbytes else None


def _leading_rows(table: Array) -> int:
    """Number of leading rows in which most columns are constant; 0 if fewer than two."""
    equal = (table[1:HEIGHT] == table[0]).mean(axis=1) > 0.5
    count = 1 + int(np.argmin(np.append(equal, False)))
    return count if count > 1 and table[0].any() else 0


def _numbered(block: Array) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Number of the distinct column for each column, and the first place of each distinct one."""
    keys = np.zeros(block.shape[1], np.uint64)
    factors = np.random.default_rng(0).integers(2**64, size=len(block), dtype=np.uint64) | np.uint64(1)
    for row, factor in zip(_bits(block), factors, strict=True):
        wide = row.astype(np.uint64)
        # modulo 2⁶⁴: without the shift, the sign bits of two rows of float64 would cancel
        keys += (wide ^ wide >> np.uint64(32)) * factor
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return numbers.reshape(-1).astype(np.int32), first


def _bits(block: Array) -> Array:
    """Numbers as their bits, so that −0 differs from 0."""
    return block.view(BITS[block.dtype.itemsize])


# --- reading ------------------------------------------------------------------------------------------


def spread_tables(tensors: Mapping[str, Array], room: int | None = None) -> dict[str, Array]:
    """The inverse of `joined_tables`; raise a ValueError if the parts of a table are invalid.

    All sizes are checked before any table is allocated: in total they may take `room` bytes.
    """
    room = MOST_INFLATED if room is None else room
    end = f"{TABLE}.{PARTS[-1]}"
    names = [name.removesuffix(f".{PARTS[-1]}") for name in tensors if name.endswith(end)]
    shapes = {name: _shape_of(name, tensors) for name in names}
    if sum(rows * columns * size for rows, columns, size in shapes.values()) > room:
        raise ValueError(f"its tables would take more than {room:,} bytes of memory")
    parts = {f"{name}.{part}" for name in names for part in PARTS}
    whole = {name: array for name, array in tensors.items() if name not in parts}
    whole |= {name: _table_of(name, tensors) for name in names}
    for key in [name for name in whole if name.endswith(TABLE + SAME)]:
        name, other = key.removesuffix(SAME), bytes(whole.pop(key)).decode(errors="replace")
        if other not in whole or not other.endswith(TABLE) or name in whole:
            raise ValueError(
                f"tensor {name!r} is said to be the same as {shortened(other)}, which is no other table"
            )
        whole[name] = whole[other]
    return whole


def _shape_of(name: str, tensors: Mapping[str, Array]) -> tuple[int, int, int]:
    """Rows and columns of a table and the bytes of a number, after all checks of its parts."""
    cut, level, columns, which = (tensors.get(f"{name}.{part}", np.zeros(())) for part in PARTS)
    shaped = (cut.shape, level.ndim, columns.ndim, which.ndim) == ((3,), 1, 1, 2) and name not in tensors
    typed = cut.dtype == np.int64 and which.dtype == np.int32
    if not shaped or not typed or level.dtype != columns.dtype or level.dtype.kind != "f":
        raise ValueError(f"the parts of tensor {name!r} do not fit together")
    (rows, flat, height), blocks = cut.tolist(), len(which)
    if not (height >= 1 and 0 <= flat <= min(height, rows) and blocks == -(-rows // height) >= 1):
        raise ValueError(f"tensor '{name}.cut' does not cut {rows} rows into {blocks} blocks")
    if which.shape[1] != len(level) or not len(level) or which.min() < 0:
        raise ValueError(f"tensor '{name}.which' must have a number of at least 0 for each column")
    if _starts(cut, which)[-1] != columns.size:
        raise ValueError(f"tensor '{name}.columns' has more or fewer columns than are needed")
    return rows, len(level), level.itemsize


def _starts(cut: Array, which: Array) -> list[int]:
    """Offsets of the columns of each block, and the end of the last."""
    rows, _, height = cut.tolist()
    heights = [min(height, rows - begin) for begin in range(0, rows, height)]
    last = which.max(axis=1).tolist()
    sizes = (tall * (number + 1) for tall, number in zip(heights, last, strict=True))
    return list(accumulate(sizes, initial=0))


def _table_of(name: str, tensors: Mapping[str, Array]) -> Array:
    cut, level, columns, which = (tensors[f"{name}.{part}"] for part in PARTS)
    rows, flat, height = cut.tolist()
    table = np.empty((rows, len(level)), level.dtype)
    for k, (begin, end) in enumerate(pairwise(_starts(cut, which))):
        block = table[k * height : (k + 1) * height]
        block[:] = columns[begin:end].reshape(-1, len(block)).T[:, which[k]]
    table[:flat, level != 0] = level[level != 0]
    return table
