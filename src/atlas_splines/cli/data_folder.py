"""The tables that a model has learned, found in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from atlas_splines.cli.messages import Say
from atlas_splines.cli.rows import Labelling, Labels
from atlas_splines.estimators.table_model import TableModel
from atlas_splines.tables.encoding import frame
from atlas_splines.tables.reading import Source, Table, TableError, opened

__all__ = ["read_table", "tables_in"]

OTHERS = (".atlas", ".patch", ".json", ".onnx", ".lock")  # endings of files that are no tables


def tables_in(folder: Path, model: TableModel, note: Say) -> Iterator[tuple[Table, Labels]]:
    """Inputs and targets of each table of a folder; one that does not suit is named and left out."""
    if not folder.is_dir():
        raise TableError(f"{folder} is no folder; give the one with the tables of the updates")
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix not in OTHERS and not path.name.startswith("."):
            try:
                with opened(str(path), model.encoding.dialect) as source:
                    yield read_table(source, model)
            except TableError as error:
                note(f"{path} was passed over: {error}")


def names_of_fit(model: TableModel) -> list[str]:
    """Columns that the fit had: tables from before others came lack these."""
    ledger = model.estimator._current_ledger
    came = () if ledger is None else ledger.columns
    return model.encoding.names[: len(model.encoding.names) - len(came)]


def read_table(source: Source, model: TableModel) -> tuple[Table, Labels]:
    """Inputs and targets of a table, without rows that lack a target; new categories are missing ones."""
    encoding = model.encoding
    of_fit = names_of_fit(model)
    source.need([*of_fit, encoding.target])
    there = tuple(name for name in encoding.names if name in source.columns)
    labelling = Labelling(encoding, skip_missing=True, unknown=None, there_are=there)
    pieces = list(map(labelling, source.pieces(labelling.columns)))
    if not pieces:
        raise TableError(f"{source.name} has no rows; check the file")
    columns = np.vstack([model.estimator._inputs(rows.X) for rows in pieces])
    return frame(encoding.inputs, list(columns.T)), np.concatenate([rows.y for rows in pieces])
