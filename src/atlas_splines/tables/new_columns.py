"""Columns and categories that came after the fit: what rows of an update hold, and how that becomes inputs.

Values are kept as they came, so that they can be encoded again when the update that brought them is gone.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from atlas_splines.files.fields import Fields
from atlas_splines.memory.random_effects import LATER, Levels
from atlas_splines.tables.dates import (
    COMPACT,
    LAYOUTS,
    MICROSECONDS_A_DAY,
    PARTS,
    Calendar,
    Span,
    days_since_1970,
)
from atlas_splines.tables.encoding import Column, Encoding
from atlas_splines.tables.source import Piece, TableError

__all__ = [
    "LaterCategories",
    "NewColumn",
    "appended",
    "column_of",
    "decoded",
    "encoded",
    "grown",
    "levels_of",
    "new_columns",
    "split",
    "trends_of",
    "with_codes",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NewColumn:
    """Values of a column that the fit did not have, in some rows, or new categories of one that it had.

    Attributes
    ----------
    name
        Name of the column.
    values
        Numbers, places among the categories, or microseconds since 1970 by the clock of the dates, shape
        (rows,); NaN where the value is missing.
    categories
        Those that the rows have, sorted; None for numbers and dates.
    layout, zone
        Layout and time zone of dates, as in `Calendar`; the layout is None if there are none.
    input
        The (first) input of a column that the fit had: its values are missing where a row has a category of
        the fit. None for a column that came later.

    Examples
    --------
    >>> came = NewColumn("kind", np.array([1.0, np.nan, 0.0]), ("flat", "house"))
    >>> came.take(np.array([True, True, False])).categories
    ('house',)
    """

    name: str
    values: Array
    categories: tuple[str, ...] | None = None
    layout: str | None = None
    zone: str | None = None
    input: int | None = None

    @property
    def kind(self) -> str:
        """What it holds."""
        return "categories" if self.categories is not None else "numbers" if self.layout is None else "dates"

    @property
    def is_blank(self) -> bool:
        """Whether all values are missing."""
        return bool(np.isnan(self.values).all())

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> NewColumn:
        """The column in some of the rows, with the categories that these have."""
        values = self.values[rows]
        if self.categories is None:
            return replace(self, values=values)
        there = ~np.isnan(values)
        places, codes = np.unique(values[there].astype(np.int64), return_inverse=True)
        values = values.copy()
        values[there] = codes
        return replace(self, values=values, categories=tuple(self.categories[k] for k in places))

    @property
    def contents(self) -> list[bytes]:
        """What each row holds, whatever other rows do: empty where the value is missing."""
        named = self.name.encode()
        if self.categories is not None:
            texts = [category.encode() for category in self.categories]
            found = [b"" if np.isnan(value) else texts[int(value)] for value in self.values]
        else:
            found = [b"" if np.isnan(value) else struct.pack("<d", value + 0.0) for value in self.values]
        gone = np.isnan(self.values).tolist()
        return [b"" if is_gone else named + b"\0" + text for is_gone, text in zip(gone, found, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """All but the values, as JSON has it."""
        own = {
            "name": self.name,
            "categories": None if self.categories is None else list(self.categories),
            "layout": self.layout,
            "zone": self.zone,
        }
        return own if self.input is None else own | {"input": self.input}

    @classmethod
    def from_json(cls, value: object, values: Array) -> NewColumn:
        """Read `to_json`, or raise a ValueError with a clear message."""
        names = ("name", "categories", "layout", "zone")
        fields = Fields.with_optional(value, "a column that came later", names, "input")
        categories = None if fields.is_null("categories") else tuple(fields.items("categories"))
        if categories is not None:
            if any(type(text) is not str for text in categories) or [*categories] != sorted({*categories}):
                raise ValueError(f"'categories' of {fields.name} must be distinct strings, sorted")
            places = values[~np.isnan(values)]
            if ((places != np.floor(places)) | (places < 0) | (places >= len(categories))).any():
                raise ValueError(f"the values of {fields.name} must be places of its categories")
        layout = None if fields.is_null("layout") else fields.choice("layout", (*LAYOUTS, COMPACT))
        zone = None if fields.is_null("zone") else fields.text("zone")
        if categories is not None and layout is not None:
            raise ValueError(f"{fields.name} has both categories and dates")
        if layout is not None and (np.abs(values) > 2**58).any():
            raise ValueError(f"the values of {fields.name} must be microseconds since 1970")
        place = fields.whole("input", least=0, most=2**20) if "input" in fields.value else None
        if place is not None and categories is None:
            raise ValueError(f"{fields.name} is one of the fit, and has no categories")
        return cls(fields.text("name"), values, categories, layout, zone, place)


class LaterCategories(NamedTuple):
    """Categories of a column of the fit that came after it.

    Attributes
    ----------
    name
        Name of the column.
    categories
        The categories, each coded by its place.
    blank
        Value of the (first) input of the column where its category is missing.
    """

    name: str
    categories: tuple[str, ...]
    blank: float


def new_columns(found: Encoding, piece: Piece, known: Encoding) -> tuple[Column, ...]:
    """Columns of a survey as additions to an existing encoding."""
    columns = tuple(map(_with_trend, found.columns))
    inputs = [*known.inputs, *(name for column in columns for name in column.inputs)]
    if len({*inputs}) < len(inputs):
        raise TableError(
            f"{piece.source.name}: a column has the name of another one's category or part of a date; "
            "rename it"
        )
    return columns


def column_of(parts: Sequence[NewColumn]) -> Column:
    """How a column becomes inputs, by what the first rows had of it; categories of others came later.

    The trend is always among the parts of dates: moments are found again from it.

    Examples
    --------
    >>> first = NewColumn("kind", np.array([1.0, 0.0]), ("flat", "house"))
    >>> later = NewColumn("kind", np.array([0.0]), ("barn",))
    >>> column_of([first, later]).others
    ('barn',)
    """
    first = parts[0]
    for other in parts[1:]:
        if other.kind != first.kind:
            raise ValueError(
                f"column {first.name!r} holds {first.kind} in one update and {other.kind} in another; "
                "rename one of them"
            )
    if first.layout is not None:
        return Column(first.name, calendar=_calendar(first))
    if first.categories is None:
        return Column(first.name)
    known = dict.fromkeys(first.categories)
    for other in parts[1:]:
        known |= dict.fromkeys(other.categories or ())
    return Column(first.name, first.categories, others=tuple(known)[len(first.categories) :])


def _with_trend(column: Column) -> Column:
    calendar = column.calendar
    if calendar is None or not calendar.layout:
        return column
    parts = tuple(part for part in PARTS if part == "trend" or part in calendar.parts)
    return replace(column, calendar=replace(calendar, parts=parts))


def _calendar(first: NewColumn) -> Calendar:
    assert first.layout is not None
    if not first.layout:
        return Calendar(("hour",), first.layout)
    span = Span(first.values[~np.isnan(first.values)].astype(np.int64))
    parts = tuple(part for part in PARTS if part == "trend" or part in span.parts)
    return Calendar(parts, first.layout, span.start, first.zone)


def encoded(column: Column, part: NewColumn | None, rows: int) -> list[Array]:
    """Inputs of a column, shape (rows,) each; all is missing where there is no part."""
    values = np.full(rows, np.nan) if part is None else part.values
    if column.calendar is not None:
        there = ~np.isnan(values)
        whole = pa.array(np.where(there, values, 0).astype(np.int64), mask=~there)
        return column.calendar.inputs_of(whole.cast(pa.timestamp("us")))
    if column.categories is None:
        return [values]
    names = () if part is None or part.categories is None else part.categories
    every = {name: k for k, name in enumerate((*column.categories, *column.others))}
    places = np.array([*(every[name] for name in names), -1], np.int64)
    return column.inputs_of(places[np.where(np.isnan(values), len(names), values).astype(np.int64)])


def decoded(column: Column, inputs: Array) -> NewColumn:
    """What inputs of a column, shape (rows, inputs), were made of: `encoded` makes the same of it again."""
    first = inputs[:, 0]
    if column.calendar is not None:
        calendar = column.calendar
        days = inputs[:, calendar.parts.index("trend")] if calendar.layout else first / 24
        since = days_since_1970(calendar.start) if calendar.layout else 0
        moments = np.rint(days * MICROSECONDS_A_DAY) + since * MICROSECONDS_A_DAY
        return NewColumn(column.name, moments, None, calendar.layout, calendar.zone)
    if column.categories is None:
        return NewColumn(column.name, np.array(first))
    count = len(column.categories)
    if column.one_hot:
        code = np.where((inputs == 1).any(axis=1), (inputs == 1).argmax(axis=1).astype(np.float64), np.nan)
    else:
        code = np.where((first >= 0) & (first == np.floor(first)) & (first < count), first, np.nan)
    code = np.where(first >= LATER, first - LATER + count, code)
    every = (*column.categories, *column.others)
    order = sorted(range(len(every)), key=every.__getitem__)
    rank = np.argsort(order).astype(np.float64)
    ranked = np.where(np.isnan(code), np.nan, rank[np.where(np.isnan(code), 0, code).astype(np.int64)])
    whole = NewColumn(column.name, ranked, tuple(every[k] for k in order))
    return whole.take(np.arange(len(ranked)))


def split(
    X: Array, base: int, columns: Sequence[Column], later: Mapping[int, LaterCategories]
) -> tuple[Array, tuple[NewColumn, ...]]:
    """The first inputs of rows, and what they hold that came later, if they hold anything of that.

    Columns are those behind the first inputs; categories that came later are by the (first) inputs of their
    columns, where they count as missing.
    """
    first, found, begin = np.array(X[:, :base]), [], base
    for column in columns:
        end = begin + len(column.inputs)
        found.append(decoded(column, X[:, begin:end]))
        begin = end
    for j, each in later.items():
        if (came := first[:, j] >= LATER).any():
            found.append(_named(each, j, first[:, j]))
            first[came, j] = each.blank
    return first, tuple(each for each in found if not each.is_blank)


def _named(later: LaterCategories, place: int, inputs: Array) -> NewColumn:
    """What rows hold of categories that came later, by the codes in the (first) input of their column."""
    names = later.categories
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.append(np.argsort(order), -1).astype(np.float64)
    codes = np.where(inputs >= LATER, inputs - LATER, -1).astype(np.int64)
    ranked = np.where(codes < 0, np.nan, rank[codes])
    whole = NewColumn(later.name, ranked, tuple(names[k] for k in order), input=place)
    return whole.take(np.arange(len(ranked)))


def with_codes(X: Array, held: Sequence[NewColumn], later: Mapping[int, LaterCategories]) -> Array:
    """Inputs of the columns of the fit, with the codes of categories that came later.

    The k-th of a column has the number 2²⁰ + k, as `Column` has it.
    """
    found = X.copy()
    for each in held:
        if each.input is not None:
            there = ~np.isnan(each.values)
            places = [later[each.input].categories.index(name) for name in each.categories or ()]
            found[there, each.input] = LATER + np.array(places)[each.values[there].astype(np.int64)]
    return found


def appended(
    columns: Sequence[NewColumn], rows: int, more: Sequence[NewColumn], more_rows: int
) -> tuple[NewColumn, ...]:
    """Categories that some rows hold, and further rows behind them."""
    found = []
    for name in sorted({each.name for each in (*columns, *more)}):
        one, other = (next((e for e in side if e.name == name), None) for side in (columns, more))
        known = sorted({c for each in (one, other) if each is not None for c in each.categories or ()})
        parts = [
            np.full(count, np.nan) if each is None else _places_among(known, each)
            for each, count in ((one, rows), (other, more_rows))
        ]
        like = one or other
        assert like is not None
        found.append(replace(like, values=np.concatenate(parts), categories=tuple(known)))
    return tuple(found)


def _places_among(categories: Sequence[str], column: NewColumn) -> Array:
    """Places of what rows hold among more categories."""
    places = np.array([*(categories.index(name) for name in column.categories or ()), np.nan])
    return places[np.where(np.isnan(column.values), -1, column.values).astype(np.int64)]


def grown(
    encoding: Encoding,
    base: int,
    columns: Sequence[Column],
    later: Mapping[int, LaterCategories] | None = None,
) -> Encoding:
    """An encoding whose columns beyond so many inputs are others.

    Where it is given which categories of the columns before these came later, no others did.
    """
    first = np.cumsum([0, *(len(column.inputs) for column in encoding.columns)]).tolist()
    kept = [column for j, column in zip(first, encoding.columns, strict=False) if j < base]
    if later is not None:
        names = {j: each.categories for j, each in later.items()}
        kept = [
            column if column.categories is None else replace(column, others=names.get(j, ()))
            for j, column in zip(first, kept, strict=False)
        ]
    return replace(encoding, columns=(*kept, *columns))


def levels_of(columns: Sequence[Column], base: int) -> list[list[Any]]:
    """Inputs that hold codes of categories, behind so many others, as the options of a fit have them."""
    levels: dict[int, Levels] = Encoding(tuple(columns), "").levels
    return [[base + j, *each] for j, each in levels.items()]


def trends_of(columns: Sequence[Column], base: int) -> list[int]:
    """Inputs that go on as time does, behind so many others."""
    return [base + j for j in Encoding(tuple(columns), "").trends]
