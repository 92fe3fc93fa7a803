"""Footprints: the set of points whose prediction an update can change, with the volume of unions of boxes.

Volumes of few boxes are exact (Klee's measure problem). Of many they are estimated by the Monte Carlo union
algorithm of Karp, Luby and Madras (1989), with a bound of Hoeffding (1963).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model import splines
from atlas_splines.model.charts import Window
from atlas_splines.model.checks import check_inputs, check_size, outwards
from atlas_splines.model.immutable import Remembering
from atlas_splines.model.lattice import Domain

__all__ = [
    "EXACTLY_ALL",
    "BoxFootprint",
    "CrossFootprint",
    "Footprint",
    "RestFootprint",
    "Volume",
    "union_volume",
]

Boxes = NDArray[np.float64]  # lowest and highest coordinate of each input, shape (boxes, inputs, 2)


@dataclass(frozen=True)
class VolumeRules:
    """Cost limits of volumes, each some tenths of a second; not benchmarked.

    Attributes
    ----------
    max_ends, ends_per_cut
        Ends of the pieces that a union is cut into for an exact volume, and as many as cost one cut.
    max_comparisons, max_coordinates
        Comparisons of the ends of a box with those of another or with a point, and coordinates of points.
    min_points, max_points
        Random points of an estimate.
    error_probability
        That an estimate is further off than its stated error.
    """

    max_ends: int = 2_000_000
    ends_per_cut: int = 500
    max_comparisons: int = 20_000_000
    max_coordinates: int = 2_000_000
    min_points: int = 100
    max_points: int = 100_000
    error_probability: float = 1e-6


RULES = VolumeRules()


class Volume(NamedTuple):
    """A share of the domain with a bound on its error, 0 if it is exact."""

    size: float
    error: float = 0.0

    def __str__(self) -> str:
        return f"{self.size:.3g}" + (f" ± {self.error:.1g}" if self.error else "")

    def percent(self) -> str:
        """The share in percent."""
        if self.size + self.error < 0.0001:
            return "less than 0.01%"
        return f"{self.size:.2%}" + (f" ± {self.error:.1%}" if self.error else "")


EXACTLY_ALL = Volume(1.0)


def union_volume(boxes: Boxes) -> Volume:
    """Volume of a union of boxes in the unit cube.

    Examples
    --------
    >>> union_volume(np.array([[[0, 0.5], [0, 1]], [[0.25, 0.75], [0, 0.5]]]))
    Volume(size=0.625, error=0.0)
    """
    boxes = boxes[(boxes[:, :, 0] < boxes[:, :, 1]).all(axis=1)]
    if not len(boxes):
        return Volume(0.0)
    order = np.argsort(-box_volumes(boxes), kind="stable")  # large ones first: they contain others
    exact = exact_volume(boxes[order])
    return estimated_volume(boxes[order]) if exact is None else Volume(exact)


def box_volumes(boxes: Boxes) -> NDArray[np.float64]:
    """Volume of each box."""
    return np.asarray(np.prod(boxes[:, :, 1] - boxes[:, :, 0], axis=1))


def exact_volume(boxes: Boxes) -> float | None:
    """Sum of the volumes that each box adds to those before it; None if that is too costly."""
    if len(boxes) ** 2 * boxes.shape[1] > RULES.max_comparisons:
        return None
    total, budget = 0.0, RULES.max_ends
    for k, box in enumerate(boxes):
        pieces = box[None]
        for other in boxes[:k][overlaps(boxes[:k], box)]:
            budget -= RULES.ends_per_cut + (len(pieces) + cuts(pieces, other)) * box.size
            if budget < 0:
                return None
            pieces = outside(pieces, other)
            if not len(pieces):
                break
        total += float(box_volumes(pieces).sum())
    return total


def overlaps(boxes: Boxes, other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which boxes overlap another, of shape (inputs, 2), in a set of positive volume."""
    return np.asarray(((boxes[:, :, 0] < other[:, 1]) & (other[:, 0] < boxes[:, :, 1])).all(axis=1))


