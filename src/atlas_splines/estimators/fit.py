"""The fit: groups of rows that belong together, members, model selection and out-of-sample error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from typing import Literal, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from atlas_splines.memory.initial_fit import LEAST_FEATURES, InitialFit, out_of_sample_of
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.local_memory import LocalMemory
from atlas_splines.memory.softmax import CLASS_RULES, class_scores, class_shares
from atlas_splines.memory.stacking import clocks_of, stack
from atlas_splines.memory.to_atlas import MODEL_RULES, fold, rows_of_input
from atlas_splines.model.atlas import Atlas, average, constant, model_in, placed
from atlas_splines.model.monotone import constrained
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import Monotonic
from atlas_splines.model.train import (
    Grown,
    Schedule,
    Split,
    finest_affordable,
    grow,
    start_terms,
    train_density,
)
from atlas_splines.updates.initial_memory import FEATURES, as_first_rows, solve_rows
from atlas_splines.updates.metrics import HeldOut, assess

__all__ = [
    "LEAST_ROWS",
    "LOG_LOSS",
    "VALIDATIONS",
    "FitOptions",
    "FitRecord",
    "Fitted",
    "Groups",
    "OutOfSample",
    "Validation",
    "assess_average",
    "blocks_of",
    "fit_model",
    "group_folds",
    "held_out_share",
    "held_out_text",
    "is_ordered",
    "larger_by",
    "numbered_groups",
    "split_folds",
    "train_on",
]

Groups = NDArray[np.intp]  # number of each row's group, (rows,)


def numbered_groups(
    groups: ArrayLike | None, weights: NDArray[np.floating], validation: str
) -> Groups | None:
    """Number of the group of each row that has a weight, or None without groups.

    Examples
    --------
    >>> numbered_groups(["b", "a", "b", "c"], np.array([1.0, 1.0, 1.0, 0.0]), "auto")
    array([1, 0, 1])
    """
    if groups is None:
        if validation == "groups":
            raise ValueError("validation='groups' needs the group of each row: call fit(X, y, groups=...)")
        return None
    if validation not in ("auto", "groups"):
        raise ValueError(
            f"groups do not go with validation={validation!r}; leave them out, or set it to 'groups'"
        )
    labels = column_or_1d(check_array(groups, ensure_2d=False, dtype=None, input_name="groups"))
    check_consistent_length(weights, labels)
    numbers = np.unique(labels[weights > 0], return_inverse=True)[1]
    if not numbers.any():
        raise ValueError("groups has one group only; two or more are needed, for some are held out")
    return np.asarray(numbers, np.intp)


def group_folds(groups: Groups, share: float, random: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Masks of whole groups, each group in one of them, those nearest to a share of the rows first.

    There are two of them at least, if there are two groups.

    Examples
    --------
    >>> folds = group_folds(np.array([0, 0, 1, 1, 2, 2, 2, 3]), 0.25, np.random.default_rng(0))
    >>> np.array(folds).astype(int)
    array([[1, 1, 0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 1, 1, 1, 0],
           [0, 0, 1, 1, 0, 0, 0, 1]])
    """
    sizes = np.bincount(groups) / len(groups)
    order = random.permutation(len(sizes))
    middle = np.empty(len(sizes))  # of each group, where all stand in line
    middle[order] = np.cumsum(sizes[order]) - sizes[order] / 2
    fold = np.floor(middle * max(round(1 / share), 2))[groups]
    masks = [fold == k for k in np.unique(fold)]
    return sorted(masks, key=lambda mask: abs(mask.mean() - share))


Array = NDArray[np.floating]
LOG_LOSS = "log loss"


