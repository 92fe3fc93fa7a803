"""Small models with evidence, and branches of them with random updates: what tests of versions begin with."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np

from atlas_splines import Atlas, AtlasRegressor, update

# more rows than may be kept, so that versions are of sums: those of rows are in test_kept_rows.py
FEW = {
    "density": 0,
    "terms": 1,
    "members": 1,
    "max_iter": 3,
    "features": 16,
    "max_rows": 1,
    "random_state": 0,
}
CORNERS = [(0.05, 0.05), (0.55, 0.05), (0.05, 0.55), (0.55, 0.55)]  # of places that do not overlap


def rows(count: int, seed: int, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one world, in two columns."""
    random = np.random.default_rng(seed)
    X = random.random((count, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] + noise * random.normal(size=count)


def changed_rows(corner: int, seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one place, where the world has become another one."""
    X = np.array(CORNERS[corner]) + 0.25 * np.random.default_rng(seed).random((count, 2))
    return X, 9 + X[:, 0]


@cache
def fitted(retention: str, updates: int = 2) -> AtlasRegressor:
    """A regressor with some updates; not to be changed."""
    model = AtlasRegressor(retention=retention, **FEW).fit(*rows(150, 0))
    for k in range(updates):
        model.partial_fit(*rows(12, 100 + k))
    return model


def branch(base: AtlasRegressor, *deeds: Any) -> AtlasRegressor:
    """A copy that has learned something more: a number is the seed of rows, a pair a corner and a seed."""
    model = copy.deepcopy(base)
    for deed in deeds:
        model.partial_fit(*(changed_rows(*deed) if isinstance(deed, tuple) else rows(12, deed)))
    return model


def charted(base: Atlas, *corners: int) -> Atlas:
    """A copy of a plain model with a chart in some corners."""
    model = base.copy()
    for corner in corners:
        X, y = changed_rows(corner, corner, 40)
        update(model, X, y, epochs=1, density=0, terms=1, random_state=corner)
    return model
