"""Forgetting: a model that never saw some rows in its updates, and a receipt that says so."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.core.charts import Chart
from atlas_splines.core.linear_algebra import ONE_THREAD_EACH
from atlas_splines.core.model import Atlas, is_held, model_in, snapshot_of, state_of
from atlas_splines.core.records import Record
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import State
from atlas_splines.evidence.pool import Pool
from atlas_splines.memory.owners import MODEL, as_doubles, chart_of, evidence_of, local_rows, owners_of
from atlas_splines.versions.differences import overlap
from atlas_splines.versions.learned import Data, Learned, by_digest, learn_again, learned
from atlas_splines.versions.pools import restarted
from atlas_splines.versions.replaying import first_version, revert, rows_of, timeline
from atlas_splines.versions.versioned import Versioned, estimator_of, model_of, version, with_model

__all__ = ["Receipt", "forget"]

Array = NDArray[np.float64]

NOT_COVERED = (
    "the first fit: its features, its priors, the domain of its columns, and rows that were in it",
    "copies of the model, backups, patches, exports such as ONNX, and logs kept elsewhere",
    "the log, which still tells of the updates: their number, time, count of rows and digest of data",
)
WIDTHS = "the widths of intervals, which errors on these rows may have shaped"
DECISIONS = "what later updates decided when these rows were known, such as whether to open a chart"
SUBTRACTED, TAKEN_BACK, AGAIN = "taken out of the sums", "taken back", "learned again without them"


@dataclass(frozen=True)
class Taken:
    """What was taken out of one update."""

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

    All rows of one update are found by their digest, and others in the data of updates, if it is given. What
    was pooled is subtracted from the exact sums, and charts of an update that goes are taken back. Fading
    memories, which cannot be unlearned, start again from the exact sums. With the data of all updates every
    one is made again without the rows: this is needed where later charts were fitted on top of them.

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
    tables = {} if data is None else by_digest(model, data)
    log = [record for record in model_of(model).updates if record.id and record.reverted is None]
    if tables and all(record.data in tables for record in model_of(model).updates):
        result, taken = made_again(model, rows, tables, first)
        open_questions: tuple[str, ...] = () if first is not None else (WIDTHS,)
    else:
        affected = updates_with(log, rows, tables)
        result, taken = without_rows(model, affected)
        open_questions = (WIDTHS, DECISIONS) if log[-1].id > affected[0].record.id else ()
    inner = model_of(result)
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
        not_covered=(*NOT_COVERED, *open_questions),
    )


@dataclass(frozen=True, eq=False)
class Affected:
    """An update that had some of the rows."""

    record: Record
    rows: Learned
    is_whole: bool  # whether it had no others


def updates_with(log: Sequence[Record], rows: Learned, tables: Mapping[str, Learned]) -> list[Affected]:
    """The updates that had the rows: one that had exactly these, or those in whose data they are."""
    exactly = [record for record in log if record.data == rows.digest]
    if exactly:
        return [Affected(exactly[-1], rows, True)]
    wanted, found = Counter(rows.hashes), []
    for record in log:
        if record.data in tables:
            gone, kept = tables[record.data].split(Counter(rows.hashes))
            wanted -= Counter(gone.hashes)
            if len(gone.X):
                found.append(Affected(record, gone, not len(kept.X)))
    if wanted or not found:
        raise ValueError(
            "no update has exactly these rows; give the data of the updates they were in, to find them there"
        )
    return found


# --- without all data: by subtraction -------------------------------------------------------------------


def without_rows(thing: Versioned, affected: Sequence[Affected]) -> tuple[Versioned, list[Taken]]:
    """The model without some rows of some updates."""
    result, taken = thing, []
    for each in reversed(affected):
        result, how = without_rows_of(result, each)
        taken.append(Taken(each.record.id, len(each.rows.X), how))
    return result, taken[::-1]


def without_rows_of(thing: Versioned, affected: Affected) -> tuple[Versioned, str]:
    """The model without some rows of an update, or without all of it."""
    model, record = snapshot_of(model_of(thing)), affected.record
    changed = with_model(thing, model)
    later = [other for other in model.updates if other.id > record.id and other.reverted is None]
    if affected.is_whole and not later and is_held(state_of(model), record.id):
        (estimator_of(changed) or model).revert(record.id)
        return changed, TAKEN_BACK
    for reason in dependences(state_of(model), affected):
        raise ValueError(f"{reason}; give the data of all updates, to make the later ones again without it")
    own = any(chart.update == record.id for chart in model.charts)
    state = subtracted(state_of(model), record, rows_of(changed, affected.rows))
    now = datetime.now(timezone.utc)
    gone = record.id if affected.is_whole else None
    log = [replace(entry, reverted=now) if entry.id == gone else entry for entry in model.updates]
    return with_model(thing, model_in(state, log)), f"{TAKEN_BACK}, and {SUBTRACTED}" if own else SUBTRACTED


def dependences(state: State, affected: Affected) -> Iterator[str]:
    """Why rows of an update cannot be taken out without the data of others."""
    number, domain = affected.record.id, state.lattice.domain
    own = [chart for chart in state.charts if chart.update == number]
    later = [chart for chart in state.charts if chart.update > number]
    if affected.record.kind not in ("pool", "chart"):
        yield f"update {number} ({affected.record.kind}) has trained coefficients"
    if own and not affected.is_whole:
        yield f"update {number} has opened charts for these and for other rows"
    if any(not chart.replaces for chart in later):
        yield f"later charts were fitted on top of update {number}"
    for chart in own:
        pool = evidence_of(state_of(chart.content))
        if pool is not None and (pool.recent or pool.track.rows):
            yield f"rows of later updates have joined a chart of update {number}"
        if any(overlap(chart.fence.box_in(domain), other.fence.box_in(domain)) for other in later):
            yield f"a later chart stands where update {number} has one"


def subtracted(state: State, record: Record, rows: Rows) -> State:
    """The state without the charts of an update, and without rows of it in all other evidence."""
    then = state.with_charts(chart for chart in state.charts if chart.update <= record.id)
    owners = owners_of(then, rows)  # charts stand in the order of their updates, so numbers are the same
    charts = [
        chart_less(chart, record.id, rows.take(owners == k))
        for k, chart in enumerate(state.charts)
        if chart.update != record.id
    ]
    remaining = state.with_charts(charts)
    pool, rest = evidence_of(state), rows.take(owners == MODEL)
    if pool is None or not len(rest):
        return remaining
    return less(pool, record.id, *as_doubles(rest)).state_like(remaining)


def chart_less(chart: Chart, update: int, rows: Rows) -> Chart:
    """A chart without rows of an update."""
    pool = evidence_of(state_of(chart.content))
    if pool is None or not len(rows):
        return chart
    return chart_of(chart, less(pool, update, *local_rows(chart.fence, chart.size, rows)))


def less(pool: Pool, update: int, points: Array, targets: Array, weights: Array) -> Pool:
    """The pool without rows of an update; if it is recent, what is left of it can still be taken back."""
    sums = pool.summed(points, targets, weights)
    recent = [
        replace(batch, statistics=batch.statistics - sums) if batch.update == update else batch
        for batch in pool.recent
    ]
    left = [batch for batch in recent if batch.statistics.count > 0]
    spread = None if pool.whole_spread is None else pool.whole_spread.forgotten(points)
    return restarted(pool, pool.total - sums, left, pool.base, spread)


# --- with all data: by making every update again --------------------------------------------------------


def made_again(
    thing: Versioned, rows: Learned, tables: Mapping[str, Learned], first: Versioned | None
) -> tuple[Versioned, list[Taken]]:
    """The model of all updates, each made again without the rows."""
    start = first_version(thing, tables) if first is None else first
    built, taken = copy.deepcopy(start), []
    left = Counter(rows.hashes)
    for record, is_update in timeline(model_of(thing).updates, model_of(start).updates):
        if not is_update:
            if any(entry.id == record.id and not entry.reverted for entry in model_of(built).updates):
                revert(built, record)
            continue
        if record.data not in tables:
            raise ValueError(f"the data of update {record.id} is missing; give it too")
        gone, kept = tables[record.data].split(Counter(rows.hashes))
        left -= Counter(gone.hashes)
        if len(gone.X):
            taken.append(Taken(record.id, len(gone.X), AGAIN if len(kept.X) else TAKEN_BACK))
        if len(kept.X):
            learn_again(built, record, kept)
        else:
            skip(model_of(built), record)
    if left.total():
        raise ValueError(f"{left.total():,} of the rows were in no update; check them")
    return built, taken


def skip(model: Atlas, record: Record) -> None:
    """Keep the number of an update that was not made again: its entry says that it was taken back."""
    now = model.fingerprint()
    model.updates.append(replace(record, before=now, after=now, reverted=datetime.now(timezone.utc)))
