"""What predicts beyond the end of a clock, as a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from atlas_splines.core.later import STRAIGHT, Later
from atlas_splines.core.model import state_of
from atlas_splines.nn.tables import as_bits, as_numpy, from_bits

if TYPE_CHECKING:
    from atlas_splines.nn.module import AtlasModule  # which has one of these, and gives it its model

__all__ = ["LaterModule", "levelled"]


class LaterModule(nn.Module):
    """Another model beyond the end of any of some clocks, as `core.later.Later` has it.

    Both models are evaluated at all points, so that there is no branch in what is compiled or exported.

    Parameters
    ----------
    later
        That of a state.
    model
        The model of `later.state` as a module.
    """

    clocks: Tensor  # (clocks,)
    signs: Tensor  # (clocks,)
    ends: Tensor  # (clocks,) bits: no change of dtype may move an end
    slopes: Tensor  # (inputs, outputs) bits

    def __init__(self, later: Later, model: AtlasModule) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("clocks", torch.tensor(later.clocks, dtype=torch.int64))
        self.register_buffer("signs", torch.tensor(later.signs))
        self.register_buffer("ends", as_bits(later.ends))
        self.register_buffer("slopes", as_bits(later.slopes))

    def forward(self, points: Tensor, out: Tensor) -> Tensor:
        """Outputs, shape (points, outputs), with those of the other model where it predicts."""
        return torch.where(self.includes(points), self.model(points).to(out.dtype), out)

    def includes(self, points: Tensor) -> Tensor:
        """Which points, shape (points, inputs), lie beyond the end of a clock: (points, 1)."""
        exact = points.detach().to(torch.float32)[:, self.clocks]
        beyond = (exact - from_bits(self.ends)) * self.signs.to(torch.float32)
        return beyond.amax(1, keepdim=True) > 0

    def continued(self, points: Tensor, inside: Tensor) -> Tensor:
        """What the slopes add at points beyond the domain, whose nearest ones in it are `inside`."""
        beyond = points - inside
        change = torch.matmul(beyond.sign() * levelled(beyond.abs()), from_bits(self.slopes).to(points.dtype))
        return torch.where(self.includes(points), change, 0)

    def clear(self) -> None:
        """Set the slopes to zero."""
        self.slopes.zero_()

    def to_later(self) -> Later:
        """The same as a state has it."""
        clocks, signs = as_numpy(self.clocks).astype(np.intp), as_numpy(self.signs)
        ends, slopes = (as_numpy(from_bits(bits)) for bits in (self.ends, self.slopes))
        return Later(clocks, signs, ends, state_of(self.model.to_model()), slopes)


def levelled(beyond: Tensor) -> Tensor:
    """Distances that go straight on at first and level off at 1, as `core.later.levelled` has them."""
    near = beyond.clamp(max=2 - STRAIGHT)
    return near - (near - STRAIGHT).clamp(min=0) ** 2 / (4 * (1 - STRAIGHT))
