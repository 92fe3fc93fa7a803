"""Gradient training: batches, optimiser, stopping, history, and finer densities while they help."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model import kernels, splines
from atlas_splines.model.atlas import Atlas, state_of, take_state
from atlas_splines.model.checks import check_inputs, check_number, check_size
from atlas_splines.model.evaluate import add_charts, channel_sums, evaluate, is_bounded, share_kept
from atlas_splines.model.losses import Loss, checked_targets, checked_weights, find_loss
from atlas_splines.model.monotone import make_monotone
from atlas_splines.model.rows import Rows

__all__ = [
    "Grown",
    "History",
    "Schedule",
    "Split",
    "Trainer",
    "TrainingDiverged",
    "finest_affordable",
    "grow",
    "run_at",
    "start_terms",
    "train",
    "train_density",
]


@dataclass
class History:
    """Losses, steps and outcome of one call of `train` or `Trainer.run`.

    Attributes
    ----------
    loss
        Mean training loss of each epoch, measured while the coefficients moved.
    validation
        Loss on the validation data after each epoch; empty without validation data.
    seconds
        Time spent, without compilation only if the kernels were compiled before.
    steps
        Number of batches.
    stopped
        "epochs" when all were run, "patience" when validation stopped improving.
    best_epoch
        Zero-based epoch with the lowest validation loss; None without validation data.
    state
        "fresh" when the optimiser started from nothing, "carried" when it went on from an earlier call.
    """

    loss: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    stopped: Literal["epochs", "patience"] = "epochs"
    best_epoch: int | None = None
    state: Literal["fresh", "carried"] = "fresh"

    def __repr__(self) -> str:
        losses = f", loss {self.loss[-1]:.4g}" if self.loss else ""
        best = f", best validation {min(self.validation):.4g}" if self.validation else ""
        return (
            f"<History: {len(self.loss)} epochs, {self.steps} steps in {self.seconds:.3g} s, "
            f"stopped by {self.stopped}, optimiser {self.state}{losses}{best}>"
        )


class TrainingDiverged(ArithmeticError):
    """The loss was no longer finite. The model is as it was after the last good epoch.

    Attributes
    ----------
    history
        The good epochs.
    """

    def __init__(self, history: History, learning_rate: float) -> None:
        good = len(history.loss)
        super().__init__(
            f"the loss was no longer finite in epoch {good + 1}; the model is as it was after epoch {good}: "
            f"lower learning_rate (now {learning_rate:g}) or scale the targets to about 1"
        )
        self.history, self.learning_rate = history, learning_rate

    def __reduce__(self) -> tuple[type, tuple[History, float]]:
        return type(self), (self.history, self.learning_rate)


OPTIMIZERS = {"lazy-adam": kernels.LAZY_ADAM, "adam": kernels.ADAM, "sgd": kernels.SGD}
SAMPLES_PER_CALL = 200_000  # between calls of the kernel Python can answer Ctrl-C
MONOTONE_BATCHES = 5  # after which the coefficients of a monotone model are made monotone again

Pair = tuple[ArrayLike, ArrayLike]
Array = NDArray[np.floating]
HeldOut = tuple[Array, Array, Array | None, Array | float]  # inputs, targets, weights, offset
Seed = int | np.random.Generator | None


class Trainer:
    """Trains one model and keeps the optimiser's state from one `run` to the next.

    To carry the state over, call `run` again; to drop it, call `reset` or make a new trainer. The
    history's ``state`` is "carried" or "fresh". A model that was resized in between starts fresh, and so does
    one whose coefficients were restored, by early stopping, divergence or Ctrl-C.

    Parameters
    ----------
    model
        The model to train, in place.
    loss
        "mae", "mse", "huber" (quadratic below 1) or "cross-entropy" (softmax over the outputs).
    batch_size
        Rows in a batch.
    learning_rate
        Step size.
    optimizer
        "lazy-adam" moves a row of coefficients only in a batch that touches it, so what is far from the
        data keeps its bits. "adam" moves every row in every batch, as in the paper. "sgd" is plain.
    random_state
        Seed or generator for the order of the samples. The same seed gives the same bits.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> trainer = Trainer(Atlas(inputs=1, terms=0), random_state=0)
    >>> trainer.run(X, np.sin(6 * X), epochs=5).state
    'fresh'
    >>> trainer.run(X, np.sin(6 * X), epochs=5).state
    'carried'
    """

    def __init__(
        self,
        model: Atlas,
        *,
        loss: str = "mae",
        batch_size: int = 100,
        learning_rate: float = 0.01,
        optimizer: str = "lazy-adam",
        random_state: Seed = None,
    ) -> None:
        self.model = model
        self.loss: Loss = find_loss(loss)
        if loss == "cross-entropy" and model.outputs < 2:
            raise ValueError("cross-entropy needs a model with two outputs or more, one for each class")
        self.batch_size = check_size("batch_size", batch_size, least=1)
        self.learning_rate = check_number("learning_rate", learning_rate, least=1e-300)
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, not {optimizer!r}")
        self.optimizer = optimizer
        self.random = np.random.default_rng(random_state)
        self.reset()

    def reset(self) -> None:
        """Drop the optimiser's state.

        Examples
        --------
        >>> trainer = Trainer(Atlas(inputs=1))
        >>> trainer.reset()
        >>> trainer.carries_state
        False
        """
        self._moments: kernels.Moments | None = None
        self._size: tuple[int, int, int] | None = None

    @property
    def carries_state(self) -> bool:
        """Whether the next run goes on from the state of the last one."""
        return self._size == size_of(self.model)

    def run(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        epochs: int = 50,
        validation: Pair | None = None,
        patience: int | None = None,
        sample_weight: ArrayLike | None = None,
        offset: Array | None = None,
        validation_offset: Array | None = None,
        validation_weight: ArrayLike | None = None,
        progress: bool = False,
    ) -> History:
        """Train on X and y; see `train` for the parameters.

        `offset` and `validation_offset`, of shape (rows, outputs), are added to the model's outputs while it
        trains: it learns what they leave. `validation_weight` has the weight of each row of `validation`.

        Examples
        --------
        >>> trainer = Trainer(Atlas(inputs=1, terms=0), random_state=0)
        >>> len(trainer.run([[0.5]], [1.0], epochs=3).loss)
        3
        """
        epochs = check_size("epochs", epochs, least=0)
        if patience is not None:
            patience = check_size("patience", patience, least=1)
            if validation is None:
                raise ValueError("patience needs validation=(X, y) to measure by")
        if validation is not None and (not isinstance(validation, tuple | list) or len(validation) != 2):
            raise ValueError("validation must be a pair (X, y)")
        samples = self._samples(X, y, sample_weight, offset)
        held_out = None
        if validation is not None:
            held_out = self._held_out(*validation, validation_weight, validation_offset)
        state = state_of(self.model)
        if state.pooled is not None:  # trained coefficients are no longer those of the memory
            take_state(self.model, replace(state, pooled=None))
        history = History(state="carried" if self.carries_state else "fresh")
        start = time.perf_counter()
        try:
            self._epochs(samples, held_out, patience, _counted(epochs, progress), history)
        finally:
            history.seconds = time.perf_counter() - start
        return history

    def _epochs(
        self,
        samples: kernels.Samples,
        held_out: HeldOut | None,
        patience: int | None,
        epochs: Iterable[int],
        history: History,
    ) -> None:
        """Run epochs into the history; whatever ends them, the model is as it was after a whole one."""
        state = state_of(self.model)
        trained = state.table[state.first_trained_row :]
        last = trained.copy()
        best = last.copy() if patience is not None else last
        for _ in epochs:
            try:
                loss = self._epoch(samples)
                validation = loss if held_out is None else self._validate(*held_out)
            except BaseException:  # Ctrl-C above all
                self._restore(trained, last)
                raise
            if not np.isfinite(loss + validation) or self._overflows(samples.inputs):
                self._restore(trained, last)
                raise TrainingDiverged(history, self.learning_rate)
            history.loss.append(loss)
            history.steps += -(-samples.weights.size // self.batch_size)
            np.copyto(last, trained)
            if held_out is None:
                continue
            history.validation.append(validation)
            if history.best_epoch is None or validation < history.validation[history.best_epoch]:
                history.best_epoch = len(history.loss) - 1
                if patience is not None:
                    np.copyto(best, trained)
            elif patience is not None and len(history.loss) - 1 - history.best_epoch >= patience:
                history.stopped = "patience"
                break
        if patience is not None and history.loss and history.best_epoch != len(history.loss) - 1:
            self._restore(trained, best)

    def _overflows(self, points: Array) -> bool:
        """Whether the last step of an epoch has broken the model, which the epoch's loss does not show."""
        state = state_of(self.model)
        return not (is_bounded(state) or np.isfinite(evaluate(state, points)).all())

    def _restore(self, trained: Array, saved: Array) -> None:
        """Restore coefficients, and drop the optimiser's state, which belonged to others."""
        np.copyto(trained, saved)
        self.reset()

    def _epoch(self, samples: kernels.Samples) -> float:
        """One pass over the samples in a new order; returns their mean loss."""
        state = state_of(self.model)
        step = kernels.Step(
            self.loss.code,
            OPTIMIZERS[self.optimizer],
            self.learning_rate,
            np.array(state.trained_densities, np.int64),
            state.first_trained_row,
        )
        if not self.carries_state:
            self._moments, self._size = fresh_moments(self.model), size_of(self.model)
        order = self.random.permutation(samples.weights.size)
        batches = MONOTONE_BATCHES if state.monotonic else max(SAMPLES_PER_CALL // self.batch_size, 1)
        per_call = batches * self.batch_size
        total = 0.0
        for begin in range(0, order.size, per_call):
            part = order[begin : begin + per_call]
            total += kernels.train_batches(
                state.table, state.layout, self._moments, samples, part, self.batch_size, step
            )
            if state.monotonic:
                make_monotone(state)
        return total / float(samples.weights.sum(dtype=np.float64))

    def _validate(self, X: Array, y: Array, weights: Array | None, offset: Array | float) -> float:
        with np.errstate(all="ignore"):  # an overflow shows as a loss that is not finite
            return self.loss(evaluate(state_of(self.model), X) + offset, y, weights)

    def _held_out(
        self, X: ArrayLike, y: ArrayLike, weight: ArrayLike | None, offset: Array | None
    ) -> HeldOut:
        points = check_inputs(X, self.model.domain, self.model.dtype, "validation X")
        targets = checked_targets(y, len(points), "validation y", self.model, self.loss)
        weights = checked_weights(weight, len(points), "validation_weight", self.model)
        equal = (weights == weights[0]).all()  # as good as none, to the last bit
        return points, targets, None if equal else weights, 0.0 if offset is None else offset

    def data(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> tuple[Array, Array, Array]:
        """Check training data; return inputs, targets and weights as the kernels take them.

        Examples
        --------
        >>> inputs, targets, weights = Trainer(Atlas(inputs=1)).data([[0.5], [0.7]], [1, 2])
        >>> targets.shape, weights.shape
        ((2, 1), (2,))
        """
        points = check_inputs(X, self.model.domain, self.model.dtype)
        targets = checked_targets(y, len(points), "y", self.model, self.loss)
        return points, targets, checked_weights(sample_weight, len(points), "sample_weight", self.model)

    def _samples(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, offset: Array | None
    ) -> kernels.Samples:
        """Checked data with the sums of the frozen densities, without rows of weight zero."""
        points, targets, weights = self.data(X, y, sample_weight)
        used = weights > 0
        if not used.all():
            points, targets, weights = points[used], targets[used], weights[used]
            offset = None if offset is None else offset[used]
        return kernels.Samples(
            points, targets, weights, self._frozen_sums(points), *self._fixed(points, offset)
        )

    def _frozen_sums(self, points: Array) -> Array:
        """Sums of the frozen densities; no rows if they are all zero."""
        state = state_of(self.model)
        densities = state.filled_densities(state.frozen_densities)
        return channel_sums(state, points if densities.size else points[:0], densities)

    def _fixed(self, points: Array, offset: Array | None) -> tuple[Array, Array]:
        """Fraction of the outputs that charts leave, and offsets added to them; no rows without either."""
        state = state_of(self.model)
        if offset is None and not (state.charts or state.local or state.offsets or state.later):
            return np.zeros(0, state.dtype), np.zeros((0, state.outputs), state.dtype)
        shift = np.zeros((points.shape[0], state.outputs), state.dtype)
        add_charts(state, points, shift)
        return share_kept(state, points), shift if offset is None else shift + offset.astype(state.dtype)


def train(
    model: Atlas,
    X: ArrayLike,
    y: ArrayLike,
    *,
    loss: str = "mae",
    epochs: int = 50,
    batch_size: int = 100,
    learning_rate: float = 0.01,
    optimizer: str = "lazy-adam",
    validation: Pair | None = None,
    patience: int | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: Seed = None,
    progress: bool = False,
) -> History:
    """Train a model in place, with a fresh optimiser; use a `Trainer` to carry its state over.

    Parameters
    ----------
    model
        The model to train.
    X, y
        Inputs in the domain, shape (rows, inputs), and targets, shape (rows,) or (rows, outputs). For
        cross-entropy the targets are class numbers 0, 1, …, or one probability per class.
    loss
        "mae", "mse", "huber" or "cross-entropy".
    epochs
        Passes over the data.
    batch_size
        Rows in a batch.
    learning_rate
        Step size.
    optimizer
        "lazy-adam", "adam" (dense, the paper's) or "sgd".
    validation
        A pair (X, y) that is measured after each epoch.
    patience
        Stop after so many epochs without a better validation loss, and restore the best coefficients.
    sample_weight
        Weight of each row; rows of weight zero are left out.
    random_state
        Seed or generator for the order of the samples. The same seed gives the same bits.
    progress
        Show a progress bar.

    Returns
    -------
    History

    Raises
    ------
    TrainingDiverged
        When the loss is no longer finite; the model is then as it was after the last good epoch.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((1000, 2))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = Atlas(inputs=2)
    >>> history = train(model, X, y, epochs=50, random_state=0)
    >>> history.loss[-1] < 0.03
    True
    """
    trainer = Trainer(
        model,
        loss=loss,
        batch_size=batch_size,
        learning_rate=learning_rate,
        optimizer=optimizer,
        random_state=random_state,
    )
    return trainer.run(
        X,
        y,
        epochs=epochs,
        validation=validation,
        patience=patience,
        sample_weight=sample_weight,
        progress=progress,
    )


def fresh_moments(model: Atlas) -> kernels.Moments:
    """Optimiser state of a model that has made no step, equation (20)."""
    table = state_of(model).table
    step = np.maximum(np.arange(kernels.BIAS_HORIZON), 1)
    correction = np.sqrt(1 - kernels.SECOND_DECAY**step) / (1 - kernels.FIRST_DECAY**step)
    return kernels.Moments(
        gradient=np.zeros_like(table),
        first=np.zeros_like(table),
        second=np.zeros_like(table),
        steps=np.zeros(len(table), np.int32),
        correction=correction.astype(model.dtype),
    )


def size_of(model: Atlas) -> tuple[int, int, int]:
    """Size of a model: density, terms, and rows of its table."""
    return model.density, model.terms, len(state_of(model).table)


def _counted(epochs: int, progress: bool) -> Iterable[int]:
    if not progress:
        return range(epochs)
    from tqdm.auto import tqdm

    bar: Iterable[int] = tqdm(range(epochs), desc="training", unit="epoch")
    return bar


ValidationLoss = Callable[[Atlas], float]  # the loss of a model on held-out rows


@dataclass(frozen=True)
class Schedule:
    """Hyperparameters of training with refinement of the densities.

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
        The finest density at most.
    always_grows
        Whether the finest density is reached whatever the validation loss.
    worthwhile_ratio, worthwhile_gain
        A larger model must lower the validation loss to less than this fraction of what it was, and by more
        than this difference.
    watches
        Whether validation is after each pass, or only when a density is trained.
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
        """Whether a larger model lowers the loss enough to be chosen."""
        return larger < min(self.worthwhile_ratio * smaller, smaller - self.worthwhile_gain)


@dataclass(frozen=True)
class Grown:
    """A trained model with its validation losses.

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
    """Training rows, validation rows if there are enough, and the validation loss.

    The loss is their mean, unless another is given.
    """

    learned: Rows
    held_out: Rows | None
    assess: ValidationLoss | None = None

    def loss(self, model: Atlas, name: str) -> float:
        """Loss of a model on the held-out rows; infinite if there are none."""
        if self.held_out is None:
            return np.inf
        return self.held_out.loss(model, name) if self.assess is None else self.assess(model)


def grow(start: Grown, split: Split, schedule: Schedule, random: np.random.Generator) -> Grown:
    """Adaptive refinement: train finer densities up to the finest, or as long as validation improves."""
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
    """Train the finest density in place, with a step decay of the learning rate."""
    epochs = 0
    validation: list[float] = []
    for divisor in schedule.rate_divisors:
        history = run_at(divisor, model, split, schedule, random)
        epochs, validation = epochs + len(history.loss), validation + history.validation
    loss = split.loss(model, schedule.loss)
    if not schedule.watches:
        validation = [loss]
    if schedule.tells_densities:
        assessed = "" if split.held_out is None else f", loss on held-out rows {loss:.4g}"
        print(f"density {model.density}, {model.terms} terms: {epochs} epochs{assessed}", flush=True)
    return Grown(model, loss, epochs, validation)


def run_at(
    divisor: float, model: Atlas, split: Split, schedule: Schedule, random: np.random.Generator
) -> History:
    """Train the finest density in place at one learning rate; validation rows are weighted."""
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


def start_terms(model: Atlas, scale: float, random: np.random.Generator) -> None:
    """Symmetry breaking: a random function in each pair of exponentials, which leaves all outputs zero.

    From coefficients that are all zero, every G_k would get the same steps and stay the same function; a
    random one that G_k and H_k share cancels to exactly zero, equation (6). Along an input of a monotone
    model they share a constant only, since one has to increase and the other to decrease.
    """
    model.g(0)[:] = random.normal(0, scale, model.g(0).shape)
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
