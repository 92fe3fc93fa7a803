"""Contradictions: when a chart is better than what is known, beyond doubt. Estimators that open charts: test_pooling.py."""

import numpy as np
import pytest

from atlas_splines import AtlasRegressor, UpdateWarning
from atlas_splines.core.rows import Rows
from atlas_splines.memory.contradictions import Known, in_new_land, is_convincing

TRUTH = np.random.default_rng(0).normal(size=(200, 1))


def convinces(said, known, beyond=0.0, enough=True, doubt=0.01):
    rows = Rows(np.linspace([0.3, 0.3], [0.7, 0.7], 200) + beyond, TRUTH, np.ones(200))
    errors = ((known - TRUTH) ** 2).mean(axis=1)
    return is_convincing(
        rows, Known(known, np.zeros((200, 1)), errors), said, np.full((200, 1), doubt), enough
    )


@pytest.mark.parametrize(
    ("off", "enough", "expected"),
    [
        (0.5, True, True),  # a quarter of the error of what is known
        (0.5, False, False),  # which few rows cannot tell from drift
        (0.05, False, True),  # unless it is obvious
        (0.9, True, False),  # not clearly better
        (1.1, True, False),  # worse
    ],
)
def test_a_chart_is_clearly_better_or_there_is_none(off, enough, expected):
    assert convinces(TRUTH + off, TRUTH - 1, enough=enough) is expected


def test_a_chart_that_says_the_same_within_doubt_is_none_unless_rows_lie_where_the_pool_cannot_learn():
    assert not convinces(TRUTH + 0.5, TRUTH - 1, doubt=4.0)
    assert convinces(TRUTH + 0.5, TRUTH - 1, beyond=1.0, doubt=4.0)


def test_a_chart_is_better_on_most_rows_and_not_by_a_few():
    known = TRUTH + 0.1
    known[:2] += 100  # two wild rows
    assert not convinces(TRUTH + 0.09, known)


def weeks(first, count, random):
    """Hours of some weeks, by the hour and the day, of a world that changes a little each week."""
    hours = np.arange(168 * first, 168 * (first + count))
    X = np.column_stack([hours % 24, hours / 24.0])
    return X, 100 + 40 * np.sin(hours % 24 / 4) + 3 * hours / 168 + 5 * random.normal(size=len(hours))


def test_a_chart_of_one_week_leaves_those_after_it_as_they_were():
    random = np.random.default_rng(0)
    model = AtlasRegressor(members=1, terms=0, density=0, features=60, random_state=0)
    model.fit(*weeks(0, 10, random)).partial_fit(*weeks(10, 1, random))
    X, y = weeks(11, 1, random)
    later = weeks(12, 2, random)[0]
    before = model.predict(later)
    with pytest.warns(UpdateWarning, match="the rows contradict what was known in their place"):
        model.partial_fit(X, 900 - 5 * y, accept=True)
    assert model.update_log_[-1].kind == "chart"
    assert model.model_.is_extended
    assert np.abs(model.predict(X) - (900 - 5 * y)).mean() < 40
    moved = np.abs(model.predict(later) - before)
    assert moved[3:].max() < 1  # of 5 times the noise: it fades out within hours


def test_a_week_of_a_trend_is_no_new_land():
    random = np.random.default_rng(0)
    X, y = weeks(11, 1, random)
    week = np.column_stack([X[:, 0] / 23, np.linspace(1.1, 1.2, 168)])
    land = np.column_stack([X[:, 0] / 23, np.linspace(1.1, 1.6, 168)])
    found = [in_new_land(Rows(points, y[:, None], np.ones(168))).mean() for points in (week, land)]
    assert found == [0, 1]
