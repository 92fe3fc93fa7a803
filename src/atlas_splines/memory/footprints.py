"""Footprints: the points whose prediction an update can change, known before any training.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.core import splines
from atlas_splines.core.charts import Fence
from atlas_splines.core.checks import check_inputs, check_size
from atlas_splines.core.lattice import Domain
from atlas_splines.core.remembering import Remembering
from atlas_splines.core.rounding import outwards
from atlas_splines.memory.volumes import EXACTLY_ALL, Volume, union_volume

__all__ = ["BoxFootprint", "CrossFootprint", "Footprint", "RestFootprint"]

Interval = tuple[float, float]
Array = NDArray[np.float64]

# Digits of the domain's width in the texts of footprints.
DIGITS = 4


@dataclass(frozen=True, eq=False)
class Footprint(Remembering, ABC):
    """The set of inputs whose prediction an update can change; outside it every bit stays.

    Attributes
    ----------
    domain
        The model's domain at the time, shape (inputs, 2).
    dtype
        Dtype of the model: points are rounded to it before they are located.
    known_rows
        Share of the rows known before the update that lie in it, as the counts of where rows have been tell;
        None if they were not counted.
    """

    domain: Domain
    dtype: np.dtype[np.floating]
    known_rows: float | None = field(default=None, kw_only=True)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.domain)

    def contains(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Whether the prediction at each row of X can change.

        Examples
        --------
        >>> from atlas_splines import Atlas, footprint
        >>> footprint(Atlas(inputs=2), [[0.1, 0.1], [0.3, 0.3]]).contains([[0.2, 0.2], [0.2, 0.8]])
        array([ True, False])
        """
        return self._contains(check_inputs(X, self.domain, self.dtype))

    def intervals(self, input: int) -> list[Interval]:
        """Parts of one input that the footprint projects to, as sorted (low, high).

        Examples
        --------
        >>> from atlas_splines import Atlas, footprint
        >>> [(low, high)] = footprint(Atlas(inputs=2), [[0.1, 0.1], [0.3, 0.3]]).intervals(0)
        >>> low < 0.1 and 0.3 < high
        True
        """
        return self._intervals(check_size("input", input, least=0, most=self.inputs - 1))

    @property
    def volume(self) -> float:
        """Fraction of the domain that is in the footprint; where it is an estimate, `share` says how good."""
        return self.share.size

    @property
    @abstractmethod
    def share(self) -> Volume:
        """The volume, and how far off it can be: many boxes that overlap in many inputs are estimated."""

    @abstractmethod
    def _contains(self, points: NDArray[np.floating]) -> NDArray[np.bool_]: ...

    @abstractmethod
    def _meets(self, low: Array, high: Array) -> NDArray[np.bool_]:
        """Whether it has a point of each box, whose corners have shape (boxes, inputs)."""

    @abstractmethod
    def _intervals(self, input: int) -> list[Interval]: ...

    @property
    def _shares(self) -> str:
        """The share of the known rows, which matters most, and that of the domain."""
        known = "" if self.known_rows is None else f"{self.known_rows:.2g} of the known rows, "
        return f"{known}{self.share} of the domain"

    def _reach(self, input: int) -> list[Interval]:
        """The intervals of one input with all points that are rounded into them on their way to the model."""
        step = 4 * float(np.finfo(self.dtype).eps)
        return merge(
            (low - step * max(1, abs(low)), high + step * max(1, abs(high)))
            for low, high in self._intervals(input)
        )

    def _lines(self, names: Iterable[str]) -> list[str]:
        """One line for each of the first inputs, with intervals that are not narrower than they are."""
        lines = []
        for j, name in enumerate(names):
            low, high = self.domain[j].tolist()
            parts = [" to ".join(outwards(part, high - low, DIGITS)) for part in self._reach(j)]
            lines.append(f"  {name} {' and '.join(parts) or 'nowhere'}")
        return lines

    def _describe(self, joint: str) -> str:
        """One line for each input, for the first few inputs."""
        lines = self._lines(f"input {j}:" for j in range(min(self.inputs, 8)))
        if self.inputs > 8:
            lines.append(f"  and {self.inputs - 8} more inputs")
        return f"<{joint}, {self._shares}\n" + "\n".join(lines) + ">"


