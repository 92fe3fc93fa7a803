"""Coefficient tables, and a sparse gather (an embedding bag) with derivatives of any order, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from atlas_splines.model import splines
from atlas_splines.model.lattice import Lattice
from atlas_splines.model.splines import ACTIVE

__all__ = [
    "Table",
    "active_rows",
    "as_bits",
    "as_numpy",
    "from_bits",
    "gather",
    "locate",
    "locate_beyond",
    "numpy_dtype",
    "working_dtype",
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

    DistributedDataParallel detects by its class whether gradients are sparse.

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
        """Whether the coefficients are a parameter."""
        return "weight" in self._parameters

    def train_coefficients(self, trained: bool) -> None:
        """Make the coefficients a parameter, or a buffer, which no optimiser trains."""
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
        """Cell and B-spline weights of each coordinate."""
        if self.limits is None:
            return locate(points, self.cells)
        # NaN has any cell; and in another dtype than the table was made in, an end may round to the next one
        return locate_beyond(points, self.cells, self.limits)

    def rows_for(self, lattice: Lattice) -> NDArray[np.floating]:
        """Coefficients on another lattice of this domain: (rows, channels)."""
        density = self.lattice.density
        rows = lattice.nearest_rows_at(self.lattice, density) - self.lattice.rows(density).start
        return as_numpy(self.coefficients)[rows]


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """Dtype of everything but the tables: 16 bits do not resolve neighbouring cells."""
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
    """Floats as integers with the same bits, which no change of a module's dtype rounds."""
    return torch.tensor(np.ascontiguousarray(values, np.float32)).view(torch.int32)


def from_bits(bits: Tensor) -> Tensor:
    """The float32 numbers of `as_bits`.

    Examples
    --------
    >>> from_bits(as_bits(np.array([0.1, -2.0])))
    tensor([ 0.1000, -2.0000])
    """
    return bits.view(torch.float32)


def gather(table: Tensor, cells: Tensor, weights: Tensor, sparse: bool) -> Tensor:
    """Sums of each point, from four rows of the table for each input: (points, channels).

    With `sparse` the table gets sparse gradients.

    Examples
    --------
    >>> table, cells = torch.eye(5), torch.tensor([[1]])
    >>> gather(table, cells, torch.tensor([[[0.1], [0.2], [0.3], [0.4]]]), sparse=False)
    tensor([[0.0000, 0.1000, 0.2000, 0.3000, 0.4000]])
    """
    if is_exporting():
        return plain_gather(table, cells, weights)
    return cast(Tensor, Gather.apply(table, cells, weights, sparse))


