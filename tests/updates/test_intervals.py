from dataclasses import replace

import numpy as np
import pytest

from atlas_splines import AtlasRegressor
from atlas_splines.memory.error_model import ErrorModel
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.updates.intervals import error_model_of, interval_ends, support_of


@pytest.fixture(scope="module")
def state():
    """A model, and a chart that was trained on a box of it."""
    random = np.random.default_rng(0)
    X = random.random((400, 2))
    model = AtlasRegressor(
        members=1, features=40, domain=[(0, 1), (0, 1)], retention="chart", max_iter=3, random_state=0
    ).fit(X, X[:, 0] + 0.1 * random.normal(size=400))
    box = 0.4 + 0.2 * random.random((200, 2))
    return state_of(model.partial_fit(box, 9 + random.normal(size=200)).model_)


def test_a_chart_that_was_trained_knows_its_errors(state):
    (chart,) = state.charts
    assert isinstance(error_model_of(state_of(chart.content)), ErrorModel)
    points = np.array([[0.5, 0.5], [0.1, 0.1]], np.float32)
    inside, outside = np.ptp(interval_ends(state, points, np.zeros((2, 1)), np.array([0.9])), axis=-1)
    assert inside > 3 * outside


def test_charts_are_blended_by_their_window(state):
    (chart,) = state.charts
    across = np.column_stack([np.linspace(0, 1, 400), np.full(400, 0.5)]).astype(np.float32)
    membership = chart.window.membership(across)
    widths, bare = (
        np.ptp(interval_ends(each, across, np.zeros((400, 1)), np.array([0.9])), axis=-1)[:, 0, 0]
        for each in (state, state.with_charts(()))
    )
    assert (widths == bare)[membership == 0].all()
    assert (widths != bare)[membership > 0].all()


def test_a_chart_of_which_nothing_is_known_changes_nothing(state):
    (chart,) = state.charts
    mute = replace(chart, content=model_in(replace(state_of(chart.content), pooled=None)))
    points = np.random.default_rng(0).random((50, 2)).astype(np.float32)
    silent, bare = state.with_charts([mute]), state.with_charts(())
    assert (support_of(silent, points) == support_of(bare, points)).all()


def test_support_needs_counts_from_the_first_row_on(state):
    pool = state.pooled
    blind = replace(state, pooled=replace(pool, error_model=replace(pool.error_model, data_density=None)))
    with pytest.raises(
        ValueError, match="fitted by a version that did not count the density of rows: fit it again"
    ):
        support_of(blind, np.zeros((1, 2), np.float32))
