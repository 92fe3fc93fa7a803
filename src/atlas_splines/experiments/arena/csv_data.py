"""Real data: any table in a text file, split into tasks by region, by cluster or along a column."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.arena.tasks import Problem, split
from atlas_splines.tables.cells import Cells
from atlas_splines.tables.dates import DATE
from atlas_splines.tables.dialects import DELIMITERS
from atlas_splines.tables.inference import Survey, is_number
from atlas_splines.tables.source import Source

__all__ = ["DataFile", "check_data", "csv_tasks", "read_columns"]

Array = NDArray[np.floating]
Groups = NDArray[np.intp]

FEW_VALUES = 6  # a column with at most so many values makes a task for each of them
PARTS = 5  # tasks that a column with more values, or clustering, makes
REGION_CUTS = 2  # times that a region is cut in two: four tasks


@dataclass(frozen=True)
class DataFile:
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


def check_data(data: DataFile) -> None:
    """Raise one clear sentence if a file cannot be read or split as asked."""
    csv_tasks(data, np.random.default_rng(0), most=1)


def csv_tasks(data: DataFile, random: np.random.Generator, most: int) -> Problem:
    """Scale inputs to the unit cube by their ranges, and split the rows into tasks."""
    columns = read_columns(data.path, tuple(set(data.drop) - {data.target, data.split}))
    target = data.target or next(reversed(columns), "")
    for name in (target, *([] if data.split in ("region", "clusters") else [data.split])):
        if name not in columns:
            raise ValueError(f"{data.path} has no column {name!r}; it has {', '.join(columns)}")
    inputs = [name for name in columns if name != target and name not in data.drop]
    if not inputs:
        raise ValueError(f"{data.path} has no column besides the target {target!r}; at least one is needed")
    X = unit_cube(np.hstack([columns[name] for name in inputs]))
    y = one_number(columns[target])
    groups = task_of_rows(data, X, columns)
    tasks = [split(X[groups == k], y[groups == k], random, most) for k in np.unique(groups)]
    if len(tasks) < 2:
        raise ValueError(f"{data.split!r} makes only one task of {data.path}; split by another column")
    return Problem(X.shape[1], tasks)


def task_of_rows(data: DataFile, X: Array, columns: dict[str, Array]) -> Groups:
    """The number of each row's task."""
    if data.split == "region":
        return regions(X, REGION_CUTS)
    if data.split == "clusters":
        return clusters(X)
    return parts(one_number(columns[data.split]))


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


def one_number(column: Array) -> Array:
    """One number for each row of a column (rows, inputs): the number itself, or the place of its category."""
    return column[:, 0] if column.shape[1] == 1 else column.argmax(axis=1).astype(np.float64)


# --- reading ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def read_columns(path: Path, leave_out: tuple[str, ...] = ()) -> dict[str, Array]:
    """Columns of a table by name, (rows, inputs) each, as `atlas fit` reads and encodes them, but for dates.

    A table may do without a header, and have spaces between its cells.
    """
    with TemporaryDirectory(prefix="atlas-") as folder:
        complete = Path(folder) / "table.csv"
        complete.write_text(with_header(path), encoding="utf8")
        source = Source.of(complete, str(path))
        pieces = list(source.pieces())
    names = [name for name in source.columns if name not in leave_out]
    return {name: encoded([Cells.of(piece, name) for piece in pieces]) for name in names}


def encoded(cells: Sequence[Cells]) -> Array:
    """The inputs of a column, (rows, inputs), from its pieces.

    Dates are numbered in their order, one input each.
    """
    for piece in cells:
        there = piece.present(skip=True)
        if not there.all():
            piece.fail(int(np.argmin(there)), "the cell is empty; fill it in or remove the row")
    texts = sorted({text for piece in cells for text in piece.spellings()})
    if all(map(DATE.fullmatch, texts)):
        return np.concatenate([piece.codes(texts, None) for piece in cells])[:, None].astype(np.float64)
    name = cells[0].column
    survey = Survey(category=False, way_out=f"add --drop {name}")
    for piece in cells:
        survey.add(piece)
    column = survey.column(name)
    return np.vstack([np.column_stack(column.encode(piece, None)) for piece in cells])


def with_header(path: Path) -> str:
    """The text of a table, with numbers as the names of its columns if it has none, and commas for spaces."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot read {path}: it is no text in UTF-8") from error
    lines = [line for line in lines if line]
    if len(lines) < 2:
        raise ValueError(f"{path} has fewer than two rows")
    separator = next((mark for mark in DELIMITERS if mark in lines[0]), "")
    if not separator:
        separator, lines = ",", [",".join(line.split()) for line in lines]
    first = next(csv.reader(lines[:1], delimiter=separator))
    if any(map(is_number, first)):
        lines.insert(0, separator.join(map(str, range(len(first)))))
    return "\n".join(lines)
