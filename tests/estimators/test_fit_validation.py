"""How well a fit predicts rows that it was not trained on."""

from dataclasses import replace
from datetime import datetime, timezone

import numpy as np
import pytest
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import train_test_split

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor
from atlas_splines.estimators import base
from atlas_splines.estimators.fit import assess, assess_average
from atlas_splines.model.rows import Rows

QUICK = {"density": 1, "terms": 0, "max_iter": 5, "features": 0, "random_state": 0}


def rows_of(targets, weights=None):
    targets = np.asarray(targets, np.float32).reshape(len(targets), -1)
    ones = np.ones(len(targets), np.float32)
    return Rows(np.zeros((len(targets), 1), np.float32), targets, ones if weights is None else weights)


def constant(value):
    model = Atlas(1, terms=0, density=0)
    model.f(0)[:, 0] = value
    return model


def table(rows=300, seed=0):
    random = np.random.default_rng(seed)
    X = random.random((rows, 2))
    return X, 100 * (np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * random.normal(size=rows))


def test_numbers_are_compared_with_the_mean_of_all_rows():
    random = np.random.default_rng(0)
    targets, predicted, weights = random.normal(size=(50, 2)), random.normal(size=(50, 2)), random.random(50)
    every = rows_of(targets - np.average(targets, axis=0, weights=weights), weights.astype(np.float32))
    found = assess(predicted, every, every, "mse")
    score = r2_score(every.targets, predicted, sample_weight=every.weights)
    assert found.score == pytest.approx(score, rel=1e-5)
    assert found.error == pytest.approx(
        np.average(((predicted - every.targets) ** 2).mean(axis=1), weights=every.weights), rel=1e-6
    )
    assert assess(np.full((3, 1), 2.0), rows_of([1, 2, 3]), rows_of([1, 2, 3]), "mse").score == 0
    assert assess(np.zeros((3, 1)), rows_of([0, 0, 0]), rows_of([0, 0, 0]), "mse").score == 0


def test_classes_are_compared_with_their_frequencies():
    labels = np.eye(2)[[0, 0, 0, 1]]
    found = assess(
        np.log([[0.9, 0.1], [0.6, 0.4], [0.4, 0.6], [0.2, 0.8]]),
        rows_of(labels),
        rows_of(labels),
        "cross-entropy",
    )
    assert found.score == 0.75
    assert found.baseline == pytest.approx(log_loss([0, 0, 0, 1], [[0.75, 0.25]] * 4))
    assert found.error == pytest.approx(-np.log([0.9, 0.6, 0.4, 0.8]).mean())
    absent = rows_of(np.eye(3)[[0, 0, 1, 1]])
    assert np.isfinite(assess(np.zeros((4, 3)), absent, absent, "cross-entropy").baseline)


def test_the_average_is_judged_by_rows_that_no_member_has_seen():
    out_of_fold_rows = np.array([[True, True, False, False], [True, False, True, False]])
    found = assess_average([constant(1.0), constant(3.0)], out_of_fold_rows, rows_of([2, 9, 9, 9]), "mse")
    assert (found.rows, found.cross_validated) == (1, False)
    assert found.error == pytest.approx(0, abs=1e-9)


def test_without_such_rows_each_is_predicted_by_those_that_have_not_seen_it():
    out_of_fold_rows = np.array([[True, False, False], [False, True, False]])
    found = assess_average([constant(1.0), constant(3.0)], out_of_fold_rows, rows_of([2, 5, 9]), "mse")
    assert (found.rows, found.cross_validated) == (2, True)
    assert found.error == pytest.approx((1 + 4) / 2, rel=1e-6)
    assert assess_average([constant(1.0)], np.zeros((1, 3), bool), rows_of([2, 5, 9]), "mse") is None


