"""Charts whose content is trained by gradients, and options of such updates: for models without a memory."""

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

__all__ = ["ChartTask", "LearnedChart", "UpdateOptions", "known_seed", "learn_chart", "settings_of"]

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

    def densities_for(self, rows: int, assessed: bool) -> tuple[int, int]:
        """Densities that a chart with so many rows starts with, and may grow to if rows are held out."""
        if self.density is not None:
            return min(COARSEST, self.density), self.density
        first = finest_affordable(rows, ROWS_AT_FIRST, COARSEST)
        return first, max(first, finest_affordable(rows, ROWS_IN_THE_END, FINEST)) if assessed else first


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


Array = NDArray[np.floating]

SPREAD = 0.3  # how far apart terms start
HELD_OUT = 0.1  # share of the rows that choose the density
LEAST_HELD_OUT = 10  # rows; with fewer none are held out for good,
FOLDS = 4  # but so many parts of the rows in turn
LEAST_EPOCH = 1000  # rows of an epoch when the number of epochs is left open; fewer are repeated
LAST_DIVISOR = 30  # of the learning rate, when all rows are learned in the end
USUAL_QUANTILE = 0.9  # the usual size of values is this quantile, so that a few wild targets do not count
LEAST_WINDOW = 1e-3  # rows with a smaller window count as if it were this


@dataclass(frozen=True, eq=False)
class LearnedChart:
    """What came of training a chart.

    Attributes
    ----------
    chart
        The chart; None if the model does as well without one.
    history
        Its last training.
    out_of_sample
        What was said, before they were learned, of rows that were held out: with the chart, or without it if
        there is none. Pairs of what was said, shape (rows, outputs), and the rows.
    crossed
        Whether these rows were held out in turn, and not for good.
    """

    chart: Chart | None
    history: History
    out_of_sample: list[tuple[Array, Rows]]
    crossed: bool


def learn_chart(
    model: Atlas, id: int, rows: Rows, window: Window, options: UpdateOptions, random: np.random.Generator
) -> LearnedChart:
    """Train a chart on the rows inside a fence; None if the model does as well without one.

    It is added to the model if the model helps, or else takes its place: held-out rows decide, at the
    coarsest density. Then it grows, while that lowers their loss. In the end they are learned too.
    """
    rows = rows.take(window.contains(rows.points))
    try:
        return train_chart(model, id, rows, window, options, random)
    except TrainingDiverged as diverged:
        return LearnedChart(None, diverged.history, [], crossed=False)


def train_chart(
    model: Atlas, id: int, rows: Rows, window: Window, options: UpdateOptions, random: np.random.Generator
) -> LearnedChart:
    """Train a chart on rows that are all inside its fence."""
    mask = choose_held_out(len(rows), random)
    learned, held_out = rows.take(~mask), rows.take(mask) if mask.any() else None
    first, finest = options.densities_for(len(rows), assessed=held_out is not None)
    tasks = [ChartTask.adding(model, window, rows, options.loss)]
    if held_out is not None:
        tasks.append(ChartTask.replacing(model, window, rows, options.loss))
    repeats = LEAST_EPOCH if options.epochs is None else 0
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
        turns = trained_in_folds(task, rows, first, options, random)
        out_of_sample = [(task.predicted(part, test), test) for part, test in turns]
    crossed = held_out is None
    if not is_worthwhile(task, out_of_sample):
        without = [(task.predicted(None, test), test) for _, test in out_of_sample]
        return LearnedChart(None, History(), without, crossed)
    everything = task.split(rows, None, repeats)
    schedule = options.schedule(len(everything.learned))
    history = run_at(LAST_DIVISOR, content, everything, schedule, random)
    if out_of_sample and error_model_of(state_of(model)) is not None:
        content = model_in(replace(state_of(content), pooled=task.error_model(out_of_sample, rows)))
    return LearnedChart(Chart(id, window, content, task.size, task.replaces), history, out_of_sample, crossed)


