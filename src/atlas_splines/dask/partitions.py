"""Partitions of Dask collections, and bottom-k samples of their rows.

Cohen and Kaplan (2007), Summarizing data using bottom-k sketches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, TypeVar

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from atlas_splines.model import kernels
from atlas_splines.tables.frames import cell_numbers, joined_tables, number_of_text
from atlas_splines.tables.inference import Remote
from atlas_splines.tables.source import Table

__all__ = ["Partitions", "Sample", "Sketch", "as_numbers", "each", "is_frame", "merged", "sketch_of", "tree"]

Array = NDArray[Any]
Answer = TypeVar("Answer")

BRANCHES = 8  # of a node in a tree of answers


def is_frame(collection: Any) -> bool:
    """Whether a Dask collection is a data frame or a series, not an array; others are refused."""
    if isinstance(collection, da.Array):
        return False
    if dask.is_dask_collection(collection) and hasattr(collection, "to_dask_array"):
        return True
    raise TypeError(
        f"{type(collection).__module__}.{type(collection).__name__} is not a Dask array or data frame; make "
        "one of it, or use the estimator without Dask"
    )


@dataclass(frozen=True, eq=False)
class Partitions:
    """Inputs with targets and weights of the same rows, in aligned partitions.

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
        """Whether parts must match as they are, since their numbers of rows are unknown."""
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

    def map(self, function: Callable[..., Answer], task: Any) -> list[Delayed]:
        """`function(X, *others, task=task)` of each part, with None for what is not there."""
        task = delayed(task, pure=False, traverse=False)  # once in the graph, not in each task
        if len({is_frame(part) for part in self._given}) > 1:
            return _map_parts(function, self.X, self.others, task)
        if is_frame(self.X):
            return _map_frames(function, self.X, self.others, task)
        return _map_arrays(function, self.X, self.others, task, align=not self._must_match)


def count_parts(collection: Any) -> int:
    """Parts along the rows."""
    return int(collection.npartitions if is_frame(collection) else collection.numblocks[0])


def _map_parts(function: Callable[..., Any], X: Any, others: Sequence[Any], task: Delayed) -> list[Delayed]:
    """One task a part, where data frames and arrays come together."""
    nothing = [None] * count_parts(X)
    columns = [nothing if part is None else parts_of(part) for part in (X, *others)]
    return [delayed(function, pure=False)(*parts, task=task) for parts in zip(*columns, strict=True)]


def parts_of(collection: Any) -> list[Delayed]:
    """The parts along the rows."""
    if is_frame(collection):
        return list(collection.to_delayed())
    return list(whole_rows(collection).to_delayed().ravel())


def whole_rows(array: da.Array) -> da.Array:
    """An array whose rows are not in several parts."""
    return array.rechunk({1: -1}) if array.ndim > 1 and array.numblocks[1] > 1 else array


def _map_frames(function: Callable[..., Any], X: Any, others: Sequence[Any], task: Delayed) -> list[Delayed]:
    """One task a partition, which dask.dataframe fuses with the reading of it."""
    answers = X.map_partitions(
        function, *others, task=task, meta=X._meta, enforce_metadata=False, align_dataframes=False
    )
    return list(answers.to_delayed())


def _map_arrays(
    function: Callable[..., Any], X: da.Array, others: Sequence[da.Array | None], task: Delayed, align: bool
) -> list[Delayed]:
    """One task a block of rows, which dask.array fuses with what made the block."""
    given = [(other, None if other is None else "ik"[: other.ndim]) for other in others]
    answers = da.blockwise(
        function,
        "i",
        X,
        "ij",
        *(part for pair in given for part in pair),
        task=task,
        concatenate=True,
        align_arrays=align,
        adjust_chunks={"i": lambda rows: 1},
        dtype=object,
        meta=np.empty(0, object),
    )
    return list(answers.to_delayed())


def tree(answers: Sequence[Delayed], combine: Callable[[list[Answer]], Answer]) -> Delayed:
    """Tree reduction of all answers."""
    nodes = list(answers)
    while len(nodes) > 1:
        nodes = [
            delayed(combine, pure=False)(nodes[begin : begin + BRANCHES])
            for begin in range(0, len(nodes), BRANCHES)
        ]
    return nodes[0]


