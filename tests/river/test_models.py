"""Tested against river itself: its checks of models, its pipelines, its evaluation."""

import copy
import pickle
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from river import checks, compose, evaluate, metrics, preprocessing

from atlas_splines import AtlasClassifier, AtlasRegressor, UpdateRefused
from atlas_splines.model.atlas import state_of
from atlas_splines.river import RiverAtlasClassifier, RiverAtlasRegressor
from atlas_splines.river.online import STREAM_RULES, SimpleModels
from atlas_splines.updates.routing import needed_pool

QUICK = {"density": 0, "terms": 0, "members": 1, "features": 10, "missing": "learn", "random_state": 0}
SHORT = {"batch": 40, "warm_up": 80}


def regressor(**options):
    return RiverAtlasRegressor(AtlasRegressor(**QUICK), **{**SHORT, **options})


def classifier(**options):
    return RiverAtlasClassifier(AtlasClassifier(**QUICK), **{**SHORT, **options})


def shop(rows=200, seed=0):
    """Rows with numbers, texts, dates and missing keys, and sales."""
    random = np.random.default_rng(seed)
    for k in range(rows):
        x = {"size": random.uniform(0, 10), "kind": str(random.choice(["small", "large", "other"]))}
        y = 3 * x["size"] + 20 * (x["kind"] == "large")
        x["when"] = datetime(2024, 1, 1) + timedelta(hours=k)
        if k % 11 == 5:
            del x["size" if k % 2 else "kind"]
        yield x, y


@pytest.mark.slow
@pytest.mark.parametrize("maker", [regressor, classifier])
def test_it_passes_the_checks_of_river(maker):
    done = set()
    for check in checks.yield_checks(maker()):
        if check.__name__ not in done:  # of several tables one is enough
            check(maker())
            done.add(check.__name__)
    assert len(done) > 25


@pytest.mark.parametrize("maker", [regressor, classifier])
def test_the_order_of_keys_does_not_matter(maker):
    one, other = maker(), maker()
    for x, y in shop(90):
        one.learn_one(x, y > 20)
        other.learn_one(dict(reversed(x.items())), y > 20)
    assert one.predict_one(x) == other.predict_one(dict(reversed(x.items())))


def test_a_pipeline_of_numbers_in_an_evaluation_of_river():
    random = np.random.default_rng(0)
    rows = [({"a": 50 * a, 7: b}, 3 * a + b) for a, b in random.random((300, 2)).tolist()]
    model = compose.Pipeline(preprocessing.StandardScaler(), regressor())
    score = evaluate.progressive_val_score(rows, model, metrics.MAE())
    assert score.get() < 0.25  # the mean alone has 0.78
    assert model.predict_one({"a": 25.0, 7: 0.5}) == pytest.approx(2, abs=0.1)


def test_texts_are_categories_and_keys_may_be_missing():
    model, errors = regressor(batch=50, warm_up=100), []
    for x, y in shop(300):
        before = model.predict_one(x)
        errors.append(abs(y - before))
        model.learn_one(x, y)
    fitted = model._model
    assert fitted.column_names == ("kind", "size", "when")
    assert fitted.encoding_.columns[0].categories == ("large", "other", "small")
    assert fitted.update_log_[-1].rows == 50
    assert np.mean(errors[100:]) < np.mean(errors[:50]) / 3
    with_news = model.predict_one({"kind": "huge", "size": 5.0, "never seen": 1})
    assert with_news == pytest.approx(model.predict_one({"size": 5.0}))  # as if it were missing


def test_it_predicts_from_the_second_row_on():
    model = regressor()
    assert model.predict_one({"a": 1}) == 0.0
    model.learn_one({"a": 1}, 4)
    assert model.predict_one({"a": 1}) == 4.0
    model.learn_one({"a": 2}, 6)
    assert 4 < model.predict_one({"a": 1}) < 5 < model.predict_one({"a": 2}) < 6
    frame = pd.DataFrame({"a": [1, 2]})
    assert model.predict_many(frame).tolist() == [model.predict_one({"a": a}) for a in (1, 2)]
    labels = classifier()
    assert labels.predict_one({"a": 1}) is None
    assert labels.predict_proba_one({"a": 1}) == {}
    for a, label in ((1, "x"), (1, "x"), (2, "y"), (1, "x"), (2, "y"), (1, "x")):
        labels.learn_one({"a": a}, label)
    assert labels.predict_one({"a": 1}) == "x"
    assert labels.predict_one({"a": 2}) == "y"
    assert sum(labels.predict_proba_one({"a": 3}).values()) == pytest.approx(1)


