import level_rows
import numpy as np
import pytest

from atlas_splines import AtlasRegressor
from atlas_splines.model.atlas import state_of
from atlas_splines.updates.partial_sums import Summer, add_to_newest_update, of_all_rows, without_sums
from atlas_splines.updates.routing import MODEL, memory_in, needed_pool


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    X = random.random((400, 2))
    model = AtlasRegressor(members=1, terms=0, features=60, domain=[(0, 1)] * 2, random_state=0)
    return model.fit(X, np.sin(5 * X[:, 0]) + X[:, 1])


def rows_of(model, X, y):
    return model._rows(*model._checked(X, y, None))


def new_rows(count, seed=1):
    X = np.random.default_rng(seed).random((count, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("parts", [1, 2, 13])
def test_sums_do_not_depend_on_who_sums_which_rows(fitted, parts):
    X, y = new_rows(301)
    summer = Summer(state_of(fitted.model_))
    whole = summer(rows_of(fitted, X, y))
    order = np.random.default_rng(parts).permutation(301)
    total = sum(
        (summer(rows_of(fitted, X[part], y[part])) for part in np.array_split(order, parts)[1:]),
        summer(rows_of(fitted, *(table[np.array_split(order, parts)[0]] for table in (X, y)))),
    )
    assert total.rows == whole.rows == {MODEL: 301}
    assert total.statistics[MODEL] == whole.statistics[MODEL]
    assert (total - whole).statistics == {}


def test_sums_are_those_of_rows_that_come_to_the_model(fitted):
    X, y = new_rows(200)
    sums = Summer(state_of(fitted.model_))(rows_of(fitted, X, y))
    pool = needed_pool(state_of(fitted.model_))
    rows = rows_of(fitted, X, y)
    double = [part.astype(np.float64) for part in (rows.points, rows.targets, rows.weights)]
    assert pool.extended_by(*double).total == pool.total + sums.statistics[MODEL]


def opened(fitted):
    """A model with a chart, and the inputs that it was opened for."""
    model = AtlasRegressor(**fitted.get_params())
    vars(model).update(vars(fitted))
    box = 0.2 + 0.2 * np.random.default_rng(2).random((150, 2))
    return model.partial_fit(box, np.full(150, 9.0)), box


@pytest.mark.parametrize("retention", ["auto", "pool"])
def test_rows_that_were_summed_elsewhere_join_an_update(fitted, retention):
    model, box = opened(fitted)
    assert model.update_log_[-1].kind == "chart"
    model.set_params(retention=retention)
    X, y = new_rows(600)
    y[((X > 0.2) & (X < 0.4)).all(axis=1)] = 9.0
    whole = AtlasRegressor(**model.get_params())
    vars(whole).update(vars(model))
    whole._update(*whole._checked(X[:200], y[:200], None), rest=[(X[200:], y[200:])])
    model._update(*model._checked(X[:200], y[:200], None))
    sums = Summer(state_of(model.model_))(rows_of(model, X[200:], y[200:]))
    assert sorted(sums.rows) == [MODEL, 0]
    add_to_newest_update(model.model_, rows_of(model, X[:200], y[:200]), sums, model._loss)
    mine, theirs = model.update_log_[-1], whole.update_log_[-1]
    assert (mine.rows, mine.kind) == (theirs.rows, theirs.kind) == (600, "pool")
    assert mine.after == model.model_.fingerprint()
    for one, other in zip(pools(model), pools(whole), strict=True):
        assert one.total == other.total
    if retention == "pool":  # which memories "auto" trusts is judged by the rows that came
        assert np.array_equal(state_of(model.model_).table, state_of(whole.model_).table)
    before = model.predict(box)
    model.revert(mine.id)
    assert (model.predict(box) != before).any()


def pools(model):
    state = state_of(model.model_)
    return [needed_pool(state), *(needed_pool(state_of(chart.content)) for chart in state.charts)]


def test_the_better_of_evidence_and_fitted_model_speaks(fitted):
    state = state_of(fitted.model_)
    X, y = new_rows(2000)
    assessed = rows_of(fitted, X[:200], y[:200])
    sums = Summer(state)(rows_of(fitted, X, y))
    better, out_of_sample = of_all_rows(state, sums, assessed, "mse")
    assert needed_pool(out_of_sample).total == (sums - Summer(state)(assessed)).statistics[MODEL]
    assert needed_pool(better).base is None
    assert needed_pool(better).total == sums.statistics[MODEL]
    known = needed_pool(state).combined_error_model
    assert needed_pool(better).combined_error_model.data_density is known.data_density
    assert needed_pool(better).combined_error_model.scores != known.scores  # those of the judged rows
    contradicted = Summer(state)(rows_of(fitted, X, y + 9)) + Summer(state)(assessed)
    worse, out_of_sample = of_all_rows(state, contradicted, assessed, "mse")
    assert out_of_sample is state
    assert needed_pool(worse).base is not None
    assert needed_pool(worse).total == contradicted.statistics[MODEL]
    assert np.array_equal(worse.table, state.table)
    assert needed_pool(worse).combined_error_model is known


def test_a_state_without_sums_predicts_the_same(fitted):
    model, box = opened(fitted)
    state = without_sums(state_of(model.model_))
    assert memory_in(state) is None
    assert memory_in(state_of(state.charts[0].content)) is None
    small = AtlasRegressor(**model.get_params())
    vars(small).update(vars(model))
    small._take_state(state)
    assert (small.predict(box) == model.predict(box)).all()
    assert np.array_equal(small.predict_interval(box), model.predict_interval(box))


def test_sums_by_level_do_not_depend_on_who_sums_which_rows():
    first = level_rows.fitted("pool")
    X, y = level_rows.both(150, 1)
    summer = Summer(state_of(first.model_))
    total = summer(rows_of(first, X, y))
    parts = [summer(rows_of(first, X[k::3], y[k::3])) for k in range(3)]
    assert (parts[2] + parts[0] + parts[1]).statistics[MODEL] == total.statistics[MODEL]
    assert len(total.statistics[MODEL].levels) > level_rows.LEVELS / 2
    model = first.partial_fit(X[:40], y[:40])
    assessed, rest = (rows_of(model, X[part], y[part]) for part in (slice(40), slice(40, None)))
    add_to_newest_update(model.model_, assessed, summer(rest), "mse")
    at_once = level_rows.fitted("pool").partial_fit(X, y)
    assert memory_in(state_of(model.model_)).total == memory_in(state_of(at_once.model_)).total
    assert model.model_.fingerprint() == at_once.model_.fingerprint()
