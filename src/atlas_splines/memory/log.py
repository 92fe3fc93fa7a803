"""The log: what updates and consolidations did to a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from atlas_splines.core.history import History
from atlas_splines.core.records import Folded, Record
from atlas_splines.memory.footprints import Footprint
from atlas_splines.memory.judging import HeldOut

__all__ = ["Consolidation", "Folded", "Record", "Update"]


@dataclass(eq=False)
class Update(Record):
    """One update of a model: what it was, what it could change, and what it did.

    Attributes
    ----------
    footprint
        The points whose prediction it could change.
    seconds
        Time spent.
    error_before, error_after
        Mean loss on the new data before and after; after, on rows that were just learned.
    held_out
        How well rows of the new data were predicted without having learned them, and with all others; None if
        that was not found: for "rehearsal", "both" and "none", and for a single row.
    history
        The last training: of the last chart at its finest, or of the model.
    reason
        What was done and why, where that was decided by the data.
    settings
        The options that it was made with, to make it again; empty for updates from before they were noted.
    caution
        One sentence if rows that were known before are predicted worse now, or if updates find larger errors
        each time; otherwise empty.
    """

    footprint: Footprint
    seconds: float
    error_before: float
    error_after: float
    history: History
    reason: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    held_out: HeldOut | None = None
    caution: str = ""

    def __repr__(self) -> str:
        return self._describe(str(self.settings.get("loss", "error")))

    def _describe(self, measure: str) -> str:
        gone = ", reverted" if self.reverted else ""
        return (
            f"<Update {self.id}: {self.kind}, {self.rows} rows, {measure} {self.error_before:.4g} before and "
            f"{self._after}, {self.footprint._shares}, {self.seconds:.3g} s{gone}>"
        )

    @property
    def _after(self) -> str:
        """The error after, and on which rows it is."""
        if self.held_out is None:
            return f"{self.error_after:.4g} after, on rows just learned"
        way = "cross-validated" if self.held_out.crossed else "held out"
        return f"{self.held_out.error:.4g} after, {way}"


@dataclass(eq=False)
class Consolidation(Record):
    """What `consolidate` did.

    Attributes
    ----------
    replaced
        Whether the model was replaced by the one without charts.
    error
        Mean absolute change of the predictions: over the domain or in a chart's box, whichever is more.
    worst
        Largest change of a prediction that was seen.
    seconds
        Time spent.
    """

    replaced: bool
    error: float
    worst: float
    seconds: float

    def __repr__(self) -> str:
        verdict = "charts folded in" if self.replaced else "model kept as it was"
        errors = f"error {self.error:.4g}, worst {self.worst:.4g}"
        return f"<Consolidation: {verdict}, {errors}, {self.seconds:.3g} s>"
