import pickle

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_pinball_loss

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.estimators.predict import checked_coverages

QUICK = {"members": 1, "features": 60, "random_state": 0}


def noisy(rows, seed=0, noise=1.0):
    """A wave whose noise grows with the second column, and rows to judge by."""
    random = np.random.default_rng(seed)
    X = random.random((rows, 2))
    return X, np.sin(6 * X[:, 0]) + noise * (0.1 + 0.5 * X[:, 1]) * random.normal(size=rows)


def within(y, ends):
    low, high = ends
    return (y >= low) & (y <= high)


@pytest.fixture(scope="module")
def fitted():
    return AtlasRegressor(**QUICK).fit(*noisy(800))


@pytest.fixture
def model(fitted):
    return pickle.loads(pickle.dumps(fitted))


@pytest.fixture(scope="module")
def classifier():
    X, y = noisy(600)
    return AtlasClassifier(**QUICK).fit(X, np.digitize(y, [-0.5, 0.5]))


# --- intervals ----------------------------------------------------------------------------------------


def test_the_promised_share_of_rows_is_covered(fitted):
    # given its 800 rows, what one fit covers has a standard deviation of 0.013 to 0.016: four are averaged
    fits = [fitted, *(AtlasRegressor(**QUICK).fit(*noisy(800, seed)) for seed in (2, 3, 4))]
    X, y = noisy(20_000, seed=1)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        covered = np.mean([within(y, fit.predict_interval(X, coverage)).mean() for fit in fits])
        assert covered == pytest.approx(coverage, abs=0.02)


def test_intervals_are_as_wide_as_noise_is(fitted):
    X, y = noisy(4000, seed=1)
    low, high = fitted.predict_interval(X)
    calm, loud = X[:, 1] < 0.2, X[:, 1] > 0.8
    assert (high - low)[loud].mean() > 2 * (high - low)[calm].mean()
    for part in (calm, loud):
        assert within(y, (low, high))[part].mean() == pytest.approx(0.9, abs=0.06)


def test_intervals_follow_skew():
    X, _ = noisy(1500)
    y = np.random.default_rng(0).exponential(size=1500)
    low, high = AtlasRegressor(**QUICK).fit(X, y).predict_interval(X)
    assert np.median(low) == pytest.approx(0.05, abs=0.15)
    assert np.median(high) == pytest.approx(3, abs=0.6)


def test_several_coverages_are_nested_and_in_order(fitted):
    X, _ = noisy(300, seed=1)
    low, high = fitted.predict_interval(X, [0.3, 0.5, 0.9, 0.99, 0.999999])
    assert low.shape == high.shape == (300, 5)
    assert (low <= high).all()
    assert (np.diff(low) <= 0).all()
    assert (np.diff(high) >= 0).all()
    one = fitted.predict_interval(X, 0.9)
    assert (one[0] == low[:, 2]).all()
    assert (one[1] == high[:, 2]).all()


def test_several_targets_have_intervals_of_their_own():
    X, y = noisy(600)
    model = AtlasRegressor(**QUICK).fit(X, np.column_stack([y, 100 * X[:, 0]]))
    low, high = model.predict_interval(X)
    assert low.shape == (600, 2)
    assert within(y, (low[:, 0], high[:, 0])).mean() > 0.85
    assert (high - low)[:, 1].mean() < 5
    assert model.predict_interval(X, [0.5, 0.9])[0].shape == (600, 2, 2)
    assert model.predict(X, return_std=True)[1].shape == (600, 2)


def test_a_standard_deviation_is_that_of_errors(fitted):
    X, y = noisy(4000, seed=1)
    predicted, deviation = fitted.predict(X, return_std=True)
    assert (predicted == fitted.predict(X)).all()
    assert np.std((y - predicted) / deviation) == pytest.approx(1, abs=0.1)


def test_rows_of_weight_zero_do_not_widen_intervals():
    X, y = noisy(600)
    wild = np.concatenate([y, y + 100])
    weights = np.repeat([1.0, 0.0], 600)
    weighted = AtlasRegressor(**QUICK).fit(np.vstack([X, X]), wild, weights)
    plain = AtlasRegressor(**QUICK).fit(X, y)
    assert np.allclose(weighted.predict_interval(X), plain.predict_interval(X), atol=0.1)


def test_rows_of_more_weight_count_more():
    X, y = noisy(1200, noise=0.2)
    y[600:] += np.random.default_rng(0).normal(0, 3, 600)
    plain, calm = (
        AtlasRegressor(**QUICK).fit(X, y, weights)
        for weights in (np.ones(1200), np.repeat([1.0, 0.001], 600))
    )
    widths = [np.diff(model.predict_interval(X), axis=0).mean() for model in (plain, calm)]
    assert widths[1] < widths[0] / 2


