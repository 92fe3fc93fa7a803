"""States as sums of products: they say what predictions say, without rounding to float32."""

import float64_arithmetic as exact
import numpy as np
import oracle
import pytest
from charted_models import charted
from local_models import local_model, local_terms, points_near

from atlas_splines import Atlas
from atlas_splines.explain.products import TooManyWindows, box_limits, products_of, two_sided_sums
from atlas_splines.model.atlas import state_of
from atlas_splines.model.state import Offsets, level_keys

RANDOM = np.random.default_rng(0)


def assert_same(state, points):
    expected = exact.evaluate_anywhere(state, points)
    found = products_of(state).evaluate(points)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_local_terms_and_later_rows(dtype, later):
    model = local_model(outputs=2, later=later, dtype=dtype)
    X = points_near(model, 400).astype(np.float64)
    assert_same(state_of(model), np.vstack([X, 1.5 * X[:100] - 0.3]))


@pytest.mark.parametrize("replaces", [False, True])
def test_charts_in_an_extended_domain(replaces):
    model = charted(replaces=replaces)
    assert len(model.charts) == 3
    assert_same(state_of(model), RANDOM.random((500, 2)) * 2 - 0.5)


def test_effects_of_levels():
    from dataclasses import replace

    keys = level_keys(np.array([[0.25, 0.5], [0.75, 0.5]]), [0, 1])
    keys = np.unique(keys)
    offsets = Offsets(keys, RANDOM.normal(size=(len(keys), 2)).astype(np.float32))
    state = replace(state_of(oracle.randomize(Atlas(2, 2, terms=1, density=1))), offsets=offsets)
    assert_same(state, np.array([[0.25, 0.5], [0.25, 0.3], [0.3, 0.5], [0.75, 0.9]]))


def test_what_is_later_cancels_before_the_ends_of_clocks():
    state = state_of(local_model(later=True))
    points = points_near(local_model(later=True)).astype(np.float64)
    known = points[~state.later.includes(points)]
    short, whole = products_of(state, is_later=False), products_of(state)
    assert len(short.groups) < len(whole.groups)
    np.testing.assert_allclose(short.evaluate(known), whole.evaluate(known), atol=1e-10)


def test_too_many_overlapping_charts_are_refused():
    model = charted(charts=11, replaces=True, step=0.01)
    with pytest.raises(TooManyWindows, match=r"11 charts overlap so often .*; call consolidate first"):
        products_of(state_of(model))


def test_limits_of_boxes_are_those_that_points_are_found_in():
    terms, points = local_terms(), RANDOM.random((500, 3)).astype(np.float32)
    points[:50, 0] = RANDOM.choice(terms.boxes.cuts, 50)
    low, high = box_limits(terms.boxes, 3)
    inside = ((points[:, None] > low) & (points[:, None] <= high)).all(axis=2)
    np.testing.assert_array_equal(inside.sum(axis=1), 1)
    np.testing.assert_array_equal(inside.argmax(axis=1), terms.boxes.find(points))


@pytest.mark.parametrize("rate", [0.0, 0.7, 30.0, 800.0])
def test_sums_of_kernels_in_intervals(rate):
    x, weights, centres = RANDOM.random(200), RANDOM.random(200), RANDOM.random(40)
    x[:20] = 0.5
    low = np.where(RANDOM.random(40) < 0.5, -np.inf, centres - 0.2)
    high = np.where(RANDOM.random(40) < 0.5, np.inf, 0.5)
    centres = np.minimum(centres, high)
    low = np.minimum(low, centres)
    kernel = np.exp(-rate * np.abs(x[:, None] - centres)) * ((x[:, None] > low) & (x[:, None] <= high))
    found = two_sided_sums(x, weights, rate, centres, low, high)
    np.testing.assert_allclose(found, weights @ kernel, rtol=1e-9, atol=1e-11)
