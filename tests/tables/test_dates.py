from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pieces import cells_of, survey

from atlas_splines.tables import source as reading
from atlas_splines.tables.cells import Cells
from atlas_splines.tables.dates import COMPACT, LAYOUTS, Calendar, DateChoice, DateSurvey, read_texts
from atlas_splines.tables.source import Source, TableError

ALL = ("hour", "weekday", "yearday", "trend")


def calendar_of(source, column="a", choice=None):
    seen = DateSurvey(column, choice)
    for piece in source.pieces([column]):
        seen.add(Cells.of(piece, column))
    return seen.calendar()


def texts(*cells):
    return "a;b\n" + "".join(f"{cell};1\n" for cell in cells)


@pytest.mark.parametrize("layout", [layout for layout in (*LAYOUTS, COMPACT) if layout])
@pytest.mark.parametrize(
    "clock", ["", " %H:%M", " %H:%M:%S", " %I:%M %p", "T%H:%M:%S.125Z", " %H:%M:%S+02:00"]
)
def test_every_layout_reads_what_strftime_writes(layout, clock):
    moments = [datetime(2024, 12, 31, 22, 5), datetime(2031, 2, 1, 0, 0), datetime(1999, 10, 12, 12, 59)]
    written = pa.array([moment.strftime(layout + clock) for moment in moments] + [None, "never", "31.31.31"])
    wanted = moments if clock else [moment.replace(hour=0, minute=0) for moment in moments]
    assert read_texts(written, layout).to_pylist() == [*wanted, None, None, None]


def test_days_that_a_month_does_not_have_are_no_dates():
    written = pa.array(["30/02/2024", "29/02/2024", "29/02/2023", "31/04/2024"])
    assert read_texts(written, "%d/%m/%Y").to_pylist() == [None, datetime(2024, 2, 29), None, None]


def test_parts_of_dates(table):
    source = table("a\n2024-02-28 06:30\n2024-03-01\n\n2023-12-31T23:59:59Z\n".replace("\n\n", "\nNA\n"))
    hour, weekday, yearday, trend = Calendar(ALL, start="2024-02-28").encode(cells_of(source, "a"))
    np.testing.assert_allclose(hour, [6.5, 0, np.nan, 24 - 1 / 3600], rtol=1e-13)
    np.testing.assert_array_equal(weekday, [2, 4, np.nan, 6])
    np.testing.assert_array_equal(yearday, [59, 61, np.nan, 365])
    np.testing.assert_allclose(trend, [6.5 / 24, 2, np.nan, -58 - 1 / 86400], rtol=1e-13)


def test_parts_that_suit_the_data(table):
    days = [str(day) for day in np.datetime64("2020-01-01") + np.arange(800)]
    assert calendar_of(table(texts(*days))).parts == ("weekday", "yearday", "trend")
    assert calendar_of(table(texts(*days[:200]))).parts == ("weekday", "trend")
    assert calendar_of(table(texts(*days[:10]))).parts == ("trend",)
    assert calendar_of(table(texts(*days[::7]))).parts == ("yearday", "trend")  # always the same weekday
    months = [str(np.datetime64("2020-01") + k) + "-01" for k in range(40)]
    assert calendar_of(table(texts(*months))).parts == ("yearday", "trend")
    assert calendar_of(table(texts(*days[:1]))).parts == ("trend",)
    hours = [f"{day} {hour:02}:00" for day in days[:3] for hour in range(24)]
    assert calendar_of(table(texts(*hours))).parts == ("hour", "trend")
    assert calendar_of(table(texts(*hours[:24]))).parts == ("hour",)
    assert calendar_of(table(texts("9:05", "12:30", "NA"))) == Calendar(("hour",), "")
    assert calendar_of(table(texts("9:05", "1:30 PM"))).parts == ("hour",)


def test_the_order_of_day_and_month_is_found_from_all_rows(table, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 100)
    early = [f"{k % 12 + 1:02}/05/2024" for k in range(40)]
    assert calendar_of(table(texts(*early, "13/05/2024"))).layout == "%d/%m/%Y"
    assert calendar_of(table(texts(*early, "05/13/2024"))).layout == "%m/%d/%Y"
    assert calendar_of(table(texts("05/05/2024", "07/07/2024"))).start == "2024-05-05"  # it does not matter
    with pytest.raises(TableError) as caught:
        calendar_of(table(texts(*early)))
    assert str(caught.value) == (
        "t.csv, column 'a': each date can be read with day or month first; choose with "
        "--date a=day-first or --date a=month-first"
    )
    assert calendar_of(table(texts(*early)), choice=DateChoice.of("day-first")).start == "2024-05-01"
    assert calendar_of(table(texts(*early)), choice=DateChoice.of("month-first")).start == "2024-01-05"
    with pytest.raises(
        TableError, match=r"row 42, column 'a': '05/13/2024' is not a recognised date or time"
    ):
        calendar_of(table(texts(*early, "13/05/2024", "05/13/2024")))
    assert calendar_of(table(texts("05.06.2024"))).layout == "%d.%m.%Y"  # with points the day is first


def test_dates_among_other_texts(table):
    assert survey(table(texts("2024-01-01", "soon")), "a").column("a").categories == ("2024-01-01", "soon")
    assert survey(table(texts("20240105", "20240106")), "a").column("a").calendar is None
    assert calendar_of(table(texts("20240105", "20240106")), choice=DateChoice()).layout == COMPACT
    with pytest.raises(
        TableError, match=r"row 2, column 'a': 'soon' is not a recognised date or time; correct it"
    ):
        calendar_of(table(texts("2024-01-01", "soon")), choice=DateChoice())