@pytest.mark.parametrize(
    ("options", "way", "held_out"),
    [
        ({"members": 1}, "Held-out", 30),
        ({"members": 2}, "Cross-validated", 60),
        ({"members": 2, "validation": "last"}, "Held-out", 30),
        ({"members": 2, "loss": "absolute_error"}, "Cross-validated", 60),
    ],
)
def test_a_record_says_how_it_was_judged(options, way, held_out):
    X, y = table()
    record = AtlasRegressor(**QUICK, **options).fit(X, y).fit_record_
    assert (record.rows, record.held_out) == (300, held_out)
    assert record.date == datetime.now(timezone.utc).date()
    measure = "MAE" if "loss" in options else "RMSE"
    assert str(record) == (
        f"{way} {measure} {record.error:.4g} (R² {record.score:.4g}; the mean alone {record.baseline:.4g})"
    )
    if measure == "RMSE":
        assert record.score == pytest.approx(1 - (record.error / record.baseline) ** 2, rel=1e-5)


def test_the_error_of_the_whole_model_is_that_of_new_rows():
    X, y = table(1500)
    known, new, y_known, y_new = train_test_split(X, y, test_size=900, random_state=0)
    model = AtlasRegressor(features=60, random_state=0).fit(known, y_known)
    error = np.sqrt(np.mean((model.predict(new) - y_new) ** 2))
    assert model.fit_record_.error == pytest.approx(error, rel=0.15)
    assert model.fit_record_.baseline == pytest.approx(np.std(y_new), rel=0.15)
    assert model.fit_record_.score == pytest.approx(model.score(new, y_new), abs=0.02)


def test_classes_have_a_share_of_right_ones():
    X, y = table(600)
    classes = np.digitize(y, [60, 130])
    model = AtlasClassifier(features=40, random_state=0).fit(X[:300], classes[:300])
    record = model.fit_record_
    assert record.score == pytest.approx(model.score(X[300:], classes[300:]), abs=0.08)
    assert record.error == pytest.approx(log_loss(classes[300:], model.predict_proba(X[300:])), abs=0.15)
    assert str(record) == (
        f"Cross-validated log loss {record.error:.4g} "
        f"({record.score:.2%} right; class frequencies alone {record.baseline:.4g})"
    )


def test_what_is_not_known_is_not_said():
    X, y = table(30)
    few = AtlasRegressor(**QUICK, members=1).fit(X, y)
    assert str(few.fit_record_) == "Held-out error unknown, for no rows were held out"
    assert np.isnan([few.fit_record_.error, few.fit_record_.baseline, few.fit_record_.score]).all()
    X, y = table(100)
    again = AtlasRegressor(**QUICK, members=1, warm_start=True).fit(X, y).fit(X, y)
    assert (again.fit_record_.rows, again.fit_record_.held_out) == (100, 0)


def test_more_rows_of_a_fit_are_counted():
    X, y = table(150)
    model = AtlasRegressor(members=1, terms=0, density=0, features=20, random_state=0).fit(X[:100], y[:100])
    before = model.fit_record_
    after = model.fit_more(X[100:], y[100:]).fit_record_
    assert (before.rows, after.rows) == (100, 150)
    assert after.error == before.error


@pytest.mark.parametrize(("rows", "assessed"), [(900, 900), (1200, 480), (1600, 320)])
def test_of_more_rows_some_folds_are_judged(rows, assessed):
    X, y = table(rows)
    record = AtlasRegressor(features=40, random_state=0).fit(X, y).fit_record_
    assert (record.held_out, record.cross_validated) == (assessed, True)


def test_in_order_of_time_the_newest_rows_are_enough(monkeypatch):
    learned = []
    said_without = AtlasRegressor._predicted_without

    def spy(self, data, held_out, rows, *rest):
        learned.append((rows, np.flatnonzero(held_out)))
        return said_without(self, data, held_out, rows, *rest)

    monkeypatch.setattr(AtlasRegressor, "_predicted_without", spy)
    monkeypatch.setattr(base, "ASSESSMENT_RULES", replace(base.ASSESSMENT_RULES, newest_rows=100))
    X, y = table(300)
    AtlasRegressor(features=40, random_state=0, validation="last").fit(X, y)
    ((rows, later),) = learned
    assert (len(rows), rows[-1] + 1, later[-1] + 1) == (100, later[0], 300)
