"""Columns of any scale, and missing values, as points of the unit cube, with monotone directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.memory.random_effects import LevelUnits
from atlas_splines.model import kernels

__all__ = ["ColumnMap", "DomainChoice", "column_directions"]


def column_directions(
    asked: ArrayLike | Mapping[str, int] | None, columns: int, names: Sequence[str] | None
) -> NDArray[np.int8]:
    """1 for columns along which predictions rise, -1 where they fall, 0 for others: shape (columns,).

    Parameters
    ----------
    asked
        As `monotonic_cst` of the estimators.
    columns, names
        How many columns there are, and their names if they have any.

    Examples
    --------
    >>> column_directions({"size": 1}, 2, ["age", "size"])
    array([0, 1], dtype=int8)
    """
    if asked is None:
        return np.zeros(columns, np.int8)
    found = by_name(asked, names) if isinstance(asked, Mapping) else np.asarray(asked)
    if found.shape != (columns,):
        raise ValueError(
            f"monotonic_cst has shape {found.shape} but X has {columns} columns; give -1, 0 or 1 for each"
        )
    wrong = [value for value in found.tolist() if value not in (-1, 0, 1)]
    if wrong:
        raise ValueError(
            f"monotonic_cst has {wrong[0]!r}; give 1 to rise, -1 to fall or 0 to be free for each column"
        )
    return found.astype(np.int8)


def by_name(asked: Mapping[str, int], names: Sequence[str] | None) -> NDArray[np.generic]:
    """What is asked of each column, of a mapping by their names."""
    if names is None:
        raise ValueError("monotonic_cst goes by names, but the columns of X have none; give an array")
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise ValueError(
            f"monotonic_cst names {unknown[0]!r}, which is no column of X; give names of columns"
        )
    return np.array([asked.get(name, 0) for name in names])


Array = NDArray[np.float64]
DomainChoice = Literal["data", "quantiles"] | Sequence[tuple[float, float]]

MARGIN = 0.05  # of the range of a column, on either side of it
LEAST_MARGIN = 128  # spacings of floats: so a column of neighbouring floats has room for all knots
LEAST_GAP = 48  # spacings of floats between quantiles that count as two: half the knots may have to fit in
CLOSE = 1e-9  # of the width of a column: quantiles that are no further apart count as one
BULK = 0.9  # share of the rows whose distance from the median is the width of the bulk of a column
# Widths of the bulk from the median, beyond which values are outliers. The farthest of 20,000 rows of a
# lognormal column is at 3e3 for σ = 2, and at 3e4 for σ = 3. A linear map loses the bulk from there; one by
# quantiles gives it half of the cells however far outliers are, until quantiles are too close to tell apart.
FAR = {"data": 1e4, "quantiles": 1e5}
KNOTS = 65  # of a map that follows the quantiles
OUTER = 4  # of these on a side of the bulk where outliers are


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """An increasing map of each column to [0, 1], linear between knots and beyond them.

    Attributes
    ----------
    knots
        Values of each column that go to evenly spaced points of [0, 1], shape (columns, knots).
    fill
        Value that stands for a missing one, shape (columns,): the median.
    indicators
        Columns for which one more input says whether the value is missing: 0 or 1.
    levels
        For columns that hold codes of categories, by their number: where these lie.

    Examples
    --------
    >>> columns = ColumnMap.of(np.array([[0.0, 5.0], [10.0, np.nan]]), [(0, 20), (0, 10)])
    >>> columns.to_unit(np.array([[5.0, 5.0], [40.0, np.nan]]))
    array([[0.25, 0.5 , 0.  ],
           [2.  , 0.5 , 1.  ]])
    """

    knots: Array
    fill: Array
    indicators: NDArray[np.int64]
    levels: Mapping[int, LevelUnits] = field(default_factory=dict)

    @classmethod
    def of(
        cls, X: Array, choice: DomainChoice, effects: Mapping[int, Array] = MappingProxyType({})
    ) -> ColumnMap:
        """Map around data in which NaN is a missing value, and around the `effects` of levels of columns."""
        missing = np.isnan(X)
        columns = [column[~gone] for column, gone in zip(X.T, missing.T, strict=True)]
        columns = [np.append(column, effects.get(j, [])) for j, column in enumerate(columns)]
        if isinstance(choice, str):
            knots = knots_of([column if column.size else np.zeros(1) for column in columns], choice)
        else:
            knots = [np.array(limits, np.float64) for limits in checked_limits(choice, X.shape[1])]
        fill = [
            np.median(column) if column.size else k.mean() for column, k in zip(columns, knots, strict=True)
        ]
        with np.errstate(over="ignore", invalid="ignore"):
            wide = [j for j, k in enumerate(knots) if not np.isfinite(np.diff(k)).all()]
        if wide:
            raise ValueError(f"column {wide[0]} spans more than a float can hold; rescale it")
        with np.errstate(over="ignore"):
            narrow = [j for j, k in enumerate(knots) if not np.isfinite(1 / np.diff(k)).all()]
        if narrow:
            raise ValueError(f"column {narrow[0]} spans less than a float can divide by; rescale it")
        fill = [0.0 if j in effects else value for j, value in enumerate(fill)]  # that of the population
        return cls(np.array(knots), np.array(fill), np.flatnonzero(missing.any(axis=0)))

    def with_levels(self, effects: Mapping[int, Array], blanks: Mapping[int, float]) -> ColumnMap:
        """The map of columns that hold codes of levels: of those with `effects`, and of later ones of others.

        The input of these has the value `blanks` for a category that it does not know.
        """
        placed = {j: LevelUnits.of(self._unit(j, values), self.fill_unit(j)) for j, values in effects.items()}
        others = {j: LevelUnits.of(np.zeros(0), float(self._unit(j, value))) for j, value in blanks.items()}
        return replace(self, levels=placed | others)

    def _unit(self, column: int, values: Array | float) -> Array:
        """Coordinates of values of a column that are no codes of levels."""
        knots = self.knots[column]
        return piecewise(np.asarray(values, np.float64), knots, np.linspace(0, 1, len(knots)))

    def fill_unit(self, column: int) -> float:
        """Coordinate of a missing value of a column."""
        return float(self._unit(column, self.fill[column]))

    def codes_within(self, column: int, parts: Sequence[tuple[float, float]]) -> NDArray[np.intp] | None:
        """Codes of levels whose coordinates lie in some intervals; None for a column that holds numbers."""
        units = self.levels[column].known if column in self.levels else np.zeros(0)
        if not len(units):
            return None
        return np.flatnonzero(np.any([(units >= low) & (units <= high) for low, high in parts], axis=0))

    @property
    def inputs(self) -> int:
        """Inputs of a model of these columns: the columns, and the indicators of missing values."""
        return len(self.knots) + len(self.indicators)

    @property
    def column_of_inputs(self) -> NDArray[np.int64]:
        """Column that each input tells of, shape (inputs,)."""
        return np.concatenate([np.arange(len(self.knots)), self.indicators])

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Columns that had a single value: their limits are those that `limits_of` puts around it."""
        around = [limits_of(value) for value in self.fill[:, None]]
        return (self.knots[:, [0, -1]] == around).all(axis=1)

    def to_unit(self, X: Array) -> Array:
        """Coordinates of rows, shape (rows, inputs); [0, 1] is the domain of the first data."""
        table, points = np.ascontiguousarray(X, np.float64), np.empty((len(X), self.inputs))
        units = np.linspace(0, 1, self.knots.shape[1])
        kernels.place_between(table, np.ascontiguousarray(self.knots), self.fill, units, points)
        points[:, len(self.knots) :] = np.isnan(table[:, self.indicators])
        for j, levels in self.levels.items():
            placed = levels(table[:, j])
            points[:, j] = np.where(np.isnan(placed), levels.beside(points[:, j]), placed)
        return points

    def to_raw(self, column: int, units: Array) -> Array:
        """Values of a column at coordinates, the inverse of its map; of levels, codes of the nearest ones."""
        if column in self.levels and len(self.levels[column].known):
            return self.levels[column].nearest(np.asarray(units))
        return piecewise(units, np.linspace(0, 1, self.knots.shape[1]), self.knots[column])


