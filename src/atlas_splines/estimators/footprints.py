"""Footprints in the units of columns, and in the values of columns with categories and dates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.estimators.input_space import ColumnMap
from atlas_splines.model.lattice import Domain
from atlas_splines.updates.footprint import Footprint, Interval, RestFootprint, Volume, merge

if TYPE_CHECKING:
    from atlas_splines.tables.encoding import Column, Encoding

__all__ = [
    "SLOPE_STEPS",
    "ColumnFootprint",
    "FrameFootprint",
    "footprint_lines",
    "seen_through",
    "share_of_rows",
    "steps_inward",
]

Array = NDArray[Any]

# Parts of the unit cube that linear extrapolation takes slopes over. The flatter one counts, and none if they
# disagree. In benchmarks/extrapolation.py one over the last hundredth alone made predictions of "transformer"
# 240 times as wrong as a constant, and one over the last quarter, fitted once, 2.7 times (both: 1.6).
SLOPE_STEPS = (0.25, 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class ColumnFootprint(Footprint):
    """A footprint in the units of an estimator's columns: where an update can change predictions.

    Its ``domain`` has the lowest and highest value of each column, shape (columns, 2).

    Attributes
    ----------
    area
        The footprint in the model's coordinates.
    columns
        The map of the columns to these coordinates.
    names
        Names of the columns.
    known
        The model's domain before the update, shape (inputs, 2). An update that extends it changes what is
        said beyond it.

    Examples
    --------
    >>> from atlas_splines import AtlasRegressor
    >>> X = 100 * np.random.default_rng(0).random((200, 2))
    >>> model = AtlasRegressor(terms=0, density=0, features=0, random_state=0).fit(X, X[:, 0])
    >>> area = model.footprint(20 + X / 10)
    >>> area.contains([[25.0, 25.0], [25.0, 80.0]])
    array([ True, False])
    >>> [(low, high)] = area.intervals("column 1")
    >>> 19 < low < 21 and 29 < high < 31
    True
    """

    area: Footprint
    columns: ColumnMap
    names: tuple[str, ...]
    known: Domain

    def contains(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Whether the prediction of each row of X can change.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns). Outside the domain, predictions follow those at its edge.
        """
        table = np.asarray(X, np.float64)
        if table.ndim != 2 or table.shape[1] != len(self.names):
            raise ValueError(f"X has shape {table.shape}; expected (rows, {len(self.names)})")
        return self._contains(table)

    def intervals(self, input: int | str) -> list[Interval]:
        """Parts of one column that the footprint projects to, as sorted (low, high).

        Parameters
        ----------
        input
            The number of the column, or its name.
        """
        if isinstance(input, str) and input not in self.names:
            raise ValueError(f"there is no column {input!r}; there are {', '.join(self.names)}")
        return super().intervals(self.names.index(input) if isinstance(input, str) else input)

    @property
    def share(self) -> Volume:
        """Share of the domain that is in the footprint, measured in the model's coordinates."""
        return self.area.share

    def _contains(self, points: Array) -> NDArray[np.bool_]:
        units = self.columns.to_unit(points)
        inside = units.clip(*self.area.domain.T)
        found = self.area.contains(inside)
        grown = self.known != self.area.domain  # (inputs, 2)
        low, high = self.known.T
        found |= (((units < low) & grown[:, 0]) | ((units > high) & grown[:, 1])).any(axis=1)
        if isinstance(self.area, RestFootprint):  # how far slopes go on depends on all rows that are known
            found |= (units != inside).any(axis=1)
        for _, rows, inwards in steps_inward(units, inside):
            for inward in inwards:
                found[rows] |= self.area.contains(inward)
        return found

    def _meets(self, low: Array, high: Array) -> NDArray[np.bool_]:
        return self.area._meets(self.columns.to_unit(low), self.columns.to_unit(high))

    def _intervals(self, input: int) -> list[Interval]:
        """Intervals with all values that are rounded into them on their way to the model."""
        parts = self.area._reach(input)
        codes = self.columns.codes_within(input, parts)
        if codes is not None:
            return merge((float(code), float(code)) for code in codes)
        rounding = 4 * np.spacing(np.abs(self.domain[input]).max())  # of values, in the map and back
        raw = (self.columns.to_raw(input, np.array(part)) for part in parts)
        return merge((float(low - rounding), float(high + rounding)) for low, high in raw)

    def _reach(self, input: int) -> list[Interval]:
        """The intervals of one column: they have all that is rounded into them already."""
        return self._intervals(input)

    def __repr__(self) -> str:
        width = max(map(len, self.names))
        lines = self._lines(name.ljust(width + 1) for name in self.names)
        return f"<Footprint: {self._shares}\n" + "\n".join(lines) + ">"


def seen_through(
    columns: ColumnMap, area: Footprint, names: tuple[str, ...], known: Domain
) -> ColumnFootprint:
    """The footprint of an update in the model's coordinates, seen through the columns."""
    ends = np.array([columns.to_raw(j, area.domain[j]) for j in range(len(names))])
    return ColumnFootprint(
        ends, np.dtype(np.float64), area, columns, names, known, known_rows=area.known_rows
    )


