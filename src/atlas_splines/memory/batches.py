"""Contributions of updates: statistics with prequential errors, and block cross-validation of a local memory.

Blocks are left out in closed form (Rasmussen and Williams, 2006, section 5.4.2), without refitting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.box_regression import linear_left_out
from atlas_splines.memory.error_model import ErrorModel, Residuals
from atlas_splines.memory.expert_weights import LossForm
from atlas_splines.memory.features import Features
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.laplace_kernel import leave_out_blocks
from atlas_splines.memory.local_memory import Component, LocalMemory, Mixture, Part, Regression
from atlas_splines.memory.posterior import MOST_LEVERAGE, Posterior, Sums, sums_of
from atlas_splines.memory.statistics import HEAVIEST, Statistics
from atlas_splines.model.immutable import Recomputing

__all__ = [
    "Batch",
    "OutputMode",
    "decayed_sums",
    "error_model_after",
    "pieces_of",
    "predict_without",
    "scaled",
    "summed",
]

Array = NDArray[np.float64]
OutputMode = Literal["ensemble", "cumulative", "decayed"]  # which candidates predict

ROWS_AT_ONCE = 8192  # rows whose features are in memory at the same time
NEGLIGIBLE_AGE = 20  # in half-lives: a row then counts a millionth


@dataclass(frozen=True, eq=False)
class Batch(Recomputing):
    """What one update adds to a pool.

    Attributes
    ----------
    update
        Number of the update.
    statistics
        Statistics of its rows.
    products
        Mean products of the candidates' prequential residuals on its rows, shape (candidates, candidates).
    grew
        Number of centres that came with it, for each group of radial basis functions; empty if none did.
    seen
        Its residuals for the error model, or the error model that begins with them.
    before
        Output mode before it.
    log_loss
        For classes: prequential log loss of its rows, as a quadratic form of the weights of candidates.
    """

    update: int
    statistics: Statistics
    products: Array
    grew: tuple[int, ...] = ()
    seen: Residuals | ErrorModel | None = None
    before: OutputMode = "ensemble"
    log_loss: LossForm | None = None

    @cached_property
    def sums(self) -> Sums:
        """Its statistics in float64."""
        return sums_of(self.statistics)

    def of_first(self, candidates: int) -> Batch:
        """The same with the errors of the first candidates alone."""
        form = None if self.log_loss is None else self.log_loss.resized(candidates)
        return replace(self, products=self.products[:candidates, :candidates], log_loss=form)

    def joined(self, more: Batch) -> Batch:
        """The batch of these rows and of more rows of the same update."""
        counts = np.array([self.statistics.count, more.statistics.count])
        shares = counts / counts.sum()
        products = shares[0] * self.products + shares[1] * more.products
        seen = error_model_after(self.seen, more.seen) if isinstance(self.seen, ErrorModel) else self.seen
        if isinstance(self.seen, Residuals) and isinstance(more.seen, Residuals):
            seen = self.seen.joined(more.seen)
        forms = [form for form in (self.log_loss, more.log_loss) if form is not None]
        log_loss = reduce(add, forms) if forms else None
        sums = self.statistics + more.statistics
        return replace(self, statistics=sums, products=products, seen=seen, log_loss=log_loss)


def error_model_after(
    error_model: ErrorModel | None, seen: Residuals | ErrorModel | None
) -> ErrorModel | None:
    """The error model after some residuals; None as long as none has begun."""
    if isinstance(seen, ErrorModel):
        return seen
    return error_model if error_model is None or seen is None else error_model.after(seen)


def summed(
    features: Features, points: Array, targets: Array, weights: Array | None, by_level: bool = True
) -> Statistics:
    """Statistics of some rows, also by level if the features have levels."""
    statistics = Statistics(len(features), targets.shape[1])
    statistics.add_pieces(
        (
            features(points[rows]),
            targets[rows],
            None if weights is None else weights[rows],
            features.keys(points[rows]) if by_level else None,
        )
        for rows in pieces_of(len(points))
    )
    return statistics


def decayed_sums(features: Features, rows: HeldRows, half_life: float) -> Sums:
    """Exponentially decayed statistics of rows in time order: each weighs 2^(−rows after it / half-life).

    Rows older than `NEGLIGIBLE_AGE` half-lives are left out.
    """
    begin = max(len(rows) - int(NEGLIGIBLE_AGE * half_life), 0)
    ages = np.arange(len(rows) - begin - 1, -1, -1)
    gram, moment = np.zeros((len(features), len(features))), np.zeros((len(features), rows.targets.shape[1]))
    square, count = np.zeros(rows.targets.shape[1]), 0.0
    for piece in pieces_of(len(ages)):
        own = rows.take(slice(begin + piece.start, min(begin + piece.stop, len(rows))))
        phi, targets = features(own.points.astype(np.float64)), own.targets.astype(np.float64)
        weights = own.weights.astype(np.float64) * 0.5 ** (ages[piece] / half_life)
        gram += phi.T @ (weights[:, None] * phi)
        moment += phi.T @ (weights[:, None] * targets)
        square += weights @ targets**2
        count += float(weights.sum())
    return Sums(gram, moment, square, count)


def pieces_of(rows: int) -> list[slice]:
    """Consecutive pieces of rows: their features take much more memory than the rows."""
    return [slice(begin, begin + ROWS_AT_ONCE) for begin in range(0, rows, ROWS_AT_ONCE)]


def scaled(weights: Array | None, unit: float) -> Array | None:
    """Weights in units of the mean weight of the fit, at most what statistics can hold."""
    return None if weights is None else np.minimum(weights / unit, HEAVIEST)


Blocks = Sequence[NDArray[np.intp]]


def predict_without(
    memory: LocalMemory, regression: Regression, rests: Sequence[Posterior], blocks: Blocks
) -> list[Array]:
    """Predictions for the rows of each block by the model of all other rows, (block rows, outputs) each.

    Parameters
    ----------
    memory
        Local memory of numbers; class scores are not linear in the targets.
    regression
        The components of its mixtures.
    rests
        Posterior of the smooth part without each block.
    blocks
        Numbers of the rows of each block, among those of the regression; blocks are disjoint.
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
    """Which rows of a block lie beyond the latest clock value of all other rows."""
    clocks, monotonic = memory.clocks_of(regression.rows.points)
    along = monotonic * regression.rows.points[:, clocks]
    others = np.delete(along, own, axis=0)
    return np.asarray((along[own] > others.max(axis=0, initial=-np.inf)).any(axis=1))