def cuts(pieces: Boxes, box: NDArray[np.float64]) -> int:
    """Number of pieces that `outside` cuts off."""
    met = pieces[overlaps(pieces, box)]
    return int((met[:, :, 0] < box[:, 0]).sum() + (met[:, :, 1] > box[:, 1]).sum())


def outside(pieces: Boxes, box: NDArray[np.float64]) -> Boxes:
    """Set difference of pieces and a box, as boxes: the parts below and above are cut off input by input."""
    met = overlaps(pieces, box)
    kept, rest = [pieces[~met]], pieces[met].copy()
    for j, (low, high) in enumerate(box.tolist()):
        for end, edge, protrudes in ((1, low, rest[:, j, 0] < low), (0, high, rest[:, j, 1] > high)):
            if protrudes.any():
                cut = rest[protrudes].copy()
                cut[:, j, end] = edge
                kept.append(cut)
                rest[protrudes, j, 1 - end] = edge
    return np.concatenate(kept)


def estimated_volume(boxes: Boxes) -> Volume:
    """Monte Carlo estimate of the volume with Hoeffding's bound.

    If the boxes are large, it is the share of uniform points of the cube that lie in a box. Otherwise points
    are drawn from random boxes: the mean of 1 over the number of boxes at a point is the volume of the union
    over the sum of all volumes.
    """
    volumes, random = box_volumes(boxes), np.random.default_rng(0)
    whole = float(min(volumes.sum(), 1.0))
    if whole == 0:  # too small for a float
        return Volume(0.0)
    most = min(
        RULES.max_points,
        RULES.max_coordinates // boxes.shape[1],
        RULES.max_comparisons // boxes[:, :, 0].size,
    )
    samples = max(most, RULES.min_points)
    points = random.random((samples, boxes.shape[1]))
    if whole == 1:
        mean = float((counts(boxes, points) > 0).mean())
    else:
        low, high = boxes[random.choice(len(boxes), samples, p=volumes / whole)].transpose(2, 0, 1)
        found = counts(boxes, (low + (high - low) * points).clip(low, high))
        mean = float((1 / found).mean())
    error = float(np.sqrt(np.log(2 / RULES.error_probability) / (2 * samples)))
    least = max(whole * (mean - error), float(volumes.max()))
    greatest = max(whole * min(mean + error, 1.0), least)
    return Volume((least + greatest) / 2, (greatest - least) / 2)


def counts(boxes: Boxes, points: NDArray[np.float64]) -> NDArray[np.intp]:
    """Number of boxes that each point lies in."""
    found = np.zeros(len(points), np.intp)
    for low, high in boxes.transpose(0, 2, 1):
        found += ((points >= low) & (points <= high)).all(axis=1)
    return found


Interval = tuple[float, float]
Array = NDArray[np.float64]

# Significant digits of a footprint's ends, relative to the width of the domain.
DIGITS = 4


