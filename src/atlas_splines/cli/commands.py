"""What the `atlas` command does with tables and model files; `cli` has its options.

Each command tells what it did through `say`, one line at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.model import Atlas
from atlas_splines.core.records import Record
from atlas_splines.core.training import TrainingDiverged
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.column_footprint import SLOPE_STEP, ColumnFootprint
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.files.archive import LockedError, StorageError, naming
from atlas_splines.memory.footprints import BoxFootprint
from atlas_splines.memory.log import Consolidation, Update
from atlas_splines.memory.plans import Retention
from atlas_splines.storage.saving import load, lock, save
from atlas_splines.tables.encoding import (
    MOST_CLASSES,
    MOST_ONE_HOT,
    UNKNOWN,
    Column,
    Encoding,
    Survey,
    within,
)
from atlas_splines.tables.reading import (
    LEAVE_OUT,
    STREAM,
    Cells,
    Label,
    Reservoir,
    Source,
    Table,
    TableError,
    TableWriter,
    as_narrow,
    counted,
    listed,
    opened,
)

__all__ = ["export", "fit", "inspect", "predict", "revert", "update"]

Say = Callable[[str], None]
Estimator = AtlasRegressor | AtlasClassifier
Labels = NDArray[Any]

SAMPLE_ROWS, SAMPLE_CELLS = 50_000, 8_000_000  # at most so many are held in memory and learned from at once
TEST_SHARE = 0.1  # of the sample of a larger table, kept aside to judge by
RANDOM_ROWS = 20_000  # to measure a footprint with
EVERYTHING = "100.00%"  # of the domain
REMINDER = 4  # a piece of a table is learned together with a sample of a quarter of its size


@dataclass
class Score:
    """Error over rows that are seen in pieces, in the units of the target.

    A model that must not extrapolate says nothing of rows outside its domain: they are only counted.
    """

    rows: int = 0
    outside: int = 0
    absolute: float = 0.0
    squared: float = 0.0
    right: int = 0
    of_classes: bool = False

    def add(self, estimator: Estimator, X: Table, y: Labels) -> Score:
        """Take in the predictions for one piece."""
        inside = answered(estimator, X)
        self.outside += int((~inside).sum())
        X, y = X.filter(inside), y[inside]
        if not len(y):
            return self
        predicted = estimator.predict(X)
        self.rows += len(y)
        self.of_classes = isinstance(estimator, AtlasClassifier)
        if self.of_classes:
            self.right += int((predicted == y).sum())
        else:
            self.absolute += float(np.abs(predicted - y).sum())
            self.squared += float(((predicted - y) ** 2).sum())
        return self

    @property
    def badness(self) -> float:
        """The smaller, the better."""
        return -self.right / self.rows if self.of_classes else self.squared / self.rows

    def __str__(self) -> str:
        if not self.rows:
            return "unknown: outside the domain"
        where = f" on the {counted(self.rows, 'row')} inside the domain" if self.outside else ""
        if self.of_classes:
            return f"{self.right / self.rows:.2%} right{where}"
        rmse = (self.squared / self.rows) ** 0.5
        return f"MAE {self.absolute / self.rows:.4g}, RMSE {rmse:.4g}{where}"


def answered(estimator: Estimator, X: Table) -> NDArray[np.bool_]:
    """Which rows the model has a prediction for."""
    if estimator.extrapolation != "error":
        return np.ones(X.num_rows, np.bool_)
    points = estimator.domain_.to_unit(np.asarray(X))
    return np.asarray((points == points.clip(*estimator.model_.domain.T)).all(axis=1))


# --- fit ----------------------------------------------------------------------------------------------


def fit(
    data: str,
    target: str,
    output: Path,
    *,
    task: Literal["auto", "classify", "regress"] = "auto",
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    category: Sequence[str] = (),
    skip_missing: bool = False,
    force: bool = False,
    seed: int = 0,
    say: Say,
    **parameters: Any,
) -> None:
    """Learn a table, and save the model."""
    check_folder(output)
    check_other(data, output)
    if not force:
        check_replaceable(output)
    if target in category:
        if task == "regress":
            raise TableError(f"--category {target} and --regress exclude each other; give one of them")
        task = "classify"
    with opened(data) as source:
        names = input_names(source, target, columns, ignore, category)
        encoding, reservoir = survey(source, names, target, task, category, skip_missing, seed)
        maker = AtlasRegressor if encoding.classes is None else AtlasClassifier
        estimator = maker(missing="learn", random_state=seed, n_jobs=-1, **parameters)
        say(f"{source.name}: {counted(reservoir.seen, 'row')}, target {target!r}, {described(encoding)}.")
        if reservoir.seen > reservoir.capacity:
            learn_large(estimator, encoding, source, reservoir, skip_missing, seed, say)
        else:
            learn_small(estimator, encoding, source, reservoir, say)
    if isinstance(estimator, AtlasClassifier):
        estimator.classes_ = as_narrow(estimator.classes_, reservoir.sample()[0], target)
    estimator.table_ = encoding.to_json()
    with turn(output, 600, say):
        if not force:
            check_replaceable(output)  # it may have been updated meanwhile
        save(estimator, output)
    say(f"The model is {output}, with {estimator.model_.n_parameters:,} coefficients.")


def input_names(
    source: Source, target: str, columns: Sequence[str], ignore: Sequence[str], category: Sequence[str]
) -> list[str]:
    """Columns of a table that are inputs."""
    source.need([target, *columns, *ignore, *category])
    names = [name for name in dict.fromkeys(columns or source.columns) if name not in (target, *ignore)]
    if not names:
        raise TableError(f"{source.name} has no column left to predict {target!r} from; name some")
    return names


def survey(
    source: Source, names: list[str], target: str, task: str, category: Sequence[str], skip: bool, seed: int
) -> tuple[Encoding, Reservoir]:
    """Read a table once: what its columns hold, and a sample of its rows."""
    surveys = {name: Survey(category=name in category, option=f"--category {name}") for name in names}
    goal = Survey(category=task == "classify", option="--classify")
    reservoir = Reservoir(sample_size(len(names)), seed)
    for first, piece in source.pieces([*names, target]):
        for name, seen in surveys.items():
            seen.add(Cells.of(source, name, first, piece))
        cells = Cells.of(source, target, first, piece)
        if task == "regress":
            cells.numbers()
        goal.add(cells)
        there = cells.present(skip)
        reservoir.add(piece.filter(there), first + np.flatnonzero(there))
    if not reservoir.seen:
        raise TableError(f"{source.name} has no rows with a target below its header; check the file")
    classes = check_classes(source, target, goal) if goal.is_text else None
    encoding = Encoding(tuple(seen.column(name) for name, seen in surveys.items()), target, classes)
    return ordered(encoding, source, reservoir), reservoir


def sample_size(columns: int) -> int:
    return min(SAMPLE_ROWS, SAMPLE_CELLS // columns)


def check_classes(source: Source, target: str, goal: Survey) -> tuple[Label, ...]:
    """Classes of the target, neither too few nor too many."""
    count = len(goal.categories)
    where = f"{source.name}, column {target!r}"
    if count > MOST_CLASSES:
        raise TableError(f"{where}: {count:,} classes are too many, at most {MOST_CLASSES}; check --target")
    if count < 2:
        raise TableError(f"{where}: there is one class only, {listed(goal.categories)}; two are needed")
    return tuple(np.unique(goal.labels).tolist())


def ordered(encoding: Encoding, source: Source, reservoir: Reservoir) -> Encoding:
    """Put the categories of columns that have many into an order, and refuse names."""
    sample, _ = reservoir.sample()
    y, _ = encoding.targets(source, 1, sample, skip=True)
    if encoding.classes is not None:
        y = np.searchsorted(encoding.classes, y).astype(np.float64)
    columns = []
    for column in encoding.columns:
        if column.categories is not None and len(column.categories) > MOST_ONE_HOT:
            cells = Cells.of(source, column.name, 1, sample)
            if len(column.categories) > reservoir.seen / 2:
                cells.fail(None, f"nearly every text is different, so they tell nothing; {LEAVE_OUT}")
            column = column.ordered(cells.codes(column.categories, None), y)
        columns.append(column)
    encoding = Encoding(tuple(columns), encoding.target, encoding.classes)
    if len({*encoding.inputs}) < len(encoding.inputs):
        raise TableError(f"{source.name}: a column has the name of another one's category; rename it")
    return encoding


def described(encoding: Encoding) -> str:
    """What is learned from what, in a few words."""
    texts = sum(column.categories is not None for column in encoding.columns)
    parts = f"{counted(len(encoding.columns) - texts, 'column')} of numbers and {texts} of categories"
    kind = "numbers" if encoding.classes is None else f"{len(encoding.classes)} classes"
    return f"{kind}, from {parts}"


def learn(estimator: Estimator, encoding: Encoding, X: Table, y: Labels) -> None:
    """Fit; a classifier must know all classes of the table, also those that are not in the sample."""
    if isinstance(estimator, AtlasClassifier):
        estimator.partial_fit(X, y, classes=np.array(encoding.classes))
    else:
        estimator.fit(X, y)


def learn_small(
    estimator: Estimator, encoding: Encoding, source: Source, reservoir: Reservoir, say: Say
) -> None:
    """Learn all rows at once."""
    sample, _ = reservoir.sample()
    y, _ = encoding.targets(source, 1, sample, skip=True)
    learn(estimator, encoding, encoding.encode(source, 1, sample), y)
    say(f"Error on held-out rows: {validation_error(estimator)}.")


def validation_error(estimator: Estimator) -> str:
    """Lowest validation loss, mean of the members, in the units of the target where it has units."""
    losses = [min(member) for member in estimator.validation_loss_ if member]
    if not losses:
        return "unknown, with fewer than 40 rows none are held out"
    return in_units(estimator, float(np.mean(losses)))


def in_units(estimator: object, loss: float) -> str:
    """A mean loss of the model as a user of the estimator understands it."""
    if isinstance(estimator, AtlasRegressor) and estimator.model_.outputs == 1:
        scale = float(estimator.target_scale_[0])
        if estimator._loss == "mse":
            return f"RMSE {scale * loss**0.5:.4g}"
        if estimator._loss == "mae":
            return f"MAE {scale * loss:.4g}"
    return f"loss {loss:.4g}"


def learn_large(
    estimator: Estimator,
    encoding: Encoding,
    source: Source,
    reservoir: Reservoir,
    skip: bool,
    seed: int,
    say: Say,
) -> None:
    """Learn a sample of the rows, then all of them in one pass, which is kept if it helps."""
    sample, places = reservoir.sample()
    y, _ = encoding.targets(source, 1, sample, skip=True)
    X = encoding.encode(source, 1, sample)
    random = np.random.default_rng([seed, STREAM, 1])
    aside = random.random(len(y)) < TEST_SHARE
    learn(estimator, encoding, X.filter(~aside), y[~aside])
    aside_X, aside_y = X.filter(aside), y[aside]
    inside = answered(estimator, aside_X)
    aside_X, aside_y = aside_X.filter(inside), aside_y[inside]
    before, model = Score().add(estimator, aside_X, aside_y), estimator.model_.copy()
    say(f"Learned a sample of {(~aside).sum():,} rows; on {before.rows:,} others: {before}.")
    pieces = labelled(source, encoding, skip, UNKNOWN, leave=places[aside])
    try:
        pass_through(estimator, pieces, X.filter(~aside), y[~aside], random)
        after = Score().add(estimator, aside_X, aside_y)
    except (TrainingDiverged, OverflowError):
        after = None
    if after is None or after.badness > before.badness:
        estimator.model_ = model
        say(f"A pass over all rows did not help ({after or 'it diverged'}), so it was dropped.")
    else:
        say(f"After a pass over all rows: {after}.")


def pass_through(
    estimator: Estimator,
    pieces: Iterator[tuple[Table, Labels]],
    sample: Table,
    labels: Labels,
    random: np.random.Generator,
) -> None:
    """Learn all rows once, together with some of the sample again.

    A table may be sorted: the sample keeps the model from leaning to what it saw last.
    """
    for X, y in pieces:
        if len(y):
            again = random.integers(len(labels), size=len(y) // REMINDER)
            estimator.fit_more(stack(X, sample.take(again)), np.concatenate([y, labels[again]]))


# --- update -------------------------------------------------------------------------------------------


def update(
    path: Path,
    data: str,
    *,
    output: Path | None = None,
    memory: Retention | None = None,
    dry_run: bool = False,
    skip_missing: bool = False,
    refuse_unknown: bool = True,
    seed: int = 0,
    wait: float = 600,
    say: Say,
    note: Say,
) -> None:
    """Teach a saved model new rows; say what can change and what cannot, and how well it did."""
    check_there(path)
    output = output or path
    if not dry_run:
        check_folder(output)
    check_other(data, output)
    with opened(data) as source, contextlib.nullcontext() if dry_run else turn(output, wait, note):
        estimator, encoding = load_with_encoding(path)
        source.need([*encoding.names, encoding.target])
        note_extra(source, {*encoding.names, encoding.target}, note)
        kept = {"retention": estimator.retention, "random_state": estimator.random_state}
        estimator.set_params(retention=memory or estimator.retention, random_state=seed)

        def pieces() -> Iterator[tuple[Table, Labels]]:
            return labelled(source, encoding, skip_missing, UNKNOWN if refuse_unknown else None)

        before, sample = look(estimator, encoding, pieces(), source.name, seed)
        rows = before.rows + before.outside
        say(f"{source.name}: {counted(rows, 'row')}, {learned_from(sample.num_rows, rows, dry_run)}.")
        X, y = unpack(sample, encoding)
        old_domain = estimator.model_.domain.copy()
        tell_footprint(estimator, encoding, X, say)
        if dry_run:
            say(f"Error on these rows: {before}. Nothing was written.")
            return
        estimator.partial_fit(X, y)
        after = Score()
        for inputs, targets in pieces():
            after.add(estimator, inputs, targets)
        tell_extension(estimator, encoding, old_domain, say)
        say(f"Error on these rows before: {before}")
        say(f"Error on these rows after:  {after}")
        estimator.set_params(**kept)
        save(estimator, output)
    tell_id(estimator.update_log_[-1], output, say)


def labelled(
    source: Source,
    encoding: Encoding,
    skip: bool,
    unknown: str | None,
    leave: NDArray[np.int64] | tuple[()] = (),
) -> Iterator[tuple[Table, Labels]]:
    """Inputs and targets of a table, piece by piece, without the rows to leave out."""
    for first, piece in source.pieces([*encoding.names, encoding.target]):
        targets, there = encoding.targets(source, first, piece, skip)
        there &= ~np.isin(first + np.arange(len(there)), leave)
        yield encoding.encode(source, first, piece, unknown).filter(there), targets[there]


def look(
    estimator: Estimator, encoding: Encoding, pieces: Iterator[tuple[Table, Labels]], name: str, seed: int
) -> tuple[Score, Table]:
    """Read a table once: the model's error on it, and a sample of its rows."""
    score, reservoir = Score(), Reservoir(sample_size(len(encoding.inputs)), seed)
    for X, y in pieces:
        score.add(estimator, X, y)
        reservoir.add(X.append_column("", [y]), np.zeros(len(y), np.int64))
    if not reservoir.seen:
        raise TableError(f"{name} has no rows with a target below its header; check the file")
    return score, reservoir.sample()[0]


