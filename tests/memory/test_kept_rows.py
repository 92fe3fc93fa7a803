"""Rows that are kept: equal ones, copies, and what is left without them."""

import numpy as np
import pytest

from atlas_splines.memory.kept_rows import Distinct, HeldRows


def rows_of(count=200, places=40, seed=0, update=0, targets=None):
    random = np.random.default_rng(seed)
    points = random.random((places, 2))[random.integers(0, places, count)]
    targets = random.normal(size=(count, 1)) if targets is None else targets
    return HeldRows.of(points, targets, random.uniform(0.5, 2, count), update)


def test_rows_that_are_taken_out_are_gone_one_for_one():
    rows = rows_of()
    twice = rows.joined(rows.take(slice(0, 50)))
    rest = twice.without(rows.take(slice(0, 50)))
    assert np.array_equal(rest.hashes, rows.hashes)  # the later of two equal rows goes
    assert len(rest.without(rows)) == 0
    assert len(rows.without(rows_of(seed=9))) == 200
    assert len(rows.without(rows.take(slice(0, 0)))) == 200


def test_merged_rows_depend_on_no_order():
    rows = rows_of()
    shuffled = rows.take(np.random.default_rng(1).permutation(200))
    one, other = Distinct.of(rows), Distinct.of(shuffled)
    assert np.array_equal(one.points, other.points)
    assert np.array_equal(one.weights, other.weights)
    means = (part.merged(each.targets.astype(float)) for part, each in ((one, rows), (other, shuffled)))
    assert np.array_equal(*means)


def test_merging_is_a_weighted_mean():
    rows = HeldRows.of(
        np.array([[0.5], [0.25], [0.5]]), np.array([[1.0], [5.0], [4.0]]), np.array([1.0, 1.0, 2.0])
    )
    merged = Distinct.of(rows)
    found = dict(
        zip(merged.points[:, 0].tolist(), merged.merged(rows.targets.astype(float))[:, 0], strict=True)
    )
    assert found == {0.5: pytest.approx(3.0), 0.25: pytest.approx(5.0)}
    squares, freedom = merged.scatter(rows.targets.astype(float))
    assert squares.sum() == pytest.approx(1 * 4 + 2 * 1)
    assert freedom.sum() == pytest.approx(1)


def test_copies_are_rows_that_agree_in_all_where_targets_are_continuous():
    rows = rows_of()
    doubled = rows.joined(rows)
    assert np.allclose(Distinct.of(rows).copies, rows.weights)
    assert np.allclose(Distinct.of(doubled).copies, 2 * doubled.weights)
    squares, freedom = (each.sum() for each in Distinct.of(doubled).scatter(doubled.targets.astype(float)))
    once = [each.sum() for each in Distinct.of(rows).scatter(rows.targets.astype(float))]
    assert (squares, freedom) == (pytest.approx(2 * once[0]), pytest.approx(once[1]))


def test_equal_counts_at_one_point_are_no_copies():
    counts = np.random.default_rng(0).poisson(1.0, (200, 1)).astype(float)
    rows = rows_of(targets=counts)
    assert np.allclose(Distinct.of(rows).copies, rows.weights)


def test_some_points_are_as_if_there_were_no_others():
    rows = rows_of()
    merged = Distinct.of(rows)
    kept = np.arange(len(merged.points)) % 3 == 0
    some, numbers = merged.only(kept)
    alone = Distinct.of(rows.take(numbers))
    targets = rows.targets.astype(float)[numbers]
    assert np.array_equal(some.points, alone.points)
    assert np.array_equal(some.merged(targets), alone.merged(targets))
    assert np.array_equal(some.copies, alone.copies)
