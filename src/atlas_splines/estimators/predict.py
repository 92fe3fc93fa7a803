"""Predictions of fitted estimators, in their domain and beyond, with intervals, support and importances."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from atlas_splines.analysis.variances import total_shares, variance_shares
from atlas_splines.estimators.footprints import SLOPE_STEPS, steps_inward
from atlas_splines.estimators.input_space import ColumnMap
from atlas_splines.estimators.reaching import Reaching
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.model.checks import check_overflow
from atlas_splines.model.evaluate import evaluate, evaluate_anywhere
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.state import State, levelled
from atlas_splines.updates.intervals import open_ends, support_of

__all__ = ["Ends", "Explaining", "Extrapolating", "Uncertain", "checked_coverages"]

Array = NDArray[Any]
Self = TypeVar("Self", bound="Extrapolating")


class Extrapolating(Reaching):
    """The part of an estimator that asks its model, wherever rows lie."""

    def _now(self: Self) -> Self:
        """The estimator of this moment without its log, which no later change reaches: to predict with."""
        check_is_fitted(self, "model_")
        now = copy.copy(self)
        now.model_ = model_in(state_of(now.model_))
        return now

    def _outputs(self, X: ArrayLike) -> Array:
        """Outputs of the model in float64, shape (rows, outputs); to be asked of `_now`."""
        return self._outputs_at(self.domain_.to_unit(self._inputs(X)))

    def _outputs_at(self, points: Array) -> Array:
        """The same at coordinates that the columns have, in the domain or not."""
        model = self.model_
        inside = points.clip(*model.domain.T)
        if self.extrapolation == "error":
            self._refuse_outside(points, inside)
        state = state_of(model)
        out = evaluate_anywhere(state, points)
        if self.extrapolation == "linear":
            out += continued(state, Ends.of(state, self.domain_), out, points, inside)
        check_overflow(out)
        return out

    def _refuse_outside(self, points: Array, inside: Array) -> None:
        if (points != inside).any():
            row, j = np.argwhere(points != inside)[0].tolist()
            raise ValueError(
                f"row {row} of X lies outside the domain, which is {self._domain_text(j)} in column "
                f"{self._called(j)}; "
                "use extrapolation='constant' or 'linear', or teach such rows with partial_fit"
            )


@dataclass(frozen=True, eq=False)
class Ends:
    """Both ends of the domain along each input, as linear extrapolation takes them: low, then high.

    Lengths are in widths of the columns over the first domain: what is linear in a column goes on as a line,
    however the column is mapped to the unit cube.

    Attributes
    ----------
    room
        How much of a slope goes on beyond, from 0 to 1, shape (2, inputs).
    stretch
        Length of a unit of the model beyond, shape (2, inputs).
    lengths
        Length of each step inward, shape (steps, 2, inputs).
    """

    room: Array
    stretch: Array
    lengths: Array

    @classmethod
    def of(cls, state: State, columns: ColumnMap) -> Ends:
        """The ends of the domain of a state."""
        inputs, pieces = state.lattice.inputs, columns.knots.shape[1] - 1
        stretch = np.ones((2, inputs))
        lengths = np.tile(np.array(SLOPE_STEPS)[:, None, None], (1, 2, inputs))
        for j, knots in enumerate(columns.knots):
            outer, width = np.diff(knots)[[0, -1]], np.ptp(knots)
            stretch[:, j] = pieces * outer / width
            ends, outwards = state.lattice.domain[j], np.array([-1, 1])
            inwards = ends - np.array(SLOPE_STEPS)[:, None] * outwards  # (steps, 2)
            lengths[:, :, j] = outwards * (columns.to_raw(j, ends) - columns.to_raw(j, inwards)) / width
        return cls(open_ends(state).T, stretch, lengths)


def continued(state: State, ends: Ends, edge: Array, points: Array, inside: Array) -> Array:
    """What linear extrapolation adds to the outputs at the edge of the domain, shape (rows, outputs).

    Along each input it is at most by how much outputs differ across the width of the first domain.
    """
    change = np.zeros_like(edge)
    for j, rows, inwards in steps_inward(points, inside):
        beyond = points[rows, j] - inside[rows, j]
        side = (beyond > 0).astype(int)
        predicted = np.stack([evaluate(state, inward.astype(state.dtype)) for inward in inwards])
        slopes = (edge[rows] - predicted) / ends.lengths[:, side, j, None]  # (steps, rows, outputs)
        agreed = np.maximum(slopes.min(axis=0), 0) + np.minimum(slopes.max(axis=0), 0)
        room = ends.room[side, j] * levelled(np.abs(beyond) * ends.stretch[side, j])
        change[rows] += agreed * room[:, None]
    return change


FloatArray = NDArray[np.float64]


class Explaining(Extrapolating):
    """The part of an estimator that tells which columns its predictions depend on."""

    @property
    def feature_importances_(self) -> FloatArray:
        """Importance of each column, shape (columns,): they sum to one, or are zero if nothing was learned.

        It is the variance of the model that vanishes, on average, once the column is known besides all
        others (the total effect of Sobol), over the sum of these. Columns count as independent and uniform
        over the domain of `fit`, as `domain` maps it to the unit cube: not as the data lies in it. Where
        columns go together, that includes places without data. It is computed anew each time, from the model
        alone; charts are left out. With memory="sums" it is exact. With memory="rows" it is estimated from
        some hundred thousand predictions, at the same points each time, to about 0.01.

        Several targets count in units of each one's variance; of a classifier it is the variance of the
        scores. The input that says whether a value is missing counts to its column, and so do those of
        categories and dates.

        Examples
        --------
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((500, 3))
        >>> model = AtlasRegressor(members=1, random_state=0).fit(X, 3 * X[:, 0] + X[:, 2])
        >>> model.feature_importances_.round(2)
        array([0.9, 0. , 0.1])
        """
        now = self._now()
        importances: FloatArray = total_shares(now.model_) @ now._inputs_of_columns
        return importances / (importances.sum() or 1.0)

    def interaction_strengths(self) -> FloatArray:
        """Shares of the variance of the model that single columns and pairs of columns have.

        Distribution, targets, charts and accuracy are those of `feature_importances_`.

        Returns
        -------
        array of shape (columns, columns)
            Symmetric. What two columns add together to what each does alone; on the diagonal, what a column
            does alone. Diagonal and one triangle sum to one if no three columns interact.

        Examples
        --------
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
        >>> model = AtlasRegressor(members=1, random_state=0).fit(X, X[:, 0] + 3 * X[:, 1] * X[:, 2])
        >>> model.interaction_strengths().round(1)
        array([[0.2, 0. , 0. ],
               [0. , 0. , 0.8],
               [0. , 0.8, 0. ]])
        """
        now = self._now()
        pairs, inputs = variance_shares(now.model_).pairs, now._inputs_of_columns
        strengths: FloatArray = inputs.T @ pairs @ inputs
        # pairs of inputs of one column are the column alone, and were counted from both sides
        own = (np.diagonal(strengths) + np.diagonal(pairs) @ inputs) / 2
        np.fill_diagonal(strengths, own)
        return (strengths + strengths.T) / 2  # sums are rounded differently in the two triangles

    @property
    def _inputs_of_columns(self) -> FloatArray:
        """One where an input of the model tells of a column, shape (inputs, columns)."""
        return np.eye(self.n_features_in_)[self._column_of_inputs[self.domain_.column_of_inputs]]


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

    def _predicted(self, points: Array, outputs: Array) -> tuple[State, Array, Array]:
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
