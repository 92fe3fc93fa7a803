"""Rows that belong together are held out together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.model_selection import cross_validate

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.estimators.fit import FitOptions, fit_model, folds_for, group_folds, numbered_groups
from atlas_splines.model.rows import Rows

OPTIONS = FitOptions(
    outputs=1, loss="mse", density=0, terms=0, epochs=2, batch_size=50,
    learning_rate=0.01, held_out=0.2, validation="groups", patience="auto", verbose=False,
)  # fmt: skip


def patients(rows=200, count=20, seed=0):
    """Rows of patients, each of whom is ill in a way of their own that nothing tells but their age."""
    random = np.random.default_rng(seed)
    groups = np.arange(rows) % count
    ages, own = random.random(count), random.normal(size=count)
    X = np.stack([ages[groups], random.random(rows)], axis=1)
    return X, X[:, 1] + own[groups], groups


@given(
    labels=st.lists(st.integers(0, 6), min_size=2, max_size=60).filter(lambda labels: len({*labels}) > 1),
    share=st.floats(0.05, 0.5),
)
def test_each_group_is_held_out_once_and_as_a_whole(labels, share):
    groups = np.unique(labels, return_inverse=True)[1]
    folds = group_folds(groups, share, np.random.default_rng(0))
    assert len(folds) >= 2
    assert (np.sum(folds, axis=0) == 1).all()
    for fold in folds:
        assert not set(groups[fold]) & set(groups[~fold])


def test_about_the_share_of_the_rows_is_held_out_by_the_seed():
    groups = np.arange(1000) % 50
    first = [group_folds(groups, 0.1, np.random.default_rng(seed))[0] for seed in (0, 0, 1)]
    assert first[0].mean() == pytest.approx(0.1, abs=0.02)
    assert (first[0] == first[1]).all()
    assert (first[0] != first[2]).any()


def test_a_group_of_most_rows_is_not_the_one_to_hold_out():
    groups = np.repeat([0, 1], [90, 10])
    for seed in range(5):
        assert group_folds(groups, 0.1, np.random.default_rng(seed))[0].sum() == 10


def test_members_of_a_given_size_hold_out_groups_too():
    X, y, groups = patients()
    rows = Rows(X.astype(np.float32), y[:, None].astype(np.float32), np.ones(len(y), np.float32))
    for fold in folds_for(len(rows), OPTIONS, np.random.default_rng(0), groups):
        assert not set(groups[fold]) & set(groups[~fold])
    fitted = fit_model(
        rows, OPTIONS, [0, 1], lambda function, numbers: [*map(function, numbers)], None, groups
    )
    assert fitted.held_out.cross_validated
    assert fitted.held_out.rows == pytest.approx(80, abs=20)


def test_an_unseen_group_is_harder_than_an_unseen_row():
    X, y, groups = patients()
    options = {"members": 1, "features": 60, "random_state": 0}
    known = AtlasRegressor(**options).fit(X, y).fit_record_
    out_of_fold_rows = (
        AtlasRegressor(**options, validation="groups").fit(X, y, groups=groups.astype(str)).fit_record_
    )
    assert out_of_fold_rows.error > 1.5 * known.error


def test_classes_are_judged_by_whole_groups():
    X, _, groups = patients(rows=120, count=6)
    own = (np.random.default_rng(1).permutation(6) % 2)[groups]
    options = {"features": 20, "random_state": 0}
    by_rows = AtlasClassifier(**options).fit(X, own).fit_record_
    by_groups = AtlasClassifier(**options).fit(X, own, groups=groups).fit_record_
    assert by_rows.score > 0.95 > by_groups.score


def test_rows_without_weight_have_no_group():
    weights = np.array([1.0, 1.0, 0.0])
    assert numbered_groups([5, 7, 9], weights, "groups").tolist() == [0, 1]
    with pytest.raises(ValueError, match="groups has one group only; two or more are needed"):
        numbered_groups([5, 5, 9], weights, "auto")


@pytest.mark.parametrize(
    ("options", "groups", "message"),
    [
        ({"validation": "groups"}, None, r"validation='groups' needs the group of each row: call fit\(X, y, groups=...\)"),
        ({"validation": "last"}, [0, 1] * 20, "groups do not go with validation='last'; leave them out, or set it to"),
        ({}, [0] * 40, "groups has one group only; two or more are needed, for some are held out"),
        ({}, [0, 1], "inconsistent numbers of samples"),
        ({}, [np.nan, 1] * 20, "Input groups contains NaN"),
    ],
)  # fmt: skip
def test_wrong_groups_are_refused(options, groups, message):
    X, y, _ = patients(rows=40, count=4)
    for kind, target in ((AtlasRegressor, y), (AtlasClassifier, y > 0)):
        with pytest.raises(ValueError, match=message):
            kind(**options, terms=0, density=0, features=0).fit(X, target, groups=groups)


@pytest.mark.parametrize("routing", [False, True])
def test_groups_are_passed_on_by_scikit_learn(routing):
    X, y, groups = patients(rows=80, count=8)
    model = AtlasRegressor(
        members=1, terms=0, density=0, max_iter=2, features=0, validation="groups", random_state=0
    )
    with config_context(enable_metadata_routing=routing):
        if routing:
            model = model.set_fit_request(groups=True)
        scores = cross_validate(model, X, y, cv=2, params={"groups": groups}, error_score="raise")
    assert np.isfinite(scores["test_score"]).all()
