"""Chart learning: the content of a chart, trained on the rows inside a fence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.growing import Split, grow, run_at, start_terms, train_density
from atlas_splines.core.history import History, TrainingDiverged
from atlas_splines.core.losses import find_loss
from atlas_splines.core.model import Atlas, model_in, state_of
from atlas_splines.core.monotone import constrained
from atlas_splines.core.rows import Rows
from atlas_splines.evidence.presence import Presence
from atlas_splines.evidence.spread import Spread
from atlas_splines.memory.doubt import spread_of
from atlas_splines.memory.options import UpdateOptions

__all__ = ["ChartTask", "LearnedChart", "learn_chart"]

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
    ahead
        What was said, before they were learned, of rows that were held out: with the chart, or without it if
        there is none. Pairs of what was said, shape (rows, outputs), and the rows.
    crossed
        Whether these rows were held out in turn, and not for good.
    """

    chart: Chart | None
    history: History
    ahead: list[tuple[Array, Rows]]
    crossed: bool


def learn_chart(
    model: Atlas, id: int, rows: Rows, fence: Fence, options: UpdateOptions, random: np.random.Generator
) -> LearnedChart:
    """Train a chart on the rows inside a fence; None if the model does as well without one.

    It is added to the model if the model helps, or else takes its place: held-out rows decide, at the
    coarsest density. Then it grows, while that lowers their loss. In the end they are learned too.
    """
    rows = rows.take(fence.contains(rows.points))
    try:
        return train_chart(model, id, rows, fence, options, random)
    except TrainingDiverged as diverged:
        return LearnedChart(None, diverged.history, [], crossed=False)


def train_chart(
    model: Atlas, id: int, rows: Rows, fence: Fence, options: UpdateOptions, random: np.random.Generator
) -> LearnedChart:
    """Train a chart on rows that are all inside its fence."""
    mask = choose_held_out(len(rows), random)
    learned, held_out = rows.take(~mask), rows.take(mask) if mask.any() else None
    first, finest = options.densities_for(len(rows), judged=held_out is not None)
    tasks = [ChartTask.adding(model, fence, rows, options.loss)]
    if held_out is not None:
        tasks.append(ChartTask.replacing(model, fence, rows, options.loss))
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
        ahead = [(task.said(content, held_out), held_out)]
    else:
        turns = trained_in_turn(task, rows, first, options, random)
        ahead = [(task.said(part, test), test) for part, test in turns]
    crossed = held_out is None
    if not is_worthwhile(task, ahead):
        without = [(task.said(None, test), test) for _, test in ahead]
        return LearnedChart(None, History(), without, crossed)
    everything = task.split(rows, None, repeats)
    schedule = options.schedule(len(everything.learned))
    history = run_at(LAST_DIVISOR, content, everything, schedule, random)
    if ahead and spread_of(state_of(model)) is not None:
        content = model_in(replace(state_of(content), evidence=task.spread(ahead, rows)))
    return LearnedChart(Chart(id, fence, content, task.size, task.replaces), history, ahead, crossed)


