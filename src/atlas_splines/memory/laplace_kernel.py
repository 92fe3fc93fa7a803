"""Gaussian process regression with a Laplace kernel: factors by blocks, length scales by marginal likelihood.

Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, chapters 2 and 5; the kernel is a
product of exponential (Ornstein–Uhlenbeck) covariances, one for each input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dposv, dpotrf, dpotri, dpotrs, dtrtri, strtri
from scipy.optimize import minimize

from atlas_splines.memory.kept_rows import Distinct
from atlas_splines.model import kernels
from atlas_splines.model.local_terms import Boxes, BoxRules

__all__ = [
    "BLOCK",
    "KERNEL_RULES",
    "NO_ROWS",
    "BoxFit",
    "Cholesky",
    "KernelRules",
    "LaplaceKernel",
    "fit_box",
    "leave_one_out",
    "leave_out_blocks",
]

Array = NDArray[np.float64]

BLOCK = 64  # rows of a block; with 32 or 128 the factor of 300 to 1,000 rows takes up to a tenth longer


@dataclass(frozen=True, eq=False)
class Cholesky:
    """Lower Cholesky factor L of a covariance matrix LLᵀ, to which rows can be appended; immutable.

    Attributes
    ----------
    panels
        Blocks of rows of L up to and including the diagonal: shapes (rows of the block, rows so far).
    inverses
        Inverses of the diagonal blocks, shapes (rows of the block, rows of the block).

    Examples
    --------
    >>> matrix = np.eye(100) + 1
    >>> whole = NO_ROWS.grown(matrix)
    >>> parts = NO_ROWS.grown(matrix[:90, :90])
    >>> parts = parts.grown(matrix[parts.complete :])
    >>> all(bool((a == b).all()) for a, b in zip(whole.panels, parts.panels))
    True
    >>> bool(np.allclose(matrix @ whole.solve(np.ones((100, 1))), 1))
    True
    """

    panels: tuple[Array, ...]
    inverses: tuple[Array, ...]

    def __len__(self) -> int:
        """Number of rows."""
        return self.panels[-1].shape[1] if self.panels else 0

    @property
    def complete(self) -> int:
        """Rows in complete blocks, which are not recomputed."""
        return len(self) // BLOCK * BLOCK

    @property
    def nbytes(self) -> int:
        """Bytes of the factor."""
        return sum(panel.nbytes for panel in self.panels)

    def grown(self, covariance: Array) -> Cholesky:
        """The factor with rows appended: the same bits as from scratch.

        Parameters
        ----------
        covariance
            Rows of the covariance matrix from `complete` on, shape (rows − complete, rows). Only its lower
            triangle is used.
        """
        blocks, complete = self.complete // BLOCK, self.complete
        panels, inverses = list(self.panels[:blocks]), list(self.inverses[:blocks])
        for begin in range(0, len(covariance), BLOCK):
            start, end = complete + begin, complete + min(begin + BLOCK, len(covariance))
            panel = np.array(covariance[begin : end - complete, :end])
            at = 0
            for above, inverse in zip(panels, inverses, strict=True):
                own = slice(at, above.shape[1])
                if at:
                    panel[:, own] -= panel[:, :at] @ above[:, :at].T
                panel[:, own] = panel[:, own] @ inverse.T
                at = above.shape[1]
            corner = panel[:, start:] - panel[:, :start] @ panel[:, :start].T
            panel[:, start:] = _factored(corner)
            panels.append(panel)
            inverses.append(np.ascontiguousarray(dtrtri(panel[:, start:], lower=1)[0]))
        return Cholesky(tuple(panels), tuple(inverses))

    def solve(self, targets: Array) -> Array:
        """(LLᵀ)⁻¹ times targets, shape (rows, outputs)."""
        solved, at = np.array(targets), 0
        for panel, inverse in zip(self.panels, self.inverses, strict=True):
            own = slice(at, panel.shape[1])
            solved[own] = inverse @ (solved[own] - panel[:, :at] @ solved[:at])
            at = panel.shape[1]
        for panel, inverse in zip(self.panels[::-1], self.inverses[::-1], strict=True):
            at = panel.shape[1] - len(panel)
            own = slice(at, panel.shape[1])
            solved[own] = inverse.T @ solved[own]
            solved[:at] -= panel[:, :at].T @ solved[own]
        return solved

    @property
    def dense(self) -> Array:
        """L as one array of shape (rows, rows), with zeros above the diagonal."""
        found = np.zeros((len(self), len(self)))
        for panel in self.panels:
            end = panel.shape[1]
            found[end - len(panel) : end, :end] = panel
        return found


NO_ROWS = Cholesky((), ())


def _factored(corner: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(corner), np.float64)  # reads the lower triangle only
    except np.linalg.LinAlgError as failed:
        raise ArithmeticError(
            "the covariance of a box is not positive definite; its rows are not numbers"
        ) from failed


@dataclass(frozen=True)
class KernelRules:
    """Rules of the choice of length scales and noise.

    Chosen by hand on two folds of the tables of `benchmarks/tabular`, which also validate them.
    `benchmarks/local_memory.py` compares some with alternatives.

    Attributes
    ----------
    scattered_samples, scattered_rows
        Samples of all rows whose marginal likelihood is summed, and their size.
    dense_samples, dense_rows
        Samples of neighbours: boxes. Without these errors were 7 % larger. Many small ones cover more rows
        than few large ones of the same cost: with two of 300 rows two seeds differed by up to 8 % in errors.
    least_sampled_rows, most_distances
        Bound of rows² · inputs, the distances in one sample, which reduces samples of a wide table; and their
        least size.
    steps
        Steps of the optimiser (L-BFGS-B).
    prior_variance
        Prior variance of the logarithm of each 1/ℓ_j around the usual one.
    usual
        Logarithm of the usual 1/ℓ_j of a single standardised input; for d inputs log d is subtracted, so that
        distances keep their size.
    noise_share
        Share of the variance of the targets that is noise, at the start of the optimiser.
    length_factors, noise_factors
        Factors of length scales and noise, chosen by leave-one-out errors: the marginal likelihood of a
        sample attributes noise to structure more often than that of all rows of a box.
    tuned_boxes, tuned_rows
        Boxes whose rows are left out for that choice, and rows of a box.
    least_noise
        Least noise variance over that of the kernel: with less, float32 weights of neighbours cancel.
    """

    scattered_samples: int = 2
    scattered_rows: int = 300
    dense_samples: int = 10
    dense_rows: int = 150
    least_sampled_rows: int = 100
    most_distances: float = 4e6
    steps: int = 15
    prior_variance: float = 4.0
    usual: float = -0.5
    noise_share: float = 0.2
    length_factors: tuple[float, ...] = (0.6, 1.0, 1.7)
    noise_factors: tuple[float, ...] = (0.3, 1.0, 3.0)
    tuned_boxes: int = 3
    tuned_rows: int = 500
    least_noise: float = 1e-5


KERNEL_RULES = KernelRules()
# For few points smaller samples suffice: on six tables below 2,000 rows the error was 1.002 of that with the
# rules above, in a third of the time. On larger tables it is 4 to 6 % larger.
FEW_POINTS = 2000
FEW_POINTS_RULES = KernelRules(
    scattered_samples=1, scattered_rows=250, dense_samples=3, dense_rows=120, steps=10
)


@dataclass(frozen=True, eq=False)
class LaplaceKernel:
    """A product of exponential covariances, and the noise of rows.

    Attributes
    ----------
    rates
        1/ℓ_j of each input, shape (inputs,), in float32 as in predictions.
    noise
        Noise variance of a row of weight 1 over the variance of the kernel.

    Examples
    --------
    >>> from atlas_splines.memory.kept_rows import HeldRows
    >>> points = np.random.default_rng(0).random((400, 2)).astype(np.float32)
    >>> y = np.abs(points[:, :1] - 0.5).astype(float)
    >>> kernel = LaplaceKernel.of(Distinct.of(HeldRows.of(points, y, np.ones(400))), y, seed=0)
    >>> bool(kernel.rates[0] > 5 * kernel.rates[1])
    True
    """

    rates: NDArray[np.float32]
    noise: float

    @classmethod
    def of(cls, rows: Distinct, targets: Array, seed: int, rules: KernelRules | None = None) -> LaplaceKernel:
        """The kernel of maximum marginal likelihood on samples, corrected by leave-one-out errors.

        Parameters
        ----------
        rows
            Distinct points of the rows.
        targets
            Targets of the rows, shape (rows, outputs). All outputs share the length scales.
        seed
            Seed of the choice of samples.
        rules
            Rules of the choice; by default those for the number of points.
        """
        if rules is None:
            rules = FEW_POINTS_RULES if len(rows.points) < FEW_POINTS else KERNEL_RULES
        random = np.random.default_rng(seed)
        spread = rows.points.std(axis=0, dtype=np.float64)
        varying, rates = spread > 0, np.zeros(len(spread), np.float32)
        if not varying.any() or not targets.any():
            return cls(rates, 1.0)
        unit = 1 / (spread[varying] + 1e-3)
        scaled = np.ascontiguousarray(rows.points[:, varying] * unit.astype(np.float32))
        found = _most_likely(_samples(scaled, rows, targets, random, rules), float(targets.var()), rules)
        rates[varying] = unit * np.exp(found[:-2])
        noise = max(float(np.exp(found[-1] - found[-2])), rules.least_noise)
        return cls(rates, noise)._tuned(rows, targets, random, rules)

    def _tuned(
        self, rows: Distinct, targets: Array, random: np.random.Generator, rules: KernelRules
    ) -> LaplaceKernel:
        """The kernel with the factors of length scale and noise of least leave-one-out error."""
        boxes = Boxes.of(rows.points, self.rates, BoxRules(most_rows=rules.tuned_rows))
        own = np.isin(boxes.find(rows.points), random.permutation(len(boxes))[: rules.tuned_boxes])
        some, of_rows = rows.only(own)
        inside = [part for part in boxes.split(some.points) if len(part)]
        wanted = targets[of_rows]
        merged = some.merged(wanted)

        @cache
        def error(length: float, noise: float) -> float:
            kernel = self._times(length, noise, rules)
            rest, variances = np.empty_like(merged), np.empty(len(merged))
            for part in inside:
                fit = fit_box(kernel, some.points[part], merged[part], some.weights[part])
                rest[part], variances[part] = fit.rest, fit.variances
            left = wanted - some.leave_out(wanted, rest, variances, kernel.noise)
            return float((some.row_weights[:, None] * left**2).sum())

        length = _lowest(rules.length_factors, lambda factor: error(factor, 1.0))
        noise = _lowest(rules.noise_factors, lambda factor: error(length, factor))
        return self._times(length, noise, rules)

    def _times(self, length: float, noise: float, rules: KernelRules) -> LaplaceKernel:
        """The kernel with length scales and noise multiplied by factors."""
        return LaplaceKernel(self.rates / np.float32(length), max(noise * self.noise, rules.least_noise))

    def covariance(self, points: NDArray[np.float32], weights: Array, begin: int = 0) -> Array:
        """Lower triangle of K + 1 + diag(noise/weights), equation (48), from row `begin` on.

        Its shape is (points − begin, points); entries above the diagonal are undefined.
        """
        active = np.flatnonzero(self.rates)
        centres = np.ascontiguousarray((points[:, active] * self.rates[active]).T)
        matrix = np.zeros((len(points) - begin, len(points)))  # uninitialised memory may contain NaN
        kernels.laplace_lower(centres, begin, matrix)
        own = np.arange(len(matrix))
        matrix[own, begin + own] += self.noise / weights[begin:]
        return matrix

    def factor(self, points: NDArray[np.float32], weights: Array, known: Cholesky = NO_ROWS) -> Cholesky:
        """Cholesky factor of the covariance of points, continued from that of the first ones if given."""
        if len(known) == len(points):
            return known
        return known.grown(self.covariance(points, weights, known.complete))


@dataclass(frozen=True, eq=False)
class BoxFit:
    """Gaussian process regression in one box.

    Attributes
    ----------
    weights
        Weights of the kernels around each point, shape (points, outputs).
    rest
        Leave-one-out predictions of each point, shape (points, outputs).
    variances
        Variances of these over that of the kernel, without the noise of the point: shape (points,).
    """

    weights: Array
    rest: Array
    variances: Array


def fit_box(kernel: LaplaceKernel, points: NDArray[np.float32], targets: Array, weights: Array) -> BoxFit:
    """Solve for the weights of all rows of a box, (48), with exact leave-one-out predictions, (49).

    With C = K + 1 + diag r and a = C⁻¹y, the leave-one-out prediction of row i is y_i − a_i/[C⁻¹]_ii
    (Rasmussen and Williams, 2006, section 5.4.2), with variance 1/[C⁻¹]_ii − r_i without noise. The factor is
    computed in float64; float32 suffices for the diagonal of the inverse, in a quarter of the time.

    Examples
    --------
    >>> kernel = LaplaceKernel(np.ones(1, np.float32), noise=0.1)
    >>> points, y = np.array([[0.0], [0.5], [1.0]], np.float32), np.array([[0.0], [1.0], [2.0]])
    >>> alone = fit_box(kernel, points[:2], y[:2], np.ones(2)).weights
    >>> expected = 1 + np.exp(-np.abs(points[2] - points[:2, 0]))
    >>> bool(np.allclose(fit_box(kernel, points, y, np.ones(3)).rest[2], expected @ alone, atol=1e-5))
    True
    """
    factor = kernel.factor(points, weights)
    solved = factor.solve(targets)
    rest, variances = leave_one_out(kernel, factor, targets, solved, weights)
    return BoxFit(solved, rest, variances)


def leave_one_out(
    kernel: LaplaceKernel, factor: Cholesky, targets: Array, solved: Array, weights: Array
) -> tuple[Array, Array]:
    """Leave-one-out predictions of the points of a box, (49), and their variances, as in `BoxFit`."""
    inverse = strtri(factor.dense.T.astype(np.float32, order="F"), lower=0, overwrite_c=1)[0]
    diagonal = np.einsum("ij,ij->i", inverse, inverse, dtype=np.float64)
    variances = np.maximum(1 / diagonal - kernel.noise / weights, 0)
    return targets - solved / diagonal[:, None], variances


def leave_out_blocks(
    kernel: LaplaceKernel,
    points: NDArray[np.float32],
    targets: Sequence[Array],
    weights: Array,
    blocks: NDArray[np.intp],
) -> Array:
    """Predictions for rows of a box from all of its rows but those of their block, (51): (rows, outputs).

    With C⁻¹ of the whole box and B the rows of a block, they are y_B − (C⁻¹_BB)⁻¹ (C⁻¹y)_B: no other factor
    of C is needed. The targets, of all rows, may differ between blocks. Rows of block −1 are never left out
    and get no prediction.
    """
    order = np.argsort(blocks, kind="stable")  # rows of a block are neighbours
    factor, failed = dpotrf(kernel.covariance(points[order], weights[order]).T, lower=0, overwrite_a=1)
    if failed:
        raise ArithmeticError("the covariance of a box is not positive definite; its rows are not numbers")
    inverse = dtrtri(factor, lower=0)[0]
    found = np.zeros_like(targets[0])
    ends = np.searchsorted(blocks[order], np.unique(blocks[blocks >= 0]), side="right").tolist()
    begin = int((blocks < 0).sum())
    for end in ends:
        own, wanted = order[begin:end], targets[blocks[order[begin]]]
        solved = dpotrs(factor, wanted[order], lower=0)[0]
        half = inverse[begin:end, begin:]  # upper triangular, like the factor
        among = dsyrk(1.0, half, lower=1)  # C⁻¹_BB
        found[own] = wanted[own] - dposv(among, solved[begin:end], lower=1, overwrite_a=1)[1]
        begin = end
    return found


def _lowest(factors: Sequence[float], error: Callable[[float], float]) -> float:
    """The factor of least error, assumed unimodal, searched from 1 downwards and then upwards."""
    place = factors.index(1.0)
    for step in (-1, 1):
        while 0 <= place + step < len(factors) and error(factors[place + step]) < error(factors[place]):
            place += step
    return factors[place]


# --- marginal likelihood --------------------------------------------------------------------------------


class _Sample:
    """Points whose marginal likelihood is computed repeatedly."""

    def __init__(
        self, points: NDArray[np.float32], targets: Array, weights: Array, scatter: tuple[Array, Array]
    ) -> None:
        self.points = np.ascontiguousarray(points.T)  # (inputs, rows)
        self.targets, self.noises = targets, 1 / weights
        self.squares, self.freedom = (float(each.sum()) for each in scatter)  # of replicates
        self.values = np.zeros((len(points), len(points)), np.float32)
        self.along = np.empty_like(self.points)

    def likelihood(self, rates: Array, variance: float, noise: float) -> tuple[float, Array] | None:
        """Negative log marginal likelihood, and its gradient in the logarithms of all parameters."""
        outputs = self.targets.shape[1]
        matrix = np.zeros(self.values.shape)  # uninitialised memory may contain NaN
        kernels.laplace_sample(self.points, rates.astype(np.float32), variance, self.values, matrix)
        matrix[np.diag_indices_from(matrix)] = 2 * variance + noise * self.noises
        factor, failed = dpotrf(matrix.T, lower=0, overwrite_a=1)
        if failed:
            return None
        solved = dpotrs(factor, self.targets, lower=0)[0]
        value = 0.5 * (self.targets * solved).sum() + outputs * np.log(np.diag(factor)).sum()
        value += 0.5 * (self.squares / noise + self.freedom * np.log(noise))
        inverse = dpotri(factor, lower=0, overwrite_c=1)[0].T
        # W = aaᵀ − outputs·C⁻¹ is −2·d(value)/dC; off the diagonal each pair counts twice
        sums = np.empty(2)
        kernels.laplace_slopes(
            self.points, self.values, inverse, np.ascontiguousarray(solved.T), self.along, sums
        )
        alone = (solved**2).sum(axis=1) - outputs * np.diag(inverse)
        by_rate = variance * rates * self.along.sum(axis=1, dtype=np.float64)
        by_variance = -variance * (sums[0] + sums[1] + alone.sum())
        by_noise = -0.5 * (noise * (alone * self.noises).sum() + self.squares / noise - self.freedom)
        return float(value), np.concatenate([by_rate, [by_variance, by_noise]])


def _samples(
    scaled: NDArray[np.float32],
    rows: Distinct,
    targets: Array,
    random: np.random.Generator,
    rules: KernelRules,
) -> list[_Sample]:
    """Samples of all points and, if there are many, samples of neighbours: distant and close pairs."""
    points, inputs = scaled.shape
    affordable = int(max(np.sqrt(rules.most_distances / inputs), rules.least_sampled_rows))
    size, near = (min(rows, affordable) for rows in (rules.scattered_rows, rules.dense_rows))
    shuffled = random.permutation(points)
    chosen = np.array_split(
        shuffled[: rules.scattered_samples * size], max(min(points // size, rules.scattered_samples), 1)
    )
    if points > 3 * near:
        parts = Boxes.of(scaled, np.ones(inputs, np.float32), BoxRules(most_rows=near)).split(scaled)
        dense = [part[: 2 * near] for part in parts if len(part) > 0.4 * near]
        chosen += [dense[k] for k in random.permutation(len(dense))[: rules.dense_samples]]
    merged, (squares, freedom) = rows.merged(targets), rows.scatter(targets)
    return [
        _Sample(scaled[some], merged[some], rows.weights[some], (squares[some], freedom[some]))
        for some in chosen
    ]


def _most_likely(samples: Sequence[_Sample], spread: float, rules: KernelRules) -> Array:
    """Maximum a posteriori logarithms of rates, variance and noise; `spread` is the variance of targets."""
    inputs = len(samples[0].points)
    usual, scale = rules.usual - np.log(inputs), float(np.log(spread + 1e-9))

    def objective(parameters: Array) -> tuple[float, Array]:
        apart = parameters[:inputs] - usual
        value, slope = 0.5 * (apart**2).sum() / rules.prior_variance, np.zeros_like(parameters)
        slope[:inputs] = apart / rules.prior_variance
        for sample in samples:
            found = sample.likelihood(np.exp(parameters[:inputs]), *np.exp(parameters[inputs:]))
            if found is None:
                return 1e12, np.zeros_like(parameters)
            value, slope = value + found[0], slope + found[1]
        return value, slope

    noise = np.log(rules.noise_share)
    first = np.concatenate([np.full(inputs, usual), [scale + np.log(0.7), scale + noise]])
    bounds = [(-9.0, 4.0)] * inputs + [(scale - 6, scale + 6), (scale - 10, scale + 1)]
    options = {"maxiter": rules.steps, "ftol": 1e-5}
    return np.asarray(
        minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    )
