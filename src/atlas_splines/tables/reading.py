"""Tables: CSV and Parquet in pieces of bounded size, and what their cells say.

The only importer of pyarrow. Rows are counted from 1, below the header.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

__all__ = ["Cells", "Reservoir", "Source", "Table", "TableError", "TableWriter", "frame", "opened"]

Array = NDArray[np.float64]
Table = pa.Table
Label = str | bool | int | float

STREAM = 0x61746C6173  # sets the random numbers of a sample apart from all others
BLOCK = 4 * 2**20  # bytes of a CSV file that are read at a time
ROWS = 50_000  # rows of a Parquet file that are read at a time
TEXT_ENDINGS, PARQUET_ENDINGS = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
LARGEST = 1e150  # its square is a number too
DELIMITERS = ",;\t|"
MISSING = ["", "#N/A", "N/A", "n/a", "NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None"]

MISSING_TARGET = "the target is missing; fill it in, or add --skip-missing"
WITH_COMMA = "has a comma; write numbers without commas and with a decimal point, such as 3.5"
LEAVE_OUT = "leave the column out with --ignore"
DATES = (
    "dates and times are not understood; turn them into numbers, such as days since a start or the hour of "
    f"the day, or {LEAVE_OUT}"
)


class TableError(ValueError):
    """Something is wrong with a table; the message names the file, row and column, and says what to do."""


# --- reading ------------------------------------------------------------------------------------------


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
            columns = _parquet_columns(path, name) if _is_parquet(path, name) else _csv_head(path, name)[0]
        except OSError as error:
            raise TableError(f"{name} cannot be read: {error.strerror or error}; check the file") from None
        for column in columns:
            if columns.count(column) > 1:
                raise TableError(f"{name} has two columns {column!r}; rename one")
        return cls(path, name, tuple(columns))

    @property
    def is_parquet(self) -> bool:
        """Whether it is Parquet, and not CSV."""
        return _is_parquet(self.path, self.name)

    def need(self, columns: Collection[str]) -> None:
        """Refuse a table that lacks a column."""
        for column in columns:
            if column not in self.columns:
                raise TableError(f"{self.name} has no column {column!r}; it has {listed(self.columns)}")

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.Table]]:
        """Pieces of the table with the number of their first row: text in CSV, typed values in Parquet."""
        row = 1
        names = list(self.columns if columns is None else columns)
        for piece in self._parquet_pieces(names) if self.is_parquet else self._csv_pieces(names):
            if piece.num_rows:
                yield row, piece
            row += piece.num_rows

    def _parquet_pieces(self, names: list[str]) -> Iterator[pa.Table]:
        try:
            with parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(ROWS, columns=names):
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.name} is damaged: {one_line(error)}; write it again") from None

    def _csv_pieces(self, names: list[str]) -> Iterator[pa.Table]:
        header, delimiter, lines = _csv_head(self.path, self.name)
        wrong: list[Any] = []

        def note(row: Any) -> str:
            wrong.append(row)
            return "error"

        rows = 0
        try:
            with arrow_csv.open_csv(
                self.path,
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=BLOCK, skip_rows=lines, column_names=header
                ),
                arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note
                ),
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
            raise TableError(f"{self.name}{self._csv_fault(error, wrong, rows)}") from None

    def _csv_fault(self, error: Exception, wrong: list[Any], rows: int) -> str:
        if wrong:
            row = f", row {wrong[0].number - 1}" if wrong[0].number else f" after row {rows}"
            cells = f"{counted(wrong[0].actual_columns, 'cell')} instead of {wrong[0].expected_columns}"
            return f"{row} has {cells}; correct that row"
        if "UTF8" in str(error):
            return f" after row {rows} is not UTF-8; save it with that encoding"
        return f" after row {rows} cannot be read: {one_line(error)}; correct the file"


def _is_parquet(path: Path, name: str) -> bool:
    if path.suffix.lower() in PARQUET_ENDINGS:
        return True
    if path.suffix.lower() in TEXT_ENDINGS:
        return False
    raise TableError(f"{name} must end in .csv, .tsv, .txt, .parquet or .pq, which tells its format")


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
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        with open(path, "rb") as file:
            ending = ".parquet" if file.read(4) == b"PAR1" else ".csv"
        yield Source.of(path.rename(path.with_suffix(ending)), "standard input")


def listed(names: Collection[object], most: int = 12) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(map(repr, list(names)[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(count: int, what: str) -> str:
    """A number of things, one or several.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def one_line(error: object) -> str:
    """A message of a library as a part of a sentence."""
    return " ".join(str(error).split()).rstrip(".;")


