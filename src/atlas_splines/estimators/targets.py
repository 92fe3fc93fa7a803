"""Targets as users give them, and counts, which are learned as roots."""

from __future__ import annotations

from datetime import date, time, timedelta
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ROOT_OF_ZERO",
    "counts_between",
    "counts_of_roots",
    "deviation_of_counts",
    "least_count",
    "name_of_target",
    "plain_target",
    "root_variance",
    "roots_of",
]

DATES = "y holds dates or times, which are no target; turn them into numbers, such as days since a start"


def plain_target(y: Any, is_numeric: bool) -> Any:
    """Targets that scikit-learn can check, or one sentence on what is wrong with them.

    Examples
    --------
    >>> plain_target(["yes", None], is_numeric=False)
    Traceback (most recent call last):
    ...
    ValueError: y is missing in row 1; fill it in, or leave that row out
    """
    try:
        values = np.asarray(y)
    except (ValueError, TypeError):  # not of one shape: scikit-learn says so
        return y
    if values.dtype.kind in "mM":
        raise ValueError(DATES)
    if is_numeric and values.dtype.kind == "U":
        refuse_texts(values.ravel().tolist())
    if values.dtype.kind != "O" or values.ndim != 1:
        return y
    return plain_objects(values.tolist(), is_numeric, y)


def plain_objects(values: list[Any], is_numeric: bool, y: Any) -> Any:
    """Targets that are objects, as texts if they are members of enumerations."""
    if any(isinstance(value, date | time | timedelta) for value in values):
        raise ValueError(DATES)
    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        raise ValueError(f"y is missing in row {missing[0]}; fill it in, or leave that row out")
    if is_numeric:
        refuse_texts(values)
    if not any(isinstance(value, Enum) for value in values):
        return y
    return np.array([value.value if isinstance(value, Enum) else value for value in values])


def is_missing(value: Any) -> bool:
    """Whether a value says that there is none: None, NaN, and what pandas has for them."""
    return type(value).__name__ in ("NoneType", "NAType", "NaTType") or (
        isinstance(value, float) and value != value
    )


def refuse_texts(values: list[Any]) -> None:
    """Refuse texts that are no numbers, where numbers are needed."""
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"y has {value!r} in row {row}, which is no number; for classes use AtlasClassifier"
            ) from None


def name_of_target(y: Any) -> str:
    """Name of a target that is a column of a frame, or "y"."""
    columns = list(getattr(y, "columns", ()))
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    return "y" if name is None else str(name)


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
