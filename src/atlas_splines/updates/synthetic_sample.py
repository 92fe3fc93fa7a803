"""A synthetic sample of the known rows, drawn from a Chow–Liu tree of their data density.

Chow and Liu (1968), Approximating discrete probability distributions with dependence trees.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.data_density import DataDensity, cells_of
from atlas_splines.memory.pool import Pool
from atlas_splines.model.atlas import state_of
from atlas_splines.model.charts import Window
from atlas_splines.model.state import State
from atlas_splines.updates.footprint import BoxFootprint, Footprint
from atlas_splines.updates.intervals import error_model_of

__all__ = [
    "DRAWN",
    "SyntheticSample",
    "draw_synthetic_sample",
    "rows_near",
    "synthetic_sample_of",
    "with_known_rows",
]

Array = NDArray[np.float64]

HALF = 0.5


@dataclass(frozen=True, eq=False)
class SyntheticSample:
    """Points drawn from the distribution of known rows.

    Attributes
    ----------
    points
        Points of the unit cube, shape (points, inputs).
    slack
        Uncertainty of each coordinate: 0 where rows are dense, and half a cell around an isolated value, as
        that of a category; shape (points, inputs).
    """

    points: Array
    slack: Array

    @property
    def low(self) -> Array:
        """Lower bounds of the coordinates."""
        return np.asarray(self.points - self.slack)

    @property
    def high(self) -> Array:
        """Upper bounds of the coordinates."""
        return np.asarray(self.points + self.slack)


def draw_synthetic_sample(
    data_density: DataDensity, count: int, random: np.random.Generator
) -> SyntheticSample:
    """Draw points from the counts of known rows, along the tree.

    Examples
    --------
    >>> x = np.random.default_rng(0).random(4000)
    >>> known = DataDensity.of(np.stack([x, x], axis=1), [0, 1])
    >>> points = draw_synthetic_sample(known, 1000, np.random.default_rng(1)).points
    >>> bool(np.corrcoef(points.T)[0, 1] > 0.95)
    True
    """
    counts = data_density.cell_counts.alone  # (inputs, cells)
    cells = np.empty((count, len(counts)), np.intp)
    groups = one_hot_groups(counts)
    grouped = {j for group in groups for j in group}
    drawn: list[int] = []
    for child, parent in spanning_tree(data_density, grouped):
        nearby = None if parent is None else near_child(data_density, parent, child, cells[:, parent], random)
        cells[:, child] = draw_cells(counts[child], nearby, count, random)
        drawn.append(child)
    for group in groups:
        draw_category(data_density, group, drawn, cells, random)
    for j in sorted({*range(len(counts))} - grouped - {*drawn}):
        cells[:, j] = draw_cells(counts[j], None, count, random)
    alone = np.take_along_axis(stands_alone(counts), cells.T, axis=1).T  # (points, inputs)
    inside = np.where(alone, HALF, random.random(cells.shape))
    size = data_density.cells
    return SyntheticSample((cells + inside) / size, np.where(alone, HALF / size, 0.0))


def one_hot_groups(counts: Array) -> list[list[int]]:
    """Groups of one-hot inputs: adjacent, with two values each, and one upper value in each row.

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
    data_density: DataDensity,
    group: list[int],
    drawn: list[int],
    cells: NDArray[np.intp],
    random: np.random.Generator,
) -> None:
    """Draw the category of a one-hot group, in place, given the input with the highest mutual information."""
    counts, size = data_density.cell_counts.alone[group], len(cells)
    chances = np.tile([upper_rows(each) for each in counts], (size, 1))  # (points, members)
    parents = [j for j in drawn if {j, *group} <= {*data_density.inputs}]
    if parents:
        tables = {j: np.stack([upper_corners(data_density, j, k) for k in group], axis=1) for j in parents}
        best = max(parents, key=lambda j: mutual_information(tables[j]))
        near = tables[best][corners_of(data_density, cells[:, best], random)]
        chances = np.where(near.sum(axis=1, keepdims=True) > 0, near, chances)
    steps = np.cumsum(chances, axis=1)
    chosen = (steps <= random.random(size)[:, None] * steps[:, -1:]).sum(axis=1).clip(max=len(group) - 1)
    for place, (j, each) in enumerate(zip(group, counts, strict=True)):
        low, high = np.flatnonzero(each)
        cells[:, j] = np.where(chosen == place, high, low)


def upper_corners(data_density: DataDensity, one: int, other: int) -> Array:
    """Counts of one input's corners with the upper value of another that has two, shape (corners,)."""
    table = pair_table(data_density, one, other)
    low, high = hats_of(data_density)[
        np.flatnonzero(data_density.cell_counts.alone[other])
    ]  # (side + 2,) each
    return np.asarray(table @ (high > low))


def draw_cells(
    counts: Array, nearby: Array | None, count: int, random: np.random.Generator
) -> NDArray[np.intp]:
    """Cells of an input drawn by its counts, shape (count,); `nearby` are weights, shape (count, cells)."""
    chances = np.broadcast_to(counts, (1, counts.size)) if nearby is None else nearby * counts
    empty = chances.sum(axis=1) == 0  # rounding, or rows that were forgotten
    chances = np.where(empty[:, None], counts + (counts.sum() == 0), chances)
    steps = np.cumsum(chances, axis=1)
    chosen = random.random(count)[:, None] * steps[:, -1:]
    return np.asarray((steps <= chosen).sum(axis=1).clip(max=counts.size - 1))


