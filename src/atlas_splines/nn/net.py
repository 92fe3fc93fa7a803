"""Deep networks of ATLAS layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from atlas_splines.core import splines
from atlas_splines.nn.module import AtlasModule
from atlas_splines.nn.tables import Table

__all__ = ["AtlasNet"]


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
