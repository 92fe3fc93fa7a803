"""Places along a column at which an effect is drawn: a line, or bars at whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines.plots.columns import PLACES, Array, places_along

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["Places", "places_of"]

Number = TypeVar("Number", bound=np.generic)

DATA_PERCENTILES = (0.5, 99.5)  # the range of a column that its data says something about
WIDEST = 60  # from the least to the largest of whole numbers that are bars: hours, days, weeks
HALF_BAR = 0.4
MARGIN = 0.02  # of the length of a line, left free on either side


@dataclass(frozen=True, eq=False)
class Places:
    """Where the effect of a column is drawn.

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
        """Where to draw: at the values, or from end to end of the bar of each, and then a gap."""
        if not self.whole:
            return self.values
        return np.asarray((self.values[:, None] + [-HALF_BAR, HALF_BAR, np.nan]).ravel())

    def heights(self, of_values: NDArray[Number]) -> NDArray[Number]:
        """What is drawn at the outline, of what the values have."""
        return np.repeat(of_values, 3) if self.whole else of_values

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis."""
        low, high = self.values[[0, -1]].tolist()
        margin = 1.5 * HALF_BAR if self.whole else MARGIN * (high - low)
        return low - margin, high + margin


def places_of(estimator: AtlasEstimator, j: int, rows: Array | None, count: int = PLACES) -> Places:
    """Whole numbers that rows have in a column, or so many places that cover almost all of them evenly.

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
    """Values of a column that an estimator predicts for; missing ones are left out."""
    low, high = (-np.inf, np.inf)
    if estimator.extrapolation == "error":
        low, high = estimator.domain_.to_raw(j, estimator.model_.domain[j])
    return values[np.isfinite(values) & (values >= low) & (values <= high)]


def unit_of(estimator: AtlasEstimator, j: int, values: Array) -> Array:
    """Coordinates of values of a column."""
    table = np.full((len(values), len(estimator.domain_.knots)), np.nan)
    table[:, j] = values
    return estimator.domain_.to_unit(table)[:, j]
