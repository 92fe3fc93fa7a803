"""The estimators, in scikit-learn's habits and beyond them."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.estimators.base import AtlasEstimator

# scikit-learn expects the same of its own estimators that hold rows out or draw them at random, such as
# HistGradientBoostingRegressor and BaggingClassifier
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "a weight of two is not a row twice: rows are held out, and batches drawn, by row",
}


@parametrize_with_checks([AtlasRegressor(), AtlasClassifier()], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_what_targets_mean_is_for_subclasses_to_say():
    with pytest.raises(TypeError, match="abstract"):
        AtlasEstimator()


QUICK = {"members": 2, "terms": 4, "max_iter": 30, "random_state": 0}


def plane(rows=400, seed=0):
    """Two columns of very different scale, and a product of them."""
    random = np.random.default_rng(seed)
    X = np.stack([random.uniform(-3e-3, 5e-3, rows), random.uniform(1e5, 3e5, rows)], axis=1)
    return X, 1e3 * X[:, 0] * X[:, 1] / 1e5 + 50


@pytest.fixture(scope="module")
def fitted():
    return AtlasRegressor(**QUICK).fit(*plane())


@pytest.fixture
def model(fitted):
    return pickle.loads(pickle.dumps(fitted))


# --- inputs of any kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["data", "quantiles", [(-0.01, 0.01), (0, 4e5)]])
def test_columns_of_any_scale(domain):
    X, y = plane()
    assert AtlasRegressor(**QUICK, domain=domain).fit(X, y).score(*plane(seed=1)) > 0.98


def test_the_unit_of_the_target_does_not_matter(fitted):
    X, y = plane()
    other = AtlasRegressor(**QUICK).fit(X, 1e6 * y - 3e6).predict(X)
    np.testing.assert_allclose((other + 3e6) / 1e6, fitted.predict(X), rtol=1e-3, atol=1e-2)


def test_targets_too_large_to_compute_with_are_refused(model):
    X, y = plane()
    with pytest.raises(
        ValueError, match="the squares of y are more than a float can hold; correct or rescale"
    ):
        AtlasRegressor(**QUICK).fit(X, np.where(y > 60, 1e300, y))
    before = model.predict(X)
    with pytest.raises(ValueError, match=r"y has 1e\+30, too far from the targets of fit, which are 5"):
        model.partial_fit(X, np.where(y > 60, 1e30, y))
    assert (model.predict(X) == before).all()


def test_a_constant_target_is_predicted():
    X, _ = plane(50)
    np.testing.assert_allclose(AtlasRegressor(**QUICK).fit(X, np.full(50, 1e9)).predict(X), 1e9)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_their_names(frame):
    X, y = plane()
    table = frame({"low": X[:, 0], "high": X[:, 1], "fixed": np.ones(len(X)), "whole": np.arange(len(X))})
    model = AtlasRegressor(**QUICK).fit(table, y)
    assert model.feature_names_in_.tolist() == ["low", "high", "fixed", "whole"]
    assert model.score(table, y) > 0.98
    assert "high   9.1" in repr(model.footprint(table[:100]))
    assert model.footprint(table[:100]).intervals("high") == model.footprint(table[:100]).intervals(1)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(
            table.rename({"low": "lower"})
            if frame is pl.DataFrame
            else table.rename(columns={"low": "lower"})
        )


def test_missing_values_are_refused_or_learned():
    X, y = plane(1000)
    X[::5, 0] = np.nan
    y[::5] = 77
    says = r'^X contains NaN, in row 0 of column 0; fill it in, or fit with missing="learn"$'
    with pytest.raises(ValueError, match=says):
        AtlasRegressor(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match=says):
        AtlasRegressor(members=1, max_iter=1, density=0, terms=0).fit(X[1:5], y[1:5]).predict(X)
    model = AtlasRegressor(**QUICK, missing="learn").fit(X, y)
    assert model.model_.inputs == 3
    np.testing.assert_allclose(model.predict([[np.nan, 2e5]]), [77], atol=2)
    assert model.score(X, y) > 0.95
    known = model.predict(X[1::5])
    model.partial_fit(X[::5][:100], np.full(100, -50.0))  # rows with a missing value only
    np.testing.assert_allclose(model.predict([[np.nan, 2e5]]), [-50], atol=5)
    assert (model.predict(X[1::5]) == known).all()


def test_extrapolation():
    X = np.linspace(0, 1, 300)[:, None]
    models = {
        how: AtlasRegressor(**QUICK, extrapolation=how, domain=[(0, 1)]).fit(X, 3 * X[:, 0])
        for how in ("constant", "linear", "error")
    }
    np.testing.assert_allclose(models["constant"].predict([[1.0], [2.0]]), [3, 3], atol=0.1)
    np.testing.assert_allclose(models["linear"].predict([[-1.0], [1.0], [2.0]]), [-3, 3, 6], atol=0.6)
    with pytest.raises(
        ValueError, match=r"row 1 of X lies outside the domain, which is 0 to 1 in column 0; use "
    ):
        models["error"].predict([[0.5], [1.5]])


def test_several_targets():
    X, y = plane()
    Y = np.stack([y, -1000 * y], axis=1)
    model = AtlasRegressor(**QUICK).fit(X, Y)
    assert model.predict(X).shape == (400, 2)
    assert model.score(X, Y) > 0.98
    with pytest.raises(ValueError, match="y has 1 columns but the model has 2 targets"):
        model.partial_fit(X, y)


def test_works_in_pipelines_and_searches():
    X, y = plane(200)
    search = GridSearchCV(AtlasRegressor(**QUICK), {"density": [0, 1]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9
    assert cross_val_score(make_pipeline(StandardScaler(), AtlasRegressor(**QUICK)), X, y, cv=2).min() > 0.9


# --- fitting ----------------------------------------------------------------------------------------------


def test_sizes_are_kept_to():
    X, y = plane(100)
    model = AtlasRegressor(members=3, terms=2, density=2, max_iter=2, random_state=0).fit(X, y)
    assert (model.model_.density, model.model_.terms) == (2, 6)


def test_every_pass_is_run_and_counted_without_early_stopping():
    X, y = plane(100)
    model = AtlasRegressor(
        members=2, terms=1, density=1, max_iter=3, early_stopping=False, random_state=0
    ).fit(X, y)
    assert model.n_iter_ == 2 * 2 * 3 * 3  # members, densities, learning rates, passes
    assert [len(losses) for losses in model.validation_loss_] == [18, 18]


def test_same_seed_same_bits_whatever_the_threads(fitted):
    X, y = plane()
    assert (AtlasRegressor(**QUICK, n_jobs=2).fit(X, y).predict(X) == fitted.predict(X)).all()
    other = {**QUICK, "random_state": 1}
    assert (AtlasRegressor(**other).fit(X, y).predict(X) != fitted.predict(X)).any()


def test_rows_without_weight_do_not_count():
    X, y = plane()
    wrong = np.where(np.arange(400) % 2, y, 1e4)
    model = AtlasRegressor(**QUICK).fit(X, wrong, sample_weight=np.arange(400) % 2)
    assert model.score(X, y) > 0.98
    with pytest.raises(ValueError, match="Sample weights must contain at least one non-zero number"):
        model.fit(X, y, sample_weight=np.zeros(400))


def test_warm_start_goes_on():
    X, y = plane()
    model = AtlasRegressor(members=1, terms=4, density=1, max_iter=2, warm_start=True, random_state=0).fit(
        X, y
    )
    first, domain = model.score(X, y), model.domain_
    for _ in range(10):
        model.fit(X, y)
    assert model.score(X, y) > first
    assert model.domain_ is domain


def test_fit_more_learns_the_rest():
    X, y = plane(20_000, seed=3)
    noisy = y + np.random.default_rng(0).normal(0, 5, len(y))
    model = AtlasRegressor(**QUICK).fit(X[:200], noisy[:200])
    before = np.abs(model.predict(X) - y).mean()
    for part in range(0, len(X), 5000):
        model.fit_more(X[part : part + 5000], noisy[part : part + 5000])
    assert np.abs(model.predict(X) - y).mean() < 0.8 * before
    assert model.update_log_ == []


def test_verbose_tells_each_stage(capsys):
    AtlasRegressor(**{**QUICK, "max_iter": 2}, density=0, verbose=1).fit(*plane(100))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("density 0, 4 terms: 6 epochs, loss on held-out rows ")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"density": -1}, "density must be at least 0, not -1"),
        ({"terms": 1.5}, "terms must be a whole number, not 1.5"),
        ({"members": 0}, "members must be at least 1, not 0"),
        ({"domain": "unit"}, "domain must be one of data, quantiles, not 'unit'"),
        (
            {"extrapolation": "continue"},
            "extrapolation must be one of constant, linear, error, not 'continue'",
        ),
        ({"missing": "drop"}, "missing must be one of error, learn, not 'drop'"),
        ({"memory": "all"}, "memory must be one of chart, rehearsal, both, none, not 'all'"),
        (
            {"loss": "log_loss"},
            "loss must be one of auto, squared_error, absolute_error, huber, not 'log_loss'",
        ),
        ({"learning_rate": 0}, "learning_rate must be a finite number"),
        ({"validation_fraction": 0.7}, r"validation_fraction must be in \(0, 0.5\], not 0.7"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be at least 1, not 0"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AtlasRegressor(**parameters).fit(*plane(30))


# --- memory -----------------------------------------------------------------------------------------------


def corner(rows=300, seed=5):
    random = np.random.default_rng(seed)
    return np.stack([random.uniform(1e-3, 2e-3, rows), random.uniform(1.5e5, 2e5, rows)], axis=1)


def test_partial_fit_changes_its_footprint_and_nothing_else(model):
    X, _ = plane(3000, seed=7)
    before = model.predict(X)
    area = model.footprint(corner())
    model.partial_fit(corner(), np.full(300, -20.0))
    after, inside = model.predict(X), area.contains(X)
    assert 0.01 < area.volume < 0.2
    assert (after[~inside] == before[~inside]).all()
    assert (after[inside] != before[inside]).any()
    np.testing.assert_allclose(model.predict(corner(seed=6)), -20, atol=2)
    [(low, high)] = area.intervals(0)
    assert 0.8e-3 < low < 1.05e-3
    assert 1.95e-3 < high < 2.2e-3
    [update] = model.update_log_
    assert (update.kind, update.rows) == ("chart", 300)
    assert (model.in_columns(update.footprint).contains(X) == inside).all()
    assert (model.revert(update.id).predict(X) == before).all()


def test_the_domain_grows_and_nothing_inside_it_changes(model):
    X, y = plane(3000, seed=7)
    before = model.predict(X)
    beyond = corner() + np.array([20e-3, 10e5])
    area, far = model.footprint(beyond), np.random.default_rng(0).uniform([-0.01, 0], [0.03, 2e6], (500, 2))
    far_before = model.predict(far)
    assert not area.contains(X).any()
    model.partial_fit(beyond, np.full(300, 500.0))
    assert (model.predict(X) == before).all()
    changed = model.predict(far) != far_before
    assert changed.any()
    assert area.contains(far)[changed].all()
    np.testing.assert_allclose(model.predict(beyond), 500, atol=5)
    assert model.score(X, y) > 0.98
    [update] = model.update_log_
    logged = model.in_columns(update.footprint)
    assert (logged.contains(far) == area.contains(far)).all()
    assert not logged.contains(X).any()
    assert (model.revert(1).predict(X) == before).all()
    model.partial_fit(corner(), np.full(300, -20.0))
    later = model.update_log_[1].footprint
    assert not model.in_columns(later).contains(far[logged.contains(far)]).any()


def test_between_old_and_new_data_predictions_are_those_of_the_nearest_known_point():
    random = np.random.default_rng(0)
    X = random.random((400, 2))
    model = AtlasRegressor(random_state=0, members=1).fit(X, np.exp(3 * X[:, 0]) * X[:, 1])
    low, high = model.predict(X).min(), model.predict(X).max()
    model.partial_fit(np.array([4.0, 0.0]) + 0.2 * random.random((100, 2)), np.zeros(100))
    gap = np.array([1.4, 0.0]) + np.array([2.4, 1.0]) * random.random((1000, 2))
    spread = high - low
    assert low - 0.3 * spread < model.predict(gap).min()
    assert model.predict(gap).max() < high + 0.3 * spread
    edge = gap.copy()
    edge[:, 0] = 1.04
    np.testing.assert_allclose(model.predict(gap), model.predict(edge), atol=0.1 * spread)


def test_a_failed_fit_leaves_the_estimator_as_it_was(model):
    X, y = plane()
    before = model.predict(X)
    with pytest.raises(ArithmeticError):
        model.set_params(learning_rate=1e30, warm_start=False).fit(X[:, :1], 1000 + y)
    assert (model.predict(X) == before).all()
    fresh = AtlasRegressor(domain="unit")
    with pytest.raises(ValueError, match="domain must be one of"):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_rows_outside_the_given_domain_are_refused():
    X, y = plane()
    with pytest.raises(ValueError, match=r"in column 1, outside its domain \(100000.0, 200000.0\); widen it"):
        AtlasRegressor(**QUICK, domain=[(-1, 1), (1e5, 2e5)]).fit(X, y)


def test_footprints_name_what_is_wrong(model):
    area = model.footprint(corner())
    with pytest.raises(ValueError, match=r"X has shape \(1, 3\); expected \(rows, 2\)"):
        area.contains([[1, 2, 3]])
    with pytest.raises(ValueError, match="there is no column 'x'; there are column 0, column 1"):
        area.intervals("x")


def test_a_failed_update_leaves_everything_as_it_was(model, monkeypatch):
    X, _ = plane()
    before, domain = model.predict(X), model.model_.domain.copy()

    def fail(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("atlas_splines.memory.updates.learn_chart", fail)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(corner() * 10, np.zeros(300))
    assert (model.predict(X) == before).all()
    assert (model.model_.domain == domain).all()
    assert model.update_log_ == []


@pytest.mark.parametrize("memory", ["rehearsal", "both", "none"])
def test_other_kinds_of_memory(model, memory):
    model.set_params(memory=memory).partial_fit(corner(), np.full(300, -20.0))
    np.testing.assert_allclose(model.predict(corner(seed=6)), -20, atol=4)
    assert model.update_log_[0].kind == memory


def test_consolidation_folds_charts_in(model):
    model.partial_fit(corner(), np.full(300, -20.0))
    X, _ = plane(seed=9)
    before = model.predict(X)
    done = model.consolidate(X, tolerance=0.2, samples=2000, epochs=20)
    assert done.replaced
    assert model.model_.charts == ()
    assert np.abs(model.predict(X) - before).mean() < 0.2 * model.target_scale_[0]


def test_linear_extrapolation_is_in_the_footprint_too(model):
    model.set_params(extrapolation="linear")
    X, _ = plane(seed=9)
    edge = X[X[:, 0] > 4e-3]
    outside = np.stack([np.linspace(5e-3, 9e-3, 300), np.linspace(0.5e5, 4e5, 300)], axis=1)
    area, before = model.footprint(edge), model.predict(outside)
    model.partial_fit(edge, np.full(len(edge), -20.0))
    changed = model.predict(outside) != before
    assert changed.any()
    assert not (changed & ~area.contains(outside)).any()


# --- classes ----------------------------------------------------------------------------------------------


def rings(rows=600, seed=0):
    X = np.random.default_rng(seed).normal(size=(rows, 2))
    return X, np.array(["in", "mid", "out"])[np.digitize(np.hypot(*X.T), [0.8, 1.5])]


def test_classes_and_probabilities():
    X, y = rings()
    model = AtlasClassifier(**QUICK).fit(X, y)
    assert model.classes_.tolist() == ["in", "mid", "out"]
    assert model.score(*rings(seed=1)) > 0.9
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)
    assert (model.classes_[model.decision_function(X).argmax(axis=1)] == model.predict(X)).all()


def test_announced_classes_may_come_later():
    X, y = rings()
    known = y != "out"
    model = AtlasClassifier(**QUICK).partial_fit(X[known], y[known], classes=["in", "mid", "out"])
    assert set(model.predict(X)) == {"in", "mid"}
    far = X[(y == "out") & (X[:, 0] > 1.6)]
    model.partial_fit(far, ["out"] * len(far))
    assert (model.predict(far) == "out").mean() > 0.95
    assert model.score(X[known], y[known]) > 0.9


def test_classes_are_checked():
    X, y = rings(100)
    with pytest.raises(ValueError, match=r"y has one class only, 'in'; a classifier needs two or more"):
        AtlasClassifier(**QUICK).fit(X, ["in"] * 100)
    model = AtlasClassifier(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"y has the class 'far', which was not announced; give all classes"):
        model.partial_fit(X, ["far"] * 100)
    with pytest.raises(
        ValueError, match=r"classes is \['in', 'far'\], but the first call said \['in', 'mid', 'out'\]"
    ):
        model.partial_fit(X, y, classes=["in", "far"])
