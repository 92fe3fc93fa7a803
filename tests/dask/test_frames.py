import copy

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cluster_rows import in_chunks, rows_and_targets

from atlas_splines.dask import DaskAtlasClassifier, DaskAtlasRegressor
from atlas_splines.model.atlas import state_of
from atlas_splines.tables.source import TableError
from atlas_splines.updates.incremental import needed_pool

SMALL = {"sample": 800, "features": 50, "members": 1, "random_state": 0}
COLUMNS = ["size", "kind", "built", "district"]


def sales(rows=3000, seed=0):
    """Numbers, texts, dates and categories, of which each table has a few that are rare."""
    random = np.random.default_rng(seed)
    kind = random.choice(["flat", "house", "villa"], rows).astype(object)
    kind[7] = "castle"  # most likely not in the sample
    days = random.integers(0, 1000, rows)
    district = random.integers(0, 30, rows)
    frame = pd.DataFrame({"size": random.random(rows), "kind": kind})
    frame["built"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D")
    frame["district"] = pd.Categorical(district)
    frame["price"] = frame["size"] + 2 * (kind == "house") + district / 30 + days / 1000
    return frame


def regressor(**options):
    return DaskAtlasRegressor(**{**SMALL, **options})


def fit_to(frame, partitions=3, model=None):
    table = dd.from_pandas(frame, npartitions=partitions, sort=False)
    return (model or regressor()).fit(table[COLUMNS], table["price"])


@pytest.fixture(scope="module")
def fitted(client):
    return fit_to(sales())


def test_texts_categories_and_dates_become_numbers(fitted):
    frame = sales()
    table = dd.from_pandas(frame, npartitions=5)
    assert needed_pool(state_of(fitted.model_)).total.count == len(frame)
    assert fitted.score(table[COLUMNS], table["price"]) > 0.95
    local = fitted.to_local()
    assert local.feature_names_in_.tolist() == COLUMNS
    assert (fitted.predict(table[COLUMNS]).compute() == local.predict(frame[COLUMNS])).all()
    kind, district = local.encoding_.columns[1], local.encoding_.columns[3]
    assert kind.categories == ("castle", "flat", "house", "villa")
    assert len(district.categories) == 30
    assert list(map(int, district.categories[:3])) < list(map(int, district.categories[-3:]))


def test_bits_of_frames_do_not_depend_on_partitions_or_order(fitted):
    frame = sales()
    other = frame.sample(frac=1, random_state=1, ignore_index=True)
    other["kind"] = other["kind"].astype(object)
    again = fit_to(other, partitions=7)
    assert again.model_.fingerprint() == fitted.model_.fingerprint()
    assert again.to_local().encoding_ == fitted.to_local().encoding_


def test_updates_of_frames_know_new_categories(fitted):
    frame = sales(2000, seed=1)
    frame.loc[100:110, "kind"] = "barn"
    prints = set()
    for partitions in (2, 5):
        table, model = dd.from_pandas(frame, npartitions=partitions), copy.copy(fitted)
        model.partial_fit(table[COLUMNS], table["price"])
        assert model.to_local().encoding_.columns[1].others == ("barn",)
        assert model.update_log_[0].rows == 2000
        prints.add(model.model_.fingerprint())
    assert len(prints) == 1
    assert fitted.to_local().encoding_.columns[1].others == ()
    assert fitted.footprint(table[COLUMNS]).volume == 1


@pytest.mark.slow
def test_charts_of_frames_that_do_not_meet(fitted):
    frame = sales(60, seed=2).assign(kind="flat")
    near, far = (frame.assign(size=middle + frame["size"] / 20) for middle in (0.1, 0.8))
    far = far.assign(kind="barn")
    pairs = [(table[COLUMNS], table["price"]) for table in (near, far)]
    lazy = [tuple(dd.from_pandas(part, npartitions=2) for part in pair) for pair in pairs]
    together = copy.copy(fitted).set_params(retention="chart", max_iter=3).partial_fit_each(lazy)
    local = fitted.to_local().set_params(retention="chart", max_iter=3)
    for pair in pairs:
        local.partial_fit(*pair)
    assert together.to_local().encoding_ == local.encoding_
    assert [done.kind for done in together.update_log_] == ["chart", "chart"]


def test_texts_that_are_too_many_are_refused(client, monkeypatch):
    monkeypatch.setattr("atlas_splines.tables.inference.MOST_CATEGORIES", 3)
    with pytest.raises(TableError, match="X, column 'kind': there are more than 3 distinct strings; "):
        fit_to(sales().drop(columns="district").assign(district=1.0))


def test_a_column_that_the_sample_knows_nothing_of(client):
    frame = sales().assign(kind=None)
    frame.loc[:2, "kind"] = ["flat", "house", "villa"]
    model = fit_to(frame, model=regressor(sample=100, missing="learn"))
    assert model.to_local().encoding_.columns[1].categories == ("flat", "house", "villa")


def test_classes_that_few_partitions_have(client):
    frame = sales()
    frame["sold"] = np.where(frame["kind"] == "house", "yes", "no")
    frame = frame.sort_values("sold")  # so that most partitions have one class
    table = dd.from_pandas(frame, npartitions=4, sort=False)
    model = DaskAtlasClassifier(**SMALL).fit(table[COLUMNS], table["sold"])
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(table[COLUMNS], table["sold"]) > 0.99
    assert model.predict_proba(table[COLUMNS]).compute().shape == (3000, 2)


def test_dates_are_read_as_is_said(client):
    model = fit_to(sales(), model=regressor(dates={"built": "trend"}))
    assert "built.trend" in model.to_local().encoding_.inputs
    assert "built.yearday" not in model.to_local().encoding_.inputs


def test_frames_and_arrays_come_together(client):
    X, y = rows_and_targets(2000)
    lazy_X, lazy_y = in_chunks(X, y, 500)
    table = dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y), npartitions=4)
    frame = table[["a", "b", "c"]]
    prints = {
        regressor().fit(inputs, target).model_.fingerprint()
        for inputs, target in (
            (lazy_X, lazy_y),
            (frame, lazy_y),
            (lazy_X.rechunk((500, 2)), table["y"]),
        )
    }
    assert len(prints) == 1


def test_predictions_of_a_file_go_with_its_columns(client, tmp_path):
    X, y = rows_and_targets(1200)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, unused="text" * 5)
    for k in range(4):
        frame[k * 300 : (k + 1) * 300].to_parquet(tmp_path / f"{k}.parquet")
    table = dd.read_parquet(
        tmp_path
    )  # Dask reads several small files at once where few columns are asked for
    model = regressor(sample=300).fit(table[["a", "b", "c"]], table["y"])
    errors = table["y"].to_dask_array() - model.predict(table[["a", "b", "c"]])
    assert (errors.compute() == y - model.to_local().predict(frame[["a", "b", "c"]])).all()
    low, high = model.predict_interval(table[["a", "b", "c"]], [0.5, 0.9])
    assert (high - low).compute().shape == (1200, 2)


def test_columns_without_names_of_their_own(client):
    X, y = rows_and_targets(1000)
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    model = regressor(sample=300).fit(frame, dd.from_pandas(pd.Series(y), npartitions=2))
    assert (model.predict(frame).compute() == model.to_local().predict(X)).all()


def test_other_columns_are_refused_before_anything_is_computed(fitted):
    table = dd.from_pandas(sales(100), npartitions=2)
    for ask in (fitted.predict, fitted.predict_interval, fitted.footprint):
        with pytest.raises(ValueError, match="feature names should match"):
            ask(table[COLUMNS[:2]])
