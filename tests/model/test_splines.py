import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from atlas_splines.model import splines

points = st.floats(0, 1)
densities = st.integers(0, 8)


@given(points, densities)
def test_basis_is_a_partition_of_unity(x, density):
    basis = splines.basis(np.array([x]), density)
    assert (basis >= 0).all()
    np.testing.assert_allclose(basis.sum(), 1, rtol=1e-12)


@given(points, densities)
def test_basis_has_local_support(x, density):
    nonzero = np.flatnonzero(splines.basis(np.array([x]), density)[0])
    assert nonzero.size <= 4
    assert np.ptp(nonzero) <= 3


@given(points, densities)
def test_active_functions_are_the_nonzero_ones(x, density):
    cells, weights = splines.active(np.array([x]), density)
    dense = np.zeros(splines.basis_size(density))
    dense[cells[0] : cells[0] + 4] = weights[0]
    np.testing.assert_allclose(dense, splines.basis(np.array([x]), density)[0], atol=1e-12)


@pytest.mark.parametrize("density", range(5))
def test_the_ends_of_the_interval_belong_to_the_end_cells(density):
    cells, _ = splines.active(np.array([0.0, 1.0]), density)
    assert cells.tolist() == [0, splines.cell_count(density) - 1]


@pytest.mark.parametrize("density", range(5))
def test_spline_agrees_with_scipy(density):
    random = np.random.default_rng(density)
    coefficients = random.normal(size=splines.basis_size(density))
    knots = (np.arange(coefficients.size + 4) - 3) / splines.cell_count(density)
    x = random.random(200)
    expected = BSpline(knots, coefficients, k=3)(x)
    np.testing.assert_allclose(splines.spline(coefficients, x), expected, atol=1e-12)


def test_approximation_error_is_of_order_four():
    x = np.linspace(0, 1, 4001)
    target = np.sin(7 * x)
    errors, widths = [], []
    for density in (3, 4, 5, 6):
        basis = splines.basis(x, density)
        fit = basis @ np.linalg.lstsq(basis, target, rcond=None)[0]
        errors.append(np.abs(fit - target).max())
        widths.append(1 / splines.cell_count(density))
    order = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert 3.8 < order < 4.3
