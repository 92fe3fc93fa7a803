"""Charts, local terms, random effects of levels and extrapolation in time as modules."""

from __future__ import annotations

from datetime import datetime, timezone
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from atlas_splines.model import splines
from atlas_splines.model.atlas import Atlas, state_of, take_state
from atlas_splines.model.charts import Chart, Window
from atlas_splines.model.lattice import MAX_FUNCTIONS
from atlas_splines.model.local_terms import Boxes, LocalTerms
from atlas_splines.model.log import Record
from atlas_splines.model.state import COORDINATE_BITS, STRAIGHT, Later, Offsets, coordinates_of, inputs_of
from atlas_splines.nn.gather import active_rows, as_bits, as_numpy, from_bits, locate, locate_beyond

if TYPE_CHECKING:
    from atlas_splines.nn.module import AtlasModule

__all__ = ["AtlasChart", "LaterModule", "LevelOffsets", "LocalModule", "levelled"]


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
    >>> chart.membership(torch.tensor([[0.5, 0.5], [0.5, 0.9]]))
    tensor([1., 0.])
    """

    # all of them are buffers, so that a checkpoint has them; fractions are whole numbers, numerators and then
    # denominators, so that no change of dtype rounds them
    frame: Tensor  # (2, inputs, 2) fractions: the domain in which the window was made
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
        window: Window,
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
        frame = fractions(np.broadcast_to(window.domain, (content.inputs, 2)))  # (inputs, 2)
        low, high = fractions(window.box).T
        for name, ratios in (("frame", frame), ("origin", low), ("stretch", 1 / (high - low))):
            self.register_buffer(name, fraction_parts(ratios, size.device))
        numbers = {
            "cells": splines.cell_count(window.density),
            "first": window.first,
            "last": window.last,
            "replaces": replaces,
            "update": update,
            "rows": rows,
        }
        for name, values in numbers.items():
            self.register_buffer(name, torch.as_tensor(values, dtype=torch.int32, device=size.device))
        self.register_buffer("size", size)

    def forward(self, points: Tensor, before: Tensor) -> Tensor:
        """Blend the chart into the outputs before it, equation (23): (points, outputs)."""
        membership = self.membership(points)[:, None]
        inside = self.size * self.content(self.to_local(points))
        after = (1 - self.replaces * membership) * before + membership * inside
        return torch.where(membership > 0, after, before)  # outside no bit changes, equation (24)

    def membership(self, points: Tensor) -> Tensor:
        """Product over the inputs of the open functions' weights, equation (22): (points,)."""
        cells, weights = (locate_beyond if self.is_extended else locate)(points, self.cells)
        functions = active_rows(cells)  # (points, 4, inputs)
        is_open = (functions >= self.first) & (functions <= self.last)
        share = torch.where(is_open, weights, 0).sum(1)
        # where all four are open they sum to one, which rounding must not change
        return torch.where(is_open.all(1), 1, share).prod(-1)

    def to_local(self, points: Tensor) -> Tensor:
        """Coordinates in which the box is the unit cube."""
        origin, stretch = (parts[0].to(points.dtype) / parts[1] for parts in (self.origin, self.stretch))
        return ((points - origin) * stretch).clamp(0, 1)

    @classmethod
    def from_chart(cls, chart: Chart, content: AtlasModule, is_extended: bool) -> AtlasChart:
        """Return the chart of an `Atlas`, with its content as a module."""
        size = torch.tensor(chart.size)
        return cls(chart.window, content, size, chart.replaces, chart.update, 0, is_extended)

    def add_to(self, model: Atlas) -> None:
        """Add the chart to an `Atlas`, and to its log if it is not there."""
        content = self.content.to_model()
        density = int(np.log2(int(self.cells) + 3)) - 2
        numerators, denominators = as_numpy(self.frame)
        window = Window(density, as_numpy(self.first), as_numpy(self.last), numerators / denominators)
        id, before = int(self.update), model.fingerprint()
        chart = Chart(id, window, content, as_numpy(self.size), bool(self.replaces))
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


MOST_NUMBERS = 2**24  # points · terms of a box · inputs that are worked on at once: 64 MB, if all are kept


