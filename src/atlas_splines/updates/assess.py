"""Block cross-validation of the rows of an update, and a warning where an update may have done harm.

Rows that are neighbours in time are correlated, so consecutive blocks are left out: Burman, Chow and Nolan
(1994), A cross-validatory method for dependent data.
"""

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

MOST_ASSESSED = 1000  # rows of an update: more would take longer than learning them


@dataclass
class OutOfSample:
    """Predictions of rows by models that were not trained on them.

    Attributes
    ----------
    predicted
        Pairs of predictions, shape (rows, outputs), and the rows.
    cross_validated
        Whether some rows were cross-validated rather than held out for good.
    """

    predicted: list[tuple[NDArray[np.floating], Rows]] = field(default_factory=list)
    cross_validated: bool = False

    def join(self, more: OutOfSample) -> None:
        """Append predictions of further rows."""
        self.predicted += more.predicted
        self.cross_validated |= more.cross_validated

    def assessed(self, loss: str) -> HeldOut | None:
        """Error and score of the predictions; None without any."""
        if not self.predicted:
            return None
        rows = reduce(Rows.join, [part for _, part in self.predicted])
        with np.errstate(over="ignore", invalid="ignore"):  # a model that overflows is infinitely wrong
            outputs = np.vstack([each for each, _ in self.predicted]).astype(np.float64)
            return assess(outputs, rows, rows, loss, self.cross_validated)


def assess_pooled(state: State, update: int, rows: Rows, loss: str) -> HeldOut | None:
    """Block cross-validation of the pooled rows of an update: each block is predicted by all other rows.

    Expert weights are the present ones. The initial model has learned none of the rows, unless levels have
    effects that were estimated from them; the model of kept rows predicts without the rows of the same block
    or, for classes, without the update.

    Parameters
    ----------
    state
        The state that has learned them.
    update
        Number of the update.
    rows
        Rows that it has learned; of many, a subset is assessed.
    loss
        Name of the loss.
    """
    runs = runs_of(len(rows))
    chosen = rows.take(np.concatenate(runs))
    block = np.repeat(np.arange(len(runs)), [len(run) for run in runs])  # (rows,)
    inside = chosen.inside(state.lattice.domain)
    predicted = evaluate(state, inside.points).astype(np.float64)
    shares = output_shares(state, inside)
    for part in parts_of(state, update, chosen, route(state, inside)):
        predicted[part.mask] -= (
            shares[part.owner][part.mask, None] * part.size * own_block_effect(part, block)
        )
    return OutOfSample([(predicted, inside)], cross_validated=True).assessed(loss)


def runs_of(rows: int) -> list[NDArray[np.intp]]:
    """Row numbers of each block that is left out: consecutive rows, at most `MOST_ASSESSED` in total."""
    most = MOST_ASSESSED // BLOCKS
    return [run[:most] for run in blocks(rows)]


def output_shares(state: State, rows: Rows) -> dict[int, Array]:
    """Share of each chart and of the model in the prediction of each row: later charts replace earlier."""
    share = np.ones(len(rows))
    found = {}
    for k in reversed(range(len(state.charts))):
        found[k] = share.copy()
        if state.charts[k].replaces:
            share *= 1 - state.charts[k].window.membership(rows.points).astype(np.float64)
    return {**found, MODEL: share}


def own_block_effect(part: RoutedRows, block: NDArray[np.intp]) -> Array:
    """Contribution of the rows of its own block to the prediction of each row, shape (rows, outputs)."""
    own_block = block[part.mask]
    left_out = [np.flatnonzero(own_block == k) for k in np.unique(own_block)]
    pool, counted = part.pool, part.pool.counted(part.weights)
    change, rows = np.zeros_like(part.targets), (part.phi, part.targets, counted, left_out, part.levels)
    if pool.base_share > 0 and pool.memory is not None:
        change += pool.base_share / pool.inverse_temperature * kept_rows_effect(part, counted, left_out)
    elif pool.base_share > 0 and pool.base_effects is not None:
        change += pool.base_share * pool.first.cross_validated_effects(*rows)
    if any(pool.recent_shares):
        without = pool.recent_cross_validated(part.points, part.targets, counted, left_out)
        change += pool.recent_outputs(part.points) - without
    for share, posterior in zip(pool.expert_shares, pool.posteriors, strict=False):
        if share > 0:
            left = posterior.block_cross_validated(*rows)
            change += share * (left - (part.targets - posterior.predict(part.phi, part.levels)))
    return np.asarray(pool.inverse_temperature * change)


def kept_rows_effect(part: RoutedRows, counted: Array, left_out: Sequence[NDArray[np.intp]]) -> Array:
    """Contribution of the rows of the same block to the model of kept rows, shape (rows, outputs)."""
    pool = part.pool
    predicted = pool.base_outputs(part.points)
    if pool.loss != "cross-entropy":
        return predicted - pool.base_cross_validated(part.phi, part.points, part.targets, counted, left_out)
    return predicted - pool.without(part.update).base_outputs(part.points)


@dataclass(frozen=True)
class HarmRules:
    """When an update is reported as harmful; not benchmarked, other than the reason given for `worse`.

    Attributes
    ----------
    synthetic_rows
        Size of the synthetic sample that predictions are compared on.
    worse
        Ratio of errors on known rows after and before: an update that removes errors completely moves
        predictions so that the ratio appears to be √2.
    sure, given_up
        Share of known rows whose predicted class changes though its probability was at least `sure`.
    rising, grown
        Consecutive updates of which each had a larger error before learning than the last, and the ratio of
        the last error to the first.
    """

    synthetic_rows: int = 500
    worse: float = 1.5
    sure: float = 0.9
    given_up: float = 0.02
    rising: int = 5
    grown: float = 1.5


