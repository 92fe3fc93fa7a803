"""Models that learn from each row at once: a linear one and nearest neighbours, in plain NumPy.

Both take the inputs of a row and the target of the row learned last, which follows streams whose neighbouring
rows are alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.river.rules import STREAM_RULES, StreamRules

__all__ = ["SimpleModels"]

Array = NDArray[np.float64]
Column = tuple[str, Hashable, Hashable]  # its kind, its key, and the category or class it indicates


@dataclass(frozen=True, eq=False)
class SimpleModels:
    """What the simple models have learned: exponentially weighted moments, and a window of the latest rows.

    Columns are inputs (a number each, or an indicator of a category), indicators of the last target, and the
    target. They are appended as rows bring them. No array is changed in place, so that an earlier value is
    a snapshot.

    Examples
    --------
    >>> models = SimpleModels()
    >>> for a in range(20):
    ...     models = models.learned({"a": a}, {"y": 2.0 * a})
    >>> linear, near, recent = models.predict({"a": 20}, ["y"])[:, 0]
    >>> bool(abs(linear - 40) < 2 and abs(near - 36) < 3)
    True
    """

    rules: StreamRules = STREAM_RULES
    of_classes: bool = False
    columns: Mapping[Column, int] = field(default_factory=dict)
    last: Mapping[Hashable, float] = field(default_factory=dict)  # the target of the row learned last
    rows: int = 0
    count: float = 0.0  # of rows, decayed
    mean: Array = field(default_factory=lambda: np.zeros(0))
    scatter: Array = field(default_factory=lambda: np.zeros((0, 0)))
    window: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def learned(self, x: Mapping[Any, Any], targets: Mapping[Hashable, float]) -> SimpleModels:
        """The models after one more row, by an update of rank one of the moments.

        Parameters
        ----------
        x
            Values by name.
        targets
            The target by its name, or 1 by the class.
        """
        values = self._inputs(x) | self._targets("target", targets)
        wider = self._with_columns(values)
        row = wider._row(values, absent=wider.mean)
        count = self.rules.linear_decay * self.count + 1
        step = row - wider.mean
        return replace(
            wider,
            last=dict(targets),
            rows=self.rows + 1,
            count=count,
            mean=wider.mean + step / count,
            scatter=self.rules.linear_decay * wider.scatter + (1 - 1 / count) * np.outer(step, step),
            window=np.vstack([wider.window[-self.rules.window + 1 :], row]),
        )

    def predict(self, x: Mapping[Any, Any], names: list[Hashable]) -> Array:
        """Targets that each model predicts: linear, neighbours by last target, by age.

        Parameters
        ----------
        x
            Values by name.
        names
            Names of targets, or classes; those that no row had are 0.
        """
        predicted = np.zeros((3, len(names)))
        at = [self.columns.get(column, -1) for column in self._targets("target", dict.fromkeys(names, 0.0))]
        known = [k for k, j in enumerate(at) if j >= 0]
        if not known:
            return predicted
        targets = [at[k] for k in known]
        row = self._row(self._inputs(x), absent=self.mean)
        inputs = np.array([j for (kind, _, _), j in self.columns.items() if kind == "input"], dtype=int)
        given = np.array([j for (kind, _, _), j in self.columns.items() if kind != "target"], dtype=int)
        age = np.arange(len(self.window), dtype=np.float64)[::-1] * (
            self.rules.recency * len(inputs) / self.rows
        )
        predicted[0, known] = self._linear(row, given, targets)
        predicted[1, known] = self._neighbours(row, given, targets)
        predicted[2, known] = self._neighbours(row, inputs, targets, age)
        return predicted

    def _inputs(self, x: Mapping[Any, Any]) -> dict[Column, float]:
        """Inputs of a row and the last target by their columns; what is missing is left out."""
        found = dict(_column(key, x[key]) for key in sorted(x, key=str) if not _is_missing(x[key]))
        return found | self._targets("last", self.last)

    def _targets(self, kind: str, targets: Mapping[Hashable, float]) -> dict[Column, float]:
        """Targets by their columns, which are indicators of classes or numbers."""
        return {(kind, name, name if self.of_classes else None): value for name, value in targets.items()}

    def _with_columns(self, values: Mapping[Column, float]) -> SimpleModels:
        """The models with the columns of a row, as if earlier rows had had the number, but not the class."""
        places = self.rules.most_columns - len(self.columns)
        new = [column for column in values if column not in self.columns][: max(places, 0)]
        if not new:
            return self
        indicates = [category is not None for _, _, category in new]
        # a number was not there before: its first value adds no scatter, where 0 would
        filled = np.where(indicates, 0.0, [values[column] for column in new])
        more = len(new)
        width = len(self.columns)
        window = np.hstack([self.window, np.tile(filled, (len(self.window), 1))])
        return replace(
            self,
            columns={**self.columns, **{column: width + k for k, column in enumerate(new)}},
            mean=np.concatenate([self.mean, filled]),
            scatter=np.pad(self.scatter, (0, more)),
            window=window,
        )

    def _row(self, values: Mapping[Column, float], absent: Array) -> Array:
        """Values in the order of columns; a number that is missing is the mean, an indicator 0."""
        indicates = [category is not None for _, _, category in self.columns]
        row = np.where(np.array(indicates, dtype=bool), 0.0, absent)
        for column, value in values.items():
            if column in self.columns:
                row[self.columns[column]] = value
        return row

    def _deviations(self, at: NDArray[np.intp]) -> Array:
        """Standard deviations of columns, infinite for constant ones: these carry no information."""
        variances = np.diagonal(self.scatter)[at] / self.count
        varies = variances > (1e-9 * np.maximum(np.abs(self.mean[at]), 1e-150)) ** 2
        return np.where(varies, np.sqrt(np.maximum(variances, 0.0)), np.inf)

    def _linear(self, row: Array, at: NDArray[np.intp], targets: list[int]) -> Array:
        """Ridge regression on standardised inputs."""
        deviations = self._deviations(at)
        gram = self.scatter[np.ix_(at, at)] / np.outer(deviations, deviations)
        gram[np.diag_indices_from(gram)] += self.rules.ridge
        moments = self.scatter[at][:, targets] / deviations[:, None]
        limit = self.rules.limit
        place = np.clip((row[at] - self.mean[at]) / deviations, -limit, limit)
        return np.asarray(self.mean[targets] + place @ np.linalg.solve(gram, moments))

    def _neighbours(
        self, row: Array, at: NDArray[np.intp], targets: list[int], age: Array | float = 0.0
    ) -> Array:
        """Mean target of the nearest rows of the window, weighted by inverse distance."""
        distances = np.abs((self.window[:, at] - row[at]) / self._deviations(at)).sum(axis=1) + age
        nearest = np.argsort(distances, kind="stable")[: self.rules.neighbours]
        near = distances[nearest]
        weights = 1 / (near + 0.1 * near.mean() + 1e-3)
        return np.asarray(weights @ self.window[nearest][:, targets] / weights.sum())


def _column(key: Hashable, value: Any) -> tuple[Column, float]:
    """The column of a value, and its number there: a date is a time, what is no number is a category."""
    if isinstance(value, Number):
        return ("input", key, None), float(value)  # type: ignore[arg-type]
    if isinstance(value, datetime):
        start = datetime(1970, 1, 1, tzinfo=value.tzinfo)  # the zone of the machine must not matter
        return ("input", key, None), (value - start).total_seconds()
    if isinstance(value, date):
        return ("input", key, None), float(value.toordinal())
    return ("input", key, str(value)), 1.0


def _is_missing(value: Any) -> bool:
    """Whether a value is None, or a number that is not finite."""
    return value is None or (isinstance(value, Number) and not np.isfinite(float(value)))  # type: ignore[arg-type]
