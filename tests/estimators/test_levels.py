"""Columns with many categories: places of levels, told numbers, levels that nobody has seen."""

import copy

import numpy as np
import pandas as pd
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.model.atlas import state_of


def shops(rows, levels, random):
    names = np.array([f"shop {k}" for k in range(levels)])
    return pd.DataFrame({"shop": names[random.integers(levels, size=rows)], "x": random.normal(size=rows)})


def effects_of(X, levels, random):
    return dict(zip([f"shop {k}" for k in range(levels)], random.normal(size=levels), strict=True))


def test_levels_of_noise_tell_nothing():
    random = np.random.default_rng(0)
    X, y = shops(5000, 800, random), random.normal(size=5000)
    model = AtlasRegressor(missing="learn", random_state=0).fit(X[:3000], y[:3000])
    true = model.score(X[3000:], y[3000:])
    assert model.fit_record_.score == pytest.approx(true, abs=0.03)
    assert true > -0.03
    low, high = model.predict_interval(X[3000:], 0.9)
    assert 0.87 < ((y[3000:] >= low) & (y[3000:] <= high)).mean() < 0.93


def test_effects_and_products_with_them_are_learned():
    random = np.random.default_rng(0)
    X = shops(6000, 200, random)
    effect = X["shop"].map(effects_of(X, 200, random)).to_numpy()
    y = effect * (1 + X["x"]) + 0.3 * random.normal(size=6000)
    model = AtlasRegressor(missing="learn", random_state=0).fit(X[:4000], y[:4000])
    true = model.score(X[4000:], y[4000:])
    assert true > 0.8
    assert model.fit_record_.score == pytest.approx(true, abs=0.03)


def test_five_thousand_levels():
    random = np.random.default_rng(0)
    X = shops(24_000, 5000, random)
    effect = X["shop"].map(effects_of(X, 5000, random)).to_numpy()
    y = effect + 0.5 * random.normal(size=24_000)
    model = AtlasRegressor(missing="learn", random_state=0).fit(X[:20_000], y[:20_000])
    best = 1 - (0.25 + 1 / (1 + 4 / 0.25)) / 1.25  # four rows a level: what remains of an effect is shrunk
    assert model.score(X[20_000:], y[20_000:]) > best - 0.05


def test_classes_differ_by_level():
    random = np.random.default_rng(0)
    X = shops(4000, 100, random)
    score = X["shop"].map(effects_of(X, 100, random)).to_numpy()
    y = np.where(2 * score + random.logistic(size=4000) > 0, "yes", "no")
    model = AtlasClassifier(missing="learn", random_state=0).fit(X[:3000], y[:3000])
    at = (y[3000:] == "yes").astype(int)
    told, true = model.fit_record_.error, -np.log(model.predict_proba(X[3000:])[np.arange(1000), at]).mean()
    assert true < 0.55  # frequencies alone 0.69
    assert told == pytest.approx(true, abs=0.04)


def test_a_level_that_nobody_has_seen_is_like_the_population():
    random = np.random.default_rng(0)
    X = shops(2000, 40, random)
    y = X["shop"].map(effects_of(X, 40, random)).to_numpy() + X["x"] + 5
    model = AtlasRegressor(missing="learn", random_state=0).fit(X, y)
    new = model.predict(X[:500].assign(shop="another"))
    assert np.mean(new - (5 + X["x"][:500])) == pytest.approx(y.mean() - 5 - X["x"].mean(), abs=0.3)


def test_places_are_kept_in_files(tmp_path):
    random = np.random.default_rng(0)
    X = shops(500, 40, random)
    y = X["shop"].map(effects_of(X, 40, random)).to_numpy()
    model = AtlasRegressor(missing="learn", random_state=0).fit(X, y)
    save(model, tmp_path / "m.atlas")
    again = load(tmp_path / "m.atlas")
    more = pd.concat([X, X[:5].assign(shop="another"), X[:5].assign(shop=None)])
    assert (again.predict(more) == model.predict(more)).all()


def test_footprints_name_levels():
    random = np.random.default_rng(0)
    X = shops(2000, 30, random)
    effects = effects_of(X, 30, random)
    y = X["shop"].map(effects).to_numpy() + 0.1 * random.normal(size=2000)
    model = AtlasRegressor(missing="learn", retention="chart", random_state=0).fit(X, y)
    lowest = sorted(effects, key=effects.get)[0]
    line = str(model.footprint(X[X["shop"] == lowest])).splitlines()[1]
    assert line.split(maxsplit=1)[0] == "shop"
    assert lowest in line
    assert sorted(effects, key=effects.get)[-1] not in line.split(", ")


