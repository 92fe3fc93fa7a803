"""Footprints in the values of the columns of a table: numbers, categories and parts of dates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.estimators.column_footprint import SLOPE_STEPS, ColumnFootprint
from atlas_splines.memory.footprints import Interval, merge
from atlas_splines.memory.volumes import Volume
from atlas_splines.tables.encoding import Column, Encoding, within
from atlas_splines.tables.frames import encode_frame

__all__ = ["FrameFootprint", "footprint_lines", "share_of_rows"]

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
    for end, inwards in zip(area.area.domain[j], (1, -1), strict=True):
        values = area.columns.to_raw(j, end + inwards * np.array([0.0, *SLOPE_STEPS]))
        if any(within(value, area.intervals(j)) for value in values.tolist()):
            yield values[0], values[0]


def missing_too(area: ColumnFootprint, column: Column, j: int) -> str:
    """Whether rows without this number can change too: they are read as its median, and marked as missing."""
    if column.categories is not None or not within(float(area.columns.fill[j]), area.intervals(j)):
        return ""
    marks = np.flatnonzero(area.columns.indicators == j)
    marked = not marks.size or within(1.0, area.area.intervals(len(area.columns.knots) + int(marks[0])))
    return ", or missing" if marked else ""
