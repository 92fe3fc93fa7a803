"""Random samples of tables that are read in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Reservoir", "chosen_rows", "random_numbers"]

Array = NDArray[np.float64]

# Goes with the user's seed: data is often made with default_rng(seed) too, and no sample may depend on it.
OWN_SEED = 0x61746C6173

# Rows that draw their keys at once where no other process may know how many came before.
ROWS_AT_ONCE = 1_000_000


def random_numbers(seed: int, *use: int) -> np.random.Generator:
    """Random numbers of a seed for one use, independent of those for other uses and of the user's own."""
    return np.random.default_rng([seed, OWN_SEED, *use])


class Reservoir:
    """A uniform random sample of rows that are seen in pieces, each with a value beside it.

    The value is what must stay with a row: its number in a table, or its target.

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
        """Each row draws a key; those with the smallest keys are the sample."""
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
    """Which of so many rows a reservoir would hold, in order, from 0: so others can fetch them.

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
