"""Dates and times: parsing, and the calendar features that become inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atlas_splines.files.fields import Fields
from atlas_splines.tables.cells import Cells, trimmed
from atlas_splines.tables.source import TableError
from atlas_splines.tables.wording import listed

__all__ = [
    *(
        "COMPACT",
        "LAYOUTS",
        "MICROSECONDS_A_DAY",
        "PARTS",
        "Calendar",
        "DateChoice",
        "DateSurvey",
        "Span",
        "days_since_1970",
    ),
    "looks_like_dates",
]

Array = NDArray[np.float64]

# Parts of the calendar that can be inputs, in their order.
PARTS = ("hour", "weekday", "yearday", "trend")

# Layouts of dates, as format strings of strptime; "" is for times of day without a date.
ISO, COMPACT = "%Y-%m-%d", "%Y%m%d"
LAYOUTS = (
    ISO, "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y",
    "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%b %d %Y", "%b %d, %Y", "",
)  # fmt: skip
CLOCKS = ("", "%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
FIELD_SHAPES = {
    "%Y": r"\d{4}",
    "%y": r"\d{2}",
    "%m": r"\d{1,2}",
    "%d": r"(?P<day>\d{1,2})",
    "%b": "[A-Za-z]{3,9}",
}

# A text with a time of day: what comes before it, hours to seconds, AM or PM; fractions and zones are left.
TIMED = r"^(?:(.*\w)[T ]+)?(\d{1,2}:\d{2}(?::\d{2})?)(?:[.,]\d+)?(?: ?([AaPp][Mm]))?"
ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?))?"
OFFSET = r":\d{2}(?:[.,]\d+)? ?(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2})?$"
AT_UTC = r"\d ?(Z|UTC|GMT)$"

# What certainly denotes a date or a time, whether or not it can be parsed.
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b.*|\d{1,2}:\d{2}\b.*")

MICROSECONDS_A_DAY = 86_400_000_000

# Fraction of the days from the first to the last that must have rows for the weekday to become an input: two
# days a week. Not benchmarked.
DAYS_FOR_WEEKDAYS = 2 / 7


@dataclass(frozen=True)
class Calendar:
    """How a column of dates becomes inputs: plain numbers, each for a part of the calendar.

    Attributes
    ----------
    parts
        Some of "hour" (of the day, with its fraction), "weekday" (0 is Monday), "yearday" (from 1) and
        "trend" (days since `start`, with their fraction).
    layout
        Layout of dates, as a format string of strptime; "" for times of day without a date.
    start
        The day that the trend counts from, such as "2011-01-01".
    zone
        The time zone whose clock counts; None for clocks as they are written.
    """

    parts: tuple[str, ...]
    layout: str = ISO
    start: str = "1970-01-01"
    zone: str | None = None

    @property
    def meanings(self) -> list[str]:
        """Descriptions of the inputs."""
        words = {
            "hour": "hour of the day, with its fraction",
            "weekday": "day of the week, 0 is Monday",
            "yearday": "day of the year, from 1",
            "trend": f"days since {self.start}, with their fraction",
        }
        return [f"{words[part]}; NaN if missing" for part in self.parts]

    def encode(self, cells: Cells) -> list[Array]:
        """Inputs, shape (rows,) each."""
        if pa.types.is_time(cells.values.type) and self.parts != ("hour",):
            cells.fail(None, "these are times of day, and fit had dates; give dates")
        return self.inputs_of(self._moments(cells))

    def inputs_of(self, moments: pa.Array) -> list[Array]:
        """Inputs of local times, shape (rows,) each."""
        return [self._part(part, moments) for part in self.parts]

    def _moments(self, cells: Cells) -> pa.Array:
        if cells.is_temporal:
            return typed_moments(cells.values, self.zone)
        texts = trimmed(cells.texts)
        found = read_texts(texts, self.layout)
        if self.layout not in ("", ISO):  # ISO 8601 is unambiguous
            found = pc.coalesce(found, read_texts(texts, ISO))
        refuse_unread(cells, texts, found, f"is not {self._example}; correct it or leave it empty")
        return found if self.zone is None else in_zone(texts, found, self.zone)

    @property
    def _example(self) -> str:
        return f"a date like {date(2024, 12, 31):{self.layout}}" if self.layout else "a time like 12:30"

    def _part(self, part: str, moments: pa.Array) -> Array:
        if part == "weekday":
            return as_floats(pc.day_of_week(moments))
        if part == "yearday":
            return as_floats(pc.day_of_year(moments))
        passed = pc.subtract(moments.cast(pa.int64()), MICROSECONDS_A_DAY * days_since_1970(self.start))
        days = as_floats(passed) / MICROSECONDS_A_DAY
        return days if part == "trend" else (24 * days) % 24

    def to_json(self) -> dict[str, Any]:
        """The calendar as JSON has it."""
        return {"parts": list(self.parts), "layout": self.layout, "start": self.start, "zone": self.zone}

    @classmethod
    def from_json(cls, value: object) -> Calendar:
        """Read `to_json`, or raise a ValueError with a clear message."""
        fields = Fields(value, "a calendar of the table", ("parts", "layout", "start", "zone"))
        parts = fields.items("parts")
        if not parts or parts != [part for part in PARTS if part in parts]:
            raise ValueError(f"'parts' of {fields.name} must be some of {listed(PARTS)}, in this order")
        start = fields.text("start", r"\d{4}-\d{2}-\d{2}")
        try:
            date.fromisoformat(start)
        except ValueError:
            raise ValueError(f"'start' of {fields.name} must be a date, not {start!r}") from None
        zone = None if fields.is_null("zone") else fields.text("zone")
        return cls(tuple(parts), fields.choice("layout", (*LAYOUTS, COMPACT)), start, zone)


@dataclass(frozen=True)
class DateChoice:
    """A user's options for a column of dates.

    Attributes
    ----------
    parts
        Parts of the calendar that become inputs; none for those that suit the data.
    first
        Which of day and month comes first, if given.
    """

    parts: tuple[str, ...] = ()
    first: Literal["day", "month", ""] = ""

    @classmethod
    def of(cls, words: str) -> DateChoice:
        """A choice from words with commas between them.

        Examples
        --------
        >>> DateChoice.of("trend,hour"), DateChoice.of("day-first")
        (DateChoice(parts=('hour', 'trend'), first=''), DateChoice(parts=(), first='day'))
        """
        given = [word.strip() for word in words.split(",") if word.strip()]
        for word in given:
            if word not in (*PARTS, "day-first", "month-first"):
                known = f"{', '.join(PARTS)}, day-first and month-first"
                raise TableError(f"dates have no {word!r}; name some of {known}")
        if "day-first" in given and "month-first" in given:
            raise TableError("day-first and month-first exclude each other; give one of them")
        parts = tuple(part for part in PARTS if part in given)
        return cls(parts, "day" if "day-first" in given else "month" if "month-first" in given else "")

    def allows(self, layout: str) -> bool:
        """Whether the options admit a layout."""
        if not self.first or not re.match("%[dm][-/]%[dm]", layout):
            return True
        return layout.startswith("%d") == (self.first == "day")


class DateSurvey:
    """Infers, chunk by chunk, the layout of a column's dates, and which parts of them vary.

    Parameters
    ----------
    column
        Name of the column.
    choice
        The user's options for it; None if dates are inferred.
    """

    def __init__(self, column: str, choice: DateChoice | None = None) -> None:
        self.column, self.choice = column, choice or DateChoice()
        layouts = LAYOUTS if choice is None else (*LAYOUTS, COMPACT)
        self.spans = {layout: Span() for layout in layouts if self.choice.allows(layout)}
        self.zones: set[str | None] = set()
        self.latest: Cells | None = None  # none of them, but what messages need

    def add(self, cells: Cells) -> None:
        """Update with one piece."""
        self.latest = cells.emptied
        if cells.is_temporal:
            self._add_typed(cells)
            return
        texts = trimmed(cells.texts)
        if texts.null_count == len(texts):
            return
        likely = layouts_of_first(texts, self.spans) or [*self.spans][:1]
        read = {layout: read_texts(texts, layout) for layout in likely}
        fitting = {layout: found for layout, found in read.items() if found.null_count == texts.null_count}
        if not fitting:
            best = min(read.values(), key=lambda found: found.null_count)
            way_out = cells.advice.category.format(column=self.column)
            what = f"is not a recognised date or time; correct it, leave it empty, or {way_out}"
            refuse_unread(cells, texts, best, what)
        self.spans = {layout: self.spans[layout].with_more(found) for layout, found in fitting.items()}
        self.zones |= set(zone_names(texts))

    def _add_typed(self, cells: Cells) -> None:
        kind = cells.values.type
        layout = "" if pa.types.is_time(kind) else ISO
        self.zones.add(kind.tz if pa.types.is_timestamp(kind) else None)
        self.spans = {layout: self.spans[layout].with_more(typed_moments(cells.values, None))}

    def merge(self, later: DateSurvey) -> bool:
        """Merge with a survey of later pieces; False if no layout suits both."""
        both = [layout for layout in self.spans if layout in later.spans]
        self.spans = {layout: self.spans[layout].joined(later.spans[layout]) for layout in both}
        self.zones |= later.zones
        self.latest = later.latest or self.latest
        return bool(both)

    def calendar(self) -> Calendar:
        """The column as inputs; refused if its layout is ambiguous."""
        layout, *others = self.spans
        if any(not self.spans[other].is_like(self.spans[layout]) for other in others):
            assert self.latest is not None
            way_out = self.latest.advice.day_first.format(column=self.column)
            self._fail(f"each date can be read with day or month first; {way_out}")
        span = self.spans[layout]
        parts = self.choice.parts or (span.parts if layout else ("hour",))
        if not layout and parts != ("hour",):
            self._fail(f"times of day have an hour only; use --date {self.column}=hour")
        zone = next(iter(self.zones)) if len(self.zones) == 1 else None
        return Calendar(parts, layout, span.start, zone) if layout else Calendar(parts, layout)

    def _fail(self, what: str) -> NoReturn:
        assert self.latest is not None
        self.latest.fail(None, what)


class Span:
    """Statistics of the dates of a column: distinct days, weekdays and times."""

    def __init__(self, moments: NDArray[np.int64] | tuple[()] = ()) -> None:
        days, clocks = np.divmod(np.asarray(moments, np.int64), MICROSECONDS_A_DAY)
        self.days = np.unique(days)  # since 1970
        self.clocks = np.unique(clocks)[:2]  # microseconds since midnight: two are as good as many

    def with_more(self, moments: pa.Array) -> Span:
        """The span with more dates in it."""
        return self.joined(Span(moments.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)))

    def joined(self, other: Span) -> Span:
        """The span of the dates of both."""
        both = Span()
        both.days = np.union1d(self.days, other.days)
        both.clocks = np.union1d(self.clocks, other.clocks)[:2]
        return both

    def is_like(self, other: Span) -> bool:
        """Whether another layout gives the same dates."""
        return np.array_equal(self.days, other.days)

    @property
    def start(self) -> str:
        """The first day."""
        return str(np.datetime64(int(self.days[0]) if self.days.size else 0, "D"))

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of the calendar that vary and are identifiable."""
        width = int(np.ptp(self.days)) + 1 if self.days.size else 1
        dates = self.days.astype("datetime64[D]")
        yeardays = (dates - dates.astype("datetime64[Y]")).astype(np.int64)
        are_close = self.days.size >= DAYS_FOR_WEEKDAYS * width
        several = {
            "hour": self.clocks.size > 1,
            "weekday": width >= 14 and are_close and np.unique(self.days % 7).size > 1,
            "yearday": width > 366 and np.unique(yeardays).size > 1,
            "trend": width > 1,
        }
        return tuple(part for part in PARTS if several[part]) or ("trend",)


