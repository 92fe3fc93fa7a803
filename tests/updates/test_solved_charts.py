"""Charts that are solved for from their own rows, and which later rows join."""

import copy

import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save, update
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.routing import memory_in
from atlas_splines.updates.update import NO_CHART

GRID = np.random.default_rng(99).random((1000, 2))


def world(X):
    return np.sin(6 * X[:, 0]) + X[:, 1] ** 2


def changed(X):
    return 3 - 2 * X[:, 0] + np.sin(9 * X[:, 1])


def rows(count, seed, low=0.0, width=1.0, target=world, noise=0.1):
    random = np.random.default_rng(seed)
    X = low + width * random.random((count, 2))
    return X, target(X) + noise * random.normal(size=count)


def classes(X):
    return np.digitize(world(X), [0.0, 0.8])


def fitted(**options):
    settings = {"features": 100, "retention": "chart", "random_state": 0}
    return AtlasRegressor(**{**settings, **options}).fit(*rows(600, 0))


@pytest.fixture(scope="module")
def model():
    return fitted()


def teach(model, X, y, **options):
    return copy.deepcopy(model).partial_fit(X, y, accept=True, **options)


@pytest.mark.parametrize("memory", ["rows", "sums"])
@pytest.mark.parametrize(
    "weights", [None, np.random.default_rng(0).uniform(0.5, 2, 300)], ids=["plain", "weighted"]
)
def test_a_chart_is_right_inside_and_changes_no_bit_outside(memory, weights):
    before = fitted(memory=memory)
    after = teach(before, *rows(300, 1, 0.3, 0.3, changed), sample_weight=weights)
    (chart,) = after.model_.charts
    assert chart.replaces
    assert memory_in(state_of(chart.content)) is not None
    inside = after.update_log_[-1].footprint.contains(GRID)
    assert np.array_equal(after.predict(GRID)[~inside], before.predict(GRID)[~inside])
    X = 0.3 + 0.3 * GRID
    assert np.abs(after.predict(X) - changed(X)).mean() < 0.05
    assert np.array_equal(after.revert(1).predict(GRID), before.predict(GRID))


def test_intervals_inside_are_those_of_the_chart(model):
    after = teach(model, *rows(600, 1, 0.3, 0.3, changed, noise=0.5))
    X, y = rows(2000, 2, 0.32, 0.26, changed, noise=0.5)
    low, high = after.predict_interval(X)
    assert ((low <= y) & (y <= high)).mean() == pytest.approx(0.9, abs=0.04)
    assert after.update_log_[-1].held_out is not None


def test_later_rows_join(model, path):
    after = teach(model, *rows(60, 1, 0.3, 0.3, changed))
    save(after, path)
    more = load(path).set_params(retention="auto").partial_fit(*rows(600, 2, 0.35, 0.2, changed))
    assert "600 rows joined a chart" in more.update_log_[-1].reason
    X = 0.35 + 0.2 * GRID
    errors = [np.abs(each.predict(X) - changed(X)).mean() for each in (after, more)]
    assert errors[1] < 0.7 * errors[0]
    assert np.array_equal(more.revert(2).predict(X), after.predict(X))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12])
def test_a_few_rows_are_believed_where_they_are_and_stay_finite(model, count):
    X, y = rows(count, 1, 0.4, 0.1, lambda X: np.full(len(X), 9.0))
    after = teach(model, X, y)
    assert len(after.model_.charts) == 1
    assert np.abs(after.predict(X) - 9).max() < 0.5
    assert (np.abs(after.predict(GRID) - 4.5) < 6).all()
    low, high = after.predict_interval(X)
    assert np.isfinite([low, high]).all()


def test_rows_of_the_same_world_open_none(model):
    after = teach(model, *rows(300, 1, 0.3, 0.3))
    assert after.update_log_[-1].reason == NO_CHART
    assert not after.model_.charts
    assert after.update_log_[-1].held_out is not None


