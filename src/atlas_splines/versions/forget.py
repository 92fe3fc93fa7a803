"""Forgetting: a model that never saw some rows in its updates, and a receipt that says so."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.estimators.ledger import Ledger, framed_rows
from atlas_splines.estimators.reaching import needed_domain
from atlas_splines.memory.local_memory import LocalMemory
from atlas_splines.memory.pool import FEWEST_ROWS
from atlas_splines.model.atlas import Atlas, can_revert, model_in, snapshot_of, state_of
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.log import Record
from atlas_splines.model.resize import reduced
from atlas_splines.updates.incremental import NOT_THERE, dependences, less, subtracted
from atlas_splines.updates.routing import as_doubles, memory_in, needed_pool
from atlas_splines.versions.delta import ledger_of
from atlas_splines.versions.diff import encoding_of
from atlas_splines.versions.replay import (
    Data,
    Learned,
    by_digest,
    first_pool,
    first_version,
    learn_again,
    learned,
    revert,
    rows_of,
    timeline,
)
from atlas_splines.versions.version import (
    Versioned,
    estimator_of,
    model_of,
    version,
    with_model,
)

__all__ = ["Receipt", "forget"]

Array = NDArray[np.float64]

FIRST_FIT = "the first fit: its features, its priors, the domain of its columns, and rows that were in it"
CHOSEN = (
    "what was chosen with the rows that a fit or an update had: features, length scales, shares and priors, "
    "the domain of columns, and the places of categories"
)
NOT_COVERED = (
    "copies of the model, backups, patches, exports such as ONNX, and logs kept elsewhere",
    "the log, which still tells of the updates: their number, time, count of rows and digest of data",
)
WIDTHS = "the widths of intervals, which errors on these rows may have shaped"
DECISIONS = "what later updates decided when these rows were known, such as whether to open a chart"
MAKE_AGAIN = "give the data of all updates, to make the later ones again without it"
SUBTRACTED, TAKEN_BACK, AGAIN = "taken out of the sums", "taken back", "learned again without them"
DROPPED = "taken out of the kept rows and of the sums"
REMOVED = "removed, and the model derived from all others"
AGAIN_FRAME = "encodings, features and length scales were chosen again without them"
SAME_FRAME = "encodings, features and length scales were not chosen from them, and stay"
NAMES_OF_CATEGORIES = "names of categories, and of columns"


@dataclass(frozen=True)
class Taken:
    """What was taken out of one update, or out of the fit, which has number 0."""

    update: int
    rows: int
    how: str


@dataclass(frozen=True)
class Receipt:
    """What was forgotten, and what was not.

    Attributes
    ----------
    time
        When, in UTC.
    before, after
        Version of the model before and after.
    fingerprint_before, fingerprint_after
        Hash of all that predictions depend on.
    rows, data
        How many rows were to be forgotten, and their digest.
    taken
        What was taken out of which update.
    remaining
        Numbers of the updates that still count.
    not_covered
        What this does not reach.
    """

    time: str
    before: str
    after: str
    fingerprint_before: str
    fingerprint_after: str
    rows: int
    data: str
    taken: tuple[Taken, ...]
    remaining: tuple[int, ...]
    not_covered: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The receipt as JSON has it."""
        return asdict(self)


