"""What AtlasRegressor and AtlasClassifier share."""

from __future__ import annotations

import copy
import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta, timezone
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from atlas_splines.estimators.audit import Accountable
from atlas_splines.estimators.explained import Explained
from atlas_splines.estimators.fit import (
    LEAST_ROWS,
    FitOptions,
    FitRecord,
    Fitted,
    Groups,
    OutOfSample,
    blocks_of,
    fit_model,
    held_out_share,
    is_ordered,
    larger_by,
    numbered_groups,
    train_on,
)
from atlas_splines.estimators.input_space import ColumnMap
from atlas_splines.estimators.inputs import run_in_threads
from atlas_splines.estimators.ledger import (
    Contribution,
    Ledger,
    Removed,
    counting_rows,
    derive,
    framed_anew,
    framed_rows,
    in_rows,
)
from atlas_splines.estimators.reaching import REACHED, needed_domain, reached_by_hand
from atlas_splines.memory.features import Features
from atlas_splines.memory.initial_fit import ROWS_A_CENTRE, InitialFit
from atlas_splines.memory.pool import FEWEST_ROWS
from atlas_splines.memory.random_effects import LATER, Levels, place_levels
from atlas_splines.model.atlas import Atlas, is_held, model_in, snapshot_of, state_of, take_state
from atlas_splines.model.checks import check_note, check_number
from atlas_splines.model.evaluate import evaluate, evaluate_anywhere
from atlas_splines.model.lattice import Domain
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.log import Record, next_id, shortened
from atlas_splines.model.losses import find_loss
from atlas_splines.model.monotone import constrained
from atlas_splines.model.resize import reduced
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import Monotonic, State
from atlas_splines.model.train import Grown, History
from atlas_splines.updates.assess import warn_known, warn_of
from atlas_splines.updates.consolidate import consolidate
from atlas_splines.updates.footprint import RestFootprint
from atlas_splines.updates.incremental import forget_rows, forget_sums
from atlas_splines.updates.initial_memory import (
    add_first_rows,
    initial_error_model,
    solve_rows,
    start_pool,
    use_initial_model,
)
from atlas_splines.updates.log import (
    LEAST_DISTINCT,
    Consolidation,
    Removal,
    RowDigest,
    Update,
    log_in,
    log_without,
    packed,
    row_hashes,
)
from atlas_splines.updates.metrics import HeldOut, assess
from atlas_splines.updates.plan import Retention
from atlas_splines.updates.refusal import Origin, refuse_faulty
from atlas_splines.updates.routing import memory_of, needed_pool
from atlas_splines.updates.update import fewest_of, update

if TYPE_CHECKING:
    from atlas_splines.tables.encoding import Column, Encoding
    from atlas_splines.tables.inference import Remote

__all__ = ["Array", "AtlasEstimator"]

Array = NDArray[Any]
Self = TypeVar("Self", bound="AtlasEstimator")
Result = TypeVar("Result")

PLACING_FOLDS = 10  # without each of which levels are placed for its rows
MOST_BESIDE = 60  # other inputs whose splines explain what they can before levels are placed
TICK = timedelta(microseconds=1)  # that clocks of two contributions differ by at least
# Attributes that learning sets; others are parameters, columns and their names.
LEARNED = (
    *("model_", "domain_", "n_iter_", "validation_loss_", "fit_record_", "target_mean_", "target_scale_"),
    *("dispersion_", "classes_", "class_weight_", "_one_column"),
)
UNLEARNED = ("random_state", "n_jobs", "verbose", "warm_start")  # parameters that a fit does not depend on


@dataclass(frozen=True)
class AssessmentRules:
    """How a fit is judged by the same fit without some rows.

    Attributes
    ----------
    few_rows
        Below which it is: of more rows leave-one-out predictions tell enough.
    folds
        Of rows, each of which is predicted without it.
    every_fold
        Rows below which all folds are judged, and from which on the first with `enough_rows` are. Errors are
        then those of leave-one-out predictions, times what these are too small by: the mean error of judged
        rows over that of leave-one-out predictions in the fits that predict them. With some folds a fit to
        1,200 rows takes half as long, and as both errors are of fits to fewer rows, intervals are not too
        wide for that: those of 90 % hold 92.1 % of fresh rows of `airfoil` (`benchmarks/local_memory.py`),
        and 93.6 % with the errors of the folds themselves.
    enough_rows
        Rows in folds that are judged, at least.
    newest_rows
        In order of time, rows before those that are predicted which the other fit learns at most. With all
        30,000 of `flights` in `benchmarks/tabular` a fit takes a third longer.
    """

    few_rows: int = 2000
    folds: int = 5
    every_fold: int = 1000
    enough_rows: int = 300
    newest_rows: int = 10_000


ASSESSMENT_RULES = AssessmentRules()


