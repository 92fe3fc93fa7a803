"""The track of candidates: how well each predicted, and how far it is trusted for that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.evidence.readout import LEAST_NOISE

__all__ = ["Track"]

Array = NDArray[np.float64]

SMOOTHING = 500.0  # rows after which an error ahead counts half
ROWS_A_COMPARISON = 150  # neighbouring rows have errors that are alike: so many count as one
MOST_COMPARISONS = 30
LEAST_SHARE = 0.01  # in the mixture; what would have less is left out, so that the model stays small


@dataclass(frozen=True, eq=False)
class Track:
    """How well each candidate predicted rows that it had not learned yet.

    Attributes
    ----------
    errors
        Mean squared error of the exact memory, of the fading ones and of the first model, if it is kept; the
        latest rows count most.
    rows
        Rows that they come from.
    """

    errors: Array  # (candidates,)
    rows: float = 0.0

    def after(self, errors: Array, rows: float) -> Track:
        """The track with the errors on some more rows."""
        keep = 0.5 ** (rows / SMOOTHING) if self.rows else 0.0
        old = keep * self.errors if keep else 0.0  # whose errors can be infinite
        return Track(old + (1 - keep) * errors, self.rows + rows)

    def shares(self, preference: Array) -> Array:
        """Share of each candidate in the mixture; those that are as good as each other share as preferred.

        Examples
        --------
        >>> Track(np.array([1.0, 1.0, 2.0]), rows=3000).shares(np.array([1, 0.1, 0.1])).round(2)
        array([0.91, 0.09, 0.  ])
        """
        comparisons = min(self.rows / ROWS_A_COMPARISON, MOST_COMPARISONS)
        shares = preference * np.exp(-comparisons * (self.errors / max(self.errors.min(), LEAST_NOISE) - 1))
        shares /= shares.sum()
        shares[shares < LEAST_SHARE] = 0
        return shares / shares.sum()
