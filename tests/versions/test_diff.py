"""Which updates two models have, where they differ, and by how much."""

import copy

import numpy as np
import pandas as pd
import pytest
from frames import QUICK, homes_frame
from mutations import pooled_regressor, small_classifier, small_model, small_regressor, small_table_model

from atlas_splines import Atlas, AtlasRegressor, consolidate, train, update
from atlas_splines.updates.footprint import RestFootprint
from atlas_splines.versions import diff, merge

FEW = {"epochs": 3, "terms": 1, "density": 1, "random_state": 0}


@pytest.fixture
def pair():
    """A model, and the same with a chart more."""
    old = Atlas(inputs=2, density=1, terms=2)
    X = np.random.default_rng(0).random((200, 2))
    update(old, 0.6 + 0.3 * X, X[:, 0], **FEW)
    new = old.copy()
    update(new, 0.1 + 0.2 * X, 3 + X[:, 0], message="raised", **FEW)
    return old, new


def points(count=4000, seed=1):
    return np.random.default_rng(seed).random((count, 2))


def test_a_model_and_its_copy_are_the_same_function(pair):
    found = diff(pair[1], pair[1].copy())
    assert found.same
    assert not found
    assert (found.only_first, found.only_second, found.areas, found.rows) == ((), (), (), 0)


def test_predictions_differ_in_the_boxes_and_nowhere_else(pair):
    old, new = pair
    found = diff(old, new, rows=points())
    (area,) = found.areas
    differs = (old(points()) != new(points()))[:, 0]
    assert differs.any()
    assert not differs[~area.contains(points())].any()
    assert found.differing == differs.sum()
    gaps = np.abs(old(points()).astype(float) - new(points()))
    assert (found.mean, found.worst) == (gaps.mean(), gaps.max())
    assert [entry.message for entry in found.only_second] == ["raised"]
    assert found.only_first == ()
    assert diff(new, old).only_first[0].id == 2
    assert diff(new, old).worst == diff(old, new).worst > 0


def test_an_update_that_was_taken_back_is_told(pair):
    old, new = pair
    back = new.copy().revert(2)
    found = diff(old, back)
    assert found.same
    assert [entry.id for entry in found.only_second] == [2]
    assert [entry.id for entry in diff(new, back).only_first] == [2]


def test_training_can_change_everything_but_where_charts_speak_alone(pair):
    old, new = pair
    train(new, points(50), np.ones(50), epochs=1, random_state=0)
    (area,) = diff(old, new).areas
    assert isinstance(area, RestFootprint)
    replacing = [chart for chart in old.charts if chart.replaces]
    assert len(area.windows) == len(replacing)
    differs = (old(points()) != new(points()))[:, 0]
    assert not differs[~area.contains(points())].any()
    consolidate(new, tolerance=1e6, samples=100, epochs=1, random_state=0)
    assert diff(old, new).areas[0].volume == 1


def test_an_extension_of_the_domain():
    old = Atlas(inputs=1, density=3, terms=1)
    new = old.copy().extend([0.0], [1.5])
    assert len(diff(old, new).areas) == 1
    X = np.linspace(1.0, 1.4, 60)[:, None]
    update(new, X, np.ones(60), **FEW)
    (area,) = diff(old, new).areas
    assert area.intervals(0)[0][0] > 0.8


@pytest.mark.slow
def test_estimators_are_compared_in_the_units_of_their_columns():
    old = small_regressor()
    new = small_regressor()
    X = np.column_stack([np.linspace(20, 40, 40), np.full(40, 3.0)])
    table = pd.DataFrame(X, columns=["size", "age"])
    new.partial_fit(table, np.full(40, -500.0))
    found = diff(old, new, rows=table)
    low, high = found.areas[0].intervals("size")[0]
    assert low <= 20
    assert 40 <= high < 80
    assert found.worst == np.abs(old.predict(table) - new.predict(table)).max() > 1
    everywhere = pd.DataFrame({"size": np.linspace(-50, 200, 500), "age": np.linspace(-5, 12, 500)})
    differs = old.predict(everywhere) != new.predict(everywhere)
    inside = np.any([area.contains(everywhere) for area in found.areas], axis=0)
    assert not differs[~inside].any()


@pytest.mark.slow
def test_pooled_rows_change_everything_outside_charts():
    old, new = pooled_regressor(), pooled_regressor()
    X = np.random.default_rng(5).random((300, 2))
    new.partial_fit(X[:100], np.sin(5 * X[:100, 0]) + X[:100, 1])
    found = diff(old, new)
    differs = old.predict(X) != new.predict(X)
    inside = np.any([area.contains(X) for area in found.areas], axis=0)
    assert differs.any()
    assert not differs[~inside].any()


@pytest.mark.slow
def test_classes_differ_by_probabilities():
    old, new = small_classifier(), small_classifier()
    X = np.random.default_rng(3).normal(size=(50, 2))
    new.partial_fit(X, np.repeat("high", 50), accept=True)
    found = diff(old, new, rows=X)
    assert found.worst == np.abs(old.predict_proba(X) - new.predict_proba(X)).max()


def test_models_that_do_not_compare():
    with pytest.raises(ValueError, match="other columns, targets or dtypes; give two versions of one model"):
        diff(Atlas(inputs=1), Atlas(inputs=2))
    with pytest.raises(ValueError, match="one is another kind of model than the other"):
        diff(small_model(), small_table_model())


def test_versions_of_an_estimator_of_a_frame():
    frame, price = homes_frame(rows=60)
    start = AtlasRegressor(**QUICK, retention="pool").fit(frame, price)
    ours, theirs = (copy.deepcopy(start).partial_fit(frame[k : k + 20], price[k : k + 20]) for k in (0, 20))
    merged = merge(start, ours, theirs)
    both = copy.deepcopy(ours).partial_fit(frame[20:40], price[20:40])
    assert (merged.predict(frame) == both.predict(frame)).all()
    assert diff(merged, both).same
    assert not diff(ours, theirs, rows=frame).same


def test_why_predictions_differ():
    """Columns and updates each add up to the change of every row; the chart of an update is what moved it."""
    random = np.random.default_rng(0)
    X = random.random((260, 3))
    y = X[:, 0] + X[:, 1] ** 2
    old = AtlasRegressor(members=1, random_state=0, features=30).fit(X[:200], y[:200])
    new = copy.deepcopy(old).partial_fit(0.3 * X[200:], 4 + y[200:], accept=True)
    rows = np.vstack([0.3 * X[200:203], X[:3]])
    found = diff(old, new, rows=rows).why
    changes = new.predict(rows) - old.predict(rows)
    np.testing.assert_allclose(found.changes, changes, atol=1e-9)
    np.testing.assert_allclose(found.updates.predictions, changes, atol=1e-9)
    moved = found.updates.values[:3, found.updates.names.index("update 1")]
    assert (moved > 3).all()
    assert "update 1" in found.lines()[2]
    with pytest.raises(ValueError, match="only rows tell why predictions differ"):
        diff(old, new).why  # noqa: B018
