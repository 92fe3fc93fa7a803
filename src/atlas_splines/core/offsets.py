"""Offsets: what is added to outputs where an input has exactly one of some coordinates.

A level of a category is a coordinate of one input, a multiple of 2⁻²². As float32 it is exact, and so its
bits are the name of the level, in any process and after any number of copies. Other coordinates of such an
input are no levels: where categories have inputs of their own, only those that came later are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    *("COORDINATE_BITS", "LEVEL_STEPS", "NO_LEVEL", "Keys", "Offsets"),
    *("coordinates_of", "find_keys", "inputs_of", "level_keys"),
]

Keys = NDArray[np.int64]

COORDINATE_BITS = 32  # of a key, below the number of the input
LEVEL_STEPS = 2**22  # of the unit interval, on which levels lie
NO_LEVEL = -1  # key of a coordinate between them


@dataclass(frozen=True, eq=False)
class Offsets:
    """Offsets of outputs by level, equation (44); a level that is not among the keys has none.

    Attributes
    ----------
    keys
        Levels, rising, shape (levels,): the number of an input and the bits of a coordinate of it.
    values
        What is added to each output, in the dtype of the model, shape (levels, outputs).

    Examples
    --------
    >>> keys = level_keys(np.array([[0.25]]), [0])[0]
    >>> offsets, out = Offsets(keys, np.array([[3.0]])), np.zeros((2, 1))
    >>> offsets.add_to(np.array([[0.25], [0.26]]), out)
    >>> out
    array([[3.],
           [0.]])
    """

    keys: Keys
    values: NDArray[np.floating]

    def add_to(self, points: NDArray[np.floating], out: NDArray[np.floating]) -> None:
        """Add the offsets of points, shape (rows, inputs), to their outputs, shape (rows, outputs)."""
        for column in level_keys(points, inputs_of(self.keys)).T:
            places, known = find_keys(self.keys, column)
            out[known] += self.values[places[known]]


def level_keys(points: NDArray[np.floating], inputs: Sequence[int]) -> Keys:
    """Key of the level that each point has along each of some inputs, shape (points, inputs); −1 of none.

    Examples
    --------
    >>> level_keys(np.array([[0.0, 0.5], [-0.0, 0.1]]), [1, 0]) >> 32
    array([[ 1,  0],
           [-1,  0]])
    """
    exact = points[:, list(inputs)].astype(np.float32) + np.float32(0)  # there is one zero only
    keys = exact.view(np.uint32).astype(np.int64) | np.array(inputs, np.int64) << COORDINATE_BITS
    steps = exact.astype(np.float64) * LEVEL_STEPS
    return np.where(steps == np.rint(steps), keys, NO_LEVEL)


def inputs_of(keys: Keys) -> list[int]:
    """Inputs that keys belong to, rising."""
    return np.unique(keys >> COORDINATE_BITS).tolist()


def coordinates_of(keys: Keys) -> NDArray[np.float32]:
    """Coordinates that keys stand for.

    Examples
    --------
    >>> coordinates_of(level_keys(np.array([[0.5]]), [0])[0])
    array([0.5], dtype=float32)
    """
    return (keys & (2**COORDINATE_BITS - 1)).astype(np.uint32).view(np.float32)


def find_keys(known: Keys, keys: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Places of keys among rising ones, and whether they are there; the place of one that is not is 0."""
    places = np.searchsorted(known, keys)
    places[places == len(known)] = 0
    found = known[places] == keys if len(known) else np.zeros(keys.shape, np.bool_)
    return np.where(found, places, 0), found
