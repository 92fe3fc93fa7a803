"""Lookalikes: points that are much like known rows, drawn from counts of where rows have been.

No row is kept. How often each value of an input came is, and how often pairs of values came together, for the
inputs that matter most: the tree of pairs that tell most of each other (Chow and Liu, 1968) is a distribution
of rows with all of these counts. Inputs without pairs are drawn alone. Of the inputs of a category one is
drawn, so that no mix comes out that no row can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.evidence.presence import Presence

__all__ = ["Lookalikes", "draw_lookalikes"]

Array = NDArray[np.float64]

HALF = 0.5


@dataclass(frozen=True, eq=False)
class Lookalikes:
    """Points like known rows.

    Attributes
    ----------
    points
        Points of the unit cube, shape (points, inputs).
    slack
        How far around each point its row may have been: nothing where rows were everywhere around, and half a
        cell where a value stands alone, as that of a category does; shape (points, inputs).
    """

    points: Array
    slack: Array

    @property
    def low(self) -> Array:
        """Least coordinates that the rows may have had."""
        return np.asarray(self.points - self.slack)

    @property
    def high(self) -> Array:
        """Greatest coordinates that the rows may have had."""
        return np.asarray(self.points + self.slack)


def draw_lookalikes(presence: Presence, count: int, random: np.random.Generator) -> Lookalikes:
    """Draw points with the counts of known rows.

    Examples
    --------
    >>> x = np.random.default_rng(0).random(4000)
    >>> known = Presence.of(np.stack([x, x], axis=1), [0, 1])
    >>> points = draw_lookalikes(known, 1000, np.random.default_rng(1)).points
    >>> bool(np.corrcoef(points.T)[0, 1] > 0.95)
    True
    """
    counts = presence.visits.alone  # (inputs, cells)
    cells = np.empty((count, len(counts)), np.intp)
    groups = one_hot_groups(counts)
    grouped = {j for group in groups for j in group}
    drawn: list[int] = []
    for child, parent in spanning_tree(presence, grouped):
        nearby = None if parent is None else near_child(presence, parent, child, cells[:, parent], random)
        cells[:, child] = draw_cells(counts[child], nearby, count, random)
        drawn.append(child)
    for group in groups:
        draw_category(presence, group, drawn, cells, random)
    for j in sorted({*range(len(counts))} - grouped - {*drawn}):
        cells[:, j] = draw_cells(counts[j], None, count, random)
    alone = np.take_along_axis(stands_alone(counts), cells.T, axis=1).T  # (points, inputs)
    inside = np.where(alone, HALF, random.random(cells.shape))
    size = presence.cells
    return Lookalikes((cells + inside) / size, np.where(alone, HALF / size, 0.0))


def one_hot_groups(counts: Array) -> list[list[int]]:
    """Neighbouring inputs of two values of which each row has exactly one at its upper value.

    Examples
    --------
    >>> one_hot_groups(np.array([[3.0, 0, 1], [1, 0, 3], [2, 1, 1], [2, 0, 2]]))
    [[0, 1]]
    """
    rows = counts[0].sum()
    two_valued = (counts > 0).sum(axis=1) == 2
    groups: list[list[int]] = []
    first = 0
    while first < len(counts):
        found, upper = first, 0.0
        while found < len(counts) and two_valued[found] and upper < rows:
            upper += upper_rows(counts[found])
            found += 1
        if upper == rows and found - first > 1:
            groups.append(list(range(first, found)))
        first = found if groups and groups[-1][0] == first else first + 1
    return groups


def upper_rows(counts: Array) -> float:
    """Rows in the last cell that has some."""
    return float(counts[np.flatnonzero(counts)[-1]])


def draw_category(
    presence: Presence,
    group: list[int],
    drawn: list[int],
    cells: NDArray[np.intp],
    random: np.random.Generator,
) -> None:
    """Draw which input of a group is at its upper value, in place; by the input that tells most of it."""
    counts, size = presence.visits.alone[group], len(cells)
    chances = np.tile([upper_rows(each) for each in counts], (size, 1))  # (points, members)
    parents = [j for j in drawn if {j, *group} <= {*presence.inputs}]
    if parents:
        tables = {j: np.stack([upper_corners(presence, j, k) for k in group], axis=1) for j in parents}
        best = max(parents, key=lambda j: mutual_information(tables[j]))
        near = tables[best][corners_of(presence, cells[:, best], random)]
        chances = np.where(near.sum(axis=1, keepdims=True) > 0, near, chances)
    steps = np.cumsum(chances, axis=1)
    chosen = (steps <= random.random(size)[:, None] * steps[:, -1:]).sum(axis=1).clip(max=len(group) - 1)
    for place, (j, each) in enumerate(zip(group, counts, strict=True)):
        low, high = np.flatnonzero(each)
        cells[:, j] = np.where(chosen == place, high, low)


def upper_corners(presence: Presence, one: int, other: int) -> Array:
    """Counts of one input's corners with the upper value of another that has two, shape (corners,)."""
    table = pair_table(presence, one, other)
    low, high = hats_of(presence)[np.flatnonzero(presence.visits.alone[other])]  # (side + 2,) each
    return np.asarray(table @ (high > low))


