"""Presence: where rows have been, as counts along each input and over pairs of inputs.

Bumps vanish far from their centres, and with them the posterior's doubt: a small leverage alone does not tell
that rows were near. Counts do, and they add up. The measure is what known rows have. Equation numbers refer
to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_PAIRED", "QUANTILES", "CellCounts", "DataDensity", "cells_of"]

Array = NDArray[np.float64]

ROWS_A_STRIPE, LEAST_CELLS, MOST_CELLS = 20, 16, 128  # cells of an input, by the rows of the fit
MOST_PAIRED = 8  # inputs of which pairs are counted: those along which data varies fastest
VARIED = 8  # cells that an input has rows in, for its pairs to be counted first
ROWS_A_CELL = 10  # of a pair of inputs, if rows were even
LEAST_SIDE, MOST_SIDE = 4, 16  # cells of a side of a pair
GRAIN = 1024.0  # shares of a row are multiples of 1/1024: sums of them are exact
ENOUGH, ENOUGH_IN_PAIR = 5.0, 20.0  # rows near a point; more make nothing surer
HALF = 0.5  # a row that is added to what is there and to what is expected
QUANTILES = 33  # of what known rows have
USUAL = 0.3  # share of the known rows that have less than full support, in one view


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Counts of some rows.

    Attributes
    ----------
    alone
        Rows in each cell of each input, shape (inputs, cells).
    paired
        Rows around each corner of cells of pairs of inputs, shape (pairs, side + 2, side + 2); a row is
        shared by the four corners around it.
    """

    alone: Array
    paired: Array

    def __add__(self, other: CellCounts) -> CellCounts:
        return CellCounts(self.alone + other.alone, self.paired + other.paired)

    def without(self, other: CellCounts) -> CellCounts:
        """These counts less others, of which no more than there is can go."""
        return CellCounts(np.maximum(self.alone - other.alone, 0), np.maximum(self.paired - other.paired, 0))