def near_child(
    data_density: DataDensity, parent: int, child: int, cells: NDArray[np.intp], random: np.random.Generator
) -> Array:
    """Weight of each cell of an input given cells of its parent, by their pair counts: (rows, cells)."""
    table = pair_table(data_density, parent, child)  # (side + 2, side + 2)
    hats = hats_of(data_density)  # (cells, side + 2)
    corner = corners_of(data_density, cells, random)
    counted = hats * data_density.cell_counts.alone[child][:, None]  # (cells, side + 2)
    share = counted / np.maximum(counted.sum(axis=0), 1e-300)
    weights = table @ share.T / np.maximum(data_density.cell_counts.alone[child], 1e-300)  # (side + 2, cells)
    return np.asarray(weights[corner])


def corners_of(
    data_density: DataDensity, cells: NDArray[np.intp], random: np.random.Generator
) -> NDArray[np.intp]:
    """A corner drawn for each cell by its hat functions, shape (rows,)."""
    steps = np.cumsum(hats_of(data_density)[cells], axis=1)
    return np.asarray(
        (steps <= random.random(len(cells))[:, None]).sum(axis=1).clip(max=data_density.side + 1)
    )


def hats_of(data_density: DataDensity) -> Array:
    """Hat functions of the corners of a pair's side at the centre of each cell: (cells, corners)."""
    place = (np.arange(data_density.cells) + HALF) / data_density.cells * data_density.side + HALF
    return np.maximum(1 - np.abs(place[:, None] - np.arange(data_density.side + 2)), 0)


def pair_table(data_density: DataDensity, one: int, other: int) -> Array:
    """Counts of a pair of inputs, shape (corners of one, corners of the other)."""
    a, b = data_density.inputs.index(one), data_density.inputs.index(other)
    k = int(np.flatnonzero((data_density.pairs == sorted((a, b))).all(axis=1))[0])
    table = data_density.cell_counts.paired[k]
    return np.asarray(table if a < b else table.T)


def spanning_tree(data_density: DataDensity, without: set[int]) -> list[tuple[int, int | None]]:
    """Maximum spanning tree of mutual information: inputs with pairs and their parents; None for the root."""
    inputs = [j for j in data_density.inputs if j not in without]
    if not inputs:
        return []
    shared = np.zeros((len(inputs), len(inputs)))
    for a, b in combinations(range(len(inputs)), 2):
        shared[a, b] = shared[b, a] = mutual_information(pair_table(data_density, inputs[a], inputs[b]))
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
    """Mutual information of a pair of inputs, in nats.

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


Area = TypeVar("Area", bound=Footprint)

DRAWN = 4000  # points: the standard error of a share is below a hundredth


def synthetic_sample_of(state: State, count: int = DRAWN) -> SyntheticSample | None:
    """A synthetic sample of the known rows of a state and its charts; None if they were not counted."""
    found = densities_of(state)
    rows = np.array([data_density.cell_counts.alone[0].sum() for data_density, _ in found])
    if not found or not rows.sum():
        return None
    random = np.random.default_rng(0)
    counts = np.diff(np.rint(count * np.cumsum([0.0, *rows]) / rows.sum())).astype(int).tolist()
    parts = [
        placed(draw_synthetic_sample(data_density, each, random), window)
        for (data_density, window), each in zip(found, counts, strict=True)
    ]
    return SyntheticSample(
        np.vstack([part.points for part in parts]), np.vstack([part.slack for part in parts])
    )


def densities_of(state: State) -> list[tuple[DataDensity, Window | None]]:
    """The data density of a state, and those of its charts with their windows."""
    error_model = error_model_of(state)
    if error_model is None or error_model.data_density is None:
        return []
    own: list[tuple[DataDensity, Window | None]] = [(error_model.data_density, None)]
    for chart in state.charts:
        inner = error_model_of(state_of(chart.content))
        if inner is not None and inner.data_density is not None:
            own.append((inner.data_density, chart.window))
    return own


def rows_near(state: State, j: int, units: Array) -> Array:
    """Number of known rows in the cell of each coordinate of an input; end cells hold rows outside."""
    found = np.zeros(units.shape)
    for data_density, window in densities_of(state):
        low, high = (0.0, 1.0) if window is None else window.box[j]
        inside = (units - low) / (high - low)
        is_there = (inside >= 0) & (inside <= 1)
        cells = cells_of(inside.clip(0, 1), data_density.cells)
        found += np.where(is_there, data_density.cell_counts.alone[j, cells], 0)
    return found


def placed(drawn: SyntheticSample, window: Window | None) -> SyntheticSample:
    """Points of a chart's window in the coordinates of the model."""
    if window is None:
        return drawn
    low, high = window.box.T
    return SyntheticSample(low + drawn.points * (high - low), drawn.slack * (high - low))


def with_known_rows(state: State, area: Area) -> Area:
    """A footprint with the estimated share of known rows in it.

    The synthetic sample underestimates dependence, so its share tends to be low; the radial basis functions
    of the memory are concentrated among the rows, so theirs tends to be high. If it is, the mean is taken.
    """
    if densities_of(state) and area.volume == 1:
        return replace(area, known_rows=1.0)
    known = synthetic_sample_of(state)
    if known is None:
        return area
    share = float(area._meets(known.low, known.high).mean())
    return replace(area, known_rows=min((share + max(share, crowding_in(state, area))) / 2, 1.0))


def crowding_in(state: State, area: Footprint) -> float:
    """Share of the known rows in boxes by the model's radial basis functions; 0 without any."""
    pool = state.pooled
    if not isinstance(area, BoxFootprint) or not isinstance(pool, Pool) or not pool.features.radial_bases:
        return 0.0
    rows = [data_density.cell_counts.alone[0].sum() for data_density, _ in densities_of(state)]
    boxes = [window.box_in(area.domain) for window in area.windows]
    found = sum(pool.features.share_in_box(pool.total, *box.T) for box in boxes)
    return float(found * rows[0] / sum(rows))
