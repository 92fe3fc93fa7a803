"""Counts: never negative, as good as boosting by its own measure, and right on average."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_poisson_deviance

from atlas_splines import AtlasRegressor, load, save
from atlas_splines.estimators.targets import counts_between, counts_of_roots, root_variance, roots_of


def drawn(rows, seed, dispersed=False):
    """Counts with means from 0.02 to 20, that may vary more than Poisson's."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (rows, 3))
    mean = np.exp(-0.5 + 3 * X[:, 0] + X[:, 1] * X[:, 2])
    return X, random.poisson(mean * random.gamma(1, 1, rows) if dispersed else mean).astype(float)


@pytest.fixture(scope="module")
def fitted():
    return AtlasRegressor(loss="poisson", random_state=0).fit(*drawn(2000, 0))


def test_inverse_is_unbiased_for_poisson_counts_of_any_mean():
    for mean in (0.5, 1.0, 3.0, 30.0, 3000.0):
        roots = roots_of(np.random.default_rng(0).poisson(mean, 200_000))
        assert abs(counts_of_roots(roots.mean(), np.ones(1), np.zeros(1))[0] / mean - 1) < 0.02
        assert abs(root_variance(roots.mean()) - roots.var()) < 0.08


def test_quantiles_go_there_and_back():
    counts = np.array([0.0, 1.0, 7.0, 1e6])
    np.testing.assert_allclose(counts_between(roots_of(counts)), counts, atol=1e-9)


def test_deviance_is_below_that_of_boosting(fitted):
    X, y = drawn(2000, 1)
    boosted = HistGradientBoostingRegressor(loss="poisson", random_state=0).fit(*drawn(2000, 0)).predict(X)
    predicted = fitted.predict(X)
    assert predicted.min() > 0
    assert mean_poisson_deviance(y, predicted) < mean_poisson_deviance(y, boosted)
    assert abs(predicted.mean() / y.mean() - 1) < 0.05
    seen, counts = drawn(2000, 0)
    np.testing.assert_allclose(fitted.predict(seen).mean(), counts.mean(), rtol=1e-2)


def test_means_are_right_if_counts_vary_more_than_poisson():
    model = AtlasRegressor(loss="poisson", random_state=0).fit(*drawn(2000, 0, dispersed=True))
    X, y = drawn(4000, 1, dispersed=True)
    assert model.dispersion_[0] > 1.5
    assert abs(model.predict(X).mean() / y.mean() - 1) < 0.1


def test_poisson_counts_have_a_dispersion_and_a_deviance_of_about_one(fitted):
    assert 0.5 < fitted.dispersion_[0] < 1.5
    assert fitted.fit_record_.measure == "deviance"
    assert fitted.fit_record_.error < 1.2


def test_intervals_hold_their_share_and_start_at_zero_or_above(fitted):
    X, y = drawn(2000, 1)
    low, high = fitted.predict_interval(X, coverage=0.9)
    assert low.min() >= 0
    assert ((y >= low - 1e-6) & (y <= high + 1e-6)).mean() > 0.87
    _, deviation = fitted.predict(X, return_std=True)
    many = fitted.predict(X) > 5
    np.testing.assert_allclose((deviation[many] ** 2 / fitted.predict(X)[many]).mean(), 1, atol=0.35)


def test_updates_and_files_keep_counts(fitted, tmp_path):
    X, y = drawn(500, 2)
    save(fitted, tmp_path / "counts.atlas")
    model = load(tmp_path / "counts.atlas")
    assert (model.predict(X) == fitted.predict(X)).all()
    model.partial_fit(X, 3 * y)
    assert model.predict(X).min() > 0
    assert 1.1 < model.predict(X).mean() / fitted.predict(X).mean() < 4
    assert model.update_log_[-1].measure == "deviance"


def test_far_extrapolation_is_never_negative():
    X = np.linspace(0, 1, 200)[:, None]
    model = AtlasRegressor(loss="poisson", extrapolation="linear", random_state=0).fit(
        X, np.round(9 * X[:, 0])
    )
    assert (model.predict([[-50.0], [-3.0]]) >= 0).all()


def test_several_targets_and_few_rows():
    X, y = drawn(30, 0)
    model = AtlasRegressor(loss="poisson", random_state=0).fit(X, np.column_stack([y, 2 * y]))
    assert model.predict(X).shape == (30, 2)


def test_negative_targets_are_refused():
    with pytest.raises(ValueError, match="loss='poisson' is for counts, and y has -1"):
        AtlasRegressor(loss="poisson").fit([[0.0], [1.0]], [2.0, -1.0])
