import pickle

import dask.array as da
import dask.dataframe as dd
import level_rows
import numpy as np
import pandas as pd
import pytest
from cluster_rows import in_chunks, rows_and_targets
from distributed import Client
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

from atlas_splines import AtlasRegressor, UpdateRefused, UpdateWarning
from atlas_splines.dask import DaskAtlasClassifier, DaskAtlasRegressor
from atlas_splines.dask import base as module
from atlas_splines.dask import clusters as digests
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.log import RowDigest
from atlas_splines.updates.routing import needed_pool

SMALL = {"sample": 800, "features": 50, "members": 1, "random_state": 0}
X, Y = rows_and_targets()


def regressor(**options):
    return DaskAtlasRegressor(**{**SMALL, **options})


@pytest.fixture(scope="module")
def fitted(client):
    return regressor().fit(*in_chunks(X, Y, 1500))


def copy_of(model):
    return pickle.loads(pickle.dumps(model))


def test_all_rows_are_learned(fitted):
    assert fitted.score(*in_chunks(X, Y, 700)) > 0.98
    assert needed_pool(state_of(fitted.model_)).total.count == len(X)
    assert fitted.update_log_ == []
    record = fitted.fit_record_
    assert record.rows == len(X)
    assert record.held_out == 80  # a tenth of the sample
    assert record.score > 0.98


@pytest.mark.slow
def test_fewer_features_where_errors_hardly_grow(client):
    options = {"sample": 1500, "features": 250}
    every, fewer = (regressor(**options, tolerance=share).fit(*in_chunks(X, Y, 3000)) for share in (0, 0.01))
    sizes = [needed_pool(state_of(model.model_)).total.features for model in (every, fewer)]
    assert sizes[1] < sizes[0] - 50
    truth, new = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 2], X
    errors = [np.std(model.to_local().predict(new) - truth) for model in (every, fewer)]
    assert errors[1] < max(1.5 * errors[0], 0.02)
    other = regressor(**options, tolerance=0.01).fit(*in_chunks(X, Y, 700, slice(None, None, -1)))
    assert other.model_.fingerprint() == fewer.model_.fingerprint()


def test_rows_are_kept_up_to_a_budget(client):
    few = regressor(max_rows=1200).fit(*in_chunks(X, Y, 1500))
    rows = needed_pool(state_of(few.model_)).memory.rows
    assert len(rows) == 1200
    every = regressor().fit(*in_chunks(X, Y, 1500))
    rows = needed_pool(state_of(every.model_)).memory.rows
    assert len(rows) == len(X)
    assert sorted(rows.targets[:, 0]) == sorted(every.to_local()._rows(X, Y, np.ones(len(X))).targets[:, 0])
    new_X, new_y = rows_and_targets(2001, seed=5)
    few.partial_fit(*in_chunks(new_X, new_y, 700))
    rows = needed_pool(state_of(few.model_)).memory.newest
    assert (len(rows), set(rows.updates)) == (1200, {1})  # the oldest have left
    every.partial_fit(*in_chunks(new_X, new_y, 700))
    rows = needed_pool(state_of(every.model_)).memory.rows
    assert np.bincount(rows.updates).tolist() == [6000, 2001]


def test_predictions_are_lazy_and_those_of_the_local_model(fitted):
    lazy = fitted.predict(in_chunks(X, Y, 700)[0])
    assert isinstance(lazy, da.Array)
    assert lazy.chunks[0] == in_chunks(X, Y, 700)[0].chunks[0]
    local = fitted.to_local()
    assert type(local) is AtlasRegressor
    assert (lazy.compute() == local.predict(X)).all()
    assert local.get_params() == {
        **AtlasRegressor().get_params(),
        "features": 50,
        "members": 1,
        "random_state": 0,
    }


def test_intervals_are_lazy_and_hold_what_they_promise(fitted):
    lazy_X = in_chunks(X, Y, 700)[0]
    low, high = fitted.predict_interval(lazy_X, 0.8)
    assert low.shape == high.shape == (len(X),)
    ends = fitted.to_local().predict_interval(X, 0.8)
    assert all((lazy.compute() == end).all() for lazy, end in zip((low, high), ends, strict=True))
    new_X, new_y = rows_and_targets(4000, seed=9)
    low, high = (
        end.compute() for end in fitted.predict_interval(in_chunks(new_X, new_y, 2500)[0], [0.5, 0.9])
    )
    assert low.shape == (4000, 2)
    inside = ((new_y[:, None] >= low) & (new_y[:, None] <= high)).mean(axis=0)
    assert np.abs(inside - [0.5, 0.9]).max() < 0.1


