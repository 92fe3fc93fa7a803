"""Clusters: connections to workers, what is lost on the way, and how far they are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from dask.delayed import Delayed
from distributed import Client, Future, KilledWorker, LocalCluster, wait
from distributed.comm import CommClosedError, resolve_address

__all__ = ["awaited", "connected"]

PATIENCE = 10  # seconds to wait for a scheduler, and for its first worker
GONE = 30  # seconds without any worker after which none is expected any more
LOOK = 0.5  # seconds between looks at how far the workers are
PENDING = ("waiting", "processing", "queued", "no-worker")  # states of tasks that are still to be done
LATE = (TimeoutError, asyncio.TimeoutError)
LOST = (KilledWorker, CancelledError, asyncio.CancelledError, CommClosedError)

Watch = Callable[[int], None]


class LostWorkersError(RuntimeError):
    """The workers, or the way to them, are gone; the message says what to do."""


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
    """An address that a scheduler can have."""
    try:
        resolve_address(scheduler)
    except ValueError:
        raise LostWorkersError(
            f"{scheduler!r} is no address of a scheduler; give one such as tcp://host:8786, or use --jobs"
        ) from None
    except OSError:
        raise none_answers(scheduler) from None
    return scheduler


def none_answers(scheduler: str | None) -> LostWorkersError:
    """What to do where no scheduler is found."""
    return LostWorkersError(
        f"no Dask scheduler answers at {scheduler}; start one with `dask scheduler`, or use --jobs"
    )


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep Dask from logging what is said in one sentence anyway."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def naming_losses() -> Iterator[None]:
    """Say in one sentence what to do where workers, or the way to them, are lost."""
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
    """What to do where a scheduler has no workers."""
    address = client.scheduler.address
    return LostWorkersError(
        f"the Dask scheduler at {address} {what}, and nothing was written; start some with "
        f"`dask worker {address}`, and run the command again"
    )


def awaited(
    client: Client, future: Future, leaves: Sequence[Delayed] = (), watch: Watch | None = None
) -> Any:
    """The result of a future; refuses to wait for ever for workers that are all gone.

    Parameters
    ----------
    client
        Whose future it is.
    future
        What is waited for.
    leaves
        Tasks that tell how far it is.
    watch
        Is told, again and again, how many of them are done.
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
