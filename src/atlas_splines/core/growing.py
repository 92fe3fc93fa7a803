"""Growing: a model that is trained density after density, as long as a finer one helps on held-out rows.

Fits and charts grow by the same rules and differ in their schedules. Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from atlas_splines.core import splines
from atlas_splines.core.history import History, TrainingDiverged
from atlas_splines.core.model import Atlas, state_of
from atlas_splines.core.rows import Rows
from atlas_splines.core.training import Trainer

__all__ = [
    "Grown",
    "Schedule",
    "Split",
    "finest_affordable",
    "grow",
    "run_at",
    "start_terms",
    "train_density",
]

Judge = Callable[[Atlas], float]  # the loss of a model on held-out rows


@dataclass(frozen=True)
class Schedule:
    """How a model is trained, and how far it grows.

    Attributes
    ----------
    loss, batch_size, learning_rate
        As in `train`.
    rate_divisors
        Each density is trained at the learning rate divided by each of these, one after the other.
    epochs
        Passes over the rows for each density and learning rate, at most.
    patience
        Passes without a lower loss on held-out rows after which training stops; None runs all of them.
    finest
        Density to grow to at most.
    always_grows
        Whether the finest density is reached whatever held-out rows say.
    worthwhile_ratio, worthwhile_gain
        A larger model must lower the loss on held-out rows to less than this share of what it was, and by
        more than this.
    watches
        Whether held-out rows are looked at after each pass, or only when a density is trained.
    progress
        Whether to show a progress bar for each training.
    tells_densities
        Whether to print a line for each density.
    """

    loss: str
    batch_size: int
    learning_rate: float
    rate_divisors: tuple[float, ...]
    epochs: int
    patience: int | None = None
    finest: int = 0
    always_grows: bool = False
    worthwhile_ratio: float = 1.0
    worthwhile_gain: float = 0.0
    watches: bool = True
    progress: bool = False
    tells_densities: bool = False

    def helps(self, larger: float, smaller: float) -> bool:
        """Whether a larger model is worth its size, by its loss and that of a smaller one."""
        return larger < min(self.worthwhile_ratio * smaller, smaller - self.worthwhile_gain)


@dataclass(frozen=True)
class Grown:
    """A model that was trained.

    Attributes
    ----------
    model
        The model.
    loss
        On the rows it was not trained on; infinite if there were none.
    epochs
        Passes over the rows.
    validation
        Loss on the held-out rows after each pass, or after each density.
    """

    model: Atlas
    loss: float
    epochs: int
    validation: list[float]


@dataclass(frozen=True)
class Split:
    """Rows to learn, rows held out if there are enough, and how a model is judged by these.

    The judgement is their mean loss, unless another is given.
    """

    learned: Rows
    held_out: Rows | None
    judge: Judge | None = None

    def loss(self, model: Atlas, name: str) -> float:
        """Loss of a model on the held-out rows; infinite if there are none."""
        if self.held_out is None:
            return np.inf
        return self.held_out.loss(model, name) if self.judge is None else self.judge(model)


def grow(start: Grown, split: Split, schedule: Schedule, random: np.random.Generator) -> Grown:
    """Train finer densities on top of a trained one, up to the finest or as long as that helps."""
    best = start
    for _ in range(start.model.density, schedule.finest):
        finer_model = best.model.copy().expand(density=1, terms=0)
        try:
            finer = train_density(finer_model, split, schedule, random)
        except TrainingDiverged:
            break
        epochs, validation = best.epochs + finer.epochs, best.validation + finer.validation
        if not (schedule.always_grows or schedule.helps(finer.loss, best.loss)):
            return Grown(best.model, best.loss, epochs, validation)
        best = Grown(finer.model, finer.loss, epochs, validation)
    return best


def train_density(model: Atlas, split: Split, schedule: Schedule, random: np.random.Generator) -> Grown:
    """Train the finest density in place, at falling learning rates."""
    epochs = 0
    validation: list[float] = []
    for divisor in schedule.rate_divisors:
        history = run_at(divisor, model, split, schedule, random)
        epochs, validation = epochs + len(history.loss), validation + history.validation
    loss = split.loss(model, schedule.loss)
    if not schedule.watches:
        validation = [loss]
    if schedule.tells_densities:
        judged = "" if split.held_out is None else f", loss on held-out rows {loss:.4g}"
        print(f"density {model.density}, {model.terms} terms: {epochs} epochs{judged}", flush=True)
    return Grown(model, loss, epochs, validation)


def run_at(
    divisor: float, model: Atlas, split: Split, schedule: Schedule, random: np.random.Generator
) -> History:
    """Train the finest density in place at one learning rate; held-out rows count by their weights."""
    rows, held_out = split.learned, split.held_out if schedule.watches else None
    trainer = Trainer(
        model,
        loss=schedule.loss,
        batch_size=schedule.batch_size,
        learning_rate=schedule.learning_rate / divisor,
        random_state=random,
    )
    return trainer.run(
        rows.points,
        rows.targets,
        epochs=schedule.epochs,
        sample_weight=rows.weights,
        offset=rows.offset,
        validation=None if held_out is None else (held_out.points, held_out.targets),
        validation_weight=None if held_out is None else held_out.weights,
        validation_offset=None if held_out is None else held_out.offset,
        patience=None if held_out is None else schedule.patience,
        progress=schedule.progress,
    )


def start_terms(model: Atlas, spread: float, random: np.random.Generator) -> None:
    """Give each pair of exponentials a random function of its own, which leaves all outputs zero.

    From coefficients that are all zero, every G_k would get the same steps and stay the same function; a
    random one that G_k and H_k share cancels to exactly nothing, equation (6). Along an input of a monotone
    model they share no more than a constant, for one has to rise and the other to fall.
    """
    model.g(0)[:] = random.normal(0, spread, model.g(0).shape)
    model.g(0)[:, :, state_of(model).monotone_inputs] = 0
    model.h(0)[:] = model.g(0)


def finest_affordable(rows: int, rows_per_function: int, limit: int) -> int:
    """Highest density up to a limit that has so many rows for each basis function of an input, or 0.

    Examples
    --------
    >>> finest_affordable(200, rows_per_function=2, limit=6)
    4
    """
    functions = rows / rows_per_function
    return max((d for d in range(limit + 1) if splines.basis_size(d) <= functions), default=0)
