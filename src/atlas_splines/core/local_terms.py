"""Local terms: weighted Laplace kernels around known rows, each confined to the box of its centre.

A term w·exp(−Σ_j |x_j − c_j|/ℓ_j) is an exponential of a sum of functions of one input each, equation (47) of
docs/math.md: a term of an ATLAS with kinks. Inside its box a prediction is the posterior mean of a local
Gaussian process (Rasmussen and Williams 2006, section 2.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core import kernels
from atlas_splines.core.boxes import Boxes
from atlas_splines.core.remembering import Recomputing

__all__ = ["LocalTerms"]

Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LocalTerms(Recomputing):
    """Terms in boxes; never changed in place.

    Attributes
    ----------
    boxes
        The boxes.
    rates
        1/ℓ_j of each input, shape (inputs,); 0 for an input that the terms do not depend on.
    centres
        Points of the unit cube, shape (terms, inputs), in any order.
    weights
        Shape (terms, outputs).
    constants
        What is added in each box, shape (boxes, outputs).

    Examples
    --------
    >>> from atlas_splines.core.boxes import BoxRules
    >>> centres = np.array([[0.25], [0.75]], np.float32)
    >>> boxes = Boxes.of(centres, np.ones(1), BoxRules(most_rows=1))
    >>> weights, none = np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)
    >>> terms = LocalTerms(boxes, np.ones(1, np.float32), centres, weights, none)
    >>> out = np.zeros((3, 1), np.float32)
    >>> terms.add_to(np.array([[0.25], [0.0], [0.75]]), out)
    >>> out.ravel().round(2)
    array([1.  , 0.78, 1.  ], dtype=float32)
    """

    boxes: Boxes
    rates: Array
    centres: Array
    weights: Array
    constants: Array

    def add_to(self, points: NDArray[np.floating], out: NDArray[np.floating]) -> None:
        """Add the terms at points, shape (rows, inputs), to outputs, shape (rows, outputs).

        Points beyond the unit cube count at its edge, as their rows did when they were learned.
        """
        inside = np.ascontiguousarray(points.clip(0, 1), np.float32)
        kernels.add_local_terms(self._packed, inside, self.boxes.find(inside), out)

    def scaled(self, share: float) -> LocalTerms:
        """The terms times a number."""
        factor = np.float32(share)
        return replace(self, weights=factor * self.weights, constants=factor * self.constants)

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> LocalTerms:
        """The terms of more outputs, to which they add nothing; the old ones get these places."""
        weights, constants = (
            np.zeros((len(part), outputs), np.float32) for part in (self.weights, self.constants)
        )
        weights[:, places], constants[:, places] = self.weights, self.constants
        return replace(self, weights=weights, constants=constants)

    @property
    def parts(self) -> tuple[NDArray[np.generic], ...]:
        """Everything that the terms are made of, for a fingerprint."""
        return (self.boxes.nodes, self.boxes.cuts, self.rates, self.centres, self.weights, self.constants)

    @cached_property
    def _packed(self) -> kernels.Local:
        """The terms as the kernels take them."""
        own = self.boxes.find(np.ascontiguousarray(self.centres))
        order = np.argsort(own, kind="stable")
        counts = np.bincount(own, minlength=len(self.boxes))
        sizes = -(-counts // kernels.LANES) * kernels.LANES
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        # place of each term: where its box starts, and how many of the box come before it
        before = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = starts[:-1][own[order]] + before
        inputs = np.flatnonzero(self.rates)
        centres = np.zeros((len(inputs), starts[-1]), np.float32)
        centres[:, places] = (self.centres[order][:, inputs] * self.rates[inputs]).T
        weights = np.zeros((self.weights.shape[1], starts[-1]), np.float32)
        weights[:, places] = self.weights[order].T
        constants = np.ascontiguousarray(self.constants, np.float32)
        nodes, cuts = self.boxes.nodes, self.boxes.cuts
        return kernels.Local(nodes, cuts, starts, inputs, self.rates[inputs], centres, weights, constants)
