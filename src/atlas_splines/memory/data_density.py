"""Data density: counts of learned rows along each input and over pairs of inputs, and the support of a point.

Radial basis functions vanish far from their centres, and the posterior variance with them, so a small
leverage alone does not show that rows were near. Counts do, and they add up (histograms with linear binning
of pairs). The scale is set by quantiles over known rows. Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

__all__ = ["DENSITY_RULES", "CellCounts", "DataDensity", "DataDensityRules", "cells_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DataDensityRules:
    """Rules of the data density; none was chosen by a benchmark.

    Attributes
    ----------
    cell_rows, least_cells, most_cells
        Rows of the fit for each cell of an input, and limits of the number of cells.
    most_paired
        Inputs whose pairs are counted: those with the shortest length scales.
    least_distinct
        Cells of an input that contain rows, from which on it comes first among those.
    pair_cell_rows, least_side, most_side
        Rows for each cell of a pair of inputs if they were uniform, and limits of the cells along a side.
    grain
        Parts of a row are multiples of one over this, so that their sums are exact.
    enough, enough_in_pair
        Rows near a point beyond which support does not increase.
    pseudo_count
        Added to observed and to expected counts.
    quantiles
        Quantiles of the density at known rows.
    usual
        Share of the known rows that have less than full support in one view.
    """

    cell_rows: int = 20
    least_cells: int = 16
    most_cells: int = 128
    most_paired: int = 8
    least_distinct: int = 8
    pair_cell_rows: int = 10
    least_side: int = 4
    most_side: int = 16
    grain: float = 1024.0
    enough: float = 5.0
    enough_in_pair: float = 20.0
    pseudo_count: float = 0.5
    quantiles: int = 33
    usual: float = 0.3


DENSITY_RULES = DataDensityRules()


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Counts of some rows.

    Attributes
    ----------
    alone
        Rows in each cell of each input, shape (inputs, cells).
    paired
        Rows around each corner of the cells of pairs of inputs, shape (pairs, side + 2, side + 2); a row is
        divided among the four corners around it, in multiples of 1/1024.
    """

    alone: Array
    paired: Array

    def __add__(self, other: CellCounts) -> CellCounts:
        return CellCounts(self.alone + other.alone, self.paired + other.paired)

    def without(self, other: CellCounts) -> CellCounts:
        """These counts less others, at least 0."""
        return CellCounts(np.maximum(self.alone - other.alone, 0), np.maximum(self.paired - other.paired, 0))


