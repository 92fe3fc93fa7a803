"""File dialects: format, separator and column names, from the file name, its first lines or its schema."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.json as arrow_json
import pyarrow.parquet as parquet

from atlas_splines.files.fields import Fields
from atlas_splines.tables.wording import TableError, one_line

__all__ = [
    "BLANKS",
    "DELIMITERS",
    "PARQUET_ENDINGS",
    "PLAIN",
    "TEXT_ENDINGS",
    "WHOLE_ENDINGS",
    "Dialect",
    "as_parquet",
    "csv_head",
    "is_parquet",
    "parquet_head",
    "text_of",
    "with_single_blanks",
]

# A separator that stands for any number of spaces and tabs.
BLANKS = " "
SPELLED_SEPARATORS = {"tab": "\t", r"\t": "\t", "blank": BLANKS, "blanks": BLANKS, "space": BLANKS}


@dataclass(frozen=True)
class Dialect:
    """How a table is written.

    Attributes
    ----------
    separator
        What separates the cells of a text file: one character, a space for any number of spaces and tabs, or
        "" to find out.
    header
        Whether the first row has the names of columns; if not, these are numbered from 1.
    missing
        What stands for a missing value, besides empty cells, NA and the like.
    decimal
        The decimal mark, "." or ","; with a comma, points between thousands are left out.
    """

    separator: str = ""
    header: bool = True
    missing: tuple[str, ...] = ()
    decimal: str = "."

    def with_options(
        self,
        separator: str | None = None,
        header: bool | None = None,
        missing: Sequence[str] = (),
        decimal: str | None = None,
    ) -> Dialect:
        r"""The dialect with a user's options; those that are None stay.

        Examples
        --------
        >>> Dialect(missing=("?",)).with_options(separator="tab")
        Dialect(separator='\t', header=True, missing=('?',), decimal='.')
        """
        options = {
            "separator": None if separator is None else SPELLED_SEPARATORS.get(separator, separator),
            "header": header,
            "missing": tuple(dict.fromkeys(text.strip() for text in missing)) or None,
            "decimal": decimal,
        }
        new = replace(self, **{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]
        new.check()
        return new

    def check(self) -> None:
        """Raise if an option is invalid."""
        if len(self.separator) > 1 or self.separator in ('"', "\n", "\r"):
            raise TableError(
                f"--separator must be one character, tab or blank, not {self.separator!r}; correct it"
            )
        if self.decimal not in (".", ","):
            raise TableError(f"--decimal must be a point or a comma, not {self.decimal!r}; correct it")
        if self.decimal == self.separator:
            raise TableError(f"{self.decimal!r} cannot be separator and decimal mark at once; correct one")

    def to_json(self) -> dict[str, Any]:
        """The dialect as JSON has it."""
        return {**asdict(self), "missing": list(self.missing)}

    @classmethod
    def from_json(cls, value: object) -> Dialect:
        """Read `to_json`, or raise a ValueError with a clear message."""
        fields = Fields(value, "the dialect of the table", ("separator", "header", "missing", "decimal"))
        missing = fields.items("missing")
        if any(type(text) is not str for text in missing):
            raise ValueError(f"'missing' of {fields.name} must be strings")
        dialect = cls(fields.text("separator"), fields.flag("header"), tuple(missing), fields.text("decimal"))
        dialect.check()
        return dialect


# The default dialect.
PLAIN = Dialect()


JSON_ENDINGS, EXCEL_ENDINGS = (".jsonl", ".ndjson"), (".xlsx",)
WHOLE_ENDINGS = (*JSON_ENDINGS, *EXCEL_ENDINGS)


def as_parquet(path: Path, folder: Path, dialect: Dialect) -> Path:
    """Convert a file to Parquet in a folder; returns the path."""
    try:
        if path.suffix.lower() in JSON_ENDINGS:
            table = arrow_json.read_json(path)
        else:
            table = excel_table(path, dialect)
    except TableError:
        raise
    except (pa.ArrowException, ValueError, KeyError, OSError) as error:
        raise TableError(f"{path} cannot be read: {one_line(error)}; check the file") from None
    copy = folder / "table.parquet"
    parquet.write_table(table, copy)
    return copy


def excel_table(path: Path, dialect: Dialect) -> pa.Table:
    """The first sheet of an Excel file."""
    header = 0 if dialect.header else None
    try:
        import pandas

        sheet = pandas.read_excel(path, header=header, keep_default_na=False, na_values=[""])
    except ImportError:
        needs = "reading Excel needs more packages; install them with: pip install 'atlas-splines[excel]'"
        raise TableError(f"{path}: {needs}") from None
    names = [str(name).strip() for name in sheet.columns] if dialect.header else numbered(sheet.shape[1])
    return pa.table([excel_column(sheet.iloc[:, j]) for j in range(len(names))], names=names)


def numbered(count: int) -> list[str]:
    """Names of columns that have none: their numbers, from 1."""
    return [str(k + 1) for k in range(count)]


def excel_column(cells: Any) -> pa.Array:
    """A column with the type of its cells, or as strings if these have several types."""
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if cell != cell else str(cell) for cell in cells], pa.string())


TEXT_ENDINGS, PARQUET_ENDINGS = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
DELIMITERS = ",;\t|"
OUTSIDE_QUOTES = re.compile(r'("[^"]*"?)|[ \t]+')
UNNAMED_INDEX = re.compile(r"__index_level_\d+__")


def is_parquet(path: Path, name: str) -> bool:
    """Whether a table is Parquet, and not CSV, by the ending of its name."""
    if path.suffix.lower() in PARQUET_ENDINGS:
        return True
    if path.name.lower().removesuffix(".gz").endswith(TEXT_ENDINGS):
        return False
    raise TableError(f"{name} must end in .csv, .tsv, .txt, .parquet or .pq, which determines its format")


def parquet_head(path: Path, name: str) -> tuple[list[str], list[str], list[str]]:
    """Names of the columns, of those that were stored as categories, and of those that are an index."""
    try:
        schema = typed = parquet.read_schema(path)
        stored = (parquet.read_metadata(path).metadata or {}).get(b"ARROW:schema")
    except pa.ArrowException as error:
        raise TableError(f"{name} is not a Parquet file: {one_line(error)}; check the file") from None
    if stored is not None:  # the Arrow types: Parquet itself stores categories as strings
        typed = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(stored)))
    categories = [field.name for field in typed if pa.types.is_dictionary(field.type)]
    return list(schema.names), categories, index_columns(schema)


def index_columns(schema: pa.Schema) -> list[str]:
    """Columns that pandas has written for an index without a name."""
    try:
        index = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return [name for name in index if isinstance(name, str) and UNNAMED_INDEX.fullmatch(name)]
    except (ValueError, KeyError, TypeError):
        return []


def csv_head(path: Path, name: str, dialect: Dialect) -> tuple[list[str], str, int]:
    """Names of the columns, the delimiter, and the number of lines they take.

    The first column may have the name "", which pandas writes above an index.
    """
    with text_of(path) as file:
        try:
            start = file.readline()
            if not start.strip():
                raise TableError(f"{name} is empty or starts with an empty line; begin with the column names")
            marks = DELIMITERS.replace(dialect.decimal, "")
            delimiter = dialect.separator or max(marks, key=re.sub('"[^"]*"', "", start).count)
            file.seek(0)
            lines = map(with_single_blanks, file) if delimiter == BLANKS else file
            reader = csv.reader(lines, delimiter=delimiter)
            header = [column.strip() for column in next(reader)]
        except UnicodeDecodeError:
            raise TableError(f"{name} is not UTF-8; save it with that encoding") from None
        except csv.Error as error:
            raise TableError(f"{name} has no readable header: {error}; correct its first line") from None
    if not dialect.header:
        return numbered(len(header)), delimiter, 0
    if not all(header[1:]):
        raise TableError(f"{name} has no name for column {header.index('', 1) + 1}; give each column a name")
    return header, delimiter, reader.line_num


def with_single_blanks(line: str) -> str:
    """A line with one space wherever spaces and tabs are, but as it is inside quotes."""
    return OUTSIDE_QUOTES.sub(lambda found: found[1] or " ", line.strip())


def text_of(path: Path) -> IO[str]:
    """A text file, compressed or not."""
    if path.suffix.lower() == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")
