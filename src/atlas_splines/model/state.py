"""The state of a model: an immutable value that predictions are a function of, replaced as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model import kernels
from atlas_splines.model.charts import Chart, pack, visible_charts
from atlas_splines.model.checks import check_inputs
from atlas_splines.model.immutable import Remembering
from atlas_splines.model.lattice import Domain, Lattice
from atlas_splines.model.local_terms import LocalTerms

__all__ = [
    "COORDINATE_BITS",
    "LEVEL_STEPS",
    "NO_LEVEL",
    "STRAIGHT",
    "Contribution",
    "Keys",
    "Later",
    "Monotonic",
    "Offsets",
    "State",
    "Trainable",
    "coordinates_of",
    "find_keys",
    "inputs_of",
    "level_keys",
    "levelled",
    "padded",
]

Keys = NDArray[np.int64]

COORDINATE_BITS = 32  # low bits of a key, those of a float32 coordinate; the high bits are the input
LEVEL_STEPS = 2**22  # coordinates of levels are multiples of 1/LEVEL_STEPS, exact in float32
NO_LEVEL = -1  # key of any other coordinate


@dataclass(frozen=True, eq=False)
class Offsets:
    """Random effects as offsets of outputs by level, equation (44); a level that is not a key has none.

    Attributes
    ----------
    keys
        Levels, rising, shape (levels,): the number of an input and the bits of a coordinate of it.
    values
        Offsets of the outputs, in the dtype of the model, shape (levels, outputs).

    Examples
    --------
    >>> keys = level_keys(np.array([[0.25]]), [0])[0]
    >>> offsets, out = Offsets(keys, np.array([[3.0]])), np.zeros((2, 1))
    >>> offsets.add_to(np.array([[0.25], [0.26]]), out)
    >>> out
    array([[3.],
           [0.]])
    """

    keys: Keys
    values: NDArray[np.floating]

    def add_to(self, points: NDArray[np.floating], out: NDArray[np.floating]) -> None:
        """Add the offsets of points, shape (rows, inputs), to their outputs, shape (rows, outputs)."""
        for column in level_keys(points, inputs_of(self.keys)).T:
            places, known = find_keys(self.keys, column)
            out[known] += self.values[places[known]]


def level_keys(points: NDArray[np.floating], inputs: Sequence[int]) -> Keys:
    """Key of the level of each point along some inputs, shape (points, inputs); −1 without a level.

    Examples
    --------
    >>> level_keys(np.array([[0.0, 0.5], [-0.0, 0.1]]), [1, 0]) >> 32
    array([[ 1,  0],
           [-1,  0]])
    """
    exact = points[:, list(inputs)].astype(np.float32) + np.float32(0)  # there is one zero only
    keys = exact.view(np.uint32).astype(np.int64) | np.array(inputs, np.int64) << COORDINATE_BITS
    steps = exact.astype(np.float64) * LEVEL_STEPS
    return np.where(steps == np.rint(steps), keys, NO_LEVEL)


def inputs_of(keys: Keys) -> list[int]:
    """Inputs that keys belong to, rising."""
    return np.unique(keys >> COORDINATE_BITS).tolist()


def coordinates_of(keys: Keys) -> NDArray[np.float32]:
    """Coordinates of keys.

    Examples
    --------
    >>> coordinates_of(level_keys(np.array([[0.5]]), [0])[0])
    array([0.5], dtype=float32)
    """
    return (keys & (2**COORDINATE_BITS - 1)).astype(np.uint32).view(np.float32)


def find_keys(known: Keys, keys: Keys) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Positions of keys in a sorted array, and whether they are in it; 0 for those that are not."""
    places = np.searchsorted(known, keys)
    places[places == len(known)] = 0
    found = known[places] == keys if len(known) else np.zeros(keys.shape, np.bool_)
    return np.where(found, places, 0), found


Array = NDArray[np.floating]

STRAIGHT = 0.75  # widths of the domain over which extrapolation is linear; it saturates at one width