def unpack(sample: Table, encoding: Encoding) -> tuple[Table, Labels]:
    """Inputs and targets of a sample."""
    y = sample[""].to_numpy()
    kind = np.float64 if encoding.classes is None else np.array(encoding.classes).dtype
    return sample.select(encoding.inputs), y.astype(kind)


def learned_from(sample: int, rows: int, dry_run: bool) -> str:
    """How much of a table is learned, or would be."""
    which = "all of them" if sample == rows else f"a random sample of {sample:,} of them"
    verb = "would be learned" if dry_run else "learned"
    return verb if rows == 1 else f"{which} {verb}"


def tell_footprint(estimator: Estimator, encoding: Encoding, X: Table, say: Say) -> None:
    """Say what an update with these inputs can change, and what it cannot."""
    area = estimator.footprint(X)
    if estimator.retention in ("rehearsal", "both"):
        say(f"Can change: every prediction, a little; that is how {estimator.retention!r} learns.")
        return
    part = share(area, encoding)
    if part == EVERYTHING:
        say("Can change: every prediction.")
        return
    which = "one" if estimator.retention == "none" else "all"
    boxes = len(area.area.fences) if isinstance(area.area, BoxFootprint) else 1
    several = f" (in {boxes} boxes)" if boxes > 1 else ""
    say(f"Can change: rows with {which} of these{several}, {part} of the domain:")
    for line in footprint_lines(area, encoding, SLOPE_STEP if estimator.extrapolation == "linear" else 0):
        say(line)
    extended = estimator._model_reaching(np.asarray(X))[0] is not estimator.model_
    where = " in the domain it had" if extended else ""
    say(f"Cannot change: every other prediction{where}; it stays the same to the bit.")


