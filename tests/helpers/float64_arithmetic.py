"""What a model says when all of its arithmetic is in float64, as the page's is.

Estimators compute in float32, so their numbers agree with those of the page to seven digits only. Here the same
methods run on the same coefficients and the same rounded points, with the plain NumPy model for the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import oracle

from atlas_splines.model.atlas import model_in
from atlas_splines.model.local_terms import LocalTerms
from atlas_splines.model.state import State
from atlas_splines.updates import intervals as uncertainty

ESTIMATORS = "atlas_splines.estimators"


def evaluate(state: State, points: np.ndarray) -> np.ndarray:
    """Outputs of a state at points that are rounded to its dtype, equations (6), (23), (44) and (47)."""
    points = points.astype(np.float64)
    outputs = oracle.evaluate(model_in(state), points)
    if state.offsets is not None:
        state.offsets.add_to(points, outputs)
    for terms in state.local:
        outputs += local_outputs(terms, points)
    if state.later is not None and (is_later := state.later.includes(points)).any():
        outputs[is_later] = evaluate(state.later.state, points[is_later].clip(0, 1))
    for chart in state.charts:
        membership = chart.window.membership(points)[:, None]
        predicted = oracle.evaluate(chart.content, chart.window.to_local(points)) * chart.size.astype(
            np.float64
        )
        outputs = (1 - membership * chart.replaces) * outputs + membership * predicted
    return outputs


def evaluate_anywhere(state: State, points: np.ndarray) -> np.ndarray:
    """The same at the nearest points of the domain, with the slopes of later rows beyond it."""
    inside = points.clip(*state.lattice.domain.T).astype(state.dtype)
    outputs = evaluate(state, inside)
    return outputs if state.later is None else outputs + state.later.continued(points)


def local_outputs(terms: LocalTerms, points: np.ndarray) -> np.ndarray:
    """What local terms add at points, by the formula."""
    inside = np.ascontiguousarray(points.clip(0, 1), np.float32)
    box, own = terms.boxes.find(inside), terms.boxes.find(np.ascontiguousarray(terms.centres))
    distances = np.abs(inside[:, None].astype(np.float64) - terms.centres) @ terms.rates.astype(np.float64)
    kernel = np.exp(-distances) * (box[:, None] == own)  # (points, terms)
    return kernel @ terms.weights.astype(np.float64) + terms.constants[box]


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a state and points, of these in float64."""
    return lambda state, points, *more: function(state, points.astype(np.float64), *more)


@contextmanager
def float64_arithmetic() -> Iterator[None]:
    """Let estimators compute in float64."""
    with (
        patch(f"{ESTIMATORS}.predict.evaluate", evaluate),
        patch(f"{ESTIMATORS}.predict.evaluate_anywhere", evaluate_anywhere),
        patch(f"{ESTIMATORS}.regressor.interval_ends", in_double(uncertainty.interval_ends)),
        patch(f"{ESTIMATORS}.regressor.quantile_levels", in_double(uncertainty.quantile_levels)),
        patch(f"{ESTIMATORS}.classifier.largest_surprisal", in_double(uncertainty.largest_surprisal)),
        patch(f"{ESTIMATORS}.predict.support_of", in_double(uncertainty.support_of)),
    ):
        yield