@pytest.mark.parametrize("options", [{"terms": 0, "density": 1}, {"loss": "absolute_error", "max_iter": 3}])
def test_models_of_a_given_size_or_loss_have_intervals_too(options):
    X, y = noisy(600)
    model = AtlasRegressor(**QUICK, **options).fit(X, y)
    assert within(y, model.predict_interval(X)).mean() == pytest.approx(0.9, abs=0.08)


def test_few_rows_have_intervals_too():
    X, y = noisy(30)
    low, high = AtlasRegressor(**QUICK).fit(X, y).predict_interval(X)
    assert np.isfinite(high - low).all()
    assert (high > low).all()


# --- updates ------------------------------------------------------------------------------------------


def knowledge(model, X):
    """All that a regressor says about how sure it is."""
    return np.column_stack(
        [*model.predict_interval(X, [0.5, 0.9]), model.predict(X, return_std=True)[1], model.support(X)]
    )


@pytest.mark.parametrize("retention", ["auto", "chart"])
def test_outside_the_footprint_of_a_chart_nothing_changes(retention, model):
    X, _ = noisy(1000, seed=1)
    before = knowledge(model, X)
    random = np.random.default_rng(2)
    box = 0.3 + 0.3 * random.random((300, 2))
    model.set_params(retention=retention, max_iter=5).partial_fit(box, 5 + 0.1 * random.normal(size=300))
    (update,) = model.update_log_
    assert update.kind == "chart"
    outside = ~update.footprint.contains(X)
    after = knowledge(model, X)
    assert (after[outside] == before[outside]).all()
    core = (np.abs(X - 0.45) < 0.1).all(axis=1)
    assert (after[core] != before[core]).any(axis=1).all()
    assert np.mean(np.diff(model.predict_interval(box), axis=0)) < 0.8
    assert (knowledge(model.revert(1), X) == before).all()


def test_reverted_rows_give_everything_back(model):
    X, y = noisy(600, seed=1)
    model.set_params(retention="pool").partial_fit(X[:200], y[:200])
    before = knowledge(model, X)
    model.partial_fit(X[200:], 5 * y[200:], accept=True)
    assert (knowledge(model, X)[:, :5] != before[:, :5]).all()
    assert (knowledge(model.revert(2), X) == before).all()


@pytest.mark.parametrize("retention", ["auto", "pool", pytest.param("chart", marks=pytest.mark.slow)])
def test_files_keep_all_of_it(retention, model, tmp_path):
    X, y = noisy(600, seed=1)
    box = 0.3 + 0.3 * np.random.default_rng(2).random((100, 2))
    model.set_params(retention=retention, max_iter=3).partial_fit(box, np.full(100, 5.0) + box[:, 0])
    for k in range(0, 600, 100):
        model.set_params(retention="pool").partial_fit(X[k : k + 100], y[k : k + 100])
    save(model, tmp_path / "m.atlas")
    twin = load(tmp_path / "m.atlas")
    assert (knowledge(twin, X) == knowledge(model, X)).all()
    last = model.update_log_[-1].id
    assert (knowledge(twin.revert(last), X) == knowledge(model.revert(last), X)).all()


def test_coverage_returns_after_a_drift(model):
    held = []
    for k in range(12):
        X, y = noisy(150, seed=k, noise=3.0)
        held.append(within(y, model.predict_interval(X)).mean())
        model.partial_fit(X, y)
    assert held[0] < 0.65
    assert np.mean(held[4:]) == pytest.approx(0.9, abs=0.05)


def test_more_rows_of_the_first_data_join_without_fading(model):
    X, y = noisy(800, seed=1)
    model.fit_more(X, y)
    assert within(y, model.predict_interval(X)).mean() == pytest.approx(0.9, abs=0.05)


def test_forgotten_rows_support_nothing(model):
    X, y = noisy(800)
    gone = X[:, 0] > 0.6
    assert model.support([[0.8, 0.5]]) > 0
    assert model.forget(X[gone], y[gone]).support([[0.8, 0.5]]) == 0


# --- support ------------------------------------------------------------------------------------------


def test_support_is_nil_where_no_row_was():
    random = np.random.default_rng(0)
    X = random.random((1500, 3))
    hole = (np.abs(X[:, :2] - 0.5) < 0.2).all(axis=1)
    slab = (X[:, 2] > 0.4) & (X[:, 2] < 0.6)
    model = AtlasRegressor(**QUICK).fit(X[~hole & ~slab], X[~hole & ~slab].sum(axis=1))
    known = model.support(random.random((500, 3)) * [1, 0.25, 0.35])
    assert np.median(known) > 0.8
    assert model.support([[0.5, 0.5, 0.2], [0.1, 0.1, 0.5], [0.1, 0.1, 9], [-3, 0.1, 0.1]]).max() < 0.1
    assert (model.support([[0.1, 0.1, 9], [-3, 0.1, 0.1]]) == 0).all()