def share(area: ColumnFootprint, encoding: Encoding) -> str:
    """Share of the domain, where each category counts as much as the others.

    With categories it is the share of random rows: in the model's coordinates, a category is but a point.
    """
    volume = area.volume
    if any(column.categories is not None for column in encoding.columns):
        random = np.random.default_rng(0)
        columns: list[NDArray[np.float64]] = []
        for column in encoding.columns:
            j = len(columns)
            if column.categories is None:
                low, high = area.area.domain[j]
                columns.append(area.columns.to_raw(j, random.uniform(low, high, RANDOM_ROWS)))
            else:
                columns += column.random(RANDOM_ROWS, random)
        volume = float(area.contains(np.stack(columns, axis=1)).mean())
    return f"{volume:.2%}" if volume >= 0.0001 else "less than 0.01%"


def footprint_lines(area: ColumnFootprint, encoding: Encoding, rim: float) -> list[str]:
    """One line for each column, in its own values; what happens in the rim of the domain happens beyond."""
    width = max(map(len, encoding.names))
    lines, j = [], 0
    for column in encoding.columns:
        parts = [area.intervals(j + k) for k in range(len(column.inputs))]
        low, high = area.columns.to_raw(j, area.area.domain[j] + np.array([rim, -rim])).tolist()
        words = column.covered(parts, (low, high), float(area.columns.fill[j]))
        lines.append(f"  {column.name:{width}}  {words}{missing_too(area, column, j)}")
        j += len(parts)
    return lines


