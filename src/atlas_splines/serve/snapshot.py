"""Snapshots: one version of a model, which answers and never changes."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.explained import View, checked_points, column_of_points, known_background
from atlas_splines.estimators.inputs import EncodedRows
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.estimators.table_model import Estimator, TableModel
from atlas_splines.explain.background import Marginals
from atlas_splines.explain.explanation import Blame, Explanation
from atlas_splines.explain.shapley import Prepared
from atlas_splines.files.writer import StorageError
from atlas_splines.io.log_export import log_lines
from atlas_splines.io.save_load import load_with_table, save
from atlas_splines.model.log import UpdateWarning
from atlas_splines.tables import bodies
from atlas_splines.tables.encoding import Column, Encoding, frame
from atlas_splines.tables.wording import TableError, listed
from atlas_splines.versions import forget, version

__all__ = ["Answer", "Learned", "Notes", "Snapshot", "Task"]

Array = NDArray[Any]
Table = Any  # of pyarrow, which tables alone import

# Coverage of the intervals that errors of the service are told by.
COVERAGE = 0.9

# What the library says of rows that were learned before, of which clients know another way.
TWICE = "accept=True learns them twice"

# Sentences about rows that were predicted all the same.
Notes = list[str]


@dataclass(frozen=True)
class Task:
    """What is asked of rows, besides predictions.

    Attributes
    ----------
    coverages
        Of intervals, or of sets of classes.
    support
        How much evidence stands behind each row.
    probabilities
        Of classes.
    explain
        Shapley values of each column.
    """

    coverages: tuple[float, ...] = ()
    support: bool = False
    probabilities: bool = False
    explain: bool = False


@dataclass(frozen=True, eq=False)
class Answer:
    """What a version answers for some rows.

    Attributes
    ----------
    predictions
        Shape (rows,).
    intervals
        By coverage, ends of shape (rows, 2), or for classes their sets, shape (rows, classes) of truth
        values.
    support
        Shape (rows,), or None.
    probabilities
        Shape (rows, classes), or None.
    explanation
        Shapley values, or None.
    """

    predictions: Array
    intervals: Mapping[float, Array]
    support: Array | None = None
    probabilities: Array | None = None
    explanation: Explanation | None = None


@dataclass(frozen=True, eq=False)
class Learned:
    """What an update has done: the next version, its entry in the log, and what was noted.

    Attributes
    ----------
    snapshot
        The next version, or the same one if nothing was learned.
    entry
        The entry as JSON has it; None if nothing was learned.
    notes
        What the model said about it.
    coverage
        Share of the rows whose target lay in the interval that the model had for them before.
    """

    snapshot: Snapshot
    entry: dict[str, Any] | None
    notes: Notes
    coverage: float | None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One version of a model.

    Attributes
    ----------
    estimator
        The estimator, which takes tables with the columns of the user.
    encoding
        Of these columns, of the target and of its classes.
    is_table
        Whether the command wrote the file, which is then saved as the command saves it.
    version
        Its hash, as `atlas verify` prints it.
    """

    estimator: Estimator
    encoding: Encoding
    is_table: bool
    version: str

    # --- files ------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: Path) -> Snapshot:
        """The version in a file."""
        loaded = load_with_table(path)
        if not isinstance(loaded, TableModel | AtlasRegressor | AtlasClassifier):
            raise StorageError(f"{path} is a bare model without columns; serve a fitted estimator")
        inner = loaded.estimator if isinstance(loaded, TableModel) else loaded
        if isinstance(inner, AtlasRegressor) and inner.model_.outputs > 1:
            raise StorageError(f"{path} has {inner.model_.outputs} targets, and the service knows one")
        if isinstance(loaded, TableModel):
            return cls.of(loaded.for_frames(), not loaded.encoding.of_frame)
        return cls.of(loaded, False)

    @classmethod
    def of(cls, estimator: Estimator, is_table: bool) -> Snapshot:
        """An estimator of this moment: whoever goes on to teach it teaches a copy."""
        own = copy.copy(estimator)
        classes = tuple(own.classes_.tolist()) if isinstance(own, AtlasClassifier) else None
        if hasattr(own, "encoding_"):
            encoding = replace(own.encoding_, classes=classes)
        else:
            names = own.column_names
            target = "target"
            while target in names:
                target += "_"
            encoding = Encoding(tuple(map(Column, names)), target, classes, of_frame=True)
        draft = cls(own, encoding, is_table, "")
        return replace(draft, version=version(draft.saved))

    @property
    def saved(self) -> Estimator | TableModel:
        """What is written to a file."""
        if not self.is_table:
            return self.estimator
        table = TableModel.of(self.estimator)
        return TableModel(table.estimator, replace(table.encoding, of_frame=False))

    def save(self, path: Path) -> None:
        """Replace a file, all at once and on the disk; a StorageError leaves what was there."""
        save(self.saved, path)

    # --- rows -------------------------------------------------------------------------------------------

    @cached_property
    def _encoder(self) -> bodies.RowEncoder:
        return bodies.RowEncoder(self.encoding, self.takes_missing)

    @property
    def takes_missing(self) -> bool:
        """Whether values may be missing."""
        return self.estimator.missing == "learn"

    @property
    def is_classifier(self) -> bool:
        """Whether it predicts classes."""
        return self.encoding.classes is not None

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.encoding.target

    def encode_rows(self, rows: Sequence[Mapping[str, Any]]) -> tuple[EncodedRows, Notes]:
        """Rows of JSON as inputs, and what is odd about them."""
        values = self._encoder(rows)
        if values is not None:
            return EncodedRows(values), []
        known = [*self.encoding.names]
        others = dict.fromkeys(name for row in rows for name in row if name not in known)
        kept = [{name: row[name] for name in known if name in row} for row in rows]
        names = {name: None for row in kept for name in row}
        table = bodies.of_rows(kept, known) if names else bodies.of_rows(rows)
        return self.encode(table, list(others), self._lacking(kept))

    def _lacking(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Columns that some row does not have."""
        return [name for name in self.encoding.names if any(name not in row for row in rows)]

    def encode(
        self, table: Table, others: Sequence[str] | None = None, lacking: Sequence[str] | None = None
    ) -> tuple[EncodedRows, Notes]:
        """A table as inputs, and what is odd about it; what cannot be predicted is refused by its name."""
        there, notes = {*table.column_names}, []
        if others is None:
            others = [name for name in table.column_names if name not in self.encoding.names]
        unused = [name for name in others if name not in (*self.encoding.left_out, self.target)]
        if unused:
            notes.append(f"not used: {listed(unused)}")
        if lacking is None:
            lacking = [name for name in self.encoding.names if name not in there]
        if lacking:
            if not self.takes_missing or not there & {*self.encoding.names}:
                raise TableError(
                    f"{bodies.NAME} lacks {listed(lacking)}; the model needs {listed(self.encoding.names)}"
                )
            notes.append(f"missing, and predicted as such: {listed(lacking)}")
        values = bodies.encoded(table, self.encoding, not self.takes_missing)
        if not self.takes_missing and np.isnan(values).any():
            column = int(np.argwhere(np.isnan(values))[0, 1])
            name = self.encoding.names[int(self.encoding.column_of_inputs[column])]
            row = int(np.argwhere(np.isnan(values))[0, 0]) + 1
            raise TableError(f"{bodies.NAME}, row {row}, column {name!r}: the value is missing; send it")
        for name, categories in bodies.out_of_fold_rows(table, self.encoding).items():
            what = "was not there when the model learned" if len(categories) == 1 else "were not there then"
            notes.append(f"column {name!r}: {listed(categories, 6)} {what}, and is predicted as missing")
        return EncodedRows(values), notes

    # --- answers ----------------------------------------------------------------------------------------

    def answer(self, rows: EncodedRows, task: Task = Task()) -> Answer:
        """Predictions, and what else is asked."""
        model, X = self.estimator, rows
        support = model.support(X) if task.support else None
        explanation = self.explain(X) if task.explain else None
        if isinstance(model, AtlasClassifier):
            shares = model.predict_proba(X)  # (rows, classes)
            labels = model.classes_[shares.argmax(axis=1)]
            sets = {}
            if task.coverages:
                found = model.predict_set(X, task.coverages)
                sets = {coverage: found[:, :, k] for k, coverage in enumerate(task.coverages)}
            return Answer(labels, sets, support, shares if task.probabilities else None, explanation)
        ends = {}
        if task.coverages:
            low, high = model.predict_interval(X, task.coverages)
            ends = {
                coverage: np.stack([low[:, k], high[:, k]], axis=1)
                for k, coverage in enumerate(task.coverages)
            }
        return Answer(model.predict(X), ends, support, None, explanation)

    def region(self, region: Array) -> list[Any]:
        """Ends of an interval, or the classes of a set, as JSON has them."""
        if self.encoding.classes is None:
            return list(region.tolist())
        held = zip(self.encoding.classes, region.tolist(), strict=True)
        return [label for label, there in held if there]

    def columns(self, answer: Answer, task: Task) -> dict[str, Any]:
        """New columns of a table, named as those of `atlas predict`."""
        columns: dict[str, Any] = {f"{self.target}_predicted": answer.predictions.tolist()}
        for coverage in task.coverages:
            regions = answer.intervals[coverage]
            if self.is_classifier:
                names = ["|".join(map(str, self.region(each))) for each in regions]
                columns[f"{self.target}_set_{coverage:g}"] = names
            else:
                columns[f"{self.target}_low_{coverage:g}"] = regions[:, 0].tolist()
                columns[f"{self.target}_high_{coverage:g}"] = regions[:, 1].tolist()
        if answer.probabilities is not None:
            for k, label in enumerate(self.encoding.classes or ()):
                columns[f"{self.target}={label}"] = answer.probabilities[:, k].tolist()
        if answer.support is not None:
            columns["support"] = answer.support.tolist()
        if answer.explanation is not None:
            found = answer.explanation
            if found.output_names:
                raise TableError("explain=1 has tables for numbers and two classes; ask for JSON")
            names = [f"{self.target}_base", *(f"{self.target}_by_{name}" for name in found.feature_names)]
            values = [found.base_values, *found.values.T]
            columns |= {name: own.tolist() for name, own in zip(names, values, strict=True)}
        return columns

    @cached_property
    def _background(self) -> Marginals:
        """What columns are compared with: the marginals of known rows."""
        now = self.estimator._now()
        return known_background(now, column_of_points(now))

    @cached_property
    def _prepared(self) -> Prepared:
        return Prepared()

    def explain(self, rows: EncodedRows) -> Explanation:
        """Shapley values of rows, as `explain` of the estimator has them.

        What does not depend on the rows is kept for the next ones.
        """
        now = self.estimator._now()
        points = checked_points(now, rows)
        data = np.empty((len(points), len(self.encoding.names)), object)
        view = View.of_points(now, points, data, self._background)
        return view.explanation(view.shares(self._prepared))

    def blame(self, rows: EncodedRows) -> Blame:
        """What the fit and each update add to predictions."""
        return self.estimator.blame(rows)

    def covered(self, rows: EncodedRows, y: Array) -> float | None:
        """Share of targets in the intervals, or sets, that the model has for the rows; None without any."""
        try:
            found = self.answer(rows, Task(coverages=(COVERAGE,)))
        except ValueError:  # a model that knows nothing of its errors
            return None
        if self.encoding.classes is not None:
            known = {label: k for k, label in enumerate(self.encoding.classes)}
            places = np.array([known.get(label, -1) for label in y.tolist()])
            sets = found.intervals[COVERAGE]
            return float(np.mean((places >= 0) & sets[np.arange(len(y)), places]))
        low, high = found.intervals[COVERAGE].T
        return float(np.mean((y >= low) & (y <= high)))

    # --- learning ---------------------------------------------------------------------------------------

    def _taken(self, table: Table, names: Sequence[str]) -> Any:
        """Columns of a table as the estimator takes them."""
        if hasattr(self.estimator, "encoding_"):
            return bodies.selected(table, names)
        numbers = bodies.encoded(table, self.encoding, True)
        if not hasattr(self.estimator, "feature_names_in_"):
            return numbers
        known = frame(self.encoding.names, list(numbers.T))
        new = [name for name in names if name not in self.encoding.names]
        return bodies.with_columns(known, {name: table[name] for name in new})

    def rows_to_learn(
        self, table: Table, ignore: Sequence[str], new_columns: bool
    ) -> tuple[Any, Array, EncodedRows]:
        """A table as the estimator learns it: inputs, targets, and the rows as they are predicted now."""
        y = bodies.targets_of(table, self.encoding)
        if not len(y):
            raise TableError(f"{bodies.NAME} has no rows; send some")
        there = [name for name in table.column_names if name not in (self.target, *self.encoding.left_out)]
        there = [name for name in there if name not in ignore]
        new = [name for name in there if name not in self.encoding.names]
        if new and not new_columns:
            raise TableError(
                f"{bodies.NAME} has {listed(new)}, which the model has not seen; learn it with "
                f"new_columns=1, or leave it out with ignore={new[0]}"
            )
        lacking = [name for name in self.encoding.names if name not in there]
        if lacking and (not self.takes_missing or len(lacking) == len(self.encoding.names)):
            raise TableError(
                f"{bodies.NAME} lacks {listed(lacking)}; the model needs {listed(self.encoding.names)}"
            )
        kept = bodies.selected(table, [*(n for n in self.encoding.names if n in there), *new])
        known = bodies.encoded(kept, self.encoding, False)
        return self._taken(kept, kept.column_names), y, EncodedRows(known)

    def learn(
        self,
        table: Table,
        *,
        author: str = "",
        message: str = "",
        accept: bool = False,
        assess: bool = False,
        new_columns: bool = False,
        ignore: Sequence[str] = (),
    ) -> Learned:
        """The next version, which has learned the rows of a table; this one stays as it is.

        Raises
        ------
        UpdateRefused
            The rows are faulty as a whole.
        ValueError
            They cannot be learned.
        """
        X, y, known = self.rows_to_learn(table, ignore, new_columns)
        coverage = self.covered(known, y)
        draft, last = copy.copy(self.estimator), self.newest
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UpdateWarning)
            draft.partial_fit(
                X,
                y,
                message=message,
                author=author,
                accept=accept,
                assess=assess,
                new_columns=new_columns,
            )
        notes = [str(each.message).replace(TWICE, "send accept=1 to learn them twice") for each in found]
        if Snapshot.newest_of(draft) == last:
            return Learned(self, None, notes, coverage)
        after = Snapshot.of(draft, self.is_table)
        return Learned(after, after.log(after=last)[-1], notes, coverage)

    def footprint(self, table: Table, ignore: Sequence[str] = (), new_columns: bool = False) -> Any:
        """Which predictions an update with these rows could change; None if it fits all rows again."""
        X, _, _ = self.rows_to_learn(table, ignore, new_columns)
        try:
            return self.estimator.footprint(X)
        except ValueError:
            if new_columns:
                return None
            raise

    def revert(self, id: int) -> tuple[Snapshot, Notes]:
        """The version without an update, and what was noted."""
        draft = copy.copy(self.estimator)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UpdateWarning)
            draft.revert(id)
        return Snapshot.of(draft, self.is_table), [str(each.message) for each in found]

    def forget(self, table: Table) -> tuple[Snapshot, dict[str, Any]]:
        """The version as if it had never seen some rows, and the receipt."""
        X, y, _ = self.rows_to_learn(table, (), False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UpdateWarning)
            model, receipt = forget(self.estimator, X, y)
        assert isinstance(model, AtlasRegressor | AtlasClassifier)
        after = Snapshot.of(model, self.is_table)
        return after, receipt.to_json() | {"before": self.version, "after": after.version}

    # --- the log ----------------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        """Number of the newest entry of the log; 0 if there is none."""
        return self.newest_of(self.estimator)

    @staticmethod
    def newest_of(estimator: Estimator) -> int:
        """The same of an estimator."""
        return max((getattr(each, "last", each.id) for each in estimator.model_.updates), default=0)

    def log(self, after: int = 0) -> list[dict[str, Any]]:
        """Entries of the log as JSON has them, oldest first."""
        return [json.loads(line) for line in log_lines(self.estimator, after)]
