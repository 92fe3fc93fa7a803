"""The pool: all that a model has learned as sums of its data, of which recent updates can be taken back.

One memory never forgets, and is exact: it depends on no order and on no pieces. Others fade. What they say is
linear in the features, so their mixture is one model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from atlas_splines.evidence.features import Features
from atlas_splines.evidence.readout import LEAST_NOISE, Prior, Readout, Sums, solve, sums_of
from atlas_splines.evidence.statistics import Statistics

__all__ = ["HALF_LIVES", "RECENT", "Batch", "Pool", "Track"]

Array = NDArray[np.float64]

HALF_LIVES = (1000.0, 150.0)  # rows after which the evidence of the fading memories counts half
RECENT = 4  # updates that can be taken back without their rows
SMOOTHING = 500.0  # rows after which an error ahead counts half
ROWS_A_COMPARISON = 150  # neighbouring rows have errors that are alike: so many count as one
MOST_COMPARISONS = 30


@dataclass(frozen=True, eq=False)
class Track:
    """How well each memory predicted rows that it had not learned yet.

    Attributes
    ----------
    errors
        Mean squared error of the exact memory, then of the fading ones, the latest rows counting most.
    rows
        Rows that they come from.
    """

    errors: Array  # (memories,)
    rows: float = 0.0

    def after(self, errors: Array, rows: float) -> Track:
        """The track with the errors on some more rows."""
        keep = 0.5 ** (rows / SMOOTHING) if self.rows else 0.0
        return Track(keep * self.errors + (1 - keep) * errors, self.rows + rows)

    @property
    def trust(self) -> Array:
        """Share of each memory in the mixture: all to the exact one until there is something to compare.

        Examples
        --------
        >>> Track(np.array([1.0, 1.0, 2.0]), rows=3000).trust.round(3)
        array([0.5, 0.5, 0. ])
        >>> Track(np.array([1.0, 1.0, 2.0]), rows=0).trust
        array([1., 0., 0.])
        """
        if self.rows == 0:
            return np.eye(len(self.errors))[0]
        comparisons = min(self.rows / ROWS_A_COMPARISON, MOST_COMPARISONS)
        shares = np.exp(-comparisons * (self.errors / max(self.errors.min(), LEAST_NOISE) - 1))
        return shares / shares.sum()


@dataclass(frozen=True, eq=False)
class Batch:
    """The evidence of one update.

    Attributes
    ----------
    update
        Number of the update.
    statistics
        Sums of its rows.
    errors
        Mean squared error of each memory on its rows before they were learned, shape (memories,).
    """

    update: int
    statistics: Statistics
    errors: Array


@dataclass(frozen=True, eq=False)
class Pool:
    """Evidence of all rows that a model has learned; never changed in place.

    Attributes
    ----------
    features
        What the statistics are of.
    prior
        The prior that suited the first data.
    half_lives
        Rows after which evidence counts half, for each fading memory.
    older
        Exact sums of the first data and of all updates that are no longer recent.
    faded
        The same sums, faded, for each half-life.
    track
        How well the memories predicted, up to there.
    recent
        The latest updates, oldest first.

    Examples
    --------
    >>> from atlas_splines.evidence.features import Features
    >>> features = Features(1, (0,), (), ())
    >>> points = np.linspace(0, 1, 50)[:, None]
    >>> start = Pool.start(features, Prior.flat(features.sizes), points, points)
    >>> grown = start.learned(1, points, 2 * points).learned(2, points, 3 * points)
    >>> (features(np.array([[0.5]])) @ grown.first.weights).round(1)
    array([[1.]])
    >>> bool((grown.without(2).first.weights == start.learned(1, points, 2 * points).first.weights).all())
    True
    """

    features: Features
    prior: Prior
    half_lives: tuple[float, ...]
    older: Statistics
    faded: tuple[Sums, ...]
    track: Track
    recent: tuple[Batch, ...] = ()

    @classmethod
    def start(
        cls,
        features: Features,
        prior: Prior,
        points: Array,
        targets: Array,
        weights: Array | None = None,
        half_lives: Sequence[float] = HALF_LIVES,
    ) -> Pool:
        """The pool of the first data."""
        first = summed(features, points, targets, weights)
        fading = tuple(half_lives)
        track = Track(np.zeros(1 + len(fading)))
        return cls(features, prior, fading, first, tuple(sums_of(first) for _ in fading), track)

    # --- what the memories say ------------------------------------------------------------------------

    @cached_property
    def total(self) -> Statistics:
        """Exact sums of all rows."""
        return reduce(lambda total, batch: total + batch.statistics, self.recent, self.older)

    @cached_property
    def readouts(self) -> list[Readout]:
        """What each memory says, the exact one first."""
        # fading memories keep the prior of the first data: what they still hold may be too little to find one
        fading = [self._faded(k).readout(self.prior) for k in range(len(self.half_lives))]
        return [solve(self.total, self.prior), *fading]

    def _faded(self, k: int) -> Sums:
        life = self.half_lives[k]
        return reduce(
            lambda old, batch: old.fade(sums_of(batch.statistics), life), self.recent, self.faded[k]
        )

    @property
    def first(self) -> Readout:
        """What the exact memory says: a function of the data, whatever its order."""
        return self.readouts[0]

    @cached_property
    def trust(self) -> Array:
        """Share of each memory in the mixture."""
        track = self.track
        for batch in self.recent:
            track = track.after(batch.errors, batch.statistics.count)
        return track.trust

    @cached_property
    def mixture(self) -> Array:
        """Weights of the mixture of all memories, shape (features, outputs)."""
        shares = zip(self.trust, self.readouts, strict=True)
        return np.asarray(sum(share * readout.weights for share, readout in shares))

    # --- learning, and taking back --------------------------------------------------------------------

    def learned(self, update: int, points: Array, targets: Array, weights: Array | None = None) -> Pool:
        """The pool with the rows of an update, after noting how well each memory predicted them.

        Parameters
        ----------
        update
            Number of the update.
        points, targets, weights
            Its rows, shapes (rows, inputs), (rows, outputs) and (rows,).
        """
        phi = self.features(points)
        errors = [
            np.average(((phi @ r.weights - targets) ** 2).mean(axis=1), weights=weights)
            for r in self.readouts
        ]
        statistics = Statistics(len(self.features), targets.shape[1])
        statistics.add(phi, targets, weights)
        grown = replace(self, recent=(*self.recent, Batch(update, statistics, np.array(errors))))
        return grown if len(grown.recent) <= RECENT else grown._settled()

    def _settled(self) -> Pool:
        """The oldest of the recent updates joins those that need their rows to be taken back."""
        oldest, *recent = self.recent
        new = sums_of(oldest.statistics)
        lives = zip(self.faded, self.half_lives, strict=True)
        return replace(
            self,
            older=self.older + oldest.statistics,
            faded=tuple(sums.fade(new, life) for sums, life in lives),
            track=self.track.after(oldest.errors, oldest.statistics.count),
            recent=tuple(recent),
        )

    def holds(self, update: int) -> bool:
        """Whether an update is recent, and can be taken back without its rows."""
        return any(batch.update == update for batch in self.recent)

    def without(self, update: int) -> Pool:
        """The pool as if a recent update had never come, to the bit."""
        return replace(self, recent=tuple(batch for batch in self.recent if batch.update != update))

    def forgotten(self, points: Array, targets: Array, weights: Array | None = None) -> Pool:
        """The pool as if some rows had never come, whenever that was.

        The exact memory loses them to the bit. How much of them the fading ones still hold is not known, so
        they start again from what the exact one holds.
        """
        rest = self.total - summed(self.features, points, targets, weights)
        return replace(self, older=rest, faded=tuple(sums_of(rest) for _ in self.half_lives), recent=())


def summed(features: Features, points: Array, targets: Array, weights: Array | None) -> Statistics:
    """Statistics of some rows."""
    statistics = Statistics(len(features), targets.shape[1])
    statistics.add(features(points), targets, weights)
    return statistics