@dataclass(frozen=True, eq=False)
class DataDensity:
    """Where rows have been; never changed in place.

    Attributes
    ----------
    inputs
        Inputs of which pairs are counted, rising.
    cell_counts
        The counts.
    usual
        Quantiles of what known rows have: rows along an input, rows in pairs of inputs, and the negative
        logarithm of their leverage; shape (views, quantiles).

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> points = random.random((3000, 2))
    >>> known = points[(np.abs(points - 0.5) > 0.2).any(axis=1)]
    >>> data_density = DataDensity.of(known, [0, 1])
    >>> data_density.support(np.array([[0.1, 0.5], [0.5, 0.5], [1.5, 0.5]]), None) > 0.1
    array([ True, False, False])
    """

    inputs: tuple[int, ...]
    cell_counts: CellCounts
    usual: Array

    @classmethod
    def of(
        cls,
        points: Array,
        inputs: Sequence[int],
        assessed: NDArray[np.intp] | None = None,
        leverage: Array | None = None,
    ) -> DataDensity:
        """The presence of rows.

        Parameters
        ----------
        points
            Points of the unit cube, shape (rows, inputs).
        inputs
            Inputs that matter, those that matter most first.
        assessed, leverage
            Numbers of some rows, and the leverage of each on a model of all others, if it is to count.
        """
        cells = int(np.clip(len(points) / ROWS_A_STRIPE, LEAST_CELLS, MOST_CELLS))
        varied = [len(np.unique(column)) >= VARIED for column in cells_of(points, cells).T]
        order = sorted(inputs, key=lambda j: not varied[j])  # stable: of two values an input alone tells all
        chosen = tuple(sorted(order[:MOST_PAIRED]))
        side = int(np.clip(np.sqrt(len(points) / ROWS_A_CELL), LEAST_SIDE, MOST_SIDE))
        pairs = len(chosen) * (len(chosen) - 1) // 2
        empty = CellCounts(np.zeros((points.shape[1], cells)), np.zeros((pairs, side + 2, side + 2)))
        blank = cls(chosen, empty, np.zeros((2 if leverage is None else 3, QUANTILES)))
        data_density = replace(blank, cell_counts=blank.cell_counts_of(points))
        known = points if assessed is None else points[assessed]
        found = data_density.evidence(known, leverage, known=True)
        return replace(data_density, usual=np.quantile(found, np.linspace(0, 1, QUANTILES), axis=1).T)

    @property
    def counts_leverage(self) -> bool:
        """Whether the leverage of a row counts too."""
        return len(self.usual) > 2

    @property
    def cells(self) -> int:
        """Cells of an input."""
        return self.cell_counts.alone.shape[1]

    @property
    def side(self) -> int:
        """Cells of a side of a pair."""
        return self.cell_counts.paired.shape[1] - 2

    @property
    def pairs(self) -> NDArray[np.intp]:
        """The pairs, as places among the chosen inputs: shape (pairs, 2)."""
        return np.array(list(combinations(range(len(self.inputs)), 2)), np.intp).reshape(-1, 2)

    @property
    def open_ends(self) -> Array:
        """How few rows lie at either end of each input: usual ones over those there, up to 1; (inputs, 2).

        Rows beyond the unit cube count at its ends. Once they have been learned, what holds there is what
        holds beyond, and a slope from inside has no say.

        Examples
        --------
        >>> data_density = DataDensity.of(np.linspace(0, 1, 400)[:, None], [0])
        >>> data_density.after(data_density.cell_counts_of(np.full((380, 1), 1.3))).open_ends.round(1)
        array([[1. , 0.1]])
        """
        counts = self.cell_counts.alone
        usual = counts.mean(axis=1, keepdims=True)
        return np.asarray(np.minimum((usual + HALF) / (counts[:, [0, -1]] + HALF), 1.0))

    def cell_counts_of(self, points: Array) -> CellCounts:
        """Counts of some rows; those beyond the unit cube count at its edge."""
        inside = points.clip(0, 1)
        cells = cells_of(inside, self.cells)
        alone = np.stack([np.bincount(column, minlength=self.cells) for column in cells.T]).astype(np.float64)
        paired = np.zeros((len(self.pairs), self.cell_counts.paired[0].size if len(self.pairs) else 0))
        for corner, share in self._corners(inside):
            for k in range(len(paired)):
                paired[k] += np.bincount(corner[:, k], share[:, k], paired.shape[1])
        return CellCounts(alone, paired.reshape(self.cell_counts.paired.shape))

    def _corners(self, inside: Array) -> list[tuple[NDArray[np.intp], Array]]:
        """For each of four corners its number and its share of each row and pair, shape (rows, pairs)."""
        place = inside[:, self.inputs] * self.side + HALF
        cell = np.floor(place).astype(np.intp)  # 0 to side
        upper = np.rint((place - cell) * GRAIN) / GRAIN
        first, second = self.pairs.T
        shares = (1 - upper, upper)
        return [
            (
                (cell[:, first] + a) * (self.side + 2) + cell[:, second] + b,
                shares[a][:, first] * shares[b][:, second],
            )
            for a in (0, 1)
            for b in (0, 1)
        ]

    def after(self, cell_counts: CellCounts) -> DataDensity:
        """The presence with more rows."""
        return replace(self, cell_counts=self.cell_counts + cell_counts)

    def forgotten(self, cell_counts: CellCounts) -> DataDensity:
        """The presence with fewer rows."""
        return replace(self, cell_counts=self.cell_counts.without(cell_counts))

    def evidence(self, points: Array, leverage: Array | None, known: bool = False) -> Array:
        """What stands behind each point, shape (views, rows); of known rows what the others give."""
        inside = points.clip(0, 1)
        views = [self._alone(inside, known), self._paired(inside, known)]
        if leverage is not None:
            views.append(-np.log(np.maximum(leverage, 1e-300)))
        return np.stack(views)

    def _alone(self, inside: Array, known: bool) -> Array:
        """Rows along each input, over what is enough: the smallest of all inputs, as a logarithm."""
        counts = self.cell_counts.alone
        near = counts[np.arange(len(counts)), cells_of(inside, self.cells)] - known  # (rows, inputs)
        enough = np.minimum(counts.sum(axis=1) / self.cells, ENOUGH)
        return least_log((near + HALF) / (enough + HALF))

    def _paired(self, inside: Array, known: bool) -> Array:
        """Rows in each pair, over what independent inputs would have there, or enough: the smallest."""
        if not len(self.pairs):
            return np.zeros(len(inside))
        table = self.cell_counts.paired.reshape(len(self.pairs), -1)
        each = np.arange(len(self.pairs))
        marginal = [
            self.cell_counts.paired.sum(axis=2),
            self.cell_counts.paired.sum(axis=1),
        ]  # (pairs, side + 2)
        near, own, expected = (np.zeros((len(inside), len(each))) for _ in range(3))
        for corner, share in self._corners(inside):
            near += share * table[each, corner]
            own += share**2
            row, column = np.divmod(corner, self.side + 2)
            expected += share * marginal[0][each, row] * marginal[1][each, column]
        rows = np.maximum(table.sum(axis=1), 1.0)
        enough = np.minimum(expected / rows, ENOUGH_IN_PAIR)
        left = np.maximum(near - own * known, 0)
        return least_log((left + HALF) / (enough + HALF))

    def support(self, points: Array, leverage: Array | None) -> Array:
        """How much stands behind each point, of what known rows have: from 0 to 1, shape (rows,)."""
        share = np.linspace(0, 1, QUANTILES)
        found = self.evidence(points, leverage)
        views = zip(found, self.usual, strict=False)
        least = np.min([np.interp(each, usual, share, left=0) for each, usual in views], axis=0)
        within = ((points >= 0) & (points <= 1)).all(axis=1)
        return np.where(within, np.minimum(least / USUAL, 1.0), 0.0)


def least_log(shares: Array) -> Array:
    """Logarithm of the smallest of the shares of a row, shape (rows,); more than all is no more than all."""
    return np.log(np.minimum(shares.min(axis=1), 1.0))


def cells_of(inside: Array, cells: int) -> NDArray[np.intp]:
    """Cell of each coordinate, of the shape that they have."""
    return np.minimum((inside * cells).astype(np.intp), cells - 1)
