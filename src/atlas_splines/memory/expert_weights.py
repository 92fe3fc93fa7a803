"""Expert weights: candidates are stacked by prequential errors with a forgetting factor, classes by log loss.

Numbers: non-negative least squares on decayed products of residuals (Wolpert, 1992, Stacked generalization),
shrunk to the exponentially weighted average forecaster (Cesa-Bianchi and Lugosi, 2006, Prediction, Learning,
and Games). Classes: a product of powers of the candidates' probabilities (logarithmic opinion pool; Hinton,
2002).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import log_softmax

from atlas_splines.memory.posterior import LEAST_NOISE
from atlas_splines.model.immutable import Recomputing

__all__ = [
    "CLASS_WEIGHT_RULES",
    "EXPERT_RULES",
    "ClassWeightRules",
    "ClassWeights",
    "ExpertRules",
    "ExpertWeights",
    "LossForm",
    "loss_form",
    "products_of",
]

Array = NDArray[np.float64]
FARTHEST = 1e15  # replaces residuals and predictions that overflow
CONSTRAINT = 1e3  # weight of the equations that make shares add up to 1, relative to the root of all products


@dataclass(frozen=True)
class ExpertRules:
    """Rules of the weights of candidates for numbers.

    Chosen on the residuals of all candidates on seven streams of `benchmarks/streams.py`. Halved or doubled,
    none but `least_complete` moves the geometric mean of errors by 0.5 %, on either half of them.

    Attributes
    ----------
    half_life
        Half-life of the products of residuals, in rows.
    recent
        Half-life of the mean squared errors that the forecaster uses, in rows.
    inverse_temperature
        η of the forecaster: weights are proportional to exp(−η·(e/min e − 1)) for squared errors e, once it
        has seen many times `rows_a_comparison` rows; with fewer η is smaller. Without that reduction, 30 rows
        of a new category gave 0.89 to an initial model that had no more information on it than the others.
        With 8 errors are 0.2 % larger, on both halves.
    preference
        Factor of the forecaster's weight of a candidate that has forgotten rows, or never learned them,
        relative to one that has learned all rows.
    least_complete
        Least total weight of the candidates that have learned every row and forgotten none, within the limit
        of `most_growth`; it protects the accuracy on all rows seen. On bike, cut after 50 batches, the error
        on all rows seen is 0.96 of that of never updating without it, 0.84 with 0.2, 0.79 with 0.3; the
        prequential errors of seven streams grow by 0.6 and 1.3 %, all of it on the two that drift.
    most_growth
        Most relative growth of the squared error of the ensemble for the sake of `least_complete`; the total
        weight is then as large as that allows. After a complete change of the target it is next to 0. Beyond
        0.2 nothing changes on streams.
    pull
        Strength of the shrinkage to the forecaster's weights, in units of the least squared error: with
        `rows_a_comparison` rows it counts as much as their products times this.
    rows_a_comparison
        Effective number of correlated rows that count as one: residuals of neighbouring rows are alike.
    least_share
        Smallest weight in the ensemble: a candidate with less is left out, so that the model stays small.
    hopeless
        Squared error relative to the least one from which on a candidate gets weight 0.
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


