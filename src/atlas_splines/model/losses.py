"""Loss functions: value, gradient and kernel code; validation of targets and sample weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model import kernels
from atlas_splines.model.atlas import Atlas
from atlas_splines.model.checks import check_numbers, check_weight_sizes

__all__ = ["LOSSES", "Loss", "checked_targets", "checked_weights", "find_loss"]

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Loss:
    """A loss of predictions and targets, both of shape (rows, outputs).

    Attributes
    ----------
    name
        Its public name.
    code
        Its number in the kernels.
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
        """Targets at which the loss of predictions is least: themselves, or their softmax for classes.

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
    """Return the loss of a name, or raise with the names that exist.

    Examples
    --------
    >>> find_loss("mae").name
    'mae'
    """
    if name not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, not {name!r}")
    return LOSSES[name]


def checked_targets(y: ArrayLike, rows: int, name: str, model: Atlas, loss: Loss) -> Array:
    """Targets as (rows, outputs); class labels become indicator rows."""
    array = check_numbers(name, y, model.dtype)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}; expected ({rows}, {model.outputs})")
    if array.shape[0] != rows:
        raise ValueError(f"{name} has {array.shape[0]} rows but X has {rows}")
    if loss.code == kernels.CROSS_ENTROPY and array.shape[1] == 1:
        return indicators(array, model.outputs, name)
    if array.shape[1] != model.outputs:
        raise ValueError(f"{name} has {array.shape[1]} columns but the model has {model.outputs} outputs")
    if loss.code == kernels.CROSS_ENTROPY and array.min() < 0:
        row = int(np.argwhere(array < 0)[0, 0])
        raise ValueError(f"{name}[{row}] has a negative probability; give one of at least 0 for each class")
    return array


def indicators(labels: Array, classes: int, name: str) -> Array:
    """Class numbers as indicator rows."""
    wrong = (labels[:, 0] != np.floor(labels[:, 0])) | (labels[:, 0] < 0) | (labels[:, 0] >= classes)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{name}[{row}] is {labels[row, 0]:g}; class numbers must be 0 to {classes - 1}")
    return np.eye(classes, dtype=labels.dtype)[labels[:, 0].astype(np.intp)]


def checked_weights(values: ArrayLike | None, rows: int, name: str, model: Atlas) -> Array:
    """Weights of rows, shape (rows,): ones if none are given."""
    if values is None:
        return np.ones(rows, model.dtype)
    weights = check_numbers(name, values, model.dtype)
    if weights.shape != (rows,):
        raise ValueError(f"{name} has shape {weights.shape}; expected ({rows},), one number per row")
    if weights.min() < 0:
        row = int(np.argmin(weights))
        raise ValueError(f"{name}[{row}] is {weights[row]}; weights must not be negative")
    if weights.max() == 0:
        raise ValueError(f"{name} is zero for every row; give at least one a positive weight")
    check_weight_sizes(name, weights)
    return weights
