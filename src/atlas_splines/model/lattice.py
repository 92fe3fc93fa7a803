"""Lattices: the uniform knot sequences of a domain at each density, and their rows in a coefficient table.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.model import splines
from atlas_splines.model.immutable import Remembering

__all__ = ["MAX_DENSITY", "MAX_FUNCTIONS", "MAX_WIDTH", "Domain", "Lattice", "cell_range", "check_reach"]

Domain = NDArray[np.float64]  # lowest and highest coordinate of each input, shape (inputs, 2)

MAX_DENSITY = 20  # four million functions an input: float32 does not resolve the cells of finer ones
MAX_FUNCTIONS = splines.basis_size(MAX_DENSITY)  # of an input whose domain was extended, too
MAX_WIDTH = 1000  # of an input's domain


@dataclass(frozen=True, eq=False)
class Lattice(Remembering):
    """Rows of a coefficient table: density by density, input by input, the functions of a domain, (27).

    Attributes
    ----------
    domain
        Lowest and highest coordinate of each input, shape (inputs, 2).
    density
        The finest density; all coarser ones have rows too.
    dtype
        Points are rounded to it before they are located, and so are the ends of the domain.

    Examples
    --------
    >>> lattice = Lattice.of_unit_cube(inputs=2, density=1, dtype=np.dtype("float32"))
    >>> lattice.row_count, lattice.rows(1), lattice.is_extended
    (24, slice(8, 24, None), False)
    """

    domain: Domain
    density: int
    dtype: np.dtype[np.floating]

    @classmethod
    def of_unit_cube(cls, inputs: int, density: int, dtype: np.dtype[np.floating]) -> Lattice:
        """The lattice of a new model."""
        return cls(np.tile([0.0, 1.0], (inputs, 1)), density, dtype)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.domain)

    @cached_property
    def is_extended(self) -> bool:
        """Whether the domain is more than the unit cube: then there are more rows than in equation (9)."""
        return bool((self.domain != [0, 1]).any())

    @cached_property
    def cells(self) -> NDArray[np.intp]:
        """First and last cell of each input at each density: shape (densities, inputs, 2)."""
        densities = range(self.density + 1)
        return np.stack([cell_range(self.domain, density, self.dtype) for density in densities])

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """First row of each density's inputs, and the end of the table: shape (densities·inputs + 1,)."""
        functions = self.cells[:, :, 1] - self.cells[:, :, 0] + splines.ACTIVE  # (densities, inputs)
        return np.concatenate([[0], np.cumsum(functions)])

    @cached_property
    def origins(self) -> NDArray[np.int32]:
        """Row where cell 0 of each input begins at each density: shape (densities, inputs)."""
        first_rows = self.starts[:-1].reshape(-1, self.inputs)
        return (first_rows - self.cells[:, :, 0]).astype(np.int32)

    @property
    def row_count(self) -> int:
        """Rows of the table."""
        return int(self.starts[-1])

    def rows(self, density: int) -> slice:
        """Rows of the table that hold a density."""
        first, end = density * self.inputs, (density + 1) * self.inputs
        return slice(int(self.starts[first]), int(self.starts[end]))

    def input_rows(self, density: int, input: int) -> NDArray[np.intp]:
        """Rows of a density's functions of one input, in increasing order."""
        family = density * self.inputs + input
        return np.arange(self.starts[family], self.starts[family + 1])

    def nearest_rows(self, smaller: Lattice) -> NDArray[np.intp]:
        """For each row that of the same function in a smaller lattice, or of the nearest one of its input."""
        densities = range(self.density + 1)
        return np.concatenate([self.nearest_rows_at(smaller, density) for density in densities])

    def nearest_rows_at(self, smaller: Lattice, density: int) -> NDArray[np.intp]:
        """The same for the rows of one density.

        Examples
        --------
        >>> unit = Lattice.of_unit_cube(inputs=1, density=1, dtype=np.dtype("float32"))
        >>> wider = Lattice(np.array([[-0.2, 1.0]]), 1, np.dtype("float32"))
        >>> wider.nearest_rows_at(unit, density=1)
        array([ 4,  4,  5,  6,  7,  8,  9, 10, 11])
        """
        nearest = []
        for j in range(self.inputs):
            known = smaller.input_rows(density, j)
            rows = self.input_rows(density, j) - self.shift(smaller, density, j)
            nearest.append(rows.clip(known[0], known[-1]))
        return np.concatenate(nearest)

    def shift(self, smaller: Lattice, density: int, input: int) -> int:
        """Offset of an input's rows from those in a smaller lattice."""
        return int(self.origins[density, input] - smaller.origins[density, input])


def cell_range(domain: Domain, density: int, dtype: np.dtype[np.floating] | str) -> NDArray[np.intp]:
    """First and last cell of each input of a domain, located as points are, equation (27): (inputs, 2).

    Examples
    --------
    >>> cell_range(np.array([[0.0, 1.0], [-0.2, 1.0]]), density=1, dtype="float64")
    array([[ 0,  4],
           [-1,  4]])
    """
    return splines.active(domain.astype(dtype), density)[0]


def check_reach(domain: Domain, density: int) -> None:
    """Raise if an input has too wide a domain, or too many basis functions at a density."""
    width = np.diff(domain)[:, 0]
    too_far = (width > MAX_WIDTH) | (width * splines.cell_count(density) + 3 > MAX_FUNCTIONS)
    if too_far.any():
        column = int(np.argmax(too_far))
        raise ValueError(
            f"input {column} cannot reach from {domain[column, 0]:g} to {domain[column, 1]:g} at density "
            f"{density}: that is more than {MAX_WIDTH} times the unit width or {MAX_FUNCTIONS:,} basis "
            "functions; leave out far values or rescale it"
        )
