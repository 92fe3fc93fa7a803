"""Variance-based sensitivity analysis: Sobol indices of inputs and pairs, by quadrature or pick-freeze.

Sobol' (1993); Saltelli et al. (2010).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model import splines
from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.state import State

__all__ = [
    "PICK_FREEZE_RULES",
    "PickFreeze",
    "PickFreezeRules",
    "VarianceShares",
    "total_shares",
    "variance_shares",
]

Array = NDArray[np.float64]
Both = tuple[Array, Array]  # outputs at the first and at the second point of each pair, (pairs, outputs)


@dataclass(frozen=True)
class PickFreezeRules:
    """Numbers of points for estimates of variances.

    Attributes
    ----------
    most_pairs, least_pairs
        Pairs of points; powers of two, since a Sobol sequence is balanced only there. Over seeds, shares of
        fitted models of 4 to 30 inputs have standard deviations of up to 0.0015 (total effects) and 0.0035
        (others).
    evaluations
        Points at which a state is evaluated for the effects of single inputs, and again for those of two,
        unless the least number of pairs needs more: three seconds for 30 inputs and boxes of 1,000 rows.
    least_share
        Inputs whose interactions with all others have a smaller share of the variance are in no pair.
    """

    most_pairs: int = 2**13
    least_pairs: int = 256
    evaluations: int = 2**18
    least_share: float = 1e-4

    def pairs_for(self, exchanges: int) -> int:
        """Pairs of points, each of which is evaluated once more for every exchange of inputs."""
        affordable = self.evaluations // (2 * max(1, exchanges))
        return max(self.least_pairs, min(self.most_pairs, 1 << max(0, affordable.bit_length() - 1)))


PICK_FREEZE_RULES = PickFreezeRules()


@dataclass(frozen=True, eq=False)
class PickFreeze:
    """Variances of a state without its charts, added up over the outputs; inputs are independent and uniform.

    Attributes
    ----------
    state
        The state.
    seed
        Of the Sobol sequence; the same points each time.
    """

    state: State
    seed: int = 0
    rules: PickFreezeRules = PICK_FREEZE_RULES

    @cached_property
    def _points(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """First and second points of pairs, shape (pairs, inputs) each."""
        from scipy.stats.qmc import Sobol  # takes as long to import as the package

        inputs = self.state.lattice.inputs
        sequence = Sobol(2 * inputs, rng=np.random.default_rng(self.seed))
        drawn = sequence.random(self.rules.pairs_for(inputs + 1)).astype(self.state.dtype)
        return np.ascontiguousarray(drawn[:, :inputs]), np.ascontiguousarray(drawn[:, inputs:])

    def _exchanged(self, inputs: Sequence[int], pairs: int | None = None) -> Both:
        """Outputs where the points of each pair have exchanged some inputs; of the first so many pairs."""
        points, others = (side[:pairs].copy() for side in self._points)
        points[:, inputs], others[:, inputs] = others[:, inputs], points[:, inputs]
        bare = self.state.with_charts(())
        first, second = (evaluate(bare, side).astype(np.float64) for side in (points, others))
        return first, second

    @cached_property
    def _outputs(self) -> Both:
        return self._exchanged([])

    @cached_property
    def _moved(self) -> list[Both]:
        """Outputs where one input is exchanged, for each input."""
        return [self._exchanged([j]) for j in range(self.state.lattice.inputs)]

    @cached_property
    def _differences(self) -> list[Both]:
        """Differences of outputs between the own and the exchanged coordinate along each input.

        All other inputs are those of the first point, and then those of the second.
        """
        first, second = self._outputs
        return [(first - moved, back - second) for moved, back in self._moved]

    @cached_property
    def whole(self) -> float:
        """The variance; 0 if outputs differ by rounding only."""
        outputs = np.concatenate(self._outputs)
        whole = float(outputs.var(axis=0).sum())
        rounding = 8 * float(np.finfo(self.state.dtype).eps) * np.abs(outputs).max()
        return whole if whole > rounding**2 else 0.0

    @cached_property
    def total(self) -> Array:
        """Unnormalised total effects, shape (inputs,): mean conditional variances given all other inputs."""
        return np.array([mean_product(a, a) + mean_product(b, b) for a, b in self._differences]) / 4

    @cached_property
    def pairs(self) -> Array:
        """Unnormalised second-order effects, with main effects on the diagonal: (inputs, inputs)."""
        main = np.array([mean_product(a, b) for a, b in self._differences]) / 2
        found = np.diag(main.clip(0))
        # of an input it is the mean square of (a − b)/2, and so has no noise where there are no interactions
        interacting = np.flatnonzero(self.total - main > self.rules.least_share * self.whole).tolist()
        count = self.rules.pairs_for(len(interacting) * (len(interacting) - 1) // 2)
        for i, j in combinations(interacting, 2):
            found[i, j] = found[j, i] = max(0.0, self._together(i, j, min(count, len(self._points[0]))))
        return found

    def _together(self, i: int, j: int, pairs: int) -> float:
        """Second-order effect of two inputs, from differences of differences."""
        both, back = self._exchanged([i, j], pairs)
        first, second = (outputs[:pairs] for outputs in self._outputs)
        (moved_i, back_i), (moved_j, back_j) = (
            (a[:pairs], b[:pairs]) for a, b in (self._moved[i], self._moved[j])
        )
        return mean_product(first - moved_i - moved_j + both, back - back_i - back_j + second) / 4


def mean_product(a: Array, b: Array) -> float:
    """Mean over rows of products, added up over outputs."""
    return float((a * b).sum() / len(a))


Active = tuple[NDArray[np.intp], NDArray[np.floating]]  # cells and weights of points

LEAST_POINTS, MOST_POINTS = 4, 16  # of a Gauss-Legendre rule in each cell: the wider, the more
BLOCK = 2**20  # numbers in an array that is worked on at once
ROUNDING = 1e-13  # functions that vary by a smaller share of their size are constant
LEAST = 1e-17  # correlations below it are rounding errors, by which must not be divided


class VarianceShares(NamedTuple):
    """Shares of the variance of a model.

    Attributes
    ----------
    total
        Total-effect indices, shape (inputs,): the expected share of variance that remains when all other
        inputs are fixed. They sum to more than one if inputs interact.
    pairs
        Second-order indices, shape (inputs, inputs), with main effects on the diagonal. Diagonal and one
        triangle sum to one if no three inputs interact.
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

    Inputs are independent and uniform on [0, 1], whatever the training data and the domain. Charts are left
    out: it is the model outside of them. Outputs are weighted by their variances. If all are constant, all
    shares are zero.

    For a table of coefficients no points are drawn: all follows from integrals along single inputs, by a
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
    """Whether a state has parts besides its coefficient table, below its charts."""
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
    """Contribution of one input to G, H and F of an output, shape (points, 2M + 1); see `splines.active`."""
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
    """Contributions of the exponentials to the total effects, to each pair of inputs, and to the variance.

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
    """Square blocks that tile the upper triangle of a matrix."""
    starts = range(0, length, max(1, size))
    parts = [slice(start, min(start + starts.step, length)) for start in starts]
    return combinations_with_replacement(parts, 2)


def flat(matrices: Array) -> Array:
    """Matrices of shape (inputs, rows, columns) as rows of numbers."""
    return matrices.reshape(len(matrices), -1)