@dataclass(frozen=True, eq=False)
class Later:
    """Extrapolation in time: another model beyond the last row along some clocks.

    Attributes
    ----------
    clocks
        Inputs that are monotone in the order of the rows, shape (clocks,).
    directions
        1 for an increasing clock and −1 for a decreasing one, shape (clocks,).
    ends
        Coordinate of the last known row along each clock, shape (clocks,), in float32.
    state
        The model there: a state without charts.
    slopes
        Of the linear part of that state along each input, shape (inputs, outputs). Beyond the domain it is
        extrapolated by these slopes, which saturate one width away.
    """

    clocks: NDArray[np.intp]
    directions: NDArray[np.int8]
    ends: NDArray[np.float32]
    state: State
    slopes: NDArray[np.float32]

    def includes(self, points: Array) -> NDArray[np.bool_]:
        """Which points, shape (rows, inputs), lie beyond the end of a clock."""
        beyond = (points[:, self.clocks].astype(np.float32) - self.ends) * self.directions > 0
        return np.asarray(beyond.any(axis=1))

    def continued(self, points: Array) -> NDArray[np.float64]:
        """Linear extrapolation, with saturation, at points beyond the unit cube, shape (rows, outputs)."""
        beyond = points - points.clip(0, 1)
        change = np.sign(beyond) * levelled(np.abs(beyond)) @ self.slopes.astype(np.float64)
        return np.where(self.includes(points)[:, None], change, 0.0)

    @property
    def parts(self) -> tuple[NDArray[np.generic], ...]:
        """Everything besides the state, for a fingerprint."""
        return (self.clocks, self.directions, self.ends, self.slopes)

    def scaled(self, share: float) -> Later:
        """The same with slopes times a number; the state has to be scaled by the caller."""
        return replace(self, slopes=np.float32(share) * self.slopes)


def levelled(beyond: Array) -> NDArray[np.float64]:
    """Distances, linear at first and saturating at 1, continuously differentiable.

    Examples
    --------
    >>> levelled(np.array([0.5, 1.0, 2.0, 99.0]))
    array([0.5   , 0.9375, 1.    , 1.    ])
    """
    near = np.minimum(beyond, 2 - STRAIGHT)
    return np.asarray(near - np.maximum(near - STRAIGHT, 0) ** 2 / (4 * (1 - STRAIGHT)))


Trainable = Literal["finest", "all"]
Monotonic = tuple[
    tuple[int, ...], ...
]  # for each output and each of its inputs: 1 rises, -1 falls, 0 is free


class Contribution(ABC):
    """Interface of a model's memory: what it keeps of its data so that updates can be added and reverted.

    Predictions depend on it only through the coefficients that were derived from it.
    """

    @abstractmethod
    def holds(self, update: int) -> bool:
        """Whether the contribution of an update can be removed."""

    @abstractmethod
    def revert(self, update: int, state: State) -> State:
        """The state of a model without an update, with charts and domain as they are."""

    def on_unit_cube(self, state: State) -> State | None:
        """The state of a model without the extension of its domain; None if that cannot be derived."""
        return None


