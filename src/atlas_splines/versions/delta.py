"""Deltas: the difference between two versions of an estimator that keeps rows.

A version is a set of contributions, so a delta is a set difference and a merge is a union, which commutes.
The model is derived from the contributions that result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.ledger import Contribution, Ledger, derive
from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.io.estimators import label_values, labels_to_json
from atlas_splines.io.ledger import (
    EPOCH,
    MICROSECOND,
    contributions_header,
    contributions_tensors,
    read_contributions,
)
from atlas_splines.io.models import model_from_archive, model_to_archive
from atlas_splines.model.atlas import Atlas, is_held, model_in, state_of
from atlas_splines.model.charts import Chart
from atlas_splines.model.log import Record, chain_of, folded_of, next_id, shortened, unfolded
from atlas_splines.updates.log import Removal, log_in
from atlas_splines.versions.contributions import chain_at
from atlas_splines.versions.diff import entry_key
from atlas_splines.versions.version import Versioned, estimator_of, model_of

__all__ = ["Delta", "delta_from_archive", "delta_of", "delta_to_archive", "joined", "ledger_of", "new_charts"]

HASH_BYTES = 16  # of a row
HEADER = ("model", "last", "columns", "targets", "labels", "contributions", "removed", "reverted")


@dataclass(frozen=True, eq=False)
class Delta:
    """The difference between two versions.

    Attributes
    ----------
    last
        Number of the last entry in the log of the older one.
    added
        Contributions since then.
    removed
        Hashes of the rows that were removed from older contributions, by the clocks of these.
    records
        Entries of the log since.
    reverted
        Times at which entries of the older log were reverted since, by their number.
    """

    last: int
    added: tuple[Contribution, ...]
    removed: Mapping[datetime, Counter[bytes]]
    records: tuple[Record, ...]
    reverted: Mapping[int, datetime]


def ledger_of(thing: Versioned) -> Ledger | None:
    """The ledger of an estimator, if it has a complete one."""
    estimator = estimator_of(thing)
    return None if estimator is None else estimator._current_ledger


def delta_of(base: Versioned, side: Versioned) -> Delta:
    """The difference of a version and an older one; raise a ValueError if it does not descend from that."""
    old, new, log = ledger_of(base), ledger_of(side), model_of(side).updates
    assert old is not None
    assert new is not None
    last, folded = next_id(model_of(base).updates) - 1, folded_of(log)
    if folded is not None and folded.last > last:
        raise ValueError("updates since the base are folded in the log already; merge more often")
    if chain_at(log, last) != chain_of(model_of(base).updates):
        raise ValueError("its log does not continue that of the base")
    if old.fit.time != new.fit.time or dict(old.parameters).keys() != dict(new.parameters).keys():
        raise ValueError("it was fitted anew since")
    known = {each.time: each for each in old.contributions}
    left = {each.time: each for each in new.contributions}
    removed = {}
    for time, each in known.items():
        now = Counter(left[time].hashes) if time in left else Counter()
        if now - Counter(each.hashes):
            raise ValueError("rows were added to its fit since the base")
        if time not in left or Counter(each.hashes) - now:
            removed[time] = Counter(each.hashes) - now
    standing = {record.id for record in model_of(base).updates if record.reverted is None}
    return Delta(
        last=last,
        added=tuple(each for each in new.contributions if each.time not in known),
        removed=removed,
        records=tuple(record for record in unfolded(log) if record.id > last),
        reverted={
            record.id: record.reverted
            for record in log
            if record.reverted is not None and record.id <= last and record.id in standing
        },
    )


def joined(ours: AtlasEstimator, delta: Delta) -> AtlasEstimator:
    """An estimator with the changes of another one since a common version.

    Entries of both logs since then are numbered by their times.
    """
    ledger, log = ours._current_ledger, ours.model_.updates
    assert ledger is not None
    folded = folded_of(log)
    if folded is not None and folded.last > delta.last:
        raise ValueError("updates since the base are folded in the log already; merge more often")
    own = [record for record in unfolded(log) if record.id > delta.last]
    entries = sorted({entry_key(record): record for record in (*own, *delta.records)}.items())
    places = {key: delta.last + 1 + k for k, (key, _) in enumerate(entries)}
    our_numbers, their_numbers = (
        {record.id: places[entry_key(record)] for record in records} for records in (own, delta.records)
    )
    united = _united(ledger, delta, our_numbers, their_numbers)
    if united.rows > ours.max_rows:
        raise ValueError(
            f"together they have {united.rows:,} rows, and max_rows={ours.max_rows:,} can be kept; raise it"
        )
    draft = derive(ours, united)
    theirs = {id(record) for record in delta.records}
    new = [
        _renumbered(record, their_numbers if id(record) in theirs else our_numbers) for _, record in entries
    ]
    old = [_marked(record, delta.reverted) for record in log if record.id <= delta.last]
    standing = {*united.numbers}
    marked = [_settled(record, standing, new) for record in new]
    state = state_of(draft.model_)
    log = log_in(state, [*old, *marked])
    draft.model_ = model_in(state, shortened(log, partial(is_held, state)))
    return draft


def _united(
    ledger: Ledger, delta: Delta, our_numbers: Mapping[int, int], their_numbers: Mapping[int, int]
) -> Ledger:
    """The contributions of both sides, without the rows that one of them has removed."""
    kept: list[Contribution] = []
    for each in ledger.renumbered(our_numbers).contributions:
        gone = delta.removed.get(each.time)
        rest = each if gone is None else each.without(gone)[0]
        if gone is None or len(rest):
            kept.append(rest)
    if kept[0].kind != "fit" or not kept[0].fitted:
        raise ValueError("no row of the fit would be left; fit a new model instead")
    known = {each.time for each in kept}
    theirs = [
        replace(each, number=their_numbers.get(each.number, each.number))
        for each in delta.added
        if each.time not in known
    ]
    others = sorted([*kept[1:], *theirs], key=lambda each: each.order)
    return Ledger((kept[0], *others), ledger.parameters)


def _renumbered(record: Record, numbers: Mapping[int, int]) -> Record:
    changed = replace(record, id=numbers[record.id])
    if isinstance(changed, Removal):
        return replace(changed, updates=tuple(numbers.get(each, each) for each in changed.updates))
    return changed


def _marked(record: Record, reverted: Mapping[int, datetime]) -> Record:
    if record.id not in reverted:
        return record
    times = [reverted[record.id], *([] if record.reverted is None else [record.reverted])]
    return replace(record, reverted=min(times))


def _settled(record: Record, standing: set[int], entries: Sequence[Record]) -> Record:
    """An entry, marked as reverted if its update no longer counts."""
    if record.reverted is not None or isinstance(record, Removal) or record.id in standing:
        return record
    return replace(record, reverted=max(entry.time for entry in entries))


def new_charts(thing: Versioned, last: int) -> list[Chart]:
    """Charts of updates after a given one."""
    return [chart for chart in model_of(thing).charts if chart.update > last]


# --- files ----------------------------------------------------------------------------------------------


def delta_to_archive(delta: Delta, estimator: AtlasEstimator) -> Archive:
    """A delta as an archive; the estimator has the number of columns and targets."""
    labels = None
    if isinstance(estimator, AtlasClassifier):
        named = [estimator.classes_, *(each.classes for each in delta.added if each.classes is not None)]
        labels = np.unique(np.concatenate(named))
    like = estimator.model_
    carrier = Atlas(like.inputs, like.outputs, terms=0, density=0, dtype=like.dtype)
    state = state_of(carrier)
    archive = model_to_archive(model_in(state, log_in(state, delta.records)))
    clocks, hashes = list(delta.removed), [*delta.removed.values()]
    archive.header |= {
        "last": delta.last,
        "columns": delta.added[0].X.shape[1] if delta.added else len(estimator.domain_.knots),
        "targets": None if labels is not None or estimator._one_column else like.outputs,
        "labels": None if labels is None else labels_to_json(labels),
        "contributions": contributions_header(delta.added) if delta.added else None,
        "removed": [
            [(time - EPOCH) // MICROSECOND, gone.total()] for time, gone in zip(clocks, hashes, strict=True)
        ],
        "reverted": {str(number): time.isoformat() for number, time in delta.reverted.items()},
    }
    if delta.added:
        archive.tensors |= contributions_tensors(delta.added, labels, "delta")
    if hashes:
        every = b"".join(b"".join(sorted(gone.elements())) for gone in hashes)
        archive.tensors["delta.removed"] = np.frombuffer(every, np.uint8)
    return archive


def delta_from_archive(archive: Archive) -> Delta:
    """The delta of an archive; raise a ValueError if it is invalid."""
    fields = Fields(archive.header, "the delta", HEADER)
    carrier, labels = model_from_archive(archive), None
    if not fields.is_null("labels"):
        labels = label_values(Fields(fields.value["labels"], "the labels", ("dtype", "values")), archive)
    targets = None if fields.is_null("targets") else fields.whole("targets", least=1, most=2**20)
    added: tuple[Contribution, ...] = ()
    if not fields.is_null("contributions"):
        columns = fields.whole("columns", least=1, most=2**20)
        header = fields.value["contributions"]
        added = read_contributions(archive, header, columns, targets, labels, "delta", has_fit=False)
    last, numbers = fields.whole("last"), {record.id for record in carrier.updates}
    if min(numbers, default=last + 1) <= last or not numbers >= {each.number for each in added} - {0}:
        raise ValueError("its updates are not those after the version that it was made for")
    return Delta(
        last=last,
        added=added,
        removed=_read_removed(archive, fields.items("removed")),
        records=tuple(carrier.updates),
        reverted=_read_reverted(fields.mapping("reverted")),
    )


def _read_removed(archive: Archive, items: list[Any]) -> dict[datetime, Counter[bytes]]:
    for item in items:
        is_pair = isinstance(item, list) and [type(each) for each in item] == [int, int]
        if not is_pair or abs(item[0]) > 2**58 or not 0 <= item[1] < 2**40:
            raise ValueError("'removed' of the delta must be clocks and numbers of rows")
    if not items:
        return {}
    count = sum(rows for _, rows in items)
    body = archive.tensor("delta.removed", "uint8", (HASH_BYTES * count,)).tobytes()
    every = [body[k : k + HASH_BYTES] for k in range(0, len(body), HASH_BYTES)]
    found, begin = {}, 0
    for clock, rows in items:
        found[EPOCH + clock * MICROSECOND] = Counter(every[begin : begin + rows])
        begin += rows
    return found


def _read_reverted(value: dict[str, Any]) -> dict[int, datetime]:
    fields = Fields(value, "'reverted' of the delta", value)
    if not all(number.isdecimal() and len(number) < 16 for number in value):
        raise ValueError("'reverted' of the delta must be by numbers of updates")
    return {int(number): fields.time(number) for number in value}
