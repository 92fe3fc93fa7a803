"""Folding: the one `Atlas` that a weighted sum of features is.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core import splines
from atlas_splines.core.model import Atlas, state_of
from atlas_splines.evidence.features import COARSE, FINEST, SIDED, Bumps, Features

__all__ = ["fold"]

Array = NDArray[np.float64]

SILENT = -200.0  # exponent of a term that is not used


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
    >>> features = Features(1, (0,), (), (Bumps(np.array([[0.5]]), np.array([0.1])),))
    >>> weights = np.array([[1.0], [0.0], [0.0], [0.0], [0.0], [-2.0]])
    >>> fold(features, weights)([[0.5], [0.0]]).round(3)
    array([[-1.],
           [ 1.]], dtype=float32)
    """
    linear = len(features) - sum(len(group.centres) for group in features.bumps)
    amplitudes = weights[linear:]  # (bumps, outputs)
    terms = int(max((amplitudes > 0).sum(axis=0).max(initial=0), (amplitudes < 0).sum(axis=0).max(initial=0)))
    sided = [SIDED for group in features.bumps if any(group.sides)]
    density = max([bump_density(features.bumps), *sided, *(density for _, density in features.fine)])
    model = Atlas(features.inputs, weights.shape[1], terms, density, dtype=dtype)
    fold_splines(model, features, weights[:linear])
    if terms:
        fold_bumps(model, features.bumps, amplitudes)
    return model


def fold_splines(model: Atlas, features: Features, weights: Array) -> None:
    """Write the constant and the splines into F."""
    functions = splines.basis_size(COARSE)
    begin = 1 + len(features.coarse) * functions
    own = (model.outputs, len(features.coarse), functions)
    model.f(COARSE)[:, list(features.coarse)] = weights[1:begin].T.reshape(own)
    model.f(COARSE)[:, 0] += weights[0][:, None]  # the weights of one input's functions sum to one, (4)
    for j, density in features.fine:
        end = begin + splines.basis_size(density)
        model.f(density)[:, j] = weights[begin:end].T
        begin = end


def fold_bumps(model: Atlas, bumps: Sequence[Bumps], amplitudes: Array) -> None:
    """Write bumps into G and H; of each output the largest come first, as the first terms' scales do."""
    density = bump_density(bumps)
    exponents = np.concatenate([bump_exponents(group, density) for group in bumps])  # (bumps, inputs, λ)
    sided = [sided_exponents(group) for group in bumps] if any(any(group.sides) for group in bumps) else []
    for p in range(model.outputs):
        for side, sign in ((model.g, 1), (model.h, -1)):
            size = sign * amplitudes[:, p]
            order = np.argsort(-size)[: int((size > 0).sum())]
            table = side(density)[p]  # (terms, inputs, λ)
            table[len(order) :, 0] = SILENT
            table[: len(order)] = exponents[order]
            slope = state_of(model).layout.slope[: len(order)].astype(np.float64)
            shift = np.log(size[order]) - np.log(slope)
            table[: len(order), 0] += shift[:, None]
            if sided:
                side(SIDED)[p][: len(order)] += np.concatenate(sided)[order]


def bump_density(bumps: Sequence[Bumps]) -> int:
    """Density at which the quadratics are written: a cell is no wider than a bump.

    Splines of density 0 would do, but far coefficients are as large as (x/ℓ)², and float32 would lose digits.
    """
    narrowest = min((group.both_sides.min() for group in bumps), default=1.0)
    fits = (d for d in range(COARSE, FINEST) if splines.cell_count(d) * narrowest >= 1)
    return next(fits, FINEST)


def bump_exponents(group: Bumps, density: int) -> Array:
    """Coefficients of −(x_j − c_j)²/2ℓ_j² at a density, equation (18): shape (bumps, inputs, λ)."""
    width = 1 / splines.cell_count(density)
    middles = (np.arange(1, splines.basis_size(density) + 1) - 2) * width
    squared = (middles - group.centres[:, :, None]) ** 2 - width**2 / 3
    return -squared / (2 * group.both_sides[:, None] ** 2)


def sided_exponents(group: Bumps) -> Array:
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
