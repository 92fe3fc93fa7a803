"""Fitting: a model that finds its own size, as the average of several that grew from coarse to fine.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from atlas_splines.core import splines
from atlas_splines.core.model import Atlas
from atlas_splines.core.training import Trainer, TrainingDiverged
from atlas_splines.memory.growth import Rows, set_apart

__all__ = ["Plan", "average", "fit_model", "grow", "split_folds"]

Auto = int | Literal["auto"]
Mapper = Callable[[Callable[[int], "Member"], Iterable[int]], list["Member"]]

SPREAD = 1.0  # how far apart terms start
TERMS = (0, 4, 16, 64)  # tried in this order while that helps
FINEST = 6  # density
HELPS = 0.99  # a larger model must lower the loss on held-out rows to this share of what it was,
SURER = 0.002  # and a cross-entropy by this share of what class frequencies alone would give
SLOWER = (1, 3, 10)  # the learning rate is divided by these, one after the other
LEAST_ROWS = 40  # with fewer rows none are held out
PATIENCE_STEPS = 2000  # batches without a lower loss after which training stops, but
PATIENCE = (2, 20)  # at least and at most so many epochs


@dataclass(frozen=True)
class Plan:
    """How to fit: the options of the estimators, in the library's own words."""

    outputs: int
    loss: str
    density: Auto
    terms: Auto
    epochs: int
    batch_size: int
    learning_rate: float
    held_out: float  # share of the rows
    patience: int | Literal["auto"] | None  # in epochs; None runs all epochs
    verbose: bool

    def patience_for(self, rows: int) -> int | None:
        """Epochs without a lower loss after which training stops."""
        if self.patience != "auto":
            return self.patience
        return int(np.clip(PATIENCE_STEPS * self.batch_size // rows, *PATIENCE))


@dataclass(frozen=True)
class Member:
    """One of the models that are averaged."""

    model: Atlas
    loss: float  # on the rows it was not trained on; infinite if there were none
    epochs: int
    validation: list[float]  # loss on these rows after each epoch


def fit_model(rows: Rows, plan: Plan, seeds: Sequence[int], run: Mapper) -> tuple[Atlas, list[Member]]:
    """Fit as many models as there are seeds, each with other held-out rows, and average them.

    The first one finds the number of terms for all. `run` maps a function over numbers, in threads or not.
    """
    folds = split_folds(len(rows), plan.held_out, np.random.default_rng(seeds[0]))

    def member(k: int, terms: int) -> Member:
        random = np.random.default_rng(seeds[k])
        return grow(sprout(rows, plan, terms, random), rows, folds[k % len(folds)], plan, random)

    judged = bool(folds[0].any())
    first = first_member(member, judged, rows, plan) if plan.terms == "auto" else member(0, plan.terms)
    others = run(lambda k: member(k, first.model.terms), range(1, len(seeds)))
    members = [first, *others]
    return average([member.model for member in members]), members


def first_member(member: Callable[[int, int], Member], judged: bool, rows: Rows, plan: Plan) -> Member:
    """A member with as many terms as help on held-out rows; with none at all if there are no such rows."""
    if not judged:
        return member(0, 0)
    best = member(0, TERMS[0])
    for terms in TERMS[1:]:
        larger = member(0, terms)
        if not helps(larger.loss, best.loss, rows, plan):
            break
        best = larger
    return best


def helps(larger: float, smaller: float, rows: Rows, plan: Plan) -> bool:
    """Whether a larger model is worth its size, by its loss and that of a smaller one on held-out rows.

    Where classes can be told apart without a mistake, the cross-entropy falls for ever while predictions only
    get surer of themselves; so it has to fall by a share of what it is for the frequencies of the classes.
    """
    least = 0.0
    if plan.loss == "cross-entropy":
        least = SURER * float(entr(np.average(rows.targets, axis=0, weights=rows.weights)).sum())
    return larger < min(HELPS * smaller, smaller - least)


def split_folds(rows: int, share: float, random: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Masks of the rows to hold out, each row in one of them; a single empty mask if rows are few."""
    if rows < LEAST_ROWS:
        return [np.zeros(rows, np.bool_)]
    fold = random.permutation(rows) % max(round(1 / share), 2)
    return [fold == k for k in range(fold.max() + 1)]


def sprout(rows: Rows, plan: Plan, terms: int, random: np.random.Generator) -> Atlas:
    """A model of density 0 whose outputs are zero and whose terms are all different."""
    model = Atlas(rows.points.shape[1], plan.outputs, terms, density=0)
    set_apart(model, SPREAD, random)
    return model


def grow(
    model: Atlas, rows: Rows, held_out: NDArray[np.bool_], plan: Plan, random: np.random.Generator
) -> Member:
    """Train density after density: up to the one asked for, or as long as that helps on held-out rows."""
    best = train_stage(model, rows, held_out, plan, random)
    for _ in range(model.density, finest_for(held_out, plan)):
        try:
            finer = train_stage(best.model.copy().expand(density=1, terms=0), rows, held_out, plan, random)
        except TrainingDiverged:
            break
        epochs, validation = best.epochs + finer.epochs, best.validation + finer.validation
        if plan.density == "auto" and not helps(finer.loss, best.loss, rows, plan):
            return Member(best.model, best.loss, epochs, validation)
        best = Member(finer.model, finer.loss, epochs, validation)
    return best


def finest_for(held_out: NDArray[np.bool_], plan: Plan) -> int:
    """Density to grow to at most: with few rows, no more than a basis function for every other row."""
    if plan.density != "auto":
        return plan.density
    if not held_out.any():
        return 0
    affordable = (d for d in range(FINEST, 0, -1) if 2 * splines.basis_size(d) <= held_out.size)
    return next(affordable, 0)


def train_stage(
    model: Atlas, rows: Rows, held_out: NDArray[np.bool_], plan: Plan, random: np.random.Generator
) -> Member:
    """Train the finest density in place, at falling learning rates."""
    learned, test = rows.take(~held_out), rows.take(held_out)
    epochs, loss = 0, np.inf
    validation: list[float] = []
    for slower in SLOWER:
        history = Trainer(
            model,
            loss=plan.loss,
            batch_size=min(plan.batch_size, len(learned)),
            learning_rate=plan.learning_rate / slower,
            random_state=random,
        ).run(
            learned.points,
            learned.targets,
            epochs=plan.epochs,
            sample_weight=learned.weights,
            validation=(test.points, test.targets) if len(test) else None,
            validation_weight=test.weights if len(test) else None,
            patience=plan.patience_for(len(learned)) if len(test) else None,
        )
        epochs, validation = epochs + len(history.loss), validation + history.validation
    if len(test):
        loss = test.loss(model, plan.loss)
    if plan.verbose:
        judged = f", loss on held-out rows {loss:.4g}" if len(test) else ""
        print(f"density {model.density}, {model.terms} terms: {epochs} epochs{judged}", flush=True)
    return Member(model, loss, epochs, validation)


def average(models: Sequence[Atlas]) -> Atlas:
    """The mean of some models without charts, as one model.

    A constant c added to all coefficients of one input adds c to the sum, for the weights sum to one,
    equation (4); so a term k⁻²·exp G of one of K models is k'⁻²·exp(G + log(k'²/(K·k²))) in their mean,
    with a number k' of its own.

    Examples
    --------
    >>> constant = Atlas(inputs=1, terms=1, density=0)
    >>> constant.g(0)[:] = np.log(3)
    >>> average([constant, Atlas(inputs=1, terms=2, density=1)])([[0.5]]).round(4)
    array([[1.]], dtype=float32)
    """
    first, count, terms = models[0], len(models), max(model.terms for model in models)
    density = max(model.density for model in models)
    mean = Atlas(
        first.inputs, first.outputs, count * terms, density, first.trainable, first.damping, first.dtype
    )
    for i, model in enumerate(models):
        own = np.arange(1, model.terms + 1)
        new = (own - 1) * count + i  # zero-based: the first terms of all models come first
        shift = np.log((new + 1) ** 2 / (count * own**2))
        for rho in range(model.density + 1):
            mean.f(rho)[:] += model.f(rho) / count
            mean.g(rho)[:, new] = model.g(rho)
            mean.h(rho)[:, new] = model.h(rho)
        mean.g(0)[:, new, 0] += shift[:, None]
        mean.h(0)[:, new, 0] += shift[:, None]
    return mean
