"""Columns of an estimator and inputs of a model: their names, and places along them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.checks import check_size
from atlas_splines.core.evaluation import sums
from atlas_splines.core.model import Atlas, state_of

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = [
    "PLACES",
    "Array",
    "Column",
    "check_fitted",
    "has_local_terms",
    "number_of",
    "numbered",
    "places_along",
    "sums_along",
]

Array = NDArray[np.float64]
Column = int | str  # its number, or its name

PLACES = 151  # along a column


def check_fitted(estimator: AtlasEstimator) -> None:
    """Raise if an estimator has nothing to draw."""
    if not hasattr(estimator, "model_"):
        raise ValueError("the estimator has learned nothing yet; call fit first")


def has_local_terms(model: Atlas) -> bool:
    """Whether a model adds local terms to its table, so that the table alone is its smooth part."""
    return bool(state_of(model).local)


def numbered(kind: str, count: int) -> tuple[str, ...]:
    """Names for what has none."""
    return tuple(f"{kind} {j}" for j in range(count))


def number_of(column: Column, names: Sequence[str]) -> int:
    """Number of a column that is given by its number or its name."""
    if not isinstance(column, str):
        return check_size("column", column, least=0, most=len(names) - 1)
    if column not in names:
        raise ValueError(f"there is no column {column!r}; the columns are {', '.join(names)}")
    return names.index(column)


def places_along(model: Atlas, j: int, count: int = PLACES) -> Array:
    """Coordinates that cover the domain of an input evenly."""
    low, high = model.domain[j].tolist()
    return np.linspace(low, high, count)


def sums_along(model: Atlas, j: int, places: Array, output: int) -> Array:
    """G_k, H_k and F of the table along one input, on the lower edge of the others: (places, 2M + 1)."""
    points = np.tile(model.domain[:, 0], (places.size, 1))
    points[:, j] = places
    state = state_of(model)
    return sums(state, state.points(points))[:, output].astype(np.float64)
