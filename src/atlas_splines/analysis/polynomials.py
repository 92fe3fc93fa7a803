"""The paper's representation theorem as a program: a polynomial becomes an Atlas, without training.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, isfinite, nan
from typing import NamedTuple, SupportsFloat, TypeAlias

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike, DTypeLike, NDArray

from atlas_splines.model import splines
from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.checks import check_size
from atlas_splines.model.evaluate import evaluate

__all__ = ["from_polynomial"]

MAX_DENSITY = 12  # log x on [0.1, 1] is then exact to about 1e-14: in finer cells rounding dominates
MAX_EXPONENT = 1000  # polynomials of one input are stored densely
SAMPLES_PER_CELL = 16  # the error has one smooth maximum in each cell, missed by less than 0.4 percent
SAFETY = 1.01  # factor for the maximum between samples

Array: TypeAlias = NDArray[np.floating]
Function: TypeAlias = Callable[[Array], Array]
Terms: TypeAlias = Mapping[tuple[int, ...], float]


@np.errstate(all="ignore")  # what overflows has an infinite error, and that is reported
def from_polynomial(
    terms: Terms, inputs: int, tolerance: float, *, box: ArrayLike = (0.1, 1.0), dtype: DTypeLike = "float64"
) -> Atlas:
    """Build the smallest model whose error bound for a polynomial is below a tolerance.

    Monomials of one input become splines of F; each of the others becomes one pair of exponentials. The
    density is the lowest at which the bound (19) on the error, and rounding, are small enough.

    Parameters
    ----------
    terms
        Coefficient of each monomial, by its exponents: ``{(1, 2): 3.0}`` is 3·x₁·x₂².
    inputs
        Number of inputs, the length of each tuple of exponents.
    tolerance
        The largest absolute error allowed anywhere in the box.
    box
        Where the model shall hold: one (low, high) for all inputs, or one pair for each input, with
        0 < low < high ≤ 1. Logarithms are steep near zero: a lower edge needs a higher density.
    dtype
        "float32" or "float64".

    Raises
    ------
    ValueError
        If no density up to 12 is fine enough, or rounding alone exceeds the tolerance.

    Examples
    --------
    >>> model = from_polynomial({(1, 1): 2.0, (2, 0): -1.0, (0, 0): 3.0}, inputs=2, tolerance=1e-4)
    >>> model.terms, model.density
    (1, 4)
    >>> model([[0.5, 0.8]]).round(3)  # 2·0.5·0.8 − 0.5² + 3
    array([[3.55]])
    """
    inputs = check_size("inputs", inputs, least=1)
    polynomial = split(terms, inputs)
    edges = check_box(box, inputs)
    tolerance = check_number("tolerance", tolerance)
    if tolerance <= 0:
        raise ValueError(f"tolerance must be positive, not {tolerance:g}")
    best = inf
    for density in range(MAX_DENSITY + 1):
        model = build(polynomial, edges, density, dtype)
        bound = error_bound(polynomial, edges, density) + rounding_error(model, polynomial, edges)
        if bound < tolerance:
            return model
        best = min(best, bound)
    precision = "" if model.dtype == np.float64 else ", use dtype='float64'"
    raise ValueError(
        f"tolerance {tolerance:g} is out of reach: up to density {MAX_DENSITY} the best error bound "
        f"is {best:.2g}; raise the tolerance{precision} or narrow the box, above all near zero"
    )


class SplitPolynomial(NamedTuple):
    """p(x) = Σ_j f_j(x_j) + Σ_k a_k Π_j x_j^{i_kj}: sums of one-input parts, and the products that remain."""

    additive: list[Polynomial]  # f_j; the constant belongs to the first
    coefficients: Array  # a_k, the largest first, shape (terms,)
    exponents: NDArray[np.int64]  # i_kj, shape (terms, inputs)


def split(terms: Terms, inputs: int) -> SplitPolynomial:
    """Separate the monomials of at most one input from the products, and leave out what is zero.

    Examples
    --------
    >>> p = split({(0, 0): 3.0, (2, 0): -1.0, (1, 1): 2.0, (3, 1): -4.0}, inputs=2)
    >>> p.additive[0].coef
    array([ 3.,  0., -1.])
    >>> p.coefficients, p.exponents.tolist()
    (array([-4.,  2.]), [[3, 1], [1, 1]])
    """
    if not isinstance(terms, Mapping):
        raise TypeError(f"terms must map exponents to coefficients, such as {{(1, 1): 2.0}}, not {terms!r}")
    additive = [Polynomial([0.0]) for _ in range(inputs)]
    products: dict[tuple[int, ...], float] = {}
    for key, value in terms.items():
        exponents = check_exponents(key, inputs)
        coefficient = check_number(f"the coefficient of {key}", value)
        if np.count_nonzero(exponents) <= 1:
            additive[np.argmax(exponents)] += coefficient * Polynomial.basis(max(exponents))
        elif coefficient != 0:
            products[exponents] = coefficient
    order = sorted(products, key=lambda i: (-abs(products[i]), i))  # whatever order was given
    coefficients = np.array([products[i] for i in order])
    return SplitPolynomial(additive, coefficients, np.array(order, np.int64).reshape(-1, inputs))


def quasi_interpolant(phi: Function, second_derivative: Function, density: int) -> Array:
    """Spline coefficients θ_i = φ(ξ_i) − h²φ″(ξ_i)/6, with ξ_i the centre of basis function i, equation (18).

    Cubics are reproduced exactly; for smooth φ the error is of order h⁴. The outermost centres lie one cell
    width h outside [0, 1].

    Examples
    --------
    >>> theta = quasi_interpolant(lambda x: x**3, lambda x: 6 * x, density=2)
    >>> splines.spline(theta, np.array([0.5])).round(12)
    array([0.125])
    """
    h = 1 / splines.cell_count(density)
    centres = h * (np.arange(splines.basis_size(density)) - 1)
    return phi(centres) - h**2 * second_derivative(centres) / 6


def continued_log(low: float) -> tuple[Function, Function]:
    """Return log and its second derivative, both continued below `low` by the cubic Taylor polynomial there.

    The cells at the box's lower edge need coefficients whose centres lie below it, even below zero.

    Examples
    --------
    >>> log, second_derivative = continued_log(0.5)
    >>> log(np.array([0.0, 0.5, 1.0])).round(3)
    array([-2.526, -0.693,  0.   ])
    >>> second_derivative(np.array([0.0, 0.5, 1.0]))
    array([-12.,  -4.,  -1.])
    """

    def log(x: Array) -> Array:
        u: Array = np.minimum(x / low - 1, 0)  # zero in the box
        return np.log(np.maximum(x, low)) + u - u**2 / 2 + u**3 / 3

    def second_derivative(x: Array) -> Array:
        curvature: Array = (2 * np.minimum(x / low - 1, 0) - 1) / np.maximum(x, low) ** 2
        return curvature

    return log, second_derivative


def fit_splines(polynomial: SplitPolynomial, edges: Array, density: int) -> tuple[Array, Array]:
    """Coefficients of the f_j, and of log x_j on each side of the box: two arrays of shape (inputs, λ)."""
    additive = [quasi_interpolant(f, f.deriv(2), density) for f in polynomial.additive]
    logs = [quasi_interpolant(*continued_log(low), density) for low in edges[:, 0]]
    return np.stack(additive), np.stack(logs)


def build(polynomial: SplitPolynomial, edges: Array, density: int, dtype: DTypeLike) -> Atlas:
    """Write the splines into the finest density of a new model, equations (16) and (17)."""
    a = polynomial.coefficients
    model = Atlas(inputs=len(edges), terms=a.size, density=density, dtype=dtype)
    model.f(density)[0], logs = fit_splines(polynomial, edges, density)
    exponential = polynomial.exponents[:, :, None] * logs  # (terms, inputs, λ)
    gamma = np.abs(a) + np.maximum(a, 0)
    for view, factor in ((model.g(density), gamma), (model.h(density), gamma - a)):
        constant = np.log(factor * np.arange(1, a.size + 1) ** 2)  # the model multiplies by k⁻²
        view[0] = exponential
        view[0, :, 0] = exponential[:, 0] + constant[:, None]
    return model


def spline_errors(theta: Array, phi: Function, edge: Array) -> tuple[Array, Array]:
    """Points of one input's side of the box, and a bound on the spline's error around each."""
    x = np.linspace(edge[0], edge[1], SAMPLES_PER_CELL * theta.size + 1)
    return x, SAFETY * np.abs(splines.spline(theta, x) - phi(x))


def power_errors(theta: Array, edge: Array, exponents: NDArray[np.int64]) -> Array:
    """D of each exponent i: the largest error of exp(i·spline) as x^i on one input's side of the box.

    Examples
    --------
    >>> theta = quasi_interpolant(*continued_log(0.1), density=3)
    >>> power_errors(theta, np.array([0.1, 1.0]), np.array([0, 1, 9])).round(6)
    array([0.0e+00, 7.8e-05, 1.0e-06])
    """
    x, errors = spline_errors(theta, np.log, edge)
    log = np.log(np.append(x[1:], x[-1]))  # an error counts up to the next point, where the power is largest
    powers, where = np.unique(exponents, return_inverse=True)
    # x^i (exp(i·error) − 1), written without 0·∞
    largest = [(np.exp(i * (log + errors)) * np.abs(np.expm1(-i * errors))).max() for i in powers]
    return np.array(largest)[where]


def error_bound(polynomial: SplitPolynomial, edges: Array, density: int) -> float:
    """Bound on the error in the box of the model that `build` returns, rounding apart, equation (19).

    Examples
    --------
    >>> edges = np.array([[0.1, 1.0], [0.1, 1.0]])
    >>> [f"{error_bound(split({(1, 1): 1.0}, 2), edges, density):.0e}" for density in (4, 5, 6)]
    ['1e-05', '6e-07', '4e-08']
    """
    additive, logs = fit_splines(polynomial, edges, density)
    sums = sum(spline_errors(*one)[1].max() for one in zip(additive, polynomial.additive, edges, strict=True))
    product, error = np.abs(polynomial.coefficients), np.zeros(polynomial.coefficients.size)
    for theta, edge, exponents in zip(logs, edges, polynomial.exponents.T, strict=True):
        power, off = edge[1] ** exponents, power_errors(theta, edge, exponents)  # B and D
        error = error * (power + off) + product * off  # Π (B + D) − Π B, factor by factor: nothing cancels
        product = product * power
    return float(sums + error.sum())


def rounding_error(model: Atlas, polynomial: SplitPolynomial, edges: Array) -> float:
    """Rounding error of the model's outputs relative to those of its splines: measured, and doubled."""
    random = np.random.default_rng(0)
    low, high = edges.T
    # crowded towards the upper corner, where every product is largest and so is its rounding
    depth = random.random((4096, 1)) ** 2 * random.random((4096, model.inputs))
    X = high - (high - low) * depth
    outputs = evaluate(state_of(model), X.astype(model.dtype))[:, 0]
    return 2 * float(np.abs(outputs - evaluate_splines(polynomial, edges, model.density, X)).max())


