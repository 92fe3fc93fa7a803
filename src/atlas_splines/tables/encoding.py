"""Encodings: how the columns of a table become the inputs and targets of a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Fields
from atlas_splines.tables.reading import (
    DATES,
    LEAVE_OUT,
    MISSING_TARGET,
    WITH_COMMA,
    Cells,
    Label,
    Source,
    Table,
    as_labels,
    frame,
    has_comma,
)

__all__ = ["Column", "Encoding", "Survey"]

Array = NDArray[np.float64]
Interval = tuple[float, float]

MOST_ONE_HOT = 20  # categories that get an input each; more are put in an order
MOST_CATEGORIES = 10_000
MOST_CLASSES = 100
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b.*|\d{1,2}:\d{2}\b.*")
UNKNOWN = "correct it, or treat it as missing with --unknown missing"
UNKNOWN_CLASS = "correct it, or fit again with all classes"


class Survey:
    """Finds out, piece by piece, whether a column holds numbers or categories, and which.

    Parameters
    ----------
    category
        Whether to take it as categories in any case.
    option
        The option of the command that says so.
    """

    def __init__(self, *, category: bool, option: str) -> None:
        self.forced, self.option = category, option
        self.is_text = category
        self.any_number = False
        self.categories: dict[str, str] = {}  # by name, as spelled first
        self.stored: Any = None

    def add(self, cells: Cells) -> None:
        """See one piece."""
        found = None if self.is_text else cells.numbers_or_none()
        if found is None:
            self.is_text = True
            self._add_texts(cells)
        else:
            self.any_number |= not np.isnan(found).all()

    def _add_texts(self, cells: Cells) -> None:
        new = {name: text for name, text in cells.spellings().items() if name not in self.categories}
        if not self.forced:
            if any(map(has_comma, new)) and all(has_comma(text) or is_number(text) for text in new):
                self._refuse_comma(cells)
            if new and not self.categories and all(map(DATE.fullmatch, new)):
                cells.fail(None, DATES)
            if self.any_number or any(map(is_number, new)):
                self._refuse_mixture(cells)
        self.categories |= new
        if len(self.categories) > MOST_CATEGORIES:
            cells.fail(None, f"there are more than {MOST_CATEGORIES:,} different texts; {LEAVE_OUT}")
        self.stored = cells.stored

    def _refuse_comma(self, cells: Cells) -> None:
        values = cells.values.to_pylist()
        at = next(i for i, value in enumerate(values) if value and has_comma(value))
        cells.fail(at, f"{values[at]!r} {WITH_COMMA}, or add {self.option}")

    def _refuse_mixture(self, cells: Cells) -> None:
        values = cells.values.to_pylist()
        if self.categories:
            at = next(i for i, value in enumerate(values) if value and is_number(value))
            what = "is a number among texts"
        else:
            at, what = cells.first_text(), "is not a number, as other cells are"
        text = values[at]
        cells.fail(at, f"{text!r} {what}; correct it, leave it empty, or add {self.option}")

    @property
    def labels(self) -> list[Label]:
        """The categories as they are in the file."""
        return as_labels(self.categories.values(), self.stored)

    def column(self, name: str) -> Column:
        """The column as a model's input."""
        return Column(name, tuple(sorted(self.categories)) or None)


