"""Out-of-sample predictions of a local memory: rows of a block, by the model without them.

Nothing is derived anew for a block: the smooth part follows from its sums without the block, and one Cholesky
factor of a box gives the predictions of local regression without each block, (51). Boxes and leverages, which
depend on no target, and length scales and shares, which the fit has chosen, stay those of all rows. Equation
numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.evidence.batches import pieces_of
from atlas_splines.evidence.design import MOST_LEVERAGE
from atlas_splines.evidence.laplace_kernel import leave_out_blocks
from atlas_splines.evidence.linear_part import linear_left_out
from atlas_splines.evidence.local_memory import Component, LocalMemory, Mixture, Part, Regression
from atlas_splines.evidence.readout import Readout

__all__ = ["predict_without"]

Array = NDArray[np.float64]
Blocks = Sequence[NDArray[np.intp]]


def predict_without(
    memory: LocalMemory, regression: Regression, rests: Sequence[Readout], blocks: Blocks
) -> list[Array]:
    """Predictions for the rows of each block by the model of all others, shape (rows of the block, outputs).

    Parameters
    ----------
    memory
        How rows predict numbers; classes have scores that are no linear function of targets.
    regression
        The parts of its mixtures.
    rests
        The smooth part without each block.
    blocks
        Numbers of the rows of each block, among those of the regression; no row is in two.
    """
    left_out = _LeftOut(regression, rests, blocks)
    found = left_out.mixture(memory.known)
    if memory.later is not None:
        is_later = [_is_later(memory, regression, own) for own in blocks]
        if np.concatenate(is_later).any():
            later = left_out.mixture(memory.later)
            found = [np.where(is_l[:, None], b, a) for is_l, a, b in zip(is_later, found, later, strict=True)]
    keys = regression.features.keys(regression.rows.points)
    return [
        values if rest.effects is None else values + rest.effects.at(keys[own])
        for values, rest, own in zip(found, rests, blocks, strict=True)
    ]


def _is_later(memory: LocalMemory, regression: Regression, own: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which rows of a block lie beyond the end of a clock, as all other rows have it."""
    clocks, signs = memory.clocks_of(regression.rows.points)
    along = signs * regression.rows.points[:, clocks]
    others = np.delete(along, own, axis=0)
    return np.asarray((along[own] > others.max(axis=0, initial=-np.inf)).any(axis=1))


class _LeftOut:
    """The parts of mixtures without each of some blocks."""

    def __init__(self, regression: Regression, rests: Sequence[Readout], blocks: Blocks) -> None:
        self.regression, self.blocks = regression, blocks
        rows, features = regression.rows, regression.features
        points, targets = rows.points.astype(np.float64), rows.targets.astype(np.float64)
        keys = features.keys(points)
        self.targets = [
            targets if rest.effects is None else targets - rest.effects.at(keys) for rest in rests
        ]
        weights = np.hstack([rest.weights for rest in rests])  # (features, blocks · outputs)
        smooth, leverage = np.empty((len(rows), weights.shape[1])), np.empty(len(rows))
        for piece in pieces_of(len(rows)):
            phi = features(points[piece])
            smooth[piece], leverage[piece] = phi @ weights, regression.readout.leverage(phi)
        self.smooth = np.split(smooth, len(rests), axis=1)
        self.leverage = np.minimum(leverage * regression.distinct.copies, MOST_LEVERAGE)[:, None]

    @cached_property
    def lines(self) -> list[Array]:
        """Predictions of the linear part without each block, for all rows."""
        points, weights = self.regression.rows.points, self.regression.distinct.row_weights
        pairs = zip(self.targets, self.blocks, strict=True)
        return [linear_left_out(points, targets, weights, [own])[1][0] for targets, own in pairs]

    def left_by(self, part: Part, block: int) -> Array:
        """What a part leaves of the targets of all rows, each without itself, if a block had not come."""
        targets = self.targets[block]
        if part == "target":
            return targets
        if part == "linear":
            return targets - self.lines[block]
        others = np.delete(targets, self.blocks[block], axis=0)
        alone = targets - (targets - self.smooth[block]) / (1 - self.leverage)
        return targets - alone.clip(others.min(axis=0), others.max(axis=0))

    def mixture(self, mixture: Mixture) -> list[Array]:
        """Predictions of a mixture for the rows of each block, less effects of levels."""
        found = [mixture.smooth * smooth[own] for smooth, own in zip(self.smooth, self.blocks, strict=True)]
        if mixture.linear:
            found = [
                values + mixture.linear * line[own]
                for values, line, own in zip(found, self.lines, self.blocks, strict=True)
            ]
        for component in mixture.components:
            parts = self.local(component)
            found = [values + component.share * part for values, part in zip(found, parts, strict=True)]
        return found

    def local(self, component: Component) -> list[Array]:
        """Predictions of a local regression for the rows of each block."""
        distinct, rows = self.regression.distinct, self.regression.rows
        own = np.full(len(rows), -1)
        for block, numbers in enumerate(self.blocks):
            own[numbers] = block
        # rows at one point count as one, but for those of a block
        pairs = distinct.place * (len(self.blocks) + 1) + own
        _, first, item = np.unique(pairs, return_index=True, return_inverse=True)
        weights = np.bincount(item, distinct.row_weights).astype(np.float64)
        targets = [
            np.stack([np.bincount(item, distinct.row_weights * column) for column in each.T], axis=1)
            / weights[:, None]
            for each in (self.left_by(component.of, block) for block in range(len(self.blocks)))
        ]
        kernel, points, block_of = component.kernel, rows.points[first], own[first]
        found = np.zeros_like(targets[0])
        for inside in self.regression.in_boxes(kernel).boxes.split(points):
            if (block_of[inside] >= 0).any():
                wanted = [each[inside] for each in targets]
                found[inside] = leave_out_blocks(
                    kernel, points[inside], wanted, weights[inside], block_of[inside]
                )
        return [found[item[numbers]] for numbers in self.blocks]
