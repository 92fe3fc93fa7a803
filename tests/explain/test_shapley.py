"""Shapley values: what products give is what all coalitions give."""

import itertools
from math import factorial

import float64_arithmetic as exact
import numpy as np
import pytest
from charted_models import charted
from local_models import local_model, points_near

from atlas_splines.explain.background import Marginals, References
from atlas_splines.explain.products import products_of
from atlas_splines.explain.shapley import (
    Game,
    coalitions_of,
    enumerated,
    explained,
    interactions_of,
    quadrature,
    sampled,
    shapley_of_table,
)
from atlas_splines.model.atlas import state_of

RANDOM = np.random.default_rng(0)
LOCAL = np.array([0, 1, 2, 2, 3, 4])  # inputs 2 and 3 are of one column


def cases():
    for later in (False, True):
        model = local_model(inputs=6, outputs=2, later=later)
        points = points_near(model, 300)[[0, 1, 120, 160, 250]].astype(np.float64)
        yield f"local, later {later}", state_of(model), LOCAL, np.vstack([points, 1.3 * points[:1] - 0.1])
    for replaces in (False, True):
        state, points = state_of(charted(replaces=replaces)), 1.6 * RANDOM.random((6, 2)) - 0.3
        yield f"charts, replaces {replaces}", state, np.arange(2), points


CASES = list(cases())
PARAMETERS = pytest.mark.parametrize(
    ("state", "players", "points"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


def references(players, rows=4):
    return 1.4 * RANDOM.random((rows, len(players))) - 0.2


def game(state, players, rows):
    return Game(lambda points: exact.evaluate_anywhere(state, points), players, rows)


def assert_close(found, expected):
    size = np.abs(expected.values).max()
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(found.base, expected.base, rtol=0, atol=1e-10 * size)


@PARAMETERS
def test_against_rows(state, players, points):
    rows = references(players)
    found = explained(products_of(state), players, points, References(rows, ""))
    assert_close(found, enumerated(game(state, players, rows), points))


@PARAMETERS
def test_against_marginals(state, players, points):
    """Marginals of three rows are as many rows as these can be put together to."""
    rows = references(players, 3)
    every = np.array(list(itertools.product(range(3), repeat=players.max() + 1)))[:, players]
    product = np.take_along_axis(rows, every, axis=0)
    found = explained(products_of(state), players, points[:2], Marginals.of_rows(rows, players, ""))
    assert_close(found, enumerated(game(state, players, product), points[:2]))


@PARAMETERS
def test_interactions(state, players, points):
    """Half of each pair's second difference, averaged over coalitions of the others as the index weighs them."""
    rows, points, count = references(players, 2), points[:2], players.max() + 1
    found = interactions_of(products_of(state), players, points, References(rows, ""))
    alone = enumerated(game(state, players, rows), points)
    np.testing.assert_allclose(found.values.sum(axis=2), alone.values, atol=1e-9 * np.abs(alone.values).max())
    masks = coalitions_of(count)
    for row, point in enumerate(points):
        worth = game(state, players, rows).worth(point, masks)
        for i, j in itertools.combinations(range(count), 2):
            rest = ~masks[:, i] & ~masks[:, j]
            sizes = masks[rest].sum(axis=1)
            weights = [factorial(s) * factorial(count - 2 - s) / factorial(count - 1) for s in sizes]
            base = np.flatnonzero(rest)
            second = worth[base + 2**i + 2**j] - worth[base + 2**i] - worth[base + 2**j] + worth[base]
            expected = 0.5 * np.array(weights) @ second
            size = np.abs(alone.values).max()
            np.testing.assert_allclose(found.values[row, i, j], expected, rtol=0, atol=1e-9 * size)
            np.testing.assert_array_equal(found.values[row, i, j], found.values[row, j, i])


def test_quadrature_is_exact():
    for players in range(1, 12):
        nodes, weights = quadrature(players)
        for power in range(players):
            np.testing.assert_allclose(weights @ nodes**power, 1 / (power + 1), rtol=1e-13)


def test_a_column_that_does_not_matter_has_no_value():
    model = local_model()  # its terms do not depend on the last input, and its splines do
    state = state_of(model)
    point, row = np.array([[0.2, 0.3, 0.9]]), np.array([[0.6, 0.1, 0.9]])
    found = explained(products_of(state), np.arange(3), point, References(row, ""))
    np.testing.assert_allclose(found.values[:, 2], 0, atol=1e-12)


def test_sampled_values_add_up_and_come_near():
    state, players, points = CASES[0][1], LOCAL, CASES[0][3][:2]
    own = game(state, players, references(players, 20))
    found, expected = sampled(own, points), enumerated(own, points)
    total = exact.evaluate_anywhere(state, points) - own.base
    np.testing.assert_allclose(found.values.sum(axis=1), total, atol=1e-9)
    assert np.abs(found.values - expected.values).max() < 0.2 * np.abs(expected.values).max()


def test_two_players_by_hand():
    values = shapley_of_table(np.array([[0.0], [1.0], [2.0], [7.0]]))
    np.testing.assert_allclose(values.ravel(), [3, 4])
