"""ATLAS in PyTorch: modules that compose, train on any device, export and scale out.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from fractions import Fraction
from importlib.util import find_spec
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from atlas_splines.core import splines
from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.checks import check_inputs, check_size
from atlas_splines.core.evaluation import active_densities
from atlas_splines.core.lattice import MAX_DENSITY, MAX_FUNCTIONS, check_reach
from atlas_splines.core.model import Atlas, Trainable, check_options, check_sizes
from atlas_splines.core.records import Record
from atlas_splines.files.archive import replace_file
from atlas_splines.memory.covers import Cover, plan_fences

if TYPE_CHECKING:
    from atlas_splines.estimators.classifier import AtlasClassifier
    from atlas_splines.estimators.regressor import AtlasRegressor

__all__ = ["AtlasChart", "AtlasModule", "AtlasNet", "EstimatorModule", "export_onnx"]

ACTIVE = splines.ACTIVE
Cells = NDArray[np.intp]
Domain = NDArray[np.float64]

GROUP = 8  # pairs of terms that are summed at once
MOST_BYTES = 2**31 - 2**20  # of coefficients in an ONNX file

# --- the gather, and its derivatives --------------------------------------------------------------------
#
# All three are partial derivatives of one form, linear in the table, in the weights and in the slopes:
#
#     T = Σ weights[b, d, j] · table[cells[b, j] + d, c] · slopes[b, c]
#
# so the derivatives of each are the other two, to any order. Shapes: table (rows, channels), cells (points,
# inputs), weights (points, 4, inputs), slopes (points, channels).


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
        """One gather for the whole batch; each entry may bring a table of its own."""
        sums = Gather.apply(*fold_all(info.batch_size, dims, table, cells, weights), False)
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
        many = info.batch_size
        cells = own_rows(fold(cells, dims[0], many), rows, many)
        tables = Scatter.apply(
            cells, fold(weights, dims[1], many), fold(slopes, dims[2], many), many * rows, False
        )
        return tables.unflatten(0, (many, rows)), 0


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
        products = Dot.apply(*fold_all(info.batch_size, dims, table, cells, slopes), False)
        return products.unflatten(0, (info.batch_size, -1)), 0


def active_rows(cells: Tensor) -> Tensor:
    """Rows of the four functions that are active in each cell: (points, 4, inputs)."""
    return cells[:, None] + torch.arange(ACTIVE, device=cells.device, dtype=cells.dtype)[:, None]


def plain_gather(table: Tensor, cells: Tensor, weights: Tensor) -> Tensor:
    """The gather in operations that every format knows; slower, and it needs more memory."""
    rows = torch.nn.functional.embedding(active_rows(cells).long(), table)  # (points, 4, inputs, channels)
    return (rows * weights[..., None]).sum((1, 2))


def is_exporting() -> bool:
    """Whether the module is written to another format now; PyTorch of old does not tell it from compiling."""
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


def fold(tensor: Tensor, dim: int | None, many: int) -> Tensor:
    """Make the batch of a vmap part of the points: (batch·points, …)."""
    tensor = tensor.expand(many, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return tensor.flatten(0, 1)


def fold_all(
    many: int, dims: Sequence[int | None], table: Tensor, cells: Tensor, factors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Make the batch of a vmap part of the points; tables, if several, stand one below the other."""
    cells, factors = fold(cells, dims[1], many), fold(factors, dims[2], many)
    if dims[0] is None:
        return table, cells, factors
    table = table.movedim(dims[0], 0)
    return table.flatten(0, 1), own_rows(cells, table.shape[1], many), factors


def own_rows(cells: Tensor, rows: int, many: int) -> Tensor:
    """Cells of each entry of a batch, in the rows of its own table."""
    first = rows * torch.arange(many, device=cells.device, dtype=cells.dtype)
    return (cells.unflatten(0, (many, -1)) + first[:, None, None]).flatten(0, 1)


# --- splines --------------------------------------------------------------------------------------------


def locate(points: Tensor, cells: Tensor | int) -> tuple[Tensor, Tensor]:
    """Cell of each coordinate, (points, inputs), and its four weights, (points, 4, inputs), equation (3)."""
    scaled = points * cells
    cell = scaled.detach().to(torch.int32)
    cell = torch.clamp(cell, min=0).clamp(max=cells - 1)  # the last cell has x = 1, and any cell NaN
    return cell, weigh(scaled - cell)


def locate_beyond(points: Tensor, cells: Tensor | int) -> tuple[Tensor, Tensor]:
    """The same on the lattice that goes on beyond the unit cube, equation (26)."""
    scaled = points * cells
    cell = cell_beyond(scaled, cells)
    return cell, weigh(scaled - cell)


