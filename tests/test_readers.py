"""Any number of readers, one writer: a reader sees the model before a change or after it, and nothing between."""

import copy
import itertools
import pickle
import sys
import threading

import numpy as np
import oracle
import pytest
from scipy.sparse import issparse

from atlas_splines import Atlas, AtlasRegressor, Footprint, consolidate, footprint, load, save, update
from atlas_splines.estimators import base, ledger
from atlas_splines.model.atlas import state_of, take_state
from atlas_splines.updates.trained_charts import TrainedChartRules

QUERIES = np.random.default_rng(0).random((300, 2))


class Interrupting:
    """Rows during whose reading something happens to the model."""

    def __init__(self, rows, happens):
        self.rows, self.happens = rows, happens

    def __array__(self, dtype=None, copy=None):
        self.happens()
        return np.asarray(self.rows, dtype)


def two_sizes():
    """A model, and the state that it has in a larger domain."""
    model = oracle.randomize(Atlas(2, terms=1, density=3))
    return model, state_of(model.copy().extend([-3, -3], [4, 4]))


@pytest.mark.parametrize("read", [Atlas.__call__, Atlas.gradient, footprint])
def test_points_are_read_in_the_state_in_which_they_were_checked(read):
    model, larger = two_sizes()
    smaller, rows = state_of(model), np.full((50, 2), 3.9)
    take_state(model, larger)
    expected = content(read(model, rows))
    found = read(model, Interrupting(rows, lambda: take_state(model, smaller)))
    np.testing.assert_array_equal(content(found), expected)


def content(read):
    """What was read, as an array: outputs, gradients, or the intervals of a footprint."""
    if isinstance(read, Footprint):
        return np.array([read.intervals(j) for j in range(2)])
    return read.toarray() if issparse(read) else read


def test_a_prediction_is_of_one_state():
    X = np.linspace([0, 0], [1, 1], 60)
    estimator = AtlasRegressor(terms=0, density=3, members=1, features=0, random_state=0).fit(
        X, X.sum(axis=1)
    )
    smaller = state_of(estimator.model_)
    estimator.model_.extend([-3, -3], [4, 4])
    far = np.full((50, 2), 3.5)
    expected = estimator.predict(far)
    rows = Interrupting(far, lambda: take_state(estimator.model_, smaller))
    np.testing.assert_array_equal(estimator.predict(rows), expected)


def test_a_model_that_is_fitted_anew_speaks_as_before_until_it_is_done():
    X = np.linspace([0, 0], [1, 1], 60)
    estimator = AtlasRegressor(terms=0, density=0, members=1, features=0, max_iter=2, random_state=0)
    estimator.fit(X, X.sum(axis=1))
    expected, seen = estimator.predict(X), []
    weights = Interrupting(np.ones(60), lambda: seen.append(estimator.predict(X)))
    estimator.fit(np.hstack([X, X]), 1000 * X.sum(axis=1), sample_weight=weights)
    assert seen
    np.testing.assert_array_equal(seen[0], expected)


def test_a_file_that_is_made_during_a_revert_is_of_one_moment(path, monkeypatch):
    model = oracle.randomize(Atlas(2, terms=1, density=1))
    done = update(model, 0.5 * QUERIES, np.ones(300), epochs=2, random_state=0)
    expected = model(QUERIES)
    header = "atlas_splines.io.models._chart_header"
    chart_header = sys.modules["atlas_splines.io.models"]._chart_header
    monkeypatch.setattr(
        header, lambda chart: [chart_header(chart), model.charts and model.revert(done.id)][0]
    )
    save(model, path)
    assert model.updates[0].reverted
    assert load(path).updates[0].reverted is None
    np.testing.assert_array_equal(load(path)(QUERIES), expected)


def test_an_estimator_can_be_saved_during_a_revert(path, monkeypatch):
    X = QUERIES[:60]
    estimator = AtlasRegressor(terms=0, density=0, members=1, features=30, retention="auto", random_state=0)
    estimator.fit(X, X.sum(axis=1)).partial_fit(0.4 + 0.2 * X, np.full(60, 9.0))
    expected = estimator.predict(QUERIES)
    assert estimator.model_.charts
    derive = ledger.derive
    monkeypatch.setattr(base, "derive", lambda *given: [derive(*given), save(estimator, path)][0])
    estimator.revert(1)
    np.testing.assert_array_equal(load(path).predict(QUERIES), expected)
    assert load(path).update_log_[0].reverted is None


def test_a_copy_can_be_made_while_others_read():
    model = oracle.randomize(Atlas(2, terms=1, density=1))

    class Table(np.ndarray):
        def __deepcopy__(self, memo):
            return self.read()

        def __reduce__(self):
            return np.asarray, (self.read(),)

        def read(self):
            reader(QUERIES)
            return np.array(self)

    for duplicate in (Atlas.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):
        reader = oracle.randomize(Atlas(2, terms=1, density=1))
        object.__setattr__(state_of(reader), "table", state_of(reader).table.view(Table))
        np.testing.assert_array_equal(duplicate(reader)(QUERIES), model(QUERIES))


