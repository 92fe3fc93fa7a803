"""Surveys: what the columns of a table hold, found out piece by piece."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.tables.cells import WITH_COMMA, Cells, Label, as_labels, has_comma
from atlas_splines.tables.dates import DateChoice, DateSurvey, looks_like_dates
from atlas_splines.tables.encoding import MOST_ONE_HOT, Column, Encoding
from atlas_splines.tables.reading import Piece, Source, TableError
from atlas_splines.tables.sampling import Reservoir
from atlas_splines.tables.wording import listed

__all__ = ["News", "Survey", "Task", "find_news", "new_categories", "survey_frame", "survey_table"]

Array = NDArray[np.float64]

Task = Literal["auto", "classify", "regress"]

# Different texts that a column may hold.
MOST_CATEGORIES = 10_000

# Classes that a target may have.
MOST_CLASSES = 100

DATES_AS_TARGET = "dates and times are no target; turn them into numbers, such as days since a start"


class Survey:
    """Finds out, piece by piece, whether a column holds numbers, dates or categories, and which.

    Parameters
    ----------
    category
        Whether to take it as categories in any case.
    way_out
        What to do if it holds texts and numbers.
    dates
        What is known of its dates, if it is to be taken as dates in any case.
    """

    def __init__(self, *, category: bool, way_out: str, dates: DateSurvey | None = None) -> None:
        self.forced, self.way_out, self.dates = category, way_out, dates
        self.is_text = category
        self.any_number = False
        self.categories: dict[str, str] = {}  # by name, as spelled first
        self.stored: Any = None

    def add(self, cells: Cells) -> None:
        """See one piece."""
        if not self.is_text and self.dates is None:
            found = cells.numbers_or_none()
            if found is not None:
                self.any_number |= not np.isnan(found).all()
            elif not self.any_number and looks_like_dates(cells):
                self.dates = DateSurvey(cells.column)
            else:
                self.is_text = True
        if self.dates is not None:
            self.dates.add(cells)
        elif self.is_text:
            self._add_texts(cells)

    def _add_texts(self, cells: Cells) -> None:
        new = {name: text for name, text in cells.spellings().items() if name not in self.categories}
        if not self.forced:
            if any(map(has_comma, new)) and all(has_comma(text) or is_number(text) for text in new):
                self._refuse_comma(cells)
            if self.any_number or any(map(is_number, new)):
                self._refuse_mixture(cells)
        self.categories |= new
        if len(self.categories) > MOST_CATEGORIES:
            cells.fail(
                None, f"there are more than {MOST_CATEGORIES:,} different texts; {cells.ways_out.leave_out}"
            )
        self.stored = cells.stored

    def _refuse_comma(self, cells: Cells) -> None:
        values = cells.values.to_pylist()
        at = next(i for i, value in enumerate(values) if value and has_comma(value))
        cells.fail(at, f"{values[at]!r} {WITH_COMMA}{cells.ways_out.decimal}, or {self.way_out}")

    def _refuse_mixture(self, cells: Cells) -> None:
        values = cells.values.to_pylist()
        if self.categories:
            at = next(i for i, value in enumerate(values) if value and is_number(value))
            what = "is a number among texts"
        else:
            at, what = cells.first_text(), "is not a number, as other cells are"
        text = values[at]
        cells.fail(at, f"{text!r} {what}; correct it, leave it empty, or {self.way_out}")

    @property
    def labels(self) -> list[Label]:
        """The categories as they are in the file."""
        return as_labels(self.categories.values(), self.stored)

    def column(self, name: str) -> Column:
        """The column as a model's input."""
        if self.dates is not None:
            return Column(name, calendar=self.dates.calendar())
        return Column(name, tuple(sorted(self.categories)) or None)


def is_number(text: str) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def survey_table(
    source: Source,
    names: Sequence[str],
    target: str,
    *,
    task: Task,
    category: Collection[str],
    skip_missing: bool,
    reservoir: Reservoir,
    beside: Sequence[str] = (),
    dates: Mapping[str, DateChoice] = MappingProxyType({}),
) -> Encoding:
    """Read a table once: how its columns become inputs and targets; a sample of its rows fills the reservoir.

    Beside each row of the sample is its number in the table. Columns `beside` come with it as they are.
    """
    category = {*category, *source.categories}
    surveys = {
        name: Survey(
            category=name in category and name not in dates,
            way_out=source.ways_out.category.format(column=name),
            dates=DateSurvey(name, dates[name]) if name in dates else None,
        )
        for name in names
    }
    if task == "auto" and target in source.categories:
        task = "classify"
    of_target = Survey(category=task == "classify", way_out="add --classify")
    for piece in source.pieces([*names, target, *beside]):
        for name, seen in surveys.items():
            seen.add(Cells.of(piece, name))
        cells = Cells.of(piece, target)
        if task == "regress":
            cells.numbers()
        of_target.add(cells)
        if of_target.dates is not None:
            cells.fail(None, DATES_AS_TARGET)
        there = cells.present(skip_missing)
        reservoir.add(piece.table.filter(there), piece.row_numbers[there])
    if not reservoir.seen:
        raise TableError(f"{source.name} has no rows with a target below its header; check the file")
    classes = check_classes(source, target, of_target) if of_target.is_text else None
    columns = tuple(seen.column(name) for name, seen in surveys.items())
    encoding = Encoding(columns, target, classes, source.dialect)
    sample = Piece(source, 1, reservoir.sample()[0])
    y, _ = encoding.targets(sample, skip=True)
    if classes is not None:
        y = np.searchsorted(classes, y)
    return with_ordered_categories(encoding, sample, y.astype(np.float64), reservoir.seen)


