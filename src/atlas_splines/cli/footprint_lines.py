"""Footprints in the values of a table's columns."""

from __future__ import annotations

from atlas_splines.estimators.column_footprint import ColumnFootprint
from atlas_splines.estimators.frame_footprint import share_of_rows
from atlas_splines.tables.encoding import Encoding

__all__ = ["share_of_domain"]


def share_of_domain(area: ColumnFootprint, encoding: Encoding) -> str:
    """Share of the domain, where each category counts as much as the others."""
    return share_of_rows(area, encoding).percent()
