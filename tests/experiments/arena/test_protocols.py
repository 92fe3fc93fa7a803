import numpy as np
import pytest

from atlas_splines.experiments.arena.protocols import Size, built_in_cells, make_problem

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
