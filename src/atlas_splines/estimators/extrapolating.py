"""What a fitted model says, in its domain and beyond."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from atlas_splines.core.checks import check_overflow
from atlas_splines.core.evaluation import evaluate, evaluate_anywhere
from atlas_splines.core.later import levelled
from atlas_splines.core.model import model_in, state_of
from atlas_splines.core.state import State
from atlas_splines.estimators.column_footprint import SLOPE_STEPS, steps_inward
from atlas_splines.estimators.column_map import ColumnMap
from atlas_splines.estimators.reaching import Reaching
from atlas_splines.memory.doubt import open_ends

__all__ = ["Ends", "Extrapolating"]

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
        said = np.stack([evaluate(state, inward.astype(state.dtype)) for inward in inwards])
        slopes = (edge[rows] - said) / ends.lengths[:, side, j, None]  # (steps, rows, outputs)
        agreed = np.maximum(slopes.min(axis=0), 0) + np.minimum(slopes.max(axis=0), 0)
        room = ends.room[side, j] * levelled(np.abs(beyond) * ends.stretch[side, j])
        change[rows] += agreed * room[:, None]
    return change
