from dataclasses import replace

import numpy as np
import pytest

from atlas_splines.core.model import state_of
from atlas_splines.evidence.expert_weights import ExpertWeights
from atlas_splines.evidence.features import Bumps, Features
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.presence import Presence
from atlas_splines.evidence.readout import Prior
from atlas_splines.evidence.spread import Seen, Spread, telling_inputs

FEATURES = Features(2, (0, 1), (), ())


def rows(count=400, seed=0, noise=0.3):
    random = np.random.default_rng(seed)
    points = random.random((count, 2))
    return points, points[:, :1] + noise * random.normal(size=(count, 1))


@pytest.fixture
def spread():
    points, targets = rows()
    return Spread.of(
        points, points[:, :1], targets, None, inputs=[0, 1], loss="mse", presence=Presence.of(points, [0, 1])
    )


@pytest.fixture
def pool(spread):
    return Pool.start(FEATURES, Prior.flat(FEATURES.sizes), *rows()).with_voice("exact")


def same(one, other):
    """Whether two spreads say the same, to the bit."""
    points, _ = rows(50, seed=5)
    asked = [each.ends(points, points[:, :1], np.array([0.5, 0.9])) for each in (one, other)]
    support = [each.presence.support(points, None) for each in (one, other)]
    return (asked[0] == asked[1]).all() and (support[0] == support[1]).all()


def test_a_pool_scores_rows_before_it_learns_them(pool, spread):
    watched = replace(pool, spread=spread)
    wilder = watched.learned(1, *rows(200, seed=1, noise=3.0))
    assert isinstance(wilder.recent[0].seen, Seen)
    points, _ = rows(50, seed=5)
    widths = [
        np.ptp(each.whole_spread.ends(points, points[:, :1], np.array([0.9])), axis=-1).mean()
        for each in (watched, wilder)
    ]
    assert widths[1] > 1.5 * widths[0]
    assert same(wilder.without(1).whole_spread, spread)


def test_updates_that_are_no_longer_recent_stay_as_they_were(pool, spread):
    watched = replace(pool, spread=spread)
    for update in range(1, 8):
        grown = watched.learned(update, *rows(60, seed=update))
        assert same(grown.without(update).whole_spread, watched.whole_spread)
        watched = grown


def test_a_pool_that_was_not_watched_stays_so(pool):
    assert pool.learned(1, *rows(200)).whole_spread is None


def test_the_first_model_of_an_old_file_is_watched_from_the_next_update_on(pool):
    old = replace(pool, fitted=state_of(pool.model), experts=ExpertWeights.of(4), voice="mixture")
    assert old.learned(1, *rows(50)).whole_spread is None  # too few to tell
    grown = old.learned(1, *rows(200, seed=1))
    assert isinstance(grown.recent[0].seen, Spread)
    assert grown.whole_spread.presence is None
    later = grown.learned(2, *rows(200, seed=2))
    assert isinstance(later.recent[1].seen, Seen)
    assert later.without(1).whole_spread is None  # what began with an update ends with it


def test_rows_of_one_update_join(pool, spread):
    watched = replace(pool, spread=spread)
    points, targets = rows(200, seed=1)
    twice = watched.learned(1, points[:100], targets[:100]).learned(1, points[100:], targets[100:])
    (batch,) = twice.recent
    assert batch.seen.tallies[0].rows == 200


def test_inputs_are_told_by_how_fast_data_varies():
    features = Features(4, (0, 1), ((1, 2),), (Bumps(np.zeros((1, 4)), np.array([3.0, 0.1, 0.5, np.inf])),))
    assert telling_inputs(features) == [1, 2, 0]