def test_support_grows_with_rows():
    X = np.random.default_rng(0).random((600, 2))
    known = X[X[:, 0] < 0.5]
    model = AtlasRegressor(**QUICK, domain=[(0, 1), (0, 1)], retention="pool").fit(known, known[:, 1])
    assert model.support([[0.8, 0.5]]) == 0
    assert model.partial_fit(X, X[:, 1]).support([[0.8, 0.5]]) > 0.5


def test_one_column_has_support():
    X = np.linspace(0, 1, 200)[:, None]
    assert AtlasRegressor(**QUICK).fit(X, X[:, 0]).support([[0.5], [2.0]]).tolist() == [1, 0]


# --- classes ------------------------------------------------------------------------------------------


def test_sets_hold_the_promised_share_of_classes(classifier):
    X, y = noisy(3000, seed=1)
    labels = np.digitize(y, [-0.5, 0.5])
    sets = classifier.predict_set(X, [0.8, 0.9, 0.95])
    assert sets.shape == (3000, 3, 3)
    shares = sets[np.arange(3000), labels].mean(axis=0)
    assert (shares > [0.76, 0.86, 0.92]).all()
    assert (np.diff(sets.astype(int), axis=2) >= 0).all()
    assert (classifier.predict_set(X) == sets[:, :, 1]).all()


def test_a_set_holds_the_most_probable_class(classifier):
    X, _ = noisy(200, seed=1)
    sets = classifier.predict_set(X, 0.01)
    assert sets[np.arange(200), classifier.predict_proba(X).argmax(axis=1)].all()
    assert (sets.sum(axis=1) == 1).all()


def test_files_keep_sets_of_classes(classifier, tmp_path):
    X, y = noisy(300, seed=1)
    model = pickle.loads(pickle.dumps(classifier)).partial_fit(X, np.digitize(y, [-0.5, 0.5]))
    save(model, tmp_path / "m.atlas")
    twin = load(tmp_path / "m.atlas")
    assert (twin.predict_set(X, [0.5, 0.9]) == model.predict_set(X, [0.5, 0.9])).all()
    assert (twin.support(X) == model.support(X)).all()


# --- quantiles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_a_quantile_is_what_scikit_learn_means_by_it(quantile):
    X, y = noisy(1000)
    new, truth = noisy(3000, seed=1)
    ours = AtlasRegressor(**QUICK, loss="quantile", quantile=quantile).fit(X, y).predict(new)
    theirs = (
        HistGradientBoostingRegressor(loss="quantile", quantile=quantile, max_iter=50).fit(X, y).predict(new)
    )
    assert (truth <= ours).mean() == pytest.approx(quantile, abs=0.06)
    losses = [mean_pinball_loss(truth, each, alpha=quantile) for each in (ours, theirs)]
    assert losses[0] < 1.05 * losses[1]


def test_files_and_updates_keep_the_quantile(tmp_path):
    X, y = noisy(500)
    model = AtlasRegressor(**QUICK, loss="quantile", quantile=0.8).fit(X, y).partial_fit(*noisy(500, seed=1))
    assert (y <= model.predict(X)).mean() == pytest.approx(0.8, abs=0.06)
    save(model, tmp_path / "m.atlas")
    assert (load(tmp_path / "m.atlas").predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("quantile", [0, 1, 1.5])
def test_a_quantile_is_between_0_and_1(quantile):
    with pytest.raises(ValueError, match=r"quantile must lie between 0 and 1, such as 0\.9, not"):
        AtlasRegressor(loss="quantile", quantile=quantile).fit(*noisy(50))


def test_a_quantile_needs_evidence():
    with pytest.raises(ValueError, match="loss='quantile' needs features of at least 1"):
        AtlasRegressor(loss="quantile", features=0).fit(*noisy(50))


# --- bad calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("coverage", [0, 1, 90, -0.1, [0.5, 2], np.nan])
def test_a_coverage_is_between_0_and_1(coverage, fitted):
    with pytest.raises(ValueError, match=r"coverage must lie between 0 and 1, such as 0\.9, not"):
        fitted.predict_interval([[0.5, 0.5]], coverage)


@pytest.mark.parametrize(
    ("coverage", "what"),
    [
        ("much", "coverage must be a number, or several, not 'much'"),
        ([], "coverage must be one number, or a list of numbers"),
        ([[0.5]], "coverage must be one number, or a list of numbers"),
    ],
)
def test_a_coverage_is_a_number(coverage, what):
    with pytest.raises(ValueError, match=what):
        checked_coverages(coverage)


def test_a_model_without_evidence_says_so():
    X, y = noisy(60)
    model = AtlasRegressor(**{**QUICK, "features": 0}, terms=0, density=1, max_iter=1).fit(X, y)
    for ask in (model.predict_interval, model.support, lambda X: model.predict(X, return_std=True)):
        with pytest.raises(ValueError, match="this model has no error model: fit it again"):
            ask(X)
