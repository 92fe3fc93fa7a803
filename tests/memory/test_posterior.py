"""Weights and marginal likelihood against plain formulas."""

import numpy as np
import pytest
from drawn_rows import counted, data
from scipy.stats import multivariate_normal

from atlas_splines.memory.posterior import Prior, exact_traces, hutchinson_traces, learn_prior, solve, sums_of
from atlas_splines.memory.statistics import Statistics


def test_weights_are_those_of_a_dense_solve():
    phi, y, weights = data()
    posterior = solve(counted((phi, y, weights)), Prior((3, 4), np.array([0.5, 20.0]), steps=0))
    precision = phi.T @ (weights[:, None] * phi) + np.diag([0.5] * 3 + [20.0] * 4)
    np.testing.assert_allclose(
        posterior.weights, np.linalg.solve(precision, phi.T @ (weights[:, None] * y)), atol=1e-5
    )
    np.testing.assert_allclose(
        posterior.leverage(phi), np.diag(phi @ np.linalg.inv(precision) @ phi.T), rtol=1e-4
    )


def test_evidence_is_the_normal_log_density_of_the_targets():
    phi, y, _ = data(30, outputs=1)
    values = []
    for precision in (0.1, 1.0, 10.0):
        posterior = solve(counted((phi, y), outputs=1), Prior((7,), np.array([precision]), steps=0))
        covariance = posterior.noise[0] * (np.eye(30) + phi @ phi.T / precision)
        density = multivariate_normal.logpdf(y[:, 0], cov=covariance)
        values.append(posterior.log_marginal_likelihood - density)  # a constant of the number of rows
    np.testing.assert_allclose(values, 15 * (np.log(2 * np.pi) + 1), atol=1e-3)


def test_steps_go_uphill_and_tell_groups_apart():
    random = np.random.default_rng(0)
    phi = random.uniform(-1, 1, (400, 40))
    y = phi[:, :20] @ random.normal(size=(20, 1)) + 0.5 * random.normal(size=(400, 1))  # the rest is idle
    statistics = counted((phi, y), features=40, outputs=1)
    start = Prior.flat([20, 20])
    at_start, learned = (learn_prior(statistics, start, steps) for steps in (0, 8))
    stepped = solve(statistics, Prior.flat([20, 20], steps=3))
    assert (
        at_start.log_marginal_likelihood
        < stepped.log_marginal_likelihood
        <= learned.log_marginal_likelihood + 1
    )
    assert learned.prior.precisions[1] > 20 * learned.prior.precisions[0]
    np.testing.assert_allclose(learned.noise, 0.25, rtol=0.2)


def test_probes_estimate_the_traces():
    phi, y, _ = data(200, features=60, outputs=1)
    posterior = solve(counted((phi, y), features=60, outputs=1), Prior.flat([30, 30]))
    np.testing.assert_allclose(hutchinson_traces(posterior), exact_traces(posterior), rtol=0.1)


def test_idle_features_and_no_data_do_no_harm():
    assert not solve(Statistics(5, 1), Prior.flat([5])).weights.any()
    phi, y, _ = data()
    idle = np.hstack([phi, np.zeros((500, 3)), phi[:, :1]])  # never active, and a copy
    posterior = solve(counted((idle, y), features=11), Prior.flat([7, 4]))
    assert np.isfinite(posterior.weights).all()
    assert not posterior.weights[7:10].any()


def test_what_has_faded_to_nothing_is_zero():
    phi, y, _ = data()
    known, none = (sums_of(counted((rows[0], rows[1]))) for rows in ((phi, y), (0 * phi, 0 * y)))
    assert np.array_equal(known.decay(none, 10.0).gram, 0.5 ** (none.count / 10) * known.gram)
    sums = known
    for _ in range(400):  # long enough for every number to leave those of full accuracy
        sums = sums.decay(none, none.count / 10)
        left = np.concatenate([sums.gram.ravel(), sums.moment.ravel(), sums.square])
        assert not ((left != 0) & (np.abs(left) < np.finfo(float).tiny)).any()
    assert not left.any()


@pytest.mark.parametrize("lightest", [1e-12, 1e-6, 0.1, 1], ids="weights from {}".format)
@pytest.mark.parametrize("count", [4, 20])  # with more rows than features, and with fewer
def test_held_out_blocks_need_no_readout_of_their_own(lightest, count):
    random = np.random.default_rng(3)
    phi, y = random.uniform(-1, 1, (90, 12)), random.normal(size=(90, 2))
    weights = random.uniform(lightest, 3 if lightest < 1 else 1, 90)
    weights[:35] = lightest
    prior = Prior.flat([5, 7], steps=0)
    total = Statistics(12, 2)
    total.add(phi, y, weights)
    blocks = np.array_split(np.arange(70), count)  # the rest came with another update
    left = solve(total, prior).block_cross_validated(phi[:70], y[:70], weights[:70], blocks)
    for held in blocks:
        rest = total.copy()
        rest.subtract(phi[held], y[held], weights[held])
        np.testing.assert_allclose(left[held], y[held] - phi[held] @ solve(rest, prior).weights, atol=2e-4)
