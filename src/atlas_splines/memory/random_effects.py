"""Random effects of the levels of categories: shrunken effects (BLUP), target encoding, exact sums by level.

Mixed model equations: Henderson (1975), Best linear unbiased estimation and prediction under a selection
model. Target encoding with out-of-fold effects: Micci-Barreca (2001).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.sparse import coo_matrix, csr_matrix

from atlas_splines.model.state import COORDINATE_BITS, LEVEL_STEPS, Keys, find_keys, inputs_of

__all__ = [
    "LATER",
    "NO_LEVELS",
    "STEPS",
    "LevelEffects",
    "LevelRules",
    "LevelStatistics",
    "LevelSums",
    "LevelUnits",
    "Levels",
    "Placement",
    "mixed_effects",
    "place_levels",
    "solve_effects",
]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

LATER = 2**20  # code of the first level that came with an update; codes of levels of the fit are smaller
STEPS = LEVEL_STEPS // 2  # levels of the fit lie halfway between two multiples of 1/STEPS, later ones on them
LAST = 0.99  # largest coordinate of the first later level: there is room for 20,000 beyond it
LEAST_RATIO, MOST_RATIO = 1e-6, 1e4  # range of τ²/σ² for target encoding, besides 0; not benchmarked


class Levels(NamedTuple):
    """Codes of a column of categories, in the first of its inputs.

    Attributes
    ----------
    placed
        Number of categories that share this input and are placed along it; 0 if each has an input of its own.
    blank
        Value of this input for a later category, if each has its own.
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
        Σwy² of all rows with a level, shape (outputs,).
    """

    counts: Array
    sums: Array
    squares: Array

    @classmethod
    def of(cls, codes: Codes, targets: Array, weights: Array, levels: int) -> LevelSums:
        """Sums of rows; a negative code is no level."""
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
    """Coordinates of levels in an input of the unit cube, distinct for each level and exact in float32.

    Attributes
    ----------
    known
        Coordinate of each level of the fit by its code, shape (levels,); empty if levels have their own
        inputs.
    later
        Coordinate of the first later level, the population mean; the next ones follow in steps.
    are_apart
        Whether no other coordinate of the input coincides with that of a level: not so in files from before
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
        """Levels as close to given positions in the unit interval as distinct coordinates allow."""
        order = np.argsort(places, kind="stable")
        steps = np.floor(places[order].clip(0, 1) * STEPS) - np.arange(len(places))
        known = np.empty(len(places))
        known[order] = (np.maximum.accumulate(steps) + np.arange(len(places)) + 0.5) / STEPS
        # a blank may lie on a step, and beyond the end of a column that has one value only
        return cls(known, float((np.floor(np.clip(later, 0, LAST) * STEPS) + 1) / STEPS))

    def __call__(self, codes: Array) -> Array:
        """Coordinates of codes, NaN where the code is no level; shape (rows,)."""
        units = np.full(len(codes), np.nan)
        came_later = codes >= LATER
        units[came_later] = self.later + (codes[came_later] - LATER) / STEPS
        if len(self.known):
            is_known = codes < LATER
            number = np.rint(codes[is_known]).astype(np.intp)
            units[is_known] = self.known[number.clip(0, len(self.known) - 1)]
        return units

    def beside(self, units: Array) -> Array:
        """Coordinates moved off those of all levels, by as little as float32 can represent.

        Examples
        --------
        >>> LevelUnits(np.zeros(0), 0.5).beside(np.array([0.5])) * 2**24 - 2**23
        array([1.])
        """
        if not self.are_apart:
            return units
        return (np.floor(units * 2 * LEVEL_STEPS) + 0.5) / (2 * LEVEL_STEPS)

    def nearest(self, units: Array) -> Array:
        """Code of the nearest level of the fit for each coordinate."""
        order = np.argsort(self.known)
        ends = (self.known[order][1:] + self.known[order][:-1]) / 2
        return np.asarray(order[np.searchsorted(ends, units)], np.float64)


def population_mean(counts: Array, means: Array, ratio: float) -> float:
    """The mean μ of levels whose effects have τ²/σ² = ratio, by generalised least squares."""
    precision = counts / (1 + counts * ratio)
    return float(precision @ means / precision.sum())