class Gather(torch.autograd.Function):
    """∂T/∂slopes: the sums F, G, H of each point, from four rows of the table for each input."""

    @staticmethod
    def forward(table: Tensor, cells: Tensor, weights: Tensor, sparse: bool) -> Tensor:
        return torch.nn.functional.embedding_bag(
            active_rows(cells).flatten(1),
            table.detach(),  # a table that needs a gradient would take a slower path, though this has its own
            mode="sum",
            per_sample_weights=weights.detach().flatten(1),
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        table, cells, weights, ctx.sparse = inputs
        ctx.save_for_backward(table, cells, weights)

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        table, cells, weights = ctx.saved_tensors
        to_table, _, to_weights, _ = ctx.needs_input_grad
        return (
            Scatter.apply(cells, weights, slopes, len(table), ctx.sparse) if to_table else None,
            None,
            Dot.apply(table, cells, slopes, ctx.sparse) if to_weights else None,
            None,
        )

    @staticmethod
    def vmap(info: Any, dims: Any, table: Tensor, cells: Tensor, weights: Tensor, sparse: bool) -> Any:
        """One gather for the whole batch; entries may have different tables."""
        sums = Gather.apply(*gather_all(info.batch_size, dims, table, cells, weights), False)
        return sums.unflatten(0, (info.batch_size, -1)), 0


class Scatter(torch.autograd.Function):
    """∂T/∂table: the slopes of each point, added to four rows for each input."""

    @staticmethod
    def forward(cells: Tensor, weights: Tensor, slopes: Tensor, rows: int, sparse: bool) -> Tensor:
        return (
            scatter_sparse(cells, weights, slopes, rows) if sparse else scatter(cells, weights, slopes, rows)
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        cells, weights, slopes, ctx.rows, ctx.sparse = inputs
        ctx.save_for_backward(cells, weights, slopes)

    @staticmethod
    def backward(ctx: Any, table: Tensor) -> tuple[Tensor | None, ...]:
        cells, weights, slopes = ctx.saved_tensors
        _, to_weights, to_slopes, _, _ = ctx.needs_input_grad
        return (
            None,
            Dot.apply(table, cells, slopes, ctx.sparse) if to_weights else None,
            Gather.apply(table, cells, weights, ctx.sparse) if to_slopes else None,
            None,
            None,
        )

    @staticmethod
    def vmap(
        info: Any, dims: Any, cells: Tensor, weights: Tensor, slopes: Tensor, rows: int, sparse: bool
    ) -> Any:
        """One scatter into the tables of the whole batch, one below the other."""
        batch = info.batch_size
        cells = own_rows(fold(cells, dims[0], batch), rows, batch)
        tables = Scatter.apply(
            cells, fold(weights, dims[1], batch), fold(slopes, dims[2], batch), batch * rows, False
        )
        return tables.unflatten(0, (batch, rows)), 0


class Dot(torch.autograd.Function):
    """∂T/∂weights: the inner product of the slopes of each point with each of its rows."""

    @staticmethod
    def forward(table: Tensor, cells: Tensor, slopes: Tensor, sparse: bool) -> Tensor:
        indices = active_rows(cells)
        points, per_point = len(cells), cells.shape[1] * ACTIVE
        bags = torch.arange(points, device=cells.device, dtype=cells.dtype)
        products = torch.ops.aten._embedding_bag_per_sample_weights_backward(
            slopes, table, indices.flatten(), bags * per_point, bags.repeat_interleave(per_point), 0
        )
        return products.view(indices.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        table, cells, slopes, ctx.sparse = inputs
        ctx.save_for_backward(table, cells, slopes)

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        table, cells, slopes = ctx.saved_tensors
        to_table, _, to_slopes, _ = ctx.needs_input_grad
        return (
            Scatter.apply(cells, weights, slopes, len(table), ctx.sparse) if to_table else None,
            None,
            Gather.apply(table, cells, weights, ctx.sparse) if to_slopes else None,
            None,
        )

    @staticmethod
    def vmap(info: Any, dims: Any, table: Tensor, cells: Tensor, slopes: Tensor, sparse: bool) -> Any:
        """As for the gather."""
        products = Dot.apply(*gather_all(info.batch_size, dims, table, cells, slopes), False)
        return products.unflatten(0, (info.batch_size, -1)), 0


def active_rows(cells: Tensor) -> Tensor:
    """Rows of the four functions that are active in each cell: (points, 4, inputs)."""
    return cells[:, None] + torch.arange(ACTIVE, device=cells.device, dtype=cells.dtype)[:, None]


def plain_gather(table: Tensor, cells: Tensor, weights: Tensor) -> Tensor:
    """The gather in operations that every export format supports; slower, and it needs more memory."""
    rows = torch.nn.functional.embedding(active_rows(cells).long(), table)  # (points, 4, inputs, channels)
    return (rows * weights[..., None]).sum((1, 2))


def is_exporting() -> bool:
    """Whether the module is being exported; older PyTorch does not distinguish that from compiling."""
    return bool(getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)())


def scatter(cells: Tensor, weights: Tensor, slopes: Tensor, rows: int) -> Tensor:
    """Slopes times weights, added up by row: (rows, channels).

    Sorting the points by cell makes it a gather: far faster than adding row by row in random order, and
    the order of the sums does not depend on luck.
    """
    every_cell = torch.arange(rows, device=cells.device, dtype=cells.dtype)
    cells, order = cells.flatten().sort()
    by_cell = sum_by_cell(order, weights, slopes, torch.searchsorted(cells, every_cell))
    total = by_cell[0]  # (rows, channels)
    for d in range(1, ACTIVE):
        total[d:] += by_cell[d, :-d]  # function d of a cell is d rows further
    return total


def scatter_sparse(cells: Tensor, weights: Tensor, slopes: Tensor, rows: int) -> Tensor:
    """The same as a sparse tensor: it has the rows that the points touch and costs nothing for the others."""
    cells, order = cells.flatten().sort()
    touched, counts = torch.unique_consecutive(cells, return_counts=True)
    by_cell = sum_by_cell(order, weights, slopes, counts.cumsum(0) - counts)  # (4, touched cells, channels)
    indices = active_rows(touched[None]).reshape(1, -1).long()
    return torch.sparse_coo_tensor(
        indices, by_cell.flatten(0, 1), (rows, slopes.shape[1]), check_invariants=False
    )


def sum_by_cell(order: Tensor, weights: Tensor, slopes: Tensor, starts: Tensor) -> Tensor:
    """Sum over the points of each cell, for each of its four functions: (4, cells, channels)."""
    # order (points·inputs,) sorts the coordinates by cell, starts (cells,) is where each cell begins in it
    samples = order.div(weights.shape[2], rounding_mode="floor").repeat(ACTIVE)
    sorted_weights = weights.transpose(0, 1).reshape(ACTIVE, -1).index_select(1, order).flatten()
    parts = order.numel() * torch.arange(ACTIVE, device=order.device)[:, None]
    by_cell = torch.nn.functional.embedding_bag(
        samples, slopes, (starts + parts).flatten(), mode="sum", per_sample_weights=sorted_weights
    )
    return by_cell.view(ACTIVE, len(starts), -1)


def fold(tensor: Tensor, dim: int | None, batch: int) -> Tensor:
    """Make the batch of a vmap part of the points: (batch·points, …)."""
    tensor = tensor.expand(batch, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.flatten(0, 1)


def gather_all(
    batch: int, dims: Sequence[int | None], table: Tensor, cells: Tensor, factors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Merge the batch axis of a vmap into the points; several tables are stacked by rows."""
    cells, factors = fold(cells, dims[1], batch), fold(factors, dims[2], batch)
    if dims[0] is None:
        return table, cells, factors
    table = table.movedim(dims[0], 0)
    return table.flatten(0, 1), own_rows(cells, table.shape[1], batch), factors


def own_rows(cells: Tensor, rows: int, batch: int) -> Tensor:
    """Cells of each entry of a batch, in the rows of its own table."""
    first = rows * torch.arange(batch, device=cells.device, dtype=cells.dtype)
    return (cells.unflatten(0, (batch, -1)) + first[:, None, None]).flatten(0, 1)
