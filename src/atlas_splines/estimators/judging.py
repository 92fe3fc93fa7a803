"""Judging: how well a fit predicts rows that it was not trained on, and how well the mean alone does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.losses import find_loss
from atlas_splines.core.model import Atlas
from atlas_splines.core.rows import Rows

__all__ = ["LOG_LOSS", "FitRecord", "HeldOut", "judge", "judge_average"]

Array = NDArray[np.floating]
LOG_LOSS = "log loss"
LEAST_SHARE = 1e-12  # of a class that has no rows yet: its logarithm is finite


@dataclass(frozen=True)
class HeldOut:
    """How well a model predicts rows that it was not trained on, in its own units.

    Attributes
    ----------
    rows
        How many there were.
    crossed
        Whether each was predicted by those parts of the model that had not seen it, and not by all of it.
    loss
        Mean loss.
    baseline
        That of the mean of all targets, or of the frequencies of the classes.
    score
        R², compared with this mean and averaged over the outputs; or the share of rows with the right class.
    """

    rows: int
    crossed: bool
    loss: float
    baseline: float
    score: float


@dataclass(frozen=True)
class FitRecord:
    """What a fit has learned from, and how well it predicts rows that it was not trained on.

    Attributes
    ----------
    date
        Day of the fit, in UTC.
    rows
        Rows that it was made from, with those of `fit_more`.
    held_out
        Rows that it was judged by; 0 if there were too few, and then errors and score are NaN.
    crossed
        Whether each of these was predicted by those parts of the model that had not seen it. Otherwise all
        of the model predicted rows that no part of it had seen.
    measure
        What the errors are, such as "RMSE".
    error
        Error of the model as `fit` made it, in the unit of the target.
    baseline
        That of the mean of all targets, or of the frequencies of the classes.
    score
        R², compared with this mean and averaged over the targets; or the share of rows with the right class.

    Examples
    --------
    >>> print(FitRecord(date(2026, 1, 31), 500, 100, False, "RMSE", 12.3, 34.1, 0.87))
    Held-out RMSE 12.3 (R² 0.87; the mean alone 34.1)
    """

    date: date
    rows: int
    held_out: int
    crossed: bool
    measure: str
    error: float
    baseline: float
    score: float

    @classmethod
    def of(
        cls, rows: int, judged: HeldOut | None, measure: str, error: Callable[[float], float]
    ) -> FitRecord:
        """The record of a fit of today; `error` turns a loss of the model into what `measure` names."""
        judged = judged or HeldOut(0, False, np.nan, np.nan, np.nan)
        return cls(
            date=datetime.now(timezone.utc).date(),
            rows=rows,
            held_out=judged.rows,
            crossed=judged.crossed,
            measure=measure,
            error=error(judged.loss),
            baseline=error(judged.baseline),
            score=judged.score,
        )

    def __str__(self) -> str:
        if not self.held_out:
            return "Held-out error unknown, for no rows were held out"
        of_classes = self.measure == LOG_LOSS
        score = f"{self.score:.2%} right" if of_classes else f"R² {self.score:.4g}"
        simplest = "class frequencies" if of_classes else "the mean"
        way = "Cross-validated" if self.crossed else "Held-out"
        return f"{way} {self.measure} {self.error:.4g} ({score}; {simplest} alone {self.baseline:.4g})"


def judge(outputs: Array, held_out: Rows, every: Rows, loss: str, crossed: bool = False) -> HeldOut:
    """Judge outputs of a model for held-out rows.

    Parameters
    ----------
    outputs
        What the model says of these rows, shape (rows, outputs).
    held_out
        The rows.
    every
        All rows of the fit.
    loss
        Name of the loss.
    crossed
        As in `HeldOut`.

    Examples
    --------
    >>> rows = Rows(np.zeros((4, 1)), np.array([[-1.0], [1.0], [-1.0], [1.0]]), np.ones(4))
    >>> judge(np.array([[-0.5], [0.5], [-0.5], [0.5]]), rows, rows, "mse")
    HeldOut(rows=4, crossed=False, loss=0.25, baseline=1.0, score=0.75)
    """
    mean = np.average(every.targets, axis=0, weights=every.weights)  # (outputs,)
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
        loss=mean_loss(outputs, targets, weights),
        baseline=mean_loss(np.broadcast_to(simplest, targets.shape), targets, weights),
        score=score,
    )


def share_right(outputs: Array, targets: Array, weights: Array) -> float:
    """Share of the rows whose class has the highest score."""
    return float(np.average(outputs.argmax(axis=1) == targets.argmax(axis=1), weights=weights))


def r_squared(outputs: Array, targets: Array, weights: Array, mean: Array) -> float:
    """Share of the squares about the mean that is explained, averaged over outputs; 0 of none."""
    left = np.average((outputs - targets) ** 2, axis=0, weights=weights)  # (outputs,)
    spread = np.average((mean - targets) ** 2, axis=0, weights=weights)
    return float(np.mean(np.where(spread > 0, 1 - left / np.where(spread > 0, spread, 1), 0)))


def judge_average(
    models: Sequence[Atlas], unseen: NDArray[np.bool_], rows: Rows, loss: str
) -> HeldOut | None:
    """Judge the average of models by the rows that none was trained on.

    Without such rows, each row is predicted by the average of the models that were not trained on it; if all
    were trained on all rows, there is no judgement.

    Parameters
    ----------
    models
        The models.
    unseen
        Which rows each was not trained on, shape (models, rows).
    rows, loss
        All rows, and the name of the loss.
    """
    if not unseen.any():
        return None
    by_all = np.asarray(unseen.all(axis=0))
    crossed = not by_all.any()
    judged = np.asarray(unseen.any(axis=0)) if crossed else by_all
    total = np.zeros(rows.targets.shape)
    for model, own in zip(models, unseen & judged, strict=True):
        total[own] += model(rows.points[own])
    outputs = total[judged] / unseen[:, judged].sum(axis=0)[:, None]
    return judge(outputs, rows.take(judged), rows, loss, crossed)
