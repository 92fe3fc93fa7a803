"""Gradients: how each output depends on each trainable coefficient.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core import splines
from atlas_splines.core.checks import check_overflow
from atlas_splines.core.evaluation import share_kept, sums
from atlas_splines.core.state import State

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["gradient_matrix", "slopes"]

Array = NDArray[np.floating]


def gradient_matrix(state: State, points: Array) -> csr_matrix:
    """Gradient of each output at each point, equation (10); `Atlas.gradient` says which column is which."""
    from scipy.sparse import csr_matrix

    slope = slopes(state, points)
    values, columns, before = [], [], 0
    for density in state.trained_densities:
        cells, weights = splines.active(points, density)  # (rows, inputs), (rows, inputs, 4)
        value = slope[:, :, :, None, None] * weights[:, None, None]
        column = before + _spline_starts(state, density)[:, :, None, None] + _places(state, cells, density)
        values.append(value.reshape(points.shape[0] * state.outputs, -1))
        columns.append(np.broadcast_to(column, value.shape).reshape(values[-1].shape))
        before += state.rows_of(density).size
    value, column = np.hstack(values), np.hstack(columns)
    starts = np.arange(value.shape[0] + 1) * value.shape[1]
    return csr_matrix((value.ravel(), column.ravel(), starts), shape=(value.shape[0], before))


def slopes(state: State, points: Array) -> Array:
    """Derivative of each output with respect to its sums F, G_k, H_k: shape (rows, outputs, 2M + 1)."""
    exponents = sums(state, points)
    exponents[:, :, -1] = 0.0  # exp(0) = 1, the slope of F
    scale = state.layout.slope[: state.width]
    with np.errstate(over="ignore"):
        found = np.exp(exponents) * scale * share_kept(state, points)[:, None, None]
    check_overflow(found.reshape(points.shape[0], -1))
    return np.concatenate([found[:, :, -1:], found[:, :, :-1]], axis=2)


def _spline_starts(state: State, density: int) -> NDArray[np.intp]:
    """First gradient column of each output's F, G_k and H_k: shape (outputs, 2M + 1)."""
    outputs, terms = np.arange(state.outputs)[:, None], np.arange(2 * state.terms)
    positive, k = terms < state.terms, terms % max(state.terms, 1)
    g = state.outputs + outputs * state.terms + k
    exponentials = np.where(positive, g, g + state.outputs * state.terms)
    return np.hstack([outputs, exponentials]) * len(state.rows_of(density))


def _places(state: State, cells: NDArray[np.intp], density: int) -> NDArray[np.intp]:
    """Where the four active functions stand within a spline family: (rows, 1, 1, inputs, 4)."""
    first = cells + state.lattice.origins[density] - state.lattice.rows(density).start
    return (first[:, :, None] + np.arange(splines.ACTIVE))[:, None, None]
