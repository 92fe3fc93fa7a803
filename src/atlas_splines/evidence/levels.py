"""Levels: random effects of the categories of columns with many of them, from sums that add up.

A level has one effect, which is added to what features predict; the variance of effects of a column is that
which makes the data most likely, so noise has none. Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.sparse import coo_matrix, csr_matrix

from atlas_splines.core.offsets import COORDINATE_BITS, Keys, find_keys, inputs_of

__all__ = ["NO_LEVELS", "LevelEffects", "LevelRules", "LevelStatistics", "mixed_effects", "solve_effects"]

Array = NDArray[np.float64]
Numbers = NDArray[Any]  # int64 of exact sums, float64 of decayed ones


@dataclass(frozen=True)
class LevelRules:
    """Numbers that effects of levels depend on.

    Attributes
    ----------
    rounds
        Rounds of variances and effects in turn. After the first, effects were 0.4 % from those of many
        rounds, after the second 0.001 %, with one column and with two.
    ratios
        Range of τ²/σ², in decades, and its steps: a smaller one matters only to a level with more than a
        million rows, and a larger one only to rows without noise.
    gain
        By how much −2 log of the marginal likelihood must fall for effects to have a variance: with noise it
        does in one of twenty columns, for half of the time its best variance is zero (Self and Liang 1987).
    tolerance, iterations
        Of conjugate gradients, relative to the right-hand side: with 5,000 levels they end after 17 steps.
    least_rows
        Weight of the rows of a level below which decayed statistics drop it. So they hold no more levels
        than about three in a half-life.
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
    """Sums of rows by level: Σw for levels and pairs of them, Σwy, Σwφ. Never changed in place.

    Exact ones are whole numbers in the unit of `Statistics`; those that decay are floats. L levels cost L
    rows of features, and a row has a level for each column, so pairs of levels are few.

    Attributes
    ----------
    keys
        Levels, rising, shape (levels,), as `level_keys` makes them.
    counts
        Symmetric sparse matrix, shape (levels, levels): weight of the rows that have both levels, on the
        diagonal of the rows that have one.
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
        """Sums of rows, as whole numbers.

        Parameters
        ----------
        keys
            Levels of each row, shape (rows, columns); negative where it has none.
        phi, y, root
            Features, targets and roots of weights, as `on_grid` makes them.
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
            raise ValueError("rows were taken away that had never been counted in")
        return total._without_empty()

    def _without_empty(self) -> LevelStatistics:
        """Without levels that no row has, and pairs that no row has."""
        self.counts.eliminate_zeros()
        self.counts.sort_indices()
        return self._with_only(self.rows > 0)

    def with_rows(self, least: float) -> LevelStatistics:
        """Without levels of fewer rows than that, in the unit of the sums."""
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
        """Whether all sums are the same to the last bit."""
        if not isinstance(other, LevelStatistics):
            return NotImplemented
        if not (len(self) or len(other)):
            return True
        mine, theirs = self.to_arrays(), other.to_arrays()
        return all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(self.keys.tobytes())

    def holds(self, other: LevelStatistics) -> bool:
        """Whether no level of others has more rows there than here."""
        places, known = find_keys(self.keys, other.keys)
        return bool(known.all() and (self.rows[places] >= other.rows).all())

    def as_floats(self, unit: float) -> LevelStatistics:
        """The same as floats, in a unit."""
        if not len(self):
            return self
        return LevelStatistics(self.keys, self.counts / unit, self.moment / unit, self.cross / unit)

    def decayed(self, keep: float) -> LevelStatistics:
        """A share of the sums, without levels of which next to nothing is left."""
        if not len(self):
            return self
        less = LevelStatistics(self.keys, self.counts * keep, self.moment * keep, self.cross * keep)
        return less._with_only(less.rows >= RULES.least_rows)

    def widened(self, places: NDArray[np.intp], features: int) -> LevelStatistics:
        """As that of `Statistics`."""
        cross = np.zeros((len(self), features), self.cross.dtype)
        if len(self):
            cross[:, places] = self.cross
        return replace(self, cross=cross)

    def narrowed(self, places: NDArray[np.intp]) -> LevelStatistics:
        """As that of `Statistics`."""
        return replace(self, cross=self.cross[:, places]) if len(self) else self

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> LevelStatistics:
        """As that of `Statistics`."""
        moment = np.zeros((len(self), outputs), self.moment.dtype)
        if len(self):
            moment[:, places] = self.moment
        return replace(self, moment=moment)

    def squares(self, weights: Array, effects: Array) -> Array:
        """By how much effects change Σw(y − φᵀw)² of the rows, shape (outputs,).

        Parameters
        ----------
        weights
            Of the features, shape (features, outputs).
        effects
            Of the levels, shape (levels, outputs).
        """
        left = self.moment - self.cross @ weights
        return np.asarray((effects * (self.counts @ effects - 2 * left)).sum(axis=0))

    def to_arrays(self) -> dict[str, Numbers]:
        """Everything as arrays for a file: of pairs of levels those in order."""
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
        """Sums of a file; every bit is as it was."""
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
    """A matrix of pairs of levels among more of them."""
    pairs = counts.tocoo()
    return coo_matrix((pairs.data, (places[pairs.row], places[pairs.col])), (size, size)).tocsr()


