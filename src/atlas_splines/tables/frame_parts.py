"""Parts of data frames that several processes hold: cells that look the same, whoever holds which rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atlas_splines.tables.cells import Cells, is_text
from atlas_splines.tables.frames import piece_of
from atlas_splines.tables.reading import Piece, Table
from atlas_splines.tables.survey import Elsewhere, some_of

__all__ = ["as_categories", "cell_numbers", "cells_of", "joined_tables", "number_of_text"]

Array = NDArray[np.float64]


def cells_of(X: Any, names: Sequence[str]) -> tuple[Table, Elsewhere]:
    """A part of a frame, and what others have to know of it.

    All numbers, texts and dates have one type each; a column without any has none.

    Examples
    --------
    >>> table, known = cells_of(pa.table({"size": [1, 2], "kind": ["flat", "flat "]}), ["size", "kind"])
    >>> table.schema.types, dict(known.texts), known.rows
    ([DataType(double), DataType(string)], {'kind': frozenset({'flat'})}, 2)
    """
    piece = piece_of(X, names)
    columns = [Cells.of(piece, name) for name in names]
    values = [
        pa.nulls(len(cells.values)) if cells.values.null_count == len(cells.values) else cells.values
        for cells in columns
    ]
    return pa.table(values, names=list(names)), Elsewhere(texts_of(piece, columns), piece.table.num_rows)


def texts_of(piece: Piece, columns: Sequence[Cells]) -> dict[str, frozenset[str]]:
    """Names of the different texts of columns that could be categories."""
    coded = [
        cells for cells in columns if is_text(cells.values.type) or cells.column in piece.source.categories
    ]
    return {cells.column: some_of(cells.spellings()) for cells in coded}


def joined_tables(tables: Sequence[Table]) -> Table:
    """The rows of some parts."""
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def as_categories(table: Table, names: Collection[str]) -> Table:
    """A table that says which of its columns are categories in any case."""
    for j, name in enumerate(table.column_names):
        if name in names:
            table = table.set_column(j, name, table[name].dictionary_encode())
    return table


def cell_numbers(table: Table) -> Array:
    """A number for each cell, shape (rows, columns): equal cells have equal ones."""
    return np.column_stack([column_numbers(column.combine_chunks()) for column in table.columns])


def column_numbers(values: pa.Array) -> Array:
    """A number for each cell of a column, NaN for missing ones."""
    if is_text(values.type):
        return numbers_of_texts(values.dictionary_encode())
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return values.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)


def numbers_of_texts(texts: pa.DictionaryArray) -> Array:
    """Hashes of texts as numbers."""
    hashes = [*map(number_of_text, texts.dictionary.to_pylist()), np.nan]
    return np.array(hashes)[texts.indices.fill_null(len(hashes) - 1).to_numpy(zero_copy_only=False)]


def number_of_text(text: str) -> float:
    """A hash of a text, which is a whole number below 2**48."""
    return float(int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big"))
