"""Later rows: what a model predicts beyond the last moment that it knows.

Where rows are sorted by a clock (a date, a running number), those to come lie beyond its end. Leave-one-out
errors say little of these, since the neighbours of a row in time resemble it: a model that was chosen by
errors on blocks of neighbouring rows takes over there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from atlas_splines.core.state import State

__all__ = ["STRAIGHT", "Later", "levelled"]

Array = NDArray[np.floating]

STRAIGHT = 0.75  # widths of the domain over which a slope goes on before it levels off at one width


@dataclass(frozen=True, eq=False)
class Later:
    """The model beyond the end of any of some clocks.

    Attributes
    ----------
    clocks
        Inputs that only rise from row to row, or only fall, shape (clocks,).
    signs
        1 for a clock that rises and −1 for one that falls, shape (clocks,).
    ends
        Coordinate of the last known row along each clock, shape (clocks,), in float32.
    state
        What predicts there: a state without charts.
    slopes
        Of the linear part of that state along each input, shape (inputs, outputs). Beyond the domain it goes
        on by these slopes, and levels off one width away.
    """

    clocks: NDArray[np.intp]
    signs: NDArray[np.int8]
    ends: NDArray[np.float32]
    state: State
    slopes: NDArray[np.float32]

    def includes(self, points: Array) -> NDArray[np.bool_]:
        """Which points, shape (rows, inputs), lie beyond the end of a clock."""
        beyond = (points[:, self.clocks].astype(np.float32) - self.ends) * self.signs > 0
        return np.asarray(beyond.any(axis=1))

    def continued(self, points: Array) -> NDArray[np.float64]:
        """What the slopes add at points beyond the unit cube, shape (rows, outputs)."""
        beyond = points - points.clip(0, 1)
        change = np.sign(beyond) * levelled(np.abs(beyond)) @ self.slopes.astype(np.float64)
        return np.where(self.includes(points)[:, None], change, 0.0)

    @property
    def parts(self) -> tuple[NDArray[np.generic], ...]:
        """Everything besides the state, for a fingerprint."""
        return (self.clocks, self.signs, self.ends, self.slopes)

    def scaled(self, share: float) -> Later:
        """The same times a number: the slopes; the state is to be scaled by its owner."""
        return replace(self, slopes=np.float32(share) * self.slopes)


def levelled(beyond: Array) -> NDArray[np.float64]:
    """Distances that go straight on at first and level off at 1, without a kink.

    Examples
    --------
    >>> levelled(np.array([0.5, 1.0, 2.0, 99.0]))
    array([0.5   , 0.9375, 1.    , 1.    ])
    """
    near = np.minimum(beyond, 2 - STRAIGHT)
    return np.asarray(near - np.maximum(near - STRAIGHT, 0) ** 2 / (4 * (1 - STRAIGHT)))
