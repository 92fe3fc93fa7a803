"""Domains that grow with new data, and are given back."""

import numpy as np
import pytest

from atlas_splines import AtlasRegressor, load, save
from atlas_splines.estimators.reaching import FarRowError
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.trained_charts import TrainedChartRules

X = np.random.default_rng(0).random((200, 2))
FEW = {
    "members": 1,
    "terms": 1,
    "density": 1,
    "max_iter": 3,
    "features": 30,
    "domain": "data",
    "random_state": 0,
}
RETENTIONS = ["auto", "pool", "chart", "rehearsal", "both", "none"]


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr("atlas_splines.updates.trained_charts.RULES", TrainedChartRules(epochs=2, batches=50))


def fitted(**options):
    return AtlasRegressor(**FEW | options).fit(X, X.sum(axis=1))


def with_outlier():
    rows = X[:60].copy()
    rows[7, 1] = 900
    return rows


@pytest.mark.parametrize("retention", ["chart", "rehearsal", "both", "none"])
def test_one_far_row_is_refused(retention):
    model = fitted(retention=retention)
    before = model.model_
    sentence = (
        r"row 7 of X has 900 in column 1, far outside its domain, .* to 1\.0.*; correct it or leave it out"
    )
    for learn in (model.footprint, lambda rows: model.partial_fit(rows, rows[:, 0])):
        with pytest.raises(FarRowError, match=sentence):
            learn(with_outlier())
    assert model.model_ is before
    assert model.update_log_ == []


@pytest.mark.parametrize("retention", ["auto", "pool"])
@pytest.mark.parametrize("shift", [0, 2])
def test_evidence_counts_a_far_row_where_the_domain_ends(retention, shift):
    model = fitted(retention=retention)
    rows = with_outlier() + shift
    size = model.partial_fit(rows, rows[:, 0] ** 2).model_.nbytes
    assert size < 100_000
    assert model.model_.domain.max() < 6


def test_the_domain_reaches_far_rows_if_that_is_asked_for():
    model = fitted(retention="chart")
    inside = model.predict(X)
    model.reach(with_outlier())
    np.testing.assert_array_equal(model.predict(X), inside)
    model.partial_fit(with_outlier(), X[:60, 0])
    assert model.in_domain([[0.5, 900.0]]).all()


def test_many_far_rows_are_news():
    model = fitted(retention="chart").partial_fit(X + np.array([0, 9]), X[:, 0])
    assert model.in_domain([[0.5, 9.5]]).all()
    with pytest.raises(FarRowError, match="row 0 of X has 9"):
        model.partial_fit(X + np.array([0, 900]), X[:, 0])


@pytest.mark.parametrize("retention", ["auto", "pool", "chart"])
@pytest.mark.parametrize("features", [0, 30])
@pytest.mark.parametrize("density", [1, 4])
def test_reverting_the_newest_update_gives_the_domain_back(retention, features, density, path):
    if not features and retention == "pool":
        return  # there is no evidence to pool
    model = fitted(retention=retention, features=features, density=density)
    model.partial_fit(X[:60] / 2, 3 + X[:60, 0])
    grid = 4 * X - 2
    state, predicted = state_of(model.model_), model.predict(grid)
    far = 2 + 0.5 * X[:100]
    model.partial_fit(far, 50 * far[:, 0])
    entry = model.update_log_[-1]
    assert entry.footprint.contains(far).all()
    for change in (lambda: model.revert(entry.id), lambda: save(model, path)):
        change()
        assert model.model_.domain.tolist() == state.lattice.domain.tolist()
        assert state_of(model.model_).table.shape == state.table.shape
        assert model.model_.fingerprint() == entry.before
        np.testing.assert_array_equal(model.predict(grid), predicted)
    np.testing.assert_array_equal(load(path).predict(grid), predicted)
    assert load(path).update_log_[-2].footprint.contains(far).all()
    assert load(path).update_log_[-1].kind == "revert"


def test_a_domain_goes_with_the_update_that_stretched_it_whatever_came_later():
    model, never = fitted(retention="chart"), fitted(retention="chart")
    model.partial_fit(2 + X[:60], X[:60, 0])
    for each in (model, never):
        each.partial_fit(X[:60] / 2, X[:60, 0])
    model.revert(1)
    assert model.model_.domain.tolist() == [[0, 1], [0, 1]]
    np.testing.assert_array_equal(model.predict(4 * X - 2), never.predict(4 * X - 2))


def test_the_domain_is_that_of_the_updates_that_stand():
    model = fitted(retention="chart", max_rows=1)
    model.partial_fit(2 + X[:60], X[:60, 0])
    model.partial_fit(X[:60] / 2, X[:60, 0])
    inside = model.predict(X)
    model.revert(1)
    assert model.model_.domain.tolist() == [[0, 1], [0, 1]]
    np.testing.assert_array_equal(model.predict(X), inside)


def test_a_domain_that_nothing_needs_does_not_grow():
    model = fitted(retention="chart")
    rows = 2 + X[:60]
    targets = model.predict(rows) + 0.01 * np.random.default_rng(0).normal(size=60)
    [entry] = model.partial_fit(rows, targets).update_log_
    assert "none was opened" in entry.reason
    assert model.model_.domain.max() == 1
    assert entry.before == entry.after == model.model_.fingerprint()