def looks_like_dates(cells: Cells) -> bool:
    """Whether a column holds dates: by its type, or because every string has the form of one."""
    if cells.is_temporal:
        return True
    texts = trimmed(cells.texts).drop_null()
    if not len(texts):
        return False
    if any(not read_texts(texts, layout).null_count for layout in layouts_of_first(texts, LAYOUTS)):
        return True
    return all(map(DATE.fullmatch, texts.unique().to_pylist()))


def layouts_of_first(texts: pa.Array, layouts: Iterable[str]) -> list[str]:
    """Layouts that match the first string: parsing all strings takes time."""
    first = texts.drop_null().slice(0, 1)
    return [layout for layout in layouts if not read_texts(first, layout).null_count]


# --- reading ---------------------------------------------------------------------------------------------


def read_texts(texts: pa.Array, layout: str) -> pa.Array:
    """Local times of strings, null where one does not match the layout or is not a date.

    Examples
    --------
    >>> read_texts(pa.array(["2024-12-31T10:30:00Z", "31.12.2024"]), "%Y-%m-%d").to_pylist()
    [datetime.datetime(2024, 12, 31, 10, 30), None]
    """
    timed = f"{TIMED}{ZONE if layout else ''}$"
    texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, timed, r"\1 \2 \3"))
    texts = pc.if_else(pc.match_substring_regex(texts, shape_of(layout)), texts, pa.scalar(None, pa.string()))
    found = pa.nulls(len(texts), pa.timestamp("us"))
    for clock in CLOCKS if layout else CLOCKS[1:]:
        if found.null_count == texts.null_count:
            break
        form = f"{layout} {clock}".strip()
        found = pc.coalesce(found, pc.strptime(texts, format=form, unit="us", error_is_null=True))
    return found if layout in ("", COMPACT) else without_days_too_many(texts, found, layout)


