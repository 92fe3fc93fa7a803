"""Class weights: the share of each candidate's scores of classes, by its log loss on rows before learning.

A product of powers of the candidates' probabilities is, up to what a softmax takes away, the softmax of a
weighted sum of their scores (logarithmic pooling; Genest and Zidek 1986): stacked candidates are one model of
scores again. Shares are not negative and minimise the log loss of rows that no candidate had learned. Each
update leaves a quadratic form, the second-order expansion of its log loss where it was learned (a Laplace
approximation; Murphy 2012, section 8.5): forms add up and decay, and no row has to be kept. Few rows decide
little: shares are pulled to a reference. See
"Memories of classes" in docs/math.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import log_softmax

from atlas_splines.core.remembering import Recomputing

__all__ = ["CLASS_WEIGHT_RULES", "ClassWeightRules", "ClassWeights", "LossForm", "loss_form"]

Array = NDArray[np.float64]
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
