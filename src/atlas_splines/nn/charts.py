"""Charts: a window over a box, and a module inside it.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from datetime import datetime, timezone
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from atlas_splines.core import splines
from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.lattice import MAX_FUNCTIONS
from atlas_splines.core.model import Atlas, state_of, take_state
from atlas_splines.core.records import Record
from atlas_splines.nn.gather import active_rows
from atlas_splines.nn.tables import as_numpy, locate, locate_beyond

if TYPE_CHECKING:
    from atlas_splines.nn.module import AtlasModule  # which makes charts, and gives each its content

__all__ = ["AtlasChart"]


class AtlasChart(nn.Module):
    """A window over a box, and a model inside it: equations (22) and (23).

    Attributes
    ----------
    content
        The model inside, in coordinates where the box is the unit cube.

    Examples
    --------
    >>> from atlas_splines.nn import AtlasModule
    >>> chart = AtlasModule(inputs=2).open_chart(torch.full((5, 2), 0.5))
    >>> chart.window(torch.tensor([[0.5, 0.5], [0.5, 0.9]]))
    tensor([1., 0.])
    """

    # all of them are buffers, so that a checkpoint has them; fractions are whole numbers, numerators and then
    # denominators, so that no change of dtype rounds them
    frame: Tensor  # (2, inputs, 2) fractions: the domain in which the fence was made
    origin: Tensor  # (2, inputs) fractions: local coordinates are (x − origin)·stretch
    stretch: Tensor  # (2, inputs) fractions
    cells: Tensor  # () of each input
    first: Tensor  # (inputs,) first open function
    last: Tensor  # (inputs,) last open function
    size: Tensor  # (outputs,) what the content is multiplied by
    replaces: Tensor  # () 1: in place of what was there; 0: added to it
    update: Tensor  # () number of the update
    rows: Tensor  # () how many points it was opened for

    def __init__(
        self,
        fence: Fence,
        content: AtlasModule,
        size: Tensor,
        replaces: bool,
        update: int,
        rows: int,
        is_extended: bool,
    ) -> None:
        super().__init__()
        self.content = content
        self.is_extended = is_extended  # whether points may lie outside the unit cube
        frame = fractions(np.broadcast_to(fence.domain, (content.inputs, 2)))  # (inputs, 2)
        low, high = fractions(fence.box).T
        for name, ratios in (("frame", frame), ("origin", low), ("stretch", 1 / (high - low))):
            self.register_buffer(name, fraction_parts(ratios, size.device))
        numbers = {
            "cells": splines.cell_count(fence.density),
            "first": fence.first,
            "last": fence.last,
            "replaces": replaces,
            "update": update,
            "rows": rows,
        }
        for name, values in numbers.items():
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.int32, device=size.device))
        self.register_buffer("size", size)

    def forward(self, points: Tensor, before: Tensor) -> Tensor:
        """Let the chart speak over the outputs before it, equation (23): (points, outputs)."""
        window = self.window(points)[:, None]
        inside = self.size * self.content(self.to_local(points))
        after = (1 - self.replaces * window) * before + window * inside
        return torch.where(window > 0, after, before)  # outside no bit changes, equation (24)

    def window(self, points: Tensor) -> Tensor:
        """Product over the inputs of the open functions' weights, equation (22): (points,)."""
        cells, weights = (locate_beyond if self.is_extended else locate)(points, self.cells)
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
    def from_chart(cls, chart: Chart, content: AtlasModule, is_extended: bool) -> AtlasChart:
        """Return the chart of an `Atlas`, with its content as a module."""
        size = torch.tensor(chart.size)
        return cls(chart.fence, content, size, chart.replaces, chart.update, 0, is_extended)

    def add_to(self, model: Atlas) -> None:
        """Add the chart to an `Atlas`, and to its log if it is not there."""
        content = self.content.to_model()
        density = int(np.log2(int(self.cells) + 3)) - 2
        numerators, denominators = as_numpy(self.frame)
        fence = Fence(density, as_numpy(self.first), as_numpy(self.last), numerators / denominators)
        id, before = int(self.update), model.fingerprint()
        chart = Chart(id, fence, content, as_numpy(self.size), bool(self.replaces))
        take_state(model, state_of(model).with_charts((*model.charts, chart)))
        if id not in [record.id for record in model.updates]:
            now = datetime.now(timezone.utc)
            model.updates.append(Record(id, "chart", now, int(self.rows), before, model.fingerprint()))


def fractions(ends: NDArray[np.float64]) -> NDArray[Any]:
    """Ends of cells as the fractions that they are, an array of `Fraction`."""
    found = [Fraction(end).limit_denominator(MAX_FUNCTIONS) for end in ends.ravel().tolist()]
    if [float(ratio) for ratio in found] != ends.ravel().tolist():
        raise ValueError("a chart was made in a domain that is not of whole cells; load it with Atlas only")
    return np.array(found, dtype=object).reshape(ends.shape)


def fraction_parts(ratios: NDArray[Any], device: torch.device) -> Tensor:
    """Numerators and denominators: (2, …)."""
    pairs = [ratio.as_integer_ratio() for ratio in ratios.flat]
    return torch.tensor(pairs, dtype=torch.int64, device=device).T.reshape(2, *ratios.shape)