def missing_too(area: ColumnFootprint, column: Column, j: int) -> str:
    """Whether rows without this number can change too: they are read as its median, and marked as missing."""
    if column.categories is not None or not within(float(area.columns.fill[j]), area.intervals(j)):
        return ""
    marks = np.flatnonzero(area.columns.indicators == j)
    marked = not marks.size or within(1.0, area.area.intervals(len(area.columns.knots) + int(marks[0])))
    return ", or missing" if marked else ""


def tell_extension(estimator: Estimator, encoding: Encoding, old: NDArray[np.float64], say: Say) -> None:
    """Say how far the domain reaches now, where that is new."""
    new = estimator.model_.domain
    for j, name in enumerate(encoding.inputs):
        if (new[j] != old[j]).any():
            (was_low, was_high), (low, high) = (estimator.domain_.to_raw(j, ends[j]) for ends in (old, new))
            say(f"Domain: {name} is now {low:.6g} to {high:.6g}; it was {was_low:.6g} to {was_high:.6g}.")


def tell_id(record: Record, output: Path, say: Say) -> None:
    way_back = f"; atlas revert {output} {record.id} takes it back" if record.kind == "chart" else ""
    say(f"This is update {record.id} of {output}{way_back}.")


# --- predict ------------------------------------------------------------------------------------------


