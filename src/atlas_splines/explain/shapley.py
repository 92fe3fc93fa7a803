"""Shapley values, exact: every term of a model is a product over columns.

With a_kp the factor of player p in term k and m_kp its mean over the background, the multilinear extension
(Owen 1972) gives φ_p = Σ_k c_k ∫₀¹ (a_kp − m_kp) Π_{q≠p} (t·a_kq + (1−t)·m_kq) dt, a polynomial in t that
Gauss–Legendre integrates exactly: (60) of docs/math.md. What is no sum of products is enumerated over all
coalitions of up to ten columns, and sampled beyond that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from atlas_splines.explain.background import (
    BACKGROUND_RULES,
    Background,
    BackgroundRules,
    player_factors,
)
from atlas_splines.explain.products import Group, Products
from atlas_splines.model import kernels

__all__ = [
    "Game",
    "Prepared",
    "Shares",
    "enumerated",
    "explained",
    "interactions_of",
    "sampled",
    "shapley_of_table",
]

Array = NDArray[np.float64]
Players = NDArray[np.intp]
Function = Callable[[Array], Array]

TERMS_AT_ONCE = 1024
VALUES_AT_ONCE = 2**19  # of factors, of some rows: they stay in the second-level cache
POINTS_AT_ONCE = 2**16  # that a function is evaluated at


@dataclass(frozen=True, eq=False)
class Shares:
    """Shapley values and what they add up from.

    Attributes
    ----------
    values
        Shape (rows, players, outputs), or (rows, players, players, outputs) for pairs.
    base
        Mean over the background, shape (outputs,).
    """

    values: Array
    base: Array

    def __add__(self, other: Shares) -> Shares:
        return Shares(self.values + other.values, self.base + other.base)


def explained(products: Products, players: Players, points: Array, background: Background) -> Shares:
    """Exact Shapley values at points, shape (rows, inputs); `players` has the column of each input.

    Examples
    --------
    >>> from atlas_splines import Atlas
    >>> from atlas_splines.model.atlas import state_of
    >>> from atlas_splines.explain.background import Marginals
    >>> from atlas_splines.explain.products import products_of
    >>> model = Atlas(inputs=2, terms=0, density=0)
    >>> model.f(0)[0] = [[-1, 0, 1, 2], [-2, 0, 2, 4]]                     # x + 2z
    >>> rows = Marginals.of_rows(np.array([[0.0, 0.0], [1.0, 0.5]]), np.arange(2), "two rows")
    >>> found = explained(products_of(state_of(model)), np.arange(2), np.array([[1.0, 1.0]]), rows)
    >>> found.values[0, :, 0].round(9), found.base.round(9)
    (array([0.5, 1.5]), array([1.]))
    """
    return _summed(_parts(products, players, background), products.outputs, players, points)


def _summed(parts: Iterable[_Part], outputs: int, players: Players, points: Array) -> Shares:
    """The sum of the Shapley values of all terms."""
    count = int(players.max()) + 1
    total = Shares(np.zeros((len(points), count, outputs)), np.zeros(outputs))
    for part in parts:
        total.base[:] += part.base
        if not len(part.players):
            continue
        nodes, weights = quadrature(len(part.players))
        for rows, values in part.values_at(points, players):
            sums = np.zeros((len(values), len(part.players), outputs))
            kernels.shapley_sums(values, part.means, part.coefficients, nodes, weights, sums)
            total.values[rows, part.players] += sums
    return total


class Prepared:
    """`explained` for rows that come one after another: means over the background are found once.

    Of a single row these means are nine tenths of the time (5,000 known rows of 8 columns). They are kept
    for one state and one background, beside each of which the other must not change.
    """

    def __init__(self) -> None:
        self._parts: dict[int, list[_Part]] = {}

    def __call__(self, products: Products, players: Players, points: Array, background: Background) -> Shares:
        """The same as `explained`."""
        kind = len(products.groups)  # a state has one more kind of products beyond the end of a clock
        if kind not in self._parts:
            self._parts[kind] = list(_parts(products, players, background))
        return _summed(self._parts[kind], products.outputs, players, points)


def interactions_of(products: Products, players: Players, points: Array, background: Background) -> Shares:
    """Exact Shapley interactions of pairs, half of each in either triangle; rows sum to Shapley values."""
    count = int(players.max()) + 1
    shape = (len(points), count, count, products.outputs)
    total = Shares(np.zeros(shape), np.zeros(products.outputs))
    for part in _parts(products, players, background):
        total.base[:] += part.base
        if len(part.players) < 2:
            continue
        nodes, weights = quadrature(len(part.players) - 1)
        for rows, values in part.values_at(points, players):
            sums = np.zeros((len(values), *[len(part.players)] * 2, products.outputs))
            kernels.shapley_pair_sums(values, part.means, part.coefficients, nodes, weights, sums)
            total.values[rows.start : rows.stop, part.players[:, None], part.players] += 0.5 * sums
    alone = explained(products, players, points, background).values - total.values.sum(axis=2)
    each = np.arange(count)
    total.values[:, each, each] = alone
    return total


def quadrature(players: int) -> tuple[Array, Array]:
    """Nodes in [0, 1] and weights that integrate polynomials of degree players − 1 exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(-(-players // 2))
    return (nodes + 1) / 2, weights / 2


@dataclass(frozen=True, eq=False)
class _Part:
    """Some terms of a group, with their factors in the background.

    `players` are those that the terms depend on, shape (players,); `means` has shape (references, players,
    terms), and `base` is the mean of the terms.
    """

    group: Group
    terms: slice
    players: Players
    means: Array
    coefficients: Array
    base: Array

    def values_at(self, points: Array, players: Players) -> Iterator[tuple[slice, Array]]:
        """Factors at points, shape (rows, players, terms), some rows at a time."""
        size = len(self.players) * len(self.coefficients)
        step = max(VALUES_AT_ONCE // max(size, 1), 1)
        for begin in range(0, len(points), step):
            rows = slice(begin, min(begin + step, len(points)))
            values = [
                player_factors(self.group, np.flatnonzero(players == p).tolist(), points[rows], self.terms)
                for p in self.players
            ]
            yield rows, np.stack(values, axis=1)


def _parts(products: Products, players: Players, background: Background) -> Iterator[_Part]:
    """All terms, some at a time, less those that no mixture of rows and background reaches."""
    for group in products.groups:
        depends = [p for p in range(int(players.max()) + 1) if _depends(group, players, p)]
        own = np.array(depends, np.intp)
        inputs = [np.flatnonzero(players == p).tolist() for p in depends]
        for begin in range(0, len(group.factors), TERMS_AT_ONCE):
            terms = slice(begin, begin + TERMS_AT_ONCE)
            coefficients = group.sign * group.factors.coefficients[terms]
            if depends:
                means = background.factors(group, depends, inputs, terms)
            else:
                means = np.ones((1, 0, len(coefficients)))
            base = (means.prod(axis=1) @ coefficients).mean(axis=0)
            yield _Part(group, terms, own, means, coefficients / len(means), base)


def _depends(group: Group, players: Players, player: int) -> bool:
    return any(group.depends_on(j) for j in np.flatnonzero(players == player).tolist())


# --- games that are no sums of products -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Game:
    """The mean of a function over references, of which a coalition of players takes the values of a row.

    Attributes
    ----------
    function
        Values at points: (points, inputs) to (points, outputs).
    players
        Column of each input, shape (inputs,).
    references
        Points, shape (references, inputs).
    """

    function: Function
    players: Players
    references: Array

    @property
    def count(self) -> int:
        """Number of players."""
        return int(self.players.max()) + 1

    def worth(self, point: Array, coalitions: NDArray[np.bool_]) -> Array:
        """Value of each coalition of a mask (coalitions, players) for a row: (coalitions, outputs)."""
        chosen = coalitions[:, self.players]  # (coalitions, inputs)
        step, found = max(POINTS_AT_ONCE // len(self.references), 1), []
        for begin in range(0, len(chosen), step):
            some = chosen[begin : begin + step, None]
            mixed = np.where(some, point, self.references)  # (coalitions, references, inputs)
            values = self.function(np.ascontiguousarray(mixed.reshape(-1, mixed.shape[-1])))
            found.append(values.reshape(*mixed.shape[:2], -1).mean(axis=1))
        return np.concatenate(found)

    @property
    def base(self) -> Array:
        """Mean over the references."""
        return np.asarray(self.function(self.references).mean(axis=0))


def enumerated(game: Game, points: Array) -> Shares:
    """Shapley values by their definition, from all coalitions.

    Examples
    --------
    >>> game = Game(lambda X: X.prod(axis=1, keepdims=True), np.arange(2), np.zeros((1, 2)))
    >>> enumerated(game, np.array([[2.0, 3.0]])).values.ravel()
    array([3., 3.])
    """
    masks = coalitions_of(game.count)
    values = [shapley_of_table(game.worth(point, masks)) for point in points]
    return Shares(np.stack(values), game.base)


def sampled(game: Game, points: Array, rules: BackgroundRules = BACKGROUND_RULES) -> Shares:
    """Shapley values estimated from random orders of the players, each with its reverse.

    They add up exactly: each order goes from one reference to the row, and all references are taken alike.
    """
    random, values = np.random.default_rng(rules.seed), []
    for point in points:
        total: Array | float = 0.0
        for reference in game.references:
            for _ in range(rules.pairs_each):
                order = random.permutation(game.count)
                for each in (order, order[::-1]):
                    total = total + _along(game, point, reference, each)
        values.append(total / (2 * rules.pairs_each * len(game.references)))
    return Shares(np.stack(values), game.base)


def _along(game: Game, point: Array, reference: Array, order: Players) -> Array:
    """What each player adds when players join in an order, shape (players, outputs)."""
    place = np.argsort(order)
    masks = np.arange(game.count + 1)[:, None] > place  # (players + 1, players)
    mixed = np.where(masks[:, game.players], point, reference)
    steps = np.diff(game.function(np.ascontiguousarray(mixed)), axis=0)
    return np.asarray(steps[place])


def coalitions_of(players: int) -> NDArray[np.bool_]:
    """All coalitions: bit p of a number is set if player p is in it, shape (2^players, players)."""
    return (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(np.bool_)


def shapley_of_table(worth: Array) -> Array:
    """Shapley values from the values of all coalitions, (2^players, outputs): shape (players, outputs)."""
    players = int(np.log2(len(worth)))
    masks = coalitions_of(players)
    sizes, found = masks.sum(axis=1), np.empty((players, worth.shape[1]))
    for p in range(players):
        without = np.flatnonzero(~masks[:, p])
        weights = np.array([1 / (players * comb(players - 1, int(size))) for size in sizes[without]])
        found[p] = weights @ (worth[without + 2**p] - worth[without])
    return found
