"""Verdicts: noise, a change in one place, drift."""

import numpy as np
import pytest

from atlas_splines.memory.initial_fit import design
from atlas_splines.memory.posterior import solve
from atlas_splines.memory.statistics import Statistics
from atlas_splines.updates.routing import innovation, is_quiet


def world(points):
    return np.sin(5 * points[:, :1]) + points[:, 1:] ** 2


@pytest.fixture(scope="module")
def known():
    random = np.random.default_rng(0)
    points = random.random((1500, 2))
    targets = world(points) + 0.1 * random.normal(size=(1500, 1))
    features, posterior = design(points, targets, budget=150)
    statistics = Statistics(len(features), 1)
    statistics.add(features(points), targets)
    return features, statistics, solve(statistics, posterior.prior)


def new_rows(rows=200):
    random = np.random.default_rng(1)
    points = random.random((rows, 2))
    return points, world(points) + 0.1 * random.normal(size=(rows, 1))


def test_more_of_the_same_is_noise(known):
    features, _, posterior = known
    points, targets = new_rows()
    found = innovation(posterior, features(points), targets)
    assert found.ratio == pytest.approx(1, abs=0.3)
    assert found.is_noise()
    assert not innovation(posterior, features(points), targets - 1.5).is_noise()


def test_weights_count(known):
    features, _, posterior = known
    points, targets = new_rows()
    targets[:100] += 2
    phi = features(points)
    assert innovation(posterior, phi, targets, np.repeat([0.0, 1.0], 100)).is_noise()
    assert not innovation(posterior, phi, targets).is_noise()


@pytest.mark.parametrize("shift", [0.0, 0.12, 0.15, 0.2, 1.5])
def test_the_screen_without_leverages_never_calls_noise_what_the_test_does_not(known, shift):
    features, _, posterior = known
    points, targets = new_rows()
    phi, levels = features(points), features.keys(points)
    quiet = is_quiet(posterior, phi, targets - shift, None, levels)
    assert not quiet or innovation(posterior, phi, targets - shift).is_noise()
    assert quiet == (shift < 0.15) or shift in (0.12, 0.15)
