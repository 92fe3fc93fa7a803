"""Judging: how well a fit predicts rows that it was not trained on, and how that is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.model import Atlas
from atlas_splines.core.rows import Rows
from atlas_splines.memory.judging import HeldOut, judge

__all__ = ["LOG_LOSS", "FitRecord", "held_out_text", "judge_average"]

Array = NDArray[np.floating]
LOG_LOSS = "log loss"


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
    later
        Whether these rows come after all rows that predicted them, as those of a file in order of time do.

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
    later: bool = False

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
            error=error(judged.error),
            baseline=error(judged.baseline),
            score=judged.score,
            later=judged.later,
        )

    def __str__(self) -> str:
        if not self.held_out:
            return "Held-out error unknown, for no rows were held out"
        judged = HeldOut(self.held_out, self.crossed, self.error, self.baseline, self.score, self.later)
        return held_out_text(judged, self.measure)


def held_out_text(judged: HeldOut, measure: str) -> str:
    """An error on rows that were not learned, by its name, beside that of the mean or of class frequencies.

    Examples
    --------
    >>> held_out_text(HeldOut(100, True, 0.3, 0.9, 0.87), LOG_LOSS)
    'Cross-validated log loss 0.3 (87.00% right; class frequencies alone 0.9)'
    """
    of_classes = measure == LOG_LOSS
    score = f"{judged.score:.2%} right" if of_classes else f"R² {judged.score:.4g}"
    simplest = "class frequencies" if of_classes else "the mean"
    way = "Cross-validated" if judged.crossed else "Held-out"
    where = " on later rows" if judged.later else ""
    return f"{way} {measure} {judged.error:.4g}{where} ({score}; {simplest} alone {judged.baseline:.4g})"


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
