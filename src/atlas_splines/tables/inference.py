"""Schema inference: the kinds of a table's columns in one pass over its chunks; surveys can be merged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.tables.cells import WITH_COMMA, Cells, Label, as_labels, has_comma
from atlas_splines.tables.dates import DateChoice, DateSurvey, looks_like_dates
from atlas_splines.tables.encoding import Column, Encoding
from atlas_splines.tables.source import Piece, Source, Table, TableError
from atlas_splines.tables.wording import COMMAND, choice, listed

__all__ = [
    *(
        "Remote",
        "News",
        "Survey",
        "TableSurvey",
        "Task",
        "checked_columns",
        "checked_news",
        "find_news",
        "new_categories",
    ),
    *("news_columns", "survey_frame"),
]

Array = NDArray[np.float64]

Task = Literal["auto", "classify", "regress"]

# Distinct strings that a column may hold: with more it is one of identifiers. Not benchmarked.
MOST_CATEGORIES = 10_000

NO_TEXTS: frozenset[str] = frozenset()

# Classes that a target may have.
MOST_CLASSES = 100

DATES_AS_TARGET = "dates and times are not a target; turn them into numbers, such as days since a start"


class Survey:
    """Infers, chunk by chunk, whether a column holds numbers, dates or categories, and which.

    Parameters
    ----------
    category
        Whether to take it as categories in any case.
    way_out
        What to do if it holds strings and numbers.
    dates
        The survey of its dates, if it is to be taken as dates in any case.
    """

    def __init__(self, *, category: bool, way_out: str, dates: DateSurvey | None = None) -> None:
        self.forced, self.way_out, self.dates = category, way_out, dates
        self.is_text = category
        self.any_number = False
        self.categories: dict[str, str] = {}  # by name, as spelled first
        self.stored: Any = None

    def add(self, cells: Cells) -> None:
        """Update with one piece."""
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
        self._refuse_too_many(cells)
        self.stored = cells.stored

    def _refuse_comma(self, cells: Cells) -> None:
        values = cells.values.to_pylist()
        at = next(i for i, value in enumerate(values) if value and has_comma(value))
        cells.fail(at, f"{values[at]!r} {WITH_COMMA}{cells.advice.decimal}, or {self.way_out}")

    def _refuse_mixture(self, cells: Cells) -> None:
        values = cells.values.to_pylist()
        if self.categories:
            at = next(i for i, value in enumerate(values) if value and is_number(value))
            what = "is a number among strings"
        else:
            at, what = cells.first_text(), "is not a number, as other cells are"
        text = values[at]
        ways = ["correct it", "leave it empty", *cells.missing_advice(text), self.way_out]
        cells.fail(at, f"{text!r} {what}; {choice(ways)}")

    def add_names(self, names: Collection[str], cells: Cells) -> None:
        """Add the categories of another piece, if this can be a column of strings."""
        if self.is_text or self.is_blank:
            self.categories = {**dict.fromkeys(names, ""), **self.categories}
            self.is_text |= bool(names)
            self._refuse_too_many(cells)

    def _refuse_too_many(self, cells: Cells) -> None:
        if len(self.categories) > MOST_CATEGORIES:
            cells.fail(
                None, f"there are more than {MOST_CATEGORIES:,} distinct strings; {cells.advice.leave_out}"
            )

    def merge(self, later: Survey) -> bool:
        """Merge with a survey of later pieces; False if these have to be read again after this one.

        That is so where the two parts hold different kinds of cells, and where strings could be numbers with
        commas: whether these are refused depends on the cells before them.
        """
        if later.is_blank:
            return True
        if self.is_blank:
            vars(self).update(vars(later))
            return True
        if self.dates is not None and later.dates is not None:
            return self.dates.merge(later.dates)
        is_alike = self.is_text == later.is_text and (self.dates is None) == (later.dates is None)
        new = {name: text for name, text in later.categories.items() if name not in self.categories}
        self.categories |= new
        if not is_alike or len(self.categories) > MOST_CATEGORIES:
            return False
        self.any_number |= later.any_number
        self.stored = later.stored
        return self.forced or not any(map(has_comma, new))

    @property
    def is_blank(self) -> bool:
        """Whether all values were missing, and no option was given."""
        return not self.is_text and not self.any_number and self.dates is None

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
    """Whether a string can be parsed as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class TableSurvey:
    """Infers, chunk by chunk, how the columns of a table become inputs and targets.

    Surveys of parts of a table can be merged.

    Parameters
    ----------
    names
        Columns that are inputs.
    target
        Column to predict.
    task
        What to take it as.
    category
        Columns that are categories in any case.
    stored
        Columns that the table stores as categories.
    skip_missing
        Whether rows without a target are left out, or else refused.
    dates
        Options of columns of dates.
    """

    def __init__(
        self,
        names: Sequence[str],
        target: str,
        *,
        task: Task = "auto",
        category: Collection[str] = (),
        stored: Collection[str] = (),
        skip_missing: bool = False,
        dates: Mapping[str, DateChoice] = MappingProxyType({}),
    ) -> None:
        category = {*category, *stored}
        self.columns = {
            name: Survey(
                category=name in category and name not in dates,
                way_out=COMMAND.category.format(column=name),
                dates=DateSurvey(name, dates[name]) if name in dates else None,
            )
            for name in names
        }
        self.task: Task = "classify" if task == "auto" and target in stored else task
        self.target, self.skip_missing = target, skip_missing
        self.of_target = Survey(category=self.task == "classify", way_out="add --classify")

    def add(self, piece: Piece) -> NDArray[np.bool_]:
        """Update with one piece; return the mask of its rows that have a target."""
        for name, seen in self.columns.items():
            seen.add(Cells.of(piece, name))
        cells = Cells.of(piece, self.target)
        if self.task == "regress":
            cells.numbers()
        self.of_target.add(cells)
        if self.of_target.dates is not None:
            cells.fail(None, DATES_AS_TARGET)
        return cells.present(self.skip_missing)

    def present(self, piece: Piece) -> NDArray[np.bool_]:
        """Mask of the rows of a piece that have a target."""
        return Cells.of(piece, self.target).present(self.skip_missing)

    def merge(self, later: TableSurvey) -> bool:
        """Merge with a survey of later pieces; False if these have to be read again after this one."""
        pairs = [(seen, later.columns[name]) for name, seen in self.columns.items()]
        return all([seen.merge(other) for seen, other in [*pairs, (self.of_target, later.of_target)]])

    def encoding(self, source: Source, sample: Table, rows: int) -> Encoding:
        """The encoding inferred from the survey and a sample of so many rows."""
        classes = check_classes(source, self.target, self.of_target) if self.of_target.is_text else None
        columns = tuple(seen.column(name) for name, seen in self.columns.items())
        encoding = Encoding(columns, self.target, classes, source.dialect)
        return checked_columns(encoding, Piece(source, 1, sample), rows)


