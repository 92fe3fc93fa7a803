"""Replay: a life derived again from its data."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.estimators.ledger import Ledger, derive, derived_next
from atlas_splines.estimators.reaching import REACHED, given_back
from atlas_splines.memory.batches import OutputMode
from atlas_splines.memory.pool import Pool
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.log import Record, chain_of, folded_of, next_id, unfolded
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import State
from atlas_splines.updates.incremental import checked, learners_of, restarted
from atlas_splines.updates.log import Removal, Update, digest_text, row_hashes
from atlas_splines.updates.routing import MODEL, as_doubles, memory_in
from atlas_splines.updates.update import update
from atlas_splines.versions.contributions import chain_at, pool_digest, pools_of
from atlas_splines.versions.delta import ledger_of
from atlas_splines.versions.version import Versioned, estimator_of, model_of, with_model

__all__ = [
    "Data",
    "Learned",
    "Replay",
    "Step",
    "by_digest",
    "first_pool",
    "first_version",
    "learn_again",
    "learned",
    "replay",
    "revert",
    "rows_of",
    "same_model",
    "timeline",
]

# Options of an update that its entry in the log may tell.
NOTED = {
    *("retention", "cover", "charts", "density", "terms", "epochs", "batch_size", "learning_rate"),
    *("loss", "features", "extend", "random_state", "far"),
}

Data = Sequence[ArrayLike]  # inputs, targets and, if they are known, weights


@dataclass(frozen=True, eq=False)
class Learned:
    """Rows as an update was given them.

    Attributes
    ----------
    X, y, weights
        Inputs, targets and weights.
    ledger
        That of the estimator, if it has one: it knows the columns that came after the fit.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    weights: NDArray[Any]
    ledger: Ledger | None = None

    @cached_property
    def hashes(self) -> list[bytes]:
        """The hash of each row."""
        own = row_hashes if self.ledger is None else self.ledger.row_hashes
        return own(self.X, self.y, self.weights)

    @property
    def digest(self) -> str:
        """The digest by which the log knows them."""
        return digest_text(self.hashes)

    def split(self, hashes: Counter[bytes]) -> tuple[Learned, Learned]:
        """Rows with these hashes, each as often as it is counted, and all others."""
        left, gone = Counter(hashes), np.zeros(len(self.hashes), np.bool_)
        for k, name in enumerate(self.hashes):
            gone[k] = left[name] > 0
            left[name] -= bool(gone[k])
        return self.take(gone), self.take(~gone)

    def take(self, rows: NDArray[np.bool_]) -> Learned:
        """Some of the rows."""
        return Learned(self.X[rows], self.y[rows], self.weights[rows], self.ledger)


def learned(thing: Versioned, data: Data) -> Learned:
    """Rows in the form in which an update of this model gets them."""
    X, y, *rest = data
    estimator = estimator_of(thing)
    if estimator is not None:
        checked = estimator._checked(X, y, rest[0] if rest else None)
        return Learned(*checked, estimator._current_ledger)
    points = np.asarray(X, np.float64)
    weights = np.asarray(rest[0], np.float64) if rest else np.ones(len(points))
    return Learned(points, np.asarray(y, np.float64), weights)


def by_digest(thing: Versioned, data: Iterable[Data]) -> dict[str, Learned]:
    """Data by its digest."""
    found = [learned(thing, rows) for rows in data]
    return {rows.digest: rows for rows in found}


def learn_again(thing: Versioned, record: Record, rows: Learned) -> Record:
    """Make the update of an entry once more, in place, with the options it had; return the new entry."""
    settings = settings_of(record)
    estimator, message, author = estimator_of(thing), record.message, record.author
    if estimator is not None:
        estimator._update(
            *(rows.X, rows.y, rows.weights),
            retention=settings["retention"],
            seed=settings["random_state"],
            far=settings["far"],
            message=message,
            author=author,
            accept=True,
        )
    else:
        weights = None if (rows.weights == 1).all() else rows.weights
        settings |= {"message": message, "author": author, "accept": True}
        update(model_of(thing), rows.X, rows.y, sample_weight=weights, **settings)
    done = model_of(thing).updates[-1]
    done.time = record.time
    return done


def settings_of(record: Record) -> dict[str, Any]:
    """The options of an update as its entry has them; it may come from a file of a stranger."""
    settings = dict(record.settings) if isinstance(record, Update) else {}
    settings.pop(REACHED, None)  # what it found, and not how it was made
    if not {"retention", "random_state"} <= settings.keys() <= NOTED:
        raise ValueError(
            f"update {record.id} cannot be made again: its entry does not tell its options, or a seed"
        )
    return settings


