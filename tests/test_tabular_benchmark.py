"""How `benchmarks/tabular` hands tables to methods: categories of many levels, unseen and missing ones."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks" / "tabular"))
from opponents import ATLAS, METHODS, OTHER, CommonLevels
from table_sets import categories, prepared

LEVELS, FITTED, FRESH = 300, 900, 100  # HistGradientBoosting takes 255 levels


@pytest.fixture
def table():
    """Rows to fit have each level three times; among the fresh ones is a level that is new. Some values are missing."""
    random = np.random.default_rng(0)
    shops = [f"shop{row % LEVELS}" for row in range(FITTED + FRESH)]
    frame = pd.DataFrame(
        {"shop": shops, "size": random.random(len(shops)), "price": random.random(len(shops))}
    )
    frame.loc[FITTED + 1, "shop"] = "new"
    frame.loc[[5, FITTED + 5], "shop"] = None
    frame.loc[[6, FITTED + 6], "size"] = np.nan
    return frame


def test_frames_keep_levels_and_missing_values_and_lose_rows_without_a_target(table):
    table.loc[3, "price"] = np.nan
    X, y = prepared(table, "price")
    assert len(X) == len(y) == FITTED + FRESH - 1
    assert X["shop"].nunique() == LEVELS + 1
    assert X.isna().sum().to_dict() == {"shop": 2, "size": 2}


def test_atlas_gets_the_columns_themselves(table):
    X, y = prepared(table, "price")
    model = METHODS[ATLAS].make("regression", 0, categories(X)).fit(X, y)
    assert [column.name for column in model.encoding_.columns] == ["shop", "size"]


@pytest.mark.filterwarnings("ignore")  # of opponents, as in the benchmark
@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.installed])
def test_every_method_takes_many_new_and_missing_levels(table, method, task):
    X, y = prepared(table, "price")
    y = y if task == "regression" else (y > 0.5).astype(int)
    model = METHODS[method].make(task, 0, categories(X)).fit(X[:FITTED], y[:FITTED])
    assert np.isfinite(model.predict(X[FITTED:])).all()


def test_common_levels_are_those_of_the_fit_and_the_rest_is_one():
    column = pd.Series(["a", "b", "b", "c", "c", None, "d"], dtype="category")
    fewer = CommonLevels(["x"], most=3).fit(pd.DataFrame({"x": column[:6]}))
    found = fewer.transform(pd.DataFrame({"x": column}))["x"]
    assert found.cat.categories.tolist() == ["b", "c", OTHER]
    assert found.astype(object).where(found.notna(), None).tolist() == [
        OTHER,
        "b",
        "b",
        "c",
        "c",
        None,
        OTHER,
    ]