def products_of(residuals: Array, weights: Array, lasting: slice = slice(None)) -> Array:
    """Mean products of the candidates' prequential residuals on some rows.

    A row is weighted by the inverse of the least absolute residual of a candidate on it, at most by that of a
    usual row, so that weights tend to the least absolute error (iteratively reweighted least squares): a row
    that no candidate predicts carries little information on which of them is best. Weighting by the residual
    of the ensemble does as well, but an update would then depend on the weights, and so on the other
    candidates.

    Parameters
    ----------
    residuals
        Errors of each candidate, shape (candidates, rows, outputs).
    weights
        Weights of the rows, shape (rows,).
    lasting
        Candidates whose least error counts. An initial model that is dropped one day is none of them: what an
        update teaches would depend on whether it was still there.

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
    counts = weights * robust_counts(residuals[lasting])
    counts /= counts.sum()
    products = np.einsum("iro,r,jro->ij", residuals, counts, residuals) / residuals.shape[2]
    return np.asarray((products + products.T) / 2)


def robust_counts(residuals: Array) -> Array:
    """Robust weight of each row: smaller where even the best candidate has an unusually large error.

    The usual size is the least mean absolute residual of a candidate, so one that overflows has no influence.

    Parameters
    ----------
    residuals
        Residuals of each candidate, shape (candidates, rows, outputs).

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
    """Prequential errors of the candidates, from which their weights follow; immutable.

    Attributes
    ----------
    errors
        Mean squared error of each candidate on the most recent rows, shape (candidates,).
    products
        Decayed sums of the products of residuals over rows, shape (candidates, candidates).
    rows
        Number of rows that were predicted, undecayed.
    """

    errors: Array
    products: Array
    rows: float = 0.0

    @classmethod
    def of(cls, candidates: int) -> ExpertWeights:
        """Errors of candidates before any row."""
        return cls(np.zeros(candidates), np.zeros((candidates, candidates)))

    def after(self, products: Array, rows: float, rules: ExpertRules = EXPERT_RULES) -> ExpertWeights:
        """The errors after some more rows, given the mean products of the residuals on them."""
        keep = 0.5 ** (rows / rules.recent) if self.rows else 0.0
        return ExpertWeights(
            keep * self.errors + (1 - keep) * np.diagonal(products),
            0.5 ** (rows / rules.half_life) * self.products + rows * products,
            self.rows + rows,
        )

    def first(self, candidates: int) -> ExpertWeights:
        """The errors of the first candidates."""
        return ExpertWeights(self.errors[:candidates], self.products[:candidates, :candidates], self.rows)

    def scaled(self, factor: float) -> ExpertWeights:
        """The same for targets in another unit, which multiplies squared errors by a factor."""
        return ExpertWeights(factor * self.errors, factor * self.products, self.rows)

    def shares(self, partial: NDArray[np.bool_], rules: ExpertRules = EXPERT_RULES) -> Array:
        """Weight of each candidate, shape (candidates,), adding up to 1.

        Parameters
        ----------
        partial
            Whether each candidate was trained on part of the rows only, shape (candidates,).
        rules
            Rules of the weights.

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
    """Weights a ≥ 0 that minimise aᵀMa/2 − aᵀm, with a given sum for each group of candidates.

    Groups are indicators of shape (groups, candidates) and partition the candidates.
    """
    half = np.linalg.cholesky(matrix).T
    goal, constraint = np.linalg.solve(half.T, moment), CONSTRAINT * np.sqrt(np.trace(matrix))
    found = nnls(np.vstack([half, constraint * groups]), np.append(goal, constraint * sums))[0]
    return np.asarray(found / found.sum())


def _as_far_as(products: Array, best: Array, wanted: Array, most_growth: float) -> Array:
    """The weights closest to the wanted ones, on the way from the best ones, that keep within `most_growth`.

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


LARGEST_SCORE = 60.0  # e⁻⁶⁰ is negligible: larger scores would only overflow the curvature