class LocalModule(nn.Module):
    """Laplace kernels centred on rows, each supported in the box of its centre, equation (47).

    Every box is padded to the length of the longest one with weights of zero, so that the terms of any points
    are gathered by the numbers of their boxes. Distances add up input by input: no array has more than
    (points, terms of a box) numbers, and many points are worked on in pieces. All numbers are kept as the
    bits of float32, which no change of the module's dtype rounds: a point must find the same box in any, and
    weights are large and cancel where length scales are long.

    Parameters
    ----------
    terms
        Those of a state.
    """

    nodes: Tensor  # (nodes, 3), as in `Boxes`
    cuts: Tensor  # (nodes,)
    rates: Tensor  # (inputs,)
    centres: Tensor  # (inputs, boxes, longest)
    weights: Tensor  # (outputs, boxes, longest)
    constants: Tensor  # (boxes, outputs)
    places: Tensor  # (terms,) of each term of the state among boxes · longest

    def __init__(self, terms: LocalTerms) -> None:
        super().__init__()
        own, boxes = terms.boxes.find(np.ascontiguousarray(terms.centres)), len(terms.boxes)
        counts = np.bincount(own, minlength=boxes)
        longest = max(1, int(counts.max()))
        order = np.argsort(own, kind="stable")
        places = np.empty(len(own), np.int64)
        # where the box of a term starts, and how many terms of the box come before it
        before = np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)
        places[order] = own[order].astype(np.int64) * longest + before
        self.register_buffer("nodes", torch.tensor(terms.boxes.nodes))
        self.register_buffer("places", torch.tensor(places))
        for name, values in (("centres", terms.centres), ("weights", terms.weights)):
            padded = np.zeros((values.shape[1], boxes * longest), np.float32)
            padded[:, places] = values.T
            self.register_buffer(name, as_bits(padded.reshape(-1, boxes, longest)))
        for name in ("rates", "constants"):
            self.register_buffer(name, as_bits(getattr(terms, name)))
        self.register_buffer("cuts", as_bits(terms.boxes.cuts))
        self._survey()

    def _survey(self) -> None:
        """Set the depth of the tree and the inputs that the terms depend on: the bounds of loops."""
        nodes, level, self.depth = as_numpy(self.nodes), np.zeros(1, np.int64), 0
        while (nodes[level, 0] >= 0).any():
            level, self.depth = nodes[level[nodes[level, 0] >= 0], 1:].ravel(), self.depth + 1
        self.active = np.flatnonzero(as_numpy(from_bits(self.rates))).tolist()

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._survey()

    def forward(self, points: Tensor, out: Tensor) -> Tensor:
        """Outputs, shape (points, outputs), with the terms at points, shape (points, inputs)."""
        inside = points.clamp(0, 1)  # where points beyond were learned
        at_once = max(1, MOST_NUMBERS // (self.centres.shape[2] * max(1, len(self.active))))
        if torch.compiler.is_compiling() or len(points) <= at_once:
            return out + self._added(inside)
        # what a derivative needs of all points at once would not fit into memory: it is computed again
        parts = [
            checkpoint(self._added, part, use_reentrant=False) if part.requires_grad else self._added(part)
            for part in inside.split(at_once)
        ]
        return out + torch.cat(parts)

    def _added(self, points: Tensor) -> Tensor:
        """Sum of the terms at points of the unit cube: (points, outputs)."""
        box, dtype = self.find(points), points.dtype
        rates, distances = from_bits(self.rates).to(dtype), torch.zeros_like(points[:, :1])
        for j in self.active:
            # rounded as the kernels round: coordinates over length scales, and then their differences
            centres = from_bits(self.centres[j]).to(dtype) * rates[j]  # (boxes, longest)
            distances = distances + (centres[box] - points[:, j : j + 1] * rates[j]).abs()
            # adds nothing, but lets a runtime not gather the centres of all inputs before it adds up any
            box = box + (distances[:, 0] < 0).to(torch.int64)
        values = (-distances).exp()  # (points, longest)
        weights = from_bits(self.weights).to(dtype)
        sums = [(values * own[box]).sum(1) for own in weights.unbind()]
        return from_bits(self.constants).to(dtype)[box] + torch.stack(sums, dim=1)

    def find(self, points: Tensor) -> Tensor:
        """Number of the box of each point of the unit cube, (points,): a step for each level of the tree."""
        exact, cuts = points.detach().to(torch.float32), from_bits(self.cuts)
        nodes = self.nodes.to(torch.int64)
        is_leaf = nodes[:, 0] < 0
        own = torch.arange(len(nodes), device=nodes.device)
        low, high = (torch.where(is_leaf, own, nodes[:, side]) for side in (1, 2))  # a leaf leads to itself
        inputs = nodes[:, 0].clamp(min=0)
        node = torch.zeros_like(exact[:, 0]).to(torch.int64)
        for _ in range(self.depth):
            coordinate = exact.gather(1, inputs[node][:, None])[:, 0]
            node = torch.where(coordinate <= cuts[node], low[node], high[node])
        return nodes[:, 1][node]

    def clear(self) -> None:
        """Set all weights to zero."""
        self.weights.zero_()
        self.constants.zero_()

    def to_terms(self) -> LocalTerms:
        """The local terms as a value of a state."""
        places = as_numpy(self.places)
        centres, weights = (
            np.ascontiguousarray(as_numpy(from_bits(bits)).reshape(len(bits), -1)[:, places].T)
            for bits in (self.centres, self.weights)
        )
        boxes = Boxes(as_numpy(self.nodes), as_numpy(from_bits(self.cuts)))
        rates, constants = (as_numpy(from_bits(bits)) for bits in (self.rates, self.constants))
        return LocalTerms(boxes, rates, centres, weights, constants)


class LevelOffsets(nn.Module):
    """Random effects of levels: offsets where an input has exactly the coordinate of a level, equation (44).

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
        """Set the coordinates anew: cast to another dtype they would not be those of the levels."""
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
        """The offsets as a value of a state; bfloat16 becomes float32."""
        values = self.values.cpu()
        known = values if values.dtype in (torch.float32, torch.float64) else values.to(torch.float32)
        return Offsets(self.keys.cpu().numpy(), known.numpy())


class LaterModule(nn.Module):
    """Extrapolation in time: another model beyond the end of some clocks, as `model.state.Later`.

    Both models are evaluated at all points, so that there is no branch in what is compiled or exported.

    Parameters
    ----------
    later
        That of a state.
    model
        The model of `later.state` as a module.
    """

    clocks: Tensor  # (clocks,)
    directions: Tensor  # (clocks,)
    ends: Tensor  # (clocks,) bits: no change of dtype may move an end
    slopes: Tensor  # (inputs, outputs) bits

    def __init__(self, later: Later, model: AtlasModule) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("clocks", torch.tensor(later.clocks, dtype=torch.int64))
        self.register_buffer("directions", torch.tensor(later.directions))
        self.register_buffer("ends", as_bits(later.ends))
        self.register_buffer("slopes", as_bits(later.slopes))

    def forward(self, points: Tensor, out: Tensor) -> Tensor:
        """Outputs, shape (points, outputs), with those of the other model where it predicts."""
        return torch.where(self.includes(points), self.model(points).to(out.dtype), out)

    def includes(self, points: Tensor) -> Tensor:
        """Which points, shape (points, inputs), lie beyond the end of a clock: (points, 1)."""
        exact = points.detach().to(torch.float32)[:, self.clocks]
        beyond = (exact - from_bits(self.ends)) * self.directions.to(torch.float32)
        return beyond.amax(1, keepdim=True) > 0

    def continued(self, points: Tensor, inside: Tensor) -> Tensor:
        """Contribution of the slopes at points beyond the domain, with projections `inside` onto it."""
        beyond = points - inside
        change = torch.matmul(beyond.sign() * levelled(beyond.abs()), from_bits(self.slopes).to(points.dtype))
        return torch.where(self.includes(points), change, 0)

    def clear(self) -> None:
        """Set the slopes to zero."""
        self.slopes.zero_()

    def to_later(self) -> Later:
        """The extrapolation as a value of a state."""
        clocks, directions = as_numpy(self.clocks).astype(np.intp), as_numpy(self.directions)
        ends, slopes = (as_numpy(from_bits(bits)) for bits in (self.ends, self.slopes))
        return Later(clocks, directions, ends, state_of(self.model.to_model()), slopes)


def levelled(beyond: Tensor) -> Tensor:
    """Distances, linear at first and saturating at 1, as `model.state.levelled`."""
    near = beyond.clamp(max=2 - STRAIGHT)
    return near - (near - STRAIGHT).clamp(min=0) ** 2 / (4 * (1 - STRAIGHT))