@pytest.mark.parametrize("kept", [{"memory": "sums"}, {"max_rows": 1000}])
def test_what_comes_to_the_client_does_not_grow_with_the_rows(client, monkeypatch, kept):
    sizes, gather = [], Client._gather

    async def weighed(self, *arguments, **options):
        found = await gather(self, *arguments, **options)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(Client, "_gather", weighed)
    monkeypatch.setattr(digests, "RANGE_ROWS", 500)
    for rows in (3000, 6000):
        model = regressor(random_state=1, sample=1000, **kept).fit(*in_chunks(X[:rows], Y[:rows], 500))
        sample, sums = sizes
        assert sample < 1000 * 9 * 8 + 2000  # inputs, target, weight, hashes, count and what names them
        assert sums < 60**2 * 8 / 2 + 5000
        sizes.clear()
        model.partial_fit(*in_chunks(X[:rows], Y[:rows], 500))
        assert sizes[0] < 1000 * 9 * 8 + 2000
        assert sizes[1] < 60**2 * 8 / 2 + 5000
        assert len(sizes[2:]) == rows / 500
        assert max(sizes[2:]) < 700 * 16  # ranges of hashes, of about so many rows
        sizes.clear()


@pytest.mark.parametrize("rows", [6000, 999, 3001])
def test_partitions_and_order_do_not_matter(fitted, rows):
    order = np.random.default_rng(rows).permutation(len(X))
    other = regressor().fit(*in_chunks(X, Y, rows, order))
    assert other.model_.fingerprint() == fitted.model_.fingerprint()
    bits = needed_pool(state_of(other.model_)).total
    assert bits == needed_pool(state_of(fitted.model_)).total


def digest_of(model, X, y):
    digest = RowDigest()
    digest.add(*model.to_local()._checked(X, y, None))
    return digest.text


@pytest.mark.parametrize("retention", ["auto", "pool"])
def test_updates_do_not_depend_on_partitions_or_order(fitted, retention):
    new_X, new_y = rows_and_targets(2001, seed=5)
    order = np.random.default_rng(1).permutation(2001)
    prints = set()
    for rows, chosen in ((2001, slice(None)), (500, order)):
        model = copy_of(fitted).set_params(retention=retention)
        before = model.model_.fingerprint()
        model.partial_fit(*in_chunks(new_X, new_y + 0.1, rows, chosen))
        (done,) = model.update_log_
        assert (done.rows, done.kind) == (2001, "pool")
        assert ("decided on a sample of 800 of 2,001 rows, all learned" in done.reason) == (
            retention == "auto"
        )
        assert done.data == digest_of(model, new_X, new_y + 0.1)
        prints.add(model.model_.fingerprint())
        assert model.revert(1).model_.fingerprint() == before
    assert len(prints) == 1


def test_a_contradiction_in_one_place_opens_a_chart(fitted):
    random = np.random.default_rng(3)
    box = 0.3 + 0.2 * random.random((3000, 3))
    model = copy_of(fitted).partial_fit(*in_chunks(box, np.full(3000, 7.0), 1000))
    assert model.update_log_[0].kind == "chart"
    assert len(model.model_.charts) == 1
    pool = needed_pool(state_of(model.model_.charts[0].content))
    assert pool.total.count > 2000  # rows of all partitions, not of the sample alone
    assert abs(model.predict(in_chunks(box, box, 1000)[0]).compute() - 7).mean() < 0.1


def test_a_small_update_is_that_of_the_local_estimator(fitted):
    new_X, new_y = rows_and_targets(300, seed=6)
    model = copy_of(fitted).set_params(retention="chart")
    area = model.footprint(in_chunks(new_X, new_y, 100)[0])
    assert area.volume <= 1
    model.partial_fit(*in_chunks(new_X, new_y, 100))
    assert model.update_log_[0].kind == "chart"
    assert model.update_log_[0].rows == 300


def test_what_learns_all_rows_at_once_needs_a_sample_of_all_rows(fitted):
    model = copy_of(fitted).set_params(retention="chart")
    sentence = "retention='chart' learns all rows at once, and there are more than sample=800; use 'auto'"
    with pytest.raises(ValueError, match=sentence):
        model.partial_fit(*in_chunks(X, Y, 3000))
    with pytest.raises(ValueError, match=sentence):
        model.footprint(in_chunks(X, Y, 3000)[0])
    assert copy_of(fitted).footprint(in_chunks(X, Y, 3000)[0]).volume == 1


