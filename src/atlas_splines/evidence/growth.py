"""Growth: more bumps where rows come to lie that none of a shape reaches, without the rows before.

Rows before lie around the centres that are there: on the grid of statistics they give such a bump nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.evidence.features import Features
from atlas_splines.evidence.statistics import UNIT

__all__ = ["missing_bumps"]

Array = NDArray[np.float64]

NIL = 0.5 / UNIT  # a feature below this counts as zero
LEAST_ROWS = 20  # that no bump of a group reaches; fewer are outliers
ROWS_A_BUMP = 4


def missing_bumps(features: Features, points: Array, phi: Array, most: int) -> tuple[Array, ...]:
    """Centres of bumps that a group lacks: some of the rows that none of its bumps reaches.

    Parameters
    ----------
    features
        The features that are there.
    points, phi
        New rows and their features; those outside the unit cube, where features end, are left out.
    most
        Bumps that may be added, at most.

    Returns
    -------
    tuple with the centres for each group, shape (bumps, inputs)

    Examples
    --------
    >>> from atlas_splines.evidence.features import Bumps
    >>> features = Features(1, (0,), (), (Bumps(np.array([[0.1]]), np.array([0.02])),))
    >>> points = np.linspace(0.5, 1, 40)[:, None]
    >>> [centres.shape for centres in missing_bumps(features, points, features(points), most=100)]
    [(10, 1)]
    """
    inside = ((points >= 0) & (points <= 1)).all(axis=1)
    begin = len(features) - sum(len(group.centres) for group in features.bumps)
    missing = []
    for group in features.bumps:
        values = phi[:, begin : begin + len(group.centres)]
        begin += len(group.centres)
        unreached = points[inside & (values.max(axis=1) < NIL)]
        grows = len(unreached) >= LEAST_ROWS and not any(group.sides)  # with one side it reaches rows before
        count = min(len(unreached) // ROWS_A_BUMP, most) if grows else 0
        missing.append(unreached[::ROWS_A_BUMP][:count])
        most -= count
    return tuple(missing)