@dataclass(frozen=True)
class Remote:
    """Statistics of a data frame of which this process holds some rows only.

    Attributes
    ----------
    texts
        Names of the distinct strings of columns; one more than there may be if there are too many.
    rows
        Number of all rows.
    """

    texts: Mapping[str, frozenset[str]]
    rows: int

    def __or__(self, other: Remote) -> Remote:
        names = {*self.texts, *other.texts}
        every = {name: self.texts.get(name, NO_TEXTS) | other.texts.get(name, NO_TEXTS) for name in names}
        return Remote({name: some_of(texts) for name, texts in every.items()}, self.rows + other.rows)

    def news(self, encoding: Encoding) -> News:
        """Categories of all rows that are new to an encoding."""
        coded = [column for column in encoding.columns if column.categories is not None]
        new = {
            column.name: self.texts.get(column.name, NO_TEXTS) - {*(column.categories or ()), *column.others}
            for column in coded
        }
        return News({name: tuple(sorted(texts)) for name, texts in new.items() if texts})


def some_of(texts: Collection[str]) -> frozenset[str]:
    """All of them up to one more than the limit, independent of how they are partitioned."""
    few = len(texts) <= MOST_CATEGORIES
    return frozenset(texts if few else sorted(texts)[: MOST_CATEGORIES + 1])


def survey_frame(
    piece: Piece, target: str, dates: Mapping[str, DateChoice], elsewhere: Remote | None = None
) -> Encoding:
    """How the columns of a data frame become inputs.

    A frame has types: strings are categories or dates, even if they could be parsed as numbers.
    """
    advice = piece.source.advice
    columns = []
    for name in piece.source.columns:
        way_out, cells = advice.category.format(column=name), Cells.of(piece, name)
        are_texts = name in piece.source.categories or (cells.holds_texts and not looks_like_dates(cells))
        seen = Survey(
            category=are_texts and name not in dates,
            way_out=way_out,
            dates=DateSurvey(name, dates[name]) if name in dates else None,
        )
        seen.add(cells)
        if elsewhere is not None:
            seen.add_names(elsewhere.texts.get(name, NO_TEXTS), cells)
        columns.append(seen.column(name))
    encoding = Encoding(tuple(columns), target, of_frame=True)
    return checked_columns(encoding, piece, piece.table.num_rows if elsewhere is None else elsewhere.rows)


