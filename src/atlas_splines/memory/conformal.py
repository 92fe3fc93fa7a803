"""Scores: errors over their scale, as histograms that add up and fade; intervals are between their quantiles.

Split conformal prediction (Vovk, Gammerman and Shafer, 2005; Lei et al., 2018): if the scores of rows to come
are exchangeable with those kept here, their quantiles hold the promised share. Where they drift, the
histograms fade and the promised share itself is adapted (Gibbs and Candès, 2021). No row is kept. Equation
numbers refer to docs/math.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["BINS", "EDGES", "LADDER", "ConformalScores", "ScoreHistogram"]

Array = NDArray[np.float64]

BINS = 384
EDGES = np.sinh(np.linspace(-12, 12, BINS + 1))  # even around zero, and then by factors: ± 81,000 scales
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2
LADDER = np.array([0.5, 0.8, 0.9, 0.95, 0.99])  # coverages that are watched and adapted
ROWS_A_REGION, MOST_REGIONS = 400, 8
BLOCKS = 10  # of the first rows, by which intervals are judged
HALF_LIFE = 500.0  # rows of a region after which its older scores count half
STEP = 0.002  # of the adapted coverage for each row
LARGEST_SHIFT = 0.3  # by which a coverage is lowered at most


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Scores of the rows of one update, before they were learned.

    Attributes
    ----------
    counts
        Weight of the rows of each region and bin, shape (regions, bins).
    covered
        Share of the rows that intervals of each coverage of the ladder held, shape (ladder,).
    """

    counts: Array
    covered: Array

    @property
    def rows(self) -> float:
        """Weight of all rows."""
        return float(self.counts.sum())

    @property
    def watched(self) -> Array:
        """Weight of the rows, and of those that intervals of each coverage held, shape (1 + ladder,)."""
        return self.rows * np.append(1.0, self.covered)

    def joined(self, more: ScoreHistogram) -> ScoreHistogram:
        """The tally of these rows and of more rows of the same update."""
        rows = self.rows + more.rows
        covered = (self.rows * self.covered + more.rows * more.covered) / max(rows, 1e-300)
        return ScoreHistogram(self.counts + more.counts, covered)


