from dataclasses import replace

import numpy as np
import pytest

from atlas_splines.memory.data_density import DataDensity
from atlas_splines.memory.error_model import ErrorModel, Residuals, relevant_inputs
from atlas_splines.memory.expert_weights import ExpertWeights
from atlas_splines.memory.features import Features, RadialBasis
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.posterior import Prior
from atlas_splines.model.atlas import state_of

FEATURES = Features(2, (0, 1), (), ())


def rows(count=400, seed=0, noise=0.3):
    random = np.random.default_rng(seed)
    points = random.random((count, 2))
    return points, points[:, :1] + noise * random.normal(size=(count, 1))


@pytest.fixture
def error_model():
    points, targets = rows()
    return ErrorModel.of(
        points,
        points[:, :1],
        targets,
        None,
        inputs=[0, 1],
        loss="mse",
        data_density=DataDensity.of(points, [0, 1]),
    )


@pytest.fixture
def pool(error_model):
    return Pool.start(FEATURES, Prior.flat(FEATURES.sizes), *rows()).with_output_mode("cumulative")


def same(one, other):
    """Whether two spreads say the same, to the bit."""
    points, _ = rows(50, seed=5)
    asked = [each.ends(points, points[:, :1], np.array([0.5, 0.9])) for each in (one, other)]
    support = [each.data_density.support(points, None) for each in (one, other)]
    return (asked[0] == asked[1]).all() and (support[0] == support[1]).all()


def test_a_pool_scores_rows_before_it_learns_them(pool, error_model):
    watched = replace(pool, error_model=error_model)
    wilder = watched.learned(1, *rows(200, seed=1, noise=3.0))
    assert isinstance(wilder.recent[0].seen, Residuals)
    points, _ = rows(50, seed=5)
    widths = [
        np.ptp(each.combined_error_model.ends(points, points[:, :1], np.array([0.9])), axis=-1).mean()
        for each in (watched, wilder)
    ]
    assert widths[1] > 1.5 * widths[0]
    assert same(wilder.without(1).combined_error_model, error_model)


def test_updates_that_are_no_longer_recent_stay_as_they_were(pool, error_model):
    watched = replace(pool, error_model=error_model)
    for update in range(1, 8):
        grown = watched.learned(update, *rows(60, seed=update))
        assert same(grown.without(update).combined_error_model, watched.combined_error_model)
        watched = grown


def test_a_pool_that_was_not_watched_stays_so(pool):
    assert pool.learned(1, *rows(200)).combined_error_model is None


def test_the_first_model_of_an_old_file_is_watched_from_the_next_update_on(pool):
    old = replace(
        pool, initial=state_of(pool.model), expert_weights=ExpertWeights.of(4), output_mode="ensemble"
    )
    assert old.learned(1, *rows(50)).combined_error_model is None  # too few to tell
    grown = old.learned(1, *rows(200, seed=1))
    assert isinstance(grown.recent[0].seen, ErrorModel)
    assert grown.combined_error_model.data_density is None
    later = grown.learned(2, *rows(200, seed=2))
    assert isinstance(later.recent[1].seen, Residuals)
    assert later.without(1).combined_error_model is None  # what began with an update ends with it


def test_rows_of_one_update_join(pool, error_model):
    watched = replace(pool, error_model=error_model)
    points, targets = rows(200, seed=1)
    twice = watched.learned(1, points[:100], targets[:100]).learned(1, points[100:], targets[100:])
    (batch,) = twice.recent
    assert batch.seen.histograms[0].rows == 200


def test_inputs_are_told_by_how_fast_data_varies():
    features = Features(
        4, (0, 1), ((1, 2),), (RadialBasis(np.zeros((1, 4)), np.array([3.0, 0.1, 0.5, np.inf])),)
    )
    assert relevant_inputs(features) == [1, 2, 0]
