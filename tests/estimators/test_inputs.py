import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from frames import QUICK, homes_frame
from scipy import sparse

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.analysis.variances import variance_shares

FRAME, PRICE = homes_frame()


@pytest.fixture(scope="module")
def fitted():
    return AtlasRegressor(**QUICK).fit(FRAME, PRICE)


@pytest.fixture
def model(fitted):
    return pickle.loads(pickle.dumps(fitted))


def test_a_frame_goes_straight_into_fit(fitted):
    assert fitted.score(FRAME, PRICE) > 0.97
    assert fitted.column_names == tuple(FRAME.columns) == tuple(fitted.feature_names_in_)
    assert fitted.n_features_in_ == 7
    assert fitted.encoding_.target == "price"
    assert fitted.fit_record_.rows == 150
    low, high = fitted.predict_interval(FRAME)
    assert (low < high).all()
    assert fitted.support(FRAME).shape == fitted.in_domain(FRAME).shape == (150,)


def test_importances_are_of_the_columns(fitted):
    importances, strengths = fitted.feature_importances_, fitted.interaction_strengths()
    assert importances.shape == (7,)
    assert strengths.shape == (7, 7)
    assert importances.sum() == pytest.approx(1)
    shares = variance_shares(fitted.model_)
    assert importances[1] == pytest.approx(shares.total[1:4].sum() / shares.total.sum())  # three cities
    alone = np.tril(shares.pairs[1:4, 1:4]).sum()
    assert strengths[1, 1] == pytest.approx(alone)


def test_numbers_keep_their_bits():
    numbers = FRAME[["size"]].assign(garden=FRAME["garden"] == True, size=FRAME["size"].fillna(50))  # noqa: E712
    named = AtlasRegressor(**QUICK).fit(numbers, PRICE)
    array = AtlasRegressor(**QUICK).fit(numbers.to_numpy(float), PRICE)
    assert not hasattr(named, "encoding_")
    assert (named.predict(numbers) == array.predict(numbers.to_numpy(float))).all()
    objects = AtlasRegressor(**QUICK).fit(numbers.astype(object), PRICE)
    assert (objects.predict(numbers) == array.predict(numbers.to_numpy(float))).all()


def test_a_fit_to_numbers_forgets_the_columns_of_an_earlier_one(model):
    model.fit(np.eye(7), np.arange(7))
    assert not hasattr(model, "encoding_")
    assert model.predict(np.eye(7)).shape == (7,)


def test_new_categories_are_learned(model):
    before = model.predict(FRAME)
    new = FRAME[:60].assign(city="Dover", street="new street")
    model.partial_fit(new, PRICE[:60] + 100)
    assert model.encoding_.columns[1].others == ("Dover",)
    assert model.encoding_.columns[6].others == ("new street",)
    assert model.update_log_[0].rows == 60
    model.revert(1)
    assert (model.predict(FRAME) == before).all()
    assert [column.others for column in model.encoding_.columns] == [()] * 7
    model.fit_more(FRAME[:9].assign(city="Essen"), PRICE[:9])
    assert model.encoding_.columns[1].others == ("Essen",)
    model.fit_more(FRAME[9:19].assign(city="Dover"), PRICE[9:19])
    assert model.encoding_.columns[1].others == ("Dover", "Essen")  # all of them are of the fit
    model.forget(FRAME[:9].assign(city="Essen"), PRICE[:9])
    assert model.encoding_.columns[1].others == ("Dover",)


def test_what_fails_leaves_the_categories_as_they_were(model):
    new = FRAME[:9].assign(city="Dover")
    with pytest.raises(ValueError, match="y contains NaN"):
        model.partial_fit(new, np.full(9, np.nan))
    assert model.encoding_.columns[1].others == ()


def test_without_learning_missing_values_they_are_refused():
    whole = FRAME.dropna()
    model = AtlasRegressor(**{**QUICK, "missing": "error"}).fit(whole, PRICE[whole.index])
    way_out = 'fill it in, or fit with missing="learn"'
    with pytest.raises(ValueError, match=f"X contains NaN, in row 1 of column 'city'; {way_out}"):
        model.predict(whole[:3].assign(city=["Cadiz", None, "Cadiz"]))
    with pytest.raises(ValueError, match=f"X contains NaN, in row 0 of column 'when.hour'; {way_out}"):
        model.predict(whole[:1].assign(when=pd.NaT))
    message = "X, row 0, column 'city': 'Dover' was not there in fit, which had 'Aarhus', 'Bergen', 'Cadiz'; correct it, learn it "
    with pytest.raises(
        ValueError, match=message + 'with partial_fit, or fit with missing="learn", which reads it as missing'
    ):
        model.predict(whole[:1].assign(city="Dover"))