@dataclass(frozen=True)
class ClassWeightRules:
    """Rules of the weights of candidates for classes.

    Chosen on elec2 and synthetic streams with a sudden change, a rotation and new classes; noaa, steel-load
    and three other synthetic streams agree. Halved or doubled, no value moves the log loss on the three files
    of `benchmarks/streams.py` by 0.6 %.

    Attributes
    ----------
    half_life
        Half-life of the log loss, in rows. With 1,000 synthetic streams with a sudden change are 1 to 2 %
        worse, and elec2 is 0.4 % better; with 200 it is the other way round.
    rows_a_comparison
        Effective number of correlated rows that count as one.
    pull
        Precision of the prior of the weights around the reference, in such rows.
    score_unit
        Factor of the scores of statistics and of recent local regressions: least squares on class indicators,
        with the inverse temperature of a model of statistics alone, is about twice as confident as a softmax
        should be.
    base, others
        Reference weight of the model of kept rows, and of each candidate that forgets beside it. With 0.85
        and 0 the log loss on nine streams is 0.1 % larger.
    cumulative
        Reference weight of the cumulative statistics where no rows are kept; that of the initial model is
        then 0. With 0.1 for it new classes, which it can never predict, cost 4 % more. Updates given as sums
        have this candidate only, and two thirds of the scores of a model of statistics alone are about
        calibrated; from 0.3 to 0.7 streams differ by 0.2 %.
    smoothing
        Label smoothing, so that weights stay bounded after a batch without errors. With 0.01 rare errors are
        overrated (synthetic classes of insects: 2.7 % worse).
    least_share
        Smallest weight in the ensemble: a candidate with less is left out, so that the model stays small.
    fastest
        Least weight of the statistics with the shortest half-life. After an inversion of all classes every
        candidate was wrong and has weight 0: the most recent statistics then determine the most probable
        class.
    most_rows
        Most rows of one update that the log loss is computed on, evenly spaced.
    steps, tolerance
        Most Newton steps, and the decrease of the loss below which they end.
    """

    half_life: float = 500.0
    rows_a_comparison: float = 10.0
    pull: float = 5.0
    score_unit: float = 0.6
    base: float = 0.7
    others: float = 0.05
    cumulative: float = 0.7
    smoothing: float = 0.001
    least_share: float = 0.01
    fastest: float = 0.02
    most_rows: int = 4000
    steps: int = 8
    tolerance: float = 1e-7

    def reference(self, statistics: int, candidates: int, keeps_rows: bool) -> Array:
        """Reference weights of cumulative statistics, decayed ones, the base if any, and recent regressions.

        Examples
        --------
        >>> CLASS_WEIGHT_RULES.reference(3, 5, keeps_rows=True)
        array([0.  , 0.05, 0.05, 0.7 , 0.05])
        """
        shares = np.full(candidates, self.others)
        shares[0] = 0.0 if keeps_rows else self.cumulative
        shares[statistics : statistics + 1] = self.base if keeps_rows else 0.0
        return shares


CLASS_WEIGHT_RULES = ClassWeightRules()


@dataclass(frozen=True, eq=False)
class LossForm:
    """Log loss of rows as a quadratic form of the weights a of candidates, ½·aᵀHa − bᵀa, up to a constant.

    Attributes
    ----------
    curvature
        H, shape (candidates, candidates).
    slope
        b, shape (candidates,).
    """

    curvature: Array
    slope: Array

    @classmethod
    def none(cls, candidates: int) -> LossForm:
        """The form of no rows: zero."""
        return cls(np.zeros((candidates, candidates)), np.zeros(candidates))

    def __add__(self, more: LossForm) -> LossForm:
        return LossForm(self.curvature + more.curvature, self.slope + more.slope)

    def times(self, factor: float) -> LossForm:
        """The form with all rows weighted by a factor."""
        return LossForm(factor * self.curvature, factor * self.slope)

    def resized(self, candidates: int) -> LossForm:
        """The form of the first candidates, or of more, with zeros for those added."""
        known, wider = min(candidates, len(self.slope)), LossForm.none(candidates)
        wider.curvature[:known, :known] = self.curvature[:known, :known]
        wider.slope[:known] = self.slope[:known]
        return wider