def test_each_row_is_in_one_chart_and_is_forgotten_by_it():
    model, parts = fitted(), [rows(200, 1, 0.1, 0.2, changed), rows(200, 2, 0.7, 0.2, changed)]
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    model.partial_fit(X, y, accept=True)
    pools = [memory_in(state_of(chart.content)) for chart in model.model_.charts]
    assert len(pools) >= 2
    assert sum(pool.total.count for pool in pools) == 400
    model.forget(X[:50], y[:50])
    pools = [memory_in(state_of(chart.content)) for chart in model.model_.charts]
    assert sum(pool.total.count for pool in pools) == 350


def test_directions_are_kept(model):
    rising = AtlasRegressor(monotonic_cst=[0, 1], features=60, retention="chart", random_state=0)
    rising.fit(*rows(600, 0, target=lambda X: X[:, 1]))
    rising.partial_fit(*rows(300, 1, 0.2, 0.5, lambda X: 2 + 3 * X[:, 1] ** 3 + X[:, 0]), accept=True)
    assert rising.model_.charts
    line = np.column_stack([np.full(400, 0.45), np.linspace(0, 1, 400)])
    assert (np.diff(rising.predict(line)) >= -1e-6).all()


def test_several_outputs_of_which_one_does_not_vary():
    X, y = rows(600, 0)
    model = AtlasRegressor(features=80, retention="chart", random_state=0).fit(X, np.column_stack([y, -y]))
    box, target = rows(300, 1, 0.3, 0.3, changed)
    model.partial_fit(box, np.column_stack([target, np.full(300, 7.0)]), accept=True)
    inner = 0.32 + 0.26 * GRID
    assert np.abs(model.predict(inner) - np.column_stack([changed(inner), np.full(1000, 7)])).mean() < 0.1


@pytest.mark.parametrize("memory", ["rows", "sums"])
@pytest.mark.parametrize("count", [1, 30, 400])
def test_classes_are_solved_for_and_later_rows_join(memory, count, path):
    X = rows(600, 0)[0]
    model = AtlasClassifier(memory=memory, features=80, retention="chart", random_state=0).fit(X, classes(X))
    if memory == "sums" and count < 20:
        with pytest.raises(ValueError, match="a chart of 1 rows would reveal them"):
            model.partial_fit(np.full((1, 2), 0.5), [0], accept=True)
        return
    before = model.predict_proba(GRID)
    box = rows(count, 1, 0.3, 0.3)[0]
    swapped = (box[:, 0] > 0.45).astype(int)
    model.partial_fit(box, swapped, accept=True)
    assert len(model.model_.charts) == 1
    assert model.score(box, swapped) > 0.95
    inside = model.update_log_[-1].footprint.contains(GRID)
    assert np.array_equal(model.predict_proba(GRID)[~inside], before[~inside])
    save(model, path)
    model = load(path)
    now, more = model.predict_proba(GRID), rows(300, 2, 0.35, 0.2)[0]
    model.set_params(retention="pool").partial_fit(box, swapped, accept=True)
    assert f"{count} rows joined a chart" in model.update_log_[-1].reason
    assert np.isfinite(model.predict_proba(more)).all()
    assert np.array_equal(model.revert(2).predict_proba(GRID), now)


def test_an_older_chart_below_can_go_without_absurd_predictions(model):
    after = teach(model, *rows(300, 1, 0.2, 0.5, lambda X: np.full(len(X), 50.0)))
    after.partial_fit(*rows(300, 2, 0.3, 0.3, lambda X: np.full(len(X), -50.0)), accept=True)
    inner = 0.32 + 0.26 * GRID
    assert np.abs(after.revert(1).predict(inner) + 50).max() < 2


def test_cover_inside_reaches_no_further_than_the_rows(model):
    bare, X = copy.deepcopy(model).model_, 0.3 + 0.4 * GRID
    before = bare(GRID)
    done = update(bare, X, np.full(1000, 5.0), retention="chart", cover="inside", loss="mse", accept=True)
    outside = ~done.footprint.contains(GRID)
    assert done.footprint.volume < 1.1 * np.prod(np.ptp(X, axis=0))
    assert np.array_equal(bare(GRID)[outside], before[outside])
    assert done.error_after < 0.1 * done.error_before
