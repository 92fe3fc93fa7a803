import re
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_splines.analysis import polynomials
from atlas_splines.analysis.polynomials import (
    continued_log,
    error_bound,
    from_polynomial,
    quasi_interpolant,
    split,
)
from atlas_splines.model import splines
from atlas_splines.model.atlas import state_of

UNIT = (0.1, 1.0)
PRODUCT = {(1, 1): 1.0}


def evaluate(terms, X):
    """The polynomial, monomial by monomial."""
    total = np.zeros(len(X))
    for exponents, coefficient in terms.items():
        monomial = np.full(len(X), float(coefficient))
        for j, exponent in enumerate(exponents):
            monomial *= X[:, j] ** exponent
        total += monomial
    return total


def sides(box, inputs):
    return np.broadcast_to(np.array(box, float), (inputs, 2))


def box_points(box, inputs, rows=5000):
    """Random points of the box, random corners of it, and points near the upper corner."""
    random = np.random.default_rng(7)
    low, high = sides(box, inputs).T
    corners = np.where(random.random((rows // 5, inputs)) < 0.5, low, high)
    depth = random.random((rows // 5, inputs)) * random.random((rows // 5, 1)) ** 4
    return np.concatenate([random.uniform(low, high, (rows, inputs)), corners, high - (high - low) * depth])


def measured_error(model, terms, box=UNIT):
    X = box_points(box, model.inputs)
    return np.abs(model(X)[:, 0] - evaluate(terms, X)).max()


def interpolation_errors(phi, second_derivative, densities, x):
    fits = [splines.spline(quasi_interpolant(phi, second_derivative, d), x) for d in densities]
    return np.array([np.abs(fit - phi(x)).max() for fit in fits])


def power_error(theta, edge, exponent):
    return polynomials.power_errors(theta, edge, np.array([exponent]))[0]


def true_power_error(theta, low, exponent):
    x = np.linspace(low, 1, 200_001)
    return np.abs(np.exp(exponent * splines.spline(theta, x)) - x**exponent).max()


def convergence_order(errors, densities):
    widths = [1 / splines.cell_count(density) for density in densities]
    return np.polyfit(np.log(widths), np.log(errors), 1)[0]


# --- the model approximates the polynomial ----------------------------------------------------------


CASES = {
    "quintic": ({(5,): 2.0, (1,): -3.0, (0,): 0.5}, UNIT, 1e-6),
    "high power": ({(40,): 1.0}, UNIT, 1e-4),
    "constant": ({(0, 0): -7.25}, UNIT, 1e-9),
    "product": (PRODUCT, UNIT, 1e-6),
    "negative product": ({(2, 3): -5.0}, UNIT, 1e-3),
    "mixed signs": ({(1, 1): 2.0, (2, 0): -1.0, (0, 0): 3.0, (1, 2): -4.0, (3, 1): 0.25}, UNIT, 1e-4),
    "high powers": ({(20, 15): 3.0, (1, 30): -1.0}, UNIT, 1e-3),
    "steep powers": ({(1000, 700): 1.0, (2, 900): -1.0}, (0.01, 1.0), 1e-3),
    "low box": (PRODUCT, (0.05, 1.0), 1e-5),
    "high edge below one": ({(1, 2): 1.0, (4, 0): 1.0}, (0.2, 0.6), 1e-7),
    "narrow box": ({(1, 1): 1.0, (0, 6): 1.0}, (0.52, 0.53), 1e-9),
    "large coefficients": ({(1, 1): 1e6, (2, 2): -1e6, (0, 1): 1e-6}, UNIT, 1.0),
    "three inputs": (
        {(2, 3, 1): -3.0, (1, 1, 1): 2.0, (0, 2, 0): 1.0, (0, 1, 4): -0.5, (0, 0, 0): -7.0},
        [(0.05, 0.7), (0.3, 1.0), (0.1, 0.4)],
        1e-5,
    ),
}


@pytest.mark.parametrize(("terms", "box", "tolerance"), CASES.values(), ids=CASES)
def test_error_is_below_the_tolerance(terms, box, tolerance):
    inputs = len(next(iter(terms)))
    model = from_polynomial(terms, inputs, tolerance, box=box)
    assert measured_error(model, terms, box) < tolerance


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-5])
def test_error_is_below_the_tolerance_in_float32(tolerance):
    terms = CASES["mixed signs"][0]
    model = from_polynomial(terms, 2, tolerance, dtype="float32")
    assert model.dtype == np.float32
    assert measured_error(model, terms) < tolerance


coefficients = st.floats(-10, 10)
boxes = st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.5)).map(lambda edge: (edge[0], edge[0] + edge[1]))


@st.composite
def problems(draw):
    inputs = draw(st.integers(1, 3))
    exponents = st.tuples(*[st.integers(0, 5)] * inputs)
    terms = draw(st.dictionaries(exponents, coefficients, max_size=5))
    return terms, inputs, draw(st.lists(boxes, min_size=inputs, max_size=inputs))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from([1e-1, 1e-2, 1e-3]), st.sampled_from(["float32", "float64"]))
