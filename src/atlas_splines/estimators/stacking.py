"""Stacking: what was solved and what was trained, mixed by how well each predicts held-out rows.

Splines and bumps are solved for; pairs of exponentials are trained for a short while, some on the targets and
some on what the solved part leaves of them. Their weighted sum is one model. Equation numbers refer to
docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from atlas_splines.core import splines
from atlas_splines.core.growing import (
    Grown,
    Schedule,
    Split,
    finest_affordable,
    grow,
    start_terms,
    train_density,
)
from atlas_splines.core.history import TrainingDiverged
from atlas_splines.core.mixing import mixture, placed
from atlas_splines.core.model import Atlas
from atlas_splines.core.monotone import constrained
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import Signs
from atlas_splines.evidence.design import Solved
from atlas_splines.evidence.features import Features
from atlas_splines.evidence.folding import RULES, fold

__all__ = ["stack_members", "train_member", "varying_inputs"]

TERMS = 32  # of a member
SPREAD = 1.0  # how far apart terms start
FINEST = 6  # density
ROWS_PER_FUNCTION = 4  # of an input, or a member grows no finer
MOST_FUNCTIONS = 1024  # of all inputs together at one density: each costs time and bytes
# Of a member, about. With 2²⁰, or 4 MB, members of up to 15 classes grow as fine as with 2²⁴.
MOST_COEFFICIENTS = 2**21
START = 1  # density that members are trained from
MOST_INPUTS = 24  # of a member: those along which data varies fastest
RATES = (0.02, 0.004)  # one after the other
BATCHES = (100, 50)  # rows of a step: of some rows, and of many, which tell as much by fewer
MANY = 14_000  # rows that a member learns
ROWS_A_STEP = 10  # so many rows ask for one step at each rate
LEAST_STEPS, MOST_STEPS = 100, 800
MOST_ROWS = MOST_STEPS * BATCHES[1]  # that a member learns, drawn at random: no more are needed for one pass
WORTHWHILE_RATIO = 0.99  # a finer model must lower the loss on held-out rows to this share of what it was
DOUBT = 0.3  # standard deviation that weights have beforehand, around those of the solved part alone
LEAST_WEIGHT = 0.02  # of a member; one with less is left out


def train_member(k: int, rows: Rows, held_out: NDArray[np.bool_], solved: Solved, seed: int) -> Grown:
    """Train the k-th member: on the targets if k is even, otherwise on what the solved part leaves of them.

    Only inputs that matter to the solved part take part.
    """
    random = np.random.default_rng(seed)
    inputs = telling_inputs(solved, rows.points)
    if not len(inputs):
        return untrained(rows)
    left = rows.targets - solved.ahead if k % 2 else rows.targets
    own = replace(
        rows, points=np.ascontiguousarray(rows.points[:, inputs]), targets=left.astype(rows.targets.dtype)
    )
    learned = np.flatnonzero(~held_out)
    if len(learned) > MOST_ROWS:
        learned = np.sort(random.choice(learned, MOST_ROWS, replace=False))
    split = Split(own.take(learned), own.take(held_out))
    outputs = rows.targets.shape[1]
    terms = min(TERMS, most_terms(len(inputs), outputs, START))
    finest = finest_member(len(inputs), outputs, terms, solved.features)
    schedule = schedule_for(len(split.learned), finest)
    model = Atlas(len(inputs), outputs, terms, density=0)
    model = constrained(model, signs_along(solved, inputs))
    start_terms(model, SPREAD, random)
    model.expand(density=START, terms=0)
    try:
        grown = grow(train_density(model, split, schedule, random), split, schedule, random)
    except TrainingDiverged:
        return untrained(rows)
    return replace(grown, model=placed(grown.model, inputs, rows.points.shape[1]))


def untrained(rows: Rows) -> Grown:
    """A member that is zero everywhere: no input tells anything, or its training diverged."""
    return Grown(Atlas(rows.points.shape[1], rows.targets.shape[1], 0, density=0), np.inf, 0, [])


def signs_along(solved: Solved, inputs: NDArray[np.intp]) -> Signs:
    """Which way each output has to go along some inputs; empty if all are free."""
    return tuple(tuple(ways[j] for j in inputs) for ways in solved.features.signs)


def telling_inputs(solved: Solved, points: NDArray[np.floating]) -> NDArray[np.intp]:
    """Inputs that vary and that some feature depends on; of many those along which data varies fastest.

    Along an input that is constant so far a member would keep the random functions that it starts from.
    """
    features = solved.features
    used = set(features.coarse) | {j for j, _ in features.fine}
    for group in features.bumps:
        used |= set(np.flatnonzero(np.isfinite(group.lengths)).tolist())
    inputs = np.array(sorted(used & set(varying_inputs(points).tolist())), np.intp)
    if len(inputs) > MOST_INPUTS and features.bumps:
        inputs = np.sort(inputs[np.argsort(features.bumps[0].lengths[inputs])[:MOST_INPUTS]])
    return inputs


def varying_inputs(points: NDArray[np.floating]) -> NDArray[np.intp]:
    """Inputs that do not have the same value in all rows.

    Examples
    --------
    >>> varying_inputs(np.array([[0.5, 0.1], [0.5, 0.2]]))
    array([1])
    """
    return np.flatnonzero(np.ptp(points, axis=0) > 0)


def most_terms(inputs: int, outputs: int, density: int) -> int:
    """Number of terms of the largest member that has room at a density: none of very many inputs and outputs.

    Examples
    --------
    >>> most_terms(10, 1, START) > TERMS, most_terms(60, 200, START)
    (True, 4)
    """
    room = MOST_COEFFICIENTS // (max(inputs, 1) * outputs * 2 * splines.basis_size(density))
    return max((room - 1) // 2, 0)


def schedule_for(rows: int, finest: int) -> Schedule:
    """A short training up to a density: about as many steps for many rows as for some."""
    batch = min(BATCHES[rows > MANY], rows)
    steps = np.clip(rows / ROWS_A_STEP, LEAST_STEPS, MOST_STEPS)
    return Schedule(
        loss="mse",
        batch_size=batch,
        learning_rate=RATES[0],
        rate_divisors=tuple(RATES[0] / rate for rate in RATES),
        epochs=max(round(steps * batch / rows), 1),
        finest=min(finest_affordable(rows, ROWS_PER_FUNCTION, FINEST), finest),
        worthwhile_ratio=WORTHWHILE_RATIO,
        watches=False,
    )


def finest_member(inputs: int, outputs: int, terms: int, features: Features) -> int:
    """Density of a member at most, by its own size and by that of its mixture with features.

    The mixture has the density of the member for all bumps too.
    """
    bumps = RULES.terms_a_bump * sum(len(group.centres) for group in features.bumps)
    functions = min(MOST_FUNCTIONS, MOST_COEFFICIENTS // (2 * outputs * (2 * terms + 1)))
    own = finest_affordable(functions, max(inputs, 1), FINEST)
    return min(own, RULES.finest(features.inputs, outputs, bumps + terms))


def stack_members(
    members: Sequence[Atlas], rows: Rows, held_out: NDArray[np.bool_], solved: Solved
) -> tuple[Atlas, NDArray[np.float64]]:
    """The weighted sum of the solved part and of members, and what it says ahead of the held-out rows."""
    ahead, targets = solved.ahead[held_out], rows.targets[held_out].astype(np.float64)
    points = rows.points[held_out]
    said = [model(points) + (ahead if k % 2 else 0) for k, model in enumerate(members)]
    columns = np.stack(
        [ahead.ravel(), *(outputs.ravel() for outputs in said)], axis=1
    )  # (rows · outputs, 1 + k)
    root = np.sqrt(np.repeat(rows.weights[held_out], targets.shape[1]).astype(np.float64))
    shares = stacking_weights(columns, targets.ravel(), root)
    shares[1:][shares[1:] < LEAST_WEIGHT] = 0
    solved_share = shares[0] + shares[2::2].sum()  # members that learned what is left come on top of it
    parts = [(fold(solved.features, solved_share * solved.readout.weights), 1.0)]
    parts += [(model, 1 / share) for model, share in zip(members, shares[1:], strict=True) if share > 0]
    return mixture([model for model, _ in parts], [divisor for _, divisor in parts]), (
        columns @ shares
    ).reshape(targets.shape)


def stacking_weights(
    columns: NDArray[np.float64], targets: NDArray[np.float64], root: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Least squares with weights that are not negative, and that few rows do not take far from (1, 0, …, 0).

    Examples
    --------
    >>> columns = np.random.default_rng(0).normal(size=(500, 2))
    >>> stacking_weights(columns, columns @ [0.3, 0.7], np.ones(500)).round(1)
    array([0.3, 0.7])
    >>> stacking_weights(columns[:2], columns[:2, 0] + 1e-9, np.ones(2)).round(2)
    array([1., 0.])
    """
    noise = np.average((columns[:, 0] - targets) ** 2, weights=root**2)
    pull = np.sqrt(noise) / DOUBT
    first = np.eye(columns.shape[1])
    weights, _ = nnls(
        np.vstack([columns * root[:, None], pull * first]), np.concatenate([targets * root, pull * first[0]])
    )
    return np.asarray(weights)
