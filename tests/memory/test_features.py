"""Features: bounded everywhere, chosen by evidence, and folded into one model."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from atlas_splines.memory.features import Features, RadialBasis
from atlas_splines.memory.initial_fit import LEAST_FEATURES, design
from atlas_splines.memory.posterior import solve
from atlas_splines.memory.selection import finer_splines, length_scales, negative_likelihood
from atlas_splines.memory.statistics import Statistics
from atlas_splines.memory.to_atlas import fold
from atlas_splines.model import splines
from atlas_splines.model.atlas import state_of
from atlas_splines.model.evaluate import is_bounded


def table(rows=600, inputs=3, noise=0.05, seed=0):
    random = np.random.default_rng(seed)
    points = random.random((rows, inputs))
    return points, np.sin(6 * points[:, :1] * points[:, 1:2]) + noise * random.normal(size=(rows, 1))


def some_features(inputs=3):
    random = np.random.default_rng(0)
    radial_bases = (
        RadialBasis(random.random((20, inputs)), np.linspace(0.02, 0.5, inputs)),
        RadialBasis(random.random((9, inputs)), np.full(inputs, 2.0)),
    )
    return Features(inputs, (0, 2), ((1, 3), (0, 4)), radial_bases)


def test_features_are_bounded_far_from_the_data_too():
    points = 1000 * np.random.default_rng(0).normal(size=(500, 3))
    phi = some_features()(points)
    assert phi.shape == (500, len(some_features()))
    assert (phi >= 0).all()
    assert (phi <= 1).all()
    assert np.array_equal(phi, some_features()(points.clip(0, 1)))


def test_bumps_among_others_are_what_each_group_says():
    features, points = some_features(), np.random.default_rng(2).random((70, 3))
    phi, begin = features(points), len(features) - 29
    for group in features.radial_bases:
        squared = (((points[:, None] - group.centres) / group.lengths) ** 2).sum(axis=2)
        own = phi[:, begin : begin + len(group.centres)]
        assert np.array_equal(own, group(points))
        np.testing.assert_allclose(own, np.exp(-0.5 * squared), rtol=1e-9, atol=1e-80)
        begin += len(group.centres)


@pytest.mark.slow
def test_predictions_stay_in_bounds_far_from_the_data():
    points, targets = table()
    features, posterior = design(points, targets, budget=150)
    far = np.random.default_rng(1).uniform(-50, 50, (2000, 3))
    assert np.abs(features(far) @ posterior.weights).max() < 5 * np.abs(targets).max()


@pytest.mark.parametrize("density", [0, 1, 4])
def test_splines_are_the_basis(density):
    x = np.append(np.random.default_rng(0).random(100), [0.0, 1.0])
    features = Features(1, (0,), (), ()) if density == 0 else Features(1, (), ((0, density),), ())
    values = features(x[:, None])[:, 1:]
    np.testing.assert_allclose(values, splines.basis(x, density), atol=1e-12)
    cells, weights = splines.active(x, density)
    assert np.array_equal(np.take_along_axis(values, cells[:, None] + np.arange(4), axis=1), weights)


@pytest.mark.parametrize("outputs", [1, 3])
def test_fold_is_the_weighted_sum(outputs):
    features, random = some_features(), np.random.default_rng(1)
    weights = random.normal(size=(len(features), outputs))
    weights[-5:] = 0
    points = np.vstack(
        [random.random((500, 3)), np.zeros(3), np.ones(3), features.radial_bases[0].centres]
    ).astype(np.float32)
    np.testing.assert_allclose(fold(features, weights)(points), features(points) @ weights, atol=3e-5)


@pytest.mark.slow
def test_fold_of_a_designed_model_is_accurate_to_float32():
    points, targets = table()
    features, posterior = design(points, targets, budget=200)
    model = fold(features, posterior.weights)
    assert is_bounded(state_of(model))
    largest = (features(points) @ np.abs(posterior.weights)).max()  # of what is summed up
    atol = 4 * np.finfo(np.float32).eps * largest
    np.testing.assert_allclose(model(points), features(points) @ posterior.weights, rtol=0, atol=atol)
    assert atol < 1e-3


def test_a_linear_function_is_the_coordinate_and_folds_to_it():
    features = Features(
        3, (1,), ((1, 2),), (RadialBasis(np.full((2, 3), 0.4), np.full(3, 0.3)),), linear=(0, 2)
    )
    assert features.sizes == (1, 4, 2, 16, 2)
    points = np.random.default_rng(1).random((50, 3)).astype(np.float32)
    np.testing.assert_allclose(features(points)[:, 5:7], points[:, [0, 2]])
    assert features.used == {0, 1, 2}
    weights = np.random.default_rng(0).normal(size=(len(features), 2))
    np.testing.assert_allclose(fold(features, weights)(points), features(points) @ weights, atol=1e-5)


def test_an_output_that_rises_along_a_linear_input_has_a_weight_of_that_sign():
    cone = Features(2, (1,), (), (), monotonic=((1, 0), (-1, 0)), linear=(0,)).cone
    assert cone.ranges == ()
    assert cone.monotonic[5].tolist() == [1, -1]
    assert not cone.monotonic[:5].any()


def test_fold_without_bumps_is_splines_alone():
    features = Features(2, (0, 1), ((1, 2),), ())
    weights = np.random.default_rng(0).normal(size=(len(features), 1))
    model = fold(features, weights)
    assert model.terms == 0
    points = np.random.default_rng(1).random((50, 2)).astype(np.float32)
    np.testing.assert_allclose(model(points), features(points) @ weights, atol=1e-5)


def test_the_gradient_of_the_likelihood():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(20, 3)), random.normal(size=(20, 2))
    at = np.array([0.1, -0.5, 0.3, 0.2, -1.0])
    wrong = check_grad(
        lambda p: negative_likelihood(p, x, y, -0.5)[0], lambda p: negative_likelihood(p, x, y, -0.5)[1], at
    )
    assert wrong < 1e-4


@pytest.mark.slow
def test_inputs_that_do_not_matter_get_long_scales():
    points, targets = table(inputs=6)
    lengths = length_scales(points, targets, np.random.default_rng(0))
    assert lengths[2:].min() > 4 * lengths[:2].max()


@pytest.mark.slow
def test_columns_of_noise_hardly_hurt():
    errors = []
    for inputs in (2, 7):
        points, targets = table(900, inputs)
        features, posterior = design(points[:600], targets[:600], budget=200)
        errors.append(np.abs(features(points[600:]) @ posterior.weights - targets[600:]).mean())
    assert errors[1] < 1.3 * errors[0] < 0.1


def test_finer_splines_go_where_the_evidence_is():
    random = np.random.default_rng(0)
    points = random.random((2000, 3))
    targets = np.sin(60 * points[:, 1:2]) + 0.1 * random.normal(size=(2000, 1))
    ((column, density),) = finer_splines(points, targets, 300)
    assert column == 1
    assert density >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "inputs"), [(1, 2), (5, 3), (40, 60), (300, 200)])
def test_few_rows_and_many_columns_have_few_features(rows, inputs):
    points, targets = table(rows, inputs)
    features, posterior = design(points, np.hstack([targets, -targets]), budget=100)
    assert len(features) <= max(min(100, rows), LEAST_FEATURES)
    assert np.isfinite(posterior.weights).all()


def test_constant_columns_and_repeated_rows():
    points = np.full((100, 2), 0.5)
    points[:, 0] = np.arange(100) % 4 / 4
    features, posterior = design(points, points[:, :1] ** 2)
    np.testing.assert_allclose(features(points) @ posterior.weights, points[:, :1] ** 2, atol=0.02)


def test_classes_to_come_are_learned_when_they_come():
    random = np.random.default_rng(0)
    middles = random.random((4, 5))
    labels = np.repeat(np.arange(4), 200)
    points, targets = (middles[labels] + 0.1 * random.normal(size=(800, 5))).clip(0, 1), np.eye(4)[labels]
    features, posterior = design(points[:400], targets[:400], budget=200)  # two of four classes
    statistics = Statistics(len(features), 4)
    for label in range(4):
        statistics.add(features(points[labels == label]), targets[labels == label])
    weights = solve(statistics, posterior.prior).weights
    assert ((features(points) @ weights).argmax(axis=1) != labels).mean() < 0.03


@pytest.mark.slow
def test_crowding_is_the_share_of_known_rows():
    points, targets = table(2000, 2)
    features, _ = design(points, targets, budget=200)
    statistics = Statistics(len(features), 1)
    statistics.add(features(points), targets)
    share = features.share_in_box(statistics, np.zeros(2), np.array([0.5, 0.5]))
    assert share == pytest.approx(0.25, abs=0.1)
    assert features.share_in_box(statistics, np.zeros(2), np.ones(2)) == pytest.approx(1)


@pytest.mark.slow
def test_the_choice_is_repeatable():
    points, targets = table()
    (one, first), (other, second) = design(points, targets, 120), design(points, targets, 120)
    assert one.sizes == other.sizes
    assert np.array_equal(first.weights, second.weights)
