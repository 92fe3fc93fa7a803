"""Trained charts: content is trained by gradient descent, for models without a memory; options of updates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.data_density import DataDensity
from atlas_splines.memory.error_model import ErrorModel
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.charts import Chart, Window
from atlas_splines.model.checks import check_size
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.losses import find_loss
from atlas_splines.model.monotone import constrained
from atlas_splines.model.rows import Rows
from atlas_splines.model.train import (
    History,
    Schedule,
    Seed,
    Split,
    TrainingDiverged,
    finest_affordable,
    grow,
    run_at,
    start_terms,
    train_density,
)
from atlas_splines.updates.intervals import error_model_of
from atlas_splines.updates.plan import Count, Cover

__all__ = [
    "ChartTask",
    "LearnedChart",
    "TrainedChartRules",
    "UpdateOptions",
    "known_seed",
    "learn_chart",
    "settings_of",
]

MAX_CHART_DENSITY = 12  # that can be requested


@dataclass(frozen=True)
class TrainedChartRules:
    """How charts are trained; not benchmarked since estimators solve for charts.

    Attributes
    ----------
    terms, term_spread
        Pairs of exponentials of a chart, and the scale of their random initial coefficients.
    coarsest, finest
        Densities that a chart starts with and may grow to, in coordinates where its box is the unit cube.
    rows_at_first, rows_in_the_end
        Rows for each basis function of an input: with fewer the initial or the final density is coarser.
    rate_divisors, last_divisor
        Divisors of the learning rate for each density, and for the last training on all rows.
    epochs, batches, min_epoch
        When the number of epochs is left open: epochs and batches at least, and rows of an epoch at least,
        for which fewer are repeated.
    patience_epochs, patience_batches
        Without a lower loss on held-out rows; the latter for few rows, as products of inputs start on a
        plateau.
    held_out, min_held_out, folds
        Share of the rows that choose the density; if those would be fewer than so many, folds of
        cross-validation instead.
    size_quantile
        The unit of targets is this quantile of their absolute values, so that outliers do not count.
    min_membership
        Of a row in the window: those with less are treated as if they had it.
    """

    terms: int = 10
    term_spread: float = 0.3
    coarsest: int = 1
    finest: int = 6
    rows_at_first: int = 8
    rows_in_the_end: int = 2
    rate_divisors: tuple[int, ...] = (1, 10)
    last_divisor: int = 30
    epochs: int = 50
    batches: int = 5000
    min_epoch: int = 1000
    patience_epochs: int = 5
    patience_batches: int = 500
    held_out: float = 0.1
    min_held_out: int = 10
    folds: int = 4
    size_quantile: float = 0.9
    min_membership: float = 1e-3


RULES = TrainedChartRules()


@dataclass(frozen=True)
class UpdateOptions:
    """The options of `update` that concern learning."""

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
            check_size("density", self.density, least=0, most=MAX_CHART_DENSITY)
        if self.terms is not None:
            check_size("terms", self.terms, least=0)
        if self.epochs is not None:
            check_size("epochs", self.epochs, least=1)

    @property
    def chart_terms(self) -> int:
        """Pairs of exponentials of each chart."""
        return RULES.terms if self.terms is None else self.terms

    def schedule(self, rows: int, finest: int = 0) -> Schedule:
        """The training schedule for so many rows, up to a density."""
        batches = -(-rows // self.batch_size)  # in an epoch
        return Schedule(
            loss=self.loss,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rate_divisors=RULES.rate_divisors,
            epochs=self.epochs or max(RULES.epochs, RULES.batches // batches),
            patience=max(RULES.patience_epochs, RULES.patience_batches // batches),
            finest=finest,
            always_grows=self.density is not None,
            progress=self.progress,
        )

    def densities_for(self, rows: int, assessed: bool) -> tuple[int, int]:
        """Densities that a chart of so many rows starts with, and may grow to if rows are held out."""
        if self.density is not None:
            return min(RULES.coarsest, self.density), self.density
        first = finest_affordable(rows, RULES.rows_at_first, RULES.coarsest)
        return first, max(
            first, finest_affordable(rows, RULES.rows_in_the_end, RULES.finest)
        ) if assessed else first


def settings_of(options: UpdateOptions, **others: Any) -> dict[str, Any]:
    """Options of an update for its entry in the log.

    A random generator is left out, as it cannot be logged.

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
    """The seed, or a random one that can be logged."""
    return int(np.random.default_rng().integers(2**53)) if random_state is None else random_state


Array = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class LearnedChart:
    """The result of training a chart.

    Attributes
    ----------
    chart
        The chart; None if the model has no larger loss without one.
    history
        Its last training.
    out_of_sample
        Out-of-sample predictions with the chart, or without it if there is none: pairs of predictions, shape
        (rows, outputs), and rows.
    cross_validated
        Whether these rows were cross-validated rather than held out for good.
    """

    chart: Chart | None
    history: History
    out_of_sample: list[tuple[Array, Rows]]
    cross_validated: bool


