"""Bounds: certified limits of a model over a box of inputs, by branch and bound.

Over a region with middle m and half widths h every part of a model is enclosed by a linear function and a
remainder, f(m) + s·(x − m) ± r, where r shrinks with h²: (63) of docs/math.md. Such Taylor models (Makino and
Berz 2003) of splines, exponentials and kinked terms add up and multiply, so that charts are enclosed as well.
The linear part is reached in a corner: its value less the remainder is a value that the model does take. The
region with the farthest bound is split until what is certain and what is reached are close, or time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from atlas_splines.explain.products import (
    BoxedKernels,
    Exponentials,
    LevelOffsets,
    SplineSums,
    table_factors,
    unit_place,
)
from atlas_splines.model import kernels, splines
from atlas_splines.model.atlas import state_of
from atlas_splines.model.charts import Chart, visible_charts
from atlas_splines.model.state import Later, State, coordinates_of, inputs_of

__all__ = ["BOUND_RULES", "Bound", "BoundRules", "Enclosure", "largest", "prepared"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class BoundRules:
    """How far branch and bound goes.

    Attributes
    ----------
    seconds
        For each bound; what is certified then is returned with its gap.
    tolerance
        Gap between what is certified and what is reached at which it ends, in standard deviations of the
        target, or in log-odds: 0.03 is 0.6 % of a range of five deviations.
    at_once
        Regions that are split at a time: of fewer most of the time goes into calls, of more into regions
        that would not have been split.
    most_regions
        That are held: beyond it those that were bounded least far are joined into one bound.
    dropped
        Sum of the absolute terms that are left out, of exponentials and of kernels, and counted as remainder:
        where most inputs are fixed these are most of the terms.
    kernel_rounding, table_rounding
        What predictions in float32 are off by at most, as a share of the sum of absolute terms: some ulps of
        a term and of its exponent, which splines of large coefficients make up.
    """

    seconds: float = 0.9
    tolerance: float = 0.03
    at_once: int = 64
    most_regions: int = 200_000
    dropped: float = 0.001
    kernel_rounding: float = 2.0**-20
    table_rounding: float = 2.0**-17


BOUND_RULES = BoundRules()


@dataclass(frozen=True, eq=False)
class Enclosure:
    """f(m) + s·(x − m) ± r over regions.

    Attributes
    ----------
    values, slopes, remainders
        Shapes (regions,), (regions, free inputs) and (regions,).
    """

    values: Array
    slopes: Array
    remainders: Array

    def swing(self, halves: Array) -> Array:
        """How far the linear part goes from the value at the middle, shape (regions,)."""
        return np.asarray((np.abs(self.slopes) * halves).sum(axis=1))

    def __add__(self, other: Enclosure) -> Enclosure:
        return Enclosure(
            self.values + other.values, self.slopes + other.slopes, self.remainders + other.remainders
        )

    def times(self, factor: float) -> Enclosure:
        """A multiple."""
        return Enclosure(factor * self.values, factor * self.slopes, abs(factor) * self.remainders)

    def product(self, other: Enclosure, halves: Array) -> Enclosure:
        """The product: of linear parts what is of second order is remainder."""
        one, two = self.swing(halves), other.swing(halves)
        left = self.remainders * (np.abs(other.values) + two + other.remainders)
        right = other.remainders * (np.abs(self.values) + one)
        slopes = self.values[:, None] * other.slopes + other.values[:, None] * self.slopes
        return Enclosure(self.values * other.values, slopes, one * two + left + right)

    def flat(self, halves: Array) -> Enclosure:
        """The same without slopes, for points that are not those of the regions."""
        return Enclosure(self.values, np.zeros_like(self.slopes), self.remainders + self.swing(halves))


@dataclass(frozen=True, eq=False)
class Bound:
    """The largest value over a box.

    Attributes
    ----------
    certain
        No value is larger.
    reached
        Some value is at least as large.
    at
        Near where: a point of the box, shape (inputs,).
    is_done
        Whether the two are as close as was asked for.
    seconds, regions
        What it took.
    """

    certain: float
    reached: float
    at: Array
    is_done: bool
    seconds: float
    regions: int


# --- parts of a state along free inputs -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SplinePart:
    """Splines of one state along free inputs: values, slopes, and bounds of both derivatives.

    Attributes
    ----------
    channels
        Which sums, shape (sums,).
    first, second
        Bounds of the absolute derivatives over the whole box, shape (free inputs, sums) each.
    ceilings
        Bounds of the sums over all free inputs, shape (sums,).
    """

    state: State
    channels: NDArray[np.intp]
    free: NDArray[np.intp]
    first: Array
    second: Array
    ceilings: Array

    @classmethod
    def of(
        cls, state: State, channels: NDArray[np.intp], free: NDArray[np.intp], low: Array, high: Array
    ) -> SplinePart:
        """Splines over the box from low to high, shape (inputs,) each."""
        first, second = np.zeros((2, len(free), len(channels)))
        ceilings = np.zeros(len(channels))
        for rho in state.filled_densities(list(range(state.density + 1))).tolist():
            width = float(splines.cell_count(rho))
            for k, j in enumerate(free.tolist()):
                table = state.table[state.lattice.input_rows(rho, j)][:, channels].astype(np.float64)
                ends, _ = splines.active(np.array([low[j], high[j]]), rho)
                begin = ends - int(state.lattice.cells[rho, j, 0])
                rows = table[max(int(begin[0]), 0) : int(begin[1]) + splines.ACTIVE]
                ceilings += rows.max(axis=0)
                if len(rows) > 2:  # derivatives of a spline lie in the hull of differences of coefficients
                    first[k] += width * np.abs(np.diff(rows, axis=0)).max(axis=0)
                    second[k] += width**2 * np.abs(np.diff(rows, 2, axis=0)).max(axis=0)
        return cls(state, channels, free, first, second, ceilings)

    def at(self, middles: Array) -> tuple[Array, Array]:
        """Values and slopes along each free input, shapes (free inputs, regions, sums) each."""
        shape = (len(self.free), len(middles), len(self.channels))
        values, slopes = np.zeros(shape), np.zeros(shape)
        for rho in self.state.filled_densities(list(range(self.state.density + 1))).tolist():
            width = splines.cell_count(rho)
            for k, j in enumerate(self.free.tolist()):
                table = self.state.table[self.state.lattice.input_rows(rho, j)][:, self.channels]
                cells, weights = splines.active(middles[:, k], rho)
                t = middles[:, k] * width - cells
                steep = width * np.stack(
                    [-((1 - t) ** 2) / 2, (3 * t - 4) * t / 2, (1 + 2 * t - 3 * t * t) / 2, t * t / 2], axis=1
                )
                first = cells - int(self.state.lattice.cells[rho, j, 0])
                for i in range(splines.ACTIVE):
                    rows = table[first + i].astype(np.float64)
                    values[k] += weights[:, i, None] * rows
                    slopes[k] += steep[:, i, None] * rows
        return values, slopes


class RegionFunction:
    """A function over regions."""

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        """Its enclosure over regions, whose middles and half widths have shape (regions, free inputs)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class AdditivePart(RegionFunction):
    """A sum of splines of one input each, and a constant."""

    constant: float
    splines: SplinePart
    weights: Array  # (free inputs, sums)
    rules: BoundRules

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        values, slopes = self.splines.at(middles)
        total = np.einsum("jrk,jk->r", values, self.weights) + self.constant
        along = np.einsum("jrk,jk->rj", slopes, self.weights)
        curvature = (self.splines.second * np.abs(self.weights)).sum(axis=1)  # (free inputs,)
        size = np.einsum("jrk,jk->r", np.abs(values), np.abs(self.weights)) + abs(self.constant)
        return Enclosure(total, along, halves**2 @ curvature / 2 + self.rules.table_rounding * size)


