"""Tables as streams of chunks of bounded size, from CSV and Parquet. Rows are numbered from 1.

A table is one file, several by a pattern or in a folder, or standard input.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from atlas_splines.tables.dialects import (
    BLANKS,
    PARQUET_ENDINGS,
    PLAIN,
    TEXT_ENDINGS,
    WHOLE_ENDINGS,
    Dialect,
    as_parquet,
    csv_head,
    is_parquet,
    parquet_head,
    text_of,
    with_single_blanks,
)
from atlas_splines.tables.wording import COMMAND, Advice, TableError, counted, listed, one_line

__all__ = ["Located", "Piece", "Share", "Source", "Table", "TableError", "opened", "pieces_joined"]

Table = pa.Table

# Bytes of a CSV file that are read at a time.
BLOCK = 4 * 2**20

# Rows of a Parquet file that are read at a time, and cells of them: there are fewer rows if they are long.
ROWS, CELLS = 50_000, 4_000_000

# Bytes of strings in such a piece: a file has each string once, however many rows it is in.
TEXTS = 64 * 2**20

ENDINGS = (*TEXT_ENDINGS, *(f"{ending}.gz" for ending in TEXT_ENDINGS), *PARQUET_ENDINGS, *WHOLE_ENDINGS)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
WRONG_ROW = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
MISSING = ["", "#N/A", "N/A", "n/a", "NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None"]


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
    dialect
        How it is written.
    categories
        Columns that were stored as categories, whatever these are.
    index
        Columns that hold the index of a data frame, which has no name.
    parts
        The files of a table of several ones, in their order.
    advice
        What the user can do about a column that cannot be read.
    """

    path: Path
    name: str
    columns: tuple[str, ...]
    dialect: Dialect = PLAIN
    categories: frozenset[str] = frozenset()
    index: frozenset[str] = frozenset()
    parts: tuple[Source, ...] = ()
    advice: Advice = COMMAND

    @classmethod
    def of(cls, path: Path, name: str | None = None, dialect: Dialect = PLAIN) -> Source:
        """An existing file, with its header read."""
        name = name or str(path)
        if not path.is_file():
            raise TableError(f"{name} does not exist or is not a file; check the name")
        try:
            if is_parquet(path, name):
                columns, categories, index = parquet_head(path, name)
            else:
                (columns, _, _), categories, index = csv_head(path, name, dialect), [], [""]
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or one_line(error)
            raise TableError(f"{name} cannot be read: {why}; check the file") from None
        for column in columns:
            if columns.count(column) > 1:
                headless = ", or add --no-header if its first row is data" if NUMBER.fullmatch(column) else ""
                raise TableError(f"{name} has two columns {column!r}; rename one{headless}")
        return cls(path, name, tuple(columns), dialect, frozenset(categories), frozenset(index))

    @classmethod
    def joined(cls, name: str, parts: Sequence[Source]) -> Source:
        """Several files, one after the other, which must have the same columns."""
        first = parts[0]
        for part in parts[1:]:
            part.need(first.columns)
            first.need(part.columns)
            if part.is_parquet != first.is_parquet:
                raise TableError(
                    f"{name}: {first.name} and {part.name} are of different kinds; give one kind"
                )
        return replace(first, name=name, parts=tuple(parts))

    @property
    def lacks_header(self) -> bool:
        """Whether the header is probably a row of data: half of its names or more are numbers."""
        numbers = sum(NUMBER.fullmatch(column) is not None for column in self.columns)
        return not self.is_parquet and self.dialect.header and 2 * numbers >= len(self.columns)

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet, and not CSV."""
        return is_parquet(self.path, self.name)

    def need(self, columns: Collection[str]) -> None:
        """Raise if a column is absent."""
        for column in columns:
            if column not in self.columns:
                what = f"{self.name} has no column {column!r}; it has {listed(self.columns)}"
                raise TableError(what + self._hint)

    @property
    def _hint(self) -> str:
        """A hint for a column that does not exist."""
        if self.lacks_header:
            return "; if its first row is data, add --no-header"
        is_blank = not self.is_parquet and len(self.columns) == 1 and re.search(r"\s", self.columns[0])
        return "; if blanks are between its columns, add --separator blank" if is_blank else ""

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[Piece]:
        """Pieces of the table, in order: text in CSV, typed values in Parquet."""
        before = 0
        for share in self.shares(columns):
            rows = 0
            for piece in replace(share, before=before).pieces():
                yield piece
                rows += piece.table.num_rows
            before += rows

    def shares(
        self, columns: Sequence[str] | None = None, readers: int = 1, before: Sequence[int] = ()
    ) -> list[Share]:
        """Partitions of the table that can be read independently: its files, or parts of them for readers.

        `before` are the rows before each file, if counted.
        """
        names = tuple(self.columns if columns is None else columns)
        schema = self._common_schema(list(names)) if self.is_parquet else None
        files = self.parts or (self,)
        step = -(-readers // len(files))
        known = [*before, *[0] * len(files)]  # where they were not counted they are not used
        every = itertools.product(enumerate(files), range(step))
        return [Share(file, k, names, schema, first, step, known[k]) for (k, file), first in every]

    def _common_schema(self, names: list[str]) -> pa.Schema:
        """Common types of the columns of all files."""
        schemas = []
        for part in self.parts or (self,):
            with part._damage_named():
                schema = parquet.read_schema(part.path)
            schemas.append(pa.schema([schema.field(name) for name in names]))
            try:
                common = pa.unify_schemas(schemas, promote_options="permissive")
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise TableError(f"{part.name} has other types: {one_line(error)}; write it again") from None
            schemas = [common]
        return schemas[0]

    @contextlib.contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} is damaged: {one_line(error)}; write it again") from None

    def _parquet_tables(self, names: list[str], schema: pa.Schema) -> Iterator[pa.Table]:
        with self._damage_named():
            texts = [name for name in names if _is_plain_text(schema.field(name).type)]
            with parquet.ParquetFile(self.path, read_dictionary=texts) as file:
                for batch in file.iter_batches(min(ROWS, max(CELLS // len(names), 1)), columns=names):
                    for part in _of_bounded_texts(pa.Table.from_batches([batch])):
                        yield part.cast(schema)

    def _csv_tables(self, names: list[str]) -> Iterator[pa.Table]:
        header, delimiter, lines = csv_head(self.path, self.name, self.dialect)
        # no Python callback here: threads of pyarrow would call it after the interpreter has ended
        parsing = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        converting = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            include_columns=names,
            null_values=MISSING,
            strings_can_be_null=True,
        )
        rows = 0
        blocks = self._blank_blocks(lines) if delimiter == BLANKS else [(self.path, lines)]
        for block, skipped in blocks:
            before = rows
            reading = arrow_csv.ReadOptions(
                use_threads=False, block_size=BLOCK, skip_rows=skipped, column_names=header
            )
            try:
                with arrow_csv.open_csv(block, reading, parsing, converting) as reader:
                    for batch in reader:
                        yield pa.Table.from_batches([batch])
                        rows += batch.num_rows
            except pa.ArrowInvalid as error:
                if "Empty CSV" in str(error):
                    continue
                raise TableError(f"{self.name}{_csv_fault(error, rows, before - skipped)}") from None
            except OSError as error:
                raise TableError(f"{self.name} is damaged: {one_line(error)}; write it again") from None

    def _blank_blocks(self, header_lines: int) -> Iterator[tuple[pa.BufferReader, int]]:
        """A whitespace-separated file, in blocks with single spaces, below the header."""
        with text_of(self.path) as file:
            for _ in range(header_lines):
                file.readline()
            while lines := file.readlines(BLOCK):
                text = "\n".join(filter(None, map(with_single_blanks, lines)))
                yield pa.BufferReader((text + "\n").encode()), 0


@dataclass(frozen=True)
class Share:
    """A partition of a table for one process: every `step`-th chunk of one of its files.

    Attributes
    ----------
    file
        The file.
    number
        Number of the file in the table, from 0.
    columns
        Names of the columns to read.
    schema
        Their types in all files of the table; None for CSV.
    first, step
        Its chunks of the file: the first of them, from 0, and the stride.
    before
        Rows in the files before it, if counted.
    """

    file: Source
    number: int
    columns: tuple[str, ...]
    schema: pa.Schema | None
    first: int = 0
    step: int = 1
    before: int = 0

    def pieces(self) -> Iterator[Piece]:
        """The pieces, in order."""
        names = list(self.columns)
        tables = (
            self.file._csv_tables(names)
            if self.schema is None
            else self.file._parquet_tables(names, self.schema)
        )
        row = 1
        for number, table in enumerate(filter(pa.Table.__len__, tables)):
            if number % self.step == self.first:
                yield Piece(self.file, row, table, self.before, self.number)
            row += table.num_rows

    @property
    def apart(self) -> Share:
        """The share with an absolute path, for processes with another working directory."""
        return replace(self, file=replace(self.file, path=self.file.path.absolute()))


def _csv_fault(error: Exception, rows: int, before: int) -> str:
    """Description of a CSV error after so many valid rows, from the message of pyarrow.

    Its row number counts lines, of which `before` come before the first one of a block.
    """
    wrong = WRONG_ROW.search(str(error))
    if wrong:
        number, expected, actual = wrong.groups()
        row = f", row {int(number) + before}" if number else f" after row {rows}"
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
    before
        Rows in files that come before it in a table of several ones.
    file
        Number of its file there, from 0.
    """

    source: Source
    first_row: int
    table: pa.Table
    before: int = 0
    file: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """Sort key: pieces of a table are in the order of their places."""
        return self.file, self.first_row

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """Number of each row in all files together, shape (rows,)."""
        return self.before + np.arange(self.first_row, self.first_row + self.table.num_rows)


