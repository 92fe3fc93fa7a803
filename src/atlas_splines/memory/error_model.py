"""The error model: how large errors are by place and prediction, and their quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from atlas_splines.memory.conformal import ConformalScores, ScoreHistogram
from atlas_splines.memory.data_density import CellCounts, DataDensity
from atlas_splines.memory.features import Features
from atlas_splines.memory.posterior import Prior, posterior_of
from atlas_splines.model.immutable import Recomputing
from atlas_splines.model.state import Contribution, Monotonic, State

__all__ = ["LEAST_ROWS", "MOST_INPUTS", "ErrorModel", "ResidualScale", "Residuals", "relevant_inputs"]

Array = NDArray[np.float64]

MOST_INPUTS = 24  # that a scale depends on, besides the prediction
KNOTS = 17  # quantiles of the predictions
DENSITY = 2  # of the splines of the prediction, on top of those of density 0
STEPS = 8  # towards the prior
LEAST = 0.1  # of the median size: a smaller error counts as this, for its logarithm says little
MOST_LEVERAGE = 0.999  # of a row on its own scale
LARGEST = 30.0  # logarithm of a scale, at most


@dataclass(frozen=True, eq=False)
class ResidualScale:
    """The usual size of errors at a point of which something is said.

    Attributes
    ----------
    features
        Splines of the inputs and, as one more input, of the prediction.
    knots
        Predictions that go to evenly spaced points of [0, 1], rising, shape (knots,).
    weights
        Of the features, shape (features,).

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
        """The scale of errors, and what the scale of all other errors says of each, shape (rows,).

        Parameters
        ----------
        points, predicted, errors, weights
            Points of the unit cube, shape (rows, inputs), and what is said of each, how far that is off, and
            its weight, of about 1: shape (rows,).
        inputs
            Inputs that may matter.
        """
        root = np.ones(len(points)) if weights is None else np.sqrt(weights)
        knots = knots_of(predicted)
        features = Features(
            points.shape[1] + 1, (*inputs, points.shape[1]), ((points.shape[1], DENSITY),), ()
        )
        phi = features(with_predictions(points, predicted, knots))  # (rows, features)
        size = np.abs(errors)
        middle = np.median(size)
        logs = np.log(np.maximum(size, LEAST * middle if middle > 0 else 1.0))
        level, unit = logs.mean(), max(logs.std(), 1e-9)
        targets = (logs - level)[:, None] / unit
        posterior = posterior_of(
            phi * root[:, None], targets * root[:, None], Prior.flat(features.sizes, 1.0), STEPS
        )
        left = targets[:, 0] - phi @ posterior.weights[:, 0]
        leverage = np.minimum(posterior.leverage(phi) * root**2, MOST_LEVERAGE)
        out_of_sample = targets[:, 0] - left / (1 - leverage)
        found = unit * posterior.weights[:, 0]
        found[0] += level  # the first feature is 1
        return cls(features, knots, found), np.exp((level + unit * out_of_sample).clip(-LARGEST, LARGEST))

    def __call__(self, points: Array, predicted: Array) -> Array:
        """The usual size of errors at points, shape (rows,)."""
        phi = self.features(with_predictions(points, predicted, self.knots))
        # row by row: a product of matrices rounds a row by how many others there are, and outside a chart
        # intervals keep every bit, whoever else is asked about
        logs = np.multiply(phi, self.weights, order="C").sum(axis=1)
        return np.exp(logs.clip(-LARGEST, LARGEST))


def knots_of(predicted: Array) -> Array:
    """Quantiles of predictions without repetitions, two at least."""
    knots = np.unique(np.quantile(predicted, np.linspace(0, 1, KNOTS)))
    return knots if len(knots) > 1 else np.array([knots[0], knots[0] + 1])


def with_predictions(points: Array, predicted: Array, knots: Array) -> Array:
    """Points with one more coordinate: the place of the prediction among the knots."""
    place = np.interp(predicted, knots, np.linspace(0, 1, len(knots)))
    return np.column_stack([points, place])


LEAST_VARIATION = 0.2  # of predictions over that of errors, for the size of errors to depend on predictions
LEAST_ROWS = 100  # of an update, for a spread to begin with it


@dataclass(frozen=True, eq=False)
class Residuals:
    """What the rows of one update add to a spread.

    Attributes
    ----------
    tallies
        Scores of each output before the rows were learned; of classes together.
    cell_counts
        Where the rows are, if that is watched.
    """

    tallies: tuple[ScoreHistogram, ...]
    cell_counts: CellCounts | None

    def joined(self, more: Residuals) -> Residuals:
        """The same of more rows of the update."""
        pairs = zip(self.tallies, more.tallies, strict=True)
        both = (
            None
            if self.cell_counts is None or more.cell_counts is None
            else self.cell_counts + more.cell_counts
        )
        return Residuals(tuple(one.joined(other) for one, other in pairs), both)


