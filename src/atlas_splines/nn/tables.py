"""Coefficients of one density, and where points stand in them.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from atlas_splines.core import splines
from atlas_splines.core.lattice import Lattice
from atlas_splines.nn.gather import gather

__all__ = [
    *("Table", "as_bits", "as_numpy", "from_bits"),
    *("locate", "locate_beyond", "numpy_dtype", "working_dtype"),
]


def locate(points: Tensor, cells: Tensor | int) -> tuple[Tensor, Tensor]:
    """Cell of each coordinate, (points, inputs), and its four weights, (points, 4, inputs), equation (3)."""
    scaled = points * cells
    cell = scaled.detach().to(torch.int32)
    cell = torch.clamp(cell, min=0).clamp(max=cells - 1)  # the last cell has x = 1, and any cell NaN
    return cell, weigh(scaled - cell)


def locate_beyond(points: Tensor, cells: Tensor | int, limits: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The same on the lattice that goes on beyond the unit cube, equation (26).

    Limits, of shape (2, inputs), are the first and the last cell that may be found.
    """
    scaled = points * cells
    known = scaled.detach()
    cell = torch.where(known < cells, known.floor(), known.ceil() - 1).to(torch.int32)
    if limits is not None:
        cell = cell.maximum(limits[0]).minimum(limits[1])
    return cell, weigh(scaled - cell)


def weigh(t: Tensor) -> Tensor:
    """The four weights at t in a cell, equation (3): (points, 4, inputs)."""
    u = 1 - t
    weights = [u * u * u, t * t * (3 * t - 6) + 4, u * u * (3 * u - 6) + 4, t * t * t]
    return torch.stack(weights, dim=1) / 6


class Table(nn.EmbeddingBag):
    """Coefficients of one density, shape (rows, channels): trained, or frozen and no parameter.

    Its class tells DistributedDataParallel whether to expect sparse gradients.

    Attributes
    ----------
    lattice
        Its finest density is the one of the coefficients. It stays what it is when the table changes its
        dtype, for so do the rows.
    """

    origins: Tensor
    limits: Tensor | None

    def __init__(self, coefficients: Tensor, lattice: Lattice, trained: bool, sparse: bool) -> None:
        rows, channels = coefficients.shape
        super().__init__(rows, channels, mode="sum", sparse=sparse, _weight=coefficients)
        self.cells, self.lattice = splines.cell_count(lattice.density), lattice
        self.train_coefficients(trained)
        self.set_constants()

    def set_constants(self) -> None:
        """Set the constants that follow from the lattice; they are in no checkpoint."""
        device, density = self.weight.device, self.lattice.density
        origins = self.lattice.origins[density] - self.lattice.rows(density).start  # row where cell 0 begins
        self.register_buffer("origins", torch.tensor(origins, dtype=torch.int32, device=device), False)
        ends = self.lattice.cells[density].T if self.lattice.is_extended else None
        limits = None if ends is None else torch.tensor(ends, dtype=torch.int32, device=device)
        self.register_buffer("limits", limits, False)

    @property
    def coefficients(self) -> Tensor:
        """The coefficients."""
        return self.weight

    @property
    def trained(self) -> bool:
        """Whether an optimiser sees the coefficients."""
        return "weight" in self._parameters

    def train_coefficients(self, trained: bool) -> None:
        """Make the coefficients a parameter, or a buffer that nothing trains by mistake."""
        if trained == self.trained:
            return
        coefficients = self.coefficients.detach()
        del self.weight
        if trained:
            self.weight = nn.Parameter(coefficients)
        else:
            self.register_buffer("weight", coefficients)

    def extra_repr(self) -> str:
        """Size, and whether it is trained."""
        use = "trained" if self.trained else "frozen"
        return f"{self.num_embeddings} rows, {self.embedding_dim} channels, {use}"

    def sums(self, points: Tensor) -> Tensor:
        """Splines of all channels, added up over the inputs, equation (5): (points, channels)."""
        cells, weights = self.locate(points)
        cells, weights = cells + self.origins, weights.to(self.weight.dtype)
        return gather(self.coefficients, cells, weights, self.sparse)

    def locate(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Cell and weights of each coordinate."""
        if self.limits is None:
            return locate(points, self.cells)
        # NaN has any cell; and in another dtype than the table was made in, an end may round to the next one
        return locate_beyond(points, self.cells, self.limits)

    def rows_for(self, lattice: Lattice) -> NDArray[np.floating]:
        """Coefficients as a model on another lattice of this domain has them: (rows, channels)."""
        density = self.lattice.density
        rows = lattice.nearest_rows_at(self.lattice, density) - self.lattice.rows(density).start
        return as_numpy(self.coefficients)[rows]


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """Dtype of everything but the tables: a float of 16 bits cannot tell neighbouring cells apart."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def numpy_dtype(dtype: torch.dtype) -> np.dtype[np.floating]:
    """The same for NumPy."""
    return np.dtype(np.float64 if working_dtype(dtype) == torch.float64 else np.float32)


def as_numpy(values: Any) -> NDArray[Any]:
    """A tensor, or what is an array already, as an array; floats in their working dtype."""
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return np.asarray(values.to(working_dtype(values.dtype)) if values.is_floating_point() else values)


def as_bits(values: NDArray[np.float32]) -> Tensor:
    """Numbers as whole ones with the same bits, which no change of a module's dtype rounds."""
    return torch.tensor(np.ascontiguousarray(values, np.float32)).view(torch.int32)


def from_bits(bits: Tensor) -> Tensor:
    """The numbers in float32 that `as_bits` was given.

    Examples
    --------
    >>> from_bits(as_bits(np.array([0.1, -2.0])))
    tensor([ 0.1000, -2.0000])
    """
    return bits.view(torch.float32)