@dataclass(frozen=True, eq=False)
class ExponentialPart(RegionFunction):
    """A sum of exponentials of sums of splines."""

    coefficients: Array
    splines: SplinePart
    dropped: float  # bound of the sum of the absolute terms that are left out
    rules: BoundRules

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        values, slopes = self.splines.at(middles)
        with np.errstate(over="ignore"):
            terms = self.coefficients * np.exp(values.sum(axis=0))  # (regions, sums)
            reach = halves @ self.splines.first
            curved = halves**2 @ self.splines.second / 2
            rest = np.abs(terms) * (curved + np.exp(np.minimum(reach, 600)) * reach**2 / 2)
            # or all between the least and the largest value that slopes and coefficients allow
            exponents = np.minimum(values.sum(axis=0) + reach, self.splines.ceilings)
            most = self.coefficients * np.exp(exponents)
            least = terms * np.exp(-reach)
            is_far = ~(rest < np.abs(most - least) / 2)
            centre = np.where(is_far, (most + least) / 2, terms)
            rest = np.where(is_far, np.abs(most - least) / 2, rest) + self.rules.table_rounding * np.abs(most)
        along = np.einsum("rk,jrk->rj", np.where(is_far, 0.0, terms), slopes)
        return Enclosure(centre.sum(axis=1), along, rest.sum(axis=1) + self.dropped)