def test_error_is_below_the_tolerance_for_any_small_polynomial(problem, tolerance, dtype):
    terms, inputs, box = problem
    model = from_polynomial(terms, inputs, tolerance, box=box, dtype=dtype)
    assert measured_error(model, terms, box) < tolerance


def test_outputs_are_finite_on_the_whole_cube():
    model = from_polynomial({(3, 2): 4.0, (1, 5): -1.0}, 2, 1e-3, box=(0.05, 0.5))
    grid = np.linspace(0, 1, 50)
    X = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    assert np.abs(model(X)).max() < 10


# --- what the model is made of ----------------------------------------------------------------------


def test_smaller_tolerance_needs_higher_density():
    densities = [from_polynomial(PRODUCT, 2, tolerance).density for tolerance in (1e-1, 1e-3, 1e-5, 1e-7)]
    assert densities == [1, 3, 5, 6]


def test_lower_box_needs_higher_density():
    densities = [from_polynomial(PRODUCT, 2, 1e-4, box=(low, 1.0)).density for low in (0.5, 0.1, 0.02)]
    assert densities == [2, 4, 5]


@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_density_is_the_lowest_with_a_sufficient_bound(tolerance):
    model = from_polynomial(PRODUCT, 2, tolerance)
    polynomial, edges = split(PRODUCT, 2), sides(UNIT, 2)
    assert error_bound(polynomial, edges, model.density) < tolerance
    assert error_bound(polynomial, edges, model.density - 1) >= tolerance


def test_only_the_finest_density_is_filled():
    model = from_polynomial(CASES["mixed signs"][0], 2, 1e-4)
    assert state_of(model).filled_densities(list(range(model.density + 1))).tolist() == [model.density]
    assert model.damping == 0


def test_monomials_of_one_input_use_no_exponentials():
    model = from_polynomial({(4, 0): 1.0, (0, 7): -2.0, (0, 0): 1.0}, 2, 1e-4)
    assert model.terms == 0


def test_each_product_uses_one_pair_of_exponentials():
    model = from_polynomial({(1, 1): 1.0, (2, 1): -2.0, (3, 3): 0.0, (0, 7): -2.0}, 2, 1e-3)
    assert model.terms == 2


def test_cubics_of_one_input_need_no_density():
    terms = {(3,): 5.0, (2,): -1.0, (1,): 2.0, (0,): 3.0}
    model = from_polynomial(terms, 1, 1e-12)
    assert model.density == 0
    assert measured_error(model, terms) < 1e-13


def test_order_of_the_terms_does_not_matter():
    terms = {(1, 1): 0.5, (2, 1): -2.0, (1, 2): 2.0, (0, 4): 1.0}
    backwards = dict(reversed(terms.items()))
    one, other = from_polynomial(terms, 2, 1e-2), from_polynomial(backwards, 2, 1e-2)
    np.testing.assert_array_equal(state_of(one).table, state_of(other).table)


def test_products_are_ordered_by_size():
    polynomial = split({(1, 1): 0.5, (2, 1): -2.0, (1, 2): 1.0}, 2)
    assert polynomial.coefficients.tolist() == [-2.0, 1.0, 0.5]
    assert polynomial.exponents.tolist() == [[2, 1], [1, 2], [1, 1]]


