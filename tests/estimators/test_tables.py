"""Estimators that the command fitted to a table, as `load` gives them to Python."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command import HEADER, SMALL, homes, ok, records, write_csv

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.io.estimators import take_encoding
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import Column, Encoding, frame

DATED = [*HEADER[:4], "sold", "price"]


def dated(rows, seed):
    """Rows of homes with the day on which each was sold, as a German table has it."""
    found = homes(rows, seed=seed)
    return [(*row[:4], f"{1 + k % 28:02}.{1 + k % 12:02}.2024", row[4]) for k, row in enumerate(found)]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A folder with a table, more rows of it, and models of both kinds."""
    folder = tmp_path_factory.mktemp("homes")
    write_csv(folder / "homes.csv", DATED, dated(120, 0))
    write_csv(folder / "new.csv", DATED, dated(40, 1))
    ok("fit", folder / "homes.csv", "-t", "price", "-o", folder / "homes.atlas", *SMALL)
    options = ["-t", "garden", "--ignore", "price"]
    ok("fit", folder / "homes.csv", *options, "-o", folder / "gardens.atlas", *SMALL)
    return folder


def predicted(folder, model, column):
    ok("predict", folder / model, folder / "new.csv", "-o", folder / "out.csv", "--force")
    return [row[column] for row in records(folder / "out.csv")]


def test_a_loaded_estimator_predicts_frames_and_dictionaries_as_the_command_does(table):
    model, rows = load(table / "homes.atlas"), pd.read_csv(table / "new.csv")
    expected = np.array(predicted(table, "homes.atlas", "price_predicted"), float)
    whole = [None if pd.isna(row["age"]) else row["age"] for row in rows.to_dict("records")]
    dictionaries = [{**row, "age": age} for row, age in zip(rows.to_dict("records"), whole, strict=True)]
    for X in (
        rows,  # with the target among its columns
        rows.drop(columns="price"),
        rows[rows.columns[::-1]],
        pl.read_csv(table / "new.csv"),
        pa.Table.from_pandas(rows),
        dictionaries,
        [{key: value for key, value in row.items() if value is not None} for row in dictionaries],
        rows.assign(sold=pd.to_datetime(rows["sold"], format="%d.%m.%Y")),
    ):
        assert model.predict(X).tolist() == expected.tolist()
    low, high = model.predict_interval(rows)
    assert (low <= high).all()
    assert model.column_names == ("size", "age", "city", "garden", "sold")
    assert model.encoding_.target == "price"


def test_a_loaded_classifier_has_the_classes_of_the_table(table):
    model, rows = load(table / "gardens.atlas"), pd.read_csv(table / "new.csv")
    assert model.encoding_.left_out == ("price",)
    assert model.predict(rows).tolist() == predicted(table, "gardens.atlas", "garden_predicted")
    assert model.encoding_.classes is None
    assert model._table.classes == ("no", "yes")


def test_updates_in_python_and_by_the_command_are_the_same(table):
    rows = pd.read_csv(table / "new.csv").assign(city="Dover")
    rows.to_csv(table / "dover.csv", index=False)
    ok("update", table / "homes.atlas", table / "dover.csv", "-o", table / "updated.atlas", "--seed", "0")
    model = load(table / "homes.atlas")
    model.partial_fit(rows, rows["price"])
    assert model.encoding_.columns[2].others == ("Dover",)
    save(model, table / "python.atlas")
    assert "are the same function" in ok("diff", table / "updated.atlas", table / "python.atlas").output
    assert (load(table / "updated.atlas").predict(rows) == model.predict(rows)).all()
    assert (model.revert(1).predict(rows) == load(table / "homes.atlas").predict(rows)).all()


def test_a_column_that_all_rows_lack_is_missing_and_an_unknown_one_is_refused(table):
    model, rows = load(table / "homes.atlas"), pd.read_csv(table / "new.csv")
    lacking = rows.drop(columns="age")
    rows_alone = model.predict(lacking.to_dict("records"))
    assert (model.predict(lacking.assign(age=np.nan)) == rows_alone).all()
    with pytest.raises(ValueError, match=r"(?s)yet now missing.*age"):
        model.predict(lacking)
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*rooms"):
        model.predict(rows.assign(rooms=3))
    with pytest.raises(ValueError, match=r"X has the column 'rooms', which the model has not seen"):
        model.partial_fit(rows.assign(rooms=3), rows["price"])


def test_rows_that_are_encoded_are_not_encoded_again(table):
    model, rows = load(table / "homes.atlas"), pd.read_csv(table / "new.csv")
    X = EncodedRows(model._inputs(rows))
    assert (model.predict(X) == model.predict(rows)).all()
    assert (model.predict(X[:5]) == model.predict(rows)[:5]).all()
    with pytest.raises(ValueError, match=r"X is encoded as 2 inputs, and the model has \d+; encode it with"):
        model.predict(EncodedRows(X.values[:, :2]))


def test_rows_as_dictionaries_are_fitted_too():
    random = np.random.default_rng(0)
    rows = [{"size": size, "kind": "ab"[k % 2]} for k, size in enumerate(random.random(80))]
    y = [row["size"] + (row["kind"] == "b") for row in rows]
    options = {"members": 1, "features": 30, "random_state": 0}
    model = AtlasRegressor(**options).fit(rows, y)
    same = AtlasRegressor(**options).fit(pd.DataFrame(rows), y)
    assert (model.predict(rows) == same.predict(pd.DataFrame(rows))).all()
    assert model.feature_names_in_.tolist() == ["size", "kind"]
    numbers = [{"size": row["size"], "width": 1.0 - row["size"]} for row in rows]
    model = AtlasRegressor(missing="learn", **options).fit(numbers, y)
    lacking = model.predict([{"width": 0.5}])
    assert lacking == model.predict(pd.DataFrame({"size": [np.nan], "width": [0.5]}))


def test_an_encoding_of_another_model_is_refused():
    columns = (Column("size"), Column("city", ("Aarhus", "Bergen")))
    X = np.column_stack([np.arange(60.0), np.arange(60) % 2])
    small = {"members": 1, "features": 0, "random_state": 0}
    named = frame(["size", "city"], list(X.T))
    regressor = AtlasRegressor(**small).fit(named, X[:, 0])
    nameless = AtlasRegressor(**small).fit(X, X[:, 0])
    classifier = AtlasClassifier(**small).fit(named, np.array(["a", "b"])[X[:, 1].astype(int)])
    for estimator, encoding in (
        (regressor, Encoding((Column("size"),), "price")),
        (regressor, Encoding(columns, "price", ("a", "c"))),
        (nameless, Encoding(columns, "price")),
        (classifier, Encoding(columns, "price")),
        (classifier, Encoding(columns, "price", ("a", "c"))),
    ):
        with pytest.raises(ValueError, match="its table does not go with its model"):
            take_encoding(estimator, encoding)
