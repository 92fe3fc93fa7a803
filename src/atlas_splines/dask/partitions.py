"""Partitions: what is asked of each part of Dask collections, where it is, and trees of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

__all__ = ["Partitions", "as_numbers", "each", "is_frame", "tree"]

Array = NDArray[Any]
Answer = TypeVar("Answer")

BRANCHES = 8  # of a node in a tree of answers


def is_frame(collection: Any) -> bool:
    """Whether a Dask collection is a data frame or a series, and no array; others are refused."""
    if isinstance(collection, da.Array):
        return False
    if dask.is_dask_collection(collection) and hasattr(collection, "to_dask_array"):
        return True
    raise TypeError(
        f"{type(collection).__module__}.{type(collection).__name__} is no Dask array or data frame; make one "
        "of it, or use the estimator without Dask"
    )


@dataclass(frozen=True, eq=False)
class Partitions:
    """Inputs, and what else belongs to the same rows, in parts that match.

    Attributes
    ----------
    X
        Inputs: a Dask array or data frame.
    others
        Targets, and weights if there are some: Dask arrays or series, None for what is not there.
    """

    X: Any
    others: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        given = [other for other in self.others if other is not None]
        counted = count_parts if self._must_match else len
        counts = [counted(part) for part in (self.X, *given)]
        if len(set(counts)) > 1:
            what = "partitions" if self._must_match else "rows"
            raise ValueError(
                f"X, y and sample_weight have {' and '.join(map(str, counts))} {what}; "
                "they must have the same: take them from one table in the same way, or repartition them"
            )

    @property
    def _must_match(self) -> bool:
        """Whether parts must match as they are, since nobody knows how many rows they have."""
        return any(is_frame(part) or np.isnan(part.chunks[0]).any() for part in self._given)

    @property
    def _given(self) -> list[Any]:
        return [part for part in (self.X, *self.others) if part is not None]

    @property
    def without_rows(self) -> Any:
        """An array or a data frame of pandas with the same columns, and no rows."""
        return self.X._meta if is_frame(self.X) else np.empty((0, self.columns))

    @property
    def names(self) -> list[Any] | None:
        """Names of the columns of a data frame."""
        return list(self.X.columns) if is_frame(self.X) else None

    @property
    def categories(self) -> list[str]:
        """Names of columns that are categories in any case."""
        kinds = self.X._meta.dtypes if is_frame(self.X) else {}
        return [str(name) for name, kind in kinds.items() if kind == "category"]

    @property
    def columns(self) -> int:
        """Number of the columns."""
        if len(self.X.shape) != 2:
            raise ValueError(f"X has {len(self.X.shape)} dimensions; give rows and columns")
        return int(self.X.shape[1])

    def __len__(self) -> int:
        """Number of the parts."""
        return count_parts(self.X)

    def map(self, function: Callable[..., Answer], asked: Any) -> list[Delayed]:
        """Ask each part: `function(X, *others, asked=asked)` of it, with None for what is not there."""
        asked = delayed(asked, pure=False, traverse=False)  # once in the graph, not in each task
        if len({is_frame(part) for part in self._given}) > 1:
            return _map_parts(function, self.X, self.others, asked)
        if is_frame(self.X):
            return _map_frames(function, self.X, self.others, asked)
        return _map_arrays(function, self.X, self.others, asked, align=not self._must_match)


def count_parts(collection: Any) -> int:
    """Parts along the rows."""
    return int(collection.npartitions if is_frame(collection) else collection.numblocks[0])


def _map_parts(function: Callable[..., Any], X: Any, others: Sequence[Any], asked: Delayed) -> list[Delayed]:
    """One task a part, where data frames and arrays come together."""
    nothing = [None] * count_parts(X)
    columns = [nothing if part is None else parts_of(part) for part in (X, *others)]
    return [delayed(function, pure=False)(*parts, asked=asked) for parts in zip(*columns, strict=True)]


def parts_of(collection: Any) -> list[Delayed]:
    """The parts along the rows."""
    if is_frame(collection):
        return list(collection.to_delayed())
    return list(whole_rows(collection).to_delayed().ravel())


def whole_rows(array: da.Array) -> da.Array:
    """An array whose rows are not in several parts."""
    return array.rechunk({1: -1}) if array.ndim > 1 and array.numblocks[1] > 1 else array


def _map_frames(function: Callable[..., Any], X: Any, others: Sequence[Any], asked: Delayed) -> list[Delayed]:
    """One task a partition, which dask.dataframe fuses with the reading of it."""
    answers = X.map_partitions(
        function, *others, asked=asked, meta=X._meta, enforce_metadata=False, align_dataframes=False
    )
    return list(answers.to_delayed())


def _map_arrays(
    function: Callable[..., Any], X: da.Array, others: Sequence[da.Array | None], asked: Delayed, align: bool
) -> list[Delayed]:
    """One task a block of rows, which dask.array fuses with what made the block."""
    given = [(other, None if other is None else "ik"[: other.ndim]) for other in others]
    answers = da.blockwise(
        function,
        "i",
        X,
        "ij",
        *(part for pair in given for part in pair),
        asked=asked,
        concatenate=True,
        align_arrays=align,
        adjust_chunks={"i": lambda rows: 1},
        dtype=object,
        meta=np.empty(0, object),
    )
    return list(answers.to_delayed())


def tree(answers: Sequence[Delayed], combine: Callable[[list[Answer]], Answer]) -> Delayed:
    """All answers combined, some at a time, near where they are."""
    nodes = list(answers)
    while len(nodes) > 1:
        nodes = [
            delayed(combine, pure=False)(nodes[begin : begin + BRANCHES])
            for begin in range(0, len(nodes), BRANCHES)
        ]
    return nodes[0]


def each(function: Callable[..., Array], asked: Any, X: Any, shape: tuple[int, ...], dtype: Any) -> da.Array:
    """A lazy array of `function(X, asked=asked)` of each part, which has this shape for each row."""
    asked = delayed(asked, pure=False, traverse=False)
    if is_frame(X):
        meta = np.empty((0, *shape), dtype)
        return X.map_partitions(function, asked=asked, meta=meta, enforce_metadata=False)
    X = whole_rows(X)
    empty = np.empty((0,) * (1 + len(shape)), dtype)
    if not shape:
        return X.map_blocks(function, asked=asked, dtype=dtype, drop_axis=1, meta=empty)
    further = list(range(2, 1 + len(shape)))
    return X.map_blocks(
        function, asked=asked, dtype=dtype, chunks=(X.chunks[0], *shape), new_axis=further, meta=empty
    )


def as_numbers(part: Any) -> NDArray[np.float64]:
    """Inputs of a part in float64, NaN where a value is missing."""
    if hasattr(part, "to_numpy"):
        return np.asarray(part.to_numpy(np.float64, na_value=np.nan))
    return np.asarray(part, np.float64)
