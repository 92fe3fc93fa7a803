"""AtlasRegressor: numbers of any unit as targets."""

import numpy as np
import pytest
from planes import EXPECTED_FAILURES, QUICK, plane
from sklearn.utils.estimator_checks import parametrize_with_checks

from atlas_splines import AtlasRegressor


@pytest.mark.slow
@parametrize_with_checks([AtlasRegressor()], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learns_own_checks_of_regressors(estimator, check):
    check(estimator)


@pytest.mark.slow
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


@pytest.mark.slow
def test_several_targets():
    X, y = plane()
    Y = np.stack([y, -1000 * y], axis=1)
    model = AtlasRegressor(**QUICK).fit(X, Y)
    assert model.predict(X).shape == (400, 2)
    assert model.score(X, Y) > 0.98
    with pytest.raises(ValueError, match="y has 1 columns but the model has 2 targets"):
        model.partial_fit(X, y)
