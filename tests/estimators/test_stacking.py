"""Stacking: members take part as far as held-out rows want them, and the whole is one model."""

import numpy as np
import pytest

from atlas_splines import Atlas
from atlas_splines.core.rows import Rows
from atlas_splines.estimators import stacking
from atlas_splines.estimators.stacking import (
    MOST_ROWS,
    finest_member,
    most_terms,
    schedule_for,
    stack_members,
    stacking_weights,
    telling_inputs,
    train_member,
)
from atlas_splines.evidence.design import solve_first
from atlas_splines.evidence.features import Bumps, Features


def table(rows=600, seed=0):
    random = np.random.default_rng(seed)
    points = random.random((rows, 2)).astype(np.float32)
    targets = np.sin(6 * points[:, :1]) + 0.05 * random.normal(size=(rows, 1))
    return Rows(points, targets.astype(np.float32), np.ones(rows, np.float32))


def constant(value):
    model = Atlas(2, terms=0, density=0)
    model.f(0)[:, 0] = value
    return model


@pytest.fixture(scope="module")
def rows():
    return table()


@pytest.fixture(scope="module")
def solved(rows):
    return solve_first(rows.points.astype(np.float64), rows.targets.astype(np.float64), budget=80)


@pytest.fixture(scope="module")
def held_out(rows):
    return np.arange(len(rows)) % 5 == 0


def test_members_that_know_nothing_are_left_out(rows, solved, held_out):
    model, outputs = stack_members([constant(5.0), constant(-5.0)], rows, held_out, solved)
    alone, _ = stack_members([], rows, held_out, solved)
    np.testing.assert_allclose(model(rows.points), alone(rows.points), atol=0.02)
    loss = np.mean((outputs - rows.targets[held_out]) ** 2)
    assert loss == pytest.approx(np.mean((solved.ahead[held_out] - rows.targets[held_out]) ** 2), rel=0.05)


def test_the_whole_is_the_weighted_sum(rows, solved, held_out):
    members = [train_member(k, rows, held_out, solved, seed=k).model for k in range(2)]
    model, outputs = stack_members(members, rows, held_out, solved)
    ahead, targets = solved.ahead[held_out], rows.targets[held_out]
    said = [members[0](rows.points[held_out]), members[1](rows.points[held_out]) + ahead]
    shares = stacking_weights(
        np.hstack([ahead, *said]), targets.ravel().astype(np.float64), np.ones(held_out.sum())
    )
    part = solved.features(rows.points) @ solved.readout.weights
    expected = (
        (shares[0] + shares[2]) * part
        + shares[1] * members[0](rows.points)
        + shares[2] * members[1](rows.points)
    )
    np.testing.assert_allclose(model(rows.points), expected, atol=0.05)
    assert np.mean((outputs - targets) ** 2) < 0.01


def test_shares_are_never_negative_and_few_rows_change_little():
    random = np.random.default_rng(0)
    target = random.normal(size=300)
    columns = np.stack([target + 0.3 * random.normal(size=300), -target, target], axis=1)
    shares = stacking_weights(columns, target, np.ones(300))
    assert (shares >= 0).all()
    assert shares[2] > 0.9
    few = stacking_weights(columns[:3], target[:3], np.ones(3))
    assert few[0] > shares[0]


@pytest.mark.slow
def test_a_member_depends_only_on_inputs_that_matter():
    random = np.random.default_rng(0)
    points = random.random((500, 40)).astype(np.float32)
    targets = np.sin(6 * points[:, :1]).astype(np.float32)
    rows = Rows(points, targets, np.ones(500, np.float32))
    solved = solve_first(points.astype(np.float64), targets.astype(np.float64), budget=60)
    member = train_member(0, rows, np.arange(500) % 5 == 0, solved, seed=0)
    others = np.setdiff1d(np.arange(40), telling_inputs(solved, points))
    assert len(others) > 20
    moved = points.copy()
    moved[:, others] = random.random((500, len(others)))
    assert np.array_equal(member.model(points), member.model(moved))


def test_many_rows_get_about_as_many_steps_as_some():
    schedules = {rows: schedule_for(rows, 6) for rows in (3_500, 7_000, 20_000, MOST_ROWS)}
    steps = [schedule.epochs * rows / schedule.batch_size for rows, schedule in schedules.items()]
    assert steps == [pytest.approx(expected, rel=0.1) for expected in (350, 700, 800, 800)]
    assert schedule_for(MOST_ROWS, 6).epochs == 1
    assert schedule_for(100, 6).finest < schedule_for(MOST_ROWS, 6).finest


def test_members_of_many_inputs_or_outputs_stay_small():
    bumps = (Bumps(np.full((500, 24), 0.5), np.ones(24)),)
    finest = {
        (inputs, outputs): finest_member(
            inputs, outputs, min(32, most_terms(inputs, outputs, 1)), Features(inputs, (0,), (), bumps)
        )
        for inputs, outputs in [(2, 1), (24, 1), (10, 40), (24, 400)]
    }
    assert finest == {(2, 1): 6, (24, 1): 3, (10, 40): 3, (24, 400): 1}
    assert most_terms(10_000, 1000, 1) == 0  # only splines are left


def test_of_many_rows_a_member_learns_some(monkeypatch, rows, solved, held_out):
    monkeypatch.setattr(stacking, "MOST_ROWS", 60)
    learned = []
    monkeypatch.setattr(
        stacking, "schedule_for", lambda rows, finest: learned.append(rows) or schedule_for(rows, finest)
    )
    train_member(0, rows, held_out, solved, seed=0)
    assert learned == [60]
