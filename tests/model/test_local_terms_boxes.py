"""Boxes: a k-d tree over points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_splines.model.local_terms import Boxes, BoxRules


@given(rows=st.integers(1, 300), inputs=st.integers(1, 4), values=st.integers(1, 50), most=st.integers(1, 60))
def test_every_point_is_in_one_box_and_rows_are_split_by_it(rows, inputs, values, most):
    points = np.random.default_rng(rows).integers(0, values, (rows, inputs)).astype(np.float32) / values
    boxes = Boxes.of(points, np.ones(inputs, np.float32), BoxRules(most))
    parts = boxes.split(points)
    assert len(parts) == len(boxes)
    assert sorted(np.concatenate(parts).tolist()) == list(range(rows))
    for box, inside in enumerate(parts):
        assert (boxes.find(points[inside]) == box).all()


def test_boxes_of_different_points_are_bounded():
    points = np.random.default_rng(0).random((5000, 3)).astype(np.float32)
    sizes = [len(part) for part in Boxes.of(points, np.ones(3), BoxRules(400)).split(points)]
    assert max(sizes) <= 400
    assert min(sizes) >= 100  # cuts are near the median


def test_only_inputs_with_a_rate_are_cut():
    points = np.random.default_rng(0).random((2000, 2)).astype(np.float32)
    assert set(Boxes.of(points, np.array([0.0, 1.0]), BoxRules(200)).nodes[:, 0].tolist()) == {-1, 1}


def test_the_order_of_rows_does_not_matter():
    points = np.random.default_rng(0).random((1500, 3)).astype(np.float32)  # fewer than are sampled
    one, other = (Boxes.of(each, np.ones(3), BoxRules(100)) for each in (points, points[::-1].copy()))
    assert np.array_equal(one.nodes, other.nodes)
    assert np.array_equal(one.cuts, other.cuts)


def test_boxes_are_bounded_where_values_are_rare():
    random = np.random.default_rng(0)
    flags = (random.random((4000, 30)) < 0.05).astype(
        np.float32
    )  # no input has a fifth of its rows on one side
    flags = np.unique(flags, axis=0)
    sizes = [len(part) for part in Boxes.of(flags, np.ones(30), BoxRules(200)).split(flags)]
    assert max(sizes) <= 400


def test_equal_points_are_never_parted():
    points = np.full((500, 2), 0.5, np.float32)
    assert len(Boxes.of(points, np.ones(2), BoxRules(100))) == 1


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_many_equal_values_are_kept_on_one_side(share):
    points = np.random.default_rng(0).random((1000, 1)).astype(np.float32)
    points[: int(share * 1000)] = 0.5
    for inside in Boxes.of(points, np.ones(1), BoxRules(100)).split(points):
        own = points[inside] == 0.5
        assert own.any() == (own.sum() == int(share * 1000))
