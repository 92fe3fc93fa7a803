"""Conformal scores: histograms of standardised residuals, which add up and decay, and intervals from them.

Split conformal prediction (Vovk, Gammerman and Shafer, 2005; Lei et al., 2018): if later scores are
exchangeable with those counted here, their quantiles have the nominal coverage. Under drift the histograms
decay and the nominal coverage itself is adapted (Gibbs and Candès, 2021). No row is kept. Equation numbers
refer to docs/math.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["BINS", "EDGES", "LADDER", "ConformalScores", "ScoreHistogram"]

Array = NDArray[np.float64]

BINS = 384  # of a histogram
EDGES = np.sinh(np.linspace(-12, 12, BINS + 1))  # even around zero, then geometric, up to ± 81,000 scales
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2
LADDER = np.array([0.5, 0.8, 0.9, 0.95, 0.99])  # coverages that are counted and adapted


@dataclass(frozen=True)
class ConformalRules:
    """Rules of conformal intervals: not benchmarked one by one; `benchmarks/intervals.py` has their coverage.

    Attributes
    ----------
    region_rows, most_regions
        Rows of the fit for each region of predictions with quantiles of its own, and regions at most.
    blocks
        Blocks of the rows of the fit in the cross-validation of coverage.
    half_life
        Half-life of the scores of a region, in its rows.
    step
        Adaptation of a coverage for each row: Gibbs and Candès's γ.
    largest_shift
        Most by which the adaptation lowers a coverage.
    """

    region_rows: int = 400
    most_regions: int = 8
    blocks: int = 10
    half_life: float = 500.0
    step: float = 0.002
    largest_shift: float = 0.3


CONFORMAL_RULES = ConformalRules()


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Prequential scores of the rows of one update.

    Attributes
    ----------
    counts
        Weight of the rows of each region and bin, shape (regions, bins).
    covered
        Share of the rows inside the intervals of each coverage of the ladder, shape (ladder,).
    """

    counts: Array
    covered: Array

    @property
    def rows(self) -> float:
        """Weight of all rows."""
        return float(self.counts.sum())

    @property
    def coverage_weights(self) -> Array:
        """Weight of the rows, and of those inside the intervals of each coverage, shape (1 + ladder,)."""
        return self.rows * np.append(1.0, self.covered)

    def joined(self, more: ScoreHistogram) -> ScoreHistogram:
        """The histogram of these rows and of more rows of the same update."""
        rows = self.rows + more.rows
        covered = (self.rows * self.covered + more.rows * more.covered) / max(rows, 1e-300)
        return ScoreHistogram(self.counts + more.counts, covered)


