"""Models in float64 with overlapping charts, in a domain that has grown."""

from dataclasses import replace

import numpy as np
import oracle

from atlas_splines import Atlas, update
from atlas_splines.model.atlas import state_of, take_state


def charted(charts=3, replaces=False, step=0.15):
    """A model with charts that are added to what is below, or that all take its place."""
    random = np.random.default_rng(0)
    model = oracle.randomize(Atlas(2, 1, terms=2, density=1, dtype="float64"))
    for k in range(charts):
        X = step * k + 0.4 * random.random((60, 2))
        update(model, X, np.sin(9 * X[:, :1]) + k, retention="chart", epochs=2, random_state=k)
    state = state_of(model)
    take_state(model, state.with_charts(replace(chart, replaces=replaces) for chart in state.charts))
    return model.extend([-0.3, 0], [1, 1.5])
