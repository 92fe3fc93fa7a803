from datetime import date
from enum import Enum

import numpy as np
import pandas as pd
import polars as pl
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.estimators.targets import name_of_target

X = np.arange(4.0)[:, None]
SMALL = {"density": 0, "terms": 0, "members": 1, "max_iter": 1, "features": 0}
DATES = "y holds dates or times, which are no target; turn them into numbers, such as days since a start"


class Size(Enum):
    LARGE = "large"
    SMALL = "small"


@pytest.mark.parametrize("maker", [AtlasRegressor, AtlasClassifier])
@pytest.mark.parametrize(
    "y",
    [
        pd.date_range("2024-01-01", periods=4),
        pd.Series(pd.date_range("2024-01-01", periods=4, tz="UTC")),
        pl.Series([date(2024, 1, k + 1) for k in range(4)]),
        [date(2024, 1, k + 1) for k in range(4)],
        pd.to_timedelta([1, 2, 3, 4], unit="h"),
    ],
    ids=["pandas", "with zone", "polars", "dates", "durations"],
)
def test_dates_are_no_target(maker, y):
    with pytest.raises(ValueError, match=f"^{DATES}$"):
        maker(**SMALL).fit(X, y)


def test_members_of_an_enumeration_are_classes():
    y = [Size.LARGE, Size.SMALL, Size.LARGE, Size.SMALL]
    model = AtlasClassifier(**SMALL).fit(X, y)
    assert model.classes_.tolist() == ["large", "small"]
    assert model.fit(X, pd.Series(y)).classes_.tolist() == ["large", "small"]


def test_a_class_that_is_missing():
    for missing in (None, np.nan, pd.NA):
        with pytest.raises(ValueError, match="y is missing in row 2; fill it in, or leave that row out"):
            AtlasClassifier(**SMALL).fit(X, pd.Series(["a", "b", missing, "a"], dtype=object))


def test_texts_are_no_numbers():
    for y in (["a", "b", "a", "b"], pd.Series([1, 2, "a", 4], dtype=object)):
        with pytest.raises(
            ValueError, match=r"y has 'a' in row \d, which is no number; for classes use AtlasClassifier"
        ):
            AtlasRegressor(**SMALL).fit(X, y)
    assert AtlasRegressor(**SMALL).fit(X, pd.Series([1, 2, 3, 4.5], dtype=object)).predict(X).shape == (4,)


def test_the_name_of_a_target():
    assert name_of_target([1, 2]) == name_of_target(np.ones(2)) == name_of_target(pd.Series([1, 2])) == "y"
    assert (
        name_of_target(pd.Series([1, 2], name="price"))
        == name_of_target(pl.DataFrame({"price": [1]}))
        == "price"
    )
    assert name_of_target(pd.DataFrame({"a": [1], "b": [2]})) == "y"