def piecewise(x: Array, knots: Array, values: Array) -> Array:
    """Linear interpolation that goes on beyond the first and last knot with the slope it has there."""
    inside = np.interp(x, knots, values)
    low_slope = (values[1] - values[0]) / (knots[1] - knots[0])
    high_slope = (values[-1] - values[-2]) / (knots[-1] - knots[-2])
    below, above = np.minimum(x - knots[0], 0), np.maximum(x - knots[-1], 0)
    return np.where(
        below < 0, values[0] + below * low_slope, np.where(above > 0, values[-1] + above * high_slope, inside)
    )


def limits_of(column: Array) -> tuple[float, float]:
    """Range of a column, widened by a margin; a constant column counts as one as wide as its value.

    However little a column varies beside its values, as identifiers or nanoseconds do, that is its range.
    """
    low, high = float(column.min()), float(column.max())
    width = high - low if high > low else max(abs(low), 1.0)
    margin = max(MARGIN * width, LEAST_MARGIN * spacing_of(low, high))
    return low - margin, high + margin


def spacing_of(low: float, high: float) -> float:
    """How far apart floats are in a range, at most."""
    return float(np.spacing(max(abs(low), abs(high))))


def bulk_of(column: Array, far: float) -> Array:
    """The column without outliers: values that are many times as far from the median as nearly all others."""
    with np.errstate(over="ignore", invalid="ignore"):  # a column that spans too much is refused later
        away = np.abs(column - np.median(column))
        width = np.quantile(away, BULK) or np.median(away[away > 0]) if away.any() else 0.0
        return column[away <= far * width]


