"""The features that suit the first rows, by marginal likelihood, and centres added where later rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.features import COARSE, FINEST, SIDED, Features, RadialBasis
from atlas_splines.memory.posterior import Posterior, Prior, learn_prior, posterior_of, solve
from atlas_splines.memory.selection import (
    PAIRS_GAIN,
    coarse_gains,
    finer_splines,
    interacting_pairs,
    kept_features,
    length_scales,
    pruned_prior,
)
from atlas_splines.memory.statistics import UNIT, Statistics
from atlas_splines.memory.to_atlas import BUMPS, RULES
from atlas_splines.model import kernels, splines
from atlas_splines.model.local_terms import Boxes, BoxRules
from atlas_splines.model.state import Monotonic

__all__ = [
    "CENTRE_GRID",
    "ROWS_A_CENTRE",
    "FeaturePieces",
    "InitialFit",
    "choose_features",
    "design",
    "fit_features",
    "missing_bases",
    "out_of_sample_of",
]

Array = NDArray[np.float64]

LEAST_FEATURES = 8  # whatever the budget
ROWS_A_FEATURE = (
    1.5  # at least; with 1 errors are the same, with 2 those of the table `concrete` are 8 % larger
)
SPLINE_SHARE = 0.5  # of the budget that coarse splines may take, and finer ones on top
JUDGED = 3000  # rows that features are chosen on
WIDE_TABLE = 32  # inputs, up to which each keeps its spline: an input may come to matter later
TELLING = 1.3  # over the usual 1/length, for which an input of a wide table matters without a spline
LEAST_APART = 0.5  # of two values whose one function is the coordinate: nearer ones would need large weights
WIDTHS = ((1.0, 1.0, 1.0), (1.0, 0.5, None))  # of groups of bumps, in length scales; None is rough
MOST_ALONE = 3  # inputs that outputs follow, up to which each has bumps of its own
ROUGH = 0.2  # of √(length · spread): for what is local in every input that matters
LEAST_PAIRED = 100  # bumps, of fewer of which pairs get none
MOST_PAIRED = 40  # inputs whose pairs are looked at: those along which data varies fastest
PAIR_SHARE = 0.5  # of the bumps that pairs get
TRIAL = 1000  # rows that widths of bumps are chosen on; with 700, errors of the table `kin8nm` are 3 % larger
TRIAL_SHARE = 2  # one of so many bumps is there then; with one of 3, two of six choices for airfoil are wrong
COARSE_STEPS = 2  # towards the prior of coarse splines; with 3, errors of the table `energy` are 2 % larger
JUDGING_STEPS = 3  # towards the prior of a choice; with 2, one of 40 updates without noise is refused
LEARNING_STEPS = 3  # towards the prior of what was chosen
ROUNDS = 3  # of k-means
ROWS_A_CENTRE = (
    5  # whose mean it is, at least: of 15 tables, the error of one is 7 % larger, of one 4 % smaller
)
CENTRE_GRID = (
    64  # steps of an input that centres lie on: from a mean and all rows but one, that one is not found
)
UNSEEN_LENGTH = 1 / 6  # length scale over √inputs, where little is known
UNSEEN_STEPS = 3  # towards a prior, where little is known
PIECE = 2048  # rows whose features are held at once: little enough for the allocator to use memory again
SMALL_LEVERAGE = 0.07  # of a row: up to here an estimate will do
LEVERAGE_PROBES = 64  # of an estimate: it is off by √(2/64), a sixth of itself
MANY_ROWS = 5  # for each feature, from which on leverages are estimated
MOST_LEVERAGE = 0.999  # of a row on its own prediction


@dataclass(frozen=True, eq=False)
class InitialFit:
    """Features for data, and the readout of it.

    Attributes
    ----------
    features
        The features.
    statistics
        Sums of the data.
    posterior
        What they say.
    out_of_sample
        What the readout of all other rows says of each row, shape (rows, outputs): no row predicts itself.
        No rows if that was not asked for.
    prior
        The prior that the readout was solved from, if that is another than its own.
    """

    features: Features
    statistics: Statistics
    posterior: Posterior
    out_of_sample: Array
    prior: Prior | None = None


def design(
    points: Array, targets: Array, budget: int = 550, seed: int = 0, monotonic: Monotonic = ()
) -> tuple[Features, Posterior]:
    """Choose features for data by the marginal likelihood; returns them with the readout of this data.

    Parameters
    ----------
    points
        Points of the unit cube, shape (rows, inputs).
    targets
        Standardised targets, shape (rows, outputs).
    budget
        Number of features at most; with few rows there are fewer, two for every three rows.
    seed
        Of the choice of rows and centres.
    monotonic
        Which way each output has to go along each input; empty if all are free.

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
    """Choose features for data, and solve for the readout of all of it.

    Parameters
    ----------
    points, targets, budget, seed, monotonic
        As in `design`.
    weights
        Weight of each row, about 1; shape (rows,).
    is_out_of_sample
        Whether to tell what others say of each row.
    pairs
        Whether some bumps may be of two inputs only.
    tolerance
        Share by which errors may grow for the sake of fewer features.
    levels
        Inputs whose coordinates are levels. The sums have no part by level: a fit chooses the coordinate of a
        level for each row without that row, so that it does not name the level.
    fewest
        Rows that each bump, and each function of a finer spline that has any, must have. The sums of a
        feature that is zero for all rows but one are the features of that row.

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
        posterior = learn_prior(statistics, prior, LEARNING_STEPS)
        kept = kept_features(features, statistics, posterior, tolerance)
        if not kept.all():
            features, statistics = features.with_only(kept), statistics.narrowed(np.flatnonzero(kept))
            posterior = learn_prior(statistics, pruned_prior(posterior.prior, kept), LEARNING_STEPS)
    told = slice(None if is_out_of_sample else 0)
    out_of_sample = out_of_sample_of(features, points[told], targets[told], weights, posterior)
    return InitialFit(features, statistics, posterior, out_of_sample)


def reached_bases(features: Features, points: Array, fewest: int) -> NDArray[np.bool_]:
    """Mask of the features without bumps that fewer rows than that reach."""
    counts = sum((features(points[rows]) * UNIT >= 0.5).sum(axis=0) for rows in pieces(len(points)))
    begin = len(features) - sum(len(group.centres) for group in features.radial_bases)
    return np.asarray((np.arange(len(features)) < begin) | (counts >= fewest))


def pieces(rows: int) -> list[slice]:
    """Cuts of rows, in order."""
    return [slice(begin, begin + PIECE) for begin in range(0, rows, PIECE)]


@dataclass(frozen=True, eq=False)
class FeaturePieces:
    """Features of rows that were asked for before, piece by piece: for speed alone.

    Rows come at the end, so whole pieces stay as they are. A piece is always of the same rows, for a product
    of matrices may round a row otherwise in other company.

    Attributes
    ----------
    most
        Bytes that are remembered at most.
    known
        Features, points and what the former are of them, by the number of the piece.

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
    """What the readout of all other rows says of each: y − e/(1 − h), for its error e and leverage h."""
    out_of_sample = np.empty(targets.shape)
    has_many = len(points) > MANY_ROWS * len(features)  # of fewer most leverages are large
    sketch = posterior.sketched(LEVERAGE_PROBES) if has_many else None
    for rows in pieces(len(points)):
        phi = features(points[rows]) if known is None else known.of(features, points, rows)
        leverage = leverages_of(phi, posterior, sketch) * (1 if weights is None else weights[rows])
        error = targets[rows] - phi @ posterior.weights
        out_of_sample[rows] = targets[rows] - error / (1 - np.minimum(leverage, MOST_LEVERAGE))[:, None]
    return out_of_sample