def test_a_table_that_fits_into_the_sample_is_fitted_as_a_whole(client):
    model = regressor(sample=6000, terms=0).fit(*in_chunks(X[:500], Y[:500], 200))
    assert needed_pool(state_of(model.model_)).base is not None
    assert needed_pool(state_of(model.model_)).total.count == 500


def test_frames_keep_their_names(client):
    frame = pd.DataFrame(X[:2000], columns=["a", "b", "c"]).assign(y=Y[:2000], w=1.0)
    table = dd.from_pandas(frame, npartitions=3)
    model = regressor().fit(table[["a", "b", "c"]], table["y"], table["w"])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    predicted = model.predict(table[["a", "b", "c"]])
    assert isinstance(predicted, da.Array)
    assert (predicted.compute() == model.to_local().predict(frame[["a", "b", "c"]])).all()
    arrays = regressor().fit(*in_chunks(X[:2000], Y[:2000], 600))
    assert arrays.model_.fingerprint() == model.model_.fingerprint()


@pytest.mark.slow
def test_empty_partitions_and_unknown_sizes(client):
    frame = pd.DataFrame(X[:2000], columns=["a", "b", "c"]).assign(y=Y[:2000])
    table = dd.from_pandas(frame, npartitions=4).reset_index(drop=True)
    part = table[table["a"] < 2]
    gone = dd.concat([part, part.partitions[0][part.partitions[0]["a"] > 2]])
    model = regressor().fit(gone[["a", "b", "c"]].to_dask_array(), gone["y"].to_dask_array())
    whole = regressor().fit(*in_chunks(X[:2000], Y[:2000], 2000))
    assert model.model_.fingerprint() == whole.model_.fingerprint()
    assert model.predict(gone[["a", "b", "c"]].to_dask_array()).compute().shape == (2000,)
    assert model.score(gone[["a", "b", "c"]].to_dask_array(), gone["y"].to_dask_array()) > 0.9


def test_several_targets_and_weights(client):
    both, weights = np.stack([Y, -2 * Y], axis=1), np.where(X[:, 0] < 0.5, 2.0, 0.0)
    lazy = [da.from_array(part, chunks=1700) for part in (X, both, weights)]
    lazy[:2] = [part.rechunk((1700, -1)) for part in lazy[:2]]
    model = regressor(features=40).fit(*lazy)
    assert model.predict(lazy[0]).shape == (6000, 2)
    assert model.score(*lazy) > 0.9
    local = model.to_local()
    assert model.score(*lazy) == pytest.approx(local.score(X, both, weights), abs=1e-9)


