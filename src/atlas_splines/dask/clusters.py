"""Clusters: connections, waiting for results, lost workers, and reductions over shares of files."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial, reduce
from operator import add, attrgetter
from typing import Any, TypeVar

import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client, Future, KilledWorker, LocalCluster, wait
from distributed.comm import CommClosedError, resolve_address

from atlas_splines.dask.partitions import tree
from atlas_splines.estimators.out_of_core import SummedRows
from atlas_splines.tables.source import Piece, Share
from atlas_splines.updates.log import Hashes

__all__ = [
    "MOST_DIGESTED",
    "awaited",
    "combined",
    "connected",
    "digest_on_workers",
    "digested",
    "summed",
    "tasks_of_each",
]

PATIENCE = 10  # seconds to wait for a scheduler, and for its first worker
GONE = 30  # seconds without any worker after which none is expected any more
LOOK = 0.5  # seconds between looks at how far the workers are
PENDING = ("waiting", "processing", "queued", "no-worker")  # states of tasks that are still to be done
LATE = (TimeoutError, asyncio.TimeoutError)
LOST = (KilledWorker, CancelledError, asyncio.CancelledError, CommClosedError)

Watch = Callable[[int], None]


class LostWorkersError(RuntimeError):
    """Workers, or the connection to them, were lost; the message has the remedy."""


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
        stack.enter_context(silence())
        if scheduler is None:
            address: Any = stack.enter_context(
                LocalCluster(
                    n_workers=jobs,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                )
            )
        else:
            address = checked_address(scheduler)
        try:
            client = stack.enter_context(Client(address, timeout=PATIENCE, set_as_default=False))
        except OSError:
            raise none_answers(scheduler) from None
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except LATE:
            raise none_left(client, "has no workers") from None
        with naming_losses():
            yield client


def checked_address(scheduler: str) -> str:
    """A validated scheduler address."""
    try:
        resolve_address(scheduler)
    except ValueError:
        raise LostWorkersError(
            f"{scheduler!r} is not a scheduler address; give one such as tcp://host:8786, or use --jobs"
        ) from None
    except OSError:
        raise none_answers(scheduler) from None
    return scheduler


def none_answers(scheduler: str | None) -> LostWorkersError:
    """Advice if no scheduler is found."""
    return LostWorkersError(
        f"no Dask scheduler answers at {scheduler}; start one with `dask scheduler`, or use --jobs"
    )


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Suppress Dask's logging of errors that are raised as one sentence anyway."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def naming_losses() -> Iterator[None]:
    """Raise `LostWorkersError` where workers, or the connection to them, are lost."""
    try:
        yield
    except LOST as lost:
        raise LostWorkersError(
            f"the Dask workers were lost ({type(lost).__name__}), and nothing was written; start them "
            "again, with more memory if they ran out of it, and run the command again"
        ) from None
    except ImportError as error:
        raise LostWorkersError(
            f"the Dask workers cannot import what they need ({error}); install the same version of "
            "atlas-splines there"
        ) from None


def none_left(client: Client, what: str) -> LostWorkersError:
    """Advice if a scheduler has no workers."""
    address = client.scheduler.address
    return LostWorkersError(
        f"the Dask scheduler at {address} {what}, and nothing was written; start some with "
        f"`dask worker {address}`, and run the command again"
    )


def awaited(
    client: Client, future: Future, leaves: Sequence[Delayed] = (), watch: Watch | None = None
) -> Any:
    """The result of a future; raises if all workers are gone for too long.

    Parameters
    ----------
    client
        Whose future it is.
    future
        What is waited for.
    leaves
        Tasks whose completion is counted.
    watch
        Called repeatedly with the number of them that are done.
    """
    keys, seen = [leaf.key for leaf in leaves], time.monotonic()
    while True:
        try:
            with client.as_current():
                wait(future, timeout=LOOK)
            break
        except LATE:
            if client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen > GONE:
                raise none_left(client, "has lost all its workers") from None
            if watch is not None:
                watch(sum(state not in PENDING for state in states(client, keys)))
    if watch is not None:
        watch(len(keys))
    return future.result()


def states(client: Client, keys: Sequence[Any]) -> list[str | None]:
    """The state of each task, None for those that are done and forgotten."""
    found = client.sync(client.scheduler.get_task_status, keys=list(keys))
    return [found.get(key) for key in keys]


# Rows of a range, about: 16 MB of hashes.
RANGE_ROWS = 1_000_000

# Rows of which there is a digest: ranges times partitions are tasks of the scheduler.
MOST_DIGESTED = 100_000_000

LEADING = 2**32  # values of the first four bytes of a hash, by which rows are partitioned into ranges


def digest_on_workers(client: Client, hashed: Sequence[Future], rows: int) -> str:
    """The digest of so many rows, of which each worker has some hashes, sorted."""
    digest, count = hashlib.sha256(), -(-rows // RANGE_ROWS)
    for k in range(count):
        parts = [client.submit(in_range, part, k, count, pure=False) for part in hashed]
        digest.update(client.submit(in_order, parts, pure=False).result())
    return digest.hexdigest()


def in_range(hashes: Hashes, k: int, count: int) -> Hashes:
    """The sorted hashes in one of so many ranges.

    Examples
    --------
    >>> hashes = np.array([bytes([k] * 16) for k in (1, 100, 200)], "S16")
    >>> [len(in_range(hashes, k, 2)) for k in range(2)]
    [2, 1]
    """
    ends = [(LEADING * end // count).to_bytes(5, "big")[1:] for end in (k, k + 1)]
    begin = np.searchsorted(hashes, np.bytes_(ends[0]))
    return hashes[begin:] if k == count - 1 else hashes[begin : np.searchsorted(hashes, np.bytes_(ends[1]))]


def in_order(parts: Sequence[Hashes]) -> bytes:
    """All hashes of some parts, sorted, as bytes."""
    return np.sort(np.concatenate(parts)).tobytes()


Answer = TypeVar("Answer")


def tasks_of_each(function: Callable[[Iterable[Piece]], Answer], shares: Sequence[Share]) -> list[Delayed]:
    """`function(pieces)` of each share, by the worker that reads it."""
    shared = delayed(function, pure=False, traverse=False)  # once in the graph, not in each task
    return [delayed(read_by, pure=False)(shared, delayed(share.apart, traverse=False)) for share in shares]


def read_by(function: Callable[[Iterable[Piece]], Answer], share: Share) -> Answer:
    """The result of a function for a share, on a worker."""
    if not share.file.path.is_file():
        raise FileNotFoundError(
            f"the Dask workers do not find {share.file.path}; put it where they see it under this name, "
            "or use --jobs"
        )
    return function(share.pieces())


def combined(
    client: Client,
    answers: Sequence[Delayed],
    combine: Callable[[Answer, Answer], Answer],
    watch: Watch | None = None,
) -> Answer:
    """Reduction of all answers, in their order."""
    future = client.compute(tree(answers, partial(reduce, combine)))
    answer: Answer = awaited(client, future, answers, watch)
    return answer


def summed(client: Client, answers: Sequence[Delayed], watch: Watch | None = None) -> SummedRows:
    """The sums of all `SummedRows`, and the rows to be kept, without hashes."""
    return combined(client, without_hashes(answers), add, watch)


def digested(
    client: Client, answers: Sequence[Delayed], more: Hashes | None = None, watch: Watch | None = None
) -> tuple[SummedRows, str]:
    """The same, and the digest of their rows and some more; "" for too many rows."""
    hashes = [delayed(attrgetter("hashes"), pure=False)(answer) for answer in answers]
    if more is not None:
        hashes.append(delayed(more, traverse=False))
    future, *hashed = client.compute([tree(without_hashes(answers), partial(reduce, add)), *hashes])
    total: SummedRows = awaited(client, future, answers, watch)
    rows = sum(total.sums.rows.values())
    return total, digest_on_workers(client, hashed, rows) if rows <= MOST_DIGESTED else ""


def without_hashes(answers: Sequence[Delayed]) -> list[Delayed]:
    """Each `SummedRows` without hashes, which stay on the workers."""
    return [delayed(attrgetter("without_hashes"), pure=False)(answer) for answer in answers]
