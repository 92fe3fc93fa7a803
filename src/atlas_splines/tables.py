"""Tables: CSV and Parquet in pieces of bounded size, and their columns as a model's inputs.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from atlas_splines.archives import Fields

__all__ = ["Column", "Encoding", "Reservoir", "Source", "Survey", "TableError", "TableWriter", "opened"]

Array = NDArray[np.float64]

BLOCK = 4 * 2**20  # bytes of a CSV file that are read at a time
ROWS = 50_000  # rows of a Parquet file that are read at a time
TEXT_ENDINGS, PARQUET_ENDINGS = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
DELIMITERS = ",;\t|"
MISSING = ["", "#N/A", "N/A", "n/a", "NA", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None"]
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b.*|\d{1,2}:\d{2}\b.*")

LEAVE_OUT = "leave the column out with --ignore"
DATES = (
    "dates and times are not understood; turn them into numbers, such as days since a start or the hour of "
    f"the day, or {LEAVE_OUT}"
)

MOST_ONE_HOT = 20  # categories that get a column each; more are put in an order
MOST_CATEGORIES = 10_000


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

    def fail(self, row: int | None, column: str, what: str) -> NoReturn:
        """Say what is wrong with a cell, or with a column."""
        where = f"column {column!r}" if row is None else f"row {row}, column {column!r}"
        raise TableError(f"{self.name}, {where}: {what}")

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
            cells = f"{wrong[0].actual_columns} cells instead of {wrong[0].expected_columns}"
            return f"{row} has {cells}; correct that row"
        if "UTF8" in str(error):
            return f" after row {rows} is not UTF-8; save it with that encoding"
        return f" after row {rows} cannot be read: {one_line(error)}; correct the file"


def _is_parquet(path: Path, name: str) -> bool:
    if path.suffix.lower() in PARQUET_ENDINGS:
        return True
    if path.suffix.lower() in TEXT_ENDINGS:
        return False
    raise TableError(
        f"{name} must end in .csv, .tsv, .txt, .parquet or .pq, which tells how to read or write it"
    )


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
            delimiter = max(DELIMITERS, key=start.count)
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


def listed(names: Collection[str], most: int = 12) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(map(repr, list(names)[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def one_line(error: object) -> str:
    """A message of a library as a part of a sentence."""
    return " ".join(str(error).split()).rstrip(".;")


# --- cells --------------------------------------------------------------------------------------------


def plain(source: Source, column: str, values: pa.ChunkedArray) -> pa.Array:
    """A column as float64 or as text, whatever it was stored as."""
    kind = values.type
    values = values.combine_chunks()
    if pa.types.is_dictionary(kind):
        values = values.dictionary_decode()
        kind = values.type
    if pa.types.is_boolean(kind):
        return values.cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.float64(), safe=False)
    if pa.types.is_null(kind):
        return values.cast(pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values.cast(pa.string())
    if pa.types.is_temporal(kind):
        source.fail(None, column, DATES)
    source.fail(None, column, f"values of type {kind} are not understood; {LEAVE_OUT}")


def as_numbers(values: pa.Array) -> Array | None:
    """Numbers with NaN for missing ones, or None if some text is no number."""
    if pa.types.is_floating(values.type):
        return with_nan(values)
    try:
        return with_nan(values.cast(pa.float64()))
    except pa.ArrowInvalid:
        pass
    try:
        return with_nan(trimmed(values).cast(pa.float64()))
    except pa.ArrowInvalid:
        return None


def with_nan(values: pa.Array) -> Array:
    return pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False)


def trimmed(texts: pa.Array) -> pa.Array:
    """Texts without space around them, with missing ones as null, and true and false in small letters."""
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.if_else(pc.is_in(texts, pa.array(MISSING)), pa.scalar(None, pa.string()), texts)
    is_flag = pc.is_in(texts, pa.array(["True", "TRUE", "False", "FALSE"]))
    return pc.if_else(is_flag, pc.utf8_lower(texts), texts)


def first_text(values: pa.Array) -> int:
    """Place of the first cell that is no number, by halving."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if as_numbers(values.slice(low, middle - low)) is None else (middle, high)
    return low


def numbers(source: Source, column: str, first_row: int, values: pa.Array) -> Array:
    """Finite numbers with NaN for missing ones, or a sentence about the cell that is none."""
    found = as_numbers(values)
    if found is None:
        at = first_text(values)
        source.fail(
            first_row + at, column, f"{values[at].as_py()!r} is not a number; correct it or leave it empty"
        )
    return finite(source, column, first_row, found)


def finite(source: Source, column: str, first_row: int, found: Array) -> Array:
    """The numbers, or a sentence about an infinite one."""
    if np.isinf(found).any():
        at = int(np.flatnonzero(np.isinf(found))[0])
        source.fail(first_row + at, column, "the number is infinite; correct it or leave it empty")
    return found


