"""Importances of columns and strengths of interactions."""

import numpy as np
import pytest
from planes import QUICK
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.model.atlas import state_of

SOLVED = {"members": 1, "random_state": 0}


def rows(columns=4, count=1000):
    return np.random.default_rng(0).uniform(-1, 1, (count, columns))


@pytest.fixture(scope="module")
def product():
    """x0 + x1·x2 of columns in [-1, 1], and a column that does not matter."""
    X = rows()
    return AtlasRegressor(**SOLVED, domain=[(-1, 1)] * 4).fit(X, X[:, 0] + X[:, 1] * X[:, 2])


def test_a_known_function(product):
    """Variance 1/3 of x0 and 1/9 of x1·x2: the first is 3/4, the pair 1/4, the totals are 3, 1 and 1."""
    np.testing.assert_allclose(product.feature_importances_, [0.6, 0.2, 0.2, 0], atol=0.01)
    expected = np.diag([0.75, 0, 0, 0])
    expected[1, 2] = expected[2, 1] = 0.25
    np.testing.assert_allclose(product.interaction_strengths(), expected, atol=0.01)


def test_a_known_function_of_a_model_with_local_terms():
    """2·|x0 − ½| has a variance of 1/12 and a step along x1 of 1/4; kinks and steps are what rows are for."""
    X = np.random.default_rng(0).random((2000, 3))
    model = AtlasRegressor(random_state=0).fit(X, 2 * np.abs(X[:, 0] - 0.5) + (X[:, 1] > 0.5))
    assert state_of(model.model_).local
    np.testing.assert_allclose(model.feature_importances_, [0.25, 0.75, 0], atol=0.02)
    np.testing.assert_allclose(model.interaction_strengths(), np.diag([0.25, 0.75, 0]), atol=0.02)


def test_importances_sum_to_one(product):
    assert product.feature_importances_.sum() == pytest.approx(1)
    assert (product.feature_importances_ >= 0).all()


@pytest.mark.slow
def test_a_column_of_noise_hardly_matters():
    X = rows()
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * np.random.default_rng(1).normal(size=len(X))
    assert AtlasRegressor(**SOLVED).fit(X, y).feature_importances_[3] < 0.01


@pytest.mark.slow
def test_permuted_columns(product):
    X, order = rows(), [3, 1, 0, 2]
    y = X[:, 0] + X[:, 1] * X[:, 2]
    other = AtlasRegressor(**SOLVED, domain=[(-1, 1)] * 4).fit(X[:, order], y)
    np.testing.assert_allclose(other.feature_importances_, product.feature_importances_[order], atol=0.01)
    expected = product.interaction_strengths()[np.ix_(order, order)]
    np.testing.assert_allclose(other.interaction_strengths(), expected, atol=0.01)


@pytest.mark.slow
def test_missing_values_count_to_their_column():
    X = rows(columns=3)
    y = X[:, 0] + 3 * np.isnan(np.where(X[:, 2] > 0.5, np.nan, X[:, 2]))
    X[X[:, 2] > 0.5, 2] = np.nan
    model = AtlasRegressor(**SOLVED, missing="learn").fit(X, y)
    assert model.model_.inputs == 4
    importances, strengths = model.feature_importances_, model.interaction_strengths()
    assert importances.shape == (3,)
    assert strengths.shape == (3, 3)
    assert importances[2] > importances[0] > 10 * importances[1]
    assert strengths[2, 2] > strengths[0, 0] > 0.1
    assert np.triu(strengths).sum() == pytest.approx(1, abs=0.02)


@pytest.mark.slow
def test_targets_count_in_units_of_their_variances():
    X = rows(columns=2)
    y = np.stack([X[:, 0], 1e6 * X[:, 1]], axis=1)
    model = AtlasRegressor(**SOLVED).fit(X, y)
    np.testing.assert_allclose(model.feature_importances_, [0.5, 0.5], atol=0.02)


@pytest.mark.slow
def test_classes():
    X = rows(columns=3, count=400)
    model = AtlasClassifier(**SOLVED).fit(X, X[:, 0] * X[:, 1] > 0)
    assert model.feature_importances_[2] < 0.05
    strengths = model.interaction_strengths()
    assert strengths.argmax() == 1  # columns 0 and 1 together
    np.testing.assert_array_equal(strengths, strengths.T)


def test_a_constant_target_has_no_important_columns():
    model = AtlasRegressor(**QUICK).fit(rows(count=50), np.ones(50))
    assert model.feature_importances_.tolist() == [0, 0, 0, 0]
    assert not model.interaction_strengths().any()


def test_before_a_fit():
    model = AtlasRegressor()
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(NotFittedError):
        model.interaction_strengths()


def test_scikit_learn_selects_by_them(product):
    chosen = SelectFromModel(product, prefit=True, threshold=0.1)
    assert chosen.get_support().tolist() == [True, True, True, False]
