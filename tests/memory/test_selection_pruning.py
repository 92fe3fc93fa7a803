"""Fewer bumps: chosen step by step from the inverse, checked by solving anew."""

from dataclasses import replace

import numpy as np
import pytest

from atlas_splines.memory.initial_fit import fit_features
from atlas_splines.memory.posterior import Prior, solve, sums_of
from atlas_splines.memory.selection import SELECTION_RULES, kept_features, pruned_prior

RANDOM = np.random.default_rng(0)
POINTS = RANDOM.random((3000, 3))
TARGETS = np.stack([np.sin(6 * POINTS[:, 0]) * POINTS[:, 1], POINTS[:, 2] ** 2], axis=1)
TARGETS += 0.1 * RANDOM.normal(size=TARGETS.shape)


@pytest.fixture(scope="module")
def solved():
    return fit_features(POINTS, TARGETS, budget=250, is_out_of_sample=False)


def endless_error(statistics, prior):
    """Mean squared error with endless rows, solved for in the plain way, shape (outputs,)."""
    sums = sums_of(statistics)
    posterior = sums.posterior(prior)
    precision = sums.gram + np.diag(prior.diagonal)
    determined = np.trace(np.linalg.solve(precision, sums.gram))
    left = sums.square - np.einsum("ij,ij->j", posterior.weights, sums.moment)
    return left / (sums.count - determined)


@pytest.mark.parametrize("tolerance", [1e-4, 0.002])
def test_errors_grow_by_no_more_than_the_tolerance(solved, tolerance):
    kept = kept_features(solved.features, solved.statistics, solved.posterior, tolerance)
    assert kept.sum() < len(kept)
    prior = pruned_prior(solved.posterior.prior, kept)
    fewer = solved.statistics.narrowed(np.flatnonzero(kept))
    growth = endless_error(fewer, prior) / endless_error(solved.statistics, solved.posterior.prior)
    assert growth.mean() <= (1 + tolerance) ** 2 + 1e-9
    assert solved.features.with_only(kept).sizes == prior.sizes


def test_errors_that_are_small_beside_the_target_may_grow():
    clean = np.sin(6 * POINTS[:, :1]) * POINTS[:, 1:2]
    every = fit_features(POINTS, clean, budget=250, is_out_of_sample=False)
    kept = kept_features(every.features, every.statistics, every.posterior, 0.01)
    fewer = every.statistics.narrowed(np.flatnonzero(kept))
    growth = endless_error(fewer, pruned_prior(every.posterior.prior, kept)) / endless_error(
        every.statistics, every.posterior.prior
    )
    assert growth[0] > 1.01**2
    predicted = (
        every.features(POINTS)[:, kept]
        @ sums_of(fewer).posterior(pruned_prior(every.posterior.prior, kept)).weights
    )
    assert np.sqrt(np.mean((predicted - clean) ** 2)) < 0.02 * clean.std()


def test_the_bump_that_goes_first_is_missed_least(solved):
    """One step of the fast way beside solving without each bump."""
    radial_bases = sum(len(group.centres) for group in solved.features.radial_bases)
    first = len(kept_features_of(solved, radial_bases - 1)[1])
    assert first == 1
    gone = int(kept_features_of(solved, radial_bases - 1)[1][0])
    linear = len(solved.features) - radial_bases
    usual = endless_error(solved.statistics, solved.posterior.prior)
    growth = []
    for j in range(linear, len(solved.features)):
        kept = np.arange(len(solved.features)) != j
        sums = sums_of(solved.statistics.narrowed(np.flatnonzero(kept)))
        posterior = sums.posterior(pruned_prior(solved.posterior.prior, kept))
        left = sums.square - np.einsum("ij,ij->j", posterior.weights, sums.moment)
        growth.append((left / usual).sum())
    assert gone == linear + int(np.argmin(growth))


def kept_features_of(solved, least):
    with pytest.MonkeyPatch.context() as patch:
        rules = replace(SELECTION_RULES, least_centres=least)
        patch.setattr("atlas_splines.memory.selection.SELECTION_RULES", rules)
        kept = kept_features(solved.features, solved.statistics, solved.posterior, 1e6)
    return kept, np.flatnonzero(~kept)


def test_some_bumps_stay_and_splines_do_too(solved):
    kept = kept_features(solved.features, solved.statistics, solved.posterior, 1e6)
    linear = len(solved.features) - sum(len(group.centres) for group in solved.features.radial_bases)
    assert kept[:linear].all()
    assert kept[linear:].sum() == SELECTION_RULES.least_centres


def test_all_stay_where_nothing_is_tolerated_or_weights_are_bound(solved):
    assert kept_features(solved.features, solved.statistics, solved.posterior, 0.0).all()
    rising = fit_features(
        POINTS, TARGETS, budget=250, monotonic=((1, 0, 0),) * 2, is_out_of_sample=False, tolerance=1.0
    )
    assert len(rising.features) > 200


def test_a_solution_with_fewer_bumps_is_that_of_their_own_sums(solved):
    fewer = fit_features(POINTS, TARGETS, budget=250, tolerance=0.002)
    assert len(fewer.features) < len(solved.features)
    assert fewer.statistics.features == len(fewer.features) == len(fewer.posterior.weights)
    assert fewer.out_of_sample.shape == TARGETS.shape
    phi = fewer.features(POINTS)
    assert np.abs(fewer.statistics.gram - phi.T @ phi).max() < 1e-2
    again = solve(fewer.statistics, Prior.flat(fewer.features.sizes, steps=5))
    predicted = np.abs(phi @ (again.weights - fewer.posterior.weights)).max()
    assert predicted < 0.1