@dataclass(frozen=True, eq=False)
class Footprint(Remembering, ABC):
    """The set of points whose prediction an update can change; all others stay the same bit for bit.

    Attributes
    ----------
    domain
        The model's domain at the time, shape (inputs, 2).
    dtype
        Dtype of the model: points are rounded to it before they are located.
    known_rows
        Estimated share of the rows known before the update that lie in it; None without a data density.
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
        """Fraction of the domain that is in the footprint; `share` has its error where it is an estimate."""
        return self.share.size

    @property
    @abstractmethod
    def share(self) -> Volume:
        """The volume and its error: of many boxes that overlap in many inputs it is an estimate."""

    @abstractmethod
    def _contains(self, points: NDArray[np.floating]) -> NDArray[np.bool_]: ...

    @abstractmethod
    def _meets(self, low: Array, high: Array) -> NDArray[np.bool_]:
        """Whether it meets each box; corners have shape (boxes, inputs)."""

    @abstractmethod
    def _intervals(self, input: int) -> list[Interval]: ...

    @property
    def _shares(self) -> str:
        """The share of the known rows and that of the domain."""
        known = "" if self.known_rows is None else f"{self.known_rows:.2g} of the known rows, "
        return f"{known}{self.share} of the domain"

    def _reach(self, input: int) -> list[Interval]:
        """The intervals of one input, widened by the rounding of points to the dtype of the model."""
        step = 4 * float(np.finfo(self.dtype).eps)
        return merge(
            (low - step * max(1, abs(low)), high + step * max(1, abs(high)))
            for low, high in self._intervals(input)
        )

    def _lines(self, names: Iterable[str]) -> list[str]:
        """One line for each name, with ends rounded outwards."""
        lines = []
        for j, name in enumerate(names):
            low, high = self.domain[j].tolist()
            parts = [" to ".join(outwards(part, high - low, DIGITS)) for part in self._reach(j)]
            lines.append(f"  {name} {' and '.join(parts) or 'nowhere'}")
        return lines

    def _describe(self, joint: str) -> str:
        """The representation, with a line for each of the first eight inputs."""
        lines = self._lines(f"input {j}:" for j in range(min(self.inputs, 8)))
        if self.inputs > 8:
            lines.append(f"  and {self.inputs - 8} more inputs")
        return f"<{joint}, {self._shares}\n" + "\n".join(lines) + ">"


@dataclass(frozen=True, eq=False)
class BoxFootprint(Footprint):
    """The union of the windows of charts.

    Attributes
    ----------
    windows
        The window of each chart.
    """

    windows: tuple[Window, ...]

    @cached_property
    def share(self) -> Volume:
        """Volume of the union."""
        return union_volume(shares_of(self.domain, [window.box for window in self.windows]))

    def _contains(self, points: NDArray[np.floating]) -> NDArray[np.bool_]:
        return np.logical_or.reduce([window.contains(points) for window in self.windows])

    def _meets(self, low: Array, high: Array) -> NDArray[np.bool_]:
        met = [
            ((high >= box[:, 0]) & (low <= box[:, 1])).all(axis=1) for box in (f.box for f in self.windows)
        ]
        return np.logical_or.reduce(met)

    def _intervals(self, input: int) -> list[Interval]:
        return merge(tuple(window.box[input].tolist()) for window in self.windows)

    def __repr__(self) -> str:
        count = len(self.windows)
        return self._describe("Footprint: a box" if count == 1 else f"Footprint: {count} boxes")


@dataclass(frozen=True, eq=False)
class RestFootprint(Footprint):
    """Everything outside the cores of charts that replace the model: what pooling can change.

    Attributes
    ----------
    windows
        The windows of these charts.
    """

    windows: tuple[Window, ...]

    @cached_property
    def share(self) -> Volume:
        """One minus the volume of the charts' cores."""
        if not self.windows:
            return EXACTLY_ALL
        cores = union_volume(shares_of(self.domain, [window.core_in(self.domain) for window in self.windows]))
        return Volume(1 - cores.size, cores.error)

    def _contains(self, points: NDArray[np.floating]) -> NDArray[np.bool_]:
        found = np.ones(len(points), np.bool_)
        for window in self.windows:
            found &= window.membership(points) != 1
        return found

    def _meets(self, low: Array, high: Array) -> NDArray[np.bool_]:
        met = np.ones(len(low), np.bool_)
        for core in (window.core_in(self.domain) for window in self.windows):
            met &= ~((low >= core[:, 0]) & (high <= core[:, 1])).all(axis=1)
        return met

    def _intervals(self, input: int) -> list[Interval]:
        low, high = self.domain[input].tolist()
        return [(low, high)]

    def __repr__(self) -> str:
        count = len(self.windows)
        if not count:
            return "<Footprint: everything>"
        charts = f"{count} chart{'s' if count > 1 else ''}"
        return f"<Footprint: everything outside {charts}, {self._shares}>"


@dataclass(frozen=True, eq=False)
class CrossFootprint(Footprint):
    """All points that share a basis function with the data along any input: what plain training can change.

    Attributes
    ----------
    density
        The coarsest density that is trained.
    touched
        Cells of that density, for each input.
    """

    density: int
    touched: tuple[NDArray[np.intp], ...]

    @cached_property
    def share(self) -> Volume:
        """Exact volume: one minus the share of points without such a coordinate."""
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
    """Boxes in coordinates in which the domain is the unit cube, shape (boxes, inputs, 2)."""
    return np.asarray((np.stack(boxes) - domain[:, :1]) / np.diff(domain))