def test_a_column_of_one_category_meets_another(tmp_path):
    random = np.random.default_rng(0)
    X = shops(300, 1, random)
    model = AtlasRegressor(missing="learn", random_state=0, retention="pool").fit(X, X["x"])
    save(model, tmp_path / "m.atlas")
    new = X.assign(shop="another")
    model.partial_fit(new, X["x"] + 7)
    assert np.mean(model.predict(new) - X["x"]) == pytest.approx(7, abs=1)
    assert np.mean(model.predict(X) - X["x"]) == pytest.approx(0, abs=1)


@pytest.mark.parametrize("levels", [2, 4, 40])
def test_a_new_level_learns_with_the_next_update(levels):
    """Whether categories have inputs of their own, or share one."""
    random = np.random.default_rng(0)
    X = shops(1200, levels, random)
    y = X["shop"].map(effects_of(X, levels, random)).to_numpy() + X["x"] + 0.2 * random.normal(size=1200)
    model = AtlasRegressor(missing="learn", random_state=0, retention="pool").fit(X[:1000], y[:1000])
    new = X[1000:].assign(shop=np.where(np.arange(200) % 2, "new", X["shop"][1000:]))
    known = (new["shop"] != "new").to_numpy()
    before = model.predict(new)
    model.partial_fit(new, np.where(known, y[1000:], 5 + X["x"][1000:]))
    after = model.predict(new)
    assert np.mean(after[~known] - X["x"][1000:][~known]) == pytest.approx(5, abs=0.4)
    assert np.mean(abs(before[~known] - X["x"][1000:][~known])) < 2  # it was like the population
    assert np.sqrt(np.mean((after - y[1000:])[known] ** 2)) < 0.6
    if (
        levels > 20
    ):  # fewer have inputs of their own, which are 0 for every new one: they share what these learn
        other = model.predict(new.assign(shop="yet another"))
        assert abs(np.mean(other - X["x"][1000:])) < 1
    model.revert(1)
    assert (model.predict(new) == before).all()


def test_levels_are_forgotten_with_their_rows():
    random = np.random.default_rng(0)
    X = shops(900, 40, random)
    y = X["shop"].map(effects_of(X, 40, random)).to_numpy() + 0.2 * random.normal(size=900)
    model = AtlasRegressor(missing="learn", random_state=0, retention="pool").fit(X[:600], y[:600])
    model.partial_fit(X[600:700], y[600:700])
    sums, new = state_of(model.model_).pooled.total, X[700:].assign(shop="new")
    model.partial_fit(new, y[700:] + 9)
    assert np.mean(model.predict(new)) > 6
    model.forget(new, y[700:] + 9)
    assert state_of(model.model_).pooled.total == sums
    assert np.mean(model.predict(new)) < 2


def test_updates_with_levels_come_in_any_order():
    random = np.random.default_rng(0)
    X = shops(1000, 40, random)
    y = X["shop"].map(effects_of(X, 40, random)).to_numpy() + 0.2 * random.normal(size=1000)
    fitted = AtlasRegressor(missing="learn", random_state=0, retention="pool").fit(X[:600], y[:600])
    parts = [(X[600:800], y[600:800]), (X[800:], y[800:])]
    models = []
    for order in (parts, parts[::-1]):
        model = copy.deepcopy(fitted)
        for part in order:
            model.partial_fit(*part)
        models.append(model)
    one, other = (state_of(model.model_).pooled for model in models)
    assert one.total == other.total


@pytest.mark.parametrize("levels", [4, 40])
def test_a_new_level_alone_opens_no_chart_among_the_others(levels):
    random = np.random.default_rng(0)
    X = shops(1000, levels, random)
    y = X["shop"].map(effects_of(X, levels, random)).to_numpy() + X["x"] + 0.2 * random.normal(size=1000)
    model = AtlasRegressor(missing="learn", random_state=0).fit(X, y)
    before = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    new = X[:100].assign(shop="new")
    model.partial_fit(new, X["x"][:100] + 5)
    assert model.update_log_[0].kind == "pool"
    # of few categories the first model, which has a share in the mixture, says what it said
    assert np.mean(model.predict(new) - X["x"][:100]) > (3.5 if levels > 20 else 2.5)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 2 * before