def pieces_joined(pieces: Sequence[Piece]) -> Piece:
    """All pieces of a table as one."""
    return replace(pieces[0], table=pa.concat_tables([piece.table for piece in pieces]))


def _is_plain_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _of_bounded_texts(table: pa.Table) -> Iterator[pa.Table]:
    """A table in parts whose strings are short enough to be written out in each row."""
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
    """Bytes of each value of a dictionary; other values than strings are short."""
    is_long = _is_plain_text(values.type) or pa.types.is_binary(values.type)
    return pc.binary_length(values) if is_long else pa.array(np.zeros(len(values), np.int64))


class Located:
    """The files of a table before its dialect is determined.

    Parameters
    ----------
    name
        A file, a folder of files, a pattern such as ``data/*.csv``, or "-" for standard input, which is
        kept in a file meanwhile.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Located:
        self._scratch = contextlib.ExitStack()
        try:
            self.paths = self._kept_input() if self.name == "-" else paths_of(self.name)
        except BaseException:
            self._scratch.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scratch.close()

    def _folder(self) -> Path:
        return Path(self._scratch.enter_context(tempfile.TemporaryDirectory(prefix="atlas-")))

    def _kept_input(self) -> list[Path]:
        folder = self._folder()
        path = folder / "input"
        try:
            with open(path, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        except OSError as error:
            what = f"standard input cannot be kept in {folder}: {error.strerror}"
            raise TableError(f"{what}; set TMPDIR to a folder with room") from None
        with open(path, "rb") as file:
            ending = ".parquet" if file.read(4) == b"PAR1" else ".csv"
        return [path.rename(path.with_suffix(ending))]

    def read(self, dialect: Dialect) -> Source:
        """The table, with its header read."""
        sources = [self._source(path, dialect) for path in self.paths]
        return sources[0] if len(sources) == 1 else Source.joined(self.name, sources)

    def _source(self, path: Path, dialect: Dialect) -> Source:
        name = "standard input" if self.name == "-" else str(path)
        if path.is_file() and path.suffix.lower() in WHOLE_ENDINGS:
            path = as_parquet(path, self._folder(), dialect)
        return Source.of(path, name, dialect)


def paths_of(name: str) -> list[Path]:
    """The files of a table, in the order of their names."""
    path = Path(name)
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.name.lower().endswith(ENDINGS))
        if not found:
            raise TableError(f"{name} is a folder without tables; give a file, or a folder of tables")
        return found
    if path.exists() or not glob.has_magic(name):
        return [path]
    found = sorted(file for file in map(Path, glob.glob(name, recursive=True)) if file.is_file())
    if not found:
        raise TableError(f"no file matches {name}; check the pattern")
    return found


@contextlib.contextmanager
def opened(name: str, dialect: Dialect = PLAIN) -> Iterator[Source]:
    """A table by the name of its file, folder or pattern, or from standard input for "-"."""
    with Located(name) as located:
        yield located.read(dialect)