def codes(
    source: Source,
    column: str,
    first_row: int,
    values: pa.Array,
    categories: Sequence[str],
    known: bool = True,
) -> NDArray[np.int64]:
    """Place of each text among the categories, −1 for a missing one; unknown ones are refused or missing."""
    encoded = as_text(values).dictionary_encode()
    texts = trimmed(encoded.dictionary)
    places = pc.index_in(texts, pa.array(categories, pa.string()))
    unknown = pc.and_(pc.is_null(places), pc.is_valid(texts)).to_numpy(zero_copy_only=False)
    place = np.append(pc.fill_null(places, -1).to_numpy(zero_copy_only=False), -1).astype(np.int64)
    index = pc.fill_null(encoded.indices, len(texts)).to_numpy(zero_copy_only=False)
    if known and unknown.any():
        at = int(np.flatnonzero(np.append(unknown, False)[index])[0])
        source.fail(
            first_row + at, column, f"{values[at].as_py()!r} was not there in fit, which had {listed(categories, 6)}; "
            "correct it, or treat it as missing with --unknown missing",
        )  # fmt: skip
    return place[index]


def as_text(values: pa.Array) -> pa.Array:
    """Numbers as texts, where they serve as categories."""
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


# --- the survey before a fit --------------------------------------------------------------------------


class Survey:
    """Finds out, piece by piece, whether a column holds numbers or categories, and which.

    Parameters
    ----------
    source, column
        The table and the name of the column.
    category
        Whether to take it as categories in any case.
    option
        The option of the command that says so.
    """

    def __init__(self, source: Source, column: str, *, category: bool, option: str) -> None:
        self.source, self.column, self.forced, self.option = source, column, category, option
        self.is_text = category
        self.any_number = False
        self.categories: set[str] = set()

    def add(self, first_row: int, values: pa.Array) -> None:
        """See one piece."""
        found = None if self.is_text else as_numbers(values)
        if found is None:
            self.is_text = True
            self._add_texts(first_row, values)
        else:
            finite(self.source, self.column, first_row, found)
            self.any_number |= not np.isnan(found).all()

    def _add_texts(self, first_row: int, values: pa.Array) -> None:
        texts = {text for text in trimmed(as_text(values).unique()).to_pylist() if text is not None}
        new = texts - self.categories
        if not self.forced:
            if new and not self.categories and all(map(DATE.fullmatch, new)):
                self.source.fail(None, self.column, DATES)
            if self.any_number or any(map(is_number, new)):
                self._refuse_mixture(first_row, values)
        self.categories |= new
        if len(self.categories) > MOST_CATEGORIES:
            what = f"there are more than {MOST_CATEGORIES:,} different texts; {LEAVE_OUT}"
            self.source.fail(None, self.column, what)

    def _refuse_mixture(self, first_row: int, values: pa.Array) -> None:
        if as_numbers(values) is None:
            at, what = first_text(values), "is not a number, as other cells are"
        else:
            at, what = int(np.flatnonzero(values.is_valid())[0]), "is a number among texts"
        self.source.fail(
            first_row + at, self.column, f"{values[at].as_py()!r} {what}; correct it, leave it empty, or add {self.option}"
        )  # fmt: skip

    def column_of(self, rows: int) -> Column:
        """The column as a model's input, after a number of rows."""
        if not self.is_text:
            return Column(self.column)
        count = len(self.categories)
        if count > MOST_ONE_HOT and count > rows / 2:
            what = f"{count:,} of {rows:,} texts are different, so they tell nothing; {LEAVE_OUT}"
            self.source.fail(None, self.column, what)
        return Column(self.column, tuple(sorted(self.categories)) or None)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
        self.capacity, self.random = capacity, np.random.default_rng(seed)
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


# --- the encoding -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """How a column of a table becomes inputs of a model.

    A number is one input. Two categories are one input, 0 or 1, and halfway if missing. Up to 20 categories
    have an input each, 0 or 1, all 0 if missing. More are one input: their place in an order.

    Attributes
    ----------
    name
        Name of the column.
    categories
        Its categories in the order of their codes; None for numbers.
    """

    name: str
    categories: tuple[str, ...] | None = None

    @property
    def one_hot(self) -> bool:
        """Whether each category has an input of its own."""
        return self.categories is not None and 2 < len(self.categories) <= MOST_ONE_HOT

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        if self.one_hot:
            return [f"{self.name}={category}" for category in self.categories or ()]
        return [self.name]

    def encode(self, source: Source, first_row: int, values: pa.Array, known: bool) -> list[Array]:
        """Inputs, shape (rows,) each."""
        if self.categories is None:
            return [numbers(source, self.name, first_row, values)]
        code = codes(source, self.name, first_row, values, self.categories, known)
        if self.one_hot:
            return [(code == k).astype(np.float64) for k in range(len(self.categories))]
        missing = 0.5 if len(self.categories) <= 2 else np.nan
        return [np.where(code < 0, missing, code)]

    def ordered(self, code: NDArray[np.int64], target: Array) -> Column:
        """The column with many categories put in the order of their mean target; rare ones go to the middle."""
        if self.categories is None or len(self.categories) <= MOST_ONE_HOT:
            return self
        count = len(self.categories)
        rows = np.bincount(code[code >= 0], minlength=count)
        sums = np.bincount(code[code >= 0], target[code >= 0], minlength=count)
        means = np.where(rows > 0, sums / np.maximum(rows, 1), target.mean())
        return Column(self.name, tuple(self.categories[k] for k in np.argsort(means, kind="stable")))

    def covered(self, parts: list[list[tuple[float, float]]]) -> str:
        """What the intervals of its inputs mean in the column's own values."""
        if self.categories is None:
            return " and ".join(f"{low:.6g} to {high:.6g}" for low, high in parts[0]) or "nowhere"
        inside = [
            [any(low <= value <= high for low, high in part) for value in self._values] for part in parts
        ]
        if self.one_hot:  # a category is in if its input can be one, and all others can be zero
            zero, one = np.array(inside).T
            found = [bool(one[k] and np.delete(zero, k).all()) for k in range(len(self.categories))]
        else:
            found = inside[0]
        names = [name for name, there in zip(self.categories, found, strict=True) if there]
        return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "missing"

    @property
    def _values(self) -> range:
        """What an input can be."""
        return range(2) if self.one_hot else range(len(self.categories or ()))


