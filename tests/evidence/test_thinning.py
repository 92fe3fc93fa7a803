"""Fewer bumps: chosen step by step from the inverse, checked by solving anew."""

import numpy as np
import pytest

from atlas_splines.evidence.design import solve_first
from atlas_splines.evidence.readout import Prior, solve, sums_of
from atlas_splines.evidence.thinning import LEAST_BUMPS, kept_features, thinned_prior

RANDOM = np.random.default_rng(0)
POINTS = RANDOM.random((3000, 3))
TARGETS = np.stack([np.sin(6 * POINTS[:, 0]) * POINTS[:, 1], POINTS[:, 2] ** 2], axis=1)
TARGETS += 0.1 * RANDOM.normal(size=TARGETS.shape)


@pytest.fixture(scope="module")
def solved():
    return solve_first(POINTS, TARGETS, budget=250, looks_ahead=False)


def endless_error(statistics, prior):
    """Mean squared error with endless rows, solved for in the plain way, shape (outputs,)."""
    sums = sums_of(statistics)
    readout = sums.readout(prior)
    precision = sums.gram + np.diag(prior.diagonal)
    determined = np.trace(np.linalg.solve(precision, sums.gram))
    left = sums.square - np.einsum("ij,ij->j", readout.weights, sums.moment)
    return left / (sums.count - determined)


@pytest.mark.parametrize("tolerance", [1e-4, 0.002])
def test_errors_grow_by_no_more_than_the_tolerance(solved, tolerance):
    kept = kept_features(solved.features, solved.statistics, solved.readout, tolerance)
    assert kept.sum() < len(kept)
    prior = thinned_prior(solved.readout.prior, kept)
    fewer = solved.statistics.narrowed(np.flatnonzero(kept))
    growth = endless_error(fewer, prior) / endless_error(solved.statistics, solved.readout.prior)
    assert growth.mean() <= (1 + tolerance) ** 2 + 1e-9
    assert solved.features.with_only(kept).sizes == prior.sizes


def test_errors_that_are_small_beside_the_target_may_grow():
    clean = np.sin(6 * POINTS[:, :1]) * POINTS[:, 1:2]
    every = solve_first(POINTS, clean, budget=250, looks_ahead=False)
    kept = kept_features(every.features, every.statistics, every.readout, 0.01)
    fewer = every.statistics.narrowed(np.flatnonzero(kept))
    growth = endless_error(fewer, thinned_prior(every.readout.prior, kept)) / endless_error(
        every.statistics, every.readout.prior
    )
    assert growth[0] > 1.01**2
    said = (
        every.features(POINTS)[:, kept]
        @ sums_of(fewer).readout(thinned_prior(every.readout.prior, kept)).weights
    )
    assert np.sqrt(np.mean((said - clean) ** 2)) < 0.02 * clean.std()


def test_the_bump_that_goes_first_is_missed_least(solved):
    """One step of the fast way beside solving without each bump."""
    bumps = sum(len(group.centres) for group in solved.features.bumps)
    first = len(kept_features_of(solved, bumps - 1)[1])
    assert first == 1
    gone = int(kept_features_of(solved, bumps - 1)[1][0])
    linear = len(solved.features) - bumps
    usual = endless_error(solved.statistics, solved.readout.prior)
    growth = []
    for j in range(linear, len(solved.features)):
        kept = np.arange(len(solved.features)) != j
        sums = sums_of(solved.statistics.narrowed(np.flatnonzero(kept)))
        readout = sums.readout(thinned_prior(solved.readout.prior, kept))
        left = sums.square - np.einsum("ij,ij->j", readout.weights, sums.moment)
        growth.append((left / usual).sum())
    assert gone == linear + int(np.argmin(growth))


def kept_features_of(solved, least):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("atlas_splines.evidence.thinning.LEAST_BUMPS", least)
        kept = kept_features(solved.features, solved.statistics, solved.readout, 1e6)
    return kept, np.flatnonzero(~kept)


def test_some_bumps_stay_and_splines_do_too(solved):
    kept = kept_features(solved.features, solved.statistics, solved.readout, 1e6)
    linear = len(solved.features) - sum(len(group.centres) for group in solved.features.bumps)
    assert kept[:linear].all()
    assert kept[linear:].sum() == LEAST_BUMPS


def test_all_stay_where_nothing_is_tolerated_or_weights_are_bound(solved):
    assert kept_features(solved.features, solved.statistics, solved.readout, 0.0).all()
    rising = solve_first(
        POINTS, TARGETS, budget=250, signs=((1, 0, 0),) * 2, looks_ahead=False, tolerance=1.0
    )
    assert len(rising.features) > 200


def test_a_solution_with_fewer_bumps_is_that_of_their_own_sums(solved):
    fewer = solve_first(POINTS, TARGETS, budget=250, tolerance=0.002)
    assert len(fewer.features) < len(solved.features)
    assert fewer.statistics.features == len(fewer.features) == len(fewer.readout.weights)
    assert fewer.ahead.shape == TARGETS.shape
    phi = fewer.features(POINTS)
    assert np.abs(fewer.statistics.gram - phi.T @ phi).max() < 1e-2
    again = solve(fewer.statistics, Prior.flat(fewer.features.sizes, steps=5))
    said = np.abs(phi @ (again.weights - fewer.readout.weights)).max()
    assert said < 0.1
