"""Stacking of classes: the sum of solved and of trained scores that makes held-out rows most likely.

What is solved is smooth and knows how sure it is; a few trained pairs of exponentials find edges and products
that it lacks. Their weighted sum is one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from atlas_splines.core.growing import Grown, Split, grow, start_terms, train_density
from atlas_splines.core.history import TrainingDiverged
from atlas_splines.core.mixing import mixture, placed
from atlas_splines.core.model import Atlas
from atlas_splines.core.monotone import constrained
from atlas_splines.core.rows import Rows
from atlas_splines.estimators.groups import Groups
from atlas_splines.estimators.stacking import (
    finest_member,
    most_terms,
    schedule_for,
    signs_along,
    telling_inputs,
    untrained,
)
from atlas_splines.evidence.classes import Mapper, class_prior, mean_entropy, most_likely
from atlas_splines.evidence.design import Solved
from atlas_splines.evidence.folding import fold
from atlas_splines.memory.first_rows import as_first_rows

__all__ = ["solved_alone", "stack_classes"]

Array = NDArray[np.float64]

TERMS = 16  # of the member
SPREAD = 1.0  # how far apart terms start
START = 1  # density that it is trained from
SMOOTHING = 0.05  # share of each label that goes to all classes: scores that are sure of all do not run away
JUDGED = 8000  # rows that the solved scores of held-out rows are from, at most
MOST_CROSSED = 10_000  # rows, up to which all are predicted by others: of more, those held out tell enough
FOLDS = 4  # of the rows that are not held out
FINAL_STEPS = 20  # of the optimiser, from there to the solved scores of all rows
DOUBT = 0.3  # standard deviation that weights have beforehand, around those of the solved scores alone
LEAST_WEIGHT = 0.01  # of the member; with less it is left out
LARGEST_WEIGHT = 5.0


def stack_classes(
    rows: Rows,
    held_out: NDArray[np.bool_],
    solved: Solved,
    seed: int,
    groups: Groups | None = None,
    run: Mapper = map,
) -> StackedClasses:
    """The weighted sum of solved and trained scores."""
    points, labels, weights = as_first_rows(rows)
    phi = solved.features(points)  # (rows, features)
    prior = class_prior(phi, labels, weights, solved.readout, seed, groups, run)
    learned = np.random.default_rng(seed).permutation(np.flatnonzero(~held_out))[:JUDGED]
    cone = solved.readout.prior.cone
    start = most_likely(phi[learned], labels[learned], weights[learned], prior.precision, cone=cone)
    member = train_class_member(rows, held_out, solved, seed)
    scores = [prior.sharpness * phi[held_out] @ start, member.model(rows.points[held_out]).astype(np.float64)]
    shares = np.array([1.0, 0.0])  # solved scores are calibrated; without a member there is nothing to mix
    if member.epochs:
        shares, _ = stacking_weights(scores, labels[held_out], weights[held_out])
    shares[1:][shares[1:] < LEAST_WEIGHT] = 0
    W = most_likely(phi, labels, weights, prior.precision, FINAL_STEPS, start, cone)
    model = fold(solved.features, shares[0] * prior.sharpness * W)
    if shares[1] > 0:
        model = mixture([model, member.model], [1.0, 1 / shares[1]])

    def without(own: NDArray[np.bool_]) -> Array:
        rest = phi[~own], labels[~own], weights[~own]
        return np.asarray(prior.sharpness * phi[own] @ most_likely(*rest, prior.precision, cone=cone))

    crossed = None
    if len(rows) <= MOST_CROSSED:
        crossed = np.empty_like(labels)
        crossed[held_out] = scores[0]
        folds = folds_beside(held_out, seed, groups)
        for own, found in zip(folds, run(lambda k: without(folds[k]), range(len(folds))), strict=True):
            crossed[own] = found
    return StackedClasses(model, member, shares[0] * scores[0] + shares[1] * scores[1], scores[0], crossed)


@dataclass(frozen=True, eq=False)
class StackedClasses:
    """A model of classes, and what was said of rows by parts of it that had not learned them.

    Attributes
    ----------
    model, member
        The model, and the trained part of it.
    held_out
        Scores that the whole model gives held-out rows, shape (held out, classes).
    solved
        Those of the solved part.
    crossed
        Scores of all rows by the solved part without their fold, shape (rows, classes); None of many rows.
    """

    model: Atlas
    member: Grown
    held_out: Array
    solved: Array
    crossed: Array | None


def folds_beside(held_out: NDArray[np.bool_], seed: int, groups: Groups | None) -> list[NDArray[np.bool_]]:
    """Masks of folds of the rows that are not held out; rows of one group are in one fold."""
    number = np.random.default_rng(seed).permutation(len(held_out)) if groups is None else groups
    folds = [(number % FOLDS == k) & ~held_out for k in range(FOLDS)]
    return [fold for fold in folds if fold.any() and not fold.all()]


def solved_alone(
    rows: Rows, solved: Solved, seed: int, groups: Groups | None = None, run: Mapper = map
) -> Atlas:
    """Solved scores where rows are too few to hold some out."""
    points, labels, weights = as_first_rows(rows)
    phi = solved.features(points)  # (rows, features)
    prior = class_prior(phi, labels, weights, solved.readout, seed, groups, run)
    W = most_likely(phi, labels, weights, prior.precision, cone=solved.readout.prior.cone)
    return fold(solved.features, prior.sharpness * W)


def train_class_member(rows: Rows, held_out: NDArray[np.bool_], solved: Solved, seed: int) -> Grown:
    """A member that was trained on classes for a short while; only inputs that matter take part."""
    random, inputs = np.random.default_rng(seed), telling_inputs(solved, rows.points)
    if not len(inputs):
        return untrained(rows)
    classes = rows.targets.shape[1]
    own = replace(
        rows,
        points=np.ascontiguousarray(rows.points[:, inputs]),
        targets=(1 - SMOOTHING) * rows.targets + np.float32(SMOOTHING / classes),
    )
    split = Split(own.take(~held_out), own.take(held_out))
    terms = min(TERMS, most_terms(len(inputs), classes, START))
    finest = finest_member(len(inputs), classes, terms, solved.features)
    schedule = replace(schedule_for(len(split.learned), finest), loss="cross-entropy")
    model = constrained(Atlas(len(inputs), classes, terms, density=0), signs_along(solved, inputs))
    start_terms(model, SPREAD, random)
    model.expand(density=START, terms=0)
    try:
        grown = grow(train_density(model, split, schedule, random), split, schedule, random)
    except TrainingDiverged:
        return untrained(rows)
    return replace(grown, model=placed(grown.model, inputs, rows.points.shape[1]))


def stacking_weights(scores: Sequence[Array], labels: Array, weights: Array) -> tuple[Array, float]:
    """Weights of scores that make rows most likely, not far from (1, 0, …, 0) if rows are few; cross-entropy.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> true, noise = random.normal(size=(2, 2000, 2))
    >>> labels = (true + random.gumbel(size=true.shape)).argmax(axis=1)[:, None] == [0, 1]
    >>> stacking_weights([noise, true], labels.astype(float), np.ones(2000))[0].round(1)
    array([0., 1.])
    >>> stacking_weights([noise[:2], true[:2]], labels[:2].astype(float), np.ones(2))[0].round(1)
    array([0.9, 0. ])
    """
    alone = np.eye(len(scores))[0]

    def entropy(shares: Array) -> float:
        mixed = sum(share * each for share, each in zip(shares, scores, strict=True))
        return mean_entropy(np.asarray(mixed), labels, weights)

    def doubted(shares: Array) -> float:
        return float(weights.sum() * entropy(shares) + 0.5 * ((shares - alone) ** 2).sum() / DOUBT**2)

    bounds = [(0, LARGEST_WEIGHT)] * len(scores)
    shares = np.asarray(minimize(doubted, alone, bounds=bounds, method="L-BFGS-B").x)
    return shares, entropy(shares)