def cell_beyond(scaled: Tensor, cells: Tensor | int) -> Tensor:
    """Cell of each scaled coordinate, equation (26)."""
    scaled = scaled.detach()
    return torch.where(scaled < cells, scaled.floor(), scaled.ceil() - 1).to(torch.int32)


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
    reach
        First and last cell of each input, shape (inputs, 2); they have a row for each active function.
    """

    origins: Tensor
    limits: Tensor | None

    def __init__(self, coefficients: Tensor, density: int, reach: Cells, trained: bool, sparse: bool) -> None:
        rows, channels = coefficients.shape
        super().__init__(rows, channels, mode="sum", sparse=sparse, _weight=coefficients)
        self.cells, self.reach = splines.cell_count(density), reach
        self.train_coefficients(trained)
        self.derive()

    def derive(self) -> None:
        """Set the constants that follow from the cells; they are in no checkpoint."""
        device = self.weight.device
        rows = row_counts(self.reach)
        origins = np.cumsum(rows) - rows - self.reach[:, 0]  # row where cell 0 begins
        self.register_buffer("origins", torch.tensor(origins, dtype=torch.int32, device=device), False)
        is_extended = (self.reach != [0, self.cells - 1]).any()
        limits = torch.tensor(self.reach.T, dtype=torch.int32, device=device) if is_extended else None
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
        if is_exporting():
            return plain_gather(self.coefficients, cells, weights)
        return cast(Tensor, Gather.apply(self.coefficients, cells, weights, self.sparse))

    def locate(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Cell and weights of each coordinate."""
        if self.limits is None:
            return locate(points, self.cells)
        scaled = points * self.cells
        # NaN has any cell; and in another dtype than the table was made in, an end may round to the next one
        cells = cell_beyond(scaled, self.cells).maximum(self.limits[0]).minimum(self.limits[1])
        return cells, weigh(scaled - cells)


def cells_of(domain: Domain, density: int, dtype: str) -> Cells:
    """First and last cell of each input of a domain, computed as those of points are, equation (27)."""
    return splines.active(domain.astype(dtype), density)[0]


def row_counts(reach: Cells) -> Cells:
    """Number of basis functions of each input, equation (27)."""
    return reach[:, 1] - reach[:, 0] + ACTIVE


def nearest_rows(wanted: Cells, known: Cells) -> NDArray[np.intp]:
    """For each row of some cells the same function's row among other ones, or the nearest one's, (28)."""
    starts = np.cumsum(row_counts(known)) - row_counts(known)
    functions = [np.arange(low, high + ACTIVE) for low, high in wanted]
    return np.concatenate(
        [
            start + np.clip(i, low, high + ACTIVE - 1) - low
            for start, i, (low, high) in zip(starts, functions, known, strict=True)
        ]
    )


# --- the module -----------------------------------------------------------------------------------------