@dataclass(frozen=True, eq=False)
class DataDensity:
    """Density of the learned rows; immutable.

    Attributes
    ----------
    inputs
        Inputs whose pairs are counted, rising.
    cell_counts
        The counts.
    usual
        Quantiles of the log density at known rows: along an input, over pairs of inputs, and the negative
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
        """The density of some rows.

        Parameters
        ----------
        points
            Points of the unit cube, shape (rows, inputs).
        inputs
            Relevant inputs, the most relevant first.
        assessed, leverage
            Numbers of some rows, and the leverage of each on a model of all others, if leverage is a view.
        """
        rules = DENSITY_RULES
        cells = int(np.clip(len(points) / rules.cell_rows, rules.least_cells, rules.most_cells))
        varied = [len(np.unique(column)) >= rules.least_distinct for column in cells_of(points, cells).T]
        order = sorted(inputs, key=lambda j: not varied[j])  # stable; pairs add nothing to a binary input
        chosen = tuple(sorted(order[: rules.most_paired]))
        side = int(
            np.clip(
                np.sqrt(len(points) / rules.pair_cell_rows),
                rules.least_side,
                rules.most_side,
            )
        )
        pairs = len(chosen) * (len(chosen) - 1) // 2
        empty = CellCounts(np.zeros((points.shape[1], cells)), np.zeros((pairs, side + 2, side + 2)))
        blank = cls(chosen, empty, np.zeros((2 if leverage is None else 3, rules.quantiles)))
        data_density = replace(blank, cell_counts=blank.cell_counts_of(points))
        known = points if assessed is None else points[assessed]
        found = data_density.log_density(known, leverage, known=True)
        return replace(data_density, usual=np.quantile(found, np.linspace(0, 1, rules.quantiles), axis=1).T)

    @property
    def counts_leverage(self) -> bool:
        """Whether leverage is one of the views."""
        return len(self.usual) > 2

    @property
    def cells(self) -> int:
        """Number of cells along an input."""
        return self.cell_counts.alone.shape[1]

    @property
    def side(self) -> int:
        """Number of cells along each input of a pair."""
        return self.cell_counts.paired.shape[1] - 2

    @property
    def pairs(self) -> NDArray[np.intp]:
        """Positions of the two inputs of each pair among `inputs`, shape (pairs, 2)."""
        return np.array(list(combinations(range(len(self.inputs)), 2)), np.intp).reshape(-1, 2)

    @property
    def open_ends(self) -> Array:
        """Mean count over the count in the outermost cells of each input, at most 1: shape (inputs, 2).

        Rows beyond the unit cube are counted in these cells. Once such rows have been learned, predictions
        beyond are level there, and the slope inside is not extrapolated.

        Examples
        --------
        >>> data_density = DataDensity.of(np.linspace(0, 1, 400)[:, None], [0])
        >>> data_density.after(data_density.cell_counts_of(np.full((380, 1), 1.3))).open_ends.round(1)
        array([[1. , 0.1]])
        """
        counts = self.cell_counts.alone
        usual = counts.mean(axis=1, keepdims=True)
        return np.asarray(
            np.minimum(
                (usual + DENSITY_RULES.pseudo_count) / (counts[:, [0, -1]] + DENSITY_RULES.pseudo_count), 1.0
            )
        )

    def cell_counts_of(self, points: Array) -> CellCounts:
        """Counts of some rows; those beyond the unit cube are counted at its faces."""
        inside = points.clip(0, 1)
        cells = cells_of(inside, self.cells)
        alone = np.stack([np.bincount(column, minlength=self.cells) for column in cells.T]).astype(np.float64)
        paired = np.zeros((len(self.pairs), self.cell_counts.paired[0].size if len(self.pairs) else 0))
        for corner, share in self._corners(inside):
            for k in range(len(paired)):
                paired[k] += np.bincount(corner[:, k], share[:, k], paired.shape[1])
        return CellCounts(alone, paired.reshape(self.cell_counts.paired.shape))

    def _corners(self, inside: Array) -> list[tuple[NDArray[np.intp], Array]]:
        """Number of each of four corners, and its part of each row and pair: both of shape (rows, pairs)."""
        place = inside[:, self.inputs] * self.side + 0.5
        cell = np.floor(place).astype(np.intp)  # 0 to side
        upper = np.rint((place - cell) * DENSITY_RULES.grain) / DENSITY_RULES.grain
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
        """The density with more rows."""
        return replace(self, cell_counts=self.cell_counts + cell_counts)

    def forgotten(self, cell_counts: CellCounts) -> DataDensity:
        """The density with fewer rows."""
        return replace(self, cell_counts=self.cell_counts.without(cell_counts))

    def log_density(self, points: Array, leverage: Array | None, known: bool = False) -> Array:
        """Log density of each point in each view, shape (views, rows); at known rows that of the others."""
        inside = points.clip(0, 1)
        views = [self._alone(inside, known), self._paired(inside, known)]
        if leverage is not None:
            views.append(-np.log(np.maximum(leverage, 1e-300)))
        return np.stack(views)

    def _alone(self, inside: Array, known: bool) -> Array:
        """Log ratio of the rows along each input to the mean or enough; smallest over inputs."""
        counts = self.cell_counts.alone
        near = counts[np.arange(len(counts)), cells_of(inside, self.cells)] - known  # (rows, inputs)
        enough = np.minimum(counts.sum(axis=1) / self.cells, DENSITY_RULES.enough)
        return least_log((near + DENSITY_RULES.pseudo_count) / (enough + DENSITY_RULES.pseudo_count))

    def _paired(self, inside: Array, known: bool) -> Array:
        """Log ratio of rows over each pair to those of independent inputs, or enough; smallest over pairs."""
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
        enough = np.minimum(expected / rows, DENSITY_RULES.enough_in_pair)
        left = np.maximum(near - own * known, 0)
        return least_log((left + DENSITY_RULES.pseudo_count) / (enough + DENSITY_RULES.pseudo_count))

    def support(self, points: Array, leverage: Array | None) -> Array:
        """Support of each point relative to that of known rows, from 0 to 1: shape (rows,)."""
        share = np.linspace(0, 1, DENSITY_RULES.quantiles)
        found = self.log_density(points, leverage)
        views = zip(found, self.usual, strict=False)
        least = np.min([np.interp(each, usual, share, left=0) for each, usual in views], axis=0)
        within = ((points >= 0) & (points <= 1)).all(axis=1)
        return np.where(within, np.minimum(least / DENSITY_RULES.usual, 1.0), 0.0)


def least_log(shares: Array) -> Array:
    """Logarithm of the smallest ratio of each row, at most 0: shape (rows,)."""
    return np.log(np.minimum(shares.min(axis=1), 1.0))


def cells_of(inside: Array, cells: int) -> NDArray[np.intp]:
    """Cell of each coordinate, in the shape of the coordinates."""
    return np.minimum((inside * cells).astype(np.intp), cells - 1)
