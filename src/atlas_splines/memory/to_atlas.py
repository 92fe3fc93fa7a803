"""Conversion of a weighted sum of features into one `Atlas`: equation numbers refer to docs/math.md.

Log-quadratic functions are products of exponentials of cubic splines, whose coefficients follow from the
blossom (Marsden's identity; de Boor, 1978, A practical guide to splines).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.features import COARSE, FINEST, SIDED, Features, RadialBasis
from atlas_splines.model import splines
from atlas_splines.model.atlas import Atlas, state_of

__all__ = ["MODEL_RULES", "ModelRules", "fold"]

Array = NDArray[np.float64]

UNUSED = -200.0  # exponent of an unused term
LEAST_DENSITY = COARSE + 1  # of radial basis functions


@dataclass(frozen=True)
class ModelRules:
    """Limits of the table of a model, which has a term for each radial basis function of each output.

    Attributes
    ----------
    coefficients
        Coefficients of a table, about: 128 MB, and a fit has three or four in memory. With half of it 200
        classes of 10 inputs have 434 features instead of 548, and their log loss is 6 % worse.
    cell_lengths
        Largest width, in length scales, of the cells in which the exponent of a radial basis function is
        written. The wider, the larger the coefficients that cancel in float32: up to 8 the error of a sum of
        300 functions stays at 1e-5 of its standard deviation, as for one length scale; with 16 it is up to
        three times that.
    terms_per_basis
        Terms of an output for each function: the larger share of weights of one sign, at most 0.5 to 0.6 for
        any of two classes, 0.6 to 0.95 for any of 40 and 200.
    """

    coefficients: int = 2**25
    cell_lengths: float = 8.0
    terms_per_basis: float = 0.8

    def finest(self, inputs: int, outputs: int, terms: float) -> int:
        """Highest density whose table is within the limit; at least that of radial basis functions."""
        room = self.coefficients / (inputs * outputs * (2 * terms + 1))  # rows of each input
        return max(
            (d for d in range(LEAST_DENSITY, FINEST + 1) if rows_of_input(d) <= room), default=LEAST_DENSITY
        )

    def most_centres(self, inputs: int, outputs: int, density: int) -> int:
        """Most radial basis functions whose table at a density is within the limit."""
        room = self.coefficients / (inputs * outputs * rows_of_input(density))
        return int((room - 1) / (2 * self.terms_per_basis))


MODEL_RULES = ModelRules()


def rows_of_input(density: int) -> int:
    """Rows of a table for one input: its basis functions of all densities, equation (9).

    Examples
    --------
    >>> rows_of_input(2) == 4 + 8 + 16
    True
    """
    return 2 * splines.basis_size(density) - splines.basis_size(COARSE)


def fold(features: Features, weights: Array, dtype: np.dtype[np.floating] | str = "float32") -> Atlas:
    """One `Atlas` on the unit cube whose outputs are weighted sums of features, to the accuracy of float32.

    A function of positive weight becomes a term e^G, one of negative weight a term e^H, with log |w| minus
    the logarithm of the term's scale (7) in the exponent. Its quadratics are splines by (18), exact for
    cubics.

    Parameters
    ----------
    features
        The features.
    weights
        Shape (features, outputs).
    dtype
        Dtype of the model.

    Examples
    --------
    >>> features = Features(1, (0,), (), (RadialBasis(np.array([[0.5]]), np.array([0.1])),))
    >>> weights = np.array([[1.0], [0.0], [0.0], [0.0], [0.0], [-2.0]])
    >>> fold(features, weights)([[0.5], [0.0]]).round(3)
    array([[-1.],
           [ 1.]], dtype=float32)
    """
    linear = len(features) - sum(len(group.centres) for group in features.radial_bases)
    amplitudes = weights[linear:]  # (functions, outputs)
    terms = int(max((amplitudes > 0).sum(axis=0).max(initial=0), (amplitudes < 0).sum(axis=0).max(initial=0)))
    sided = [SIDED for group in features.radial_bases if any(group.sides)]
    own = min(
        basis_density(features.radial_bases), MODEL_RULES.finest(features.inputs, weights.shape[1], terms)
    )
    density = max([own, *sided, *(density for _, density in features.fine)])
    model = Atlas(features.inputs, weights.shape[1], terms, density, dtype=dtype)
    add_splines(model, features, weights[:linear])
    if terms:
        add_bases(model, features.radial_bases, amplitudes, own)
    return model


def add_splines(model: Atlas, features: Features, weights: Array) -> None:
    """Write the constant and the splines into F."""
    functions = splines.basis_size(COARSE)
    begin = 1 + len(features.coarse) * functions
    own = (model.outputs, len(features.coarse), functions)
    model.f(COARSE)[:, list(features.coarse)] = weights[1:begin].T.reshape(own)
    end = begin + len(features.linear)
    places = np.arange(functions) - 1.0  # coefficients of the identity, (18)
    model.f(COARSE)[:, list(features.linear)] = weights[begin:end].T[:, :, None] * places
    begin = end
    model.f(COARSE)[:, 0] += weights[0][:, None]  # the weights of one input's functions sum to one, (4)
    for j, density in features.fine:
        end = begin + splines.basis_size(density)
        model.f(density)[:, j] = weights[begin:end].T
        begin = end


def add_bases(model: Atlas, radial_bases: Sequence[RadialBasis], amplitudes: Array, density: int) -> None:
    """Write radial basis functions into G and H; of each output the largest weights first.

    Outputs differ by a constant in the exponent, which is written at density 0: at the density of the
    functions the columns of all outputs are then the same, and a file stores each of them once.
    """
    exponents = np.concatenate(
        [basis_exponents(group, density) for group in radial_bases]
    )  # (functions, inputs, λ)
    sided = (
        [sided_exponents(group) for group in radial_bases]
        if any(any(group.sides) for group in radial_bases)
        else []
    )
    for p in range(model.outputs):
        for side, sign in ((model.g, 1), (model.h, -1)):
            size = sign * amplitudes[:, p]
            order = np.argsort(-size)[: int((size > 0).sum())]
            slope = state_of(model).layout.slope[: len(order)].astype(np.float64)
            constant = side(COARSE)[p, :, 0]  # (terms, λ), of the first input
            constant[len(order) :] = UNUSED
            constant[: len(order)] = (np.log(size[order]) - np.log(slope))[:, None]
            side(density)[p, : len(order)] = exponents[order]  # (terms, inputs, λ)
            if sided:
                side(SIDED)[p][: len(order)] += np.concatenate(sided)[order]


def basis_density(radial_bases: Sequence[RadialBasis]) -> int:
    """Density of the quadratics: above that of the constants, with cells small enough for the length scales.

    Splines of density 0 could represent them, but distant coefficients are as large as (x/ℓ)² and float32
    would lose digits.
    """
    if not radial_bases:
        return COARSE
    widest = MODEL_RULES.cell_lengths * min(group.two_sided_lengths.min() for group in radial_bases)
    fits = (d for d in range(LEAST_DENSITY, FINEST) if splines.cell_count(d) * widest >= 1)
    return next(fits, FINEST)


def basis_exponents(group: RadialBasis, density: int) -> Array:
    """Coefficients of −(x_j − c_j)²/2ℓ_j² at a density, equation (18): shape (functions, inputs, λ)."""
    width = 1 / splines.cell_count(density)
    middles = (np.arange(1, splines.basis_size(density) + 1) - 2) * width
    squared = (middles - group.centres[:, :, None]) ** 2 - width**2 / 3
    return -squared / (2 * group.two_sided_lengths[:, None] ** 2)


def sided_exponents(group: RadialBasis) -> Array:
    """Coefficients of −max(±(c_j − x_j), 0)³/2ℓ_j³ at the density of its knots, shape (functions, inputs, λ).

    A coefficient is the product of the distances of the three knots inside its basis function (Marsden),
    where these are on the decreasing side; so coefficients are monotone exactly.
    """
    cells = splines.cell_count(SIDED)
    knots = np.arange(1, splines.basis_size(SIDED) + 1)[:, None] - [3, 2, 1]  # (λ, 3), in cells
    exponents = np.zeros((*group.centres.shape, len(knots)))
    for j in np.flatnonzero(group.sides):
        apart = group.sides[j] * (np.rint(group.centres[:, j] * cells)[:, None, None] - knots)
        exponents[:, j] = -(np.maximum(apart, 0) / (cells * group.lengths[j])).prod(axis=2) / 2
    return exponents
