"""Products: a state as a sum of products of functions of one input each.

Every term of a model is such a product: an exponential of a sum, equation (6); a local term inside its box,
(47); a window of a chart, (22). A chart that replaces gives each term below it once more, times minus its
window, (23). From this form Shapley values follow exactly, (60) of docs/math.md. Arithmetic is in float64, at
points that are rounded as predictions round them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model import splines
from atlas_splines.model.atlas import state_of
from atlas_splines.model.charts import Chart, Window, visible_charts
from atlas_splines.model.local_terms import LEAF, Boxes, LocalTerms
from atlas_splines.model.state import Later, Offsets, State, find_keys, inputs_of, level_keys, levelled

__all__ = [
    *("BoxedKernels", "Exponentials", "Factors", "Gate", "Group", "LevelOffsets", "Products", "SplineSums"),
    *("TooManyWindows", "box_limits", "products_of", "table_factors", "two_sided_sums", "unit_place"),
]

Array = NDArray[np.float64]

MOST_GROUPS = 512  # of terms with the same windows: k charts that all overlap give 2^k of them
NEGLIGIBLE = 1e-40  # of the largest coefficient, below which a term is left out: unused ones have e^−200
CLOSE_ATOMS = 64  # values of an input up to which means are summed directly


class TooManyWindows(ValueError):
    """Charts overlap so often that their windows cannot be multiplied out."""


# --- one-input functions --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Place:
    """How a coordinate is clipped, rounded and scaled before a factor is evaluated, input by input.

    Attributes
    ----------
    domain
        Limits to which it is clipped, shape (inputs, 2).
    dtype
        To which it is rounded then.
    origin, scale
        Of the local coordinates of a chart, shape (inputs,) each; None where there is no chart.
    """

    domain: Array
    dtype: np.dtype[np.floating]
    origin: NDArray[np.floating] | None = None
    scale: NDArray[np.floating] | None = None

    def __call__(self, x: Array, input: int) -> Array:
        inside = np.clip(x, *self.domain[input]).astype(self.dtype).astype(np.float64)
        if self.origin is None or self.scale is None:
            return np.asarray(inside)
        return np.clip((inside - self.origin[input]) * self.scale[input], 0, 1)


class Gate(ABC):
    """A product of functions of one input each, by which all terms of a group are multiplied."""

    @abstractmethod
    def along(self, input: int, x: Array) -> Array | None:
        """Values of the function of one input at coordinates, shape (points,); None where it is 1."""


@dataclass(frozen=True, eq=False)
class ChartGate(Gate):
    """The window of a chart, equation (22)."""

    window: Window
    place: Place

    def along(self, input: int, x: Array) -> Array | None:
        cells, weights = splines.active(self.place(x, input), self.window.density)
        functions = cells[:, None] + np.arange(splines.ACTIVE)
        is_open = (functions >= self.window.first[input]) & (functions <= self.window.last[input])
        return np.where(is_open.all(axis=1), 1.0, np.where(is_open, weights, 0.0).sum(axis=1))


@dataclass(frozen=True, eq=False)
class NotLater(Gate):
    """One for points that lie beyond the end of no clock, zero for others."""

    later: Later
    place: Place | None = None

    def along(self, input: int, x: Array) -> Array | None:
        found = np.flatnonzero(self.later.clocks == input)
        if not len(found):
            return None
        inside = x if self.place is None else self.place(x, input)
        k = int(found[0])
        beyond = (inside.astype(np.float32) - self.later.ends[k]) * self.later.directions[k] > 0
        return (~beyond).astype(np.float64)


class Factors(ABC):
    """Terms Σ_k c_k Π_j a_kj(x_j) without windows.

    Attributes
    ----------
    coefficients
        c_k of each output, shape (terms, outputs).
    """

    coefficients: Array

    @abstractmethod
    def depends_on(self, input: int) -> bool:
        """Whether a factor of this input is other than 1."""

    @abstractmethod
    def along(self, input: int, x: Array, part: slice) -> Array:
        """Factors of some of the terms at coordinates of one input, shape (points, terms)."""

    def mean(self, input: int, x: Array, weights: Array, part: slice) -> Array:
        """Weighted sums of the factors over coordinates of one input, shape (terms,)."""
        return np.asarray(weights @ self.along(input, x, part))

    def meeting(self, low: Array, high: Array) -> Factors:
        """The terms that are not zero in all of a box, shape (inputs,) each."""
        return self

    def __len__(self) -> int:
        return len(self.coefficients)


@dataclass(frozen=True, eq=False)
class Additive(Factors):
    """Functions of one input each, of which each is a term: F, and what slopes add beyond the domain.

    Attributes
    ----------
    inputs
        Input of each term, shape (terms,).
    """

    inputs: NDArray[np.intp]
    coefficients: Array

    def depends_on(self, input: int) -> bool:
        return bool((self.inputs == input).any())

    def along(self, input: int, x: Array, part: slice) -> Array:
        found = np.ones((len(x), len(self.inputs[part])))
        own = np.flatnonzero(self.inputs[part] == input)
        if len(own):
            found[:, own] = self._values(input, x, np.arange(len(self.inputs))[part][own])
        return found

    @abstractmethod
    def _values(self, input: int, x: Array, terms: NDArray[np.intp]) -> Array:
        """Values of the functions of this input, shape (points, terms)."""


@dataclass(frozen=True, eq=False)
class SplineSums(Additive):
    """F of a table of coefficients: one term for each input and output in which it is not zero."""

    state: State
    place: Place
    outputs: NDArray[np.intp]

    @classmethod
    def of(cls, state: State, place: Place, size: Array) -> SplineSums:
        """Those of a state whose outputs are multiplied by a size, shape (outputs,)."""
        rows, outputs = state.lattice, state.outputs
        filled = np.zeros((rows.inputs, outputs), np.bool_)
        for rho in range(state.density + 1):
            table = state.rows_of(rho)[:, :, -1]
            begin = rows.rows(rho).start
            for j in range(rows.inputs):
                filled[j] |= table[rows.input_rows(rho, j) - begin].any(axis=0)
        inputs, own = np.nonzero(filled)
        coefficients = np.zeros((len(own), outputs))
        coefficients[np.arange(len(own)), own] = size[own]
        return cls(inputs, coefficients, state, place, own)

    def _values(self, input: int, x: Array, terms: NDArray[np.intp]) -> Array:
        width = self.state.width
        channels = self.outputs[terms] * width + width - 1
        return spline_values(self.state, input, self.place(x, input), channels)


@dataclass(frozen=True, eq=False)
class LevelOffsets(Additive):
    """Effects of levels, equation (44): one term for each input and output that has some."""

    offsets: Offsets
    place: Place
    outputs: NDArray[np.intp]

    @classmethod
    def of(cls, offsets: Offsets, place: Place) -> LevelOffsets:
        """All of them."""
        inputs, outputs = inputs_of(offsets.keys), offsets.values.shape[1]
        own = np.tile(np.arange(outputs), len(inputs))
        return cls(np.repeat(inputs, outputs), np.eye(outputs)[own], offsets, place, own)

    def _values(self, input: int, x: Array, terms: NDArray[np.intp]) -> Array:
        points = np.zeros((len(x), input + 1))
        points[:, input] = self.place(x, input)
        places, known = find_keys(self.offsets.keys, level_keys(points, [input])[:, 0])
        values = np.where(known[:, None], self.offsets.values[places].astype(np.float64), 0.0)
        return values[:, self.outputs[terms]]


@dataclass(frozen=True, eq=False)
class Slopes(Additive):
    """What the slopes of later rows add beyond the unit cube."""

    @classmethod
    def of(cls, later: Later) -> Slopes:
        """All of them."""
        inputs = np.flatnonzero(later.slopes.any(axis=1))
        return cls(inputs, later.slopes[inputs].astype(np.float64))

    def _values(self, input: int, x: Array, terms: NDArray[np.intp]) -> Array:
        beyond = x - x.clip(0, 1)
        return np.repeat((np.sign(beyond) * levelled(np.abs(beyond)))[:, None], len(terms), axis=1)


@dataclass(frozen=True, eq=False)
class Exponentials(Factors):
    """Exponentials of a table of coefficients, e^G and e^H.

    Factors are divided by their largest possible values, which the coefficients are multiplied by: so none
    exceeds 1, however the exponents of a term are shared among its inputs.
    """

    state: State
    place: Place
    channels: NDArray[np.intp]
    ceilings: Array  # (inputs, terms)
    coefficients: Array

    @classmethod
    def of(cls, state: State, place: Place, size: Array) -> Exponentials:
        """Those of a state whose outputs are multiplied by a size, shape (outputs,)."""
        width, lattice = state.width, state.lattice
        own = np.repeat(np.arange(state.outputs), 2 * state.terms)
        channels = own * width + np.tile(np.arange(2 * state.terms), state.outputs)
        ceilings = np.zeros((lattice.inputs, len(channels)))
        for rho in state.filled_densities(list(range(state.density + 1))).tolist():
            for j in range(lattice.inputs):
                rows = state.table[lattice.input_rows(rho, j)][:, channels]
                ceilings[j] += rows.max(axis=0)
        scale = np.exp(-state.damping) / np.arange(1, state.terms + 1) ** 2  # equation (7)
        slope = np.tile(np.concatenate([scale, -scale]), state.outputs)
        with np.errstate(over="ignore"):
            amplitude = slope * np.exp(ceilings.sum(axis=0)) * size[own]
        used = np.abs(amplitude) > NEGLIGIBLE * np.abs(amplitude).max(initial=0.0)
        coefficients = np.zeros((int(used.sum()), state.outputs))
        coefficients[np.arange(len(coefficients)), own[used]] = amplitude[used]
        return cls(state, place, channels[used], ceilings[:, used], coefficients)

    @cached_property
    def _inputs(self) -> NDArray[np.bool_]:
        """Inputs with a factor that varies."""
        lattice, found = self.state.lattice, np.zeros(self.state.lattice.inputs, np.bool_)
        for rho in range(self.state.density + 1):
            for j in range(lattice.inputs):
                rows = self.state.table[lattice.input_rows(rho, j)][:, self.channels]
                found[j] |= bool(np.ptp(rows, axis=0).any()) if rows.size else False
        return found

    def depends_on(self, input: int) -> bool:
        return bool(self._inputs[input])

    def along(self, input: int, x: Array, part: slice) -> Array:
        sums = spline_values(self.state, input, self.place(x, input), self.channels[part])
        return np.asarray(np.exp(sums - self.ceilings[input, part]))

    def mean(self, input: int, x: Array, weights: Array, part: slice) -> Array:
        some = [slice(k, k + 512) for k in range(0, len(x), 512)]
        return np.asarray(sum(weights[own] @ self.along(input, x[own], part) for own in some))


def spline_values(state: State, input: int, x: Array, channels: NDArray[np.intp]) -> Array:
    """What one input adds to sums of a table of coefficients, shape (points, channels), in float64."""
    found = np.zeros((len(x), len(channels)))
    for rho in state.filled_densities(list(range(state.density + 1))).tolist():
        cells, weights = splines.active(x, rho)
        rows = state.table[state.lattice.input_rows(rho, input)][:, channels].astype(np.float64)
        if not rows.any():
            continue
        first = cells - int(state.lattice.cells[rho, input, 0])
        for i in range(splines.ACTIVE):
            found += weights[:, i, None] * rows[first + i]
    return found


@dataclass(frozen=True, eq=False)
class BoxedKernels(Factors):
    """Local terms, equation (47): Laplace kernels, or constants, each in its box; sorted by boxes.

    Attributes
    ----------
    rates, centres
        Shapes (inputs,) and (terms, inputs).
    low, high
        Limits of the box of each term, of which the upper ones belong to it: shape (terms, inputs).
    """

    rates: Array
    centres: Array
    low: Array
    high: Array
    coefficients: Array

    @classmethod
    def of(cls, terms: LocalTerms) -> list[BoxedKernels]:
        """Kernels and constants of local terms."""
        low, high = box_limits(terms.boxes, len(terms.rates))
        own = terms.boxes.find(np.ascontiguousarray(terms.centres))
        order = np.argsort(own, kind="stable")
        centres, own = terms.centres[order].astype(np.float64), own[order]
        weights = terms.weights[order].astype(np.float64)
        kernels = cls(terms.rates.astype(np.float64), centres, low[own], high[own], weights)
        constants = cls(
            np.zeros(len(terms.rates)), np.zeros(low.shape), low, high, terms.constants.astype(np.float64)
        )
        return [kernels, constants]

    def depends_on(self, input: int) -> bool:
        cut = np.isfinite(self.low[:, input]).any() or np.isfinite(self.high[:, input]).any()
        return bool(self.rates[input] != 0 or cut)

    @staticmethod
    def _inside(x: Array) -> Array:
        """Coordinates as boxes and kernels take them."""
        return x.clip(0, 1).astype(np.float32).astype(np.float64)

    def along(self, input: int, x: Array, part: slice) -> Array:
        x = self._inside(x)[:, None]
        found = np.exp(-self.rates[input] * np.abs(x - self.centres[part, input]))
        found *= (x > self.low[part, input]) & (x <= self.high[part, input])
        return np.asarray(found)

    def mean(self, input: int, x: Array, weights: Array, part: slice) -> Array:
        x = self._inside(x)
        if len(x) <= CLOSE_ATOMS:
            return super().mean(input, x, weights, part)
        return two_sided_sums(
            x,
            weights,
            float(self.rates[input]),
            self.centres[part, input],
            self.low[part, input],
            self.high[part, input],
        )

    def meeting(self, low: Array, high: Array) -> BoxedKernels:
        kept = ((self.low < high) & (self.high >= low)).all(axis=1)
        parts = (each[kept] for each in (self.centres, self.low, self.high, self.coefficients))
        return BoxedKernels(self.rates, *parts)


def two_sided_sums(x: Array, weights: Array, rate: float, centres: Array, low: Array, high: Array) -> Array:
    """Σ_i w_i e^(−rate·|x_i − c|) over low < x_i ≤ high for each centre c in its interval, shape (centres,).

    Sums that decay to the right and to the left take one pass over the sorted coordinates; from each the
    part beyond the interval is subtracted.

    Examples
    --------
    >>> x, ones = np.linspace(0, 1, 101), np.ones(101)
    >>> two_sided_sums(x, ones, 0.0, np.array([0.5]), np.array([0.245]), np.array([0.5])).round(6)
    array([26.])
    """
    order = np.argsort(x, kind="stable")
    x, weights = x[order], weights[order]
    decay = np.exp(-rate * np.diff(x)).tolist()
    rising, falling = [0.0], [0.0]  # sums decayed to x_i, with x_i: of those before, and of those after
    for k, weight in enumerate(weights.tolist()):
        rising.append((rising[-1] * decay[k - 1] if k else 0.0) + weight)
    for k, weight in enumerate(weights[::-1].tolist()):
        falling.append((falling[-1] * decay[len(x) - 1 - k] if k else 0.0) + weight)
    before, after = np.array(rising), np.array(falling[::-1])  # after[i]: of x_i and those above

    def left(at: Array, to: Array) -> Array:
        """Sums over x_i ≤ `at`, decayed to `to`, which is not below."""
        k = np.searchsorted(x, at, side="right")
        return before[k] * np.exp(-rate * (to - np.where(k > 0, x[k - 1], to)))

    def right(beyond: Array, to: Array) -> Array:
        """Sums over x_i > `beyond`, decayed to `to`, which is not above them."""
        k = np.searchsorted(x, beyond, side="right")
        return after[k] * np.exp(-rate * (np.where(k < len(x), x[np.minimum(k, len(x) - 1)], to) - to))

    return (
        left(np.minimum(centres, high), centres)
        - left(low, centres)
        + right(np.maximum(centres, low), centres)
        - right(high, centres)
    )


def box_limits(boxes: Boxes, inputs: int) -> tuple[Array, Array]:
    """Limits of each box of a k-d tree, of which the upper ones belong to it: shape (boxes, inputs) each."""
    low, high = np.full((len(boxes), inputs), -np.inf), np.full((len(boxes), inputs), np.inf)
    pending = [(0, np.full(inputs, -np.inf), np.full(inputs, np.inf))]
    while pending:
        node, below, above = pending.pop()
        j, first, second = boxes.nodes[node].tolist()
        if j == LEAF:
            low[first], high[first] = below, above
            continue
        cut = float(boxes.cuts[node])
        left, right = above.copy(), below.copy()
        left[j], right[j] = min(above[j], cut), max(below[j], cut)
        pending += [(first, below, left), (second, right, above)]
    return low, high


# --- a state as groups of terms -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Group:
    """Terms with the same windows.

    Attributes
    ----------
    factors
        The terms.
    sign
        1 or −1.
    gates
        What all of them are multiplied by.
    low, high
        A box outside of which the gates are zero, shape (inputs,) each.
    """

    factors: Factors
    sign: float
    gates: tuple[Gate, ...]
    low: Array
    high: Array

    def through(self, gate: Gate, low: Array, high: Array, sign: float) -> Group | None:
        """The group times another gate that is zero outside a box; None if nothing is left."""
        below, above = np.maximum(self.low, low), np.minimum(self.high, high)
        if (below > above).any():
            return None
        factors = self.factors.meeting(below, above)
        if not len(factors):
            return None
        return replace(
            self, factors=factors, sign=self.sign * sign, gates=(*self.gates, gate), low=below, high=above
        )

    def gate_along(self, input: int, x: Array) -> Array | None:
        """Product of the gates of one input, shape (points,); None where all are 1."""
        found = [values for gate in self.gates if (values := gate.along(input, x)) is not None]
        return np.prod(found, axis=0) if found else None

    def depends_on(self, input: int) -> bool:
        """Whether a factor of this input, or a gate, is other than 1."""
        is_gated = any(gate.along(input, np.zeros(1)) is not None for gate in self.gates)
        return is_gated or self.factors.depends_on(input)


@dataclass(frozen=True, eq=False)
class Products:
    """A state as a sum of products of functions of one input each.

    Examples
    --------
    >>> from atlas_splines import Atlas
    >>> model = Atlas(inputs=2, terms=1, density=0)
    >>> model.g(0)[:] = 0.5
    >>> products_of(state_of(model)).evaluate(np.array([[0.2, 0.9]])).round(6)
    array([[1.718282]])
    """

    inputs: int
    outputs: int
    groups: tuple[Group, ...]

    def evaluate(self, points: Array) -> Array:
        """The sum at points, shape (rows, outputs): what predictions are without rounding to float32."""
        found = np.zeros((len(points), self.outputs))
        for group in self.groups:
            for begin in range(0, len(points), 128):
                some = points[begin : begin + 128]
                found[begin : begin + 128] += group.sign * self._group(group, some)
        return found

    def _group(self, group: Group, points: Array) -> Array:
        values = np.ones((len(points), len(group.factors)))
        for j in range(self.inputs):
            if group.factors.depends_on(j):
                values *= group.factors.along(j, points[:, j], slice(None))
            gate = group.gate_along(j, points[:, j])
            if gate is not None:
                values *= gate[:, None]
        return np.asarray(values @ group.factors.coefficients)


def products_of(state: State, is_later: bool = True) -> Products:
    """A state as a sum of products, with its slopes beyond the domain.

    Parameters
    ----------
    state
        The state.
    is_later
        Whether a point may lie beyond the end of a clock. If none does, what predicts there is left out: its
        terms cancel.
    """
    place = unit_place(state)
    later = state.later if is_later else None
    groups = _free(table_factors(state, place), state.lattice.inputs)
    if later is not None:
        # z is 1 before the ends of all clocks: z·known + (1 − z)·later
        beyond = Place(later.state.lattice.domain, state.dtype)
        others = _free(table_factors(later.state, beyond), state.lattice.inputs)
        before = NotLater(later, place)
        groups = [*_gated(groups, before, 1.0), *others, *_gated(others, before, -1.0)]
    for chart in visible_charts(state.charts, state.lattice.domain):
        groups = _with_chart(groups, chart, state, place)
        if len(groups) > MOST_GROUPS:
            raise TooManyWindows(
                f"{len(state.charts)} charts overlap so often that predictions are no short sum of products; "
                "call consolidate first"
            )
    if later is not None and later.slopes.any():
        slopes = _free([Slopes.of(later)], state.lattice.inputs)
        groups += [*slopes, *_gated(slopes, NotLater(later), -1.0)]
    return Products(state.lattice.inputs, state.outputs, tuple(groups))


def table_factors(state: State, place: Place, size: Array | None = None) -> list[Factors]:
    """All terms of a state below its charts."""
    size = np.ones(state.outputs) if size is None else size
    found: list[Factors] = [SplineSums.of(state, place, size), Exponentials.of(state, place, size)]
    if state.offsets is not None:
        found.append(LevelOffsets.of(state.offsets, place))
    for terms in state.local:
        found += BoxedKernels.of(terms)
    return [factors for factors in found if len(factors)]


def _free(parts: Sequence[Factors], inputs: int) -> list[Group]:
    """Groups without gates."""
    everywhere = np.full(inputs, np.inf)
    return [Group(factors, 1.0, (), -everywhere, everywhere) for factors in parts]


def _gated(groups: Sequence[Group], gate: Gate, sign: float) -> list[Group]:
    """Groups times a gate that may be other than zero everywhere."""
    return [replace(group, gates=(*group.gates, gate), sign=sign * group.sign) for group in groups]


def _with_chart(groups: list[Group], chart: Chart, state: State, place: Place) -> list[Group]:
    """Groups and a chart above them, equation (23)."""
    low, high = chart.window.box_in(state.lattice.domain).T
    membership = ChartGate(chart.window, place)
    origin, scale = chart.window.local_map(np.dtype(np.float64))
    local = Place(state.lattice.domain, state.dtype, origin, scale)
    below = [group.through(membership, low, high, -1.0) for group in groups] if chart.replaces else []
    content = _free(_chart_table(chart, local), state.lattice.inputs)
    own = [group.through(membership, low, high, 1.0) for group in content]
    return [*groups, *(group for group in [*below, *own] if group is not None)]


def unit_place(state: State) -> Place:
    """How coordinates of a state are clipped and rounded."""
    return Place(state.lattice.domain, state.dtype)


def _chart_table(chart: Chart, place: Place) -> list[Factors]:
    """Terms of the content of a chart."""
    state, size = state_of(chart.content), chart.size.astype(np.float64)
    parts: list[Factors] = [SplineSums.of(state, place, size), Exponentials.of(state, place, size)]
    return [factors for factors in parts if len(factors)]
