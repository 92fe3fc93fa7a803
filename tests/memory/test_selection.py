"""Screening: pairs of inputs that act together are found, and those that do not are left alone."""

import numpy as np
import pytest

from atlas_splines.memory.selection import bins_of, interacting_pairs, pair_gains


@pytest.fixture(scope="module")
def points():
    random = np.random.default_rng(0)
    return np.hstack([random.random((2000, 4)), random.integers(2, size=(2000, 1))])


def test_the_strongest_pair_comes_first(points):
    both = 2 * (points[:, 0] > 0.5) * points[:, 4] + (points[:, 1] > 0.5) * (points[:, 2] > 0.5)
    additive = points[:, :4] @ [0.0, 0.5, 0.5, 0.0] + points[:, 0] + points[:, 4]
    left = both - additive
    assert set(interacting_pairs(points, (left - left.mean())[:, None])[:2]) == {(0, 4), (1, 2)}


def test_noise_has_no_pairs(points):
    assert interacting_pairs(points, np.random.default_rng(1).normal(size=(2000, 2))) == ()


def test_the_gain_of_a_pair_is_that_of_means_with_a_prior(points):
    left = np.random.default_rng(1).normal(size=(2000, 1)) + (points[:, :1] > 0.5) * points[:, 4:]
    gains = pair_gains(points, left)
    np.testing.assert_allclose(gains, gains.T)
    centred = left[:, 0] - left.mean()
    cells = bins_of(points[:, 0]) * 8 + bins_of(points[:, 4])
    explained = volume = 0.0
    for cell in np.unique(cells):
        inside = centred[cells == cell]
        explained += inside.sum() ** 2 / (len(inside) + 3)
        volume += 0.5 * np.log(3 / (len(inside) + 3))
    assert gains[0, 4] == pytest.approx(volume - 1000 * np.log(1 - explained / (centred @ centred)))


def test_bins_are_values_or_quantiles():
    assert bins_of(np.array([0.3, 0.1, 0.3, 0.9])).tolist() == [1, 0, 1, 2]
    assert np.bincount(bins_of(np.random.default_rng(0).random(800) ** 3)).tolist() == [100] * 8
