"""Reservoir sampling (Vitter 1985) of tables read in chunks, by one process or several."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atlas_splines.tables.source import Piece, Table

__all__ = [
    "SAMPLE_RULES",
    "Counts",
    "Mask",
    "Picked",
    "Picking",
    "Reservoir",
    "Sample",
    "SampleRules",
    "chosen_rows",
    "random_numbers",
]

Array = NDArray[np.float64]

# Mixed with the user's seed, for data is often drawn with default_rng(seed) too.
OWN_SEED = 0x61746C6173


@dataclass(frozen=True)
class SampleRules:
    """Size of the sample to which a table that does not fit into memory is fitted; not benchmarked apart.

    Attributes
    ----------
    rows
        Rows at most.
    cells
        Cells at most, 64 MB: there are fewer rows if they are long.
    """

    rows: int = 50_000
    cells: int = 8_000_000

    def size(self, columns: int) -> int:
        """Rows of a sample of a table with so many columns."""
        return min(self.rows, self.cells // columns)


SAMPLE_RULES = SampleRules()

# Rows whose keys are drawn at once, independently of the number of rows before them.
ROWS_AT_ONCE = 1_000_000


def random_numbers(seed: int, *use: int) -> np.random.Generator:
    """Random numbers of a seed for one use, independent of those for other uses and of the user's own."""
    return np.random.default_rng([seed, OWN_SEED, *use])


class Reservoir:
    """A uniform random sample of the rows of a stream of chunks, each with a value beside it.

    The value is the index of a row in its table, or its target.

    Parameters
    ----------
    capacity
        Rows that the sample has at most.
    seed
        Seed of the random numbers.

    Examples
    --------
    >>> reservoir = Reservoir(3, seed=0)
    >>> for start in (0, 10, 20):
    ...     numbers = np.arange(start, start + 10)
    ...     reservoir.add(pa.table({"number": numbers}), numbers)
    >>> rows, numbers = reservoir.sample()
    >>> reservoir.seen, rows.num_rows, rows["number"].to_pylist() == numbers.tolist()
    (30, 3, True)
    """

    def __init__(self, capacity: int, seed: int) -> None:
        self.capacity, self.random = capacity, random_numbers(seed)
        self.seen, self.held, self.limit = 0, 0, 1.0
        self.parts: list[tuple[Array, NDArray[Any], pa.Table]] = []  # keys, values and rows

    def add(self, rows: pa.Table, values: NDArray[Any]) -> None:
        """Update with rows: each draws a key, and those with the smallest keys are the sample."""
        keys = self.random.random(rows.num_rows)
        kept = keys < self.limit
        self.parts.append((keys[kept], values[kept], rows.filter(pa.array(kept))))
        self.seen, self.held = self.seen + rows.num_rows, self.held + int(kept.sum())
        if self.held > 2 * self.capacity:
            self._shrink()

    def _shrink(self) -> None:
        keys, values = (np.concatenate([part[i] for part in self.parts]) for i in (0, 1))
        rows = pa.concat_tables(part[2] for part in self.parts)
        if keys.size > self.capacity:
            chosen = np.sort(np.argpartition(keys, self.capacity)[: self.capacity])
            keys, values, rows = keys[chosen], values[chosen], rows.take(pa.array(chosen))
            self.limit = float(keys.max())
        self.parts, self.held = [(keys, values, rows.combine_chunks())], keys.size

    def sample(self) -> tuple[pa.Table, NDArray[Any]]:
        """The rows and their values, in the order in which they came."""
        self._shrink()
        return self.parts[0][2], self.parts[0][1]


def chosen_rows(count: int, capacity: int, seed: int) -> NDArray[np.int64]:
    """Indices of the rows that a reservoir would hold of so many, sorted: other processes can fetch them.

    Examples
    --------
    >>> chosen_rows(30, 3, seed=0).tolist() == chosen_rows(30, 4, seed=0).tolist()
    False
    """
    reservoir = Reservoir(capacity, seed)
    for begin in range(0, count, ROWS_AT_ONCE):
        numbers = np.arange(begin, min(begin + ROWS_AT_ONCE, count))
        reservoir.add(pa.table({"number": numbers}), numbers)
    return reservoir.sample()[1]