def draw_cells(
    counts: Array, nearby: Array | None, count: int, random: np.random.Generator
) -> NDArray[np.intp]:
    """Cells of an input by its counts, shape (count,); `nearby` is how much each counts, (count, cells)."""
    chances = np.broadcast_to(counts, (1, counts.size)) if nearby is None else nearby * counts
    empty = chances.sum(axis=1) == 0  # rounding, or rows that were forgotten
    chances = np.where(empty[:, None], counts + (counts.sum() == 0), chances)
    steps = np.cumsum(chances, axis=1)
    chosen = random.random(count)[:, None] * steps[:, -1:]
    return np.asarray((steps <= chosen).sum(axis=1).clip(max=counts.size - 1))


def near_child(
    presence: Presence, parent: int, child: int, cells: NDArray[np.intp], random: np.random.Generator
) -> Array:
    """How much each cell of an input goes with cells of another, as their pair was counted: (rows, cells)."""
    table = pair_table(presence, parent, child)  # (side + 2, side + 2)
    hats = hats_of(presence)  # (cells, side + 2)
    corner = corners_of(presence, cells, random)
    spread = hats * presence.visits.alone[child][:, None]  # (cells, side + 2)
    share = spread / np.maximum(spread.sum(axis=0), 1e-300)
    weights = table @ share.T / np.maximum(presence.visits.alone[child], 1e-300)  # (side + 2, cells)
    return np.asarray(weights[corner])


def corners_of(presence: Presence, cells: NDArray[np.intp], random: np.random.Generator) -> NDArray[np.intp]:
    """One of the corners around each cell, by its share, shape (rows,)."""
    steps = np.cumsum(hats_of(presence)[cells], axis=1)
    return np.asarray((steps <= random.random(len(cells))[:, None]).sum(axis=1).clip(max=presence.side + 1))


def hats_of(presence: Presence) -> Array:
    """Share of each corner of a pair's side in the middle of each cell of an input: (cells, corners)."""
    place = (np.arange(presence.cells) + HALF) / presence.cells * presence.side + HALF
    return np.maximum(1 - np.abs(place[:, None] - np.arange(presence.side + 2)), 0)


def pair_table(presence: Presence, one: int, other: int) -> Array:
    """Counts of a pair of inputs, shape (corners of one, corners of the other)."""
    a, b = presence.inputs.index(one), presence.inputs.index(other)
    k = int(np.flatnonzero((presence.pairs == sorted((a, b))).all(axis=1))[0])
    table = presence.visits.paired[k]
    return np.asarray(table if a < b else table.T)


def spanning_tree(presence: Presence, without: set[int]) -> list[tuple[int, int | None]]:
    """Inputs that have pairs, each with the one before it that tells most of it; the first has none."""
    inputs = [j for j in presence.inputs if j not in without]
    if not inputs:
        return []
    shared = np.zeros((len(inputs), len(inputs)))
    for a, b in combinations(range(len(inputs)), 2):
        shared[a, b] = shared[b, a] = mutual_information(pair_table(presence, inputs[a], inputs[b]))
    order: list[tuple[int, int | None]] = [(inputs[0], None)]
    inside = [0]
    while len(inside) < len(inputs):
        rest = [k for k in range(len(inputs)) if k not in inside]
        place = np.unravel_index(int(np.argmax(shared[np.ix_(inside, rest)])), (len(inside), len(rest)))
        parent, child = inside[int(place[0])], rest[int(place[1])]
        order.append((inputs[child], inputs[parent]))
        inside.append(child)
    return order


def mutual_information(table: Array) -> float:
    """How much one input of a pair tells of the other, in nats.

    Examples
    --------
    >>> round(mutual_information(np.eye(2)), 3), mutual_information(np.ones((2, 2)))
    (0.693, 0.0)
    """
    joint = table / max(table.sum(), 1e-300)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    there = joint > 0
    return float((joint[there] * np.log(joint[there] / apart[there])).sum())


def stands_alone(counts: Array) -> NDArray[np.bool_]:
    """Cells with rows whose neighbours have none, shape (inputs, cells)."""
    there = np.pad(counts > 0, ((0, 0), (1, 1)))
    return np.asarray(there[:, 1:-1] & ~there[:, :-2] & ~there[:, 2:])
