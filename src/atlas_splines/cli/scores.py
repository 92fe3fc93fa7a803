"""How well a model does, in the units of the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.rows import Labels
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.table_model import Estimator
from atlas_splines.tables.reading import Table
from atlas_splines.tables.wording import counted

__all__ = ["Score", "has_answer"]


@dataclass
class Score:
    """Error over rows that are seen in pieces, in the units of the target.

    A model that must not extrapolate says nothing of rows outside its domain: they are only counted.
    """

    rows: int = 0
    outside: int = 0
    absolute: float = 0.0
    squared: float = 0.0
    right: int = 0
    of_classes: bool = False

    def add(self, estimator: Estimator, X: Table, y: Labels) -> Score:
        """Take in the predictions for one piece."""
        inside = has_answer(estimator, X)
        self.outside += int((~inside).sum())
        X, y = X.filter(inside), y[inside]
        if not len(y):
            return self
        predicted = estimator.predict(X)
        self.rows += len(y)
        self.of_classes = isinstance(estimator, AtlasClassifier)
        if self.of_classes:
            self.right += int((predicted == y).sum())
        else:
            self.absolute += float(np.abs(predicted - y).sum())
            self.squared += float(((predicted - y) ** 2).sum())
        return self

    def __add__(self, other: Score) -> Score:
        return Score(
            self.rows + other.rows,
            self.outside + other.outside,
            self.absolute + other.absolute,
            self.squared + other.squared,
            self.right + other.right,
            self.of_classes or other.of_classes,
        )

    @property
    def badness(self) -> float:
        """The smaller, the better."""
        return -self.right / self.rows if self.of_classes else self.squared / self.rows

    @property
    def facts(self) -> dict[str, float]:
        """Rows and errors by name; no errors if the model says nothing of any row."""
        if not self.rows:
            return {"rows": 0}
        if self.of_classes:
            return {"rows": self.rows, "accuracy": self.right / self.rows}
        return {
            "rows": self.rows,
            "mae": self.absolute / self.rows,
            "rmse": (self.squared / self.rows) ** 0.5,
        }

    def __str__(self) -> str:
        if not self.rows:
            return "unknown: outside the domain"
        where = f" on the {counted(self.rows, 'row')} inside the domain" if self.outside else ""
        if self.of_classes:
            return f"{self.right / self.rows:.2%} right{where}"
        rmse = (self.squared / self.rows) ** 0.5
        return f"MAE {self.absolute / self.rows:.4g}, RMSE {rmse:.4g}{where}"


def has_answer(estimator: Estimator, X: Table) -> NDArray[np.bool_]:
    """Which rows the model has a prediction for, shape (rows,)."""
    if estimator.extrapolation != "error" or not X.num_rows:
        return np.ones(X.num_rows, np.bool_)
    return estimator.in_domain(X)
