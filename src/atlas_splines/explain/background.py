"""Backgrounds: what stands for a column whose value is not known.

Against the marginals of known rows columns are independent of one another, and the parts of one column (the
factors of its categories, parts of a date, whether a value is missing) stay together. Against rows each row
is a reference of its own, and what is explained is the mean over these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atlas_splines.explain.products import Group
from atlas_splines.memory.data_density import DataDensity

__all__ = [
    *("BACKGROUND_RULES", "Background", "BackgroundRules", "Block", "InputKinds", "Marginals", "References"),
    *("marginals_of_presence", "player_factors"),
]

Array = NDArray[np.float64]
Players = NDArray[np.intp]
Inputs = Sequence[Sequence[int]]

MOST_VALUES = 2**21  # in an array of factors


@dataclass(frozen=True)
class BackgroundRules:
    """How many known rows stand for all of them.

    Attributes
    ----------
    marginal_rows
        Rows whose values make the marginals at most, evenly chosen. With 4,000 or 1,000 of 5,900 rows Shapley
        values differ by 2.3 % and 1.5 % of their mean size from those with 2,000, with 200 by 4.5 %
        (`benchmarks/explain.py background`).
    response_rows
        Rows that are references where a scale other than the link's is explained: each takes evaluations.
    seed
        Of what is sampled.
    pairs_each
        Orders of the columns for each reference, each with its reverse, where a game is sampled.
    most_players
        Columns up to which all coalitions are enumerated.
    """

    marginal_rows: int = 2000
    response_rows: int = 50
    seed: int = 0
    pairs_each: int = 2
    most_players: int = 10


BACKGROUND_RULES = BackgroundRules()


def player_factors(group: Group, inputs: Sequence[int], points: Array, part: slice) -> Array:
    """Factors of one player, with gates: the product over its inputs, shape (points, terms)."""
    found = np.ones((len(points), len(group.factors.coefficients[part])))
    for j in inputs:
        x = points[:, j]
        if group.factors.depends_on(j):
            found *= group.factors.along(j, x, part)
        gate = group.gate_along(j, x)
        if gate is not None:
            found *= gate[:, None]
    return found


class Background(ABC):
    """What stands for players that are not known.

    Attributes
    ----------
    text
        What it is, in words.
    """

    text: str

    @abstractmethod
    def factors(self, group: Group, players: Sequence[int], inputs: Inputs, part: slice) -> Array:
        """Factors of some players, whose inputs are given: shape (references, players, terms)."""

    @abstractmethod
    def points(self) -> Array:
        """Points that have all of its coordinates, shape (points, inputs)."""


@dataclass(frozen=True, eq=False)
class References(Background):
    """Rows, each of which is a reference.

    Attributes
    ----------
    rows
        Their points, shape (rows, inputs).
    """

    rows: Array
    text: str

    def factors(self, group: Group, players: Sequence[int], inputs: Inputs, part: slice) -> Array:
        return np.stack([player_factors(group, own, self.rows, part) for own in inputs], axis=1)

    def points(self) -> Array:
        return self.rows


@dataclass(frozen=True, eq=False)
class Block:
    """The distribution of some inputs of one column.

    Attributes
    ----------
    inputs
        Which these are.
    points
        Different points of them, shape (points, inputs of the model); other coordinates do not matter.
    shares
        Share of each, shape (points,).
    """

    inputs: tuple[int, ...]
    points: Array
    shares: Array

    @classmethod
    def of(cls, inputs: Sequence[int], points: Array, shares: Array, width: int) -> Block:
        """The distribution of points of these inputs alone, shape (points, inputs)."""
        kept = shares > 0
        wide = np.zeros((int(kept.sum()), width))
        wide[:, list(inputs)] = points[kept]
        return cls(tuple(inputs), wide, shares[kept] / shares[kept].sum())

    def mean(self, group: Group, part: slice) -> Array:
        """Mean of the product of its inputs' factors, shape (terms,)."""
        if len(self.inputs) == 1:
            (j,) = self.inputs
            gate = group.gate_along(j, self.points[:, j])
            weights = self.shares if gate is None else self.shares * gate
            return group.factors.mean(j, self.points[:, j], weights, part)
        terms = len(group.factors.coefficients[part])
        step, found = max(MOST_VALUES // max(terms, 1), 1), np.zeros(terms)
        for begin in range(0, len(self.points), step):
            some = slice(begin, begin + step)
            found += self.shares[some] @ player_factors(group, self.inputs, self.points[some], part)
        return found


@dataclass(frozen=True, eq=False)
class Marginals(Background):
    """The product of the distributions of all columns.

    Attributes
    ----------
    blocks
        Distributions of the inputs of each player; those of one player are independent of each other.

    Examples
    --------
    >>> rows = np.array([[0.1, 0.0], [0.1, 1.0], [0.4, 1.0]])
    >>> [len(blocks[0].shares) for blocks in Marginals.of_rows(rows, np.array([0, 1]), "3 rows").blocks]
    [2, 2]
    """

    blocks: tuple[tuple[Block, ...], ...]
    text: str

    @classmethod
    def of_rows(cls, points: Array, players: Players, text: str) -> Marginals:
        """Those of some rows: all inputs of a player together."""
        blocks = []
        for p in range(int(players.max()) + 1):
            own = np.flatnonzero(players == p)
            different, counts = np.unique(points[:, own], axis=0, return_counts=True)
            blocks.append((Block.of(own.tolist(), different, counts.astype(np.float64), len(players)),))
        return cls(tuple(blocks), text)

    def factors(self, group: Group, players: Sequence[int], inputs: Inputs, part: slice) -> Array:
        means = [np.prod([block.mean(group, part) for block in self.blocks[p]], axis=0) for p in players]
        return np.stack(means)[None]

    def points(self) -> Array:
        return np.vstack([block.points for blocks in self.blocks for block in blocks])

    def sample(self, rows: int, seed: int) -> Array:
        """Points of the product, drawn at random: shape (rows, inputs)."""
        random = np.random.default_rng(seed)
        found = np.zeros((rows, self.blocks[0][0].points.shape[1]))
        for blocks in self.blocks:
            for block in blocks:
                drawn = random.choice(len(block.shares), rows, p=block.shares)
                found[:, list(block.inputs)] = block.points[drawn][:, list(block.inputs)]
        return found


@dataclass(frozen=True, eq=False)
class InputKinds:
    """What inputs hold, as far as counts along them need it.

    Attributes
    ----------
    players
        Column of each input, shape (inputs,).
    flags
        For an indicator of missing values: the input of the value, and its coordinate then.
    categories
        For an input that is 1 for a category and 0 for others: the coordinates of 0 and of 1.
    """

    players: Players
    flags: Mapping[int, tuple[int, float]]
    categories: Mapping[int, tuple[float, float]]


def marginals_of_presence(data_density: DataDensity, kinds: InputKinds, text: str) -> Marginals:
    """Marginals from counts along each input, of a model that keeps no rows: cells are their middles.

    Parts of a date are independent of each other there, for counts are of single inputs.
    """
    alone = data_density.cell_counts.alone
    share = alone / np.maximum(alone.sum(axis=1, keepdims=True), 1e-300)  # (inputs, cells)
    width, cells = alone.shape
    middles = (np.arange(cells) + 0.5) / cells
    flag_of = {value: (flag, fill) for flag, (value, fill) in kinds.flags.items()}

    def cell_of(x: float) -> int:
        return int(min(max(x, 0.0) * cells, cells - 1))

    def block(j: int) -> Block:
        if j not in flag_of:
            return Block.of([j], middles[:, None], share[j], width)
        flag, fill = flag_of[j]
        missing = float(share[flag, -1])
        known = share[j].copy()
        known[cell_of(fill)] = max(known[cell_of(fill)] - missing, 0.0)
        pairs = np.column_stack([np.append(middles, fill), np.append(np.zeros(cells), 1.0)])
        return Block.of([j, flag], pairs, np.append(known, missing), width)

    blocks = []
    for p in range(int(kinds.players.max()) + 1):
        own = np.flatnonzero(kinds.players == p).tolist()
        coded = [j for j in own if j in kinds.categories]
        found = [block(j) for j in own if j not in kinds.flags and j not in coded]
        if coded:  # one of them is 1, or none
            low, high = np.array([kinds.categories[j] for j in coded]).T
            shares = np.array([share[j, cell_of(kinds.categories[j][1])] for j in coded])
            each = np.vstack([np.where(np.eye(len(coded), dtype=bool), high, low), low])
            found.append(Block.of(coded, each, np.append(shares, max(1 - shares.sum(), 0.0)), width))
        blocks.append(tuple(found))
    return Marginals(tuple(blocks), text)
