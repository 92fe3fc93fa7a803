"""Counts: learned as roots, whose noise is the same for large and small counts, and read back without bias.

Anscombe's root t = 2√(y + 3/8) of a Poisson count y has a variance of about 1, whatever the mean of y. Least
squares of roots, and evidence that adds up, are then those of the likelihood, nearly. A mean of roots is no
root of a mean: from y = t²/4 − 3/8 it follows that E y = ((E t)² + Var t)/4 − 3/8. Var t is that of a Poisson
count with such a mean root, times a dispersion, by how much counts vary more than Poisson's do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ROOT_OF_ZERO",
    "counts_between",
    "counts_of_roots",
    "deviation_of_counts",
    "least_count",
    "root_variance",
    "roots_of",
]

Array = NDArray[Any]

SHIFT = 0.375
ROOT_OF_ZERO = float(2 * np.sqrt(SHIFT))
LEAST_SHARE = 0.005  # of the mean count: no prediction is lower


def roots_of(counts: Array) -> Array:
    """Anscombe's roots of counts; or one sentence if these are none.

    Examples
    --------
    >>> roots_of(np.array([0.0, 1.0, 100.0])).round(2)
    array([ 1.22,  2.35, 20.04])
    """
    if (counts < 0).any():
        raise ValueError(
            f"loss='poisson' is for counts, and y has {counts[counts < 0][0]:.6g}; "
            "correct it, or take another loss"
        )
    return np.asarray(2 * np.sqrt(counts + SHIFT))


def counts_between(roots: Array) -> Array:
    """Counts that have these roots, 0 for smaller ones than any has: for quantiles, which no bias touches.

    Examples
    --------
    >>> counts_between(np.array([-1.0, 20.04])).round()
    array([  0., 100.])
    """
    return np.asarray(np.maximum(roots, ROOT_OF_ZERO) ** 2 / 4 - SHIFT).clip(0)


def root_variance(roots: Array) -> Array:
    """Variance of the roots of Poisson counts, by their mean: from 0, if all are 0, to 1.

    It follows from the closed form of Mäkitalo and Foi (2011) for the unbiased inverse of Anscombe's root.

    Examples
    --------
    >>> sample = roots_of(np.random.default_rng(0).poisson(3.0, 100_000))
    >>> print(sample.var().round(2), root_variance(sample.mean()).round(2))
    0.98 0.98
    """
    ratio = ROOT_OF_ZERO / np.maximum(roots, ROOT_OF_ZERO)
    return np.asarray(1 + ratio - 11 / 3 * ratio**2 + 5 / 3 * ratio**3)


def counts_of_roots(roots: Array, dispersion: Array, least: Array) -> Array:
    """Mean counts of mean roots, at least so many: none is known to be 0.

    Examples
    --------
    >>> mean = roots_of(np.random.default_rng(0).poisson(3.0, 100_000)).mean()
    >>> counts_of_roots(mean, np.ones(1), np.zeros(1)).round(2)
    array([3.])
    """
    return np.maximum(counts_between(roots) + dispersion * root_variance(roots) / 4, least)


def least_count(mean: Array, scale: Array) -> Array:
    """The lowest prediction, for counts whose roots have this mean and this standard deviation.

    Examples
    --------
    >>> roots = roots_of(np.array([100.0, 300.0]))
    >>> print(least_count(roots.mean(), roots.std()).round(6))
    1.0
    """
    return LEAST_SHARE * ((mean**2 + scale**2) / 4 - SHIFT).clip(0)


def deviation_of_counts(roots: Array, deviation: Array) -> Array:
    """Standard deviation of counts whose roots are normal, with this mean and this deviation.

    Examples
    --------
    >>> roots = np.random.default_rng(0).normal(20.0, 1.0, 100_000)
    >>> print(counts_between(roots).std().round(), deviation_of_counts(np.array(20.0), np.array(1.0)).round())
    10.0 10.0
    """
    mean = np.maximum(roots, ROOT_OF_ZERO)
    return np.asarray(np.sqrt((mean * deviation) ** 2 / 4 + deviation**4 / 8))