@dataclass(frozen=True)
class Step:
    """One update, made again.

    Attributes
    ----------
    id
        Its number.
    expected, found
        Fingerprint of the model after it, in the log and now.
    """

    id: int
    expected: str
    found: str

    @property
    def same(self) -> bool:
        """Whether both are the same."""
        return self.expected == self.found


@dataclass(frozen=True)
class Replay:
    """A model that was built again; it counts as true if it has the same bits.

    Attributes
    ----------
    model
        What was built.
    steps
        Each update.
    same
        Whether coefficients, charts and evidence are those of the model.
    """

    model: Versioned
    steps: tuple[Step, ...]
    same: bool

    def __bool__(self) -> bool:
        return self.same


@ONE_THREAD_EACH
def replay(model: Versioned, data: Iterable[Data], *, first: Versioned | None = None) -> Replay:
    """Build a model again from its first fit and the data of its updates, and compare every hash.

    Parameters
    ----------
    model
        The model.
    data
        For each update inputs and targets, and weights if it had any, in any order: the log knows them by
        their digests. The rows of one update come in the order they had.
    first
        The model as it was fitted, or any version in between. By default it is found again from the model:
        charts are taken away, and rows are subtracted from the sums. An estimator that keeps rows is derived
        from them, and needs neither this nor the data.

    Examples
    --------
    >>> from atlas_splines import update
    >>> X, y = [[0.2], [0.3]], [1.0, 2.0]
    >>> model = Atlas(inputs=1)
    >>> done = update(model, X, y, epochs=2)
    >>> bool(replay(model, [(X, y)]))
    True
    """
    tables = by_digest(model, data)
    if first is None and ledger_of(model) is not None:
        return replayed(model, tables)
    start = first_version(model, tables) if first is None else first
    built, steps = copy.deepcopy(start), []
    for record, is_update in timeline(model_of(model).updates, model_of(start).updates):
        if not is_update:
            revert(built, record)
            continue
        if record.data not in tables:
            raise ValueError(f"the data of update {record.id} is missing; give it too")
        learn_again(built, record, tables[record.data])
        steps.append(Step(record.id, record.after, model_of(built).fingerprint()))
    return Replay(
        built, tuple(steps), same_model(model_of(built), model_of(model), error_model=first is not None)
    )


def replayed(thing: Versioned, tables: Mapping[str, Learned]) -> Replay:
    """An estimator that keeps rows, derived again from nothing but its contributions.

    Rows that are given take the place of those of the update with their digest. What came before rows were
    reverted or forgotten is derived without these, so its steps cannot be compared.
    """
    ledger, estimator = ledger_of(thing), estimator_of(thing)
    assert ledger is not None
    assert estimator is not None
    records = {record.id: record for record in model_of(thing).updates}
    removed = max((record.id for record in records.values() if isinstance(record, Removal)), default=0)
    every = ledger.contributions
    since = [k for k, each in enumerate(every) if each.kind == "update" and each.number > removed]
    start = since[0] if since else len(every)
    built, steps = derive(estimator, Ledger(every[:start], ledger.parameters), afresh=True), []
    before = list(every[:start])
    for own in every[start:]:
        each, given = own, tables.get(own.digest)
        if given is not None:
            X, columns = ledger.split(given.X)
            each = replace(each, X=X, y=given.y, weights=given.weights, columns=columns)
        before.append(each)
        built = derived_next(built, Ledger(tuple(before), ledger.parameters))
        if each.number > removed and each.number in records:
            expected = records[each.number].after
            steps.append(Step(each.number, expected, built.model_.fingerprint()))
    built = built._with_columns_of(ledger)._encoding_if_needed()
    built.ledger_ = replace(ledger, fingerprint=built.model_.fingerprint())
    built.model_ = model_in(state_of(built.model_), model_of(thing).updates)
    return Replay(built._taking_frames(), tuple(steps), same_model(built.model_, model_of(thing)))


def timeline(log: Sequence[Record], start: Sequence[Record]) -> Iterator[tuple[Record, bool]]:
    """What happened since an earlier log, in order: updates that were made, true, or taken back, false."""
    last, folded = next_id(start) - 1, folded_of(log)
    if folded is not None and folded.last > last:
        raise ValueError(
            f"the first {folded.last} updates are folded in the log; begin with a version after them"
        )
    if chain_at(log, last) != chain_of(start):
        raise ValueError("the model to begin with is no earlier version of this one")
    known = {record.id for record in start if record.reverted is not None}
    events: list[tuple[datetime, int, bool, Record]] = []
    for record in unfolded(log):
        if record.id > last:
            if record.kind == "consolidation":
                raise ValueError(
                    f"update {record.id} is a consolidation, which is not made again; begin after it"
                )
            events.append((record.time, record.id, True, record))
        if record.reverted is not None and record.id not in known:
            events.append((record.reverted, record.id, False, record))
    for _, _, is_update, record in sorted(events, key=lambda event: event[:2]):
        yield record, is_update


