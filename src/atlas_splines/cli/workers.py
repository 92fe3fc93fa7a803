"""Workers that large tables are learned and predicted with: processes of this machine, or of a cluster.

What is asked of a table is a function of its pieces. Alone, this process asks it of all of them; workers read
shares of the table by themselves, and only their answers come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import Any, TypeVar

from atlas_splines.cli.messages import fail
from atlas_splines.cli.progress import Progress
from atlas_splines.estimators.row_sums import SummedRows
from atlas_splines.memory.row_digest import Hashes, RowDigest
from atlas_splines.tables.reading import Piece, Share, Source

__all__ = ["Workers"]

Answer = TypeVar("Answer")
Asked = Callable[[Iterable[Piece]], Answer]


class Workers:
    """So many processes, those of a scheduler, or just this one; they are called when they are needed.

    Parameters
    ----------
    jobs
        Number of processes.
    scheduler
        Address of a Dask scheduler.
    progress
        Tells how far the work is.
    """

    def __init__(self, jobs: int | None, scheduler: str | None, progress: Progress) -> None:
        if jobs is not None and scheduler is not None:
            fail("--jobs and --scheduler exclude each other; give one of them")
        self.jobs, self.scheduler, self.progress = jobs, scheduler, progress

    @property
    def are_others(self) -> bool:
        """Whether other processes than this one do the work."""
        return self.jobs is not None or self.scheduler is not None

    def __enter__(self) -> Workers:
        self._connection = ExitStack()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._connection.__exit__(kind, error, trace)

    @cached_property
    def _client(self) -> Any:
        from atlas_splines.dask.clusters import connected

        return self._connection.enter_context(connected(self.jobs, self.scheduler))

    @property
    def count(self) -> int:
        """How many can work at the same time."""
        return sum(self._client.nthreads().values()) if self.are_others else 1

    def counted_pieces(
        self, what: str, source: Source, columns: Sequence[str] | None = None
    ) -> Iterator[Piece]:
        """All pieces of a table, read here, and counted on the terminal."""
        return self.progress.counted(what, source.pieces(columns), lambda piece: int(piece.table.num_rows))

    def each(
        self,
        asked: Asked[Answer],
        shares: Sequence[Share],
        combine: Callable[[Answer, Answer], Answer],
        what: str,
    ) -> Answer:
        """What is said of each share by a worker that reads it, combined in their order."""
        from atlas_splines.dask.shares import asked_of_each, told

        with self.progress.watched(what, len(shares)) as watch:
            return told(self._client, asked_of_each(asked, shares), combine, watch)

    def told(
        self,
        asked: Asked[Answer],
        source: Source,
        columns: Sequence[str],
        combine: Callable[[Answer, Answer], Answer],
        what: str,
    ) -> Answer:
        """What is said of a table."""
        if not self.are_others:
            return asked(self.counted_pieces(what, source, columns))
        return self.each(asked, source.shares(columns, self.count), combine, what)

    def summed(
        self, asked: Asked[SummedRows], source: Source, columns: Sequence[str], before: Sequence[int]
    ) -> SummedRows:
        """Sums and newest rows of a table, of which so many rows come before each file."""
        if not self.are_others:
            return asked(self.counted_pieces("adding all other rows", source, columns))
        from atlas_splines.dask.shares import asked_of_each, summed

        shares = source.shares(columns, self.count, before)
        with self.progress.watched("adding all other rows", len(shares)) as watch:
            return summed(self._client, asked_of_each(asked, shares), watch)

    def digested(
        self,
        asked: Asked[SummedRows],
        source: Source,
        columns: Sequence[str],
        before: Sequence[int],
        more: Hashes,
    ) -> tuple[SummedRows, str]:
        """Sums and newest rows of a table, and the digest of all its rows and some more."""
        if not self.are_others:
            done = asked(self.counted_pieces("adding all other rows", source, columns))
            digest = RowDigest()
            digest.add_hashes(done.hashes)
            digest.add_hashes(more)
            return done, digest.text
        from atlas_splines.dask.shares import asked_of_each, digested

        shares = source.shares(columns, self.count, before)
        with self.progress.watched("adding all other rows", len(shares)) as watch:
            return digested(self._client, asked_of_each(asked, shares), more, watch)
