"""The methods: ATLAS and its opponents, all at their defaults, on one thread each.

Those that know categories, ATLAS among them, get the frame as it is, missing values too; where one refuses part of it, its
function here says what it gets instead. The others get an input for each category, and forests a number. Nothing that is
done to a category before a fit looks at the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    SplineTransformer,
    StandardScaler,
)

MOST_ONE_HOT = 50  # categories of a column that get an input each; the rarest of more share one, so that tables stay narrow
MOST_BOOSTING = 255  # categories of a column that HistGradientBoosting takes
MISSING, OTHER = "missing", "other"
ATLAS, BOOSTING, CATBOOST = "atlas", "boosting", "catboost"

Names = list[str]


@dataclass(frozen=True)
class Method:
    """A method as the benchmark knows it.

    Attributes
    ----------
    label
        What tables and figures call it.
    package
        What must be installed.
    make
        Returns an estimator for a task, a seed and the names of the columns that are categories.
    most_rows, most_columns
        Larger tables are left out, since a fit would take minutes.
    """

    label: str
    package: str
    make: Callable[[str, int, Names], BaseEstimator]
    most_rows: float = inf
    most_columns: float = inf

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    def takes(self, rows: int, columns: int) -> bool:
        """Whether a table is small enough."""
        return rows <= self.most_rows and columns <= self.most_columns


def is_regression(task: str) -> bool:
    return task == "regression"


class CommonLevels(TransformerMixin, BaseEstimator):
    """Columns of more than `most` categories keep those that are the most frequent in the fit; all others become `OTHER`."""

    def __init__(self, names: Names, most: int) -> None:
        self.names = names
        self.most = most

    def fit(self, X: pd.DataFrame, y: Any = None) -> CommonLevels:
        many = [name for name in self.names if len(X[name].cat.categories) > self.most]
        counts = {name: X[name].value_counts(sort=False) for name in many}
        ordered = {name: n.sort_values(ascending=False, kind="stable").index for name, n in counts.items()}
        self.kept_ = {name: list(levels[: self.most - 1]) for name, levels in ordered.items()}
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.assign(**{name: with_other(X[name], kept) for name, kept in self.kept_.items()})


def with_other(column: pd.Series, kept: list[str]) -> pd.Series:
    named = column.astype(object).where(column.isin(kept) | column.isna(), OTHER)
    return named.astype(pd.CategoricalDtype([*kept, OTHER]))


class FilledNumbers(TransformerMixin, BaseEstimator):
    """Missing numbers become the mean of the fit, beside a column that says so; where none are missing nothing changes."""

    def fit(self, X: pd.DataFrame, y: Any = None) -> FilledNumbers:
        numbers = X.select_dtypes("number")
        self.means_ = numbers.mean().fillna(0.0).to_dict()
        self.missing_ = list(numbers.columns[numbers.isna().any()])
        return self

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        told = {f"{name}_{MISSING}": X[name].isna().astype(float) for name in self.missing_}
        return X.fillna(self.means_).assign(**told)


def with_missing(X: pd.DataFrame, names: Names) -> pd.DataFrame:
    """Missing categories as a category of their own."""
    return X.assign(**{name: X[name].astype(object).fillna(MISSING) for name in names})


def one_hot(names: Names, numbers: Any) -> Any:
    """Categories as columns of 0 and 1, and what to do with the numbers."""
    if not names:
        return numbers
    encoder = OneHotEncoder(
        drop="if_binary",
        max_categories=MOST_ONE_HOT,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    )
    return make_column_transformer((encoder, names), remainder=numbers)


def scaled(estimator: BaseEstimator, names: Names, *steps: Any) -> BaseEstimator:
    """Missing numbers are the mean, beside a column that says so; a missing category is one more category."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), *steps)
    return make_pipeline(one_hot(names, numbers), estimator)


def atlas(task: str, seed: int, names: Names) -> BaseEstimator:
    from atlas_splines import AtlasClassifier, AtlasRegressor

    kind = AtlasRegressor if is_regression(task) else AtlasClassifier
    return kind(missing="learn", n_jobs=1, random_state=seed)


