"""Verdicts on new rows: whether noise explains them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.offsets import Keys
from atlas_splines.evidence.readout import Readout

__all__ = ["Surprise", "is_quiet", "surprise"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Surprise:
    """How new rows look to a model that has not learned them.

    Attributes
    ----------
    ratio
        Mean squared error over what noise and uncertain weights explain: about 1 if nothing is new.
    ratio_error
        Standard error of the ratio.
    """

    ratio: float
    ratio_error: float

    def is_noise(self, tolerance: float = 1.0) -> bool:
        """Whether noise explains the rows: the ratio is at most 1 + tolerance, within two standard errors.

        A model is never quite right, so on fresh rows of the same world the ratio is somewhat above 1.
        """
        return self.ratio <= 1 + tolerance + 2 * self.ratio_error


def is_quiet(
    readout: Readout, phi: Array, y: Array, weights: Array | None, levels: Keys, tolerance: float = 1.0
) -> bool:
    """Whether noise alone explains new rows: then it does so together with uncertain weights all the more.

    Leverages of 200 rows take as long as a Cholesky factor, and most updates need none of them.

    Parameters
    ----------
    readout, phi, y, weights, levels
        As in `surprise`.
    tolerance
        As in `Surprise.is_noise`.
    """
    squares = ((y - readout.predict(phi, levels)) ** 2 / readout.noise).mean(axis=1)
    return float(np.average(squares, weights=weights)) <= 1 + tolerance


def surprise(
    readout: Readout, phi: Array, y: Array, weights: Array | None = None, levels: Keys | None = None
) -> Surprise:
    """Compare the errors on new rows with their variance in the posterior, σ²(1 + φᵀΛ⁻¹φ), and of effects.

    Parameters
    ----------
    readout
        What was known before.
    phi, y, weights, levels
        The new rows, as in `Statistics.add`.

    Examples
    --------
    >>> from atlas_splines.evidence.readout import Prior, solve
    >>> from atlas_splines.evidence.statistics import Statistics
    >>> random = np.random.default_rng(0)
    >>> phi, statistics = random.uniform(-1, 1, (600, 2)), Statistics(2)
    >>> y = phi @ [[2.0], [-1.0]] + 0.1 * random.normal(size=(600, 1))
    >>> statistics.add(phi[:500], y[:500])
    >>> readout = solve(statistics, Prior.flat([2]))
    >>> surprise(readout, phi[500:], y[500:]).is_noise(), surprise(readout, phi[500:], 1 - y[500:]).is_noise()
    (True, False)
    """
    variance = readout.noise * (1 + readout.leverage(phi))[:, None]  # (rows, outputs)
    said = phi @ readout.weights
    if readout.effects is not None and levels is not None:
        said = said + readout.effects.at(levels)
        variance = variance + readout.noise * readout.effects.variance(levels)
    squares = ((y - said) ** 2 / variance).mean(axis=1)
    ratio = float(np.average(squares, weights=weights))
    spread = float(np.sqrt(np.average((squares - ratio) ** 2, weights=weights) / len(squares)))
    return Surprise(ratio, spread)
