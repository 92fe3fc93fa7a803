"""Files that are read as a whole, lines of JSON and Excel, as Parquet files that are read in pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json
import pyarrow.parquet as parquet

from atlas_splines.tables.dialects import Dialect
from atlas_splines.tables.wording import TableError, one_line

__all__ = ["WHOLE_ENDINGS", "as_parquet"]

JSON_ENDINGS, EXCEL_ENDINGS = (".jsonl", ".ndjson"), (".xlsx",)
WHOLE_ENDINGS = (*JSON_ENDINGS, *EXCEL_ENDINGS)


def as_parquet(path: Path, folder: Path, dialect: Dialect) -> Path:
    """Write a file again as Parquet, into a folder; returns the new one."""
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
    """A column with the type of its cells, or as texts if these have several types."""
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if cell != cell else str(cell) for cell in cells], pa.string())
