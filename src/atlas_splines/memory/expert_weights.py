"""Expert weights: candidates are stacked by prequential errors with a forgetting factor, classes by log loss.

Cesa-Bianchi and Lugosi (2006), Prediction, Learning, and Games; Wolpert (1992), Stacked generalization.
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


def products_of(residuals: Array, weights: Array, lasting: slice = slice(None)) -> Array:
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
    lasting
        Candidates of which the least error counts. A first model that is dropped one day is none of them:
        what an update teaches would depend on whether it was still there.

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


LARGEST_SCORE = 60.0  # e⁻⁶⁰ is nothing: larger scores only overflow the curvature


@dataclass(frozen=True)
class ClassWeightRules:
    """How far candidates for classes are trusted.

    Chosen on elec2 and drawn streams with a sudden change, a rotation and new classes; noaa, steel-load and
    three other drawn streams agree. Halved or doubled, no value moves the log loss on the three files of
    `benchmarks/streams.py` by 0.6 %.

    Attributes
    ----------
    half_life
        Rows after which a form counts half. With 1,000 drawn streams that change at once are 1 to 2 % worse,
        and elec2 is 0.4 % better; with 200 it is the other way round.
    rows_a_comparison
        Neighbouring rows have errors that are alike: so many count as one.
    pull
        Precision of the prior of the base's share around the reference, in such rows.
    score_unit
        Scores of statistics and of recent local regressions are multiplied by this before they are weighted:
        least squares on indicators with the inverse temperature of a model of sums alone are about twice as
        sure as a softmax should be.
    base, others
        Reference of the share of the model of kept rows, and of each candidate that forgets beside it. With
        0.85 and 0 the log loss on nine streams is 0.1 % larger.
    cumulative
        Reference of cumulative statistics where no rows are kept; the first model has none then. With 0.1 for
        it new classes, which it will never know, cost 4 % more. Of updates of which only sums are known it is
        all there is, and two thirds of the scores of a model of sums alone are about as sure as they should
        be; from 0.3 to 0.7 streams differ by 0.2 %.
    smoothing
        Of labels, so that a batch without a mistake does not make shares grow without end. With 0.01 rare
        mistakes are overrated (drawn classes of insects: 2.7 % worse).
    least_share
        Of a candidate in the mixture: with less it is left out, so that the model stays small.
    fastest
        Share of the statistics that forget fastest, at least. Where the world has turned round, all
        candidates have been wrong and have no share: then these decide which class is the likeliest.
    most_rows
        Of one update, evenly chosen, that decide.
    steps, tolerance
        Newton steps at most, and the gain below which they end.
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
        """Shares without any rows: cumulative statistics, decayed ones, a base if any, and recent ones.

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
    """The log loss of rows as a quadratic form of shares a, ½·aᵀHa − bᵀa, up to a constant.

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
        """The form of no rows."""
        return cls(np.zeros((candidates, candidates)), np.zeros(candidates))

    def __add__(self, more: LossForm) -> LossForm:
        return LossForm(self.curvature + more.curvature, self.slope + more.slope)

    def times(self, factor: float) -> LossForm:
        """The form of rows that count so many times as much."""
        return LossForm(factor * self.curvature, factor * self.slope)

    def resized(self, candidates: int) -> LossForm:
        """The form of the first candidates, or with more of which nothing is known."""
        known, wider = min(candidates, len(self.slope)), LossForm.none(candidates)
        wider.curvature[:known, :known] = self.curvature[:known, :known]
        wider.slope[:known] = self.slope[:known]
        return wider


@dataclass(frozen=True, eq=False)
class ClassWeights(Recomputing):
    """How well candidates predicted classes before learning them; never changed in place.

    Attributes
    ----------
    form
        Decayed sum of the forms of all rows.
    """

    form: LossForm

    def after(
        self, form: LossForm | None, rows: float, rules: ClassWeightRules = CLASS_WEIGHT_RULES
    ) -> ClassWeights:
        """The weights after some more rows; without a form nothing is known of these but their number."""
        kept = self.form.times(0.5 ** (rows / rules.half_life))
        return ClassWeights(kept if form is None else kept + form.resized(len(kept.slope)))

    def shares(self, reference: Array, rules: ClassWeightRules = CLASS_WEIGHT_RULES) -> Array:
        """Share of each candidate, shape (candidates,): none is negative, and they need not add up to 1.

        Parameters
        ----------
        reference
            Shares of which rows must convince.
        rules
            How far candidates are trusted.

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
    """The log loss of rows around the shares that are most likely given them and what was known.

    Parameters
    ----------
    scores
        Of the candidates before they learned the rows, shape (candidates, rows, classes).
    labels, weights
        Indicators of classes (rows, classes), and weights of the rows, about 1.
    known
        What was known before.
    reference
        As in `ClassWeights.shares`.
    rules
        How.
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
    """Log loss of the softmax of weighted scores, and its second-order expansion in the shares."""
    logs = log_softmax(np.tensordot(shares, scores, 1), axis=1)  # (rows, classes)
    chances, each = np.exp(logs), counts[:, None]
    mean = (scores * chances).sum(axis=2)  # (candidates, rows)
    curvature = np.tensordot(scores * (chances * each), scores, ([1, 2], [1, 2])) - (mean * counts) @ mean.T
    gradient = (scores * (each * (chances - wanted))).sum(axis=(1, 2))
    curvature = (curvature + curvature.T) / 2
    value = -float(counts @ (wanted * logs).sum(axis=1))
    return value, LossForm(curvature, curvature @ shares - gradient)


def _value(form: LossForm, shares: Array, reference: Array, rules: ClassWeightRules) -> float:
    """A form and the pull to the reference, at some shares."""
    apart = shares - reference
    return float(shares @ (0.5 * form.curvature @ shares - form.slope) + 0.5 * rules.pull * apart @ apart)


def _minimiser(form: LossForm, reference: Array, rules: ClassWeightRules) -> Array:
    """The shares of least loss that are not negative."""
    matrix = form.curvature + rules.pull * np.eye(len(reference))
    half = np.linalg.cholesky(matrix)
    goal = np.linalg.solve(half, form.slope + rules.pull * reference)
    return np.asarray(nnls(half.T, goal)[0])
