"""`atlas predict`, for a table or a folder of tables."""

from __future__ import annotations

import glob
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import add, attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.files import (
    Estimator,
    check_coverages,
    check_folder,
    check_has_intervals,
    check_other,
    check_predictions,
    check_there,
    load_estimator,
)
from atlas_splines.cli.metrics import has_answer
from atlas_splines.cli.output import Facts, Say
from atlas_splines.cli.rows import note_unused_columns
from atlas_splines.cli.scan import Workers
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.tables.cells import Cells
from atlas_splines.tables.dialects import WHOLE_ENDINGS
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import UNKNOWN
from atlas_splines.tables.source import Piece, Source, Table, TableError, opened
from atlas_splines.tables.wording import counted
from atlas_splines.tables.writing import TableWriter, read_scratch, write_scratch

__all__ = ["is_several", "predict_table", "write_folder", "write_table"]

Predicted = Callable[[Piece], Table]


def is_several(rows: str) -> bool:
    """Whether a name is that of a folder or a pattern, which may have several files."""
    return Path(rows).is_dir() or (glob.has_magic(rows) and not Path(rows).exists())


def check_count(source: Source, rows: int) -> None:
    """Refuse a table without rows."""
    if not rows:
        raise TableError(f"{source.name} has no rows below its header; check the file")


# --- one table --------------------------------------------------------------------------------------------


def write_table(predicted: Predicted, source: Source, output: str, workers: Workers) -> int:
    """Write a table with its predictions; returns the number of its rows."""
    beside = None if output == "-" else Path(output).absolute().parent
    count = 0
    with TableWriter(output) as writer, tempfile.TemporaryDirectory(prefix=".atlas-", dir=beside) as folder:
        if workers.are_others:
            shares = source.shares(readers=workers.count)
            tables = in_order(workers.each(Keeping(predicted, Path(folder)), shares, add, "predicting"))
        else:
            tables = map(predicted, workers.counted_pieces("predicting", source))
        for table in tables:
            writer.write(table)
            count += table.num_rows
        check_count(source, count)
    return count


@dataclass(frozen=True)
class Kept:
    """Pieces that a worker has predicted, and keeps in a file until they are written in order."""

    path: Path
    places: Sequence[tuple[int, int]]
    batches: Sequence[int]


@dataclass(frozen=True)
class Keeping:
    """Predict pieces, and keep them in a folder."""

    predicted: Predicted
    folder: Path

    def __call__(self, pieces: Iterable[Piece]) -> list[Kept]:
        """What is kept of some pieces of a file."""
        path, places = self.folder / f"{secrets.token_hex(8)}.arrow", []

        def tables() -> Iterator[Table]:
            for piece in pieces:
                places.append(piece.place)
                yield self.predicted(piece)

        batches = write_scratch(path, tables())
        return [Kept(path, places, batches)] if places else []


def in_order(kept: Iterable[Kept]) -> Iterator[Table]:
    """Tables that workers have kept, in the order of their places."""
    for _, group in groupby(kept, lambda part: part.places[0][0]):  # those of one file come together
        parts = list(group)
        tables = [read_scratch(part.path, part.batches) for part in parts]
        for _, k in sorted((place, k) for k, part in enumerate(parts) for place in part.places):
            yield next(tables[k])


# --- a file for each file ---------------------------------------------------------------------------------


def write_folder(
    predicted: Predicted, source: Source, folder: Path, column: str | None, workers: Workers
) -> int:
    """Write each file of a table again into a folder, with its predictions; returns the number of rows.

    Files that are there are replaced if they have a column of this name; None is for any file.
    """
    files = source.parts or (source,)
    outputs = [folder / output_name(file.name) for file in files]
    check_outputs(source, outputs, column)
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".atlas-", dir=folder.absolute()) as scratch:
        asked = WritingFiles(predicted, [str(Path(scratch, output.name)) for output in outputs])
        if workers.are_others:
            count = workers.each(asked, source.shares(), add, "predicting")
        else:
            count = asked(workers.counted_pieces("predicting", source))
        check_count(source, count)
        for output in sorted(Path(scratch).iterdir()):  # all of them, once all are predicted
            os.replace(output, folder / output.name)
    return count


def output_name(name: str) -> str:
    """Name of the file with the predictions for a file.

    Examples
    --------
    >>> output_name("days/monday.csv.gz"), output_name("days/monday.jsonl")
    ('monday.csv', 'monday.parquet')
    """
    path = Path(name)
    return f"{path.stem}.parquet" if path.suffix.lower() in WHOLE_ENDINGS else path.name.removesuffix(".gz")


def check_outputs(source: Source, outputs: Sequence[Path], column: str | None) -> None:
    """Refuse to write two files to one, or over a file of the table, or over what has no such column."""
    for output, file in zip(outputs, source.parts or (source,), strict=True):
        if outputs.count(output) > 1:
            raise TableError(
                f"{source.name} has two files for {output}; give the name of one table to write them to"
            )
        check_other(file.name, output, "the predictions")
        if column is not None:
            check_predictions(output, column)


@dataclass(frozen=True)
class WritingFiles:
    """Predict pieces, and write those of each file to a file of its own."""

    predicted: Predicted
    outputs: Sequence[str]

    def __call__(self, pieces: Iterable[Piece]) -> int:
        """Number of the rows that were written."""
        count = 0
        for number, own in groupby(pieces, attrgetter("file")):
            with TableWriter(self.outputs[number]) as writer:
                for piece in own:
                    writer.write(self.predicted(piece))
                    count += piece.table.num_rows
        return count


