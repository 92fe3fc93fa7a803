"""Rows: validated training data as one immutable value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.lattice import Domain
from atlas_splines.model.losses import find_loss

__all__ = ["Rows"]

Array = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Rows:
    """Points, targets and weights; with an offset, the loss is that of model + offset."""

    points: Array  # (rows, inputs)
    targets: Array  # (rows, outputs)
    weights: Array  # (rows,)
    offset: Array | None = None  # (rows, outputs)

    def __len__(self) -> int:
        return int(self.weights.size)

    def loss(self, model: Atlas, name: str) -> float:
        """Mean loss of a model on the rows."""
        outputs = evaluate(state_of(model), self.points)
        outputs = outputs if self.offset is None else outputs + self.offset
        return find_loss(name)(outputs, self.targets, self.weights)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        """A subset of the rows, by a mask or by indices."""
        offset = None if self.offset is None else self.offset[rows]
        return Rows(self.points[rows], self.targets[rows], self.weights[rows], offset)

    def inside(self, domain: Domain) -> Rows:
        """The rows with points projected onto a domain."""
        points = self.points.clip(*domain.T.astype(self.points.dtype))
        return Rows(points, self.targets, self.weights, self.offset)

    def join(self, other: Rows) -> Rows:
        """The concatenation with other rows, neither with an offset."""
        return Rows(
            np.vstack([self.points, other.points]),
            np.vstack([self.targets, other.targets]),
            np.concatenate([self.weights, other.weights]),
        )

    def repeated(self, least: int) -> Rows:
        """The rows, repeated until there are at least so many: an epoch has a fixed cost in time.

        Examples
        --------
        >>> len(Rows(np.ones((4, 1)), np.ones((4, 1)), np.ones(4)).repeated(10))
        12
        """
        return self.take(np.tile(np.arange(len(self)), -(-least // len(self))))
