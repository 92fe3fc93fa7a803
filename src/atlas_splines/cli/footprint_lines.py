"""Footprints in the values of a table's columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.estimators.column_footprint import ColumnFootprint
from atlas_splines.memory.volumes import Volume
from atlas_splines.tables.encoding import Column, Encoding, within

__all__ = ["footprint_lines", "share_of_domain"]

# Random rows that a share of the domain is measured with.
RANDOM_ROWS = 20_000


def share_of_domain(area: ColumnFootprint, encoding: Encoding) -> str:
    """Share of the domain, where each category counts as much as the others.

    With categories it is the share of random rows: in the model's coordinates, a category is but a point.
    """
    share = area.share
    if any(column.categories is not None for column in encoding.columns):
        random = np.random.default_rng(0)
        columns: list[NDArray[np.float64]] = []
        for column in encoding.parts:
            j = len(columns)
            if column.categories is None:
                low, high = area.area.domain[j]
                columns.append(area.columns.to_raw(j, random.uniform(low, high, RANDOM_ROWS)))
            else:
                columns += column.random(RANDOM_ROWS, random)
        share = Volume(float(area.contains(np.stack(columns, axis=1)).mean()))
    return share.percent()


def footprint_lines(area: ColumnFootprint, encoding: Encoding, rim: float) -> list[str]:
    """One line for each column, in its own values; what happens in the rim of the domain happens beyond."""
    width = max(len(column.name) for column in encoding.parts)
    lines, j = [], 0
    for column in encoding.parts:
        parts = [area.intervals(j + k) for k in range(len(column.inputs))]
        low, high = area.columns.to_raw(j, area.area.domain[j] + np.array([rim, -rim])).tolist()
        words = column.covered(parts, (low, high), float(area.columns.fill[j]))
        lines.append(f"  {column.name:{width}}  {words}{missing_too(area, column, j)}")
        j += len(parts)
    return lines


def missing_too(area: ColumnFootprint, column: Column, j: int) -> str:
    """Whether rows without this number can change too: they are read as its median, and marked as missing."""
    if column.categories is not None or not within(float(area.columns.fill[j]), area.intervals(j)):
        return ""
    marks = np.flatnonzero(area.columns.indicators == j)
    marked = not marks.size or within(1.0, area.area.intervals(len(area.columns.knots) + int(marks[0])))
    return ", or missing" if marked else ""
