"""Local regression in boxes that grow: whatever came at once, the same bits."""

import itertools

import numpy as np
import pytest

from atlas_splines.memory.box_regression import BoxRegression, rows_without_blocks, segments_of
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.laplace_kernel import BLOCK, NO_ROWS, LaplaceKernel

KERNEL = LaplaceKernel(np.array([3.0, 0.5], np.float32), noise=0.05)


def held(rows, seed=0, outputs=1):
    random = np.random.default_rng(seed)
    points = random.random((rows, 2)).round(2)  # some of them twice
    return HeldRows.of(points, random.normal(size=(rows, outputs)), random.uniform(0.5, 2, rows))


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one.parts, other.parts, strict=True))


@pytest.mark.parametrize("rows", [1, BLOCK - 1, BLOCK, BLOCK + 1, 300])
def test_a_factor_that_grows_has_the_bits_of_one_from_scratch(rows):
    points, weights = held(rows).points, np.ones(rows)
    whole = KERNEL.factor(points, weights)
    grown = NO_ROWS
    for end in sorted({*np.random.default_rng(1).integers(1, rows + 1, 5).tolist(), rows}):
        grown = KERNEL.factor(points[:end], weights[:end], grown)
    assert np.array_equal(whole.dense, grown.dense)
    matrix = np.tril(KERNEL.covariance(points, weights))
    assert np.allclose(whole.dense @ whole.dense.T, matrix + np.tril(matrix, -1).T, atol=1e-12)


@pytest.mark.parametrize("box_rows", [40, 1000])
@pytest.mark.parametrize("outputs", [1, 3])
def test_segments_that_join_give_the_bits_of_all_at_once(box_rows, outputs):
    rows = held(500, outputs=outputs)
    cuts = [0, 300, 340, *range(341, 400), 500]  # where one row splits a box, one of its parts has no new row
    parts = [rows.take(slice(a, b)) for a, b in itertools.pairwise(cuts)]
    grown = BoxRegression.of(KERNEL, parts[:1], box_rows)
    for count, part in enumerate(parts[1:], start=2):
        grown.terms(rows.targets[: grown.ends[-1]].astype(np.float64))
        grown = grown.joined(part)
        targets, whole = rows.targets[: grown.ends[-1]].astype(np.float64), parts[:count]
        assert same(BoxRegression.of(KERNEL, whole, box_rows).terms(targets), grown.terms(targets))
    assert grown.ends == tuple(cuts[1:])
    assert max(map(len, grown.inside)) <= 2 * box_rows
    assert np.array_equal(np.sort(np.concatenate(grown.inside)), np.arange(len(grown.rows.points)))
    assert len({*grown.boxes.find(grown.rows.points)}) == len([own for own in grown.inside if len(own)])


def test_boxes_that_no_row_has_touched_are_not_solved_again():
    rows = held(400)
    grown = BoxRegression.of(KERNEL, [rows], 150)
    before = grown.solve(rows.targets.astype(float), "target")
    new = HeldRows.of(rows.points[:1] + 0.001, np.ones((1, 1)), np.ones(1))
    after = grown.joined(new)
    known = [factor is factors for factor, factors in zip(after.factors, grown.factors, strict=True)]
    targets = np.append(rows.targets, new.targets, axis=0).astype(float)
    weights = after.solve(targets, "target")
    touched = after.boxes.find(new.points)[0]
    assert all(known)
    for box, own in enumerate(grown.inside):
        assert np.array_equal(weights[own], before[own]) == (box != touched)


def test_factors_that_take_too_much_memory_are_made_anew(monkeypatch):
    rows, targets = held(400), held(400).targets.astype(float)
    parts = [rows.take(slice(0, 350)), rows.take(slice(350, 400))]
    expected = BoxRegression.of(KERNEL, parts, 100).terms(targets)
    monkeypatch.setattr("atlas_splines.memory.box_regression.MOST_FACTORS", 0)
    first = BoxRegression.of(KERNEL, parts[:1], 100)
    first.terms(targets[:350])
    assert same(first.joined(parts[1]).terms(targets), expected)


def test_rows_grow_by_half_before_they_are_one_segment():
    updates = np.repeat([0, 1, 2, 3, 4], [100, 30, 20, 1, 5])
    assert segments_of(updates[:150]) == [slice(0, 100), slice(100, 130), slice(130, 150)]
    assert segments_of(updates[:151]) == [slice(0, 151)]
    assert segments_of(updates) == [slice(0, 151), slice(151, 156)]


def test_segments_predict_as_one_regression_does():
    rows = held(300)
    targets = rows.targets.astype(float)
    whole = BoxRegression.of(KERNEL, [rows], 1000).terms(targets)
    parts = BoxRegression.of(KERNEL, [rows.take(slice(0, 200)), rows.take(slice(200, 300))], 1000).terms(
        targets
    )
    points = np.random.default_rng(2).random((50, 2))
    outputs = np.zeros((2, 50, 1))
    whole.add_to(points, outputs[0])
    parts.add_to(points, outputs[1])
    assert np.allclose(*outputs, atol=1e-4)


def test_rows_of_no_block_are_not_predicted():
    rows = held(120)
    boxes = BoxRegression.of(KERNEL, [rows], 50).boxes
    found = rows_without_blocks(KERNEL, boxes, rows, [rows.targets.astype(float)], [np.arange(10)])
    assert (found[10:] == 0).all()
    assert (found[:10] != 0).all()
