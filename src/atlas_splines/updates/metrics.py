"""Out-of-sample metrics: error, score, and the error of the baseline that predicts the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model.losses import find_loss
from atlas_splines.model.rows import Rows

__all__ = ["HeldOut", "assess"]

Array = NDArray[np.floating]

LEAST_SHARE = 1e-12  # frequency of a class without rows, so that its logarithm is finite


@dataclass(frozen=True)
class HeldOut:
    """Out-of-sample error of a model and of the baseline, in the units of its targets.

    Attributes
    ----------
    rows
        Number of rows.
    cross_validated
        Whether the rows were cross-validated, and not held out from the model itself.
    error
        Mean loss of the model; in the log of an estimator, the metric that ``measure`` names.
    baseline
        That of the baseline: the mean of all targets, or the frequencies of the classes.
    score
        R² relative to the baseline, averaged over outputs; for classes the accuracy.
    later
        Whether the rows are later than all rows of the models that predicted them.
    """

    rows: int
    cross_validated: bool
    error: float
    baseline: float
    score: float
    later: bool = False


def assess(
    outputs: Array,
    held_out: Rows,
    every: Rows,
    loss: str,
    cross_validated: bool = False,
    means: Array | None = None,
) -> HeldOut:
    """Assess predictions of held-out rows.

    Parameters
    ----------
    outputs
        Predictions of these rows, shape (rows, outputs).
    held_out
        The rows.
    every
        All rows, whose mean is the baseline.
    loss
        Name of the loss.
    cross_validated
        As in `HeldOut`.
    means
        Baseline of each row, the mean of the targets of the rows that it is predicted from, shape (rows,
        outputs); by default the mean of all rows, which includes the row itself.

    Examples
    --------
    >>> rows = Rows(np.zeros((4, 1)), np.array([[-1.0], [1.0], [-1.0], [1.0]]), np.ones(4))
    >>> assess(np.array([[-0.5], [0.5], [-0.5], [0.5]]), rows, rows, "mse")
    HeldOut(rows=4, cross_validated=False, error=0.25, baseline=1.0, score=0.75, later=False)
    """
    mean = np.average(every.targets, axis=0, weights=every.weights) if means is None else means
    of_classes = loss == "cross-entropy"
    baseline = np.log(np.maximum(mean, LEAST_SHARE)) if of_classes else mean
    targets, weights = held_out.targets.astype(np.float64), held_out.weights
    score = accuracy(outputs, targets, weights) if of_classes else r_squared(outputs, targets, weights, mean)
    mean_loss = find_loss(loss)
    return HeldOut(
        rows=len(held_out),
        cross_validated=cross_validated,
        error=mean_loss(outputs, targets, weights),
        baseline=mean_loss(np.broadcast_to(baseline, targets.shape), targets, weights),
        score=score,
    )


def accuracy(outputs: Array, targets: Array, weights: Array) -> float:
    """Weighted share of the rows whose class has the highest score."""
    return float(np.average(outputs.argmax(axis=1) == targets.argmax(axis=1), weights=weights))


def r_squared(outputs: Array, targets: Array, weights: Array, mean: Array) -> float:
    """Coefficient of determination, averaged over outputs; 0 for an output without variance."""
    residual = np.average((outputs - targets) ** 2, axis=0, weights=weights)  # (outputs,)
    total = np.average((mean - targets) ** 2, axis=0, weights=weights)
    return float(np.mean(np.where(total > 0, 1 - residual / np.where(total > 0, total, 1), 0)))