@dataclass(frozen=True)
class Encoding:
    """How a table becomes inputs and targets; a part of the model's file.

    Attributes
    ----------
    columns
        The columns that are inputs.
    target
        Name of the target's column.
    classes
        Its classes, sorted; None for numbers.
    """

    columns: tuple[Column, ...]
    target: str
    classes: tuple[str, ...] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns that are inputs."""
        return [column.name for column in self.columns]

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return [name for column in self.columns for name in column.inputs]

    def encode(self, source: Source, first_row: int, piece: pa.Table, known: bool = True) -> pa.Table:
        """Inputs by name, all of them numbers; a missing one is NaN."""
        arrays: list[Array] = []
        for column in self.columns:
            values = plain(source, column.name, piece[column.name])
            arrays += column.encode(source, first_row, values, known)
        return pa.table(arrays, names=self.inputs)

    def targets(self, source: Source, first_row: int, piece: pa.Table, skip: bool) -> NDArray[Any]:
        """Targets: numbers or class labels; a missing one is refused, or NaN or None if it is to be skipped."""
        values = plain(source, self.target, piece[self.target])
        found: NDArray[Any]
        if self.classes is None:
            found = numbers(source, self.target, first_row, values)
            missing = np.isnan(found)
        else:
            code = codes(source, self.target, first_row, values, self.classes)
            found, missing = np.array([*self.classes, None], object)[code], code < 0
        if missing.any() and not skip:
            row = first_row + int(np.flatnonzero(missing)[0])
            source.fail(row, self.target, "the target is missing; fill it in, or add --skip-missing")
        return found

    def to_json(self) -> dict[str, Any]:
        """The encoding as JSON has it."""
        columns = [{"name": c.name, "categories": c.categories and list(c.categories)} for c in self.columns]
        return {"columns": columns, "target": self.target, "classes": self.classes and list(self.classes)}

    @classmethod
    def from_json(cls, value: object) -> Encoding:
        """Read `to_json`, or raise a ValueError that says what is wrong."""
        fields = Fields(value, "the table", ("columns", "target", "classes"))
        columns = [
            Fields(c, "a column of the table", ("name", "categories")) for c in fields.items("columns")
        ]
        return cls(
            tuple(Column(column.text("name"), _texts(column, "categories")) for column in columns),
            fields.text("target"),
            _texts(fields, "classes"),
        )


def _texts(fields: Fields, key: str) -> tuple[str, ...] | None:
    if fields.is_null(key):
        return None
    texts = fields.items(key)
    if not texts or any(type(text) is not str for text in texts) or len({*texts}) < len(texts):
        raise ValueError(f"{key!r} of {fields.name} must be different texts")
    return tuple(texts)


# --- writing ------------------------------------------------------------------------------------------


class TableWriter:
    """Writes a table piece by piece; it appears all at once at the end, or not at all.

    Parameters
    ----------
    name
        The file, CSV or Parquet by its ending, or "-" for CSV on standard output.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_parquet = name != "-" and _is_parquet(Path(name), name)
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
            if kind is None:
                self._finish()
        finally:
            self.file.close()
            self.temporary.unlink(missing_ok=True)

    def _finish(self) -> None:
        if self.parquet is not None:
            self.parquet.close()
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
        options = arrow_csv.WriteOptions(include_header=False, quoting_style="none")
        try:
            arrow_csv.write_csv(rows, piece, options)
            self.file.write(piece.getvalue())
        except pa.ArrowInvalid:  # some cell needs quotes, and pyarrow would put them around every text
            columns = [column.to_pylist() for column in rows.columns]
            self._write_plainly(zip(*columns, strict=True))

    def _write_plainly(self, lines: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(lines)
        self.file.write(text.getvalue().encode())
