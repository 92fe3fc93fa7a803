"""Rows that come one by one, for an estimator that learns in batches."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.checks import check_size
from atlas_splines.core.records import UpdateWarning
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.memory.refusal import UpdateRefused
from atlas_splines.river.online import Online
from atlas_splines.river.rules import STREAM_RULES, StreamRules
from atlas_splines.tables.frames import frame_of_rows

__all__ = ["Batches"]

Row = Mapping[Any, Any]
Estimator = TypeVar("Estimator", AtlasRegressor, AtlasClassifier)


class Batches(ABC, Generic[Estimator]):
    """What the models for river share: simple models learn each row, the estimator a batch at a time.

    The first rows are kept for a while, and each time that there are twice as many the estimator is fitted
    anew: few rows do not tell how large a model must be. Between fits it learns batches that grow with the
    rows, up to full ones. Then none are kept, but those of the next batch and the window of the simple
    models. A batch that is refused is left out, by the simple models too.
    """

    estimator: Estimator | None
    batch: int
    warm_up: int
    accept: bool
    _rules: StreamRules = STREAM_RULES

    def _start(self) -> None:
        """Have learned nothing yet."""
        check_size("batch", self.batch, least=1)
        check_size("warm_up", self.warm_up, least=1)
        self._waiting: list[tuple[Row, Any]] = []  # rows and targets that the estimator has not learned yet
        self._kept: list[tuple[Row, Any]] | None = []  # all others, as long as the estimator is fitted anew
        self._rows = 0  # that the estimator was offered
        self._fit_at = min(self._rules.first_fit, max(self.warm_up, self.batch))  # rows of the next fit
        self._model: Estimator | None = None
        self._online = self._new_online()
        self._online_before = self._online  # at the beginning of the batch

    @abstractmethod
    def _new_online(self) -> Online:
        """What is learned from each row, before any."""

    @abstractmethod
    def _new_estimator(self) -> Estimator:
        """An estimator at its defaults."""

    @abstractmethod
    def _fitted(self, estimator: Estimator, X: Any, y: NDArray[Any]) -> Estimator | None:
        """The estimator fitted to the first rows, or None if they are too few."""

    @abstractmethod
    def _updated(self, estimator: Estimator, X: Any, y: NDArray[Any], accept: bool) -> Estimator:
        """The estimator with more rows learned, or `UpdateRefused`."""

    @abstractmethod
    def _estimate(self, x: Row) -> Any:
        """Prediction of the estimator for a row, or None if it is not fitted."""

    def _collect(self, x: Row, y: Any) -> None:
        """Learn one row, and a batch if it is full."""
        self._online = self._online.learned(x, y, self._estimate(x))
        self._waiting.append((dict(x), y))
        if len(self._waiting) >= self._next_batch():
            rows, self._waiting = self._waiting, []
            try:
                self._learn(rows)
            except UpdateRefused:
                self._online = self._online_before
                raise
            finally:
                self._online_before = self._online

    def _next_batch(self) -> int:
        """Rows of the next batch; it ends where a fit is due."""
        if self._kept is None:
            return self.batch
        step = min(self.batch, max(1, self._rows // self._rules.growth))
        due = max(self._fit_at - len(self._kept), 1)
        return due if self._model is None else min(step, due)

    def _learn(self, rows: list[tuple[Row, Any]]) -> None:
        """Learn a batch: by a fit to all rows that are kept if it is time for that, or by an update."""
        self._rows += len(rows)
        kept = None if self._kept is None else (self._kept + rows)[-max(self.warm_up, self.batch) :]
        if kept is not None and (self._model is None or len(kept) >= self._fit_at):
            self._kept = kept
            self._try_to_fit(kept)
            self._fit_at = min(2 * len(kept), max(self.warm_up, self.batch))
            if len(kept) >= self.warm_up and self._model is not None:
                self._kept = None
        elif self._model is not None:
            self._update(self._model, rows)
            self._kept = kept

    def _update(self, model: Estimator, rows: list[tuple[Row, Any]]) -> None:
        """Learn a batch by an update; only full ones tell whether they are faulty, weights guard before."""
        is_full = len(rows) >= self.batch
        with warnings.catch_warnings():
            if not is_full:
                warnings.simplefilter("ignore", UpdateWarning)
            self._model = self._updated(
                model, self._table(rows), targets_of(rows), self.accept or not is_full
            )

    def _try_to_fit(self, rows: Sequence[tuple[Row, Any]]) -> None:
        """Fit anew. Fewer rows than a batch may be too few for a fit, which then waits for twice as many."""
        try:
            self._fit(rows)
        except ValueError:
            if len(rows) >= self.batch:
                raise
            self._model = None

    def _fit(self, rows: Sequence[tuple[Row, Any]]) -> None:
        """Fit anew; all keys of the rows are columns, in an order that does not depend on that of rows."""
        self._keys = sorted({key for x, _ in rows for key in x}, key=str)
        values = [x.get(key) for x, _ in rows for key in self._keys]
        self._of_numbers = all(value is None or isinstance(value, Number) for value in values)
        fresh = self._new_estimator() if self.estimator is None else copy.deepcopy(self.estimator)
        self._model = self._fitted(fresh, self._table(rows), targets_of(rows))

    def _table(self, rows: Sequence[tuple[Row, Any]]) -> Any:
        """Rows as an array if they are numbers, which is quick, or else as a frame."""
        if not self._of_numbers:
            return frame_of_rows([x for x, _ in rows], self._keys)
        return np.array([[as_number(x, key) for key in self._keys] for x, _ in rows])

    def _inputs(self, x: Row) -> Any:
        """One row as inputs of the estimator."""
        return self._table([(x, None)])


def targets_of(rows: Sequence[tuple[Row, Any]]) -> NDArray[Any]:
    """Targets of rows."""
    return np.array([y for _, y in rows])


def as_number(x: Row, key: Any) -> float:
    """A value of a row, NaN if it is missing.

    Examples
    --------
    >>> as_number({"a": 3}, "a"), as_number({"a": 3}, "b")
    (3.0, nan)
    """
    value = x.get(key)
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{key!r} is {value!r}, and was a number so far; correct it") from None
