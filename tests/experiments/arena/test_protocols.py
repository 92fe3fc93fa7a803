from pathlib import Path

import numpy as np
import pytest

from atlas_splines.experiments.arena.csv_data import Source, check_source, read_table, regions
from atlas_splines.experiments.arena.protocols import Size, built_in_cells, csv_cell, make_problem

SMALL = Size(samples=60, tests=30)
CELLS = {cell.name: cell for cell in built_in_cells()}


@pytest.mark.parametrize("cell", CELLS.values(), ids=lambda cell: cell.name)
def test_problems_are_in_the_unit_cube_standardised_and_repeatable(cell):
    problem, again = make_problem.__wrapped__(cell, 3, SMALL), make_problem.__wrapped__(cell, 3, SMALL)
    other = make_problem.__wrapped__(cell, 4, SMALL)
    assert not np.array_equal(problem.tasks[0].X, other.tasks[0].X)
    for task, same in zip(problem.tasks, again.tasks, strict=True):
        np.testing.assert_array_equal(task.X, same.X)
        np.testing.assert_array_equal(task.y, same.y)
        assert task.X.shape[1] == cell.inputs
        assert len(task.X) <= 100
        for X in (task.X, task.test_X):
            assert X.min() >= 0
            assert X.max() <= 1
    if not problem.classes:
        assert problem.tasks[0].y.mean() == pytest.approx(0, abs=1e-6)
        assert problem.tasks[0].y.std() == pytest.approx(1)


def test_boxes_replace_what_was_true_in_them():
    problem = make_problem(CELLS["p2-boxes-n2"], 0, SMALL)
    assert len(problem.tasks) == 11
    first, box = problem.tasks[:2]
    assert box.replaces(box.X).all()
    assert box.replaces(first.X).mean() == pytest.approx(0.09, abs=0.1)
    assert np.ptp(box.X, axis=0).max() < 0.3


def test_seeds_go_through_all_widths():
    tasks = [make_problem(CELLS["p1-two-tasks-n1"], seed, SMALL).tasks[1] for seed in range(9)]
    widths = sorted(np.diff(task.replaces.corners, axis=0).item() for task in tasks)
    np.testing.assert_allclose(widths, np.arange(1, 10) / 10)


def test_shared_coordinates_are_shared():
    line = make_problem(CELLS["p4-line-n2"], 0, SMALL).tasks[1]
    diagonal = make_problem(CELLS["p4-diagonal-n8"], 0, SMALL).tasks[1]
    assert (line.X[:, 0] == 0.5).all()
    assert (diagonal.X[:, :1] == diagonal.X).all()
    assert not line.replaces(line.X).any()


def test_digits_have_two_new_classes_in_each_task():
    tasks = make_problem(CELLS["p6-digits-n64"], 0, SMALL).tasks
    seen = [set(task.y) | set(task.test_y) for task in tasks]
    assert [len(classes) for classes in seen] == [2] * 5
    assert len(set.union(*seen)) == 10


# --- files -----------------------------------------------------------------------------------------------


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
    columns = read_table(table)
    assert list(columns) == ["a", "b", "time", "day", "y"]
    np.testing.assert_array_equal(columns["day"], np.arange(100) // 10)  # text keeps its order
    plain = tmp_path / "plain.txt"
    plain.write_text("  1.5  2\n\n 3 4e1 \n", encoding="utf8")
    np.testing.assert_array_equal(read_table(plain)["1"], [2, 40])


@pytest.mark.parametrize(("split", "tasks"), [("region", 4), ("clusters", 5), ("time", 5)])
def test_a_table_is_split_into_tasks(table, split, tasks):
    cell = csv_cell(Source(table, "", split, ("day",)))
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
        csv_cell(Source(table, *options)).name for options in (("", "region"), ("", "time"), ("a", "region"))
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,b\n1,2\n3,4\n", {"target": "c"}, r"has no column 'c'; it has a, b"),
        ("a,b\n1,2\n3,4\n", {"split": "c"}, r"has no column 'c'; it has a, b"),
        ("a,b\n1,2\n3\n", {}, r"line 3 of .* has 1 cells, not 2"),
        ("a,b\n1,2\n3,\n", {}, r"line 3 of .* has an empty cell; fill it in or remove the line"),
        ("a,b\n", {}, r"has fewer than two rows"),
        ("a,b\n1,2\n1,4\n", {"split": "a"}, r"'a' makes only one task of .*; split by another column"),
    ],
)
def test_a_bad_table_is_one_sentence(tmp_path, content, options, message):
    path = tmp_path / "bad.csv"
    path.write_text(content, encoding="utf8")
    with pytest.raises(ValueError, match=message):
        check_source(Source(path, **options))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*no.csv: No such file or directory"):
        check_source(Source(Path(tmp_path / "no.csv")))


def test_regions_of_a_column_of_zeros_and_ones():
    from atlas_splines.experiments.arena.csv_data import regions

    mostly_one = np.array([[0.0], [1.0], [1.0], [1.0], [1.0]])
    assert regions(mostly_one, cuts=2).tolist() == [0, 2, 2, 2, 2]
    assert regions(np.ones((4, 2)), cuts=2).tolist() == [0, 0, 0, 0]
