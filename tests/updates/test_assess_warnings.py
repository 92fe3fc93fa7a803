import re

import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor

RANDOM = np.random.default_rng(0)
X = RANDOM.random((2000, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * RANDOM.normal(size=2000)
CHEAP = {"members": 1, "terms": 0, "density": 0, "features": 80, "random_state": 0}


@pytest.mark.parametrize("retention", ["auto", "pool"])
def test_an_update_that_spoils_known_rows_is_told_and_others_are_not(retention):
    model = AtlasRegressor(retention=retention, **CHEAP).fit(X[:500], Y[:500])
    for part in np.array_split(np.arange(500, 1000), 5):
        assert model.partial_fit(X[part], Y[part]).update_log_[-1].warning == ""
    before = np.mean((model.predict(X[1500:]) - Y[1500:]) ** 2) ** 0.5
    model.partial_fit(X[1000:1200], 10 * Y[1000:1200], accept=True)
    after = np.mean((model.predict(X[1500:]) - Y[1500:]) ** 2) ** 0.5
    text = model.update_log_[-1].warning
    assert text.startswith("rows known before are predicted worse now, with ")
    told = float(text.removeprefix("rows known before are predicted worse now, with ").split()[0])
    assert told == pytest.approx(after / before, rel=0.1)


def test_a_second_update_that_spoils_known_rows_is_told_as_the_first_was():
    random = np.random.default_rng(1)
    points = random.random((4000, 3))
    targets = np.sin(5 * points[:, 0]) + points[:, 1] + 0.2 * random.normal(size=4000)
    model = AtlasRegressor(retention="pool", **CHEAP).fit(points[:1000], targets[:1000])
    for k, part in enumerate(np.array_split(np.arange(1000, 4000), 10)):
        model.partial_fit(points[part], targets[part] * (10 if k in (1, 8) else 1), accept=True)
    told = {entry.id - 1: entry.warning for entry in model.update_log_ if entry.warning}
    assert [*told] == [1, 8]
    assert told[8].startswith("the latest rows known before are predicted worse now, with ")


def test_large_factors_are_told_as_people_write_them():
    model = AtlasRegressor(retention="pool", **CHEAP).fit(X[:500], Y[:500])
    text = model.partial_fit(X[1000:1200], 1000 * Y[1000:1200], accept=True).update_log_[-1].warning
    assert re.search(r"with \d,\d{3} times the error", text), text


def test_errors_that_keep_growing_are_told():
    model = AtlasRegressor(retention="pool", **CHEAP).fit(X[:1000], Y[:1000])
    for k in range(5):
        part = slice(1000 + 20 * k, 1020 + 20 * k)
        model.partial_fit(X[part], Y[part] + 0.3 * k)
    texts = [entry.warning for entry in model.update_log_]
    assert texts[:4] == [""] * 4
    assert texts[4].startswith("the error before learning has grown with each of the last 5 updates, to ")


def test_classes_that_are_given_up_are_told():
    labels = (X[:, 0] > 0.5).astype(int)
    model = AtlasClassifier(retention="pool", **CHEAP).fit(X[:500], labels[:500])
    assert model.partial_fit(X[500:700], labels[500:700]).update_log_[-1].warning == ""
    model.partial_fit(X[700:], 1 - labels[700:], accept=True)
    assert "get another class than the one they had" in model.update_log_[-1].warning
