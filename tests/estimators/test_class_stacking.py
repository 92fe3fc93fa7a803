"""Stacking of classes: the member takes part as far as held-out rows want it, and the whole is one model."""

import numpy as np
import pytest
from scipy.special import softmax

from atlas_splines.core.history import History, TrainingDiverged
from atlas_splines.core.rows import Rows
from atlas_splines.estimators import class_stacking
from atlas_splines.estimators.class_stacking import stack_classes, stacking_weights, train_class_member
from atlas_splines.evidence.classes import mean_entropy
from atlas_splines.evidence.design import solve_first


def labels_of(points):
    """A step along a diagonal, which few smooth functions have."""
    return np.eye(2)[((points[:, 0] + points[:, 1] > 1) ^ (points[:, 2] > 0.7)).astype(int)]


def table(rows, seed=0):
    points = np.random.default_rng(seed).random((rows, 3)).astype(np.float32)
    return Rows(points, labels_of(points).astype(np.float32), np.ones(rows, np.float32))


@pytest.fixture(scope="module")
def rows():
    return table(600)


@pytest.fixture(scope="module")
def solved(rows):
    return solve_first(rows.points.astype(np.float64), rows.targets.astype(np.float64), budget=16)


@pytest.fixture(scope="module")
def held_out():
    return np.arange(600) % 4 == 0


def entropy_of(model, rows):
    return mean_entropy(model(rows.points).astype(np.float64), rows.targets, rows.weights)


def entropy_on(held_out, scores, rows):
    return mean_entropy(scores, rows.targets[held_out], rows.weights[held_out])


def test_a_member_finds_what_few_features_lack(rows, solved, held_out, monkeypatch):
    stacked = stack_classes(rows, held_out, solved, seed=0)
    with_member, member, scores = stacked.model, stacked.member, stacked.held_out
    monkeypatch.setattr(class_stacking, "LEAST_WEIGHT", np.inf)
    without = stack_classes(rows, held_out, solved, seed=0).model
    fresh = table(2000, seed=1)
    assert entropy_of(with_member, fresh) < 0.9 * entropy_of(without, fresh)
    assert with_member.terms == without.terms + member.model.terms
    assert entropy_on(held_out, scores, rows) == pytest.approx(entropy_of(with_member, fresh), abs=0.1)


def test_a_member_that_diverges_is_left_out(rows, solved, held_out, monkeypatch):
    def diverge(*_):
        raise TrainingDiverged(History(), 1.0)

    monkeypatch.setattr(class_stacking, "train_density", diverge)
    stacked = stack_classes(rows, held_out, solved, seed=0)
    assert stacked.member.model.terms == 0
    assert np.isfinite(stacked.model(rows.points)).all()
    assert np.isfinite(stacked.held_out).all()


def test_all_rows_are_predicted_by_others(rows, solved, held_out):
    stacked = stack_classes(rows, held_out, solved, seed=0)
    fresh = table(2000, seed=1)
    alone = mean_entropy(stacked.crossed, rows.targets, rows.weights)
    assert alone == pytest.approx(entropy_on(held_out, stacked.solved, rows), abs=0.1)
    assert alone > entropy_of(stacked.model, fresh)
    many = np.tile(np.arange(len(rows)), 20)
    assert stack_classes(rows.take(many), held_out[many], solved, seed=0).crossed is None


def test_scores_of_classes_without_a_mistake_do_not_run_away(held_out):
    points = np.random.default_rng(0).random((600, 1)).astype(np.float32)
    sure = Rows(
        points, np.eye(2, dtype=np.float32)[(points[:, 0] > 0.5).astype(int)], np.ones(600, np.float32)
    )
    solved = solve_first(points.astype(np.float64), sure.targets.astype(np.float64), budget=20)
    said = softmax(train_class_member(sure, held_out, solved, 0).model(points), axis=1)
    assert (said.argmax(axis=1) == sure.targets.argmax(axis=1)).mean() > 0.97
    assert np.quantile(said.min(axis=1), 0.1) > 1e-4


def test_few_rows_leave_the_solved_scores_alone():
    random = np.random.default_rng(0)
    scores, labels = random.normal(size=(2, 4, 3)), np.eye(3)[[0, 1, 2, 0]]
    shares, _ = stacking_weights(scores, labels, np.ones(4))
    np.testing.assert_allclose(shares, [1, 0], atol=0.3)


def test_a_row_of_weight_two_is_a_row_twice():
    random = np.random.default_rng(0)
    scores, labels = random.normal(size=(2, 60, 3)), np.eye(3)[random.integers(3, size=60)]
    once, _ = stacking_weights(scores, labels, np.full(60, 2.0))
    twice, _ = stacking_weights(np.tile(scores, (1, 2, 1)), np.tile(labels, (2, 1)), np.ones(120))
    np.testing.assert_allclose(once, twice, atol=1e-4)