@dataclass(frozen=True, eq=False)
class KernelPart(RegionFunction):
    """A sum of Laplace kernels in boxes."""

    coefficients: Array
    centres: Array
    rates: Array
    low: Array
    high: Array
    dropped: float  # sum of the absolute weights of terms that are left out
    rules: BoundRules

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        free = middles.shape[1]
        sums = np.zeros((len(middles), free + 3))
        # beyond the unit cube terms are what they are at its edge
        low, high = (middles - halves).clip(0, 1), (middles + halves).clip(0, 1)
        inner, within = (low + high) / 2, (high - low) / 2
        is_inside = (middles - halves >= 0) & (middles + halves <= 1)
        inner, within = np.where(is_inside, middles, inner), np.where(is_inside, halves, within)
        kernels.local_enclosures(
            self.coefficients, self.centres, self.rates, self.low, self.high, inner, within, sums
        )
        slopes = sums[:, 1 : free + 1]
        rest = sums[:, free + 1] + self.rules.kernel_rounding * sums[:, free + 2] + self.dropped
        rest = rest + np.where(is_inside, 0.0, np.abs(slopes) * within).sum(axis=1)
        return Enclosure(sums[:, 0], np.where(is_inside, slopes, 0.0), rest)


@dataclass(frozen=True, eq=False)
class LevelPart(RegionFunction):
    """Effects of levels along one free input: one of those in the region, or none."""

    place: int  # among the free inputs
    coordinates: Array
    effects: Array

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        apart = np.abs(self.coordinates - middles[:, self.place, None])
        there = apart <= halves[:, self.place, None]
        low = np.where(there, self.effects, 0.0).min(axis=1, initial=0.0)
        high = np.where(there, self.effects, 0.0).max(axis=1, initial=0.0)
        alone = (halves[:, self.place] == 0) & there.any(axis=1)
        exact = np.where(there, self.effects, 0.0).sum(axis=1)
        low, high = np.where(alone, exact, low), np.where(alone, exact, high)
        return Enclosure((low + high) / 2, np.zeros_like(middles), (high - low) / 2)


@dataclass(frozen=True, eq=False)
class SumPart(RegionFunction):
    """A sum of parts."""

    parts: tuple[RegionFunction, ...]

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        total = Enclosure(np.zeros(len(middles)), np.zeros_like(middles), np.zeros(len(middles)))
        for part in self.parts:
            total = total + part.enclose(middles, halves)
        return total