@dataclass(frozen=True, eq=False)
class ClassWeights(Recomputing):
    """Prequential log loss of the candidates, from which their weights follow; immutable.

    Attributes
    ----------
    form
        Exponentially decayed sum of the forms of all rows.
    """

    form: LossForm

    def after(
        self, form: LossForm | None, rows: float, rules: ClassWeightRules = CLASS_WEIGHT_RULES
    ) -> ClassWeights:
        """The form after some more rows; without a form of theirs the earlier ones only decay."""
        kept = self.form.times(0.5 ** (rows / rules.half_life))
        return ClassWeights(kept if form is None else kept + form.resized(len(kept.slope)))

    def shares(self, reference: Array, rules: ClassWeightRules = CLASS_WEIGHT_RULES) -> Array:
        """Weight of each candidate, shape (candidates,): non-negative, not normalised.

        Parameters
        ----------
        reference
            Weights before any row, which the prior is centred on.
        rules
            Rules of the weights.

        Examples
        --------
        >>> nothing = ClassWeights(LossForm.none(2))
        >>> nothing.shares(np.array([0.7, 0.3]))
        array([0.7, 0.3])
        >>> random = np.random.default_rng(0)
        >>> true, noise = random.normal(size=(2, 2000, 3))
        >>> labels = np.eye(3)[(true + random.gumbel(size=true.shape)).argmax(axis=1)]
        >>> form = loss_form(np.stack([true, noise]), labels, np.ones(2000), nothing, np.array([0.0, 0.5]))
        >>> nothing.after(form, 2000).shares(np.array([0.0, 0.5])).round()
        array([1., 0.])
        """
        shares = _minimiser(self.form, reference, rules)
        shares[shares < rules.least_share] = 0
        return shares


def loss_form(
    scores: Array,
    labels: Array,
    weights: Array,
    known: ClassWeights,
    reference: Array,
    rules: ClassWeightRules = CLASS_WEIGHT_RULES,
) -> LossForm:
    """Log loss of rows, expanded around the weights of highest posterior density (Newton's method).

    Parameters
    ----------
    scores
        Prequential scores of the candidates, shape (candidates, rows, classes).
    labels, weights
        Class indicators (rows, classes), and weights of the rows, about 1.
    known
        Log loss of earlier rows.
    reference
        As in `ClassWeights.shares`.
    rules
        Rules of the weights.
    """
    centred = (scores - scores.mean(axis=2, keepdims=True)).clip(-LARGEST_SCORE, LARGEST_SCORE)
    counts = weights / rules.rows_a_comparison
    wanted = (1 - rules.smoothing) * labels + rules.smoothing / labels.shape[1]
    before = known.after(None, float(weights.sum()), rules).form
    shares = _minimiser(known.form, reference, rules)
    value, form = _expanded(centred, wanted, counts, shares)
    value += _value(before, shares, reference, rules)
    for _ in range(rules.steps):
        step = _minimiser(before + form, reference, rules) - shares
        for factor in (1.0, 0.5, 0.25, 0.125):
            tried = shares + factor * step
            less, there = _expanded(centred, wanted, counts, tried)
            less += _value(before, tried, reference, rules)
            if less < value:
                break
        if less >= value - rules.tolerance:
            break
        shares, form, value = tried, there, less
    return form


def _expanded(scores: Array, wanted: Array, counts: Array, shares: Array) -> tuple[float, LossForm]:
    """Log loss of the softmax of weighted scores, and its second-order expansion in the weights."""
    logs = log_softmax(np.tensordot(shares, scores, 1), axis=1)  # (rows, classes)
    chances, each = np.exp(logs), counts[:, None]
    mean = (scores * chances).sum(axis=2)  # (candidates, rows)
    curvature = np.tensordot(scores * (chances * each), scores, ([1, 2], [1, 2])) - (mean * counts) @ mean.T
    gradient = (scores * (each * (chances - wanted))).sum(axis=(1, 2))
    curvature = (curvature + curvature.T) / 2
    value = -float(counts @ (wanted * logs).sum(axis=1))
    return value, LossForm(curvature, curvature @ shares - gradient)


def _value(form: LossForm, shares: Array, reference: Array, rules: ClassWeightRules) -> float:
    """Value of a form plus the negative log prior, at some weights."""
    apart = shares - reference
    return float(shares @ (0.5 * form.curvature @ shares - form.slope) + 0.5 * rules.pull * apart @ apart)


def _minimiser(form: LossForm, reference: Array, rules: ClassWeightRules) -> Array:
    """The non-negative weights that minimise a form plus the negative log prior."""
    matrix = form.curvature + rules.pull * np.eye(len(reference))
    half = np.linalg.cholesky(matrix)
    goal = np.linalg.solve(half, form.slope + rules.pull * reference)
    return np.asarray(nnls(half.T, goal)[0])