@dataclass(frozen=True, eq=False)
class ConformalScores:
    """Histograms of scores for each region of predictions; immutable.

    Attributes
    ----------
    centres
        Middle of each region of predictions, rising, shape (regions,); between them quantiles are
        interpolated.
    counts
        Weight of the scores in each region and bin, shape (regions, bins).
    shift
        Adaptation of each coverage of the ladder, shape (ladder,).
    sizes
        Mean residual scale of the rows of the fit in each region, shape (regions,).
    is_one_sided
        Whether an interval has an upper end only.
    coverage_weights
        Weight of rows, and of those inside the intervals of each coverage of the ladder, out of sample: shape
        (2, 1 + ladder). Row 0 is block cross-validation on the rows of the fit, row 1 prequential on updates.
        In sample the histograms have their coverage by construction.

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
    coverage_weights: Array = field(default_factory=lambda: np.zeros((2, 1 + len(LADDER))))

    @classmethod
    def of(
        cls,
        predicted: Array,
        scores: Array,
        weights: Array | None = None,
        is_one_sided: bool = False,
        sizes: Array | None = None,
    ) -> ConformalScores:
        """Histograms of the rows of a fit; all arguments have shape (rows,)."""
        regions = int(np.clip(len(predicted) // CONFORMAL_RULES.region_rows, 1, CONFORMAL_RULES.most_regions))
        centres = np.unique(np.quantile(predicted, (np.arange(regions) + 0.5) / regions))
        empty = cls(
            centres,
            np.zeros((len(centres), BINS)),
            np.zeros(len(LADDER)),
            np.ones(len(centres)),
            is_one_sided,
        )
        held = (
            empty.weight_by_bin(predicted, scores, weights).sum(axis=1) > 0
        )  # predictions with few distinct values leave regions empty
        some = replace(empty, centres=centres[held], counts=empty.counts[held], sizes=empty.sizes[held])
        counts = some.weight_by_bin(predicted, scores, weights)
        some = replace(
            some, counts=counts, coverage_weights=some.cross_validated_coverage(predicted, scores, weights)
        )
        if sizes is None:
            return some
        sums = some.weight_by_bin(predicted, scores, sizes if weights is None else sizes * weights)
        return replace(some, sizes=sums.sum(axis=1) / counts.sum(axis=1))

    def cross_validated_coverage(self, predicted: Array, scores: Array, weights: Array | None) -> Array:
        """Coverage of blocks of neighbouring rows by the intervals of the others, unless these leave gaps."""
        weights = np.ones(len(predicted)) if weights is None else weights
        block, found = (
            np.arange(len(predicted)) * CONFORMAL_RULES.blocks // max(len(predicted), 1),
            np.zeros((2, 1 + len(LADDER))),
        )
        for own in (block == k for k in np.unique(block)):
            others = self.weight_by_bin(predicted[~own], scores[~own], weights[~own])
            if (others.sum(axis=1) > 0).all() and weights[own].sum() > 0:
                found[0] += (
                    replace(self, counts=others)
                    .histogram(predicted[own], scores[own], weights[own])
                    .coverage_weights
                )
        return found

    def weight_by_bin(self, predicted: Array, scores: Array, weights: Array | None) -> Array:
        """Weight of rows in each region and bin."""
        region = np.searchsorted((self.centres[1:] + self.centres[:-1]) / 2, predicted)
        bins = np.searchsorted(EDGES[1:-1], scores, side="right")
        places = region * BINS + bins
        return np.bincount(places, weights, self.counts.size).reshape(self.counts.shape).astype(np.float64)

    def histogram(self, predicted: Array, scores: Array, weights: Array | None = None) -> ScoreHistogram:
        """Scores of rows that are not counted yet, with the coverage of the present intervals."""
        ends = zip(*self._ends_of_regions(LADDER), strict=True)
        limits = [[np.interp(predicted, self.centres, end) for end in pair] for pair in ends]
        held = [np.average((scores >= low) & (scores <= high), weights=weights) for low, high in limits]
        return ScoreHistogram(self.weight_by_bin(predicted, scores, weights), np.array(held))

    def after(self, histogram: ScoreHistogram) -> ConformalScores:
        """The scores after an update: older ones decay, and coverages are adapted."""
        keep = 0.5 ** (histogram.counts.sum(axis=1, keepdims=True) / CONFORMAL_RULES.half_life)
        missing = LADDER - histogram.covered
        shift = self.shift + (1 - np.exp(-CONFORMAL_RULES.step * histogram.rows)) * missing
        return replace(
            self,
            counts=keep * self.counts + histogram.counts,
            shift=shift.clip(-CONFORMAL_RULES.largest_shift, 1 - LADDER),
            coverage_weights=self.coverage_weights
            + np.stack([np.zeros_like(histogram.coverage_weights), histogram.coverage_weights]),
        )

    def joined(self, histogram: ScoreHistogram) -> ConformalScores:
        """The scores with more rows of the fit: nothing decays."""
        return replace(self, counts=self.counts + histogram.counts)

    def ends(self, predicted: Array, coverage: float) -> Array:
        """Lowest and highest score of the intervals of a coverage, shape (rows, 2).

        They enclose 0, so an interval contains the prediction even where nearly all residuals have one sign.
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
        >>> share, rows = scores.out_of_sample_coverage(0.9, of_updates=False)
        >>> round(share, 2), rows
        (0.9, 4000.0)
        """
        low, high = self.ends(self.centres, coverage).T  # (regions,)
        return float(np.average((high - low) * self.sizes, weights=self.counts.sum(axis=1)))

    def out_of_sample_coverage(self, coverage: float, of_updates: bool) -> tuple[float, float]:
        """Out-of-sample coverage of intervals at the nearest step of the ladder, and the weight of rows."""
        rows, *held = self.coverage_weights[int(of_updates)].tolist()
        nearest = int(np.argmin(np.abs(LADDER - coverage)))
        return (held[nearest] / rows if rows else np.nan), rows

    def quantile(self, predicted: Array, level: float) -> Array:
        """Quantile of the scores, shape (rows,)."""
        return np.interp(predicted, self.centres, self.quantiles(np.array([level]), outwards=0)[0])

    def deviation(self, predicted: Array) -> Array:
        """Root of the mean squared score, shape (rows,)."""
        return np.interp(predicted, self.centres, np.sqrt(self.counts @ MIDDLES**2 / self.counts.sum(axis=1)))

    def adapted(self, coverages: Array) -> Array:
        """Coverages of the histograms that give these coverages of later rows; increasing."""
        reached = np.maximum.accumulate((LADDER + self.shift).clip(0, 1))
        return np.interp(coverages, [0, *LADDER, 1], [0, *reached, 1])

    def quantiles(self, levels: Array, outwards: int) -> Array:
        """Quantiles of each region, shape (levels, regions).

        With `outwards` of 1 or −1 they are corrected for a finite number of rows n, up or down: level
        (n + 1)/n·level, or (n + 1)/n·level − 1/n. Beyond the outermost score it is the edge of its bin.
        """
        found = np.empty((len(levels), len(self.counts)))
        for k, counts in enumerate(self.counts):
            filled = np.flatnonzero(counts)
            sums = np.concatenate([[0.0], np.cumsum(counts)])
            more = levels if outwards == 1 else levels - 1 if outwards else np.zeros(len(levels))
            within = slice(filled[0], filled[-1] + 2)
            found[:, k] = np.interp((levels + more / sums[-1]) * sums[-1], sums[within], EDGES[within])
        return found