@dataclass(frozen=True)
class FitRecord:
    """What a fit has learned from, and how well it predicts rows that it was not trained on.

    Attributes
    ----------
    date
        Day of the fit, in UTC.
    rows
        Rows that it was made from, with those of `fit_more`.
    held_out
        Rows that it was judged by; 0 if there were too few, and then errors and score are NaN.
    cross_validated
        Whether each of these was predicted by those parts of the model that had not seen it. Otherwise all
        of the model predicted rows that no part of it had seen.
    measure
        What the errors are, such as "RMSE".
    error
        Error of the model as `fit` made it, in the unit of the target.
    baseline
        That of the mean of all targets, or of the frequencies of the classes.
    score
        R², compared with this mean and averaged over the targets; or the share of rows with the right class.
    later
        Whether these rows come after all rows that predicted them, as those of a file in order of time do.

    Examples
    --------
    >>> print(FitRecord(date(2026, 1, 31), 500, 100, False, "RMSE", 12.3, 34.1, 0.87))
    Held-out RMSE 12.3 (R² 0.87; the mean alone 34.1)
    """

    date: date
    rows: int
    held_out: int
    cross_validated: bool
    measure: str
    error: float
    baseline: float
    score: float
    later: bool = False

    @classmethod
    def of(
        cls, rows: int, assessed: HeldOut | None, measure: str, error: Callable[[float], float]
    ) -> FitRecord:
        """The record of a fit of today; `error` turns a loss of the model into what `measure` names."""
        assessed = assessed or HeldOut(0, False, np.nan, np.nan, np.nan)
        return cls(
            date=datetime.now(timezone.utc).date(),
            rows=rows,
            held_out=assessed.rows,
            cross_validated=assessed.cross_validated,
            measure=measure,
            error=error(assessed.error),
            baseline=error(assessed.baseline),
            score=assessed.score,
            later=assessed.later,
        )

    def __str__(self) -> str:
        if not self.held_out:
            return "Held-out error unknown, for no rows were held out"
        assessed = HeldOut(
            self.held_out, self.cross_validated, self.error, self.baseline, self.score, self.later
        )
        return held_out_text(assessed, self.measure)


def held_out_text(assessed: HeldOut, measure: str) -> str:
    """An error on rows that were not learned, by its name, beside that of the mean or of class frequencies.

    Examples
    --------
    >>> held_out_text(HeldOut(100, True, 0.3, 0.9, 0.87), LOG_LOSS)
    'Cross-validated log loss 0.3 (87.00% right; class frequencies alone 0.9)'
    """
    of_classes = measure == LOG_LOSS
    score = f"{assessed.score:.2%} right" if of_classes else f"R² {assessed.score:.4g}"
    simplest = "class frequencies" if of_classes else "the mean"
    way = "Cross-validated" if assessed.cross_validated else "Held-out"
    where = " on later rows" if assessed.later else ""
    return f"{way} {measure} {assessed.error:.4g}{where} ({score}; {simplest} alone {assessed.baseline:.4g})"


def assess_average(
    models: Sequence[Atlas], out_of_fold_rows: NDArray[np.bool_], rows: Rows, loss: str
) -> HeldOut | None:
    """Judge the average of models by the rows that none was trained on.

    Without such rows, each row is predicted by the average of the models that were not trained on it; if all
    were trained on all rows, there is no judgement.

    Parameters
    ----------
    models
        The models.
    out_of_fold_rows
        Which rows each was not trained on, shape (models, rows).
    rows, loss
        All rows, and the name of the loss.
    """
    if not out_of_fold_rows.any():
        return None
    by_all = np.asarray(out_of_fold_rows.all(axis=0))
    cross_validated = not by_all.any()
    assessed = np.asarray(out_of_fold_rows.any(axis=0)) if cross_validated else by_all
    total = np.zeros(rows.targets.shape)
    for model, own in zip(models, out_of_fold_rows & assessed, strict=True):
        total[own] += model(rows.points[own])
    outputs = total[assessed] / out_of_fold_rows[:, assessed].sum(axis=0)[:, None]
    return assess(outputs, rows.take(assessed), rows, loss, cross_validated)


Auto = int | Literal["auto"]
Validation = Literal["auto", "random", "blocks", "last", "groups"]
Result = TypeVar("Result")

