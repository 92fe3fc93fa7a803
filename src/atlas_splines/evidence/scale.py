"""How large errors are, by the place of a row and by what is said of it.

The logarithm of an error's size is a sum of splines: of each input that matters, and of the prediction. Its
marginal likelihood decides how much of that there is; data of even noise gets a constant. Equation numbers
refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.evidence.features import Features
from atlas_splines.evidence.readout import Prior, readout_of

__all__ = ["MOST_INPUTS", "Scale"]

Array = NDArray[np.float64]

MOST_INPUTS = 24  # that a scale depends on, besides the prediction
KNOTS = 17  # quantiles of the predictions
DENSITY = 2  # of the splines of the prediction, on top of those of density 0
STEPS = 8  # towards the prior
LEAST = 0.1  # of the median size: a smaller error counts as this, for its logarithm says little
MOST_LEVERAGE = 0.999  # of a row on its own scale
LARGEST = 30.0  # logarithm of a scale, at most


@dataclass(frozen=True, eq=False)
class Scale:
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
    >>> scale, _ = Scale.of(points, np.zeros(400), errors, None, [0])
    >>> low, high = scale(np.array([[0.1], [0.9]]), np.zeros(2))
    >>> bool(2 < high / low < 8)
    True
    """

    features: Features
    knots: Array
    weights: Array

    @classmethod
    def of(
        cls, points: Array, said: Array, errors: Array, weights: Array | None, inputs: Sequence[int]
    ) -> tuple[Scale, Array]:
        """The scale of errors, and what the scale of all other errors says of each, shape (rows,).

        Parameters
        ----------
        points, said, errors, weights
            Points of the unit cube, shape (rows, inputs), and what is said of each, how far that is off, and
            its weight, of about 1: shape (rows,).
        inputs
            Inputs that may matter.
        """
        root = np.ones(len(points)) if weights is None else np.sqrt(weights)
        knots = knots_of(said)
        features = Features(
            points.shape[1] + 1, (*inputs, points.shape[1]), ((points.shape[1], DENSITY),), ()
        )
        phi = features(with_said(points, said, knots))  # (rows, features)
        size = np.abs(errors)
        middle = np.median(size)
        logs = np.log(np.maximum(size, LEAST * middle if middle > 0 else 1.0))
        level, unit = logs.mean(), max(logs.std(), 1e-9)
        targets = (logs - level)[:, None] / unit
        readout = readout_of(
            phi * root[:, None], targets * root[:, None], Prior.flat(features.sizes, 1.0), STEPS
        )
        left = targets[:, 0] - phi @ readout.weights[:, 0]
        leverage = np.minimum(readout.leverage(phi) * root**2, MOST_LEVERAGE)
        ahead = targets[:, 0] - left / (1 - leverage)
        found = unit * readout.weights[:, 0]
        found[0] += level  # the first feature is 1
        return cls(features, knots, found), np.exp((level + unit * ahead).clip(-LARGEST, LARGEST))

    def __call__(self, points: Array, said: Array) -> Array:
        """The usual size of errors at points, shape (rows,)."""
        phi = self.features(with_said(points, said, self.knots))
        # row by row: a product of matrices rounds a row by how many others there are, and outside a chart
        # intervals keep every bit, whoever else is asked about
        logs = np.multiply(phi, self.weights, order="C").sum(axis=1)
        return np.exp(logs.clip(-LARGEST, LARGEST))


def knots_of(said: Array) -> Array:
    """Quantiles of predictions without repetitions, two at least."""
    knots = np.unique(np.quantile(said, np.linspace(0, 1, KNOTS)))
    return knots if len(knots) > 1 else np.array([knots[0], knots[0] + 1])


def with_said(points: Array, said: Array, knots: Array) -> Array:
    """Points with one more coordinate: the place of the prediction among the knots."""
    place = np.interp(said, knots, np.linspace(0, 1, len(knots)))
    return np.column_stack([points, place])