@ONE_THREAD_EACH
def forget(
    model: Versioned,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    data: Iterable[Data] | None = None,
    first: Versioned | None = None,
) -> tuple[Versioned, Receipt]:
    """The model as if its updates had never seen some rows, and a receipt; the model itself stays as it is.

    An estimator that keeps rows finds them in its ledger, those of its fit as well, and is derived from the
    others: bit for bit the model of a life without them. Otherwise all rows of one update are found by their
    digest, and others in the data of updates, if it is given. What was pooled is subtracted from the exact
    sums, and charts of an update that goes are reverted. Fading memories, which cannot be unlearned, start
    again from the exact sums. With the data of all updates every one is made again without the rows: this is
    needed where later charts were fitted on top.

    Parameters
    ----------
    model
        The model.
    X, y, sample_weight
        The rows, as they were given when they were learned.
    data
        The data of the updates that had the rows, or of all updates, as in `replay`.
    first
        The model as it was fitted, as in `replay`.

    Examples
    --------
    >>> from atlas_splines import update
    >>> model = Atlas(inputs=1)
    >>> before = model.fingerprint()
    >>> done = update(model, [[0.2], [0.3]], [1.0, 2.0], epochs=2, random_state=0)
    >>> clean, receipt = forget(model, [[0.3], [0.2]], [2.0, 1.0])
    >>> clean.fingerprint() == before, receipt.taken
    (True, (Taken(update=1, rows=2, how='taken back'),))
    """
    rows = learned(model, (X, y) if sample_weight is None else (X, y, sample_weight))
    if not len(rows.X):
        raise ValueError("there are no rows to forget")
    if ledger_of(model) is not None:
        return forgotten(model, rows)
    tables = {} if data is None else by_digest(model, data)
    log = [record for record in model_of(model).updates if record.id and record.reverted is None]
    if tables and all(record.data in tables for record in model_of(model).updates):
        result, taken = made_again(model, rows, tables, first)
        open_questions: tuple[str, ...] = () if first is not None else (WIDTHS,)
    else:
        affected = updates_with(model, log, rows, tables)
        result, taken = without_rows(model, affected)
        last = max((record.id for record in log), default=0)
        open_questions = (WIDTHS, DECISIONS) if last > affected[0].update else ()
    inner = model_of(result)
    chosen = FIRST_FIT if memory_of(model) is None else CHOSEN
    return result, Receipt(
        time=datetime.now(timezone.utc).isoformat(),
        before=version(model),
        after=version(result),
        fingerprint_before=model_of(model).fingerprint(),
        fingerprint_after=inner.fingerprint(),
        rows=len(rows.X),
        data=rows.digest,
        taken=tuple(taken),
        remaining=tuple(record.id for record in inner.updates if record.reverted is None),
        not_covered=(chosen, *NOT_COVERED, *open_questions),
    )


def forgotten(thing: Versioned, rows: Learned) -> tuple[Versioned, Receipt]:
    """An estimator derived from all contributions but some rows, with the receipt."""
    ledger, estimator = ledger_of(thing), estimator_of(thing)
    assert ledger is not None
    assert estimator is not None
    left, removed = ledger.without_rows(rows.hashes)
    draft = estimator._without(left, "forget", removed)
    result = draft._taking_frames()
    chosen_again = frame_of(ledger) != frame_of(left)
    taken = []
    for each in removed:
        frame = "" if each.number else f"; {AGAIN_FRAME if chosen_again else SAME_FRAME}"
        how = REMOVED + frame
        taken.append(Taken(each.number, each.rows, how))
    return result, Receipt(
        time=datetime.now(timezone.utc).isoformat(),
        before=version(thing),
        after=version(result),
        fingerprint_before=model_of(thing).fingerprint(),
        fingerprint_after=model_of(result).fingerprint(),
        rows=len(rows.X),
        data=rows.digest,
        taken=tuple(taken),
        remaining=tuple(left.numbers),
        not_covered=NOT_COVERED if encoding_of(thing) is None else (NAMES_OF_CATEGORIES, *NOT_COVERED),
    )


def frame_of(ledger: Ledger) -> list[bytes]:
    """Hashes of the rows that the frame was chosen from: those of the fit, or all up to the newest column."""
    counts = range(len(ledger.contributions))
    bringing = [k for k in counts if len(ledger.until(k + 1).columns) > len(ledger.until(k).columns)]
    if bringing:
        return [name for each in ledger.contributions[: bringing[-1] + 1] for name in each.hashes]
    return [ledger.fit.hashes[k] for k in np.flatnonzero(framed_rows(ledger.fit))]


@dataclass(frozen=True, eq=False)
class Affected:
    """An update that had some of the rows, or the fit."""

    record: Record | None  # None for the fit
    rows: Learned
    is_whole: bool  # whether it had no others
    is_kept: bool = False  # whether the model keeps the rows
    left: Learned | None = None  # other rows of the update, if they are known

    @property
    def update(self) -> int:
        """Number of the update, 0 for the fit."""
        return 0 if self.record is None else self.record.id


