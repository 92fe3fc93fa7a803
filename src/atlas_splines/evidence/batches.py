"""Batches: rows as evidence, with what they told before they were learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.remembering import Recomputing
from atlas_splines.evidence.class_weights import LossForm
from atlas_splines.evidence.features import Features
from atlas_splines.evidence.held_rows import HeldRows
from atlas_splines.evidence.readout import Sums, sums_of
from atlas_splines.evidence.spread import Seen, Spread
from atlas_splines.evidence.statistics import HEAVIEST, Statistics

__all__ = ["Batch", "Voice", "decayed_sums", "pieces_of", "scaled", "spread_after", "summed"]

Array = NDArray[np.float64]
Voice = Literal["mixture", "exact", "fading"]  # who speaks for a pool

ROWS_AT_ONCE = 8192  # whose features are held in memory
FORGOTTEN = 20  # half-lives after which a row counts a millionth


@dataclass(frozen=True, eq=False)
class Batch(Recomputing):
    """The evidence of one update.

    Attributes
    ----------
    update
        Number of the update.
    statistics
        Sums of its rows.
    products
        Mean products of the errors of candidates on its rows before they were learned, shape (candidates,
        candidates).
    grew
        Bumps that came with it, for each group; empty if none did.
    seen
        What its rows add to the spread of the pool, or the spread that begins with them.
    before
        Who spoke before it came.
    log_loss
        Of classes: the log loss of its rows before they were learned, as a form of the shares of candidates.
    """

    update: int
    statistics: Statistics
    products: Array
    grew: tuple[int, ...] = ()
    seen: Seen | Spread | None = None
    before: Voice = "mixture"
    log_loss: LossForm | None = None

    @cached_property
    def sums(self) -> Sums:
        """Its statistics as floats."""
        return sums_of(self.statistics)

    def of_first(self, candidates: int) -> Batch:
        """The same with what it tells of the first candidates alone."""
        form = None if self.log_loss is None else self.log_loss.resized(candidates)
        return replace(self, products=self.products[:candidates, :candidates], log_loss=form)

    def joined(self, more: Batch) -> Batch:
        """The evidence of these rows and of more rows of the same update."""
        counts = np.array([self.statistics.count, more.statistics.count])
        shares = counts / counts.sum()
        products = shares[0] * self.products + shares[1] * more.products
        seen = spread_after(self.seen, more.seen) if isinstance(self.seen, Spread) else self.seen
        if isinstance(self.seen, Seen) and isinstance(more.seen, Seen):
            seen = self.seen.joined(more.seen)
        forms = [form for form in (self.log_loss, more.log_loss) if form is not None]
        log_loss = reduce(add, forms) if forms else None
        sums = self.statistics + more.statistics
        return replace(self, statistics=sums, products=products, seen=seen, log_loss=log_loss)


def spread_after(spread: Spread | None, seen: Seen | Spread | None) -> Spread | None:
    """A spread after what was seen: none is left that has no beginning."""
    if isinstance(seen, Spread):
        return seen
    return spread if spread is None or seen is None else spread.after(seen)


def summed(
    features: Features, points: Array, targets: Array, weights: Array | None, by_level: bool = True
) -> Statistics:
    """Statistics of some rows, also by level if rows have levels."""
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
    """Sums of rows in their order, in which a row counts half for each half-life of rows after it.

    Rows of `FORGOTTEN` half-lives and more are left out.
    """
    begin = max(len(rows) - int(FORGOTTEN * half_life), 0)
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
    """Cuts of rows: their features take much more memory than the rows."""
    return [slice(begin, begin + ROWS_AT_ONCE) for begin in range(0, rows, ROWS_AT_ONCE)]


def scaled(weights: Array | None, unit: float) -> Array | None:
    """Weights in units of the usual one; none counts more than statistics can hold."""
    return None if weights is None else np.minimum(weights / unit, HEAVIEST)
