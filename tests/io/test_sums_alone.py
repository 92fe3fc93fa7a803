"""Files of models that keep sums alone: no row is in them, and sums are of several rows."""

import json

import numpy as np
import pytest

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.files.archive import read_archive
from atlas_splines.memory.initial_fit import CENTRE_GRID, ROWS_A_CENTRE
from atlas_splines.memory.pool import FEWEST_ROWS
from atlas_splines.memory.statistics import UNIT
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.incremental import TOO_FEW
from atlas_splines.updates.routing import needed_pool

SECRET, TARGET = np.array([[47.0, 83211.0, 0.3337]]), np.array([31.4159])


def people(rows=500, seed=0):
    random = np.random.default_rng(seed)
    columns = random.integers(18, 90, rows), random.integers(20_000, 120_000, rows), random.random(rows)
    X = np.column_stack(columns).astype(float)
    return X, X[:, 0] / 2 + X[:, 1] / 1e4 + 5 * X[:, 2] + random.normal(size=rows)


def fitted(retention="pool", **options):
    options = {"memory": "sums", "random_state": 0, "retention": retention, **options}
    return AtlasRegressor(**options).fit(*people())


def saved(model, path):
    save(model, path)
    archive = read_archive(path)
    return archive.header, archive.tensors


def rows_in(tensors, points):
    """Names of tensors that have a row of the data as one of their own, in the coordinates of the file."""
    found = []
    pairs = [(name, table) for name, tensor in tensors.items() for table in (tensor, tensor.T)]
    for name, table in pairs:
        if table.ndim == 2 and table.shape[1] == points.shape[1]:
            apart = np.abs(table[:, None] - points[None]).max(axis=2).min(axis=1)
            found += [name] if (apart < 1e-6).any() else []
    return found


@pytest.mark.parametrize("rows", [40, 500, 3000])
@pytest.mark.parametrize("kind", [AtlasRegressor, AtlasClassifier])
def test_no_row_is_in_the_file_of_sums(tmp_path, rows, kind):
    X, y = people(rows)
    y = y if kind is AtlasRegressor else y > np.median(y)
    model = kind(memory="sums", random_state=0).fit(X, y)
    points = model.domain_.to_unit(X)
    header, tensors = saved(model, tmp_path / "sums.atlas")
    assert rows_in(tensors, points) == []
    assert "memory" not in header["model"]["evidence"]
    centres = np.vstack(
        [tensor for name, tensor in tensors.items() if ".bumps." in name and "centres" in name]
    )
    assert (centres * CENTRE_GRID == np.rint(centres * CENTRE_GRID)).all()
    _, tensors = saved(kind(random_state=0).fit(X, y), tmp_path / "rows.atlas")
    assert rows_in(tensors, points)  # so the search finds rows where they are


@pytest.mark.parametrize("retention", ["pool", "auto"])
def test_one_row_cannot_be_read_back(tmp_path, retention):
    model = fitted(retention)
    before = needed_pool(state_of(model.model_)).total.count
    model.partial_fit(SECRET, TARGET)
    header, tensors = saved(model, tmp_path / "one.atlas")
    assert not [name for name in tensors if ".recent." in name]  # sums of this row alone
    assert needed_pool(state_of(model.model_)).total.count == before + 1
    (entry,) = header["model"]["updates"]
    assert "data" not in entry  # a digest can be compared with guesses
    assert TOO_FEW in entry["reason"]
    loaded = load(tmp_path / "one.atlas")
    assert needed_pool(state_of(loaded.model_)).fewest == FEWEST_ROWS
    with pytest.raises(ValueError, match="update 1 cannot be reverted"):
        loaded.revert(1)
    text = json.dumps(header)
    assert not any(str(number) in text for number in (*SECRET[0, 1:], *TARGET))


def test_no_function_is_of_one_row_alone():
    random = np.random.default_rng(0)
    x = np.append(random.random(400), 1.5)[:, None]  # one row far from all others
    y = np.sin(30 * x[:, 0])
    options = {"domain": "data", "random_state": 0, "density": 0, "terms": 0}
    fine = [
        needed_pool(state_of(AtlasRegressor(memory=memory, **options).fit(x, y).model_)).features.fine
        for memory in ("rows", "sums")
    ]
    assert fine[0]
    assert not fine[1] or fine[1][0][1] < fine[0][0][1]  # coarser


def test_tables_with_little_to_choose_from_are_fitted():
    X = np.random.default_rng(0).random((300, 3))
    for table, options in ((X, {"monotonic_cst": [1, 0, -1]}), (X[:6], {}), (np.ones((30, 2)), {})):
        y = X[: len(table), 0] - X[: len(table), 2]
        model = AtlasRegressor(memory="sums", random_state=0, **options).fit(table, y)
        assert np.isfinite(model.predict(table)).all()


