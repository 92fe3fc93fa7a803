import numpy as np
import pytest
from scipy.optimize import lsq_linear

from atlas_splines.memory.constraints import Cone, solve_within
from atlas_splines.memory.features import SIDED, Features, RadialBasis
from atlas_splines.memory.initial_fit import design
from atlas_splines.memory.posterior import Prior, posterior_of
from atlas_splines.memory.softmax import most_likely
from atlas_splines.memory.to_atlas import fold
from atlas_splines.model import splines
from atlas_splines.model.atlas import state_of
from atlas_splines.model.monotone import constrained, is_monotone

SIGNS = ((1, 0),)


def some_features(monotonic=SIGNS):
    random = np.random.default_rng(0)
    lengths, middles = np.array([0.3, 0.4]), random.random((5, 2))
    rising, falling = (RadialBasis.around(middles, lengths, (side, 0)) for side in (1, -1))
    free = RadialBasis(middles, np.array([np.inf, 0.4]))
    return Features(2, (0, 1), ((0, 2),), (free, rising, falling), monotonic)


def some_rows(rows=300):
    random = np.random.default_rng(1)
    X = random.random((rows, 2))
    y = np.sin(6 * X[:, :1]) * X[:, 1:] + 0.1 * random.normal(size=(rows, 1))
    return X, y


def test_the_best_weights_in_a_cone():
    features, (X, y) = some_features(), some_rows()
    phi, cone = features(X), features.cone
    precision, moment = phi.T @ phi + 0.1 * np.eye(len(features)), phi.T @ y
    weights, factor, face = solve_within(precision, moment, cone)
    steps = cone.weights_of(np.eye(len(features)))
    low = np.where(cone.monotonic[:, 0] > 0, 0, -np.inf)
    high = np.where(cone.monotonic[:, 0] < 0, 0, np.inf)
    root = np.linalg.cholesky(precision)
    slow = lsq_linear(root.T @ steps, np.linalg.solve(root, moment)[:, 0], (low, high), method="bvls")
    np.testing.assert_allclose(weights[:, 0], steps @ slow.x, atol=1e-6)
    np.testing.assert_allclose(factor @ factor.T, face.basis.T @ precision @ face.basis, atol=1e-8)
    np.testing.assert_allclose(weights, face.basis @ face.steps, atol=1e-12)
    assert len(face.kept) < len(features)


def test_a_cone_that_agrees_with_the_data_changes_little():
    features, (X, _) = some_features(), some_rows()
    y = 3 * X[:, :1]
    prior = Prior.flat([len(features)])
    free = posterior_of(features(X), y, prior, 0)
    bound = posterior_of(features(X), y, Prior(prior.sizes, prior.precisions, 1, features.cone), 0)
    apart = features(X) @ bound.weights - features(X) @ free.weights
    assert np.sqrt(np.mean(apart**2)) < 0.02
    np.testing.assert_allclose(bound.noise, free.noise, atol=2e-3)


@pytest.mark.parametrize("rows", [7, 100])  # by errors, and by the rest, for there are 42 features
def test_blocks_left_out_by_formula_and_by_solving(rows):
    features, (X, _) = some_features(), some_rows()
    y = np.tanh(3 * X[:, :1]) + X[:, 1:]
    prior = Prior((len(features),), np.array([1.0]), 1, features.cone)
    whole = posterior_of(features(X), y, prior, 0)
    block = np.arange(rows)
    left = whole.block_cross_validated(features(X), y, np.ones(len(X)), [block, np.arange(rows, len(X))])[
        block
    ]
    rest = posterior_of(features(X[rows:]), y[rows:], prior, 0)
    solved = y[block] - features(X[block]) @ rest.weights
    assert np.sqrt(np.mean((left - solved) ** 2)) < 0.2 * np.sqrt(np.mean(solved**2))


def test_a_side_is_a_spline():
    features = some_features()
    X = np.random.default_rng(2).random((200, 2))
    X[:30] = np.rint(X[:30] * splines.cell_count(SIDED)) / splines.cell_count(SIDED)
    weights = np.random.default_rng(3).normal(size=(len(features), 1))
    np.testing.assert_allclose(
        fold(features, weights, "float64")(X), features(X) @ weights, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("monotonic", [((1, 0),), ((-1, 1),), ((1, 1), (-1, -1))])
def test_a_fold_of_weights_in_a_cone_is_monotone_to_the_bit(monotonic):
    X, _ = some_rows()
    y = monotonic[0][0] * np.tanh(4 * X[:, :1]) * X[:, 1:]
    features, posterior = design(
        X, np.hstack([ways[0] * monotonic[0][0] * y for ways in monotonic]), 60, monotonic=monotonic
    )
    assert is_monotone(state_of(constrained(fold(features, posterior.weights), monotonic)))
    assert not is_monotone(state_of(constrained(fold(features, -posterior.weights), monotonic)))


def test_classes_in_a_cone():
    features, (X, y) = some_features(((-1, 0), (1, 0))), some_rows()
    labels = np.hstack([y < 0.2, y >= 0.2]).astype(float)
    precision = np.full(len(features), 0.1)
    W = most_likely(features(X), labels, np.ones(len(X)), precision, cone=features.cone)
    assert is_monotone(state_of(constrained(fold(features, W), features.monotonic)))
    free = most_likely(features(X), labels, np.ones(len(X)), precision)
    assert not is_monotone(state_of(constrained(fold(features, free), features.monotonic)))


def test_classes_that_the_cone_agrees_with_are_found_as_well():
    features, (X, _) = some_features(((-1, 0), (1, 0))), some_rows()
    labels = np.hstack([X[:, :1] < 0.5, X[:, :1] >= 0.5]).astype(float)
    W = most_likely(features(X), labels, np.ones(len(X)), np.full(len(features), 0.1), cone=features.cone)
    assert ((features(X) @ W).argmax(axis=1) == labels.argmax(axis=1)).mean() > 0.98


def test_a_cone_without_bounds_is_all_weights():
    cone = Cone((slice(0, 3),), np.zeros((3, 1), np.int8))
    for _ in range(20):  # least squares of nothing would harm memory, sooner or later
        weights = solve_within(2 * np.eye(3), np.array([[1.0], [3.0], [2.0]]), cone)[0]
    np.testing.assert_allclose(weights, [[0.5], [1.5], [1.0]])
