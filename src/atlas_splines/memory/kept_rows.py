"""Kept rows: data that a model stores, and its distinct points with replicates merged.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model import kernels
from atlas_splines.model.immutable import Recomputing

__all__ = ["Distinct", "HeldRows", "NewestRows"]

Array = NDArray[np.float64]

# Effective number of distinct targets (inverse Simpson index: the probability that two rows agree) from which
# on two rows with the same inputs and the same target are taken to be copies and not a coincidence.
CONTINUOUS = 100

NEARLY = 2e-5  # relative difference of weights that may be rounding: a fit keeps five digits


@dataclass(frozen=True, eq=False)
class HeldRows(Recomputing):
    """Rows that a model keeps, in time order.

    Attributes
    ----------
    points, targets, weights
        Shapes (rows, inputs), (rows, outputs) and (rows,), in float32; no weight is zero.
    updates
        Update that each row came with, 0 for the fit: shape (rows,).
    """

    points: NDArray[np.float32]
    targets: NDArray[np.float32]
    weights: NDArray[np.float32]
    updates: NDArray[np.int32]

    @classmethod
    def of(cls, points: NDArray[np.floating], targets: Array, weights: Array, update: int = 0) -> HeldRows:
        """Rows of one update, moved to the nearest points of the unit cube."""
        inside = np.ascontiguousarray(points.clip(0, 1), np.float32)
        own = np.full(len(inside), update, np.int32)
        return cls(inside, targets.astype(np.float32), weights.astype(np.float32), own)

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> HeldRows:
        """Some of the rows."""
        return HeldRows(self.points[rows], self.targets[rows], self.weights[rows], self.updates[rows])

    def joined(self, other: HeldRows) -> HeldRows:
        """These rows followed by others."""
        return HeldRows(
            np.vstack([self.points, other.points]),
            np.vstack([self.targets, other.targets]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.updates, other.updates]),
        )

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """Hash of each row, weight included, shape (rows,)."""
        return _hashes(self.points, self.targets, self.weights[:, None])

    def find(self, other: HeldRows) -> NDArray[np.intp]:
        """Number of an equal row for each of some others, −1 where none is left; the latest of several first.

        Weights of a fit were rounded in another unit, and may differ by that rounding.
        """
        found = _pairs(self.hashes, other.hashes)
        left = np.flatnonzero(found < 0)
        if len(left):
            free = np.setdiff1d(np.arange(len(self)), found)
            hashes = (_hashes(rows.points, rows.targets) for rows in (self.take(free), other.take(left)))
            pairs = _pairs(*hashes)
            same = np.isclose(np.append(self.weights[free], 0)[pairs], other.weights[left], rtol=NEARLY)
            found[left] = np.where(same & (pairs >= 0), np.append(free, -1)[pairs], -1)
        return found

    def without(self, other: HeldRows) -> HeldRows:
        """These rows without others, each of which removes at most one equal row, the latest first."""
        found, stays = self.find(other), np.ones(len(self), np.bool_)
        stays[found[found >= 0]] = False
        return self.take(stays)

    def in_order(self) -> HeldRows:
        """These rows sorted by update; rows of one update keep their order."""
        return self.take(np.argsort(self.updates, kind="stable"))


@dataclass(frozen=True, eq=False)
class NewestRows:
    """The newest rows of a table, a bounded number, in its order; pieces may be added in any order.

    Attributes
    ----------
    rows
        The rows.
    numbers
        Their row numbers in the table, increasing: shape (rows,).
    most
        Largest number of rows.

    Examples
    --------
    >>> first, second = (HeldRows.of(np.full((2, 1), k), np.full((2, 1), k), np.ones(2)) for k in (0.1, 0.2))
    >>> late = NewestRows(second, np.array([3, 4]), 3)
    >>> (late + NewestRows(first, np.array([1, 2]), 3)).numbers
    array([2, 3, 4])
    """

    rows: HeldRows
    numbers: NDArray[np.int64]
    most: int

    @classmethod
    def none(cls, inputs: int, outputs: int, most: int) -> NewestRows:
        """No rows yet."""
        rows = HeldRows.of(np.empty((0, inputs)), np.empty((0, outputs)), np.empty(0))
        return cls(rows, np.empty(0, np.int64), most)

    def __add__(self, other: NewestRows) -> NewestRows:
        numbers = np.concatenate([self.numbers, other.numbers])
        order = np.argsort(numbers)[max(len(numbers) - self.most, 0) :]
        return NewestRows(self.rows.joined(other.rows).take(order), numbers[order], self.most)


@dataclass(frozen=True, eq=False)
class Distinct:
    """Distinct points of rows: replicates at one point are merged into their mean, with the sum of weights.

    Merging changes no prediction of a Gaussian process, (48), and the contribution of a row, or of a row and
    its copies, to the prediction at its own point can be removed without solving again, (50). The order of
    the points depends on the rows alone, not on their order.

    Attributes
    ----------
    points, weights
        Shapes (points, inputs) and (points,).
    place, order
        Point of each row, and the rows in the order of points: shape (rows,).
    row_weights
        Shape (rows,).
    copies
        Weight of the rows that are left out together with each: its own, and those of rows with equal inputs
        and equal target where targets are continuous. Shape (rows,).
    """

    points: NDArray[np.float32]
    weights: Array
    place: NDArray[np.intp]
    order: NDArray[np.intp]
    row_weights: Array
    copies: Array

    @classmethod
    def of(cls, rows: HeldRows) -> Distinct:
        """Merge rows."""
        hashes, weights = _hashes(rows.points), rows.weights.astype(np.float64)
        order = np.lexsort([rows.hashes, hashes])
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = hashes[order[1:]] != hashes[order[:-1]]
        place = np.empty(len(order), np.intp)
        place[order] = np.cumsum(is_first) - 1
        total: Array = np.bincount(place[order], weights[order]).astype(np.float64)
        copies = weights
        if _are_continuous(rows.targets):
            _, same = np.unique(_hashes(rows.points, rows.targets), return_inverse=True)
            copies = np.bincount(same[order], weights[order]).astype(np.float64)[same]
        return cls(rows.points[order[is_first]], total, place, order, weights, copies)

    def joined(self, other: Distinct) -> Distinct:
        """These points followed by those of further rows, which are not merged with these."""
        points, rows = len(self.points), len(self.place)
        return Distinct(
            np.vstack([self.points, other.points]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.place, points + other.place]),
            np.concatenate([self.order, rows + other.order]),
            np.concatenate([self.row_weights, other.row_weights]),
            np.concatenate([self.copies, other.copies]),
        )

    def only(self, points: NDArray[np.bool_]) -> tuple[Distinct, NDArray[np.intp]]:
        """Some of the points, with the numbers of their rows."""
        rows, place = np.flatnonzero(points[self.place]), np.cumsum(points) - 1
        number = np.cumsum(points[self.place]) - 1  # of each row among those selected
        order = number[self.order[points[self.place[self.order]]]]
        own = place[self.place[rows]], order, self.row_weights[rows], self.copies[rows]
        return Distinct(self.points[points], self.weights[points], *own), rows

    def merged(self, targets: Array) -> Array:
        """Mean target of each point, shape (points, outputs), from targets of rows."""
        place, order = self.place[self.order], self.order
        sums = [np.bincount(place, (self.row_weights * column)[order]) for column in targets.T]
        return np.stack(sums, axis=1) / self.weights[:, None]

    def scatter(self, targets: Array) -> tuple[Array, Array]:
        """Sum of squares of targets within each point, and its degrees of freedom: shape (points,) each.

        A row and its copies are one observation: their agreement is no evidence of small noise.
        """
        left = self.row_weights * ((targets - self.merged(targets)[self.place]) ** 2).sum(axis=1)
        place, order = self.place[self.order], self.order
        different = np.bincount(place, (self.row_weights / self.copies)[order])
        return np.asarray(np.bincount(place, left[order]), np.float64), targets.shape[1] * (different - 1)

    def leave_out(self, targets: Array, rest: Array, variances: Array, noise: float) -> Array:
        """Prediction for each row without itself and its copies, (50): shape (rows, outputs).

        Parameters
        ----------
        targets
            Targets of the rows, shape (rows, outputs).
        rest, variances
            Prediction for each point from all other points, and its variance: shapes (points, outputs) and
            (points,).
        noise
            Noise variance of a row of weight 1, in the same unit.
        """
        others = np.maximum(
            self.weights[self.place] - self.copies, 0
        )  # weight of the other rows at its point
        sums = (self.weights[:, None] * self.merged(targets))[self.place] - self.copies[:, None] * targets
        sums[others < 1e-6 * self.copies] = 0
        known = variances[self.place][:, None]
        return (noise * rest[self.place] + known * sums) / (noise + known * others[:, None])


def _pairs(own: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Number of an equal hash for each wanted one, −1 where none is left; the last of several first."""
    order, by_hash = np.lexsort([np.arange(len(own))[::-1], own]), np.argsort(wanted, kind="stable")
    known, due = own[order], wanted[by_hash]
    # the k-th of equal wanted hashes gets the k-th of the known ones
    place = np.searchsorted(known, due) + np.arange(len(due)) - np.searchsorted(due, due)
    is_there = place < len(known)
    is_there[is_there] = known[place[is_there]] == due[is_there]
    found = np.full(len(wanted), -1)
    found[by_hash[is_there]] = order[place[is_there]]
    return found


def _are_continuous(targets: NDArray[np.float32]) -> bool:
    """Whether two rows rarely have the same target by coincidence."""
    _, counts = np.unique(_hashes(targets), return_counts=True)
    return float((counts / counts.sum()) @ (counts / counts.sum())) < 1 / CONTINUOUS


def _hashes(*tables: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Hash of each row of adjacent tables, shape (rows,)."""
    found = np.zeros(len(tables[0]), np.uint64)
    for table in tables:
        kernels.mix_rows(found, table)
    return found