def learn_chart(
    model: Atlas, id: int, rows: Rows, window: Window, options: UpdateOptions, random: np.random.Generator
) -> LearnedChart:
    """Train a chart on the rows inside a window; None if the model has no larger loss without one.

    Whether it adds to the model or replaces it is decided by held-out rows at the coarsest density. Then its
    density grows while that lowers their loss, and finally it is trained on them too.
    """
    rows = rows.take(window.contains(rows.points))
    try:
        return train_chart(model, id, rows, window, options, random)
    except TrainingDiverged as diverged:
        return LearnedChart(None, diverged.history, [], cross_validated=False)


def train_chart(
    model: Atlas, id: int, rows: Rows, window: Window, options: UpdateOptions, random: np.random.Generator
) -> LearnedChart:
    """Train a chart on rows that are all inside its window."""
    mask = choose_held_out(len(rows), random)
    learned, held_out = rows.take(~mask), rows.take(mask) if mask.any() else None
    first, finest = options.densities_for(len(rows), assessed=held_out is not None)
    tasks = [ChartTask.adding(model, window, rows, options.loss)]
    if held_out is not None:
        tasks.append(ChartTask.replacing(model, window, rows, options.loss))
    repeats = RULES.min_epoch if options.epochs is None else 0
    splits = [task.split(learned, held_out, repeats) for task in tasks]
    schedule = options.schedule(len(splits[0].learned), finest)
    starts = [
        train_density(task.fresh_content(first, options.chart_terms, random), split, schedule, random)
        for task, split in zip(tasks, splits, strict=True)
    ]
    best = min(range(len(tasks)), key=lambda k: starts[k].loss)
    content = grow(starts[best], splits[best], schedule, random).model
    task = tasks[best]
    if held_out is not None:
        out_of_sample = [(task.predicted(content, held_out), held_out)]
    else:
        folds = trained_in_folds(task, rows, first, options, random)
        out_of_sample = [(task.predicted(part, test), test) for part, test in folds]
    cross_validated = held_out is None
    if not is_worthwhile(task, out_of_sample):
        without = [(task.predicted(None, test), test) for _, test in out_of_sample]
        return LearnedChart(None, History(), without, cross_validated)
    everything = task.split(rows, None, repeats)
    schedule = options.schedule(len(everything.learned))
    history = run_at(RULES.last_divisor, content, everything, schedule, random)
    if out_of_sample and error_model_of(state_of(model)) is not None:
        content = model_in(replace(state_of(content), pooled=task.error_model(out_of_sample, rows)))
    return LearnedChart(
        Chart(id, window, content, task.size, task.replaces), history, out_of_sample, cross_validated
    )


