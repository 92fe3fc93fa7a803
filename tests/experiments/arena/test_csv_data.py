from pathlib import Path

import numpy as np
import pytest

from atlas_splines.experiments.arena.csv_data import DataFile, check_data, one_number, read_columns, regions
from atlas_splines.experiments.arena.protocols import Size, csv_cell, make_problem

SMALL = Size(samples=60, tests=30)


@pytest.fixture
def table(tmp_path):
    random = np.random.default_rng(0)
    rows = [
        f"{a:.4f},{b:.4f},{k},2011-01-{1 + k // 10:02d},{a + b:.4f}"
        for k, (a, b) in enumerate(random.random((100, 2)))
    ]
    path = tmp_path / "some.csv"
    path.write_text("a,b,time,day,y\n" + "\n".join(rows) + "\n\n", encoding="utf8")
    return path


def test_a_table_is_read_with_and_without_a_header(table, tmp_path):
    columns = read_columns(table)
    assert list(columns) == ["a", "b", "time", "day", "y"]
    np.testing.assert_array_equal(columns["day"][:, 0], np.arange(100) // 10)  # dates keep their order
    plain = tmp_path / "plain.txt"
    plain.write_text("  1.5  2\n\n 3 4e1 \n", encoding="utf8")
    np.testing.assert_array_equal(read_columns(plain)["1"], [[2], [40]])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_separator_will_do_without_a_header(tmp_path, separator):
    path = tmp_path / "plain.dat"
    path.write_text("\n".join(separator.join(row) for row in ("125", "346")), encoding="utf8")
    columns = read_columns(path)
    assert list(columns) == ["0", "1", "2"]
    np.testing.assert_array_equal(np.hstack(list(columns.values())), [[1, 2, 5], [3, 4, 6]])


def test_numbers_in_quotes_are_numbers(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text('"a","b"\n"10","1"\n"9","2"\n"100","3"\n', encoding="utf8")
    np.testing.assert_array_equal(read_columns(path)["a"], [[10], [9], [100]])


def test_text_in_quotes_may_hold_commas_and_categories_are_encoded_as_in_fit(tmp_path):
    path = tmp_path / "cities.csv"
    rows = '"Paris, FR",a,1\n"Lyon, FR",b,2\n"Bonn, DE",b,3\n"Paris, FR",a,4\n'
    path.write_text("city,kind,y\n" + 3 * rows, encoding="utf8")
    columns = read_columns(path)
    np.testing.assert_array_equal(columns["city"][:4], [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(columns["kind"][:4], [[0], [1], [1], [0]])
    assert one_number(columns["city"]).tolist() == 3 * [2, 1, 0, 2]
    problem = make_problem(csv_cell(DataFile(path, "y", "city")), 0, SMALL)
    assert (problem.inputs, len(problem.tasks)) == (4, 3)


def test_a_column_that_is_left_out_is_not_looked_at(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("a,b\n1,x\n2,3\n", encoding="utf8")
    assert list(read_columns(path, ("b",))) == ["a"]
    with pytest.raises(
        ValueError, match=r"row 1, column 'b': 'x' is not a number, as other cells are; .*--drop b$"
    ):
        read_columns(path)


@pytest.mark.parametrize(("split", "tasks"), [("region", 4), ("clusters", 5), ("time", 5)])
def test_a_table_is_split_into_tasks(table, split, tasks):
    cell = csv_cell(DataFile(table, "", split, ("day",)))
    problem = make_problem(cell, 0, SMALL)
    assert (problem.inputs, len(problem.tasks)) == (3, tasks)
    assert sum(len(task.X) + len(task.test_X) for task in problem.tasks) == 100
    if split == "time":
        highest = [max(task.X[:, 2].max(), task.test_X[:, 2].max()) for task in problem.tasks]
        assert highest == sorted(highest)


def test_regions_are_boxes_with_as_many_rows_each():
    X = np.random.default_rng(0).random((400, 3))
    groups = regions(X, cuts=2)
    np.testing.assert_array_equal(np.bincount(groups), [100] * 4)


def test_other_options_have_another_name(table):
    names = {
        csv_cell(DataFile(table, *options)).name
        for options in (("", "region"), ("", "time"), ("a", "region"))
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,b\n1,2\n3,4\n", {"target": "c"}, r"has no column 'c'; it has a, b"),
        ("a,b\n1,2\n3,4\n", {"split": "c"}, r"has no column 'c'; it has a, b"),
        ("a,b\n1,2\n3\n", {}, r"row 2 has 1 cell instead of 2; correct that row"),
        ("a,b\n1,2\n3,\n", {}, r"row 2, column 'b': the cell is empty; fill it in or remove the row"),
        ("a,b\n", {}, r"has fewer than two rows"),
        (
            "a,b\n1,2\n3,4\n",
            {"drop": ("a",)},
            r"has no column besides the target 'b'; at least one is needed",
        ),
        ("a,b\n1,2\n1,4\n", {"split": "a"}, r"'a' makes only one task of .*; split by another column"),
    ],
)
def test_a_bad_table_is_one_sentence(tmp_path, content, options, message):
    path = tmp_path / "bad.csv"
    path.write_text(content, encoding="utf8")
    with pytest.raises(ValueError, match=message):
        check_data(DataFile(path, **options))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*no.csv: No such file or directory"):
        check_data(DataFile(Path(tmp_path / "no.csv")))


def test_regions_of_a_column_of_zeros_and_ones():
    mostly_one = np.array([[0.0], [1.0], [1.0], [1.0], [1.0]])
    assert regions(mostly_one, cuts=2).tolist() == [0, 2, 2, 2, 2]
    assert regions(np.ones((4, 2)), cuts=2).tolist() == [0, 0, 0, 0]
