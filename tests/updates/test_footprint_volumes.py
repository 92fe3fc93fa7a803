"""Volumes of unions of boxes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_splines.updates import footprint as volumes
from atlas_splines.updates.footprint import Volume, estimated_volume, union_volume


def random_boxes(boxes, inputs, seed=0, least=0.0):
    """Boxes that reach at least so far to either side of the centre."""
    ends = np.random.default_rng(seed).random((boxes, inputs, 2)) * (0.5 - least)
    return ends * [1, -1] + [0, 1]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 999))
def test_the_volume_agrees_with_counting(inputs, boxes, seed):
    random = np.random.default_rng(seed)
    edges = np.sort(random.integers(0, 11, (boxes, inputs, 2)) / 10, axis=2)
    grid = np.stack(np.meshgrid(*[(np.arange(10) + 0.5) / 10] * inputs, indexing="ij"), -1).reshape(
        -1, inputs
    )
    inside = ((grid[:, None] > edges[:, :, 0]) & (grid[:, None] < edges[:, :, 1])).all(axis=2).any(axis=1)
    volume = union_volume(edges)
    assert volume.size == pytest.approx(inside.mean(), abs=1e-9)
    assert volume.error == 0


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 999))
def test_an_estimate_is_as_close_as_it_says(inputs, boxes, seed):
    edges = random_boxes(boxes, inputs, seed)
    estimate = estimated_volume(edges)
    assert abs(estimate.size - union_volume(edges).size) <= estimate.error + 1e-12
    assert estimate.error < 0.01


def test_many_boxes_that_overlap_in_many_inputs_are_estimated():
    edges = random_boxes(200, 22, least=0.4)  # cutting them up would take 2 to the power of 200 steps
    volume = union_volume(edges)
    points = np.random.default_rng(1).random((4000, 22))
    inside = ((points[:, None] >= edges[:, :, 0]) & (points[:, None] <= edges[:, :, 1])).all(axis=2)
    assert 0 < volume.error < 0.05
    assert abs(volume.size - inside.any(axis=1).mean()) < volume.error + 0.03
    assert union_volume(edges) == volume  # the same whenever it is asked


@pytest.mark.slow
@pytest.mark.parametrize(("boxes", "inputs"), [(1, 2000), (8, 2000), (64, 8), (2000, 3), (5000, 1)])
def test_no_size_is_too_much(boxes, inputs):
    edges = random_boxes(boxes, inputs, least=0.5 - 0.5 / inputs)
    volume = union_volume(edges)
    assert volumes.box_volumes(edges).max() <= volume.size + volume.error + 1e-12
    assert volume.size - volume.error <= 1


def test_boxes_apart_are_exact_however_many():
    low = np.stack(np.meshgrid(*[np.arange(8) / 8] * 3, indexing="ij"), -1).reshape(-1, 3)
    edges = np.stack([low, low + 1 / 16], axis=2)
    assert union_volume(edges) == Volume(pytest.approx(1 / 8), 0.0)


def test_a_volume_says_how_far_off_it_can_be():
    assert str(Volume(0.3123456)) == "0.312"
    assert str(Volume(0.3123456, 0.0123)) == "0.312 ± 0.01"
    assert Volume(0.3123456, 0.0123).percent() == "31.23% ± 1.2%"
