"""`atlas predict`: write a table again with its predictions beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.checks import (
    check_coverages,
    check_folder,
    check_knows_doubt,
    check_other,
    check_predictions,
    check_there,
)
from atlas_splines.cli.messages import Say
from atlas_splines.cli.model_files import load_table_model
from atlas_splines.cli.output import Facts
from atlas_splines.cli.predicted_files import is_several, write_folder, write_table
from atlas_splines.cli.rows import note_unused_columns
from atlas_splines.cli.scores import has_answer
from atlas_splines.cli.workers import Workers
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.estimators.table_model import TableModel
from atlas_splines.tables.cells import Cells
from atlas_splines.tables.encoding import UNKNOWN, frame
from atlas_splines.tables.reading import Piece, Table, TableError, opened
from atlas_splines.tables.wording import counted

__all__ = ["predict_table"]


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
    model = load_table_model(path)
    if coverages or support:
        check_knows_doubt(path, model.estimator, support)
    if output != "-" and not to_folder and not force:
        check_predictions(Path(output), predicted_name(model))
    with workers, opened(rows, model.encoding.dialect.told(**told)) as source:
        source.need(model.encoding.names)
        note_unused_columns(source, model.encoding, note)
        asked = Asked(model, probabilities, tuple(coverages), support, refuse_unknown)
        if to_folder:
            column = None if force else predicted_name(model)
            count = write_folder(asked, source, Path(output), column, workers)
        else:
            count = write_table(asked, source, output, workers)
    note(f"{counted(count, 'row')} predicted{'' if output == '-' else f', written to {output}'}.")
    return {"output": output, "rows": count, "columns": new_columns(model, probabilities, coverages, support)}


@dataclass(frozen=True)
class Asked:
    """What is asked of each piece of a table: its rows with predictions beside them."""

    model: TableModel
    probabilities: bool
    coverages: tuple[float, ...]
    support: bool
    refuse_unknown: bool

    def __call__(self, piece: Piece) -> Table:
        """The rows of a piece with new columns."""
        X = self.model.encoding.encode(piece, UNKNOWN if self.refuse_unknown else None)
        refuse_outside(self.model, piece, X)
        table = piece.table
        columns = prediction_columns(self.model, X, self.probabilities)
        columns |= doubt_columns(self.model, X, self.coverages, self.support)
        for name, values in columns.items():
            if name in piece.source.columns:
                raise TableError(f"{piece.source.name} has a column {name!r} already; rename it")
            table = table.append_column(name, [values])
        return table


def new_columns(
    model: TableModel, probabilities: bool, coverages: Sequence[float], support: bool
) -> list[str]:
    """Names of the columns that are added to a table."""
    middle = np.array([0.5])
    names = model.encoding.inputs
    X = frame(names, [model.estimator.domain_.to_raw(j, middle) for j in range(len(names))])
    columns = prediction_columns(model, X, probabilities)
    return [*columns, *doubt_columns(model, X, coverages, support)]


def predicted_name(model: TableModel) -> str:
    """Name of the column of predictions."""
    return f"{model.encoding.target}_predicted"


def prediction_columns(model: TableModel, X: Table, probabilities: bool) -> dict[str, NDArray[Any]]:
    """New columns by name: the prediction, and probabilities of classes."""
    estimator, target = model.estimator, model.encoding.target
    if isinstance(estimator, AtlasRegressor):
        return {predicted_name(model): estimator.predict(X)}
    shares = estimator.predict_proba(X)  # (rows, classes)
    columns = {
        predicted_name(model): estimator.classes_[shares.argmax(axis=1)],
        f"{target}_probability": shares.max(axis=1),
    }
    if probabilities:
        columns |= {f"{target}={label}": shares[:, k] for k, label in enumerate(estimator.classes_)}
    return columns


def doubt_columns(
    model: TableModel, X: Table, coverages: Sequence[float], support: bool
) -> dict[str, NDArray[Any]]:
    """More columns by name: ends of intervals, or sets of classes, for each coverage, and support."""
    estimator, target = model.estimator, model.encoding.target
    columns: dict[str, NDArray[Any]] = {}
    if coverages and isinstance(estimator, AtlasRegressor):
        low, high = estimator.predict_interval(X, coverages)  # (rows, coverages)
        for k, coverage in enumerate(coverages):
            columns |= {f"{target}_low_{coverage}": low[:, k], f"{target}_high_{coverage}": high[:, k]}
    elif coverages:
        sets = estimator.predict_set(X, coverages)  # (rows, classes, coverages)
        for k, coverage in enumerate(coverages):
            columns[f"{target}_set_{coverage}"] = set_names(estimator.classes_, sets[:, :, k])
    return columns | ({"support": estimator.support(X)} if support else {})


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


def refuse_outside(model: TableModel, piece: Piece, X: Table) -> None:
    """Name the first cell outside the domain, if the model was told not to extrapolate."""
    answered = has_answer(model.estimator, X)
    if answered.all():
        return
    row, columns = int(np.argmin(answered)), model.estimator.domain_
    ends = model.estimator.model_.domain  # (inputs, 2)
    point = columns.to_unit(np.asarray(X)[[row]])[0]
    j = int(np.argmax(point != point.clip(*ends.T)))
    name = next(c.name for c in model.encoding.columns if model.encoding.inputs[j] in c.inputs)
    known = model.estimator._domain_text(j)
    what = f"the model knows {known} only; teach it such rows with atlas update"
    Cells.of(piece, name).fail(row, what)
