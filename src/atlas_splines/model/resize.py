"""Expansion and extension: knot refinement and larger domains that preserve the function bit for bit.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model import splines
from atlas_splines.model.charts import Chart, within
from atlas_splines.model.checks import check_numbers, check_size
from atlas_splines.model.lattice import MAX_DENSITY, Domain, Lattice, check_reach
from atlas_splines.model.state import State

__all__ = ["cropped", "expanded", "extended", "reach", "reaching", "reduced", "with_outputs"]

LEAST_DENSITY = 3  # of an extended state: the transition to a constant, two cells wide, is then short


def expanded(state: State, density: int, terms: int) -> State:
    """The state with more densities and terms; the function is unchanged bit for bit, equation (8)."""
    density = check_size("density", density, least=0, most=MAX_DENSITY - state.density)
    terms = state.terms + check_size("terms", terms, least=0)
    lattice = Lattice(state.lattice.domain, state.density + density, state.dtype)
    check_reach(lattice.domain, lattice.density)
    zero = State.zero(lattice, state.outputs, terms, state.trainable, state.damping)
    for rho in range(state.density + 1):
        new, old = zero.rows_of(rho), state.rows_of(rho)
        new[:, :, : state.terms] = old[:, :, : state.terms]
        new[:, :, terms : terms + state.terms] = old[:, :, state.terms : -1]
        new[:, :, -1] = old[:, :, -1]
    return replace(
        zero,
        charts=state.charts,
        packed=state.packed,
        pooled=state.pooled,
        monotonic=state.monotonic,
        offsets=state.offsets,
        local=state.local,
        later=state.later,
    )


def with_outputs(state: State, places: NDArray[np.intp], outputs: int, constant: float) -> State:
    """The state with more outputs, which are constant; the old ones move to `places`, bit for bit.

    It has no charts and no memory.
    """
    larger = State.zero(state.lattice, outputs, state.terms, state.trainable, state.damping)
    for rho in range(state.density + 1):
        larger.rows_of(rho)[:, places] = state.rows_of(rho)
    new = np.setdiff1d(np.arange(outputs), places)
    # the weights of one input's functions sum to one, (4), and pairs of exponentials of zero to nothing
    rows = state.lattice.input_rows(0, 0)
    larger.rows_of(0)[rows[:, None], new, -1] = constant
    return replace(larger, local=tuple(terms.with_outputs(places, outputs) for terms in state.local))


def extended(state: State, low: ArrayLike, high: ArrayLike) -> State:
    """The state with a domain that holds all points, or the state itself if its domain does already."""
    domain = _wider(state.lattice.domain, state.density, _ends(state, "low", low), _ends(state, "high", high))
    if np.array_equal(domain, state.lattice.domain):
        return state
    lattice = Lattice(domain, state.density, state.dtype)
    larger = replace(state, lattice=lattice, table=state.table[lattice.nearest_rows(state.lattice)])
    _level_off(larger, state)
    return larger.with_charts(_spanning(state, domain))


def reaching(state: State, points: NDArray[np.floating]) -> State:
    """The state with a domain that holds all points, or the state itself if its domain does already.

    A state with a memory is always extended from the unit cube: then a domain that was extended in two steps
    has the bits of one extended at once, and reverting an update restores those of before.
    """
    domain = reach(state, points)
    if np.array_equal(domain, state.lattice.domain):
        return state
    first = first_of(state)
    finer = expanded(first, max(LEAST_DENSITY - first.density, 0), 0)
    return extended(finer, *domain.T)


def first_of(state: State) -> State:
    """The state on the unit cube of which this one is an extension, if its memory holds that; else itself."""
    if state.pooled is None or not state.lattice.is_extended:
        return state
    return state.pooled.on_unit_cube(state) or state


def reduced(state: State, domain: Domain) -> State:
    """The state with a domain no larger than needed, or the state itself where that would change it.

    Inside the smaller domain, which has whole cells and holds all charts, every output stays as it was.
    """
    unit = np.tile([0.0, 1.0], (len(domain), 1))
    domain = _wider(unit, max(state.density, LEAST_DENSITY), *domain.T)
    if np.array_equal(domain, state.lattice.domain) or not within(domain, state.lattice.domain):
        return state
    first = first_of(state)
    if first is not state:
        smaller: State | None = reaching(first, domain.T)
    else:
        found = (cropped(state, domain, density) for density in range(state.density + 1))
        smaller = next((each for each in found if each is not None), None)
    return state if smaller is None else smaller.with_charts(_made_in(_spanning(state, domain), domain))


def reach(state: State, points: NDArray[np.floating]) -> Domain:
    """The domain of `reaching`, without making the state."""
    domain, low, high = state.lattice.domain, points.min(axis=0), points.max(axis=0)
    lowest, highest = domain.T.astype(points.dtype)
    if (low >= lowest).all() and (high <= highest).all():
        return domain
    density = max(state.density, LEAST_DENSITY)
    return _wider(domain, density, low.astype(np.float64), high.astype(np.float64))


def _wider(domain: Domain, density: int, low: NDArray[np.floating], high: NDArray[np.floating]) -> Domain:
    """A domain that reaches as far, by whole cells of a density; where it does already it stays."""
    width = splines.cell_count(density)
    lowest, highest = -splines.whole_cells(-low, density) / width, splines.whole_cells(high, density) / width
    wanted = np.stack([lowest, highest], axis=1)
    wider = np.where(np.sign(wanted - domain) == (-1, 1), wanted, domain)
    check_reach(wider, density)
    return wider


def cropped(state: State, domain: Domain, density: int) -> State | None:
    """The state with a smaller domain and less densities: the inverse of `extended` and `expanded`.

    None if that is not smaller, or if a density that would be dropped is non-zero in that domain.
    """
    old = state.lattice
    if density > state.density or not within(domain, old.domain):
        return None
    full = Lattice(domain, state.density, state.dtype)
    families = [(rho, j) for rho in range(state.density + 1) for j in range(full.inputs)]
    rows = np.concatenate([full.input_rows(rho, j) + old.shift(full, rho, j) for rho, j in families])
    table = state.table[rows]
    lattice = Lattice(domain, density, state.dtype)
    if table[lattice.row_count :].any():
        return None
    smaller = replace(state, lattice=lattice, table=table[: lattice.row_count])
    return smaller.with_charts(_spanning(state, domain))


def _spanning(state: State, domain: Domain) -> list[Chart]:
    """The charts of a state, with windows that span all of a domain along monotone inputs."""
    inputs, dtype = state.monotone_inputs, state.dtype
    return [replace(chart, window=chart.window.spanning(inputs, domain, dtype)) for chart in state.charts]


def _made_in(charts: list[Chart], domain: Domain) -> list[Chart]:
    """Charts as if they had been made in a domain, which holds their boxes, or in a smaller one."""
    made = []
    for chart in charts:
        (low, high), (lowest, highest) = np.broadcast_to(chart.window.domain, domain.shape).T, domain.T
        known = np.stack([np.maximum(low, lowest), np.minimum(high, highest)], axis=1)
        made.append(replace(chart, window=replace(chart.window, domain=known)))
    return made


def _ends(state: State, name: str, values: ArrayLike) -> NDArray[np.floating]:
    ends = check_numbers(name, values, np.dtype(np.float64))
    inputs = state.lattice.inputs
    if ends.shape != (inputs,):
        raise ValueError(f"{name} has shape {ends.shape}; expected ({inputs},), one number for each input")
    return ends


def _level_off(larger: State, old: State) -> None:
    """Let new functions of the finest density take each spline to its value at the old face, (28).

    Those of a monotone input would rise and fall by that; they stay what the nearest ones are.
    """
    *coarser, finest = range(larger.density + 1)
    coarser = old.filled_densities(coarser).tolist()  # the others add exactly nothing
    step = 1 / splines.cell_count(finest)
    for j, faces in enumerate(old.lattice.domain):
        rows = larger.lattice.input_rows(finest, j)
        known = old.lattice.input_rows(finest, j) + larger.lattice.shift(old.lattice, finest, j)
        for face, new in zip(faces, (rows < known[0], rows > known[-1]), strict=True):
            if not new.any() or j in old.monotone_inputs:
                continue
            level = _along(old, j, np.array([face]), [*coarser, finest])
            centres = (rows[new] - larger.lattice.origins[finest, j] - 1) * step
            around = np.concatenate([centres + k * step for k in (-1, 0, 1)])
            left, middle, right = np.split(
                level - _along(larger, j, around, coarser), 3
            )  # (functions, channels)
            larger.table[rows[new]] = (8 * middle - left - right) / 6  # reproduces cubic polynomials


def _along(state: State, j: int, x: NDArray[np.float64], densities: list[int]) -> NDArray[np.float64]:
    """Splines of input j summed over densities, (points, channels); outside they go on as in (28)."""
    total = np.zeros((x.size, state.table.shape[1]))
    for density in densities:
        cells, weights = splines.active(x, density)
        rows = cells[:, None] + state.lattice.origins[density, j] + np.arange(splines.ACTIVE)
        family = state.lattice.input_rows(density, j)
        total += np.einsum("pa,pac->pc", weights, state.table[rows.clip(family[0], family[-1])])
    return total
