"""The paper's representation theorem as a program: a polynomial becomes an Atlas, without training.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import SupportsFloat, TypeAlias

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike, DTypeLike, NDArray

from atlas_splines import splines
from atlas_splines.model import Atlas, check_size

__all__ = ["SplitPolynomial", "continued_log", "error_bound", "from_polynomial", "quasi_interpolant", "split"]

MAX_DENSITY = 12  # log x on [0.1, 1] is then exact to about 1e-14: finer cells would meet rounding
MAX_EXPONENT = 1000  # polynomials of one input are stored densely
SAMPLES_PER_CELL = 16  # the error is a smooth bump in each cell: its top is missed by less than 0.4 percent
SAFETY = 1.01  # and this makes up for it
ROUNDING_SAMPLES = 4096

Array: TypeAlias = NDArray[np.floating]
Function: TypeAlias = Callable[[Array], Array]
Terms: TypeAlias = Mapping[tuple[int, ...], float]


@np.errstate(all="ignore")  # what overflows has an infinite error, and that is reported
def from_polynomial(
    terms: Terms,
    inputs: int,
    tolerance: float,
    *,
    box: ArrayLike = (0.1, 1.0),
    dtype: DTypeLike = "float64",
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
    (1, 5)
    >>> model([[0.5, 0.8]]).round(3)  # 2·0.5·0.8 − 0.5² + 3
    array([[3.55]])
    """
    inputs = check_size("inputs", inputs, least=1)
    polynomial = split(terms, inputs)
    edges = check_box(box, inputs)
    tolerance = check_tolerance(tolerance)
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


# --- the polynomial ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitPolynomial:
    """p(x) = Σ_j f_j(x_j) + Σ_k a_k Π_j x_j^{i_kj}: sums of one-input parts, and the products that remain.

    Attributes
    ----------
    additive
        The polynomial f_j of each input; the constant belongs to the first.
    coefficients
        a_k of each product, the largest first; shape (terms,).
    exponents
        i_kj, shape (terms, inputs).
    """

    additive: list[Polynomial]
    coefficients: Array
    exponents: NDArray[np.int64]

    def factors(self) -> tuple[Array, Array]:
        """Return positive γ_k and β_k with a_k = γ_k − β_k, equation (16).

        The paper takes 1 + |a| and 1; 2|a| and |a| scale with a, and so does the error.
        """
        size = np.abs(self.coefficients)
        return size + np.maximum(self.coefficients, 0), size + np.maximum(-self.coefficients, 0)


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
    monomials = check_terms(terms, inputs).items()
    additive = [Polynomial([0.0]) for _ in range(inputs)]
    for exponents, coefficient in monomials:
        if np.count_nonzero(exponents) <= 1:
            additive[np.argmax(exponents)] += coefficient * Polynomial.basis(max(exponents))
    products = [(i, a) for i, a in monomials if np.count_nonzero(i) > 1 and a != 0]
    products.sort(key=lambda product: (-abs(product[1]), product[0]))  # whatever order was given
    return SplitPolynomial(
        additive,
        np.array([a for _, a in products]),
        np.array([i for i, _ in products], np.int64).reshape(-1, inputs),
    )


# --- its splines ------------------------------------------------------------------------------------


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

    def below(x: Array) -> Array:
        depth: Array = np.minimum(x / low - 1, 0)  # zero in the box, where it must not matter
        return depth

    def log(x: Array) -> Array:
        u = below(x)
        return np.log(np.maximum(x, low)) + u - u**2 / 2 + u**3 / 3

    def second_derivative(x: Array) -> Array:
        return (2 * below(x) / low - 1 / np.maximum(x, low)) / np.maximum(x, low)

    return log, second_derivative


def additive_splines(polynomial: SplitPolynomial, density: int) -> Array:
    """Coefficients of the f_j, shape (inputs, λ)."""
    return np.stack([quasi_interpolant(f, f.deriv(2), density) for f in polynomial.additive])


def log_splines(edges: Array, density: int) -> Array:
    """Coefficients of log x_j on each input's side of the box, shape (inputs, λ)."""
    return np.stack([quasi_interpolant(*continued_log(low), density) for low in edges[:, 0]])


def build(polynomial: SplitPolynomial, edges: Array, density: int, dtype: DTypeLike) -> Atlas:
    """Write the splines into the finest density of a new model, equation (17)."""
    terms = polynomial.coefficients.size
    model = Atlas(inputs=len(edges), terms=terms, density=density, dtype=dtype)
    model.f(density)[0] = additive_splines(polynomial, density)
    exponential = polynomial.exponents[:, :, None] * log_splines(edges, density)  # (terms, inputs, λ)
    k = np.arange(1, terms + 1)
    for view, factor in zip((model.g(density), model.h(density)), polynomial.factors(), strict=True):
        view[0] = exponential
        view[0, :, 0] = exponential[:, 0] + np.log(factor * k**2)[:, None]  # the model multiplies by k⁻²
    return model


