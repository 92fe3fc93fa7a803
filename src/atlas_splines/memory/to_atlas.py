"""Folding: the one `Atlas` that a weighted sum of features is.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.features import COARSE, FINEST, SIDED, Features, RadialBasis
from atlas_splines.model import splines
from atlas_splines.model.atlas import Atlas, state_of

__all__ = ["RULES", "ModelRules", "fold"]

Array = NDArray[np.float64]

SILENT = -200.0  # exponent of a term that is not used
BUMPS = COARSE + 1  # least density of bumps


@dataclass(frozen=True)
class ModelRules:
    """How large the table of a model may become, since it has a term for each bump of each output.

    Attributes
    ----------
    coefficients
        Of a table, about: 128 MB, of which a fit holds three or four. With half of it 200 classes of 10
        inputs have 434 features instead of 548, and their log loss is 6 % worse.
    cell_lengths
        Cells at which the exponent of a bump is written are at most so many of its length scales wide. The
        wider, the larger the coefficients that cancel in float32: up to 8 the error of a sum of 300 bumps
        stays at 1e-5 of its standard deviation, as for one length scale; with 16 it is up to three times so.
    terms_per_basis
        Terms of an output for each bump: the larger share of weights of one sign, at most 0.5 to 0.6 in any
        of two classes, 0.6 to 0.95 in any of 40 and 200.
    """

    coefficients: int = 2**25
    cell_lengths: float = 8.0
    terms_per_basis: float = 0.8

    def finest(self, inputs: int, outputs: int, terms: float) -> int:
        """Density of the largest table that is not larger; at least that of a bump."""
        room = self.coefficients / (inputs * outputs * (2 * terms + 1))  # rows of each input
        return max((d for d in range(BUMPS, FINEST + 1) if rows_of_input(d) <= room), default=BUMPS)

    def most_centres(self, inputs: int, outputs: int, density: int) -> int:
        """Number of bumps whose table is not larger, if it has a density."""
        room = self.coefficients / (inputs * outputs * rows_of_input(density))
        return int((room - 1) / (2 * self.terms_per_basis))


RULES = ModelRules()


def rows_of_input(density: int) -> int:
    """Rows of a table for one input: its basis functions of all densities, equation (9).

    Examples
    --------
    >>> rows_of_input(2) == 4 + 8 + 16
    True
    """
    return 2 * splines.basis_size(density) - splines.basis_size(COARSE)


def fold(features: Features, weights: Array, dtype: np.dtype[np.floating] | str = "float32") -> Atlas:
    """One `Atlas` on the unit cube whose outputs are the weighted sums of features, to float32's accuracy.

    A bump of positive weight becomes a term e^G, one of negative weight a term e^H, with log |w| less the
    logarithm of the term's scale (7) in the exponent. Its quadratics are splines by (18), exact for cubics.

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
    amplitudes = weights[linear:]  # (bumps, outputs)
    terms = int(max((amplitudes > 0).sum(axis=0).max(initial=0), (amplitudes < 0).sum(axis=0).max(initial=0)))
    sided = [SIDED for group in features.radial_bases if any(group.sides)]
    own = min(basis_density(features.radial_bases), RULES.finest(features.inputs, weights.shape[1], terms))
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
    places = np.arange(functions) - 1.0  # coefficients of the coordinate itself, (18)
    model.f(COARSE)[:, list(features.linear)] = weights[begin:end].T[:, :, None] * places
    begin = end
    model.f(COARSE)[:, 0] += weights[0][:, None]  # the weights of one input's functions sum to one, (4)
    for j, density in features.fine:
        end = begin + splines.basis_size(density)
        model.f(density)[:, j] = weights[begin:end].T
        begin = end


def add_bases(model: Atlas, radial_bases: Sequence[RadialBasis], amplitudes: Array, density: int) -> None:
    """Write bumps into G and H; of each output the largest come first, as the first terms' scales do.

    What differs between outputs is a constant, which stands by itself at density 0: at the density of the
    bumps the columns of all outputs are the same, and a file has each of them once.
    """
    exponents = np.concatenate(
        [basis_exponents(group, density) for group in radial_bases]
    )  # (bumps, inputs, λ)
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
            constant[len(order) :] = SILENT
            constant[: len(order)] = (np.log(size[order]) - np.log(slope))[:, None]
            side(density)[p, : len(order)] = exponents[order]  # (terms, inputs, λ)
            if sided:
                side(SIDED)[p][: len(order)] += np.concatenate(sided)[order]


def basis_density(radial_bases: Sequence[RadialBasis]) -> int:
    """Density at which the quadratics are written: above that of the constants, with cells that suit a bump.

    Splines of density 0 would do, but far coefficients are as large as (x/ℓ)², and float32 would lose digits.
    """
    if not radial_bases:
        return COARSE
    widest = RULES.cell_lengths * min(group.both_sides.min() for group in radial_bases)
    fits = (d for d in range(BUMPS, FINEST) if splines.cell_count(d) * widest >= 1)
    return next(fits, FINEST)


def basis_exponents(group: RadialBasis, density: int) -> Array:
    """Coefficients of −(x_j − c_j)²/2ℓ_j² at a density, equation (18): shape (bumps, inputs, λ)."""
    width = 1 / splines.cell_count(density)
    middles = (np.arange(1, splines.basis_size(density) + 1) - 2) * width
    squared = (middles - group.centres[:, :, None]) ** 2 - width**2 / 3
    return -squared / (2 * group.both_sides[:, None] ** 2)


def sided_exponents(group: RadialBasis) -> Array:
    """Coefficients of −max(±(c_j − x_j), 0)³/2ℓ_j³ at the density of its knots: shape (bumps, inputs, λ).

    A coefficient is the product of the distances of the three knots inside its function (Marsden), as long as
    these are on the side that falls off; so coefficients rise, or fall, to the last bit.
    """
    cells = splines.cell_count(SIDED)
    knots = np.arange(1, splines.basis_size(SIDED) + 1)[:, None] - [3, 2, 1]  # (λ, 3), in cells
    exponents = np.zeros((*group.centres.shape, len(knots)))
    for j in np.flatnonzero(group.sides):
        apart = group.sides[j] * (np.rint(group.centres[:, j] * cells)[:, None, None] - knots)
        exponents[:, j] = -(np.maximum(apart, 0) / (cells * group.lengths[j])).prod(axis=2) / 2
    return exponents