class AtlasModule(nn.Module):
    """The ATLAS model as a layer: A(x) = F(x) + Σ k⁻²(exp G_k(x) − exp H_k(x)), equation (6).

    Gradients reach the coefficients and the inputs, to any order. Inputs outside the unit cube count as the
    nearest point of it; NaN gives NaN. Leading dimensions of the input are kept. A module made by
    `from_model` has the domain of that model, maybe beyond the unit cube: ``domain``, shape (inputs, 2).

    Parameters
    ----------
    inputs, outputs, terms, density, trainable, damping
        As in `Atlas`. Coefficients that are not trained are buffers, so an optimiser does not see them.
    sparse
        Give the coefficients sparse gradients, for `torch.optim.SparseAdam` or plain SGD. It moves only the
        rows that a batch touches, and a step costs the same at any density.
    device, dtype
        As for any layer.

    Examples
    --------
    >>> import torch
    >>> module = AtlasModule(inputs=2, terms=3, density=1)
    >>> module
    AtlasModule(
      inputs=2, outputs=1, terms=3, density=1, trainable='finest', damping=0.0
      (tables): ModuleDict(
        (1): Table(16 rows, 7 channels, trained)
      )
      (charts): ModuleList()
    )
    >>> module(torch.rand(5, 2)).shape
    torch.Size([5, 1])
    """

    scale: Tensor
    limits: Tensor | None

    def __init__(
        self,
        inputs: int,
        outputs: int = 1,
        terms: int = 10,
        density: int = 4,
        trainable: Trainable = "finest",
        *,
        damping: float = 0.0,
        sparse: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.inputs, self.outputs, self.terms, self.density = check_sizes(inputs, outputs, terms, density)
        self.trainable, self.damping = check_options(trainable, damping)
        self.sparse = sparse
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"dtype must be a floating type such as torch.float32, not {dtype}")
        self.domain = np.tile([0.0, 1.0], (self.inputs, 1))
        self.tables = nn.ModuleDict()  # from coarse to fine; a density without a table is all zero
        self.charts = nn.ModuleList()
        self.updates: list[Record] = []  # the log of the NumPy model, carried along
        like = torch.empty(0, device=device, dtype=dtype)
        for rho in self.trained_densities:
            self._add_table(rho, trained=True, like=like)
        self._derive()

    # --- coefficients -------------------------------------------------------------------------------

    @property
    def channels(self) -> int:
        """Length of a table row: G, H and F of each output."""
        return self.outputs * (2 * self.terms + 1)

    @property
    def trained_densities(self) -> list[int]:
        """Densities whose coefficients training may change."""
        return [self.density] if self.trainable == "finest" else list(range(self.density + 1))

    @property
    def _like(self) -> Tensor:
        """A tensor that shows device and dtype."""
        return self._table(self.density).coefficients

    def _table(self, density: int) -> Table:
        return cast(Table, self.tables[str(density)])

    def _add_table(self, density: int, trained: bool, like: Tensor) -> None:
        reach = cells_of(self.domain, density, numpy_name(like.dtype))
        zeros = like.new_zeros(int(row_counts(reach).sum()), self.channels)
        self.tables[str(density)] = Table(zeros, density, reach, trained, self.sparse)

    def _derive(self) -> None:
        """Set the constants that follow from the configuration; they are in no checkpoint."""
        like = self._like
        k = torch.arange(1, self.terms + 1, dtype=working_dtype(like.dtype), device=like.device)
        self.register_buffer("scale", np.exp(-self.damping) / k**2, persistent=False)  # equation (7)
        limits = torch.tensor(self.domain.T, dtype=self.scale.dtype, device=like.device)
        self.register_buffer("limits", limits if self.is_extended else None, persistent=False)
        for table in self.tables.values():
            cast(Table, table).derive()

    @property
    def is_extended(self) -> bool:
        """Whether the domain is more than the unit cube."""
        return bool((self.domain != [0, 1]).any())

    def _apply(self, fn: Any, recurse: bool = True) -> AtlasModule:
        super()._apply(fn, recurse)
        self._derive()  # a constant converted to another dtype, or moved from `meta`, is not the constant
        return self

    def reset_parameters(self) -> None:
        """Set all coefficients to zero, and with them every output."""
        with torch.no_grad():
            for table in self._all_tables():
                table.coefficients.zero_()

    def _all_tables(self) -> Iterator[Table]:
        return (module for module in self.modules() if isinstance(module, Table))

    def freeze(self) -> AtlasModule:
        """Turn all coefficients into buffers, those of charts too.

        Examples
        --------
        >>> list(AtlasModule(inputs=2).freeze().parameters())
        []
        """
        for table in self._all_tables():
            table.train_coefficients(False)
        return self

    def unfreeze(self) -> AtlasModule:
        """Turn the coefficients of the trained densities into parameters again; those of charts stay frozen.

        Examples
        --------
        >>> len(list(AtlasModule(inputs=2).freeze().unfreeze().parameters()))
        1
        """
        for rho in self.trained_densities:
            self._table(rho).train_coefficients(True)
        return self

    # --- evaluation ---------------------------------------------------------------------------------

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate at points of shape (…, inputs); returns (…, outputs)."""
        if x.ndim == 0 or x.shape[-1] != self.inputs:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (…, {self.inputs})")
        if not x.is_floating_point():
            raise TypeError(f"x has dtype {x.dtype}; give it as floating-point numbers")
        points = x.reshape(-1, self.inputs).to(self.scale.dtype)
        points = points.clamp(0, 1) if self.limits is None else points.clamp(self.limits[0], self.limits[1])
        out = self._evaluate(points)
        for chart in self.charts:
            out = chart(points, out)
        return out.to(self._like.dtype).reshape(*x.shape[:-1], self.outputs)

    def _evaluate(self, points: Tensor) -> Tensor:
        """The model without charts: (points, outputs)."""
        # density by density, so that one more, all zero, changes no bit, equation (8); for the same reason
        # pairs of terms in groups of one size, filled up with zeros: a matrix product rounds anew
        parts = [cast(Table, table).sums(points) for table in self.tables.values()]
        sums = sum(parts[1:], start=parts[0]).to(points.dtype).unflatten(-1, (self.outputs, -1))
        if not self.terms:
            return sums.squeeze(-1)
        exponents, f = sums.split([2 * self.terms, 1], dim=-1)
        g, h = exponents.contiguous().exp().split([self.terms, self.terms], dim=-1)
        out, pairs = f.squeeze(-1), self.scale * (g - h)
        groups = nn.functional.pad(pairs, (0, -self.terms % GROUP)).unflatten(-1, (-1, GROUP)).sum(-1)
        for group in groups.unbind(-1):
            out = out + group
        return out

    def extra_repr(self) -> str:
        """Configuration, as in the constructor."""
        sparse = ", sparse=True" if self.sparse else ""
        domain = f", domain={self.domain.round(3).tolist()}" if self.is_extended else ""
        return (
            f"inputs={self.inputs}, outputs={self.outputs}, terms={self.terms}, density={self.density}, "
            f"trainable={self.trainable!r}, damping={self.damping}{sparse}{domain}"
        )

    # --- growth -------------------------------------------------------------------------------------

    def expand(
        self, density: int = 1, terms: int = 2, optimizer: torch.optim.Optimizer | None = None
    ) -> AtlasModule:
        """Add capacity in place; every output stays exactly as it was, equation (8).

        Parameters
        ----------
        density, terms
            As in `Atlas.expand`.
        optimizer
            Gets the new parameters in place of the old ones. It keeps its state for coefficients that stay.

        Returns
        -------
        the module itself

        Examples
        --------
        >>> import torch
        >>> module = AtlasModule(inputs=2, terms=0, density=0)
        >>> optimizer = torch.optim.Adam(module.parameters())
        >>> module.expand(optimizer=optimizer)
        AtlasModule(
          inputs=2, outputs=1, terms=2, density=1, trainable='finest', damping=0.0
          (tables): ModuleDict(
            (0): Table(8 rows, 5 channels, frozen)
            (1): Table(16 rows, 5 channels, trained)
          )
          (charts): ModuleList()
        )
        >>> optimizer.param_groups[0]["params"][0].shape
        torch.Size([16, 5])
        """
        density = check_size("density", density, least=0, most=MAX_DENSITY - self.density)
        terms = check_size("terms", terms, least=0)
        check_reach(self.domain, self.density + density)
        finest = self._table(self.density).coefficients
        if optimizer is not None and not any(param is finest for param in parameters_of(optimizer)):
            raise ValueError("the optimizer does not train this module; make it with module.parameters()")
        if terms:
            self._add_terms(terms, optimizer)
        if density:
            self._add_density(density, optimizer)
        self._derive()
        return self

    def _add_terms(self, terms: int, optimizer: torch.optim.Optimizer | None) -> None:
        for rho, table in self.tables.items():
            old = cast(Table, table)
            coefficients = self._widened(old.coefficients.detach(), terms)
            wider = Table(coefficients, int(rho), old.reach, old.trained, self.sparse)
            self.tables[rho] = wider
            if optimizer is not None and old.trained:
                state = replace_parameter(optimizer, old.coefficients, [wider.coefficients])
                optimizer.state[wider.coefficients] = {
                    name: self._widened(value, terms) if is_like(value, old.coefficients) else value
                    for name, value in state.items()
                }
        self.terms += terms

    def _widened(self, coefficients: Tensor, terms: int) -> Tensor:
        """Coefficients, or what an optimiser knows of them, with zeros for new terms: (rows, channels)."""
        sizes = [self.terms, self.terms, 1]
        g, h, f = coefficients.unflatten(-1, (self.outputs, -1)).split(sizes, dim=-1)
        new = coefficients.new_zeros(len(coefficients), self.outputs, terms)
        return torch.cat([g, new, h, new, f], dim=-1).flatten(1)

    def _add_density(self, density: int, optimizer: torch.optim.Optimizer | None) -> None:
        old = self._table(self.density)
        coefficients, trained = old.coefficients, old.trained
        self.density += density
        new = [rho for rho in self.trained_densities if str(rho) not in self.tables]
        for rho in new:
            self._add_table(rho, trained, like=coefficients)
        heirs = [self._table(rho).coefficients for rho in new]
        if self.trainable == "finest":
            old.train_coefficients(False)
        else:
            heirs.insert(0, coefficients)
        if optimizer is not None:
            replace_parameter(optimizer, coefficients, heirs)

    # --- charts -------------------------------------------------------------------------------------

    def open_chart(
        self, X: Tensor | NDArray[Any], *, density: int = 4, terms: int = 10, cover: Cover = "touch"
    ) -> AtlasChart:
        """Freeze the module, and add a chart that learns at the points X and changes nothing elsewhere.

        Parameters
        ----------
        X
            Points in the domain, shape (points, inputs): the data to be learned.
        density, terms
            Size of the model in the chart, whose box is its unit cube.
        cover
            "touch" or "inside", as in `update`.

        Returns
        -------
        AtlasChart
            Its parameters are now the only ones of the module. No output has changed yet.

        Examples
        --------
        >>> import torch
        >>> module = AtlasModule(inputs=2)
        >>> chart = module.open_chart(0.2 + 0.3 * torch.rand(1000, 2))
        >>> with torch.no_grad():
        ...     _ = chart.content.tables["4"].weight.normal_()
        >>> module(torch.tensor([[0.3, 0.3], [0.3, 0.9]])) == 0
        tensor([[False],
                [ True]])
        """
        like = self._like
        points = check_inputs(as_numpy(X), self.domain, np.dtype(numpy_name(like.dtype)))
        (fence,) = plan_fences(points, self.domain, cover, charts=1)
        content = AtlasModule(
            self.inputs, self.outputs, terms, density,
            sparse=self.sparse, device=like.device, dtype=like.dtype,
        )  # fmt: skip
        size = like.new_ones(self.outputs)
        chart = AtlasChart(
            fence, content, size,
            replaces=False, update=self._next_id(), rows=len(points), beyond=self.is_extended,
        )  # fmt: skip
        self.freeze()
        self.charts.append(chart)
        return chart

    def _next_id(self) -> int:
        ids = [record.id for record in self.updates] + [
            int(cast(Tensor, chart.update)) for chart in self.charts
        ]
        return 1 + max(ids, default=0)

    def close_chart(self) -> AtlasChart:
        """Take away the newest chart, and with it all that it changed; the rest stays frozen.

        Examples
        --------
        >>> import torch
        >>> module = AtlasModule(inputs=1)
        >>> chart = module.open_chart(torch.rand(100, 1))
        >>> module.close_chart() is chart, len(module.charts)
        (True, 0)
        """
        if not len(self.charts):
            raise ValueError("the module has no chart to close")
        return cast(AtlasChart, self.charts.pop(-1))

    # --- the NumPy model ----------------------------------------------------------------------------

    @classmethod
    def from_model(
        cls, model: Atlas, *, sparse: bool = False, device: torch.device | str | None = None
    ) -> AtlasModule:
        """Return a module with the coefficients and charts of an `Atlas`; its charts are frozen.

        Examples
        --------
        >>> import torch
        >>> from atlas_splines import Atlas
        >>> model = Atlas(inputs=2)
        >>> model.f(4)[:] = 0.5
        >>> AtlasModule.from_model(model)(torch.rand(1, 2)).detach().round(decimals=3)
        tensor([[1.]])
        """
        module = cls(
            model.inputs, model.outputs, model.terms, model.density, model.trainable,
            damping=model.damping, sparse=sparse, dtype=getattr(torch, model.dtype.name),
        )  # fmt: skip
        module.domain = model.domain.copy()
        module.tables = nn.ModuleDict(
            {
                str(rho): Table(torch.tensor(rows), rho, reach, rho in model.trained_densities, sparse)
                for rho, reach, rows in rows_by_density(model)
                if rho in active_densities(model.state)
            }
        )
        beyond = module.is_extended
        module.charts.extend(AtlasChart.from_chart(chart, sparse, beyond) for chart in model.charts)
        module.updates = list(model.updates)
        return module.to(device)

    def to_model(self) -> Atlas:
        """Return an `Atlas` with the coefficients and charts of the module; bfloat16 becomes float32.

        Examples
        --------
        >>> AtlasModule(inputs=2, terms=3, density=1).to_model()
        Atlas(inputs=2, outputs=1, terms=3, density=1, trainable='finest', damping=0.0, dtype='float32')
        with 168 coefficients, 112 of them trainable
        """
        model = Atlas(
            self.inputs, self.outputs, self.terms, self.density, self.trainable, self.damping,
            numpy_name(self._like.dtype),
        )  # fmt: skip
        model.state = model.state.emptied(self.domain.copy())
        for rho, reach, rows in rows_by_density(model):
            if str(rho) in self.tables:
                table = self._table(rho)
                rows[:] = as_numpy(table.coefficients)[nearest_rows(reach, table.reach)]
        model.updates = list(self.updates)
        for chart in self.charts:
            cast(AtlasChart, chart).add_to(model)
        return model


def rows_by_density(model: Atlas) -> Iterator[tuple[int, Cells, NDArray[np.floating]]]:
    """Each density with its first and last cells and a view of its coefficients: (rows, channels)."""
    start, channels = 0, model.outputs * (2 * model.terms + 1)
    for rho in range(model.density + 1):
        reach = cells_of(model.domain, rho, model.dtype.name)
        end = start + int(row_counts(reach).sum())
        yield rho, reach, model.table[start:end, :channels]
        start = end


class AtlasChart(nn.Module):
    """A window over a box, and a model inside it: equations (22) and (23).

    Attributes
    ----------
    content
        The model inside, in coordinates where the box is the unit cube.
    """

    cells: Tensor
    first: Tensor
    last: Tensor
    frame: Tensor
    origin: Tensor
    stretch: Tensor
    size: Tensor
    replaces: Tensor
    update: Tensor
    rows: Tensor

    def __init__(
        self,
        fence: Fence,
        content: AtlasModule,
        size: Tensor,
        replaces: bool,
        update: int,
        rows: int,
        beyond: bool,
    ) -> None:
        super().__init__()
        self.content = content
        self.beyond = beyond  # whether points may lie outside the unit cube
        frame = fractions(np.broadcast_to(fence.domain, (content.inputs, 2)))  # (inputs, 2)
        low, high = fractions(fence.box).T

        def whole(values: Any, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.as_tensor(values, dtype=dtype, device=size.device)

        def parts(ratios: NDArray[Any]) -> Tensor:
            """Numerators and denominators, (2, …): whole numbers, so that no change of dtype rounds them."""
            pairs = [ratio.as_integer_ratio() for ratio in ratios.flat]
            return whole(pairs, torch.int64).T.reshape(2, *ratios.shape)

        # all of them are buffers, so that a checkpoint has them
        self.register_buffer("frame", parts(frame))  # (2, inputs, 2) the domain in which the fence was made
        self.register_buffer("origin", parts(low))  # (2, inputs) local coordinates are (x − origin)·stretch
        self.register_buffer("stretch", parts(1 / (high - low)))  # (2, inputs)
        self.register_buffer("cells", whole(splines.cell_count(fence.density)))  # () of each input
        self.register_buffer("first", whole(fence.first))  # (inputs,) first open function
        self.register_buffer("last", whole(fence.last))  # (inputs,) last open function
        self.register_buffer("size", size)  # (outputs,) what the content is multiplied by
        self.register_buffer("replaces", whole(replaces))  # () 1: in place of what was there; 0: added to it
        self.register_buffer("update", whole(update))  # () number of the update
        self.register_buffer("rows", whole(rows))  # () how many points it was opened for

    def forward(self, points: Tensor, before: Tensor) -> Tensor:
        """Let the chart speak over the outputs before it, equation (23): (points, outputs)."""
        window = self.window(points)[:, None]
        inside = self.size * self.content(self.to_local(points))
        after = (1 - self.replaces * window) * before + window * inside
        return torch.where(window > 0, after, before)  # outside no bit changes, equation (24)

    def window(self, points: Tensor) -> Tensor:
        """Product over the inputs of the open functions' weights, equation (22): (points,)."""
        cells, weights = (locate_beyond if self.beyond else locate)(points, self.cells)
        functions = active_rows(cells)  # (points, 4, inputs)
        is_open = (functions >= self.first) & (functions <= self.last)
        share = torch.where(is_open, weights, 0).sum(1)
        # where all four are open they sum to one; do not let rounding say otherwise
        return torch.where(is_open.all(1), 1, share).prod(-1)

    def to_local(self, points: Tensor) -> Tensor:
        """Coordinates in which the box is the unit cube."""
        origin, stretch = (parts[0].to(points.dtype) / parts[1] for parts in (self.origin, self.stretch))
        return ((points - origin) * stretch).clamp(0, 1)

    @classmethod
    def from_chart(cls, chart: Chart, sparse: bool, beyond: bool) -> AtlasChart:
        """Return the chart of an `Atlas`, frozen."""
        content = AtlasModule.from_model(chart.content, sparse=sparse).freeze()
        size, update = torch.tensor(chart.size), chart.update
        return cls(chart.fence, content, size, chart.replaces, update, rows=0, beyond=beyond)

    def add_to(self, model: Atlas) -> None:
        """Add the chart to an `Atlas`, and to its log if it is not there."""
        content = self.content.to_model()
        density = int(np.log2(int(self.cells) + 3)) - 2
        numerators, denominators = as_numpy(self.frame)
        fence = Fence(density, as_numpy(self.first), as_numpy(self.last), numerators / denominators)
        id, before = int(self.update), model.fingerprint()
        chart = Chart(id, fence, content, as_numpy(self.size), bool(self.replaces))
        model.charts = (*model.charts, chart)
        if id not in [record.id for record in model.updates]:
            now = datetime.now(timezone.utc)
            model.updates.append(Record(id, "chart", now, int(self.rows), before, model.fingerprint()))


