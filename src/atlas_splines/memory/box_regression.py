"""Local regression: exact Gaussian processes in the boxes of a k-d tree, and ridge regression on coordinates.

One factor for each box (local Gaussian process regression: Snelson and Ghahramani, 2007; Gramacy and Apley,
2015); the linear part extrapolates beyond known rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.kept_rows import Distinct, HeldRows
from atlas_splines.memory.laplace_kernel import (
    NO_ROWS,
    Cholesky,
    LaplaceKernel,
    leave_one_out,
    leave_out_blocks,
)
from atlas_splines.memory.posterior import MOST_LEVERAGE
from atlas_splines.model.immutable import Remembering
from atlas_splines.model.local_terms import Boxes, BoxRules, LocalTerms

__all__ = [
    "MOST_FACTORS",
    "BoxRegression",
    "LinearPart",
    "linear_left_out",
    "rows_without_blocks",
    "segments_of",
]

Array = NDArray[np.float64]

RIDGE = 1.0  # prior precision of the slope of a standardised input, in rows; not benchmarked


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A linear function of coordinates.

    Attributes
    ----------
    constant, slopes
        Shapes (outputs,) and (inputs, outputs).

    Examples
    --------
    >>> points = np.random.default_rng(0).random((200, 2))
    >>> LinearPart.of(points, 1 + points @ [[2.0], [0.0]], np.ones(200)).slopes.round(1) + 0
    array([[2.],
           [0.]])
    """

    constant: Array
    slopes: Array

    @classmethod
    def of(cls, points: NDArray[np.floating], targets: Array, weights: Array) -> LinearPart:
        """The ridge regression of targets, shape (rows, outputs)."""
        design, middle, spread = _design(points)
        root = np.sqrt(weights)[:, None]
        solved = _solve((root * design).T @ (root * design), (root * design).T @ (root * targets))
        slopes = solved[1:] / spread[:, None]
        return cls(solved[0] - middle @ slopes, slopes)

    @staticmethod
    def influences(points: NDArray[np.floating], weights: Array, at: Array) -> Array:
        """What the target of each row is multiplied by in predictions at other points: (at, rows).

        Examples
        --------
        >>> points, targets = np.random.default_rng(0).random((2, 50, 1))
        >>> whole = LinearPart.of(points, targets, np.ones(50))(points[:3])
        >>> bool(np.allclose(LinearPart.influences(points, np.ones(50), points[:3]) @ targets, whole))
        True
        """
        design, middle, spread = _design(points)
        there = np.hstack([np.ones((len(at), 1)), (at - middle) / spread])
        weighed = weights[:, None] * design
        return np.asarray(there @ _solve(design.T @ weighed, weighed.T))

    def __call__(self, points: NDArray[np.floating]) -> Array:
        """Predictions, shape (rows, outputs)."""
        return np.asarray(self.constant + points.astype(np.float64) @ self.slopes)


def linear_left_out(
    points: NDArray[np.floating],
    targets: Array,
    weights: Array,
    blocks: Sequence[NDArray[np.intp]] = (),
) -> tuple[Array, list[Array]]:
    """Leave-one-out predictions, and for each block predictions for all rows from all rows but its own.

    All have shape (rows, outputs); a block is given by row numbers.
    """
    design, _, _ = _design(points)
    rows, wanted = np.sqrt(weights)[:, None] * design, np.sqrt(weights)[:, None] * targets
    gram, moment = rows.T @ rows, rows.T @ wanted
    inverse = np.linalg.inv(gram + np.diag(_prior(len(gram))))
    leverage = np.einsum("ij,ij->i", rows @ inverse, rows).clip(0, MOST_LEVERAGE)
    alone = targets - (targets - design @ (inverse @ moment)) / (1 - leverage)[:, None]
    without = [
        design @ _solve(gram - rows[own].T @ rows[own], moment - rows[own].T @ wanted[own]) for own in blocks
    ]
    return alone, without


def _design(points: NDArray[np.floating]) -> tuple[Array, Array, Array]:
    """A constant beside the standardised inputs, and the means and deviations they were standardised by."""
    middle, spread = points.mean(axis=0, dtype=np.float64), points.std(axis=0, dtype=np.float64)
    spread = np.where(spread > 0, spread, 1.0)
    return np.hstack([np.ones((len(points), 1)), (points - middle) / spread]), middle, spread


def _prior(features: int) -> Array:
    """Prior precision of each weight; the constant is nearly free."""
    return np.concatenate([[1e-6], np.full(features - 1, RIDGE)])


