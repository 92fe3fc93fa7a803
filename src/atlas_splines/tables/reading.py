"""Tables: CSV and Parquet in pieces of bounded size. Rows are counted from 1, below the header."""

from __future__ import annotations

import contextlib
import csv
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from atlas_splines.tables.wording import counted, listed, one_line

__all__ = ["Piece", "Source", "Table", "TableError", "is_parquet", "opened"]

Table = pa.Table

# Bytes of a CSV file that are read at a time.
BLOCK = 4 * 2**20

# Rows of a Parquet file that are read at a time, and cells of them: there are fewer rows if they are long.
ROWS, CELLS = 50_000, 4_000_000

# Bytes of texts in such a piece: a file has each text once, however many rows it is in.
TEXTS = 64 * 2**20

TEXT_ENDINGS, PARQUET_ENDINGS = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
DELIMITERS = ",;\t|"
WRONG_ROW = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
MISSING = ["", "#N/A", "N/A", "n/a", "NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None"]


class TableError(ValueError):
    """Something is wrong with a table; the message names the file, row and column, and says what to do."""


@dataclass(frozen=True)
class Source:
    """A table that is read in pieces.

    Attributes
    ----------
    path
        The file.
    name
        What messages call it.
    columns
        Names of its columns.
    """

    path: Path
    name: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> Source:
        """A file that is there, with its header read."""
        name = name or str(path)
        if not path.is_file():
            raise TableError(f"{name} does not exist or is not a file; check the name")
        try:
            columns = _parquet_columns(path, name) if is_parquet(path, name) else _csv_head(path, name)[0]
        except OSError as error:
            raise TableError(f"{name} cannot be read: {error.strerror or error}; check the file") from None
        for column in columns:
            if columns.count(column) > 1:
                raise TableError(f"{name} has two columns {column!r}; rename one")
        return cls(path, name, tuple(columns))

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet, and not CSV."""
        return is_parquet(self.path, self.name)

    def need(self, columns: Collection[str]) -> None:
        """Refuse a table that lacks a column."""
        for column in columns:
            if column not in self.columns:
                raise TableError(f"{self.name} has no column {column!r}; it has {listed(self.columns)}")

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[Piece]:
        """Pieces of the table, in order: text in CSV, typed values in Parquet."""
        row = 1
        names = list(self.columns if columns is None else columns)
        for table in self._parquet_tables(names) if self.is_parquet else self._csv_tables(names):
            if table.num_rows:
                yield Piece(self, row, table)
            row += table.num_rows

    def _parquet_tables(self, names: list[str]) -> Iterator[pa.Table]:
        try:
            schema = parquet.read_schema(self.path)
            texts = [name for name in names if _is_plain_text(schema.field(name).type)]
            with parquet.ParquetFile(self.path, read_dictionary=texts) as file:
                for batch in file.iter_batches(min(ROWS, max(CELLS // len(names), 1)), columns=names):
                    for part in _of_bounded_texts(pa.Table.from_batches([batch])):
                        yield part.cast(pa.schema([schema.field(name) for name in part.column_names]))
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} is damaged: {one_line(error)}; write it again") from None

    def _csv_tables(self, names: list[str]) -> Iterator[pa.Table]:
        header, delimiter, lines = _csv_head(self.path, self.name)
        rows = 0
        try:
            with arrow_csv.open_csv(
                self.path,
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=BLOCK, skip_rows=lines, column_names=header
                ),
                # no function of Python's here: threads of pyarrow would call it after Python has ended
                arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(header, pa.string()),
                    include_columns=names,
                    null_values=MISSING,
                    strings_can_be_null=True,
                ),
            ) as reader:
                for batch in reader:
                    yield pa.Table.from_batches([batch])
                    rows += batch.num_rows
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return
            raise TableError(f"{self.name}{_csv_fault(error, rows)}") from None


def _csv_fault(error: Exception, rows: int) -> str:
    """What is wrong with a CSV file after so many good rows, from what pyarrow says."""
    wrong = WRONG_ROW.search(str(error))
    if wrong:
        number, expected, actual = wrong.groups()
        row = f", row {int(number) - 1}" if number else f" after row {rows}"
        return f"{row} has {counted(int(actual), 'cell')} instead of {expected}; correct that row"
    if "UTF8" in str(error):
        return f" after row {rows} is not UTF-8; save it with that encoding"
    return f" after row {rows} cannot be read: {one_line(error)}; correct the file"


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows of a table.

    Attributes
    ----------
    source
        The table that they are from.
    first_row
        Number of the first of them there.
    table
        The rows.
    """

    source: Source
    first_row: int
    table: pa.Table

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """Number of each row, shape (rows,)."""
        return np.arange(self.first_row, self.first_row + self.table.num_rows)