def evaluate_splines(polynomial: SplitPolynomial, edges: Array, density: int, X: Array) -> Array:
    """Evaluate Σ_j f_j(x_j) + Σ_k a_k exp(Σ_j i_kj log x_j) with splines for f_j and log, in float64."""
    additive, logs = fit_splines(polynomial, edges, density)
    sums = sum(map(splines.spline, additive, X.T))
    logarithms = np.stack(list(map(splines.spline, logs, X.T)))  # (inputs, rows)
    return sums + polynomial.coefficients @ np.exp(polynomial.exponents @ logarithms)


def check_number(name: str, value: SupportsFloat) -> float:
    """Return a finite float, or raise."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = nan
    if not isfinite(number):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return number


def check_exponents(exponents: tuple[int, ...], inputs: int) -> tuple[int, ...]:
    """Return one whole number for each input, or raise."""
    if not isinstance(exponents, tuple) or len(exponents) != inputs:
        raise ValueError(f"exponents must be a tuple of {inputs}, one for each input, not {exponents!r}")
    return tuple(
        check_size(f"exponent {j} of {exponents}", exponent, least=0, most=MAX_EXPONENT)
        for j, exponent in enumerate(exponents)
    )


def check_box(box: ArrayLike, inputs: int) -> Array:
    """Return the (low, high) of each input, shape (inputs, 2), or raise."""
    try:
        edges = np.asarray(box, np.float64)
    except (TypeError, ValueError):
        edges = np.empty(0)
    if edges.shape not in [(2,), (inputs, 2)]:
        raise ValueError(f"box must be one (low, high) pair or a list of {inputs} pairs, not {box!r}")
    edges = np.broadcast_to(edges, (inputs, 2))
    for j, (low, high) in enumerate(edges):
        if not 0 < low < high <= 1:
            raise ValueError(f"box must have 0 < low < high <= 1, not ({low:g}, {high:g}) for input {j}")
    return edges
