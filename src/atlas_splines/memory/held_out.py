"""Held-out errors of updates: what is said of the rows of an update by what has not learned them.

For rows that were pooled nothing is learned again: what a readout of all other rows says follows from that of
all rows, equation (32) in docs/math.md. Charts that are trained hold rows out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import State
from atlas_splines.memory.judging import HeldOut, judge
from atlas_splines.memory.owners import BLOCKS, MODEL, Part, blocks, owners_of, parts_of

__all__ = ["Ahead", "judge_pooled"]

Array = NDArray[np.float64]

MOST_JUDGED = 1000  # rows of an update: more would take longer than to learn them


@dataclass
class Ahead:
    """What was said of rows by what had not learned them.

    Attributes
    ----------
    said
        Pairs of rows and what was said of them, shape (rows, outputs).
    crossed
        Whether some were held out in turn, and not for good.
    """

    said: list[tuple[NDArray[np.floating], Rows]] = field(default_factory=list)
    crossed: bool = False

    def join(self, more: Ahead) -> None:
        """Take in what was said of further rows."""
        self.said += more.said
        self.crossed |= more.crossed

    def judged(self, loss: str) -> HeldOut | None:
        """How good that is; None if nothing was said."""
        if not self.said:
            return None
        rows = reduce(Rows.join, [part for _, part in self.said])
        with np.errstate(over="ignore", invalid="ignore"):  # a model that overflows is infinitely wrong
            outputs = np.vstack([told for told, _ in self.said]).astype(np.float64)
            return judge(outputs, rows, rows, loss, self.crossed)


def judge_pooled(state: State, update: int, rows: Rows, loss: str) -> HeldOut | None:
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
    said = evaluate(state, inside.points).astype(np.float64)
    heard = shares_heard(state, inside)
    for part in parts_of(state, update, chosen, owners_of(state, inside)):
        said[part.mask] -= heard[part.owner][part.mask, None] * part.size * known_by_itself(part, turn)
    return Ahead([(said, inside)], crossed=True).judged(loss)


def runs_of(rows: int) -> list[NDArray[np.intp]]:
    """Numbers of consecutive rows, as they came, that are held out in turn: all, or evenly spaced ones."""
    most = MOST_JUDGED // BLOCKS
    return [run[:most] for run in blocks(rows)]


def shares_heard(state: State, rows: Rows) -> dict[int, Array]:
    """How much of what each chart, and the model, says of rows is heard through charts that came later."""
    heard = np.ones(len(rows))
    found = {}
    for k in reversed(range(len(state.charts))):
        found[k] = heard.copy()
        if state.charts[k].replaces:
            heard *= 1 - state.charts[k].fence.window(rows.points).astype(np.float64)
    return {**found, MODEL: heard}


def known_by_itself(part: Part, turn: NDArray[np.intp]) -> Array:
    """How much of what is said of rows comes from the rows of their own turn, shape (rows, outputs)."""
    own_turn = turn[part.mask]
    turns = [np.flatnonzero(own_turn == k) for k in np.unique(own_turn)]
    pool, counted = part.pool, part.pool.counted(part.weights)
    change, rows = np.zeros_like(part.targets), (part.phi, part.targets, counted, turns, part.levels)
    if pool.base_share > 0 and pool.memory is not None:
        change += pool.base_share / pool.sharpness * known_by_rows(part, counted, turns)
    elif pool.base_share > 0 and pool.base_effects is not None:
        change += pool.base_share * pool.first.effects_in_turn(*rows)
    if any(pool.recent_shares):
        alone = pool.recent_in_turn(part.points, part.targets, counted, turns)
        change += pool.recent_outputs(part.points) - alone
    for share, readout in zip(pool.trust, pool.readouts, strict=False):
        if share > 0:
            left = readout.left_in_turn(*rows)
            change += share * (left - (part.targets - readout.predict(part.phi, part.levels)))
    return np.asarray(pool.sharpness * change)


def known_by_rows(part: Part, counted: Array, turns: Sequence[NDArray[np.intp]]) -> Array:
    """What the rows of the same turn add to predictions of the model of kept rows: shape (rows, outputs)."""
    pool = part.pool
    said = pool.base_outputs(part.points)
    if pool.loss != "cross-entropy":
        return said - pool.base_in_turn(part.phi, part.points, part.targets, counted, turns)
    return said - pool.without(part.update).base_outputs(part.points)
