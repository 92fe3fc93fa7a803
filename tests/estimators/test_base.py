"""What the estimators share, in scikit-learn's habits and beyond them."""

import copy
import pickle

import level_rows
import numpy as np
import pandas as pd
import polars as pl
import pytest
from planes import QUICK, corner, plane
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atlas_splines import AtlasRegressor, ColumnFootprint, Update
from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.model.atlas import state_of


def test_what_targets_mean_is_for_subclasses_to_say():
    with pytest.raises(TypeError, match="abstract"):
        AtlasEstimator()


@pytest.mark.parametrize("domain", ["data", "quantiles", [(-0.01, 0.01), (0, 4e5)]])
def test_columns_of_any_scale(domain):
    X, y = plane()
    assert AtlasRegressor(**QUICK, domain=domain).fit(X, y).score(*plane(seed=1)) > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_their_names(frame):
    X, y = plane()
    table = frame({"low": X[:, 0], "high": X[:, 1], "fixed": np.ones(len(X)), "whole": np.arange(len(X))})
    model = AtlasRegressor(**QUICK).fit(table, y)
    assert model.feature_names_in_.tolist() == ["low", "high", "fixed", "whole"]
    assert model.score(table, y) > 0.98
    assert "high   91030 to 309850" in repr(model.footprint(table[:100]))
    assert model.footprint(table[:100]).intervals("high") == model.footprint(table[:100]).intervals(1)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(
            table.rename({"low": "lower"})
            if frame is pl.DataFrame
            else table.rename(columns={"low": "lower"})
        )


@pytest.mark.slow
def test_missing_values_are_refused_or_learned():
    X, y = plane(1000)
    X[::5, 0] = np.nan
    y[::5] = 77
    says = r'^X contains NaN, in row 0 of column 0; fill it in, or fit with missing="learn"$'
    with pytest.raises(ValueError, match=says):
        AtlasRegressor(**QUICK, missing="error").fit(X, y)
    small = AtlasRegressor(members=1, max_iter=1, density=0, terms=0, features=0, missing="error")
    with pytest.raises(ValueError, match=says):
        small.fit(X[1:5], y[1:5]).predict(X)
    model = AtlasRegressor(**QUICK).fit(X, y)
    assert model.model_.inputs == 3
    np.testing.assert_allclose(model.predict([[np.nan, 2e5]]), [77], atol=2)
    assert model.score(X, y) > 0.95
    known = model.predict(X[1::5])
    model.partial_fit(X[::5][:100], np.full(100, -50.0))  # rows with a missing value only
    np.testing.assert_allclose(model.predict([[np.nan, 2e5]]), [-50], atol=5)
    assert (model.predict(X[1::5]) == known).all()


@pytest.mark.slow
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


@pytest.fixture(scope="module")
def followed():
    """Models of a wave with a trend along one column, before and after they have learned rows beyond it."""
    random = np.random.default_rng(0)
    X = np.column_stack([random.random(900), 100 + random.random(900)])
    y = 2 * X[:, 0] + 0.3 * np.sin(9 * X[:, 1]) + 0.1 * random.normal(size=900)
    model = AtlasRegressor(extrapolation="linear", retention="pool", random_state=0).fit(X, y)
    later = np.column_stack([1 + random.random(300), 100 + random.random(300)])
    updated = copy.deepcopy(model).partial_fit(later, np.full(300, 2.5), accept=True)
    return model, updated


def both_ways(model, X):
    predicted = [model.set_params(extrapolation=how).predict(X) for how in ("constant", "linear")]
    model.set_params(extrapolation="linear")
    return predicted


def test_a_slope_goes_on_for_a_width_of_the_domain(followed):
    distance = np.linspace(0, 50, 400)
    X = np.column_stack([1.05 + distance, np.full(400, 100.5)])
    constant, linear = both_ways(followed[0], X)
    rises = np.diff(linear - constant)
    assert (rises >= -1e-6).all()
    assert (np.abs(rises) < 0.6).all()  # without a jump
    assert linear[-1] - constant[-1] < 1.1 * np.ptp(followed[0].predict([[0.0, 100.5], [1.0, 100.5]]))
    np.testing.assert_allclose(followed[0].predict([[1.5, 100.5]]) - constant[0], 0.9, atol=0.3)
    assert (linear[distance > 2] == linear[-1]).all()


