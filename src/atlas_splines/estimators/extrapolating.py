"""What a fitted model says, in its domain and beyond."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from atlas_splines.core.checks import check_overflow
from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.model import model_in, state_of
from atlas_splines.estimators.column_footprint import steps_inward
from atlas_splines.estimators.reaching import Reaching

__all__ = ["Extrapolating"]

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
        out = evaluate(state, inside.astype(model.dtype)).astype(np.float64)
        if self.extrapolation == "linear":
            edge = out.copy()
            for j, rows, inward in steps_inward(points, inside):
                step = (inside[rows, j] - inward[:, j])[:, None]
                slope = (edge[rows] - evaluate(state, inward.astype(model.dtype))) / step
                out[rows] += slope * (points[rows, j] - inside[rows, j])[:, None]
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