def test_rows_are_kept_in_the_warm_up_only():
    model = regressor(batch=20, warm_up=90)
    kept, fits = [], []
    for x, y in shop(140):
        model.learn_one(x, y)
        kept.append(None if model._kept is None else len(model._kept) + len(model._waiting))
        fits.append(0 if model._model is None else model._model.fit_record_.rows)
    assert kept[19::20] == [20, 40, 60, 80, None, None, None]
    assert fits[18::20] == [0, 20, 40, 40, 90, 90, 90]
    assert [k + 1 for k in range(1, 140) if fits[k] != fits[k - 1]] == [20, 40, 80, 90]
    assert [entry.rows for entry in model._model.update_log_] == [20, 20]


@pytest.mark.parametrize("memory", ["rows", "sums"])
def test_an_estimator_may_keep_rows(memory):
    options = {"memory": memory, "missing": "learn", "random_state": 0}
    model = RiverAtlasRegressor(AtlasRegressor(**options), **SHORT)
    rows = list(shop(200))
    for x, y in rows:
        model.learn_one(x, y)
    held = needed_pool(state_of(model._model.model_)).memory
    assert (None if held is None else len(held.rows)) == (200 if memory == "rows" else None)
    assert np.mean([abs(model.predict_one(x) - y) for x, y in rows[-40:]]) < 5  # the mean alone has 10
    assert RiverAtlasRegressor()._new_estimator().memory == "sums"


def test_new_classes_come_at_any_time():
    model = classifier()
    random = np.random.default_rng(0)
    for a in random.random(120).tolist():
        model.learn_one({"a": a}, "low")
    assert model._model is None  # one class is not enough for a fit
    assert model.predict_one({"a": 0.5}) == "low"
    assert len(model._kept) == 80  # and rows do not pile up
    for a in random.random(120).tolist():
        model.learn_one({"a": a + 1}, "high")
    assert model.predict_one({"a": 1.5}) == "high"
    for a in random.random(79).tolist():
        model.learn_one({"a": a + 2}, "higher")
    assert set(model.predict_proba_one({"a": 2.5})) == {"low", "high", "higher"}
    assert model.predict_one({"a": 2.5}) == "higher"
    model.learn_one({"a": 3.5}, "highest")
    assert "highest" in model.predict_proba_one({"a": 3.5})


def test_frames_and_pickles():
    rows = list(shop(100))
    frame, sales = pd.DataFrame([x for x, _ in rows]), pd.Series([y for _, y in rows])
    one, many = regressor(), regressor()
    for x, y in rows:
        one.learn_one(x, y)
    many.learn_many(frame, sales)
    twin = pickle.loads(pickle.dumps(many))
    predicted = many.predict_many(frame)
    assert predicted.index.equals(frame.index)
    assert predicted.tolist() == [one.predict_one(x) for x, _ in rows] == twin.predict_many(frame).tolist()
    assert one.clone()._model is None


def test_what_is_wrong_is_said():
    model = regressor()
    for k in range(40):
        model.learn_one({"a": k}, k)
    with pytest.raises(ValueError, match="'a' is 'many', and was a number so far; correct it"):
        model.predict_one({"a": "many"})
    with pytest.raises(ValueError, match="batch must be at least 1, not 0"):
        RiverAtlasRegressor(batch=0)


def test_a_wrong_target_or_value_leaves_the_model_as_it_was():
    model = regressor()
    for k in range(40):
        model.learn_one({"a": k}, k)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="y is nan; give a finite number, or leave the row out"):
        model.learn_one({"a": 1}, float("nan"))
    with pytest.raises(ValueError, match="'a' is 'many', and was a number so far; correct it"):
        model.learn_one({"a": "many"}, 1)
    assert pickle.dumps(model) == before