def test_a_trend_is_continued_better_than_by_a_constant(followed):
    X = np.column_stack([np.linspace(1.1, 1.6, 50), np.full(50, 100.5)])
    truth = 2 * X[:, 0] + 0.3 * np.sin(9 * X[:, 1])
    constant, linear = (np.abs(predicted - truth).mean() for predicted in both_ways(followed[0], X))
    assert linear < 0.3 * constant


def test_what_was_learned_beyond_the_domain_is_not_continued_once_more(followed):
    model, updated = followed
    beyond = np.column_stack([np.linspace(1.2, 2.5, 40), np.full(40, 100.5)])
    below = beyond - [2.7, 0]
    constant, linear = both_ways(updated, beyond)
    np.testing.assert_allclose(linear, constant, atol=0.3)  # with the slope of the fit it would be 2.6
    moved, still = (np.abs(np.subtract(*both_ways(each, below))) for each in (updated, model))
    assert (moved > 0.5 * still).all()  # no rows were learned there


def test_columns_that_turn_are_not_continued():
    X = np.random.default_rng(0).random((600, 1))
    model = AtlasRegressor(extrapolation="linear", random_state=0).fit(X, (X[:, 0] - 0.5) ** 2)
    constant, linear = both_ways(model, np.array([[-0.5], [1.5], [9.0]]))
    assert np.abs(linear - constant).max() < 0.05  # by a parabola it would be 70


