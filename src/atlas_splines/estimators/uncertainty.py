"""How sure predictions are: intervals, standard deviations, sets of classes, and support.

docs/intervals.md says what they promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.core.linear_algebra import ONE_THREAD_EACH
from atlas_splines.core.model import state_of
from atlas_splines.core.state import State
from atlas_splines.estimators.explaining import Explaining
from atlas_splines.memory.doubt import support_of

__all__ = ["Uncertain", "checked_coverages"]

Array = NDArray[Any]


class Uncertain(Explaining):
    """The part of an estimator that knows what it knows."""

    @ONE_THREAD_EACH
    def support(self, X: ArrayLike) -> Array:
        """How much evidence stands behind each prediction, from 0 to 1.

        Known rows are the measure: most of them have 1. It is 0 where there is less evidence than behind any
        of them, and beyond the domain. Three things count, and the least of them decides: how many known rows
        have such a value, in each column alone; how many have such a pair of values, of the columns that
        matter most; and the leverage of the row, φᵀΛ⁻¹φ. It is a leverage, not a probability: it does not say
        how likely the prediction is right.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).

        Returns
        -------
        array of shape (rows,)

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((600, 2))
        >>> X = X[(X < 0.4).any(axis=1)]                                 # no row has large values of both
        >>> model = AtlasRegressor(members=1, random_state=0).fit(X, X[:, 0] * X[:, 1])
        >>> model.support([[0.2, 0.8], [0.8, 0.8], [0.2, 3.0]]).round(1)
        array([1., 0., 0.])
        """
        now = self._now()
        points = now.domain_.to_unit(now._inputs(X))
        inside = now._clipped(points)
        found = support_of(state_of(now.model_), inside.astype(now.model_.dtype))
        return np.where((points == inside).all(axis=1), found, 0.0)

    def _said(self, points: Array, outputs: Array) -> tuple[State, Array, Array]:
        """State of the model, points of its domain in its dtype, and outputs there, for `memory.doubt`."""
        return state_of(self.model_), self._clipped(points).astype(self.model_.dtype), outputs

    def _clipped(self, points: Array) -> Array:
        """The nearest points in the domain."""
        return np.asarray(points.clip(*self.model_.domain.T))


def checked_coverages(coverage: float | Sequence[float] | Array) -> Array:
    """Coverages as an array of one dimension, or one sentence on what is wrong with them.

    Examples
    --------
    >>> checked_coverages(0.9)
    array([0.9])
    >>> checked_coverages(90)
    Traceback (most recent call last):
    ...
    ValueError: coverage must lie between 0 and 1, such as 0.9, not 90
    """
    try:
        coverages = np.asarray(coverage, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"coverage must be a number, or several, not {coverage!r}") from None
    if coverages.ndim > 1 or not coverages.size:
        raise ValueError("coverage must be one number, or a list of numbers")
    if not ((coverages > 0) & (coverages < 1)).all():
        raise ValueError(f"coverage must lie between 0 and 1, such as 0.9, not {coverage!r}")
    return np.atleast_1d(coverages)