def test_columns_are_checked_as_everywhere_in_scikit_learn(fitted):
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(FRAME[FRAME.columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(FRAME[["size"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        nameless = fitted.predict(FRAME.astype(object).to_numpy())
    assert (nameless == fitted.predict(FRAME)).all()


def test_ways_to_go_along_columns_of_a_frame():
    X = FRAME[["size", "city", "when"]]
    for ways in ({"size": -1, "when.trend": 1}, {"size": -1}):
        model = AtlasRegressor(**QUICK, monotonic_cst=ways).fit(X, PRICE)
        larger = X.assign(size=X["size"] + 30)
        assert (model.predict(larger) <= model.predict(X) + 1e-3).all()
    by_position = AtlasRegressor(**QUICK, monotonic_cst=[-1, 0, 0]).fit(X, PRICE)
    assert (by_position.predict(X) == model.predict(X)).all()
    for name in ("city", "city=Cadiz"):
        with pytest.raises(
            ValueError, match="monotonic_cst names 'city', whose categories have no order; leave it out"
        ):
            AtlasRegressor(**QUICK, monotonic_cst={name: 1}).fit(X, PRICE)
    with pytest.raises(
        ValueError, match=r"monotonic_cst names 'when', a date; name a part of it, such as 'when\.trend'"
    ):
        AtlasRegressor(**QUICK, monotonic_cst=[0, 0, 1]).fit(X, PRICE)


def test_parts_of_dates_are_chosen(tmp_path):
    random = np.random.default_rng(0)
    days = random.permutation(60) + 1
    texts = [f"{day % 28 + 1}/{day % 12 + 1}/2024" for day in days]
    frame = pd.DataFrame(
        {"sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(days, unit="h"), "paid": texts}
    )
    dates = {"sold": "hour,trend", "paid": "day-first,trend"}
    model = AtlasRegressor(dates=dates, members=1, random_state=0).fit(frame, days)
    assert model.encoding_.inputs == ["sold.hour", "sold.trend", "paid.trend"]
    save(model, tmp_path / "m.atlas")
    assert load(tmp_path / "m.atlas").dates == dates
    with pytest.raises(ValueError, match="dates names the column 'told', which X does not have"):
        AtlasRegressor(dates={"told": "hour"}).fit(frame, days)
    with pytest.raises(ValueError, match="dates have no 'minute'; name some of hour, weekday"):
        AtlasRegressor(dates={"sold": "minute"}).fit(frame, days)
    with pytest.raises(ValueError, match="dates must be a dict of parts by column"):
        AtlasRegressor(dates=["sold"]).fit(frame, days)


def test_limits_are_of_the_columns_of_numbers():
    X = FRAME[["size", "city"]].fillna({"size": 90})
    model = AtlasRegressor(**QUICK, domain=[(0, 900), (0, 0.1)]).fit(X, PRICE)
    assert model.in_domain(X.assign(size=800)).all()
    with pytest.raises(ValueError, match=re.escape("in column 'size', outside its domain (0, 90); widen it")):
        AtlasRegressor(**QUICK, domain=[(0, 90), (0, 1)]).fit(X, PRICE)


def test_an_index_that_pandas_stored_is_no_column(tmp_path):
    FRAME[["size", "city"]].sample(frac=1, random_state=0).to_parquet(tmp_path / "homes.parquet")
    stored = pl.read_parquet(tmp_path / "homes.parquet")
    assert "__index_level_0__" in stored.columns
    for kept in (["size"], ["size", "city"]):
        X = stored.select([*kept, "__index_level_0__"])
        model = AtlasRegressor(**QUICK).fit(X, PRICE)
        assert model.feature_names_in_.tolist() == kept
        assert (model.predict(X) == model.predict(X.select(kept))).all()


def test_sparse_matrices_are_refused_with_what_to_do():
    for X in (sparse.eye_array(1000, format="csr"), sparse.csc_matrix((1000, 1000))):
        with pytest.raises(
            TypeError,
            match=re.escape(
                "X is a sparse matrix, and dense data is needed; give X.toarray(), which takes 8 MB, or fewer columns"
            ),
        ):
            AtlasRegressor(**QUICK).fit(X, np.ones(1000))


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (FRAME["city"].fillna("Cadiz"), "O"),
        (FRAME["city"].fillna("Cadiz").astype("category"), "O"),
        (FRAME["garden"] == True, "b"),  # noqa: E712
        (pl.Series(FRAME["city"].fillna("Cadiz").tolist(), dtype=pl.Categorical), "O"),
    ],
    ids=["texts", "categories", "truth values", "polars"],
)
def test_classes_of_a_frame(labels, kind, tmp_path):
    model = AtlasClassifier(**QUICK).fit(FRAME, labels)
    assert model.classes_.dtype.kind == kind
    assert model.score(FRAME, np.asarray(labels)) > 0.9
    save(model, tmp_path / "m.atlas")
    assert (load(tmp_path / "m.atlas").predict(FRAME) == model.predict(FRAME)).all()


def test_encoded_rows_are_predicted_as_the_frame_they_come_from():
    import pyarrow as pa

    from atlas_splines.estimators.inputs import EncodedRows

    random = np.random.default_rng(0)
    X = pa.table({"size": random.random(60), "kind": random.choice(["flat", "house", "hut"], 60)})
    model = AtlasRegressor(members=1, random_state=0).fit(X, random.random(60))
    values = model.encode(X)
    assert values.shape == (60, 4)
    assert (values[:, 0] == X["size"].to_numpy()).all()
    assert values[:, 1:].sum() == 60
    rows = EncodedRows(values)
    assert (model.predict(rows) == model.predict(X)).all()
    assert (model.support(rows) == model.support(X)).all()
    assert (np.asarray(rows) == values).all()
    numbers = AtlasRegressor(members=1, random_state=0).fit(values[:, :1], random.random(60))
    assert (numbers.encode(values[:, :1]) == values[:, :1]).all()
    with pytest.raises(ValueError, match="X contains NaN, in row 0 of column 0"):
        numbers.encode([[np.nan]])
