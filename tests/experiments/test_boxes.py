import numpy as np
import pytest

from atlas_splines.experiments.boxes import box_tasks, rbf_target


def test_the_target_is_the_sum_of_its_radial_functions():
    target = rbf_target(np.random.default_rng(7), inputs=3)
    random = np.random.default_rng(7)
    centres, scales, weights = (
        random.random((1000, 3)),
        random.exponential(10, 1000),
        random.normal(size=1000),
    )
    X = np.random.default_rng(1).random((20, 3))
    distances = np.linalg.norm(X[:, None] - centres, axis=2)
    np.testing.assert_allclose(target(X), np.exp(-scales * distances) @ weights, atol=5e-3)


def test_a_trial_is_the_same_for_the_same_seed():
    first, second = (box_tasks(2, 0.3, seed=5, samples=50) for _ in range(2))
    np.testing.assert_array_equal(first.tasks[1].y, second.tasks[1].y)
    assert first.noise != box_tasks(2, 0.3, seed=6, samples=50).noise


def test_later_tasks_change_their_box_only():
    trial = box_tasks(2, 0.4, seed=0, boxes=3, samples=500)
    assert trial.test_y.shape == (4, 500)
    for k in range(1, 4):
        task = trial.tasks[k]
        assert ((task.low <= task.X) & (task.low + 0.4 >= task.X)).all()
        changed = trial.test_y[k] != trial.test_y[k - 1]
        assert changed.any()
        np.testing.assert_array_equal(changed, task.inside(trial.test_X))


def test_noise_is_what_is_said():
    trial = box_tasks(1, 0.5, seed=3)
    X, y = trial.tasks[0].X, trial.tasks[0].y
    order = np.argsort(X[:, 0])
    rough = np.diff(y[order]).std() / np.sqrt(2)  # neighbours differ by noise
    assert rough == pytest.approx(trial.noise, rel=0.05)


def test_retraining_uses_what_was_not_changed():
    trial = box_tasks(2, 0.5, seed=0, boxes=2, samples=1000)
    X, y = trial.surviving()
    first, second, third = trial.tasks
    expected = (
        (~second.inside(first.X) & ~third.inside(first.X)).sum() + (~third.inside(second.X)).sum() + 1000
    )
    assert len(X) == len(y) == expected