def memory_of(thing: Versioned) -> LocalMemory | None:
    """The rows that a model keeps, if it does."""
    pool = memory_in(state_of(model_of(thing)))
    return None if pool is None else pool.memory


def updates_with(
    thing: Versioned, log: Sequence[Record], rows: Learned, tables: Mapping[str, Learned]
) -> list[Affected]:
    """The updates that had the rows, by number: one that had exactly these, or those that they are found in.

    Rows that the model keeps are found there, and all others in the data of updates.
    """
    exactly = [record for record in log if record.data == rows.digest]
    if exactly:
        return [Affected(exactly[-1], rows, True)]
    kept, others = updates_with_kept(thing, log, rows)
    if kept and not len(others.X):
        return kept
    return sorted([*kept, *updates_with_data(log, others, tables)], key=lambda each: each.update)


def updates_with_kept(
    thing: Versioned, log: Sequence[Record], rows: Learned
) -> tuple[list[Affected], Learned]:
    """Updates, and the fit, of which the model keeps some of the rows, and the rows that it does not keep."""
    pool = memory_in(state_of(model_of(thing)))
    if pool is None or pool.memory is None:
        return [], rows
    updates = pool.updates_of(*as_doubles(rows_of(thing, rows)))
    records = {record.id: record for record in log}
    found = [
        Affected(records.get(update), rows.take(updates == update), False, True)
        for update in np.unique(updates[updates >= 0]).tolist()
    ]
    others = rows.take(updates < 0)
    if len(others.X) and pool.keeps_all and not state_of(model_of(thing)).charts:
        raise ValueError(
            f"{len(others.X):,} of the rows are not among those that the model has learned; check them"
        )
    return found, others


def updates_with_data(log: Sequence[Record], rows: Learned, tables: Mapping[str, Learned]) -> list[Affected]:
    """The updates in whose data the rows are."""
    losses, found = losses_of(log, rows, tables), []
    for record in log:
        if losses[record.id]:
            gone, kept = tables[record.data].split(losses[record.id])
            found.append(Affected(record, gone, not len(kept.X), left=kept))
    if sum(len(each.rows.X) for each in found) < len(rows.X):
        raise ValueError(
            "no update has exactly these rows; give the data of the updates they were in, to find them there"
        )
    return found


def losses_of(
    log: Sequence[Record], rows: Learned, tables: Mapping[str, Learned]
) -> dict[int, Counter[bytes]]:
    """Hashes of the rows that each update loses, each row once, as a ledger has it.

    The latest update that has exactly these rows loses them; otherwise the latest one that has a row does.
    Updates that were taken back come last: what they have counts no more.
    """
    left, losses = Counter(rows.hashes), {record.id: Counter[bytes]() for record in log}
    standing = [record for record in log if record.reverted is None]
    exactly = [record for record in standing if record.data == rows.digest]
    others = [record for record in log if record.reverted is not None] + standing
    for record in exactly[-1:] or reversed(others):
        if record.data in tables:
            losses[record.id] = left & Counter(tables[record.data].hashes)
            left = left - losses[record.id]
    return losses


# --- without all data: by subtraction -------------------------------------------------------------------


def without_rows(thing: Versioned, affected: Sequence[Affected]) -> tuple[Versioned, list[Taken]]:
    """The model without some rows of some updates."""
    result, taken = thing, []
    for each in reversed(affected):
        result, how = without_rows_of(result, each)
        taken.append(Taken(each.update, len(each.rows.X), how))
    return result, taken[::-1]


def without_rows_of(thing: Versioned, affected: Affected) -> tuple[Versioned, str]:
    """The model without some rows of an update, or without all of it."""
    model, record = snapshot_of(model_of(thing)), affected.record
    changed = with_model(thing, model)
    if affected.is_kept or record is None:
        return without_kept_rows(changed, affected), DROPPED
    later = [other for other in model.updates if other.id > record.id and other.reverted is None]
    if affected.is_whole and not later and can_revert(state_of(model), record):
        (estimator_of(changed) or model).revert(record.id)
        return changed, TAKEN_BACK
    for reason in dependences(state_of(model), record, affected.is_whole):
        raise ValueError(f"{reason}; {MAKE_AGAIN}")
    own = any(chart.update == record.id for chart in model.charts)
    rows = rows_of(changed, affected.rows, record)
    try:
        state = subtracted(state_of(model), model.updates, record, rows, affected.is_whole)
    except (ValueError, ArithmeticError) as error:
        reason = NOT_THERE if isinstance(error, ArithmeticError) else str(error)
        raise ValueError(f"{reason}; {MAKE_AGAIN}") from None
    log = [without_in(entry, affected) if entry.id == record.id else entry for entry in model.updates]
    if estimator_of(thing) is not None:
        state = reduced(state, needed_domain(state, log))
    return with_model(thing, model_in(state, log)), f"{TAKEN_BACK}, and {SUBTRACTED}" if own else SUBTRACTED


