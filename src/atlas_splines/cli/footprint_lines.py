"""Footprints in the values of a table's columns."""

from __future__ import annotations

from atlas_splines.estimators.column_footprint import ColumnFootprint
from atlas_splines.estimators.frame_footprint import share_of_rows
from atlas_splines.tables.encoding import Encoding

__all__ = ["known_rows_text", "share_of_domain"]


def share_of_domain(area: ColumnFootprint, encoding: Encoding) -> str:
    """Share of the domain, where each category counts as much as the others."""
    return share_of_rows(area, encoding).percent()


def known_rows_text(share: float | None) -> str:
    """A share of the rows that a model knows, as counts of where they were tell it; empty if none do.

    Examples
    --------
    >>> known_rows_text(0.312), known_rows_text(0.001), known_rows_text(0.0)
    ('about 31%', 'less than 1%', 'none')
    """
    if share is None:
        return ""
    if share == 1:
        return "all"
    return "none" if share == 0 else "less than 1%" if share < 0.01 else f"about {share:.0%}"