def steps_inward(points: Array, inside: Array) -> Iterator[tuple[int, NDArray[np.intp], list[Array]]]:
    """For each input that some rows leave the domain along: the rows, and their edge points steps inward."""
    for j in np.flatnonzero((points != inside).any(axis=0)).tolist():
        rows = np.flatnonzero(points[:, j] != inside[:, j])
        outwards = np.sign(points[rows, j] - inside[rows, j])
        inwards = [inside[rows].copy() for _ in SLOPE_STEPS]
        for step, inward in zip(SLOPE_STEPS, inwards, strict=True):
            inward[:, j] -= step * outwards
        yield j, rows, inwards


# Random rows that a share of the domain is measured with.
RANDOM_ROWS = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class FrameFootprint(ColumnFootprint):
    """A footprint in the values of the columns of a data frame with categories or dates.

    Its ``names`` are those of the inputs that the columns become, and `intervals` is of these.

    Attributes
    ----------
    encoding
        How the columns become inputs.
    """

    encoding: Encoding

    @classmethod
    def of(cls, area: ColumnFootprint, encoding: Encoding) -> FrameFootprint:
        """A footprint of inputs, seen through the columns that they come from."""
        plain = {field.name: getattr(area, field.name) for field in fields(area)}
        return cls(**plain, encoding=encoding)

    def contains(self, X: Any) -> NDArray[np.bool_]:
        """Whether the prediction of each row of X can change.

        Parameters
        ----------
        X
            A frame with the columns of the fit.
        """
        from atlas_splines.tables.frames import encode_frame  # it loads pyarrow

        return self._contains(encode_frame(X, self.encoding, None))

    @cached_property
    def share(self) -> Volume:
        """Share of the domain that is in the footprint, where each category counts as much as the others."""
        return share_of_rows(self, self.encoding)

    def __repr__(self) -> str:
        lines = footprint_lines(self, self.encoding)
        return f"<Footprint: {self._shares}\n" + "\n".join(lines) + ">"


def share_of_rows(area: ColumnFootprint, encoding: Encoding) -> Volume:
    """Share of the domain, where each category counts as much as the others.

    With categories it is the share of random rows: in the model's coordinates, a category is but a point.
    What an update with rows beyond the domain lets it grow by is no part of it.
    """
    if all(column.categories is None for column in encoding.columns):
        return area.area.share
    random = np.random.default_rng(0)
    columns: list[NDArray[np.float64]] = []
    for column in encoding.parts:
        j = len(columns)
        if column.categories is None:
            low, high = area.area.domain[j]
            columns.append(area.columns.to_raw(j, random.uniform(low, high, RANDOM_ROWS)))
        else:
            columns += column.random(RANDOM_ROWS, random)
    points = area.columns.to_unit(np.stack(columns, axis=1)).clip(*area.area.domain.T)
    return Volume(float(area.area.contains(points).mean()))


def footprint_lines(area: ColumnFootprint, encoding: Encoding, is_linear: bool = False) -> list[str]:
    """One line for each column, in its own values; what happens at an end of the domain happens beyond.

    If extrapolation is linear, so does what happens where slopes are taken from.
    """
    from atlas_splines.tables.encoding import within  # it loads pyarrow

    width = max(len(column.name) for column in encoding.parts)
    lines, j = [], 0
    for column in encoding.parts:
        parts = [area.intervals(j + k) for k in range(len(column.inputs))]
        if is_linear and column.categories is None:
            parts[0] = merge([*parts[0], *ends_sloped(area, j)])
        low, high = area.columns.to_raw(j, area.area.domain[j]).tolist()
        words = column.covered(parts, (low, high), within(area.columns.fill_unit(j), area.area.intervals(j)))
        lines.append(f"  {column.name:{width}}  {words}{missing_too(area, column, j)}")
        j += len(parts)
    return lines


def ends_sloped(area: ColumnFootprint, j: int) -> Iterator[Interval]:
    """Ends of a column whose slopes are taken from values that the footprint has, as empty intervals."""
    from atlas_splines.tables.encoding import within  # it loads pyarrow

    for end, inwards in zip(area.area.domain[j], (1, -1), strict=True):
        values = area.columns.to_raw(j, end + inwards * np.array([0.0, *SLOPE_STEPS]))
        if any(within(value, area.intervals(j)) for value in values.tolist()):
            yield values[0], values[0]


def missing_too(area: ColumnFootprint, column: Column, j: int) -> str:
    """Whether rows without this number can change too: they are read as its median, and marked as missing."""
    from atlas_splines.tables.encoding import within  # it loads pyarrow

    if column.categories is not None or not within(float(area.columns.fill[j]), area.intervals(j)):
        return ""
    marks = np.flatnonzero(area.columns.indicators == j)
    marked = not marks.size or within(1.0, area.area.intervals(len(area.columns.knots) + int(marks[0])))
    return ", or missing" if marked else ""