@dataclass(frozen=True, eq=False)
class ChartTask:
    """The regression problem of a chart's content: local coordinates, units of its own, a window.

    With window w and old predictions A, the new ones are A + w·size·content where the chart adds, and
    (1 − w)·A + w·size·content where it replaces, equation (23).
    """

    model: Atlas
    window: Window
    loss: str
    replaces: bool
    level: Array  # (outputs,) initial constant of the content
    size: Array  # (outputs,) one learning rate suits all targets if they are divided by this

    @classmethod
    def adding(cls, model: Atlas, window: Window, rows: Rows, loss: str) -> ChartTask:
        """Fit the residuals of the model."""
        level = np.zeros(model.outputs, model.dtype)
        size = usual_size(rows.targets - evaluate(state_of(model), rows.points), loss)
        return cls(model, window, loss, False, level, size)

    @classmethod
    def replacing(cls, model: Atlas, window: Window, rows: Rows, loss: str) -> ChartTask:
        """Fit the targets, starting from their median."""
        classes = loss == "cross-entropy"
        level = np.zeros(model.outputs, model.dtype) if classes else np.median(rows.targets, axis=0)
        return cls(model, window, loss, True, level, usual_size(rows.targets - level, loss))

    def fresh_content(self, density: int, terms: int, random: np.random.Generator) -> Atlas:
        """The untrained content."""
        content = Atlas(self.model.inputs, self.model.outputs, terms, density, dtype=self.model.dtype)
        content = constrained(content, state_of(self.model).monotonic)
        start_terms(content, RULES.term_spread, random)
        content.f(0)[:, 0] = (self.level / self.size)[:, None]  # a constant by partition of unity
        return content

    def split(self, learned: Rows, held_out: Rows | None, least: int) -> Split:
        """Rows for the content, repeated to at least so many, and the validation loss."""
        rows = self.local_rows(learned)
        rows = rows.repeated(least) if least else rows
        if held_out is None:
            return Split(rows, None)
        return Split(rows, self.local_rows(held_out), lambda content: self.assessed(content, held_out))

    def local_rows(self, rows: Rows) -> Rows:
        """Rows for the content: both sides divided by w·size, weighted by w."""
        membership, old = self.membership_and_rest(rows)
        weights = rows.weights * (membership**2 if self.loss == "mse" else membership)[:, 0]
        points = self.window.to_local(rows.points)
        if self.loss == "cross-entropy":
            return Rows(points, rows.targets, weights, old)
        return Rows(points, rows.targets / (membership * self.size), weights, old / (membership * self.size))

    def membership_and_rest(self, rows: Rows) -> tuple[Array, Array]:
        """Membership of each row, shape (rows, 1), and the part of the old predictions that stays."""
        membership = np.maximum(self.window.membership(rows.points), RULES.min_membership).astype(
            self.model.dtype
        )[:, None]
        old = evaluate(state_of(self.model), rows.points)
        return membership, (1 - membership) * old if self.replaces else old

    def assessed(self, content: Atlas, rows: Rows) -> float:
        """Loss of the new predictions, each output in units of its own size, so that tasks are comparable."""
        return float(np.average(self.row_losses(content, rows), weights=rows.weights))

    def row_losses(self, content: Atlas | None, rows: Rows) -> Array:
        """Loss of each row with a content in the chart, or without the chart, shape (rows,)."""
        return self.losses_of(self.predicted(content, rows), rows)

    def predicted(self, content: Atlas | None, rows: Rows) -> Array:
        """Predictions of rows with a content in the chart, or without one, shape (rows, outputs)."""
        if content is None:
            return evaluate(state_of(self.model), rows.points)
        membership, rest = self.membership_and_rest(rows)
        return rest + membership * self.size * evaluate(state_of(content), self.window.to_local(rows.points))

    def losses_of(self, predicted: Array, rows: Rows) -> Array:
        """Loss of the prediction of each row, shape (rows,)."""
        size = usual_size(rows.targets - np.median(rows.targets, axis=0), self.loss)
        scale = 1 if self.loss == "cross-entropy" else size
        return find_loss(self.loss).per_row(predicted / scale, rows.targets / scale)

    def error_model(self, out_of_sample: list[tuple[Array, Rows]], rows: Rows) -> ErrorModel:
        """Error model of out-of-sample predictions, with the data density of all rows."""
        test = reduce(Rows.join, [part for _, part in out_of_sample])
        predicted = np.vstack([each for each, _ in out_of_sample]).astype(np.float64)
        points, inputs = self.window.to_local(rows.points).astype(np.float64), list(range(self.model.inputs))
        weights = test.weights.astype(np.float64)
        return ErrorModel.of(
            self.window.to_local(test.points).astype(np.float64),
            predicted / self.size,
            test.targets.astype(np.float64) / self.size,
            weights / weights.mean(),
            inputs=inputs,
            loss=self.loss,
            data_density=DataDensity.of(points, inputs),
            monotonic=state_of(self.model).monotonic,
        )


def trained_in_folds(
    task: ChartTask, rows: Rows, density: int, options: UpdateOptions, random: np.random.Generator
) -> Iterator[tuple[Atlas, Rows]]:
    """K-fold cross-validation: contents trained on all other folds, with the rows of each fold."""
    part = random.permutation(len(rows)) % RULES.folds
    for k in range(min(RULES.folds, len(rows)) if len(rows) > 1 else 0):
        split = task.split(rows.take(part != k), None, RULES.min_epoch if options.epochs is None else 0)
        content = task.fresh_content(density, options.chart_terms, random)
        schedule = options.schedule(len(split.learned))
        yield train_density(content, split, schedule, random).model, rows.take(part == k)


def is_worthwhile(task: ChartTask, out_of_sample: list[tuple[Array, Rows]]) -> bool:
    """Whether the out-of-sample loss is larger without the chart, by more than a standard error.

    A single row cannot be cross-validated and always passes.
    """
    if not out_of_sample:
        return True
    gain = np.concatenate(
        [task.row_losses(None, rows) - task.losses_of(predicted, rows) for predicted, rows in out_of_sample]
    )
    weights = np.concatenate([rows.weights for _, rows in out_of_sample])
    mean = np.average(gain, weights=weights)
    error = np.sqrt(np.average((gain - mean) ** 2, weights=weights) / len(gain))
    return bool(mean > error)


def usual_size(values: Array, loss: str) -> Array:
    """Robust scale of the values of each output, shape (outputs,); one where they are all zero."""
    if loss == "cross-entropy":
        return np.ones(values.shape[1], values.dtype)
    size = np.quantile(np.abs(values), RULES.size_quantile, axis=0)
    size = np.where(size > 0, size, np.abs(values).max(axis=0))
    return np.where(size > 0, size, 1).astype(values.dtype)


def choose_held_out(rows: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of the rows that choose the density; empty if they would be too few."""
    mask = np.zeros(rows, np.bool_)
    count = int(RULES.held_out * rows)
    if count >= RULES.min_held_out:
        mask[random.choice(rows, count, replace=False)] = True
    return mask
