import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pieces import cells_of

from atlas_splines.tables.source import Source, TableError


def test_infinite_numbers_are_refused(table):
    with pytest.raises(TableError, match=r"t.csv, row 2, column 'a': the number is infinite; correct it"):
        cells_of(table("a\n1\n1e999\n"), "a").numbers()
    with pytest.raises(
        TableError, match=r"^t.csv, row 2, column 'a': the number is beyond 1e\+150, too large"
    ):
        cells_of(table("a\nNA\n-1e300\n"), "a").numbers()


def test_parquet_types(tmp_path):
    path = tmp_path / "t.parquet"
    columns = {
        "i": pa.array([1, None, 3], pa.int16()),
        "f": pa.array([1.5, None, 3.0], pa.float32()),
        "d": pa.array(["x", "y", None]).dictionary_encode(),
        "b": pa.array([True, None, False]),
        "s": pa.array(["1", " 2", ""], pa.large_string()),
        "n": pa.nulls(3),
        "t": pa.array([1, 2, 3], pa.timestamp("s")),
        "l": pa.array([[1], [2], []]),
    }
    parquet.write_table(pa.table(columns), path)
    source = Source.of(path, "t.parquet")
    for name, values in {
        "i": [1, np.nan, 3],
        "f": [1.5, np.nan, 3],
        "s": [1, 2, np.nan],
        "n": [np.nan] * 3,
    }.items():
        np.testing.assert_array_equal(cells_of(source, name).numbers(), values)
    assert set(cells_of(source, "d").spellings()) == {"x", "y"}
    assert set(cells_of(source, "b").spellings()) == {"true", "false"}
    assert cells_of(source, "t").is_temporal
    assert cells_of(source, "t").numbers_or_none() is None
    with pytest.raises(TableError, match=r"t.parquet, column 't': these are dates or times, and fit had num"):
        cells_of(source, "t").numbers()
    with pytest.raises(TableError, match=r"t.parquet, column 'l': values of type list.* are not understood"):
        cells_of(source, "l")


def test_whole_numbers_are_the_same_category_however_they_are_written(table, tmp_path):
    path = tmp_path / "t.parquet"
    numbers = [1, 20, None, 123456789012]
    parquet.write_table(pa.table({"i": numbers, "f": pa.array(numbers, pa.float64())}), path)
    typed = Source.of(path, "t.parquet")
    text = table("a,b,c\n1,1.0,1.\n20,20.00,20\n,NA,\n123456789012,123456789012.0,123456789012\n")
    cells = [cells_of(typed, name) for name in "if"] + [cells_of(text, name) for name in "abc"]
    for one in cells:
        assert set(one.spellings()) == {"1", "20", "123456789012"}
        for categories in (("20", "123456789012", "1"), ("20.0", "123456789012", "1.0")):
            assert one.codes(categories, "refused").tolist() == [2, 0, -1, 1]
    assert set(cells_of(table("a\n1.5\n1.0.0\n01\n"), "a").spellings()) == {"1.5", "1.0.0", "01"}


def test_spellings_are_those_that_came_first(table):
    cells = cells_of(table("a\nTRUE\n true \nFalse\n2.0\n2\nNA\n"), "a")
    assert cells.spellings() == {"true": "TRUE", "false": "False", "2": "2.0"}
