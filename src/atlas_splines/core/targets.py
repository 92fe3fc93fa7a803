"""Targets and weights of rows, as the kernels take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.core import kernels
from atlas_splines.core.checks import check_numbers, check_weight_sizes
from atlas_splines.core.losses import Loss
from atlas_splines.core.model import Atlas

__all__ = ["checked_targets", "checked_weights"]

Array = NDArray[np.floating]


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
