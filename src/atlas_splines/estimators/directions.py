"""Directions: which way predictions have to go along each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["column_directions"]


def column_directions(
    asked: ArrayLike | Mapping[str, int] | None, columns: int, names: Sequence[str] | None
) -> NDArray[np.int8]:
    """1 for columns along which predictions rise, -1 where they fall, 0 for others: shape (columns,).

    Parameters
    ----------
    asked
        As `monotonic_cst` of the estimators.
    columns, names
        How many columns there are, and their names if they have any.

    Examples
    --------
    >>> column_directions({"size": 1}, 2, ["age", "size"])
    array([0, 1], dtype=int8)
    """
    if asked is None:
        return np.zeros(columns, np.int8)
    found = by_name(asked, names) if isinstance(asked, Mapping) else np.asarray(asked)
    if found.shape != (columns,):
        raise ValueError(
            f"monotonic_cst has shape {found.shape} but X has {columns} columns; give -1, 0 or 1 for each"
        )
    wrong = [value for value in found.tolist() if value not in (-1, 0, 1)]
    if wrong:
        raise ValueError(
            f"monotonic_cst has {wrong[0]!r}; give 1 to rise, -1 to fall or 0 to be free for each column"
        )
    return found.astype(np.int8)


def by_name(asked: Mapping[str, int], names: Sequence[str] | None) -> NDArray[np.generic]:
    """What is asked of each column, of a mapping by their names."""
    if names is None:
        raise ValueError("monotonic_cst goes by names, but the columns of X have none; give an array")
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise ValueError(
            f"monotonic_cst names {unknown[0]!r}, which is no column of X; give names of columns"
        )
    return np.array([asked.get(name, 0) for name in names])
