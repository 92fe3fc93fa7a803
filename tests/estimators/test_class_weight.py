"""Weights of classes: in the fit, in updates, in files."""

from __future__ import annotations

import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save


def drawn(rows, seed):
    """One row of ten is rare; the columns tell little."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(rows) < 0.1, "rare", "usual")
    return random.normal(size=(rows, 2)) + (y == "rare")[:, None], y


X, y = drawn(1500, 0)


@pytest.fixture(scope="module")
def balanced():
    return AtlasClassifier(class_weight="balanced", members=1, random_state=0).fit(X, y)


def test_balanced_classes_are_found_alike(balanced):
    plain = AtlasClassifier(members=1, random_state=0).fit(X, y)
    X_new, y_new = drawn(3000, 1)
    found = [(model.predict(X_new) == "rare")[y_new == "rare"].mean() for model in (plain, balanced)]
    assert found[0] < 0.4 < 0.6 < found[1]
    np.testing.assert_allclose(balanced.class_weight_ * [(y == "rare").mean(), (y == "usual").mean()], 0.5)


def test_weights_of_a_dict_are_those_of_rows():
    weights = np.where(y == "rare", 3.0, 1.0)
    one = AtlasClassifier(class_weight={"rare": 3}, members=1, random_state=0).fit(X, y)
    other = AtlasClassifier(members=1, random_state=0).fit(X, y, weights)
    assert (one.predict_proba(X) == other.predict_proba(X)).all()
    X_new, y_new = drawn(300, 2)
    one.partial_fit(X_new, y_new)
    other.partial_fit(X_new, y_new, sample_weight=np.where(y_new == "rare", 3.0, 1.0))
    assert (one.predict_proba(X) == other.predict_proba(X)).all()


def test_rows_in_pieces_weigh_the_same(balanced, tmp_path):
    save(balanced, tmp_path / "m.atlas")
    one, other = load(tmp_path / "m.atlas"), load(tmp_path / "m.atlas")
    X_new, y_new = drawn(400, 2)
    every = one._checked(X_new, y_new, None)
    one._update(*every, retention="pool")
    first = (part[:150] for part in every)
    other._update(*first, retention="pool", rest=[(X_new[150:], y_new[150:])])
    assert (one.predict_proba(X) == other.predict_proba(X)).all()


def test_forgotten_rows_leave_with_their_weight(balanced, tmp_path):
    save(balanced, tmp_path / "m.atlas")
    model = load(tmp_path / "m.atlas").set_params(retention="pool")
    assert (model.class_weight_ == balanced.class_weight_).all()
    X_new, y_new = drawn(200, 3)
    first = model.partial_fit(X_new[:50], y_new[:50]).predict_proba(X)
    model.partial_fit(X_new[50:], y_new[50:]).forget(X_new[50:], y_new[50:])
    assert (model.predict_proba(X) == first).all()


def test_new_classes_weigh_one(balanced, tmp_path):
    save(balanced, tmp_path / "m.atlas")
    model = load(tmp_path / "m.atlas").add_classes(["new"])
    assert model.class_weight_[0] == 1
    assert (model.class_weight_[1:] == balanced.class_weight_).all()


def test_dict_is_kept_in_a_file(tmp_path):
    model = AtlasClassifier(class_weight={np.int64(1): 2.0}, members=1, random_state=0).fit(X, y == "rare")
    save(model, tmp_path / "m.atlas")
    assert load(tmp_path / "m.atlas").class_weight == {1: 2.0}


@pytest.mark.parametrize(
    ("given", "predicted"),
    [
        ("even", "class_weight must be 'balanced', or a dict"),
        ({"none": 2.0}, "class_weight names the class 'none', which y does not have"),
        ({"rare": -1.0}, "class_weight of 'rare' must be"),
    ],
)
def test_wrong_weights_are_refused(given, predicted):
    with pytest.raises(ValueError, match=predicted):
        AtlasClassifier(class_weight=given).fit(X, y)


def test_numbers_have_no_classes():
    with pytest.raises(ValueError, match="class_weight is for classes"):
        AtlasRegressor(class_weight="balanced").fit(X, X[:, 0])
