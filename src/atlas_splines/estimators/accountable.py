"""What updates did and would do, in the units of columns and target, and how they are taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from atlas_splines.core.extension import reaching, reduced
from atlas_splines.core.model import model_in, snapshot_of, state_of, take_state
from atlas_splines.core.records import Record
from atlas_splines.estimators.column_footprint import ColumnFootprint, seen_through
from atlas_splines.estimators.log import EstimatorUpdate
from atlas_splines.estimators.reaching import given_back, growth_of, needed_domain
from atlas_splines.estimators.uncertainty import Uncertain
from atlas_splines.memory.footprints import Footprint
from atlas_splines.memory.judging import HeldOut
from atlas_splines.memory.log import Consolidation, Update
from atlas_splines.memory.plans import Retention
from atlas_splines.memory.updates import footprint

__all__ = ["Accountable"]

Array = NDArray[Any]
Self = TypeVar("Self", bound="Accountable")


class Accountable(Uncertain):
    """The part of an estimator that answers for its updates."""

    @property
    def update_log_(self) -> list[Record]:
        """What `partial_fit` and `consolidate` did since `fit`, oldest first; see `atlas_splines.Update`.

        Footprints are in the units of the columns; errors are in those of the target, and an update's
        ``measure`` says which error it is. `model_.updates` is the same log in the model's own units.
        `fit_more`, and `fit` with `warm_start`, are parts of a fit: they can change every prediction, cannot
        be reverted, and leave no entry.
        """
        check_is_fitted(self, "model_")
        log: list[Record] = []
        model = snapshot_of(self.model_)
        # Other training may have extended the domain further before an update: then the footprint of its
        # entry is larger than it need be.
        known = {id(grown.update): grown.known for grown in growth_of(model.updates)}
        unit = np.tile([0.0, 1.0], (model.inputs, 1))
        for record in model.updates:
            log.append(self._in_own_units(record, known.get(id(record), unit)))
        return log

    def _in_own_units(self, record: Record, known: Array) -> Record:
        """An entry of the model's log in the units of columns and target."""
        if isinstance(record, Consolidation):
            unit = self._target_unit
            return replace(record, error=unit * record.error, worst=unit * record.worst)
        if not isinstance(record, Update):
            return record
        return EstimatorUpdate.of(
            record,
            footprint=self._in_columns(record.footprint, known),
            error_before=self._error(record.error_before),
            error_after=self._error(record.error_after),
            held_out=self._held_out(record.held_out),
            measure=self._measure,
            unit=self._unit,
        )

    def _held_out(self, judged: HeldOut | None) -> HeldOut | None:
        """A judgement of the model with errors of the estimator."""
        if judged is None:
            return None
        return replace(judged, error=self._error(judged.error), baseline=self._error(judged.baseline))

    def _in_columns(self, area: Footprint, known: Array) -> ColumnFootprint:
        """A footprint in the units of the columns; `known` is the model's domain before the update."""
        seen = seen_through(self.domain_, area, self._input_names, known)
        if not hasattr(self, "encoding_"):
            return seen
        from atlas_splines.estimators.frame_footprint import FrameFootprint  # it loads pyarrow

        return FrameFootprint.of(seen, self.encoding_)

    def footprint(self, X: ArrayLike) -> ColumnFootprint:
        """Tell which predictions `partial_fit` with inputs X could change, without any training.

        Parameters
        ----------
        X
            Inputs of the new data.
        """
        return self._footprint(X)

    def _footprint(
        self, X: ArrayLike, *, retention: Retention | None = None, far: bool = False
    ) -> ColumnFootprint:
        """The footprint of `_update` with the same parameters."""
        check_is_fitted(self, "model_")
        now = self._now()
        inputs = now._inputs(X)
        retention = now._way_to(inputs, retention, far)
        model, points = now._to_learn(inputs, retention, far)
        model = model_in(reaching(state_of(model), points))
        return now._in_columns(footprint(model, points, retention=retention), now.model_.domain)

    def _revert_sums(self: Self, id: int) -> Self:
        """Revert an update whose sums are kept apart, or whose charts stand; the domain is given back."""
        model = snapshot_of(self.model_)  # entries of its own: readers see the old ones until it is done
        model.revert(id)
        before = next(record.before for record in model.updates if record.id == id)
        earlier = [r.footprint.domain for r in model.updates if isinstance(r, Update) and r.id != id]
        unit = np.tile([0.0, 1.0], (model.inputs, 1))
        needed = needed_domain(state_of(model), model.updates)
        state = given_back(state_of(model), before, [needed, *reversed(earlier), unit])
        if state is state_of(model):
            state = reduced(state, needed)
        take_state(model, state)
        self.model_ = model
        return self
