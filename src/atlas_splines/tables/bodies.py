"""Bodies: tables as requests and responses of a service carry them, as JSON rows, CSV or Arrow streams.

Rows are counted from 1. Whoever sends a body may be hostile: what a table costs is bounded by its size.
"""

from __future__ import annotations

import io
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atlas_splines.tables.cells import LARGEST, MISSING_TARGET, Cells, Label
from atlas_splines.tables.dialects import Dialect
from atlas_splines.tables.encoding import Column, Encoding
from atlas_splines.tables.source import Piece, Source, pieces_joined
from atlas_splines.tables.wording import Advice, TableError, listed, one_line
from atlas_splines.tables.writing import TableWriter

__all__ = [
    "NAME",
    "BodyLimits",
    "BodyRefused",
    "BodyTooLarge",
    "RowEncoder",
    "encoded",
    "of_arrow",
    "of_csv",
    "of_rows",
    "out_of_fold_rows",
    "selected",
    "targets_of",
    "to_arrow",
    "to_csv",
    "with_columns",
]

Array = NDArray[np.float64]
Row = Mapping[str, Any]

# What messages call a body.
NAME = "the body"

SERVICE = Advice(
    leave_out="leave the column out",
    category="send texts",
    day_first="send dates as YYYY-MM-DD",
    decimal="",
    missing="send null for a missing value",
)
UNKNOWN = "correct it, or let the model learn it"
LITTLE_ENDIAN_I32, LITTLE_ENDIAN_U16 = "<i", "<H"


class BodyRefused(TableError):
    """A body of a kind that is not read, whatever is in it."""


class BodyTooLarge(TableError):
    """A body that stands for a larger table than is read at once."""


@dataclass(frozen=True)
class BodyLimits:
    """How large a table a body may stand for: a few bytes can stand for many cells.

    Without these, 16 MB of JSON in which each row has a column of its own are 10¹¹ cells, and a text of
    10 MB that every row of an Arrow stream refers to is as many times as long.

    Attributes
    ----------
    rows, columns
        Of the table, at most.
    cells
        Rows times columns.
    texts
        Bytes of all texts of a column.
    """

    rows: int = 100_000
    columns: int = 10_000
    cells: int = 10_000_000
    texts: int = 64 * 2**20

    def check(self, rows: int, columns: int) -> None:
        """Refuse a table that is larger."""
        for count, most, what in (
            (rows, self.rows, "rows"),
            (columns, self.columns, "columns"),
            (rows * columns, self.cells, "cells"),
        ):
            if count > most:
                raise BodyTooLarge(f"{NAME} has more than {most:,} {what}; send fewer at a time")


LIMITS = BodyLimits()


# --- reading ----------------------------------------------------------------------------------------------


def of_rows(rows: Sequence[Row], first: Sequence[str] = (), limits: BodyLimits = LIMITS) -> pa.Table:
    """Rows of JSON as a table; what a row lacks is missing.

    Columns come in the order `first`, and then as they turn up.

    Examples
    --------
    >>> of_rows([{"a": 1.5, "b": "x"}, {"b": "y", "c": 3}], ["b"]).to_pylist()
    [{'b': 'x', 'a': 1.5, 'c': None}, {'b': 'y', 'a': None, 'c': 3}]
    """
    there = {name: None for row in rows for name in row}
    limits.check(len(rows), len(there))
    known = {*first}
    names = [name for name in first if name in there] + [name for name in there if name not in known]
    columns = [_array([row.get(name) for row in rows], name) for name in names]
    return pa.table(columns, names=names)


def _array(values: list[Any], name: str) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        what = f"its values are not of one kind that is understood ({one_line(error)})"
        raise TableError(f"{NAME}, column {name!r}: {what}; correct it, or {SERVICE.leave_out}") from None


