"""Records: the entries of a model's log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["Record", "next_id"]


@dataclass(eq=False)
class Record:
    """An entry of a model's log.

    Attributes
    ----------
    id
        Number of the update, counted from one.
    kind
        What was done: "pool", "chart", "rehearsal", "both", "none" or "consolidation".
    time
        When, in UTC.
    rows
        Rows of data.
    before, after
        Content hash of the model before and after.
    reverted
        When it was taken back, if it was.
    """

    id: int
    kind: str
    time: datetime
    rows: int
    before: str
    after: str
    reverted: datetime | None = field(default=None, kw_only=True)


def next_id(log: Iterable[Record]) -> int:
    """Number of the entry that comes next in a log; numbers are not used again.

    Examples
    --------
    >>> next_id([])
    1
    """
    return 1 + max((record.id for record in log), default=0)
