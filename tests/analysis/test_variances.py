import dataclasses

import numpy as np
import oracle
import pytest
from configurations import configurations
from hypothesis import given, settings
from hypothesis import strategies as st
from local_models import local_model, local_terms

from atlas_splines import Atlas, update
from atlas_splines.analysis import variance_shares, variances
from atlas_splines.analysis.variances import PickFreeze, PickFreezeRules
from atlas_splines.model.atlas import model_in, state_of

shapes = configurations(inputs=3, outputs=2, terms=4, density=3, damping=st.sampled_from([0.0, 2.0]))


def random_model(configuration, seed):
    return oracle.randomize(Atlas(**configuration, dtype="float64"), seed)


def shares_on_a_grid(model, points=40):
    """Total effects and pairs from the outputs on a grid alone, by their definitions; for three inputs."""
    places = (np.arange(points) + 0.5) / points
    grid = np.stack(np.meshgrid(places, places, places, indexing="ij"), axis=-1).reshape(-1, 3)
    outputs = model(grid).reshape(points, points, points, -1)
    total = [outputs.var(axis=j).mean(axis=(0, 1)).sum() for j in range(3)]
    main = [outputs.mean(axis=tuple({0, 1, 2} - {j})).var(axis=0).sum() for j in range(3)]
    pairs = np.diag(main)
    for i, j, other in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        together = outputs.mean(axis=other).var(axis=(0, 1)).sum()
        pairs[i, j] = pairs[j, i] = together - main[i] - main[j]
    whole = outputs.var(axis=(0, 1, 2)).sum()
    return np.array(total) / whole, pairs / whole


@settings(max_examples=12, deadline=None)
@given(shapes, st.integers(0, 99))
def test_shares_are_those_on_a_grid(configuration, seed):
    model = random_model({**configuration, "inputs": 3}, seed)
    total, pairs = shares_on_a_grid(model)
    shares = variance_shares(model)
    np.testing.assert_allclose(shares.total, total, atol=0.01)
    np.testing.assert_allclose(shares.pairs, pairs, atol=0.01)


@pytest.mark.slow
def test_total_effects_are_those_of_random_points():
    model = random_model({"inputs": 6, "outputs": 2, "terms": 3, "density": 2}, seed=3)
    random = np.random.default_rng(0)
    points, others = random.random((2, 200_000, 6))
    outputs = model(points)
    estimates = []
    for j in range(6):
        changed = points.copy()
        changed[:, j] = others[:, j]
        estimates.append(((outputs - model(changed)) ** 2).mean(axis=0).sum() / 2)
    expected = np.array(estimates) / outputs.var(axis=0).sum()
    np.testing.assert_allclose(variance_shares(model).total, expected, atol=0.01)


@pytest.mark.parametrize("slope", [0.1, 3.0, 12.0])
def test_an_exponential_of_a_sum(slope):
    model = Atlas(inputs=2, terms=1, density=0, dtype="float64")
    model.g(0)[0, 0] = slope * np.array([-1, 0, 1, 2])  # rises by the slope along each input
    mean, square = np.expm1(slope) / slope, np.expm1(2 * slope) / (2 * slope)
    main, pair, whole = mean**2 * (square - mean**2), (square - mean**2) ** 2, square**2 - mean**4
    shares = variance_shares(model)
    np.testing.assert_allclose(shares.pairs, np.array([[main, pair], [pair, main]]) / whole)
    np.testing.assert_allclose(shares.total, (main + pair) / whole)


def test_an_additive_model_has_no_pairs():
    shares = variance_shares(random_model({"inputs": 4, "terms": 0, "density": 3}, seed=0))
    np.testing.assert_allclose(shares.total.sum(), 1)
    np.testing.assert_allclose(shares.pairs, np.diag(shares.total))


@settings(max_examples=12, deadline=None)
@given(shapes, st.integers(0, 99))
def test_shares_add_up(configuration, seed):
    shares = variance_shares(random_model(configuration, seed))
    main, pairs = np.diagonal(shares.pairs), np.triu(shares.pairs, 1)
    assert (shares.total >= main + pairs.sum(axis=0) + pairs.sum(axis=1) - 1e-9).all()
    assert main.sum() + pairs.sum() <= 1 + 1e-9
    assert shares.total.sum() >= 1 - 1e-9
    np.testing.assert_array_equal(shares.pairs, shares.pairs.T)
    if len(shares.total) < 3:
        assert main.sum() + pairs.sum() == pytest.approx(1)


def test_inputs_may_be_permuted():
    model = random_model({"inputs": 4, "terms": 3, "density": 2}, seed=1)
    order, other = [2, 0, 3, 1], model.copy()
    for density in range(3):
        other.f(density)[:] = model.f(density)[:, order]
        other.g(density)[:] = model.g(density)[:, :, order]
        other.h(density)[:] = model.h(density)[:, :, order]
    expected, shares = variance_shares(model), variance_shares(other)
    np.testing.assert_allclose(shares.total, expected.total[order])
    np.testing.assert_allclose(shares.pairs, expected.pairs[np.ix_(order, order)])


def test_outputs_count_by_their_variances():
    model = Atlas(inputs=2, outputs=2, terms=0, density=0)
    model.f(0)[0, 0] = [-1, 0, 1, 2]
    model.f(0)[1, 1] = [-2, 0, 2, 4]
    np.testing.assert_allclose(variance_shares(model).total, [0.2, 0.8])


