"""Error model: a residual scale that depends on inputs and prediction, conformal scores, and data density.

Heteroscedastic regression of log |residual| (Davidian and Carroll, 1987, Variance function estimation), whose
standardised residuals are calibrated by split conformal prediction (normalised scores: Lei et al., 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from atlas_splines.memory.conformal import ConformalScores, ScoreHistogram
from atlas_splines.memory.data_density import CellCounts, DataDensity
from atlas_splines.memory.features import Features
from atlas_splines.memory.posterior import MOST_LEVERAGE, Prior, posterior_of
from atlas_splines.model.immutable import Recomputing
from atlas_splines.model.state import Contribution, Monotonic, State

__all__ = [
    "SCALE_RULES",
    "ErrorModel",
    "ResidualScale",
    "Residuals",
    "ScaleRules",
    "relevant_inputs",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ScaleRules:
    """Rules of residual scales; none was chosen by a benchmark, but for `least_variation`.

    Attributes
    ----------
    most_inputs
        Inputs that a scale depends on, at most, besides the prediction.
    knots
        Quantiles of the predictions.
    density
        Density of the splines of the prediction, on top of those of density 0.
    steps
        Steps of the evidence maximisation of its prior.
    least_residual
        Smallest residual, relative to the median: the logarithms of smaller ones would dominate the fit.
    largest_log
        Bound of the logarithm of a scale.
    least_variation
        Standard deviation of predictions relative to that of residuals, from which on the scale depends on
        the prediction.
    least_rows
        Rows of an update for an error model to begin with it.
    """

    most_inputs: int = 24
    knots: int = 17
    density: int = 2
    steps: int = 8
    least_residual: float = 0.1
    largest_log: float = 30.0
    least_variation: float = 0.2
    least_rows: int = 100


SCALE_RULES = ScaleRules()


@dataclass(frozen=True, eq=False)
class ResidualScale:
    """Scale of residuals as a log-linear function of inputs and prediction.

    Attributes
    ----------
    features
        Splines of the inputs and, as one more input, of the prediction.
    knots
        Quantiles of predictions, rising, mapped to evenly spaced points of [0, 1]; shape (knots,).
    weights
        Weights of the features, shape (features,).

    Examples
    --------
    >>> points = np.linspace(0, 1, 400)[:, None]
    >>> errors = (0.1 + points[:, 0]) * np.random.default_rng(0).normal(size=400)
    >>> scale, _ = ResidualScale.of(points, np.zeros(400), errors, None, [0])
    >>> low, high = scale(np.array([[0.1], [0.9]]), np.zeros(2))
    >>> bool(2 < high / low < 8)
    True
    """

    features: Features
    knots: Array
    weights: Array

    @classmethod
    def of(
        cls, points: Array, predicted: Array, errors: Array, weights: Array | None, inputs: Sequence[int]
    ) -> tuple[ResidualScale, Array]:
        """The scale of residuals, and its leave-one-out values at the rows, shape (rows,).

        Parameters
        ----------
        points, predicted, errors, weights
            Points of the unit cube, shape (rows, inputs), with their out-of-sample predictions, residuals,
            and weights (about 1): shape (rows,).
        inputs
            Inputs that the scale may depend on.
        """
        root = np.ones(len(points)) if weights is None else np.sqrt(weights)
        knots = knots_of(predicted)
        features = Features(
            points.shape[1] + 1, (*inputs, points.shape[1]), ((points.shape[1], SCALE_RULES.density),), ()
        )
        phi = features(with_predictions(points, predicted, knots))  # (rows, features)
        size = np.abs(errors)
        middle = np.median(size)
        logs = np.log(np.maximum(size, SCALE_RULES.least_residual * middle if middle > 0 else 1.0))
        level, unit = logs.mean(), max(logs.std(), 1e-9)
        targets = (logs - level)[:, None] / unit
        posterior = posterior_of(
            phi * root[:, None], targets * root[:, None], Prior.flat(features.sizes, 1.0), SCALE_RULES.steps
        )
        left = targets[:, 0] - phi @ posterior.weights[:, 0]
        leverage = np.minimum(posterior.leverage(phi) * root**2, MOST_LEVERAGE)
        out_of_sample = targets[:, 0] - left / (1 - leverage)
        found = unit * posterior.weights[:, 0]
        found[0] += level  # the first feature is 1
        return cls(features, knots, found), np.exp(
            (level + unit * out_of_sample).clip(-SCALE_RULES.largest_log, SCALE_RULES.largest_log)
        )

    def __call__(self, points: Array, predicted: Array) -> Array:
        """Scale of the residuals at points, shape (rows,)."""
        phi = self.features(with_predictions(points, predicted, self.knots))
        # a sum per row: the rounding of a matrix product depends on the number of rows, and outside a chart
        # intervals must stay equal bit for bit, whichever other points are in the same call
        logs = np.multiply(phi, self.weights, order="C").sum(axis=1)
        return np.exp(logs.clip(-SCALE_RULES.largest_log, SCALE_RULES.largest_log))


def knots_of(predicted: Array) -> Array:
    """Distinct quantiles of predictions, at least two."""
    knots = np.unique(np.quantile(predicted, np.linspace(0, 1, SCALE_RULES.knots)))
    return knots if len(knots) > 1 else np.array([knots[0], knots[0] + 1])


def with_predictions(points: Array, predicted: Array, knots: Array) -> Array:
    """Points with one more coordinate: the position of the prediction among the knots."""
    place = np.interp(predicted, knots, np.linspace(0, 1, len(knots)))
    return np.column_stack([points, place])


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of the rows of one update, as counts.

    Attributes
    ----------
    histograms
        Histogram of each output's prequential scores; one histogram for classes.
    cell_counts
        Rows in each cell of the data density, if that is counted.
    """

    histograms: tuple[ScoreHistogram, ...]
    cell_counts: CellCounts | None

    def joined(self, more: Residuals) -> Residuals:
        """The counts of these and of more rows of the update."""
        pairs = zip(self.histograms, more.histograms, strict=True)
        both = (
            None
            if self.cell_counts is None or more.cell_counts is None
            else self.cell_counts + more.cell_counts
        )
        return Residuals(tuple(one.joined(other) for one, other in pairs), both)