def predict(
    path: Path,
    rows: str,
    output: str,
    *,
    probabilities: bool = False,
    refuse_unknown: bool = True,
    note: Say,
) -> None:
    """Write a table with its predictions beside it."""
    check_there(path)
    if output != "-":
        check_folder(Path(output))
        check_other(rows, Path(output), "the predictions")
        check_other(str(path), Path(output), "the predictions", "the model")
    estimator, encoding = load_with_encoding(path)
    with opened(rows) as source, TableWriter(output) as writer:
        source.need(encoding.names)
        note_extra(source, {*encoding.names, encoding.target}, note)
        count = 0
        for first, piece in source.pieces():
            X = encoding.encode(source, first, piece, UNKNOWN if refuse_unknown else None)
            refuse_outside(estimator, encoding, source, first, piece, X)
            for name, values in answers(estimator, encoding, X, probabilities).items():
                if name in source.columns:
                    raise TableError(f"{source.name} has a column {name!r} already; rename it")
                piece = piece.append_column(name, [values])
            writer.write(piece)
            count += piece.num_rows
        if not count:
            raise TableError(f"{source.name} has no rows below its header; check the file")
    note(f"{counted(count, 'row')} predicted{'' if output == '-' else f', written to {output}'}.")


def answers(
    estimator: Estimator, encoding: Encoding, X: Table, probabilities: bool
) -> dict[str, NDArray[Any]]:
    """New columns: the prediction, and probabilities of classes."""
    name = f"{encoding.target}_predicted"
    if isinstance(estimator, AtlasRegressor):
        return {name: estimator.predict(X)}
    shares = estimator.predict_proba(X)
    columns = {
        name: estimator.classes_[shares.argmax(axis=1)],
        f"{encoding.target}_probability": shares.max(axis=1),
    }
    if probabilities:
        columns |= {f"{encoding.target}={label}": shares[:, k] for k, label in enumerate(estimator.classes_)}
    return columns


