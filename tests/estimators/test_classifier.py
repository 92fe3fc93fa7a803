"""AtlasClassifier: classes as targets."""

import numpy as np
import pytest
from planes import EXPECTED_FAILURES, QUICK
from sklearn.utils.estimator_checks import parametrize_with_checks

from atlas_splines import AtlasClassifier


@pytest.mark.slow
@parametrize_with_checks([AtlasClassifier()], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learns_own_checks_of_classifiers(estimator, check):
    check(estimator)


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


@pytest.mark.slow
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