@pytest.mark.parametrize("inputs", [1, 4, 30])
def test_every_feature_is_of_several_rows(inputs):
    random = np.random.default_rng(1)
    X = np.vstack([random.random((300, inputs)), 3 + 100 * random.random((8, inputs))])
    model = AtlasRegressor(memory="sums", domain="data", random_state=0).fit(X, np.sin(X.sum(axis=1)))
    phi = needed_pool(state_of(model.model_)).features(model.domain_.to_unit(X))
    counts = (phi * UNIT >= 0.5).sum(axis=0)
    assert ((counts == 0) | (counts >= ROWS_A_CENTRE)).all()


@pytest.mark.parametrize("before", [0, 30])
def test_few_rows_are_not_in_the_difference_of_two_sums(before):
    model = fitted("auto")
    if before:
        model.partial_fit(*people(before, 1))
    old = needed_pool(state_of(model.model_))
    new = needed_pool(state_of(model.partial_fit(SECRET, TARGET).model_))
    exact = [pool.checkpoint.gram for pool in (old, new)]
    for k in range(len(old.decayed)):
        decayed = [pool.decayed[k].gram for pool in (old, new)]
        assert np.allclose(decayed[1] - exact[1], decayed[0] - exact[0])


def test_the_first_model_does_not_tell_the_row_of_a_later_one(tmp_path):
    model = fitted("auto").partial_fit(*people(30, 1))
    first = needed_pool(state_of(model.model_)).initial
    assert first is not None
    model.partial_fit(SECRET, TARGET)
    _, tensors = saved(model, tmp_path / "one.atlas")
    assert not [name for name in tensors if ".base." in name]
    loaded = load(tmp_path / "one.atlas")
    X, _ = people(50, 2)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert loaded.partial_fit(*people(40, 3)).revert(3).update_log_[2].reverted


def test_few_rows_can_be_forgotten_with_their_rows():
    one, other = fitted(), fitted()
    other.partial_fit(*people(30, 1))
    one.partial_fit(*people(30, 1)).partial_fit(SECRET, TARGET).forget(SECRET, TARGET)
    totals = [needed_pool(state_of(model.model_)).total for model in (one, other)]
    assert totals[0] == totals[1]


def test_other_updates_can_be_taken_back_after_one_of_few_rows():
    model = fitted().partial_fit(*people(30, 1))
    pool = needed_pool(state_of(model.model_))
    model.partial_fit(SECRET, TARGET)
    now = needed_pool(state_of(model.model_))
    assert [batch.update for batch in now.recent] == [1]
    assert now.total.count == pool.total.count + 1
    assert model.revert(1).update_log_[0].reverted
    assert needed_pool(state_of(model.model_)).total.count == 501


def test_as_many_rows_as_are_kept_apart_can_be_taken_back(tmp_path):
    model, (X, y) = fitted(), people(FEWEST_ROWS, 1)
    before = model.model_.fingerprint()
    model.partial_fit(X, y)
    header, _ = saved(model, tmp_path / "twenty.atlas")
    assert len(header["model"]["updates"][0]["data"]) == 64
    assert model.revert(1).model_.fingerprint() == before
    copies = fitted().partial_fit(np.repeat(X[:1], 25, axis=0), np.repeat(y[:1], 25), accept=True)
    assert copies.model_.updates[0].data == ""  # the digest of one row, however often it came


def test_charts_of_few_rows_are_refused():
    model, (X, y) = fitted("chart"), people(FEWEST_ROWS, 1)
    with pytest.raises(ValueError, match="a chart of 5 rows would reveal them, and a model that keeps sums"):
        model.partial_fit(X[:5], y[:5])
    assert model.partial_fit(X, y, accept=True).update_log_[0].rows == FEWEST_ROWS


def test_rows_that_join_a_chart_are_not_kept_apart_if_they_are_few():
    random = np.random.default_rng(3)
    options = {"memory": "sums", "random_state": 0}
    X = random.random((600, 2))
    model = AtlasRegressor(**options).fit(X, X[:, 0] + 0.05 * random.normal(size=600))
    box = 0.3 + 0.2 * random.random((150, 2))
    model.partial_fit(box, np.full(150, 9.0))
    assert len(state_of(model.model_).charts) == 1
    model.partial_fit([[0.41, 0.4], [0.4, 0.42], [0.43, 0.4]], [9.0, 9.1, 9.0])
    (chart,) = state_of(model.model_).charts
    pool = needed_pool(state_of(chart.content))
    assert (pool.fewest, pool.recent) == (FEWEST_ROWS, ())
    assert pool.total.count == 153


def test_models_that_keep_rows_take_back_every_update():
    model = fitted(memory="rows")
    before = model.model_.fingerprint()
    assert model.partial_fit(SECRET, TARGET).revert(1).model_.fingerprint() == before
    assert len(model.model_.updates[0].data) == 64
