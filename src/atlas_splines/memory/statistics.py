"""Sufficient statistics of linear regression as exact sums: equal bit for bit in any order and any pieces.

Reproducible summation in fixed point (Demmel and Nguyen, 2015): rows are rounded to a grid on which sums are
exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from atlas_splines.memory.random_effects import NO_LEVELS, LevelStatistics
from atlas_splines.model import kernels
from atlas_splines.model.linear_algebra import symmetric, upper_triangle
from atlas_splines.model.state import Keys

__all__ = ["HEAVIEST", "UNIT", "Statistics", "on_grid"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Plain = tuple[Array, Array, Array | None]  # features, targets and weights of rows
Piece = Plain | tuple[Array, Array, Array | None, Keys | None]  # and their levels

BITS = 16  # features and targets are whole multiples of 2^-16
UNIT = 2.0**BITS
EXACT = 2**53  # float64 adds integers up to here without rounding, in any order
LARGEST = 2**63 - 1  # largest total
FARTHEST = 10_000.0  # targets are clipped to so many standard deviations
HEAVIEST = 2.0**16  # largest weight of a row
LEVELS = "levels."  # prefix of the names of arrays of sums by level


class Statistics:
    """Exact sums of the data of a linear model: Σwφφᵀ, Σwφyᵀ, Σwy², Σw; and by level, where rows have levels.

    A row of weight w enters as √w·(φ, y, 1), rounded to multiples of 2⁻¹⁶; with w = 1 that is the row itself.
    Products are multiples of 2⁻³², and float64 sums so few at a time that none exceeds 2⁵³ of these: BLAS may
    add them in any order without rounding. Totals are 64-bit integers, Σy² and Σw Python's; 2·10⁹ rows of
    weight 1 fit, and more raise an OverflowError.

    Parameters
    ----------
    features
        Number of features; values are clipped to [−1, 1].
    outputs
        Number of targets, with standard deviations of about 1; values are clipped to ±10,000.

    Examples
    --------
    >>> import numpy as np
    >>> phi, y = np.random.default_rng(0).random((2, 100, 3))
    >>> whole, pieces = Statistics(3, 3), Statistics(3, 3)
    >>> whole.add(phi, y)
    >>> for rows in (slice(60, 100), slice(0, 60)):
    ...     pieces.add(phi[rows], y[rows])
    >>> whole == pieces
    True
    >>> pieces.subtract(phi, y)
    >>> pieces == Statistics(3, 3)
    True
    """

    def __init__(self, features: int, outputs: int = 1) -> None:
        self._gram: Integers = np.zeros((features, features), np.int64)
        self._moment: Integers = np.zeros((features, outputs), np.int64)
        self._square: list[int] = [0] * outputs
        self._count = 0
        self._levels = NO_LEVELS

    @property
    def features(self) -> int:
        """Number of features."""
        return self._moment.shape[0]

    @property
    def outputs(self) -> int:
        """Number of targets."""
        return self._moment.shape[1]

    @property
    def gram(self) -> Array:
        """Σwφφᵀ, shape (features, features)."""
        # a product with a power of two has the bits of the quotient, in two thirds of the time
        gram = self._gram.astype(np.float64)
        gram *= UNIT**-2
        return gram

    @property
    def moment(self) -> Array:
        """Σwφyᵀ, shape (features, outputs)."""
        return self._moment / UNIT**2

    @property
    def square(self) -> Array:
        """Σwy², shape (outputs,)."""
        return np.array([float(total) for total in self._square]) / UNIT**2

    @property
    def count(self) -> float:
        """Σw, the number of rows if all have weight 1."""
        return self._count / UNIT**2

    @property
    def levels(self) -> LevelStatistics:
        """Sums by level as integers; empty if no row has levels."""
        return self._levels

    def add(self, phi: Array, y: Array, weights: Array | None = None, levels: Keys | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        phi
            Features, shape (rows, features).
        y
            Targets, shape (rows, outputs).
        weights
            Weight of each row, from 0 to 65,536; 1 by default.
        levels
            Keys of the levels of each row, shape (rows, columns), if they are summed too.
        """
        self._take([(phi, y, weights, levels)], 1)

    def add_pieces(self, pieces: Iterable[Piece]) -> None:
        """Add rows in pieces, each as `add` takes it; faster than adding one by one."""
        self._take(pieces, 1)

    def subtract(
        self, phi: Array, y: Array, weights: Array | None = None, levels: Keys | None = None
    ) -> None:
        """Subtract rows that were added; what remains is as if they had never been."""
        self._take([(phi, y, weights, levels)], -1)

    def _take(self, pieces: Iterable[Piece], sign: int) -> None:
        sums, square, count = Products(self._moment.shape), self._square, self._count
        whole, by_level = np.empty((0, self.features)), NO_LEVELS
        for phi, y, weights, *keys in pieces:
            if len(phi) > len(whole):  # one buffer for all pieces: allocation costs as much as the work
                whole = np.empty((len(phi), self.features))
            phi, y, root = on_grid(phi, y, weights, self._moment.shape, whole[: len(phi)])
            square = [total + sign * more for total, more in zip(square, sum_squares(y), strict=True)]
            count += sign * sum_squares(root)[0]
            refuse_overflow(count, square)
            sums.add(phi, y, largest=root.max(initial=1))
            for levels in keys:
                if levels is not None and levels.size:
                    by_level = by_level + LevelStatistics.of_rows(levels, phi, y, root)
        gram, moment = sums.totals()
        self._levels = self._levels + by_level if sign > 0 else self._levels - by_level
        combine = np.add if sign > 0 else np.subtract
        self._gram, self._moment = combine(self._gram, gram), combine(self._moment, moment)
        self._square, self._count = square, count

    def __add__(self, other: Statistics) -> Statistics:
        return self._combined(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        return self._combined(other, -1)

    def _combined(self, other: Statistics, sign: int) -> Statistics:
        if self._moment.shape != other._moment.shape:
            raise ValueError(
                f"statistics of {self._moment.shape} and {other._moment.shape} (features, outputs) "
                "do not combine"
            )
        total = Statistics(self.features, self.outputs)
        total._square = [a + sign * b for a, b in zip(self._square, other._square, strict=True)]
        total._count = self._count + sign * other._count
        refuse_overflow(total._count, total._square)
        combine = np.add if sign > 0 else np.subtract
        total._gram = combine(self._gram, other._gram)
        total._moment = combine(self._moment, other._moment)
        total._levels = self._levels + other._levels if sign > 0 else self._levels - other._levels
        return total

    def __eq__(self, other: object) -> bool:
        """Whether all sums are equal bit for bit."""
        if not isinstance(other, Statistics):
            return NotImplemented
        scalars = (self._count, self._square) == (other._count, other._square)
        same = np.array_equal(self._gram, other._gram) and np.array_equal(self._moment, other._moment)
        return scalars and same and self._levels == other._levels

    __hash__ = None  # type: ignore[assignment]  # mutable

    def copy(self) -> Statistics:
        """An independent copy."""
        return self + Statistics(self.features, self.outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the upper triangle of the symmetric matrix only."""
        return Statistics.from_arrays, (self.to_arrays(),)

    def widened(self, places: NDArray[np.intp], features: int) -> Statistics:
        """Statistics of more features, zero in all rows so far; `places` are those of the present ones.

        Examples
        --------
        >>> statistics = Statistics(1)
        >>> statistics.add(np.ones((3, 1)), np.ones((3, 1)))
        >>> statistics.widened(np.array([1]), 2).gram
        array([[0., 0.],
               [0., 3.]])
        """
        wider = Statistics(features, self.outputs)
        wider._gram[np.ix_(places, places)] = self._gram
        wider._moment[places] = self._moment
        wider._square, wider._count = list(self._square), self._count
        wider._levels = self._levels.widened(places, features)
        return wider

    def narrowed(self, places: NDArray[np.intp]) -> Statistics:
        """Statistics of some of the features."""
        narrower = Statistics(len(places), self.outputs)
        narrower._gram, narrower._moment = self._gram[np.ix_(places, places)], self._moment[places]
        narrower._square, narrower._count = list(self._square), self._count
        narrower._levels = self._levels.narrowed(places)
        return narrower

    def without_levels(self) -> Statistics:
        """The same sums without those by level."""
        plain = self.copy()
        plain._levels = NO_LEVELS
        return plain

    def with_levels_of(self, least: int) -> Statistics:
        """The same sums, by level only for levels of at least so many rows."""
        fewer = self.copy()
        fewer._levels = self._levels.with_rows(least * UNIT**2)
        return fewer

    def without_levels_at(self, keys: Keys) -> Statistics:
        """The same sums without those of some levels."""
        fewer = self.copy()
        fewer._levels = self._levels.without(keys)
        return fewer

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> Statistics:
        """Statistics of more targets, zero in all rows so far; `places` are those of the present ones.

        Examples
        --------
        >>> statistics = Statistics(1)
        >>> statistics.add(np.ones((3, 1)), np.ones((3, 1)))
        >>> statistics.with_outputs(np.array([1]), 2).moment
        array([[0., 3.]])
        """
        wider = Statistics(self.features, outputs)
        wider._gram, wider._count = self._gram, self._count
        wider._moment[:, places] = self._moment
        for place, square in zip(places.tolist(), self._square, strict=True):
            wider._square[place] = square
        wider._levels = self._levels.with_outputs(places, outputs)
        return wider.copy()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Integer arrays for a file: of the symmetric matrix the upper triangle only.

        Arrays of sums by level are included only if rows have levels.

        Examples
        --------
        >>> {name: array.shape for name, array in Statistics(4, 2).to_arrays().items()}
        {'gram': (10,), 'moment': (4, 2), 'square': (2, 2), 'count': (2,)}
        """
        by_level = self._levels.to_arrays() if len(self._levels) else {}
        return {
            "gram": upper_triangle(self._gram),
            "moment": self._moment,
            "square": np.array([limbs(total) for total in self._square], np.int64),
            "count": np.array(limbs(self._count), np.int64),
            **{LEVELS + part: array for part, array in by_level.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Statistics:
        """Statistics from the arrays of a file, bit for bit."""
        statistics = cls(*arrays["moment"].shape)
        statistics._gram = symmetric(arrays["gram"].astype(np.int64), statistics.features)
        statistics._moment = arrays["moment"].astype(np.int64)
        statistics._square = [from_limbs(pair) for pair in arrays["square"]]
        statistics._count = from_limbs(arrays["count"])
        by_level = {
            name.removeprefix(LEVELS): array for name, array in arrays.items() if name.startswith(LEVELS)
        }
        statistics._levels = LevelStatistics.from_arrays(by_level) if by_level else NO_LEVELS
        return statistics


def on_grid(
    phi: Array, y: Array, weights: Array | None, shape: tuple[int, ...], whole: Array | None = None
) -> tuple[Array, Array, Array]:
    """Rows times the roots of their weights, and the roots, as integers in units of 2⁻¹⁶, in float64.

    The features are written to `whole`, shape (rows, features), if it is given.
    """
    phi, y = np.asarray(phi, np.float64), np.asarray(y, np.float64)
    if phi.ndim != 2 or y.ndim != 2 or (phi.shape[1], y.shape[1]) != shape or len(phi) != len(y):
        raise ValueError(f"phi and y have shapes {phi.shape} and {y.shape}, for {shape} (features, outputs)")
    root = np.ones((len(phi), 1))
    if weights is not None:
        if not ((weights >= 0) & (weights <= HEAVIEST)).all():
            raise ValueError(f"weights must be from 0 to {HEAVIEST:.0f}; rescale them")
        root = np.sqrt(np.asarray(weights, np.float64))[:, None]
    whole = np.empty(phi.shape) if whole is None else whole
    if not (kernels.whole_multiples(phi, root[:, 0], UNIT, whole) and np.isfinite(y).all()):
        raise ValueError("phi and y must be finite")
    return whole, np.rint(y.clip(-FARTHEST, FARTHEST) * root * UNIT), np.rint(root * UNIT)


class Products:
    """Sums of products of integers: in float64 as long as that is exact, then in int64.

    Parameters
    ----------
    shape
        Numbers of features and of targets.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._gram: Integers = np.zeros((shape[0], shape[0]), np.int64)
        self._moment: Integers = np.zeros(shape, np.int64)
        self._start()

    def _start(self) -> None:
        self._upper: Array = np.zeros(self._gram.shape, order="F")  # ΣΦᵀΦ; its lower triangle stays zero
        self._products: Array = np.zeros(self._moment.shape)
        self._reach = 0.0  # bound of all sums

    def add(self, phi: Array, y: Array, largest: float) -> None:
        """Add rows whose features are at most `largest`."""
        product = largest * max(largest, np.abs(y).max(initial=1))
        step = max(int(EXACT // product), 1)
        for begin in range(0, len(phi), step):
            part, targets = phi[begin : begin + step], y[begin : begin + step]
            if self._reach + len(part) * product > EXACT:
                self._flush()
            self._reach += len(part) * product
            self._upper = dsyrk(1.0, part.T, beta=1.0, c=self._upper, overwrite_c=1)
            self._products += part.T @ targets

    def _flush(self) -> None:
        """Add the sums of float64 to the integers."""
        upper = self._upper.astype(np.int64)
        self._gram += upper
        upper[np.diag_indices_from(upper)] = 0
        self._gram += upper.T
        self._moment += self._products.astype(np.int64)
        self._start()

    def totals(self) -> tuple[Integers, Integers]:
        """ΣΦᵀΦ and ΣΦᵀy, exact."""
        self._flush()
        return self._gram, self._moment


def sum_squares(columns: Array) -> list[int]:
    """Exact Σy² of each column of integers.

    With y = 2²⁰a + b, y² = 2⁴⁰a² + 2²¹ab + b²: each part is summed in 64-bit integers.
    """
    high, low = np.divmod(columns.astype(np.int64), 2**20)
    parts = zip(
        (high**2).sum(0).tolist(), (high * low).sum(0).tolist(), (low**2).sum(0).tolist(), strict=True
    )
    return [2**40 * a + 2**21 * b + c for a, b, c in parts]


def refuse_overflow(count: int, square: Sequence[int]) -> None:
    """Raise if a sum could exceed 64 bits: by Cauchy–Schwarz none exceeds √(Σa²·Σb²)."""
    if count < 0 or min(square) < 0:
        raise ValueError("rows were subtracted that had never been added")
    if max(count, math.isqrt(count * max(square))) > LARGEST:
        raise OverflowError(
            "the sums of so many rows, or of such large ones, do not fit into 64-bit integers"
        )


def limbs(total: int) -> tuple[int, int]:
    """A large integer as two of at most 63 bits each."""
    return total >> 62, total & (2**62 - 1)


def from_limbs(pair: NDArray[Any]) -> int:
    """The integer of two limbs."""
    high, low = pair.tolist()
    return int(high << 62 | low)
