"""How much each candidate counts: an exponentially weighted average forecaster."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.river.rules import STREAM_RULES, StreamRules

__all__ = ["ExpertWeights"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExpertWeights:
    """Prequential losses of candidates, decayed, and the weights that follow from them.

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
        """Weights of candidates that have predicted nothing yet."""
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
        ahead = losses - np.min(losses[present])
        raw = np.where(present, np.exp(-self.rules.learning_rate * np.maximum(ahead, 0.0) / scale), 0.0)
        return np.asarray(raw / raw.sum())

    def _joined(self, present: NDArray[np.bool_]) -> ExpertWeights:
        """With candidates that predict for the first time at the median of the others."""
        new, known = present & (self.counts == 0), self.counts > 0
        if not (new.any() and known.any()):
            return self
        rows = self.counts[known].max()
        average = float(np.median(self.losses[known] / self.counts[known]))
        return replace(
            self, losses=np.where(new, average * rows, self.losses), counts=np.where(new, rows, self.counts)
        )
