"""The state of a model: everything that its predictions depend on, replaced as a whole.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.core import kernels
from atlas_splines.core.charts import Chart, pack, seen_charts
from atlas_splines.core.checks import check_inputs
from atlas_splines.core.later import Later
from atlas_splines.core.lattice import Domain, Lattice
from atlas_splines.core.local_terms import LocalTerms
from atlas_splines.core.offsets import Offsets
from atlas_splines.core.remembering import Remembering

__all__ = ["Evidence", "Signs", "State", "Trainable", "padded"]

Trainable = Literal["finest", "all"]
Signs = tuple[tuple[int, ...], ...]  # for each output and each of its inputs: 1 rises, -1 falls, 0 is free


class Evidence(ABC):
    """What a model keeps of the data it has learned, so that updates can be added up and taken back.

    Predictions depend on it only through the coefficients that were made of it.
    """

    @abstractmethod
    def holds(self, update: int) -> bool:
        """Whether it can do without what it knows from an update."""

    @abstractmethod
    def revert(self, update: int, state: State) -> State:
        """The state of a model as if an update had not come, with charts and domain as they are."""

    def on_unit_cube(self, state: State) -> State | None:
        """The state of a model without what extended its domain; None if that cannot be told from this."""
        return None


@dataclass(frozen=True, eq=False)
class State(Remembering):
    """Size, coefficients and charts of a model.

    Only training changes a state, and nothing but the numbers in its table. Whatever else changes a model
    gives it another state: who reads a model on another thread takes its state once, and goes by that.

    Attributes
    ----------
    lattice
        Which row of the table belongs to which basis function.
    outputs, terms, trainable, damping
        As in `Atlas`.
    table
        Coefficients, shape (rows, channels); in a row stand G, H and F of one output after the other.
    charts
        What updates have added, oldest first.
    packed
        The charts that can be seen, as the kernels take them; None without charts.
    evidence
        What is kept of the data that the coefficients were made of; None if they were trained otherwise.
    signs
        Which way each output has to go along each input, whatever is learned; empty if all are free.
    offsets
        What is added to the outputs of the table, below all charts, by level; None if nothing is.
    local
        Local terms that are added to the outputs of the table, below all charts.
    later
        What predicts instead, below all charts, beyond the end of a clock; None if nothing does.
    """

    lattice: Lattice
    outputs: int
    terms: int
    trainable: Trainable
    damping: float
    table: NDArray[np.floating]
    charts: tuple[Chart, ...] = ()
    packed: kernels.Charts | None = None
    evidence: Evidence | None = None
    signs: Signs = ()
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
        seen = seen_charts(charts, domain)
        return replace(self, charts=charts, packed=pack(seen, domain) if seen else None)

    @cached_property
    def monotone_inputs(self) -> NDArray[np.intp]:
        """Inputs along which outputs have to rise or to fall."""
        return np.flatnonzero(np.any(self.signs, axis=0)) if self.signs else np.zeros(0, np.intp)

    def has_evidence_of(self, update: int) -> bool:
        """Whether what the state keeps of the data can do without an update."""
        return self.evidence is not None and self.evidence.holds(update)

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
        """Densities whose coefficients training may change."""
        return [self.density] if self.trainable == "finest" else list(range(self.density + 1))

    @property
    def frozen_densities(self) -> list[int]:
        """Densities whose coefficients training leaves alone."""
        return [d for d in range(self.density + 1) if d not in self.trained_densities]

    def filled_densities(self, densities: list[int]) -> NDArray[np.int64]:
        """Those of the densities that have a coefficient other than zero; the rest add exactly nothing."""
        return np.array([d for d in densities if self.table[self.lattice.rows(d)].any()], np.int64)

    @property
    def first_trained_row(self) -> int:
        """Training changes the table from this row on."""
        return self.lattice.rows(self.trained_densities[0]).start

    @cached_property
    def layout(self) -> kernels.Layout:
        """What the kernels must know besides the table; `slope` is dA/dsum over the sum's exponential."""
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
        """View of a density's coefficients as (rows, outputs, 2M + 1); along the last axis stand G, H, F."""
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