def best_ratio(counts: Array, means: Array, within: float) -> float:
    """Maximum likelihood τ²/σ² of levels, given their counts, means and the within sum of squares."""
    rows = counts.sum()

    def cost(ratio: float) -> float:
        """−2 log likelihood up to a constant, profiled over μ and σ²."""
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
    """Target encoding of levels along one axis, out of fold for the rows it was estimated from.

    Attributes
    ----------
    levels
        Effect of each level from all rows, shape (levels,).
    rows
        Effect of the level of each row from the rows of other folds, shape (rows,): no row influences its own
        coordinate. NaN for rows without a level.
    """

    levels: Array
    rows: Array


def place_levels(
    codes: Codes, targets: Array, weights: Array, levels: int, folds: Codes, beside: Array
) -> Placement:
    """Encode levels by their shrunken effects, and rows by those of their level without their fold.

    Effects are on the residuals of a ridge regression on the other inputs: where these explain much, the
    effects have less noise. With 400 levels of five rows, whose effects are a third of what a column
    explains, the correlation of estimated and true effects is 0.61 on the targets themselves, and 0.97 on the
    residuals.

    Parameters
    ----------
    codes
        Level of each row, negative for none; shape (rows,).
    targets
        Targets, shape (rows, outputs); with several outputs the effects along their first principal axis are
        taken.
    weights
        Weight of each row, shape (rows,).
    levels
        Number of levels.
    folds
        Fold of each row, shape (rows,).
    beside
        Features of the other inputs, including a constant, shape (rows, features).

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
    """Normal equations of ridge regression by fold, so that any fold can be left out.

    Attributes
    ----------
    gram, moment
        For each fold, shapes (features, features) and (features, outputs).
    """

    gram: dict[int, Array]
    moment: dict[int, Array]

    @classmethod
    def of(cls, features: Array, targets: Array, weights: Array, folds: Codes) -> RidgeSums:
        """Sums of rows, by fold."""
        gram, moment = {}, {}
        for fold in np.unique(folds).tolist():
            own = np.flatnonzero(folds == fold)
            weighed = features[own].T * weights[own]
            gram[fold], moment[fold] = weighed @ features[own], weighed @ targets[own]
        return cls(gram, moment)

    def slopes(self, without: int | None = None) -> Array:
        """Weights of the features without one fold, shape (features, outputs)."""
        kept = [fold for fold in self.gram if fold != without]
        first = next(iter(self.gram))
        gram = sum((self.gram[fold] for fold in kept), np.eye(len(self.gram[first])))
        return np.asarray(np.linalg.solve(gram, sum((self.moment[f] for f in kept), 0 * self.moment[first])))


def principal_axis(total: LevelSums) -> Array:
    """Direction of the outputs along which levels differ most, shape (outputs,); its last entry is ≥ 0."""
    if total.sums.shape[1] == 1:
        return np.ones(1)
    effects = total.effects() * np.sqrt(total.counts)[:, None]
    axis = np.linalg.eigh(effects.T @ effects)[1][:, -1]
    return np.asarray(axis if axis[-1] >= 0 else -axis)


Numbers = NDArray[Any]  # int64 for exact sums, float64 for decayed ones


@dataclass(frozen=True)
class LevelRules:
    """Rules of the effects of levels.

    Attributes
    ----------
    rounds
        Alternations of variance components and effects. After the first, effects were 0.4 % from those of
        many rounds, after the second 0.001 %, with one column and with two.
    ratios
        Range of τ²/σ² in decades, and number of steps: a smaller ratio matters only to a level with more than
        a million rows, a larger one only to rows without noise.
    gain
        Decrease of the deviance for which effects get a variance: under the null hypothesis one of twenty
        columns exceeds it, since half of the time the best variance is zero (Self and Liang, 1987).
    tolerance, iterations
        Of conjugate gradients, relative to the right-hand side: with 5,000 levels they converge in 17 steps.
    least_rows
        Weight of the rows of a level below which decayed statistics drop it, which leaves at most about three
        levels for each row of a half-life.
    """

    rounds: int = 2
    ratios: tuple[float, float, int] = (-6.0, 6.0, 49)
    gain: float = 2.71
    tolerance: float = 1e-10
    iterations: int = 200
    least_rows: float = 0.5


RULES = LevelRules()


@dataclass(frozen=True, eq=False)
class LevelStatistics:
    """Sums of rows by level: Σw for levels and pairs of them, Σwy, Σwφ; immutable.

    Exact sums are integers in the unit of `Statistics`; decayed ones are floats. L levels cost L rows of
    features, and pairs are few, since a row has one level for each column.

    Attributes
    ----------
    keys
        Keys of the levels, increasing, shape (levels,), as from `level_keys`.
    counts
        Symmetric sparse matrix, shape (levels, levels): weight of the rows that have both levels; on the
        diagonal, of the rows of a level.
    moment
        Σwy of each level, shape (levels, outputs).
    cross
        Σwφ of each level, shape (levels, features).

    Examples
    --------
    >>> keys, ones = np.array([[7], [7], [9]]), np.ones((3, 1))
    >>> rows = LevelStatistics.of_rows(keys, phi=ones, y=np.array([[1.0], [2.0], [5.0]]), root=ones)
    >>> rows.keys, rows.rows, rows.moment.ravel()
    (array([7, 9]), array([2, 1]), array([3, 5]))
    >>> first = LevelStatistics.of_rows(keys[:2], ones[:2], np.array([[1.0], [2.0]]), ones[:2])
    >>> (rows - first).keys
    array([9])
    """

    keys: Keys
    counts: csr_matrix
    moment: Numbers
    cross: Numbers

    @classmethod
    def of_rows(cls, keys: Keys, phi: Array, y: Array, root: Array) -> LevelStatistics:
        """Sums of rows, as integers.

        Parameters
        ----------
        keys
            Levels of each row, shape (rows, columns); negative for none.
        phi, y, root
            Features, targets and roots of weights, as from `on_grid`.
        """
        there = keys.ravel() >= 0
        found, places = np.unique(keys.ravel()[there], return_inverse=True)
        weights = root.astype(np.int64)  # (rows, 1)
        rows = np.repeat(np.arange(len(keys)), keys.shape[1])[there]
        shape = (len(found), len(keys))
        has = coo_matrix((weights[rows, 0], (places.ravel(), rows)), shape, dtype=np.int64).tocsr()
        moment, cross = has @ y.astype(np.int64), has @ phi.astype(np.int64)
        return cls(found, (has @ has.T).tocsr(), moment, cross)._without_empty()

    def __len__(self) -> int:
        """Number of levels."""
        return len(self.keys)

    @property
    def rows(self) -> Numbers:
        """Weight of the rows of each level, shape (levels,)."""
        return np.asarray(self.counts.diagonal())

    def __add__(self, other: LevelStatistics) -> LevelStatistics:
        return self._combined(other, 1)

    def __sub__(self, other: LevelStatistics) -> LevelStatistics:
        return self._combined(other, -1)

    def _combined(self, other: LevelStatistics, sign: int) -> LevelStatistics:
        if not len(other) or (not len(self) and sign > 0):
            return self if len(self) else other
        keys, dtype = np.union1d(self.keys, other.keys), other.moment.dtype
        moment = np.zeros((len(keys), other.moment.shape[1]), dtype)
        cross = np.zeros((len(keys), other.cross.shape[1]), dtype)
        counts = csr_matrix((len(keys), len(keys)), dtype=dtype)
        for part, factor in ((self, 1), (other, sign)):
            if len(part):
                places = np.searchsorted(keys, part.keys)
                moment[places] += factor * part.moment
                cross[places] += factor * part.cross
                counts = counts + factor * _placed(part.counts, places, len(keys))
        total = LevelStatistics(keys, counts, moment, cross)
        if (total.rows < 0).any():
            raise ValueError("rows were subtracted that had never been added")
        return total._without_empty()

    def _without_empty(self) -> LevelStatistics:
        """Without levels and pairs that no row has."""
        self.counts.eliminate_zeros()
        self.counts.sort_indices()
        return self._with_only(self.rows > 0)

    def with_rows(self, least: float) -> LevelStatistics:
        """Without levels of less weight than that, in the unit of the sums."""
        return self._with_only(self.rows >= least) if len(self) else self

    def without(self, keys: Keys) -> LevelStatistics:
        """Without some levels."""
        return self._with_only(~np.isin(self.keys, keys)) if len(self) else self

    def _with_only(self, kept: NDArray[np.bool_]) -> LevelStatistics:
        if kept.all():
            return self
        counts = self.counts[kept][:, kept]
        return LevelStatistics(self.keys[kept], counts, self.moment[kept], self.cross[kept])

    def __eq__(self, other: object) -> bool:
        """Whether all sums are equal bit for bit."""
        if not isinstance(other, LevelStatistics):
            return NotImplemented
        if not (len(self) or len(other)):
            return True
        mine, theirs = self.to_arrays(), other.to_arrays()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(self.keys.tobytes())

    def holds(self, other: LevelStatistics) -> bool:
        """Whether each level of the other sums has at most as many rows there as here."""
        places, known = find_keys(self.keys, other.keys)
        return bool(known.all() and (self.rows[places] >= other.rows).all())

    def as_floats(self, unit: float) -> LevelStatistics:
        """The same in float64, in a unit."""
        if not len(self):
            return self
        return LevelStatistics(self.keys, self.counts / unit, self.moment / unit, self.cross / unit)

    def decayed(self, keep: float) -> LevelStatistics:
        """Sums times a factor, without levels of negligible weight."""
        if not len(self):
            return self
        less = LevelStatistics(self.keys, self.counts * keep, self.moment * keep, self.cross * keep)
        return less._with_only(less.rows >= RULES.least_rows)

    def widened(self, places: NDArray[np.intp], features: int) -> LevelStatistics:
        """As `Statistics.widened`."""
        cross = np.zeros((len(self), features), self.cross.dtype)
        if len(self):
            cross[:, places] = self.cross
        return replace(self, cross=cross)

    def narrowed(self, places: NDArray[np.intp]) -> LevelStatistics:
        """As `Statistics.narrowed`."""
        return replace(self, cross=self.cross[:, places]) if len(self) else self

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> LevelStatistics:
        """As `Statistics.with_outputs`."""
        moment = np.zeros((len(self), outputs), self.moment.dtype)
        if len(self):
            moment[:, places] = self.moment
        return replace(self, moment=moment)

    def squares(self, weights: Array, effects: Array) -> Array:
        """Change of Σw(y − φᵀw)² of the rows by effects of levels, shape (outputs,).

        Parameters
        ----------
        weights
            Weights of the features, shape (features, outputs).
        effects
            Effects of the levels, shape (levels, outputs).
        """
        left = self.moment - self.cross @ weights
        return np.asarray((effects * (self.counts @ effects - 2 * left)).sum(axis=0))

    def to_arrays(self) -> dict[str, Numbers]:
        """Arrays for a file; of pairs of levels those in order."""
        upper = self.counts.tocoo()
        kept = upper.row <= upper.col
        order = np.lexsort((upper.col[kept], upper.row[kept]))
        return {
            "keys": self.keys,
            "pairs": np.stack([upper.row[kept], upper.col[kept]], axis=1)[order].astype(np.int64),
            "counts": upper.data[kept][order],
            "moment": self.moment,
            "cross": self.cross,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Numbers]) -> LevelStatistics:
        """Sums from the arrays of a file, bit for bit."""
        (first, second), data = arrays["pairs"].T, arrays["counts"]
        apart = first != second
        rows, columns = np.r_[first, second[apart]], np.r_[second, first[apart]]
        shape = (len(arrays["keys"]),) * 2
        counts = coo_matrix((np.r_[data, data[apart]], (rows, columns)), shape).tocsr()
        counts.sort_indices()
        return cls(arrays["keys"], counts, arrays["moment"], arrays["cross"])

    def __reduce__(self) -> tuple[Any, ...]:
        return LevelStatistics.from_arrays, (self.to_arrays(),)


def _placed(counts: csr_matrix, places: NDArray[np.intp], size: int) -> csr_matrix:
    """A matrix of pairs of levels, embedded among more levels."""
    pairs = counts.tocoo()
    return coo_matrix((pairs.data, (places[pairs.row], places[pairs.col])), (size, size)).tocsr()


NO_LEVELS = LevelStatistics(
    np.zeros(0, np.int64), csr_matrix((0, 0), dtype=np.int64), np.zeros((0, 0), np.int64), np.zeros((0, 0))
)


@dataclass(frozen=True, eq=False)
class LevelEffects:
    """Effects of levels and their precision.

    Attributes
    ----------
    keys
        Keys of the levels, increasing, shape (levels,).
    values
        Effect of each level on each output, shape (levels, outputs).
    precision
        n + σ²/τ² of each, shape (levels, outputs): infinite where the variance of effects is zero.
    ratios
        τ²/σ² of each column, in the order of their inputs, shape (columns, outputs).
    """

    keys: Keys
    values: Array
    precision: Array
    ratios: Array

    def at(self, keys: Keys) -> Array:
        """Sum of the effects on rows with these levels (rows, columns): shape (rows, outputs)."""
        total = np.zeros((len(keys), self.values.shape[1]))
        for column in keys.T:
            places, known = find_keys(self.keys, column)
            total[known] += self.values[places[known]]
        return total

    def of(self, keys: Keys) -> Array:
        """Effects of levels, shape (levels, outputs); zero for unknown ones."""
        return self.at(keys[:, None])

    def variance(self, keys: Keys) -> Array:
        """Variance of the effects on rows in units of σ², shape (rows, outputs): τ²/σ² for a new level."""
        total = np.zeros((len(keys), self.values.shape[1]))
        prior = dict(zip(inputs_of(self.keys), self.ratios, strict=True))
        for column in keys.T:
            places, known = find_keys(self.keys, column)
            for j in inputs_of(column[column >= 0]):  # at most one
                new = np.where(column[:, None] >= 0, prior.get(j, 0.0), 0.0)
                total += np.where(known[:, None], 1 / self.precision[places], new)
        return total

    def known_by(self, keys: Keys, left: Array, weights: Array) -> Array:
        """Contribution of rows to their own effects, equation (46): shape (rows, outputs).

        Parameters
        ----------
        keys
            Levels of the rows, shape (rows, columns).
        left
            Residuals given the effects from all rows, shape (rows, outputs).
        weights
            Weights of the rows, shape (rows,).
        """
        total = np.zeros_like(left)
        for column in keys.T:
            places, known = find_keys(self.keys, column)
            own = np.where(known, weights, 0.0)
            rows = np.bincount(places, own, minlength=len(self.keys))[:, None]
            sums = np.stack([np.bincount(places, own * e, len(self.keys)) for e in left.T], axis=1)
            others = np.where(np.isfinite(self.precision), self.precision - rows, np.inf)
            total[known] += (sums / np.maximum(others, RULES.tolerance))[places[known]]
        return total


def mixed_effects(shares: Sequence[float], parts: Sequence[LevelEffects]) -> LevelEffects | None:
    """Weighted sum of effects; None of none."""
    if not parts:
        return None
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    values = np.asarray(sum(share * part.of(keys) for share, part in zip(shares, parts, strict=True)))
    none = np.zeros((len(inputs_of(keys)), values.shape[1]))
    return LevelEffects(keys, values, np.full(values.shape, np.inf), none)


def solve_effects(
    levels: LevelStatistics,
    weights: Array,
    rows: float,
    square: Array,
    inverse: Callable[[Array], Array] | None,
) -> tuple[LevelEffects, Array, Array]:
    """Effects of levels and weights of features by the mixed model equations, (45).

    Parameters
    ----------
    levels
        Sums by level, in float64.
    weights
        Weights of the features without effects, shape (features, outputs).
    rows
        Weight of all rows, including those without levels.
    square
        Σw(y − φᵀw)² of them plus the penalty of the prior, shape (outputs,).
    inverse
        Solves with Λ of the features; None if the weights must stay as they are.

    Returns
    -------
    effects, weights adjusted for them, and the new `square`
    """
    values, absorbed = np.zeros(levels.moment.shape), np.zeros_like(weights)
    start = levels.moment - levels.cross @ weights  # Σw(y − φᵀw) of each level
    for _ in range(RULES.rounds):
        left = start + levels.cross @ absorbed
        wider = square + (absorbed * (levels.cross.T @ values)).sum(axis=0)
        common, explained = _common_shift(levels, left, rows, wider)
        shift = levels.rows[:, None] * common
        ratios = _best_ratios(levels, left - shift, values, rows, wider - explained)
        values = _conjugate_gradients(levels, start - shift, ratios, inverse, values)
        if inverse is not None:
            absorbed = inverse(levels.cross.T @ values)
    with np.errstate(divide="ignore"):
        precision = np.where(ratios > 0, levels.rows[:, None] + 1 / ratios, np.inf)
    by_column = np.stack([ratios[own][0] for own in _columns(levels)])
    return (
        LevelEffects(levels.keys, values, precision, by_column),
        weights - absorbed,
        square - (values * (start + shift)).sum(axis=0),
    )


def _columns(levels: LevelStatistics) -> list[NDArray[np.bool_]]:
    """Masks of the levels of each column."""
    inputs = levels.keys >> COORDINATE_BITS
    return [inputs == j for j in inputs_of(levels.keys)]


def _common_shift(levels: LevelStatistics, left: Array, rows: float, square: Array) -> tuple[Array, Array]:
    """Common shift of all rows with levels that features do not explain, and the squares that it explains.

    Such rows came with updates. A change that they share is left to the decayed statistics and attributed to
    no level: otherwise streams with drift were predicted 3 % worse. The shift is used if it explains the rows
    better than the effects of any column: rows of a single new level share all of it, and there the effect
    comes first. Both have shape (outputs,).
    """
    columns, shift = _columns(levels), np.zeros((2, left.shape[1]))
    for k in range(left.shape[1]):
        total, count = left[columns[0], k].sum(), levels.rows[columns[0]].sum()
        each = [(levels.rows[own], left[own, k]) for own in columns]
        ratio, _ = _best_ratio(np.array([count]), np.array([total]), rows, float(square[k]))
        common, price = total * ratio / (1 + count * ratio), np.log1p(count * ratio)
        alone = min(_best_ratio(n, sums, rows, float(square[k]))[1] for n, sums in each)
        rest = float(square[k] - common * total)
        shared = min(_best_ratio(n, sums - n * common, rows, rest)[1] for n, sums in each) + price
        if shared < alone - RULES.gain:
            shift[:, k] = common, common * (2 * total - count * common)
    return shift[0], shift[1]


def _best_ratios(levels: LevelStatistics, left: Array, values: Array, rows: float, square: Array) -> Array:
    """Maximum likelihood τ²/σ² of the column of each level, shape (levels, outputs).

    Effects of the other columns are subtracted first, so that nothing is explained twice.
    """
    ratios = np.empty(left.shape)
    for own in _columns(levels):
        others = np.where(own[:, None], 0.0, values)
        rest = left - levels.counts @ others
        open_square = square - (others * (left + rest)).sum(axis=0)
        for k in range(left.shape[1]):
            ratios[own, k], _ = _best_ratio(levels.rows[own], rest[own, k], rows, float(open_square[k]))
    return ratios


def _best_ratio(counts: Array, left: Array, rows: float, square: float) -> tuple[float, float]:
    """Maximum likelihood τ²/σ² with σ² profiled out, and its deviance, (45)."""
    least = np.finfo(np.float64).tiny + RULES.tolerance * abs(square)

    def deviance(decade: Array | float) -> Array:
        ratio = 10.0 ** np.asarray(decade)[..., None]
        explained = (left**2 * ratio / (1 + counts * ratio)).sum(axis=-1)
        noise = rows * np.log(np.maximum(square - explained, least))
        return np.asarray(noise + np.log1p(counts * ratio).sum(axis=-1))

    low, high, steps = RULES.ratios
    decades = np.linspace(low, high, steps)
    best = int(deviance(decades).argmin())
    around = decades[max(best - 1, 0)], decades[min(best + 1, steps - 1)]
    found = minimize_scalar(lambda decade: float(deviance(decade)), bounds=around, method="bounded")
    none = float(rows * np.log(max(square, least)))
    return (float(10.0**found.x), float(found.fun)) if found.fun < none - RULES.gain else (0.0, none)


def _conjugate_gradients(
    levels: LevelStatistics,
    start: Array,
    ratios: Array,
    inverse: Callable[[Array], Array] | None,
    guess: Array,
) -> Array:
    """Solve (B + σ²/τ² − CΛ⁻¹Cᵀ)u = R for levels whose effects have a variance, by output."""
    free = ratios > 0
    with np.errstate(divide="ignore"):
        prior = np.where(free, 1 / np.where(free, ratios, 1), 0.0)
    diagonal = levels.rows[:, None] + prior

    def applied(u: Array) -> Array:
        product = levels.counts @ u + prior * u
        if inverse is not None:
            product -= levels.cross @ inverse(levels.cross.T @ u)
        return np.asarray(np.where(free, product, 0.0))

    values, rest = np.where(free, guess, 0.0), np.where(free, start, 0.0)
    enough = RULES.tolerance**2 * (rest**2 / diagonal).sum(axis=0)
    rest = rest - applied(values) if values.any() else rest
    step = rest / diagonal
    size = (rest * step).sum(axis=0)
    for _ in range(RULES.iterations):
        if (size <= enough).all():
            break
        image = applied(step)
        curve = (step * image).sum(axis=0)
        length = np.where((size > enough) & (curve > 0), size / np.where(curve > 0, curve, 1), 0.0)
        values += length * step
        rest -= length * image
        scaled = rest / diagonal
        new = (rest * scaled).sum(axis=0)
        step = scaled + np.where(size > 0, new / np.where(size > 0, size, 1), 0.0) * step
        size = np.where(length > 0, new, 0.0)
    return values
