"""Folding: one model of many features, no larger than it has to be."""

import numpy as np
import pytest

from atlas_splines.memory.features import Features, RadialBasis
from atlas_splines.memory.initial_fit import choose_features
from atlas_splines.memory.to_atlas import MODEL_RULES, ModelRules, fold, rows_of_input
from atlas_splines.model.atlas import state_of


def bumps_of(inputs, length, count=200, seed=0):
    random = np.random.default_rng(seed)
    centres, lengths = random.random((count, inputs)), np.full(inputs, length * np.sqrt(inputs / 2))
    return Features(inputs, tuple(range(inputs)), (), (RadialBasis(centres, lengths),))


@pytest.mark.parametrize("inputs", [2, 10])
@pytest.mark.parametrize("length", [0.3, 0.03, 0.005])
def test_wide_cells_cost_no_digits(inputs, length):
    random, features = np.random.default_rng(1), bumps_of(inputs, length)
    weights = random.normal(size=(len(features), 1))
    centres = features.radial_bases[0].centres
    near = (centres + 0.7 * length * random.normal(size=centres.shape)).clip(0, 1)
    points = np.vstack([random.random((300, inputs)), near]).astype(np.float32)
    exact = features(points) @ weights
    assert np.abs(fold(features, weights)(points) - exact).max() < 3e-5 * exact.std()
    assert fold(features, weights).density <= 3


def test_outputs_share_the_columns_of_their_bumps():
    features = bumps_of(3, 0.1, count=50)
    weights = np.random.default_rng(0).normal(size=(len(features), 40))
    model = fold(features, weights)
    exponents = np.hstack(
        [side(model.density).reshape(40 * model.terms, -1).T for side in (model.g, model.h)]
    )
    assert np.unique(exponents, axis=1).shape[1] <= 50 + 1  # and that of terms that are not used
    constants = model.g(0)[:, :, 0]  # (outputs, terms, λ)
    assert (constants == constants[:, :, :1]).all()
    assert not model.g(0)[:, :, 1:].any()


def test_many_outputs_get_wider_cells():
    features = bumps_of(2, 0.005, count=30)
    weights = np.random.default_rng(0).normal(size=(len(features), 20_000))
    few, many = fold(features, weights[:, :2]), fold(features, weights)
    assert (few.density, many.density) == (3, 1)
    points = np.random.default_rng(1).random((50, 2)).astype(np.float32)
    exact = features(points) @ weights[:, :2]
    np.testing.assert_allclose(many(points)[:, :2], exact, atol=1e-3 * exact.std())


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (10, 1), (10, 40), (10, 200), (60, 200), (500, 3)])
def test_rules_bound_a_model(inputs, outputs):
    radial_bases = min(MODEL_RULES.most_centres(inputs, outputs, 1), 550)
    terms = MODEL_RULES.terms_per_basis * radial_bases
    finest = MODEL_RULES.finest(inputs, outputs, terms)
    sizes = [inputs * rows_of_input(d) * outputs * (2 * terms + 1) for d in (finest, finest + 1)]
    assert sizes[0] <= 1.01 * MODEL_RULES.coefficients
    assert finest == 6 or sizes[1] > MODEL_RULES.coefficients


def test_features_fit_the_room_of_a_model(monkeypatch):
    random = np.random.default_rng(0)
    points = random.random((400, 4))
    labels = np.eye(20)[(20 * points[:, 0]).astype(int)]
    rules = ModelRules(coefficients=2**18)
    free = dict(choose_features(points, labels)[0].fine)
    assert free[0] > 1
    for module in ("initial_fit", "to_atlas"):
        monkeypatch.setattr(f"atlas_splines.memory.{module}.MODEL_RULES", rules)
    features, _ = choose_features(points, labels)
    assert max((density for _, density in features.fine), default=0) <= 1
    (alone,) = [group for group in features.radial_bases if np.isfinite(group.lengths).sum() == 1]
    assert np.flatnonzero(np.isfinite(alone.lengths)) == [0]  # what was to be a spline
    assert len(alone.centres) > 8
    model = fold(features, random.normal(size=(len(features), 20)))
    assert model.n_parameters <= 1.3 * rules.coefficients  # terms are estimated


def test_a_model_without_bumps_has_no_finer_density_than_its_splines():
    features = Features(2, (0, 1), (), ())
    assert fold(features, np.ones((len(features), 3))).density == 0
    assert not state_of(fold(features, np.ones((len(features), 3)))).terms