def _solve(gram: Array, moment: Array) -> Array:
    return np.asarray(np.linalg.solve(gram + np.diag(_prior(len(gram))), moment))


Numbers = NDArray[np.intp]

MOST_FACTORS = 2**27  # bytes of the factors kept in memory; beyond it those of untouched boxes are recomputed
GROWTH = 0.5  # relative growth after which all rows become one segment, with new boxes


def segments_of(updates: NDArray[np.int32], growth: float = GROWTH) -> list[slice]:
    """Segments of rows: those up to the last growth by a given share, then those of each update.

    Parameters
    ----------
    updates
        Update of each row, shape (rows,): rows of one update are neighbours.
    growth
        The share. Rows of later segments are not merged with replicates before them, and boxes stay cut as
        they were for fewer rows.

    Examples
    --------
    >>> [(each.start, each.stop) for each in segments_of(np.array([0, 0, 0, 0, 1, 2, 3, 4]))]
    [(0, 7), (7, 8)]
    """
    ends = [*(np.flatnonzero(np.diff(updates)) + 1).tolist(), len(updates)]
    first = 0
    for k, end in enumerate(ends):
        if end > (1 + growth) * ends[first]:
            first = k
    starts = [0, *ends[first:-1]]
    return [slice(start, end) for start, end in zip(starts, ends[first:], strict=True)]


@dataclass(frozen=True, eq=False)
class Solution:
    """A solved system: targets of points and their weights, shapes (points, outputs).

    Boxes in `changed` have changed since and must be solved again.
    """

    targets: Array
    weights: Array
    changed: frozenset[int]

    def without(self, boxes: Sequence[int]) -> Solution:
        """The same with further changed boxes."""
        return Solution(self.targets, self.weights, self.changed.union(boxes))

    def holds(self, box: int, points: Numbers, targets: Array) -> bool:
        """Whether the weights of a box with these points are the solution for some targets."""
        if box in self.changed or not len(points) or points[-1] >= len(self.targets):
            return False
        return np.array_equal(self.targets[points], targets[points])