@dataclass(frozen=True, eq=False)
class ChartTask:
    """What the content of a chart has to learn: local coordinates, units of its own, a window.

    With window w and old predictions A, the new ones are A + w·size·content where the chart adds, and
    (1 − w)·A + w·size·content where it replaces, equation (23).
    """

    model: Atlas
    window: Window
    loss: str
    replaces: bool
    level: Array  # (outputs,) where the content starts
    size: Array  # (outputs,) one learning rate suits all targets if they are divided by this

    @classmethod
    def adding(cls, model: Atlas, window: Window, rows: Rows, loss: str) -> ChartTask:
        """Learn what the model leaves."""
        level = np.zeros(model.outputs, model.dtype)
        size = usual_size(rows.targets - evaluate(state_of(model), rows.points), loss)
        return cls(model, window, loss, False, level, size)

    @classmethod
    def replacing(cls, model: Atlas, window: Window, rows: Rows, loss: str) -> ChartTask:
        """Learn the targets, from their middle on."""
        classes = loss == "cross-entropy"
        level = np.zeros(model.outputs, model.dtype) if classes else np.median(rows.targets, axis=0)
        return cls(model, window, loss, True, level, usual_size(rows.targets - level, loss))

    def fresh_content(self, density: int, terms: int, random: np.random.Generator) -> Atlas:
        """The content before it has learned anything."""
        content = Atlas(self.model.inputs, self.model.outputs, terms, density, dtype=self.model.dtype)
        content = constrained(content, state_of(self.model).monotonic)
        start_terms(content, SPREAD, random)
        content.f(0)[:, 0] = (self.level / self.size)[:, None]  # a constant, for the weights sum to one
        return content

    def split(self, learned: Rows, held_out: Rows | None, least: int) -> Split:
        """Rows for the content, repeated to at least so many, and a judge by the new predictions."""
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
        """Window at each row, shape (rows, 1), and what it leaves of the old predictions."""
        membership = np.maximum(self.window.membership(rows.points), LEAST_WINDOW).astype(self.model.dtype)[
            :, None
        ]
        old = evaluate(state_of(self.model), rows.points)
        return membership, (1 - membership) * old if self.replaces else old

    def assessed(self, content: Atlas, rows: Rows) -> float:
        """Loss of the new predictions, each output in units of its own spread, so that tasks compare."""
        return float(np.average(self.row_losses(content, rows), weights=rows.weights))

    def row_losses(self, content: Atlas | None, rows: Rows) -> Array:
        """Loss of each row with a content in the chart, or without the chart, shape (rows,)."""
        return self.losses_of(self.predicted(content, rows), rows)

    def predicted(self, content: Atlas | None, rows: Rows) -> Array:
        """What is said of each row with a content in the chart, or without one, shape (rows, outputs)."""
        if content is None:
            return evaluate(state_of(self.model), rows.points)
        membership, rest = self.membership_and_rest(rows)
        return rest + membership * self.size * evaluate(state_of(content), self.window.to_local(rows.points))

    def losses_of(self, predicted: Array, rows: Rows) -> Array:
        """Loss of what is said of each row, shape (rows,)."""
        error_model = usual_size(rows.targets - np.median(rows.targets, axis=0), self.loss)
        scale = 1 if self.loss == "cross-entropy" else error_model
        return find_loss(self.loss).per_row(predicted / scale, rows.targets / scale)

    def error_model(self, out_of_sample: list[tuple[Array, Rows]], rows: Rows) -> ErrorModel:
        """How far off the chart is on rows that it had not learned, and where all its rows are."""
        test = reduce(Rows.join, [part for _, part in out_of_sample])
        predicted = np.vstack([told for told, _ in out_of_sample]).astype(np.float64)
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
    """Contents trained on all but some of the rows, and these: for rows too few to hold some out for good."""
    part = random.permutation(len(rows)) % FOLDS
    for k in range(min(FOLDS, len(rows)) if len(rows) > 1 else 0):
        split = task.split(rows.take(part != k), None, LEAST_EPOCH if options.epochs is None else 0)
        content = task.fresh_content(density, options.chart_terms, random)
        schedule = options.schedule(len(split.learned))
        yield train_density(content, split, schedule, random).model, rows.take(part == k)


def is_worthwhile(task: ChartTask, out_of_sample: list[tuple[Array, Rows]]) -> bool:
    """Whether rows that a chart has not learned lose more without it, by more than a standard error.

    A single row tells nothing, so it is believed.
    """
    if not out_of_sample:
        return True
    gain = np.concatenate(
        [task.row_losses(None, rows) - task.losses_of(predicted, rows) for predicted, rows in out_of_sample]
    )
    weights = np.concatenate([rows.weights for _, rows in out_of_sample])
    mean = np.average(gain, weights=weights)
    error_model = np.sqrt(np.average((gain - mean) ** 2, weights=weights) / len(gain))
    return bool(mean > error_model)


def usual_size(values: Array, loss: str) -> Array:
    """Usual size of the values of each output, shape (outputs,); one where they are all zero."""
    if loss == "cross-entropy":
        return np.ones(values.shape[1], values.dtype)
    size = np.quantile(np.abs(values), USUAL_QUANTILE, axis=0)
    size = np.where(size > 0, size, np.abs(values).max(axis=0))
    return np.where(size > 0, size, 1).astype(values.dtype)


def choose_held_out(rows: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of the rows that choose the density; none if they would be too few."""
    mask = np.zeros(rows, np.bool_)
    count = int(HELD_OUT * rows)
    if count >= LEAST_HELD_OUT:
        mask[random.choice(rows, count, replace=False)] = True
    return mask
