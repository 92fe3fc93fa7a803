"""Local terms of a state as a module.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from atlas_splines.core.boxes import Boxes
from atlas_splines.core.local_terms import LocalTerms
from atlas_splines.nn.tables import as_bits, as_numpy, from_bits

__all__ = ["LocalModule"]

MOST_NUMBERS = 2**24  # points · terms of a box · inputs that are worked on at once: 64 MB, if all are kept


class LocalModule(nn.Module):
    """Laplace kernels around known rows, each confined to the box of its centre, equation (47).

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
        """Note how deep the tree is, and which inputs the terms depend on: numbers that loops are made of."""
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
        """What the terms add at points of the unit cube: (points, outputs)."""
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
        """The same as a state has them."""
        places = as_numpy(self.places)
        centres, weights = (
            np.ascontiguousarray(as_numpy(from_bits(bits)).reshape(len(bits), -1)[:, places].T)
            for bits in (self.centres, self.weights)
        )
        boxes = Boxes(as_numpy(self.nodes), as_numpy(from_bits(self.cuts)))
        rates, constants = (as_numpy(from_bits(bits)) for bits in (self.rates, self.constants))
        return LocalTerms(boxes, rates, centres, weights, constants)
