"""Tables of coefficients as a file holds them: distinct columns, each written once.

The outputs of a model share their radial basis functions: two exponentials of the same one differ by a
constant, which stands in the first rows of the table, and by nothing else. Most rows of a density that only a
few splines need are zero. So blocks of rows have few distinct columns, however many outputs there are.
docs/format.md describes the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from reprlib import repr as shortened
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.compression import MOST_INFLATED

__all__ = ["joined_tables", "spread_tables"]

Array = NDArray[Any]

# Rows of a block: a shorter one finds more columns that agree, and costs a number for each column. Of 16 to
# 256 this gives the smallest tables for 40 and 200 classes; for 2 and 10 they differ by less than 0.6 MB.
HEIGHT = 128

# Smaller tables, in bytes and in columns, are written as they are: nothing is gained, and rows of few columns
# would be padded to far more than what was written.
LEAST_BYTES, LEAST_COLUMNS = 2**16, 64

TABLE = ".table"  # how names of tables end
SAME = ".same"  # how names of tensors end that hold the name of another table, with the same coefficients
PARTS = ("cut", "level", "columns", "which")
BITS = {4: np.uint32, 8: np.uint64}


# --- writing ------------------------------------------------------------------------------------------


def joined_tables(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """The tensors of a file, with tables by their distinct columns where these take less than half.

    Of tables that agree bit for bit, such as those of a model and of the first one that it keeps, one is
    written.

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
    """The parts of a table, if they are less than half of it."""
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
    """Number of leading rows in which most columns are constant; 0 if there are not two."""
    equal = (table[1:HEIGHT] == table[0]).mean(axis=1) > 0.5
    count = 1 + int(np.argmin(np.append(equal, False)))
    return count if count > 1 and table[0].any() else 0


def _numbered(block: Array) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Number of the distinct column that each column is, and where each distinct one is first."""
    keys = np.zeros(block.shape[1], np.uint64)
    factors = np.random.default_rng(0).integers(2**64, size=len(block), dtype=np.uint64) | np.uint64(1)
    for row, factor in zip(_bits(block), factors, strict=True):
        wide = row.astype(np.uint64)
        keys += (
            wide ^ wide >> np.uint64(32)
        ) * factor  # modulo 2⁶⁴, where the sign of a float64 alone is lost
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return numbers.reshape(-1).astype(np.int32), first


def _bits(block: Array) -> Array:
    """Numbers as their bits: −0 is not 0."""
    return block.view(BITS[block.dtype.itemsize])


# --- reading ------------------------------------------------------------------------------------------


def spread_tables(tensors: Mapping[str, Array], room: int | None = None) -> dict[str, Array]:
    """The tensors that `joined_tables` was given; a ValueError says what is wrong with the parts of a table.

    All sizes are checked before any table is made: they may take so much `room`, in bytes.
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
        raise ValueError(f"tensor '{name}.columns' has more or fewer columns than are asked for")
    return rows, len(level), level.itemsize


def _starts(cut: Array, which: Array) -> list[int]:
    """Where the columns of each block begin, and where the last ones end."""
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