def each(function: Callable[..., Array], task: Any, X: Any, shape: tuple[int, ...], dtype: Any) -> da.Array:
    """A lazy array of `function(X, task=task)` of each part, which has this shape for each row."""
    task = delayed(task, pure=False, traverse=False)
    if is_frame(X):
        meta = np.empty((0, *shape), dtype)
        return X.map_partitions(function, task=task, meta=meta, enforce_metadata=False)
    X = whole_rows(X)
    empty = np.empty((0,) * (1 + len(shape)), dtype)
    if not shape:
        return X.map_blocks(function, task=task, dtype=dtype, drop_axis=1, meta=empty)
    further = list(range(2, 1 + len(shape)))
    return X.map_blocks(
        function, task=task, dtype=dtype, chunks=(X.chunks[0], *shape), new_axis=further, meta=empty
    )


def as_numbers(part: Any) -> NDArray[np.float64]:
    """Inputs of a part in float64, NaN where a value is missing."""
    if hasattr(part, "to_numpy"):
        return np.asarray(part.to_numpy(np.float64, na_value=np.nan))
    return np.asarray(part, np.float64)


Hashes = NDArray[np.uint64]

EVERY = 2**64  # no hash is as large
STARTS = (0x243F6A8885A308D3, 0x13198A2E03707344)  # of the two hashes of a row: digits of π


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of rows, ordered by their hashes.

    Attributes
    ----------
    X, y, weights
        The rows, shapes (rows, columns), (rows,) or (rows, targets), and (rows,); X may be a table.
    of
        Number of rows that it is a sample of.
    """

    X: Array | Table
    y: Array
    weights: Array
    of: int

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows."""
        return len(self) == self.of

    @property
    def assessment(self) -> NDArray[np.bool_]:
        """Mask of the validation rows: each tenth."""
        return np.arange(len(self)) % 10 == 9

    def take(self, rows: NDArray[np.bool_] | slice) -> Sample:
        """Some of the rows."""
        return Sample(some_rows(self.X, rows), self.y[rows], self.weights[rows], self.of)


@dataclass(frozen=True, eq=False)
class Sketch:
    """A bottom-k sketch: the distinct rows with the smallest hashes, in their order, with counts.

    Attributes
    ----------
    hashes
        Two for each row, shape (rows, 2): the sort key, and a second one for ties.
    X, y, weights
        The rows.
    counts
        How often each came.
    limit
        Every row with a first hash below it is here.
    rows
        How many rows were seen.
    classes
        All values of y that were seen, if these are classes.
    elsewhere
        Statistics of all rows that were seen, if X is a table.
    """

    hashes: Hashes
    X: Array | Table
    y: Array
    weights: Array
    counts: NDArray[np.int64]
    limit: int
    rows: int
    classes: Array | None
    elsewhere: Remote | None

    def __len__(self) -> int:
        return len(self.counts)

    def suffices(self, size: int) -> bool:
        """Whether it has so many distinct rows, or all that there are."""
        return self.limit == EVERY or len(self) >= size

    def sample(self, size: int) -> Sample:
        """About so many rows, or all of them if there are fewer, each repeated in proportion to its count."""
        first = self.take(slice(0, size))
        seen = int(first.counts.sum())
        copies = first.counts
        if seen > size:  # some rows came more than once
            dice = (first.hashes[:, 1] >> np.uint64(11)).astype(np.float64) / 2**53
            copies = np.floor(first.counts * (size / seen) + dice).astype(np.int64)
        chosen = np.repeat(np.arange(len(first)), copies)
        return Sample(some_rows(first.X, chosen), first.y[chosen], first.weights[chosen], self.rows)

    def take(self, rows: NDArray[np.bool_] | slice) -> Sketch:
        """A subset of the distinct rows."""
        return replace(
            self,
            hashes=self.hashes[rows],
            X=some_rows(self.X, rows),
            y=self.y[rows],
            weights=self.weights[rows],
            counts=self.counts[rows],
        )

    def cut(self, size: int) -> Sketch:
        """The sketch with at most so many different rows."""
        if len(self) <= size:
            return self
        return replace(self.take(slice(0, size)), limit=min(int(self.hashes[size, 0]), self.limit))