class AtlasEstimator(Explained, Accountable):
    """What the regressor and the classifier share; they say what targets and outputs mean."""

    # --- what targets mean, for subclasses to say -----------------------------------------------------

    @abstractmethod
    def _start_targets(self, y: Array, weights: Array, classes: Array | None) -> int:
        """Learn the scale of the targets from the first ones; return the number of outputs.

        Labels may have more `classes` than those of the first rows.
        """

    @abstractmethod
    def _targets(self, y: Array) -> Array:
        """Targets as the model learns them, shape (rows, outputs)."""

    @abstractmethod
    def _values(self, outputs: Array) -> Array:
        """Mean targets or probabilities where the model has these outputs, shape (rows, outputs)."""

    @abstractmethod
    def _predictions(self, outputs: Array) -> Array:
        """What `predict` says where the model has these outputs, shape (rows, outputs)."""

    @property
    @abstractmethod
    def _measure(self) -> str:
        """Name of the error that `_error` returns."""

    @property
    @abstractmethod
    def _unit(self) -> str:
        """What that error is in."""

    @abstractmethod
    def _error(self, loss: float) -> float:
        """A mean loss of the model as an error of the estimator."""

    @property
    @abstractmethod
    def _target_unit(self) -> float:
        """What a change of one in an output of the model is in units of the target."""

    @abstractmethod
    def _turns(self, outputs: int) -> list[int]:
        """For each output 1 if it has to go the way that predictions have to go, or -1: the other way."""

    @abstractmethod
    def _origin(self, X: Array, y: Array) -> Origin:
        """Rows of an update in the units of the columns and the target."""

    @property
    def _titles(self) -> tuple[str, ...]:
        """What sentences call the inputs."""
        is_named = hasattr(self, "encoding_") or hasattr(self, "feature_names_in_")
        return tuple(f"column {name!r}" if is_named else name for name in self._input_names)

    def _has_later_level(self, X: Array) -> NDArray[np.bool_]:
        """Rows with a category that came after the fit: of these less is known than of others."""
        return np.asarray((X[:, sorted(self.domain_.levels)] >= LATER).any(axis=1))

    @property
    def _measured(self) -> tuple[int, ...]:
        """Inputs that are columns of numbers: no categories, and no parts of dates."""
        if not hasattr(self, "encoding_"):
            return tuple(j for j in range(self.n_features_in_) if j not in self.domain_.levels)
        columns = [self.encoding_.columns[k] for k in self._column_of_inputs]
        return tuple(
            j for j, column in enumerate(columns) if column.categories is None and column.calendar is None
        )

    def _weighed(self, y: Array, weights: Array) -> Array:
        """Weights of rows, by their targets too."""
        return weights

    def _look_back(self, rows: Rows) -> None:
        """Learn from the rows of the fit how outputs become predictions, if there is anything to learn."""

    # --- learning -------------------------------------------------------------------------------------

    def fit(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from data, and forget what was learned before, unless `warm_start` is set.

        Parameters
        ----------
        X
            Inputs of any scale, shape (rows, columns): an array, or a data frame of pandas, polars or
            pyarrow. Its texts, categories and dates become numbers as in the command `atlas`, by what
            `encoding_` learns of them.
        y
            Target of each row.
        sample_weight
            Weight of each row. Their unit does not matter to a fit. In later updates a row counts for as many
            rows as its weight is of the mean weight here. Errors are weighted means.
        groups
            Label of each row: rows of one group are held out together, so that the model is fitted, and
            judged, for groups that it has not seen.

        Returns
        -------
        the estimator itself
        """
        if self.warm_start and hasattr(self, "model_"):
            draft = self._knowing(X)
            return self._become(draft._fit_on(*draft._checked(X, y, sample_weight), groups))
        return self._fit(X, y, sample_weight, groups)

    @ONE_THREAD_EACH
    def _fit(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
        tolerance: float = 0.0,
        elsewhere: Remote | None = None,
        encoding: Encoding | None = None,
    ) -> Self:
        """Fit from nothing; whatever fails leaves the estimator as it was.

        Errors may grow by the share `tolerance` for the sake of fewer features. More rows of the same frame
        may be `elsewhere`. Inputs may have been made by an `encoding`, as those of a frame are.
        """
        draft = copy.copy(self)  # readers on other threads see the old model until the new one is whole
        checked = draft._checked(X, y, sample_weight, first=True, elsewhere=elsewhere)
        draft._fit_all(*checked, groups, tolerance, encoding or getattr(draft, "encoding_", None))
        return self._become(draft)

    def _fit_all(
        self: Self,
        X: Array,
        y: Array,
        weights: Array,
        groups: ArrayLike | None,
        tolerance: float,
        encoding: Encoding | None,
    ) -> Self:
        """Fit to the first contribution, and keep it if rows are kept."""
        self._check_parameters()
        apart = numbered_groups(groups, weights, self.validation)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.members).tolist()
        counted = weights > 0
        levels = {} if encoding is None else encoding.levels
        first = Contribution(
            number=0,
            time=datetime.combine(datetime.now(timezone.utc).date(), time.min, timezone.utc),
            X=X[counted],  # a copy: whoever gave the array may change it
            y=y[counted],
            weights=weights[counted],
            kind="fit",
            options={
                "seeds": seeds,
                "tolerance": tolerance,
                "levels": [[j, *each] for j, each in levels.items()],
                "trends": [] if encoding is None else encoding.trends,
                "announced": getattr(self, "_announced", None) is not None,
            },
            groups=apart,
            fitted=int(counted.sum()),
            classes=self._all_classes(y),
        )
        self._fit_contribution(first)
        self.ledger_: Ledger | None = None
        if self.memory == "rows" and len(first) <= self.max_rows:
            parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in UNLEARNED}
            self.ledger_ = Ledger((first,), parameters).remembering(self._learned)
        return self

    def _all_classes(self, y: Array) -> Array | None:
        """Classes that are announced with the first rows, whatever their weights; None for numbers."""
        return None

    def _fit_contribution(self: Self, first: Contribution, following: AtlasEstimator | None = None) -> Self:
        """Choose the frame from rows of the first contribution, and learn all of it.

        Rows beyond those of the frame join its sums and its local memory. A model that follows another one of
        the same rows is not judged once more: its intervals are as wide as the prequential errors of that.
        """
        framed, options = framed_rows(first), first.options
        levels = {j: Levels(placed, blank) for j, placed, blank in options["levels"]}
        data = FitData(first.X, first.y, first.weights, first.groups, levels, options["trends"]).take(framed)
        seeds, tolerance = options["seeds"], options["tolerance"]
        self._start_targets(data.y, in_rows(data.weights)[0], first.classes)
        made = self._fit_data(data, seeds, tolerance)
        rows, solved = made.rows, made.solved
        if following is None:
            held_out, out_of_sample = self._assessed(made, self._unseen(data, made, seeds, tolerance))
        else:
            out_of_sample = self._as_wide(made, following)
        model = made.model
        if solved is not None:
            error_model = initial_error_model(
                rows, solved, self._loss, out_of_sample.rows, out_of_sample.predicted, out_of_sample.factor
            )
            model = start_pool(
                model,
                solved,
                loss=self._loss,
                unit=made.unit,
                half_life=self.half_life,
                error_model=error_model,
                memory=made.fitted.memory,
                fewest=FEWEST_ROWS if self.memory == "sums" else 1,
                undo=self.undo,
            )
        self.domain_, self.model_ = made.columns, model
        if following is None:
            self._remember(made.fitted.members, len(rows), held_out, first.time)
        self._look_back(rows)
        if not framed.all():
            rest = self._rows(*(part[~framed] for part in (first.X, first.y, first.weights)))
            self._take_first(add_first_rows(state_of(self.model_), [rest]), len(rest))
        return self

    # --- the ledger -----------------------------------------------------------------------------------

    @property
    def _learned(self) -> dict[str, Any]:
        """All that the estimator has learned, but for its log and its ledger."""
        kept = {name: value for name, value in vars(self).items() if name in LEARNED}
        return kept | {"model_": state_of(self.model_)}

    def _with_learned(self: Self, learned: Mapping[str, Any]) -> Self:
        """An estimator of these parameters and columns that has learned something else; its log is empty."""
        draft = copy.copy(self)
        draft.__dict__.update(learned)
        draft.model_ = model_in(learned["model_"])
        return draft

    def _derived(self: Self, ledger: Ledger) -> Self:
        """The estimator as its contributions are those of a ledger, with the log that it has."""
        draft = derive(self, ledger)
        state = state_of(draft.model_)
        draft.model_ = model_in(state, log_in(state, self.model_.updates))
        return draft

    def _with_columns_of(self: Self, ledger: Ledger) -> Self:
        """The estimator, or a draft, with the columns of the fit of a ledger, and what came since."""
        base, columns, is_coded = ledger.base, ledger.columns, hasattr(self, "encoding_")
        if not hasattr(self, "feature_names_in_"):
            return self
        if len(self._input_names) == base and not columns and not is_coded:
            return self
        draft, inputs = copy.copy(self), [name for column in columns for name in column.inputs]
        draft._came = len(columns)
        if is_coded:
            draft.encoding_ = ledger.encoding_of(self.encoding_)
            names = draft.encoding_.names
        else:
            names = [*self.feature_names_in_[:base].tolist(), *inputs]
        draft.n_features_in_, draft.feature_names_in_ = len(names), np.array(names, object)
        return draft

    def _encoding_if_needed(self: Self) -> Self:
        """The estimator, or a draft without an encoding, which a frame of numbers does not need."""
        if not hasattr(self, "encoding_") or not self.encoding_.is_plain:
            return self
        draft = copy.copy(self)
        del draft.encoding_
        return draft

    def _taking_frames(self: Self) -> Self:
        """The estimator, or a draft of a model of frames of numbers to which columns of another kind came."""
        ledger = self._current_ledger
        if ledger is None or not ledger.columns or hasattr(self, "encoding_"):
            return self
        draft = copy.copy(self)
        draft.n_features_in_, draft.feature_names_in_ = ledger.base, self.feature_names_in_[: ledger.base]
        return draft._with_encoding()._with_columns_of(ledger)._encoding_if_needed()

    def _hashes_of(self, X: Array, y: Array, weights: Array) -> list[bytes]:
        """Hash of each row, by the names of columns and categories that came after the fit."""
        ledger = self._current_ledger
        if ledger is None:
            return row_hashes(X, y, weights)
        return ledger.row_hashes(X, y, weights, self._columns)

    @property
    def _columns(self) -> Sequence[Column]:
        """How columns of a table are encoded, if that is known: an update may bring further categories."""
        return self.encoding_.columns if hasattr(self, "encoding_") else self._table_columns

    def _digest_of(self, X: Array, y: Array, weights: Array) -> RowDigest:
        """The digest of rows."""
        digest = RowDigest()
        digest.add_hashes(packed(sorted(self._hashes_of(X, y, weights))))
        return digest

    def _without(self: Self, ledger: Ledger, kind: str, removed: Sequence[Removed]) -> Self:
        """The estimator without contributions, or without rows of them: derived from the others, and logged.

        Where a later update decides otherwise without them, that is said.
        """
        draft = self._derived(ledger)
        log = draft.model_.updates
        charted = [{chart.update for chart in each.model_.charts} for each in (self, draft)]
        entry = Removal(
            id=next_id(log),
            kind=kind,
            time=draft._clock(),
            rows=sum(each.rows for each in removed),
            before=self.model_.fingerprint(),
            after=draft.model_.fingerprint(),
            updates=tuple(each.number for each in removed),
        )
        whole = [each.number for each in removed if each.is_whole]
        state = state_of(draft.model_)
        draft.model_ = model_in(state, log_without(log, whole, entry, state))
        for number in sorted((charted[0] ^ charted[1]) & {*ledger.numbers}):
            verb = "opens a chart now" if number in charted[1] else "is pooled now, and opened a chart before"
            warn_of(f"update {number} was decided again without these rows: it {verb}")
        return draft

    @ONE_THREAD_EACH
    def revert(self: Self, id: int) -> Self:
        """Revert the update of this number in `update_log_`, whenever it came.

        The model is that of a life without it, bit for bit: later updates are learned again without it, and
        where one of them decides otherwise an `UpdateWarning` says so. With memory="sums" that holds for the
        latest updates, as many as `Atlas.revert` can take back.

        Parameters
        ----------
        id
            Number of an update that stands.

        Returns
        -------
        the estimator itself
        """
        check_is_fitted(self, "model_")
        ledger = self._current_ledger
        if ledger is None:
            return self._revert_sums(id)
        gone = [each for each in ledger.contributions if each.number == id and id]
        if not gone:
            standing = ", ".join(map(str, ledger.numbers)) or "none"
            raise ValueError(f"update {id} cannot be reverted; of this model's updates, {standing} can")
        removed = [Removed(id, len(gone[0]), True)]
        return self._become(self._without(ledger.without(id), "revert", removed))

    @property
    def _current_ledger(self) -> Ledger | None:
        """The ledger, if the model is derived from it: whoever changes `model_` directly leaves it behind."""
        ledger: Ledger | None = getattr(self, "ledger_", None)
        is_current = ledger is not None and ledger.fingerprint == self.model_.fingerprint()
        return ledger if is_current else None

    def _noting(self, ledger: Ledger | None, contribution: Contribution) -> Ledger | None:
        """A ledger with what the estimator has just learned; None if there is no room for its rows."""
        if ledger is None or ledger.rows + len(contribution) > self.max_rows:
            return None
        return ledger.with_(contribution).remembering(self._learned)

    def _clock(self) -> datetime:
        """Now, or just after the latest contribution if that has a later clock."""
        now, ledger = datetime.now(timezone.utc), getattr(self, "ledger_", None)
        return now if ledger is None else max(now, ledger.contributions[-1].time + TICK)

    def _can_frame(self, ledger: Ledger) -> bool:
        """Whether the frame can be chosen anew from all rows: no row or chart stands in its way."""
        if memory_of(state_of(self.model_)) is None or self.half_life is not None:
            return False
        if ledger.fit.groups is not None or not isinstance(self.domain, str):
            return False
        by_user = {each.number for each in ledger.contributions if each.options.get("retention") == "chart"}
        fixed = by_user | {ledger.contributions[-1].number}  # whose promise is that nothing else changes
        if fixed & {chart.update for chart in self.model_.charts}:
            return False
        updates = [ledger.wide(each).X for each in ledger.contributions if each.kind == "update"]
        levels = sorted(self.domain_.levels)
        return not any((X[:, levels] >= LATER).any() for X in updates)

    def _framed_by(self: Self, rows: Contribution, parameters: Mapping[str, Any]) -> Self:
        """A draft with a frame chosen from all rows, which goes on with what is known of the candidates."""
        draft, before = copy.copy(self), needed_pool(state_of(self.model_))
        now = self.get_params(deep=False)
        draft.set_params(**{name: value for name, value in parameters.items() if name in now})
        draft._fit_contribution(rows, self)
        draft.set_params(**now)
        pool = needed_pool(state_of(draft.model_)).following(before, self._square_in(draft))
        draft.model_ = model_in(pool.state_like(state_of(draft.model_)), self.model_.updates)
        return draft

    def _square_in(self: Self, other: Self) -> float:
        """A squared error of one in the units of another fit."""
        return 1.0

    def _knowing_classes(self: Self, classes: Array) -> Self:
        """The estimator, or a draft that knows more classes."""
        return self

    @property
    def _known_classes(self) -> Array | None:
        """Classes that are known; None for numbers."""
        return None

    def _fit_data(
        self, data: FitData, seeds: list[int], tolerance: float, is_final: bool = True
    ) -> FitResult:
        """The fit itself: nothing of it is judged here. One that is not final only judges another."""
        weights, unit = in_rows(self._weighed(data.y, data.weights))
        targets = self._targets(data.y)
        X, effects = cross_fitted_levels(data, targets, weights, seeds[0])
        columns = ColumnMap.of(X, self._limits(X), effects)
        rows = Rows(self._first_points(X, columns), targets, weights)
        blanks = {j: coded.blank for j, coded in data.levels.items() if not coded.placed}
        columns = columns.with_levels(effects, blanks)
        options = self._fit_options(targets.shape[1], self._monotonic(columns, targets.shape[1]))
        options.check_cost(rows.points.shape[1])
        solved = self._solved(rows, columns, options, seeds[0], tolerance)
        fitted = fit_model(rows, options, seeds, self._map, solved, data.groups, is_final)
        return FitResult(columns, rows, unit, options, solved, fitted)

    # --- judging --------------------------------------------------------------------------------------

    def _unseen(self, data: FitData, made: FitResult, seeds: list[int], tolerance: float) -> OutOfFold | None:
        """What the same fit without some rows says of these rows: nothing of it has seen them.

        In order of time these are the last rows, and otherwise folds of them, as long as rows are few: then
        features, length scales and shares that were chosen with a row still tell of it. On pure noise R² is
        told too high by up to 0.06 at 150 rows without this, and by up to 0.014 at 3,000.
        """
        if made.solved is None or not made.options.finds_size or len(data) < LEAST_ROWS:
            return None
        if self.validation == "last" or (self.validation == "auto" and self._in_time(data, made)):
            share = held_out_share(len(data), made.options)
            last = blocks_of(len(data), share, 1)
            recent = np.flatnonzero(~last)[-ASSESSMENT_RULES.newest_rows :]
            before = made.rows.take(recent)
            mean = np.average(before.targets, axis=0, weights=before.weights)
            predicted, _ = self._predicted_without(data, last, recent, seeds, tolerance)
            return OutOfFold(last, predicted, np.broadcast_to(mean, predicted.shape), later=True)
        if len(data) >= ASSESSMENT_RULES.few_rows:
            return None
        folds = self._assessment_folds(data, seeds[0])

        def without(k: int) -> tuple[Array, Array]:
            return self._predicted_without(data, folds[k], np.flatnonzero(~folds[k]), seeds, tolerance)

        found = self._map(without, range(len(folds)))
        outputs, means = (np.empty(made.rows.targets.shape) for _ in range(2))
        for own, (of_fold, _) in zip(folds, found, strict=True):
            rest = made.rows.take(~own)
            outputs[own], means[own] = of_fold, np.average(rest.targets, axis=0, weights=rest.weights)
        assessed, left_out = np.any(folds, axis=0), np.mean([errors for _, errors in found], axis=0)
        return OutOfFold(assessed, outputs[assessed], means[assessed], later=False, left_out=left_out)

    def _in_time(self, data: FitData, made: FitResult) -> bool:
        """Whether rows are in order of time: by dates, by a clock, or since neighbours have errors alike."""
        if data.groups is not None or made.solved is None:
            return False
        clocks = made.fitted.memory is not None and made.fitted.memory.clocks
        return bool(data.follows_dates or clocks or is_ordered(made.rows, made.solved))

    def _assessment_folds(self, data: FitData, seed: int) -> list[NDArray[np.bool_]]:
        """Masks of the folds that are judged: rows of one group, or neighbours if asked for, are in one."""
        number, folds = np.random.default_rng(seed).permutation(len(data)), ASSESSMENT_RULES.folds
        if data.groups is not None:
            number = data.groups
        if self.validation == "blocks":
            number = np.arange(len(data)) * folds // len(data)
        masks = [mask for k in range(folds) if (mask := number % folds == k).any()]
        # the first of blocks in order are no sample of all
        if self.validation == "blocks" or len(data) < ASSESSMENT_RULES.every_fold:
            return masks
        before = np.cumsum([0, *(mask.sum() for mask in masks[:-1])])  # rows in the folds before each
        return [
            mask for mask, count in zip(masks, before, strict=True) if count < ASSESSMENT_RULES.enough_rows
        ]

    def _predicted_without(
        self,
        data: FitData,
        held_out: NDArray[np.bool_],
        learned: NDArray[np.intp],
        seeds: list[int],
        tolerance: float,
    ) -> tuple[Array, Array]:
        """Outputs for some rows of the fit to others, and the mean leave-one-out error of that fit.

        Both are in the units of this fit, of shapes (held out, outputs) and (outputs,).
        """
        part, rest = copy.copy(self), data.take(learned)
        part.verbose = 0
        part._start_targets(rest.y, in_rows(rest.weights)[0], getattr(self, "classes_", None))
        made = part._fit_data(rest, seeds, tolerance, is_final=False)
        state, out_of_sample = state_of(made.model), made.fitted.out_of_sample
        outputs = self._as_own(part, evaluate_anywhere(state, made.columns.to_unit(data.X[held_out])))
        targets = made.rows.targets[out_of_sample.rows].astype(np.float64)
        errors = np.abs(self._as_own(part, targets) - self._as_own(part, out_of_sample.predicted))
        return outputs, errors.mean(axis=0)

    def _as_own(self: Self, other: Self, outputs: Array) -> Array:
        """Outputs of another fit in the units of this one."""
        return outputs

    def _assessed(
        self, made: FitResult, out_of_fold_rows: OutOfFold | None
    ) -> tuple[HeldOut | None, OutOfSample]:
        """How well the fit predicts rows that it has not seen, and what is known of its errors on them."""
        fitted, solved = made.fitted, made.solved
        if out_of_fold_rows is None or solved is None:
            return fitted.held_out, fitted.out_of_sample
        apart, loss = made.rows.take(out_of_fold_rows.rows), made.options.loss
        found = assess(
            out_of_fold_rows.predicted,
            apart,
            made.rows,
            loss,
            not out_of_fold_rows.later,
            out_of_fold_rows.means,
        )
        numbers, outputs = np.flatnonzero(out_of_fold_rows.rows), out_of_fold_rows.predicted.shape[1]
        found = replace(found, later=out_of_fold_rows.later)
        if made.options.loss != "mse":
            return found, OutOfSample(numbers, out_of_fold_rows.predicted, np.ones(outputs))
        targets, out_of_sample = made.rows.targets.astype(np.float64), fitted.out_of_sample
        errors, apart_by = (
            targets[out_of_sample.rows] - out_of_sample.predicted,
            targets[numbers] - out_of_fold_rows.predicted,
        )
        if out_of_fold_rows.later:
            last = np.isin(out_of_sample.rows, numbers)
            factor = larger_by(apart_by, errors[last]) if last.any() else np.ones(outputs)
            return found, replace(out_of_sample, factor=factor)
        if out_of_fold_rows.left_out is None or out_of_fold_rows.rows.all():
            return found, OutOfSample(numbers, out_of_fold_rows.predicted, np.ones(outputs))
        # a fit to fewer rows has larger errors, by leave-one-out too: what is left is choosing with a row
        factor = np.abs(apart_by).mean(axis=0) / np.maximum(out_of_fold_rows.left_out, 1e-12)
        return found, replace(out_of_sample, factor=np.maximum(factor, 1.0))

    def _as_wide(self, made: FitResult, before: AtlasEstimator) -> OutOfSample:
        """Leave-one-out predictions of a fit, whose errors are as large as the prequential ones of another.

        To judge it by a fit without the latest rows, as the first one, took two fifths of its time.
        """
        out_of_sample = made.fitted.out_of_sample
        if made.options.loss != "mse" or not len(out_of_sample.rows):
            return out_of_sample
        errors = made.rows.targets[out_of_sample.rows].astype(np.float64) - out_of_sample.predicted
        square = needed_pool(state_of(before.model_)).prequential_square * before._square_in(self)
        factor = np.sqrt(square / np.maximum((errors**2).mean(), 1e-24))
        return replace(out_of_sample, factor=np.maximum(np.full(errors.shape[1], factor), 1.0))

    # --- the parts of a fit ---------------------------------------------------------------------------

    def _first_points(self, X: Array, columns: ColumnMap) -> Array:
        """Coordinates of the first rows, all of them in the domain."""
        points = columns.to_unit(X)
        outside = np.argwhere((points < 0) | (points > 1))
        if len(outside):
            row, j = outside[0].tolist()
            raise ValueError(
                f"row {row} of X has {X[row, j]:.6g} in column {self._called(j)}, outside its domain "
                f"{self._limits(X)[j]}; widen it"
            )
        return points.astype(np.float32)

    def _solved(
        self, rows: Rows, columns: ColumnMap, options: FitOptions, seed: int, tolerance: float
    ) -> InitialFit | None:
        """What is solved for before anything is trained, if evidence is kept."""
        if not self.features:
            return None
        return solve_rows(
            rows,
            self.features,
            seed,
            options.monotonic,
            # pairs of inputs find edges of classes; local memory does that for numbers, and overshoots less
            pairs=options.loss == "cross-entropy",
            tolerance=tolerance,
            levels=self._level_inputs(columns),
            fewest=ROWS_A_CENTRE if self.memory == "sums" else 1,
        )

    def _level_inputs(self, columns: ColumnMap) -> tuple[int, ...]:
        """Inputs whose coordinates can be levels of a category."""
        return tuple(sorted(columns.levels))

    def _monotonic(self, columns: ColumnMap, outputs: int) -> Monotonic:
        """Which way each output has to go along each input; empty if all are free."""
        along = self._directions()
        if not along.any():
            return ()
        inputs = [*along.tolist(), *[0] * len(columns.indicators)]
        return tuple(tuple(turn * way for way in inputs) for turn in self._turns(outputs))

    @ONE_THREAD_EACH
    def _fit_on(self: Self, X: Array, y: Array, weights: Array, groups: ArrayLike | None) -> Self:
        """Train the model that is there."""
        self._check_parameters()
        apart = numbered_groups(groups, weights, self.validation)
        model, points = self._model_reaching(X)
        weights, _ = in_rows(self._weighed(y, weights))
        rows = Rows(points, self._targets(y), weights).take(weights > 0)
        random = np.random.default_rng(self._seed())
        member = train_on(model.copy(), rows, self._fit_options(model.outputs), random, apart)
        self.model_, self.ledger_ = member.model, None  # what was trained on top is in no contribution
        return self._remember([member], len(rows), None)  # the model may have seen every row before

    def _remember(
        self: Self, members: list[Grown], rows: int, held_out: HeldOut | None, day: datetime | None = None
    ) -> Self:
        """Keep what is worth knowing of a training, of today or of another day."""
        self.n_iter_ = max(sum(member.epochs for member in members), 1)  # solving is one pass over the rows
        self.validation_loss_ = [member.validation for member in members]
        record = FitRecord.of(rows, held_out, self._measure, self._error)
        self.fit_record_: FitRecord | None = record if day is None else replace(record, date=day.date())
        return self

    def _assess_by(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> None:
        """Let the record of the fit tell how well the model predicts rows that it has not learned."""
        rows = self._rows(*self._checked(X, y, sample_weight))
        assessed = assess(evaluate(state_of(self.model_), rows.points), rows, rows, self._loss)
        seen = 0 if self.fit_record_ is None else self.fit_record_.rows
        self.fit_record_ = FitRecord.of(seen, assessed, self._measure, self._error)

    def _learn(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        *,
        new_columns: bool = False,
        **options: Any,
    ) -> Self:
        """Update the fitted model; whatever fails leaves the estimator as it was."""
        known, columns = self._new_columns(X, new_columns)
        if columns:
            self._refuse_columns(columns)
        draft = self._knowing(known)
        if not columns:
            checked = draft._checked(known, y, sample_weight)
            draft = draft._knowing_labels(checked[1])._apart()
            return self._become(draft._update(*checked, **options))
        draft = draft._with_encoding()
        checked = draft._grown_by(columns)._checked(X, y, sample_weight)
        draft = draft._knowing_labels(checked[1])
        options.pop("assess", None)  # the fit that follows is judged in any case
        return self._become(draft._update_with(columns, *checked, **options))

    def _apart(self: Self) -> Self:
        """A draft whose model changes alone: readers of the estimator meet a model with its own ledger."""
        draft = copy.copy(self)
        draft.model_ = snapshot_of(self.model_)
        return draft

    def _refuse_columns(self, columns: Sequence[Column]) -> None:
        """Refuse new columns where older rows cannot be missing there."""
        names = ", ".join(repr(column.name) for column in columns)
        if self._current_ledger is None:
            raise ValueError(
                f"a model that does not keep all its rows cannot learn the new column {names}; fit all data "
                'again with memory="rows", or leave it out'
            )
        if self.missing != "learn":
            raise ValueError(
                f"older rows are missing in the new column {names}, which missing={self.missing!r} refuses; "
                'call set_params(missing="learn") first, or leave it out'
            )

    def _update_with(
        self: Self,
        columns: Sequence[Column],
        X: Array,
        y: Array,
        weights: Array,
        *,
        retention: Retention | None = None,
        random_state: int | None = None,
        far: bool = False,
        message: str = "",
        author: str = "",
        accept: bool = False,
    ) -> Self:
        """Teach the fitted model rows with new columns, whose inputs are the last: all rows are fitted again.

        Parameters are as in `_update`.
        """
        start = perf_counter()
        self._check_parameters()
        check_note("message", message)
        check_note("author", author)
        ledger = self._current_ledger
        assert ledger is not None
        if ledger.rows + len(X) > self.max_rows:
            raise ValueError(
                f"with these there are {ledger.rows + len(X):,} rows, and max_rows={self.max_rows:,} can be "
                "kept, which new columns need; raise it, or leave them out"
            )
        known, counted = X[:, : len(self.domain_.knots)], weights > 0
        retention = self._way_to(known, retention, far)
        if not accept and (assessed := counted & ~self._has_later_level(known)).any():
            origin = self._origin(known[assessed], y[assessed])
            refuse_faulty(state_of(self.model_), origin, local=retention != "chart")
        if not far:
            self._refuse_far(known)
        seed = self._seed() if random_state is None else seed_of(random_state)
        base, came = ledger.split(X, [*self._columns, *columns])
        id, clock = next_id(self.model_.updates), self._clock()
        own = Contribution(
            id,
            clock,
            np.array(base),
            np.array(y),
            np.array(weights),
            "update",
            self._update_options(retention, far, seed),
            classes=self._all_classes(y),
            columns=came,
        )
        draft = self._derived(ledger.with_(own))
        state, rows = state_of(draft.model_), draft._rows(X, y, weights)
        before = draft._as_own(self, evaluate(state_of(self.model_), self._points_inside(known[counted])))
        loss = find_loss(self._loss)
        digest = draft._digest_of(X, y, weights)
        entry = Update(
            id=id,
            kind="pool",
            time=clock,
            rows=len(rows),
            before=self.model_.fingerprint(),
            after=draft.model_.fingerprint(),
            footprint=RestFootprint(state.lattice.domain, state.dtype, (), known_rows=1.0),
            seconds=perf_counter() - start,
            error_before=loss(before.astype(np.float32), rows.targets, rows.weights),
            error_after=rows.loss(draft.model_, self._loss),
            history=History(),
            reason=f"{came_text(columns)}: all rows were fitted again",
            settings={"retention": retention, "random_state": seed, "far": far},
            data=digest.text if digest.distinct >= fewest_of(state) else "",
            author=author,
            message=message,
        )
        log = shortened([*draft.model_.updates, entry], partial(is_held, state))
        draft.model_ = model_in(state, log)
        return self._become(draft)

    def _update_options(self, retention: Retention, far: bool, seed: int) -> dict[str, Any]:
        """How an update is learned, as its contribution has it."""
        return {
            "retention": retention,
            "far": far,
            "seed": seed,
            "features": self.features,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "extrapolation": self.extrapolation,
        }

    def _knowing_labels(self: Self, y: Array) -> Self:
        """The estimator, or a draft that knows the new classes among targets."""
        return self

    @ONE_THREAD_EACH
    def _update(
        self: Self,
        X: Array,
        y: Array,
        weights: Array,
        *,
        retention: Retention | None = None,
        random_state: int | None = None,
        far: bool = False,
        rest: Iterable[tuple[Any, Array]] = (),
        message: str = "",
        author: str = "",
        accept: bool = False,
        assess: bool = True,
        seed: int | None = None,
    ) -> Self:
        """Teach the fitted model new data, without forgetting; options for this call only may be given.

        With `far` the domain grows to every row; otherwise a few that are far outside are refused.
        The rest are further rows (X, y) of a table larger than memory, see `atlas_splines.update`, and so are
        `accept` and `assess`.
        `seed` is that of an update that is made again.
        """
        self._check_parameters()
        retention = self._way_to(X, retention, far)
        targets = self._targets(y)
        if seed is None:
            seed = self._seed() if random_state is None else seed_of(random_state)
        digest = self._digest_of(X, y, weights)
        known = None if accept or rest else self._known_update(digest)
        if known is not None:
            warn_known(known)
            return self
        if not accept:  # before anything else is said of rows beyond the domain
            counted = (weights > 0) & ~self._has_later_level(X)
            if counted.any():
                origin = self._origin(X[counted], y[counted])
                refuse_faulty(state_of(self.model_), origin, local=retention != "chart")
        id, clock, ledger = next_id(self.model_.updates), self._clock(), self._current_ledger
        base, came = (X, ()) if ledger is None else ledger.split(X, self._columns)
        own = Contribution(
            id,
            clock,
            np.array(base),  # copies: whoever gave them may change them
            np.array(y),
            np.array(weights),
            "update",
            self._update_options(retention, far, seed),
            classes=self._all_classes(y),
            columns=came,
        )
        X = X if ledger is None else ledger.canonical(X, own)
        # a ledger has what was reached; where there is none the log tells
        by_hand = "" if ledger else reached_by_hand(state_of(self.model_), self.model_.updates)
        reached = {REACHED: by_hand} if by_hand else {}
        model, points = self._to_learn(X, retention, far)
        extend = self._levels_off(retention)
        reach = np.tile([-np.inf, np.inf], (model.inputs, 1)) if extend else model.domain
        further = 0

        def pieces() -> Iterator[tuple[Any, Array]]:
            nonlocal further
            for piece in rest:
                further += 1
                yield piece

        others = digest.watching(self._checked(*piece, None) for piece in pieces())
        done = update(
            model,
            points,
            targets,
            retention=retention,
            extend=extend,
            features=self.features,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            loss=self._loss,
            sample_weight=self._weighed(y, weights),
            random_state=seed,
            progress=self.verbose > 1,
            rest=((self._points_in(reach, X), self._targets(y), self._weighed(y, w)) for X, y, w in others),
            message=message,
            author=author,
            accept=accept,
            assess=assess,
            digest=digest,
        )
        if done.id != id:  # the rows were known
            return self
        done.time, done.settings = clock, done.settings | {"far": far} | reached
        if not extend and model is not self.model_:  # the domain grew first, as a part of the update
            self._note_growth(model, done)
        self.model_ = model
        return self._noted(done, None if further else ledger, own)

    def _noted(self: Self, done: Update, ledger: Ledger | None, own: Contribution) -> Self:
        """The estimator after an update, with a ledger that has its rows and maybe another frame."""
        self.ledger_ = self._noting(ledger, own)
        if self.ledger_ is None:
            return self
        named = self._with_columns_of(self.ledger_)  # no category is known that no row has
        draft = framed_anew(named, self.ledger_)
        if draft is not named:
            done.reason += f"; features and length scales chosen anew from {self.ledger_.rows:,} rows"
            done.after = draft.model_.fingerprint()
            draft.ledger_ = self.ledger_.remembering(draft._learned)
        return self._become(draft)

    def _known_update(self, digest: RowDigest) -> Record | None:
        """The entry of an update that has learned the same rows, if there is one; few may well come twice."""
        ledger = self._current_ledger
        if ledger is None or digest.distinct < LEAST_DISTINCT:
            return None
        numbers = [each.number for each in ledger.contributions if each.number and each.digest == digest.text]
        records = [record for record in self.model_.updates if record.id in numbers]
        return records[-1] if records else None

    def _note_growth(self, model: Atlas, done: Update) -> None:
        """Let an update begin before the domain grew for it, which it did for nothing if nothing changed."""
        if done.kind != "pool" and done.after == done.before:
            take_state(model, state_of(self.model_))
            done.after = self.model_.fingerprint()
        done.before = self.model_.fingerprint()

    @ONE_THREAD_EACH
    def fit_more(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        rest: Iterable[tuple[Any, ...]] = (),
    ) -> Self:
        """Add more rows of the data that `fit` has seen a part of, exactly.

        This is for data that does not fit into memory: fit a random part of it, then pass the rest through
        here in pieces, in any order. The sums are then those of all rows, and the newest `max_rows` rows are
        kept, if rows are. It is a part of the fit: nothing is logged. For new data use `partial_fit`.

        Each call derives the model again from the rows that it keeps, which takes about 2 s for 100,000 of
        them; with all pieces in one call, as `rest`, that is done once.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        rest
            Further pieces, (X, y) or (X, y, sample_weight) each, such as a generator that reads them.

        Returns
        -------
        the estimator itself

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((300, 2))
        >>> pieces = ((X[k : k + 50], X[k : k + 50, 0]) for k in range(100, 300, 50))
        >>> model = AtlasRegressor(random_state=0).fit(X[:100], X[:100, 0])
        >>> model.fit_more(*next(pieces), rest=pieces).fit_record_.rows
        300
        """
        check_is_fitted(self, "model_")
        draft, count, ledger = copy.copy(self), 0, self._current_ledger
        if ledger is not None and ledger.columns:
            raise ValueError(
                f"{came_text(ledger.columns)} since the fit, so no more rows can join it; use partial_fit"
            )

        def checked() -> Iterator[tuple[Array, Array, Array]]:
            nonlocal draft, count
            for piece in ((X, y, sample_weight), *rest):
                draft = draft._knowing(piece[0])
                given = (*piece, None) if len(piece) < 3 else piece
                found = draft._checked(given[0], given[1], given[2])
                count += int((found[2] > 0).sum())
                yield found

        pieces = checked()
        if ledger is not None:
            fit, room = ledger.fit, self.max_rows - ledger.rows
            taken = list(_up_to(room, pieces))
            if count <= room:
                X, y, weights = (np.concatenate(parts) for parts in zip(*taken, strict=True))
                base, came = ledger.split(X[weights > 0], draft._columns)
                more = fit.joined(base, y[weights > 0], weights[weights > 0].astype(np.float64), came)
                return self._become(draft._derived(ledger.with_fit(more)))
            pieces = itertools.chain(taken, pieces)
        state = add_first_rows(state_of(self.model_), (draft._rows(*piece) for piece in pieces))
        return self._become(draft._take_first(state, count))

    def _take_first(self: Self, state: State, rows: int) -> Self:
        """Let the model be in a state that knows so many more rows of the first data."""
        if self.fit_record_ is not None:
            self.fit_record_ = replace(self.fit_record_, rows=self.fit_record_.rows + rows)
        return self._take_state(state)

    def _use_initial_model(self: Self) -> Self:
        """Let the model that `fit` trained speak again, with all evidence kept."""
        return self._take_state(use_initial_model(state_of(self.model_)))

    @ONE_THREAD_EACH
    def forget(self: Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take rows out of the evidence, as if they had never been learned by `partial_fit`, or by `fit`.

        What they had taught the exact memory is gone to the last bit. The fading memories start again from
        it, and the model that `fit` had trained is dropped: until the next update the exact one speaks alone.
        Where sums alone are kept, all rows of one update leave whoever learned them, the model or a chart;
        others leave the model, and are refused where a chart stands, since sums do not tell who learned them.
        A model that keeps rows is derived again from the others, and nothing of these rows is left in it but
        what was chosen with them: features, length scales, shares, and the places of categories.

        Parameters
        ----------
        X, y, sample_weight
            The rows, as they were given when they were learned.

        Returns
        -------
        the estimator itself

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((80, 1))
        >>> model = AtlasRegressor(retention="pool", members=1, terms=0, features=20, random_state=0)
        >>> model = model.fit(X[:40], X[:40, 0]).partial_fit(X[40:60], X[40:60, 0])
        >>> expected = model.predict(X)
        >>> model = model.partial_fit(X[60:], X[60:, 0]).forget(X[60:], X[60:, 0])
        >>> bool((model.predict(X) == expected).all())
        True
        """
        check_is_fitted(self, "model_")
        checked, ledger = self._checked(X, y, sample_weight), self._current_ledger
        if ledger is not None:
            left, removed = ledger.without_rows(self._hashes_of(*checked))
            return self._become(self._without(left, "forget", removed))
        state = state_of(self.model_)
        if needed_pool(state).memory is not None:
            return self._take_state(forget_rows(state, self._rows(*checked)))
        digest = RowDigest()
        digest.add(*checked)
        state, log = forget_sums(
            state, self.model_.updates, digest.text, lambda domain: self._rows(*checked, domain)
        )
        reached = reduced(state, needed_domain(self.model_, state, log))
        self.model_, self.ledger_ = model_in(reached, log), None
        return self

    def _rows(self, X: Array, y: Array, weights: Array, domain: Domain | None = None) -> Rows:
        """Rows in the coordinates and units of the model; those beyond a domain at its edge."""
        targets, weights = self._targets(y), self._weighed(y, weights)
        points = self._points_in(self.model_.domain if domain is None else domain, X)
        return Rows(points, targets, weights).take(weights > 0)

    def _take_state(self: Self, state: State) -> Self:
        """Let the model be in another state, with the log it has; no contribution tells how it came to be."""
        self.model_, self.ledger_ = model_in(state, self.model_.updates), None
        return self

    def _take_reach(self: Self, state: State, X: Array) -> Self:
        draft = copy.copy(self)
        draft.model_ = model_in(state, self.model_.updates)
        ledger, nothing = self._current_ledger, (self._no_targets(len(X)), np.zeros(len(X)))
        base, came = (
            (X, ()) if ledger is None else ledger.split(ledger.named(X, self._columns), self._columns)
        )
        own = Contribution(0, self._clock(), np.array(base), *nothing, "reach", {}, columns=came)
        draft.ledger_ = draft._noting(ledger, own)
        return self._become(draft)

    @abstractmethod
    def _no_targets(self, rows: int) -> Array:
        """Targets of rows that are not learned."""

    @ONE_THREAD_EACH
    def consolidate(
        self, X: ArrayLike | None = None, *, tolerance: float = 0.02, **options: Any
    ) -> Consolidation:
        """Fold all charts into the model's coefficients, if that changes predictions by little.

        Parameters
        ----------
        X
            Rows that matter most.
        tolerance
            Largest mean absolute change, in standard deviations of the target; of scores, for a classifier,
            and of probabilities, if it keeps rows.
        options
            As in `atlas_splines.consolidate`.

        Returns
        -------
        Consolidation
            Changes are in the unit of the tolerance; in `update_log_` they are in that of the target.
        """
        check_is_fitted(self, "model_")
        points = None
        if X is not None:
            points = self.domain_.to_unit(self._inputs(X)).clip(*self.model_.domain.T)
        ledger = self._current_ledger
        if ledger is not None and self.model_.charts and memory_of(state_of(self.model_)) is not None:
            return self._consolidate_rows(ledger, X, check_number("tolerance", tolerance, least=0))
        options = {"random_state": self._seed(), "progress": self.verbose > 1, **options}
        draft = self._apart()
        done = consolidate(draft.model_, points, tolerance=tolerance, **options)
        draft.ledger_ = None if done.replaced else getattr(self, "ledger_", None)
        self._become(draft)
        return done

    def _consolidate_rows(self, ledger: Ledger, X: ArrayLike | None, tolerance: float) -> Consolidation:
        """Fit all rows that count as one model without charts, which replaces this one if it is near."""
        start, rows = perf_counter(), counting_rows(self, ledger)
        for j in self.domain_.levels:
            if (rows.X[:, j] >= LATER).any():
                raise ValueError(
                    "categories have come since the fit, which have no place yet; fit all data again"
                )
        draft = copy.copy(self)
        draft.set_params(**ledger.parameters)
        draft._fit_contribution(rows)
        draft.set_params(**self.get_params(deep=False))
        places = [rows.X] if X is None else [rows.X, self._inputs(X)]
        points = self.domain_.to_unit(rows.X)
        inside = [chart.window.contains(points.astype(self.model_.dtype)) for chart in self.model_.charts]
        changes = [
            self._change_to(draft, place) for place in [*places, *(rows.X[m] for m in inside if m.any())]
        ]
        error, log = float(max(change.mean() for change in changes)), self.model_.updates
        done = Consolidation(
            id=next_id(log),
            kind="consolidation",
            time=self._clock(),
            rows=len(rows),
            before=self.model_.fingerprint(),
            after=(draft if error <= tolerance else self).model_.fingerprint(),
            replaced=error <= tolerance,
            error=error,
            worst=float(max(change.max() for change in changes)),
            seconds=perf_counter() - start,
        )
        if done.replaced:
            draft.ledger_ = Ledger((rows,), ledger.parameters).remembering(draft._learned)
            state = state_of(draft.model_)
            draft.model_ = model_in(state, shortened([*log_in(state, log), done], lambda number: False))
            self._become(draft)
        return done

    def _change_to(self: Self, other: Self, X: Array) -> Array:
        """How far predictions are from those of another fit, in standard deviations of the targets."""
        mine, own = (each._values(each._outputs_at(each.domain_.to_unit(X))) for each in (self, other))
        return np.abs(own - mine) / self._target_scales

    @property
    def _target_scales(self) -> Array | float:
        """Standard deviations of the targets; 1 for probabilities."""
        return 1.0

    def _map(self, function: Callable[[int], Result], numbers: Iterable[int]) -> list[Result]:
        return run_in_threads(function, numbers, self.n_jobs)

    def _seed(self) -> int:
        return seed_of(self.random_state)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "learn"
        return tags


@dataclass(frozen=True, eq=False)
class FitData:
    """Rows of a fit, as users have them.

    Attributes
    ----------
    X, y, weights
        Inputs, targets and weights, of which none is zero.
    groups
        Number of the group of each row, shape (rows,); None without groups.
    levels
        Inputs that hold codes of categories.
    trends
        Inputs that go on as time does.
    """

    X: Array
    y: Array
    weights: Array
    groups: Groups | None
    levels: Mapping[int, Levels]
    trends: Sequence[int]

    @property
    def follows_dates(self) -> bool:
        """Whether rows are sorted by a date."""
        columns = self.X[:, list(self.trends)].T
        steps = [np.diff(column[~np.isnan(column)]) for column in columns]
        return any(bool((step >= 0).all() and step.any()) for step in steps)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.X)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> FitData:
        """Some of the rows; if they are all of one group there are none."""
        groups = None if self.groups is None else self.groups[rows]
        groups = None if groups is None or len(np.unique(groups)) < 2 else groups
        return replace(self, X=self.X[rows], y=self.y[rows], weights=self.weights[rows], groups=groups)


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a fit has made of its data: the map of the columns, the rows in it, and the model.

    The mean weight of the data, `unit`, counts as one row.
    """

    columns: ColumnMap
    rows: Rows
    unit: float
    options: FitOptions
    solved: InitialFit | None
    fitted: Fitted

    @property
    def model(self) -> Atlas:
        """The model, in the cone that it has to be in."""
        return constrained(self.fitted.model, self.options.monotonic)


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What was said of rows by a fit that has not seen them.

    Attributes
    ----------
    rows
        Mask of the rows.
    predicted
        Outputs for them, shape (such rows, outputs).
    means
        Mean targets of the rows of that fit, of the same shape.
    later
        Whether they come after all others.
    left_out
        Mean leave-one-out error of the rows that predicted them, shape (outputs,); where they are later none.
    """

    rows: NDArray[np.bool_]
    predicted: Array
    means: Array
    later: bool
    left_out: Array | None = None


