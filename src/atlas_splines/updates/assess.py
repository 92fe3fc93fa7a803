"""Out-of-sample errors of the rows of an update, and a warning where an update may have done harm."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.log import Record, UpdateWarning
from atlas_splines.model.losses import find_loss
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import State
from atlas_splines.updates.intervals import deviations, needed_error_model, support_of
from atlas_splines.updates.log import Update
from atlas_splines.updates.metrics import HeldOut, assess
from atlas_splines.updates.routing import BLOCKS, MODEL, RoutedRows, blocks, memory_in, parts_of, route
from atlas_splines.updates.synthetic_sample import synthetic_sample_of

__all__ = ["OutOfSample", "assess_pooled", "harm_warning", "known_text", "warn_known", "warn_of"]

Array = NDArray[np.float64]

MOST_JUDGED = 1000  # rows of an update: more would take longer than to learn them


@dataclass
class OutOfSample:
    """What was said of rows by what had not learned them.

    Attributes
    ----------
    predicted
        Pairs of rows and what was said of them, shape (rows, outputs).
    crossed
        Whether some were held out in turn, and not for good.
    """

    predicted: list[tuple[NDArray[np.floating], Rows]] = field(default_factory=list)
    crossed: bool = False

    def join(self, more: OutOfSample) -> None:
        """Take in what was said of further rows."""
        self.predicted += more.predicted
        self.crossed |= more.crossed

    def assessed(self, loss: str) -> HeldOut | None:
        """How good that is; None if nothing was said."""
        if not self.predicted:
            return None
        rows = reduce(Rows.join, [part for _, part in self.predicted])
        with np.errstate(over="ignore", invalid="ignore"):  # a model that overflows is infinitely wrong
            outputs = np.vstack([told for told, _ in self.predicted]).astype(np.float64)
            return assess(outputs, rows, rows, loss, self.crossed)


def assess_pooled(state: State, update: int, rows: Rows, loss: str) -> HeldOut | None:
    """How well the rows of an update by evidence are predicted by all others: parts of them in turn.

    The shares of memories are those of now. The model of the first fit has learned none of the rows, unless
    levels have effects that were learned from them; that of kept rows predicts without the rows of the same
    turn, or, of classes, without the update.

    Parameters
    ----------
    state
        The state that has learned them.
    update
        Number of the update.
    rows
        Rows that it has learned; of many some are judged.
    loss
        Name of the loss.
    """
    runs = runs_of(len(rows))
    chosen = rows.take(np.concatenate(runs))
    turn = np.repeat(np.arange(len(runs)), [len(run) for run in runs])  # of each row
    inside = chosen.inside(state.lattice.domain)
    predicted = evaluate(state, inside.points).astype(np.float64)
    heard = output_shares(state, inside)
    for part in parts_of(state, update, chosen, route(state, inside)):
        predicted[part.mask] -= heard[part.owner][part.mask, None] * part.size * known_by_itself(part, turn)
    return OutOfSample([(predicted, inside)], crossed=True).assessed(loss)


def runs_of(rows: int) -> list[NDArray[np.intp]]:
    """Numbers of consecutive rows, as they came, that are held out in turn: all, or evenly spaced ones."""
    most = MOST_JUDGED // BLOCKS
    return [run[:most] for run in blocks(rows)]


def output_shares(state: State, rows: Rows) -> dict[int, Array]:
    """How much of what each chart, and the model, says of rows is heard through charts that came later."""
    heard = np.ones(len(rows))
    found = {}
    for k in reversed(range(len(state.charts))):
        found[k] = heard.copy()
        if state.charts[k].replaces:
            heard *= 1 - state.charts[k].window.membership(rows.points).astype(np.float64)
    return {**found, MODEL: heard}


def known_by_itself(part: RoutedRows, turn: NDArray[np.intp]) -> Array:
    """How much of what is said of rows comes from the rows of their own turn, shape (rows, outputs)."""
    own_turn = turn[part.mask]
    turns = [np.flatnonzero(own_turn == k) for k in np.unique(own_turn)]
    pool, counted = part.pool, part.pool.counted(part.weights)
    change, rows = np.zeros_like(part.targets), (part.phi, part.targets, counted, turns, part.levels)
    if pool.base_share > 0 and pool.memory is not None:
        change += pool.base_share / pool.inverse_temperature * known_by_rows(part, counted, turns)
    elif pool.base_share > 0 and pool.base_effects is not None:
        change += pool.base_share * pool.first.cross_validated_effects(*rows)
    if any(pool.recent_shares):
        alone = pool.recent_cross_validated(part.points, part.targets, counted, turns)
        change += pool.recent_outputs(part.points) - alone
    for share, posterior in zip(pool.expert_shares, pool.posteriors, strict=False):
        if share > 0:
            left = posterior.block_cross_validated(*rows)
            change += share * (left - (part.targets - posterior.predict(part.phi, part.levels)))
    return np.asarray(pool.inverse_temperature * change)


def known_by_rows(part: RoutedRows, counted: Array, turns: Sequence[NDArray[np.intp]]) -> Array:
    """What the rows of the same turn add to predictions of the model of kept rows: shape (rows, outputs)."""
    pool = part.pool
    predicted = pool.base_outputs(part.points)
    if pool.loss != "cross-entropy":
        return predicted - pool.base_cross_validated(part.phi, part.points, part.targets, counted, turns)
    return predicted - pool.without(part.update).base_outputs(part.points)


ASKED = 500  # points like known rows
WORSE = 1.5  # times the error of before: if errors were removed whole, moves could look like 1.41 times
SURE = 0.9  # probability of a class that is not given up for nothing
GIVEN_UP = 0.02  # share of the known rows with another class than the one they were sure of
RISING = 5  # updates in a row that each found a larger error
GROWN = 1.5  # times as large as the first of them
UNLESS = "right only if the world has changed"
CHARTED = f"the rows contradict what was known in their place, and count more than it from now on; {UNLESS}"


def warn_of(text: str) -> None:
    """Issue an `UpdateWarning` where the library was called from.

    Decorators stand between the functions of an update, so the frames are counted up to the caller's.
    """
    level, found, frame = 1, 1, sys._getframe()
    while frame.f_back is not None:
        level, frame = level + 1, frame.f_back
        if frame.f_globals.get("__name__", "").startswith("atlas_splines"):
            found = level
    warnings.warn(text, UpdateWarning, stacklevel=found + 1)


def known_text(known: Record) -> str:
    """What becomes of rows that were learned before."""
    return f"these rows are update {known.id}, so nothing was learned"


def warn_known(known: Record) -> None:
    """Warn of rows that were learned before."""
    warn_of(f"{known_text(known)}; accept=True learns them twice")


def harm_warning(before: State, after: State, log: Sequence[Record], loss: str, decided: bool) -> str:
    """What to look at after an update, in one sentence; empty if there is nothing.

    Parameters
    ----------
    before, after
        The state before the update and after it.
    log
        All entries up to that of the update.
    loss
        Name of the loss.
    decided
        Whether the data decided what was done: then a chart around known rows is a contradiction.
    """
    charted = CHARTED if decided and len(after.charts) > len(before.charts) else ""
    found = charted, worse_text(before, after, loss), rising_text(log, loss)
    return "; ".join(sentence for sentence in found if sentence)


def worse_text(before: State, after: State, loss: str) -> str:
    """Whether known rows are predicted worse: by the sums of them, or by how far predictions have moved."""
    old, new = memory_in(before), memory_in(after)
    if old is None or new is None or new is old or loss == "cross-entropy":  # trained, or of a chart alone
        return moved_text(before, after, loss)
    if len(after.charts) > len(before.charts):
        return moved_text(before, after, loss)
    return remembered_text(*new.growth_since(old))


def remembered_text(growth: float, *of_latest: float) -> str:
    """Whether errors on all known rows have grown, or those on the latest while the others gain nothing.

    Examples
    --------
    >>> remembered_text(1.8, 1.2)
    'rows known before are predicted worse now, with 1.8 times the error; right only if the world has changed'
    >>> remembered_text(0.4, 1.6), remembered_text(1.3, 1.1)
    ('', '')
    """
    if growth >= WORSE:
        return f"rows known before are predicted worse now, with {times(growth)} times the error; {UNLESS}"
    if growth < 1 or max(of_latest, default=1.0) < WORSE:
        return ""
    worst = times(max(of_latest))
    return f"the latest rows known before are predicted worse now, with {worst} times the error; {UNLESS}"


def moved_text(before: State, after: State, loss: str) -> str:
    """Whether known rows seem to be predicted worse, as predictions for points like them have moved far."""
    known = synthetic_sample_of(before, ASKED)
    if known is None:
        return ""
    points = known.points.clip(*before.lattice.domain.T).astype(before.dtype)
    support = support_of(before, points)
    points = points[support >= np.median(support)]  # those that are most like known rows
    with np.errstate(over="ignore", invalid="ignore"):  # a model that overflows has moved far
        predicted, now = (evaluate(state, points).astype(np.float64) for state in (before, after))
        if not needed_error_model(before).scales:
            return given_up_text(predicted, now, loss)
        growth = error_growth(now - predicted, deviations(before, points, predicted))
    if growth < WORSE:
        return ""
    about = f"about {times(growth)}"
    return f"rows known before are predicted worse now, with {about} times the error; {UNLESS}"


def times(growth: float) -> str:
    """A factor in two digits, without an exponent below ten millions.

    Examples
    --------
    >>> times(184.2), times(1.55)
    ('180', '1.6')
    """
    return f"{float(f'{growth:.2g}'):,.7g}"


def error_growth(moves: Array, errors: Array) -> float:
    """By how much errors grow if predictions move for no reason: in squares, moves add to errors.

    Examples
    --------
    >>> error_growth(np.array([[4.0], [0.0]]), np.array([[1.0], [1.0]]))
    3.0
    """
    return float(np.sqrt(1 + np.square(moves).mean() / np.square(errors).mean()))


def given_up_text(predicted: Array, now: Array, loss: str) -> str:
    """Whether known rows get another class than the one they were sure of."""
    is_sure = find_loss(loss).labels(predicted).max(axis=1) >= SURE
    share = float((is_sure & (now.argmax(axis=1) != predicted.argmax(axis=1))).mean())
    if share < GIVEN_UP:
        return ""
    return f"about {share:.0%} of the rows known before get another class than the one they had; {UNLESS}"


def rising_text(log: Sequence[Record], loss: str) -> str:
    """Whether the latest updates found larger errors each time."""
    updates = [record for record in log if isinstance(record, Update) and not record.reverted]
    errors = np.array([record.error_before for record in updates[-RISING:]])
    if len(errors) < RISING or not np.isfinite(errors).all() or (np.diff(errors) <= 0).any():
        return ""
    ratio = errors[-1] / max(errors[0], 1e-300)
    ratio = ratio**0.5 if loss == "mse" else ratio
    if ratio < GROWN:
        return ""
    return (
        f"the error before learning has grown with each of the last {RISING} updates, "
        f"to {times(ratio)} times what it was"
    )