def without_in(record: Record, affected: Affected) -> Record:
    """The entry of an update without some of its rows: it has other rows now, or is taken back."""
    if affected.is_whole:
        return replace(record, reverted=datetime.now(timezone.utc))
    left = affected.left
    enough = left is not None and len(set(left.hashes)) >= FEWEST_ROWS
    digest = left.digest if left is not None and enough else ""
    return replace(record, rows=record.rows - len(affected.rows.X), data=digest)


def without_kept_rows(thing: Versioned, affected: Affected) -> Versioned:
    """The model without some rows that it keeps: it is derived again from all others."""
    model, number = model_of(thing), affected.update
    state = state_of(model)
    if any(not chart.replaces for chart in state.charts if chart.update > number):
        raise ValueError(f"later charts were fitted on top of {what_of(number)}; {MAKE_AGAIN}")
    pool = less(needed_pool(state), number, *as_doubles(rows_of(thing, affected.rows)))
    return with_model(thing, model_in(pool.state_like(state), model.updates))


def what_of(number: int) -> str:
    """An update in words."""
    return f"update {number}" if number else "the fit"


# --- with all data: by making every update again --------------------------------------------------------


def made_again(
    thing: Versioned, rows: Learned, tables: Mapping[str, Learned], first: Versioned | None
) -> tuple[Versioned, list[Taken]]:
    """The model of all updates, each made again without the rows; those that the fit keeps are dropped."""
    start = first_version(thing, tables) if first is None else first
    refuse_other_start(thing, start, tables)
    events = list(timeline(model_of(thing).updates, model_of(start).updates))
    losses = losses_of([record for record, is_update in events if is_update], rows, tables)
    left = Counter(rows.hashes) - sum(losses.values(), Counter[bytes]())
    kept, others = updates_with_kept(start, [], rows.split(left)[0]) if left else ([], rows.split(left)[0])
    if len(others.X):
        raise ValueError(f"{len(others.X):,} of the rows were in no update; check them")
    built, taken = without_rows(copy.deepcopy(start), kept)
    for record, is_update in events:
        if not is_update:
            if any(entry.id == record.id and not entry.reverted for entry in model_of(built).updates):
                revert(built, record)
            continue
        if record.data not in tables:
            raise ValueError(f"the data of update {record.id} is missing; give it too")
        gone, rest = tables[record.data].split(losses[record.id])
        if len(gone.X):
            taken.append(Taken(record.id, len(gone.X), AGAIN if len(rest.X) else TAKEN_BACK))
        if len(rest.X):
            learn_again(built, record, rest)
        else:
            skip(model_of(built), record)
    return built, taken


def refuse_other_start(thing: Versioned, start: Versioned, tables: Mapping[str, Learned]) -> None:
    """Refuse a model to begin with that has rows which were forgotten since: they would come back."""
    now, then = (memory_in(state_of(model_of(each))) for each in (thing, start))
    if now is None or then is None or model_of(start).updates:
        return
    try:
        total = first_pool(thing, now, tables).total
    except (ValueError, ArithmeticError):  # who learned rows cannot be told
        return
    if total.without_levels() != then.total.without_levels():
        raise ValueError(
            "the model to begin with has rows that were forgotten since, or others; begin with one that has "
            "forgotten them too"
        )


def skip(model: Atlas, record: Record) -> None:
    """Keep the number of an update that was not made again: its entry says that it was taken back."""
    now = model.fingerprint()
    model.updates.append(replace(record, before=now, after=now, reverted=datetime.now(timezone.utc)))
