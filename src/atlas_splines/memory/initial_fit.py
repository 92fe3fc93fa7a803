"""Initial fit: features chosen for the first rows by marginal likelihood, and centres added for later rows.

Additive splines and radial basis functions with centres by k-means (Moody and Darken, 1989), whose kind,
widths and number are compared by the log marginal likelihood of a sample; missing centres are added where
rows come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.features import COARSE, FINEST, SIDED, Features, RadialBasis
from atlas_splines.memory.posterior import MOST_LEVERAGE, Posterior, Prior, learn_prior, posterior_of, solve
from atlas_splines.memory.selection import (
    SELECTION_RULES,
    coarse_gains,
    finer_splines,
    interacting_pairs,
    kept_features,
    length_scales,
    pruned_prior,
)
from atlas_splines.memory.statistics import UNIT, Statistics
from atlas_splines.memory.to_atlas import LEAST_DENSITY, MODEL_RULES
from atlas_splines.model import kernels, splines
from atlas_splines.model.local_terms import Boxes, BoxRules
from atlas_splines.model.state import Monotonic

__all__ = [
    "CENTRE_GRID",
    "ROWS_A_CENTRE",
    "RULES",
    "FeaturePieces",
    "FeatureRules",
    "InitialFit",
    "choose_features",
    "design",
    "fit_features",
    "missing_bases",
    "out_of_sample_of",
]

Array = NDArray[np.float64]

LEAST_FEATURES = 8  # whatever the budget
# Rows whose mean a centre is, at least: on 15 tables, the error of one is 7 % larger, of another 4 % smaller.
ROWS_A_CENTRE = 5
# Steps of an input that centres are rounded to: a mean and all rows but one do not determine that row.
CENTRE_GRID = 64
PIECE = 2048  # rows whose features are in memory at once: few enough for the allocator to reuse memory


@dataclass(frozen=True)
class FeatureRules:
    """Rules of the choice of features; where no measurement is given, none chose the value.

    Attributes
    ----------
    rows_per_feature
        Least rows for each feature. With 1 errors are the same, with 2 those of the table `concrete` are 8 %
        larger.
    spline_share
        Share of the budget for coarse splines at most, and as much for finer ones.
    sample
        Rows that features are chosen on.
    wide_table
        Inputs up to which each keeps its spline: an input may become relevant later.
    relevance
        Inverse length scale relative to the usual one, from which on an input of a wide table is relevant
        even if its spline gains nothing.
    least_apart
        Distance of the two values of a binary input with a linear function; for closer ones its weight would
        have to be large.
    widths
        Candidates for the widths of the groups of radial basis functions, in length scales; None is `rough`.
    most_alone
        Monotone inputs up to which each has one-sided functions of its own.
    rough
        Width for targets that are local in every relevant input, in units of √(length scale · spread).
    least_paired, most_paired, pair_share
        Radial basis functions from which on pairs of inputs get some; inputs whose pairs are tried, those
        with the shortest length scales; and the share of the functions that pairs get.
    trial, trial_share
        Rows that widths are chosen on, and the divisor of the number of functions there. With 700 rows,
        errors of the table `kin8nm` are 3 % larger; with a divisor of 3, two of six choices for airfoil are
        wrong.
    coarse_steps
        Steps of evidence maximisation for coarse splines. With 3, errors of the table `energy` are 2 %
        larger.
    trial_steps
        Such steps for a comparison. With 2, one of 40 updates without noise is refused.
    final_steps
        Such steps for the chosen features.
    rounds
        Rounds of k-means.
    unseen_length, unseen_steps
        Length scale over √inputs, and such steps, where an output does not vary yet.
    small_leverage, probes, rows_per_estimate
        Leverages up to the first are estimated with so many random signs (relative error √(2/64), a sixth),
        if there are so many rows for each feature.
    unreached
        Rows that no function of a group reaches, from which on it gets centres; fewer are outliers.
    even_cut
        Share of the rows on either side of a cut among them: of ten rows or more, five.
    """

    rows_per_feature: float = 1.5
    spline_share: float = 0.5
    sample: int = 3000
    wide_table: int = 32
    relevance: float = 1.3
    least_apart: float = 0.5
    widths: tuple[tuple[float | None, ...], ...] = ((1.0, 1.0, 1.0), (1.0, 0.5, None))
    most_alone: int = 3
    rough: float = 0.2
    least_paired: int = 100
    most_paired: int = 40
    pair_share: float = 0.5
    trial: int = 1000
    trial_share: int = 2
    coarse_steps: int = 2
    trial_steps: int = 3
    final_steps: int = 3
    rounds: int = 3
    unseen_length: float = 1 / 6
    unseen_steps: int = 3
    small_leverage: float = 0.07
    probes: int = 64
    rows_per_estimate: int = 5
    unreached: int = 20
    even_cut: float = 0.45


RULES = FeatureRules()


@dataclass(frozen=True, eq=False)
class InitialFit:
    """Features for data, and the posterior of their weights.

    Attributes
    ----------
    features
        The features.
    Sufficient statistics of the data.
        Sums of the data.
    posterior
        Posterior from them.
    out_of_sample
        Leave-one-out predictions of each row, shape (rows, outputs); no rows unless requested.
    prior
        The prior that the posterior was solved from, if it is not its own.
    """

    features: Features
    statistics: Statistics
    posterior: Posterior
    out_of_sample: Array
    prior: Prior | None = None


def design(
    points: Array, targets: Array, budget: int = 550, seed: int = 0, monotonic: Monotonic = ()
) -> tuple[Features, Posterior]:
    """Choose features for data by the marginal likelihood; returns them with the posterior of this data.

    Parameters
    ----------
    points
        Points of the unit cube, shape (rows, inputs).
    targets
        Standardised targets, shape (rows, outputs).
    budget
        Most features; with few rows at most two for every three rows.
    seed
        Seed of the choice of rows and centres.
    monotonic
        Monotone direction of each output along each input; empty if none is constrained.

    Examples
    --------
    >>> points = np.random.default_rng(0).random((300, 2))
    >>> features, posterior = design(points, np.sin(9 * points[:, :1] * points[:, 1:]), budget=100)
    >>> len(features) <= 100
    True
    >>> error = features(points) @ posterior.weights - np.sin(9 * points[:, :1] * points[:, 1:])
    >>> bool(abs(error).max() < 0.1)
    True
    """
    solved = fit_features(points, targets, None, budget, seed, monotonic, is_out_of_sample=False)
    return solved.features, solved.posterior


def fit_features(
    points: Array,
    targets: Array,
    weights: Array | None = None,
    budget: int = 550,
    seed: int = 0,
    monotonic: Monotonic = (),
    is_out_of_sample: bool = True,
    pairs: bool = True,
    tolerance: float = 0.0,
    levels: tuple[int, ...] = (),
    fewest: int = 1,
) -> InitialFit:
    """Choose features for data, and solve for the posterior of all of it.

    Parameters
    ----------
    points, targets, budget, seed, monotonic
        As in `design`.
    weights
        Weights of the rows, about 1, shape (rows,).
    is_out_of_sample
        Whether to compute leave-one-out predictions.
    pairs
        Whether some radial basis functions may depend on two inputs only.
    tolerance
        Relative increase of the error that is accepted for fewer features.
    levels
        Inputs whose coordinates are levels. The statistics have no part by level: a fit computes the
        coordinate of a level for each row without that row, so the coordinate does not identify the level.
    fewest
        Least rows for each radial basis function and each function of a finer spline, where that is not 0.
        The sums of a feature that is zero for all rows but one are the features of that row.

    Examples
    --------
    >>> points = np.random.default_rng(0).random((300, 1))
    >>> noisy = np.sin(6 * points) + np.random.default_rng(1).normal(0, 0.1, points.shape)
    >>> float(np.std(noisy - fit_features(points, noisy).out_of_sample).round(1))
    0.1
    """
    points = np.asarray(points, np.float64).clip(0, 1)
    features, prior = choose_features(points, targets, budget, seed, monotonic, pairs, levels, fewest)
    if fewest > 1:
        reached = reached_bases(features, points, fewest)
        if not reached.all():
            features = features.with_only(reached)
            prior = replace(pruned_prior(prior, reached), cone=features.cone)
    statistics = Statistics(len(features), targets.shape[1])
    statistics.add_pieces(
        (features(points[rows]), targets[rows], None if weights is None else weights[rows])
        for rows in pieces(len(points))
    )
    if has_unseen(targets) or not prior.steps:
        posterior = solve(statistics, prior)
    else:
        posterior = learn_prior(statistics, prior, RULES.final_steps)
        kept = kept_features(features, statistics, posterior, tolerance)
        if not kept.all():
            features, statistics = features.with_only(kept), statistics.narrowed(np.flatnonzero(kept))
            posterior = learn_prior(statistics, pruned_prior(posterior.prior, kept), RULES.final_steps)
    rows = slice(None if is_out_of_sample else 0)
    out_of_sample = out_of_sample_of(features, points[rows], targets[rows], weights, posterior)
    return InitialFit(features, statistics, posterior, out_of_sample)


def reached_bases(features: Features, points: Array, fewest: int) -> NDArray[np.bool_]:
    """Mask of the features without centres whose functions fewer rows than that reach."""
    counts = sum((features(points[rows]) * UNIT >= 0.5).sum(axis=0) for rows in pieces(len(points)))
    begin = len(features) - sum(len(group.centres) for group in features.radial_bases)
    return np.asarray((np.arange(len(features)) < begin) | (counts >= fewest))


def pieces(rows: int) -> list[slice]:
    """Consecutive pieces of rows."""
    return [slice(begin, begin + PIECE) for begin in range(0, rows, PIECE)]


@dataclass(frozen=True, eq=False)
class FeaturePieces:
    """Cache of the features of rows, piece by piece; for speed alone.

    Rows are appended, so complete pieces stay as they are. A piece always has the same rows: the rounding of
    a matrix product depends on its number of rows.

    Attributes
    ----------
    most
        Most bytes to keep.
    known
        For each piece, the features, the points, and the values of the former at the latter.

    Examples
    --------
    >>> pieces, features = FeaturePieces(), Features(1, (0,), (), ())
    >>> points = np.random.default_rng(0).random((PIECE + 1, 1)).astype(np.float32)
    >>> first = pieces.of(features, points, slice(0, PIECE))
    >>> pieces.of(features, points, slice(0, PIECE)) is first, len(pieces.known)
    (True, 1)
    """

    most: int = 2**27
    known: dict[int, tuple[Features, NDArray[np.floating], Array]] = field(default_factory=dict, repr=False)

    def of(self, features: Features, points: NDArray[np.floating], rows: slice) -> Array:
        """Features of a piece of rows, shape (rows, features)."""
        own, number = points[rows], rows.start // PIECE
        before = self.known.get(number)
        if before is not None and before[0] is features and np.array_equal(before[1], own):
            return before[2]
        phi = features(own.astype(np.float64))
        if len(own) == PIECE and (number + 1) * phi.nbytes <= self.most:
            self.known[number] = features, own, phi
        return phi


def out_of_sample_of(
    features: Features,
    points: NDArray[np.floating],
    targets: Array,
    weights: Array | None,
    posterior: Posterior,
    known: FeaturePieces | None = None,
) -> Array:
    """Leave-one-out predictions: y − e/(1 − h), for the residual e and the leverage h of a row."""
    out_of_sample = np.empty(targets.shape)
    has_many = len(points) > RULES.rows_per_estimate * len(features)  # else leverages are large
    sketch = posterior.sketched(RULES.probes) if has_many else None
    for rows in pieces(len(points)):
        phi = features(points[rows]) if known is None else known.of(features, points, rows)
        leverage = leverages_of(phi, posterior, sketch) * (1 if weights is None else weights[rows])
        error = targets[rows] - phi @ posterior.weights
        out_of_sample[rows] = targets[rows] - error / (1 - np.minimum(leverage, MOST_LEVERAGE))[:, None]
    return out_of_sample


def leverages_of(phi: Array, posterior: Posterior, sketch: Array | None) -> Array:
    """Leverage of each row, shape (rows,), in float32; with a sketch, small ones are estimated.

    The relative error of an estimate is about a sixth, which is little beside 1 where the leverage is small:
    leave-one-out errors of 4,500 to 36,000 rows differ by 0.1 to 0.8 %, their mean square by 0.4 % at most.
    """
    if sketch is None:
        return posterior.leverage(phi.astype(np.float32)).astype(np.float64)
    leverage = np.square(phi @ sketch).sum(axis=1)
    large = leverage > RULES.small_leverage
    if large.any():
        leverage[large] = posterior.leverage(phi[large].astype(np.float32))
    return np.asarray(leverage)


def has_unseen(targets: Array) -> bool:
    """Whether an output is constant so far, such as a class without rows."""
    return bool((targets == targets[0]).all(axis=0).any())


def choose_features(
    points: Array,
    targets: Array,
    budget: int = 550,
    seed: int = 0,
    monotonic: Monotonic = (),
    pairs: bool = True,
    levels: tuple[int, ...] = (),
    fewest: int = 1,
) -> tuple[Features, Prior]:
    """Features for data, and the prior that a sample of it gives.

    Inputs of levels have coarse splines only, besides radial basis functions: the coordinate is an estimated
    effect already, and a finer spline would fit the rows of a new level by a peak at the population mean.
    """
    random = np.random.default_rng(seed)
    sizes = (points.shape[1], targets.shape[1])
    affordable = MODEL_RULES.most_centres(*sizes, SIDED if monotonic else LEAST_DENSITY)
    budget = max(min(budget, int(len(points) / RULES.rows_per_feature), affordable), LEAST_FEATURES)
    sample, varying = random.permutation(len(points))[: RULES.sample], np.ptp(points, axis=0) > 0
    every, points, targets = points, points[sample], targets[sample]
    if has_unseen(targets):
        features, prior = features_for_unseen(points, targets, budget, monotonic, random)
        return replace(features, levels=levels), prior
    if not varying.any():
        mean, prior = constant_feature(points.shape[1], monotonic)
        return replace(mean, levels=levels), prior
    relevant, lengths = relevant_inputs(points, targets, varying, random)
    coarse = coarse_splines(points, targets, relevant, int(RULES.spline_share * budget))
    phi = coarse(points)
    left = targets - phi @ posterior_of(phi, targets, Prior.flat(coarse.sizes), RULES.coarse_steps).weights
    finest = MODEL_RULES.finest(*sizes, MODEL_RULES.terms_per_basis * budget)
    is_number = ~np.isin(np.arange(len(relevant)), levels)
    # functions of one or two inputs are two-sided
    wanted = finer_splines(
        points * (relevant & is_number),
        left,
        int(RULES.spline_share * budget),
        finest if monotonic else FINEST,
    )
    if fewest > 1:
        coarser = [(j, finest_with_rows(every[:, j], density, fewest)) for j, density in wanted]
        wanted = tuple(pair for pair in coarser if pair[1] > COARSE)
    fine = tuple(pair for pair in wanted if pair[1] <= finest)
    alone = tuple(bases_along(*pair, points.shape[1]) for pair in wanted if pair[1] > finest)
    linear = replace(coarse, fine=fine, radial_bases=alone, monotonic=monotonic, levels=levels)
    features, prior = with_bases(linear, points, targets, lengths, budget, random)
    if monotonic or not pairs:
        return features, prior
    return with_pairs(features, prior, points, targets, random, alone)


def finest_with_rows(values: Array, density: int, fewest: int) -> int:
    """Highest density, at most that, whose functions each have so many values or none; 0 if there is none."""
    for finer in range(density, COARSE, -1):
        counts = (Features(1, (), ((0, finer),), ())(values[:, None]) > 0).sum(axis=0)
        if ((counts == 0) | (counts >= fewest)).all():
            return finer
    return COARSE


def bases_along(j: int, density: int, inputs: int) -> RadialBasis:
    """Functions of one input, as many as its splines of a density, with the length of their cells as scale.

    Finer splines would need a table of that density for all terms, which exceeds the limits of a model of
    many outputs; a radial basis function is one more term. With 200 classes that are bins of one input, log
    loss is 0.188 with either, and 2.77 with the finest splines within the limits.
    """
    centres, lengths = np.full((splines.basis_size(density), inputs), 0.5), np.full(inputs, np.inf)
    centres[:, j], lengths[j] = np.linspace(0, 1, len(centres)), 1 / splines.cell_count(density)
    return RadialBasis(centres, lengths)


def constant_feature(inputs: int, monotonic: Monotonic) -> tuple[Features, Prior]:
    """The constant feature alone, if no input varies: an effect of other values cannot be estimated.

    Its prior stays flat. Standardised targets have mean zero, so a prior learned from them would keep the
    constant at zero: a thousand later rows hardly moved it.
    """
    features = Features(inputs, (), (), (), monotonic)
    return features, replace(Prior.flat(features.sizes, steps=0), cone=features.cone)


def relevant_inputs(
    points: Array, targets: Array, varying: NDArray[np.bool_], random: np.random.Generator
) -> tuple[NDArray[np.bool_], Array]:
    """Mask of the relevant inputs, shape (inputs,), and length scales, infinite for irrelevant ones.

    A constant input is irrelevant: its spline would be a second constant, and predictions would change
    without reason at another value. In a wide table an input is relevant if its spline increases the marginal
    likelihood, or if its length scale is short, since it may then act in interactions. Length scales are then
    found again without the irrelevant inputs.
    """
    if not varying.all():
        relevant, lengths = varying.copy(), np.full(len(varying), np.inf)
        of_varying = relevant_inputs(points[:, varying], targets, varying[varying], random)
        relevant[varying], lengths[varying] = of_varying
        return relevant, lengths
    lengths = length_scales(points, targets, random)
    inputs = points.shape[1]
    if inputs <= RULES.wide_table:
        return np.ones(inputs, np.bool_), lengths
    usual = np.sqrt(inputs) * (points.std(axis=0) + 1e-3)  # of length scales
    relevant = (coarse_gains(points, targets) > 0) | (usual / lengths > RULES.relevance)
    if relevant.any():
        lengths = np.full(inputs, np.inf)
        lengths[relevant] = length_scales(points[:, relevant], targets, random)
    return relevant, lengths


def coarse_splines(points: Array, targets: Array, relevant: NDArray[np.bool_], budget: int) -> Features:
    """Splines of density 0 for relevant inputs; linear functions for binary ones, or if there are too many.

    Where the budget does not suffice for splines of all inputs, the inputs that gain most by theirs have
    splines and all others are linear. Of more inputs than the budget, the best are linear.
    """
    inputs, is_linear = np.flatnonzero(relevant), has_two_values(points)[relevant]
    functions, left = splines.basis_size(COARSE), budget - len(inputs)
    if left < (functions - 1) * (~is_linear).sum():
        ranked = np.argsort(coarse_gains(points[:, inputs], targets))[::-1][:budget]
        curved = ranked[~is_linear[ranked]][: max(left, 0) // (functions - 1)]
        kept = np.sort(ranked)
        inputs, is_linear = inputs[kept], ~np.isin(kept, curved)
    coarse, linear = (tuple(inputs[mask].tolist()) for mask in (~is_linear, is_linear))
    return Features(points.shape[1], coarse, (), (), linear=linear)


def has_two_values(points: Array) -> NDArray[np.bool_]:
    """Mask of the inputs with two values that are far apart, as indicators have: shape (inputs,)."""
    low, high = points.min(axis=0), points.max(axis=0)
    return np.asarray((high - low > RULES.least_apart) & ((points == low) | (points == high)).all(axis=0))


def with_bases(
    features: Features,
    points: Array,
    targets: Array,
    lengths: Array,
    budget: int,
    random: np.random.Generator,
) -> tuple[Features, Prior]:
    """Features with radial basis functions of equal or several widths, by marginal likelihood; and a prior.

    Functions of one input that are there already stay, and come last. Widths are compared on a sample with a
    part of the functions: the cost is cubic in these and linear in the rows.
    """
    share = max(budget - len(features), 0) // (
        len(RULES.widths[0]) * len(shapes_for(lengths, features.monotonic))
    )
    if not share:
        return features, replace(Prior.flat(features.sizes), cone=features.cone)
    fewer = -(-share // RULES.trial_share)
    some, aims = points[: RULES.trial], targets[: RULES.trial]
    trials = [with_widths(features, widths, some, lengths, fewer, random) for widths in RULES.widths]
    flat = [replace(Prior.flat(trial.sizes), cone=trial.cone) for trial in trials]
    found = [
        posterior_of(trial(some), aims, prior, RULES.trial_steps)
        for trial, prior in zip(trials, flat, strict=True)
    ]
    best = int(np.argmax([posterior.log_marginal_likelihood for posterior in found]))
    chosen = with_widths(features, RULES.widths[best], points, lengths, share, random)
    return chosen, replace(found[best].prior, sizes=chosen.sizes, cone=chosen.cone)


def with_widths(
    features: Features,
    widths: Sequence[float | None],
    points: Array,
    lengths: Array,
    count: int,
    random: np.random.Generator,
) -> Features:
    """Features with a group of at most so many radial basis functions for each width and shape."""
    scales = [basis_lengths(width, lengths, points) for width in widths]
    groups = tuple(
        RadialBasis.around(scatter_centres(points, shape, count, random), shape, sides)
        for scale in scales
        for shape, sides in shapes_for(scale, features.monotonic)
    )
    return replace(features, radial_bases=(*groups, *features.radial_bases))


def with_pairs(
    features: Features,
    prior: Prior,
    points: Array,
    targets: Array,
    random: np.random.Generator,
    alone: tuple[RadialBasis, ...] = (),
) -> tuple[Features, Prior]:
    """Features in which functions of pairs of inputs replace half of the others, if that pays; and a prior.

    Functions of one input, which come last, stay.
    """
    own = features.radial_bases[: len(features.radial_bases) - len(alone)]
    room = sum(len(group.centres) for group in own)
    pairs = best_pairs(features, points, targets) if room >= RULES.least_paired else ()
    if pairs:
        shapes = [pair_lengths(pair, points, int(RULES.pair_share * room) // len(pairs)) for pair in pairs]
        paired = [RadialBasis(scatter_centres(points, *shape, random), shape[0]) for shape in shapes]
        share = (room - sum(len(group.centres) for group in paired)) // len(own)
        groups = [RadialBasis(scatter_centres(points, g.lengths, share, random), g.lengths) for g in own]
        candidate = replace(features, radial_bases=(*groups, *paired, *alone))
        other = posterior_of(candidate(points), targets, Prior.flat(candidate.sizes), RULES.trial_steps)
        without = posterior_of(features(points), targets, prior, RULES.trial_steps)
        if other.log_marginal_likelihood > without.log_marginal_likelihood + SELECTION_RULES.pairs_gain:
            return candidate, other.prior
    return features, prior


def best_pairs(features: Features, points: Array, targets: Array) -> tuple[tuple[int, int], ...]:
    """Pairs of inputs with an interaction in the residuals of the splines; none if only two inputs remain."""
    lengths = features.radial_bases[0].lengths / (points.std(axis=0) + 1e-3)
    inputs = np.sort(np.argsort(lengths)[: RULES.most_paired])
    inputs = inputs[np.isfinite(lengths[inputs])]
    if len(inputs) <= 2:
        return ()
    additive = replace(features, radial_bases=())
    phi = additive(points)
    left = targets - phi @ posterior_of(phi, targets, Prior.flat(additive.sizes), RULES.trial_steps).weights
    return tuple((int(inputs[i]), int(inputs[j])) for i, j in interacting_pairs(points[:, inputs], left))


def pair_lengths(pair: tuple[int, int], points: Array, count: int) -> tuple[Array, int]:
    """Length scales with which so many functions of two inputs cover the unit square, and their number.

    An input of few values, such as a category, needs no more functions than values; the other gets more.
    """
    values = [len(np.unique(points[:, j])) for j in pair]
    even = np.sqrt(count)
    sides = [
        max(min(own, max(even, count / other)), 1) for own, other in zip(values, values[::-1], strict=True)
    ]
    lengths = np.full(points.shape[1], np.inf)
    lengths[list(pair)] = 1 / np.array(sides)
    return lengths, count


def shapes_for(lengths: Array, monotonic: Monotonic) -> list[tuple[Array, tuple[int, ...]]]:
    """Length scales and one-sided directions of radial basis functions, equation (36).

    Along monotone inputs some functions are constant, some increase and some decrease: along one such input,
    or along all of them together.
    """
    if not monotonic:
        return [(lengths, ())]
    directions = np.array(monotonic[0])
    alone = [np.where(np.arange(len(directions)) == j, directions, 0) for j in np.flatnonzero(directions)]
    together = [directions] if len(alone) > 1 else []
    shapes = [np.zeros_like(directions), *(alone if len(alone) <= RULES.most_alone else []), *together]
    scales = [np.where((directions != 0) & (sides == 0), np.inf, lengths) for sides in shapes]
    return [
        (scale, tuple((sign * sides).tolist()))
        for scale, sides in zip(scales, shapes, strict=True)
        for sign in ((1, -1) if sides.any() else (1,))
        if np.isfinite(scale).any()
    ]


def basis_lengths(width: float | None, lengths: Array, points: Array) -> Array:
    """Length scales of functions of a given width."""
    return RULES.rough * np.sqrt(lengths * (points.std(axis=0) + 1e-3)) if width is None else width * lengths


def features_for_unseen(
    points: Array, targets: Array, budget: int, monotonic: Monotonic, random: np.random.Generator
) -> tuple[Features, Prior]:
    """Features for outputs that are constant so far, such as a class without rows: nothing can be selected.

    All inputs have one length scale; each coordinate of a centre is that of a cluster of rows or random, with
    equal probability.
    """
    every = np.ones(points.shape[1], np.bool_)
    coarse = coarse_splines(points, targets, every, int(RULES.spline_share * budget))
    count = max(budget - len(coarse), 0)
    lengths = np.full(coarse.inputs, RULES.unseen_length * np.sqrt(coarse.inputs))
    clusters = scatter_centres(points, lengths, count, random) if count else points[:0]
    near = clusters[random.integers(max(len(clusters), 1), size=count)]
    centres = np.where(random.random(near.shape) < 0.5, near, random.random(near.shape))
    shapes = shapes_for(lengths, monotonic)
    parts = np.array_split(centres, len(shapes))
    radial_bases = (RadialBasis.around(part, *shape) for part, shape in zip(parts, shapes, strict=True))
    features = replace(coarse, radial_bases=tuple(radial_bases), monotonic=monotonic)
    return features, replace(Prior.flat(features.sizes, steps=RULES.unseen_steps), cone=features.cone)


def scatter_centres(points: Array, lengths: Array, count: int, random: np.random.Generator) -> Array:
    """Centres of clusters of points by k-means, shape (at most count, inputs): at least one.

    None is a row: each is the mean of several, rounded to a grid. Clusters of fewer rows have no centre; if
    all are so small, the only centre is the mean of all rows. Along irrelevant inputs all centres are at 0.5.
    """
    finite = np.isfinite(lengths)
    scaled = (points[:, finite] / lengths[finite]).astype(np.float32)  # precise enough for centres
    distinct = scaled[first_occurrences(scaled)]
    centres = distinct[random.permutation(len(distinct))[:count]]
    for _ in range(RULES.rounds):
        nearest = ((centres**2).sum(axis=1) - scaled @ (2 * centres).T).argmin(axis=1)
        order = np.argsort(nearest, kind="stable")
        there, starts, sizes = np.unique(nearest[order], return_index=True, return_counts=True)
        centres[there] = np.add.reduceat(scaled[order], starts, axis=0) / sizes[:, None]
    enough = there[sizes >= ROWS_A_CENTRE]
    centres = centres[enough] if len(enough) else scaled.mean(axis=0, keepdims=True)
    scattered = np.full((len(centres), points.shape[1]), 0.5)
    scattered[:, finite] = np.rint(centres * lengths[finite] * CENTRE_GRID) / CENTRE_GRID
    return scattered


def first_occurrences(rows: NDArray[np.floating]) -> NDArray[np.intp]:
    """First occurrences of distinct rows by a 64-bit hash: sorting rows would take as long as k-means."""
    hashes = np.zeros(len(rows), np.uint64)
    kernels.mix_rows(hashes, rows)
    return np.unique(hashes, return_index=True)[1]


NIL = 0.5 / UNIT  # a feature below this is rounded to zero in the statistics


def missing_bases(features: Features, points: Array, phi: Array, most: int) -> tuple[Array, ...]:
    """Centres that a group lacks: those of clusters of rows that none of its functions reaches.

    Parameters
    ----------
    features
        The present features.
    points, phi
        New rows and their features; rows outside the unit cube, where features are constant, are left out.
    most
        Most centres to add.

    Returns
    -------
    tuple with the centres for each group, shape (functions, inputs)

    Examples
    --------
    >>> from atlas_splines.memory.features import RadialBasis
    >>> features = Features(1, (0,), (), (RadialBasis(np.array([[0.1]]), np.array([0.02])),))
    >>> points = np.linspace(0.5, 1, 40)[:, None]
    >>> [centres.shape for centres in missing_bases(features, points, features(points), most=100)]
    [(8, 1)]
    """
    inside = ((points >= 0) & (points <= 1)).all(axis=1)
    begin = len(features) - sum(len(group.centres) for group in features.radial_bases)
    missing = []
    for group in features.radial_bases:
        values = phi[:, begin : begin + len(group.centres)]
        begin += len(group.centres)
        unreached = points[inside & (values.max(axis=1) < NIL)]
        grows = len(unreached) >= RULES.unreached and not any(
            group.sides
        )  # one-sided ones reach all rows on a side
        centres = unreached_centres(group, unreached, most) if grows and most else unreached[:0]
        missing.append(centres)
        most -= len(centres)
    return tuple(missing)


def unreached_centres(group: RadialBasis, rows: Array, most: int) -> Array:
    """Centres for rows, at most so many: means of neighbours, none of which is a row, on a grid.

    The mean of rows on both sides of a present centre may lie near it, and the mean of distant rows may reach
    hardly any of them; such centres are left out.
    """
    small = rows.astype(np.float32)
    # a box has about half as many rows at least: so many boxes there are at most
    size = max(2 * ROWS_A_CENTRE - 1, int(len(rows) / (RULES.even_cut * most)) + 1)
    boxes = Boxes.of(small, 1 / group.lengths, BoxRules(most_rows=size, least_share=RULES.even_cut)).split(
        small
    )
    means = np.array([rows[inside].mean(axis=0) for inside in boxes])
    centres = np.rint(means * CENTRE_GRID) / CENTRE_GRID
    reached = (replace(group, centres=centres)(rows) >= NIL).sum(axis=0)
    return np.asarray(centres[(group(centres).max(axis=1) < NIL) & (reached >= ROWS_A_CENTRE)])