@dataclass(frozen=True, eq=False)
class ErrorModel(Recomputing, Contribution):
    """Residual scales, conformal scores and data density of a model; immutable.

    Attributes
    ----------
    scales
        Scale of the residuals of each output; empty for classes.
    scores
        Standardised residuals of each output; for classes −log p of the observed class.
    data_density
        Density of the learned rows; None if they were not counted from the first on.
    """

    scales: tuple[ResidualScale, ...]
    scores: tuple[ConformalScores, ...]
    data_density: DataDensity | None

    @classmethod
    def of(
        cls,
        points: Array,
        predicted: Array,
        targets: Array,
        weights: Array | None,
        *,
        inputs: list[int],
        loss: str,
        data_density: DataDensity | None = None,
        factor: Array | None = None,
        monotonic: Monotonic = (),
    ) -> ErrorModel:
        """The error model of out-of-sample predictions.

        Parameters
        ----------
        points, predicted, targets, weights
            Rows in the unit cube, with their out-of-sample predictions: shapes (rows, inputs), (rows,
            outputs), (rows, outputs) and (rows,).
        inputs
            Relevant inputs, the most relevant first.
        loss
            Name of the model's loss; with "cross-entropy" targets are class indicators.
        data_density
            Density of all learned rows.
        factor
            Factor of the errors of the model relative to these residuals, shape (outputs,).
        monotonic
            Monotone directions of each output. The scale depends on a monotone input through the prediction
            only, so that quantiles can be monotone too.
        """
        free = [j for j in inputs if not any(directions[j] for directions in monotonic)]
        if loss == "cross-entropy":
            found = surprisal(predicted, targets)
            one = ConformalScores.of(np.zeros(len(predicted)), found, weights, is_one_sided=True)
            return cls((), (one,), data_density)
        scales, scores = [], []
        for k in range(targets.shape[1]):
            errors, place = targets[:, k] - predicted[:, k], predicted[:, k]
            # Where inputs explain next to nothing, leave-one-out predictions differ by their own row's error
            # alone. With scales that depend on these, intervals of 90 % covered 85 % of pure noise.
            if place.std() < SCALE_RULES.least_variation * errors.std():
                place = np.full(len(place), place.mean())
            scale, out_of_sample = ResidualScale.of(
                points, place, errors, weights, free[: SCALE_RULES.most_inputs]
            )
            larger = 1.0 if factor is None else float(factor[k])
            scales.append(scale)
            scores.append(
                ConformalScores.of(place, larger * errors / out_of_sample, weights, sizes=out_of_sample)
            )
        return cls(tuple(scales), tuple(scores), data_density)

    # --- as the contribution of a chart that was trained ----------------------------------------------

    def holds(self, update: int) -> bool:
        """It is removed with its chart only."""
        return False

    def revert(self, update: int, state: State) -> State:
        """The state unchanged: an error model cannot be reverted by itself."""
        return state

    # --- learning -------------------------------------------------------------------------------------

    def residuals(self, points: Array, predicted: Array, targets: Array, weights: Array | None) -> Residuals:
        """Scores and cells of rows that were not learned yet."""
        if not self.scales:
            histograms = [
                self.scores[0].histogram(np.zeros(len(predicted)), surprisal(predicted, targets), weights)
            ]
        else:
            histograms = [
                scores.histogram(
                    predicted[:, k],
                    (targets[:, k] - predicted[:, k]) / scale(points, predicted[:, k]),
                    weights,
                )
                for k, (scale, scores) in enumerate(zip(self.scales, self.scores, strict=True))
            ]
        return Residuals(
            tuple(histograms), None if self.data_density is None else self.data_density.cell_counts_of(points)
        )

    def after(self, seen: Residuals) -> ErrorModel:
        """The error model after an update: older scores decay."""
        pairs = zip(self.scores, seen.histograms, strict=True)
        return self._with(tuple(each.after(histogram) for each, histogram in pairs), seen)

    def joined(self, seen: Residuals) -> ErrorModel:
        """The error model with more rows of the fit."""
        pairs = zip(self.scores, seen.histograms, strict=True)
        return self._with(tuple(each.joined(histogram) for each, histogram in pairs), seen)

    def _with(self, scores: tuple[ConformalScores, ...], seen: Residuals) -> ErrorModel:
        data_density = self.data_density
        if data_density is not None and seen.cell_counts is not None:
            data_density = data_density.after(seen.cell_counts)
        return replace(self, scores=scores, data_density=data_density)

    def forgotten(self, points: Array) -> ErrorModel:
        """The error model without some rows in the data density; their scores stay in the histograms."""
        if self.data_density is None:
            return self
        return replace(
            self, data_density=self.data_density.forgotten(self.data_density.cell_counts_of(points))
        )

    # --- intervals and quantiles ----------------------------------------------------------------------

    def ends(self, points: Array, predicted: Array, coverages: Array) -> Array:
        """Ends of intervals relative to the prediction, shape (rows, outputs, coverages, 2)."""
        found = np.empty((*predicted.shape, len(coverages), 2))
        for k, (scale, scores) in enumerate(zip(self.scales, self.scores, strict=True)):
            size = scale(points, predicted[:, k])[:, None]
            for c, coverage in enumerate(coverages):
                found[:, k, c] = size * scores.ends(predicted[:, k], float(coverage))
        return found

    def quantile(self, points: Array, predicted: Array, level: float) -> Array:
        """Quantile of the targets relative to the prediction, shape (rows, outputs)."""
        parts = zip(self.scales, self.scores, predicted.T, strict=True)
        return np.stack(
            [scale(points, at) * scores.quantile(at, level) for scale, scores, at in parts], axis=1
        )

    def deviation(self, points: Array, predicted: Array) -> Array:
        """Standard deviation of the errors, shape (rows, outputs)."""
        parts = zip(self.scales, self.scores, predicted.T, strict=True)
        return np.stack([scale(points, at) * scores.deviation(at) for scale, scores, at in parts], axis=1)

    def largest_surprisal(self, rows: int, coverages: Array) -> Array:
        """Largest −log p of a class in the prediction set of a coverage, shape (rows, coverages)."""
        ends = [self.scores[0].ends(np.zeros(1), float(coverage))[0, 1] for coverage in coverages]
        return np.tile(ends, (rows, 1))


def surprisal(predicted: Array, labels: Array) -> Array:
    """−log p of the observed class, shape (rows,)."""
    return np.asarray(-(labels * log_softmax(predicted, axis=1)).sum(axis=1))


def relevant_inputs(features: Features) -> list[int]:
    """Inputs that a feature depends on, in ascending order of length scale."""
    lengths = np.full(features.inputs, np.inf)
    for group in features.radial_bases:
        lengths = np.minimum(lengths, group.lengths)
    return sorted(features.used, key=lambda j: (lengths[j], j))