@dataclass(frozen=True, eq=False)
class BoxRegression(Remembering):
    """Local regression on rows, for any targets; immutable but for its caches.

    Attributes
    ----------
    kernel
        Its kernel.
    box_rows
        Most points of a box.
    ends
        Row number at the end of each segment.
    rows
        Distinct points of each segment.
    boxes
        The boxes.
    inside
        Numbers of the points in each box, increasing.
    factors
        Cholesky factor of each box, or one without rows where it is not computed: a cache.
    solutions
        Solved systems, by the name of their targets: a cache.

    Examples
    --------
    >>> points = np.random.default_rng(0).random((300, 1)).astype(np.float32)
    >>> rows = HeldRows.of(points, points, np.ones(300))
    >>> kernel = LaplaceKernel(np.ones(1, np.float32), noise=0.1)
    >>> first, later = rows.take(slice(0, 200)), rows.take(slice(200, None))
    >>> whole = BoxRegression.of(kernel, [first, later], 100)
    >>> grown = BoxRegression.of(kernel, [first], 100)
    >>> known = grown.terms(points[:200].astype(float))
    >>> terms = [each.terms(points.astype(float)) for each in (whole, grown.joined(later))]
    >>> bool((terms[0].weights == terms[1].weights).all())
    True
    """

    kernel: LaplaceKernel
    box_rows: int
    ends: tuple[int, ...]
    rows: Distinct
    boxes: Boxes
    inside: tuple[Numbers, ...]
    factors: list[Cholesky] = field(repr=False)
    solutions: dict[str, Solution] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, kernel: LaplaceKernel, segments: Sequence[HeldRows], box_rows: int) -> BoxRegression:
        """The regression on rows in segments."""
        rows = Distinct.of(segments[0])
        boxes = Boxes.of(rows.points, kernel.rates, BoxRules(box_rows))
        inside = tuple(boxes.split(rows.points))
        found = cls(kernel, box_rows, (len(segments[0]),), rows, boxes, inside, [NO_ROWS] * len(boxes))
        for segment in segments[1:]:
            found = found.joined(segment)
        return found

    def joined(self, segment: HeldRows) -> BoxRegression:
        """The regression with one more segment of rows."""
        new = Distinct.of(segment)
        rows, own = self.rows.joined(new), self.boxes.find(new.points)
        touched = np.unique(own).tolist()
        inside = list(self.inside)
        for box in touched:
            inside[box] = np.append(inside[box], len(self.rows.points) + np.flatnonzero(own == box))
        boxes = self.boxes.split_full(rows.points, inside, self.kernel.rates, BoxRules(self.box_rows))
        factors = self._remembered(touched) + [NO_ROWS] * (len(boxes) - len(self.boxes))
        inside += [np.empty(0, np.intp)] * (len(boxes) - len(self.boxes))
        for box in touched if boxes is not self.boxes else ():
            points = inside[box]
            parts = boxes.find(rows.points[points])
            if (parts != box).any():  # it has been split
                factors[box] = NO_ROWS
                for part in np.unique(parts).tolist():
                    inside[part] = points[parts == part]
        ends = (*self.ends, self.ends[-1] + len(segment))
        changed = [*touched, *range(len(self.boxes), len(boxes))]
        solutions = {name: each.without(changed) for name, each in self.solutions.items()}
        return BoxRegression(self.kernel, self.box_rows, ends, rows, boxes, tuple(inside), factors, solutions)

    @property
    def nbytes(self) -> int:
        """Bytes of the cached factors."""
        return sum(factor.nbytes for factor in self.factors)

    def _remembered(self, touched: Sequence[int]) -> list[Cholesky]:
        """Factors to keep in memory: only those of touched boxes if all of them take too much."""
        if self.nbytes <= MOST_FACTORS:
            return list(self.factors)
        kept = {*touched}
        return [factor if box in kept else NO_ROWS for box, factor in enumerate(self.factors)]

    def factor(self, box: int) -> Cholesky:
        """Cholesky factor of the covariance of a box."""
        own, known = self.inside[box], self.factors[box]
        self.factors[box] = self.kernel.factor(self.rows.points[own], self.rows.weights[own], known)
        return self.factors[box]

    def solve(self, targets: Array, of: str = "") -> Array:
        """Weights of all points for targets of the rows, shape (points, outputs), in float64.

        The solution is cached under the name `of`.
        """
        merged = self.rows.merged(targets)
        weights, known = np.empty_like(merged), self.solutions.get(of)
        for box, own in enumerate(self.inside):
            if known is not None and known.holds(box, own, merged):
                weights[own] = known.weights[own]
            elif len(own):
                weights[own] = self.factor(box).solve(merged[own])
        self.solutions[of] = Solution(merged, weights, frozenset())
        return weights

    def terms(self, targets: Array, of: str = "") -> LocalTerms:
        """Terms of the regression on targets of the rows, shape (rows, outputs); see `solve`."""
        return self.terms_of(self.solve(targets, of))

    def terms_of(self, weights: Array) -> LocalTerms:
        """Terms with given weights, shape (points, outputs)."""
        constants = np.stack(
            [weights[own].sum(axis=0) for own in self.inside]
        )  # of the kernel's constant part
        small = weights.astype(np.float32), constants.astype(np.float32)
        return LocalTerms(self.boxes, self.kernel.rates, self.rows.points, *small)

    def left_out(self, targets: Array, weights: Array) -> Array:
        """Leave-one-out predictions for rows, (50), given the solved weights: shape (rows, outputs)."""
        merged = self.rows.merged(targets)
        rest, variances = np.empty_like(merged), np.empty(len(merged))
        for box, own in enumerate(self.inside):
            if len(own):
                rest[own], variances[own] = leave_one_out(
                    self.kernel, self.factor(box), merged[own], weights[own], self.rows.weights[own]
                )
        return self.rows.leave_out(targets, rest, variances, self.kernel.noise)


def rows_without_blocks(
    kernel: LaplaceKernel,
    boxes: Boxes,
    rows: HeldRows,
    targets: Sequence[Array],
    blocks: Sequence[Numbers],
) -> Array:
    """Predictions for the rows of each block from all rows but its own, (51): shape (rows, outputs).

    Length scales and noise variance are those of all rows.

    Parameters
    ----------
    kernel, boxes, rows
        The kernel, the boxes and the rows.
    targets
        Targets of all rows for each block: residuals of another part differ without the block.
    blocks
        Row numbers of each block. Other rows are never left out, and get no prediction.
    """
    own = np.full(len(rows), -1, np.intp)
    for block, numbers in enumerate(blocks):
        own[numbers] = block
    weights, found = rows.weights.astype(np.float64), np.zeros_like(targets[0])
    for inside in boxes.split(rows.points):
        if (own[inside] >= 0).any():
            wanted = [each[inside] for each in targets]
            found[inside] = leave_out_blocks(
                kernel, rows.points[inside], wanted, weights[inside], own[inside]
            )
    return found
