import numpy as np
import pytest

from atlas_splines.memory.random_effects import LATER as FIRST_LATER
from atlas_splines.tables.dates import Calendar
from atlas_splines.tables.dialects import Dialect
from atlas_splines.tables.encoding import Column, Encoding, interval_text
from atlas_splines.tables.source import TableError

ENCODING = Encoding(
    (Column("n"), Column("two", ("no", "yes")), Column("few", ("a", "b", "c")), Column("many", tuple(map(str, range(30))))),
    "y",
)  # fmt: skip


def test_columns_become_inputs(table):
    source = table("n,two,few,many,y\n1.5,yes,b,3,1\n,,,,2\n")
    X = ENCODING.encode(next(source.pieces()))
    assert X.column_names == ["n", "two", "few=a", "few=b", "few=c", "many"]
    np.testing.assert_array_equal(np.asarray(X), [[1.5, 1, 0, 1, 0, 3], [np.nan, 0.5, 0, 0, 0, np.nan]])


def test_unknown_categories(table):
    source = table("n,two,few,many,y\n1,no,a,3,1\n1,maybe,d,3,1\n")
    piece = next(source.pieces())
    with pytest.raises(TableError) as caught:
        ENCODING.encode(piece)
    assert str(caught.value) == (
        "t.csv, row 2, column 'two': 'maybe' was not there in fit, which had 'no', 'yes'; "
        "correct it, learn it with an update without --strict, or treat it as missing with --unknown missing"
    )
    X = ENCODING.encode(piece, None)  # as levels that nobody has learned
    assert np.asarray(X)[1].tolist() == [1, FIRST_LATER, FIRST_LATER, 0, 0, 3]


def test_targets(table):
    source = table("y,c\n1.5,red\n,\n2,blue\n")
    piece = next(source.pieces())
    numbers, classes = Encoding((), "y"), Encoding((), "c", ("blue", "red"))
    for encoding, column in ((numbers, "y"), (classes, "c")):
        with pytest.raises(
            TableError, match=rf"row 2, column '{column}': the target is missing; fill it in, or add --skip"
        ):
            encoding.targets(piece, skip=False)
        _, there = encoding.targets(piece, skip=True)
        assert there.tolist() == [True, False, True]
    assert classes.targets(piece, skip=True)[0][[0, 2]].tolist() == ["red", "blue"]
    with pytest.raises(
        TableError,
        match=r"row 1, column 'c': 'red' was not there in fit, .* or learn it with an update without --strict",
    ):
        Encoding((), "c", ("blue", "green")).targets(piece, skip=True)


def test_codes_of_levels():
    columns = (Column("n"), Column("two", ("no", "yes")), Column("few", ("a", "b", "c")))
    columns = (*columns, Column("many", tuple(map(str, range(30)))))
    assert Encoding(columns, "y").levels == {
        1: (0, 0.5),
        2: (0, 0.0),
        5: (30, pytest.approx(np.nan, nan_ok=True)),
    }


def test_intervals_in_words():
    number, two, few = Column("n"), Column("t", ("no", "yes")), Column("f", ("a", "b", "c"))
    assert number.covered([[(1.0, 2.0), (4.0, 9.0)]], (0, 9), False) == "1 to 2 and 4 or more"
    assert number.covered([[(0.0, 9.0)]], (0, 9), False) == "any value"
    assert number.covered([[(0.0, 2.5)]], (0, 9), False) == "2.5 or less"
    assert two.covered([[(-0.1, 0.1)]], (0, 1), False) == "no"
    assert two.covered([[(-0.1, 1.1)]], (0, 1), False) == "no, yes, missing"
    low, high, both = [(-0.1, 0.1)], [(0.9, 1.1)], [(-0.1, 1.1)]
    assert few.covered([low, high, low], (0, 1), False) == "b"
    assert few.covered([both, both, low], (0, 1), False) == "a, b, missing"
    assert few.covered([high, high, low], (0, 1), False) == "nowhere"


LATER = Encoding(
    (ENCODING.columns[2].with_new(["d", "e"]), ENCODING.columns[3].with_new(["x"])), "y", dialect=Dialect("|")
)
DATED = Encoding((Column("n"), Column("when", calendar=Calendar(("hour", "trend"), start="2024-01-01"))), "y")


def test_categories_that_came_later(table):
    X = LATER.encode(next(table("few|many|y\nd|x|1\na|29|1\n|e|1\n".replace("|e|", "||")).pieces()))
    assert LATER.inputs == ["few=a", "few=b", "few=c", "many"]
    later = FIRST_LATER
    np.testing.assert_array_equal(np.asarray(X), [[later, 0, 0, later], [1, 0, 0, 29], [0, 0, 0, np.nan]])
    with pytest.raises(
        TableError, match=r"row 1, column 'few': 'f' was not there in fit, which had 'a', 'b'"
    ):
        LATER.encode(next(table("few|many|y\nf|x|1\n").pieces()))


def test_dates_become_inputs(table):
    source = table("n,when,y\n1.5,2024-01-03 18:00,1\n,,2\n")
    X = DATED.encode(next(source.pieces()))
    assert X.column_names == ["n", "when.hour", "when.trend"]
    np.testing.assert_array_equal(np.asarray(X), [[1.5, 18, 2.75], [np.nan] * 3])
    assert [column.name for column in DATED.parts] == X.column_names
    assert DATED.columns[1].meanings == [
        "hour of the day, with its fraction; NaN if missing",
        "days since 2024-01-01, with their fraction; NaN if missing",
    ]


def test_an_encoding_comes_back_from_json():
    labels = (("no", "yes"), (False, True), (-1, 0, 7), (1.0, 2.0))
    for encoding in (ENCODING, DATED, LATER, *(Encoding((Column("n"),), "y", classes) for classes in labels)):
        assert Encoding.from_json(encoding.to_json()) == encoding


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "the table must be a JSON object, not None"),
        ({"columns": [], "target": "y"}, "'classes' of the table is missing"),
        ({"columns": [], "target": 1, "classes": None}, "'target' of the table must be a string, not 1"),
        (
            {"columns": [DATED.columns[1].to_json() | {"categories": ["a"]}], "target": "y", "classes": None},
            "a column of the table has both categories and a calendar",
        ),
        (
            {"columns": [LATER.columns[0].to_json() | {"others": ["a"]}], "target": "y", "classes": None},
            "'others' of a column of the table must be none of its categories",
        ),
        ({"columns": [{}], "target": "y", "classes": None}, "'name' of a column of the table is missing"),
        (
            {"columns": [], "target": "y", "classes": ["a", "a"]},
            "'classes' of the table must be distinct strings",
        ),
        (
            {"columns": [], "target": "y", "classes": [1, True]},
            "'classes' of the table must be distinct strings, or numbers, or true and false",
        ),
        ({"columns": [], "target": "y", "classes": [[1], [2]]}, "'classes' of the table must be distinct"),
    ],
)
def test_a_wrong_encoding_is_refused(value, says):
    with pytest.raises(ValueError, match=says):
        Encoding.from_json(value)


def test_an_interval_of_unix_times_is_not_printed_narrower_than_it_is():
    interval, limits = (1699998765.4, 1700001234.5), (1.69e9, 1.71e9)
    low, high = map(float, interval_text(interval, limits).split(" to "))
    assert 1699998760 <= low <= interval[0]
    assert interval[1] <= high <= 1700001240
    assert float(interval_text((1.6e9, interval[1]), limits).removesuffix(" or less")) >= interval[1]
    assert float(interval_text((interval[0], 1.8e9), limits).removesuffix(" or more")) <= interval[0]