def sketch_of(
    X: Array | Table,
    y: Array,
    weights: Array,
    *,
    size: int,
    limit: int,
    seed: int,
    of_classes: bool,
    elsewhere: Remote | None = None,
) -> Sketch:
    """The sketch of some rows.

    Parameters
    ----------
    X, y, weights
        The rows; X in float64, or a table.
    size
        How many different rows it has at most.
    limit
        First hash from which on rows are left out.
    seed
        Of the hashes.
    of_classes
        Whether y holds classes.
    elsewhere
        Statistics of the rows of a table, for other processes.

    Examples
    --------
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> options = {"size": 20, "limit": 2**64, "seed": 0, "of_classes": False}
    >>> whole = sketch_of(X, X[:, 0], np.ones(1000), **options)
    >>> parts = [sketch_of(X[k::3], X[k::3, 0], np.ones(len(X[k::3])), **options) for k in range(3)]
    >>> bool((merged(parts, 20).X == whole.X).all())
    True
    """
    numbers = X if isinstance(X, np.ndarray) else cell_numbers(X)
    parts = [np.ascontiguousarray(part, np.float64) for part in (numbers, label_numbers(y), weights[:, None])]
    classes = np.unique(y) if of_classes else None
    first = hashed(parts, STARTS[0] + seed)
    below = np.flatnonzero(first <= np.uint64(limit - 1))
    second = hashed([part[below] for part in parts], STARTS[1] + seed)
    hashes = np.stack([first[below], second], axis=1)
    order, starts = distinct(hashes)
    counts = np.diff(np.append(starts, len(order)))
    kept = below[order[starts]]
    sketch = Sketch(
        hashes[order[starts]],
        some_rows(X, kept),
        y[kept],
        weights[kept],
        counts,
        limit,
        len(y),
        classes,
        elsewhere,
    )
    return sketch.cut(size)


def merged(sketches: Sequence[Sketch], size: int) -> Sketch:
    """The sketch of all rows of some sketches."""
    return reduce(lambda one, other: joined(one, other).cut(size), sketches)


def joined(one: Sketch, other: Sketch) -> Sketch:
    """The union of two sketches, up to the smaller limit of the two."""
    limit = min(one.limit, other.limit)
    parts = [part.take(part.hashes[:, 0] <= np.uint64(limit - 1)) for part in (one, other)]
    hashes = np.concatenate([part.hashes for part in parts])
    order, starts = distinct(hashes)
    kept = order[starts]
    counts = np.concatenate([part.counts for part in parts])[order]
    classes = [part.classes for part in parts if part.classes is not None]
    known = [part.elsewhere for part in parts if part.elsewhere is not None]
    return Sketch(
        hashes=hashes[kept],
        X=some_rows(joined_inputs([part.X for part in parts]), kept),
        y=np.concatenate([part.y for part in parts])[kept],
        weights=np.concatenate([part.weights for part in parts])[kept],
        counts=np.add.reduceat(counts, starts) if len(starts) else counts,
        limit=limit,
        rows=one.rows + other.rows,
        classes=np.unique(np.concatenate(classes)) if classes else None,
        elsewhere=reduce(or_, known) if known else None,
    )


def some_rows(X: Array | Table, rows: NDArray[Any] | slice) -> Array | Table:
    """Some rows of an array, without negative zeros, or of a table."""
    return X[rows] + 0.0 if isinstance(X, np.ndarray) else X.take(np.arange(X.num_rows)[rows])


def joined_inputs(parts: Sequence[Array | Table]) -> Array | Table:
    """The rows of some arrays, or of some tables."""
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else joined_tables(parts)


def distinct(hashes: Hashes) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows sorted by their hashes, and the first position of each distinct one."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, np.flatnonzero(is_new)


def label_numbers(y: Array) -> Array:
    """Targets as numbers, shape (rows, targets); other labels become hashes of their names."""
    if y.dtype.kind in "biuf":
        return y[:, None] if y.ndim == 1 else y
    labels, places = np.unique(y.astype(str), return_inverse=True)
    return np.array([number_of_text(label) for label in labels])[places][:, None]


def hashed(parts: Sequence[Array], start: int) -> Hashes:
    """A hash of each row, 64 bits, from its numbers in all parts, shapes (rows, columns)."""
    hashes = np.full(len(parts[0]), start % EVERY, np.uint64)
    for part in parts:
        kernels.mix_rows(hashes, part)
    return hashes