def cross_fitted_levels(
    data: FitData, targets: Array, weights: Array, seed: int
) -> tuple[Array, dict[int, Array]]:
    """Inputs in which codes have become cross-fitted effects of their levels, and the effects of all levels.

    All rows of a group are in one fold.
    """
    placed = {j: coded.placed for j, coded in data.levels.items() if coded.placed}
    if not placed:
        return data.X, {}
    number = np.random.default_rng(seed).permutation(len(data)) if data.groups is None else data.groups
    others = np.delete(data.X, list(placed), axis=1)[:, :MOST_BESIDE]
    points = ColumnMap.of(others, "data").to_unit(others) if others.size else np.zeros((len(data), 0))
    beside = Features(points.shape[1], tuple(range(points.shape[1])), (), ())(points)
    X, effects = data.X.copy(), {}
    for j, count in placed.items():
        codes = np.where(np.isnan(X[:, j]), -1, X[:, j]).astype(np.int64)
        doubles = targets.astype(np.float64), weights.astype(np.float64)
        placement = place_levels(codes, *doubles, count, number % PLACING_FOLDS, beside)
        X[:, j], effects[j] = placement.rows, placement.levels
    return X, effects


def came_text(columns: Sequence[Column]) -> str:
    """Which columns came, in words."""
    one = len(columns) == 1
    return f"{'column' if one else 'columns'} {', '.join(repr(each.name) for each in columns)} came"


def _up_to(rows: int, pieces: Iterable[tuple[Array, Array, Array]]) -> Iterator[tuple[Array, Array, Array]]:
    """Pieces of rows, until there are more than so many."""
    count = 0
    for piece in pieces:
        count += len(piece[0])
        yield piece
        if count > rows:
            return


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """A number to seed the library's own generators with."""
    return int(check_random_state(random_state).randint(2**31 - 1))