def revert(thing: Versioned, record: Record) -> None:
    """Take an update back, in place, at the time it was."""
    (estimator_of(thing) or model_of(thing)).revert(record.id)
    for entry in model_of(thing).updates:
        if entry.id == record.id:
            entry.reverted = record.reverted


def same_model(one: Atlas, other: Atlas, error_model: bool = True) -> bool:
    """Whether coefficients, charts and evidence have the same bits; and what is known of errors, if asked."""
    pools = [pools_of(state_of(model)) for model in (one, other)]
    digests = [
        {
            owner: pool_digest(pool if error_model else without_error_model(pool))
            for owner, pool in found.items()
        }
        for found in pools
    ]
    return one.fingerprint() == other.fingerprint() and digests[0] == digests[1]


def without_error_model(pool: Pool) -> Pool:
    """A pool that knows nothing of errors: what the first fit knew of them is not found again."""
    recent = tuple(replace(batch, seen=None) for batch in pool.recent)
    return replace(pool, recent=recent, error_model=None)


# --- the first fit --------------------------------------------------------------------------------------


def first_version(thing: Versioned, tables: Mapping[str, Learned]) -> Versioned:
    """The model before its first update, found again from what it is now and the data since."""
    model = model_of(thing)
    log = unfolded(model.updates)
    if folded_of(model.updates) is not None:
        raise ValueError("the oldest updates are folded in the log; give a version after them to begin with")
    if not log:
        return thing
    state, pool = state_of(model), memory_in(state_of(model))
    domains = [record.footprint.domain for record in log if isinstance(record, Update)]
    unit = np.tile([0.0, 1.0], (model.inputs, 1))
    candidates: Iterable[State]
    if pool is None:
        candidates = [given_back(state.with_charts(()), log[0].before, [*domains, unit])]
    else:
        first = first_pool(thing, pool, tables)
        voices = [
            output_mode for output_mode in get_args(OutputMode) if output_mode != "fading" or pool.half_lives
        ]
        candidates = (
            replace(state_in_output_mode(first, output_mode), monotonic=state.monotonic)
            for output_mode in voices
        )
    try:
        for found in candidates:
            if model_in(found).fingerprint() == log[0].before:
                return with_model(thing, model_in(found))
    except ArithmeticError:  # rows were subtracted that are no longer in the sums
        pass
    raise ValueError("the first fit cannot be found again from what the model is now; give it to begin with")


def state_in_output_mode(pool: Pool, output_mode: OutputMode) -> State:
    """The state of a fitted model of which one part speaks."""
    speaking = pool.with_output_mode(output_mode)
    return replace(state_of(speaking.model), pooled=speaking)


def first_pool(thing: Versioned, pool: Pool, tables: Mapping[str, Learned]) -> Pool:
    """The evidence of the first fit: all sums, less those of the rows that came later."""
    pool = pool.with_only(pool.origins < 0)  # features that came later go
    state, total = state_of(model_of(thing)), pool.total
    for record in model_of(thing).updates:
        if record.reverted is not None:
            continue
        if record.data not in tables:
            raise ValueError(f"the data of update {record.id} is missing; give it too")
        rows = rows_of(thing, tables[record.data], record)
        own = learners_of(state, model_of(thing).updates, record, rows) == MODEL
        total = total - pool.summed(*as_doubles(rows.take(own)))
    first = restarted(checked(pool, total), total, (), pool.fitted, pool.combined_error_model)
    if first.memory is None:
        return first
    kept = first.memory.rows
    return replace(first, memory=replace(first.memory, rows=kept.take(kept.updates == 0)))


def rows_of(thing: Versioned, data: Learned, record: Record | None = None) -> Rows:
    """Rows in the coordinates and units of the model; those of an update in the domain of then."""
    estimator, model = estimator_of(thing), model_of(thing)
    if estimator is not None:
        domain = record.footprint.domain if isinstance(record, Update) else model.domain
        return estimator._rows(data.X, data.y, data.weights, domain)
    targets = data.y.reshape(len(data.X), -1).astype(model.dtype)
    return Rows(data.X.astype(model.dtype), targets, data.weights.astype(model.dtype))
