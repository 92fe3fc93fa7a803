"""Design: which features suit data, by the marginal likelihood of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from atlas_splines.core import splines
from atlas_splines.evidence.features import COARSE, FINEST, Bumps, Features
from atlas_splines.evidence.readout import Prior, Readout, learn_prior, solve
from atlas_splines.evidence.statistics import Statistics

__all__ = ["design", "length_scales"]

Array = NDArray[np.float64]

LEAST_FEATURES = 8  # whatever the budget
GAIN = 3.0  # in log evidence, for which finer splines of an input are worth it
ROWS_A_FUNCTION = 4  # finer splines need at least this many rows for each function
SPLINE_SHARE = 0.5  # of the budget goes to coarse splines at most, and of it to finer ones
PRECISIONS = (0.3, 3.0, 30.0)  # of the prior of finer splines, when they are judged
SAMPLE = 400  # rows that length scales are found from; the cost is cubic
JUDGED = 3000  # rows that bumps are judged on
WIDTHS = (1.0, 0.5, 0.25)  # of bumps, in length scales
ROUGH = 0.2  # of √(length · spread): for what is local in every input that matters
STAGES = 3  # groups of bumps, each with the width that the evidence asks for
JUDGING_STEPS = 4  # towards the prior of a choice
LEARNING_STEPS = 8  # towards the prior of what was chosen
ROUNDS = 10  # of k-means
UNSEEN_LENGTH = 1 / 6  # length scale over √inputs, where little is known
UNSEEN_STEPS = 3  # towards a prior, where little is known


def design(points: Array, targets: Array, budget: int = 550, seed: int = 0) -> tuple[Features, Readout]:
    """Choose features for data by the marginal likelihood; returns them with the readout of this data.

    Parameters
    ----------
    points
        Points of the unit cube, shape (rows, inputs).
    targets
        Standardised targets, shape (rows, outputs).
    budget
        Number of features at most; with few rows there are fewer, two for each row.
    seed
        Of the choice of rows and centres.

    Examples
    --------
    >>> points = np.random.default_rng(0).random((300, 2))
    >>> features, readout = design(points, np.sin(9 * points[:, :1] * points[:, 1:]), budget=100)
    >>> len(features) <= 100
    True
    >>> error = features(points) @ readout.weights - np.sin(9 * points[:, :1] * points[:, 1:])
    >>> bool(abs(error).max() < 0.1)
    True
    """
    points = np.asarray(points, np.float64).clip(0, 1)
    random = np.random.default_rng(seed)
    budget = max(min(budget, 2 * len(points)), LEAST_FEATURES)
    coarse = coarse_splines(points, targets, int(SPLINE_SHARE * budget))
    if (targets == targets[0]).all(axis=0).any():
        return design_for_unseen(coarse, points, targets, budget, random)
    fine = finer_splines(coarse, points, targets, int(SPLINE_SHARE * budget))
    judged = random.permutation(len(points))[:JUDGED]
    without = replace(coarse, fine=fine)
    bumps = place_bumps(without, points[judged], targets[judged], max(budget - len(without), 0), random)
    features = replace(without, bumps=bumps)
    return features, first_readout(features, points, targets)


def design_for_unseen(
    coarse: Features, points: Array, targets: Array, budget: int, random: np.random.Generator
) -> tuple[Features, Readout]:
    """Features where an output has not varied yet, such as a class to come: what will matter is not known.

    All inputs have one length scale; a coordinate of a centre is that of a row or random, with even chances.
    """
    count = max(budget - len(coarse), 0)
    near = points[random.integers(len(points), size=count)]
    centres = np.where(random.random(near.shape) < 0.5, near, random.random(near.shape))
    lengths = np.full(coarse.inputs, UNSEEN_LENGTH * np.sqrt(coarse.inputs))
    features = replace(coarse, bumps=(Bumps(centres, lengths),))
    statistics = Statistics(len(features), targets.shape[1])
    statistics.add(features(points), targets)
    return features, solve(statistics, Prior.flat(features.sizes, steps=UNSEEN_STEPS))


def first_readout(features: Features, points: Array, targets: Array) -> Readout:
    """Readout of the first data, with the prior that suits it."""
    statistics = Statistics(len(features), targets.shape[1])
    statistics.add(features(points), targets)
    return learn_prior(statistics, Prior.flat(features.sizes), LEARNING_STEPS)


def place_bumps(
    features: Features, points: Array, targets: Array, count: int, random: np.random.Generator
) -> tuple[Bumps, ...]:
    """Groups of bumps, one after the other, each of the width that raises the evidence most."""
    lengths, spread = length_scales(points, targets, random), points.std(axis=0) + 1e-3
    shapes = [width * lengths for width in WIDTHS] + [ROUGH * np.sqrt(lengths * spread)]
    phi = features(points)
    sizes, chosen = list(features.sizes), []
    prior = Prior.flat(sizes)
    for stage in range(STAGES):
        share = count // STAGES
        if share == 0:
            break
        tried = [Bumps(scatter_centres(points, shape, share, random), shape) for shape in shapes]
        tried = tried[:1] if stage == 0 else tried
        judged = [judge(np.hstack([phi, group(points)]), targets, prior) for group in tried]
        best = int(np.argmax([readout.log_evidence for readout in judged]))
        chosen.append(tried[best])
        phi, prior = np.hstack([phi, tried[best](points)]), judged[best].prior
    return tuple(chosen)


def judge(phi: Array, targets: Array, prior: Prior) -> Readout:
    """Readout of features of which the last ones are new to the prior."""
    new = phi.shape[1] - sum(prior.sizes)
    wider = Prior((*prior.sizes, new), np.append(prior.precisions, 1.0))
    statistics = Statistics(phi.shape[1], targets.shape[1])
    statistics.add(phi, targets)
    return learn_prior(statistics, wider, JUDGING_STEPS)


def scatter_centres(points: Array, lengths: Array, count: int, random: np.random.Generator) -> Array:
    """Centres of clusters of points by k-means, shape (≤ count, inputs)."""
    scaled = points / lengths
    distinct = np.unique(scaled, axis=0)
    centres = distinct[random.permutation(len(distinct))[:count]]
    for _ in range(ROUNDS):
        nearest = ((centres**2).sum(axis=1) - 2 * scaled @ centres.T).argmin(axis=1)
        sizes = np.bincount(nearest, minlength=len(centres))
        sums = np.stack([np.bincount(nearest, column, len(centres)) for column in scaled.T], axis=1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return centres * lengths


def length_scales(points: Array, targets: Array, random: np.random.Generator) -> Array:
    """Length scale of each input: those of the Gaussian process that makes a sample of the data most likely.

    An input that does not matter gets a long one. Shape (inputs,).
    """
    rows = random.permutation(len(points))[:SAMPLE]
    spread = points.std(axis=0) + 1e-3
    x, y = points[rows] / spread, targets[rows] - targets[rows].mean(axis=0)
    inputs, variance = x.shape[1], float(y.var()) + 1e-6
    usual = -0.5 * np.log(inputs)
    start = np.concatenate([np.full(inputs, usual), np.log([variance, 0.1 * variance])])
    bounds = [(-6, 4)] * inputs + [(np.log(variance) - 5, np.log(variance) + 8), (np.log(1e-4 * variance), 3)]
    found = minimize(
        negative_likelihood, start, (x, y, usual), "L-BFGS-B", True, bounds=bounds, options={"maxiter": 30}
    )
    return spread * np.exp(-found.x[:inputs])


def negative_likelihood(parameters: Array, x: Array, y: Array, usual: float) -> tuple[float, Array]:
    """Negative log likelihood of a Gaussian process and its gradient.

    Parameters are the logarithms of 1/ℓ_j, of the variance and of the noise. A wide normal prior keeps 1/ℓ_j
    from running away where the data does not tell.
    """
    inputs, outputs = x.shape[1], y.shape[1]
    variance, noise = np.exp(parameters[inputs:])
    z = x * np.exp(parameters[:inputs])
    squared = (z**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2 * z @ z.T
    kernel = variance * np.exp(-0.5 * np.maximum(squared, 0))  # (rows, rows)
    factor, failed = dpotrf(kernel + variance + noise * np.eye(len(x)), lower=1)
    if failed:
        return 1e12, np.zeros_like(parameters)
    inverse = dpotri(factor, lower=1)[0]
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    solved = inverse @ y
    outer = solved @ solved.T - outputs * inverse  # −2·d(−log likelihood)/d(covariance)
    pull = outer * kernel
    by_length = 2 * ((z**2).T @ pull.sum(axis=1) - np.einsum("ij,ij->j", z, pull @ z))
    by_variance = pull.sum() + variance * outer.sum()
    gradient = -0.5 * np.concatenate([-by_length, [by_variance, noise * np.trace(outer)]])
    apart = parameters[:inputs] - usual
    gradient[:inputs] += apart / 4
    value = 0.5 * (y * solved).sum() + outputs * np.log(np.diag(factor)).sum() + (apart**2).sum() / 8
    return float(value), gradient


def coarse_splines(points: Array, targets: Array, budget: int) -> Features:
    """Splines of density 0 for all inputs, or for as many as the budget allows, the most telling first."""
    inputs, most = points.shape[1], budget // splines.basis_size(COARSE)
    if inputs <= most:
        return Features(inputs, tuple(range(inputs)), (), ())
    gains = [max(spline_gains(column, targets - targets.mean(axis=0), COARSE)) for column in points.T]
    return Features(inputs, tuple(sorted(np.argsort(gains)[::-1][:most].tolist())), (), ())


def finer_splines(
    coarse: Features, points: Array, targets: Array, budget: int
) -> tuple[tuple[int, int], ...]:
    """Pairs (input, density) of finer splines that what coarse ones leave asks for, the most wanted first."""
    left = targets - coarse(points) @ first_readout(coarse, points, targets).weights
    wanted = sorted(((*best_density(column, left), j) for j, column in enumerate(points.T)), reverse=True)
    chosen: list[tuple[int, int]] = []
    for gain, density, j in wanted:
        if gain > GAIN and splines.basis_size(density) <= budget:
            chosen.append((j, density))
            budget -= splines.basis_size(density)
    return tuple(chosen)


def best_density(column: Array, left: Array) -> tuple[float, int]:
    """The largest gain in log evidence by splines of one input, and their density."""
    affordable = [
        d for d in range(COARSE + 1, FINEST + 1) if ROWS_A_FUNCTION * splines.basis_size(d) <= len(column)
    ]
    gains = ((max(spline_gains(column, left, density)), density) for density in affordable)
    return max(gains, default=(0.0, COARSE))


def spline_gains(column: Array, left: Array, density: int) -> Iterable[float]:
    """Gain in log evidence by splines of one input at a density, for each precision of the prior."""
    cells, weights = splines.active(column, density)  # (rows,), (rows, 4)
    functions, rows = splines.basis_size(density), len(column)
    banded = np.zeros((splines.ACTIVE, functions))  # diagonals of Σφφᵀ, the lower ones
    moment = np.zeros((functions, left.shape[1]))
    for a in range(splines.ACTIVE):
        for b in range(a + 1):
            banded[a - b] += np.bincount(cells + b, weights[:, a] * weights[:, b], functions)
        for p in range(left.shape[1]):
            moment[:, p] += np.bincount(cells + a, weights[:, a] * left[:, p], functions)
    square = (left**2).sum(axis=0) + 1e-12
    for precision in PRECISIONS:
        factor = cholesky_banded(banded + precision * np.eye(splines.ACTIVE, 1), lower=True)
        explained = (moment * cho_solve_banded((factor, True), moment)).sum(axis=0)
        volume = functions * np.log(precision) / 2 - np.log(factor[0]).sum()
        yield float(
            left.shape[1] * volume - rows / 2 * np.log1p(-np.minimum(explained / square, 1 - 1e-9)).sum()
        )