def leverages_of(phi: Array, posterior: Posterior, sketch: Array | None) -> Array:
    """Leverage of each row, shape (rows,), in float32; with a sketch, small ones are estimates.

    An estimate is off by about a sixth of itself, which is little beside 1 where the leverage is small:
    errors ahead of 4,500 to 36,000 rows differ by 0.1 to 0.8 %, their mean square by 0.4 % at most.
    """
    if sketch is None:
        return posterior.leverage(phi.astype(np.float32)).astype(np.float64)
    leverage = np.square(phi @ sketch).sum(axis=1)
    large = leverage > SMALL_LEVERAGE
    if large.any():
        leverage[large] = posterior.leverage(phi[large].astype(np.float32))
    return np.asarray(leverage)


def has_unseen(targets: Array) -> bool:
    """Whether an output has not varied yet, such as a class to come."""
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
    """Features for data and the prior that suits a sample of it.

    An input of levels has coarse splines alone, besides bumps: its coordinate is an effect already, and finer
    ones would learn the rows of a new level as a needle at the place of the population.
    """
    random = np.random.default_rng(seed)
    sizes = (points.shape[1], targets.shape[1])
    affordable = RULES.most_centres(*sizes, SIDED if monotonic else BUMPS)
    budget = max(min(budget, int(len(points) / ROWS_A_FEATURE), affordable), LEAST_FEATURES)
    assessed, varying = random.permutation(len(points))[:JUDGED], np.ptp(points, axis=0) > 0
    every, points, targets = points, points[assessed], targets[assessed]
    if has_unseen(targets):
        out_of_fold_rows, prior = features_for_unseen(points, targets, budget, monotonic, random)
        return replace(out_of_fold_rows, levels=levels), prior
    if not varying.any():
        mean, prior = mean_alone(points.shape[1], monotonic)
        return replace(mean, levels=levels), prior
    relevant, lengths = relevant_inputs(points, targets, varying, random)
    coarse = coarse_splines(points, targets, relevant, int(SPLINE_SHARE * budget))
    phi = coarse(points)
    left = targets - phi @ posterior_of(phi, targets, Prior.flat(coarse.sizes), COARSE_STEPS).weights
    finest = RULES.finest(*sizes, RULES.terms_per_basis * budget)
    is_number = ~np.isin(np.arange(len(relevant)), levels)
    # bumps of one or two inputs have both sides
    wanted = finer_splines(
        points * (relevant & is_number), left, int(SPLINE_SHARE * budget), finest if monotonic else FINEST
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
    """The finest density of splines, at most that, whose functions have so many values each or none; or 0."""
    for finer in range(density, COARSE, -1):
        counts = (Features(1, (), ((0, finer),), ())(values[:, None]) > 0).sum(axis=0)
        if ((counts == 0) | (counts >= fewest)).all():
            return finer
    return COARSE


def bases_along(j: int, density: int, inputs: int) -> RadialBasis:
    """Bumps of one input, as many as its splines of a density, whose cells are the length scale.

    Finer splines would give a table that density for all its terms, which a model of many outputs has no room
    for; a bump is one more term. Of 200 classes that are bins of one input, log loss is 0.188 with either,
    and 2.77 with the finest splines that there is room for.
    """
    centres, lengths = np.full((splines.basis_size(density), inputs), 0.5), np.full(inputs, np.inf)
    centres[:, j], lengths[j] = np.linspace(0, 1, len(centres)), 1 / splines.cell_count(density)
    return RadialBasis(centres, lengths)


def mean_alone(inputs: int, monotonic: Monotonic) -> tuple[Features, Prior]:
    """The constant feature, where no input varies: other values of theirs have no reason to matter.

    Its prior stays flat. Standardised targets have a mean of zero, and a prior that is learned from them
    expects it to be zero for ever: then a thousand later rows hardly moved it.
    """
    features = Features(inputs, (), (), (), monotonic)
    return features, replace(Prior.flat(features.sizes, steps=0), cone=features.cone)


def relevant_inputs(
    points: Array, targets: Array, varying: NDArray[np.bool_], random: np.random.Generator
) -> tuple[NDArray[np.bool_], Array]:
    """Which inputs matter, shape (inputs,), and the length scale of each, infinite for those that do not.

    One that has the same value in all rows does not: its spline would be a second constant, and predictions
    would fall without reason where another value comes. Of a wide table an input matters if its spline gains
    evidence, or if it is short of length: then it may only matter together with others. Length scales are
    found again without those that do not matter.
    """
    if not varying.all():
        relevant, lengths = varying.copy(), np.full(len(varying), np.inf)
        of_varying = relevant_inputs(points[:, varying], targets, varying[varying], random)
        relevant[varying], lengths[varying] = of_varying
        return relevant, lengths
    lengths = length_scales(points, targets, random)
    inputs = points.shape[1]
    if inputs <= WIDE_TABLE:
        return np.ones(inputs, np.bool_), lengths
    usual = np.sqrt(inputs) * (points.std(axis=0) + 1e-3)  # times 1/length it is about 1
    relevant = (coarse_gains(points, targets) > 0) | (usual / lengths > TELLING)
    if relevant.any():
        lengths = np.full(inputs, np.inf)
        lengths[relevant] = length_scales(points[:, relevant], targets, random)
    return relevant, lengths


def coarse_splines(points: Array, targets: Array, relevant: NDArray[np.bool_], budget: int) -> Features:
    """Splines of density 0 for inputs that matter; linear functions where these have two values, or are many.

    Where the budget does not allow splines for all of them, the inputs that gain most by theirs have splines,
    and all others are linear: each has a share. Of more inputs than the budget has room for, the best are
    linear.
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
    """Which inputs have two values, far apart as those of an indicator are: shape (inputs,)."""
    low, high = points.min(axis=0), points.max(axis=0)
    return np.asarray((high - low > LEAST_APART) & ((points == low) | (points == high)).all(axis=0))


def with_bases(
    features: Features,
    points: Array,
    targets: Array,
    lengths: Array,
    budget: int,
    random: np.random.Generator,
) -> tuple[Features, Prior]:
    """Features with bumps, of equal width or of several, whichever raises the evidence more; and a prior.

    Those of one input that are there already stay, and come last. Widths are compared with some of the bumps
    on some of the rows: the cost is cubic in the one and linear in the other.
    """
    share = max(budget - len(features), 0) // (len(WIDTHS[0]) * len(shapes_for(lengths, features.monotonic)))
    if not share:
        return features, replace(Prior.flat(features.sizes), cone=features.cone)
    fewer = -(-share // TRIAL_SHARE)
    some, aims = points[:TRIAL], targets[:TRIAL]
    trials = [with_widths(features, widths, some, lengths, fewer, random) for widths in WIDTHS]
    flat = [replace(Prior.flat(trial.sizes), cone=trial.cone) for trial in trials]
    found = [
        posterior_of(trial(some), aims, prior, JUDGING_STEPS)
        for trial, prior in zip(trials, flat, strict=True)
    ]
    best = int(np.argmax([posterior.log_marginal_likelihood for posterior in found]))
    chosen = with_widths(features, WIDTHS[best], points, lengths, share, random)
    return chosen, replace(found[best].prior, sizes=chosen.sizes, cone=chosen.cone)


def with_widths(
    features: Features,
    widths: Sequence[float | None],
    points: Array,
    lengths: Array,
    count: int,
    random: np.random.Generator,
) -> Features:
    """Features with a group of so many bumps, at most, for each width and shape."""
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
    """Features of which half the bumps give way to some of two inputs, where that pays; and a prior.

    Those of one input, which come last, stay.
    """
    own = features.radial_bases[: len(features.radial_bases) - len(alone)]
    room = sum(len(group.centres) for group in own)
    pairs = best_pairs(features, points, targets) if room >= LEAST_PAIRED else ()
    if pairs:
        shapes = [pair_lengths(pair, points, int(PAIR_SHARE * room) // len(pairs)) for pair in pairs]
        paired = [RadialBasis(scatter_centres(points, *shape, random), shape[0]) for shape in shapes]
        share = (room - sum(len(group.centres) for group in paired)) // len(own)
        groups = [RadialBasis(scatter_centres(points, g.lengths, share, random), g.lengths) for g in own]
        candidate = replace(features, radial_bases=(*groups, *paired, *alone))
        other = posterior_of(candidate(points), targets, Prior.flat(candidate.sizes), JUDGING_STEPS)
        without = posterior_of(features(points), targets, prior, JUDGING_STEPS)
        if other.log_marginal_likelihood > without.log_marginal_likelihood + PAIRS_GAIN:
            return candidate, other.prior
    return features, prior


def best_pairs(features: Features, points: Array, targets: Array) -> tuple[tuple[int, int], ...]:
    """Pairs of inputs that what splines leave depends on; of two inputs all bumps are such a pair."""
    lengths = features.radial_bases[0].lengths / (points.std(axis=0) + 1e-3)
    inputs = np.sort(np.argsort(lengths)[:MOST_PAIRED])
    inputs = inputs[np.isfinite(lengths[inputs])]
    if len(inputs) <= 2:
        return ()
    additive = replace(features, radial_bases=())
    phi = additive(points)
    left = targets - phi @ posterior_of(phi, targets, Prior.flat(additive.sizes), JUDGING_STEPS).weights
    return tuple((int(inputs[i]), int(inputs[j])) for i, j in interacting_pairs(points[:, inputs], left))


def pair_lengths(pair: tuple[int, int], points: Array, count: int) -> tuple[Array, int]:
    """Length scales for which so many bumps of two inputs cover the unit square, and their number.

    An input of few values, such as a category, needs no more bumps than it has values; the other gets more.
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
    """Length scales and sides of bumps, equation (36).

    Along inputs that outputs have to follow some bumps are constant, some rise with them, and some fall:
    along one such input, or along all of them together.
    """
    if not monotonic:
        return [(lengths, ())]
    ways = np.array(monotonic[0])
    alone = [np.where(np.arange(len(ways)) == j, ways, 0) for j in np.flatnonzero(ways)]
    together = [ways] if len(alone) > 1 else []
    shapes = [np.zeros_like(ways), *(alone if len(alone) <= MOST_ALONE else []), *together]
    scales = [np.where((ways != 0) & (sides == 0), np.inf, lengths) for sides in shapes]
    return [
        (scale, tuple((turn * sides).tolist()))
        for scale, sides in zip(scales, shapes, strict=True)
        for turn in ((1, -1) if sides.any() else (1,))
        if np.isfinite(scale).any()
    ]


def basis_lengths(width: float | None, lengths: Array, points: Array) -> Array:
    """Length scales of bumps of a width."""
    return ROUGH * np.sqrt(lengths * (points.std(axis=0) + 1e-3)) if width is None else width * lengths


def features_for_unseen(
    points: Array, targets: Array, budget: int, monotonic: Monotonic, random: np.random.Generator
) -> tuple[Features, Prior]:
    """Features where an output has not varied yet, such as a class to come: what will matter is not known.

    All inputs have one length scale; a coordinate of a centre is that of a cluster of rows, or random, with
    even chances.
    """
    every = np.ones(points.shape[1], np.bool_)
    coarse = coarse_splines(points, targets, every, int(SPLINE_SHARE * budget))
    count = max(budget - len(coarse), 0)
    lengths = np.full(coarse.inputs, UNSEEN_LENGTH * np.sqrt(coarse.inputs))
    clusters = scatter_centres(points, lengths, count, random) if count else points[:0]
    near = clusters[random.integers(max(len(clusters), 1), size=count)]
    centres = np.where(random.random(near.shape) < 0.5, near, random.random(near.shape))
    shapes = shapes_for(lengths, monotonic)
    parts = np.array_split(centres, len(shapes))
    radial_bases = (RadialBasis.around(part, *shape) for part, shape in zip(parts, shapes, strict=True))
    features = replace(coarse, radial_bases=tuple(radial_bases), monotonic=monotonic)
    return features, replace(Prior.flat(features.sizes, steps=UNSEEN_STEPS), cone=features.cone)


def scatter_centres(points: Array, lengths: Array, count: int, random: np.random.Generator) -> Array:
    """Centres of clusters of points by k-means, shape (≤ count, inputs): at least one.

    None is a row: each is the mean of several, on a grid. Clusters of fewer rows have no centre; if all are
    so small, there is one, the mean of all rows. Inputs without a length scale have no say, and all centres
    are in the middle of them.
    """
    finite = np.isfinite(lengths)
    scaled = (points[:, finite] / lengths[finite]).astype(np.float32)  # centres need no more digits
    distinct = scaled[first_occurrences(scaled)]
    centres = distinct[random.permutation(len(distinct))[:count]]
    for _ in range(ROUNDS):
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
    """Numbers of rows that differ, by a hash of 64 bits: to sort whole rows takes as long as k-means."""
    hashes = np.zeros(len(rows), np.uint64)
    kernels.mix_rows(hashes, rows)
    return np.unique(hashes, return_index=True)[1]


NIL = 0.5 / UNIT  # a feature below this counts as zero
LEAST_ROWS = 20  # that no bump of a group reaches; fewer are outliers
ROWS_A_BUMP = ROWS_A_CENTRE
EVEN = 0.45  # share of the rows on either side of a cut: of ten rows or more these are five


def missing_bases(features: Features, points: Array, phi: Array, most: int) -> tuple[Array, ...]:
    """Centres of bumps that a group lacks: those of clusters of rows that none of its bumps reaches.

    Parameters
    ----------
    features
        The features that are there.
    points, phi
        New rows and their features; those outside the unit cube, where features end, are left out.
    most
        Bumps that may be added, at most.

    Returns
    -------
    tuple with the centres for each group, shape (bumps, inputs)

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
        grows = len(unreached) >= LEAST_ROWS and not any(group.sides)  # with one side it reaches rows before
        centres = unreached_centres(group, unreached, most) if grows and most else unreached[:0]
        missing.append(centres)
        most -= len(centres)
    return tuple(missing)


def unreached_centres(group: RadialBasis, rows: Array, most: int) -> Array:
    """Centres for rows, at most so many: means of neighbours, none of which is a row, on a grid.

    The mean of rows on both sides of a bump that is there may lie near it, and one of rows that are far apart
    may reach hardly any of them; such centres are left out.
    """
    small = rows.astype(np.float32)
    # a box has about half as many rows at least: so many boxes there are at most
    size = max(2 * ROWS_A_BUMP - 1, int(len(rows) / (EVEN * most)) + 1)
    boxes = Boxes.of(small, 1 / group.lengths, BoxRules(most_rows=size, least_share=EVEN)).split(small)
    means = np.array([rows[inside].mean(axis=0) for inside in boxes])
    centres = np.rint(means * CENTRE_GRID) / CENTRE_GRID
    reached = (replace(group, centres=centres)(rows) >= NIL).sum(axis=0)
    return np.asarray(centres[(group(centres).max(axis=1) < NIL) & (reached >= ROWS_A_BUMP)])
