"""Encodings: how the columns of a table become the inputs and targets of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atlas_splines.files.fields import Fields
from atlas_splines.memory.random_effects import LATER, Levels
from atlas_splines.model.checks import outwards
from atlas_splines.tables.cells import MISSING_TARGET, Cells, Label
from atlas_splines.tables.dates import Calendar
from atlas_splines.tables.dialects import PLAIN, Dialect
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.source import Piece

__all__ = ["Column", "Encoding", "frame"]

Array = NDArray[np.float64]
Interval = tuple[float, float]

# Categories that get an input each; more share one, along which the estimator places them.
MOST_ONE_HOT = 20

# What to do about a category, or a class, that was not there in fit.
LEARN = "learn it with an update without --strict"
UNKNOWN = f"correct it, {LEARN}, or treat it as missing with --unknown missing"
UNKNOWN_CLASS = f"correct it, or {LEARN}"


@dataclass(frozen=True)
class Column:
    """How a column of a table becomes inputs of a model.

    A number is one input. Two categories are one input, 0 or 1, and halfway if missing. Up to 20 categories
    have an input each, 0 or 1, all 0 if missing. More are one input, their number, which the estimator's
    `ColumnMap` places by a cross-fitted random effect: no target is looked at here. A date has an input for
    each of some parts of the calendar.

    Attributes
    ----------
    name
        Name of the column.
    categories
        Its categories in the order of their codes; None for numbers and dates.
    calendar
        How dates become numbers; None for numbers and categories.
    others
        Categories that came with updates: the k-th has the number 2²⁰ + k in the (first) input of its column.
    """

    name: str
    categories: tuple[str, ...] | None = None
    calendar: Calendar | None = None
    others: tuple[str, ...] = ()

    @property
    def one_hot(self) -> bool:
        """Whether each category has an input of its own."""
        return self.categories is not None and 2 < len(self.categories) <= MOST_ONE_HOT

    @property
    def is_placed(self) -> bool:
        """Whether its categories are so many that they share one input, along which they are placed."""
        return self.categories is not None and len(self.categories) > MOST_ONE_HOT

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        if self.one_hot:
            return [f"{self.name}={category}" for category in self.categories or ()]
        if self.calendar is not None:
            return [f"{self.name}.{part}" for part in self.calendar.parts]
        return [self.name]

    @property
    def trends(self) -> list[str]:
        """Names of the inputs that go on as time does: one of a date, or none."""
        goes_on = self.calendar is not None and "trend" in self.calendar.parts
        return [f"{self.name}.trend"] if goes_on else []

    @property
    def apart(self) -> list[Column]:
        """The column itself, or a column of numbers for each part of its dates."""
        return [self] if self.calendar is None else [Column(name) for name in self.inputs]

    @property
    def meanings(self) -> list[str]:
        """How each input is made, in words."""
        if self.calendar is not None:
            return self.calendar.meanings
        if self.categories is None:
            return ["the number; NaN if missing"]
        if self.one_hot:
            return [f"1 for {category!r}, or else 0" for category in self.categories]
        if len(self.categories) <= 2:
            return [", ".join(f"{k} for {c!r}" for k, c in enumerate(self.categories)) + "; 0.5 if missing"]
        return [f"number among the {len(self.categories):,} of the encoding, from 0; NaN if missing"]

    @property
    def blank(self) -> float:
        """Value of the first input where the category is missing, or is none of the fit's."""
        return 0.0 if self.one_hot else 0.5 if len(self.categories or ()) <= 2 else np.nan

    def encode(self, cells: Cells, unknown: str | None) -> list[Array]:
        """Inputs, shape (rows,) each."""
        if self.calendar is not None:
            return self.calendar.encode(cells)
        if self.categories is None:
            return [cells.numbers()]
        return self.inputs_of(cells.codes((*self.categories, *self.others), unknown))

    def inputs_of(self, code: NDArray[np.int64]) -> list[Array]:
        """Inputs of places among all categories, shape (rows,) each; −1 is a missing one."""
        count = len(self.categories or ())
        code = np.where(code >= count, LATER + code - count, code)
        if not self.one_hot:
            return [np.where(code < 0, self.blank, code)]
        first, *rest = ((code == k).astype(np.float64) for k in range(count))
        return [np.where(code >= LATER, code, first), *rest]

    def missing(self, rows: int) -> list[Array]:
        """Inputs of rows in which the column is missing, shape (rows,) each."""
        if self.categories is None:
            return [np.full(rows, np.nan) for _ in self.inputs]
        return self.inputs_of(np.full(rows, -1))

    def with_new(self, names: Sequence[str]) -> Column:
        """The column with categories that came with an update: no code of another one changes."""
        return replace(self, others=(*self.others, *names))

    def covered(self, parts: list[list[Interval]], limits: Interval, missing: bool) -> str:
        """What the intervals of its inputs mean in the column's own values.

        Beyond the limits, predictions follow those at the limits. Whether a missing one of many categories
        is covered has to be known.
        """
        if self.categories is None:
            words = [interval_text(part, limits) for part in parts[0]]
            return " and ".join(words) or "nowhere"
        if self.one_hot:  # a category is in if its input can be one, and all others can be zero
            zero, one = (np.array([within(value, part) for part in parts]) for value in (0, 1))
            found = [bool(one[k] and np.delete(zero, k).all()) for k in range(len(self.categories))]
            missing = bool(zero.all())
        else:
            found = [within(k, parts[0]) for k in range(len(self.categories))]
            missing = missing if self.is_placed else within(0.5, parts[0])
        names = [name for name, there in zip(self.categories, found, strict=True) if there]
        shown = names[:8] + ([f"{len(names) - 8} more"] if len(names) > 8 else [])
        return ", ".join(shown + (["missing"] if missing else [])) or "nowhere"

    def to_json(self) -> dict[str, Any]:
        """The column as JSON has it."""
        plain = {"name": self.name, "categories": self.categories and list(self.categories)}
        dates = {} if self.calendar is None else {"calendar": self.calendar.to_json()}
        return {**plain, **dates, **({"others": list(self.others)} if self.others else {})}

    @classmethod
    def from_json(cls, value: object) -> Column:
        """Read `to_json`, or raise a ValueError that says what is wrong."""
        given = {"calendar": None, "others": None, **value} if isinstance(value, dict) else value
        fields = Fields(given, "a column of the table", ("name", "categories", "calendar", "others"))
        categories = _texts(fields, "categories")
        calendar = None if fields.is_null("calendar") else Calendar.from_json(fields.mapping("calendar"))
        if categories is not None and calendar is not None:
            raise ValueError("a column of the table has both categories and a calendar")
        others = _texts(fields, "others") or ()
        if {*others} & {*(categories or others)}:
            raise ValueError("'others' of a column of the table must be none of its categories")
        return cls(fields.text("name"), categories, calendar, others)

    def random(self, rows: int, random: np.random.Generator) -> list[Array]:
        """Inputs of random categories, shape (rows,) each."""
        code = random.integers(len(self.categories or "1"), size=rows)
        if self.one_hot:
            return [(code == k).astype(np.float64) for k in range(len(self.inputs))]
        return [code.astype(np.float64)]


