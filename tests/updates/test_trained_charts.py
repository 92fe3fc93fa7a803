"""What charts learn, from few rows or many, of any size."""

import numpy as np
import pytest
from boxes import box_data

from atlas_splines import (
    Atlas,
    Trainer,
    update,
)
from atlas_splines.model.charts import chart_densities, chart_table


def test_a_chart_learns_a_constant_coordinate(trained):
    model = trained.copy()
    X = np.random.default_rng(0).random((500, 2))
    X[:, 0] = 0.5
    update(model, X, np.cos(6 * X[:, 1]), random_state=0)
    assert np.abs(model(X)[:, 0] - np.cos(6 * X[:, 1])).mean() < 0.05
    assert (model([[0.51, 0.5]]) == trained([[0.51, 0.5]])).all()


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 30, 120])
def test_few_rows_are_enough(rows):
    random = np.random.default_rng(0)
    X = 0.3 + 0.3 * random.random((rows, 2))
    model = Atlas(2)
    update(model, X, np.full(rows, 2.0), random_state=0)
    assert np.abs(model(X) - 2).max() < 0.2
    middle = X.mean(axis=0, keepdims=True)
    assert abs(model(middle)[0, 0] - 2) < 0.2  # between the rows too


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_the_size_of_the_targets_does_not_matter(size):
    X = 0.2 + 0.5 * np.random.default_rng(0).random((1000, 1))
    model = Atlas(1)
    update(model, X, size * np.sin(10 * X), random_state=0)
    assert np.abs(model(X) - size * np.sin(10 * X)).mean() < 0.02 * size


@pytest.mark.slow
def test_several_charts_agree_where_they_meet():
    X = np.repeat(
        np.random.default_rng(0).random((3000, 1)), 2, axis=1
    )  # a diagonal, covered by eight charts
    model = Atlas(2)
    update(model, X, np.sin(8 * X[:, 0]), random_state=0)
    assert len(model.charts) == 8
    assert np.abs(model(X)[:, 0] - np.sin(8 * X[:, 0])).mean() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["mae", "mse", "huber"])
def test_losses_and_outputs(loss):
    X = 0.2 + 0.5 * np.random.default_rng(0).random((800, 2))
    y = np.stack([X[:, 0], np.sin(6 * X[:, 1])], axis=1)
    model = Atlas(2, outputs=2)
    update(model, X, y, loss=loss, random_state=0)
    assert np.abs(model(X) - y).mean() < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("rows", [500, 2000])
@pytest.mark.parametrize(
    "target",
    [
        lambda x, y: 100 * (x - 0.35) * (y - 0.35),
        lambda x, y: np.sin(20 * x) * np.sin(20 * y),
        lambda x, y: np.sin(40 * x * y) - 3,
    ],
    ids=["product", "waves", "chirp"],
)
def test_interactions_are_learned_from_few_rows(target, rows):
    X = 0.2 + 0.3 * np.random.default_rng(0).random((rows, 2))
    y = target(*X.T)
    done = update(Atlas(2), X, y, random_state=0)
    assert done.error_after < 0.1 * np.abs(y - np.median(y)).mean()


def test_the_terms_of_a_chart_are_not_all_the_same_function():
    random = np.random.default_rng(0)
    X = random.random((500, 2))
    model = Atlas(inputs=2)
    update(model, X, X[:, 0] * X[:, 1], random_state=0)
    chart = model.charts[0]
    terms = chart.content.terms
    coefficients = chart_table(chart)[:, : 2 * terms]  # G and H
    assert np.abs(coefficients - coefficients[:, :1])[:, 1:terms].max(axis=0).min() > 0.1


@pytest.mark.slow
def test_a_wild_target_and_outputs_of_different_size_do_no_harm():
    X = 0.2 + 0.5 * np.random.default_rng(0).random((1000, 2))
    u = np.sin(6 * X[:, 0]) + X[:, 1]
    model, wild = Atlas(2), u.copy()
    wild[7] = 1e6
    update(model, X, wild, random_state=0)
    assert np.abs(model(X)[:, 0] - u)[np.arange(1000) != 7].mean() < 0.1
    model = Atlas(2, outputs=3)
    update(model, X, np.stack([u, 1e6 * u, 0 * u], axis=1), random_state=0)
    error = np.abs(model(X) - np.stack([u, 1e6 * u, 0 * u], axis=1)).mean(axis=0)
    assert (error < [0.05, 5e4, 0.05]).all()


def test_a_density_and_terms_can_be_given():
    X, y = box_data(2, 0)
    model = Atlas(2)
    update(model, X, y + 20, density=4, terms=3, epochs=5, random_state=0)
    assert chart_densities(model.charts[0]).max() == 4
    assert model.charts[0].content.terms == 3


@pytest.mark.slow
def test_edges_are_learned_too():
    """Noise-free data up to the faces of the cube, and values far from the old ones."""
    random = np.random.default_rng(0)
    for low, high in ((0.0, 1.0), (0.2, 0.7)):
        X = low + (high - low) * random.random((5000, 2))
        model = Atlas(2)
        update(model, X, 5 + np.sin(5 * X[:, 0]), random_state=0)
        interior = low + (high - low) * (0.1 + 0.8 * random.random((1000, 2)))
        assert np.abs(model(interior)[:, 0] - 5 - np.sin(5 * interior[:, 0])).mean() < 0.003
        edge = low + (high - low) * np.stack(
            [0.01 * random.random(1000), 0.01 + 0.98 * random.random(1000)], axis=1
        )
        assert np.abs(model(edge)[:, 0] - 5 - np.sin(5 * edge[:, 0])).mean() < 0.1
    model = Atlas(2)
    X = random.random((5000, 2))
    update(model, X, np.full(5000, 5.0), random_state=0)
    corners = [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert np.abs(model(corners) - 5).max() < 0.1


@pytest.mark.parametrize("loss", ["mae", "mse"])
def test_held_out_rows_count_by_their_weights(loss, monkeypatch):
    """By the user's, and by the window's, which rows in the rim of a fence have a small share of."""
    X = 0.2 + 0.5 * np.random.default_rng(0).random((600, 2))
    X[::3, 0] = 0.2 + 0.002 * np.random.default_rng(2).random(200)  # in the rim
    weights = np.random.default_rng(1).choice([0.01, 1.0], 600)
    given, run = [], Trainer.run

    def watched(self, X, y, **options):
        given.append((options["validation"], options["validation_weight"]))
        return run(self, X, y, **options)

    monkeypatch.setattr(Trainer, "run", watched)
    model = Atlas(2)
    update(
        model,
        X,
        X[:, 0] * X[:, 1],
        cover="inside",
        charts=1,
        loss=loss,
        epochs=1,
        sample_weight=weights,
        random_state=0,
    )
    window = model.charts[0].window
    [held_out] = {weight.tobytes(): (pair, weight) for pair, weight in given if pair is not None}.values()
    (points, _), found = held_out
    low, high = window.box.T
    there = np.abs((low + (high - low) * points)[:, None] - X).max(axis=2).argmin(axis=1)  # rows of X
    membership = np.maximum(window.membership(X[there].astype(np.float32)), 1e-3)
    assert membership.min() < 0.1
    np.testing.assert_allclose(found, weights[there] * membership ** (2 if loss == "mse" else 1), rtol=0.02)