# --- its error --------------------------------------------------------------------------------------


def spline_errors(coefficients: Array, functions: Sequence[Function], edges: Array) -> Array:
    """Largest error of each input's spline on its side of the box: measured, and a little more."""
    errors = []
    for theta, phi, (low, high) in zip(coefficients, functions, edges, strict=True):
        x = np.linspace(low, high, SAMPLES_PER_CELL * theta.size + 1)
        errors.append(np.abs(splines.spline(theta, x) - phi(x)).max())
    return SAFETY * np.array(errors)


def error_bound(polynomial: SplitPolynomial, edges: Array, density: int) -> float:
    """Bound on the error in the box of the model that `build` returns, rounding apart, equation (19).

    Parameters
    ----------
    polynomial
        What is approximated.
    edges
        The (low, high) of each input, shape (inputs, 2).
    density
        The finest density of the model.

    Examples
    --------
    >>> edges = np.array([[0.1, 1.0], [0.1, 1.0]])
    >>> [f"{error_bound(split({(1, 1): 1.0}, 2), edges, density):.0e}" for density in (4, 5, 6)]
    ['3e-04', '2e-05', '1e-06']
    """
    additive = spline_errors(additive_splines(polynomial, density), polynomial.additive, edges)
    logs = spline_errors(log_splines(edges, density), [np.log] * len(edges), edges)
    largest = np.sum(polynomial.factors(), axis=0) * (edges[:, 1] ** polynomial.exponents).prod(axis=1)
    return float(additive.sum() + largest @ np.expm1(polynomial.exponents @ logs))


def rounding_error(model: Atlas, polynomial: SplitPolynomial, edges: Array) -> float:
    """How far rounding takes the model's outputs from those of its splines: measured, and doubled."""
    random = np.random.default_rng(0)
    low, high = edges.T
    # crowded towards the upper corner, where every product is largest and so is its rounding
    depth = random.random((ROUNDING_SAMPLES, 1)) * random.random((ROUNDING_SAMPLES, model.inputs))
    X = high - (high - low) * depth
    outputs = model.evaluate(X.astype(model.dtype))[:, 0]
    return 2 * float(np.abs(outputs - evaluate_splines(polynomial, edges, model.density, X)).max())


def evaluate_splines(polynomial: SplitPolynomial, edges: Array, density: int, X: Array) -> Array:
    """Evaluate Σ_j f_j(x_j) + Σ_k a_k exp(Σ_j i_kj log x_j) with splines for f_j and log, in float64."""
    additive = map(splines.spline, additive_splines(polynomial, density), X.T)
    logs = np.stack(list(map(splines.spline, log_splines(edges, density), X.T)))  # (inputs, rows)
    return sum(additive, start=polynomial.coefficients @ np.exp(polynomial.exponents @ logs))


# --- checks -----------------------------------------------------------------------------------------


def check_number(name: str, value: SupportsFloat) -> float:
    """Return a finite float, or say what is wrong with it."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = nan
    if not isfinite(number):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return number


def check_tolerance(tolerance: float) -> float:
    """Return a positive float, or say what is wrong with it."""
    tolerance = check_number("tolerance", tolerance)
    if tolerance <= 0:
        raise ValueError(f"tolerance must be positive, not {tolerance:g}")
    return tolerance


def check_terms(terms: Terms, inputs: int) -> dict[tuple[int, ...], float]:
    """Return exponents as tuples of int and coefficients as finite floats, or say what is wrong."""
    if not isinstance(terms, Mapping):
        raise TypeError(f"terms must map exponents to coefficients, such as {{(1, 1): 2.0}}, not {terms!r}")
    return {
        check_exponents(exponents, inputs): check_number(f"the coefficient of {exponents}", coefficient)
        for exponents, coefficient in terms.items()
    }


def check_exponents(exponents: tuple[int, ...], inputs: int) -> tuple[int, ...]:
    """Return one whole number for each input, or say what is wrong."""
    if not isinstance(exponents, tuple) or len(exponents) != inputs:
        raise ValueError(f"exponents must be a tuple of {inputs}, one for each input, not {exponents!r}")
    return tuple(
        check_size(f"exponent {j} of {exponents}", exponent, least=0, most=MAX_EXPONENT)
        for j, exponent in enumerate(exponents)
    )


def check_box(box: ArrayLike, inputs: int) -> Array:
    """Return the (low, high) of each input, shape (inputs, 2), or say what is wrong with the box."""
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
