"""Evaluation of a state at points, and its Jacobian with respect to the coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model import kernels, splines
from atlas_splines.model.checks import check_overflow
from atlas_splines.model.state import State

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "active_densities",
    "add_charts",
    "ceilings",
    "channel_sums",
    "evaluate",
    "evaluate_anywhere",
    "gradient_matrix",
    "is_bounded",
    "share_kept",
    "slopes",
    "sums",
]

Array = NDArray[np.floating]

LARGEST_EXPONENT = {"float32": 80.0, "float64": 700.0}  # exponentials of these are far from an overflow


def evaluate(state: State, points: Array) -> Array:
    """Outputs at points of the state's dtype, shape (rows, outputs); an overflow shows as inf or NaN."""
    out = np.empty((points.shape[0], state.outputs), state.dtype)
    kernels.predict(state.table, state.layout, active_densities(state), points, out)
    add_charts(state, points, out)
    return out


def evaluate_anywhere(state: State, points: Array) -> NDArray[np.float64]:
    """Outputs at projections onto the domain, plus the linear extrapolation in time: (rows, outputs)."""
    inside = points.clip(*state.lattice.domain.T).astype(state.dtype)
    out = evaluate(state, inside).astype(np.float64)
    return out if state.later is None else out + state.later.continued(points)


def add_charts(state: State, points: Array, out: Array) -> None:
    """Complete the outputs of the table: offsets, (44), local terms, (47), later rows, and charts, (23)."""
    if state.offsets is not None:
        state.offsets.add_to(points, out)
    for terms in state.local:
        terms.add_to(points, out)
    if state.later is not None:
        is_later = state.later.includes(points)
        if is_later.any():
            inside = points[is_later].clip(*state.later.state.lattice.domain.T.astype(points.dtype))
            out[is_later] = evaluate(state.later.state, inside)
    if state.packed is not None:
        kernels.add_charts(state.packed, points, out)


def share_kept(state: State, points: Array) -> Array:
    """Fraction of the coefficient table's output that remains under the charts, shape (rows,)."""
    share = np.ones(points.shape[0], state.dtype)
    if state.later is not None:
        share[state.later.includes(points)] = 0
    for chart in state.charts:
        if chart.replaces:
            share *= 1 - chart.window.membership(points)
    return share


def sums(state: State, points: Array) -> Array:
    """G_k, H_k and F of the coefficient table, without charts: shape (rows, outputs, 2M + 1)."""
    channels = channel_sums(state, points, active_densities(state))
    return channels[:, : state.outputs * state.width].reshape(-1, state.outputs, state.width)


def channel_sums(state: State, points: Array, densities: NDArray[np.int64]) -> Array:
    """Sums of some densities, shape (rows, channels)."""
    found = np.zeros((points.shape[0], state.table.shape[1]), state.dtype)
    kernels.frozen_sums(state.table, state.layout, densities, points, found)
    return found


def active_densities(state: State) -> NDArray[np.int64]:
    """Densities that an evaluation needs: the trained ones, and frozen ones that are not all zero."""
    filled = state.filled_densities(state.frozen_densities)
    return np.concatenate([filled, state.trained_densities]).astype(np.int64)


def ceilings(state: State) -> NDArray[np.float64]:
    """Upper bounds of the sums of all channels over the domain, shape (channels,).

    A spline is bounded by its largest coefficient, equation (4) (the convex hull property), so the sum is
    bounded by the sum of the largest of each input.
    """
    return np.maximum.reduceat(state.table, state.lattice.starts[:-1]).sum(axis=0, dtype=np.float64)


def is_bounded(state: State) -> bool:
    """Whether no exponential can overflow anywhere in the domain."""
    return bool((ceilings(state) < LARGEST_EXPONENT[state.dtype.name]).all())


def gradient_matrix(state: State, points: Array) -> csr_matrix:
    """Gradient of each output at each point, equation (10); its columns are those of `Atlas.gradient`."""
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
    """Indices of the four active functions within a spline family: (rows, 1, 1, inputs, 4)."""
    first = cells + state.lattice.origins[density] - state.lattice.rows(density).start
    return (first[:, :, None] + np.arange(splines.ACTIVE))[:, None, None]
