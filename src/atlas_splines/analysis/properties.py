"""The paper's three properties, with the corrected constants, and the overlap of gradients, as functions.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model import splines
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.checks import check_size
from atlas_splines.model.evaluate import ceilings, slopes

__all__ = [
    "expected_off_target",
    "gradient_bound",
    "gradient_norm",
    "orthogonality_distance",
    "overlap",
    "sparsity",
]


def sparsity(model: Atlas, X: ArrayLike) -> NDArray[np.intp]:
    """Number of trainable coefficients each output depends on, at most 4n(2M + 1), property (11).

    Returns
    -------
    array of shape (rows, outputs)

    Examples
    --------
    >>> sparsity(Atlas(inputs=2, terms=10, density=4), [[0.3, 0.7]])
    array([[168]])
    """
    gradient = model.gradient(X)
    gradient.eliminate_zeros()
    return np.diff(gradient.indptr).reshape(-1, model.outputs).astype(np.intp)


def gradient_norm(model: Atlas, X: ArrayLike) -> NDArray[np.floating]:
    """Exact 1-norm of the gradient with respect to the trainable coefficients, equation (12).

    Basis weights are positive and sum to one, so the norm needs no gradient: it is n times the sum of the
    slopes' sizes, once for each trained density.

    Returns
    -------
    array of shape (rows, outputs)

    Examples
    --------
    >>> gradient_norm(Atlas(inputs=2, terms=0), [[0.3, 0.7]])
    array([[2.]], dtype=float32)
    """
    state = state_of(model)
    sizes = np.abs(slopes(state, state.points(X)))  # (rows, outputs, 2M + 1)
    return state.lattice.inputs * len(state.trained_densities) * sizes.sum(axis=2)


def gradient_bound(model: Atlas) -> NDArray[np.floating]:
    """Bound on `gradient_norm` over the whole domain, whatever the number of terms, equation (13).

    Returns
    -------
    array of shape (outputs,)

    Examples
    --------
    >>> gradient_bound(Atlas(inputs=1)).round(3)
    array([4.29])
    """
    state = state_of(model)
    model = model_in(state)
    highest = ceilings(state)[: model.outputs * state.width].reshape(model.outputs, -1)
    g, h = highest[:, : model.terms], highest[:, model.terms : -1]
    exponentials = np.exp(g.max(axis=1)) + np.exp(h.max(axis=1)) if model.terms else 0.0
    series = np.pi**2 / 6 * np.exp(-model.damping)  # Σ k⁻²
    return (
        model.inputs
        * len(state.trained_densities)
        * np.broadcast_to(1 + series * exponentials, model.outputs)
    )


def orthogonality_distance(density: int) -> float:
    """Least distance in every coordinate at which gradients are orthogonal, property (14).

    The paper's 2^−r is not enough.

    Examples
    --------
    >>> orthogonality_distance(4)
    0.06557377049180328
    """
    return 4 / splines.cell_count(check_size("density", density, least=0))


def overlap(model: Atlas, X: ArrayLike, Y: ArrayLike) -> NDArray[np.floating]:
    """Inner products of the gradients at X with those at Y: the neural tangent kernel, equation (15).

    Zero means that a gradient step at one point leaves the other as it is.

    Returns
    -------
    array of shape (rows of X · outputs, rows of Y · outputs)

    Examples
    --------
    >>> overlap(Atlas(inputs=1, terms=0), [[0.02]], [[0.05], [0.5]]).round(3)
    array([[0.043, 0.   ]], dtype=float32)
    """
    products: NDArray[np.floating] = (model.gradient(X) @ model.gradient(Y).T).toarray()
    return products


def expected_off_target(width: ArrayLike, inputs: int) -> NDArray[np.floating]:
    """Expected change outside a box of a given width that is retrained by a change of one, equation (21).

    Examples
    --------
    >>> expected_off_target(0.5, inputs=2)
    array(0.25)
    """
    delta = np.asarray(width, dtype=np.float64)
    if not ((delta >= 0) & (delta <= 1)).all():
        raise ValueError(f"width must lie in [0, 1], not {width!r}")
    return np.asarray(delta - delta ** check_size("inputs", inputs, least=1))
