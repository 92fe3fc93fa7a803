"""Axes of columns: grids, whole-number values, and the distribution of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.checks import check_size
from atlas_splines.model.evaluate import sums
from atlas_splines.updates.intervals import error_model_of
from atlas_splines.updates.synthetic_sample import SyntheticSample, synthetic_sample_of

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = [
    "PLACES",
    "Array",
    "Column",
    "Places",
    "beyond",
    "check_fitted",
    "has_local_terms",
    "number_of",
    "numbered",
    "places_along",
    "places_of",
    "sketched_rows",
    "sums_along",
]

Array = NDArray[np.float64]
Column = int | str  # its number, or its name

PLACES = 151  # along a column


def check_fitted(estimator: AtlasEstimator) -> None:
    """Raise if an estimator is not fitted."""
    if not hasattr(estimator, "model_"):
        raise ValueError("the estimator has learned nothing yet; call fit first")


def has_local_terms(model: Atlas) -> bool:
    """Whether a model has local terms, so that its table is the smooth part only."""
    return bool(state_of(model).local)


def numbered(kind: str, count: int) -> tuple[str, ...]:
    """Numbered names."""
    return tuple(f"{kind} {j}" for j in range(count))


def number_of(column: Column, names: Sequence[str]) -> int:
    """Index of a column, given by its index or its name."""
    if not isinstance(column, str):
        return check_size("column", column, least=0, most=len(names) - 1)
    if column not in names:
        raise ValueError(f"there is no column {column!r}; the columns are {', '.join(names)}")
    return names.index(column)


def places_along(model: Atlas, j: int, count: int = PLACES) -> Array:
    """An even grid over the domain of an input."""
    low, high = model.domain[j].tolist()
    return np.linspace(low, high, count)


def sums_along(model: Atlas, j: int, places: Array, output: int) -> Array:
    """G_k, H_k and F of the table along one input, on the lower edge of the others: (places, 2M + 1)."""
    points = np.tile(model.domain[:, 0], (places.size, 1))
    points[:, j] = places
    state = state_of(model)
    return sums(state, state.points(points))[:, output].astype(np.float64)


Number = TypeVar("Number", bound=np.generic)

DATA_PERCENTILES = (0.5, 99.5)  # the range of a column that its data covers
WIDEST = 60  # from the least to the largest of whole numbers that are bars: hours, days, weeks
HALF_BAR = 0.4
MARGIN = 0.02  # of the length of a line, left free on either side


@dataclass(frozen=True, eq=False)
class Places:
    """The grid on which the effect of a column is drawn.

    Attributes
    ----------
    values
        In the units of the column, rising, shape (places,).
    units
        Their coordinates in the model, which may lie beyond its domain.
    whole
        Whether they are whole numbers, with nothing in between: each is a bar.

    Examples
    --------
    >>> hours = Places(np.array([7.0, 8.0]), np.array([0.3, 0.4]), whole=True)
    >>> hours.outline
    array([6.6, 7.4, nan, 7.6, 8.4, nan])
    >>> hours.heights(np.array([1.0, 2.0]))
    array([1., 1., 1., 2., 2., 2.])
    """

    values: Array
    units: Array
    whole: bool

    @property
    def outline(self) -> Array:
        """The outline: the values, or the edges of each bar with a gap between bars."""
        if not self.whole:
            return self.values
        return np.asarray((self.values[:, None] + [-HALF_BAR, HALF_BAR, np.nan]).ravel())

    def heights(self, of_values: NDArray[Number]) -> NDArray[Number]:
        """Values repeated for the outline."""
        return np.repeat(of_values, 3) if self.whole else of_values

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis."""
        low, high = self.values[[0, -1]].tolist()
        margin = 1.5 * HALF_BAR if self.whole else MARGIN * (high - low)
        return low - margin, high + margin


def places_of(estimator: AtlasEstimator, j: int, rows: Array | None, count: int = PLACES) -> Places:
    """The whole numbers of a column, or an even grid over almost all of its values.

    Without rows, or if they all have one value, it is the domain.
    """
    values = np.empty(0) if rows is None else answered(estimator, j, rows[:, j])
    if is_whole(values):
        numbers = np.unique(values)
        return Places(numbers, unit_of(estimator, j, numbers), whole=True)
    units = places_along(estimator.model_, j, count)
    if values.size and np.ptp(values) > 0:
        low, high = unit_of(estimator, j, np.percentile(values, DATA_PERCENTILES)).tolist()
        units = np.linspace(low, high, count)
    return Places(estimator.domain_.to_raw(j, units), units, whole=False)


def is_whole(values: Array) -> bool:
    """Whether values are whole numbers, and few enough for bars.

    Examples
    --------
    >>> is_whole(np.array([3.0, 24.0])), is_whole(np.array([3.0, 4.5])), is_whole(np.array([0.0, 5000.0]))
    (True, False, False)
    """
    return bool(values.size and (values == np.rint(values)).all() and np.ptp(values) <= WIDEST)


def answered(estimator: AtlasEstimator, j: int, values: Array) -> Array:
    """Values of a column without missing ones."""
    low, high = (-np.inf, np.inf)
    if estimator.extrapolation == "error":
        low, high = estimator.domain_.to_raw(j, estimator.model_.domain[j])
    return values[np.isfinite(values) & (values >= low) & (values <= high)]


def unit_of(estimator: AtlasEstimator, j: int, values: Array) -> Array:
    """Coordinates of values of a column."""
    table = np.full((len(values), len(estimator.domain_.knots)), np.nan)
    table[:, j] = values
    return estimator.domain_.to_unit(table)[:, j]


MANY = 0.02  # fraction of the rows at an end of the domain, or beyond it, from which it is written below


def sketched_rows(estimator: AtlasEstimator) -> Array | None:
    """A synthetic sample of learned rows, in raw units, shape (rows, columns); None without a data density.

    A row beyond the domain of the fit was counted at its end, and is there.
    """
    known = synthetic_sample_of(state_of(estimator.model_))
    if known is None:
        return None
    return np.column_stack(
        [sketched_values(estimator, j, known) for j in range(len(estimator.domain_.knots))]
    )


def sketched_values(estimator: AtlasEstimator, j: int, known: SyntheticSample) -> Array:
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
    """The fraction of learned rows counted at either end of a column, as text, if rows pile up there.

    Parameters
    ----------
    estimator
        A fitted estimator.
    j
        The column.
    whole
        Whether it has whole numbers only.
    """
    error_model = error_model_of(state_of(estimator.model_))
    if error_model is None or error_model.data_density is None:
        return []
    counts = error_model.data_density.cell_counts.alone[j]  # (cells,)
    share = counts / max(counts.sum(), 1)
    low, high = estimator.domain_.to_raw(j, np.array([1, counts.size - 1]) / counts.size).tolist()
    if whole:
        low, high = np.floor(low), np.ceil(high)
    below = [f"{share[0]:.0%} of rows at {low:.3g} or less"] if is_pile(share[0], share[1]) else []
    above = [f"{share[-1]:.0%} of rows at {high:.3g} or more"] if is_pile(share[-1], share[-2]) else []
    return below + above


def is_pile(end: float, beside: float) -> bool:
    """Whether the outermost cell of a column has many rows, and many more than its neighbour."""
    return bool(end >= MANY and end > 2 * beside)
