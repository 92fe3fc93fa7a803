"""`atlas evaluate`: the error of a model, or of two, on any table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.files import Estimator, check_there, load_estimator, table_of
from atlas_splines.cli.metrics import Score, has_answer
from atlas_splines.cli.output import Facts, Progress, Say, aligned
from atlas_splines.cli.rows import Labels
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.model.atlas import state_of
from atlas_splines.tables.cells import Cells, as_names
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import UNKNOWN
from atlas_splines.tables.source import Located, Source, TableError
from atlas_splines.tables.wording import counted
from atlas_splines.updates.intervals import error_model_of

__all__ = ["evaluate_model"]

COVERAGE = 0.9  # of the intervals, or sets of classes, that rows are looked for in
MOST_GROUPS = 100
HEADS = {  # of facts that are not called so in tables
    "accuracy": "right",
    "mae": "MAE",
    "rmse": "RMSE",
    "r2": "R²",
    "rmse_of_mean": "the mean alone",
    "log_loss": "log loss",
    "log_loss_of_frequencies": "frequencies alone",
    "inside": f"in {COVERAGE:.0%} intervals",
}
HEADS_OF_CLASSES = {**HEADS, "inside": f"in {COVERAGE:.0%} sets"}
ALL, MISSING = "all", "missing"


def evaluate_model(
    path: Path,
    data: str,
    *,
    by: str | None = None,
    against: Path | None = None,
    skip_missing: bool = False,
    told: Mapping[str, Any] = MappingProxyType({}),
    refuse_unknown: bool = True,
    echo: Say,
    progress: Progress,
) -> Facts:
    """Say how well a model predicts a table, and a second one if it is given; for each value of a column."""
    paths = [path] if against is None else [path, against]
    for each in paths:
        check_there(each)
    models = [load_estimator(each) for each in paths]
    if len({model.encoding_.target for model in models}) > 1:
        names = " and ".join(repr(model.encoding_.target) for model in models)
        raise TableError(f"the models predict {names}; compare models of the same target")
    with Located(data) as located:
        found = []
        for model in models:
            source = located.read(model.encoding_.dialect.told(**told))
            found.append(graded(model, source, by, skip_missing, refuse_unknown, progress))
        name = source.name
    rows = found[0][ALL].score.rows + found[0][ALL].score.outside
    echo(f"{name}: {counted(rows, 'row')}, target {models[0].encoding_.target!r}.")
    for line in aligned(cells_of(paths, found, by)):
        echo(line)
    return facts_of(name, models[0].encoding_.target, by, paths, found)


@dataclass
class Grade:
    """The error on some rows, and how many of them lie in intervals."""

    score: Score = field(default_factory=Score)
    inside: int | None = None  # None if the model knows no intervals

    def add(self, estimator: Estimator, X: EncodedRows, y: Labels) -> None:
        """Take in some rows."""
        self.score.add(estimator, X, y)
        there = has_answer(estimator, X)
        if error_model_of(state_of(estimator.model_)) is not None and there.any():
            held = rows_inside(estimator, X[there], y[there])
            self.inside = (self.inside or 0) + int(held.sum())

    @property
    def facts(self) -> dict[str, float]:
        """Every error by its name."""
        known = {} if self.inside is None else {"inside": self.inside / self.score.rows}
        return {**self.score.facts, **known}


def rows_inside(estimator: Estimator, X: EncodedRows, y: Labels) -> NDArray[np.bool_]:
    """Which targets lie in their interval, or in their set of classes, shape (rows,)."""
    if isinstance(estimator, AtlasClassifier):
        sets = estimator.predict_set(X, coverage=COVERAGE)  # (rows, classes)
        return np.asarray(sets[np.arange(len(y)), np.searchsorted(estimator.classes_, y)])
    low, high = estimator.predict_interval(X, coverage=COVERAGE)
    return np.asarray((y >= low) & (y <= high))


def graded(
    model: Estimator,
    source: Source,
    by: str | None,
    skip_missing: bool,
    refuse_unknown: bool,
    progress: Progress,
) -> dict[str, Grade]:
    """The grade of a model on all rows, and on those with each value of a column."""
    encoding = table_of(model)
    source.need([*encoding.names, encoding.target, *([] if by is None else [by])])
    grades = {ALL: Grade()}
    pieces = grouped_pieces(model, source, by, skip_missing, refuse_unknown)
    for X, y, values in progress.counted("predicting", pieces, lambda piece: len(piece[1])):
        grades[ALL].add(model, X, y)
        for value in [] if values is None else np.unique(values).tolist():
            its = values == value
            grades.setdefault(f"{by}={value}", Grade()).add(model, X[its], y[its])
        if len(grades) > MOST_GROUPS + 1:
            raise TableError(
                f"{source.name}: column {by!r} has more than {MOST_GROUPS} values; give one with fewer"
            )
    if not grades[ALL].score.rows + grades[ALL].score.outside:
        raise TableError(f"{source.name} has no rows with a target below its header; check the file")
    return {ALL: grades.pop(ALL), **dict(sorted(grades.items(), key=lambda item: in_order(item[0])))}


def in_order(group: str) -> tuple[float, str]:
    """Numbers by their size, then texts by the alphabet."""
    text = group.partition("=")[2]
    try:
        return float(text), ""
    except ValueError:
        return np.inf, text


def grouped_pieces(
    model: Estimator, source: Source, by: str | None, skip_missing: bool, refuse_unknown: bool
) -> Iterator[tuple[EncodedRows, Labels, NDArray[np.object_] | None]]:
    """Inputs and targets of a table, piece by piece, and the texts of a column."""
    encoding = table_of(model)
    names = dict.fromkeys([*encoding.names, encoding.target, *([] if by is None else [by])])
    for piece in source.pieces([*names]):
        y, there = encoding.targets(piece, skip_missing)
        X = encoding.encode(piece, UNKNOWN if refuse_unknown else None)
        values = None
        if by is not None:
            texts = as_names(Cells.of(piece, by).texts).fill_null(MISSING)
            values = np.array(texts.to_pylist(), object)[there]
        yield X[there], y[there], values


def cells_of(paths: list[Path], found: list[dict[str, Grade]], by: str | None) -> list[list[str]]:
    """Cells of the table that is printed: a line for each group and model."""
    names = list(found[0][ALL].facts)
    of_classes = found[0][ALL].score.of_classes
    heads = [(HEADS_OF_CLASSES if of_classes else HEADS).get(name, name) for name in names]
    lines = [[*(["model"] if len(paths) > 1 else []), *([by] if by else []), *heads]]
    others = {group for grades in found for group in grades} - {ALL}  # models may read cells differently
    for group in [ALL, *sorted(others, key=in_order)]:
        for path, grades in zip(paths, found, strict=True):
            if group not in grades:
                continue
            facts = grades[group].facts
            cells = [fact_text(name, facts[name]) if name in facts else "" for name in names]
            who = [str(path)] if len(paths) > 1 else []
            which = [group if group == ALL else group.partition("=")[2]] if by else []
            lines.append([*who, *which, *cells])
    return lines


def fact_text(name: str, value: float) -> str:
    """A fact as it is printed."""
    if name == "rows":
        return f"{value:,}"
    return f"{value:.2%}" if name in ("accuracy", "inside") else f"{value:.4g}"


def facts_of(
    name: str, target: str, by: str | None, paths: list[Path], found: list[dict[str, Grade]]
) -> Facts:
    """What was found, by name."""
    models = []
    for path, grades in zip(paths, found, strict=True):
        entry: dict[str, Any] = {"model": path, **grades[ALL].facts}
        if by is not None:
            parts = [(group, grade) for group, grade in grades.items() if group != ALL]
            entry["by"] = [{"value": group.partition("=")[2], **grade.facts} for group, grade in parts]
        models.append(entry)
    return {"table": name, "target": target, "column": by, "models": models}
