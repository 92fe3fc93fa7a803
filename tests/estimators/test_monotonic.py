import re

import numpy as np
import pandas as pd
import pytest
from monotonicity import check_monotone, scores_of
from sklearn.base import clone

from atlas_splines import AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.estimators.input_space import column_directions
from atlas_splines.model.atlas import state_of
from atlas_splines.model.monotone import is_monotone
from atlas_splines.updates.footprint import BoxFootprint

SIGNS = [1, 0, -1]


def target(X):
    """Rises with the first column and falls with the last, by more or less."""
    return np.tanh(4 * (X[:, 0] - X[:, 2])) + X[:, 0] * np.sin(6 * X[:, 1])


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.random((200, 3))
    return X, target(X) + random.normal(0, 0.3, 200)


def small(kind=AtlasRegressor, **options):
    return kind(**{"members": 1, "features": 80, "monotonic_cst": SIGNS, "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted(data):
    return small().fit(*data)


def rows_of(k, rows=60):
    """Rows of an update: some go on as before, some contradict the data and the constraint, some lie beyond."""
    X = np.random.default_rng(k).random((rows, 3))
    X[:, 0] *= 1 + k % 2
    X[:, 1] *= 0.4
    return X, target(X) if k < 2 else 2 * X[:, 2] - 3 * X[:, 0]


def test_fit(fitted, data):
    check_monotone(fitted, SIGNS, data[0])
    assert fitted.score(*data) > 0.7


@pytest.mark.parametrize(
    "options",
    [
        {"density": 2, "terms": 3, "max_iter": 3},
        {"loss": "absolute_error", "max_iter": 3},
        {"loss": "huber", "terms": 2, "max_iter": 3, "features": 0},
        {"extrapolation": "error", "domain": [(-2, 3)] * 3},
        {"half_life": 50},
    ],
    ids=str,
)
def test_every_kind_of_fit(options, data):
    model = small(**options).fit(*data)
    check_monotone(model, SIGNS, data[0], rows=2)


def test_data_that_contradicts(data):
    X, y = data
    model = small().fit(X, -y)
    check_monotone(model, SIGNS, X)


def test_sample_weight(data):
    X, y = data
    model = small().fit(X, y, sample_weight=np.random.default_rng(0).exponential(size=len(X)))
    check_monotone(model, SIGNS, X)


@pytest.mark.parametrize("retention", ["auto", "pool"])
def test_evidence(retention, data):
    model = small(retention=retention).fit(*data)
    for k in range(6):
        model.partial_fit(*rows_of(k), accept=True)
        check_monotone(model, SIGNS, data[0], rows=1)
    model.revert(6)
    check_monotone(model, SIGNS, data[0], rows=1)


def test_rows_more_and_less(data):
    X, y = data
    model = small().fit(X, y).forget(X[:50], y[:50])
    check_monotone(model, SIGNS, X, rows=1)
    model.fit_more(*rows_of(2))
    check_monotone(model, SIGNS, X, rows=1)


def test_order_and_pieces_do_not_matter(data):
    one, other = (small(retention="pool").fit(*data) for _ in range(2))
    for k in range(3):
        one.partial_fit(*rows_of(k), accept=True)
        other.partial_fit(*rows_of(2 - k), accept=True)
    assert (one.predict(data[0]) == other.predict(data[0])).all()


@pytest.mark.slow
@pytest.mark.parametrize("retention", ["chart", "rehearsal", "both", "none"])
def test_training(retention, data):
    model = small(retention=retention).fit(*data)
    for k in range(1, 3):
        model.partial_fit(*rows_of(k), accept=True)
        check_monotone(model, SIGNS, data[0], rows=2)


@pytest.mark.slow
def test_a_chart_spans_the_columns(fitted, data, tmp_path):
    X, y = rows_of(0)
    model = clone(fitted).set_params(retention="chart").fit(*data)
    area = model.footprint(X).area
    assert isinstance(area, BoxFootprint)
    assert area.intervals(0) == area.intervals(2) == [(0.0, 1.0)]
    assert area.intervals(1) != [(0.0, 1.0)]
    before = model.predict(data[0])
    model.partial_fit(X, y + 5, accept=True)
    outside = ~model.update_log_[-1].footprint.contains(data[0])
    assert outside.any()
    assert (model.predict(data[0])[outside] == before[outside]).all()
    model.partial_fit(X * [2, 1, 1], y + 5, accept=True)  # the domain grows, and with it the first chart
    check_monotone(model, SIGNS, data[0], rows=2)
    save(model, tmp_path / "m.atlas")
    again = load(tmp_path / "m.atlas")
    assert (again.predict(X) == model.predict(X)).all()
    check_monotone(again.partial_fit(*rows_of(2), accept=True), SIGNS, data[0], rows=2)
    model.revert(2).revert(1)
    assert (model.predict(data[0]) == before).all()


@pytest.mark.slow
def test_consolidation(data):
    model = small(retention="chart").fit(*data)
    X, y = rows_of(0)
    model.partial_fit(X, y + 5, accept=True)
    assert model.consolidate(tolerance=100, samples=200, epochs=2).replaced
    check_monotone(model, SIGNS, data[0], rows=2)


def test_auto_opens_charts_that_keep_it(data):
    random = np.random.default_rng(1)
    X, _ = data
    model = small().fit(X, X[:, 0] - X[:, 2])
    new = random.random((300, 3)) * [1, 0.2, 1]
    model.partial_fit(new, 20 + 3 * new[:, 0])
    assert model.update_log_[-1].kind == "chart"
    check_monotone(model, SIGNS, X, rows=2)
    model.partial_fit(new, 20 - 3 * new[:, 0])  # joins the chart, against the constraint
    check_monotone(model, SIGNS, X, rows=2)


def test_warm_start(fitted, data):
    model = clone(fitted).set_params(warm_start=True, max_iter=2).fit(*data)
    model.fit(data[0], -data[1])
    check_monotone(model, SIGNS, data[0], rows=2)


def test_storage(fitted, data, tmp_path):
    save(fitted, tmp_path / "m.atlas")
    again = load(tmp_path / "m.atlas")
    assert again.monotonic_cst == SIGNS
    assert (again.predict(data[0]) == fitted.predict(data[0])).all()
    for k in range(3):
        again.partial_fit(*rows_of(k), accept=True)
    check_monotone(again, SIGNS, data[0], rows=2)
    save(again, tmp_path / "m.atlas")
    assert (load(tmp_path / "m.atlas").predict(data[0]) == again.predict(data[0])).all()
    save(fitted.model_, tmp_path / "bare.atlas")
    assert state_of(load(tmp_path / "bare.atlas")).monotonic == (tuple(SIGNS),)


def test_classes(data):
    X, y = data
    model = small(AtlasClassifier).fit(X, np.where(y > 0, "yes", "no"))
    check_monotone(model, SIGNS, X)
    assert model.score(X, np.where(y > 0, "yes", "no")) > 0.85
    line = np.tile(X[:1], (1000, 1))
    line[:, 0] = np.linspace(-1, 2, 1000)
    room = 1e-5  # probabilities follow scores, which are sums in float32
    assert (np.diff(model.predict_proba(line)[:, 1]) >= -room).all()
    assert np.ptp(scores_of(model, line)) > 0
    for k in range(2):
        X_new, y_new = rows_of(k)
        model.partial_fit(X_new, np.where(y_new > 0, "yes", "no"))
    check_monotone(model, SIGNS, X)


def test_a_class_to_come(data):
    X, y = data
    model = small(AtlasClassifier).partial_fit(X[:50], np.zeros(50), classes=[0, 1])
    model.partial_fit(X, y > 0)
    check_monotone(model, SIGNS, X)


def test_missing_values(data):
    X, y = data[0].copy(), data[1]
    X[::7, 0] = np.nan
    model = small(missing="learn").fit(X, y)
    assert model.model_.inputs == 4
    check_monotone(model, SIGNS, data[0])


def test_several_targets(data):
    X, y = data
    model = small().fit(X, np.stack([y, -y], axis=1))
    assert is_monotone(state_of(model.model_))
    line = np.tile(X[:1], (1000, 1))
    line[:, 0] = np.linspace(-1, 2, 1000)
    assert (np.diff(model.predict(line), axis=0) >= -1e-5).all()


def test_names(data):
    X, y = data
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    named = small(monotonic_cst={"a": 1, "c": -1}).fit(table, y)
    assert (named.predict(table) == small().fit(X, y).predict(X)).all()


def test_zeros_are_no_constraint(data):
    free = small(monotonic_cst=None).fit(*data)
    zeros = small(monotonic_cst=[0, 0, 0]).fit(*data)
    assert not state_of(zeros.model_).monotonic
    assert (zeros.predict(data[0]) == free.predict(data[0])).all()


def test_it_helps_where_data_is_sparse_and_noisy():
    errors = {None: [], (1, 1): []}
    for seed in range(5):
        random = np.random.default_rng(seed)
        X, assessed = random.random((40, 2)), random.random((500, 2))
        y = np.sqrt(X.sum(axis=1)) + random.normal(0, 0.4, 40)
        for monotonic, found in errors.items():
            model = AtlasRegressor(members=1, features=60, monotonic_cst=monotonic, random_state=0).fit(X, y)
            found.append(np.sqrt(np.mean((model.predict(assessed) - np.sqrt(assessed.sum(axis=1))) ** 2)))
    assert np.mean(errors[1, 1]) < 0.9 * np.mean(errors[None])


@pytest.mark.parametrize(
    ("monotonic", "sentence"),
    [
        ([1, 0], "monotonic_cst has shape (2,) but X has 3 columns; give -1, 0 or 1 for each"),
        ([2, 0, 0], "monotonic_cst has 2; give 1 to rise, -1 to fall or 0 to be free for each column"),
        (["up", 0, 0], "monotonic_cst has 'up'; give 1 to rise, -1 to fall or 0 to be free for each column"),
        ({"a": 1}, "monotonic_cst goes by names, but the columns of X have none; give an array"),
    ],
)
def test_wrong_values(monotonic, sentence, data):
    with pytest.raises(ValueError, match="^" + re.escape(sentence) + "$"):
        small(monotonic_cst=monotonic).fit(*data)


def test_names_that_are_no_columns():
    with pytest.raises(ValueError, match="monotonic_cst names 'd', which is no column of X"):
        column_directions({"d": 1}, 2, ["a", "b"])


def test_refusals(data):
    with pytest.raises(ValueError, match="monotonic_cst is for two classes, and these are 3"):
        small(AtlasClassifier).fit(data[0], np.arange(200) % 3)
    with pytest.raises(ValueError, match="monotonic_cst does not go with extrapolation='linear'"):
        small(extrapolation="linear").fit(*data)


# --- quantiles ----------------------------------------------------------------------------------------


def falling_quantile(rows, random):
    """The noise shrinks where the mean rises: the true upper quantile falls, and the lower one rises fast."""
    X = random.random((rows, 2))
    return X, X[:, 0] + (1.2 - X[:, 0]) * 2 * random.normal(size=rows)


def largest_fall(model, sign=1, low=-0.2, high=1.2):
    places = np.linspace(low, high, 1000)
    return max(
        -(sign * np.diff(model.predict(np.c_[places, np.full(1000, z)]))).min() for z in (0.1, 0.5, 0.9)
    )


@pytest.mark.parametrize("quantile", [0.1, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_a_quantile_goes_the_way_of_the_mean(seed, quantile, tmp_path):
    random = np.random.default_rng(seed)
    X, y = falling_quantile(300, random)
    model = AtlasRegressor(
        members=1, loss="quantile", quantile=quantile, monotonic_cst=[1, 0], random_state=0
    ).fit(X, y)
    assert largest_fall(model) < 1e-6
    for _ in range(2):
        model.partial_fit(*falling_quantile(150, random))
        assert largest_fall(model) < 1e-6
    X, y = falling_quantile(120, random)
    model._update(*model._checked([0.3, 0.2] + 0.4 * X, 5 + y, None), retention="chart", random_state=0)
    assert state_of(model.model_).charts
    ulps = 4 * np.finfo(np.float32).eps * np.abs(model.predict([[1.2, 0.5], [0.6, 0.5]])).max()
    assert (
        largest_fall(model) < ulps
    )  # of values near 6, in which a chart of float32 is summed: docs/math.md, 11
    save(model, tmp_path / "quantile.atlas")
    assert (load(tmp_path / "quantile.atlas").predict(X) == model.predict(X)).all()


def test_a_quantile_falls_where_the_mean_has_to_fall():
    X, y = falling_quantile(300, np.random.default_rng(0))
    model = AtlasRegressor(
        members=1, loss="quantile", quantile=0.9, monotonic_cst=[-1, 0], random_state=0
    ).fit(X, -y)
    assert largest_fall(model, sign=-1) < 1e-6


def test_where_a_quantile_rises_by_itself_it_is_what_a_free_scale_says():
    """Noise that grows with the mean: nothing is to be mended, and the right share lies below."""
    random = np.random.default_rng(0)
    X = random.random((3000, 2))
    y = 3 * X[:, 0] + (0.2 + X[:, 0]) * random.normal(size=3000)
    model = AtlasRegressor(
        members=1, loss="quantile", quantile=0.9, monotonic_cst=[1, 0], random_state=0
    ).fit(X[:1000], y[:1000])
    assert largest_fall(model) < 1e-6
    share = [
        (y[1000:] <= model.predict(X[1000:]))[part].mean() for part in (X[1000:, 0] < 0.5, X[1000:, 0] >= 0.5)
    ]
    assert np.abs(np.array(share) - 0.9).max() < 0.04


def test_a_quantile_of_a_row_does_not_depend_on_the_rows_beside_it():
    X, y = falling_quantile(300, np.random.default_rng(0))
    model = AtlasRegressor(
        members=1, loss="quantile", quantile=0.9, monotonic_cst=[1, 0], random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(model.predict(X)[::7], model.predict(X[::7]), rtol=1e-12)
