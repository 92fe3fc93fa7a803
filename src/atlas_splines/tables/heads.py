"""Heads: what the name of a file, its first lines or its schema tell of a table."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as parquet

from atlas_splines.tables.dialects import BLANKS, Dialect
from atlas_splines.tables.whole_files import numbered
from atlas_splines.tables.wording import TableError, one_line

__all__ = [
    "DELIMITERS",
    "PARQUET_ENDINGS",
    "TEXT_ENDINGS",
    "csv_head",
    "is_parquet",
    "parquet_head",
    "text_of",
    "with_single_blanks",
]

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
    raise TableError(f"{name} must end in .csv, .tsv, .txt, .parquet or .pq, which tells its format")


def parquet_head(path: Path, name: str) -> tuple[list[str], list[str], list[str]]:
    """Names of the columns, of those that were stored as categories, and of those that are an index."""
    try:
        schema = typed = parquet.read_schema(path)
        stored = (parquet.read_metadata(path).metadata or {}).get(b"ARROW:schema")
    except pa.ArrowException as error:
        raise TableError(f"{name} is not a Parquet file: {one_line(error)}; check the file") from None
    if stored is not None:  # types that were written: of categories, Parquet itself knows texts only
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
