"""Prediction with expert advice: simple online models, and their exponentially weighted average."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from numbers import Number
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "STREAM_RULES",
    "ExpertWeights",
    "Online",
    "OnlineClassification",
    "OnlineRegression",
    "SimpleModels",
    "StreamRules",
]


@dataclass(frozen=True)
class StreamRules:
    """Hyperparameters of online models, chosen by `progressive_val_score` of `benchmarks/river_streams.py`.

    They were chosen on ChickWeights, Phishing, and the first 3,000 rows of metro, kin8nm and elec2; the other
    streams of the benchmark validate them.

    Attributes
    ----------
    first_fit
        Rows of the first fit of the estimator; fits of fewer predict no better than the linear model.
    growth
        A batch is the rows so far over this number, up to the full batch: an update costs as much as about
        ten rows of simple models.
    window
        Latest rows among which neighbours are searched for.
    neighbours
        How many of them count; ten were as good.
    recency
        Distance that is added over the age of all rows so far, in standard deviations of each input: of
        elec2 0.90 of classes are right with it, 0.82 without.
    ridge
        Rows by which the linear model shrinks to the mean.
    linear_decay
        Forgetting factor of a row for the linear model.
    weight_decay
        Forgetting factor of a row for the losses of candidates: with 0.99 metro is 2 % worse and elec2 loses
        0.01 of its accuracy, with 0.9 kin8nm is 4 % worse.
    learning_rate
        How fast the weight of a candidate falls with its loss; 1 follows noise, 0.1 follows too slowly.
    level_rates
        Rates of exponential smoothing of the estimator's errors; 1 is the last error, which is best on metro
        and worst on kin8nm.
    floor
        What is added to each probability; 0.03 has a higher log loss.
    limit
        How far from the mean, in standard deviations, an input moves the linear model.
    most_columns
        Columns of the simple models, one for each number, category and class; later ones are left out, which
        bounds the time of a row.
    """

    first_fit: int = 20
    growth: int = 10
    window: int = 500
    neighbours: int = 5
    recency: float = 2.0
    ridge: float = 1.0
    linear_decay: float = 0.998
    weight_decay: float = 0.97
    learning_rate: float = 0.3
    level_rates: tuple[float, ...] = (0.3, 1.0)
    floor: float = 0.01
    limit: float = 10.0
    most_columns: int = 150


STREAM_RULES = StreamRules()


Array = NDArray[np.float64]
Column = tuple[str, Hashable, Hashable]  # its kind, its key, and the category or class it indicates


@dataclass(frozen=True, eq=False)
class SimpleModels:
    """State of the simple models: exponentially weighted moments, and a window of the latest rows.

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
        """The models after one more row, by a rank-one update of the moments.

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
        """Inputs of a row and the last target, by columns, without missing values."""
        found = dict(_column(key, x[key]) for key in sorted(x, key=str) if not _is_missing(x[key]))
        return found | self._targets("last", self.last)

    def _targets(self, kind: str, targets: Mapping[Hashable, float]) -> dict[Column, float]:
        """Targets by their columns, which are indicators of classes or numbers."""
        return {(kind, name, name if self.of_classes else None): value for name, value in targets.items()}

    def _with_columns(self, values: Mapping[Column, float]) -> SimpleModels:
        """The models with new columns of a row; earlier rows get its number, or 0 for an indicator."""
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
    """Column and number of a value: a date is a time stamp, any other non-number an indicator."""
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


@dataclass(frozen=True, eq=False)
class ExpertWeights:
    """Exponentially weighted average forecaster over candidates, with decayed prequential losses.

    The weight of a candidate falls exponentially with its loss, so that the sum is hardly worse than the best
    of them lately. One that joins later begins with the median of the average losses of the others.

    Attributes
    ----------
    losses, counts
        Decayed sums of the loss of each candidate, and of the rows it predicted.

    Examples
    --------
    >>> weights = ExpertWeights.of(3)
    >>> for _ in range(50):
    ...     weights = weights.learned(np.array([0.1, 0.4, np.nan]))
    >>> weights.shares(np.array([True, True, False]), weights.least_loss).round(2)
    array([1., 0., 0.])
    """

    losses: Array
    counts: Array
    rules: StreamRules = STREAM_RULES

    @classmethod
    def of(cls, candidates: int, rules: StreamRules = STREAM_RULES) -> ExpertWeights:
        """Weights of candidates without predictions."""
        return cls(np.zeros(candidates), np.zeros(candidates), rules)

    @property
    def least_loss(self) -> float:
        """Average loss of the best candidate, 1 if there is none, or if it made no error."""
        known = self.counts > 0
        least = float(np.min(self.losses[known] / self.counts[known])) if known.any() else 0.0
        return least if least > 0 else 1.0

    def learned(self, losses: Array) -> ExpertWeights:
        """The weights after one more row.

        Parameters
        ----------
        losses
            Loss of each candidate, NaN where it did not predict.
        """
        present, decay = np.isfinite(losses), self.rules.weight_decay
        before = self._joined(present)
        return replace(
            self,
            losses=np.where(present, decay * before.losses + np.nan_to_num(losses), before.losses),
            counts=np.where(present, decay * before.counts + 1, before.counts),
        )

    def shares(self, present: NDArray[np.bool_], scale: float) -> Array:
        """Weights of candidates, with sum 1.

        Parameters
        ----------
        present
            Which candidates predict.
        scale
            Loss that is one unit: 1 for log losses, the least average loss for errors.
        """
        losses = self._joined(present).losses
        out_of_sample = losses - np.min(losses[present])
        raw = np.where(
            present, np.exp(-self.rules.learning_rate * np.maximum(out_of_sample, 0.0) / scale), 0.0
        )
        return np.asarray(raw / raw.sum())

    def _joined(self, present: NDArray[np.bool_]) -> ExpertWeights:
        """The weights with candidates that predict for the first time at the median of the others."""
        new, known = present & (self.counts == 0), self.counts > 0
        if not (new.any() and known.any()):
            return self
        rows = self.counts[known].max()
        average = float(np.median(self.losses[known] / self.counts[known]))
        return replace(
            self, losses=np.where(new, average * rows, self.losses), counts=np.where(new, rows, self.counts)
        )


TARGET = "y"  # the one target of a regression


class Online(Protocol):
    """Interface of online models, which learn from one row at a time."""

    def predict(self, x: Mapping[Any, Any], estimate: Any) -> Any:
        """Predict a row, given what the estimator predicts, or None."""

    def learned(self, x: Mapping[Any, Any], y: Any, estimate: Any) -> Any:
        """The model after one more row."""


@dataclass(frozen=True, eq=False)
class OnlineRegression:
    """A weighted sum of the simple models, the estimator, and the estimator plus the level of its errors.

    Examples
    --------
    >>> online = OnlineRegression.start()
    >>> for a in range(30):
    ...     online = online.learned({"a": a % 5}, 10.0 + a % 5, estimate=0.0)
    >>> round(online.predict({"a": 3}, estimate=0.0))
    13
    """

    models: SimpleModels
    weights: ExpertWeights
    levels: Array  # of the errors of the estimator, one for each rate

    @classmethod
    def start(cls, rules: StreamRules = STREAM_RULES) -> OnlineRegression:
        """Nothing was learned yet."""
        levels = np.zeros(len(rules.level_rates))
        return cls(SimpleModels(rules), ExpertWeights.of(4 + len(levels), rules), levels)

    def predict(self, x: Mapping[Any, Any], estimate: float | None) -> float:
        """Weighted sum of the candidates' predictions; 0 before any row."""
        candidates = self._candidates(x, estimate)
        present = np.isfinite(candidates)
        shares = self.weights.shares(present, self.weights.least_loss)
        return float(shares[present] @ candidates[present])

    def learned(self, x: Mapping[Any, Any], y: float, estimate: float | None) -> OnlineRegression:
        """The model after one more row, on which the loss of each candidate was measured before."""
        levels = self.levels
        if estimate is not None:
            rates = np.array(self.models.rules.level_rates)
            levels = levels + rates * (y - estimate - levels)
        # before the first row candidates are untrained, and their losses mean nothing
        errors = np.abs(self._candidates(x, estimate) - y) if self.models.rows else None
        weights = self.weights if errors is None else self.weights.learned(errors)
        return replace(self, models=self.models.learned(x, {TARGET: y}), weights=weights, levels=levels)

    def _candidates(self, x: Mapping[Any, Any], estimate: float | None) -> Array:
        """Prediction of each candidate, NaN for those of an estimator that is not fitted."""
        fitted = np.nan if estimate is None else estimate
        return np.concatenate([self.models.predict(x, [TARGET])[:, 0], [fitted], fitted + self.levels])


