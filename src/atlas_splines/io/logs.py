"""Serialisation of a log as a whole: folded entries, and the hash chain over all of them (Merkle 1987).

docs/format.md describes it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from atlas_splines.files.fields import Fields
from atlas_splines.model.atlas import Atlas
from atlas_splines.model.log import Folded, Record, chain_of, gaps_in

__all__ = [
    "FOLDED",
    "HASH",
    "NOTES",
    "chain_header",
    "check_chain",
    "folded_header",
    "notes_of",
    "read_folded",
    "read_notes",
    "record_facts",
]

FOLDED = ("type", "kind", "time", "rows", "before", "after", "count", "last", "since", "chain")
CHAIN = ("hash", "gaps", "current")
HASH = "[0-9a-f]{64}"
NOTES = ("data", "author", "message")  # of an entry, each omitted if empty


def record_facts(record: Record) -> dict[str, Any]:
    """The fields of every log entry as JSON."""
    return {
        "id": record.id,
        "kind": record.kind,
        "time": record.time.isoformat(),
        "rows": record.rows,
        "before": record.before,
        "after": record.after,
        "reverted": None if record.reverted is None else record.reverted.isoformat(),
    }


def notes_of(record: Record) -> dict[str, str]:
    """Digest of the data, author and message of an entry as JSON, each if there is one."""
    return {name: getattr(record, name) for name in NOTES if getattr(record, name)}


def read_notes(fields: Fields) -> dict[str, str]:
    """The notes of an entry of a file."""
    return {name: fields.text(name, HASH if name == "data" else "") for name in NOTES if name in fields.value}


def folded_header(folded: Folded) -> dict[str, Any]:
    """Folded entries as JSON."""
    return {
        "type": "folded",
        "kind": folded.kind,
        "time": folded.time.isoformat(),
        "rows": folded.rows,
        "before": folded.before,
        "after": folded.after,
        "count": folded.count,
        "last": folded.last,
        "since": folded.since.isoformat(),
        "chain": folded.chain,
    }


def read_folded(value: object, name: str) -> Folded:
    """Folded entries of a file."""
    fields = Fields(value, name, FOLDED)
    count = fields.whole("count", least=1)
    return Folded(
        id=0,
        kind=fields.choice("kind", ("folded",)),
        time=fields.time("time"),
        rows=fields.whole("rows"),
        before=fields.text("before", HASH),
        after=fields.text("after", HASH),
        count=count,
        last=fields.whole("last", least=count),
        since=fields.time("since"),
        chain=fields.text("chain", HASH),
    )


def chain_header(model: Atlas) -> dict[str, Any]:
    """The hash over the log, and the gaps where the model changed without an entry."""
    return {"hash": chain_of(model.updates), "gaps": gaps_in(model.updates), "current": _is_current(model)}


def _is_current(model: Atlas) -> bool:
    """Whether the model is unchanged since the newest entry of its log."""
    return not model.updates or model.updates[-1].after == model.fingerprint()


def check_chain(model: Atlas, value: object) -> None:
    """Refuse a log that was not saved with this model; the value is None before version 3."""
    if any(isinstance(record, Folded) for record in model.updates[1:]):
        raise ValueError("its folded updates are not at the beginning of its log")
    if value is None:
        return
    fields = Fields(value, "the chain of the log", CHAIN)
    if any(late.id <= early.id for early, late in pairwise(model.updates)):
        raise ValueError("the updates of its log are not in their order")
    if fields.text("hash", HASH) != chain_of(model.updates):
        raise ValueError("its log does not have the hash it had, so an update was changed, added or left out")
    if fields.items("gaps") != gaps_in(model.updates):
        raise ValueError("an update of its log does not begin with the model that the one before it left")
    if fields.flag("current") != _is_current(model):
        raise ValueError("its coefficients are not those that its log ends with")
