"""Rows in order of time: what is told is told of later rows."""

import numpy as np
import pandas as pd
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save


def drifting(rows, seed=0):
    """A random walk that inputs explain a part of, and the past only as long as it lasts."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 2))
    return X, X[:, 0] + np.cumsum(random.normal(size=rows)) / 10


def with_time(X):
    return np.column_stack([X, np.arange(len(X))])


@pytest.mark.parametrize("rows", [800, 3000])
def test_in_order_of_time_the_error_is_that_of_later_rows(rows):
    told, true = [], []
    for seed in range(4):
        X, y = drifting(rows + 300, seed)
        X = with_time(X)
        model = AtlasRegressor(random_state=0, members=1).fit(X[:rows], y[:rows])
        assert model.fit_record_.later
        assert "on later rows" in str(model.fit_record_)
        told.append(model.fit_record_.error)
        true.append(np.sqrt(np.mean((model.predict(X[rows:]) - y[rows:]) ** 2)))
    assert 0.5 < np.mean(told) / np.mean(true) < 2
    shuffled = np.random.default_rng(0).permutation(rows)
    random_rows = AtlasRegressor(random_state=0, members=1).fit(X[shuffled], y[shuffled]).fit_record_
    assert not random_rows.later
    assert random_rows.error < 0.7 * np.mean(told)


def test_classes_in_order_of_time():
    X, y = drifting(1500)
    model = AtlasClassifier(random_state=0).fit(X, np.where(y > np.median(y), "high", "low"))
    assert model.fit_record_.later
    assert model.fit_record_.held_out == 300


def test_rows_that_are_sorted_by_a_date_are_in_order_of_time():
    X, _ = drifting(500)
    X = pd.DataFrame({"a": X[:, 0], "day": pd.date_range("2024-01-01", periods=500)})
    assert AtlasRegressor(random_state=0, members=1).fit(X, X["a"]).fit_record_.later
    shuffled = X.sample(500, random_state=0)
    assert not AtlasRegressor(random_state=0, members=1).fit(shuffled, shuffled["a"]).fit_record_.later


def test_files_know_it(tmp_path):
    X, y = drifting(600)
    model = AtlasRegressor(random_state=0, members=1).fit(with_time(X), y)
    save(model, tmp_path / "m.atlas")
    assert load(tmp_path / "m.atlas").fit_record_ == model.fit_record_


def test_what_is_held_out_is_held_out_of_everything():
    """Targets of the judged rows change nothing of what predicted them."""
    X, y = drifting(600)
    X = pd.DataFrame(with_time(X), columns=["a", "b", "time"])
    X["shop"] = [f"shop {k % 40}" for k in range(600)]
    one = AtlasRegressor(random_state=0, members=1, validation="last").fit(X, y)
    shifted = np.where(np.arange(600) >= 600 - one.fit_record_.held_out, y + 1000, y)
    other = AtlasRegressor(random_state=0, members=1, validation="last").fit(X, shifted)
    errors = one.fit_record_.error, other.fit_record_.error
    assert errors[1] == pytest.approx(1000, abs=30)
    assert errors[0] < 30


def test_coverage_of_updates_is_told_as_it_was():
    """The share that `inspect` tells is that of rows before they were learned."""
    from atlas_splines.model.atlas import state_of
    from atlas_splines.updates.intervals import coverage_before_learning

    X, y = drifting(2600)
    X = with_time(X)
    model = AtlasRegressor(random_state=0, members=1, retention="pool").fit(X[:600], y[:600])
    inside = []
    for begin in range(600, 2600, 200):
        rows = slice(begin, begin + 200)
        low, high = model.predict_interval(X[rows], 0.9)
        inside.append(np.mean((y[rows] >= low) & (y[rows] <= high)))
        model.partial_fit(X[rows], y[rows])
    [held] = coverage_before_learning(state_of(model.model_), 0.9, of_updates=True)
    assert held.rows == 2000
    assert held.share == pytest.approx(np.mean(inside), abs=0.002)
