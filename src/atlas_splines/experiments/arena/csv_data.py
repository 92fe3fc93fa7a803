"""Real data: any table in a text file, split into tasks by region, by cluster or along a column."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.tasks import Problem, split

__all__ = ["Source", "check_source", "csv_tasks", "read_table"]

Array = NDArray[np.floating]
Groups = NDArray[np.intp]

FEW_VALUES = 6  # a column with at most so many values is a task for each; otherwise it is cut
PARTS = 5  # into so many parts with as many rows each
REGION_CUTS = 2  # a region is cut in two so often: four tasks


@dataclass(frozen=True)
class Source:
    """A file, its target column, what splits it into tasks, and the columns that are no inputs.

    Columns are named by the header, or by their number from 0; the last is the target by default.
    """

    path: Path
    target: str = ""
    split: str = "region"
    drop: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Name for files, different for different data or options."""
        options = repr((self.target, self.split, self.drop)).encode()
        return f"{self.path.stem}-{hashlib.sha256(self.path.read_bytes() + options).hexdigest()[:8]}"


def check_source(source: Source) -> None:
    """Raise one clear sentence if a file cannot be read or split as asked."""
    csv_tasks(source, np.random.default_rng(0), most=1)


def csv_tasks(source: Source, random: np.random.Generator, most: int) -> Problem:
    """Scale inputs to the unit cube by their ranges, and split the rows into tasks."""
    columns = read_table(source.path)
    target = source.target or list(columns)[-1]
    for name in (target, *([] if source.split in ("region", "clusters") else [source.split])):
        if name not in columns:
            raise ValueError(f"{source.path} has no column {name!r}; it has {', '.join(columns)}")
    inputs = [name for name in columns if name != target and name not in source.drop]
    X = unit_cube(np.stack([columns[name] for name in inputs], axis=1))
    groups = task_of_rows(source, X, columns)
    tasks = [split(X[groups == k], columns[target][groups == k], random, most) for k in np.unique(groups)]
    if len(tasks) < 2:
        raise ValueError(f"{source.split!r} makes only one task of {source.path}; split by another column")
    return Problem(len(inputs), tasks)


def task_of_rows(source: Source, X: Array, columns: dict[str, Array]) -> Groups:
    """The number of each row's task."""
    if source.split == "region":
        return regions(X, REGION_CUTS)
    if source.split == "clusters":
        return clusters(X)
    return parts(columns[source.split])


def unit_cube(X: Array) -> Array:
    """Columns from 0 to 1; one that does not vary is 0."""
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1)


def regions(X: Array, cuts: int) -> Groups:
    """Boxes with about as many rows each: cut at the median of the input that varies most, again and again.

    Examples
    --------
    >>> regions(np.array([[0.0, 0.4], [0.1, 0.6], [0.9, 0.4], [1, 0.6]]), cuts=1)
    array([0, 0, 1, 1])
    """
    if not cuts or not np.ptp(X, axis=0).any():
        return np.zeros(len(X), np.intp)
    column = X[:, int(np.argmax(X.std(axis=0)))]
    right = column > np.median(column)
    if not right.any():  # the median is the largest value, as in a column of zeros and ones
        right = column == np.median(column)
    groups = np.empty(len(X), np.intp)
    groups[~right] = regions(X[~right], cuts - 1)
    groups[right] = 2 ** (cuts - 1) + regions(X[right], cuts - 1)
    return groups


def clusters(X: Array) -> Groups:
    """Clusters by k-means, which are no boxes; the same for every seed."""
    from scipy.cluster.vq import kmeans2

    _, groups = kmeans2(X, PARTS, minit="++", rng=np.random.default_rng(0))
    return np.asarray(groups, np.intp)


def parts(column: Array) -> Groups:
    """A part for each value of a column, or parts of about the same number of rows along it."""
    values, groups = np.unique(column, return_inverse=True)
    if len(values) <= FEW_VALUES:
        return np.asarray(groups, np.intp)
    edges = np.quantile(column, np.arange(1, PARTS) / PARTS)
    return np.searchsorted(edges, column, side="left").astype(np.intp)


# --- reading ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def read_table(path: Path) -> dict[str, Array]:
    """Columns of a table with commas, semicolons, tabs or spaces, with or without a header.

    Text is numbered in sorted order, so dates written as 2011-01-31 keep theirs.
    """
    try:
        lines = path.read_text(encoding="utf8").splitlines()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot read {path}: it is no text in UTF-8") from error
    filled = [(place, line.strip()) for place, line in enumerate(lines, start=1) if line.strip()]
    if len(filled) < 2:
        raise ValueError(f"{path} has fewer than two rows")
    mark = separator(filled[0][1])
    cells = [re.split(mark, line) for _, line in filled]
    width = len(cells[0])
    for (place, _), row in zip(filled, cells, strict=True):
        if len(row) != width:
            raise ValueError(f"line {place} of {path} has {len(row)} cells, not {width}")
        if "" in row:
            raise ValueError(f"line {place} of {path} has an empty cell; fill it in or remove the line")
    header = not any(is_number(cell) for cell in cells[0])
    names = [cell.strip().strip('"') for cell in cells[0]] if header else [str(k) for k in range(width)]
    rows = np.array(cells[1:] if header else cells)
    return {name: as_numbers(rows[:, k]) for k, name in enumerate(names)}


def separator(line: str) -> str:
    """What separates the cells of a line."""
    return next((mark for mark in (",", ";", "\t") if mark in line), r"\s+")


def is_number(cell: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def as_numbers(cells: NDArray[np.str_]) -> Array:
    """Cells as numbers; text by its place among the sorted texts."""
    try:
        return cells.astype(np.float64)
    except ValueError:
        return np.unique(cells, return_inverse=True)[1].astype(np.float64)