def survey_frame(piece: Piece, target: str, y: Array, dates: Mapping[str, DateChoice]) -> Encoding:
    """How the columns of a data frame become inputs; y are its targets as numbers, or numbers of classes."""
    ways_out = piece.source.ways_out
    columns = []
    for name in piece.source.columns:
        way_out = ways_out.category.format(column=name)
        seen = Survey(
            category=name in piece.source.categories and name not in dates,
            way_out=way_out,
            dates=DateSurvey(name, dates[name]) if name in dates else None,
        )
        seen.add(Cells.of(piece, name))
        columns.append(seen.column(name))
    encoding = Encoding(tuple(columns), target, of_frame=True)
    return with_ordered_categories(encoding, piece, y, len(y))


def check_classes(source: Source, target: str, seen: Survey) -> tuple[Label, ...]:
    """Classes of the target, neither too few nor too many."""
    count = len(seen.categories)
    where = f"{source.name}, column {target!r}"
    if count > MOST_CLASSES:
        raise TableError(f"{where}: {count:,} classes are too many, at most {MOST_CLASSES}; check --target")
    if count < 2:
        raise TableError(f"{where}: there is one class only, {listed(seen.categories)}; two are needed")
    return tuple(np.unique(seen.labels).tolist())


def with_ordered_categories(encoding: Encoding, sample: Piece, y: Array, rows: int) -> Encoding:
    """Put the categories of columns that have many into an order, and refuse texts that tell nothing.

    The sample is of a table with so many rows; y are its targets.
    """
    columns = []
    for column in encoding.columns:
        if column.categories is not None and len(column.categories) > MOST_ONE_HOT:
            cells = Cells.of(sample, column.name)
            if len(column.categories) > rows / 2:
                cells.fail(
                    None, f"nearly every text is different, so they tell nothing; {cells.ways_out.leave_out}"
                )
            column = column.ordered(cells.codes(column.categories, None), y)
        columns.append(column)
    if len({*encoding.inputs}) < len(encoding.inputs):
        raise TableError(
            f"{sample.source.name}: a column has the name of another one's category or part of a date; "
            "rename it"
        )
    return replace(encoding, columns=tuple(columns))


@dataclass(frozen=True)
class News:
    """What a table has that was not there in fit.

    Attributes
    ----------
    categories
        New categories of each column that has some.
    classes
        New classes of the target, of the type that the others have.
    """

    categories: Mapping[str, tuple[str, ...]]
    classes: tuple[Label, ...] = ()

    def added_to(self, encoding: Encoding) -> Encoding:
        """The encoding that knows them."""
        columns = tuple(
            column.with_new(self.categories[column.name]) if column.name in self.categories else column
            for column in encoding.columns
        )
        if not self.classes:
            return replace(encoding, columns=columns)
        every = np.unique([*(encoding.classes or ()), *self.classes]).tolist()
        return replace(encoding, columns=columns, classes=tuple(every))


def new_categories(piece: Piece, column: Column, others: Collection[str] = ()) -> set[str]:
    """Categories of a column that were not there in fit; with the others, there must not be too many."""
    cells, known = Cells.of(piece, column.name), (*(column.categories or ()), *column.others)
    new = {*cells.unknown(known)}
    if len(known) + len(new.union(others)) > MOST_CATEGORIES:
        cells.fail(None, f"there are more than {MOST_CATEGORIES:,} different texts; check the column")
    return new


def find_news(source: Source, encoding: Encoding) -> News:
    """Read a table once: which of its categories and classes are new."""
    coded = [column for column in encoding.columns if column.categories is not None]
    classes = encoding.classes or ()
    new: dict[str, set[str]] = {column.name: set() for column in coded}
    labels: set[Label] = set()
    names = [*new, *([encoding.target] if classes else [])]
    for piece in source.pieces(names) if names else ():
        for column in coded:
            new[column.name] |= new_categories(piece, column, new[column.name])
        if classes:
            labels.update(Cells.of(piece, encoding.target).unknown_classes(classes))
    if len(classes) + len(labels) > MOST_CLASSES:
        count, where = len(classes) + len(labels), f"{source.name}, column {encoding.target!r}"
        raise TableError(f"{where}: {count:,} classes are too many, at most {MOST_CLASSES}; check the column")
    found = {name: tuple(sorted(texts)) for name, texts in new.items() if texts}
    return News(found, tuple(np.unique([*labels]).tolist()))
