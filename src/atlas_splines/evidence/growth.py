"""Growth: more bumps where rows come to lie that none of a shape reaches, without the rows before.

Rows before lie around the centres that are there: on the grid of statistics they give such a bump nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.boxes import Boxes, BoxRules
from atlas_splines.evidence.design import CENTRE_GRID, ROWS_A_CENTRE
from atlas_splines.evidence.features import Bumps, Features
from atlas_splines.evidence.statistics import UNIT

__all__ = ["missing_bumps"]

Array = NDArray[np.float64]

NIL = 0.5 / UNIT  # a feature below this counts as zero
LEAST_ROWS = 20  # that no bump of a group reaches; fewer are outliers
ROWS_A_BUMP = ROWS_A_CENTRE
EVEN = 0.45  # share of the rows on either side of a cut: of ten rows or more these are five


def missing_bumps(features: Features, points: Array, phi: Array, most: int) -> tuple[Array, ...]:
    """Centres of bumps that a group lacks: those of clusters of rows that none of its bumps reaches.

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
    [(8, 1)]
    """
    inside = ((points >= 0) & (points <= 1)).all(axis=1)
    begin = len(features) - sum(len(group.centres) for group in features.bumps)
    missing = []
    for group in features.bumps:
        values = phi[:, begin : begin + len(group.centres)]
        begin += len(group.centres)
        unreached = points[inside & (values.max(axis=1) < NIL)]
        grows = len(unreached) >= LEAST_ROWS and not any(group.sides)  # with one side it reaches rows before
        centres = unreached_centres(group, unreached, most) if grows and most else unreached[:0]
        missing.append(centres)
        most -= len(centres)
    return tuple(missing)


def unreached_centres(group: Bumps, rows: Array, most: int) -> Array:
    """Centres for rows, at most so many: means of neighbours, none of which is a row, on a grid.

    The mean of rows on both sides of a bump that is there may lie near it, and one of rows that are far apart
    may reach hardly any of them; such centres are left out.
    """
    small = rows.astype(np.float32)
    # a box has about half as many rows at least: so many boxes there are at most
    size = max(2 * ROWS_A_BUMP - 1, int(len(rows) / (EVEN * most)) + 1)
    boxes = Boxes.of(small, 1 / group.lengths, BoxRules(most_rows=size, least_share=EVEN)).split(small)
    means = np.array([rows[inside].mean(axis=0) for inside in boxes])
    centres = np.rint(means * CENTRE_GRID) / CENTRE_GRID
    reached = (replace(group, centres=centres)(rows) >= NIL).sum(axis=0)
    return np.asarray(centres[(group(centres).max(axis=1) < NIL) & (reached >= ROWS_A_BUMP)])