def is_parquet(path: Path, name: str) -> bool:
    """Whether a table is Parquet, and not CSV, by the ending of its name."""
    if path.suffix.lower() in PARQUET_ENDINGS:
        return True
    if path.suffix.lower() in TEXT_ENDINGS:
        return False
    raise TableError(f"{name} must end in .csv, .tsv, .txt, .parquet or .pq, which tells its format")


def _is_plain_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _of_bounded_texts(table: pa.Table) -> Iterator[pa.Table]:
    """A table in parts whose texts are short enough to be written out in each row."""
    sizes = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            texts = column.combine_chunks()
            lengths = pc.fill_null(pc.take(_text_sizes(texts.dictionary), texts.indices), 0)
            sizes += lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    part = np.cumsum(sizes) // TEXTS  # rising, from 0: (rows,)
    for rows in np.split(np.arange(table.num_rows), np.flatnonzero(np.diff(part)) + 1):
        yield table.slice(rows[0], len(rows)) if len(rows) else table


def _text_sizes(values: pa.Array) -> pa.Array:
    """Bytes of each value of a dictionary; other values than texts are short."""
    is_long = _is_plain_text(values.type) or pa.types.is_binary(values.type)
    return pc.binary_length(values) if is_long else pa.array(np.zeros(len(values), np.int64))


def _parquet_columns(path: Path, name: str) -> list[str]:
    try:
        return list(parquet.read_schema(path).names)
    except pa.ArrowException as error:
        raise TableError(f"{name} is not a Parquet file: {one_line(error)}; check the file") from None


def _csv_head(path: Path, name: str) -> tuple[list[str], str, int]:
    """Names of the columns, the delimiter, and the number of lines they take."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        try:
            start = file.readline()
            if not start.strip():
                raise TableError(f"{name} is empty or starts with an empty line; begin with the column names")
            delimiter = max(DELIMITERS, key=re.sub('"[^"]*"', "", start).count)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter)
            header = [column.strip() for column in next(reader)]
        except UnicodeDecodeError:
            raise TableError(f"{name} is not UTF-8; save it with that encoding") from None
        except csv.Error as error:
            raise TableError(f"{name} has no readable header: {error}; correct its first line") from None
    if not all(header):
        raise TableError(f"{name} has no name for column {header.index('') + 1}; give each column a name")
    return header, delimiter, reader.line_num


@contextlib.contextmanager
def opened(name: str) -> Iterator[Source]:
    """A table by the name of its file, or from standard input for "-", which is kept in a file meanwhile."""
    if name != "-":
        yield Source.of(Path(name))
        return
    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        path = Path(folder) / "input"
        try:
            with open(path, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        except OSError as error:
            what = f"standard input cannot be kept in {folder}: {error.strerror}"
            raise TableError(f"{what}; set TMPDIR to a folder with room") from None
        with open(path, "rb") as file:
            ending = ".parquet" if file.read(4) == b"PAR1" else ".csv"
        yield Source.of(path.rename(path.with_suffix(ending)), "standard input")