def constant_models():
    zero = Atlas(inputs=3, terms=2, density=2)
    flat, cancelling = zero.copy(), zero.copy()
    for density in range(3):
        flat.f(density)[:], flat.g(density)[:], flat.h(density)[:] = 0.3, 0.7, -0.1
        coefficients = np.random.default_rng(density).normal(size=zero.g(density).shape)
        cancelling.g(density)[:] = cancelling.h(density)[:] = coefficients
    return {"zero": zero, "flat": flat, "cancelling": cancelling}


@pytest.mark.parametrize("name", constant_models())
def test_nothing_varies(name):
    shares = variance_shares(constant_models()[name])
    assert not shares.total.any()
    assert not shares.pairs.any()


def test_exponentials_that_overflow():
    model = random_model({"inputs": 3, "terms": 2, "density": 1}, seed=2)
    model.f(1)[:] = model.f(0)[:] = 0
    expected = variance_shares(model)
    model.g(0)[:] += 400  # e^1200 everywhere
    model.h(0)[:] += 400
    shares = variance_shares(model)
    np.testing.assert_allclose(shares.total, expected.total)
    np.testing.assert_allclose(shares.pairs, expected.pairs)


def test_exponentials_that_vanish():
    model = random_model({"inputs": 3, "terms": 2, "density": 1}, seed=2)
    model.g(0)[:] -= 400
    model.h(0)[:] -= 400
    np.testing.assert_allclose(variance_shares(model).total.sum(), 1)


def test_many_inputs_with_narrow_bumps():
    """The products of 300 small means, and of their covariances, stay numbers."""
    model = Atlas(inputs=300, terms=2, density=2, dtype="float64")
    model.g(2)[0, :, :, 5:] = -900
    model.h(2)[0, :, :, :11] = -900
    model.f(2)[0, 7] = np.arange(16)
    shares = variance_shares(model)
    np.testing.assert_allclose(shares.total, np.arange(300) == 7)


def test_the_work_is_done_in_tiles(monkeypatch):
    model = random_model({"inputs": 3, "terms": 5, "density": 2}, seed=4)
    expected = variance_shares(model)
    monkeypatch.setattr(variances, "BLOCK", 3 * 4**2)  # four terms by four
    shares = variance_shares(model)
    np.testing.assert_allclose(shares.total, expected.total)
    np.testing.assert_allclose(shares.pairs, expected.pairs)


def test_neither_charts_nor_a_larger_domain_count():
    model = random_model({"inputs": 2, "terms": 2, "density": 2}, seed=5)
    expected = variance_shares(model)
    X = 0.2 + 0.2 * np.random.default_rng(0).random((100, 2))
    update(model, X, np.full(100, 9.0), epochs=2, random_state=0)
    assert model.charts
    model.extend(low=[-0.3, 0], high=[1, 2])
    shares = variance_shares(model)
    np.testing.assert_array_equal(shares.total, expected.total)
    np.testing.assert_array_equal(shares.pairs, expected.pairs)


def test_a_density_of_zeros_changes_nothing():
    model = random_model({"inputs": 2, "terms": 2, "density": 1}, seed=6)
    expected = variance_shares(model)
    np.testing.assert_allclose(variance_shares(model.expand(density=2)).total, expected.total)


@pytest.mark.parametrize("inputs", [2, 6])
def test_estimated_shares_are_the_exact_ones_within_their_standard_errors(inputs):
    model = random_model({"inputs": inputs, "outputs": 2, "terms": 3, "density": 2}, seed=3)
    exact = variance_shares(model)
    designs = [PickFreeze(state_of(model), seed) for seed in range(10)]
    for name, wanted in exact._asdict().items():
        found = np.stack([getattr(design, name) / design.whole for design in designs])
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert error.max() < 0.004
        # what is left out (pairs of inputs without interactions) is less than 1e-4 by the rules
        assert (np.abs(found.mean(axis=0) - wanted) < 4.5 * error + 1e-4).all()


def test_local_terms_count():
    """One input moves local terms alone, another the table alone: both have the shares of a grid."""
    model = local_model(inputs=3)
    shares = variance_shares(model)
    total, pairs = shares_on_a_grid(model, points=60)
    np.testing.assert_allclose(shares.total, total, atol=0.02)
    np.testing.assert_allclose(shares.pairs, pairs, atol=0.02)
    again = variance_shares(model)
    assert all((a == b).all() for a, b in zip(shares, again, strict=True))
    assert (variances.total_shares(model) == shares.total).all()


def test_a_state_of_local_terms_alone_leaves_out_inputs_that_they_do_not_depend_on():
    state = dataclasses.replace(state_of(Atlas(3, terms=0, density=0)), local=(local_terms(most_rows=1000),))
    shares = variance_shares(model_in(state))
    assert shares.total[2] == 0  # its rate is zero, and there is one box
    assert shares.total[0] > 0.1
    assert not shares.pairs[2].any()


def test_a_constant_state_with_local_terms_has_no_shares():
    terms = local_terms()
    flat = dataclasses.replace(terms, weights=0 * terms.weights, constants=0 * terms.constants + 3)
    model = model_in(dataclasses.replace(state_of(Atlas(3)), local=(flat,)))
    assert not variance_shares(model).total.any()
    assert not variances.total_shares(model).any()


def test_many_inputs_have_fewer_points():
    rules = PickFreezeRules()
    assert [rules.pairs_for(count) for count in (3, 30, 61, 10_000)] == [8192, 4096, 2048, 256]
