"""Expert weights: the share of each candidate in a prediction, by how well it predicted rows before learning.

Prequential stacking (Dawid 1984; Breiman 1996): shares are not negative, add up to 1 and minimise the squared
error of the mixture on rows that no candidate had learned, the latest counting most. Few rows decide little:
shares are pulled to those of an exponentially weighted average forecaster (Cesa-Bianchi and Lugosi 2006). As
shares add up to 1, the error of the mixture is the mixture of errors, and products of errors are all that is
needed. Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from atlas_splines.core.remembering import Recomputing
from atlas_splines.evidence.readout import LEAST_NOISE

__all__ = ["EXPERT_RULES", "ExpertRules", "ExpertWeights", "products_of"]

Array = NDArray[np.float64]
FARTHEST = 1e15  # error of a candidate that overflows
FIRM = 1e3  # how firmly shares add up to 1, over the size of all errors


@dataclass(frozen=True)
class ExpertRules:
    """How far candidates are trusted.

    Values were chosen on the residuals of all candidates on seven streams of `benchmarks/streams.py`. Halved
    or doubled, none but `least_complete` moves the geometric mean of errors by 0.5 %, on either half of them.

    Attributes
    ----------
    half_life
        Rows after which a product of errors counts half.
    recent
        Rows after which an error counts half in the forecaster that shares are pulled to.
    inverse_temperature
        Of that forecaster: shares are exp(−inverse_temperature·(e/least e − 1)) of squared errors e, once it
        has seen many times `rows_a_comparison` rows; of fewer it is closer to 0. Without that, 30 rows of a
        new category gave 0.89 to a first model that knew no more of it than the others.
        With 8 errors are 0.2 % larger, on both halves.
    preference
        Share of a candidate that has forgotten rows, or never learned them, over that of one that knows all
        and is as good, there.
    least_complete
        Share of all candidates together that have learned every row and forgotten none, at least, unless it
        costs too much: the present is not bought with the past. On bike, cut after 50 batches, the error on
        all rows seen is 0.96 of that of never updating without it, 0.84 with 0.2, 0.79 with 0.3; the errors
        ahead of seven streams grow by 0.6 and 1.3 %, all of it on the two that drift.
    most_growth
        By which the squared error of the mixture grows for that at most; then the share is as large as that
        allows. In a world that has changed altogether the past has next to none. Beyond 0.2 nothing changes
        on streams.
    pull
        Towards its shares, in units of the least squared error; of `rows_a_comparison` rows it counts as much
        as that times their products.
    rows_a_comparison
        Neighbouring rows have errors that are alike: so many count as one.
    least_share
        Of a candidate in the mixture: with less it is left out, so that the model stays small.
    hopeless
        Squared error over the least from which on a candidate has no share whatever the others do.
    """

    half_life: float = 2000.0
    recent: float = 500.0
    inverse_temperature: float = 16.0
    preference: float = 0.3
    least_complete: float = 0.2
    most_growth: float = 0.2
    pull: float = 2.5
    rows_a_comparison: float = 300.0
    least_share: float = 0.01
    hopeless: float = 1e6


EXPERT_RULES = ExpertRules()


def products_of(residuals: Array, weights: Array) -> Array:
    """Mean products of the errors of candidates on rows that none of them has learned.

    Rows count by the inverse of the least error that a candidate has there, but not more than a usual row, so
    that shares tend to the least absolute error: a row that nobody predicts tells little about who predicts
    best. Weights of rows by the error of the mixture do as well, but what an update teaches would then depend
    on shares, and so on what else was a candidate.

    Parameters
    ----------
    residuals
        Errors of each candidate, shape (candidates, rows, outputs).
    weights
        Of the rows, shape (rows,).

    Returns
    -------
    array of shape (candidates, candidates)

    Examples
    --------
    >>> residuals = np.array([[[1.0], [-1.0]], [[2.0], [2.0]]])
    >>> products_of(residuals, np.ones(2))
    array([[1., 0.],
           [0., 4.]])
    """
    residuals = np.nan_to_num(residuals, nan=FARTHEST).clip(-FARTHEST, FARTHEST)
    counts = weights * robust_counts(residuals)
    counts /= counts.sum()
    products = np.einsum("iro,r,jro->ij", residuals, counts, residuals) / residuals.shape[2]
    return np.asarray((products + products.T) / 2)


def robust_counts(residuals: Array) -> Array:
    """How much each row counts: less where even the candidate that is closest is farther off than usual.

    Usual is the least mean absolute error of a candidate; one that overflows has no say.

    Parameters
    ----------
    residuals
        Errors of each candidate, shape (candidates, rows, outputs).

    Examples
    --------
    >>> robust_counts(np.array([[[1.0], [1.0], [5.0]], [[1.0], [3.0], [4.0]]]))
    array([0.42857143, 0.42857143, 0.25      ])
    """
    sizes = np.abs(residuals).mean(axis=2)  # (candidates, rows)
    usual = max(float(sizes.mean(axis=1).min()), np.sqrt(LEAST_NOISE))
    return np.asarray(1 / np.maximum(sizes.min(axis=0), usual))


@dataclass(frozen=True, eq=False)
class ExpertWeights(Recomputing):
    """How well candidates predicted rows before learning them; never changed in place.

    Attributes
    ----------
    errors
        Mean squared error of each candidate on the latest rows, shape (candidates,).
    products
        Decayed sums of products of errors over rows, shape (candidates, candidates).
    rows
        Rows that they come from, however long ago.
    """

    errors: Array
    products: Array
    rows: float = 0.0

    @classmethod
    def of(cls, candidates: int) -> ExpertWeights:
        """Nothing is known of so many candidates yet."""
        return cls(np.zeros(candidates), np.zeros((candidates, candidates)))

    def after(self, products: Array, rows: float, rules: ExpertRules = EXPERT_RULES) -> ExpertWeights:
        """The weights after some more rows, with the mean products of the errors on them."""
        keep = 0.5 ** (rows / rules.recent) if self.rows else 0.0
        return ExpertWeights(
            keep * self.errors + (1 - keep) * np.diagonal(products),
            0.5 ** (rows / rules.half_life) * self.products + rows * products,
            self.rows + rows,
        )

    def first(self, candidates: int) -> ExpertWeights:
        """What is known of the first candidates."""
        return ExpertWeights(self.errors[:candidates], self.products[:candidates, :candidates], self.rows)

    def scaled(self, factor: float) -> ExpertWeights:
        """The same for targets in another unit, in which squared errors are so many times as large."""
        return ExpertWeights(factor * self.errors, factor * self.products, self.rows)

    def shares(self, partial: NDArray[np.bool_], rules: ExpertRules = EXPERT_RULES) -> Array:
        """Share of each candidate, shape (candidates,).

        Parameters
        ----------
        partial
            Whether each candidate knows some of the rows alone, shape (candidates,).
        rules
            How far candidates are trusted.

        Examples
        --------
        >>> known = ExpertWeights.of(3).after(np.diag([1.0, 1.0, 9.0]), 3000)
        >>> known.shares(np.zeros(3, bool)).round(2)
        array([0.47, 0.47, 0.05])
        """
        least = max(float(self.errors.min()), LEAST_NOISE)
        certain = self.rows / (self.rows + rules.rows_a_comparison)
        likely = np.exp(-certain * rules.inverse_temperature * (self.errors / least - 1))
        likely *= np.where(partial, rules.preference, 1.0)
        hopes = np.flatnonzero(self.errors <= rules.hopeless * least)
        wanted, shares = (likely / likely.sum())[hopes], np.zeros(len(self.errors))
        pull = rules.pull * least
        matrix = self.products[np.ix_(hopes, hopes)] / rules.rows_a_comparison + pull * np.eye(len(hopes))
        shares[hopes] = _least_squares(matrix, pull * wanted, np.ones((1, len(hopes))), np.ones(1))
        complete = ~partial[hopes]
        if complete.any() and shares[hopes][complete].sum() < rules.least_complete:
            sums = np.array([rules.least_complete, 1 - rules.least_complete])
            groups = np.stack([complete, ~complete]).astype(np.float64)
            kept = _least_squares(matrix, pull * wanted, groups, sums)
            products = self.products[np.ix_(hopes, hopes)]
            shares[hopes] = _as_far_as(products, shares[hopes], kept, rules.most_growth)
        shares[shares < rules.least_share] = 0
        return np.asarray(shares / shares.sum())


def _least_squares(matrix: Array, moment: Array, groups: Array, sums: Array) -> Array:
    """Shares a ≥ 0 that minimise aᵀMa/2 − aᵀm, with a given sum of the shares of each group.

    Groups have shape (groups, candidates), with 1 for those in it; together they are all.
    """
    half = np.linalg.cholesky(matrix).T
    goal, firm = np.linalg.solve(half.T, moment), FIRM * np.sqrt(np.trace(matrix))
    found = nnls(np.vstack([half, firm * groups]), np.append(goal, firm * sums))[0]
    return np.asarray(found / found.sum())


def _as_far_as(products: Array, best: Array, wanted: Array, most_growth: float) -> Array:
    """Shares between the best ones and others, as close to the latter as the growth of errors allows.

    Examples
    --------
    >>> _as_far_as(np.diag([1.0, 3.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.5).round(3)
    array([0.317, 0.683])
    """
    step = wanted - best
    before, slope, bend = best @ products @ best, best @ products @ step, step @ products @ step
    if 2 * slope + bend <= most_growth * before:
        return wanted
    return np.asarray(best + (np.sqrt(slope**2 + bend * most_growth * before) - slope) / bend * step)