Numbers = NDArray[np.int64]
Place = tuple[int, int]  # of a piece in a table
Mask = Callable[[Piece], NDArray[np.bool_]]  # which rows of a piece have a target
Picked = list[tuple[Numbers, Table]]


@dataclass(frozen=True, eq=False)
class Sample:
    """A random sample of the rows of a table that have a target.

    Attributes
    ----------
    rows
        The rows, as they are in the table, and in this order.
    numbers
        Their numbers there, from 1.
    seen
        Number of rows that it is a sample of.
    before
        Rows in files that come before each file, if these were counted.
    """

    rows: Table
    numbers: Numbers
    seen: int
    before: Sequence[int] = ()

    @property
    def is_whole(self) -> bool:
        """Whether it has all rows."""
        return bool(self.rows.num_rows == self.seen)

    @classmethod
    def held_by(cls, reservoir: Reservoir) -> Sample:
        """The sample of a non-empty reservoir, with the number of each row beside it."""
        return cls(*reservoir.sample(), reservoir.seen)

    @classmethod
    def of_picked(cls, picked: Picked, counts: Counts) -> Sample:
        """The sample of fetched rows, in any order."""
        numbers = np.concatenate([part[0] for part in picked])
        order = np.argsort(numbers)
        rows = pa.concat_tables([part[1] for part in picked]).take(order).combine_chunks()
        return cls(rows, numbers[order], counts.labelled, counts.before_files)


class Counts(dict[Place, tuple[int, int]]):
    """Numbers of rows, and of rows with a target, of each piece of a table.

    Examples
    --------
    >>> counts = Counts({(0, 1): (5, 4), (1, 1): (3, 3), (0, 6): (2, 2)})
    >>> counts.labelled, counts.before_files, counts.first_labelled[1, 1]
    (9, [0, 7], 6)
    """

    @property
    def labelled(self) -> int:
        """Rows that have a target."""
        return sum(labelled for _, labelled in self.values())

    @property
    def before_files(self) -> list[int]:
        """Rows in files that come before each file, up to the last one with rows."""
        rows = [0] * (1 + max(file for file, _ in self))
        for (file, _), (count, _) in self.items():
            rows[file] += count
        return list(itertools.accumulate(rows[:-1], initial=0))

    @property
    def first_labelled(self) -> dict[Place, int]:
        """Number of rows with a target before each piece."""
        places = sorted(self)
        before = itertools.accumulate((self[place][1] for place in places), initial=0)
        return dict(zip(places, before, strict=False))


@dataclass(frozen=True, eq=False)
class Picking:
    """Fetch rows from pieces.

    Attributes
    ----------
    wanted
        Their indices among the rows that have a target.
    first
        Number of rows with a target before each piece.
    mask
        Mask of the rows of a piece that have a target.
    """

    wanted: Numbers
    first: Mapping[Place, int]
    mask: Mask

    @classmethod
    def of(cls, counts: Counts, capacity: int, seed: int, mask: Mask) -> Picking:
        """The task that fetches the rows that a reservoir would hold of counted ones."""
        return cls(chosen_rows(counts.labelled, capacity, seed), counts.first_labelled, mask)

    def __call__(self, pieces: Iterable[Piece]) -> Picked:
        """The rows of some pieces, with their numbers in the table."""
        picked = []
        for piece in pieces:
            there, first = self.mask(piece), self.first[piece.place]
            begin, end = np.searchsorted(self.wanted, [first, first + int(there.sum())])
            rows = np.flatnonzero(there)[self.wanted[begin:end] - first]
            if len(rows):
                picked.append((piece.row_numbers[rows], piece.table.take(rows)))
        return picked
