"""Sums of data, exact or faded, as the parts of an archive, and back.

docs/format.md describes them.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

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
    )


def statistics_tensors(statistics: Statistics, name: str) -> dict[str, NDArray[Any]]:
    """Exact sums, as integers."""
    return {f"{name}.{part}": array for part, array in statistics.to_arrays().items()}


def sums_tensors(sums: Sums, name: str) -> dict[str, NDArray[Any]]:
    """Sums in float64; of the symmetric matrix the upper triangle alone."""
    return {
        f"{name}.gram": sums.gram[np.triu_indices(len(sums.gram))],
        f"{name}.moment": sums.moment,
        f"{name}.square": sums.square,
        f"{name}.count": np.array([sums.count], np.float64),
    }


def read_statistics(archive: Archive, shape: tuple[int, int], name: str) -> Statistics:
    """Exact sums."""
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
    check_sums(
        arrays["gram"] / UNIT**2,
        arrays["moment"] / UNIT**2,
        arrays["square"] @ scale / UNIT**2,
        float(arrays["count"] @ scale) / UNIT**2,
        name,
    )
    return Statistics.from_arrays(arrays)


def read_faded(
    archive: Archive, fields: Fields, memories: int, older: Statistics, name: str
) -> tuple[Sums, ...]:
    """Sums that fade; a memory from which nothing has faded is the exact one."""
    flags = fields.items("faded")
    if len(flags) != memories or any(type(flag) is not bool for flag in flags):
        raise ValueError(f"'faded' of {name} must be true or false for each of the half-lives")
    archive.reserve(memories * square_size(older.features))
    return tuple(
        read_sums(archive, older, f"{name}.faded.{k}") if flag else sums_of(older)
        for k, flag in enumerate(flags)
    )


def square_size(features: int) -> int:
    """Bytes of the products of all pairs of features."""
    return 8 * features**2


def read_sums(archive: Archive, older: Statistics, name: str) -> Sums:
    """Sums that have faded from exact ones."""
    features, outputs = older.features, older.outputs
    upper = archive.tensor(f"{name}.gram", "float64", (features * (features + 1) // 2,))
    moment = archive.tensor(f"{name}.moment", "float64", (features, outputs))
    square = archive.tensor(f"{name}.square", "float64", (outputs,))
    count = float(archive.tensor(f"{name}.count", "float64", (1,))[0])
    check_sums(upper, moment, square, count, name)
    if exceeds(count, older.count) or exceeds(square, older.square):
        raise ValueError(f"{name} holds more than what it has faded from")
    return Sums.from_upper(upper, moment, square, count)


def check_sums(upper: Array, moment: Array, square: Array, count: float, name: str) -> None:
    """Refuse what no data has: |φ| ≤ 1, the first feature is 1, and (Σab)² ≤ Σa²·Σb² for any two columns."""
    rows, columns = np.triu_indices(len(moment))
    diagonal = upper[rows == columns]
    if count < 0 or (diagonal < 0).any() or (square < 0).any():
        refuse_sums(name)
    root = np.sqrt(diagonal)
    if (
        exceeds(count, diagonal[0])
        or exceeds(diagonal, count)
        or exceeds(np.abs(upper), root[rows] * root[columns])
        or exceeds(np.abs(moment), root[:, None] * np.sqrt(square))
    ):
        refuse_sums(name)


def refuse_sums(name: str) -> NoReturn:
    raise ValueError(f"the sums of {name} are not those of any data")


def exceeds(value: Array | float, bound: Array | float) -> bool:
    """Whether any value is larger than its bound, by more than rounding."""
    return bool((np.asarray(value) > np.asarray(bound) * (1 + RELATIVE) + ABSOLUTE).any())
