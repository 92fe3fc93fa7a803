"""Whether a model goes the ways it has to go, on dense lines through its domain and beyond."""

import numpy as np

from atlas_splines.model.atlas import state_of
from atlas_splines.model.evaluate import sums
from atlas_splines.model.monotone import is_monotone

PLACES = 1000  # along a line
ULPS = 4  # of the size of the terms that a prediction is the sum of; coefficients themselves are exact


def check_monotone(model, monotonic, X, rows=4):
    """Along each column, from far below the data to far above it, at some rows of the others."""
    state = state_of(model.model_)
    assert state.monotonic
    assert is_monotone(state)
    low, width = np.nanmin(X, axis=0), np.ptp(X, axis=0)
    for j in np.flatnonzero(monotonic):
        for row in X[:: max(len(X) // rows, 1)][:rows]:
            line = np.tile(row, (PLACES, 1))
            line[:, j] = np.linspace(low[j] - width[j], low[j] + 2 * width[j], PLACES)
            check_line(model, line, monotonic[j])


def check_line(model, line, sign):
    scores, room = scores_of(model, line), rounding(model, line)
    back = -sign * np.diff(scores)
    assert (back <= np.maximum(room[1:], room[:-1])).all(), back.max()


def scores_of(model, X):
    """The one number that has to go a way, in the units of the model: probabilities follow it."""
    return model.decision_function(X) if hasattr(model, "classes_") else model._outputs(X)[:, 0]


def rounding(model, X):
    """What rounding may do to outputs: each exponential e^G is off by an ulp or so of e^G·(1 + |G|)."""
    state = state_of(model.model_)
    points = model.domain_.to_unit(X).clip(*model.model_.domain.T).astype(state.dtype)
    size = terms_size(state, points)
    for chart in state.charts:
        size += chart.size.sum() * terms_size(state_of(chart.content), chart.window.to_local(points))
    return ULPS * np.finfo(state.dtype).eps * size


def terms_size(state, points):
    found = sums(state, points).astype(np.float64)  # (rows, outputs, 2M + 1)
    slope = np.abs(state.layout.slope[: state.outputs * state.width].astype(np.float64))
    exponents, F = found[:, :, :-1], found[:, :, -1]
    scale = slope.reshape(state.outputs, -1)[:, :-1]
    terms = scale * np.exp(exponents) * (1 + np.abs(exponents))
    return (terms.sum(axis=2) + np.abs(F)).sum(axis=1)