HARM = HarmRules()
UNLESS = "right only if the world has changed"
CHARTED = f"the rows contradict what was known in their place, and count more than it from now on; {UNLESS}"


def warn_of(text: str) -> None:
    """Issue an `UpdateWarning` attributed to the line that called the library.

    Decorators stand between the functions of an update, so the frames are counted up to the caller's.
    """
    level, found, frame = 1, 1, sys._getframe()
    while frame.f_back is not None:
        level, frame = level + 1, frame.f_back
        if frame.f_globals.get("__name__", "").startswith("atlas_splines"):
            found = level
    warnings.warn(text, UpdateWarning, stacklevel=found + 1)


def known_text(known: Record) -> str:
    """The sentence about rows that an earlier update has learned."""
    return f"these rows are update {known.id}, so nothing was learned"


def warn_known(known: Record) -> None:
    """Warn that rows were not learned, as an earlier update has learned them."""
    warn_of(f"{known_text(known)}; accept=True learns them twice")


def harm_warning(before: State, after: State, log: Sequence[Record], loss: str, decided: bool) -> str:
    """The warning of an update in one sentence; empty if there is no reason for one.

    Parameters
    ----------
    before, after
        The state before the update and after it.
    log
        All entries up to that of the update.
    loss
        Name of the loss.
    decided
        Whether change detection was on: a chart among known rows then means that they are contradicted.
    """
    charted = CHARTED if decided and len(after.charts) > len(before.charts) else ""
    found = charted, worse_text(before, after, loss), rising_text(log, loss)
    return "; ".join(sentence for sentence in found if sentence)


def worse_text(before: State, after: State, loss: str) -> str:
    """Whether known rows are predicted worse: by their statistics, or by how far predictions have moved."""
    old, new = memory_in(before), memory_in(after)
    if (
        old is None or new is None or new is old or loss == "cross-entropy"
    ):  # trained, or only a chart has changed
        return moved_text(before, after, loss)
    if len(after.charts) > len(before.charts):
        return moved_text(before, after, loss)
    return remembered_text(*new.growth_since(old))


def remembered_text(growth: float, *of_latest: float) -> str:
    """Whether the error on all known rows has grown, or that on the latest ones without a gain on the others.

    Examples
    --------
    >>> remembered_text(1.8, 1.2)
    'rows known before are predicted worse now, with 1.8 times the error; right only if the world has changed'
    >>> remembered_text(0.4, 1.6), remembered_text(1.3, 1.1)
    ('', '')
    """
    if growth >= HARM.worse:
        return f"rows known before are predicted worse now, with {times(growth)} times the error; {UNLESS}"
    if growth < 1 or max(of_latest, default=1.0) < HARM.worse:
        return ""
    worst = times(max(of_latest))
    return f"the latest rows known before are predicted worse now, with {worst} times the error; {UNLESS}"


def moved_text(before: State, after: State, loss: str) -> str:
    """Whether known rows seem to be predicted worse, as predictions of a synthetic sample have moved far."""
    known = synthetic_sample_of(before, HARM.synthetic_rows)
    if known is None:
        return ""
    points = known.points.clip(*before.lattice.domain.T).astype(before.dtype)
    support = support_of(before, points)
    points = points[support >= np.median(support)]  # where data density is highest
    with np.errstate(over="ignore", invalid="ignore"):  # a model that overflows has moved far
        predicted, now = (evaluate(state, points).astype(np.float64) for state in (before, after))
        if not needed_error_model(before).scales:
            return given_up_text(predicted, now, loss)
        growth = error_growth(now - predicted, deviations(before, points, predicted))
    if growth < HARM.worse:
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
    """Growth of the RMSE if moves of predictions are independent of their errors: √(1 + E[move²]/E[error²]).

    Examples
    --------
    >>> error_growth(np.array([[4.0], [0.0]]), np.array([[1.0], [1.0]]))
    3.0
    """
    return float(np.sqrt(1 + np.square(moves).mean() / np.square(errors).mean()))


def given_up_text(predicted: Array, now: Array, loss: str) -> str:
    """Whether known rows change their class although its probability was high."""
    is_sure = find_loss(loss).labels(predicted).max(axis=1) >= HARM.sure
    share = float((is_sure & (now.argmax(axis=1) != predicted.argmax(axis=1))).mean())
    if share < HARM.given_up:
        return ""
    return f"about {share:.0%} of the rows known before get another class than the one they had; {UNLESS}"


def rising_text(log: Sequence[Record], loss: str) -> str:
    """Whether the prequential error has grown with each of the latest updates."""
    updates = [record for record in log if isinstance(record, Update) and not record.reverted]
    errors = np.array([record.error_before for record in updates[-HARM.rising :]])
    if len(errors) < HARM.rising or not np.isfinite(errors).all() or (np.diff(errors) <= 0).any():
        return ""
    ratio = errors[-1] / max(errors[0], 1e-300)
    ratio = ratio**0.5 if loss == "mse" else ratio
    if ratio < HARM.grown:
        return ""
    return (
        f"the error before learning has grown with each of the last {HARM.rising} updates, "
        f"to {times(ratio)} times what it was"
    )