def boosting(task: str, seed: int, names: Names) -> BaseEstimator:
    """It refuses columns of more than 255 categories: of those it gets the most frequent 254, and the rest as one."""
    kind = HistGradientBoostingRegressor if is_regression(task) else HistGradientBoostingClassifier
    return make_pipeline(CommonLevels(names, MOST_BOOSTING), kind(random_state=seed))


def lightgbm(task: str, seed: int, names: Names) -> BaseEstimator:
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMRegressor if is_regression(task) else LGBMClassifier
    return kind(n_jobs=1, random_state=seed, verbose=-1)


def xgboost(task: str, seed: int, names: Names) -> BaseEstimator:
    from xgboost import XGBClassifier, XGBRegressor

    kind = XGBRegressor if is_regression(task) else XGBClassifier
    return kind(n_jobs=1, random_state=seed, enable_categorical=True)


def catboost(task: str, seed: int, names: Names) -> BaseEstimator:
    """It refuses missing categories: they are a category of their own."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostRegressor if is_regression(task) else CatBoostClassifier
    estimator = kind(
        thread_count=1, random_seed=seed, cat_features=names, verbose=False, allow_writing_files=False
    )
    return make_pipeline(FunctionTransformer(with_missing, kw_args={"names": names}), estimator)


def ebm(task: str, seed: int, names: Names) -> BaseEstimator:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingRegressor if is_regression(task) else ExplainableBoostingClassifier
    return kind(n_jobs=1, random_state=seed)


def forest(task: str, seed: int, names: Names) -> BaseEstimator:
    kind = RandomForestRegressor if is_regression(task) else RandomForestClassifier
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    estimator = kind(n_jobs=1, random_state=seed)
    if not names:
        return estimator
    return make_pipeline(make_column_transformer((encoder, names), remainder="passthrough"), estimator)


def mlp(task: str, seed: int, names: Names) -> BaseEstimator:
    if not is_regression(task):
        return scaled(MLPClassifier(random_state=seed), names)
    network = scaled(MLPRegressor(random_state=seed), names)
    return TransformedTargetRegressor(network, transformer=StandardScaler())


def linear(task: str, seed: int, names: Names) -> BaseEstimator:
    return scaled(Ridge() if is_regression(task) else LogisticRegression(), names)


def splines(task: str, seed: int, names: Names) -> BaseEstimator:
    return scaled(Ridge() if is_regression(task) else LogisticRegression(), names, SplineTransformer())


def realmlp(task: str, seed: int, names: Names) -> BaseEstimator:
    """It refuses missing numbers: they are the mean, beside a column that says so."""
    from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

    kind = RealMLP_TD_Regressor if is_regression(task) else RealMLP_TD_Classifier
    return make_pipeline(FilledNumbers(), kind(device="cpu", n_threads=1, random_state=seed))


def tabm(task: str, seed: int, names: Names) -> BaseEstimator:
    """It refuses missing numbers: they are the mean, beside a column that says so."""
    from pytabkit import TabM_D_Classifier, TabM_D_Regressor

    kind = TabM_D_Regressor if is_regression(task) else TabM_D_Classifier
    return make_pipeline(FilledNumbers(), kind(device="cpu", n_threads=1, random_state=seed))


METHODS = {
    ATLAS: Method("ATLAS", "atlas_splines", atlas),
    BOOSTING: Method("HistGradientBoosting", "sklearn", boosting),
    "lightgbm": Method("LightGBM", "lightgbm", lightgbm),
    "xgboost": Method("XGBoost", "xgboost", xgboost),
    CATBOOST: Method("CatBoost", "catboost", catboost),
    "ebm": Method("EBM", "interpret", ebm, most_rows=2500, most_columns=6),
    "forest": Method("random forest", "sklearn", forest),
    "mlp": Method("MLP", "sklearn", mlp),
    "linear": Method("linear", "sklearn", linear),
    "splines": Method("splines, linear", "sklearn", splines),
    "realmlp": Method("RealMLP", "pytabkit", realmlp, most_rows=5000),
    "tabm": Method("TabM", "pytabkit", tabm, most_rows=600),
}