def refuse_outside(
    estimator: Estimator, encoding: Encoding, source: Source, first: int, piece: Table, X: Table
) -> None:
    """Name the first cell outside the domain, if the model was told not to extrapolate."""
    if estimator.extrapolation != "error":
        return
    points = estimator.domain_.to_unit(np.asarray(X))
    outside = np.argwhere(points != points.clip(*estimator.model_.domain.T))
    if len(outside):
        at, j = outside[0].tolist()
        name = next(column.name for column in encoding.columns if encoding.inputs[j] in column.inputs)
        low, high = estimator.domain_.to_raw(j, estimator.model_.domain[j])
        what = f"the model knows {low:.6g} to {high:.6g} only; teach it such rows with atlas update"
        Cells.of(source, name, first, piece).fail(at, what)


# --- inspect and revert -------------------------------------------------------------------------------


def inspect(path: Path, plot: Path | None, say: Say) -> None:
    """Say what a file holds: configuration, size, domain and log."""
    check_there(path)
    loaded = load(path)
    model = loaded if isinstance(loaded, Atlas) else loaded.model_
    say(f"{path}: {type(loaded).__name__}, {path.stat().st_size:,} bytes")
    ends = f"{counted(model.inputs, 'input')}, {counted(model.outputs, 'output')}"
    size = f"density {model.density}, {counted(model.n_parameters, 'coefficient')}"
    charts = counted(len(model.charts), "chart")
    say(f"model: {ends}, {counted(model.terms, 'term')}, {size}, {charts}")
    if not isinstance(loaded, Atlas):
        tell_estimator(loaded, path, say)
    tell_log(loaded, model, say)
    if plot is not None:
        if isinstance(loaded, Atlas):
            raise TableError(f"{path} is a bare model; only a regressor or a classifier can be drawn")
        check_picture(plot)
        from atlas_splines.plots import drawing as plots

        draft = plot.with_name(f".{plot.stem}.{secrets.token_hex(8)}{plot.suffix}")
        try:
            plots.save_inspection(draft, loaded)
            draft.replace(plot)
        finally:
            draft.unlink(missing_ok=True)
        say(f"The picture is {plot}.")


def tell_estimator(estimator: Estimator, path: Path, say: Say) -> None:
    """Parameters that are not the usual ones, the target, and the domain of each column."""
    usual = type(estimator)().get_params()
    changed = [f"{k}={v!r}" for k, v in estimator.get_params().items() if v != usual[k] and k != "n_jobs"]
    say(f"options: {', '.join(changed) or 'the usual ones'}")
    if hasattr(estimator, "table_"):
        _, encoding = load_with_encoding(path)
        classes = f", one of {listed(encoding.classes)}" if encoding.classes else ", a number"
        say(f"target: {encoding.target}{classes}")
        rows = [
            (column.name, *column_domain(estimator, encoding, column.name)) for column in encoding.columns
        ]
    else:
        names = column_names(estimator)
        rows = [(name, "number", domain_text(estimator, j)) for j, name in enumerate(names)]
    for line in aligned([("column", "kind", "domain"), *rows]):
        say(line)


def column_names(estimator: Estimator) -> list[str]:
    """Names of the inputs of an estimator."""
    names = getattr(estimator, "feature_names_in_", [f"column {j}" for j in range(estimator.n_features_in_)])
    return [str(name) for name in names]


def column_domain(estimator: Estimator, encoding: Encoding, name: str) -> tuple[str, str]:
    """Kind and domain of a column."""
    column = next(column for column in encoding.columns if column.name == name)
    if column.categories is not None:
        return "category", f"{len(column.categories)}: {listed(column.categories, 6)}"
    return "number", domain_text(estimator, encoding.inputs.index(name))


def domain_text(estimator: Estimator, j: int) -> str:
    low, high = estimator.domain_.to_raw(j, estimator.model_.domain[j])
    missing = ", or missing" if j in estimator.domain_.indicators else ""
    return f"{low:.6g} to {high:.6g}{missing}"


def tell_log(loaded: Atlas | Estimator, model: Atlas, say: Say) -> None:
    """The log as a table."""
    if not model.updates:
        say("updates: none")
        return
    head = ("id", "time (UTC)", "kind", "rows", "before", "after", "of the domain", "")
    for line in aligned([head, *(log_row(loaded, record) for record in model.updates)]):
        say(line)


def log_row(loaded: Atlas | Estimator, record: Record) -> tuple[str, ...]:
    """Cells of one entry of the log."""
    before = after = part = ""
    if isinstance(record, Update):
        before, after = in_units(loaded, record.error_before), in_units(loaded, record.error_after)
        part = record_share(loaded, record)
    elif isinstance(record, Consolidation):
        after = f"changed {record.error:.3g}"
    gone = f"reverted {record.reverted:%Y-%m-%d %H:%M}" if record.reverted else ""
    entry = str(record.id), f"{record.time:%Y-%m-%d %H:%M}", record.kind, f"{record.rows:,}"
    return *entry, before, after, part, gone


