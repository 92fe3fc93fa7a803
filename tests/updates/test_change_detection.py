"""Change detection: the two p-values of the test, and estimators that open charts by it; see also test_incremental.py."""

import numpy as np
import pytest

from atlas_splines import AtlasRegressor, UpdateWarning
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.change_detection import (
    CHANGE_RULES,
    ChangeDetectionRules,
    coverage_of,
    coverage_p_value,
    gain_p_value,
)
from atlas_splines.updates.routing import memory_in


def squares(seed, size=1.0, rows=200):
    return size * np.random.default_rng(seed).normal(size=rows) ** 2


def test_the_stated_rate_of_false_alarms_is_kept_where_a_chart_gains_no_more_than_is_asked_for():
    rules, level = ChangeDetectionRules(), 0.05
    alarms = [gain_p_value(squares(k, rules.min_gain), squares(10_000 + k)) <= level for k in range(1000)]
    assert np.mean(alarms) < level + 3 * np.sqrt(level * (1 - level) / 1000)
    assert np.mean(alarms) > level / 4  # and is not far below, which would miss changes


@pytest.mark.parametrize(("gain", "finds"), [(1.0, False), (2.0, False), (20.0, True)])
def test_a_chart_lowers_the_error_by_more_than_the_factor(gain, finds):
    assert (gain_p_value(squares(1, gain, 2000), squares(2, rows=2000)) <= CHANGE_RULES.level) is finds


def test_a_few_wild_rows_decide_nothing():
    known = squares(1)
    known[:2] += 1e6
    assert gain_p_value(known, squares(2)) > 0.05


def test_rows_that_weigh_nothing_do_not_count():
    known, errors, weights = squares(1, 9.0), squares(2), np.tile([1e-12, 1.0], 100)
    assert gain_p_value(known, errors, weights) == pytest.approx(gain_p_value(known[1::2], errors[1::2]))


def test_errors_of_zero_are_no_numbers_that_are_not():
    assert gain_p_value(np.ones(100), np.zeros(100)) <= CHANGE_RULES.level
    assert gain_p_value(np.zeros(100), np.zeros(100)) == pytest.approx(1)


@pytest.mark.parametrize(("rows", "inputs"), [(50, 2), (200, 5)])
def test_the_share_in_the_box_of_a_random_sample_has_the_stated_distribution(rows, inputs):
    random = np.random.default_rng(0)
    known = random.random((4000, inputs))
    p_values = []
    for _ in range(400):
        sample = random.random((rows, inputs))
        inside = ((known >= sample.min(axis=0)) & (known <= sample.max(axis=0))).all(axis=1)
        p_values.append(coverage_p_value(inside.mean(), rows, inputs))
    assert np.quantile(p_values, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.07)


def test_fewer_rows_than_faces_of_a_box_are_nowhere():
    assert coverage_p_value(0.0, 9, 5) == 1


def rows(count, seed, low=0.0, width=1.0, target=lambda X: np.sin(6 * X[:, 0]) + X[:, 1] ** 2):
    random = np.random.default_rng(seed)
    X = low + width * random.random((count, 2))
    return X, target(X) + 0.1 * random.normal(size=count)


@pytest.mark.parametrize("memory", ["rows", "sums"])
def test_known_rows_are_counted_in_a_box(memory):
    model = AtlasRegressor(memory=memory, features=100, random_state=0).fit(*rows(800, 0))
    pool = memory_in(state_of(model.model_))
    share = coverage_of(pool, np.array([[0.2, 0.7], [0.2, 0.7]]))
    assert share == pytest.approx(0.25, abs=0.04 if memory == "rows" else 0.12)


@pytest.mark.parametrize("memory", ["rows", "sums"])
def test_streams_without_change_and_boxes_of_the_same_world_open_no_chart(memory):
    model = AtlasRegressor(memory=memory, features=100, random_state=0).fit(*rows(600, 0))
    for seed in range(1, 13):
        low, width = (0.0, 1.0) if seed % 2 else (0.3, 0.3)
        model.partial_fit(*rows(100, seed, low, width))
    assert not model.model_.charts


@pytest.mark.parametrize("memory", ["rows", "sums"])
def test_a_change_of_everything_is_drift_and_one_in_a_box_a_chart(memory):
    model = AtlasRegressor(memory=memory, features=100, random_state=0).fit(*rows(600, 0))
    other = {"target": lambda X: 9 - 5 * X[:, 1]}
    assert not model.partial_fit(*rows(200, 1, **other), accept=True).model_.charts
    model = AtlasRegressor(memory=memory, features=100, random_state=0).fit(*rows(600, 0))
    with pytest.warns(UpdateWarning, match="the rows contradict what was known in their place"):
        model.partial_fit(*rows(200, 1, 0.3, 0.4, **other), accept=True)
    assert len(model.model_.charts) == 1


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
