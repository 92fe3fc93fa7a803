"""Local memory: a model that is a function of the rows it holds."""

from dataclasses import replace

import numpy as np
import pytest

from atlas_splines.memory.box_regression import LinearPart, linear_left_out, rows_without_blocks
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.local_memory import (
    Regression,
    forecasting_shares,
    stacking_shares,
)
from atlas_splines.memory.stacking import clocks_of, stack, without_blocks
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.local_terms import ONE_BOX
from atlas_splines.model.rows import Rows
from atlas_splines.updates.initial_memory import as_first_rows, solve_rows


def table(rows=600, seed=0, outputs=1, clock=False, levels=None):
    random = np.random.default_rng(seed)
    points = random.random((rows, 3)).astype(np.float32)
    if clock:
        points[:, 2] = np.linspace(0, 0.9, rows)
    clean = np.abs(points[:, :1] - 0.5) + np.sign(points[:, 1:2] - 0.4)
    if clock:
        clean = clean + 3 * points[:, 2:]
    targets = clean + 0.05 * random.normal(size=(rows, outputs))
    return Rows(points, targets.astype(np.float32), np.ones(rows, np.float32))


def stacked(rows, **options):
    solved = solve_rows(rows, 60)
    held = HeldRows.of(*as_first_rows(rows))
    parts = solved.features, solved.statistics, solved.posterior
    return solved, stack(held, *parts, loss="mse", dtype="float32", seed=0, budget=10_000, **options)


def test_the_state_that_was_chosen_is_the_state_that_is_derived():
    solved, found = stacked(table())
    again = found.memory.state(found.memory.regression(solved.features, solved.posterior, "mse"), "float32")
    points = np.random.default_rng(1).random((100, 3)).astype(np.float32)
    assert np.array_equal(evaluate(found.state, points), evaluate(again, points))


def test_the_order_of_rows_does_not_matter():
    solved, found = stacked(table())
    memory = found.memory
    shuffled = replace(memory, rows=memory.rows.take(np.random.default_rng(1).permutation(600)))
    states = [
        each.state(each.regression(solved.features, solved.posterior, "mse"), "float32")
        for each in (memory, shuffled)
    ]
    points = np.random.default_rng(1).random((100, 3)).astype(np.float32)
    assert np.array_equal(*(evaluate(state, points) for state in states))


def test_steps_are_learned_where_the_smooth_part_rings():
    rows, new = table(), table(seed=1)
    solved, found = stacked(rows)
    errors = [
        np.sqrt(np.mean((outputs - new.targets) ** 2))
        for outputs in (
            solved.features(new.points.astype(float)) @ solved.posterior.weights,
            evaluate(found.state, new.points),
        )
    ]
    assert errors[1] < 0.8 * errors[0]
    left = np.sqrt(np.mean((found.left_out - rows.targets) ** 2))
    assert left == pytest.approx(errors[1], rel=0.15)


def test_of_more_rows_than_are_kept_the_oldest_leave():
    _, found = stacked(table())
    rows = HeldRows.of(*as_first_rows(table(100, seed=2)), update=1)
    bounded = replace(found.memory, budget=250).with_rows(rows)
    assert len(bounded.rows) == 250
    assert (bounded.rows.updates[-100:] == 1).all()
    assert np.array_equal(bounded.rows.points[:150], found.memory.rows.points[-150:])
    assert np.array_equal(bounded.without_update(1).rows.points, found.memory.rows.points[-150:])


def test_blocks_are_left_out_exactly():
    rows = table(300)
    solved, _ = stacked(rows)
    parts = Regression(HeldRows.of(*as_first_rows(rows)), solved.features, solved.posterior, "mse", 1000)
    blocks = np.array_split(np.arange(300), 3)
    smooth, everywhere = without_blocks(parts, solved.statistics, blocks)
    for own, outputs in zip(blocks, everywhere, strict=True):
        assert np.array_equal(smooth[own], outputs[own])
    line, lines = linear_left_out(rows.points, parts.targets, np.ones(300), blocks)
    rest = np.arange(300) >= 100
    assert (
        np.abs(
            lines[0] - LinearPart.of(rows.points[rest], parts.targets[rest], np.ones(200))(rows.points)
        ).max()
        < 0.02
    )
    one = np.arange(300) != 7
    assert line[7] == pytest.approx(
        LinearPart.of(rows.points[one], parts.targets[one], np.ones(299))(rows.points)[7], abs=0.01
    )


def test_a_box_that_a_block_fills_predicts_nothing():
    rows = HeldRows.of(*as_first_rows(table(200)))
    _, found = stacked(table())
    kernel, targets = found.memory.known.components[0].kernel, rows.targets.astype(float)
    outputs = rows_without_blocks(kernel, ONE_BOX, rows, [targets], [np.arange(200)])
    assert np.abs(outputs).max() < 1e-6


# --- order ----------------------------------------------------------------------------------------------


def test_a_clock_is_a_sorted_input_of_many_values():
    points = np.stack([np.arange(60), -np.arange(60), np.arange(60) // 30, np.arange(60) % 7], axis=1)
    assert clocks_of(points.astype(float)) == (0, 1)
    assert clocks_of(points[::-1].astype(float)) == (0, 1)
    assert clocks_of(np.random.default_rng(0).permutation(points).astype(float)) == ()


def test_rows_to_come_follow_the_trend():
    rows = table(clock=True)
    _, found = stacked(rows, clocks=clocks_of(rows.points))
    assert found.memory.clocks == (2,)
    later = found.state.later
    points = np.random.default_rng(1).random((200, 3)).astype(np.float32)
    points[:, 2] = 1.0
    truth = np.abs(points[:, :1] - 0.5) + np.sign(points[:, 1:2] - 0.4) + 3
    with_trend = np.mean((evaluate(found.state, points) - truth) ** 2)
    without = np.mean((evaluate(replace(found.state, later=None), points) - truth) ** 2)
    assert with_trend < without
    assert later.slopes[2, 0] > 0.5
    known = rows.points[:100]
    assert np.array_equal(evaluate(found.state, known), evaluate(replace(found.state, later=None), known))


# --- shares ---------------------------------------------------------------------------------------------


def test_few_rows_decide_little():
    random = np.random.default_rng(0)
    columns = random.normal(size=(3, 400, 1))
    targets = columns[1]
    few = stacking_shares(columns[:, :4], targets[:4], np.ones(4), 0.3)
    many = stacking_shares(columns, targets, np.ones(400), 0.3)
    np.testing.assert_allclose(many, [0, 1, 0], atol=0.08)
    assert few[1] < 0.6


def test_forecasting_shares_add_up_to_one_and_count_the_last_block_twice():
    random = np.random.default_rng(0)
    targets = random.normal(size=(500, 1))
    early, late = targets.copy(), targets.copy()
    early[400:] += random.normal(size=(100, 1))  # wrong at the end
    late[:100] += random.normal(size=(100, 1))  # as wrong at the beginning
    shares = forecasting_shares(
        [early, late], [early, late], targets, np.ones(500), np.arange(400, 500), 0.01
    )
    assert shares.sum() == pytest.approx(1)
    assert shares[1] > shares[0] + 0.1
