"""Monotone splines: coefficients that increase, or decrease, along inputs with a monotonicity constraint.

A spline increases if its coefficients do (de Boor 1978), at each density; F, e^G and −e^H then increase
together, and so does A: docs/math.md, section 11.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.charts import Chart
from atlas_splines.model.state import Monotonic, State

__all__ = ["constrained", "is_monotone", "make_monotone"]

Array = NDArray[np.floating]


def constrained(model: Atlas, monotonic: Monotonic) -> Atlas:
    """A model that is monotone already, with the constraint that it remains so in every update."""
    return model_in(replace(state_of(model), monotonic=monotonic), model.updates) if monotonic else model


def make_monotone(state: State) -> None:
    """Project the trained coefficients onto the monotone cone in the maximum norm, in place.

    The mean of the running maximum and the reversed running minimum: no monotone sequence is closer, since
    the largest move is half the depth of a violation.

    Examples
    --------
    >>> model = constrained(Atlas(inputs=1, terms=0, density=0), monotonic=((1,),))
    >>> model.f(0)[:] = [0, 2, 1, 3]
    >>> make_monotone(state_of(model))
    >>> model.f(0)
    array([[[0. , 1.5, 1.5, 3. ]]], dtype=float32)
    """
    for coefficients, directions in constrained_splines(state, state.trained_densities):
        rising = coefficients * directions
        highest = np.maximum.accumulate(rising, axis=0)
        lowest = np.minimum.accumulate(rising[::-1], axis=0)[::-1]
        coefficients[:] = (highest + lowest) / 2 * directions


def is_monotone(state: State) -> bool:
    """Whether all coefficients, those of the charts too, meet the monotonicity constraints."""
    splines = constrained_splines(state, list(range(state.density + 1)))
    own = all((np.diff(coefficients * directions, axis=0) >= 0).all() for coefficients, directions in splines)
    return own and all(keeps_monotone(chart, state) for chart in state.charts)


def keeps_monotone(chart: Chart, state: State) -> bool:
    """Whether a chart's content is monotone, and its window constant along monotone inputs."""
    spanning = chart.window.spanning(state.monotone_inputs, state.lattice.domain, state.dtype)
    spans = np.array_equal(chart.window.cells, spanning.cells)
    return spans and is_monotone(replace(state_of(chart.content), monotonic=state.monotonic))


def constrained_splines(state: State, densities: list[int]) -> Iterator[tuple[Array, Array]]:
    """Coefficients (functions, channels), a view, and the direction of each channel, shape (channels,)."""
    for j in state.monotone_inputs.tolist():
        each = np.concatenate([[1.0] * state.terms, [-1.0] * state.terms, [1.0]])  # of G, H, F
        directions = np.concatenate([monotonic[j] * each for monotonic in state.monotonic]).astype(
            state.dtype
        )
        for density in densities:
            rows = state.lattice.input_rows(density, j)
            yield state.table[rows[0] : rows[-1] + 1, : directions.size], directions