def within(value: float, intervals: list[Interval]) -> bool:
    """Whether a value lies in one of some intervals."""
    return any(low <= value <= high for low, high in intervals)


def interval_text(interval: Interval, limits: Interval) -> str:
    """An interval in words, rounded outwards; one that reaches a limit goes on beyond it.

    Examples
    --------
    >>> interval_text((2.0, 5.0), (0.0, 9.0)), interval_text((2.0, 9.0), (0.0, 9.0))
    ('2 to 5', '2 or more')
    """
    low, high = outwards(interval, limits[1] - limits[0])
    if interval[0] <= limits[0]:
        return "any value" if interval[1] >= limits[1] else f"{high} or less"
    return f"{low} or more" if interval[1] >= limits[1] else f"{low} to {high}"


@dataclass(frozen=True)
class Encoding:
    """How a table becomes inputs and targets; a part of the model's file.

    Attributes
    ----------
    columns
        The columns that are inputs.
    target
        Name of the target's column.
    classes
        Its classes, sorted, of the type and in the spelling they had in fit; None for numbers, and in the
        ``encoding_`` of a classifier, which has ``classes_``.
    dialect
        How the table was written, which later ones are too if nothing else is said.
    of_frame
        Whether the table was a data frame in Python; the command then knows no name of its target.
    left_out
        Columns of the table of the fit that are neither inputs nor the target: they are nothing new.
    """

    columns: tuple[Column, ...]
    target: str
    classes: tuple[Label, ...] | None = None
    dialect: Dialect = PLAIN
    of_frame: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the columns that are inputs."""
        return [column.name for column in self.columns]

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers."""
        return all(column.categories is None and column.calendar is None for column in self.columns)

    @property
    def texts(self) -> dict[str, tuple[Label, ...]]:
        """Categories of columns and classes of the target, by the name of the column."""
        coded = {column.name: column.categories for column in self.columns if column.categories is not None}
        return {**coded, **({} if self.classes is None else {self.target: self.classes})}

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return [name for column in self.columns for name in column.inputs]

    @property
    def column_of_inputs(self) -> NDArray[np.int64]:
        """Number of the column that each input tells of, shape (inputs,)."""
        return np.repeat(np.arange(len(self.columns)), [len(column.inputs) for column in self.columns])

    @property
    def levels(self) -> dict[int, Levels]:
        """By the number of the (first) input of each column of categories: what its codes are."""
        first = np.cumsum([0, *(len(column.inputs) for column in self.columns)]).tolist()
        return {
            j: Levels(len(column.categories) if column.is_placed else 0, column.blank)
            for j, column in zip(first, self.columns, strict=False)
            if column.categories is not None
        }

    @property
    def trends(self) -> list[int]:
        """Numbers of the inputs that go on as time does."""
        return [self.inputs.index(name) for column in self.columns for name in column.trends]

    @property
    def parts(self) -> list[Column]:
        """The columns, with a column of numbers for each part of dates."""
        return [part for column in self.columns for part in column.apart]

    def encode(self, piece: Piece, unknown: str | None = UNKNOWN) -> EncodedRows:
        """Inputs of a piece of a table; a missing one is NaN, and so is a column that is not there.

        For a category that was not there in fit `unknown` says what to do, or is None to treat it as missing.
        """
        arrays: list[Array] = []
        for column in self.columns:
            if column.name in piece.table.column_names:
                arrays += column.encode(Cells.of(piece, column.name), unknown)
            else:
                arrays += column.missing(piece.table.num_rows)
        return EncodedRows(np.column_stack(arrays))

    def targets(self, piece: Piece, skip: bool) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Targets, as numbers or class labels, and which rows have one; the others are refused or skipped."""
        cells = Cells.of(piece, self.target)
        found: NDArray[Any]
        if self.classes is None:
            found = cells.numbers()
            there = ~np.isnan(found)
        else:
            code = cells.codes(self.classes, UNKNOWN_CLASS)
            found, there = np.array(self.classes)[code], code >= 0
        if not skip and not there.all():
            cells.fail(int(np.argmin(there)), MISSING_TARGET)
        return found, there

    def to_json(self) -> dict[str, Any]:
        """The encoding as JSON has it."""
        columns = [column.to_json() for column in self.columns]
        table = {"columns": columns, "target": self.target, "classes": self.classes and list(self.classes)}
        dialect = {} if self.dialect == PLAIN else {"dialect": self.dialect.to_json()}
        left_out = {"left_out": list(self.left_out)} if self.left_out else {}
        return {**table, **dialect, **({"frame": True} if self.of_frame else {}), **left_out}

    @classmethod
    def from_json(cls, value: object) -> Encoding:
        """Read `to_json`, or raise a ValueError that says what is wrong."""
        blank = {"dialect": PLAIN.to_json(), "frame": False, "left_out": None}
        given = {**blank, **value} if isinstance(value, dict) else value
        fields = Fields(given, "the table", ("columns", "target", "classes", "dialect", "frame", "left_out"))
        return cls(
            tuple(map(Column.from_json, fields.items("columns"))),
            fields.text("target"),
            _labels(fields, "classes"),
            Dialect.from_json(fields.mapping("dialect")),
            fields.flag("frame"),
            _texts(fields, "left_out") or (),
        )


def _labels(fields: Fields, key: str) -> tuple[Label, ...] | None:
    if fields.is_null(key) or type(next(iter(fields.items(key)), "")) is str:
        return _texts(fields, key)
    labels = fields.items(key)
    kinds = {type(label) for label in labels}
    if len(kinds) > 1 or kinds.isdisjoint((bool, int, float)) or len({*labels}) < len(labels):
        raise ValueError(f"{key!r} of {fields.name} must be different texts, or numbers, or true and false")
    return tuple(labels)


def _texts(fields: Fields, key: str) -> tuple[str, ...] | None:
    if fields.is_null(key):
        return None
    texts = fields.items(key)
    if not texts or any(type(text) is not str for text in texts) or len({*texts}) < len(texts):
        raise ValueError(f"{key!r} of {fields.name} must be different texts")
    return tuple(texts)


def frame(names: Sequence[str], arrays: Sequence[Array]) -> pa.Table:
    """Arrays as a data frame that scikit-learn knows the column names of."""
    return pa.table(list(arrays), names=list(names))
