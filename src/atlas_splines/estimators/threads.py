"""Threads: members and folds share the cores, and linear algebra inside them takes no more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_info

from atlas_splines.core.linear_algebra import ONE_THREAD_EACH

__all__ = ["run_in_threads"]

Result = TypeVar("Result")


def run_in_threads(
    function: Callable[[int], Result], numbers: Iterable[int], n_jobs: int | None
) -> list[Result]:
    """Map a function over numbers; the result does not depend on the number of threads.

    Parameters
    ----------
    function, numbers
        What to call, and with what.
    n_jobs
        Threads, as scikit-learn counts them; None takes all cores that OpenMP would take, as boosting does.

    Examples
    --------
    >>> run_in_threads(lambda k: k**2, range(4), n_jobs=2)
    [0, 1, 4, 9]
    """
    numbers = list(numbers)
    threads = min(free_cores() if n_jobs is None else counted_jobs(n_jobs), len(numbers))
    with ONE_THREAD_EACH:  # for one thread too: sums of linear algebra are rounded as its threads share them
        if threads <= 1:
            return [function(k) for k in numbers]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(function, numbers))


def counted_jobs(n_jobs: int) -> int:
    """Threads for a number as scikit-learn has it: -1 is all cores, -2 all but one.

    Examples
    --------
    >>> counted_jobs(3), counted_jobs(-1) == os.cpu_count()
    (3, True)
    """
    return n_jobs if n_jobs > 0 else max((os.cpu_count() or 1) + 1 + n_jobs, 1)


def free_cores() -> int:
    """Cores of this process, or fewer if OMP_NUM_THREADS or a parallel search around it says so."""
    pools = (pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
    return min(pools, default=os.cpu_count() or 1)
