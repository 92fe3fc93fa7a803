"""Rows of a table whose columns have become the inputs of a model: numbers that are not encoded again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["EncodedRows"]


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """What `Encoding.encode` makes of a piece of a table; estimators take it as they take the table.

    Attributes
    ----------
    values
        One number for each input, NaN where it is missing, shape (rows, inputs).

    Examples
    --------
    >>> rows = EncodedRows(np.array([[1.0, 0.0], [2.0, 1.0]]))
    >>> len(rows), rows[[1]].values.tolist()
    (2, [[2.0, 1.0]])
    """

    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype, copy=True if copy else None)

    def __getitem__(self, rows: slice | NDArray[np.bool_] | NDArray[np.integer]) -> EncodedRows:
        return EncodedRows(self.values[rows])