@pytest.mark.slow
def test_works_in_pipelines_and_searches():
    X, y = plane(200)
    search = GridSearchCV(AtlasRegressor(**QUICK), {"density": [0, 1]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9
    assert cross_val_score(make_pipeline(StandardScaler(), AtlasRegressor(**QUICK)), X, y, cv=2).min() > 0.9


def test_sizes_are_kept_to():
    X, y = plane(100)
    model = AtlasRegressor(members=3, terms=2, density=2, max_iter=2, features=0, random_state=0).fit(X, y)
    assert (model.model_.density, model.model_.terms) == (2, 6)


def test_every_pass_is_run_and_counted_without_early_stopping():
    X, y = plane(100)
    model = AtlasRegressor(
        members=2, terms=1, density=1, max_iter=3, early_stopping=False, features=0, random_state=0
    ).fit(X, y)
    assert model.n_iter_ == 2 * 2 * 3 * 3  # members, densities, learning rates, passes
    assert [len(losses) for losses in model.validation_loss_] == [18, 18]


@pytest.mark.slow
def test_same_seed_same_bits_whatever_the_threads(fitted):
    X, y = plane()
    assert (AtlasRegressor(**QUICK, n_jobs=2).fit(X, y).predict(X) == fitted.predict(X)).all()
    other = {**QUICK, "random_state": 1}
    assert (AtlasRegressor(**other).fit(X, y).predict(X) != fitted.predict(X)).any()


@pytest.mark.parametrize("scale", [1e-12, 1e6])
@pytest.mark.parametrize("even", [True, False], ids=["even", "random"])
def test_the_unit_of_weights_does_not_matter(scale, even):
    X, y = plane(300)
    weights = np.ones(300) if even else np.random.default_rng(0).uniform(0.1, 2, 300)

    def told(unit):
        model = AtlasRegressor(random_state=0, retention="pool").fit(X[:200], y[:200], unit * weights[:200])
        record, ends = model.fit_record_, np.array(model.predict_interval(X))
        model.partial_fit(X[200:], y[200:] + 5, unit * weights[200:], assess=True)
        log = model.update_log_[-1]
        numbers = [record.error, record.baseline, record.score, log.error_before, log.error_after]
        held_out = log.held_out.error, log.held_out.baseline, log.held_out.score
        return [*numbers, *held_out, ends, np.array(model.predict_interval(X)), model.predict(X)]

    for one, other in zip(told(1.0), told(scale), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.002, atol=0.01)


@pytest.mark.parametrize("weight", [1e-12, 1e-6, 1e-3])
def test_an_error_does_not_vanish_with_the_weights_of_its_rows(weight):
    X, y = plane(300)
    model = AtlasRegressor(random_state=0, retention="pool").fit(X, y)
    model.partial_fit(X[:100], y[:100] + 50, np.full(100, weight), accept=True, assess=True)
    error = np.sqrt(np.mean((model.predict(X[:100]) - y[:100] - 50) ** 2))
    log = model.update_log_[-1]
    assert log.error_after == pytest.approx(error, rel=1e-3)
    assert log.held_out.error == pytest.approx(error, rel=1e-2)  # they count for nearly nothing


def test_rows_without_weight_do_not_count():
    X, y = plane()
    wrong = np.where(np.arange(400) % 2, y, 1e4)
    model = AtlasRegressor(**QUICK).fit(X, wrong, sample_weight=np.arange(400) % 2)
    assert model.score(X, y) > 0.98
    with pytest.raises(ValueError, match=r"at least one non-zero number|which is too small"):
        model.fit(X, y, sample_weight=np.zeros(400))
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(
            ValueError, match=r"sample_weight\[0\] is 3e\+38, .* give all weights in another unit"
        ):
            learn(X, y, sample_weight=np.full(400, 3e38))


def test_warm_start_goes_on():
    X, y = plane()
    model = AtlasRegressor(
        members=1, terms=4, density=1, max_iter=2, features=0, warm_start=True, random_state=0
    ).fit(X, y)
    first, domain = model.score(X, y), model.domain_
    for _ in range(10):
        model.fit(X, y)
    assert model.score(X, y) > first
    assert model.domain_ is domain


def test_fit_more_learns_the_rest():
    X, y = plane(20_000, seed=3)
    noisy = y + np.random.default_rng(0).normal(0, 5, len(y))
    model = AtlasRegressor(**{**QUICK, "features": 100}).fit(X[:200], noisy[:200])
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
        (
            {"retention": "all"},
            "retention must be one of auto, pool, chart, rehearsal, both, none, not 'all'",
        ),
        (
            {"loss": "log_loss"},
            "loss must be one of auto, squared_error, absolute_error, huber, quantile, poisson, not 'log_loss'",
        ),
        ({"learning_rate": 0}, "learning_rate must be a finite number"),
        ({"validation_fraction": 0.7}, r"validation_fraction must be in \(0, 0.5\], not 0.7"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be at least 1, not 0"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        AtlasRegressor(**parameters).fit(*plane(30))


@pytest.mark.slow
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
    assert (update.footprint.contains(X) == inside).all()
    assert (model.revert(update.id).predict(X) == before).all()


@pytest.mark.slow
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
    logged = update.footprint
    assert (logged.contains(far) == area.contains(far)).all()
    assert not logged.contains(X).any()
    assert (model.revert(1).predict(X) == before).all()
    model.partial_fit(corner(), np.full(300, -20.0))
    later = model.update_log_[-1].footprint
    assert not later.contains(far[logged.contains(far)]).any()


@pytest.mark.slow
def test_between_old_and_new_data_predictions_are_those_of_the_nearest_known_point():
    random = np.random.default_rng(0)
    X = random.random((400, 2))
    model = AtlasRegressor(random_state=0, members=1).fit(X, np.exp(3 * X[:, 0]) * X[:, 1])
    low, high = model.predict(X).min(), model.predict(X).max()
    model.partial_fit(np.array([4.0, 0.0]) + 0.2 * random.random((100, 2)), np.zeros(100))
    gap = np.array([1.4, 0.0]) + np.array([2.4, 1.0]) * random.random((1000, 2))
    error_model = high - low
    assert low - 0.3 * error_model < model.predict(gap).min()
    assert model.predict(gap).max() < high + 0.3 * error_model
    edge = gap.copy()
    edge[:, 0] = 1.04
    np.testing.assert_allclose(model.predict(gap), model.predict(edge), atol=0.1 * error_model)


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


def test_a_failed_update_leaves_everything_as_it_was(model, monkeypatch):
    X, _ = plane()
    before, domain = model.predict(X), model.model_.domain.copy()

    def fail(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("atlas_splines.updates.update.learn_chart", fail)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(corner() * 10, np.zeros(300))
    assert (model.predict(X) == before).all()
    assert (model.model_.domain == domain).all()
    assert model.update_log_ == []


@pytest.mark.slow
@pytest.mark.parametrize("retention", ["rehearsal", "both", "none"])
def test_other_kinds_of_retention(model, retention):
    model.set_params(retention=retention).partial_fit(corner(), np.full(300, -20.0))
    np.testing.assert_allclose(model.predict(corner(seed=6)), -20, atol=4)
    assert model.update_log_[0].kind == retention


@pytest.mark.slow
def test_consolidation_folds_charts_in(model):
    model.partial_fit(corner(), np.full(300, -20.0))
    X, _ = plane(seed=9)
    before = model.predict(X)
    done = model.consolidate(X, tolerance=0.2, samples=2000, epochs=20)
    assert done.replaced
    assert model.model_.charts == ()
    assert np.abs(model.predict(X) - before).mean() < 0.2 * model.target_scale_[0]


def test_columns_have_names(model):
    assert model.column_names == ("column 0", "column 1")
    X, y = plane(50)
    table = pd.DataFrame(X, columns=["low", "high"])
    assert AtlasRegressor(**{**QUICK, "max_iter": 1}).fit(table, y).column_names == ("low", "high")
    with pytest.raises(NotFittedError):
        AtlasRegressor().column_names  # noqa: B018


@pytest.mark.slow
def test_rows_outside_the_domain_are_told(model):
    X, _ = plane()
    outside = corner() + np.array([20e-3, 10e5])
    assert model.in_domain(X).all()
    assert not model.in_domain(outside).any()
    assert model.partial_fit(outside, np.zeros(300)).in_domain(outside).all()


@pytest.mark.slow
def test_the_log_is_in_units_of_columns_and_target(model):
    X, y = corner(), np.full(300, -20.0)
    before = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    [entry] = model.partial_fit(X, y).update_log_
    assert isinstance(entry, Update)
    assert entry.measure == "RMSE"
    assert entry.error_before == pytest.approx(before, rel=1e-3)
    assert entry.error_after == pytest.approx(np.sqrt(np.mean((model.predict(X) - y) ** 2)), rel=0.05)
    assert "300 rows, RMSE " in repr(entry)
    assert isinstance(entry.footprint, ColumnFootprint)
    assert entry.footprint.contains(X).all()
    [raw] = model.model_.updates
    assert raw.error_before == pytest.approx((before / model.target_scale_[0]) ** 2, rel=1e-3)
    done = model.consolidate(tolerance=1e9, samples=500, epochs=1)
    assert model.update_log_[1].error == pytest.approx(done.error * model.target_scale_[0])


@pytest.mark.parametrize(
    ("loss", "targets", "measure"),
    [
        ("absolute_error", 1, "MAE"),
        ("huber", 1, "Huber loss in standard deviations"),
        ("squared_error", 2, "RMSE in standard deviations"),
    ],
)
def test_the_log_names_its_measure(loss, targets, measure):
    X, y = plane(100)
    Y = np.stack([y] * targets, axis=1) if targets > 1 else y
    model = AtlasRegressor(
        members=1, terms=0, density=0, max_iter=2, features=30, loss=loss, random_state=0
    ).fit(X, Y)
    assert model.partial_fit(X[:20], Y[:20]).update_log_[0].measure == measure


@pytest.mark.slow
def test_options_of_one_update_leave_the_parameters_alone(model):
    X, y, weights = model._checked(corner(), np.full(300, -20.0), None)
    twin = pickle.loads(pickle.dumps(model))
    model._update(X, y, weights, retention="none", random_state=7)
    twin._update(X, y, weights, retention="none", random_state=8)
    assert model.update_log_[0].kind == "none"
    assert (model.retention, model.random_state) == ("chart", 0)
    assert (model.predict(X) != twin.predict(X)).any()


@pytest.mark.parametrize("retention", ["pool", "auto"])
def test_a_level_that_comes_with_an_update_is_learned_taken_back_and_forgotten(retention):
    model = level_rows.fitted(retention)
    before = model.model_.fingerprint()
    X, y = level_rows.known_rows(500, 9)
    error = np.abs(model.predict(X) - y).mean()
    model.partial_fit(*level_rows.new_rows(100, 1), assess=True)
    assert not model.model_.charts  # which would speak for levels beside it too
    assert level_rows.effect_of(model) == pytest.approx(level_rows.EFFECT, abs=0.2)
    assert np.abs(model.predict(X) - y).mean() < 1.1 * error
    new, targets = level_rows.new_rows(200, 3)
    low, high = model.predict_interval(new, 0.9)
    assert np.mean((low <= targets) & (targets <= high)) > 0.8
    assert model.update_log_[-1].held_out.error < 0.3  # of the root mean square, and 0.2 is noise
    model.revert(1)
    assert model.model_.fingerprint() == before
    model.partial_fit(*level_rows.known_rows(50, 4))
    exact = state_of(model.model_).pooled.total
    model.partial_fit(*level_rows.new_rows(100, 1)).forget(*level_rows.new_rows(100, 1))
    assert state_of(model.model_).pooled.total == exact
    assert abs(level_rows.effect_of(model)) < 0.6


def test_a_level_that_is_known_learns_what_has_changed_for_it():
    model = level_rows.fitted()
    X, y = level_rows.known_rows(600, 1)
    odd = X[:, 1] == np.float64(level_rows.PLACES[5])
    for part in np.array_split(np.arange(600), 3):
        model.partial_fit(X[part], np.where(odd, y + 2, y)[part])
    place = float(level_rows.PLACES[5])
    expected = level_rows.EFFECTS[5] + 2
    assert level_rows.effect_of(model, place) == pytest.approx(expected, abs=0.5)
    beside = float(level_rows.PLACES[6])
    assert level_rows.effect_of(model, beside) == pytest.approx(level_rows.EFFECTS[6], abs=0.4)


def test_levels_of_a_classifier_learn_too():
    model = level_rows.fitted_classifier()
    X, y = level_rows.classes(150, 5, place=level_rows.NEW)
    before = model.predict_proba(X)[:, 1].mean()
    model.partial_fit(X, y)
    after = model.predict_proba(X)[:, 1].mean()
    assert before < 0.75
    assert after > before + 0.15  # all candidates were wrong on a level that none knew, and have small shares
    model.partial_fit(*level_rows.classes(150, 6, place=level_rows.NEW))
    assert model.predict_proba(X)[:, 1].mean() > 0.9
    beside = X.copy()
    beside[:, 1] = np.nextafter(np.float32(level_rows.NEW), np.float32(1))
    assert model.predict_proba(beside)[:, 1].mean() == pytest.approx(before, abs=0.15)


def test_columns_with_many_categories_are_levels():
    random = np.random.default_rng(0)
    many = random.choice([f"shop {k}" for k in range(30)], 300)
    X = pd.DataFrame({"a": random.random(300), "few": random.choice(["x", "y", "z"], 300), "many": many})
    model = AtlasRegressor(members=1, terms=0, features=40, random_state=0).fit(X, random.random(300))
    inputs = list(model.encoding_.inputs)
    # of those that have inputs of their own, later ones are told by the first
    levels = (inputs.index("few=x"), inputs.index("many"))
    assert state_of(model.model_).pooled.features.levels == levels
