"""Cautions: one sentence on an update that may have done harm, as far as that shows without the old rows."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.losses import find_loss
from atlas_splines.core.records import Record, UpdateWarning
from atlas_splines.core.state import State
from atlas_splines.memory.doubt import deviations, needed_spread, support_of
from atlas_splines.memory.known_rows import lookalikes_of
from atlas_splines.memory.log import Update
from atlas_splines.memory.owners import evidence_of

__all__ = ["caution_about", "known_text", "warn_known", "warn_of"]

Array = NDArray[np.float64]

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


def caution_about(before: State, after: State, log: Sequence[Record], loss: str, decided: bool) -> str:
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
    old, new = evidence_of(before), evidence_of(after)
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
    known = lookalikes_of(before, ASKED)
    if known is None:
        return ""
    points = known.points.clip(*before.lattice.domain.T).astype(before.dtype)
    support = support_of(before, points)
    points = points[support >= np.median(support)]  # those that are most like known rows
    with np.errstate(over="ignore", invalid="ignore"):  # a model that overflows has moved far
        said, now = (evaluate(state, points).astype(np.float64) for state in (before, after))
        if not needed_spread(before).scales:
            return given_up_text(said, now, loss)
        growth = error_growth(now - said, deviations(before, points, said))
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


def given_up_text(said: Array, now: Array, loss: str) -> str:
    """Whether known rows get another class than the one they were sure of."""
    is_sure = find_loss(loss).labels(said).max(axis=1) >= SURE
    share = float((is_sure & (now.argmax(axis=1) != said.argmax(axis=1))).mean())
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
