"""Feeding: rows that one process reads and other processes work on, such as the pieces of a table.

Workers need no access to the files, and no process holds more than a few pieces.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from functools import reduce
from operator import add
from typing import Any, TypeVar

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.comm import CommClosedError

from atlas_splines.dask.asking import RowsToSum
from atlas_splines.memory.summing import RowSums

__all__ = ["connected", "fed", "sums_of_pieces"]

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

AHEAD = 2  # pieces for each worker that are on their way
PATIENCE = 10  # seconds to wait for a scheduler
LOST = (KilledWorker, CancelledError, CommClosedError, TimeoutError)


@contextlib.contextmanager
def connected(jobs: int | None, scheduler: str | None) -> Iterator[Client]:
    """A cluster of so many processes of this machine, or that of a scheduler; what is lost is named.

    Parameters
    ----------
    jobs
        Number of processes.
    scheduler
        Address of a Dask scheduler, to take its workers instead.
    """
    with contextlib.ExitStack() as stack:
        # pieces of a table travel with the tasks, so that those of a worker that dies go to another one
        stack.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}))
        if scheduler is None:
            address: Any = stack.enter_context(
                LocalCluster(n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=":0")
            )
        else:
            address = scheduler
        try:
            client = stack.enter_context(Client(address, timeout=PATIENCE, set_as_default=False))
        except OSError:
            raise OSError(
                f"no Dask scheduler answers at {scheduler}; start one with `dask scheduler`, or use --jobs"
            ) from None
        try:
            yield client
        except LOST as lost:
            raise RuntimeError(
                f"the Dask workers were lost ({type(lost).__name__}), and nothing was written; start them "
                "again, with more memory if they ran out of it, and run the command again"
            ) from None


def fed(
    client: Client, function: Callable[[Piece, Any], Answer], asked: Any, pieces: Iterable[Piece]
) -> Iterator[Answer]:
    """`function(piece, asked)` of each piece, in their order, from the workers."""
    shared = client.submit(handed_on, asked, pure=False)
    running: deque[Future] = deque()
    for piece in pieces:
        running.append(client.submit(function, piece, shared, pure=False))
        if len(running) > AHEAD * max(len(client.nthreads()), 1):
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


def handed_on(asked: Answer) -> Answer:
    """What all tasks share: a result of a task, which can be computed again if a worker dies."""
    return asked


def sums_of_pieces(client: Client, asked: RowsToSum, pieces: Iterable[tuple[Any, Any]]) -> RowSums:
    """Sums of rows (X, y) that come in pieces, the same in any pieces and from any workers."""
    return reduce(add, fed(client, summed_piece, asked, pieces), RowSums({}, {}))


def summed_piece(piece: tuple[Any, Any], asked: RowsToSum) -> RowSums:
    """Sums of the rows of a piece."""
    return asked(*piece, None)
