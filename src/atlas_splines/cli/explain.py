"""`atlas explain` and `atlas blame`: why rows have their predictions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.files import check_absent, check_folder, check_picture, check_there, load_table_model
from atlas_splines.cli.output import Facts, Say
from atlas_splines.cli.predict import refuse_outside
from atlas_splines.cli.rows import note_unused_columns
from atlas_splines.estimators.contributions import blame_of, why_inputs
from atlas_splines.estimators.explained import View
from atlas_splines.estimators.table_model import Estimator, TableModel
from atlas_splines.explain.explanation import Blame, Explanation, ResidualScale
from atlas_splines.explain.report import row_report
from atlas_splines.explain.shapley import explained
from atlas_splines.files.writer import replace_file
from atlas_splines.tables.encoding import UNKNOWN
from atlas_splines.tables.source import Piece, TableError, opened
from atlas_splines.tables.wording import counted

__all__ = ["Rows", "blame_table", "explain_table", "why_table"]

MOST_LINES = 20  # rows that are told in words


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table as a model sees them: values as they were, encoded inputs and points."""

    data: NDArray[Any]
    inputs: NDArray[np.float64]
    points: NDArray[np.float64]


def explain_table(
    path: Path,
    rows: str,
    *,
    scale: ResidualScale = "link",
    plot: Path | None = None,
    html: Path | None = None,
    row: int = 1,
    told: Mapping[str, Any] = MappingProxyType({}),
    force: bool = False,
    echo: Say,
    note: Say,
) -> Facts:
    """Say what each column adds to the predictions of a table; draw it, or write a report of one row."""
    for output in (plot, html):
        if output is not None:
            check_folder(output)
            if not force:
                check_absent(output)
    if plot is not None:
        check_picture(plot)
    model, estimator, found = read_rows(path, rows, told, note)
    if html is not None and not 1 <= row <= len(found.points):
        raise TableError(f"{rows} has {counted(len(found.points), 'row')}, and --row asks for {row}")
    explanation = explanation_of(estimator, found, scale)
    if plot is not None:
        draw(explanation, plot)
    if html is not None:
        one = slice(row - 1, row)
        blame = blame_of(estimator._now(), found.points[one])
        title = f"{model.encoding.target} of row {row} of {rows}"
        replace_file(html, row_report(explanation[one], blame, title).encode("utf8"))
    for line in explanation[:MOST_LINES].lines(first=1):
        echo(line)
    if len(explanation) > MOST_LINES:
        note(f"{len(explanation) - MOST_LINES:,} more rows; --json has all of them")
    return explanation_facts(explanation)


def blame_table(
    path: Path, rows: str, *, told: Mapping[str, Any] = MappingProxyType({}), echo: Say, note: Say
) -> Facts:
    """Say what each update, and which rows, add to the predictions of a table."""
    _, estimator, found = read_rows(path, rows, told, note)
    shown = blame_of(estimator._now(), found.points)
    some = blame_of(estimator._now(), found.points[:MOST_LINES]) if len(shown) > MOST_LINES else shown
    for line in some.lines(first=1):
        echo(line)
    if len(shown) > MOST_LINES:
        note(f"{len(shown) - MOST_LINES:,} more rows; --json has all of them")
    return blame_facts(shown)


def why_table(first: TableModel, second: TableModel, rows: str, echo: Say) -> Facts:
    """Say which columns and which updates moved the predictions of a table between two versions."""
    pieces = list(pieces_of(second, rows, {}, None))
    inputs = np.vstack([each.inputs for each in pieces])
    found = why_inputs(
        first.for_frames(), second.for_frames(), inputs, np.vstack([each.data for each in pieces])
    )
    for line in found.lines(first=1)[: 3 * MOST_LINES]:
        echo(line)
    return {"columns": explanation_facts(found.columns), "updates": blame_facts(found.updates)}


def read_rows(
    path: Path, rows: str, told: Mapping[str, Any], note: Say
) -> tuple[TableModel, Estimator, Rows]:
    """A model and the rows of a table, which has to fit into memory."""
    check_there(path)
    model = load_table_model(path)
    pieces = list(pieces_of(model, rows, told, note))
    if not pieces:
        raise TableError(f"{rows} has no rows; check the file")
    parts = (np.vstack([getattr(each, name) for each in pieces]) for name in ("data", "inputs", "points"))
    return model, model.for_frames(), Rows(*parts)


def pieces_of(model: TableModel, rows: str, told: Mapping[str, Any], note: Say | None) -> Iterator[Rows]:
    """Rows of a table, piece by piece."""
    with opened(rows, model.encoding.dialect.with_options(**told)) as source:
        source.need(model.encoding.names)
        if note is not None:
            note_unused_columns(source, model.encoding, note)
        for piece in source.pieces(model.encoding.names):
            yield rows_of(model, piece)


def rows_of(model: TableModel, piece: Piece) -> Rows:
    """A piece of a table as a model sees it."""
    X = model.encoding.encode(piece, UNKNOWN)
    refuse_outside(model, piece, X)
    columns = [piece.table[name].to_pylist() for name in model.encoding.names]
    data = np.empty((piece.table.num_rows, len(columns)), object)
    for j, column in enumerate(columns):
        data[:, j] = column
    inputs = model.estimator._inputs(X)
    return Rows(data, inputs, model.estimator.domain_.to_unit(inputs))


def explanation_of(estimator: Estimator, rows: Rows, scale: ResidualScale) -> Explanation:
    """Why rows have their predictions."""
    view = View.of_points(estimator._now(), rows.points, rows.data, scale=scale)
    return view.explanation(view.shares(explained))


def draw(explanation: Explanation, plot: Path) -> None:
    """Draw an explanation."""
    from atlas_splines.plots.explanations import save_explanation  # it loads matplotlib

    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        draft = Path(folder) / plot.name
        save_explanation(draft, explanation)
        replace_file(plot, draft.read_bytes())


def explanation_facts(found: Explanation) -> Facts:
    """An explanation as JSON."""
    return {
        "columns": found.feature_names,
        "outputs": list(found.output_names),
        "values": found.values,
        "base_values": found.base_values,
        "predictions": found.predictions,
        "data": found.data,
        "unit": found.unit,
        "background": found.background,
        "exact": found.is_exact,
    }


def blame_facts(found: Blame) -> Facts:
    """A blame as JSON."""
    return {
        "contributions": list(found.names),
        "updates": list(found.updates),
        "values": found.values,
        "base_values": found.base_values,
        "rest": found.rest,
        "predictions": found.predictions,
        "row_values": found.row_values,
        "row_updates": found.row_updates,
        "row_numbers": found.row_numbers,
        "unit": found.unit,
    }
