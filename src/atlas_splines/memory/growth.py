"""Growth: training the chart of an update, from coarse to fine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core import splines
from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.checks import check_size
from atlas_splines.core.losses import find_loss
from atlas_splines.core.model import Atlas
from atlas_splines.core.training import History, Trainer, TrainingDiverged
from atlas_splines.memory.covers import Count, Cover

__all__ = ["Recipe", "Rows", "learn_chart", "set_apart"]

Array = NDArray[np.floating]

TERMS, SPREAD = 10, 0.3  # pairs of exponentials, and how far apart they start
COARSEST, FINEST = 1, 6  # densities a chart grows through, in coordinates where its box is the unit cube,
FIRST_ROWS, LAST_ROWS = 8, 2  # coarser if an input has fewer rows for each function than this
HELD_OUT, LEAST_HELD_OUT = 0.1, 10  # share of the rows that choose the density, and how many that must be
SLOWER = (1, 10)  # the learning rate is divided by these, one after the other,
SLOWEST = 30  # and by this in the end
PATIENCE, PATIENCE_STEPS = 5, 500  # epochs and batches without a lower loss on the held-out rows; products of
# inputs start on a plateau, so few rows need many epochs
LEAST_EPOCH = 1000  # rows of an epoch; fewer are repeated
EPOCHS, STEPS = 50, 5000  # at least so many of each when the number of epochs is left open
USUAL = 0.9  # what is usual among the rows is this quantile, so that a few wild targets do not count
FAINTEST = 1e-3  # rows with a smaller window count as if it were this


@dataclass(frozen=True)
class Rows:
    """Checked data of an update."""

    points: Array  # (rows, inputs)
    targets: Array  # (rows, outputs)
    weights: Array  # (rows,)

    def __len__(self) -> int:
        return int(self.weights.size)

    def loss(self, model: Atlas, name: str) -> float:
        """Mean loss of a model on the data."""
        return find_loss(name)(model.evaluate(self.points), self.targets, self.weights)

    def take(self, rows: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.points[rows], self.targets[rows], self.weights[rows])

    def join(self, other: Rows) -> Rows:
        """These rows and others."""
        return Rows(
            np.vstack([self.points, other.points]),
            np.vstack([self.targets, other.targets]),
            np.concatenate([self.weights, other.weights]),
        )


@dataclass(frozen=True)
class Recipe:
    """How an update learns: the options of `memory.update`."""

    cover: Cover
    charts: Count
    density: int | None
    terms: int | None
    epochs: int | None
    batch_size: int
    learning_rate: float
    loss: str
    progress: bool

    def __post_init__(self) -> None:
        if self.density is not None:
            check_size("density", self.density, least=0, most=12)
        if self.terms is not None:
            check_size("terms", self.terms, least=0)
        if self.epochs is not None:
            check_size("epochs", self.epochs, least=1)

    def trainer(self, model: Atlas, random: np.random.Generator, slower: float = 1.0) -> Trainer:
        """Trainer of a model with these options."""
        return Trainer(
            model,
            loss=self.loss,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate / slower,
            random_state=random,
        )

    def train(self, model: Atlas, rows: Rows, random: np.random.Generator, slower: float = 1.0) -> History:
        """Train a model on some rows."""
        return self.trainer(model, random, slower).run(
            rows.points,
            rows.targets,
            epochs=self.epochs_for(len(rows)),
            sample_weight=rows.weights,
            progress=self.progress,
        )

    def epochs_for(self, rows: int) -> int:
        """Number of epochs: as given, or enough for EPOCHS passes and STEPS batches."""
        return self.epochs or max(EPOCHS, STEPS // self.batches(rows))

    def patience_for(self, rows: int) -> int:
        """Epochs to wait for a lower loss on the held-out rows."""
        return max(PATIENCE, PATIENCE_STEPS // self.batches(rows))

    def batches(self, rows: int) -> int:
        """Batches in an epoch."""
        return -(-rows // self.batch_size)

    def densities_for(self, rows: int) -> range:
        """Densities that a chart with so many rows grows through."""
        if self.density is not None:
            return range(min(COARSEST, self.density), self.density + 1)
        first = finest_affordable(rows / FIRST_ROWS, COARSEST)
        return range(first, max(first, finest_affordable(rows / LAST_ROWS, FINEST)) + 1)


def set_apart(model: Atlas, spread: float, random: np.random.Generator) -> None:
    """Give each pair of exponentials a random function of its own, which leaves all outputs zero.

    From coefficients that are all zero, every G_k would get the same steps and stay the same function; a
    random one that G_k and H_k share cancels to exactly nothing, equation (6).
    """
    model.g(0)[:] = random.normal(0, spread, model.g(0).shape)
    model.h(0)[:] = model.g(0)


def finest_affordable(functions: float, limit: int) -> int:
    """Highest density up to a limit that has at most so many basis functions for each input.

    Examples
    --------
    >>> finest_affordable(100, limit=6)
    4
    """
    return max((d for d in range(limit + 1) if splines.basis_size(d) <= functions), default=0)


def learn_chart(
    model: Atlas, id: int, rows: Rows, fence: Fence, recipe: Recipe, random: np.random.Generator
) -> tuple[Chart, History]:
    """Train a chart on the rows inside a fence.

    It is added to the model if the model helps, or else takes its place: held-out rows decide, at the
    coarsest density. Then it grows, while that lowers their loss. In the end they are learned too.
    """
    rows = rows.take(fence.contains(rows.points))
    held_out = choose_held_out(len(rows), random)
    learned = rows.take(~held_out)
    views = [View.adding(model, fence, rows, recipe.loss)]
    if held_out.any():
        views.append(View.replacing(model, fence, rows, recipe.loss))
    densities = recipe.densities_for(len(rows))
    test = rows.take(held_out) if held_out.any() else None
    shoots = [Shoot.start(view, learned, test, densities[0], recipe, random) for view in views]
    best = min(shoots, key=lambda shoot: shoot.score)
    may_grow = held_out.any() or recipe.density is not None
    for density in densities[1:] if may_grow else []:
        try:
            finer = best.grown(density, recipe, random)
        except TrainingDiverged:
            break
        if finer.score >= best.score and recipe.density is None:
            break
        best = finer
    history = fit(best.content, best.view.of(rows), None, recipe, random, SLOWEST)
    return best.chart(id), history


@dataclass(frozen=True)
class Shoot:
    """A chart on its way from coarse to fine: its content so far, and the data it grows on."""

    view: View
    learned: Rows
    test: Rows | None  # held-out rows
    content: Atlas
    score: float = np.inf  # loss on the held-out rows

    @classmethod
    def start(
        cls,
        view: View,
        learned: Rows,
        test: Rows | None,
        density: int,
        recipe: Recipe,
        random: np.random.Generator,
    ) -> Shoot:
        """Train the coarsest density."""
        model = view.model
        terms = TERMS if recipe.terms is None else recipe.terms
        content = Atlas(model.inputs, model.outputs, terms, density, dtype=model.dtype)
        set_apart(content, SPREAD, random)
        content.f(0)[:, 0] = (view.level / view.size)[:, None]  # a constant, for the weights sum to one
        return cls(view, learned, test, content).trained(recipe, random)

    def grown(self, density: int, recipe: Recipe, random: np.random.Generator) -> Shoot:
        """Train a finer density on top of this one."""
        finer = self.content.copy().expand(density=density - self.content.density, terms=0)
        return replace(self, content=finer).trained(recipe, random)

    def trained(self, recipe: Recipe, random: np.random.Generator) -> Shoot:
        """Train the finest density, in the end with smaller steps."""
        data, test = self.view.of(self.learned), None if self.test is None else self.view.of(self.test)
        for slower in SLOWER:
            fit(self.content, data, test, recipe, random, slower)
        return self if self.test is None else replace(self, score=self.view.score(self.content, self.test))

    def chart(self, id: int) -> Chart:
        """The chart, its content scaled back to the units of the targets."""
        return Chart(id, self.view.fence, self.content, self.view.size, self.view.replaces)


def fit(
    content: Atlas,
    data: Residual,
    test: Residual | None,
    recipe: Recipe,
    random: np.random.Generator,
    slower: float,
) -> History:
    """Train the finest density of a chart at one learning rate."""
    if recipe.epochs is None:
        data = data.repeated(LEAST_EPOCH)
    return recipe.trainer(content, random, slower).run(
        data.points,
        data.targets,
        epochs=recipe.epochs_for(len(data.points)),
        validation=None if test is None else (test.points, test.targets),
        patience=None if test is None else recipe.patience_for(len(data.points)),
        sample_weight=data.weights,
        offset=data.offset,
        validation_offset=None if test is None else test.offset,
        progress=recipe.progress,
    )


@dataclass(frozen=True)
class Residual:
    """Data of a chart in its local coordinates: content + offset shall be the target."""

    points: Array  # (rows, inputs)
    targets: Array  # (rows, outputs)
    offset: Array  # (rows, outputs)
    weights: Array  # (rows,)

    def repeated(self, least: int) -> Residual:
        """The data as often as makes so many rows: an epoch has a price of its own, whatever its length."""
        times = -(-least // len(self.points))
        parts = (self.points, self.targets, self.offset, self.weights)
        return Residual(*(np.concatenate([part] * times) for part in parts))


@dataclass(frozen=True, eq=False)
class View:
    """How a chart sees data: through its window, in local coordinates, in units of what is to be learned.

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
    def adding(cls, model: Atlas, fence: Fence, rows: Rows, loss: str) -> View:
        """A chart that learns what the model leaves."""
        level = np.zeros(model.outputs, model.dtype)
        return cls(
            model, fence, loss, False, level, usual_size(rows.targets - model.evaluate(rows.points), loss)
        )

    @classmethod
    def replacing(cls, model: Atlas, fence: Fence, rows: Rows, loss: str) -> View:
        """A chart that learns the targets from their middle on."""
        classes = loss == "cross-entropy"
        level = np.zeros(model.outputs, model.dtype) if classes else np.median(rows.targets, axis=0)
        return cls(model, fence, loss, True, level, usual_size(rows.targets - level, loss))

    def of(self, rows: Rows) -> Residual:
        """Data for the chart's content: both sides divided by w·size, weighted by w."""
        window, old = self.through(rows)
        weights = rows.weights * (window**2 if self.loss == "mse" else window)[:, 0]
        points = self.fence.to_local(rows.points)
        if self.loss == "cross-entropy":
            return Residual(points, rows.targets, old, weights)
        return Residual(points, rows.targets / (window * self.size), old / (window * self.size), weights)

    def through(self, rows: Rows) -> tuple[Array, Array]:
        """Window at each row, shape (rows, 1), and what it leaves of the old predictions."""
        window = np.maximum(self.fence.window(rows.points), FAINTEST).astype(self.model.dtype)[:, None]
        old = self.model.evaluate(rows.points)
        return window, (1 - window) * old if self.replaces else old

    def score(self, content: Atlas, rows: Rows) -> float:
        """Loss of the new predictions, each output in units of its own spread, so that views compare."""
        window, old = self.through(rows)
        spread = usual_size(rows.targets - np.median(rows.targets, axis=0), self.loss)
        new = old + window * self.size * content.evaluate(self.fence.to_local(rows.points))
        scale = 1 if self.loss == "cross-entropy" else spread
        return find_loss(self.loss)(new / scale, rows.targets / scale, rows.weights)


def usual_size(values: Array, loss: str) -> Array:
    """Usual size of the values of each output, shape (outputs,); one where they are all zero."""
    if loss == "cross-entropy":
        return np.ones(values.shape[1], values.dtype)
    size = np.quantile(np.abs(values), USUAL, axis=0)
    size = np.where(size > 0, size, np.abs(values).max(axis=0))
    return np.where(size > 0, size, 1).astype(values.dtype)


def choose_held_out(rows: int, random: np.random.Generator) -> NDArray[np.bool_]:
    """Mask of the rows that choose the density; none if they would be too few."""
    mask = np.zeros(rows, np.bool_)
    count = int(HELD_OUT * rows)
    if count >= LEAST_HELD_OUT:
        mask[random.choice(rows, count, replace=False)] = True
    return mask
