"""Sums of data, exact or faded, as the parts of an archive, and back.

docs/format.md describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.linear_algebra import triangle_rows, upper_triangle
from atlas_splines.core.offsets import COORDINATE_BITS, inputs_of
from atlas_splines.evidence.levels import NO_LEVELS, LevelStatistics
from atlas_splines.evidence.readout import Sums, sums_of
from atlas_splines.evidence.statistics import UNIT, Statistics
from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields

__all__ = ["has_faded", "read_faded", "read_statistics", "square_size", "statistics_tensors", "sums_tensors"]

Array = NDArray[np.float64]

RELATIVE, ABSOLUTE = 1e-6, 1e-9  # what rounding may do to sums that fade


def has_faded(sums: Sums, older: Statistics) -> bool:
    """Whether a memory differs from the exact one: before the first updates it does not."""
    same = sums_of(older)
    return not (
        sums.count == same.count
        and np.array_equal(sums.square, same.square)
        and np.array_equal(sums.moment, same.moment)
        and np.array_equal(sums.gram, same.gram)
        and sums.levels == same.levels
    )


def levels_tensors(levels: LevelStatistics, name: str) -> dict[str, NDArray[Any]]:
    """Sums by level; none if no row has levels."""
    parts = levels.to_arrays() if len(levels) else {}
    return {f"{name}.levels.{part}": array for part, array in parts.items()}


def statistics_tensors(statistics: Statistics, name: str) -> dict[str, NDArray[Any]]:
    """Exact sums, as integers."""
    return {f"{name}.{part}": array for part, array in statistics.to_arrays().items()}


def sums_tensors(sums: Sums, name: str) -> dict[str, NDArray[Any]]:
    """Sums in float64; of the symmetric matrix the upper triangle alone."""
    return {
        f"{name}.gram": upper_triangle(sums.gram),
        f"{name}.moment": sums.moment,
        f"{name}.square": sums.square,
        f"{name}.count": np.array([sums.count], np.float64),
        **levels_tensors(sums.levels, name),
    }


def read_statistics(
    archive: Archive, shape: tuple[int, int], name: str, levels: Sequence[int] = ()
) -> Statistics:
    """Exact sums; `levels` are the inputs that have levels."""
    features, outputs = shape
    triangle = archive.tensor(f"{name}.gram", "int64", (features * (features + 1) // 2,))
    archive.reserve(square_size(features))
    arrays = {
        "gram": triangle,
        "moment": archive.tensor(f"{name}.moment", "int64", shape),
        "square": archive.tensor(f"{name}.square", "int64", (outputs, 2)),
        "count": archive.tensor(f"{name}.count", "int64", (2,)),
    }
    for part in ("square", "count"):
        if (arrays[part] < 0).any() or (arrays[part][..., 1] >= 2**62).any():
            raise ValueError(f"tensor '{name}.{part}' must be a number of at least 0 in two parts")
    scale = np.array([2.0**62, 1.0])
    square, count = arrays["square"] @ scale / UNIT**2, float(arrays["count"] @ scale) / UNIT**2
    check_sums(arrays["gram"] / UNIT**2, arrays["moment"] / UNIT**2, square, count, name)
    by_level = read_levels(archive, shape, "int64", name, levels)
    check_levels(by_level.as_floats(UNIT**2), square, count, name)
    parts = by_level.to_arrays() if len(by_level) else {}
    return Statistics.from_arrays(arrays | {f"levels.{part}": array for part, array in parts.items()})


def read_levels(
    archive: Archive, shape: tuple[int, int], dtype: str, name: str, inputs: Sequence[int]
) -> LevelStatistics:
    """Sums by level; none if the file has none."""
    name = f"{name}.levels"
    if not inputs or f"{name}.keys" not in archive.tensors:
        return NO_LEVELS
    features, outputs = shape
    keys = archive.tensor(f"{name}.keys", "int64", (None,))
    levels = len(keys)
    if not levels or (np.diff(keys) <= 0).any() or not {*inputs_of(keys)} <= {*inputs}:
        raise ValueError(f"tensor '{name}.keys' must be rising levels of the inputs that have some")
    archive.reserve(2 * 8 * levels * features)
    pairs = archive.tensor(f"{name}.pairs", "int64", (None, 2))
    within = len(pairs) and pairs.min() >= 0 and pairs.max() < levels and (pairs[:, 0] <= pairs[:, 1]).all()
    if not within or (np.diff(pairs[:, 0] * levels + pairs[:, 1]) <= 0).any():
        raise ValueError(f"tensor '{name}.pairs' must be rising pairs of levels")
    arrays = {
        "keys": keys,
        "pairs": pairs,
        "counts": archive.tensor(f"{name}.counts", dtype, (len(pairs),)),
        "moment": archive.tensor(f"{name}.moment", dtype, (levels, outputs)),
        "cross": archive.tensor(f"{name}.cross", dtype, (levels, features)),
    }
    return LevelStatistics.from_arrays(arrays)


def check_levels(levels: LevelStatistics, square: Array, count: float, name: str) -> None:
    """Refuse sums by level that no rows have: each row has at most one level of an input."""
    if not len(levels):
        return
    rows, pairs = levels.rows, levels.counts.tocoo()
    inputs, own = levels.keys >> COORDINATE_BITS, pairs.row == pairs.col
    if (
        (pairs.data <= 0).any()
        or (rows <= 0).any()
        or (inputs[pairs.row[~own]] == inputs[pairs.col[~own]]).any()
        or exceeds(np.bincount(inputs, rows).astype(np.float64), count)
        or exceeds(pairs.data, np.minimum(rows[pairs.row], rows[pairs.col]))
        or exceeds(np.abs(levels.cross), rows[:, None])
        or exceeds(np.abs(levels.moment), np.sqrt(rows[:, None] * square))
    ):
        refuse_sums(f"{name}.levels")


def read_faded(
    archive: Archive,
    fields: Fields,
    memories: int,
    older: Statistics,
    name: str,
    levels: Sequence[int] = (),
) -> tuple[Sums, ...]:
    """Sums that fade; a memory from which nothing has faded is the exact one."""
    flags = fields.items("faded")
    if len(flags) != memories or any(type(flag) is not bool for flag in flags):
        raise ValueError(f"'faded' of {name} must be true or false for each of the half-lives")
    archive.reserve(memories * square_size(older.features))
    return tuple(
        read_sums(archive, older, f"{name}.faded.{k}", levels) if flag else sums_of(older)
        for k, flag in enumerate(flags)
    )


def square_size(features: int) -> int:
    """Bytes of the products of all pairs of features."""
    return 8 * features**2


def read_sums(archive: Archive, older: Statistics, name: str, levels: Sequence[int] = ()) -> Sums:
    """Sums that have faded from exact ones."""
    features, outputs = older.features, older.outputs
    upper = archive.tensor(f"{name}.gram", "float64", (features * (features + 1) // 2,))
    moment = archive.tensor(f"{name}.moment", "float64", (features, outputs))
    square = archive.tensor(f"{name}.square", "float64", (outputs,))
    count = float(archive.tensor(f"{name}.count", "float64", (1,))[0])
    check_sums(upper, moment, square, count, name)
    if exceeds(count, older.count) or exceeds(square, older.square):
        raise ValueError(f"{name} holds more than what it has faded from")
    by_level = read_levels(archive, (features, outputs), "float64", name, levels)
    check_levels(by_level, square, count, name)
    return Sums.from_upper(upper, moment, square, count, by_level)


def check_sums(upper: Array, moment: Array, square: Array, count: float, name: str) -> None:
    """Refuse what no data has: |φ| ≤ 1, the first feature is 1, and (Σab)² ≤ Σa²·Σb² for any two columns."""
    rows = triangle_rows(upper, len(moment))
    diagonal = np.array([row[0] for row in rows])
    if count < 0 or (diagonal < 0).any() or (square < 0).any():
        refuse_sums(name)
    root = np.sqrt(diagonal)
    if (
        exceeds(count, diagonal[0])
        or exceeds(diagonal, count)
        or any(exceeds(np.abs(row), root[k] * root[k:]) for k, row in enumerate(rows))
        or exceeds(np.abs(moment), root[:, None] * np.sqrt(square))
    ):
        refuse_sums(name)


def refuse_sums(name: str) -> NoReturn:
    raise ValueError(f"the sums of {name} are not those of any data")


def exceeds(value: Array | float, bound: Array | float) -> bool:
    """Whether any value is larger than its bound, by more than rounding."""
    return bool((np.asarray(value) > np.asarray(bound) * (1 + RELATIVE) + ABSOLUTE).any())
