"""Rows of tables as commands read them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.files import Estimator, table_of
from atlas_splines.cli.output import Say
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import Encoding
from atlas_splines.tables.source import Piece, Source, TableError, opened
from atlas_splines.tables.wording import listed

__all__ = [
    "LabelledRows",
    "Labels",
    "RowReader",
    "note_placeholders",
    "note_unused_columns",
    "read_table",
    "sample_size",
    "tables_in",
]

Labels = NDArray[Any]

# Rows that are held in memory and learned from at once, at most.
SAMPLE_ROWS = 50_000

# Cells of these rows, at most: there are fewer rows if they are long.
SAMPLE_CELLS = 8_000_000

# Texts that often stand for missing values, in small letters, and are not read as such unasked.
PLACEHOLDERS = ("?", "-", "--", ".", "na", "n/a", "nan", "<na>", "null")


def sample_size(columns: int) -> int:
    """Rows that a sample of a table with so many columns has at most."""
    return min(SAMPLE_ROWS, SAMPLE_CELLS // columns)


@dataclass(frozen=True)
class LabelledRows:
    """Rows of a piece that have a target: inputs, targets, and their numbers in the table, from 1."""

    X: EncodedRows
    y: Labels
    numbers: NDArray[np.int64]

    def without(self, numbers: NDArray[np.int64]) -> LabelledRows:
        """Those rows that have other numbers."""
        others = ~np.isin(self.numbers, numbers)
        return LabelledRows(self.X[others], self.y[others], self.numbers[others])


@dataclass(frozen=True)
class RowReader:
    """How a piece of a table becomes inputs and targets.

    Attributes
    ----------
    encoding
        Of the table.
    skip_missing
        Whether rows without a target are left out, or else refused.
    unknown
        What to do about a category that was not there in fit, or None to treat it as missing.
    there_are
        Columns that the table has, if it lacks some: these are missing.
    """

    encoding: Encoding
    skip_missing: bool
    unknown: str | None
    there_are: tuple[str, ...] | None = None

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        names = self.encoding.names if self.there_are is None else self.there_are
        return [*names, self.encoding.target]

    def there(self, piece: Piece) -> NDArray[np.bool_]:
        """Which rows of a piece have a target."""
        return self.encoding.targets(piece, self.skip_missing)[1]

    def __call__(self, piece: Piece) -> LabelledRows:
        """Rows of a piece."""
        targets, there = self.encoding.targets(piece, self.skip_missing)
        X = self.encoding.encode(piece, self.unknown)[there]
        return LabelledRows(X, targets[there], piece.row_numbers[there])


def note_unused_columns(source: Source, encoding: Encoding, note: Say, others: Collection[str] = ()) -> None:
    """Tell which columns of a table are neither inputs, nor others that are used, nor the target."""
    used = {*encoding.names, encoding.target, *source.index, *others}
    unused = [name for name in source.columns if name not in used]
    if unused:
        note(f"{source.name}: not used: {listed(unused)}")


def note_placeholders(source: Source, learned: Mapping[str, Collection[object]], note: Say) -> None:
    """Tell which categories and classes of columns look as if they stood for missing values."""
    for name, texts in learned.items():
        for text in texts:
            is_sign = text == "-" and "+" in texts
            if str(text).lower() in PLACEHOLDERS and not is_sign:
                note(
                    f"{source.name}, column {name!r}: {text!r} is taken as a value like any other; "
                    f"if it stands for a missing one, add --na {text!r}"
                )


OTHERS = (".atlas", ".patch", ".json", ".onnx", ".lock")  # endings of files that are no tables


def tables_in(folder: Path, model: Estimator, note: Say) -> Iterator[tuple[EncodedRows, Labels]]:
    """Inputs and targets of each table of a folder; one that does not suit is named and left out."""
    if not folder.is_dir():
        raise TableError(f"{folder} is no folder; give the one with the tables of the updates")
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix not in OTHERS and not path.name.startswith("."):
            try:
                with opened(str(path), model.encoding_.dialect) as source:
                    yield read_table(source, model)
            except TableError as error:
                note(f"{path} was passed over: {error}")


def names_of_fit(model: Estimator) -> list[str]:
    """Columns that the fit had: tables from before others came lack these."""
    ledger = model._current_ledger
    came = () if ledger is None else ledger.columns
    return model.encoding_.names[: len(model.encoding_.names) - len(came)]


def read_table(source: Source, model: Estimator) -> tuple[EncodedRows, Labels]:
    """Inputs and targets of a table, without rows that lack a target; new categories are missing ones."""
    encoding = table_of(model)
    of_fit = names_of_fit(model)
    source.need([*of_fit, encoding.target])
    there = tuple(name for name in encoding.names if name in source.columns)
    row_reader = RowReader(encoding, skip_missing=True, unknown=None, there_are=there)
    pieces = list(map(row_reader, source.pieces(row_reader.columns)))
    if not pieces:
        raise TableError(f"{source.name} has no rows; check the file")
    X = np.vstack([model._inputs(rows.X) for rows in pieces])
    return EncodedRows(X), np.concatenate([rows.y for rows in pieces])
