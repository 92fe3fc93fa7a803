"""Rows with levels: of a column with many categories, of which each is a coordinate of one input."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.estimators.base import AtlasEstimator

LEVELS = 40
STEP = 2.0**-22


def on_steps(places: Any) -> np.ndarray:
    """Places of levels that are near some others."""
    return (np.rint(np.asarray(places, np.float64) / STEP) * STEP).astype(np.float32)


PLACES = on_steps(np.linspace(0.02, 0.98, LEVELS))
EFFECTS = 2 * (PLACES.astype(np.float64) - 0.5)
NEW = float(PLACES[20] + STEP)  # the coordinate of a level that comes later: right beside one
EFFECT = 3.0  # of the new level
FEW = {"members": 1, "terms": 0, "density": 0, "features": 40, "random_state": 0, "domain": [(0, 1)] * 2}


def known_rows(count: int, seed: int, noise: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Rows of known levels."""
    random = np.random.default_rng(seed)
    level, x = random.integers(LEVELS, size=count), random.random(count)
    return np.c_[x, PLACES[level]], np.sin(5 * x) + EFFECTS[level] + noise * random.normal(size=count)


def new_rows(count: int, seed: int, noise: float = 0.2, place: float = NEW) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a level that no row of a fit had."""
    random = np.random.default_rng(seed)
    x = random.random(count)
    return np.c_[x, np.full(count, place)], np.sin(5 * x) + EFFECT + noise * random.normal(size=count)


def both(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As many rows of known levels as of a new one."""
    parts = zip(known_rows(count, seed), new_rows(count, seed + 1000), strict=True)
    return tuple(np.concatenate(pair) for pair in parts)


def effect_of(model: Any, place: float = NEW) -> float:
    """What a model adds for a level, on average."""
    x = np.linspace(0, 1, 50)
    return float(np.mean(model.predict(np.c_[x, np.full(50, place)]) - np.sin(5 * x)))


def with_levels(model: Any, X: Any, y: Any) -> Any:
    """An estimator that was fitted to rows whose second column has levels."""
    with patch.object(AtlasEstimator, "_level_inputs", lambda self, columns: (1,)):
        model.fit(X, y)
    model.ledger_ = None  # or it would be derived again from rows, without these levels
    return model


@cache
def _fitted(retention: str) -> AtlasRegressor:
    return with_levels(AtlasRegressor(retention=retention, **FEW), *known_rows(600, 0))


def fitted(retention: str = "auto") -> AtlasRegressor:
    """A regressor that knows some levels."""
    return copy.deepcopy(_fitted(retention))


def classes(count: int, seed: int, place: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes: of known levels, or of one at a place, which is nearly always of the second."""
    X, y = known_rows(count, seed)
    chance = 1 / (1 + np.exp(-2 * y))
    if place is not None:
        X[:, 1], chance = place, np.full(count, 0.98)
    return X, (np.random.default_rng(seed + 1).random(count) < chance).astype(int)


def fitted_classifier() -> AtlasClassifier:
    """A classifier that knows some levels."""
    return with_levels(AtlasClassifier(**FEW), *classes(800, 0))
