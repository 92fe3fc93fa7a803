"""Local terms: Laplace kernels centred on rows, each supported in its leaf of a k-d tree (Bentley 1975)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model import kernels
from atlas_splines.model.immutable import Recomputing

__all__ = ["BOX_RULES", "ONE_BOX", "BoxRules", "Boxes", "LocalTerms"]

LEAF = -1  # in place of the input of a node
LEAST_SPREAD = 1e-3  # of the range of an input: one whose quantiles agree may still be cut if no other can


@dataclass(frozen=True)
class BoxRules:
    """How a k-d tree is split.

    Attributes
    ----------
    most_rows
        Rows of a box at most. Its Cholesky factor costs their cube: 1,000 rows take a quarter of the time of
        2,000 for the same table, and errors were about 1 % larger on tables of 6,000 rows or more.
    least_share
        Fraction of the rows of a node that either side of a cut must have, or another input is cut.
    sampled_rows, tail
        Rows of a node from which the input with the largest spread is chosen: the distance between two
        quantiles, with this fraction of them in either tail.
    """

    most_rows: int = 1000
    least_share: float = 0.2
    sampled_rows: int = 2000
    tail: float = 0.05


BOX_RULES = BoxRules()


@dataclass(frozen=True, eq=False)
class Boxes:
    """A k-d tree over the unit cube; every point of the cube lies in exactly one of its boxes.

    Attributes
    ----------
    nodes
        Shape (nodes, 3), the root first: the input that is cut and the numbers of two children; or −1, the
        number of the box and −1.
    cuts
        Shape (nodes,): points up to and with this coordinate belong to the first child.

    Examples
    --------
    >>> points = np.linspace(0, 1, 8, dtype=np.float32)[:, None]
    >>> boxes = Boxes.of(points, np.ones(1, np.float32), BoxRules(most_rows=4))
    >>> boxes.find(points).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """

    nodes: NDArray[np.int32]
    cuts: NDArray[np.float32]

    @classmethod
    def of(
        cls, points: NDArray[np.float32], rates: NDArray[np.floating], rules: BoxRules = BOX_RULES
    ) -> Boxes:
        """Split points, shape (rows, inputs), near the median of the input with the largest spread.

        Spreads are those of the points times the rates, shape (inputs,): distances in units of length scales.
        """
        return ONE_BOX.split_full(points, [np.arange(len(points))], rates, rules)

    def split_full(
        self,
        points: NDArray[np.float32],
        inside: Sequence[NDArray[np.intp]],
        rates: NDArray[np.floating],
        rules: BoxRules = BOX_RULES,
    ) -> Boxes:
        """The tree in which boxes with too many points are split; others keep their numbers.

        The first part of a box that is split keeps its number. `inside` has the numbers of the points in each
        box.
        """
        nodes, cuts, boxes = self.nodes.tolist(), self.cuts.tolist(), len(self)
        # (node, its points), the last of which is taken up first
        pending = [
            (node, inside[box])
            for node, (j, box, _) in reversed([*enumerate(nodes)])
            if j == LEAF and len(inside[box]) > rules.most_rows
        ]
        while pending:
            node, rows = pending.pop()
            found = None if len(rows) <= rules.most_rows else _cut(points, rows, rates, rules)
            if found is None:
                continue
            j, cut = found
            first = points[rows, j] <= cut
            child = len(nodes)
            nodes += [[LEAF, nodes[node][1], LEAF], [LEAF, boxes, LEAF]]
            cuts += [0.0, 0.0]
            nodes[node], cuts[node], boxes = [j, child, child + 1], cut, boxes + 1
            pending += [(child + 1, rows[~first]), (child, rows[first])]
        if len(nodes) == len(self.nodes):
            return self
        return Boxes(np.array(nodes, np.int32), np.array(cuts, np.float32))

    def __len__(self) -> int:
        """Number of boxes."""
        return int((self.nodes[:, 0] == LEAF).sum())

    def find(self, points: NDArray[np.float32]) -> NDArray[np.int32]:
        """Number of the box of each point of the unit cube, shape (rows,)."""
        found = np.empty(len(points), np.int32)
        kernels.find_boxes(self.nodes, self.cuts, points, found)
        return found

    def split(self, points: NDArray[np.float32]) -> list[NDArray[np.intp]]:
        """Numbers of the points in each box, rising."""
        own = self.find(points)
        return np.split(np.argsort(own, kind="stable"), np.cumsum(np.bincount(own, minlength=len(self)))[:-1])


ONE_BOX = Boxes(np.array([[LEAF, 0, LEAF]], np.int32), np.zeros(1, np.float32))


def _cut(
    points: NDArray[np.float32], rows: NDArray[np.intp], rates: NDArray[np.floating], rules: BoxRules
) -> tuple[int, float] | None:
    """Input and coordinate at which a node is cut: the first with enough rows on either side, or the best.

    A node of up to twice the rows of a box stays a leaf if no input has enough rows on either side.
    """
    some = points[rows[:: -(-len(rows) // rules.sampled_rows)]]
    low, high = _between(np.ascontiguousarray(some.T), rules)
    error_models = (high - low + LEAST_SPREAD * (some.max(axis=0) - some.min(axis=0))) * rates
    best: tuple[float, int, float] = (0.0, 0, 0.0)  # rows on the smaller side, input, coordinate
    for j in np.argsort(-error_models, kind="stable").tolist():
        if error_models[j] == 0:
            break
        values = points[rows, j]
        middle = (len(values) - 1) // 2
        cut = np.partition(values, middle)[middle]
        if (values <= cut).mean() > 1 - rules.least_share and (values < cut).any():
            cut = values[values < cut].max()  # many rows tie at the median: they stay together above the cut
        share = float((values <= cut).mean())
        best = max(best, (min(share, 1 - share), j, float(cut)), key=lambda each: each[0])
        if best[0] >= rules.least_share:
            return best[1:]
    return best[1:] if best[0] > 0 and len(rows) > 2 * rules.most_rows else None


def _between(values: NDArray[np.float32], rules: BoxRules) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The two quantiles of each input, shape (inputs,), of values of shape (inputs, rows).

    They are those of `np.quantile` with the nearest value, whose checks take longer than the work.
    """
    last = values.shape[1] - 1
    low, high = (round(share * last) for share in (rules.tail, 1 - rules.tail))
    values.partition((low, high), axis=1)
    return values[:, low], values[:, high]


Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LocalTerms(Recomputing):
    """Terms in boxes; never changed in place.

    Attributes
    ----------
    boxes
        The boxes.
    rates
        1/ℓ_j of each input, shape (inputs,); 0 for an input that the terms do not depend on.
    centres
        Points of the unit cube, shape (terms, inputs), in any order.
    weights
        Shape (terms, outputs).
    constants
        What is added in each box, shape (boxes, outputs).

    Examples
    --------
    >>>
    >>> centres = np.array([[0.25], [0.75]], np.float32)
    >>> boxes = Boxes.of(centres, np.ones(1), BoxRules(most_rows=1))
    >>> weights, none = np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)
    >>> terms = LocalTerms(boxes, np.ones(1, np.float32), centres, weights, none)
    >>> out = np.zeros((3, 1), np.float32)
    >>> terms.add_to(np.array([[0.25], [0.0], [0.75]]), out)
    >>> out.ravel().round(2)
    array([1.  , 0.78, 1.  ], dtype=float32)
    """

    boxes: Boxes
    rates: Array
    centres: Array
    weights: Array
    constants: Array

    def add_to(self, points: NDArray[np.floating], out: NDArray[np.floating]) -> None:
        """Add the terms at points, shape (rows, inputs), to outputs, shape (rows, outputs).

        Points beyond the unit cube count at its edge, as their rows did when they were learned.
        """
        inside = np.ascontiguousarray(points.clip(0, 1), np.float32)
        kernels.add_local_terms(self._packed, inside, self.boxes.find(inside), out)

    def scaled(self, share: float) -> LocalTerms:
        """The terms times a number."""
        factor = np.float32(share)
        return replace(self, weights=factor * self.weights, constants=factor * self.constants)

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> LocalTerms:
        """The terms of more outputs, to which they add nothing; the old ones get these places."""
        weights, constants = (
            np.zeros((len(part), outputs), np.float32) for part in (self.weights, self.constants)
        )
        weights[:, places], constants[:, places] = self.weights, self.constants
        return replace(self, weights=weights, constants=constants)

    @property
    def parts(self) -> tuple[NDArray[np.generic], ...]:
        """Everything that the terms are made of, for a fingerprint."""
        return (self.boxes.nodes, self.boxes.cuts, self.rates, self.centres, self.weights, self.constants)

    @cached_property
    def _packed(self) -> kernels.Local:
        """The terms as the kernels take them."""
        own = self.boxes.find(np.ascontiguousarray(self.centres))
        order = np.argsort(own, kind="stable")
        counts = np.bincount(own, minlength=len(self.boxes))
        sizes = -(-counts // kernels.LANES) * kernels.LANES
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # place of each term: where its box starts, and how many of the box come before it
        before = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = starts[:-1][own[order]] + before
        inputs = np.flatnonzero(self.rates)
        centres = np.zeros((len(inputs), starts[-1]), np.float32)
        centres[:, places] = (self.centres[order][:, inputs] * self.rates[inputs]).T
        weights = np.zeros((self.weights.shape[1], starts[-1]), np.float32)
        weights[:, places] = self.weights[order].T
        constants = np.ascontiguousarray(self.constants, np.float32)
        nodes, cuts = self.boxes.nodes, self.boxes.cuts
        return kernels.Local(nodes, cuts, starts, inputs, self.rates[inputs], centres, weights, constants)