@dataclass(frozen=True, eq=False)
class ConformalScores:
    """Histograms of scores, for each region of what is said; never changed in place.

    Attributes
    ----------
    centres
        Middle of each region of predictions, rising, shape (regions,); between them quantiles are
        interpolated.
    counts
        Weight of the scores in each region and bin, shape (regions, bins).
    shift
        What is added to each coverage of the ladder, shape (ladder,).
    sizes
        Mean scale of the first rows of each region, shape (regions,).
    is_one_sided
        Whether an interval has an upper end alone.
    watched
        Weight of rows, and of those that intervals of each coverage of the ladder held, made without these
        rows: shape (2, 1 + ladder). First of the first rows, each tenth by the others; then of the rows of
        updates, each before it was learned. The histograms themselves hold their share by construction.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> scores = ConformalScores.of(random.random(2000), random.normal(size=2000))
    >>> bool((abs(abs(scores.ends(np.array([0.5]), 0.9)) - 1.64) < 0.2).all())
    True
    >>> worse = scores.after(scores.histogram(random.random(500), 3 * random.normal(size=500)))
    >>> bool(worse.ends(np.array([0.5]), 0.9)[0, 1] > 2)
    True
    """

    centres: Array
    counts: Array
    shift: Array
    sizes: Array
    is_one_sided: bool = False
    watched: Array = field(default_factory=lambda: np.zeros((2, 1 + len(LADDER))))

    @classmethod
    def of(
        cls,
        predicted: Array,
        scores: Array,
        weights: Array | None = None,
        is_one_sided: bool = False,
        sizes: Array | None = None,
    ) -> ConformalScores:
        """Histograms of some rows; `predicted`, `scores`, `weights` and their `sizes` have shape (rows,)."""
        regions = int(np.clip(len(predicted) // ROWS_A_REGION, 1, MOST_REGIONS))
        centres = np.unique(np.quantile(predicted, (np.arange(regions) + 0.5) / regions))
        empty = cls(
            centres,
            np.zeros((len(centres), BINS)),
            np.zeros(len(LADDER)),
            np.ones(len(centres)),
            is_one_sided,
        )
        held = (
            empty.counted(predicted, scores, weights).sum(axis=1) > 0
        )  # predictions of few values leave gaps
        some = replace(empty, centres=centres[held], counts=empty.counts[held], sizes=empty.sizes[held])
        counts = some.counted(predicted, scores, weights)
        some = replace(some, counts=counts, watched=some.weight_by_bin(predicted, scores, weights))
        if sizes is None:
            return some
        sums = some.counted(predicted, scores, sizes if weights is None else sizes * weights)
        return replace(some, sizes=sums.sum(axis=1) / counts.sum(axis=1))

    def weight_by_bin(self, predicted: Array, scores: Array, weights: Array | None) -> Array:
        """How blocks of neighbouring rows lie in the intervals of the others; not if these leave a region."""
        weights = np.ones(len(predicted)) if weights is None else weights
        block, found = (
            np.arange(len(predicted)) * BLOCKS // max(len(predicted), 1),
            np.zeros((2, 1 + len(LADDER))),
        )
        for own in (block == k for k in np.unique(block)):
            others = self.counted(predicted[~own], scores[~own], weights[~own])
            if (others.sum(axis=1) > 0).all() and weights[own].sum() > 0:
                found[0] += (
                    replace(self, counts=others).histogram(predicted[own], scores[own], weights[own]).watched
                )
        return found

    def counted(self, predicted: Array, scores: Array, weights: Array | None) -> Array:
        """Weight of rows in each region and bin."""
        region = np.searchsorted((self.centres[1:] + self.centres[:-1]) / 2, predicted)
        bins = np.searchsorted(EDGES[1:-1], scores, side="right")
        places = region * BINS + bins
        return np.bincount(places, weights, self.counts.size).reshape(self.counts.shape).astype(np.float64)

    def histogram(self, predicted: Array, scores: Array, weights: Array | None = None) -> ScoreHistogram:
        """What rows that are not counted yet say."""
        ends = zip(*self._ends_of_regions(LADDER), strict=True)
        limits = [[np.interp(predicted, self.centres, end) for end in pair] for pair in ends]
        held = [np.average((scores >= low) & (scores <= high), weights=weights) for low, high in limits]
        return ScoreHistogram(self.counted(predicted, scores, weights), np.array(held))

    def after(self, histogram: ScoreHistogram) -> ConformalScores:
        """The scores after the rows of an update: older ones fade, and coverages are adapted."""
        keep = 0.5 ** (histogram.counts.sum(axis=1, keepdims=True) / HALF_LIFE)
        missing = LADDER - histogram.covered
        shift = self.shift + (1 - np.exp(-STEP * histogram.rows)) * missing
        return replace(
            self,
            counts=keep * self.counts + histogram.counts,
            shift=shift.clip(-LARGEST_SHIFT, 1 - LADDER),
            watched=self.watched + np.stack([np.zeros_like(histogram.watched), histogram.watched]),
        )

    def joined(self, histogram: ScoreHistogram) -> ConformalScores:
        """The scores with more of the first rows: nothing fades."""
        return replace(self, counts=self.counts + histogram.counts)

    def ends(self, predicted: Array, coverage: float) -> Array:
        """Lowest and highest score of the intervals of a coverage, shape (rows, 2).

        A score of 0 is between them: an interval holds the prediction, also where nearly all errors lean to
        one side.
        """
        low, high = self._ends_of_regions(np.array([coverage]))
        return np.column_stack([np.interp(predicted, self.centres, end[0]) for end in (low, high)])

    def _ends_of_regions(self, coverages: Array) -> tuple[Array, Array]:
        """Lowest and highest scores of the intervals of each region, both of shape (coverages, regions)."""
        tails = 1 - self.adapted(coverages)
        if self.is_one_sided:
            return np.full((len(tails), len(self.counts)), EDGES[0]), self.quantiles(1 - tails, outwards=1)
        low, high = self.quantiles(tails / 2, outwards=-1), self.quantiles(1 - tails / 2, outwards=1)
        return np.minimum(low, 0), np.maximum(high, 0)

    def width(self, coverage: float) -> float:
        """Mean width of the intervals of a coverage.

        Examples
        --------
        >>> even = np.random.default_rng(0).random(4000) - 0.5
        >>> scores = ConformalScores.of(np.zeros(4000), even, sizes=np.full(4000, 2.0))
        >>> round(scores.width(0.9), 1)
        1.8
        >>> scores.held(0.9, of_updates=False)[1], round(scores.held(0.9, of_updates=False)[0], 2)
        (4000.0, 0.9)
        """
        low, high = self.ends(self.centres, coverage).T  # (regions,)
        return float(np.average((high - low) * self.sizes, weights=self.counts.sum(axis=1)))

    def held(self, coverage: float, of_updates: bool) -> tuple[float, float]:
        """Share of rows that intervals made without them held, of the nearest coverage, and their weight."""
        rows, *held = self.watched[int(of_updates)].tolist()
        nearest = int(np.argmin(np.abs(LADDER - coverage)))
        return (held[nearest] / rows if rows else np.nan), rows

    def level(self, predicted: Array, quantile: float) -> Array:
        """The score that a share of the rows stays below, shape (rows,)."""
        return np.interp(predicted, self.centres, self.quantiles(np.array([quantile]), outwards=0)[0])

    def deviation(self, predicted: Array) -> Array:
        """Root of the mean squared score, shape (rows,)."""
        return np.interp(predicted, self.centres, np.sqrt(self.counts @ MIDDLES**2 / self.counts.sum(axis=1)))

    def adapted(self, coverages: Array) -> Array:
        """The coverages to ask of the histograms so that rows to come get these; rising in them."""
        reached = np.maximum.accumulate((LADDER + self.shift).clip(0, 1))
        return np.interp(coverages, [0, *LADDER, 1], [0, *reached, 1])

    def quantiles(self, levels: Array, outwards: int) -> Array:
        """Quantiles of each region, shape (levels, regions).

        With `outwards` of 1 or −1 they are corrected for a finite number of rows n, up or down: those of
        level (n + 1)/n·level, or (n + 1)/n·level − 1/n. Beyond the farthest score it is the end of its bin.
        """
        found = np.empty((len(levels), len(self.counts)))
        for k, counts in enumerate(self.counts):
            filled = np.flatnonzero(counts)
            sums = np.concatenate([[0.0], np.cumsum(counts)])
            more = levels if outwards == 1 else levels - 1 if outwards else np.zeros(len(levels))
            within = slice(filled[0], filled[-1] + 2)
            found[:, k] = np.interp((levels + more / sums[-1]) * sums[-1], sums[within], EDGES[within])
        return found
