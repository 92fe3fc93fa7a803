"""Fitting: averages of models, and how they grow."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_splines import Atlas, AtlasClassifier, AtlasRegressor, load, save
from atlas_splines.estimators.fit import (
    FitOptions,
    fit_model,
    fresh_model,
    is_ordered,
    split_folds,
    split_rows,
)
from atlas_splines.memory.statistics import Statistics
from atlas_splines.model.atlas import average, state_of
from atlas_splines.model.rows import Rows
from atlas_splines.model.train import grow, train_density
from atlas_splines.updates import initial_memory as first_rows
from atlas_splines.updates.initial_memory import as_first_rows, solve_rows

OPTIONS = FitOptions(
    outputs=1, loss="mse", density="auto", terms="auto", epochs=60, batch_size=50,
    learning_rate=0.01, held_out=0.2, validation="auto", patience="auto", verbose=False,
)  # fmt: skip


def random_model(random, inputs, outputs):
    model = Atlas(
        inputs, outputs, terms=int(random.integers(0, 4)), density=int(random.integers(0, 4)), dtype="float64"
    )
    state_of(model).table[:, : outputs * (2 * model.terms + 1)] = random.normal(
        0, 0.5, (state_of(model).table.shape[0], outputs * (2 * model.terms + 1))
    )
    return model


def rows_of(target, inputs, rows=600, seed=0):
    X = np.random.default_rng(seed).random((rows, inputs)).astype(np.float32)
    return Rows(X, target(X)[:, None].astype(np.float32), np.ones(rows, np.float32))


@pytest.mark.slow
@given(
    seed=st.integers(0, 1000), count=st.integers(1, 5), inputs=st.integers(1, 3), outputs=st.integers(1, 2)
)
def test_the_average_is_one_model_with_the_mean_of_the_predictions(seed, count, inputs, outputs):
    random = np.random.default_rng(seed)
    models = [random_model(random, inputs, outputs) for _ in range(count)]
    X = random.random((50, inputs))
    mean = average(models)
    assert isinstance(mean, Atlas)
    np.testing.assert_allclose(mean(X), np.mean([model(X) for model in models], axis=0), rtol=1e-9, atol=1e-9)


def test_folds_hold_each_row_out_once():
    folds = split_folds(103, 0.1, np.random.default_rng(0))
    assert len(folds) == 10
    assert (np.sum(folds, axis=0) == 1).all()
    assert [mask.any() for mask in split_folds(39, 0.1, np.random.default_rng(0))] == [False]


def test_fresh_models_predict_exactly_zero_with_terms_that_differ():
    rows = rows_of(lambda X: X[:, 0], 2)
    model = fresh_model(rows, OPTIONS, 5, np.random.default_rng(0))
    assert (model(rows.points) == 0).all()
    shapes = model.g(0).reshape(5, -1)
    assert len({tuple(shape) for shape in shapes.tolist()}) == 5


def test_terms_from_zero_would_stay_the_same_function():
    from atlas_splines import train

    rows = rows_of(lambda X: X[:, 0] * X[:, 1], 2)
    model = Atlas(2, terms=3, density=0)
    train(model, rows.points, rows.targets, epochs=5, random_state=0)
    np.testing.assert_allclose(model.g(0)[0, 1], model.g(0)[0, 0], atol=2e-3)
    assert np.abs(model.g(0)[0, 0]).max() > 0.05


def in_turn(function, numbers):
    return [function(k) for k in numbers]


@pytest.mark.slow
def test_more_terms_are_taken_where_they_help():
    noise = np.random.default_rng(1).normal(0, 0.3, 600)
    additive = rows_of(lambda X: X[:, 0] + X[:, 1] ** 2 + noise, 3)
    twisted = rows_of(
        lambda X: np.sin(7 * X[:, 0] * X[:, 1]) * np.cos(5 * X[:, 1] + 4 * X[:, 2]), 3, rows=2000
    )
    terms = [fit_model(rows, OPTIONS, [0], in_turn).model.terms for rows in (additive, twisted)]
    assert terms[0] == 0
    assert terms[1] >= 4


@pytest.mark.slow
def test_density_grows_as_far_as_it_helps():
    smooth, wavy = rows_of(lambda X: X[:, 0], 1), rows_of(lambda X: np.sin(40 * X[:, 0]), 1)
    densities = []
    for rows in (smooth, wavy):
        held_out = split_folds(len(rows), 0.2, np.random.default_rng(0))[0]
        random = np.random.default_rng(0)
        split = split_rows(rows, held_out)
        schedule = OPTIONS.schedule(rows, split)
        start = train_density(fresh_model(rows, OPTIONS, 4, random), split, schedule, random)
        member = grow(start, split, schedule, random)
        densities.append(member.model.density)
        assert member.loss == pytest.approx(rows.take(held_out).loss(member.model, "mse"))
    assert densities[0] <= 1
    assert densities[1] >= 2


def test_held_out_rows_count_by_their_weights():
    rows = rows_of(lambda X: X[:, 0] + np.random.default_rng(1).normal(0, 0.3, len(X)), 1)
    weighted = Rows(rows.points, rows.targets, np.linspace(0.01, 3, len(rows), dtype=np.float32))
    held_out = split_folds(len(rows), 0.2, np.random.default_rng(0))[0]
    for part in (rows, weighted):
        random = np.random.default_rng(0)
        split = split_rows(part, held_out)
        model = fresh_model(part, OPTIONS, 0, random)
        member = train_density(model, split, OPTIONS.schedule(part, split), random)
        assert pytest.approx(member.loss, rel=1e-6) in member.validation


def test_few_rows_get_a_small_additive_model():
    rows = rows_of(lambda X: X[:, 0], 2, rows=20)
    fitted = fit_model(rows, OPTIONS, [0, 1], in_turn)
    assert (fitted.model.density, fitted.model.terms) == (0, 0)
    assert [member.validation for member in fitted.members] == [[], []]


def test_a_model_does_not_grow_to_be_surer_of_classes_it_can_tell_apart():
    X = np.random.default_rng(0).random((400, 2)).astype(np.float32)
    X = X[np.abs(X[:, 0] - 0.5) > 0.3]
    classes = np.eye(2, dtype=np.float32)[(X[:, 0] > 0.5).astype(int)]
    options = dataclasses.replace(OPTIONS, outputs=2, loss="cross-entropy", learning_rate=0.1)
    fitted = fit_model(Rows(X, classes, np.ones(len(X), np.float32)), options, [0], in_turn)
    assert fitted.loss < 0.01
    assert (fitted.model.density, fitted.model.terms) == (0, 0)


def test_a_model_does_not_grow_for_a_constant():
    fitted = fit_model(rows_of(lambda X: np.zeros(len(X)), 1), OPTIONS, [0], in_turn)
    assert fitted.loss == 0
    assert (fitted.model.density, fitted.model.terms) == (0, 0)


@pytest.mark.slow
def test_terms_still_grow_where_classes_need_them():
    X = np.random.default_rng(0).random((600, 2)).astype(np.float32)
    classes = np.eye(2, dtype=np.float32)[((X[:, 0] > 0.5) != (X[:, 1] > 0.5)).astype(int)]
    options = dataclasses.replace(OPTIONS, outputs=2, loss="cross-entropy")
    fitted = fit_model(Rows(X, classes, np.ones(len(X), np.float32)), options, [0], in_turn)
    assert fitted.loss < 0.3
    assert fitted.model.terms >= 4


@pytest.fixture(scope="module")
def drifting():
    rows = rows_of(lambda X: X[:, 0], 1)
    drift = np.cumsum(np.random.default_rng(1).normal(0, 0.05, len(rows)))[:, None]
    return dataclasses.replace(rows, targets=(rows.targets + drift).astype(np.float32))


def test_order_is_found_in_the_errors_of_neighbours(drifting):
    rows = rows_of(lambda X: X[:, 0], 1)
    assert [is_ordered(part, solve_rows(part, 30)) for part in (rows, drifting)] == [False, True]


@pytest.mark.parametrize("heaviest", [2.0, 2.0**16])
def test_held_out_rows_are_taken_out_as_they_were_counted_in(drifting, monkeypatch, heaviest):
    monkeypatch.setattr(first_rows, "HEAVIEST", heaviest)  # which no row of a small table reaches
    weights = np.random.default_rng(0).exponential(size=len(drifting)).astype(np.float32)
    weighted = dataclasses.replace(drifting, weights=weights)
    solved = solve_rows(weighted, 30)
    points, targets, counted = as_first_rows(weighted)
    sums = Statistics(len(solved.features), 1)
    sums.add(solved.features(points), targets, counted)
    assert sums == solved.statistics
    assert counted.max() <= heaviest


@pytest.mark.parametrize("options", [{}, {"terms": 2, "density": 2}], ids=["solved", "trained"])
@pytest.mark.parametrize("maker", [AtlasRegressor, AtlasClassifier])
def test_a_column_that_is_constant_so_far_tells_nothing(maker, options):
    random = np.random.default_rng(0)
    X = np.column_stack([random.random((300, 2)), np.zeros(300)])
    y = 5 + X[:, 0] * X[:, 1]
    model = maker(members=1, random_state=0, **options).fit(X, y if maker is AtlasRegressor else y > 5.2)
    predicted = model.predict if maker is AtlasRegressor else model.predict_proba
    assert (predicted(X) == predicted(X + np.array([0, 0, 1]))).all()


@pytest.mark.parametrize(
    "options",
    [{}, {"terms": 2, "density": 2}, {"features": 0}, {"monotonic_cst": [1, 0]}],
    ids=["solved", "trained", "without evidence", "monotone"],
)
@pytest.mark.parametrize("rows", [20, 300])
def test_constant_columns_alone_fit_the_mean(rows, options, tmp_path):
    y = 5 + np.random.default_rng(0).normal(size=rows)
    model = AtlasRegressor(random_state=0, **options).fit(np.ones((rows, 2)), y)
    elsewhere = model.predict([[1.0, 1.0], [7.0, -3.0], [1.04, 1.0]])
    np.testing.assert_allclose(elsewhere, y.mean(), atol=0.05)
    np.testing.assert_allclose(elsewhere, elsewhere[0], atol=1e-6)  # the columns have no reason to matter
    save(model, tmp_path / "mean.atlas")
    assert (load(tmp_path / "mean.atlas").predict([[1.0, 1.0]]) == elsewhere[0]).all()


@pytest.mark.parametrize("rows", [60, 1000])
def test_intervals_of_the_mean_hold_what_they_promise(rows):
    random = np.random.default_rng(1)
    model = AtlasRegressor(random_state=0).fit(np.full((rows, 1), True), random.normal(size=rows))
    low, high = model.predict_interval([[True]], 0.9)
    new = random.normal(size=4000)
    assert 0.85 < np.mean((new >= low) & (new <= high)) < 0.97
    assert model.fit_record_.score == pytest.approx(0, abs=0.1)


def test_constant_columns_alone_fit_frequencies():
    y = np.arange(400) % 5 == 0
    model = AtlasClassifier(random_state=0).fit(np.full((400, 1), 3.0), y)
    np.testing.assert_allclose(model.predict_proba([[3.0], [9.0]])[:, 1], 0.2, atol=0.01)


def test_a_mean_follows_later_rows():
    y, ones = np.random.default_rng(0).normal(size=300), np.ones((300, 1))
    model = AtlasRegressor(retention="pool", random_state=0).fit(ones, y).partial_fit(ones, y + 3)
    assert model.predict([[1.0]])[0] == pytest.approx(y.mean() + 1.5, abs=0.05)


@pytest.mark.parametrize(("start", "width"), [(1e15, 100), (1e13, 100), (1.7e18, 1e9), (-1e15, 50)], ids=str)
def test_a_column_is_used_however_little_it_varies_beside_its_values(start, width):
    random = np.random.default_rng(0)
    place = np.round(random.random(300), 2)
    X = np.column_stack([start + width * place, random.random(300)])
    y = np.sin(6 * (X[:, 0] - start) / width)
    assert AtlasRegressor(random_state=0).fit(X, y).score(X, y) > 0.99
    assert AtlasRegressor(random_state=0).fit(X[:, :1], y).score(X[:, :1], y) > 0.99


@pytest.mark.parametrize("domain", ["data", "quantiles"])
@pytest.mark.parametrize("share", [0.001, 0.01])
def test_outliers_in_a_column_hardly_matter(domain, share):
    random = np.random.default_rng(0)
    X, new = random.random((1000, 2)), random.random((1000, 2))
    y, truth = (np.sin(5 * rows[:, 0]) + rows[:, 1] for rows in (X, new))
    X[: int(share * 1000)] = 1e9 * (1 + random.random((int(share * 1000), 2)))
    model = AtlasRegressor(domain=domain, extrapolation="error", random_state=0).fit(X, y)
    assert model.score(new, truth) > 0.99
    assert np.isfinite(model.predict(X)).all()  # rows of the fit are in the domain


# --- what a model costs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "inputs", "what"),
    [
        (
            {"outputs": 40_000, "loss": "cross-entropy"},
            100,
            r"a model of 100 inputs and 40,000 classes, of density 1 with 8 terms, would have 816,000,000 "
            r"coefficients, 3.0 GiB in memory and a multiple of that while it is fitted; leave out columns or "
            r"join classes",
        ),
        ({"density": 12, "terms": 100, "members": 4}, 50, "choose a lower density or fewer terms"),
        ({"density": 12}, 1000, "choose a lower density or fewer terms"),
    ],
)
def test_a_model_that_is_too_large_is_refused_before_the_work(options, inputs, what):
    with pytest.raises(ValueError, match=what):
        dataclasses.replace(OPTIONS, **options).check_cost(inputs)


@pytest.mark.parametrize(
    ("options", "inputs"),
    [({}, 1000), ({"outputs": 1000, "loss": "cross-entropy"}, 100), ({"density": 6, "terms": 100}, 100)],
)
def test_a_model_that_is_large_is_not_refused(options, inputs):
    dataclasses.replace(OPTIONS, **options).check_cost(inputs)


def test_an_estimator_tells_what_it_would_cost():
    X = np.random.default_rng(0).random((50, 3))
    with pytest.raises(
        ValueError, match=r"a model of 3 inputs and 1 outputs, of density 20 with .* coefficients"
    ):
        AtlasRegressor(density=20, terms=10).fit(X, X[:, 0])


def test_trained_models_of_many_inputs_grow_no_finer_than_there_is_room_for():
    options = dataclasses.replace(OPTIONS, loss="mae", members=2)
    assert options.finest_for(10_000, inputs=10) == 6
    assert options.finest_for(10_000, inputs=1000) == 4
    assert dataclasses.replace(options, density=5).finest_for(10_000, inputs=1000) == 5
