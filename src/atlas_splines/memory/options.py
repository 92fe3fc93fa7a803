"""Options of an update, and the schedules that follow from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from atlas_splines.core.checks import check_size
from atlas_splines.core.growing import Schedule, finest_affordable
from atlas_splines.core.training import Seed
from atlas_splines.memory.covers import Count, Cover

__all__ = ["UpdateOptions", "known_seed", "settings_of"]

TERMS = 10  # pairs of exponentials of a chart
COARSEST = 1  # density a chart starts with, in coordinates where its box is the unit cube
FINEST = 6  # density a chart may grow to
MOST_DENSITY = 12  # that can be asked for
ROWS_AT_FIRST = 8  # for each basis function of an input, or the chart starts with a coarser density
ROWS_IN_THE_END = 2  # for each basis function of an input, or the chart grows no finer
RATE_DIVISORS = (1, 10)  # for each density of a chart
EPOCHS = 50  # at least, when their number is left open
BATCHES = 5000  # at least, over all epochs, when their number is left open
PATIENCE_EPOCHS = 5  # without a lower loss on the held-out rows
PATIENCE_BATCHES = 500  # patience for few rows: products of inputs start on a plateau


@dataclass(frozen=True)
class UpdateOptions:
    """How an update learns: the options of `update`."""

    cover: Cover
    charts: Count
    density: int | None
    terms: int | None
    epochs: int | None
    batch_size: int
    learning_rate: float
    loss: str
    progress: bool
    features: int

    def __post_init__(self) -> None:
        if self.density is not None:
            check_size("density", self.density, least=0, most=MOST_DENSITY)
        if self.terms is not None:
            check_size("terms", self.terms, least=0)
        if self.epochs is not None:
            check_size("epochs", self.epochs, least=1)

    @property
    def chart_terms(self) -> int:
        """Pairs of exponentials of each chart."""
        return TERMS if self.terms is None else self.terms

    def schedule(self, rows: int, finest: int = 0) -> Schedule:
        """How to train on so many rows, up to a density."""
        batches = -(-rows // self.batch_size)  # in an epoch
        return Schedule(
            loss=self.loss,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rate_divisors=RATE_DIVISORS,
            epochs=self.epochs or max(EPOCHS, BATCHES // batches),
            patience=max(PATIENCE_EPOCHS, PATIENCE_BATCHES // batches),
            finest=finest,
            always_grows=self.density is not None,
            progress=self.progress,
        )

    def densities_for(self, rows: int, judged: bool) -> tuple[int, int]:
        """Densities that a chart with so many rows starts with, and may grow to if rows are held out."""
        if self.density is not None:
            return min(COARSEST, self.density), self.density
        first = finest_affordable(rows, ROWS_AT_FIRST, COARSEST)
        return first, max(first, finest_affordable(rows, ROWS_IN_THE_END, FINEST)) if judged else first


def settings_of(options: UpdateOptions, **others: Any) -> dict[str, Any]:
    """Options of an update for its entry in the log.

    A generator of random numbers is left out: it has no place in a log.

    Examples
    --------
    >>> options = UpdateOptions("inside", "auto", None, None, None, 100, 0.01, "mae", False, 550)
    >>> list(settings_of(options, random_state=0))[-3:]
    ['loss', 'features', 'random_state']
    """
    every = {**asdict(options), **others}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in every.items()}
    return {
        name: value
        for name, value in plain.items()
        if name != "progress" and not isinstance(value, np.random.Generator)
    }


def known_seed(random_state: Seed) -> Seed:
    """A seed that can be noted, where none was given."""
    return int(np.random.default_rng().integers(2**53)) if random_state is None else random_state