def test_conventions(client, fitted):
    assert fitted.client_ is client
    assert DaskAtlasRegressor(client=client).client_ is client
    assert clone(regressor()).get_params() == regressor().get_params()
    assert clone(DaskAtlasRegressor(client=client, members=1)).client is client
    assert clone(DaskAtlasRegressor(client=client, members=1)).members == 1
    assert repr(regressor()) == "DaskAtlasRegressor(features=50, members=1, random_state=0, sample=800)"
    assert is_regressor(regressor())
    assert is_classifier(DaskAtlasClassifier())
    assert not hasattr(regressor(), "model_")
    assert copy_of(fitted).model_.fingerprint() == fitted.model_.fingerprint()
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        regressor().update_log_  # noqa: B018
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        regressor().predict(in_chunks(X, Y, 3000)[0])
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        regressor().partial_fit_each([in_chunks(X, Y, 3000)])
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        DaskAtlasClassifier().predict_proba(in_chunks(X, Y, 3000)[0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        DaskAtlasRegressor(depth=6)


def test_what_is_no_table_of_these_columns_is_refused_at_once(fitted):
    lazy_X, lazy_y = in_chunks(X, Y, 3000)
    with pytest.raises(ValueError, match="X has 2 features, but AtlasRegressor is expecting 3"):
        fitted.predict(lazy_X[:, :2])
    with pytest.raises(ValueError, match="X has 1 dimensions; give rows and columns"):
        fitted.predict(lazy_X[:, 0])
    with pytest.raises(TypeError, match=r"numpy\.ndarray is not a Dask array or data frame; make one of it"):
        fitted.predict(X)
    with pytest.raises(ValueError, match="y is missing, or infinite, in some rows; leave these out"):
        fitted.score(lazy_X, da.where(lazy_y > 1, np.nan, lazy_y))


def test_no_client_is_named(monkeypatch):
    def none():
        raise ValueError

    monkeypatch.setattr(module, "default_client", none)
    with pytest.raises(ValueError, match=r"there is no Dask client; make one with distributed.Client\(\)"):
        regressor().fit(*in_chunks(X, Y, 3000))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"validation": "last"},
            'validation="last" needs an order or groups, which rows of partitions do not',
        ),
        ({"features": 0}, "features=0 keeps no statistics"),
        ({"warm_start": True}, "warm_start=True trains on all rows at once; use partial_fit"),
        ({"sample": 0}, "sample must be"),
        ({"tolerance": -0.1}, "tolerance must be a finite number of at least 0"),
        ({"domain": [(0.0, 0.5)] * 3}, "outside"),
    ],
)
def test_what_cannot_be_is_refused(client, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        regressor(**options).fit(*in_chunks(X, Y, 3000))


def test_rows_outside_a_given_domain_are_refused_wherever_they_are(client):
    far = X.copy()
    far[[0, -1], 0] = 5.0
    sample = regressor(sample=40, features=20, domain=[(0, 1)] * 3)
    with pytest.raises(ValueError, match="some rows of X lie outside the domain that was given; widen it"):
        sample.fit(*in_chunks(far, Y, 3000))
    assert not hasattr(sample, "model_")


def test_predictions_rise_where_they_must(client):
    model = regressor(monotonic_cst=[0, 0, 1]).fit(*in_chunks(X, Y - 2 * X[:, 2], 1500))  # they would fall
    line = np.stack([np.full(50, 0.5), np.full(50, 0.5), np.linspace(0, 1, 50)], axis=1)
    assert (np.diff(model.predict(da.from_array(line)).compute()) >= -1e-5).all()


def test_a_table_of_few_different_rows(client):
    inputs = np.repeat(np.eye(3), [1000, 2000, 3000], axis=0)
    y = inputs @ [1.0, 2.0, 3.0]
    order = np.random.default_rng(0).permutation(6000)
    models = [
        regressor().fit(*in_chunks(inputs, y, rows, order[::step])) for rows, step in ((900, 1), (5000, -1))
    ]
    assert models[0].model_.fingerprint() == models[1].model_.fingerprint()
    assert models[0].predict(da.from_array(np.eye(3))).compute().round(1).tolist() == [1, 2, 3]


def test_more_rows_than_can_be_summed_are_refused_before_they_are(client, monkeypatch):
    monkeypatch.setattr(module, "MOST_ROWS", 5000)
    with pytest.raises(OverflowError, match="X has 6,000 rows, and sums of more than 5,000 do not fit"):
        regressor().fit(*in_chunks(X, Y, 3000))


def test_sums_by_level_come_from_workers(client):
    rows = level_rows.known_rows(1500, 0)
    options = {**SMALL, "domain": [(0, 1)] * 2, "retention": "pool"}
    one, other = (level_rows.with_levels(regressor(**options), *in_chunks(*rows, 700)) for _ in range(2))
    X, y = level_rows.both(400, 1)
    one.partial_fit(*in_chunks(X, y, 300))
    other.partial_fit(*in_chunks(X[::-1], y[::-1], 170))
    assert one.model_.fingerprint() == other.model_.fingerprint()
    assert len(needed_pool(state_of(one.model_)).total.levels) == level_rows.LEVELS + 1
    assert level_rows.effect_of(one.to_local()) == pytest.approx(level_rows.EFFECT, abs=0.2)


@pytest.mark.parametrize("count", [300, 2400])
def test_rows_in_other_units_are_refused_and_known_rows_are_not_learned_again(fitted, count):
    new_X, new_y = rows_and_targets(count, seed=8)
    model, data = copy_of(fitted).set_params(retention="pool"), in_chunks(new_X, new_y, 150)
    hash_before = model.model_.fingerprint()
    with pytest.raises(UpdateRefused, match="targets are about 10 times those predicted"):
        model.partial_fit(data[0], 10 * data[1])
    assert model.model_.fingerprint() == hash_before
    model.partial_fit(*data)
    with pytest.warns(UpdateWarning, match="these rows are update 1, so nothing was learned"):
        model.partial_fit(*in_chunks(new_X, new_y, 200, slice(None, None, -1)))
    assert [done.rows for done in model.update_log_] == [count]
    model.partial_fit(*data, accept=True)
    assert [done.rows for done in model.update_log_] == [count, count]


def test_of_several_updates_all_are_learned_or_none(fitted):
    new_X, new_y = rows_and_targets(600, seed=8)
    model = copy_of(fitted).set_params(retention="pool")
    parts = [in_chunks(new_X[:300], new_y[:300], 100), in_chunks(new_X[300:], 100 * new_y[300:], 100)]
    with pytest.raises(UpdateRefused):
        model.partial_fit_each(parts)
    assert model.update_log_ == []
    assert len(model.partial_fit_each(parts, accept=True).update_log_) == 2
