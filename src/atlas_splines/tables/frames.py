"""Data frames and rows as dictionaries, whole or in partitions, as pieces of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atlas_splines.tables.cells import Cells, is_text, trimmed
from atlas_splines.tables.dates import DateChoice
from atlas_splines.tables.encoding import Column, Encoding
from atlas_splines.tables.inference import (
    News,
    Remote,
    checked_news,
    new_categories,
    some_of,
    survey_frame,
)
from atlas_splines.tables.new_columns import new_columns
from atlas_splines.tables.source import Piece, Source, Table
from atlas_splines.tables.wording import FRAME, TableError, one_line

__all__ = [
    "NAME",
    "as_categories",
    "cell_numbers",
    "cells_of",
    "chosen",
    "completed",
    "encode_frame",
    "first_missing",
    "frame_of_rows",
    "joined_tables",
    "learn_encoding",
    "number_of_text",
    "piece_of",
    "survey_new",
    "unused_name",
    "with_new_categories",
    "with_texts_of",
]

Array = NDArray[np.float64]

# What messages call a frame.
NAME = "X"


def learn_encoding(
    X: Any,
    names: Sequence[str],
    target: str,
    dates: Mapping[str, str] = MappingProxyType({}),
    elsewhere: Remote | None = None,
) -> Encoding | None:
    """How the columns of a frame become inputs, or None if all of them are numbers.

    Parameters
    ----------
    X
        The frame.
    names
        Names of its columns.
    target
        Name of the target, for tables in which it is a column too.
    dates
        What is said of columns of dates, as the command's option has it behind the equals sign.
    elsewhere
        What is known of all rows, if these are some of them.

    Examples
    --------
    >>> X = pa.table({"size": [1.0, 2.0, 3.0], "kind": ["flat", "house", None]})
    >>> learn_encoding(X, ["size", "kind"], "price").columns[1].categories
    ('flat', 'house')
    """
    for name in names:
        if list(names).count(name) > 1:
            raise TableError(f"{NAME} has two columns {name!r}; rename one")
    for name in dates:
        if name not in names:
            raise TableError(f"dates names the column {name!r}, which {NAME} does not have; correct it")
    choices = {name: DateChoice.of(words) for name, words in dates.items()}
    found = survey_frame(piece_of(X, names), unused_name(target, names), choices, elsewhere)
    return None if found.is_plain else found


def survey_new(X: Any, names: Sequence[str], encoding: Encoding) -> tuple[Column, ...]:
    """How columns of a frame that an encoding does not know become inputs; those that hold nothing do not."""
    for name in names:
        if list(names).count(name) > 1:
            raise TableError(f"{NAME} has two columns {name!r}; rename one")
    piece = piece_of(X, names)
    kept = [name for name in names if piece.table[name].null_count < piece.table.num_rows]
    if not kept:
        return ()
    piece = piece_of(piece.table.select(kept), kept)
    return new_columns(survey_frame(piece, encoding.target, {}), piece, encoding)


def chosen(X: Any, names: Sequence[str]) -> Any:
    """Some columns of a frame."""
    return X.select(list(names)) if hasattr(X, "select") else X[list(names)]


def completed(X: Any, names: Sequence[str], encoding: Encoding) -> pa.Table:
    """A frame with all columns of an encoding; those that it lacks are missing."""
    arrays = {
        name: array_of(column, name)
        for column, name in zip(columns_of(X), names, strict=True)
        if name in encoding.names
    }
    rows = len(next(iter(arrays.values())))
    for column in encoding.columns:
        kind = pa.float64() if column.categories is None else pa.string()
        kind = kind if column.calendar is None else pa.timestamp("us", column.calendar.zone)
        arrays.setdefault(column.name, pa.nulls(rows, kind))
    return pa.table({name: arrays[name] for name in encoding.names})


def unused_name(name: str, names: Sequence[str]) -> str:
    """A name, with lines below it if it is that of another column."""
    while name in names:
        name += "_"
    return name


def encode_frame(X: Any, encoding: Encoding, unknown: str | None) -> Array:
    """Inputs of a model, shape (rows, inputs).

    For a category that was not there in fit `unknown` says what to do, or is None to treat it as missing.
    """
    return encoding.encode(piece_of(X, encoding.names), unknown).values


def first_missing(X: Any, encoding: Encoding) -> tuple[int, str] | None:
    """Row and column of the first category that is missing, if one is."""
    piece = piece_of(X, encoding.names)
    for column in encoding.columns:
        if column.categories is not None:
            gone = trimmed(Cells.of(piece, column.name).texts).is_null()
            if gone.true_count:
                return int(np.argmax(gone.to_numpy(zero_copy_only=False))), column.name
    return None


def with_new_categories(X: Any, encoding: Encoding) -> Encoding:
    """The encoding with the categories of a frame that it does not know yet."""
    piece = piece_of(X, encoding.names)
    coded = [column for column in encoding.columns if column.categories is not None]
    found = {column.name: tuple(sorted(new_categories(piece, column))) for column in coded}
    return News({name: texts for name, texts in found.items() if texts}).added_to(encoding)


def with_texts_of(elsewhere: Remote, encoding: Encoding) -> Encoding:
    """The encoding with the categories of rows that are elsewhere."""
    source = Source(Path(NAME), NAME, tuple(encoding.names), ways_out=FRAME)
    return checked_news(source, encoding, elsewhere.news(encoding)).added_to(encoding)


def frame_of_rows(rows: Sequence[Mapping[Any, Any]], keys: Sequence[Any]) -> pa.Table:
    """Rows that are dictionaries as a frame with these columns; what a row lacks is missing.

    Examples
    --------
    >>> frame_of_rows([{"a": 1.5, "b": "x"}, {"b": "y", "c": 3}], ["a", "b"]).to_pylist()
    [{'a': 1.5, 'b': 'x'}, {'a': None, 'b': 'y'}]
    """
    columns = [array_of([row.get(key) for row in rows], str(key)) for key in keys]
    return pa.table(columns, names=[str(key) for key in keys])


# --- pieces -----------------------------------------------------------------------------------------------


def piece_of(X: Any, names: Sequence[str]) -> Piece:
    """A frame as a piece of a table; its columns are taken in their order."""
    arrays = [array_of(column, name) for column, name in zip(columns_of(X), names, strict=True)]
    coded = [name for array, name in zip(arrays, names, strict=True) if pa.types.is_dictionary(array.type)]
    source = Source(Path(NAME), NAME, tuple(names), categories=frozenset(coded), ways_out=FRAME)
    return Piece(source, 0, pa.table(arrays, names=list(names)))


def columns_of(X: Any) -> list[Any]:
    """The columns of a frame, or of an array."""
    library = type(X).__module__.partition(".")[0]
    if library == "pandas":
        return [X.iloc[:, j] for j in range(X.shape[1])]
    if library == "polars":
        return list(X.get_columns())
    if library == "pyarrow":
        return list(X.columns)
    return [column.tolist() for column in np.asarray(X, object).T]


def array_of(column: Any, name: str) -> pa.Array:
    """A column as pyarrow has it; one of categories has a dictionary."""
    try:
        return converted(column)
    except (pa.ArrowException, TypeError, ValueError) as error:
        what = f"its values are not of one kind that is understood ({one_line(error)})"
        raise TableError(f"{NAME}, column {name!r}: {what}; correct it, or {FRAME.leave_out}") from None


def converted(column: Any) -> pa.Array | pa.ChunkedArray:
    """A column as pyarrow has it, whatever it is a column of."""
    library = type(column).__module__.partition(".")[0]
    if library == "pyarrow":
        return column
    if library == "polars" and str(column.dtype) != "Object":
        return column.to_arrow()
    if library == "pandas" and not holds_objects(column):
        return pa.array(np.asarray(column) if hasattr(column, "sparse") else column, from_pandas=True)
    values = list(column)
    if any(isinstance(value, Enum) for value in values):
        return pa.array(list(map(name_of, values)), from_pandas=True).dictionary_encode()
    found = pa.array(values, from_pandas=True)
    is_category = library == "pandas" and str(column.dtype) == "category"
    return found.dictionary_encode() if is_category else found


def holds_objects(column: Any) -> bool:
    """Whether the values of a column of pandas, or its categories, are objects of Python."""
    values = column.cat.categories if str(column.dtype) == "category" else column
    return bool(values.dtype == object)


def name_of(value: Any) -> Any:
    """What stands for a member of an enumeration: its value if that is a text, or else its name."""
    if not isinstance(value, Enum):
        return value
    return value.value if isinstance(value.value, str) else value.name


def cells_of(X: Any, names: Sequence[str]) -> tuple[Table, Remote]:
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
    return pa.table(values, names=list(names)), Remote(texts_of(piece, columns), piece.table.num_rows)


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