def knots_of(columns: Sequence[Array], choice: str) -> list[Array]:
    """Knots of each column, as many for all: two of linear maps, unless outliers bend one."""
    bulks = [bulk_of(column, FAR[choice]) for column in columns]
    pairs = list(zip(columns, bulks, strict=True))
    spaced = by_quantiles if choice == "quantiles" else evenly
    if spaced is evenly and all(len(column) == len(bulk) for column, bulk in pairs):
        return [np.array(limits_of(column)) for column in columns]
    return [with_outliers(column, bulk, spaced) for column, bulk in pairs]


def with_outliers(column: Array, bulk: Array, spaced: Callable[[Array, int], Array]) -> Array:
    """Knots of the bulk, and a few on either side on which outliers lie."""
    low, high = limits_of(column)
    if not np.isfinite(high - low):
        return np.array([low, high])  # refused by the caller
    below, above = (OUTER * int(end) for end in (bulk.min() > column.min(), bulk.max() < column.max()))
    inner = spaced(bulk, KNOTS - below - above)
    outer = (np.linspace(low, inner[0], below + 1)[:-1], np.linspace(inner[-1], high, above + 1)[1:])
    return np.concatenate([outer[0], inner, outer[1]])


def evenly(column: Array, count: int) -> Array:
    """Knots of a linear map."""
    return np.linspace(*limits_of(column), count)


def by_quantiles(column: Array, count: int) -> Array:
    """Knots halfway between evenly spaced ones and the quantiles.

    Crowded values get more of the cells, and gaps between values keep some: a map by quantiles alone would
    have no room for what lies in a gap.
    """
    low, high = limits_of(column)
    fine = np.unique(np.concatenate([[low, high], np.quantile(column, np.linspace(0, 1, KNOTS))]))
    least = max(CLOSE * (high - low), LEAST_GAP * spacing_of(low, high))
    fine = fine[np.diff(fine, prepend=-np.inf) > least]
    with np.errstate(over="ignore"):  # of a span that no float can divide by, which the caller refuses
        even = (fine - low) / (high - low)
    rank = np.searchsorted(np.sort(column), fine, side="right") / column.size
    return np.interp(np.linspace(0, 1, count), (even + rank) / 2, fine)


def checked_limits(limits: Sequence[tuple[float, float]], columns: int) -> Sequence[tuple[float, float]]:
    """The limits a user gave, one pair for each column, or a sentence about what is wrong."""
    if len(limits) != columns:
        raise ValueError(
            f"domain has {len(limits)} pairs but X has {columns} columns; give (low, high) for each"
        )
    for j, pair in enumerate(limits):
        if np.shape(pair) != (2,) or not np.isfinite(pair).all() or not pair[0] < pair[1]:
            raise ValueError(f"domain[{j}] is {pair!r}; give two finite numbers, the lower one first")
    return limits