@dataclass(frozen=True, eq=False)
class ClockPart(RegionFunction):
    """One part before the ends of all clocks, another beyond; both where a region has points of either."""

    before: RegionFunction
    beyond: RegionFunction
    later: Later
    free: NDArray[np.intp]
    fixed: Array  # point, of which free inputs do not matter

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        some, every = np.zeros((2, len(middles)), np.bool_)
        for clock, sign, end in zip(self.later.clocks, self.later.directions, self.later.ends, strict=True):
            at = np.flatnonzero(self.free == clock)
            if len(at):
                low = sign * (middles[:, at[0]] - float(end)) - halves[:, at[0]]
                high = sign * (middles[:, at[0]] - float(end)) + halves[:, at[0]]
            else:
                low = high = np.full(len(middles), sign * (np.float32(self.fixed[clock]) - end), np.float64)
            some |= high > 0
            every |= low > 0
        one, two = self.before.enclose(middles, halves), self.beyond.enclose(middles, halves)
        found = [
            np.where(every, b, a) for a, b in ((one.values, two.values), (one.remainders, two.remainders))
        ]
        slopes = np.where(every[:, None], two.slopes, one.slopes)
        mixed = some & ~every
        if not mixed.any():
            return Enclosure(found[0], slopes, found[1])
        flat = one.flat(halves), two.flat(halves)
        low = np.minimum(*(each.values - each.remainders for each in flat))
        high = np.maximum(*(each.values + each.remainders for each in flat))
        return Enclosure(
            np.where(mixed, (low + high) / 2, found[0]),
            np.where(mixed[:, None], 0.0, slopes),
            np.where(mixed, (high - low) / 2, found[1]),
        )


@dataclass(frozen=True, eq=False)
class ChartPart(RegionFunction):
    """What is below a chart, and the chart, equation (23)."""

    below: RegionFunction
    content: RegionFunction
    chart: Chart
    free: NDArray[np.intp]
    fixed: Array
    box: Array  # (inputs, 2) where the window is not zero
    origin: Array
    scale: Array

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        found = self.below.enclose(middles, halves)
        low = np.maximum(middles - halves, self.box[self.free, 0])
        high = np.minimum(middles + halves, self.box[self.free, 1])
        outside = (self.fixed < self.box[:, 0]) | (self.fixed > self.box[:, 1])
        outside[self.free] = False
        near = np.flatnonzero((low <= high).all(axis=1) & (not outside.any()))
        if not len(near):
            return found
        # the content over what the region and the box have in common, in its own coordinates
        origin, scale = self.origin[self.free], self.scale[self.free]
        inner = ((low + high)[near] / 2 - origin) * scale, ((high - low)[near] / 2) * scale
        content = self.content.enclose(*inner)
        content = Enclosure(content.values, content.slopes * scale, content.remainders)
        h = halves[near]
        is_whole = np.isclose((high - low)[near] / 2, h, rtol=1e-12, atol=0).all(axis=1)
        flat = content.flat((high - low)[near] / 2)
        content = Enclosure(
            content.values,
            np.where(is_whole[:, None], content.slopes, 0.0),
            np.where(is_whole, content.remainders, flat.remainders),
        )
        membership = self._window(middles[near], h)
        own = Enclosure(found.values[near], found.slopes[near], found.remainders[near])
        other = content + own.times(-1.0) if self.chart.replaces else content
        joined = own + membership.product(other, h)
        # all of the region where the window is one: what is below does not matter
        covers = (membership.values == 1) & (membership.remainders == 0) & self.chart.replaces & is_whole
        for name in ("values", "slopes", "remainders"):
            chosen = np.where(
                covers if name != "slopes" else covers[:, None], getattr(content, name), getattr(joined, name)
            )
            getattr(found, name)[near] = chosen
        return found

    def _window(self, middles: Array, halves: Array) -> Enclosure:
        """The window: a product of splines whose coefficients are 0 and 1."""
        window, ones = self.chart.window, np.ones(len(middles))
        total = Enclosure(ones, np.zeros_like(middles), np.zeros(len(middles)))
        width = splines.cell_count(window.density)
        for j in range(len(self.fixed)):
            at = np.flatnonzero(self.free == j)
            x = middles[:, at[0]] if len(at) else np.full(len(middles), self.fixed[j])
            cells, weights = splines.active(x, window.density)
            functions = cells[:, None] + np.arange(splines.ACTIVE)
            is_open = (functions >= window.first[j]) & (functions <= window.last[j])
            value = np.where(is_open.all(axis=1), 1.0, np.where(is_open, weights, 0.0).sum(axis=1))
            slope, rest = np.zeros(len(middles)), np.zeros(len(middles))
            if len(at):
                h = halves[:, at[0]]
                t = x * width - cells
                steep = np.stack([-((1 - t) ** 2), (3 * t - 4) * t, 1 + 2 * t - 3 * t * t, t * t], axis=1)
                slope = np.where(is_open, width * steep / 2, 0.0).sum(axis=1)
                slope = np.where(is_open.all(axis=1), 0.0, slope)
                ends = [splines.active(x + sign * h, window.density)[0] for sign in (-1, 1)]
                all_open = (ends[0] >= window.first[j]) & (ends[1] + splines.ACTIVE - 1 <= window.last[j])
                # second differences of coefficients that are 0 and 1 are at most 1
                rest = np.where(all_open, 0.0, np.minimum(width**2 * h**2 / 2, 1 + np.abs(slope) * h))
            along = np.zeros_like(middles)
            if len(at):
                along[:, at[0]] = slope
            total = total.product(Enclosure(value, along, rest), halves)
        return total