def predict_table(
    path: Path,
    rows: str,
    output: str,
    *,
    probabilities: bool = False,
    told: Mapping[str, Any] = MappingProxyType({}),
    coverages: Sequence[float] = (),
    support: bool = False,
    refuse_unknown: bool = True,
    force: bool = False,
    workers: Workers,
    note: Say,
) -> Facts:
    """Write a table with its predictions beside it, and if wanted with how sure they are.

    `told` is what is said of its dialect.
    """
    check_there(path)
    check_coverages(coverages)
    to_folder = is_several(rows) and output != "-" and not Path(output).suffix
    if output != "-" and not to_folder:
        check_folder(Path(output))
        check_other(rows, Path(output), "the predictions")
        check_other(str(path), Path(output), "the predictions", "the model")
    model = load_estimator(path)
    if coverages or support:
        check_has_intervals(path, model, support)
    if output != "-" and not to_folder and not force:
        check_predictions(Path(output), predicted_name(model))
    with workers, opened(rows, model.encoding_.dialect.told(**told)) as source:
        source.need(model.encoding_.names)
        note_unused_columns(source, model.encoding_, note)
        asked = Task(model, probabilities, tuple(coverages), support, refuse_unknown)
        if to_folder:
            column = None if force else predicted_name(model)
            count = write_folder(asked, source, Path(output), column, workers)
        else:
            count = write_table(asked, source, output, workers)
    note(f"{counted(count, 'row')} predicted{'' if output == '-' else f', written to {output}'}.")
    return {"output": output, "rows": count, "columns": new_columns(model, probabilities, coverages, support)}


@dataclass(frozen=True)
class Task:
    """What is asked of each piece of a table: its rows with predictions beside them."""

    model: Estimator
    probabilities: bool
    coverages: tuple[float, ...]
    support: bool
    refuse_unknown: bool

    def __call__(self, piece: Piece) -> Table:
        """The rows of a piece with new columns."""
        X = self.model.encoding_.encode(piece, UNKNOWN if self.refuse_unknown else None)
        refuse_outside(self.model, piece, X)
        table = piece.table
        columns = prediction_columns(self.model, X, self.probabilities)
        columns |= uncertainty_columns(self.model, X, self.coverages, self.support)
        for name, values in columns.items():
            if name in piece.source.columns:
                raise TableError(f"{piece.source.name} has a column {name!r} already; rename it")
            table = table.append_column(name, [values])
        return table


def new_columns(
    model: Estimator, probabilities: bool, coverages: Sequence[float], support: bool
) -> list[str]:
    """Names of the columns that are added to a table."""
    middle = np.array([0.5])
    names = model.encoding_.inputs
    X = EncodedRows(np.column_stack([model.domain_.to_raw(j, middle) for j in range(len(names))]))
    columns = prediction_columns(model, X, probabilities)
    return [*columns, *uncertainty_columns(model, X, coverages, support)]


def predicted_name(model: Estimator) -> str:
    """Name of the column of predictions."""
    return f"{model.encoding_.target}_predicted"


def prediction_columns(model: Estimator, X: EncodedRows, probabilities: bool) -> dict[str, NDArray[Any]]:
    """New columns by name: the prediction, and probabilities of classes."""
    target = model.encoding_.target
    if isinstance(model, AtlasRegressor):
        return {predicted_name(model): model.predict(X)}
    shares = model.predict_proba(X)  # (rows, classes)
    columns = {
        predicted_name(model): model.classes_[shares.argmax(axis=1)],
        f"{target}_probability": shares.max(axis=1),
    }
    if probabilities:
        columns |= {f"{target}={label}": shares[:, k] for k, label in enumerate(model.classes_)}
    return columns


def uncertainty_columns(
    model: Estimator, X: EncodedRows, coverages: Sequence[float], support: bool
) -> dict[str, NDArray[Any]]:
    """More columns by name: ends of intervals, or sets of classes, for each coverage, and support."""
    target = model.encoding_.target
    columns: dict[str, NDArray[Any]] = {}
    if coverages and isinstance(model, AtlasRegressor):
        low, high = model.predict_interval(X, coverages)  # (rows, coverages)
        for k, coverage in enumerate(coverages):
            columns |= {f"{target}_low_{coverage}": low[:, k], f"{target}_high_{coverage}": high[:, k]}
    elif coverages:
        sets = model.predict_set(X, coverages)  # (rows, classes, coverages)
        for k, coverage in enumerate(coverages):
            columns[f"{target}_set_{coverage}"] = set_names(model.classes_, sets[:, :, k])
    return columns | ({"support": model.support(X)} if support else {})


def set_names(classes: NDArray[Any], sets: NDArray[np.bool_]) -> NDArray[np.str_]:
    """Names of the classes of each row, with a bar between them, shape (rows,).

    Examples
    --------
    >>> set_names(np.array(["no", "yes"]), np.array([[True, False], [True, True]])).tolist()
    ['no', 'no|yes']
    """
    distinct, which = np.unique(sets, axis=0, return_inverse=True)
    names = ["|".join(str(label) for label in classes[held]) for held in distinct]
    return np.array(names)[which.ravel()]


def refuse_outside(model: Estimator, piece: Piece, X: EncodedRows) -> None:
    """Name the first cell outside the domain, if the model was told not to extrapolate."""
    answered = has_answer(model, X)
    if answered.all():
        return
    row, columns = int(np.argmin(answered)), model.domain_
    ends = model.model_.domain  # (inputs, 2)
    point = columns.to_unit(X.values[[row]])[0]
    j = int(np.argmax(point != point.clip(*ends.T)))
    name = next(c.name for c in model.encoding_.columns if model.encoding_.inputs[j] in c.inputs)
    known = model._domain_text(j)
    what = f"the model knows {known} only; teach it such rows with atlas update"
    Cells.of(piece, name).fail(row, what)