def record_share(loaded: Atlas | Estimator, record: Update) -> str:
    """Share of the domain of then that an update could change."""
    if isinstance(loaded, Atlas) or not hasattr(loaded, "table_"):
        return f"{record.footprint.volume:.2%}"
    encoding = Encoding.from_json(loaded.table_)
    names = tuple(encoding.inputs)
    return share(
        ColumnFootprint.of(record.footprint, loaded.domain_, names, record.footprint.domain), encoding
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with straight columns.

    Examples
    --------
    >>> aligned([("id", "rows"), ("1", "200")])
    ['id  rows', '1   200']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def revert(path: Path, id: int, *, wait: float = 600, say: Say, note: Say) -> None:
    """Take back an update, exactly."""
    check_there(path)
    check_folder(path)
    with turn(path, wait, note):
        loaded = load(path)
        model = loaded if isinstance(loaded, Atlas) else loaded.model_
        try:
            model.revert(id)
        except ValueError as error:
            raise TableError(f"{path}: {error}") from None
        save(loaded, path)
    record = next(record for record in model.updates if record.id == id)
    later = [r.id for r in model.updates if r.id > id and not r.reverted]
    where = " in the domain it had" if model.is_extended else ""
    exact = f"every prediction{where} is as it was before, to the bit"
    if later:
        exact = f"later updates stay: {', '.join(map(str, later))}"
    elif model.fingerprint() != record.before:
        exact = "updates that had been taken back before it are still gone"
    say(f"Update {id} of {path} ({counted(record.rows, 'row')}) was taken back; {exact}.")


# --- export -------------------------------------------------------------------------------------------


def export(path: Path, output: Path, say: Say) -> None:
    """Write a model as ONNX, and say what goes in and what comes out."""
    check_there(path)
    check_folder(output)
    if output.suffix != ".onnx":
        raise TableError(f"{output} cannot be written: the name of an ONNX file ends in .onnx")
    if output.exists() and output.samefile(path):
        raise TableError(f"{output} is the model itself; choose another name for the ONNX file")
    try:
        metadata, lines = write_onnx(path, output)
    except ModuleNotFoundError as missing:
        if missing.name not in ("torch", "onnx", "onnxscript"):
            raise
        needs = "writing ONNX needs more packages; install them with: pip install 'atlas-splines[onnx]'"
        raise TableError(needs) from None
    for line in lines:
        say(line)
    say(f"{output} has {output.stat().st_size:,} bytes; its metadata: {listed(metadata) or 'none'}.")


def write_onnx(path: Path, output: Path) -> tuple[dict[str, str], list[str]]:
    """Write the file; returns its metadata, and what to tell of it."""
    from atlas_splines.nn.module import AtlasModule, EstimatorModule, export_onnx

    loaded = load(path)
    if isinstance(loaded, Atlas):
        metadata, lines = {}, bare_lines(loaded)
        module: AtlasModule | EstimatorModule = AtlasModule.from_model(loaded)
    else:
        encoding = load_with_encoding(path)[1] if hasattr(loaded, "table_") else None
        metadata, lines = onnx_metadata(loaded, encoding), estimator_lines(loaded, encoding)
        module = EstimatorModule(loaded)
    export_onnx(module, output, input_name="X", metadata=metadata)
    return metadata, lines


def onnx_metadata(estimator: Estimator, encoding: Encoding | None) -> dict[str, str]:
    """What an ONNX file tells of its inputs and outputs; all but the target in JSON."""
    values: dict[str, Any] = {"columns": column_names(estimator)}
    if isinstance(estimator, AtlasClassifier):
        values["classes"] = estimator.classes_.tolist()
    if encoding is not None:
        values["encoding"] = encoding.to_json()
    texts = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in values.items()}
    return texts if encoding is None else {**texts, "target": encoding.target}


def bare_lines(model: Atlas) -> list[str]:
    """Input and output of a bare model."""
    ends = [(f"X[:, {j}]", f"{low:g} to {high:g}") for j, (low, high) in enumerate(model.domain)]
    name = model.dtype.name
    head = f"Input X (rows, {model.inputs}), {name}; output y (rows, {model.outputs}), {name}."
    return [head, *aligned(ends), "Beyond these ends the nearest point counts."]


