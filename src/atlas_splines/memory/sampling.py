"""Sampling: random points of the domain, which a model labels by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.lattice import Domain

__all__ = ["points_in"]


def points_in(box: Domain, rows: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Random points of a box.

    Examples
    --------
    >>> points_in(np.array([[0.0, 1.0], [5.0, 6.0]]), 10, np.random.default_rng(0)).shape
    (10, 2)
    """
    low, high = box.T
    return low + (high - low) * random.random((rows, low.size))
