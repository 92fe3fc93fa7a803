"""Linear algebra on one thread: matrices are small here, and bits depend on how many threads share them."""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from threading import Lock
from typing import Any

import scipy.linalg  # noqa: F401  # with NumPy's, the library that is limited
from threadpoolctl import ThreadpoolController

__all__ = ["ONE_THREAD_EACH"]


class OneThreadEach(ContextDecorator):
    """While anyone is inside, linear algebra works on the thread that calls it and on no other.

    Threads that wait for their share of a small matrix keep a core busy with waiting, so that more of them
    take longer, and many times as long where others need the cores too. The limit holds for the whole
    process. So those inside are counted, and the last one to leave takes it away: each on its own would put
    back what it found, which may be the limit of another.
    """

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.limit = libraries().limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *reason: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.limit.restore_original_limits()


@cache
def libraries() -> ThreadpoolController:
    """Libraries of linear algebra in this process; to look for them takes longer than many predictions."""
    return ThreadpoolController()


ONE_THREAD_EACH = OneThreadEach()
