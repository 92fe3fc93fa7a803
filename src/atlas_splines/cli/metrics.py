"""How well a model does, in the units of the target."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.files import Estimator
from atlas_splines.cli.rows import Labels
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.wording import counted

__all__ = ["Score", "has_answer"]

LEAST_CHANCE = 1e-15  # of a class that came: its logarithm is finite


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
    surprise: float = 0.0  # sum of −log p of the classes that came
    of_classes: bool = False
    mean: float = 0.0  # of the targets
    about_mean: float = 0.0  # squares of the targets about their mean
    classes: Counter[Any] = field(default_factory=Counter)

    def add(self, estimator: Estimator, X: EncodedRows, y: Labels) -> Score:
        """Take in the predictions for one piece."""
        inside = has_answer(estimator, X)
        self.outside += int((~inside).sum())
        X, y = X[inside], y[inside]
        if not len(y):
            return self
        if isinstance(estimator, AtlasClassifier):
            self._add_classes(estimator, X, y)
        else:
            self._add_numbers(estimator.predict(X), y)
        self.rows += len(y)
        return self

    def __add__(self, other: Score) -> Score:
        total, step = max(self.rows + other.rows, 1), other.mean - self.mean
        return Score(
            rows=self.rows + other.rows,
            outside=self.outside + other.outside,
            absolute=self.absolute + other.absolute,
            squared=self.squared + other.squared,
            right=self.right + other.right,
            surprise=self.surprise + other.surprise,
            of_classes=self.of_classes or other.of_classes,
            mean=self.mean + step * other.rows / total,
            about_mean=self.about_mean + other.about_mean + step**2 * self.rows * other.rows / total,
            classes=self.classes + other.classes,
        )

    def _add_numbers(self, predicted: NDArray[np.float64], y: Labels) -> None:
        self.absolute += float(np.abs(predicted - y).sum())
        self.squared += float(((predicted - y) ** 2).sum())
        step = float(y.mean()) - self.mean  # means and squares of parts, put together
        total = self.rows + len(y)
        self.about_mean += float(((y - y.mean()) ** 2).sum()) + step**2 * self.rows * len(y) / total
        self.mean += step * len(y) / total

    def _add_classes(self, estimator: AtlasClassifier, X: EncodedRows, y: Labels) -> None:
        self.of_classes = True
        chances = estimator.predict_proba(X)
        places = np.searchsorted(estimator.classes_, y)
        self.right += int((chances.argmax(axis=1) == places).sum())
        came = chances[np.arange(len(y)), places]
        self.surprise -= float(np.log(np.maximum(came, LEAST_CHANCE)).sum())
        self.classes.update(y.tolist())

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
            shares = np.array(list(self.classes.values())) / self.rows
            return {
                "rows": self.rows,
                "accuracy": self.right / self.rows,
                "log_loss": self.surprise / self.rows,
                "log_loss_of_frequencies": float((shares * np.log(1 / shares)).sum()),
            }
        return {
            "rows": self.rows,
            "mae": self.absolute / self.rows,
            "rmse": float((self.squared / self.rows) ** 0.5),
            "r2": 1 - self.squared / self.about_mean if self.about_mean else 0.0,
            "rmse_of_mean": float((self.about_mean / self.rows) ** 0.5),
        }

    def __str__(self) -> str:
        if not self.rows:
            return "unknown: outside the domain"
        where = f" on the {counted(self.rows, 'row')} inside the domain" if self.outside else ""
        found = self.facts
        if self.of_classes:
            alone = found["log_loss_of_frequencies"]
            text = f"{found['accuracy']:.2%} right, log loss {found['log_loss']:.4g}"
            return f"{text} (class frequencies alone {alone:.4g}){where}"
        text = f"MAE {found['mae']:.4g}, RMSE {found['rmse']:.4g}"
        if self.rows == 1:  # its mean is no opponent
            return f"{text}{where}"
        return f"{text} (R² {found['r2']:.4g}; the mean alone {found['rmse_of_mean']:.4g}){where}"


def has_answer(estimator: Estimator, X: EncodedRows) -> NDArray[np.bool_]:
    """Which rows the model has a prediction for, shape (rows,)."""
    if estimator.extrapolation != "error" or not len(X):
        return np.ones(len(X), np.bool_)
    return estimator.in_domain(X)
