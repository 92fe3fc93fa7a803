"""Tools of scikit-learn around the estimators, on arrays and on frames with categories."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from frames import QUICK, homes_frame
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.model_selection import HalvingGridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from atlas_splines import AtlasClassifier, AtlasRegressor

FRAME, PRICE = homes_frame()
X = FRAME[["size", "city", "garden"]].dropna().astype({"garden": bool})
Y = PRICE[X.index]
DEAR = pd.Series(np.where(Y.median() < Y, "dear", "cheap"), index=X.index)


@pytest.fixture(scope="module")
def model():
    return AtlasRegressor(**QUICK).fit(X, Y)


def test_permutation_importance(model):
    found = permutation_importance(model, X, Y, n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() == 0  # the size
    assert (found.importances_mean > 0).all()


def test_partial_dependence_of_numbers_and_categories(model):
    matplotlib.use("agg")
    display = PartialDependenceDisplay.from_estimator(
        model, X, ["size", "city"], categorical_features=["city"], grid_resolution=5
    )
    line = display.lines_[0, 0].get_ydata()
    assert (np.diff(line) > 0).all()  # larger homes are dearer
    by_city = partial_dependence(model, X, ["city"], categorical_features=["city"])
    assert (
        dict(zip(by_city["grid_values"][0], by_city["average"][0], strict=True))["Cadiz"]
        == by_city["average"].max()
    )
    matplotlib.pyplot.close("all")


def test_a_search_that_halves():
    search = HalvingGridSearchCV(
        AtlasRegressor(**QUICK),
        {"monotonic_cst": [None, {"size": -1}]},
        cv=2,
        random_state=0,
        min_resources=60,
        error_score="raise",
    )
    search.fit(X, Y)
    assert search.best_params_ == {"monotonic_cst": None}
    assert search.predict(X).shape == (len(X),)
    assert cross_val_score(clone(search.best_estimator_), X, Y, cv=2).min() > 0.9


def test_calibrated_classes():
    calibrated = CalibratedClassifierCV(AtlasClassifier(**QUICK), cv=2).fit(X, DEAR)
    assert calibrated.classes_.tolist() == ["cheap", "dear"]
    shares = calibrated.predict_proba(X)
    assert np.allclose(shares.sum(axis=1), 1)
    assert (calibrated.predict(X) == DEAR).mean() > 0.9


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_a_pipeline_whose_steps_give_frames(output):
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), make_column_selector(dtype_include="number")),
            ("texts", OneHotEncoder(sparse_output=False), ["city"]),
        ],
        remainder="passthrough",
    )
    pipeline = make_pipeline(columns, AtlasRegressor(**QUICK)).set_output(transform=output)
    pipeline.fit(X, Y)
    assert pipeline.score(X, Y) > 0.95
    names = columns.get_feature_names_out() if output == "default" else pipeline[-1].feature_names_in_
    assert names.tolist() == pipeline[:-1].get_feature_names_out().tolist()
    assert pipeline[-1].n_features_in_ == 5


def test_steps_may_leave_categories_to_the_model():
    scaled = ColumnTransformer(
        [("numbers", StandardScaler(), ["size"])], remainder="passthrough", verbose_feature_names_out=False
    )
    pipeline = make_pipeline(scaled.set_output(transform="pandas"), AtlasRegressor(**QUICK)).fit(X, Y)
    assert pipeline[-1].column_names == ("size", "city", "garden")
    assert pipeline[-1].encoding_.columns[1].categories == ("Aarhus", "Bergen", "Cadiz")
    assert pipeline.score(X, Y) > 0.95
