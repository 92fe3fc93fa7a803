"""Bounds: no prediction of many lies beyond them, and what they say is reached is."""

import numpy as np
import pytest
from charted_models import charted
from level_rows import known_rows
from local_models import local_model

from atlas_splines import AtlasRegressor
from atlas_splines.explain.bounds import BoundRules, Enclosure, largest, prepared
from atlas_splines.model.atlas import state_of
from atlas_splines.model.evaluate import evaluate_anywhere

RULES = BoundRules(seconds=20.0)


def boxes_of(inputs, count=4, seed=0):
    """Random boxes, of which some inputs are fixed."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        low = 0.6 * random.random(inputs)
        high = low + 0.4 * random.random(inputs)
        fixed = random.integers(inputs)
        high[fixed] = low[fixed]
        yield low, high


def points_in(low, high, state, rows=4000):
    random = np.random.default_rng(1)
    points = low + (high - low) * random.random((rows, len(low)))
    points[: rows // 10] = np.where(random.random((rows // 10, len(low))) < 0.5, low, high)
    for terms in state.local:  # and on the cuts of boxes
        cuts = random.choice(terms.boxes.cuts, rows // 10)
        points[rows // 10 : rows // 5, 0] = cuts.clip(low[0], high[0])
    return points


def assert_bounded(state, low, high, tolerance=0.03, rules=RULES):
    values = evaluate_anywhere(state, points_in(low, high, state))[:, 0]
    for sign in (1.0, -1.0):
        direction = sign * np.eye(state.outputs)[0]
        found = largest([prepared(state, low, high, direction, rules)], tolerance, rules)
        assert (sign * values).max() <= found.certain
        assert found.reached <= found.certain
        near = sign * evaluate_anywhere(state, found.at[None])[0, 0]
        assert near >= found.reached - 1e-4
        assert found.is_done
        assert found.certain - near <= tolerance + 1e-4


@pytest.mark.parametrize("later", [False, True])
def test_local_terms(later):
    state = state_of(local_model(outputs=2, later=later))
    for low, high in boxes_of(3):
        assert_bounded(state, low, high)


@pytest.mark.parametrize("replaces", [False, True])
def test_charts_in_an_extended_domain(replaces):
    state = state_of(charted(replaces=replaces))
    for low, high in [([-0.3, 0.0], [1.0, 1.5]), ([0.1, 0.1], [0.4, 0.5]), ([0.3, 0.2], [0.3, 0.9])]:
        assert_bounded(state, np.array(low), np.array(high))


def test_effects_of_levels():
    X, y = known_rows(300, 0)
    options = {"members": 1, "random_state": 0, "features": 40, "domain": [(0, 1)] * 2}
    model = AtlasRegressor(**options).fit(X, y)
    assert_bounded(state_of(model.model_), np.array([0.1, 0.0]), np.array([0.9, 1.0]))


def test_a_point_has_no_gap():
    state = state_of(local_model())
    point = np.array([0.2, 0.7, 0.4])
    found = largest([prepared(state, point, point, np.ones(1))], 0.0)
    np.testing.assert_allclose(found.certain, evaluate_anywhere(state, point[None])[0, 0], atol=1e-3)
    assert len(found.at) == 3


def test_without_time_bounds_are_wide_and_hold():
    state = state_of(local_model())
    low, high, rules = np.zeros(3), np.ones(3), BoundRules(seconds=0.0)
    found = largest([prepared(state, low, high, np.ones(1), rules)], 0.0, rules)
    assert not found.is_done
    assert evaluate_anywhere(state, points_in(low, high, state)).max() <= found.certain


def test_products_of_enclosures_hold():
    random = np.random.default_rng(0)
    halves = np.full((1, 2), 0.3)
    one, two = (
        Enclosure(random.normal(size=1), random.normal(size=(1, 2)), random.random(1)) for _ in range(2)
    )
    product = one.product(two, halves)
    for _ in range(200):
        move = random.uniform(-0.3, 0.3, 2)
        values = [
            each.values + each.slopes @ move + random.uniform(-1, 1) * each.remainders for each in (one, two)
        ]
        apart = values[0] * values[1] - (product.values + product.slopes @ move)
        assert np.abs(apart) <= product.remainders + 1e-12