@dataclass(frozen=True, eq=False)
class State(Remembering):
    """Size, coefficients and charts of a model.

    Only gradient training modifies a state, and only the numbers in its table. Every other change gives the
    model another state, so a thread that takes the state once reads a consistent model.

    Attributes
    ----------
    lattice
        Which row of the table belongs to which basis function.
    outputs, terms, trainable, damping
        As in `Atlas`.
    table
        Coefficients, shape (rows, channels); a row holds G, H and F of one output after the other.
    charts
        Charts of updates, oldest first.
    packed
        The charts that affect predictions, laid out for the kernels; None without charts.
    pooled
        The memory that the coefficients are derived from; None if they were trained otherwise.
    monotonic
        Monotonicity constraint of each output along each input: 1, −1 or 0; empty if there are none.
    offsets
        Random effects of levels, added to the outputs of the table below all charts; None if there are none.
    local
        Local terms that are added to the outputs of the table, below all charts.
    later
        The model below all charts beyond the end of a clock; None if there is none.
    """

    lattice: Lattice
    outputs: int
    terms: int
    trainable: Trainable
    damping: float
    table: NDArray[np.floating]
    charts: tuple[Chart, ...] = ()
    packed: kernels.Charts | None = None
    pooled: Contribution | None = None
    monotonic: Monotonic = ()
    offsets: Offsets | None = None
    local: tuple[LocalTerms, ...] = ()
    later: Later | None = None

    @classmethod
    def zero(cls, lattice: Lattice, outputs: int, terms: int, trainable: Trainable, damping: float) -> State:
        """A state in which all coefficients are zero, without charts."""
        table = np.zeros((lattice.row_count, padded(outputs * (2 * terms + 1))), lattice.dtype)
        return cls(lattice, outputs, terms, trainable, damping, table)

    def emptied(self, domain: Domain) -> State:
        """The state with another domain, all coefficients zero and no charts: to read a file into."""
        lattice = Lattice(domain, self.density, self.dtype)
        return State.zero(lattice, self.outputs, self.terms, self.trainable, self.damping)

    def with_charts(self, charts: Iterable[Chart]) -> State:
        """The state with these charts and no others."""
        charts, domain = tuple(charts), self.lattice.domain
        visible = visible_charts(charts, domain)
        return replace(self, charts=charts, packed=pack(visible, domain) if visible else None)

    @cached_property
    def monotone_inputs(self) -> NDArray[np.intp]:
        """Inputs with a monotonicity constraint."""
        return np.flatnonzero(np.any(self.monotonic, axis=0)) if self.monotonic else np.zeros(0, np.intp)

    def has_contribution_of(self, update: int) -> bool:
        """Whether the contribution of an update can be removed from the memory."""
        return self.pooled is not None and self.pooled.holds(update)

    @property
    def density(self) -> int:
        """The finest density."""
        return self.lattice.density

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Dtype of coefficients and points."""
        return self.lattice.dtype

    @property
    def width(self) -> int:
        """Sums of one output: G_k, H_k and F."""
        return 2 * self.terms + 1

    @property
    def trained_densities(self) -> list[int]:
        """Densities whose coefficients are trained."""
        return [self.density] if self.trainable == "finest" else list(range(self.density + 1))

    @property
    def frozen_densities(self) -> list[int]:
        """Densities whose coefficients are not trained."""
        return [d for d in range(self.density + 1) if d not in self.trained_densities]

    def filled_densities(self, densities: list[int]) -> NDArray[np.int64]:
        """The densities with non-zero coefficients; the others contribute exactly zero."""
        return np.array([d for d in densities if self.table[self.lattice.rows(d)].any()], np.int64)

    @property
    def first_trained_row(self) -> int:
        """First row of the table that training changes."""
        return self.lattice.rows(self.trained_densities[0]).start

    @cached_property
    def layout(self) -> kernels.Layout:
        """Layout of the table for the kernels; `slope` is dA/dsum over the sum's exponential."""
        channels = self.table.shape[1]
        # kernels load whole lanes, and may look beyond the last channel
        slope = np.zeros(channels + kernels.LANES, self.dtype)[:channels]
        scale = np.exp(-self.damping) / np.arange(1, self.terms + 1) ** 2  # equation (7)
        one_output = np.concatenate([scale, -scale, [1.0]])  # G, H, F
        slope[: self.outputs * one_output.size] = np.tile(one_output, self.outputs)
        origins = self.lattice.origins if self.lattice.is_extended else self.lattice.origins[:0]
        return kernels.Layout(self.lattice.inputs, self.outputs, self.terms, slope, origins)

    def points(self, X: ArrayLike, name: str = "X") -> NDArray[np.floating]:
        """Return X checked against the domain, contiguous and in the state's dtype."""
        return check_inputs(X, self.lattice.domain, self.dtype, name)

    def rows_of(self, density: int) -> NDArray[np.floating]:
        """View of a density's coefficients as (rows, outputs, 2M + 1); the last axis is G, H, F."""
        used = self.table[self.lattice.rows(density), : self.outputs * self.width]
        return used.reshape(-1, self.outputs, self.width)


def padded(channels: int) -> int:
    """Length of a table row: the channels, rounded up to whole vectors of the processor.

    Examples
    --------
    >>> padded(21)
    24
    """
    return -(-channels // kernels.LANES) * kernels.LANES
