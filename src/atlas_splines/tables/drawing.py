"""Samples of tables that several processes read: the one that a process would draw that reads all in order.

Rows are counted first. That tells which of them a reservoir would hold, and these are fetched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atlas_splines.tables.reading import Piece, Table
from atlas_splines.tables.sampling import Reservoir, chosen_rows

__all__ = ["Counts", "Mask", "Picked", "Picking", "Sample"]

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
        """The sample of a reservoir that has seen at least a row, with the number of each beside it."""
        return cls(*reservoir.sample(), reservoir.seen)

    @classmethod
    def of_picked(cls, picked: Picked, counts: Counts) -> Sample:
        """The sample of rows that were picked, in any order."""
        numbers = np.concatenate([part[0] for part in picked])
        order = np.argsort(numbers)
        rows = pa.concat_tables([part[1] for part in picked]).take(order).combine_chunks()
        return cls(rows, numbers[order], counts.labelled, counts.before_files)


class Counts(dict[Place, tuple[int, int]]):
    """Rows of each piece of a table, and how many of them have a target.

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
        """How many rows with a target come before each piece."""
        places = sorted(self)
        before = itertools.accumulate((self[place][1] for place in places), initial=0)
        return dict(zip(places, before, strict=False))


@dataclass(frozen=True, eq=False)
class Picking:
    """Fetch rows from pieces.

    Attributes
    ----------
    wanted
        Which ones, counted from 0 among those that have a target.
    first
        How many of those come before each piece.
    mask
        Which rows of a piece have a target.
    """

    wanted: Numbers
    first: Mapping[Place, int]
    mask: Mask

    @classmethod
    def of(cls, counts: Counts, capacity: int, seed: int, mask: Mask) -> Picking:
        """Fetch what a reservoir would hold of rows that were counted."""
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