VALIDATIONS: tuple[Validation, ...] = get_args(Validation)
SPREAD = 1.0  # how far apart terms start
TERMS = (0, 4, 16, 64)  # tried in this order while that helps
FINEST = 6  # density
ROWS_PER_FUNCTION = 2  # of an input, or the model grows no finer
WORTHWHILE_RATIO = 0.99  # a larger model must lower the loss on held-out rows to this share of what it was
WORTHWHILE_ENTROPY = 0.002  # a larger classifier must lower it by this share of that of class frequencies
RATE_DIVISORS = (1, 3, 10)  # of the learning rate, one after the other
LEAST_ROWS = 40  # with fewer rows none are held out
ENOUGH_HELD_OUT = 300  # rows; a larger share than asked for is held out of small tables
MOST_HELD_OUT = 0.25  # share of the rows
MOST_COEFFICIENTS = 2**28  # of a model, 1 GiB: a fit holds several times that, as much as many machines have
FOLDED_ROWS = (60, 500)  # between which the smooth part is fitted again in folds, to choose its share
BLOCKS = 5  # of neighbouring rows that are held out
ALIKE = 0.1  # correlation of the errors of neighbouring rows, from which on they count as ordered
NEIGHBOURS = 4000  # rows that tell it
LARGE = (0.8, 0.85, 0.9, 0.95)  # quantiles that errors are compared by
PATIENCE_BATCHES = 2000  # without a lower loss, after which training stops
LEAST_PATIENCE, MOST_PATIENCE = 2, 20  # epochs, whatever the number of batches


class Mapper(Protocol):
    """Maps a function over numbers, in threads or not."""

    def __call__(self, function: Callable[[int], Result], numbers: Iterable[int]) -> list[Result]: ...


