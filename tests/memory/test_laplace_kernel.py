"""The Laplace kernel: regression in a box beside plain formulas, and length scales."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from atlas_splines.memory.kept_rows import Distinct, HeldRows
from atlas_splines.memory.laplace_kernel import (
    KERNEL_RULES,
    LaplaceKernel,
    _Sample,
    fit_box,
    leave_out_blocks,
)


def box(rows=60, outputs=2, seed=0):
    random = np.random.default_rng(seed)
    points = random.random((rows, 3)).astype(np.float32)
    return points, random.normal(size=(rows, outputs)), random.uniform(0.3, 3, rows)


KERNEL = LaplaceKernel(np.array([2.0, 0.0, 5.0], np.float32), noise=0.1)


def plain(points, others):
    z, c = (each.astype(np.float64) * KERNEL.rates for each in (points, others))
    return 1 + np.exp(-np.abs(z[:, None] - c).sum(axis=2))


def solved(points, targets, weights):
    return np.linalg.solve(plain(points, points) + np.diag(KERNEL.noise / weights), targets)


def test_weights_are_those_of_the_plain_formula():
    points, targets, weights = box()
    found = fit_box(KERNEL, points, targets, weights)
    np.testing.assert_allclose(found.weights, solved(points, targets, weights), atol=1e-4)


def test_leave_one_out_is_a_fit_without_the_row():
    points, targets, weights = box()
    found = fit_box(KERNEL, points, targets, weights)
    for row in range(0, 60, 7):
        rest = np.arange(60) != row
        near = plain(points[[row]], points[rest])
        alone = near @ solved(points[rest], targets[rest], weights[rest])
        np.testing.assert_allclose(found.rest[row], alone[0], atol=1e-3)
        covariance = plain(points[rest], points[rest]) + np.diag(KERNEL.noise / weights[rest])
        variance = 2 - near @ np.linalg.solve(covariance, near.T)
        assert found.variances[row] == pytest.approx(variance[0, 0], abs=1e-3)


def test_leaving_blocks_out_is_a_fit_without_them():
    points, targets, weights = box()
    blocks = np.arange(60) // 20
    wanted = [targets, 2 * targets, targets + 1]  # other targets for each block
    found = leave_out_blocks(KERNEL, points, wanted, weights, blocks)
    for block in range(3):
        own = blocks == block
        rest = solved(points[~own], wanted[block][~own], weights[~own])
        np.testing.assert_allclose(found[own], plain(points[own], points[~own]) @ rest, atol=1e-4)


def test_a_row_among_others_at_its_point_is_left_out_without_solving_again():
    random = np.random.default_rng(0)
    places = random.random((15, 3))
    points = places[random.integers(0, 15, 60)]
    rows = HeldRows.of(points, random.normal(size=(60, 1)), random.uniform(0.5, 2, 60))
    merged, targets = Distinct.of(rows), rows.targets.astype(np.float64)
    fit = fit_box(KERNEL, merged.points, merged.merged(targets), merged.weights)
    found = merged.leave_out(targets, fit.rest, fit.variances, KERNEL.noise)
    for row in range(0, 60, 7):
        rest = np.arange(60) != row
        others = rows.points[rest], targets[rest], rows.weights[rest].astype(np.float64)
        expected = plain(rows.points[[row]], others[0]) @ solved(*others)
        np.testing.assert_allclose(found[row], expected[0], atol=1e-3)


def test_copies_are_left_out_together():
    points, targets, _ = box(rows=150, outputs=1)
    rows = HeldRows.of(points, targets, np.ones(150))
    doubled = rows.joined(rows)
    merged, wanted = Distinct.of(doubled), doubled.targets.astype(np.float64)
    fit = fit_box(KERNEL, merged.points, merged.merged(wanted), merged.weights)
    found = merged.leave_out(wanted, fit.rest, fit.variances, KERNEL.noise)
    rest = np.arange(300) % 150 != 3
    others = doubled.points[rest], wanted[rest], np.ones(298)
    np.testing.assert_allclose(
        found[[3, 153]], np.tile(plain(points[[3]], others[0]) @ solved(*others), (2, 1)), atol=1e-3
    )


def test_the_slope_of_the_likelihood_is_its_slope():
    points, targets, weights = box(rows=40)
    sample = _Sample(points, targets, weights, (np.full(40, 0.3), np.full(40, 0.5)))
    parameters = np.log([1.5, 0.7, 2.0, 0.8, 0.3])

    def value(logs):
        return sample.likelihood(np.exp(logs[:3]), *np.exp(logs[3:]))[0]

    slope = sample.likelihood(np.exp(parameters[:3]), *np.exp(parameters[3:]))[1]
    np.testing.assert_allclose(slope, approx_fprime(parameters, value, 1e-4), rtol=2e-2, atol=2e-2)


def data(rows, inputs=6, noise=0.1, seed=0):
    random = np.random.default_rng(seed)
    points = random.random((rows, inputs)).astype(np.float32)
    clean = np.abs(points[:, 0] - 0.5) + np.sign(points[:, 1] - 0.3) * points[:, 2]
    return points, (clean + noise * random.normal(size=rows)).astype(np.float64)[:, None]


def kernel_of(points, targets, seed=0, weights=None, rules=KERNEL_RULES):
    weights = np.ones(len(points)) if weights is None else weights
    return LaplaceKernel.of(Distinct.of(HeldRows.of(points, targets, weights)), targets, seed, rules)


@pytest.mark.parametrize("rows", [300, 3000])
def test_inputs_that_matter_have_short_lengths(rows):
    rates = kernel_of(*data(rows)).rates
    assert rates[:3].min() > 3 * rates[3:].max()


def test_noise_is_found_from_rows_at_one_point():
    points, _ = data(100)
    many = np.repeat(points, 8, axis=0)
    targets = 3 * many[:, :1] + np.random.default_rng(1).normal(size=(800, 1))
    assert kernel_of(many, targets).noise > 0.1
    assert kernel_of(many, 3.0 * many[:, :1].astype(float)).noise < 0.01


def test_where_nothing_varies_there_is_no_length():
    flat = np.full((50, 2), 0.5, np.float32)
    assert not kernel_of(flat, np.random.default_rng(0).normal(size=(50, 1))).rates.any()
    assert not kernel_of(data(50)[0], np.zeros((50, 1))).rates.any()


def test_weights_count_as_rows():
    points, targets = data(250)
    twice = kernel_of(points, targets, weights=np.full(250, 2.0))
    once = kernel_of(points, targets)
    assert twice.noise == pytest.approx(2 * once.noise, rel=0.3)
