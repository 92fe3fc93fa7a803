"""The model as a layer of PyTorch, and networks of such layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from atlas_splines.model import splines
from atlas_splines.model.atlas import (
    Atlas,
    Trainable,
    check_options,
    check_sizes,
    model_in,
    snapshot_of,
    state_of,
)
from atlas_splines.model.checks import check_inputs, check_size
from atlas_splines.model.evaluate import active_densities
from atlas_splines.model.lattice import MAX_DENSITY, Domain, Lattice, check_reach
from atlas_splines.model.log import Record
from atlas_splines.nn.gather import Table, as_numpy, numpy_dtype, working_dtype
from atlas_splines.nn.terms import AtlasChart, LaterModule, LevelOffsets, LocalModule
from atlas_splines.updates.plan import Cover, plan_windows

__all__ = ["AtlasModule", "AtlasNet"]

PAIRS_AT_ONCE = 8  # pairs of terms that are summed at once


class AtlasModule(nn.Module):
    """The ATLAS model as a layer: A(x) = F(x) + Σ k⁻²(exp G_k(x) − exp H_k(x)), equation (6).

    Gradients reach the coefficients and the inputs, to any order. Inputs outside the unit cube count as the
    nearest point of it; NaN gives NaN. Leading dimensions of the input are kept. A module made by
    `from_model` has the domain of that model, maybe beyond the unit cube: ``domain``, shape (inputs, 2), and
    its local terms, equation (47), which no optimiser trains. These have the rows of the training data in
    them, and so has every checkpoint and export of such a module.

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
      (local): ModuleList()
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
        self.tables = nn.ModuleDict()  # from coarse to fine; a density without a table is all zero
        self.offsets: LevelOffsets | None = None  # of levels, below the charts
        self.local = nn.ModuleList()  # local terms, below the charts
        self.later: LaterModule | None = None  # what predicts beyond the end of a clock, below the charts
        self.charts = nn.ModuleList()
        self.updates: list[Record] = []  # the log of the NumPy model, carried along
        like = torch.empty(0, device=device, dtype=dtype)
        for rho in self.trained_densities:
            lattice = Lattice.of_unit_cube(self.inputs, rho, numpy_dtype(like.dtype))
            self._add_table(lattice, trained=True, like=like)
        self._set_constants()

    # --- coefficients -------------------------------------------------------------------------------

    @property
    def channels(self) -> int:
        """Length of a table row: G, H and F of each output."""
        return self.outputs * (2 * self.terms + 1)

    @property
    def trained_densities(self) -> list[int]:
        """Densities whose coefficients are trained."""
        return [self.density] if self.trainable == "finest" else list(range(self.density + 1))

    @property
    def _like(self) -> Tensor:
        """A tensor with the module's device and dtype."""
        return self._table(self.density).coefficients

    def _table(self, density: int) -> Table:
        return cast(Table, self.tables[str(density)])

    def _add_table(self, lattice: Lattice, trained: bool, like: Tensor) -> None:
        """Add zeros for the finest density of a lattice."""
        rows = lattice.rows(lattice.density)
        zeros = like.new_zeros(rows.stop - rows.start, self.channels)
        self.tables[str(lattice.density)] = Table(zeros, lattice, trained, self.sparse)

    def _set_constants(self) -> None:
        """Set the constants that follow from the configuration; they are in no checkpoint."""
        like = self._like
        k = torch.arange(1, self.terms + 1, dtype=working_dtype(like.dtype), device=like.device)
        self.register_buffer("scale", np.exp(-self.damping) / k**2, persistent=False)  # equation (7)
        limits = torch.tensor(self.domain.T, dtype=self.scale.dtype, device=like.device)
        self.register_buffer("limits", limits if self.is_extended else None, persistent=False)
        for table in self.tables.values():
            cast(Table, table).set_constants()

    @property
    def domain(self) -> Domain:
        """Lowest and highest coordinate of each input, shape (inputs, 2)."""
        return self._table(self.density).lattice.domain

    @property
    def is_extended(self) -> bool:
        """Whether the domain is more than the unit cube."""
        return self._table(self.density).lattice.is_extended

    def _apply(self, fn: Any, recurse: bool = True) -> AtlasModule:
        super()._apply(fn, recurse)
        # a constant that is converted to another dtype, or moved from `meta`, is not the constant
        self._set_constants()
        return self

    def reset_parameters(self) -> None:
        """Set all coefficients to zero, and with them every output."""
        with torch.no_grad():
            for table in self._all_tables():
                table.coefficients.zero_()
            for module in self.modules():
                if isinstance(module, LevelOffsets | LocalModule | LaterModule):
                    module.clear()

    def _all_tables(self) -> Iterator[Table]:
        return (module for module in self.modules() if isinstance(module, Table))

    def freeze(self) -> AtlasModule:
        """Make all coefficients buffers, those of charts too.

        Examples
        --------
        >>> list(AtlasModule(inputs=2).freeze().parameters())
        []
        """
        for table in self._all_tables():
            table.train_coefficients(False)
        return self

    def unfreeze(self) -> AtlasModule:
        """Make the coefficients of the trained densities parameters again; those of charts stay frozen.

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
        if self.offsets is not None:
            out = self.offsets(points, out)
        for terms in self.local:
            out = terms(points, out)
        if self.later is not None:
            out = self.later(points, out)
        for chart in self.charts:
            out = chart(points, out)
        return out.to(self._like.dtype).reshape(*x.shape[:-1], self.outputs)

    def _evaluate(self, points: Tensor) -> Tensor:
        """Outputs of the coefficient tables, without charts and other terms: (points, outputs)."""
        # density by density, so that one more, all zero, changes no bit, equation (8); for the same reason
        # pairs of terms in groups of one size, filled up with zeros: a matrix product rounds anew
        parts = [cast(Table, table).sums(points) for table in self.tables.values()]
        sums = sum(parts[1:], start=parts[0]).to(points.dtype).unflatten(-1, (self.outputs, -1))
        if not self.terms:
            return sums.squeeze(-1)
        exponents, f = sums.split([2 * self.terms, 1], dim=-1)
        g, h = exponents.contiguous().exp().split([self.terms, self.terms], dim=-1)
        out, pairs = f.squeeze(-1), self.scale * (g - h)
        padded = nn.functional.pad(pairs, (0, -self.terms % PAIRS_AT_ONCE))
        groups = padded.unflatten(-1, (-1, PAIRS_AT_ONCE)).sum(-1)
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
          (local): ModuleList()
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
        self._set_constants()
        return self

    def _add_terms(self, terms: int, optimizer: torch.optim.Optimizer | None) -> None:
        for rho, table in self.tables.items():
            old = cast(Table, table)
            coefficients = self._widened(old.coefficients.detach(), terms)
            wider = Table(coefficients, old.lattice, old.trained, self.sparse)
            self.tables[rho] = wider
            if optimizer is not None and old.trained:
                state = replace_parameter(optimizer, old.coefficients, [wider.coefficients])
                optimizer.state[wider.coefficients] = {
                    name: self._widened(value, terms) if is_like(value, old.coefficients) else value
                    for name, value in state.items()
                }
        self.terms += terms

    def _widened(self, coefficients: Tensor, terms: int) -> Tensor:
        """Coefficients, or their optimiser state, with zeros for new terms: (rows, channels)."""
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
            lattice = Lattice(old.lattice.domain, rho, numpy_dtype(coefficients.dtype))
            self._add_table(lattice, trained, like=coefficients)
        now_trained = [self._table(rho).coefficients for rho in new]
        if self.trainable == "finest":
            old.train_coefficients(False)
        else:
            now_trained.insert(0, coefficients)
        if optimizer is not None:
            replace_parameter(optimizer, coefficients, now_trained)

    # --- charts -------------------------------------------------------------------------------------

    def open_chart(
        self, X: Tensor | NDArray[Any], *, density: int = 4, terms: int = 10, cover: Cover = "touch"
    ) -> AtlasChart:
        """Freeze the module, and add a trainable chart around the points X that is zero outside its window.

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
        points = check_inputs(as_numpy(X), self.domain, numpy_dtype(like.dtype))
        (window,) = plan_windows(points, self.domain, cover, charts=1)
        content = AtlasModule(
            self.inputs, self.outputs, terms, density,
            sparse=self.sparse, device=like.device, dtype=like.dtype,
        )  # fmt: skip
        chart = AtlasChart(
            window, content, size=like.new_ones(self.outputs), replaces=False,
            update=self._next_id(), rows=len(points), is_extended=self.is_extended,
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
        """Remove the newest chart, and with it all that it changed; the rest stays frozen.

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
        """Return a module with all parts of an `Atlas`; charts, and the model beyond a clock, are frozen.

        Examples
        --------
        >>> import torch
        >>> from atlas_splines import Atlas
        >>> model = Atlas(inputs=2)
        >>> model.f(4)[:] = 0.5
        >>> AtlasModule.from_model(model)(torch.rand(1, 2)).detach().round(decimals=3)
        tensor([[1.]])
        """
        model = snapshot_of(model)
        module = cls(
            model.inputs, model.outputs, model.terms, model.density, model.trainable,
            damping=model.damping, sparse=sparse, dtype=getattr(torch, model.dtype.name),
        )  # fmt: skip
        module.tables = nn.ModuleDict()
        state = state_of(model)
        for rho in active_densities(state).tolist():
            lattice = Lattice(model.domain.copy(), rho, model.dtype)
            rows = torch.tensor(state.table[state.lattice.rows(rho), : module.channels])
            module.tables[str(rho)] = Table(rows, lattice, rho in state.trained_densities, sparse)
        for chart in model.charts:
            content = cls.from_model(chart.content, sparse=sparse).freeze()
            module.charts.append(AtlasChart.from_chart(chart, content, module.is_extended))
        if state.offsets is not None:
            module.offsets = LevelOffsets(state.offsets)
        module.local.extend(LocalModule(terms) for terms in state.local)
        if state.later is not None:
            beyond = cls.from_model(model_in(state.later.state), sparse=sparse).freeze()
            module.later = LaterModule(state.later, beyond)
        module.updates = list(model.updates)
        return module.to(device)

    def to_model(self) -> Atlas:
        """Return an `Atlas` with all parts of the module; bfloat16 becomes float32.

        Examples
        --------
        >>> AtlasModule(inputs=2, terms=3, density=1).to_model()
        Atlas(inputs=2, outputs=1, terms=3, density=1, trainable='finest', damping=0.0, dtype='float32')
        with 168 coefficients, 112 of them trainable
        """
        start = Atlas(
            self.inputs, self.outputs, self.terms, self.density, self.trainable, self.damping,
            numpy_dtype(self._like.dtype).name,
        )  # fmt: skip
        state = state_of(start).emptied(self.domain.copy())
        for rho, table in self.tables.items():
            rows = state.lattice.rows(int(rho))
            state.table[rows, : self.channels] = cast(Table, table).rows_for(state.lattice)
        local = tuple(cast(LocalModule, terms).to_terms() for terms in self.local)
        offsets = None if self.offsets is None else self.offsets.to_offsets()
        later = None if self.later is None else self.later.to_later()
        state = replace(state, offsets=offsets, local=local, later=later)
        model = model_in(state, self.updates)
        for chart in self.charts:
            cast(AtlasChart, chart).add_to(model)
        return model


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (param for group in optimizer.param_groups for param in group["params"])


def replace_parameter(optimizer: torch.optim.Optimizer, old: Tensor, new: Sequence[Tensor]) -> dict[str, Any]:
    """Replace a parameter of an optimiser by others; return its state, if it is gone."""
    for group in optimizer.param_groups:
        group["params"] = [kept for param in group["params"] for kept in (new if param is old else [param])]
    stays = any(param is old for param in new)
    return {} if stays else cast(dict[str, Any], optimizer.state.pop(old, {}))


def is_like(value: Any, parameter: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape


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
    """Initialise outputs as Σ a_j·(x_j − ½) with random a_j: splines reproduce linear functions exactly."""
    table = cast(Table, layer.tables[str(layer.density)]).coefficients
    functions, cells = splines.basis_size(layer.density), splines.cell_count(layer.density)
    centres = (torch.arange(functions, device=table.device) - 1) / cells  # of equation (2), counted from zero
    slopes = 4 * torch.randn(layer.inputs, layer.outputs, device=table.device) / layer.inputs**0.5
    lines = (centres[:, None] - 0.5) * slopes[:, None]  # (inputs, λ, outputs)
    with torch.no_grad():
        table.unflatten(-1, (layer.outputs, -1))[..., -1] = lines.flatten(0, 1).to(table.dtype)
