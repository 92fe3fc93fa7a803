"""Columns of a table, as its first piece or all of its pieces have them."""

from atlas_splines.tables.cells import Cells
from atlas_splines.tables.inference import Survey


def cells_of(source, column):
    return Cells.of(next(source.pieces()), column)


def survey(source, column, category=False):
    seen = Survey(category=category, way_out=f"add --category {column}")
    for piece in source.pieces([column]):
        seen.add(Cells.of(piece, column))
    return seen
