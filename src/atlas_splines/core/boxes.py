"""Boxes: a k-d tree (Bentley 1975) whose leaves hold a bounded number of rows each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core import kernels

__all__ = ["BOX_RULES", "ONE_BOX", "BoxRules", "Boxes"]

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
        Of the rows of a node that either side of a cut must get, or another input is cut.
    sampled_rows, tail
        Rows of a node by which the input with the largest spread is found: the distance between two
        quantiles, beyond either of which lies such a share of them.
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

        Spreads are those of the points times the rates, shape (inputs,): of distances as a kernel sees them.
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
    spreads = (high - low + LEAST_SPREAD * (some.max(axis=0) - some.min(axis=0))) * rates
    best: tuple[float, int, float] = (0.0, 0, 0.0)  # rows on the smaller side, input, coordinate
    for j in np.argsort(-spreads, kind="stable").tolist():
        if spreads[j] == 0:
            break
        values = points[rows, j]
        middle = (len(values) - 1) // 2
        cut = np.partition(values, middle)[middle]
        if (values <= cut).mean() > 1 - rules.least_share and (values < cut).any():
            cut = values[values < cut].max()  # many rows share the median: they stay together above the cut
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