def check_classes(source: Source, target: str, seen: Survey) -> tuple[Label, ...]:
    """Classes of the target, neither too few nor too many."""
    count = len(seen.categories)
    where = f"{source.name}, column {target!r}"
    if count > MOST_CLASSES:
        raise TableError(f"{where}: {count:,} classes are too many, at most {MOST_CLASSES}; check --target")
    if count < 2:
        raise TableError(f"{where}: there is one class only, {listed(seen.categories)}; two are needed")
    return tuple(np.unique(seen.labels).tolist())


def checked_columns(encoding: Encoding, sample: Piece, rows: int) -> Encoding:
    """The encoding of a table of `rows` rows; raises for columns of identifiers and duplicate names."""
    for column in encoding.columns:
        if column.is_placed and len(column.categories or ()) > rows / 2:
            cells = Cells.of(sample, column.name)
            what = "nearly every string is distinct, so the column carries no information"
            if cells.numbers_or_none() is not None:
                what = "nearly every string is distinct, and each is a number; give the column as numbers"
            cells.fail(None, f"{what}{', or' if 'give' in what else ';'} {cells.advice.leave_out}")
    if len({*encoding.inputs}) < len(encoding.inputs):
        raise TableError(
            f"{sample.source.name}: a column has the name of another one's category or part of a date; "
            "rename it"
        )
    return encoding


@dataclass(frozen=True)
class News:
    """Categories and classes of a table that were not in the fit.

    Attributes
    ----------
    categories
        New categories of each column that has some.
    classes
        New classes of the target, of the type that the others have.
    """

    categories: Mapping[str, tuple[str, ...]]
    classes: tuple[Label, ...] = ()

    def __or__(self, other: News) -> News:
        names = {*self.categories, *other.categories}
        categories = {
            name: tuple(sorted({*self.categories.get(name, ()), *other.categories.get(name, ())}))
            for name in names
        }
        return News(categories, tuple(np.unique([*self.classes, *other.classes]).tolist()))

    def added_to(self, encoding: Encoding) -> Encoding:
        """The encoding with them added."""
        columns = tuple(
            column.with_new(self.categories[column.name]) if column.name in self.categories else column
            for column in encoding.columns
        )
        if not self.classes:
            return replace(encoding, columns=columns)
        every = np.unique([*(encoding.classes or ()), *self.classes]).tolist()
        return replace(encoding, columns=columns, classes=tuple(every))


def new_categories(piece: Piece, column: Column, others: Collection[str] = ()) -> set[str]:
    """Categories of a column that were not in the fit; raises if there are too many with the others."""
    cells, known = Cells.of(piece, column.name), (*(column.categories or ()), *column.others)
    new = {*cells.unknown(known)}
    if len(known) + len(new.union(others)) > MOST_CATEGORIES:
        cells.fail(None, f"there are more than {MOST_CATEGORIES:,} distinct strings; check the column")
    return new


def news_columns(encoding: Encoding, source: Source) -> list[str]:
    """Columns of a table that can have new categories or classes."""
    names = [column.name for column in encoding.columns if column.categories is not None]
    coded = [name for name in names if name in source.columns]
    return [*coded, *([encoding.target] if encoding.classes else [])]


def find_news(pieces: Iterable[Piece], encoding: Encoding) -> News:
    """Which categories and classes of some pieces of a table are new."""
    coded = [column for column in encoding.columns if column.categories is not None]
    new: dict[str, set[str]] = {column.name: set() for column in coded}
    labels: set[Label] = set()
    for piece in pieces:
        for column in coded:
            if column.name in piece.table.column_names:
                new[column.name] |= new_categories(piece, column, new[column.name])
        if encoding.classes:
            labels.update(Cells.of(piece, encoding.target).unknown_classes(encoding.classes))
    found = {name: tuple(sorted(texts)) for name, texts in new.items() if texts}
    return News(found, tuple(np.unique([*labels]).tolist()))


def checked_news(source: Source, encoding: Encoding, news: News) -> News:
    """The news, unless these are more categories, or more classes, than there may be."""
    for column in encoding.columns:
        known = len(column.categories or ()) + len(column.others)
        if known + len(news.categories.get(column.name, ())) > MOST_CATEGORIES:
            where, what = f"{source.name}, column {column.name!r}", f"more than {MOST_CATEGORIES:,}"
            raise TableError(f"{where}: there are {what} distinct strings; check the column")
    count = len(encoding.classes or ()) + len(news.classes)
    if count > MOST_CLASSES:
        where, what = f"{source.name}, column {encoding.target!r}", f"at most {MOST_CLASSES}"
        raise TableError(f"{where}: {count:,} classes are too many, {what}; check the column")
    return news