@dataclass(frozen=True)
class FitOptions:
    """How to fit: the options of the estimators, in the library's own words."""

    outputs: int
    loss: str
    density: Auto
    terms: Auto
    epochs: int
    batch_size: int
    learning_rate: float
    held_out: float  # share of the rows
    validation: Validation  # which rows are held out
    patience: int | Literal["auto"] | None  # in epochs; None runs all epochs
    verbose: bool
    monotonic: Monotonic = ()  # which way each output has to go along each input; empty if all are free
    members: int = 1  # whose terms a model of a given size or loss has
    max_rows: int = 0  # that are kept; 0 keeps none

    @property
    def finds_size(self) -> bool:
        """Whether the model may be of any size, and its loss is one that can be solved for."""
        return self.loss in ("mse", "cross-entropy") and self.density == self.terms == "auto"

    @property
    def keeps_rows(self) -> bool:
        """Whether rows are kept in a local memory."""
        return self.max_rows > 0

    def schedule(self, rows: Rows, split: Split) -> Schedule:
        """How to train on rows of which some are held out."""
        learned, assessed = len(split.learned), split.held_out is not None
        return Schedule(
            loss=self.loss,
            batch_size=min(self.batch_size, learned),
            learning_rate=self.learning_rate,
            rate_divisors=RATE_DIVISORS,
            epochs=self.epochs,
            patience=self.patience_for(learned),
            finest=self.finest_for(len(rows) if assessed else 0, rows.points.shape[1]),
            always_grows=self.density != "auto",
            worthwhile_ratio=WORTHWHILE_RATIO,
            worthwhile_gain=self.worthwhile_gain(rows),
            tells_densities=self.verbose,
        )

    def patience_for(self, rows: int) -> int | None:
        """Epochs without a lower loss after which training stops."""
        if self.patience != "auto":
            return self.patience
        return int(np.clip(PATIENCE_BATCHES * self.batch_size // rows, LEAST_PATIENCE, MOST_PATIENCE))

    def finest_for(self, rows: int, inputs: int) -> int:
        """Density to grow to at most: as rows and the size of the model allow, or the one that was chosen."""
        if self.density != "auto":
            return self.density
        affordable = MODEL_RULES.finest(inputs, self.outputs, self.all_terms)
        return min(finest_affordable(rows, ROWS_PER_FUNCTION, FINEST), affordable)

    @property
    def all_terms(self) -> int:
        """Terms that a model has at least if it finds its size, or at most if its size or loss is given."""
        if self.finds_size:
            return LEAST_FEATURES
        return self.members * (TERMS[-1] if self.terms == "auto" else self.terms)

    def check_cost(self, inputs: int) -> None:
        """Refuse a model that would be too large, before any work is done for it."""
        terms = self.all_terms
        finest = MODEL_RULES.finest(inputs, self.outputs, terms)
        density = finest if self.density == "auto" else self.density
        coefficients = inputs * rows_of_input(density) * self.outputs * (2 * terms + 1)
        if coefficients <= MOST_COEFFICIENTS:
            return
        outputs = f"{self.outputs:,} {'classes' if self.loss == 'cross-entropy' else 'outputs'}"
        smaller = "choose a lower density or fewer terms"
        less = "leave out columns or join classes" if self.finds_size else smaller
        raise ValueError(
            f"a model of {inputs:,} inputs and {outputs}, of density {density} with {terms:,} terms, "
            f"would have {coefficients:,} coefficients, {4 * coefficients / 2**30:.1f} GiB in memory and a "
            f"multiple of that while it is fitted; {less}"
        )

    def worthwhile_gain(self, rows: Rows) -> float:
        """By how much a larger model must lower the loss.

        Where classes can be told apart without a mistake, the cross-entropy falls for ever while predictions
        only get surer of themselves; so it has to fall by a share of what it is for the frequencies of the
        classes.
        """
        if self.loss != "cross-entropy":
            return 0.0
        frequencies = np.average(rows.targets, axis=0, weights=rows.weights)
        return WORTHWHILE_ENTROPY * float(entr(frequencies).sum())


@dataclass(frozen=True)
class Fitted:
    """A model that was fitted.

    Attributes
    ----------
    model
        The model.
    members
        The trainings that it is made of.
    held_out
        How well it predicts rows it was not trained on; None if there were none.
    out_of_sample
        What is known of its errors on rows that it was not trained on.
    memory
        The rows that it keeps; None if it keeps none.
    """

    model: Atlas
    members: list[Grown]
    held_out: HeldOut | None
    out_of_sample: OutOfSample
    memory: LocalMemory | None = None

    @property
    def loss(self) -> float:
        """Mean loss on these rows; infinite if there were none."""
        return np.inf if self.held_out is None else self.held_out.error


@dataclass(frozen=True, eq=False)
class OutOfSample:
    """What was said of rows by models that had not learned them.

    Attributes
    ----------
    rows
        Numbers of these rows.
    predicted
        What was said, shape (rows, outputs).
    factor
        By how much the errors of the fitted model are larger than those of what was said, shape (outputs,).
    """

    rows: NDArray[np.intp]
    predicted: NDArray[np.float64]
    factor: NDArray[np.float64]

    @classmethod
    def nothing(cls, outputs: int) -> OutOfSample:
        """Where no row was held out."""
        return cls(np.zeros(0, np.intp), np.zeros((0, outputs)), np.ones(outputs))


def fit_model(
    rows: Rows,
    options: FitOptions,
    seeds: Sequence[int],
    run: Mapper,
    solved: InitialFit | None = None,
    groups: Groups | None = None,
    is_final: bool = True,
) -> Fitted:
    """Fit a model; one that is not final only judges another.

    Where features are `solved` for, and no size is asked for, everything is solved for. Otherwise it is the
    average of as many trained members as there are seeds. Of `groups` all rows are held out, or none.
    """
    if solved is None or not options.finds_size:
        return average_along_varying(rows, options, seeds, run, groups)
    if options.monotonic or not options.keeps_rows:
        return smooth_alone(rows, solved, options, groups)
    return stack_rows(rows, solved, options, seeds[0], run, groups, is_final)


def stack_rows(
    rows: Rows,
    solved: InitialFit,
    options: FitOptions,
    seed: int,
    run: Mapper,
    groups: Groups | None = None,
    is_final: bool = True,
) -> Fitted:
    """The smooth part and local memory, mixed by out-of-sample predictions of the latest rows."""
    newest = slice(-options.max_rows, None)
    points, targets, weights = (part[newest] for part in as_first_rows(rows))
    held = HeldRows.of(points, targets, weights)
    blocks = blocks_for(len(held), options, None if groups is None else groups[newest])
    forecasts = options.loss == "mse" and options.validation == "auto" and groups is None and not blocks
    # a fit that judges another leaves this out: it would be done 25 times
    few = is_final and options.loss == "mse" and not blocks and FOLDED_ROWS[0] <= len(held) < FOLDED_ROWS[1]
    stacked = stack(
        held,
        solved.features,
        solved.statistics,
        solved.posterior,
        loss=options.loss,
        dtype=rows.points.dtype.name,
        seed=seed,
        budget=options.max_rows,
        blocks=blocks,
        clocks=clocks_of(held.points) if forecasts and len(held) >= LEAST_ROWS else (),
        smooth_left_out=smooth_in_folds(rows, solved, seed, run)[newest] if few else None,
    )
    step = -(-len(held) // len(stacked.left_out))  # of classes some rows may do
    numbers = np.arange(len(rows))[newest][::step]
    return assessed(model_in(stacked.state), rows, numbers, stacked.left_out, options, stacked.memory)


def smooth_alone(rows: Rows, solved: InitialFit, options: FitOptions, groups: Groups | None = None) -> Fitted:
    """The smooth part, where rows are not kept, or where predictions must be monotone."""
    step = -(-len(rows) // CLASS_RULES.most_rows) if options.loss == "cross-entropy" else 1
    numbers = np.arange(len(rows))[::step]
    points, targets, weights = (part[numbers] for part in as_first_rows(rows))
    if options.loss == "cross-entropy":
        phi, apart = solved.features(points), None if groups is None else groups[numbers]
        scores = class_scores(phi, targets, weights, solved.posterior, apart)
        share = class_shares([scores.left_out], targets, weights)[0]
        model, left_out = fold(solved.features, share * scores.weights), share * scores.left_out
    else:
        model = fold(solved.features, solved.posterior.weights)
        left_out = out_of_sample_of(solved.features, points, targets, weights, solved.posterior)
    return assessed(model, rows, numbers, left_out, options, None)


def assessed(
    model: Atlas,
    rows: Rows,
    numbers: NDArray[np.intp],
    left_out: NDArray[np.float64],
    options: FitOptions,
    memory: LocalMemory | None,
) -> Fitted:
    """A model with what is known of its errors, from out-of-sample predictions of some rows."""
    out_of_sample = OutOfSample(numbers, left_out, np.ones(options.outputs))
    if len(rows) < LEAST_ROWS:
        return Fitted(model, [], None, out_of_sample, memory)
    found = assess(left_out, rows.take(numbers), rows, options.loss, cross_validated=True)
    return Fitted(model, [], found, out_of_sample, memory)


def blocks_for(rows: int, options: FitOptions, groups: Groups | None) -> list[NDArray[np.intp]]:
    """Numbers of rows that are left out together to choose shares; none if rows are left out one by one."""
    if rows < LEAST_ROWS:
        return []
    if groups is not None:
        fold = np.unique(groups, return_inverse=True)[1] % BLOCKS
        return [own for k in range(BLOCKS) if len(own := np.flatnonzero(fold == k))]
    if options.validation in ("blocks", "last"):
        return np.array_split(np.arange(rows), BLOCKS)
    return []


def smooth_in_folds(rows: Rows, solved: InitialFit, seed: int, run: Mapper) -> NDArray[np.float64]:
    """Predictions of the smooth part without each fold, its features chosen again: shape (rows, outputs).

    Of few rows features and prior that were chosen with a row make its leave-one-out prediction too good.
    """
    fold = np.random.default_rng(seed).permutation(len(rows)) % BLOCKS
    found, features = np.empty(rows.targets.shape), solved.features

    def without(k: int) -> NDArray[np.float64]:
        part = solve_rows(rows.take(fold != k), FEATURES, seed, pairs=False, levels=features.levels)
        return np.asarray(part.features(rows.points[fold == k].astype(np.float64)) @ part.posterior.weights)

    for k, outputs in enumerate(run(without, range(BLOCKS))):
        found[fold == k] = outputs
    return found.clip(rows.targets.min(axis=0), rows.targets.max(axis=0))


def held_out_share(rows: int, options: FitOptions) -> float:
    """Share of the rows to hold out: of few rows more than asked for."""
    least, most = options.held_out, max(MOST_HELD_OUT, options.held_out)
    return float(np.clip(ENOUGH_HELD_OUT / rows, least, most))


def larger_by(errors: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much errors, shape (rows, outputs), are larger than others of the same rows: shape (outputs,).

    Both are compared by their large quantiles: pairs of errors tell that much better than either alone.

    Examples
    --------
    >>> errors = np.random.default_rng(0).normal(size=(200, 1))
    >>> larger_by(1.2 * errors, errors)
    array([1.2])
    """
    one, two = (np.quantile(np.abs(each), LARGE, axis=0) for each in (errors, others))
    usable = (one > 0) & (two > 0)
    logs = np.log(np.where(usable, one, 1.0) / np.where(usable, two, 1.0))
    return np.asarray(np.exp(logs.mean(axis=0)))


def is_ordered(rows: Rows, solved: InitialFit) -> bool:
    """Whether neighbouring rows have errors that are alike; of many, those in the middle tell."""
    first = max((len(rows) - NEIGHBOURS) // 2, 0)
    some = slice(first, first + NEIGHBOURS)
    points, targets, weights = (part[some] for part in as_first_rows(rows))
    out_of_sample = out_of_sample_of(solved.features, points, targets, weights, solved.posterior)
    errors = rows.targets[some] - out_of_sample
    errors = errors - errors.mean(axis=0)  # (rows, outputs)
    alike = float((errors[1:] * errors[:-1]).sum()) / max(float((errors**2).sum()), 1e-12)
    return alike > max(ALIKE, 4 / np.sqrt(len(errors)))


def blocks_of(rows: int, share: float, blocks: int) -> NDArray[np.bool_]:
    """Mask of blocks of neighbouring rows, the last rows among them.

    Examples
    --------
    >>> blocks_of(12, 0.25, 3).astype(int)
    array([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1])
    """
    place = np.arange(rows) / rows * blocks % 1  # within the block
    return np.asarray(place >= 1 - share - 1e-9)


def varying_inputs(points: NDArray[np.floating]) -> NDArray[np.intp]:
    """Inputs that do not have the same value in all rows.

    Examples
    --------
    >>> varying_inputs(np.array([[0.5, 0.1], [0.5, 0.2]]))
    array([1])
    """
    return np.flatnonzero(np.ptp(points, axis=0) > 0)


def average_along_varying(
    rows: Rows, options: FitOptions, seeds: Sequence[int], run: Mapper, groups: Groups | None = None
) -> Fitted:
    """Members that know nothing of inputs with one value in all rows, so that no other value matters."""
    inputs, varying = rows.points.shape[1], varying_inputs(rows.points)
    if len(varying) == inputs:
        return average_members(rows, options, seeds, run, groups)
    if not len(varying):
        fitted = average_members(rows, replace(options, monotonic=()), seeds, run, groups)
        return replace(fitted, model=constant(fitted.model(rows.points[:1])[0], inputs))
    own = replace(rows, points=np.ascontiguousarray(rows.points[:, varying]))
    monotonic = tuple(tuple(ways[j] for j in varying) for ways in options.monotonic)
    fitted = average_members(own, replace(options, monotonic=monotonic), seeds, run, groups)
    return replace(fitted, model=placed(fitted.model, varying, inputs))


def average_members(
    rows: Rows, options: FitOptions, seeds: Sequence[int], run: Mapper, groups: Groups | None = None
) -> Fitted:
    """As many models as there are seeds, each with other held-out rows, and their average.

    The first one finds the number of terms for all.
    """
    folds = folds_for(len(rows), options, np.random.default_rng(seeds[0]), groups)
    splits = [split_rows(rows, fold) for fold in folds]
    schedules = [options.schedule(rows, split) for split in splits]

    def member(k: int, terms: int) -> Grown:
        random, fold = np.random.default_rng(seeds[k]), k % len(folds)
        model = fresh_model(rows, options, terms, random)
        start = train_density(model, splits[fold], schedules[fold], random)
        return grow(start, splits[fold], schedules[fold], random)

    if options.terms != "auto":
        first = member(0, options.terms)
    elif splits[0].held_out is None:
        first = member(0, 0)
    else:
        first = with_enough_terms(lambda terms: member(0, terms), schedules[0])
    others = run(lambda k: member(k, first.model.terms), range(1, len(seeds)))
    members = [first, *others]
    models = [member.model for member in members]
    out_of_fold_rows = np.stack([folds[k % len(folds)] for k in range(len(members))])  # (members, rows)
    found = assess_average(models, out_of_fold_rows, rows, options.loss)
    return Fitted(average(models), members, found, predicted_out_of_sample(members, rows, folds))


def predicted_out_of_sample(
    members: Sequence[Grown], rows: Rows, folds: Sequence[NDArray[np.bool_]]
) -> OutOfSample:
    """What each member says of the rows that it held out."""
    pairs = list(zip(members, folds, strict=False))
    predicted = [member.model(rows.points[fold]) for member, fold in pairs if fold.any()]
    numbers = [np.flatnonzero(fold) for _, fold in pairs]
    outputs = rows.targets.shape[1]
    together = np.vstack([np.empty((0, outputs)), *predicted]).astype(np.float64)
    return OutOfSample(np.concatenate(numbers), together, np.ones(outputs))


def with_enough_terms(member: Callable[[int], Grown], schedule: Schedule) -> Grown:
    """A member with as many terms as help on held-out rows."""
    best = member(TERMS[0])
    for terms in TERMS[1:]:
        larger = member(terms)
        if not schedule.helps(larger.loss, best.loss):
            break
        best = larger
    return best


def train_on(
    model: Atlas,
    rows: Rows,
    options: FitOptions,
    random: np.random.Generator,
    groups: Groups | None = None,
) -> Grown:
    """Train the finest density of a fitted model, in place."""
    held_out = folds_for(len(rows), options, random, groups)[0]
    split = split_rows(rows, held_out)
    return train_density(model, split, options.schedule(rows, split), random)


def folds_for(
    rows: int, options: FitOptions, random: np.random.Generator, groups: Groups | None
) -> list[NDArray[np.bool_]]:
    """Masks of the rows to hold out, for one member after the other; a single empty mask if rows are few."""
    if rows >= LEAST_ROWS and groups is not None:
        return group_folds(groups, options.held_out, random)
    if rows >= LEAST_ROWS and options.validation in ("blocks", "last"):
        return [blocks_of(rows, options.held_out, BLOCKS if options.validation == "blocks" else 1)]
    return split_folds(rows, options.held_out, random)


def split_folds(rows: int, share: float, random: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Masks of the rows to hold out, each row in one of them; a single empty mask if rows are few."""
    if rows < LEAST_ROWS:
        return [np.zeros(rows, np.bool_)]
    fold = random.permutation(rows) % max(round(1 / share), 2)
    return [fold == k for k in range(fold.max() + 1)]


def split_rows(rows: Rows, held_out: NDArray[np.bool_]) -> Split:
    """Rows to learn and rows to hold out, by a mask that may be empty."""
    return Split(rows.take(~held_out), rows.take(held_out) if held_out.any() else None)


def fresh_model(rows: Rows, options: FitOptions, terms: int, random: np.random.Generator) -> Atlas:
    """A model of density 0 whose outputs are zero and whose terms are all different."""
    model = constrained(Atlas(rows.points.shape[1], options.outputs, terms, density=0), options.monotonic)
    start_terms(model, SPREAD, random)
    return model
