"""The log of an estimator: updates in the units of its columns and its target."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from atlas_splines.memory.log import Update

__all__ = ["EstimatorUpdate"]


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
