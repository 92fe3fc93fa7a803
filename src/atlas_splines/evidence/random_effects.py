"""Random effects: how far each level of a category lies from the population, shrunk as far as data asks for.

In the one-way model y = μ + u_l + ε with u ~ N(0, τ²) and ε ~ N(0, σ²), the best linear unbiased predictor of
the effect of a level with n rows is n/(n + σ²/τ²) times the mean of its residuals (Robinson, 1991), and the
ratio τ²/σ² maximises the marginal likelihood. A level without rows has the effect 0: that of the population.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from atlas_splines.core.offsets import LEVEL_STEPS

__all__ = ["LATER", "STEPS", "LevelSums", "LevelUnits", "Levels", "Placement", "place_levels"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

LATER = 2**20  # code of the first level that came with an update: above all codes of levels of the fit
STEPS = LEVEL_STEPS // 2  # levels of the fit lie halfway between two of these, later ones on them
LAST = 0.99  # place of later levels at most: there is room for 20,000 beyond it
LEAST_RATIO, MOST_RATIO = 1e-6, 1e4  # τ²/σ² that are looked at, besides 0


class Levels(NamedTuple):
    """What the codes of a column of categories are, in the first of its inputs.

    Attributes
    ----------
    placed
        How many categories share this input, to be placed along it; 0 if they have inputs of their own.
    blank
        Value of this input for a category that came later, if they have.
    """

    placed: int
    blank: float


@dataclass(frozen=True, eq=False)
class LevelSums:
    """Sums of the rows of each level.

    Attributes
    ----------
    counts
        Σw of each level, shape (levels,).
    sums
        Σwy, shape (levels, outputs).
    squares
        Σwy² of all rows, shape (outputs,).
    """

    counts: Array
    sums: Array
    squares: Array

    @classmethod
    def of(cls, codes: Codes, targets: Array, weights: Array, levels: int) -> LevelSums:
        """Sums of rows; a negative code is of no level."""
        there = codes >= 0
        codes, targets, weights = codes[there], targets[there], weights[there]
        sums = [np.bincount(codes, weights * column, levels) for column in targets.T]
        counts = np.bincount(codes, weights, levels).astype(np.float64)
        return cls(counts, np.stack(sums, axis=1), weights @ targets**2)

    def effects(self) -> Array:
        """Shrunken effect of each level, shape (levels, outputs).

        Examples
        --------
        >>> codes, ones = np.repeat([0, 1], 50), np.ones(100)
        >>> noise = np.random.default_rng(0).normal(size=100)
        >>> apart = LevelSums.of(codes, (noise + 8 * codes)[:, None], ones, 3)
        >>> apart.effects()[:, 0].round()
        array([-4.,  4.,  0.])
        >>> bool(abs(LevelSums.of(codes, noise[:, None], ones, 3).effects()).max() < 0.2)
        True
        """
        found = [self._effects_of(k) for k in range(self.sums.shape[1])]
        return np.stack(found, axis=1)

    def _effects_of(self, output: int) -> Array:
        counts, there = self.counts, self.counts > 0
        means = np.divide(self.sums[:, output], counts, out=np.zeros_like(counts), where=there)
        if there.sum() < 2:
            return np.zeros_like(counts)
        within = max(self.squares[output] - counts @ means**2, 0.0)
        ratio = best_ratio(counts[there], means[there], within)
        middle = population_mean(counts, means, ratio)
        return np.where(there, counts * ratio / (1 + counts * ratio) * (means - middle), 0.0)


@dataclass(frozen=True, eq=False)
class LevelUnits:
    """Coordinates of levels in an input of the unit cube: each level has one of its own, exact in float32.

    Attributes
    ----------
    known
        That of each level of the fit by its code, shape (levels,); empty if these have inputs of their own.
    later
        That of the first level that came later: the place of the population. The next ones are a step away.
    are_apart
        Whether all other coordinates of the input are beside those of levels: not so in files from before
        levels had effects.

    Examples
    --------
    >>> units = LevelUnits.of(np.array([0.7, 0.2, 0.2]), 0.5)
    >>> units(np.array([0, 1, 2, LATER, np.nan])).round(4)
    array([0.7, 0.2, 0.2, 0.5, nan])
    >>> len(np.unique(units(np.array([0, 1, 2, LATER, LATER + 1]))))
    5
    """

    known: Array
    later: float
    are_apart: bool = True

    @classmethod
    def of(cls, places: Array, later: float) -> LevelUnits:
        """Levels as near to some places of the unit interval as they can be, with nobody else there."""
        order = np.argsort(places, kind="stable")
        steps = np.floor(places[order].clip(0, 1) * STEPS) - np.arange(len(places))
        known = np.empty(len(places))
        known[order] = (np.maximum.accumulate(steps) + np.arange(len(places)) + 0.5) / STEPS
        # a blank may lie on a step, and beyond the end of a column that has one value only
        return cls(known, float((np.floor(np.clip(later, 0, LAST) * STEPS) + 1) / STEPS))

    def __call__(self, codes: Array) -> Array:
        """Coordinates of codes, NaN for what is no code of a level; shape (rows,)."""
        units = np.full(len(codes), np.nan)
        came_later = codes >= LATER
        units[came_later] = self.later + (codes[came_later] - LATER) / STEPS
        if len(self.known):
            is_known = codes < LATER
            number = np.rint(codes[is_known]).astype(np.intp)
            units[is_known] = self.known[number.clip(0, len(self.known) - 1)]
        return units

    def beside(self, units: Array) -> Array:
        """Coordinates that are those of no level, and nearly the same: float32 holds them as well.

        Examples
        --------
        >>> LevelUnits(np.zeros(0), 0.5).beside(np.array([0.5])) * 2**24 - 2**23
        array([1.])
        """
        if not self.are_apart:
            return units
        return (np.floor(units * 2 * LEVEL_STEPS) + 0.5) / (2 * LEVEL_STEPS)

    def nearest(self, units: Array) -> Array:
        """Code of the level of the fit that is nearest to each coordinate."""
        order = np.argsort(self.known)
        ends = (self.known[order][1:] + self.known[order][:-1]) / 2
        return np.asarray(order[np.searchsorted(ends, units)], np.float64)


def population_mean(counts: Array, means: Array, ratio: float) -> float:
    """The mean μ of levels whose effects have τ²/σ² = ratio, by generalised least squares."""
    precision = counts / (1 + counts * ratio)
    return float(precision @ means / precision.sum())


def best_ratio(counts: Array, means: Array, within: float) -> float:
    """τ²/σ² of the largest marginal likelihood of levels with so many rows, their means and Σ(y − mean)²."""
    rows = counts.sum()

    def cost(ratio: float) -> float:
        """−2 log likelihood up to a constant, with μ and σ² at their best."""
        middle = population_mean(counts, means, ratio)
        left = within + counts / (1 + counts * ratio) @ (means - middle) ** 2
        return float(rows * math.log(max(float(left), 1e-300)) + np.log1p(counts * ratio).sum())

    found = minimize_scalar(
        lambda log_ratio: cost(math.exp(log_ratio)),
        bounds=(np.log(LEAST_RATIO), np.log(MOST_RATIO)),
        method="bounded",
    )
    return math.exp(found.x) if found.fun < cost(0.0) else 0.0


@dataclass(frozen=True, eq=False)
class Placement:
    """Where levels lie along one axis, and where rows lie that helped to find that.

    Attributes
    ----------
    levels
        Effect of each level by all rows, shape (levels,).
    rows
        Effect of the level of each row by the rows of other folds, shape (rows,): no row has a say in its
        own place. NaN for rows of no level.
    """

    levels: Array
    rows: Array


def place_levels(
    codes: Codes, targets: Array, weights: Array, levels: int, folds: Codes, beside: Array
) -> Placement:
    """Place levels by their shrunken effects, and rows by those of their level without their fold.

    Effects are on what other inputs leave of the targets, by ridge regression: where these explain much, the
    effect of a level is found among less noise. With targets as they are, 400 levels of five rows whose
    effects are a third of what a column explains have a correlation of 0.61 with their places, and 0.97 so.

    Parameters
    ----------
    codes
        Level of each row, negative for none; shape (rows,).
    targets
        What effects are on, shape (rows, outputs); of several outputs the effects along their first principal
        axis are taken.
    weights
        Weight of each row, shape (rows,).
    levels
        Number of levels.
    folds
        Fold of each row, shape (rows,).
    beside
        Features of the other inputs, a constant among them, shape (rows, features).

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> codes, noise = random.integers(200, size=800), random.normal(size=(800, 1))
    >>> placed = place_levels(codes, noise, np.ones(800), 200, np.arange(800) % 10, np.ones((800, 1)))
    >>> bool(abs(np.corrcoef(placed.rows, noise[:, 0])[0, 1]) < 0.1)
    True
    """
    every, sums = codes >= 0, RidgeSums.of(beside, targets, weights, folds)
    axis = principal_axis(LevelSums.of(codes, targets - beside @ sums.slopes(), weights, levels))

    def effects_by(chosen: NDArray[np.bool_], without: int | None) -> Array:
        left = (targets - beside @ sums.slopes(without)) @ axis[:, None]  # (rows, 1)
        return LevelSums.of(codes[chosen], left[chosen], weights[chosen], levels).effects()[:, 0]

    rows = np.full(len(codes), np.nan)
    for fold in np.unique(folds).tolist():
        own = (folds == fold) & every
        rows[own] = effects_by(folds != fold, fold)[codes[own]]
    return Placement(effects_by(np.ones_like(every), None), rows)


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """Sums of ridge regression on features, from which any fold can be left out.

    Attributes
    ----------
    gram, moment
        Of each fold: shapes (features, features) and (features, outputs).
    """

    gram: dict[int, Array]
    moment: dict[int, Array]

    @classmethod
    def of(cls, features: Array, targets: Array, weights: Array, folds: Codes) -> RidgeSums:
        """The sums of rows, by the fold of each."""
        gram, moment = {}, {}
        for fold in np.unique(folds).tolist():
            own = np.flatnonzero(folds == fold)
            weighed = features[own].T * weights[own]
            gram[fold], moment[fold] = weighed @ features[own], weighed @ targets[own]
        return cls(gram, moment)

    def slopes(self, without: int | None = None) -> Array:
        """Weights of features, shape (features, outputs), from all folds but one."""
        kept = [fold for fold in self.gram if fold != without]
        first = next(iter(self.gram))
        gram = sum((self.gram[fold] for fold in kept), np.eye(len(self.gram[first])))
        return np.asarray(np.linalg.solve(gram, sum((self.moment[f] for f in kept), 0 * self.moment[first])))


def principal_axis(total: LevelSums) -> Array:
    """Direction of outputs along which levels differ most, shape (outputs,); its last part is positive."""
    if total.sums.shape[1] == 1:
        return np.ones(1)
    effects = total.effects() * np.sqrt(total.counts)[:, None]
    axis = np.linalg.eigh(effects.T @ effects)[1][:, -1]
    return np.asarray(axis if axis[-1] >= 0 else -axis)