# --- soak ---------------------------------------------------------------------------------------------------


def changes_of_a_model(model):
    """Every kind of change of a bare model, one after the other, again and again."""
    few = {"epochs": 2, "random_state": 0}
    corner = 0.3 * QUERIES[:80]
    for _ in range(2):
        yield lambda: model.expand(density=0, terms=1)
        yield lambda: model.extend(model.domain[:, 0] - 0.2, model.domain[:, 1] + 0.2)
        for retention in ("chart", "rehearsal", "both", "none"):
            yield lambda retention=retention: update(
                model, corner, 1 + corner[:, 0], retention=retention, terms=1, density=0, **few
            )
        yield lambda: update(model, corner, 2 + corner[:, 0], terms=1, density=0, **few)
        yield lambda: model.revert(model.updates[-1].id)
        yield lambda: consolidate(model, tolerance=1e9, density=2, samples=50, epochs=1, random_state=0)


def changes_of_an_estimator(estimator):
    """Every kind of change of an estimator."""
    corner, far = 0.3 * QUERIES[:80], 1 + 0.3 * QUERIES[:80]
    yield lambda: estimator.forget(QUERIES[:9], QUERIES[:9].sum(axis=1))
    for retention in ("auto", "pool", "chart", "rehearsal", "both", "none"):
        for X in (corner, far):
            yield lambda X=X, retention=retention: estimator.set_params(retention=retention).partial_fit(
                X, 5 + X.sum(axis=1)
            )
        if retention in ("auto", "pool", "chart"):
            yield lambda: estimator.revert(estimator.update_log_[-1].id)
    yield lambda: estimator.consolidate(tolerance=1e9, samples=50, epochs=1)
    yield lambda: estimator.fit(1 + QUERIES[:200], 7 * QUERIES[:200].sum(axis=1))


def soak(predict, changes, readers):
    """Let readers read while changes are made; whatever they predict must be what some moment predicts."""
    allowed, seen, failures, over = {predict().tobytes()}, [], [], threading.Event()

    def go_on(read):
        try:
            for _ in itertools.takewhile(lambda _: not over.is_set(), itertools.count()):
                seen.append(read().tobytes())
        except BaseException as error:  # of any kind: the test tells it
            failures.append(error)

    threads = [threading.Thread(target=go_on, args=(read,)) for read in readers]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for thread in threads:
            thread.start()
        for change in changes:  # as fast as they can be made: readers meet them anywhere
            change()
            allowed.add(predict().tobytes())
    finally:
        over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not failures, failures[0]
    assert len(allowed) > 3
    assert len(seen) > len(threads)
    assert set(seen) <= allowed


def saved(model, path):
    save(model, path)
    return load(path)


@pytest.mark.slow
def test_readers_during_every_change_of_a_model(tmp_path):
    model = oracle.randomize(Atlas(2, terms=1, density=1))

    def at_the_footprint():
        footprint(model, QUERIES, retention="none").contains(QUERIES)
        return model(QUERIES)

    readers = [
        lambda: model(QUERIES),
        lambda: model(QUERIES),
        lambda: model.copy()(QUERIES),
        lambda: pickle.loads(pickle.dumps(model))(QUERIES),
        lambda: saved(model, tmp_path / "model.atlas")(QUERIES),
        at_the_footprint,
    ]
    soak(lambda: model(QUERIES), changes_of_a_model(model), readers)


@pytest.mark.slow
@pytest.mark.parametrize("extrapolation", ["constant", "linear"])
def test_readers_during_every_change_of_an_estimator(extrapolation, tmp_path, monkeypatch):
    # how well charts are trained does not matter here
    monkeypatch.setattr("atlas_splines.updates.trained_charts.RULES", TrainedChartRules(epochs=2, batches=50))
    estimator = AtlasRegressor(
        terms=1, density=1, members=1, features=30, max_iter=2, extrapolation=extrapolation, random_state=0
    ).fit(QUERIES[:200], QUERIES[:200].sum(axis=1))
    rows = 1.5 * QUERIES

    def at_the_footprint():
        estimator.footprint(rows).contains(rows)
        for record in estimator.update_log_:
            assert record.kind in ("consolidation", "revert", "forget") or record.footprint.contains(
                rows
            ).shape == (300,)
        return estimator.predict(rows)

    readers = [
        lambda: estimator.predict(rows),
        lambda: estimator.predict(rows),
        lambda: copy.deepcopy(estimator).predict(rows),
        lambda: saved(estimator, tmp_path / "model.atlas").predict(rows),
        at_the_footprint,
    ]
    soak(lambda: estimator.predict(rows), changes_of_an_estimator(estimator), readers)
