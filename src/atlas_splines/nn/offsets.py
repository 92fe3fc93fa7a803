"""Offsets of outputs by level, as a module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from atlas_splines.core.offsets import COORDINATE_BITS, Offsets, coordinates_of, inputs_of

__all__ = ["LevelOffsets"]


class LevelOffsets(nn.Module):
    """What is added to outputs where an input has exactly the coordinate of a level, equation (44).

    Parameters
    ----------
    offsets
        Those of a state.
    """

    keys: Tensor
    values: Tensor
    coordinates: Tensor

    def __init__(self, offsets: Offsets) -> None:
        super().__init__()
        self.inputs = inputs_of(offsets.keys)
        self.counts = [int((offsets.keys >> COORDINATE_BITS == j).sum()) for j in self.inputs]
        self.register_buffer("keys", torch.tensor(offsets.keys))
        self.register_buffer("values", torch.tensor(offsets.values))
        self._set_coordinates()

    def _set_coordinates(self) -> None:
        """Set coordinates again: in another dtype they would not be those of the levels."""
        exact = torch.tensor(coordinates_of(self.keys.cpu().numpy()), device=self.keys.device)
        self.register_buffer("coordinates", exact, persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> LevelOffsets:
        super()._apply(fn, recurse)
        self._set_coordinates()
        return self

    def forward(self, points: Tensor, out: Tensor) -> Tensor:
        """Outputs, shape (points, outputs), with the offsets of points, shape (points, inputs)."""
        start = 0
        for j, count in zip(self.inputs, self.counts, strict=True):
            own = slice(start, start + count)
            is_there = points[:, j : j + 1].to(torch.float32) == self.coordinates[own]  # (points, levels)
            out = out + torch.matmul(is_there.to(out.dtype), self.values[own].to(out.dtype))
            start += count
        return out

    def clear(self) -> None:
        """Set all offsets to zero."""
        self.values.zero_()

    def to_offsets(self) -> Offsets:
        """The same as a state has them; bfloat16 becomes float32."""
        values = self.values.cpu()
        known = values if values.dtype in (torch.float32, torch.float64) else values.to(torch.float32)
        return Offsets(self.keys.cpu().numpy(), known.numpy())
