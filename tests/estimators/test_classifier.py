"""AtlasClassifier: classes as targets."""

from pickle import dumps, loads

import numpy as np
import pytest
from planes import EXPECTED_FAILURES, QUICK
from sklearn.utils.estimator_checks import parametrize_with_checks

from atlas_splines import AtlasClassifier
from atlas_splines.memory.batches import summed
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.routing import memory_in


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
    with pytest.raises(ValueError, match="the new classes are numbers, but those known are texts; give such"):
        model.partial_fit(X, np.full(100, 7))
    with pytest.raises(
        ValueError, match=r"classes is \['in', 'far'\], but the first call said \['in', 'mid', 'out'\]"
    ):
        model.partial_fit(X, y, classes=["in", "far"])


@pytest.mark.slow
def test_classes_are_added_to_the_evidence_exactly():
    X, y = rings()
    old = y != "mid"
    model = AtlasClassifier(**QUICK | {"features": 150, "retention": "pool"}).fit(X[old], y[old])
    scores = model.decision_function(X)
    proba = model.predict_proba(X)
    model.add_classes(["mid", "out"])
    assert model.classes_.tolist() == ["in", "mid", "out"]
    np.testing.assert_allclose(model.predict_proba(X)[:, [0, 2]], proba, atol=1e-6)
    same = model.decision_function(X)[:, [0, 2]]
    np.testing.assert_array_equal(same[:, 1] - same[:, 0], scores)  # old scores keep their bits
    pool = memory_in(state_of(model.model_))
    model.partial_fit(X[~old], y[~old])
    points = model.domain_.to_unit(X).clip(0, 1).astype(np.float32).astype(np.float64)
    targets = (y[:, None] == model.classes_).astype(np.float64)
    assert memory_in(state_of(model.model_)).total == summed(pool.features, points, targets, None)
    assert model.score(*rings(seed=1)) > 0.85
    again = loads(dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_classes_that_cannot_be_added():
    X, y = rings(100)
    model = AtlasClassifier(**QUICK).fit(X, y)
    assert model.add_classes(["in"]) is model
    with pytest.raises(
        ValueError, match=r"the new classes are numbers, but those known are texts; give such"
    ):
        model.add_classes([3])
    model = AtlasClassifier(**QUICK | {"memory": "sums", "retention": "chart"}).fit(X, y)
    model.partial_fit(X[y == "out"], y[y == "out"])
    with pytest.raises(ValueError, match=r"classes cannot be added where charts stand; call consolidate\(\)"):
        model.add_classes(["far"])


def test_no_class_is_added_to_two_that_rise_and_fall():
    X, y = rings(100)
    model = AtlasClassifier(**QUICK, monotonic_cst=[1, 0]).fit(X, y == "in")
    with pytest.raises(ValueError, match=r"the new classes are numbers, but those known are true and false"):
        model.add_classes([3])
    model = AtlasClassifier(**QUICK, monotonic_cst=[1, 0]).fit(X, np.where(y == "in", "in", "out"))
    with pytest.raises(ValueError, match=r"monotonic_cst is for two classes, and these are 3; leave it out"):
        model.add_classes(["mid"])


def test_a_model_without_evidence_gets_classes_too():
    X, y = rings(100)
    model = AtlasClassifier(**QUICK).fit(X, y)
    predicted = model.predict(X)
    model.add_classes(["a", "z"])
    assert (model.predict(X) == predicted).all()
    assert model.predict_proba(X)[:, [0, 4]].max() < 1e-6


def test_a_classifier_is_fitted_again_to_other_classes():
    X = np.random.default_rng(0).random((60, 1))
    model = AtlasClassifier(members=1, features=20, random_state=0).fit(X, X[:, 0] > 0.5)
    model.fit(X, np.where(X[:, 0] > 0.3, "high", "low"))
    assert model.classes_.tolist() == ["high", "low"]
    fresh = AtlasClassifier(members=1, features=20, random_state=0).fit(
        X, np.where(X[:, 0] > 0.3, "high", "low")
    )
    assert model.model_.fingerprint() == fresh.model_.fingerprint()
    assert not model.ledger_.fit.options["announced"]
