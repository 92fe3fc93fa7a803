"""Predictions for rows of a block are those of a model that was derived without them."""

import numpy as np
import pytest

from atlas_splines import AtlasRegressor
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.routing import as_doubles, blocks


def table(count, seed, begin=None, repeated=False):
    """Rows with a kink, sorted by their last column if it begins somewhere."""
    random = np.random.default_rng(seed)
    X = random.random((count, 3))
    if begin is not None:
        X[:, 2] = begin + 0.2 * np.sort(X[:, 2])
    if repeated:
        X[: count // 2] = X[0]
    return X, np.sin(8 * X[:, 0]) + 3 * np.abs(X[:, 1] - 0.5) + 0.05 * random.normal(size=count)


@pytest.mark.parametrize("begins", [(None, None), (0.0, 0.3)])
@pytest.mark.parametrize("options", [{}, {"max_rows": 350}])
@pytest.mark.parametrize("repeated", [False, True])
def test_blocks_are_predicted_as_by_a_model_without_them(begins, options, repeated):
    model = AtlasRegressor(retention="pool", features=40, random_state=0, **options)
    model.fit(*table(400, 0, begins[0]))
    new = table(60, 1, begins[1], repeated)
    model.partial_fit(*new)
    pool = state_of(model.model_).pooled
    points, targets, weights = as_doubles(model._rows(*model._checked(*new, None)))
    turns = blocks(len(points))
    rows = pool.features(points), points, targets, pool.counted(weights), turns
    found, expected = pool.base_cross_validated(*rows), np.empty_like(targets)
    for own in turns:
        expected[own] = pool.forgotten(points[own], targets[own], weights[own]).base_outputs(points[own])
    error, own_error = (
        np.sqrt(np.mean((each - targets) ** 2)) for each in (found, pool.base_outputs(points))
    )
    # the prior takes one more step there; with a budget older rows fill the places
    assert np.abs(found - expected).max() < (0.02 if not options else 0.1)
    assert error > own_error


def test_the_log_tells_out_of_sample_errors_of_updates_that_teach_nothing():
    """Targets of noise: whoever learned a row seems to know it."""
    random = np.random.default_rng(0)
    X, y = random.random((400, 2)), random.normal(size=400)
    y[:300] = np.sin(20 * X[:300, 0]) * np.sin(20 * X[:300, 1])
    model = AtlasRegressor(retention="pool", features=40, random_state=0).fit(X[:300], y[:300])
    model.partial_fit(X[300:], y[300:], accept=True, assess=True)
    done = model.update_log_[-1]
    assert done.held_out.score < 0.05
    assert done.error_after < 0.8 * done.held_out.error