@dataclass(frozen=True, eq=False)
class ErrorModel(Recomputing, Contribution):
    """How far off predictions are, by place, and where rows have been; never changed in place.

    Attributes
    ----------
    scales
        Usual size of the errors of each output; empty for classes.
    scores
        Errors over their scale, for each output; of classes the negative logarithms of the probabilities of
        those that came.
    data_density
        Where rows have been; None if that was not watched from the first row on.
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
        """The spread of predictions.

        Parameters
        ----------
        points, predicted, targets, weights
            Rows, in points of the unit cube, and what was said of each by a model that had not learned it:
            shapes (rows, inputs), (rows, outputs), (rows, outputs) and (rows,).
        inputs
            Inputs that matter, those that matter most first.
        loss
            Name of the model's loss; with "cross-entropy" targets are indicators of classes.
        data_density
            Where all rows have been.
        factor
            By how much the errors of the model are larger than these, shape (outputs,).
        monotonic
            Which way outputs have to go along inputs. The size of errors depends on the place along such an
            input only through the prediction, so that quantiles can go the same way.
        """
        free = [j for j in inputs if not any(ways[j] for ways in monotonic)]
        if loss == "cross-entropy":
            innovation = class_innovation(predicted, targets)
            return cls(
                (),
                (ConformalScores.of(np.zeros(len(predicted)), innovation, weights, is_one_sided=True),),
                data_density,
            )
        scales, scores = [], []
        for k in range(targets.shape[1]):
            errors, place = targets[:, k] - predicted[:, k], predicted[:, k]
            # where inputs tell next to nothing, predictions differ by what leaving a row out takes from them:
            # its own error. By such places intervals of 90 % held 85 % of pure noise.
            if place.std() < LEAST_VARIATION * errors.std():
                place = np.full(len(place), place.mean())
            scale, out_of_sample = ResidualScale.of(points, place, errors, weights, free[:MOST_INPUTS])
            larger = 1.0 if factor is None else float(factor[k])
            scales.append(scale)
            scores.append(
                ConformalScores.of(place, larger * errors / out_of_sample, weights, sizes=out_of_sample)
            )
        return cls(tuple(scales), tuple(scores), data_density)

    # --- as evidence of a chart that was trained ------------------------------------------------------

    def holds(self, update: int) -> bool:
        """It goes with its chart only."""
        return False

    def revert(self, update: int, state: State) -> State:
        """There is nothing to take back."""
        return state

    # --- learning -------------------------------------------------------------------------------------

    def seen(self, points: Array, predicted: Array, targets: Array, weights: Array | None) -> Residuals:
        """What rows add that were not learned yet."""
        if not self.scales:
            tallies = [
                self.scores[0].histogram(
                    np.zeros(len(predicted)), class_innovation(predicted, targets), weights
                )
            ]
        else:
            tallies = [
                scores.histogram(
                    predicted[:, k],
                    (targets[:, k] - predicted[:, k]) / scale(points, predicted[:, k]),
                    weights,
                )
                for k, (scale, scores) in enumerate(zip(self.scales, self.scores, strict=True))
            ]
        return Residuals(
            tuple(tallies), None if self.data_density is None else self.data_density.cell_counts_of(points)
        )

    def after(self, seen: Residuals) -> ErrorModel:
        """The spread after an update: older scores fade."""
        pairs = zip(self.scores, seen.tallies, strict=True)
        return self._with(tuple(each.after(histogram) for each, histogram in pairs), seen)

    def joined(self, seen: Residuals) -> ErrorModel:
        """The spread with more of the first rows."""
        pairs = zip(self.scores, seen.tallies, strict=True)
        return self._with(tuple(each.joined(histogram) for each, histogram in pairs), seen)

    def _with(self, scores: tuple[ConformalScores, ...], seen: Residuals) -> ErrorModel:
        data_density = self.data_density
        if data_density is not None and seen.cell_counts is not None:
            data_density = data_density.after(seen.cell_counts)
        return replace(self, scores=scores, data_density=data_density)

    def forgotten(self, points: Array) -> ErrorModel:
        """The spread without some rows: where they were is forgotten, what they taught of errors stays."""
        if self.data_density is None:
            return self
        return replace(
            self, data_density=self.data_density.forgotten(self.data_density.cell_counts_of(points))
        )

    # --- what it says ---------------------------------------------------------------------------------

    def ends(self, points: Array, predicted: Array, coverages: Array) -> Array:
        """Ends of intervals, less the prediction: shape (rows, outputs, coverages, 2)."""
        found = np.empty((*predicted.shape, len(coverages), 2))
        for k, (scale, scores) in enumerate(zip(self.scales, self.scores, strict=True)):
            size = scale(points, predicted[:, k])[:, None]
            for c, coverage in enumerate(coverages):
                found[:, k, c] = size * scores.ends(predicted[:, k], float(coverage))
        return found

    def level(self, points: Array, predicted: Array, quantile: float) -> Array:
        """Quantile of targets, less the prediction: shape (rows, outputs)."""
        parts = zip(self.scales, self.scores, predicted.T, strict=True)
        return np.stack(
            [scale(points, at) * scores.level(at, quantile) for scale, scores, at in parts], axis=1
        )

    def deviation(self, points: Array, predicted: Array) -> Array:
        """Standard deviation of errors: shape (rows, outputs)."""
        parts = zip(self.scales, self.scores, predicted.T, strict=True)
        return np.stack([scale(points, at) * scores.deviation(at) for scale, scores, at in parts], axis=1)

    def most_innovation(self, rows: int, coverages: Array) -> Array:
        """The largest −log p of a class that is in the set of a coverage, shape (rows, coverages)."""
        ends = [self.scores[0].ends(np.zeros(1), float(coverage))[0, 1] for coverage in coverages]
        return np.tile(ends, (rows, 1))


def class_innovation(predicted: Array, labels: Array) -> Array:
    """−log p of the class that came, shape (rows,)."""
    return np.asarray(-(labels * log_softmax(predicted, axis=1)).sum(axis=1))


def relevant_inputs(features: Features) -> list[int]:
    """Inputs that a feature depends on, those along which data varies fastest first."""
    lengths = np.full(features.inputs, np.inf)
    for group in features.radial_bases:
        lengths = np.minimum(lengths, group.lengths)
    return sorted(features.used, key=lambda j: (lengths[j], j))