def of_csv(content: bytes, dialect: Dialect, limits: BodyLimits = LIMITS) -> pa.Table:
    r"""A CSV file as a table of texts, in which missing cells are null and decimal marks are points.

    Examples
    --------
    >>> of_csv(b"size;city\n1,5;?\n", Dialect(separator=";", decimal=",", missing=("?",))).to_pylist()
    [{'size': '1.5', 'city': None}]
    """
    first_line = content[: content.find(b"\n")] if b"\n" in content else content
    limits.check(0, 1 + sum(map(first_line.count, (b",", b";", b"\t", b"|", b" "))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "body.csv"
        path.write_bytes(content)
        source = Source.of(path, NAME, dialect)
        pieces = list(source.pieces())
        if not pieces:
            return pa.table({name: pa.array([], pa.string()) for name in source.columns})
        whole = pieces_joined(pieces)
        limits.check(whole.table.num_rows, whole.table.num_columns)
        names = [name for name in source.columns if name not in source.index]
        return pa.table([Cells.of(whole, name).values for name in names], names=names)


def of_arrow(content: bytes, limits: BodyLimits = LIMITS) -> pa.Table:
    """An Arrow stream as a table.

    Everything in it is checked before it is used, since offsets that point elsewhere would be read as they
    are. Compressed streams are refused: some bytes of them can stand for gigabytes.

    Examples
    --------
    >>> of_arrow(to_arrow(pa.table({"a": [1, 2]}))).to_pylist()
    [{'a': 1}, {'a': 2}]
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(content)):
            if message.type in ("record batch", "dictionary") and _is_compressed(message):
                raise BodyRefused(f"{NAME} is a compressed Arrow stream; write it without compression")
        batches, count = [], 0
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            names = reader.schema.names
            for batch in reader:
                batch.validate(full=True)
                count += batch.num_rows
                limits.check(count, len(names))
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
        for name, column in zip(names, table.columns, strict=True):
            if pa.types.is_dictionary(column.type) and _decoded_bytes(column) > limits.texts:
                raise BodyTooLarge(f"{NAME}, column {name!r}: its texts are too long; send fewer at a time")
    except TableError:
        raise
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise BodyRefused(f"{NAME} is not an Arrow stream: {one_line(error)}; write it again") from None
    if len({*names}) < len(names):
        repeated = next(name for k, name in enumerate(names) if name in names[:k])
        raise TableError(f"{NAME} has two columns {repeated!r}; rename one")
    return table


def _decoded_bytes(column: pa.ChunkedArray) -> int:
    """Bytes that a column of categories takes once each row has its text, at most."""
    longest = 0
    for chunk in column.chunks:
        texts = chunk.dictionary
        if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
            longest = max(longest, pc.max(pc.binary_length(texts)).as_py() or 0)
    return longest * len(column)


def _is_compressed(message: Any) -> bool:
    """Whether the buffers of a record batch are compressed, by the flatbuffer of its header.

    Fields of the format: Message.header is the third, RecordBatch.compression the fourth, and
    DictionaryBatch.data, a RecordBatch, the second.
    """
    data = bytes(message.metadata)
    root = struct.unpack_from(LITTLE_ENDIAN_I32, data, 0)[0]
    header = _flat_field(data, root, 2)
    if header is not None and message.type == "dictionary":
        header = _flat_field(data, header, 1)
    return header is not None and _flat_field(data, header, 3) is not None


def _flat_field(data: bytes, table: int, number: int) -> int | None:
    """Where the table that a field of a flatbuffer's table points to begins; None if it is not there."""
    vtable = table - struct.unpack_from(LITTLE_ENDIAN_I32, data, table)[0]
    size = struct.unpack_from(LITTLE_ENDIAN_U16, data, vtable)[0]
    if 4 + 2 * number >= size:
        return None
    offset = struct.unpack_from(LITTLE_ENDIAN_U16, data, vtable + 4 + 2 * number)[0]
    if not offset:
        return None
    place = table + offset
    return int(place + struct.unpack_from(LITTLE_ENDIAN_I32, data, place)[0])


# --- encoding ---------------------------------------------------------------------------------------------


def _piece(table: pa.Table) -> Piece:
    """A table as a piece whose messages name the body."""
    names = tuple(table.column_names)
    coded = frozenset(name for name in names if pa.types.is_dictionary(table.schema.field(name).type))
    return Piece(Source(Path(NAME), NAME, names, categories=coded, advice=SERVICE), 1, table)


def encoded(table: pa.Table, encoding: Encoding, refuse_unknown: bool) -> Array:
    """Inputs, shape (rows, inputs); columns that are not there are missing.

    Categories that are not known are refused, or count as missing.
    """
    found = encoding.encode(_piece(table), UNKNOWN if refuse_unknown else None)
    return np.column_stack([column.to_numpy() for column in found.columns])


def out_of_fold_rows(table: pa.Table, encoding: Encoding) -> dict[str, list[str]]:
    """By column, categories in a table that an encoding does not know."""
    piece, found = _piece(table), {}
    for column in encoding.columns:
        if column.categories is not None and column.name in table.column_names:
            new = Cells.of(piece, column.name).unknown((*column.categories, *column.others))
            if new:
                found[column.name] = new
    return found


def selected(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Some columns of a table, in this order."""
    return table.select(list(names))


def targets_of(table: pa.Table, encoding: Encoding) -> NDArray[Any]:
    """Targets of rows as numbers, or as classes, of which some may be new; a missing one is refused."""
    if encoding.target not in table.column_names:
        raise TableError(
            f"{NAME} has no column {encoding.target!r}, the target; it has {listed(table.column_names)}"
        )
    cells = Cells.of(_piece(table), encoding.target)
    if encoding.classes is None:
        numbers = cells.numbers()
        missing = np.isnan(numbers)
        if missing.any():
            cells.fail(int(np.argmax(missing)), _TARGET_MISSING)
        return numbers
    classes: tuple[Label, ...] = encoding.classes
    if cells.unknown(classes):
        classes = (*classes, *cells.unknown_classes(classes))
    codes = cells.codes(classes, UNKNOWN)
    if (codes < 0).any():
        cells.fail(int(np.argmax(codes < 0)), _TARGET_MISSING)
    return np.array(classes)[codes]


_TARGET_MISSING = MISSING_TARGET.partition(";")[0] + "; send it, or leave the row out"


class RowEncoder:
    """Encodes rows of JSON cell by cell, with the bits of `encoded`, where every cell is an ordinary one.

    Tables are encoded column by column, which takes 4 ms however few rows there are; this takes some
    microseconds a row. Whatever is not plain (a column that lacks or is new, a category in another spelling,
    a date) is left to `encoded`, which names what is wrong.

    Parameters
    ----------
    encoding
        Of the table.
    missing
        Whether missing values are taken.

    Examples
    --------
    >>> encoding = Encoding((Column("size"), Column("garden", ("no", "yes"))), "price")
    >>> encoder = RowEncoder(encoding, missing=True)
    >>> encoder([{"size": 30, "garden": "yes"}, {"garden": None, "size": 2.5}])
    array([[30. ,  1. ],
           [ 2.5,  0.5]])
    >>> encoder([{"size": "30", "garden": "yes"}]) is None
    True
    """

    def __init__(self, encoding: Encoding, missing: bool) -> None:
        self._columns = [(column.name, _codes_of(column, missing)) for column in encoding.columns]
        self._is_whole = all(column.calendar is None for column in encoding.columns)
        self._inputs = len(encoding.inputs)
        self._missing = missing

    def __call__(self, rows: Sequence[Row]) -> Array | None:
        """Inputs, shape (rows, inputs), or None if some cell is not plain."""
        if not self._is_whole or not rows:
            return None
        found: list[float] = []
        for row in rows:
            if len(row) != len(self._columns):
                return None
            for name, codes in self._columns:
                if name not in row:
                    return None
                if not self._add(found, row[name], codes):
                    return None
        return np.array(found).reshape(len(rows), self._inputs)

    def _add(self, found: list[float], value: Any, codes: Mapping[Any, tuple[float, ...]] | None) -> bool:
        """Append the inputs of a cell; False if it is not plain."""
        if codes is None:
            if value is None and self._missing:
                found.append(np.nan)
                return True
            if type(value) not in (float, int) or not -LARGEST <= value <= LARGEST:
                return False
            found.append(value)
            return True
        if type(value) is not str and value is not None:
            return False
        inputs = codes.get(value)
        if inputs is None:
            return False
        found.extend(inputs)
        return True


def _codes_of(column: Column, missing: bool) -> dict[Any, tuple[float, ...]] | None:
    """Inputs by category, and by None for a missing one; None for a column of numbers."""
    if column.categories is None:
        return None
    names: list[Any] = [*column.categories, *column.others]
    inputs = np.column_stack(column.inputs_of(np.arange(-1, len(names))))  # (1 + categories, inputs)
    codes = {name: tuple(row) for name, row in zip([None, *names], inputs.tolist(), strict=True)}
    if not missing:
        del codes[None]
    return codes


# --- writing ----------------------------------------------------------------------------------------------


def with_columns(table: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """A table with more columns, none of which may be there already."""
    for name, values in columns.items():
        if name in table.column_names:
            raise TableError(f"{NAME} has a column {name!r} already; rename it")
        table = table.append_column(name, pa.array(values))
    return table


def to_csv(table: pa.Table) -> bytes:
    """A table as CSV."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.csv"
        with TableWriter(str(path)) as writer:
            writer.write(table)
        return path.read_bytes()


def to_arrow(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()