def test_factors_are_positive_and_differ_by_the_coefficient():
    model = from_polynomial({(1, 1): 0.5, (2, 1): -2.0}, 2, 1e-6)
    weights = splines.basis(np.ones(1), model.density)[0]  # at x = 1 every monomial is one
    G, H = ((view(model.density)[0] @ weights).sum(axis=1) for view in (model.g, model.h))
    np.testing.assert_allclose(np.exp(G) / [1, 4], [2.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(np.exp(H) / [1, 4], [4.0, 0.5], rtol=1e-6)


def test_g_and_h_of_a_pair_differ_by_a_constant_of_the_first_input():
    model = from_polynomial({(3, 1): 0.5, (2, 1): -2.0}, 2, 1e-6)
    difference = (model.g(model.density) - model.h(model.density))[0]  # (terms, inputs, λ)
    np.testing.assert_allclose(difference[0, 0], -np.log(2), rtol=1e-13)
    np.testing.assert_allclose(difference[1, 0], np.log(2), rtol=1e-13)
    assert not difference[:, 1].any()


@pytest.mark.parametrize("terms", [{}, {(1, 1): 0.0, (2, 0): 0.0, (0, 0): 0.0}])
def test_zero_polynomial_gives_the_zero_model(terms):
    model = from_polynomial(terms, 2, 1e-9)
    assert (model.terms, model.density) == (0, 0)
    assert not state_of(model).table.any()


# --- the bound --------------------------------------------------------------------------------------


BOUNDED = [
    ({(6,): 1.0}, 1.1),
    (PRODUCT, 2.5),
    ({(1, 1): 3.0, (0, 5): -1.0}, 2.5),
    ({(2, 1, 1): -1.0}, 3.5),
    ({(20, 15): 3.0}, 1.3),
]


@pytest.mark.parametrize("density", [3, 4, 5, 6])
@pytest.mark.parametrize(("terms", "looseness"), BOUNDED)
def test_bound_holds_and_is_not_far_off(terms, looseness, density):
    inputs = len(next(iter(terms)))
    polynomial, edges = split(terms, inputs), sides(UNIT, inputs)
    error = measured_error(polynomials.build(polynomial, edges, density, "float64"), terms)
    bound = error_bound(polynomial, edges, density)
    assert error < bound < looseness * error


@pytest.mark.parametrize("density", [1, 4, 8])  # at 8 the two products agree to 10 digits
def test_bound_follows_its_formula(density):
    terms, edges = {(2, 3): -5.0, (1, 7): 0.5, (6, 0): 2.0}, np.array([[0.1, 0.5], [0.2, 0.8]])
    polynomial = split(terms, 2)
    additive, logs = polynomials.fit_splines(polynomial, edges, density)
    expected = Fraction(polynomials.spline_errors(additive[0], polynomial.additive[0], edges[0])[1].max())
    for size, exponents in [(5, (2, 3)), (Fraction(1, 2), (1, 7))]:
        B = [Fraction(high**i) for (_, high), i in zip(edges, exponents, strict=True)]
        D = [Fraction(power_error(*one)) for one in zip(logs, edges, exponents, strict=True)]
        expected += size * (prod(b + d for b, d in zip(B, D, strict=True)) - prod(B))
    np.testing.assert_allclose(error_bound(polynomial, edges, density), float(expected), rtol=1e-12)


@pytest.mark.parametrize(("low", "density", "power"), [(0.001, 3, 2), (0.01, 3, 1000), (0.05, 1, 500)])
def test_power_error_holds_where_exponentials_are_steep(low, density, power):
    theta = quasi_interpolant(*continued_log(low), density)
    assert true_power_error(theta, low, power) < power_error(theta, np.array([low, 1.0]), power) < np.inf


def test_power_error_holds_between_the_last_two_points():
    log, second_derivative = continued_log(0.1)
    theta = quasi_interpolant(lambda x: log(x) + 0.001 * (1 - x), second_derivative, density=3)
    points = 0.1 + 0.9 * np.linspace(0, 1, 16 * theta.size + 1)
    on_points = np.abs(np.exp(1000 * splines.spline(theta, points)) - points**1000).max()
    error = true_power_error(theta, 0.1, 1000)
    assert 1.1 * on_points < error < power_error(theta, np.array(UNIT), 1000)


@pytest.mark.parametrize("power", [1, 2, 5, 40, 300])
@pytest.mark.parametrize("density", [3, 5, 7])
def test_power_error_is_not_far_off(density, power):
    theta = quasi_interpolant(*continued_log(0.1), density)
    error = true_power_error(theta, 0.1, power)
    assert error < power_error(theta, np.array(UNIT), power) < 1.05 * error


def test_power_errors_belong_to_their_exponents():
    theta, exponents = quasi_interpolant(*continued_log(0.1), 4), np.array([3, 0, 1, 3])
    errors = polynomials.power_errors(theta, np.array(UNIT), exponents)
    assert errors.tolist() == [power_error(theta, np.array(UNIT), i) for i in exponents]
    assert errors[1] == 0


@pytest.mark.parametrize("low", [0.03, 0.1, 0.37])
@pytest.mark.parametrize("density", range(8))
def test_safety_factor_covers_what_the_grid_misses(low, density):
    theta = quasi_interpolant(*continued_log(low), density)
    x, errors = polynomials.spline_errors(theta, np.log, np.array([low, 1.0]))
    fine = np.linspace(low, 1, 32 * (x.size - 1) + 1)
    true = np.abs(splines.spline(theta, fine) - np.log(fine))
    assert true.max() < errors.max() < 1.02 * true.max()
    onwards = np.maximum.accumulate(errors[::-1])[::-1]  # powers rise: an error further right counts more
    assert (true[:-1].reshape(-1, 32).max(axis=1) < onwards[:-1]).all()


@pytest.mark.parametrize(("dtype", "least", "most"), [("float32", 1e-8, 1e-5), ("float64", 1e-17, 1e-14)])
def test_rounding_error_has_the_size_of_the_dtype(dtype, least, most):
    polynomial, edges = split(PRODUCT, 2), sides(UNIT, 2)
    model = polynomials.build(polynomial, edges, 5, dtype)
    assert least < polynomials.rounding_error(model, polynomial, edges) < most


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("terms", [PRODUCT, CASES["mixed signs"][0], {(486, 965): 1.0}])
def test_rounding_error_holds_at_many_more_points(terms, dtype):
    polynomial, edges, density = split(terms, 2), sides(UNIT, 2), 7
    model = polynomials.build(polynomial, edges, density, dtype)
    X = box_points(UNIT, 2, rows=200_000)
    rounding = model(X)[:, 0] - polynomials.evaluate_splines(polynomial, edges, density, X)
    assert np.abs(rounding).max() < polynomials.rounding_error(model, polynomial, edges)


@pytest.mark.slow
def test_best_bound_in_the_message_can_be_reached():
    with pytest.raises(ValueError, match="the best error bound is") as refusal:
        from_polynomial(PRODUCT, 2, 1e-9, dtype="float32")
    best = float(re.search(r"bound is (\S+);", str(refusal.value))[1])
    model = from_polynomial(PRODUCT, 2, 1.1 * best, dtype="float32")
    assert measured_error(model, PRODUCT) < best < 1e-5


# --- quasi-interpolation ----------------------------------------------------------------------------


@pytest.mark.parametrize("density", range(5))
def test_coefficients_belong_to_the_centres_of_the_basis_functions(density):
    centres = quasi_interpolant(lambda x: x, np.zeros_like, density)
    basis = splines.basis(centres[1:-1], density)  # the outermost centres lie outside [0, 1]
    assert basis.argmax(axis=1).tolist() == list(range(1, centres.size - 1))
    np.testing.assert_allclose(basis.max(axis=1), 2 / 3)


@pytest.mark.parametrize("density", range(5))
@pytest.mark.parametrize("power", range(4))
def test_cubics_are_reproduced(power, density):
    cubic = np.polynomial.Polynomial.basis(power)
    [error] = interpolation_errors(cubic, cubic.deriv(2), [density], np.linspace(0, 1, 101))
    assert error < 1e-14


def test_quartics_are_not_reproduced():
    quartic = np.polynomial.Polynomial.basis(4)
    [error] = interpolation_errors(quartic, quartic.deriv(2), [2], np.linspace(0, 1, 101))
    assert error > 1e-7


def test_error_is_of_order_four():
    densities = [3, 4, 5, 6, 7]
    errors = interpolation_errors(
        lambda x: np.sin(5 * x), lambda x: -25 * np.sin(5 * x), densities, np.linspace(0, 1, 4001)
    )
    assert 3.9 < convergence_order(errors, densities) < 4.1


def test_continuation_keeps_order_four_at_the_lower_edge():
    densities = [5, 6, 7, 8, 9]
    errors = interpolation_errors(*continued_log(0.1), densities, np.linspace(0.1, 1, 40_001))
    assert 3.8 < convergence_order(errors, densities) < 4.2


def test_continued_log_is_log_in_the_box_and_its_taylor_polynomial_below():
    low = 0.2
    log, second_derivative = continued_log(low)
    x = np.linspace(low, 1, 50)
    np.testing.assert_allclose(log(x), np.log(x), atol=1e-15)
    np.testing.assert_allclose(second_derivative(x), -1 / x**2)
    taylor = np.polynomial.Polynomial([np.log(low), 1 / low, -1 / (2 * low**2), 1 / (3 * low**3)])
    below = np.linspace(-0.3, low, 50)
    np.testing.assert_allclose(log(below), taylor(below - low), rtol=1e-12)
    np.testing.assert_allclose(second_derivative(below), taylor.deriv(2)(below - low), rtol=1e-12)


# --- what cannot be done ----------------------------------------------------------------------------


@pytest.mark.slow
def test_tolerance_out_of_reach_of_the_finest_density():
    message = r"tolerance 1e-15 is out of reach: up to density 12 the best error bound is \d(\.\d)?e-15; "
    advice = "raise the tolerance or narrow the box, above all near zero$"
    with pytest.raises(ValueError, match=message + advice):
        from_polynomial(PRODUCT, 2, 1e-15)


@pytest.mark.slow
def test_tolerance_out_of_reach_of_float32():
    message = r"1e-09 is out of reach: .* is \d(\.\d)?e-07; raise the tolerance, use dtype='float64' or"
    with pytest.raises(ValueError, match=message):
        from_polynomial(PRODUCT, 2, 1e-9, dtype="float32")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terms", "box", "dtype"),
    [
        (PRODUCT, (1e-200, 1.0), "float64"),
        ({(1, 1): 1e308}, UNIT, "float64"),
        ({(1, 1): 1e39}, UNIT, "float32"),
        ({(0, 0): 1e39}, UNIT, "float32"),
    ],
    ids=["box", "coefficient", "exponential", "constant"],
)
def test_overflow_is_out_of_reach_and_gives_no_warning(terms, box, dtype):
    with pytest.raises(ValueError, match=r"out of reach: .* the best error bound is inf"):
        from_polynomial(terms, 2, 1.0, box=box, dtype=dtype)


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ([((1, 1), 2.0)], TypeError, r"terms must map exponents to coefficients, .* not \[\(\("),
        ({(1, 1, 1): 1.0}, ValueError, r"must be a tuple of 2, one for each input, not \(1, 1, 1\)"),
        ({1: 1.0}, ValueError, "exponents must be a tuple of 2, one for each input, not 1"),
        ({(1, -2): 1.0}, ValueError, r"exponent 1 of \(1, -2\) must be at least 0, not -2"),
        ({(0.5, 1): 1.0}, TypeError, r"exponent 0 of \(0.5, 1\) must be a whole number, not 0.5"),
        ({(1, 1001): 1.0}, ValueError, r"exponent 1 of \(1, 1001\) must be at most 1000, not 1001"),
        ({(1, 1): np.nan}, ValueError, r"the coefficient of \(1, 1\) must be a finite number, not nan"),
        ({(1, 0): -np.inf}, ValueError, r"the coefficient of \(1, 0\) must be a finite number, not -inf"),
        ({(1, 0): 10**400}, ValueError, r"the coefficient of \(1, 0\) must be a finite number, not 1000"),
        ({(1, 0): "two"}, ValueError, r"the coefficient of \(1, 0\) must be a finite number, not 'two'"),
        ({(1, 0): None}, ValueError, r"the coefficient of \(1, 0\) must be a finite number, not None"),
    ],
)
def test_bad_terms(terms, error, message):
    with pytest.raises(error, match=message):
        from_polynomial(terms, 2, 1e-3)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ((0.0, 1.0), r"box must have 0 < low < high <= 1, not \(0, 1\) for input 0"),
        ((0.5, 0.5), r"box must have 0 < low < high <= 1, not \(0.5, 0.5\) for input 0"),
        ([(0.1, 1.0), (0.2, 1.5)], r"box must have 0 < low < high <= 1, not \(0.2, 1.5\) for input 1"),
        ((0.1, np.nan), r"box must have 0 < low < high <= 1, not \(0.1, nan\) for input 0"),
        (0.1, r"box must be one \(low, high\) pair or a list of 2 pairs, not 0.1"),
        ([(0.1, 1.0)] * 3, r"box must be one \(low, high\) pair or a list of 2 pairs, not \[\(0.1"),
        ([(0.1, 1.0), 0.5], r"box must be one \(low, high\) pair or a list of 2 pairs, not \[\(0.1"),
        (None, r"box must be one \(low, high\) pair or a list of 2 pairs, not None"),
    ],
)
def test_bad_box(box, message):
    with pytest.raises(ValueError, match=message):
        from_polynomial(PRODUCT, 2, 1e-3, box=box)


@pytest.mark.parametrize(
    ("tolerance", "message"),
    [
        (0, "tolerance must be positive, not 0"),
        (-1e-3, "tolerance must be positive, not -0.001"),
        (np.nan, "tolerance must be a finite number, not nan"),
        (np.inf, "tolerance must be a finite number, not inf"),
    ],
)
def test_bad_tolerance(tolerance, message):
    with pytest.raises(ValueError, match=message):
        from_polynomial(PRODUCT, 2, tolerance)


def test_bad_number_of_inputs():
    with pytest.raises(ValueError, match="inputs must be at least 1, not 0"):
        from_polynomial({}, 0, 1e-3)


def test_bad_dtype():
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64', not 'int32'"):
        from_polynomial(PRODUCT, 2, 1e-3, dtype="int32")