def shape_of(layout: str) -> str:
    """A regular expression for strings of a layout, with or without a time of day."""
    shape = re.sub("%[Yymdb]", lambda field: FIELD_SHAPES[field[0]], layout.replace(".", r"\."))
    if layout == COMPACT:
        shape = r"\d{8}"
    clock = r"\d{1,2}:\d{2}(?::\d{2})?(?: [AaPp][Mm])?"
    return rf"^{shape}(?: {clock})?$" if layout else rf"^{clock}$"


def without_days_too_many(texts: pa.Array, found: pa.Array, layout: str) -> pa.Array:
    """Moments with null for days that a month does not have, which strptime moves to the next month."""
    day = pc.struct_field(pc.extract_regex(texts, shape_of(layout)), "day").cast(pa.int64())
    return pc.if_else(pc.equal(day, pc.day(found)), found, pa.scalar(None, found.type))


def typed_moments(values: pa.Array, zone: str | None) -> pa.Array:
    """Local times of a column of a temporal type, in its own time zone or another."""
    kind = values.type
    if pa.types.is_time(kind):
        return values.cast(pa.time64("us"), safe=False).cast(pa.int64()).cast(pa.timestamp("us"))
    if pa.types.is_timestamp(kind) and kind.tz:
        return pc.local_timestamp(values.cast(pa.timestamp("us", zone or kind.tz), safe=False))
    return values.cast(pa.timestamp("us"), safe=False)