def waves(rows, seed=0, drift=0.0):
    """A smooth target with noise, and a level that drifts if it is asked for."""
    random = np.random.default_rng(seed)
    level = np.cumsum(drift * random.normal(size=rows))
    for k, (a, b) in enumerate(random.random((rows, 2)).tolist()):
        yield {"a": a, "b": b}, float(np.sin(6 * a) + b + 0.3 * random.normal() + level[k])


def errors_of(model, rows):
    """Prequential errors of a model, and of its estimator alone from its first fit on."""
    errors, alone = [], []
    for x, y in rows:
        estimate = model._estimate(x)
        errors.append(abs(model.predict_one(x) - y))
        alone.append(np.nan if estimate is None else abs(estimate - y))
        model.learn_one(x, y)
    return np.array(errors), np.array(alone)


def test_weights_guard_where_the_last_error_tells_nothing():
    errors, alone = errors_of(regressor(), list(waves(600)))
    assert np.all(np.isfinite(errors))
    assert errors[100:].mean() < 1.05 * alone[100:].mean()


def test_the_last_error_helps_where_the_level_drifts():
    errors, alone = errors_of(regressor(), list(waves(600, drift=0.5)))
    assert errors[100:].mean() < 0.8 * alone[100:].mean()


@pytest.mark.parametrize("maker", [regressor, classifier])
def test_copies_go_on_alike_and_apart(maker):
    rows = [(x, y > 20) for x, y in shop(70)]
    one = maker()
    for x, y in rows[:50]:
        one.learn_one(x, y)
    twin, still = copy.deepcopy(one), pickle.loads(pickle.dumps(one))
    predicted = still.predict_one(rows[0][0])
    for x, y in rows[50:]:
        assert one.predict_one(x) == twin.predict_one(x)
        one.learn_one(x, y)
        twin.learn_one(x, y)
    assert still.predict_one(rows[0][0]) == predicted


def test_new_keys_stay_finite_and_columns_are_bounded():
    models = SimpleModels()
    for k in range(400):
        x = {"id": f"row {k}", "size": None if k == 7 else k % 9} | ({"late": k % 4} if k > 15 else {})
        assert np.all(np.isfinite(models.predict(x, ["y"])))
        models = models.learned(x, {"y": k % 9})
    assert len(models.columns) == STREAM_RULES.most_columns


def test_a_fit_to_too_few_rows_waits_for_more():
    model = regressor(batch=100, warm_up=200)
    refused = False
    for k in range(200):
        model.learn_one({"kind": f"kind {k % 45}", "size": k % 7}, k % 7)
        refused |= model._model is None and k > 40  # so far each row has a category of its own
    assert refused
    assert model._model is not None


def numbers(rows, seed, factor=1.0):
    random = np.random.default_rng(seed)
    for a, b in random.random((rows, 2)):
        yield {"a": a, "b": b}, factor * (5 + np.sin(4 * a) + b + 0.05 * random.normal())


def test_a_batch_in_other_units_is_left_out_and_the_stream_goes_on():
    model, accepting = regressor(), regressor(accept=True)
    for x, y in numbers(120, 0):
        model.learn_one(x, y)
        accepting.learn_one(x, y)
    before = model.predict_one({"a": 0.5, "b": 0.5})
    *rows, (last, target) = numbers(40, 1, factor=10)
    for x, y in rows:
        model.learn_one(x, y)
        accepting.learn_one(x, y)
    with pytest.raises(UpdateRefused, match="targets are about 10 times those predicted"):
        model.learn_one(last, target)
    assert model.predict_one({"a": 0.5, "b": 0.5}) == before
    accepting.learn_one(last, target)
    assert accepting.predict_one({"a": 0.5, "b": 0.5}) != before
    for x, y in numbers(40, 2):
        model.learn_one(x, y)
    assert model.predict_one({"a": 0.5, "b": 0.5}) != before
