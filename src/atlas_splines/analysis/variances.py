"""Which inputs, and which pairs of inputs, the variance of a model comes from.

With independent inputs the mean of an exponential's product of factors is the product of their means, so all
variances follow from integrals along single inputs, equations (33) and (34) of docs/math.md. Their sums over
all pairs of terms would be over all pairs of rows with local terms: there variances are estimated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines.analysis.pick_freeze import PickFreeze
from atlas_splines.core import splines
from atlas_splines.core.model import Atlas, state_of
from atlas_splines.core.state import State

__all__ = ["VarianceShares", "total_shares", "variance_shares"]

Array = NDArray[np.float64]
Active = tuple[NDArray[np.intp], NDArray[np.floating]]  # cells and weights of points

LEAST_POINTS, MOST_POINTS = 4, 16  # of a Gauss-Legendre rule in each cell: the wider, the more
BLOCK = 2**20  # numbers in an array that is worked on at once
ROUNDING = 1e-13  # functions that vary by a smaller share of their size are constant
LEAST = 1e-17  # correlations below it are rounding errors, and must not be divided by


class VarianceShares(NamedTuple):
    """Shares of the variance of a model.

    Attributes
    ----------
    total
        What vanishes, on average, once an input is known besides all others, shape (inputs,): the total
        effects of Sobol. They sum to more than one if inputs interact.
    pairs
        What two inputs add together to what each does alone, shape (inputs, inputs); on the diagonal, what
        an input does alone. Diagonal and one triangle sum to one if no three inputs interact.
    """

    total: Array
    pairs: Array


class Product(NamedTuple):
    """An output as Σ_j f_j + Σ_k w_k Π_j u_kj, at the points of a quadrature along each input.

    Attributes
    ----------
    additive
        f_j less its mean, times the root of the weight of the point, shape (inputs, points).
    means
        Mean of u_kj, which has a mean square of one, shape (inputs, terms).
    factors
        u_kj less its mean, times the root of the weight of the point, shape (inputs, points, terms).
    weights
        w_k over exp(log_scale), at most one, shape (terms,).
    log_scale
        Large where the model would overflow somewhere in its domain; `additive` is divided by it too.
    """

    additive: Array
    means: Array
    factors: Array
    weights: Array
    log_scale: float


class Variances(NamedTuple):
    """Variances of an output over exp(2 log_scale): as `VarianceShares`, and of the whole."""

    total: Array
    pairs: Array
    whole: float
    log_scale: float


def variance_shares(model: Atlas) -> VarianceShares:
    """Shares of the variance of a model that come from single inputs and from pairs of them.

    Inputs are independent and uniform on [0, 1], whatever data the model has learned and however far it was
    extended. Charts are left out: it is the model outside of them. Several outputs count by their variances.
    If nothing varies, all shares are zero.

    Of a table of coefficients no points are drawn: all follows from integrals along single inputs, found by a
    quadrature that is exact to four digits or more. A model with local terms is evaluated at up to a million
    points of a Sobol sequence, the same each time; standard errors are below 0.01 (`PickFreeze`).

    Parameters
    ----------
    model
        The model.

    Examples
    --------
    >>> import numpy as np
    >>> model = Atlas(inputs=3, terms=1, density=0)
    >>> model.f(0)[0, 0] = [-1, 0, 1, 2]  # it rises by one along input 0
    >>> model.g(0)[0, 0, 1:] = [-1, 0, 1, 2]  # an exponential of the sum of inputs 1 and 2
    >>> shares = variance_shares(model)
    >>> shares.total.round(3)
    array([0.053, 0.492, 0.492])
    >>> shares.pairs.round(3)
    array([[0.053, 0.   , 0.   ],
           [0.   , 0.455, 0.037],
           [0.   , 0.037, 0.455]])
    """
    state = state_of(model)
    if is_estimated(state):
        estimate = PickFreeze(state)
        shares = VarianceShares(estimate.total, estimate.pairs)
        return VarianceShares(*(part / (estimate.whole or np.inf) for part in shares))
    outputs = [variances(output_product(state, output)) for output in range(state.outputs)]
    largest = max(output.log_scale for output in outputs)
    units = [np.exp(2 * (output.log_scale - largest)) for output in outputs]
    whole = sum(unit * output.whole for unit, output in zip(units, outputs, strict=True))
    if whole == 0:
        return VarianceShares(np.zeros(model.inputs), np.zeros((model.inputs, model.inputs)))
    total = sum(unit * output.total for unit, output in zip(units, outputs, strict=True))
    pairs = sum(unit * output.pairs for unit, output in zip(units, outputs, strict=True))
    return VarianceShares(total / whole, pairs / whole)


def total_shares(model: Atlas) -> Array:
    """`variance_shares(model).total`, without estimating pairs, which takes most of the time."""
    state = state_of(model)
    if not is_estimated(state):
        return variance_shares(model).total
    estimate = PickFreeze(state)
    return estimate.total / (estimate.whole or np.inf)


def is_estimated(state: State) -> bool:
    """Whether a state is more than its table of coefficients, below its charts."""
    return bool(state.local) or state.later is not None


# --- the model along single inputs -----------------------------------------------------------------------


def output_product(state: State, output: int) -> Product:
    """An output of a model as functions of single inputs, without terms that are constant or negligible."""
    densities = state.filled_densities(list(range(state.density + 1))).tolist() or [0]
    points, weights = quadrature(max(densities))
    inputs, terms = state.lattice.inputs, 2 * state.terms
    additive, factors = np.empty((inputs, points.size)), np.empty((inputs, points.size, terms))
    means, log_sizes = np.empty((2, inputs, terms))
    active = {density: splines.active(points, density) for density in densities}
    for j in range(inputs):
        sums = sums_along(state, output, j, active)  # (points, 2M + 1)
        additive[j] = centred(sums[:, -1:], weights)[1][:, 0]
        means[j], factors[j], log_sizes[j] = unit_factors(sums[:, :-1], weights)
    log_slope = -state.damping - 2 * np.log(np.arange(1, state.terms + 1))  # equation (7)
    log_weights = np.tile(log_slope, 2) + log_sizes.sum(axis=0)  # (terms,): G, then H
    log_scale = float(log_weights.max(initial=0.0))
    sizes = np.exp(log_weights - log_scale)
    kept = factors.any(axis=(0, 1)) & (sizes >= np.finfo(np.float64).eps)
    signs = np.repeat([1.0, -1.0], state.terms)
    additive *= np.exp(-log_scale)
    return Product(additive, means[:, kept], factors[:, :, kept], (signs * sizes)[kept], log_scale)


def quadrature(density: int) -> tuple[Array, Array]:
    """Points in [0, 1] and their weights, which sum to one: a Gauss-Legendre rule in each cell."""
    nodes, weights = np.polynomial.legendre.leggauss(max(LEAST_POINTS, MOST_POINTS >> density))
    cells = splines.cell_count(density)
    points = (np.arange(cells)[:, None] + (nodes + 1) / 2) / cells
    return points.ravel(), np.tile(weights / 2 / cells, cells)


def sums_along(state: State, output: int, input: int, active: dict[int, Active]) -> Array:
    """What one input adds to G, H and F of an output, shape (points, 2M + 1); see `splines.active`."""
    channels = state.table[:, output * state.width : (output + 1) * state.width]
    sums: Array = np.zeros(state.width)
    for density, (cells, weights) in active.items():
        rows = state.lattice.origins[density, input] + cells
        for function in range(splines.ACTIVE):
            sums = sums + weights[:, function, None] * channels[rows + function]
    return sums


def centred(functions: Array, weights: Array) -> tuple[Array, Array]:
    """Means, and functions less their means, times the root of the weights; constants become zeros."""
    means = weights @ functions
    apart = functions - means  # (points, functions)
    varies = np.ptp(functions, axis=0) > ROUNDING * np.abs(functions).max(axis=0)
    return means, np.where(varies, apart, 0.0) * np.sqrt(weights)[:, None]


def unit_factors(exponents: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Means of exponentials, the centred ones, and logarithms of the sizes that they were divided by."""
    highest = exponents.max(axis=0)
    values = np.exp(exponents - highest)  # (points, terms)
    size = np.sqrt(weights @ values**2)
    return *centred(values / size, weights), highest + np.log(size)