# --- a state as parts -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """A weighted sum of the outputs of a state over a box.

    Attributes
    ----------
    part
        The function.
    free
        Inputs that vary, shape (free inputs,).
    low, high
        The box along these.
    point
        A point with the fixed coordinates, shape (inputs,).
    cuts
        For each free input coordinates at which regions are split first, rising: there are steps.
    pace
        How fast terms vary along each free input at most: regions are split where that counts most.
    """

    part: RegionFunction
    free: NDArray[np.intp]
    low: Array
    high: Array
    point: Array
    cuts: tuple[Array, ...]
    pace: Array


def prepared(
    state: State, low: Array, high: Array, direction: Array, rules: BoundRules = BOUND_RULES
) -> Prepared:
    """A state over a box of its domain, shape (inputs,) each; `direction` weighs its outputs."""
    # predictions round points to float32, and so are the ends of the box
    low, high = (part.astype(state.dtype).astype(np.float64) for part in (low, high))
    free = np.flatnonzero(high > low)
    point = low.copy()
    steps: dict[int, list[float]] = {int(j): [] for j in free}
    part = _table_part(state, free, low, high, direction, rules, steps)
    for j in free.tolist():
        steps[j] += [0.0, 1.0] if state.lattice.is_extended and state.local else []
    if state.later is not None:
        beyond = _table_part(
            state.later.state, free, low.clip(0, 1), high.clip(0, 1), direction, rules, steps
        )
        for clock, end in zip(state.later.clocks.tolist(), state.later.ends.tolist(), strict=True):
            if clock in steps:
                steps[clock].append(end)
        part = ClockPart(part, beyond, state.later, free, point)
    for chart in visible_charts(state.charts, state.lattice.domain):
        box = chart.window.box_in(state.lattice.domain)
        origin, scale = (each.astype(np.float64) for each in chart.window.local_map(np.dtype(np.float64)))
        inner = (((np.array([low, high]).clip(*box.T)) - origin) * scale).clip(0, 1)
        if ((high < box[:, 0]) | (low > box[:, 1])).any():
            continue
        size = direction * chart.size.astype(np.float64)
        content = _table_part(state_of(chart.content), free, inner[0], inner[1], size, rules, {})
        part = ChartPart(part, content, chart, free, point, box, origin, scale)
        core = chart.window.core_in(state.lattice.domain)
        for j in free.tolist():
            steps[j] += [float(each) for each in (*box[j], *core[j])]
    cuts = tuple(
        np.unique([cut for cut in steps[int(j)] if low[j] < cut < high[j]]).astype(np.float64) for j in free
    )
    return Prepared(part, free, low[free], high[free], point, cuts, _pace(part, len(free)))


def _pace(part: RegionFunction, free: int) -> Array:
    """How fast the terms of a part vary along each free input at most."""
    if isinstance(part, SumPart):
        return np.max([_pace(each, free) for each in part.parts], axis=0, initial=1e-3)
    if isinstance(part, ChartPart):
        scale = part.scale[part.free]
        return np.maximum(_pace(part.below, free), scale * _pace(part.content, free))
    if isinstance(part, ClockPart):
        return np.maximum(_pace(part.before, free), _pace(part.beyond, free))
    if isinstance(part, KernelPart):
        return part.rates.astype(np.float64)
    if isinstance(part, ExponentialPart):
        weights = np.abs(part.coefficients)
        return np.asarray(part.splines.first @ weights / max(float(weights.sum()), 1e-300))
    return np.full(free, 1e-3)


def _table_part(
    state: State,
    free: NDArray[np.intp],
    low: Array,
    high: Array,
    direction: Array,
    rules: BoundRules,
    steps: dict[int, list[float]],
) -> RegionFunction:
    """A state below its charts over a box, with what is fixed multiplied in."""
    fixed = [j for j in range(state.lattice.inputs) if j not in set(free.tolist())]
    parts: list[RegionFunction] = []
    for factors in table_factors(state, unit_place(state)):
        weights = factors.coefficients @ direction
        used = np.flatnonzero(weights)
        if isinstance(factors, SplineSums):
            channels = np.unique(factors.outputs) * state.width + state.width - 1
            amounts = direction[np.unique(factors.outputs)]
            constant = sum(
                float(factors._values(j, low[j : j + 1], terms)[0] @ weights[terms])
                for j in fixed
                if len(terms := np.flatnonzero(factors.inputs == j))
            )
            own = SplinePart.of(state, channels, free, low, high)
            parts.append(AdditivePart(constant, own, np.tile(amounts, (len(free), 1)), rules))
        elif isinstance(factors, Exponentials):
            scaled = weights[used] * np.exp(-factors.ceilings[free][:, used].sum(axis=0))
            with np.errstate(over="ignore"):
                for j in fixed:
                    scaled = scaled * factors.along(j, low[j : j + 1], slice(None))[0, used]
            own = SplinePart.of(state, factors.channels[used], free, low, high)
            with np.errstate(over="ignore"):
                kept, dropped = _kept(np.abs(scaled) * np.exp(own.ceilings), rules.dropped)
            own = SplinePart.of(state, factors.channels[used][kept], free, low, high)
            parts.append(ExponentialPart(scaled[kept], own, dropped, rules))
        elif isinstance(factors, BoxedKernels):
            for j in fixed:
                if factors.depends_on(j):
                    weights = weights * factors.along(j, low[j : j + 1], slice(None))[0]
            kept = np.flatnonzero(weights)
            meets = (factors.low[kept][:, free] < high[free]) & (factors.high[kept][:, free] >= low[free])
            kept = kept[meets.all(axis=1)]
            large, dropped = _kept(np.abs(weights[kept]), rules.dropped)  # a kernel is at most 1
            kept = kept[large]
            below, above, centres = (
                np.ascontiguousarray(each[kept][:, free])
                for each in (factors.low, factors.high, factors.centres)
            )
            parts.append(
                KernelPart(weights[kept], centres, factors.rates[free], below, above, dropped, rules)
            )
            for k, j in enumerate(free.tolist()):
                if j in steps:
                    steps[j] += [float(cut) for cut in np.unique(above[:, k]) if np.isfinite(cut)]
        elif isinstance(factors, LevelOffsets):
            parts += _level_parts(factors, free, fixed, low, direction)
    return SumPart(tuple(parts))


def _kept(sizes: Array, most: float) -> tuple[NDArray[np.intp], float]:
    """Numbers of the terms that are not left out, rising, and the sum of the sizes of those that are.

    Examples
    --------
    >>> _kept(np.array([1.0, 0.1, 0.2]), 0.35)[0]
    array([0])
    """
    order = np.argsort(sizes)
    small = int(np.searchsorted(np.cumsum(sizes[order]), most))
    return np.sort(order[small:]), float(sizes[order[:small]].sum())


def _level_parts(
    factors: LevelOffsets, free: NDArray[np.intp], fixed: Sequence[int], low: Array, direction: Array
) -> list[RegionFunction]:
    """Effects of levels: constants along fixed inputs, and one of several along free ones."""
    found: list[RegionFunction] = []
    keys, values = factors.offsets.keys, factors.offsets.values.astype(np.float64) @ direction
    routes = keys >> 32
    for j in inputs_of(keys):
        coordinates, effects = coordinates_of(keys[routes == j]).astype(np.float64), values[routes == j]
        at = np.flatnonzero(free == j)
        if len(at):
            found.append(LevelPart(int(at[0]), coordinates, effects))
        elif j in fixed:
            constant = effects[coordinates == low[j]].sum()
            found.append(ConstantPart(float(constant)))
    return found


@dataclass(frozen=True, eq=False)
class ConstantPart(RegionFunction):
    """A constant."""

    value: float

    def enclose(self, middles: Array, halves: Array) -> Enclosure:
        return Enclosure(np.full(len(middles), self.value), np.zeros_like(middles), np.zeros(len(middles)))


# --- branch and bound -----------------------------------------------------------------------------------


def largest(
    boxes: Sequence[Prepared],
    tolerance: float,
    rules: BoundRules = BOUND_RULES,
    enough: Callable[[float, float], bool] | None = None,
) -> Bound:
    """The largest value over some boxes with the same free inputs or others.

    Parameters
    ----------
    boxes
        The boxes.
    tolerance
        Gap at which it ends.
    rules
        How far it goes.
    enough
        Whether a certain and a reached value settle a question already.
    """
    search = [_Search.of(box) for box in boxes]
    start = perf_counter()  # kernels are compiled by now
    best = max(search, key=lambda each: each.reached)
    while True:
        reached, certain = max(each.reached for each in search), max(each.certain for each in search)
        is_done = certain - reached <= tolerance or (enough is not None and enough(certain, reached))
        if is_done or perf_counter() - start > rules.seconds:
            break
        worst = max(search, key=lambda each: each.certain)
        if not worst.split(reached, rules):
            break
        best = max(search, key=lambda each: each.reached)
    regions = sum(each.seen for each in search)
    certain = max(each.certain for each in search)
    return Bound(
        certain, best.reached, best.at, certain - best.reached <= tolerance, perf_counter() - start, regions
    )


@dataclass(eq=False)
class _Search:
    """Regions of one box that are not settled yet."""

    box: Prepared
    low: Array
    high: Array
    bounds: Array
    slopes: Array
    reached: float
    at: Array
    seen: int
    settled: float = -np.inf

    @classmethod
    def of(cls, box: Prepared) -> _Search:
        low, high = box.low[None], box.high[None]
        found = cls(box, low[:0], high[:0], np.zeros(0), low[:0], -np.inf, box.point.copy(), 0)
        found.add(low, high)
        return found

    @property
    def certain(self) -> float:
        return float(max(self.bounds.max(initial=-np.inf), self.settled))

    def add(self, low: Array, high: Array) -> None:
        """Bound regions, and note what they reach."""
        middles, halves = (low + high) / 2, (high - low) / 2
        found = self.box.part.enclose(middles, halves)
        swing = found.swing(halves)
        bounds = found.values + swing + found.remainders
        reached = found.values + swing - found.remainders
        self.seen += len(low)
        k = int(np.argmax(reached))
        if reached[k] > self.reached:
            self.reached = float(reached[k])
            self.at = self.box.point.copy()
            self.at[self.box.free] = middles[k] + np.sign(found.slopes[k]) * halves[k]
        self.low, self.high = np.vstack([self.low, low]), np.vstack([self.high, high])
        self.bounds = np.concatenate([self.bounds, bounds])
        self.slopes = np.vstack([self.slopes, np.abs(found.slopes)])

    def split(self, reached: float, rules: BoundRules) -> bool:
        """Split the regions with the farthest bounds; whether any could be."""
        open_ = np.flatnonzero(self.bounds > reached)
        self._keep(open_, reached)
        if not len(self.bounds) or not self.low.shape[1]:
            if len(self.bounds):
                self.settled = max(self.settled, float(self.bounds.max()))
                self._keep(np.zeros(0, np.intp), reached)
            return False
        order = np.argsort(-self.bounds)
        chosen, rest = order[: rules.at_once], order[rules.at_once :]
        low, high = self.low[chosen], self.high[chosen]
        too_small = ((high - low) <= 2.0**-22).all(axis=1)
        if too_small.any():
            self.settled = max(self.settled, float(self.bounds[chosen][too_small].max()))
            low, high = low[~too_small], high[~too_small]
        self._keep(rest, reached)
        if len(low):
            self.add(*_halved(low, high, self.box.cuts, self.box.pace))
        if len(self.bounds) > rules.most_regions:
            order = np.argsort(-self.bounds)
            self.settled = max(self.settled, float(self.bounds[order[rules.most_regions // 2]]))
            self._keep(order[: rules.most_regions // 2], reached)
        return True

    def _keep(self, kept: NDArray[np.intp], reached: float) -> None:
        if len(kept) < len(self.bounds):
            self.settled = max(self.settled, reached if len(self.bounds) else self.settled)
        self.low, self.high = self.low[kept], self.high[kept]
        self.bounds, self.slopes = self.bounds[kept], self.slopes[kept]


def _halved(low: Array, high: Array, cuts: Sequence[Array], pace: Array) -> tuple[Array, Array]:
    """Both halves of each region: at a step if one is inside, or else where terms vary most."""
    middles, widths = (low + high) / 2, high - low
    each = np.arange(len(low))
    chosen = np.argmax(widths * pace, axis=1)
    at, is_step = middles[each, chosen], np.zeros(len(low), np.bool_)
    nearest = np.full(len(low), np.inf)
    for j, own in enumerate(cuts):
        if not len(own):
            continue
        place = np.searchsorted(own, middles[:, j])
        for candidate in (place - 1, place):  # the steps on either side of the middle
            cut = own[candidate.clip(0, len(own) - 1)]
            with np.errstate(divide="ignore", invalid="ignore"):
                apart = np.abs(cut - middles[:, j]) / widths[:, j]
            better = (cut >= low[:, j]) & (_next(cut) < high[:, j]) & (apart < nearest)
            chosen, at = np.where(better, j, chosen), np.where(better, cut, at)
            nearest, is_step = np.where(better, apart, nearest), is_step | better
    left, right = high.copy(), low.copy()
    left[each, chosen] = at
    # points on a step belong below it: the next one in float32 is the first above
    right[each, chosen] = np.where(is_step, _next(at), at)
    return np.vstack([low, right]), np.vstack([left, high])


def _next(coordinates: Array) -> Array:
    """The next coordinates in float32."""
    return np.nextafter(coordinates.astype(np.float32), np.float32(np.inf)).astype(np.float64)