NO_LEVELS = LevelStatistics(
    np.zeros(0, np.int64), csr_matrix((0, 0), dtype=np.int64), np.zeros((0, 0), np.int64), np.zeros((0, 0))
)


@dataclass(frozen=True, eq=False)
class LevelEffects:
    """Effects of levels, and how sure they are.

    Attributes
    ----------
    keys
        Levels, rising, shape (levels,).
    values
        Effect of each level on each output, shape (levels, outputs).
    precision
        n + σ²/τ² of each, shape (levels, outputs): infinite where effects have no variance.
    ratios
        τ²/σ² of each column, in the order of their inputs, shape (columns, outputs).
    """

    keys: Keys
    values: Array
    precision: Array
    ratios: Array

    def at(self, keys: Keys) -> Array:
        """Sum of the effects on rows whose levels are these, shape (rows, columns): shape (rows, outputs)."""
        total = np.zeros((len(keys), self.values.shape[1]))
        for column in keys.T:
            places, known = find_keys(self.keys, column)
            total[known] += self.values[places[known]]
        return total

    def of(self, keys: Keys) -> Array:
        """Effects of levels, shape (levels, outputs); zero for those that have none."""
        return self.at(keys[:, None])

    def variance(self, keys: Keys) -> Array:
        """Variance of the effects on rows over σ², shape (rows, outputs): that of a new level is τ²/σ²."""
        total = np.zeros((len(keys), self.values.shape[1]))
        prior = dict(zip(inputs_of(self.keys), self.ratios, strict=True))
        for column in keys.T:
            places, known = find_keys(self.keys, column)
            for j in inputs_of(column[column >= 0]):  # one, or none
                new = np.where(column[:, None] >= 0, prior.get(j, 0.0), 0.0)
                total += np.where(known[:, None], 1 / self.precision[places], new)
        return total

    def known_by(self, keys: Keys, left: Array, weights: Array) -> Array:
        """How much of the effects on rows comes from these rows themselves, equation (46).

        Parameters
        ----------
        keys
            Levels of the rows, shape (rows, columns).
        left
            Errors that remain with the effects of all rows, shape (rows, outputs).
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
    """Weighted sum of effects; None without any."""
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
    """Effects of levels together with the weights of features, by the mixed model equations, (45).

    Parameters
    ----------
    levels
        Sums by level, as floats.
    weights
        Of the features, for effects of zero: shape (features, outputs).
    rows
        Weight of all rows, those without levels among them.
    square
        Σw(y − φᵀw)² of them, with what the prior of the weights adds, shape (outputs,).
    inverse
        Solves for Λ of the features; None if the weights have to stay as they are.

    Returns
    -------
    effects, weights to go with them, and the new `square`
    """
    values, absorbed = np.zeros(levels.moment.shape), np.zeros_like(weights)
    start = levels.moment - levels.cross @ weights  # Σw(y − φᵀw) of each level
    for _ in range(RULES.rounds):
        left = start + levels.cross @ absorbed
        wider = square + (absorbed * (levels.cross.T @ values)).sum(axis=0)
        common, explained = _drift(levels, left, rows, wider)
        drift = levels.rows[:, None] * common
        ratios = _best_ratios(levels, left - drift, values, rows, wider - explained)
        values = _conjugate_gradients(levels, start - drift, ratios, inverse, values)
        if inverse is not None:
            absorbed = inverse(levels.cross.T @ values)
    with np.errstate(divide="ignore"):
        precision = np.where(ratios > 0, levels.rows[:, None] + 1 / ratios, np.inf)
    by_column = np.stack([ratios[own][0] for own in _columns(levels)])
    return (
        LevelEffects(levels.keys, values, precision, by_column),
        weights - absorbed,
        square - (values * (start + drift)).sum(axis=0),
    )


def _columns(levels: LevelStatistics) -> list[NDArray[np.bool_]]:
    """Masks of the levels of each column."""
    inputs = levels.keys >> COORDINATE_BITS
    return [inputs == j for j in inputs_of(levels.keys)]


def _drift(levels: LevelStatistics, left: Array, rows: float, square: Array) -> tuple[Array, Array]:
    """What all rows with levels have in common that features do not explain, and the squares that it does.

    Such rows came later than others. What changed for all of them alike is for memories to follow, and no
    effect of a level: without this, streams that drift were predicted 3 % worse. It counts if it explains the
    rows better than the effects of any column do: rows of one new level have all of it in common, and there
    the effect comes first. Both have shape (outputs,).
    """
    columns, drift = _columns(levels), np.zeros((2, left.shape[1]))
    for k in range(left.shape[1]):
        total, count = left[columns[0], k].sum(), levels.rows[columns[0]].sum()
        each = [(levels.rows[own], left[own, k]) for own in columns]
        ratio, _ = _best_ratio(np.array([count]), np.array([total]), rows, float(square[k]))
        common, price = total * ratio / (1 + count * ratio), np.log1p(count * ratio)
        alone = min(_best_ratio(n, sums, rows, float(square[k]))[1] for n, sums in each)
        rest = float(square[k] - common * total)
        shared = min(_best_ratio(n, sums - n * common, rows, rest)[1] for n, sums in each) + price
        if shared < alone - RULES.gain:
            drift[:, k] = common, common * (2 * total - count * common)
    return drift[0], drift[1]


def _best_ratios(levels: LevelStatistics, left: Array, values: Array, rows: float, square: Array) -> Array:
    """τ²/σ² of the column of each level that makes the data most likely, shape (levels, outputs).

    What the other columns explain is taken away first, so that none explains it again.
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
    """τ²/σ² with the highest marginal likelihood, where σ² is the best for it, and −2 log of that, (45)."""
    least = np.finfo(np.float64).tiny + RULES.tolerance * abs(square)

    def surprise(decade: Array | float) -> Array:
        ratio = 10.0 ** np.asarray(decade)[..., None]
        explained = (left**2 * ratio / (1 + counts * ratio)).sum(axis=-1)
        noise = rows * np.log(np.maximum(square - explained, least))
        return np.asarray(noise + np.log1p(counts * ratio).sum(axis=-1))

    low, high, steps = RULES.ratios
    decades = np.linspace(low, high, steps)
    best = int(surprise(decades).argmin())
    around = decades[max(best - 1, 0)], decades[min(best + 1, steps - 1)]
    found = minimize_scalar(lambda decade: float(surprise(decade)), bounds=around, method="bounded")
    none = float(rows * np.log(max(square, least)))
    return (float(10.0**found.x), float(found.fun)) if found.fun < none - RULES.gain else (0.0, none)


def _conjugate_gradients(
    levels: LevelStatistics,
    start: Array,
    ratios: Array,
    inverse: Callable[[Array], Array] | None,
    guess: Array,
) -> Array:
    """Solve (B + σ²/τ² − CΛ⁻¹Cᵀ)u = R for the levels whose effects have a variance, output by output."""
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