def fractions(ends: NDArray[np.float64]) -> NDArray[Any]:
    """Ends of cells as the fractions that they are, an array of `Fraction`."""
    found = [Fraction(end).limit_denominator(MAX_FUNCTIONS) for end in ends.ravel().tolist()]
    if [float(ratio) for ratio in found] != ends.ravel().tolist():
        raise ValueError("a chart was made in a domain that is not of whole cells; load it with Atlas only")
    return np.array(found, dtype=object).reshape(ends.shape)


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """Dtype of everything but the tables: a float of 16 bits cannot tell neighbouring cells apart."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def numpy_name(dtype: torch.dtype) -> str:
    return str(working_dtype(dtype)).removeprefix("torch.")


def as_numpy(values: Any) -> NDArray[Any]:
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return np.asarray(values.to(working_dtype(values.dtype)) if values.is_floating_point() else values)


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (param for group in optimizer.param_groups for param in group["params"])


def replace_parameter(optimizer: torch.optim.Optimizer, old: Tensor, new: Sequence[Tensor]) -> dict[str, Any]:
    """Let an optimiser train some parameters in the place of one; returns its state, if it is gone."""
    for group in optimizer.param_groups:
        group["params"] = [heir for param in group["params"] for heir in (new if param is old else [param])]
    stays = any(heir is old for heir in new)
    return {} if stays else cast(dict[str, Any], optimizer.state.pop(old, {}))


def is_like(value: Any, parameter: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape


# --- deep networks --------------------------------------------------------------------------------------


class AtlasNet(nn.Module):
    """Layers of ATLAS, one after the other; a sigmoid brings the inputs of all but the first into [0, 1].

    The hidden layers start as random linear functions, for from all zeros they would not learn. A network
    with hidden layers does *not* keep the memory of a single layer: docs/torch.md has the figures.

    Parameters
    ----------
    widths
        Number of inputs, of outputs of each hidden layer, and of outputs.
    terms, density, options
        As in `AtlasModule`, for each layer.

    Examples
    --------
    >>> import torch
    >>> net = AtlasNet([2, 5, 1], terms=3, density=2)
    >>> [(layer.inputs, layer.outputs) for layer in net.layers]
    [(2, 5), (5, 1)]
    >>> net(torch.rand(10, 2)).shape
    torch.Size([10, 1])
    """

    def __init__(self, widths: Sequence[int], terms: int = 10, density: int = 4, **options: Any) -> None:
        super().__init__()
        if len(widths) < 2:
            raise ValueError(f"widths must name at least the inputs and the outputs, not {list(widths)}")
        pairs = pairwise(widths)
        self.layers = nn.ModuleList(AtlasModule(n, p, terms, density, **options) for n, p in pairs)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start hidden layers as random linear functions, and the last one at zero."""
        for layer in self.layers:
            cast(AtlasModule, layer).reset_parameters()
        for layer in list(self.layers)[:-1]:
            set_random_lines(cast(AtlasModule, layer))

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate at points of shape (…, inputs); returns (…, outputs)."""
        x = self.layers[0](x)
        for layer in list(self.layers)[1:]:
            x = layer(torch.sigmoid(x))
        return x


def set_random_lines(layer: AtlasModule) -> None:
    """Let each output be Σ a_j·(x_j − ½) with random a_j; splines have lines exactly."""
    table = cast(Table, layer.tables[str(layer.density)]).coefficients
    functions, cells = splines.basis_size(layer.density), splines.cell_count(layer.density)
    centres = (torch.arange(functions, device=table.device) - 1) / cells  # of equation (2), counted from zero
    slopes = 4 * torch.randn(layer.inputs, layer.outputs, device=table.device) / layer.inputs**0.5
    lines = (centres[:, None] - 0.5) * slopes[:, None]  # (inputs, λ, outputs)
    with torch.no_grad():
        table.unflatten(-1, (layer.outputs, -1))[..., -1] = lines.flatten(0, 1).to(table.dtype)


# --- estimators -----------------------------------------------------------------------------------------


class EstimatorModule(nn.Module):
    """A fitted estimator as a module, from raw columns to predictions, for export and for gradients.

    Input (rows, columns), numbers as they are. Output what `AtlasRegressor.predict` returns, or
    `AtlasClassifier.predict_proba`, in float64. What they refuse gives NaN here: a missing value if the
    estimator has missing="error", and a row outside the domain with extrapolation="error".

    Parameters
    ----------
    estimator
        A fitted `AtlasRegressor` or `AtlasClassifier`; the module does not follow it if it learns more.

    Attributes
    ----------
    model
        The `AtlasModule` inside. Only its coefficients are in a checkpoint.
    columns
        Number of columns.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from atlas_splines import AtlasRegressor
    >>> X = 100 * np.random.default_rng(0).random((500, 2))
    >>> estimator = AtlasRegressor(members=1, random_state=0).fit(X, X[:, 0] - X[:, 1])
    >>> module = EstimatorModule(estimator)
    >>> bool(abs(module(torch.tensor(X)).detach().numpy() - estimator.predict(X)).max() < 1e-3)
    True
    """

    left: Tensor
    first: Tensor
    units: Tensor
    slope: Tensor
    fill: Tensor
    indicators: Tensor
    ends: Tensor
    mean: Tensor
    spread: Tensor

    def __init__(self, estimator: AtlasRegressor | AtlasClassifier) -> None:
        from atlas_splines.estimators.classifier import AtlasClassifier  # needs scikit-learn
        from atlas_splines.estimators.column_footprint import SLOPE_STEP
        from atlas_splines.estimators.regressor import AtlasRegressor

        super().__init__()
        if not isinstance(estimator, AtlasRegressor | AtlasClassifier):
            raise TypeError(
                f"estimator is a {type(estimator).__name__}; give an AtlasRegressor or an AtlasClassifier"
            )
        if not hasattr(estimator, "model_"):
            raise ValueError("the estimator is not fitted; call its fit first")
        self.model = AtlasModule.from_model(estimator.model_)
        self.columns = len(estimator.domain_.knots)
        self.extrapolation = estimator.extrapolation
        self.learns_missing = estimator.missing == "learn"
        self.classifies = isinstance(estimator, AtlasClassifier)
        self.one_column = not self.classifies and estimator._one_column
        self.step = SLOPE_STEP
        self.constants = constants_of(estimator)
        self._derive()

    def _derive(self) -> None:
        """Set the constants; in float64 whatever the model's dtype is, for columns may have any scale."""
        for name, values in self.constants.items():
            self.register_buffer(name, torch.tensor(values, device=self.model.scale.device), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> EstimatorModule:
        super()._apply(fn, recurse)
        self._derive()
        return self

    def forward(self, X: Tensor) -> Tensor:
        """Predict the rows of X."""
        if X.ndim != 2 or X.shape[1] != self.columns:
            raise ValueError(f"X has shape {tuple(X.shape)}; expected (rows, {self.columns})")
        if not X.is_floating_point():
            raise TypeError(f"X has dtype {X.dtype}; give it as floating-point numbers")
        points = self.to_unit(X.to(torch.float64))
        inside = points.clamp(self.ends[0], self.ends[1])
        out = self.model(inside).to(torch.float64)
        if self.extrapolation == "linear":
            out = self._continued(out, points, inside)
        elif self.extrapolation == "error":
            out = torch.where((points == inside).all(1, keepdim=True), out, torch.nan)
        if self.classifies:
            return out.softmax(1)
        out = out * self.spread + self.mean
        return out[:, 0] if self.one_column else out

    def to_unit(self, X: Tensor) -> Tensor:
        """Coordinates of rows, (rows, inputs), as `Domain.to_unit` has them."""
        missing = X.isnan()
        if self.learns_missing:
            X = torch.where(missing, self.fill, X)
        piece = (X[..., None] >= self.left).sum(-1).sub(1).clamp(min=0)  # (rows, columns)
        at = piece + self.first
        points = self.units[piece] + (X - self.left.flatten()[at]) * self.slope[at]
        if not len(self.indicators):
            return points
        return torch.cat([points, missing[:, self.indicators].to(points.dtype)], dim=1)

    def _continued(self, out: Tensor, points: Tensor, inside: Tensor) -> Tensor:
        """Outputs continued beyond the domain, along each input with the slope over a step inward."""
        beyond = points - inside
        steps = self.step * beyond.sign()[:, None] * torch.eye(points.shape[1], device=points.device)
        inward = self.model(inside[:, None] - steps.to(inside.dtype)).to(out.dtype)  # (rows, inputs, outputs)
        return out + ((out[:, None] - inward) * (beyond.abs() / self.step)[..., None]).sum(1)


def constants_of(estimator: AtlasRegressor | AtlasClassifier) -> dict[str, NDArray[Any]]:
    """Everything in an estimator but the model, as arrays."""
    domain = estimator.domain_
    columns, pieces = domain.knots.shape  # a piece begins at each knot, and the last one goes on for ever
    units, widths = np.linspace(0, 1, pieces), np.diff(domain.knots)
    slope = np.divide(np.diff(units), widths, out=np.zeros_like(widths), where=widths > 0)
    return {
        "left": domain.knots,
        "first": pieces * np.arange(columns),  # (columns,) place of the first piece among all
        "units": units,  # (pieces,) where they begin
        "slope": np.hstack([slope, slope[:, -1:]]).ravel(),  # (columns·pieces,)
        "fill": domain.fill,
        "indicators": domain.indicators,
        "ends": estimator.model_.domain.T,  # (2, inputs)
        "mean": getattr(estimator, "target_mean_", np.zeros(1)),
        "spread": getattr(estimator, "target_scale_", np.ones(1)),
    }


# --- export ---------------------------------------------------------------------------------------------


def export_onnx(
    module: AtlasModule | AtlasNet | EstimatorModule,
    path: str | PathLike[str],
    *,
    input_name: str = "x",
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a module to one ONNX file, all at once: input of shape (rows, inputs), any number of rows.

    The output is named "y". The input of an `EstimatorModule` is float64, of others what the module has.
    Needs ``pip install 'atlas-splines[onnx]'``.

    Parameters
    ----------
    module
        An `AtlasModule`, with or without charts, an `AtlasNet` or an `EstimatorModule`.
    path
        The file to write.
    input_name
        Name of the input.
    metadata
        Written into the file, as the model's ``metadata_props``.
    """
    for name in ("onnx", "onnxscript"):
        if find_spec(name) is None:
            needs = "writing ONNX needs more packages; install them with: pip install 'atlas-splines[onnx]'"
            raise ModuleNotFoundError(needs, name=name)
    size = sum(tensor.nbytes for tensor in module.state_dict().values())
    if size > MOST_BYTES:
        raise ValueError(f"the module has {size / 2**30:.1f} GiB, but an ONNX file holds at most 2")
    with silent_exporter():
        program = torch.onnx.export(
            copy.deepcopy(module).eval(), (example_rows(module),), dynamo=True, verbose=False,
            input_names=[input_name], output_names=["y"], dynamic_shapes=({0: torch.export.Dim("rows")},),
        )  # fmt: skip
    proto = cast(torch.onnx.ONNXProgram, program).model_proto
    graph = proto.graph
    for part in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("metadata_props")  # stack traces, with the paths of this machine
    for key, value in (metadata or {}).items():
        proto.metadata_props.add(key=key, value=value)
    replace_file(path, proto.SerializeToString())


@contextlib.contextmanager
def silent_exporter() -> Iterator[None]:
    """Keep from the user what PyTorch's exporter says of its own deprecated parts and missing friends."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logger.setLevel(level)


def example_rows(module: AtlasModule | AtlasNet | EstimatorModule) -> Tensor:
    """Any rows of the shape and dtype that a module takes."""
    if isinstance(module, EstimatorModule):
        return torch.zeros_like(module.fill).repeat(3, 1)
    first = cast(AtlasModule, module.layers[0]) if isinstance(module, AtlasNet) else module
    return torch.rand(3, first.inputs, device=first.scale.device, dtype=first.scale.dtype)
