"""The first data, solved: which inputs matter, and what each row would be predicted without itself."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from atlas_splines.memory import initial_fit as designing
from atlas_splines.memory.initial_fit import choose_features, design, fit_features, relevant_inputs
from atlas_splines.memory.posterior import posterior_of
from atlas_splines.memory.to_atlas import fold


def smooth(rows, inputs=2, seed=0):
    random = np.random.default_rng(seed)
    points = random.random((rows, inputs))
    targets = np.sin(5 * points[:, :1]) * points[:, 1:2] + 0.1 * random.normal(size=(rows, 1))
    return points, targets / targets.std()


def test_no_row_predicts_itself():
    points, targets = smooth(80)
    weights = np.random.default_rng(1).uniform(0.5, 2, 80)
    solved = fit_features(points, targets, weights, budget=30)
    phi, prior = solved.features(points), solved.posterior.prior
    for row in (0, 17):
        others = np.arange(80) != row
        root = np.sqrt(weights[others])[:, None]
        without = posterior_of(root * phi[others], root * targets[others], prior, steps=0)
        np.testing.assert_allclose(solved.out_of_sample[row], phi[row] @ without.weights, atol=1e-3)


@pytest.mark.slow
def test_small_leverages_may_be_estimates(monkeypatch):
    points, targets = smooth(4000)
    rows = (points, targets, None)
    solved = fit_features(points, targets, budget=100)
    monkeypatch.setattr(designing, "RULES", replace(designing.RULES, small_leverage=0.0))
    exact = designing.out_of_sample_of(solved.features, *rows, solved.posterior) - targets
    assert not np.array_equal(solved.out_of_sample - targets, exact)
    np.testing.assert_allclose(solved.out_of_sample - targets, exact, rtol=0.07)
    assert np.square(solved.out_of_sample - targets).mean() == pytest.approx(
        np.square(exact).mean(), rel=1e-3
    )


def test_errors_ahead_are_those_on_new_rows():
    points, targets = smooth(4000)
    solved = fit_features(points[:800], targets[:800], budget=200)
    out_of_sample = np.sqrt(np.mean((solved.out_of_sample - targets[:800]) ** 2))
    new = np.sqrt(np.mean((solved.features(points[800:]) @ solved.posterior.weights - targets[800:]) ** 2))
    assert out_of_sample == pytest.approx(new, rel=0.1)


@pytest.mark.slow
def test_in_a_wide_table_inputs_that_do_not_matter_have_coefficients_of_exactly_zero():
    points, targets = make_friedman1(1500, n_features=40, noise=1.0, random_state=0)
    targets = (targets - targets.mean()) / targets.std()
    features, posterior = design(points, targets[:, None], budget=150)
    model = fold(features, posterior.weights)
    used = [j for j in range(40) if any((part(rho)[..., j, :] != part(rho)[..., j, :1]).any()
            for part in (model.f, model.g, model.h) for rho in range(model.density + 1))]  # fmt: skip
    assert set(range(5)) <= set(used)
    assert len(used) <= 8


def test_a_narrow_table_keeps_all_its_inputs():
    points, targets = smooth(500, inputs=6)
    relevant, lengths = relevant_inputs(points, targets, np.ones(6, bool), np.random.default_rng(0))
    assert relevant.all()
    assert np.isfinite(lengths).all()


def test_an_input_with_one_value_has_no_features():
    points, targets = smooth(500, inputs=6)
    points[:, 2] = 0.5
    features, _ = choose_features(points, targets, budget=150)
    assert 2 not in features.coarse
    assert all(np.isinf(group.lengths[2]) for group in features.radial_bases)


def test_an_input_with_two_values_has_one_function():
    points, targets = smooth(500, inputs=4)
    points[:, 3] = points[:, 3] > 0.4
    features, _ = choose_features(points, targets + points[:, 3:], budget=150)
    assert features.linear == (3,)
    assert features.coarse == (0, 1, 2)


def test_all_inputs_of_a_wide_table_have_a_share():
    points = np.random.default_rng(0).random((400, 60))
    targets = points.sum(axis=1, keepdims=True) + 9 * np.sin(5 * points[:, 7:8])
    features = designing.coarse_splines(points, targets, np.ones(60, bool), budget=75)
    assert len(features) == 1 + 75
    assert len(features.linear) == 55
    assert 7 in features.coarse
    most = designing.coarse_splines(points, targets, np.ones(60, bool), budget=20)
    assert (most.coarse, len(most.linear)) == ((), 20)


def test_features_are_chosen_on_a_sample(monkeypatch):
    points, targets = smooth(600)
    monkeypatch.setattr(designing, "RULES", replace(designing.RULES, sample=200))
    features, prior = choose_features(points, targets, budget=150)
    assert len(features) == sum(prior.sizes) <= 150


def test_pieces_make_no_difference(monkeypatch):
    points, targets = smooth(300)
    whole = fit_features(points, targets, budget=40)
    monkeypatch.setattr(designing, "PIECE", 70)
    cut = fit_features(points, targets, budget=40)
    assert cut.statistics == whole.statistics
    np.testing.assert_allclose(cut.out_of_sample, whole.out_of_sample, atol=1e-9)


@pytest.mark.slow
def test_a_thousand_columns_are_no_trouble():
    points, targets = make_friedman1(600, n_features=1000, noise=1.0, random_state=0)
    targets = (targets - targets.mean()) / targets.std()
    solved = fit_features(points, targets[:, None], budget=200)
    assert np.mean((solved.out_of_sample[:, 0] - targets) ** 2) < 0.5


def parity(points):
    """What no sum of functions of single inputs says."""
    return np.sign(points[:, :1] - 0.5) * np.sign(points[:, 1:2] - 0.5)


def test_pairs_that_act_together_get_bumps_of_their_own():
    points = np.random.default_rng(0).random((1500, 12))
    targets = parity(points) + parity(points[:, 2:]) + parity(points[:, 4:])
    features, _ = choose_features(points, targets, budget=300)
    found = {tuple(np.flatnonzero(np.isfinite(group.lengths)).tolist()) for group in features.radial_bases}
    assert {(0, 1), (2, 3), (4, 5)} <= found
    assert len(features) <= 300
    assert all(len(group.centres) for group in features.radial_bases)


def test_a_model_of_pairs_is_folded_like_any_other():
    points = np.random.default_rng(0).random((1500, 12))
    targets = parity(points) + parity(points[:, 2:]) + parity(points[:, 4:])
    features, posterior = design(points, targets, budget=300)
    folded = fold(features, posterior.weights)(points.astype(np.float32))
    np.testing.assert_allclose(folded, features(points) @ posterior.weights, atol=2e-3)


def test_without_pairs_that_act_together_all_bumps_are_of_all_inputs():
    points = np.random.default_rng(0).random((600, 3))
    features, _ = choose_features(points, np.sin(6 * points).sum(axis=1, keepdims=True), budget=200)
    assert all(np.isfinite(group.lengths).all() for group in features.radial_bases)


def test_features_that_are_remembered_have_the_bits_of_those_made_anew(monkeypatch):
    monkeypatch.setattr(designing, "PIECE", 64)
    points, targets = smooth(300)
    solved, known = fit_features(points, targets, budget=60), designing.FeaturePieces()
    for rows in (100, 200, 300):  # rows come at the end, and then some in the middle are others
        plain = designing.out_of_sample_of(
            solved.features, points[:rows], targets[:rows], None, solved.posterior
        )
        quick = designing.out_of_sample_of(
            solved.features, points[:rows], targets[:rows], None, solved.posterior, known
        )
        assert (quick == plain).all()
    assert len(known.known) == 4
    points = np.delete(points, 70, axis=0)
    plain = designing.out_of_sample_of(solved.features, points, targets[1:], None, solved.posterior)
    assert (
        designing.out_of_sample_of(solved.features, points, targets[1:], None, solved.posterior, known)
        == plain
    ).all()


def test_of_features_no_more_is_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(designing, "PIECE", 64)
    points, targets = smooth(300)
    solved, known = fit_features(points, targets, budget=60), designing.FeaturePieces(most=64 * 60 * 8 * 2)
    designing.out_of_sample_of(solved.features, points, targets, None, solved.posterior, known)
    assert 1 <= len(known.known) < 4
