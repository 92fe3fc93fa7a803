"""Judging: how well a model predicts rows that it has not learned, and how well their mean alone does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model.losses import find_loss
from atlas_splines.model.rows import Rows

__all__ = ["HeldOut", "assess"]

Array = NDArray[np.floating]

LEAST_SHARE = 1e-12  # of a class that has no rows yet: its logarithm is finite


@dataclass(frozen=True)
class HeldOut:
    """How well a model predicts rows that it has not learned; in the units of whoever tells it.

    Attributes
    ----------
    rows
        How many there were.
    crossed
        Whether each was predicted by what others have taught, turn by turn, and not by the model itself.
    error
        Mean loss of a model; what ``measure`` names in the log of an estimator.
    baseline
        That of the mean of all targets, or of the frequencies of the classes.
    score
        R², compared with this mean and averaged over the outputs; or the share of rows with the right class.
    later
        Whether they come after all rows that predicted them.
    """

    rows: int
    crossed: bool
    error: float
    baseline: float
    score: float
    later: bool = False


def assess(
    outputs: Array,
    held_out: Rows,
    every: Rows,
    loss: str,
    crossed: bool = False,
    means: Array | None = None,
) -> HeldOut:
    """Judge outputs of a model for held-out rows.

    Parameters
    ----------
    outputs
        What the model says of these rows, shape (rows, outputs).
    held_out
        The rows.
    every
        All rows, whose mean is compared with.
    loss
        Name of the loss.
    crossed
        As in `HeldOut`.
    means
        For each row the mean of the targets of those that predicted it, shape (rows, outputs); by default
        that of all rows, the row itself among them.

    Examples
    --------
    >>> rows = Rows(np.zeros((4, 1)), np.array([[-1.0], [1.0], [-1.0], [1.0]]), np.ones(4))
    >>> assess(np.array([[-0.5], [0.5], [-0.5], [0.5]]), rows, rows, "mse")
    HeldOut(rows=4, crossed=False, error=0.25, baseline=1.0, score=0.75, later=False)
    """
    mean = np.average(every.targets, axis=0, weights=every.weights) if means is None else means
    of_classes = loss == "cross-entropy"
    simplest = np.log(np.maximum(mean, LEAST_SHARE)) if of_classes else mean
    targets, weights = held_out.targets.astype(np.float64), held_out.weights
    score = (
        share_right(outputs, targets, weights) if of_classes else r_squared(outputs, targets, weights, mean)
    )
    mean_loss = find_loss(loss)
    return HeldOut(
        rows=len(held_out),
        crossed=crossed,
        error=mean_loss(outputs, targets, weights),
        baseline=mean_loss(np.broadcast_to(simplest, targets.shape), targets, weights),
        score=score,
    )


def share_right(outputs: Array, targets: Array, weights: Array) -> float:
    """Share of the rows whose class has the highest score."""
    return float(np.average(outputs.argmax(axis=1) == targets.argmax(axis=1), weights=weights))


def r_squared(outputs: Array, targets: Array, weights: Array, mean: Array) -> float:
    """Share of the squares about the mean that is explained, averaged over outputs; 0 of none."""
    left = np.average((outputs - targets) ** 2, axis=0, weights=weights)  # (outputs,)
    error_model = np.average((mean - targets) ** 2, axis=0, weights=weights)
    return float(np.mean(np.where(error_model > 0, 1 - left / np.where(error_model > 0, error_model, 1), 0)))