# --- cells --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """One column of a piece of a table.

    Attributes
    ----------
    source
        The table.
    column
        Name of the column.
    first_row
        Number of the first row.
    values
        The cells, as float64 or as text, whatever they were stored as.
    stored
        The type they were stored as.
    """

    source: Source
    column: str
    first_row: int
    values: pa.Array
    stored: pa.DataType

    @classmethod
    def of(cls, source: Source, column: str, first_row: int, piece: pa.Table) -> Cells:
        """Cells of a piece, read in the way their type asks for."""
        values = piece[column].combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        return cls(source, column, first_row, values, values.type)._plain()

    def _plain(self) -> Cells:
        kind = self.values.type
        if is_text(kind) or pa.types.is_boolean(kind):
            return replace(self, values=self.values.cast(pa.string()))
        if any(test(kind) for test in NUMBER_TYPES):
            return replace(self, values=self.values.cast(pa.float64(), safe=False))
        if pa.types.is_temporal(kind):
            self.fail(None, DATES)
        self.fail(None, f"values of type {kind} are not understood; {LEAVE_OUT}")

    def fail(self, at: int | None, what: str) -> NoReturn:
        """Say what is wrong with a cell, or with the column."""
        row = "" if at is None else f"row {self.first_row + at}, "
        raise TableError(f"{self.source.name}, {row}column {self.column!r}: {what}")

    def numbers_or_none(self) -> Array | None:
        """Numbers with NaN for missing ones, or None if some text is no number."""
        found = as_numbers(self.values)
        if found is not None and (np.abs(found) > LARGEST).any():
            at = int(np.argmax(np.abs(found) > LARGEST))
            what = "infinite" if np.isinf(found[at]) else f"beyond {LARGEST:g}, too large to compute with"
            self.fail(at, f"the number is {what}; correct it or leave it empty")
        return found

    def numbers(self) -> Array:
        """Numbers with NaN for missing ones."""
        found = self.numbers_or_none()
        if found is None:
            at = self.first_text()
            text = self.values[at].as_py()
            what = WITH_COMMA if has_comma(text) else "is not a number; correct it or leave it empty"
            self.fail(at, f"{text!r} {what}")
        return found

    def codes(self, categories: Sequence[Label], unknown: str | None) -> NDArray[np.int64]:
        """Place of each text among the categories, −1 for a missing one.

        For an unknown one `unknown` says what to do, or is None to treat it as missing.
        """
        encoded = as_text(self.values).dictionary_encode()
        texts = as_names(encoded.dictionary)
        places = pc.index_in(texts, as_names(as_text(pa.array(categories))))
        place = np.append(pc.fill_null(places, -1).to_numpy(zero_copy_only=False), -1).astype(np.int64)
        index = pc.fill_null(encoded.indices, len(texts)).to_numpy(zero_copy_only=False)
        strange = pc.and_(pc.is_null(places), pc.is_valid(texts)).to_numpy(zero_copy_only=False)
        if unknown is not None and strange.any():
            at = int(np.flatnonzero(np.append(strange, False)[index])[0])
            had = f"was not there in fit, which had {listed(categories, 6)}"
            self.fail(at, f"{self.values[at].as_py()!r} {had}; {unknown}")
        return place[index]

    def present(self, skip: bool) -> NDArray[np.bool_]:
        """Which cells of a target are not missing; a missing one is refused, or skipped."""
        if pa.types.is_floating(self.values.type):
            there = ~np.isnan(with_nan(self.values))
        else:
            there = trimmed(self.values).is_valid().to_numpy(zero_copy_only=False)
        if not skip and not there.all():
            self.fail(int(np.argmin(there)), MISSING_TARGET)
        return there

    def spellings(self) -> dict[str, str]:
        """The different texts by name, each as it is spelled first."""
        texts = trimmed(as_text(self.values).unique())
        pairs = zip(as_names(texts).to_pylist(), texts.to_pylist(), strict=True)
        return {name: text for name, text in reversed([*pairs]) if name is not None}

    def first_text(self) -> int:
        """Place of the first cell that is no number, by halving; there must be one."""
        low, high = 0, len(self.values)
        while high - low > 1:
            middle = (low + high) // 2
            in_first_half = as_numbers(self.values.slice(low, middle - low)) is None
            low, high = (low, middle) if in_first_half else (middle, high)
        return low


NUMBER_TYPES = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of that type holds text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"


def has_comma(text: str) -> bool:
    """Whether a text is a number with commas in it.

    Examples
    --------
    >>> has_comma("-3,5"), has_comma("1,234.5"), has_comma("3.5"), has_comma("a,b")
    (True, True, False, False)
    """
    return re.fullmatch(r"\s*[+-]?[\d.]+(,[\d.]+)+(e[+-]?\d+)?\s*", text, re.IGNORECASE) is not None


def as_text(values: pa.Array) -> pa.Array:
    """Numbers as texts, where they serve as categories; whole ones are written as such."""
    if not pa.types.is_floating(values.type):
        return values.cast(pa.string())
    whole = pc.and_(pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), 2.0**53))
    digits = values.cast(pa.int64(), safe=False).cast(pa.string())
    return pc.if_else(whole, digits, values.cast(pa.string()))


def as_labels(texts: Iterable[str], stored: pa.DataType) -> list[Label]:
    """Classes as the values they were stored as; fractions stay texts, for they are no classes elsewhere."""
    array = pa.array(texts, pa.string())
    if pa.types.is_floating(stored) and not all(text.lstrip("-").isdigit() for text in array.to_pylist()):
        return array.to_pylist()
    typed = any(test(stored) for test in (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating))
    return array.cast(stored).to_pylist() if typed else array.to_pylist()


def as_narrow(labels: NDArray[Any], rows: pa.Table, column: str) -> NDArray[Any]:
    """Classes that are whole numbers with as many bits as in the column they come from."""
    stored = rows.schema.field(column).type
    return labels.astype(stored.to_pandas_dtype()) if pa.types.is_integer(stored) else labels


def as_numbers(values: pa.Array) -> Array | None:
    """Numbers with NaN for missing ones, or None if some text is no number."""
    with contextlib.suppress(pa.ArrowInvalid):
        return with_nan(values)
    with contextlib.suppress(pa.ArrowInvalid):  # space around a number costs time, and is rare
        return with_nan(trimmed(values))
    return None


def with_nan(values: pa.Array) -> Array:
    """Values or texts as numbers."""
    return pc.fill_null(values.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)


def trimmed(texts: pa.Array) -> pa.Array:
    """Texts without space around them, with missing ones as null."""
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(texts, pa.array(MISSING)), pa.scalar(None, pa.string()), texts)


def as_names(texts: pa.Array) -> pa.Array:
    """Trimmed texts in one spelling: true and false in small letters, whole numbers without a point."""
    texts = pc.replace_substring_regex(trimmed(texts), r"^([+-]?\d+)\.0*$", r"\1")
    is_flag = pc.is_in(texts, pa.array(["True", "TRUE", "False", "FALSE"]))
    return pc.if_else(is_flag, pc.utf8_lower(texts), texts)


def frame(names: Sequence[str], arrays: Sequence[Array]) -> pa.Table:
    """Arrays as a data frame that scikit-learn knows the column names of."""
    return pa.table(list(arrays), names=list(names))


# --- a sample -----------------------------------------------------------------------------------------


class Reservoir:
    """A uniform random sample of the rows of a table that is seen in pieces.

    Examples
    --------
    >>> reservoir = Reservoir(3, seed=0)
    >>> for start in (0, 10, 20):
    ...     places = np.arange(start, start + 10)
    ...     reservoir.add(pa.table({"value": places}), places)
    >>> rows, places = reservoir.sample()
    >>> reservoir.seen, rows.num_rows, rows["value"].to_pylist() == places.tolist()
    (30, 3, True)
    """

    def __init__(self, capacity: int, seed: int) -> None:
        # data is often made with default_rng(seed) too, and the sample must not depend on it
        self.capacity, self.random = capacity, np.random.default_rng([seed, STREAM])
        self.seen, self.held, self.limit = 0, 0, 1.0
        self.parts: list[tuple[Array, NDArray[np.int64], pa.Table]] = []  # keys, places and rows

    def add(self, rows: pa.Table, places: NDArray[np.int64]) -> None:
        """Each row draws a key; those with the smallest keys are the sample."""
        keys = self.random.random(rows.num_rows)
        kept = keys < self.limit
        self.parts.append((keys[kept], places[kept], rows.filter(pa.array(kept))))
        self.seen, self.held = self.seen + rows.num_rows, self.held + int(kept.sum())
        if self.held > 2 * self.capacity:
            self._shrink()

    def _shrink(self) -> None:
        keys, places = (np.concatenate([part[i] for part in self.parts]) for i in (0, 1))
        rows = pa.concat_tables(part[2] for part in self.parts)
        if keys.size > self.capacity:
            chosen = np.sort(np.argpartition(keys, self.capacity)[: self.capacity])
            keys, places, rows = keys[chosen], places[chosen], rows.take(pa.array(chosen))
            self.limit = float(keys.max())
        self.parts, self.held = [(keys, places, rows.combine_chunks())], keys.size

    def sample(self) -> tuple[pa.Table, NDArray[np.int64]]:
        """The rows and their places in the table, in the order in which they came."""
        self._shrink()
        return self.parts[0][2], self.parts[0][1]


# --- writing ------------------------------------------------------------------------------------------


class TableWriter:
    """Writes a table piece by piece; it appears all at once at the end, or not at all.

    Parameters
    ----------
    name
        The file, CSV or Parquet by its ending, with tabs for .tsv, or "-" for CSV on standard output.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_parquet = name != "-" and _is_parquet(Path(name), name)
        self.delimiter = "\t" if name.lower().endswith(".tsv") else ","
        self.write: Callable[[pa.Table], None]

    def __enter__(self) -> TableWriter:
        target = Path(os.path.realpath(self.name))
        folder = Path(tempfile.gettempdir()) if self.name == "-" else target.parent
        self.temporary = folder / f".{target.name}.{secrets.token_hex(8)}.tmp"
        try:
            self.file: BinaryIO = open(self.temporary, "xb")
        except OSError as error:
            raise TableError(
                f"{self.name} cannot be written: {error.strerror}; choose another place"
            ) from None
        self.parquet: Any = None
        self.started = False
        self.write = self._write_parquet if self.is_parquet else self._write_csv
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if self.parquet is not None:
                self.parquet.close()
            if kind is None:
                self._finish()
        finally:
            self.file.close()
            self.temporary.unlink(missing_ok=True)

    def _finish(self) -> None:
        self.file.flush()
        if self.name == "-":
            with open(self.temporary, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.flush()
        else:
            os.fsync(self.file.fileno())
            self.file.close()
            os.replace(self.temporary, os.path.realpath(self.name))

    def _write_parquet(self, rows: pa.Table) -> None:
        if self.parquet is None:
            self.parquet = parquet.ParquetWriter(self.file, rows.schema)
        self.parquet.write_table(rows)

    def _write_csv(self, rows: pa.Table) -> None:
        if not self.started:
            self._write_plainly([rows.column_names])
            self.started = True
        piece = pa.BufferOutputStream()
        options = arrow_csv.WriteOptions(include_header=False, quoting_style="none", delimiter=self.delimiter)
        try:
            arrow_csv.write_csv(rows, piece, options)
            self.file.write(piece.getvalue())
        except pa.ArrowInvalid:  # some cell needs quotes, and pyarrow would put them around every text
            columns = [column.to_pylist() for column in rows.columns]
            self._write_plainly(zip(*columns, strict=True))

    def _write_plainly(self, lines: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(lines)
        self.file.write(text.getvalue().encode())