def offsets_of(texts: pa.Array) -> pa.Array:
    """UTC offset of each string in minutes, null where it has none."""
    parts = pc.extract_regex(texts, OFFSET)
    hours, minutes = (pc.struct_field(parts, name) for name in ("hours", "minutes"))
    minutes = pc.if_else(pc.equal(minutes, ""), "0", minutes)
    ahead = pc.add(pc.multiply(hours.cast(pa.int64()), 60), minutes.cast(pa.int64()))
    ahead = pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(ahead), ahead)
    return pc.if_else(pc.match_substring_regex(texts, AT_UTC), pa.scalar(0, pa.int64()), ahead)


def zone_names(texts: pa.Array) -> Sequence[str | None]:
    """The distinct time zones of strings, as UTC offsets; None for strings without one."""
    offsets = offsets_of(texts.drop_null()).unique().to_pylist()
    return [
        None if ahead is None else f"{'-' if ahead < 0 else '+'}{abs(ahead) // 60:02}:{abs(ahead) % 60:02}"
        for ahead in offsets
    ]


def in_zone(texts: pa.Array, found: pa.Array, zone: str) -> pa.Array:
    """Local times in a zone, which is also that of strings without an offset."""
    ahead = pc.multiply(offsets_of(texts), 60_000_000)
    universal = pc.subtract(found.cast(pa.int64()), ahead).cast(pa.timestamp("us", "UTC"))
    return pc.coalesce(typed_moments(universal, zone), found)


def refuse_unread(cells: Cells, texts: pa.Array, found: pa.Array, what: str) -> None:
    """Raise for the first string that could not be parsed."""
    unread = pc.and_(texts.is_valid(), found.is_null()).to_numpy(zero_copy_only=False)
    if unread.any():
        at = int(np.argmax(unread))
        cells.fail(at, f"{texts[at].as_py()!r} {what}")


def days_since_1970(day: str) -> int:
    """Number of a day."""
    return (date.fromisoformat(day) - date(1970, 1, 1)).days


def as_floats(values: pa.Array) -> Array:
    """Whole numbers as floats, NaN for missing ones."""
    return pc.fill_null(values.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)