def test_texts_of_an_update_are_read_as_in_fit_or_as_iso(table):
    calendar = Calendar(("trend",), "%d/%m/%Y", "2024-05-01")
    (trend,) = calendar.encode(cells_of(table(texts("03/05/2024", "2024-05-04", "NA")), "a"))
    np.testing.assert_array_equal(trend, [2, 3, np.nan])
    with pytest.raises(
        TableError,
        match=r"row 1, column 'a': '05/13/2024' is not a date like 31/12/2024; correct it or leave",
    ):
        calendar.encode(cells_of(table(texts("05/13/2024")), "a"))
    with pytest.raises(
        TableError, match=r"row 1, column 'a': 'noon' is not a time like 12:30; correct it or"
    ):
        Calendar(("hour",), "").encode(cells_of(table(texts("noon")), "a"))


def typed(tmp_path, **columns):
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    return Source.of(tmp_path / "t.parquet", "t.parquet")


def test_types_of_parquet(tmp_path):
    moments = [datetime(2024, 1, 1, 6), None, datetime(2025, 6, 1, 12)]
    stamps = pa.array(moments, pa.timestamp("ns"))
    source = typed(
        tmp_path,
        day=stamps.cast(pa.date32(), safe=False),
        stamp=stamps,
        seconds=stamps.cast(pa.timestamp("s")),
        clock=stamps.cast(pa.time64("ns")),
        short=stamps.cast(pa.time32("ms"), safe=False),
        span=pa.array([1, 2, 3], pa.duration("s")),
    )
    assert calendar_of(source, "day") == Calendar(("yearday", "trend"), start="2024-01-01")
    for name in ("stamp", "seconds"):
        calendar = calendar_of(source, name)
        assert calendar == Calendar(("hour", "yearday", "trend"), start="2024-01-01")
        np.testing.assert_array_equal(calendar.encode(cells_of(source, name))[0], [6, np.nan, 12])
    for name in ("clock", "short"):
        assert calendar_of(source, name) == Calendar(("hour",), "")
        np.testing.assert_array_equal(Calendar(("hour",)).encode(cells_of(source, name)), [[6, np.nan, 12]])
    with pytest.raises(TableError, match=r"column 'clock': these are times of day, and fit had dates"):
        Calendar(("trend",)).encode(cells_of(source, "clock"))
    with pytest.raises(TableError, match=r"column 'span': values of type duration\[s\] are not understood"):
        cells_of(source, "span")


def test_the_clock_of_a_zone_is_kept_and_others_are_put_to_it(tmp_path, table):
    noon = pa.array([datetime(2024, 1, 1, 12), datetime(2024, 7, 1, 12)])
    source = typed(
        tmp_path,
        here=noon.cast(pa.timestamp("us", "Europe/Berlin")),
        there=noon.cast(pa.timestamp("ms", "UTC")),
        plain=noon,
    )
    calendar = calendar_of(source, "here", DateChoice.of("hour"))
    assert calendar.zone == "Europe/Berlin"
    for name, hours in {"here": [13, 14], "there": [13, 14], "plain": [12, 12]}.items():
        np.testing.assert_array_equal(calendar.encode(cells_of(source, name)), [hours])
    written = texts(
        "2024-01-01T12:00Z", "2024-07-01 12:00:00+02:00", "2024-07-01 12:00", "2024-07-01 12:00 -0130"
    )
    np.testing.assert_array_equal(calendar.encode(cells_of(table(written), "a")), [[13, 12, 12, 15.5]])
    assert calendar_of(table(texts("2024-01-01T12:00Z", "2024-07-01T12:00+00:00"))).zone == "+00:00"
    assert calendar_of(table(texts("2024-01-01T12:00-0330"))).zone == "-03:30"
    summer = table(texts("2024-01-01T12:00+01:00", "2024-07-01T12:00+02:00"))
    assert calendar_of(summer).zone is None  # then clocks count as they are written
    np.testing.assert_array_equal(Calendar(("hour",)).encode(cells_of(summer, "a")), [[12, 12]])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "minute",
            "dates have no 'minute'; name some of hour, weekday, yearday, trend, day-first and month-first",
        ),
        ("day-first,month-first", "day-first and month-first exclude each other; give one of them"),
    ],
)
def test_wrong_choices(words, says):
    with pytest.raises(TableError) as caught:
        DateChoice.of(words)
    assert str(caught.value) == says


def test_times_have_hours_only(table):
    with pytest.raises(TableError, match=r"column 'a': times of day have an hour only; use --date a=hour"):
        calendar_of(table(texts("12:30")), choice=DateChoice.of("trend"))


@pytest.mark.parametrize(
    "calendar", [Calendar(ALL, "%d.%m.%Y", "2024-01-01", "UTC"), Calendar(("hour",), "")]
)
def test_a_calendar_comes_back_from_json(calendar):
    assert Calendar.from_json(calendar.to_json()) == calendar


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        (
            "parts",
            [],
            "'parts' of a calendar of the table must be some of 'hour', 'weekday', 'yearday', 'trend'",
        ),
        ("parts", ["trend", "hour"], "'parts' of a calendar of the table must be some of"),
        ("layout", "%x", "'layout' of a calendar of the table must be one of"),
        ("start", "2024-02-31", "'start' of a calendar of the table must be a date, not '2024-02-31'"),
        ("start", 3, "'start' of a calendar of the table must be a string like"),
        ("zone", 3, "'zone' of a calendar of the table must be a string, not 3"),
    ],
)
def test_a_wrong_calendar_is_refused(field, value, says):
    with pytest.raises(ValueError, match=says):
        Calendar.from_json(Calendar(("hour",)).to_json() | {field: value})