def estimator_lines(estimator: Estimator, encoding: Encoding | None) -> list[str]:
    """Input and output of an estimator, and how columns become inputs."""
    names = column_names(estimator)
    head = f"Input X (rows, {len(names)}), float64; output y, float64: {output_text(estimator, encoding)}."
    if encoding is None:
        missing = "; NaN if missing" if estimator.missing == "learn" else ""
        meanings = [f"the number{missing}" for _ in names]
    else:
        meanings = [meaning for column in encoding.columns for meaning in column.meanings]
    rows = [(f"X[:, {j}]", name, meanings[j]) for j, name in enumerate(names)]
    lines = [head, *aligned(rows)]
    if estimator.extrapolation == "error":
        lines.append("Outside the domain y is NaN.")
    return lines


def output_text(estimator: Estimator, encoding: Encoding | None) -> str:
    """What the output of an ONNX file is, in words."""
    name = "target" if encoding is None else repr(encoding.target)
    if isinstance(estimator, AtlasRegressor):
        return f"the predicted {name}"
    classes = ", ".join(map(repr, estimator.classes_.tolist()))
    return f"for each class of {name} its probability, in the order {classes}"


# --- files --------------------------------------------------------------------------------------------


def load_with_encoding(path: Path) -> tuple[Estimator, Encoding]:
    """A model that `fit` wrote, and how its table is encoded."""
    estimator = load(path)
    if not hasattr(estimator, "table_"):
        raise TableError(f"{path} does not know the columns of a table; make it with atlas fit")
    with naming(path):
        encoding = Encoding.from_json(estimator.table_)
        names = getattr(estimator, "feature_names_in_", np.array([]))
        labels = getattr(estimator, "classes_", None)
        classes = None if labels is None else tuple(labels.tolist())
        if encoding.inputs != names.tolist() or encoding.classes != classes:
            raise ValueError("its table does not go with its model")
    return estimator, encoding


@contextlib.contextmanager
def turn(path: Path, wait: float, note: Say) -> Iterator[None]:
    """Wait for others who change the same file, and say so."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock(path, timeout=0))
        except LockedError:
            note(f"another process is changing {path}; waiting for it")
            stack.enter_context(lock(path, timeout=wait))
        yield


def check_there(path: Path) -> None:
    """Refuse the name of a model file that is not there, before anything is read or locked."""
    if not path.is_file():
        raise TableError(f"{path} does not exist or is not a file; check the name")


def check_folder(path: Path) -> None:
    """Refuse an output before anything is computed for it."""
    if str(path) == "-":
        raise TableError("- is no file: only tables go to standard output; give the name of a file")
    if not path.parent.is_dir():
        raise TableError(f"{path} cannot be written: there is no folder {path.parent}; check the name")
    if path.is_dir():
        raise TableError(f"{path} cannot be written: it is a folder; give the name of a file")
    if not os.access(path.parent, os.W_OK):
        raise TableError(
            f"{path} cannot be written: nothing can in the folder {path.parent}; choose another one"
        )


def check_replaceable(output: Path) -> None:
    """Refuse to replace a model that has learned since its fit, or a file that is no model."""
    if not output.exists():
        return
    way_out = "choose another name, or replace it with --force"
    try:
        loaded = load(output)
    except (StorageError, OSError):
        raise TableError(
            f"{output} is there already, and is not a model that can be read; {way_out}"
        ) from None
    count = len((loaded if isinstance(loaded, Atlas) else loaded.model_).updates)
    if count:
        raise TableError(f"{output} has a log of {counted(count, 'update')}, which would be lost; {way_out}")


def check_other(data: str, output: Path, what: str = "the model", over: str = "the table") -> None:
    """Refuse to write something over what it is made from."""
    if data != "-" and output.exists() and Path(data).exists() and output.samefile(data):
        raise TableError(f"{output} is {over} itself, and would be lost; give {what} another name")


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be written."""
    check_folder(path)
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise TableError(f"{path} cannot be written: a picture ends in .png, .svg or .pdf")


def note_extra(source: Source, used: set[str], note: Say) -> None:
    """Tell which columns are not used."""
    extra = [name for name in source.columns if name not in used]
    if extra:
        note(f"{source.name}: not used: {listed(extra)}")


def stack(above: Table, below: Table) -> Table:
    """Rows of two tables."""
    return type(above).from_batches([*above.to_batches(), *below.to_batches()])