# --- variances -------------------------------------------------------------------------------------------


def variances(product: Product) -> Variances:
    """Variances of an output, its inputs and its pairs of inputs."""
    additive, means, factors, weights, log_scale = product
    term_means = weights * means.prod(axis=0)
    alone = term_means / means  # (inputs, terms): of a factor, when the other inputs are averaged over
    shapes = additive + np.einsum("jqk,jk->jq", factors, alone)  # main effects
    main = (shapes**2).sum(axis=1)
    # the part of equation (34) that has f_j in it
    own = (additive**2).sum(axis=1) + 2 * np.einsum("jq,jqk,jk->j", additive, factors, alone, optimize=True)
    joint, pairs, together = term_variances(product, term_means)
    np.fill_diagonal(pairs, main)
    whole = own.sum() + together
    lost = ROUNDING * ((additive**2).sum() + np.abs(weights).sum() ** 2)  # exponentials may cancel
    if whole <= lost:
        return Variances(np.zeros_like(own), np.zeros_like(pairs), 0.0, log_scale)
    pairs = (pairs + pairs.T) / 2  # BLAS rounds the two triangles differently
    return Variances((own + joint).clip(0), pairs.clip(0), float(whole), log_scale)


def term_variances(product: Product, term_means: Array) -> tuple[Array, Array, float]:
    """What the exponentials add to the total of each input, to each pair of inputs, and to the whole.

    These are the double sums of equations (33) and (34), one tile of pairs of terms after the other.
    """
    inputs, _, terms = product.factors.shape
    total, pairs, whole = np.zeros(inputs), np.zeros((inputs, inputs)), 0.0
    varying = np.flatnonzero(product.factors.any(axis=(1, 2)))
    means, factors, weights = product.means[varying], product.factors[varying], product.weights
    for rows, columns in tiles(terms, math.isqrt(BLOCK // max(1, len(varying)))):
        count = 1 if rows == columns else 2  # the other triangle is the same
        # arrays of shape (inputs, rows, columns)
        covariances = factors[:, :, rows].transpose(0, 2, 1) @ factors[:, :, columns]
        products = means[:, rows, None] * means[:, None, columns]
        moments = np.maximum(covariances + products, LEAST)
        second = count * np.outer(weights[rows], weights[columns]) * moments.prod(axis=0)
        total[varying] += flat(covariances / moments) @ second.ravel()
        first = count * np.outer(term_means[rows], term_means[columns])
        whole += float((second - first).sum())
        relative = flat(covariances / products)
        pairs[np.ix_(varying, varying)] += (relative * first.ravel()) @ relative.T
    return total, pairs, whole


def tiles(length: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Squares of a matrix that together are its upper triangle."""
    starts = range(0, length, max(1, size))
    parts = [slice(start, min(start + starts.step, length)) for start in starts]
    return combinations_with_replacement(parts, 2)


def flat(matrices: Array) -> Array:
    """Matrices of shape (inputs, rows, columns) as rows of numbers."""
    return matrices.reshape(len(matrices), -1)