def is_number(text: str) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Column:
    """How a column of a table becomes inputs of a model.

    A number is one input. Two categories are one input, 0 or 1, and halfway if missing. Up to 20 categories
    have an input each, 0 or 1, all 0 if missing. More are one input: their place in an order.

    Attributes
    ----------
    name
        Name of the column.
    categories
        Its categories in the order of their codes; None for numbers.
    """

    name: str
    categories: tuple[str, ...] | None = None

    @property
    def one_hot(self) -> bool:
        """Whether each category has an input of its own."""
        return self.categories is not None and 2 < len(self.categories) <= MOST_ONE_HOT

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        if self.one_hot:
            return [f"{self.name}={category}" for category in self.categories or ()]
        return [self.name]

    @property
    def meanings(self) -> list[str]:
        """How each input is made, in words."""
        if self.categories is None:
            return ["the number; NaN if missing"]
        if self.one_hot:
            return [f"1 for {category!r}, or else 0" for category in self.categories]
        if len(self.categories) <= 2:
            return [", ".join(f"{k} for {c!r}" for k, c in enumerate(self.categories)) + "; 0.5 if missing"]
        return [f"place among the {len(self.categories):,} of the encoding, from 0; NaN if missing"]

    def encode(self, cells: Cells, unknown: str | None) -> list[Array]:
        """Inputs, shape (rows,) each."""
        if self.categories is None:
            return [cells.numbers()]
        code = cells.codes(self.categories, unknown)
        if self.one_hot:
            return [(code == k).astype(np.float64) for k in range(len(self.categories))]
        missing = 0.5 if len(self.categories) <= 2 else np.nan
        return [np.where(code < 0, missing, code)]

    def ordered(self, code: NDArray[np.int64], target: Array) -> Column:
        """The column with many categories in the order of their mean target; those not seen in the middle."""
        if self.categories is None or len(self.categories) <= MOST_ONE_HOT:
            return self
        count = len(self.categories)
        rows = np.bincount(code[code >= 0], minlength=count)
        sums = np.bincount(code[code >= 0], target[code >= 0], minlength=count)
        means = np.where(rows > 0, sums / np.maximum(rows, 1), target.mean())
        return Column(self.name, tuple(self.categories[k] for k in np.argsort(means, kind="stable")))

    def covered(self, parts: list[list[Interval]], limits: Interval, fill: float) -> str:
        """What the intervals of its inputs mean in the column's own values.

        Beyond the limits, predictions follow those at the limits. A missing value that is not an input of its
        own is read as `fill`.
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
            missing = within(fill if len(self.categories) > 2 else 0.5, parts[0])
        names = [name for name, there in zip(self.categories, found, strict=True) if there]
        shown = names[:8] + ([f"{len(names) - 8} more"] if len(names) > 8 else [])
        return ", ".join(shown + (["missing"] if missing else [])) or "nowhere"

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
    """An interval in words; one that reaches a limit goes on beyond it.

    Examples
    --------
    >>> interval_text((2.0, 5.0), (0.0, 9.0)), interval_text((2.0, 9.0), (0.0, 9.0))
    ('2 to 5', '2 or more')
    """
    low, high = interval
    if low <= limits[0]:
        return "any value" if high >= limits[1] else f"{high:.6g} or less"
    return f"{low:.6g} or more" if high >= limits[1] else f"{low:.6g} to {high:.6g}"


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
        Its classes, sorted, of the type and in the spelling they had in fit; None for numbers.
    """

    columns: tuple[Column, ...]
    target: str
    classes: tuple[Label, ...] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns that are inputs."""
        return [column.name for column in self.columns]

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return [name for column in self.columns for name in column.inputs]

    def encode(self, source: Source, first_row: int, piece: Table, unknown: str | None = UNKNOWN) -> Table:
        """Inputs by name, all of them numbers; a missing one is NaN."""
        arrays: list[Array] = []
        for column in self.columns:
            arrays += column.encode(Cells.of(source, column.name, first_row, piece), unknown)
        return frame(self.inputs, arrays)

    def targets(
        self, source: Source, first_row: int, piece: Table, skip: bool
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Targets, as numbers or class labels, and which rows have one; the others are refused or skipped."""
        cells = Cells.of(source, self.target, first_row, piece)
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
        columns = [{"name": c.name, "categories": c.categories and list(c.categories)} for c in self.columns]
        return {"columns": columns, "target": self.target, "classes": self.classes and list(self.classes)}

    @classmethod
    def from_json(cls, value: object) -> Encoding:
        """Read `to_json`, or raise a ValueError that says what is wrong."""
        fields = Fields(value, "the table", ("columns", "target", "classes"))
        columns = [
            Fields(c, "a column of the table", ("name", "categories")) for c in fields.items("columns")
        ]
        return cls(
            tuple(Column(column.text("name"), _texts(column, "categories")) for column in columns),
            fields.text("target"),
            _labels(fields, "classes"),
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
