"""Each loss once: its value and gradient in plain NumPy, and its code in the kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core import kernels

__all__ = ["LOSSES", "Loss", "find_loss"]

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Loss:
    """A loss of predictions and targets, both of shape (rows, outputs).

    Attributes
    ----------
    name
        What users call it.
    code
        What the kernels call it.
    per_row
        Loss of each row, shape (rows,): of errors the mean over the outputs, of classes the cross-entropy.
    gradient
        Derivative of each row's loss with respect to its predictions, shape (rows, outputs); what the kernels
        compute is tested against it.
    """

    name: str
    code: int
    per_row: Callable[[Array, Array], Array]
    gradient: Callable[[Array, Array], Array]

    def __call__(self, prediction: Array, target: Array, weight: Array | None = None) -> float:
        """Weighted mean of the loss over the rows.

        Examples
        --------
        >>> LOSSES["mae"](np.array([[1.0], [3.0]]), np.array([[0.0], [0.0]]))
        2.0
        """
        return float(np.average(self.per_row(prediction, target), weights=weight))

    def labels(self, prediction: Array) -> Array:
        """Targets that predictions meet best: themselves, or their softmax for classes.

        Examples
        --------
        >>> LOSSES["cross-entropy"].labels(np.array([[0.0, 0.0]]))
        array([[0.5, 0.5]])
        """
        return np.exp(_log_softmax(prediction)) if self.name == "cross-entropy" else prediction


def _mae(prediction: Array, target: Array) -> Array:
    return np.abs(prediction - target).mean(axis=1)


def _mae_gradient(prediction: Array, target: Array) -> Array:
    return np.sign(prediction - target) / target.shape[1]


def _mse(prediction: Array, target: Array) -> Array:
    return np.square(prediction - target).mean(axis=1)


def _mse_gradient(prediction: Array, target: Array) -> Array:
    return 2 * (prediction - target) / target.shape[1]


def _huber(prediction: Array, target: Array) -> Array:
    error = np.abs(prediction - target)
    return np.where(error < 1, 0.5 * np.square(error), error - 0.5).mean(axis=1)


def _huber_gradient(prediction: Array, target: Array) -> Array:
    return np.clip(prediction - target, -1, 1) / target.shape[1]


def _log_softmax(scores: Array) -> Array:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _cross_entropy(prediction: Array, target: Array) -> Array:
    return -(target * _log_softmax(prediction)).sum(axis=1)


def _cross_entropy_gradient(prediction: Array, target: Array) -> Array:
    return np.exp(_log_softmax(prediction)) - target


LOSSES = {
    loss.name: loss
    for loss in [
        Loss("mae", kernels.MAE, _mae, _mae_gradient),
        Loss("mse", kernels.MSE, _mse, _mse_gradient),
        Loss("huber", kernels.HUBER, _huber, _huber_gradient),
        Loss("cross-entropy", kernels.CROSS_ENTROPY, _cross_entropy, _cross_entropy_gradient),
    ]
}


def find_loss(name: str) -> Loss:
    """Return the loss of a name, or say which names there are.

    Examples
    --------
    >>> find_loss("mae").name
    'mae'
    """
    if name not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, not {name!r}")
    return LOSSES[name]
