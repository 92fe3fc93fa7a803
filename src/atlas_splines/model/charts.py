"""Charts: local models in a partition of unity, each with compact support; exactly zero outside its box.

As in partition-of-unity methods (Babuška and Melenk 1997), a window of products of B-splines blends a local
model with what lies below it. Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model import kernels, splines
from atlas_splines.model.lattice import Domain, cell_range

__all__ = [
    "Chart",
    "Window",
    "chart_densities",
    "chart_layout",
    "chart_table",
    "on_top_of",
    "overlap",
    "pack",
    "visible_charts",
    "window_around",
]

if TYPE_CHECKING:
    from atlas_splines.model.atlas import Atlas

Points = NDArray[np.floating]

UNIT = np.array([[0.0, 1.0]])  # the unit cube as a domain, for any number of inputs


@dataclass(frozen=True, eq=False)
class Window:
    """A window over the domain: one on its data, zero outside a box, smooth in between, equation (22).

    Attributes
    ----------
    density
        Density of the lattice of the window's basis functions.
    first, last
        Zero-based range of the basis functions that are open, for each input, shape (inputs,).
    domain
        The model's domain when the window was made, shape (inputs, 2). It fixes the local coordinates: if the
        model is extended later, they stay, and the window decays to zero beyond the old face.
    """

    density: int
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    domain: Domain = field(default_factory=lambda: UNIT)

    @property
    def cells(self) -> NDArray[np.intp]:
        """First and last cell the window reaches, in the domain or not, for each input: shape (inputs, 2)."""
        return np.stack([self.first - 3, self.last], axis=1).astype(np.intp)

    @property
    def box(self) -> Domain:
        """Lowest and highest coordinate the window reached when it was made: shape (inputs, 2)."""
        return self.box_in(self.domain)

    def box_in(self, domain: Domain) -> Domain:
        """Lowest and highest coordinate the window reaches in a domain, for each input: shape (inputs, 2)."""
        edges = (self.cells + np.array([0, 1])) / splines.cell_count(self.density)
        return np.clip(edges, domain[:, :1], domain[:, 1:])

    def core_in(self, domain: Domain) -> Domain:
        """Lowest and highest coordinate where the window is one, in a domain, for each input: (inputs, 2)."""
        edges = np.stack([self.first, self.last - 2], axis=1) / splines.cell_count(self.density)
        return np.clip(edges, domain[:, :1], np.maximum(domain[:, 1:], edges[:, :1]))

    def spanning(self, inputs: NDArray[np.intp], domain: Domain, dtype: np.dtype[np.floating]) -> Window:
        """The window that is constant along some inputs, over all of a domain."""
        if not inputs.size:
            return self
        low, high = cell_range(domain, self.density, dtype).T
        first, last = self.first.copy(), self.last.copy()
        first[inputs], last[inputs] = low[inputs], high[inputs] + splines.ACTIVE - 1
        return replace(self, first=first, last=last)

    @property
    def volume(self) -> float:
        """Fraction of the domain that the window reached when it was made."""
        return float(np.prod(np.diff(self.box, axis=1) / np.diff(self.domain, axis=1)))

    def contains(self, points: Points) -> NDArray[np.bool_]:
        """Whether each point, in the model's dtype, is in the box: outside it the window is exactly zero."""
        cells, _ = splines.active(points, self.density)
        low, high = self.cells.T
        return ((cells >= low) & (cells <= high)).all(axis=1)

    def membership(self, points: Points) -> NDArray[np.floating]:
        """Product over the inputs of the open basis functions' weights, equation (22): shape (points,)."""
        cells, weights = splines.active(points, self.density)
        functions = cells[:, :, None] + np.arange(splines.ACTIVE)
        is_open = (functions >= self.first[:, None]) & (functions <= self.last[:, None])
        # where all four are open they sum to one, which rounding must not change
        return np.where(is_open.all(axis=2), 1, np.where(is_open, weights, 0).sum(axis=2)).prod(axis=1)

    def to_local(self, points: Points) -> Points:
        """Coordinates in which the box is the unit cube."""
        origin, scale = self.local_map(points.dtype)
        return np.clip((points - origin) * scale, 0, 1)

    def local_map(self, dtype: np.dtype[np.floating]) -> tuple[Points, Points]:
        """Origin and scale of the local coordinates, each of shape (inputs,)."""
        low, high = self.box.T
        return low.astype(dtype), (1 / (high - low)).astype(dtype)


def overlap(box: Domain, other: Domain) -> bool:
    """Whether two boxes (inputs, 2) have a volume in common."""
    return bool(((box[:, 0] < other[:, 1]) & (other[:, 0] < box[:, 1])).all())


def on_top_of(update: int, charts: Sequence[Chart], domain: Domain) -> list[int]:
    """Numbers of later updates whose charts are corrections of those of an update, oldest first."""
    own = [chart.window.box_in(domain) for chart in charts if chart.update == update]
    return sorted(
        {
            chart.update
            for chart in charts
            if chart.update > update
            and not chart.replaces
            and any(overlap(chart.window.box_in(domain), box) for box in own)
        }
    )