@dataclass(frozen=True, eq=False)
class ChartTask:
    """What the content of a chart has to learn: local coordinates, units of its own, a window.

    With window w and old predictions A, the new ones are A + w·size·content where the chart adds, and
    (1 − w)·A + w·size·content where it replaces, equation (23).
    """

    model: Atlas
    fence: Fence
    loss: str
    replaces: bool
    level: Array  # (outputs,) where the content starts
    size: Array  # (outputs,) one learning rate suits all targets if they are divided by this

    @classmethod
    def adding(cls, model: Atlas, fence: Fence, rows: Rows, loss: str) -> ChartTask:
        """Learn what the model leaves."""
        level = np.zeros(model.outputs, model.dtype)
        size = usual_size(rows.targets - evaluate(state_of(model), rows.points), loss)
        return cls(model, fence, loss, False, level, size)

    @classmethod
    def replacing(cls, model: Atlas, fence: Fence, rows: Rows, loss: str) -> ChartTask:
        """Learn the targets, from their middle on."""
        classes = loss == "cross-entropy"
        level = np.zeros(model.outputs, model.dtype) if classes else np.median(rows.targets, axis=0)
        return cls(model, fence, loss, True, level, usual_size(rows.targets - level, loss))

    def fresh_content(self, density: int, terms: int, random: np.random.Generator) -> Atlas:
        """The content before it has learned anything."""
        content = Atlas(self.model.inputs, self.model.outputs, terms, density, dtype=self.model.dtype)
        content = constrained(content, state_of(self.model).signs)
        start_terms(content, SPREAD, random)
        content.f(0)[:, 0] = (self.level / self.size)[:, None]  # a constant, for the weights sum to one
        return content

    def split(self, learned: Rows, held_out: Rows | None, least: int) -> Split:
        """Rows for the content, repeated to at least so many, and a judge by the new predictions."""
        rows = self.local_rows(learned)
        rows = rows.repeated(least) if least else rows
        if held_out is None:
            return Split(rows, None)
        return Split(rows, self.local_rows(held_out), lambda content: self.judged(content, held_out))

    def local_rows(self, rows: Rows) -> Rows:
        """Rows for the content: both sides divided by w·size, weighted by w."""
        window, old = self.window_and_rest(rows)
        weights = rows.weights * (window**2 if self.loss == "mse" else window)[:, 0]
        points = self.fence.to_local(rows.points)
        if self.loss == "cross-entropy":
            return Rows(points, rows.targets, weights, old)
        return Rows(points, rows.targets / (window * self.size), weights, old / (window * self.size))

    def window_and_rest(self, rows: Rows) -> tuple[Array, Array]:
        """Window at each row, shape (rows, 1), and what it leaves of the old predictions."""
        window = np.maximum(self.fence.window(rows.points), LEAST_WINDOW).astype(self.model.dtype)[:, None]
        old = evaluate(state_of(self.model), rows.points)
        return window, (1 - window) * old if self.replaces else old

    def judged(self, content: Atlas, rows: Rows) -> float:
        """Loss of the new predictions, each output in units of its own spread, so that tasks compare."""
        return float(np.average(self.row_losses(content, rows), weights=rows.weights))

    def row_losses(self, content: Atlas | None, rows: Rows) -> Array:
        """Loss of each row with a content in the chart, or without the chart, shape (rows,)."""
        return self.losses_of(self.said(content, rows), rows)

    def said(self, content: Atlas | None, rows: Rows) -> Array:
        """What is said of each row with a content in the chart, or without one, shape (rows, outputs)."""
        if content is None:
            return evaluate(state_of(self.model), rows.points)
        window, rest = self.window_and_rest(rows)
        return rest + window * self.size * evaluate(state_of(content), self.fence.to_local(rows.points))

    def losses_of(self, said: Array, rows: Rows) -> Array:
        """Loss of what is said of each row, shape (rows,)."""
        spread = usual_size(rows.targets - np.median(rows.targets, axis=0), self.loss)
        scale = 1 if self.loss == "cross-entropy" else spread
        return find_loss(self.loss).per_row(said / scale, rows.targets / scale)

    def spread(self, ahead: list[tuple[Array, Rows]], rows: Rows) -> Spread:
        """How far off the chart is on rows that it had not learned, and where all its rows are."""
        test = reduce(Rows.join, [part for _, part in ahead])
        said = np.vstack([told for told, _ in ahead]).astype(np.float64)
        points, inputs = self.fence.to_local(rows.points).astype(np.float64), list(range(self.model.inputs))
        weights = test.weights.astype(np.float64)
        return Spread.of(
            self.fence.to_local(test.points).astype(np.float64),
            said / self.size,
            test.targets.astype(np.float64) / self.size,
            weights / weights.mean(),
            inputs=inputs,
            loss=self.loss,
            presence=Presence.of(points, inputs),
            signs=state_of(self.model).signs,
        )


def trained_in_turn(
    task: ChartTask, rows: Rows, density: int, options: UpdateOptions, random: np.random.Generator
) -> Iterator[tuple[Atlas, Rows]]:
    """Contents trained on all but some of the rows, and these: for rows too few to hold some out for good."""
    part = random.permutation(len(rows)) % FOLDS
    for k in range(min(FOLDS, len(rows)) if len(rows) > 1 else 0):
        split = task.split(rows.take(part != k), None, LEAST_EPOCH if options.epochs is None else 0)
        content = task.fresh_content(density, options.chart_terms, random)
        schedule = options.schedule(len(split.learned))
        yield train_density(content, split, schedule, random).model, rows.take(part == k)


def is_worthwhile(task: ChartTask, ahead: list[tuple[Array, Rows]]) -> bool:
    """Whether rows that a chart has not learned lose more without it, by more than a standard error.

    A single row tells nothing, so it is believed.
    """
    if not ahead:
        return True
    gain = np.concatenate([task.row_losses(None, rows) - task.losses_of(said, rows) for said, rows in ahead])
    weights = np.concatenate([rows.weights for _, rows in ahead])
    mean = np.average(gain, weights=weights)
    spread = np.sqrt(np.average((gain - mean) ** 2, weights=weights) / len(gain))
    return bool(mean > spread)


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
