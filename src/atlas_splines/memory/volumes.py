"""Volumes of unions of boxes: exact where that is cheap, otherwise estimates that say how far off they are.

Nothing here takes time or memory that grows faster than the boxes themselves, beyond a fixed amount of work.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXACTLY_ALL", "Volume", "union_volume"]

Boxes = NDArray[np.float64]  # lowest and highest coordinate of each input, shape (boxes, inputs, 2)

MOST_ENDS = 2_000_000  # of the pieces that a union is cut into to be exact
ENDS_A_CUT = 500  # that take as long as a cut does anyway
MOST_COMPARISONS = 20_000_000  # of the ends of a box with those of another, or with a point
MOST_COORDINATES = 2_000_000  # of the random points of an estimate
LEAST_POINTS, MOST_POINTS = 100, 100_000
DOUBT = 1e-6  # probability that an estimate is further off than it says


class Volume(NamedTuple):
    """A share of the domain, and how far off it can be: nothing if it is exact."""

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
    order = np.argsort(-box_volumes(boxes), kind="stable")  # large ones first: they swallow others whole
    exact = exact_volume(boxes[order])
    return estimated_volume(boxes[order]) if exact is None else Volume(exact)


def box_volumes(boxes: Boxes) -> NDArray[np.float64]:
    """Volume of each box."""
    return np.asarray(np.prod(boxes[:, :, 1] - boxes[:, :, 0], axis=1))


def exact_volume(boxes: Boxes) -> float | None:
    """Volume of what each box adds to those before it; None if that is much work."""
    if len(boxes) ** 2 * boxes.shape[1] > MOST_COMPARISONS:
        return None
    total, budget = 0.0, MOST_ENDS
    for k, box in enumerate(boxes):
        pieces = box[None]
        for other in boxes[:k][overlaps(boxes[:k], box)]:
            budget -= ENDS_A_CUT + (len(pieces) + cuts(pieces, other)) * box.size
            if budget < 0:
                return None
            pieces = outside(pieces, other)
            if not len(pieces):
                break
        total += float(box_volumes(pieces).sum())
    return total


def overlaps(boxes: Boxes, other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which boxes have a volume in common with another, shape (inputs, 2)."""
    return np.asarray(((boxes[:, :, 0] < other[:, 1]) & (other[:, 0] < boxes[:, :, 1])).all(axis=1))


def cuts(pieces: Boxes, box: NDArray[np.float64]) -> int:
    """How many pieces `outside` cuts off."""
    met = pieces[overlaps(pieces, box)]
    return int((met[:, :, 0] < box[:, 0]).sum() + (met[:, :, 1] > box[:, 1]).sum())


def outside(pieces: Boxes, box: NDArray[np.float64]) -> Boxes:
    """Pieces cut so that none meets a box any more.

    Along one input after the other, what sticks out below and above is cut off; what is left lies in the box.
    """
    met = overlaps(pieces, box)
    kept, rest = [pieces[~met]], pieces[met].copy()
    for j, (low, high) in enumerate(box.tolist()):
        for end, edge, sticks_out in ((1, low, rest[:, j, 0] < low), (0, high, rest[:, j, 1] > high)):
            if sticks_out.any():
                cut = rest[sticks_out].copy()
                cut[:, j, end] = edge
                kept.append(cut)
                rest[sticks_out, j, 1 - end] = edge
    return np.concatenate(kept)


def estimated_volume(boxes: Boxes) -> Volume:
    """Volume as random points tell it, with Hoeffding's bound on how far off it is.

    If the boxes are large, these are points of the whole cube, and the share that lies in a box counts.
    Otherwise they are points of random boxes, and one over the number of boxes at a point counts: on average
    that is the volume of the union over the sum of all volumes.
    """
    volumes, random = box_volumes(boxes), np.random.default_rng(0)
    whole = float(min(volumes.sum(), 1.0))
    if whole == 0:  # too small for a float
        return Volume(0.0)
    most = min(MOST_POINTS, MOST_COORDINATES // boxes.shape[1], MOST_COMPARISONS // boxes[:, :, 0].size)
    samples = max(most, LEAST_POINTS)
    points = random.random((samples, boxes.shape[1]))
    if whole == 1:
        mean = float((counts(boxes, points) > 0).mean())
    else:
        low, high = boxes[random.choice(len(boxes), samples, p=volumes / whole)].transpose(2, 0, 1)
        found = counts(boxes, (low + (high - low) * points).clip(low, high))
        mean = float((1 / found).mean())
    error = float(np.sqrt(np.log(2 / DOUBT) / (2 * samples)))
    least = max(whole * (mean - error), float(volumes.max()))
    greatest = max(whole * min(mean + error, 1.0), least)
    return Volume((least + greatest) / 2, (greatest - least) / 2)


def counts(boxes: Boxes, points: NDArray[np.float64]) -> NDArray[np.intp]:
    """Number of boxes that each point lies in."""
    found = np.zeros(len(points), np.intp)
    for low, high in boxes.transpose(0, 2, 1):
        found += ((points >= low) & (points <= high)).all(axis=1)
    return found
