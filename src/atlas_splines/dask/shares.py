"""Shares of tables, which workers read by themselves: one task each, and a tree of the answers.

The client reads no more than the heads of files, so workers must find them under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import add, attrgetter
from typing import TypeVar

from dask.delayed import Delayed, delayed
from distributed import Client

from atlas_splines.dask.clusters import Watch, awaited
from atlas_splines.dask.digests import MOST_DIGESTED, digest_on_workers
from atlas_splines.dask.partitions import tree
from atlas_splines.estimators.row_sums import SummedRows
from atlas_splines.memory.row_digest import Hashes
from atlas_splines.tables.reading import Piece, Share

__all__ = ["asked_of_each", "digested", "summed", "told"]

Answer = TypeVar("Answer")


def asked_of_each(function: Callable[[Iterable[Piece]], Answer], shares: Sequence[Share]) -> list[Delayed]:
    """`function(pieces)` of each share, by the worker that reads it."""
    shared = delayed(function, pure=False, traverse=False)  # once in the graph, not in each task
    return [delayed(read_by, pure=False)(shared, delayed(share.apart, traverse=False)) for share in shares]


def read_by(function: Callable[[Iterable[Piece]], Answer], share: Share) -> Answer:
    """What is said of a share, on a worker."""
    if not share.file.path.is_file():
        raise FileNotFoundError(
            f"the Dask workers do not find {share.file.path}; put it where they see it under this name, "
            "or use --jobs"
        )
    return function(share.pieces())


def told(
    client: Client,
    answers: Sequence[Delayed],
    combine: Callable[[Answer, Answer], Answer],
    watch: Watch | None = None,
) -> Answer:
    """All answers combined, in their order."""
    future = client.compute(tree(answers, partial(reduce, combine)))
    answer: Answer = awaited(client, future, answers, watch)
    return answer


def summed(client: Client, answers: Sequence[Delayed], watch: Watch | None = None) -> SummedRows:
    """The sums of all `SummedRows`, and the rows to be kept, without hashes."""
    return told(client, without_hashes(answers), add, watch)


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
    """What comes to the client of each `SummedRows`."""
    return [delayed(attrgetter("without_hashes"), pure=False)(answer) for answer in answers]