class _LeftOut:
    """The components of mixtures without each of some blocks."""

    def __init__(self, regression: Regression, rests: Sequence[Posterior], blocks: Blocks) -> None:
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
            smooth[piece], leverage[piece] = phi @ weights, regression.posterior.leverage(phi)
        self.smooth = np.split(smooth, len(rests), axis=1)
        self.leverage = np.minimum(leverage * regression.distinct.copies, MOST_LEVERAGE)[:, None]

    @cached_property
    def lines(self) -> list[Array]:
        """Predictions of the linear part without each block, for all rows, shape (rows, outputs) each."""
        points, weights = self.regression.rows.points, self.regression.distinct.row_weights
        pairs = zip(self.targets, self.blocks, strict=True)
        return [linear_left_out(points, targets, weights, [own])[1][0] for targets, own in pairs]

    def left_by(self, part: Part, block: int) -> Array:
        """Leave-one-out residuals of all rows after a part of the mixture, without one block."""
        targets = self.targets[block]
        if part == "target":
            return targets
        if part == "linear":
            return targets - self.lines[block]
        others = np.delete(targets, self.blocks[block], axis=0)
        alone = targets - (targets - self.smooth[block]) / (1 - self.leverage)
        return targets - alone.clip(others.min(axis=0), others.max(axis=0))

    def mixture(self, mixture: Mixture) -> list[Array]:
        """Predictions of a mixture for the rows of each block, without effects of levels."""
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
        """Predictions of a local regression for the rows of each block, (rows of the block, outputs) each."""
        distinct, rows = self.regression.distinct, self.regression.rows
        own = np.full(len(rows), -1)
        for block, numbers in enumerate(self.blocks):
            own[numbers] = block
        # rows at one point are merged into one, separately inside and outside a block
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