def window_around(points: Points, density: int, cover: str, domain: Domain = UNIT) -> Window:
    """Window on the lattice of a density around the bounding box of some points.

    "touch" opens every function whose support intersects the bounding box: the window is one on all of it,
    and ends three cells beyond. "inside" opens only functions whose support lies within the cells of the
    bounding box: nothing changes outside them, and the window decays towards the rim.
    """
    cells, _ = splines.active(points, density)
    low, high = cells.min(axis=0), cells.max(axis=0)
    if cover == "touch":
        return Window(density, low.astype(np.int32), (high + 3).astype(np.int32), domain)
    # a support that leaves the domain has no cells there to respect
    (lowest, highest), _ = splines.active(domain.T.astype(points.dtype), density)
    first = np.where(low == lowest, low, low + 3)
    last = np.where(high == highest, high + 3, high)
    if (first > last).any():
        column = int(np.argmax(first > last))
        raise ValueError(
            f"cover='inside' leaves nothing open along input {column}, where the data spans "
            f"{np.ptp(points[:, column]):.3g}; use cover='touch'"
        )
    return Window(density, first.astype(np.int32), last.astype(np.int32), domain)


@dataclass(frozen=True, eq=False)
class Chart:
    """A window and the model inside it, in the window's local coordinates.

    Attributes
    ----------
    update
        Identifier of the update that made it.
    window
        Its weight at each point.
    content
        The model inside, on the unit cube of the local coordinates.
    size
        What its outputs are multiplied by, shape (outputs,).
    replaces
        Whether it replaces the output of the model and older charts, or is added to it.
    """

    update: int
    window: Window
    content: Atlas
    size: NDArray[np.floating]
    replaces: bool


def chart_table(chart: Chart) -> NDArray[np.floating]:
    """Coefficients of a chart's content."""
    return chart.content._state.table


def chart_layout(chart: Chart) -> kernels.Layout:
    """Layout of a chart's content for the kernels, with the chart's size in its slopes."""
    layout = chart.content._state.layout
    width = 2 * layout.terms + 1
    slope = layout.slope.copy()
    slope[: layout.outputs * width] *= np.repeat(chart.size, width)
    return layout._replace(slope=slope)


def chart_densities(chart: Chart) -> NDArray[np.int64]:
    """Densities of a chart's content that have coefficients."""
    return chart.content._state.filled_densities(list(range(chart.content.density + 1)))


def visible_charts(charts: Sequence[Chart], domain: Domain) -> list[Chart]:
    """Charts that affect predictions: not those whose box lies where a newer chart replaces them wholly."""
    if not charts:
        return []
    low, high = np.stack([chart.window.box_in(domain).T for chart in charts], axis=1)  # (charts, inputs)
    first, last = np.stack([chart.window.core_in(domain).T for chart in charts], axis=1)
    alone = np.array([chart.replaces for chart in charts])
    hidden = (  # all newer charts at once: pair by pair, a file full of charts took minutes
        (alone[k + 1 :] & ((first[k + 1 :] <= low[k]) & (high[k] <= last[k + 1 :])).all(axis=1)).any()
        for k in range(len(charts))
    )
    return [chart for chart, is_hidden in zip(charts, hidden, strict=True) if not is_hidden]


def within(box: Domain, other: Domain) -> bool:
    """Whether a box (inputs, 2) lies in another."""
    return bool((box[:, 0] >= other[:, 0]).all() and (box[:, 1] <= other[:, 1]).all())


def pack(charts: Sequence[Chart], domain: Domain = UNIT) -> kernels.Charts:
    """Lay charts out for the kernels, with an index that finds the charts near a point of the domain."""
    tables = [chart_table(chart) for chart in charts]
    layouts = [chart_layout(chart) for chart in charts]
    densities = [chart_densities(chart) for chart in charts]
    dtype, inputs = tables[0].dtype, charts[0].window.first.size
    low, high = np.broadcast_to(domain, (inputs, 2)).T
    buckets = kernels.BUCKETS / (high - low)
    maps = [chart.window.local_map(dtype) for chart in charts]
    return kernels.Charts(
        index=_index([(chart.window.box_in(domain).T - low) * buckets for chart in charts]),
        low=low.astype(dtype),
        buckets=buckets.astype(dtype),
        window=np.array([chart.window.density for chart in charts], np.int64),
        first=np.stack([chart.window.first for chart in charts]),
        last=np.stack([chart.window.last for chart in charts]),
        origin=np.stack([origin for origin, _ in maps]),
        scale=np.stack([scale for _, scale in maps]),
        replaces=np.array([chart.replaces for chart in charts], dtype),
        terms=np.array([layout.terms for layout in layouts], np.int64),
        table=np.concatenate([table.ravel() for table in tables]),
        table_start=_starts([table.size for table in tables]),
        slope=np.concatenate([*(layout.slope for layout in layouts), np.zeros(kernels.LANES, dtype)]),
        slope_start=_starts([layout.slope.size for layout in layouts]),
        densities=np.concatenate(densities),
        density_start=_starts([found.size for found in densities]),
    )


def _starts(sizes: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _index(boxes: list[NDArray[np.float64]]) -> NDArray[np.uint64]:
    """Bits of the boxes that may reach each bucket of each input, shape (inputs, buckets, words)."""
    # boxes (2, inputs) each, in buckets
    words = -(-len(boxes) // 64)
    index = np.zeros((boxes[0].shape[1], kernels.BUCKETS, words), np.uint64)
    for k, box in enumerate(boxes):
        # one bucket more on either side, so that rounding never hides a chart
        buckets = np.floor(box.T).astype(int) + np.array([-1, 1])
        for j, (low, high) in enumerate(buckets):
            index[j, max(low, 0) : high + 1, k // 64] |= np.uint64(1 << (k % 64))
    return index
