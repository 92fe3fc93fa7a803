"""Footprints, the log in the units of the target, and reverts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from atlas_splines.estimators.footprints import ColumnFootprint, seen_through
from atlas_splines.estimators.predict import Uncertain
from atlas_splines.estimators.reaching import domain_by_hand, given_back, growth_of, joint, needed_domain
from atlas_splines.model.atlas import model_in, snapshot_of, state_of, take_state
from atlas_splines.model.log import Record
from atlas_splines.model.resize import reaching, reduced
from atlas_splines.updates.footprint import Footprint
from atlas_splines.updates.log import Consolidation, Update
from atlas_splines.updates.metrics import HeldOut
from atlas_splines.updates.plan import Retention
from atlas_splines.updates.update import footprint

__all__ = ["Accountable", "EstimatorUpdate"]


@dataclass(eq=False, repr=False)
class EstimatorUpdate(Update):
    """An update in the units of an estimator's columns and target.

    Attributes
    ----------
    footprint
        A `ColumnFootprint`.
    error_before, error_after
        Error on the new data before and after; after, on rows that were just learned.
    held_out
        Error on rows of the new data that were not learned, or not yet, beside that of their mean and R²; for
        classes the share of right ones.
    measure
        What kind of error that is, such as "RMSE".
    unit
        What errors are in: "target", "standard deviations" of the targets, "variances of Poisson counts" or
        "nats".
    """

    measure: str = ""
    unit: str = ""

    @classmethod
    def of(cls, update: Update, **changes: Any) -> EstimatorUpdate:
        """An update of the model with some of its fields in other units."""
        return cls(**{field.name: getattr(update, field.name) for field in fields(update)} | changes)

    def __repr__(self) -> str:
        return self._describe(self.measure)


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

    def _held_out(self, assessed: HeldOut | None) -> HeldOut | None:
        """A judgement of the model with errors of the estimator."""
        if assessed is None:
            return None
        return replace(assessed, error=self._error(assessed.error), baseline=self._error(assessed.baseline))

    def _in_columns(self, area: Footprint, known: Array) -> ColumnFootprint:
        """A footprint in the units of the columns; `known` is the model's domain before the update."""
        seen = seen_through(self.domain_, area, self._input_names, known)
        if not hasattr(self, "encoding_"):
            return seen
        from atlas_splines.estimators.footprints import FrameFootprint  # it loads pyarrow

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
        needed = needed_domain(self.model_, state_of(model), model.updates)
        by_hand = domain_by_hand(state_of(self.model_), self.model_.updates)
        domains = (joint([each, by_hand]) for each in (needed, *reversed(earlier), unit))
        state = given_back(state_of(model), before, domains)
        if state is state_of(model):
            state = reduced(state, needed)
        take_state(model, state)
        self.model_ = model
        return self
