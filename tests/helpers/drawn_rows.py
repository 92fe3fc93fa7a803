"""Random data of a linear model, shared by the tests of this folder."""

import numpy as np

from atlas_splines.memory.statistics import Statistics


def data(rows=500, features=7, outputs=2, seed=0):
    random = np.random.default_rng(seed)
    phi = random.uniform(-1, 1, (rows, features))
    y = phi @ random.normal(size=(features, outputs)) + 0.3 * random.normal(size=(rows, outputs))
    return phi, y, random.uniform(0, 3, rows)


def counted(*parts, features=7, outputs=2):
    statistics = Statistics(features, outputs)
    for part in parts:
        statistics.add(*part)
    return statistics