@dataclass(frozen=True, eq=False)
class BoxFootprint(Footprint):
    """The union of the boxes of some charts.

    Attributes
    ----------
    fences
        The fence of each chart.
    """

    fences: tuple[Fence, ...]

    @cached_property
    def share(self) -> Volume:
        """Volume of the union."""
        return union_volume(shares_of(self.domain, [fence.box for fence in self.fences]))

    def _contains(self, points: NDArray[np.floating]) -> NDArray[np.bool_]:
        return np.logical_or.reduce([fence.contains(points) for fence in self.fences])

    def _meets(self, low: Array, high: Array) -> NDArray[np.bool_]:
        met = [((high >= box[:, 0]) & (low <= box[:, 1])).all(axis=1) for box in (f.box for f in self.fences)]
        return np.logical_or.reduce(met)

    def _intervals(self, input: int) -> list[Interval]:
        return merge(tuple(fence.box[input].tolist()) for fence in self.fences)

    def __repr__(self) -> str:
        count = len(self.fences)
        return self._describe("Footprint: a box" if count == 1 else f"Footprint: {count} boxes")


@dataclass(frozen=True, eq=False)
class RestFootprint(Footprint):
    """Everything but where some charts speak alone: what pooling can change.

    Attributes
    ----------
    fences
        The fences of these charts.
    """

    fences: tuple[Fence, ...]

    @cached_property
    def share(self) -> Volume:
        """One minus the volume of the charts' cores."""
        if not self.fences:
            return EXACTLY_ALL
        cores = union_volume(shares_of(self.domain, [fence.core_in(self.domain) for fence in self.fences]))
        return Volume(1 - cores.size, cores.error)

    def _contains(self, points: NDArray[np.floating]) -> NDArray[np.bool_]:
        found = np.ones(len(points), np.bool_)
        for fence in self.fences:
            found &= fence.window(points) != 1
        return found

    def _meets(self, low: Array, high: Array) -> NDArray[np.bool_]:
        met = np.ones(len(low), np.bool_)
        for core in (fence.core_in(self.domain) for fence in self.fences):
            met &= ~((low >= core[:, 0]) & (high <= core[:, 1])).all(axis=1)
        return met

    def _intervals(self, input: int) -> list[Interval]:
        low, high = self.domain[input].tolist()
        return [(low, high)]

    def __repr__(self) -> str:
        count = len(self.fences)
        if not count:
            return "<Footprint: everything>"
        charts = f"{count} chart{'s' if count > 1 else ''}"
        return f"<Footprint: everything outside {charts}, {self._shares}>"


@dataclass(frozen=True, eq=False)
class CrossFootprint(Footprint):
    """All points that share a coordinate's basis function with the data: what plain training can change.

    Attributes
    ----------
    density
        The coarsest density that is trained.
    touched
        Its cells that such a coordinate lies in, for each input.
    """

    density: int
    touched: tuple[NDArray[np.intp], ...]

    @cached_property
    def share(self) -> Volume:
        """Exact volume: one minus the share of points that miss the data in every coordinate."""
        lengths = [sum(high - low for low, high in self._intervals(j)) for j in range(self.inputs)]
        return Volume(float(1 - np.prod(1 - lengths / np.diff(self.domain)[:, 0])))

    def _contains(self, points: NDArray[np.floating]) -> NDArray[np.bool_]:
        cells, _ = splines.active(points, self.density)
        return np.logical_or.reduce([np.isin(cells[:, j], self.touched[j]) for j in range(self.inputs)])

    def _meets(self, low: Array, high: Array) -> NDArray[np.bool_]:
        met = np.zeros(len(low), np.bool_)
        for j in range(self.inputs):
            for least, greatest in self._intervals(j):
                met |= (high[:, j] >= least) & (low[:, j] <= greatest)
        return met

    def _intervals(self, input: int) -> list[Interval]:
        edges = (self.touched[input][:, None] + np.array([0, 1])) / splines.cell_count(self.density)
        low, high = np.clip(edges, *self.domain[input]).T  # (touched,)
        return merge(zip(low[low < high].tolist(), high[low < high].tolist(), strict=True))

    def __repr__(self) -> str:
        if self.volume == 1:
            return "<Footprint: everything>"
        return self._describe("Footprint: a cross, every point with one of these coordinates")


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Join intervals that overlap or meet.

    Examples
    --------
    >>> merge([(0.5, 0.7), (0.1, 0.2), (0.2, 0.3)])
    [(0.1, 0.3), (0.5, 0.7)]
    """
    merged: list[Interval] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def shares_of(domain: Domain, boxes: Sequence[Domain]) -> NDArray[np.float64]:
    """Boxes in coordinates where the domain is the unit cube, shape (boxes, inputs, 2)."""
    return np.asarray((np.stack(boxes) - domain[:, :1]) / np.diff(domain))