@dataclass(frozen=True, eq=False)
class OnlineClassification:
    """A weighted product of the probabilities of the simple models and of the estimator.

    Examples
    --------
    >>> online = OnlineClassification.start()
    >>> for a in range(30):
    ...     online = online.learned({"a": a % 5}, "high" if a % 5 > 2 else "low", estimate=None)
    >>> shares = online.predict({"a": 4}, estimate=None)
    >>> max(shares, key=shares.get)
    'high'
    """

    models: SimpleModels
    weights: ExpertWeights
    classes: tuple[Hashable, ...]  # in the order of their first rows

    @classmethod
    def start(cls, rules: StreamRules = STREAM_RULES) -> OnlineClassification:
        """Nothing was learned yet."""
        return cls(SimpleModels(rules, of_classes=True), ExpertWeights.of(4, rules), ())

    def predict(self, x: Mapping[Any, Any], estimate: Mapping[Any, float] | None) -> dict[Any, float]:
        """Probability of each class so far; none before any row."""
        if not self.classes:
            return {}
        shares = self._shares(self._logarithms(x, estimate))
        return dict(zip(self.classes, shares.tolist(), strict=True))

    def learned(
        self, x: Mapping[Any, Any], y: Hashable, estimate: Mapping[Any, float] | None
    ) -> OnlineClassification:
        """The model after one more row, on which the loss of each candidate was measured before."""
        models = self.models.learned(x, {y: 1.0})
        if y not in self.classes:  # no candidate can predict a class that was never there
            return replace(self, models=models, classes=(*self.classes, y))
        losses = -self._logarithms(x, estimate)[:, self.classes.index(y)]
        return replace(self, models=models, weights=self.weights.learned(losses))

    def _shares(self, logarithms: Array) -> Array:
        """Probabilities whose logarithms are a weighted sum of those of candidates."""
        present = np.isfinite(logarithms[:, 0])
        pooled = self.weights.shares(present, 1.0)[present] @ logarithms[present]
        raw = np.exp(pooled - pooled.max())
        return np.asarray(raw / raw.sum())

    def _logarithms(self, x: Mapping[Any, Any], estimate: Mapping[Any, float] | None) -> Array:
        """Logarithms of probabilities with a floor, a row for each candidate; NaN if it is not fitted."""
        fitted = [np.nan if estimate is None else estimate.get(label, 0.0) for label in self.classes]
        raw = np.vstack([self.models.predict(x, list(self.classes)), fitted])
        floored = np.maximum(raw, 0.0) + self.models.rules.floor
        return np.asarray(np.log(floored / floored.sum(axis=1, keepdims=True)))
