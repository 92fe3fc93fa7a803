"""Features: a constant, additive cubic B-splines, and Gaussian radial basis functions of a point.

A radial basis function is exp(−Σ_j (x_j − c_j)²/2ℓ_j²) (Broomhead and Lowe, 1988). All features are parts of
an ATLAS, since uniform cubic splines contain quadratics exactly. Along a monotone input a function is
one-sided, exp(−max(c_j − x_j, 0)³/2ℓ_j³), with c_j on a knot of such splines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.constraints import Cone
from atlas_splines.memory.statistics import Statistics
from atlas_splines.model import kernels, splines
from atlas_splines.model.state import Keys, Monotonic, level_keys

__all__ = ["COARSE", "FINEST", "SIDED", "Features", "RadialBasis"]

Array = NDArray[np.float64]

LINEAR = -1  # in place of a density: a single function, the coordinate itself
COARSE = 0  # density of the splines of an input
FINEST = 6  # highest density of the finer splines of an input; not benchmarked
SIDED = 3  # density whose knots the centres of one-sided functions lie on; not benchmarked
STEEPEST = (4 / 3) ** (1 / 3)  # distance from the centre, in length scales, at which one is steepest
CLOSE = 1e-6  # coordinates closer than this are equal up to rounding in float32
LONGEST_SIDE = 2.0  # longest length scale of one: nearly linear on the unit cube


@dataclass(frozen=True, eq=False)
class RadialBasis:
    """Gaussian radial basis functions with the same length scales.

    Attributes
    ----------
    centres
        Shape (functions, inputs).
    lengths
        Length scale of each input, shape (inputs,); infinite for an irrelevant one.
    sides
        For each input 1 if the functions increase along it, up to their centre, -1 if they decrease from
        there on, and 0 if they are two-sided; empty if all inputs are two-sided.
    """

    centres: Array
    lengths: Array
    sides: tuple[int, ...] = ()

    @classmethod
    def around(cls, middles: Array, lengths: Array, sides: tuple[int, ...]) -> RadialBasis:
        """Functions around points, shape (functions, inputs): one-sided ones are steepest there."""
        if not any(sides):
            return cls(middles, lengths, sides)
        directions, cells = np.array(sides), splines.cell_count(SIDED)
        lengths = np.where(directions, np.minimum(lengths, LONGEST_SIDE), lengths)
        ends = np.rint((middles + STEEPEST * directions * np.where(directions, lengths, 0)) * cells) / cells
        return cls(np.where(directions, ends, middles), lengths, sides)

    @property
    def two_sided_lengths(self) -> Array:
        """Length scales of two-sided inputs; infinite for others."""
        return np.where(self.sides, np.inf, self.lengths) if self.sides else self.lengths

    def __call__(self, points: Array) -> Array:
        """Values at points, shape (points, functions)."""
        values = np.empty((len(points), len(self.centres)))
        self.write(points, values, 0)
        return values

    def write(self, points: Array, values: Array, begin: int) -> None:
        """Write values at points to consecutive columns of a table, shape (points, features)."""
        own = values[:, begin : begin + len(self.centres)]
        lengths = self.two_sided_lengths
        at, centres = points / lengths, self.centres / lengths
        np.matmul(at, centres.T, out=own)
        squares = (np.einsum("ij,ij->i", part, part) for part in (at, centres))
        kernels.gaussian_kernels(values, begin, *squares)
        for j in np.flatnonzero(self.sides):
            apart = self.sides[j] * (self.centres[:, j] - points[:, j : j + 1]) / self.lengths[j]
            own *= np.exp(-0.5 * np.maximum(apart, 0) ** 3)


@dataclass(frozen=True, eq=False)
class Features:
    """Bounded features of points: a constant, splines, radial basis functions. None is larger than 1.

    Points outside the unit cube have the features of the nearest point in it, so predictions stay bounded.

    Attributes
    ----------
    inputs
        Number of inputs.
    coarse
        Inputs with splines of density 0.
    fine
        Pairs (input, density) of finer splines.
    radial_bases
        Groups of radial basis functions.
    monotonic
        Monotone direction of each output along each input; empty if none is constrained.
    levels
        Inputs whose coordinates are levels of a column with many categories: the features treat them as
        positions along an axis, and each level has a random effect besides.
    linear
        Inputs with one function, the coordinate itself: binary ones, and most inputs of a wide table.

    Examples
    --------
    >>> features = Features(
    ...     2, (0, 1), ((1, 2),), (RadialBasis(np.array([[0.5, 0.5]]), np.array([0.1, 0.2])),)
    ... )
    >>> features.sizes
    (1, 8, 16, 1)
    >>> features(np.array([[0.5, 0.5]])).shape
    (1, 26)
    """

    inputs: int
    coarse: tuple[int, ...]
    fine: tuple[tuple[int, int], ...]
    radial_bases: tuple[RadialBasis, ...]
    monotonic: Monotonic = ()
    levels: tuple[int, ...] = ()
    linear: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Size of each group: constant, coarse splines, linear functions, finer splines, radial functions.

        Without linear functions there is no such group, as in files of earlier releases.
        """
        coarse = len(self.coarse) * splines.basis_size(COARSE)
        linear = (len(self.linear),) if self.linear else ()
        fine = (splines.basis_size(density) for _, density in self.fine)
        return (1, coarse, *linear, *fine, *(len(group.centres) for group in self.radial_bases))

    def __len__(self) -> int:
        """Number of features."""
        return sum(self.sizes)

    def __call__(self, points: NDArray[np.floating]) -> Array:
        """Features of points, shape (points, features)."""
        values = np.empty((len(points), len(self)))
        self.write(points, values)
        return values

    def write(self, points: NDArray[np.floating], values: Array) -> None:
        """Write the features of points to a table, shape (points, features): the largest array of a fit."""
        inside = np.ascontiguousarray(points, np.float64).clip(0, 1)
        values[:, 0] = 1
        table = [(j, density, functions.start) for j, density, functions in self._splines()]
        kernels.write_splines(inside, *np.array(table, np.int64).reshape(-1, 3).T.copy(), values)
        begin = len(self) - sum(len(group.centres) for group in self.radial_bases)
        for group in self.radial_bases:
            group.write(inside, values, begin)
            begin += len(group.centres)

    def keys(self, points: NDArray[np.floating]) -> Keys:
        """Keys of the levels of points, shape (points, columns with levels)."""
        return level_keys(points, self.levels)

    @property
    def cone(self) -> Cone | None:
        """Constraints on the weights that make every output monotone; None if none is constrained.

        Examples
        --------
        >>> Features(1, (0,), (), (), monotonic=((1,),)).cone.monotonic.T
        array([[0, 0, 1, 1, 1]], dtype=int8)
        """
        if not self.monotonic:
            return None
        directions = np.array(self.monotonic, np.int8).T  # (inputs, outputs)
        monotonic = np.zeros((len(self), directions.shape[1]), np.int8)
        ranges = []
        for j, density, functions in self._splines():
            if density == LINEAR:
                monotonic[functions] = directions[j]
            elif directions[j].any():
                ranges.append(functions)
                monotonic[functions.start + 1 : functions.stop] = directions[j]
        begin = len(self)
        for group in reversed(self.radial_bases):
            begin -= len(group.centres)
            for j in np.flatnonzero(group.sides)[:1]:  # their signs all agree
                monotonic[begin : begin + len(group.centres)] = group.sides[j] * directions[j]
        return Cone(tuple(ranges), monotonic)

    def _splines(self) -> Iterator[tuple[int, int, slice]]:
        """Input, density and features of each spline, linear functions included."""
        begin = 1
        coarse, linear = ((j, COARSE) for j in self.coarse), ((j, LINEAR) for j in self.linear)
        for j, density in (*coarse, *linear, *self.fine):
            end = begin + (1 if density == LINEAR else splines.basis_size(density))
            yield j, density, slice(begin, end)
            begin = end

    @property
    def used(self) -> set[int]:
        """Inputs that a feature depends on."""
        finite = [np.flatnonzero(np.isfinite(group.lengths)).tolist() for group in self.radial_bases]
        return {j for j, *_ in self._splines()}.union(*finite)

    def with_bases(self, more: Sequence[Array]) -> Features:
        """The features with more centres, shape (functions, inputs), at the end of each group."""
        groups = zip(self.radial_bases, more, strict=True)
        return replace(
            self, radial_bases=tuple(replace(g, centres=np.vstack([g.centres, c])) for g, c in groups)
        )

    def without_bases(self, fewer: Sequence[int]) -> Features:
        """The features without the last so many centres of each group."""
        groups = zip(self.radial_bases, fewer, strict=True)
        return replace(
            self,
            radial_bases=tuple(
                replace(g, centres=g.centres[: len(g.centres) - count]) for g, count in groups
            ),
        )

    def with_only(self, kept: NDArray[np.bool_]) -> Features:
        """The features without some centres, by a mask of all features; empty groups are dropped.

        Examples
        --------
        >>> features = Features(1, (0,), (), (RadialBasis(np.array([[0.1], [0.9]]), np.array([0.2])),))
        >>> features.with_only(np.array([True, True, True, True, True, False, True])).radial_bases[0].centres
        array([[0.9]])
        """
        cuts = np.cumsum([len(group.centres) for group in self.radial_bases])
        masks = np.split(kept[len(kept) - cuts[-1] :], cuts[:-1])
        groups = (
            replace(g, centres=g.centres[mask]) for g, mask in zip(self.radial_bases, masks, strict=True)
        )
        return replace(self, radial_bases=tuple(group for group in groups if len(group.centres)))

    def away_from(self, points: Array, others: Array) -> NDArray[np.bool_]:
        """Mask of the features without centres on some points where no others lie, shape (features,).

        Irrelevant inputs of a group are not compared; centres may have been rounded.

        Examples
        --------
        >>> features = Features(1, (0,), (), (RadialBasis(np.array([[0.1], [0.9]]), np.array([0.2])),))
        >>> features.away_from(np.array([[0.1], [0.9]]), np.array([[0.2], [0.9]]))
        array([ True,  True,  True,  True,  True, False,  True])
        """
        away = [np.ones(len(self) - sum(len(group.centres) for group in self.radial_bases), np.bool_)]
        for group in self.radial_bases:
            used = np.isfinite(group.lengths)
            centres, near = group.centres[:, used], np.zeros(len(group.centres), np.bool_)
            for point in points[:, used]:
                near |= (np.abs(centres - point) < CLOSE).all(axis=1)
            for k in np.flatnonzero(near):
                near[k] = not (np.abs(others[:, used] - centres[k]) < CLOSE).all(axis=1).any()
            away.append(~near)
        return np.concatenate(away)

    def places_in(self, larger: Features) -> NDArray[np.intp]:
        """Number of each feature among those with more centres."""
        starts = np.cumsum([0, *larger.sizes[:-1]])
        return np.concatenate(
            [start + np.arange(size) for start, size in zip(starts, self.sizes, strict=True)]
        )

    def share_in_box(self, known: Statistics, low: Array, high: Array) -> float:
        """Share of the known rows in a box, estimated by the radial basis functions with a centre in it.

        The first feature is constant, so the first row of Σφφᵀ holds the sum of each feature.

        Parameters
        ----------
        known
            Statistics of the known rows.
        low, high
            Corners of the box, shape (inputs,).
        """
        if not self.radial_bases:
            return 1.0
        centres = np.vstack([group.centres for group in self.radial_bases])
        seen = known.gram[0, -len(centres) :]
        ignored = np.vstack(
            [np.tile(np.isinf(group.lengths), (len(group.centres), 1)) for group in self.radial_bases]
        )
        inside = (((centres >= low) & (centres <= high)) | ignored).all(axis=1)
        return float(seen[inside].sum() / max(seen.sum(), 1e-12))
