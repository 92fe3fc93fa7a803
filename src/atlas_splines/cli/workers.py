"""Workers that large tables are learned and predicted with: processes of this machine, or of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from atlas_splines.cli.messages import fail
from atlas_splines.cli.rows import Labels
from atlas_splines.core.model import state_of
from atlas_splines.estimators.base import Array
from atlas_splines.estimators.table_model import Estimator
from atlas_splines.memory.row_digest import RowDigest
from atlas_splines.memory.summing import add_first_sums, add_to_newest_update
from atlas_splines.tables.reading import Table

__all__ = ["Workers", "workers_of"]

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")
Rows = Iterable[tuple[Table, Labels]]


def workers_of(jobs: int | None, scheduler: str | None) -> Workers | None:
    """The workers that options ask for, or None if this process does all by itself."""
    if jobs is not None and scheduler is not None:
        fail("--jobs and --scheduler exclude each other; give one of them")
    return None if jobs is None and scheduler is None else Workers(jobs, scheduler)


@dataclass(frozen=True)
class Workers:
    """Where workers are: so many processes, or at the address of a scheduler."""

    jobs: int | None
    scheduler: str | None

    def connected(self) -> AbstractContextManager[Any]:
        """A client of the workers, as long as it is needed."""
        from atlas_splines.dask.feeding import connected

        return connected(self.jobs, self.scheduler)

    def add_first_rows(self, estimator: Estimator, rows: Rows) -> None:
        """What `fit_more` does with each piece of rows."""
        from atlas_splines.dask.asking import RowsToSum
        from atlas_splines.dask.feeding import sums_of_pieces

        with self.connected() as client:
            sums = sums_of_pieces(client, RowsToSum(estimator), shown(rows))
        if sums.statistics:
            state = add_first_sums(state_of(estimator.model_), sums)
            estimator._take_first(state, sum(sums.rows.values()))

    def add_to_update(self, estimator: Estimator, learned: tuple[Array, Array, Array], rows: Rows) -> None:
        """Let further rows join the newest update, which has learned some."""
        from atlas_splines.dask.asking import RowsToSum
        from atlas_splines.dask.feeding import sums_of_pieces

        digest = RowDigest()
        digest.add(*learned)
        with self.connected() as client:
            sums = sums_of_pieces(client, RowsToSum(estimator), shown(noted(digest, estimator, rows)))
        judged = estimator._rows(*learned)
        add_to_newest_update(estimator.model_, judged, sums, estimator._loss, digest.text)

    def told(self, asked: Callable[[Piece], Answer], pieces: Iterable[Piece]) -> Iterator[Answer]:
        """What is said of each piece, in their order."""
        from atlas_splines.dask.feeding import fed

        with self.connected() as client:
            yield from fed(client, answered, asked, shown(pieces))


def noted(digest: RowDigest, estimator: Estimator, rows: Rows) -> Iterator[tuple[Table, Labels]]:
    """The rows, which a digest takes in as they pass."""
    for X, y in rows:
        digest.add(*estimator._checked(X, y, None)[:2])
        yield X, y


def answered(piece: Piece, asked: Callable[[Piece], Answer]) -> Answer:
    """What is said of a piece, on a worker."""
    return asked(piece)


def shown(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces, with a line on the terminal that tells how many have come."""
    from tqdm import tqdm

    yield from tqdm(pieces, desc="sent to workers", unit=" pieces", disable=None)
