"""Sketches: rows that a model has learned, as far as its counts of them tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from atlas_splines.core.model import state_of
from atlas_splines.evidence.lookalikes import Lookalikes
from atlas_splines.memory.doubt import spread_of
from atlas_splines.memory.known_rows import lookalikes_of
from atlas_splines.plots.columns import Array

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["beyond", "sketched_rows"]

MANY = 0.02  # share of the rows at an end of the domain, or beyond it, that is worth a word


def sketched_rows(estimator: AtlasEstimator) -> Array | None:
    """Rows like those learned, in the units of columns, shape (rows, columns); None if none were counted.

    A row beyond the domain of the fit was counted at its end, and is there.
    """
    known = lookalikes_of(state_of(estimator.model_))
    if known is None:
        return None
    return np.column_stack(
        [sketched_values(estimator, j, known) for j in range(len(estimator.domain_.knots))]
    )


def sketched_values(estimator: AtlasEstimator, j: int, known: Lookalikes) -> Array:
    """Values of a column: whole numbers if each stands for a cell with just one, or else points of cells."""
    low, middle, high = (
        estimator.domain_.to_raw(j, units[:, j]) for units in (known.low, known.points, known.high)
    )
    first, last = known.low[:, j] <= 0, known.high[:, j] >= 1  # with rows beyond the domain
    numbers = np.where(first, np.floor(high), np.ceil(low))
    found = first | last | ((low <= numbers) & (numbers <= high))
    alone = (low < high) & (high - low < 1)
    return numbers if (found & alone).all() else middle


def beyond(estimator: AtlasEstimator, j: int, whole: bool) -> list[str]:
    """Which share of the rows learned were counted at an end of a column, if rows pile up there.

    Parameters
    ----------
    estimator
        A fitted estimator.
    j
        The column.
    whole
        Whether it has whole numbers only.
    """
    spread = spread_of(state_of(estimator.model_))
    if spread is None or spread.presence is None:
        return []
    counts = spread.presence.visits.alone[j]  # (cells,)
    share = counts / max(counts.sum(), 1)
    low, high = estimator.domain_.to_raw(j, np.array([1, counts.size - 1]) / counts.size).tolist()
    if whole:
        low, high = np.floor(low), np.ceil(high)
    below = [f"{share[0]:.0%} of rows at {low:.3g} or less"] if is_pile(share[0], share[1]) else []
    above = [f"{share[-1]:.0%} of rows at {high:.3g} or more"] if is_pile(share[-1], share[-2]) else []
    return below + above


def is_pile(end: float, beside: float) -> bool:
    """Whether the last cell of a column has many rows, and many more than the one beside it."""
    return bool(end >= MANY and end > 2 * beside)
