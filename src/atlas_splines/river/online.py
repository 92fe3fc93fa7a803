"""Candidates that predict a row before they learn it, and their weighted sum: of targets, and of classes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from atlas_splines.river.expert_weights import ExpertWeights
from atlas_splines.river.rules import STREAM_RULES, StreamRules
from atlas_splines.river.simple_models import SimpleModels

__all__ = ["Online", "OnlineClassification", "OnlineRegression"]

Array = NDArray[np.float64]
TARGET = "y"  # the one target of a regression


class Online(Protocol):
    """What is learned from each row at once."""

    def predict(self, x: Mapping[Any, Any], estimate: Any) -> Any:
        """Predict a row, given what the estimator predicts, or None."""

    def learned(self, x: Mapping[Any, Any], y: Any, estimate: Any) -> Any:
        """The same after one more row."""


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
        """Weighted sum of what the candidates predict; 0 before any row."""
        candidates = self._candidates(x, estimate)
        present = np.isfinite(candidates)
        shares = self.weights.shares(present, self.weights.least_loss)
        return float(shares[present] @ candidates[present])

    def learned(self, x: Mapping[Any, Any], y: float, estimate: float | None) -> OnlineRegression:
        """The same after one more row, of which each candidate was judged first."""
        levels = self.levels
        if estimate is not None:
            rates = np.array(self.models.rules.level_rates)
            levels = levels + rates * (y - estimate - levels)
        # before the first row nothing was known, and no candidate is to blame
        errors = np.abs(self._candidates(x, estimate) - y) if self.models.rows else None
        weights = self.weights if errors is None else self.weights.learned(errors)
        return replace(self, models=self.models.learned(x, {TARGET: y}), weights=weights, levels=levels)

    def _candidates(self, x: Mapping[Any, Any], estimate: float | None) -> Array:
        """What each candidate predicts, NaN for those of an estimator that is not fitted."""
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
        """The same after one more row, of which each candidate was judged first."""
        models = self.models.learned(x, {y: 1.0})
        if y not in self.classes:  # no candidate can know a class that was never there
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
