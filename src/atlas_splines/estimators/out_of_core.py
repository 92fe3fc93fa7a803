"""Sums of rows for an estimator, made where the rows are: by another process, or on another machine."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.memory.kept_rows import NewestRows
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.resize import extended
from atlas_splines.updates.log import Hashes, RowDigest
from atlas_splines.updates.partial_sums import RowSums, Summer

__all__ = ["RowsToSum", "SummedRows"]

Array = NDArray[Any]

ROWS_AT_ONCE = 65_536  # that are held more than once; a multiple of what is summed together


@dataclass(frozen=True, eq=False)
class SummedRows:
    """What comes of rows where they are: sums, hashes for the digest of an update, and rows to be kept."""

    sums: RowSums
    hashes: Hashes
    newest: NewestRows

    @property
    def without_hashes(self) -> SummedRows:
        """The same without hashes, of which there is one for each row."""
        return replace(self, hashes=self.hashes[:0])

    def __add__(self, other: SummedRows) -> SummedRows:
        hashes = np.sort(np.concatenate([self.hashes, other.hashes]))
        return SummedRows(self.sums + other.sums, hashes, self.newest + other.newest)


class RowsToSum:
    """What is needed to sum rows: checks and map of an estimator, and the features of its model.

    Parameters
    ----------
    estimator
        A fitted estimator.
    confined
        Whether rows outside the domain are refused.
    hashed
        Whether the hashes of rows are wanted too.
    """

    def __init__(self, estimator: AtlasEstimator, confined: bool = False, hashed: bool = False) -> None:
        self.estimator, self.confined, self.hashed = copy.copy(estimator), confined, hashed
        self.summer = Summer(state_of(estimator.model_))
        self.estimator.model_, self.estimator.ledger_ = bare(estimator.model_), None

    def __call__(
        self, X: Any, y: Any, weights: Any = None, numbers: NDArray[np.int64] | None = None
    ) -> SummedRows:
        """Sums of rows, some of them at a time; of those with numbers, which have no weights, the newest."""
        total, digest, newest = RowSums({}, {}), RowDigest(), self.summer.no_rows
        targets, counted = np.asarray(y), None if weights is None else np.asarray(weights)
        for begin in range(0, len(targets), ROWS_AT_ONCE):
            rows = slice(begin, begin + ROWS_AT_ONCE)
            checked = self._checked(
                rows_of(X, rows), targets[rows], None if counted is None else counted[rows]
            )
            encoded = self.estimator._rows(*checked)
            total += self.summer(encoded)
            newest += self.summer.newest(encoded, None if numbers is None else numbers[rows])
            if self.hashed:
                digest.add(*checked)
        return SummedRows(total, digest.hashes, newest)

    def _checked(self, X: Any, y: Array, weights: Array | None) -> tuple[Array, Array, Array]:
        checked: tuple[Array, Array, Array] = self.estimator._checked(X, y, weights)
        if self.confined and not self.estimator._inside(checked[0]).all():
            raise ValueError("some rows of X lie outside the domain that was given; widen it")
        return checked


def rows_of(X: Any, rows: slice) -> Any:
    """Some rows of an array, of a data frame, or of a table of Arrow."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.slice(rows.start, rows.stop - rows.start) if hasattr(X, "slice") else X[rows]


def bare(model: Atlas) -> Atlas:
    """A model of the same domain that has learned nothing."""
    small = Atlas(model.inputs, model.outputs, terms=0, density=0, dtype=model.dtype.name)
    return model_in(extended(state_of(small), *model.domain.T))
