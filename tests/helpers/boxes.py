"""Data in boxes, for updates."""

import numpy as np


def box_data(inputs, seed, rows=150):
    """Noise in a random box."""
    random = np.random.default_rng(seed)
    low = random.random(inputs) * 0.6
    X = low + (0.1 + 0.3 * random.random(inputs)) * random.random((rows, inputs))
    return X, random.normal(size=rows)


def bump(X):
    """A smooth hill."""
    return 3 * np.exp(-20 * ((X - 0.4) ** 2).sum(axis=1))
