import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from frames import Kind, homes_frame

from atlas_splines.tables.frames import encode_frame, first_missing, frame_of_rows, learn_encoding
from atlas_splines.tables.wording import TableError


def learned(X, y=None):
    names = X.column_names if isinstance(X, pa.Table) else list(X.columns)
    return learn_encoding(X, names, "price")


def test_columns_of_every_kind():
    frame, price = homes_frame()
    size, city, garden, zone, kind, when, street = learned(frame, price.to_numpy()).columns
    assert (size.categories, size.calendar) == (None, None)
    assert city.categories == ("Aarhus", "Bergen", "Cadiz")
    assert garden.categories == ("false", "true")
    assert zone.categories == ("10", "20", "30", "40")  # numbers that are categories stay categories
    assert kind.categories == ("LOFT", "flat", "house")  # the value of a member if it is a text, or its name
    assert when.calendar.parts == ("hour", "yearday", "trend")
    assert len(street.categories) == 25
    assert street.categories == tuple(sorted(street.categories))  # whatever the targets are


def test_all_libraries_say_the_same():
    frame, price = homes_frame()
    frame["kind"] = pd.Categorical(
        [
            kind and (kind.value if kind is not Kind.LOFT else "loft")
            for kind in frame["kind"].replace(np.nan, None)
        ]
    )
    frame["zone"] = frame["zone"].astype("string").astype("category")
    frames = [frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)]
    assert pl.from_pandas(frame)["zone"].dtype == pl.Categorical
    frames.append(frames[1].with_columns(pl.col("kind").cast(pl.Enum(["flat", "house", "loft", "castle"]))))
    encodings = [learned(each, price.to_numpy()) for each in frames]
    inputs = [encode_frame(each, encodings[0], None) for each in frames]
    for encoding, numbers in zip(encodings[1:], inputs[1:], strict=True):
        assert encoding == encodings[0]
        np.testing.assert_array_equal(numbers, inputs[0])
    assert np.isnan(inputs[0]).any()
    by_position = frame.astype(object).to_numpy()
    np.testing.assert_array_equal(encode_frame(by_position, encodings[0], None), inputs[0])


def test_missing_values_and_other_ways_to_have_numbers():
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, None, 3], "Int64"),
            "object": np.array([1.5, None, 2], object),
            "sparse": pd.arrays.SparseArray([0.0, 0.0, 1.0]),
            "text": ["1", "2.5", None],  # a zip code is no number, however it looks
            "flag": pd.array([True, None, False], "boolean"),
        }
    )
    encoding = learned(frame)
    assert [column.categories for column in encoding.columns] == [None] * 3 + [
        ("1", "2.5"),
        ("false", "true"),
    ]
    numbers = [[1, 1.5, 0, 0, 1], [np.nan, np.nan, 0, 1, 0.5], [3, 2, 1, 0.5, 0]]
    np.testing.assert_array_equal(encode_frame(frame, encoding, None), numbers)
    assert first_missing(frame, encoding) == (2, "text")
    assert first_missing(frame[:1], encoding) is None
    assert learned(frame[["nullable", "object", "sparse"]]) is None  # all numbers


def test_names_that_look_like_numbers_are_names():
    cars = pd.DataFrame({"car": ["corolla", "180", "corolla", "3", "740"]})
    assert learned(cars).columns[0].categories == ("180", "3", "740", "corolla")


def test_rows_that_are_dictionaries():
    rows = [{"a": 1, 7: "x"}, {7: Kind.FLAT}, {"a": 2.5, "b": 3, 7: None}]
    table = frame_of_rows(rows, ["a", 7])
    assert table.column_names == ["a", "7"]
    assert table["a"].to_pylist() == [1, None, 2.5]
    assert table["7"].to_pylist() == ["x", "flat", None]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"a": [1, "x", 2]},
            r"X, column 'a': its values are not of one kind that is understood \(.*\); correct it, or leave the column out",
        ),
        (
            {"a": pd.to_timedelta([1, 2, 3], unit="h")},
            r"X, column 'a': values of type duration\[.*\] are not understood; leave the column out",
        ),
        (
            {"a": [str(k) for k in range(50)]},
            "X, column 'a': nearly every string is distinct, and each is a number; give the column as numbers, or leave the column out",
        ),
        (
            {"a": ["01/02/2024", "02/03/2024", "03/04/2024"]},
            "X, column 'a': each date can be read with day or month first; choose with dates={'a': 'day-first'} or 'month-first'",
        ),
        (
            {"a": ["x", "y", "z"], "a=x": ["u", "v", "u"]},
            "X: a column has the name of another one's category or part of a date; rename it",
        ),
    ],
)
def test_what_cannot_be_read(columns, message):
    with pytest.raises(TableError, match=f"^{message}$"):
        learned(pd.DataFrame(columns))


def test_two_columns_of_one_name():
    frame = pd.DataFrame([["x", 1], ["y", 2]], columns=["a", "a"])
    with pytest.raises(TableError, match="X has two columns 'a'; rename one"):
        learned(frame)


def test_the_target_has_a_name_of_its_own():
    assert learned(pd.DataFrame({"price": ["x", "y"]})).target == "price_"
