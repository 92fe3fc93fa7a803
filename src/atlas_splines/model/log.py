"""Log entries of a model, of which the oldest are merged into one, and a hash chain over all of them.

The chain is that of tamper-evident logging (Schneier and Kelsey 1999).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce

__all__ = [
    "NOT_APART",
    "START",
    "TRAINED",
    "Folded",
    "Record",
    "UpdateWarning",
    "chain_of",
    "chained",
    "count_of",
    "gaps_in",
    "next_id",
    "shortened",
]

# Entries that a log keeps in full. Each costs about a kilobyte and a third of a millisecond to load.
KEPT = 200

# Kinds of entries that changed coefficients: as large as the model, so no copy of the old ones is kept.
TRAINED = ("rehearsal", "both", "none", "consolidation")

# What the reason of an update ends with whose sums joined those of older rows at once.
NOT_APART = "so it cannot be taken back"

# The hash of an empty log.
START = "0" * 64


class UpdateWarning(UserWarning):
    """Warning that an update may have done harm, or that its rows had been learned before."""


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
        When it was reverted, if it was.
    data
        Digest of its rows, whatever their order; empty if there is none.
    author, message
        Who made it and why; empty by default.
    """

    id: int
    kind: str
    time: datetime
    rows: int
    before: str
    after: str
    reverted: datetime | None = field(default=None, kw_only=True)
    data: str = field(default="", kw_only=True)
    author: str = field(default="", kw_only=True)
    message: str = field(default="", kw_only=True)


@dataclass(eq=False)
class Folded(Record):
    """The oldest entries of a long log, in one: its first entry.

    Its ``id`` is 0. ``rows`` is their sum, ``before`` is that of the first of them, and ``after`` and
    ``time`` are those of the last. Entries that can still be reverted are in the log in full as well.

    Attributes
    ----------
    count
        How many there were.
    last
        Number of the last of them.
    since
        When the first of them was made.
    chain
        Hash over all of them, as in `chain_of`.
    """

    count: int
    last: int
    since: datetime
    chain: str

    def __repr__(self) -> str:
        span = f"{self.since:%Y-%m-%d} to {self.time:%Y-%m-%d}"
        return f"<Folded: {self.count:,} updates, 1 to {self.last:,}, {self.rows:,} rows, {span}>"


def next_id(log: Iterable[Record]) -> int:
    """Identifier of the next entry of a log; identifiers are not reused.

    Examples
    --------
    >>> next_id([])
    1
    """
    return 1 + max((_last_id(record) for record in log), default=0)


def _last_id(record: Record) -> int:
    return record.last if isinstance(record, Folded) else record.id


def folded_of(log: Sequence[Record]) -> Folded | None:
    """The merged entry of the oldest updates, if there is one."""
    first = log[0] if log else None
    return first if isinstance(first, Folded) else None


def unfolded(log: Sequence[Record]) -> list[Record]:
    """The entries after the merged ones."""
    folded = folded_of(log)
    return [record for record in log if folded is None or record.id > folded.last]


def count_of(log: Sequence[Record]) -> int:
    """Number of entries ever made, merged or not."""
    folded = folded_of(log)
    return len(unfolded(log)) + (0 if folded is None else folded.count)


def shortened(log: Sequence[Record], holds: Callable[[int], bool]) -> list[Record]:
    """The log with its latest entries in full, and those that can be reverted; older ones are merged.

    Parameters
    ----------
    log
        The entries, oldest first.
    holds
        Whether the update of a number can be reverted.
    """
    joining = unfolded(log)[:-KEPT]
    if not joining:
        return list(log)
    folded = reduce(_fold, joining[1:], _fold(folded_of(log), joining[0]))
    kept = [record for record in log if record.id > folded.last or holds(record.id)]
    return [folded, *kept]


def _fold(folded: Folded | None, record: Record) -> Folded:
    """The merged entry with one more record."""
    return Folded(
        id=0,
        kind="folded",
        time=record.time,
        rows=record.rows + (0 if folded is None else folded.rows),
        before=record.before if folded is None else folded.before,
        after=record.after,
        count=1 + (0 if folded is None else folded.count),
        last=record.id,
        since=record.time if folded is None else folded.since,
        chain=chained(START if folded is None else folded.chain, record),
    )


def chained(chain: str, record: Record) -> str:
    """Hash chain extended by one entry."""
    content = [record.id, record.kind, record.time.isoformat(), record.rows, record.before, record.after]
    notes = [record.data, record.author, record.message]
    content += [json.dumps(notes)] if any(notes) else []  # entries from before there were notes have none
    return hashlib.sha256(" ".join(map(str, (chain, *content))).encode()).hexdigest()


def chain_of(log: Sequence[Record]) -> str:
    """Hash chain over all entries ever made; merging old entries does not change it.

    Examples
    --------
    >>> chain_of([])[:8]
    '00000000'
    """
    folded = folded_of(log)
    return reduce(chained, unfolded(log), START if folded is None else folded.chain)


def gaps_in(log: Sequence[Record]) -> list[int]:
    """Identifiers of the entries before which the model was changed without an entry."""
    folded = folded_of(log)
    known = None if folded is None else folded.after
    gaps = []
    for record in unfolded(log):
        if known is not None and record.before != known:
            gaps.append(record.id)
        known = record.after
    return gaps
