"""What AtlasRegressor and AtlasClassifier share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from atlas_splines.core.checks import check_overflow
from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.extension import reaching
from atlas_splines.core.growing import Grown
from atlas_splines.core.model import model_in, snapshot_of, state_of, take_state
from atlas_splines.core.monotone import constrained
from atlas_splines.core.records import Record
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import Signs, State
from atlas_splines.estimators.column_footprint import ColumnFootprint, seen_through, steps_inward
from atlas_splines.estimators.column_map import ColumnMap
from atlas_splines.estimators.fitting import fit_model, train_on
from atlas_splines.estimators.groups import numbered_groups
from atlas_splines.estimators.judging import FitRecord
from atlas_splines.estimators.log import EstimatorUpdate
from atlas_splines.estimators.reaching import given_back
from atlas_splines.estimators.threads import run_in_threads
from atlas_splines.estimators.uncertainty import Uncertain
from atlas_splines.memory.consolidation import consolidate
from atlas_splines.memory.first_rows import (
    add_first_rows,
    first_spread,
    solve_rows,
    speak_as_fitted,
    start_pool,
)
from atlas_splines.memory.footprints import Footprint
from atlas_splines.memory.judging import HeldOut, judge
from atlas_splines.memory.log import Consolidation, Update
from atlas_splines.memory.plans import Retention
from atlas_splines.memory.pooling import forget_rows
from atlas_splines.memory.row_digest import RowDigest
from atlas_splines.memory.updates import footprint, update

__all__ = ["Array", "AtlasEstimator"]

Array = NDArray[Any]
Self = TypeVar("Self", bound="AtlasEstimator")
Result = TypeVar("Result")


class AtlasEstimator(Uncertain):
    """What the regressor and the classifier share; they say what targets and outputs mean."""

    # --- what targets mean, for subclasses to say -----------------------------------------------------

    @abstractmethod
    def _start_targets(self, y: Array, weights: Array) -> int:
        """Learn the scale of the targets from the first ones; return the number of outputs."""

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
            Weight of each row.
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

    def _fit(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
        tolerance: float = 0.0,
    ) -> Self:
        """Fit from nothing; whatever fails leaves the estimator as it was.

        Errors may grow by the share `tolerance` for the sake of fewer features.
        """
        draft = copy.copy(self)  # readers on other threads see the old model until the new one is whole
        draft._fit_all(*draft._checked(X, y, sample_weight, first=True), groups, tolerance)
        return self._become(draft)

    def _fit_all(
        self: Self, X: Array, y: Array, weights: Array, groups: ArrayLike | None, tolerance: float
    ) -> Self:
        self._check_parameters()
        apart = numbered_groups(groups, weights, self.validation)
        outputs = self._start_targets(y, weights)
        weights = self._weighed(y, weights)
        columns = ColumnMap.of(X, self._limits(X))
        units = columns.to_unit(X)
        if (units < 0).any() or (units > 1).any():
            row, j = np.argwhere((units < 0) | (units > 1))[0].tolist()
            raise ValueError(
                f"row {row} of X has {X[row, j]:.6g} in column {self._called(j)}, outside its domain "
                f"{self._limits(X)[j]}; widen it"
            )
        points = units.astype(np.float32)
        rows = Rows(points, self._targets(y), weights).take(weights > 0)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.members)
        signs = self._signs(columns, outputs)
        options, solved = self._fit_options(outputs, signs), None
        if self.features:
            # pairs of inputs find edges of classes; members do that for numbers, and overshoot less
            solved = solve_rows(
                rows,
                self.features,
                int(seeds[0]),
                signs,
                looks_ahead=options.stacks,
                pairs=options.loss == "cross-entropy",
                tolerance=tolerance,
            )
        fitted = fit_model(rows, options, seeds.tolist(), self._map, solved, apart)
        model = constrained(fitted.model, signs)
        if solved is not None:
            ahead = fitted.ahead
            spread = first_spread(rows, solved, self._loss, ahead.rows, ahead.said, ahead.factor)
            model = start_pool(model, rows, solved, loss=self._loss, half_life=self.half_life, spread=spread)
        self.domain_, self.model_ = columns, model
        self._remember(fitted.members, len(rows), fitted.held_out)
        self._look_back(rows)
        return self

    def _signs(self, columns: ColumnMap, outputs: int) -> Signs:
        """Which way each output has to go along each input; empty if all are free."""
        along = self._directions()
        if not along.any():
            return ()
        inputs = [*along.tolist(), *[0] * len(columns.indicators)]
        return tuple(tuple(turn * way for way in inputs) for turn in self._turns(outputs))

    def _fit_on(self: Self, X: Array, y: Array, weights: Array, groups: ArrayLike | None) -> Self:
        """Train the model that is there."""
        self._check_parameters()
        apart = numbered_groups(groups, weights, self.validation)
        model, points = self._model_reaching(X)
        weights = self._weighed(y, weights)
        rows = Rows(points, self._targets(y), weights).take(weights > 0)
        random = np.random.default_rng(self._seed())
        member = train_on(model.copy(), rows, self._fit_options(model.outputs), random, apart)
        self.model_ = member.model
        return self._remember([member], len(rows), None)  # the model may have seen every row before

    def _remember(self: Self, members: list[Grown], rows: int, held_out: HeldOut | None) -> Self:
        """Keep what is worth knowing of a training."""
        self.n_iter_ = max(sum(member.epochs for member in members), 1)  # solving is one pass over the rows
        self.validation_loss_ = [member.validation for member in members]
        self.fit_record_: FitRecord | None = FitRecord.of(rows, held_out, self._measure, self._error)
        return self

    def _judge_by(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> None:
        """Let the record of the fit tell how well the model predicts rows that it has not learned."""
        rows = self._rows(*self._checked(X, y, sample_weight))
        judged = judge(evaluate(state_of(self.model_), rows.points), rows, rows, self._loss)
        seen = 0 if self.fit_record_ is None else self.fit_record_.rows
        self.fit_record_ = FitRecord.of(seen, judged, self._measure, self._error)

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
        seed: int | None = None,
    ) -> Self:
        """Teach the fitted model new data, without forgetting; options for this call only may be given.

        With `far` the domain grows to every row; otherwise a few that are far outside are refused.
        The rest are further rows (X, y) of a table larger than memory, see `atlas_splines.update`.
        `seed` is that of an update that is made again.
        """
        self._check_parameters()
        retention = retention or self.retention
        targets = self._targets(y)
        if seed is None:
            seed = self._seed() if random_state is None else seed_of(random_state)
        digest = RowDigest()
        digest.add(X, y, weights)
        model, points = self._to_learn(X, retention, far)
        extend = self._levels_off(retention)
        reach = np.tile([-np.inf, np.inf], (model.inputs, 1)) if extend else model.domain
        checked = digest.watching(self._checked(*piece, None) for piece in rest)
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
            rest=((self._points_in(reach, X), self._targets(y), self._weighed(y, w)) for X, y, w in checked),
            message=message,
            author=author,
            digest=digest,
        )
        done.settings |= {"far": far}
        if not extend and model is not self.model_:  # the domain grew first, as a part of the update
            if done.kind != "pool" and done.after == done.before:  # nothing learned needs a larger one
                take_state(model, state_of(self.model_))
                done.after = self.model_.fingerprint()
            done.before = self.model_.fingerprint()
        self.model_ = model
        return self

    def fit_more(self: Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add more rows of the data that `fit` has seen a part of to its evidence, exactly.

        This is for data that does not fit into memory: fit a random part of it, then pass the rest through
        here in pieces, in any order. The model is then the readout of all rows. It is a part of the fit:
        nothing is logged. For new data use `partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        the estimator itself
        """
        check_is_fitted(self, "model_")
        draft = self._knowing(X)
        rows = draft._rows(*draft._checked(X, y, sample_weight))
        return self._become(draft._take_first(add_first_rows(state_of(self.model_), rows), len(rows)))

    def _take_first(self: Self, state: State, rows: int) -> Self:
        """Let the model be in a state that knows so many more rows of the first data."""
        if self.fit_record_ is not None:
            self.fit_record_ = replace(self.fit_record_, rows=self.fit_record_.rows + rows)
        return self._take_state(state)

    def _speak_as_fitted(self: Self) -> Self:
        """Let the model that `fit` trained speak again, with all evidence kept."""
        return self._take_state(speak_as_fitted(state_of(self.model_)))

    def forget(self: Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take rows out of the evidence, as if they had never been learned by `partial_fit`, or by `fit`.

        What they had taught the exact memory is gone to the last bit. The fading memories start again from
        it, and the model that `fit` had trained is dropped: until the next update the exact one speaks alone.

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
        rows = self._rows(*self._checked(X, y, sample_weight))
        return self._take_state(forget_rows(state_of(self.model_), rows))

    def _rows(self, X: Array, y: Array, weights: Array) -> Rows:
        """Rows in the coordinates and units of the model; those beyond the domain at its edge."""
        targets, weights = self._targets(y), self._weighed(y, weights)
        return Rows(self._points_inside(X), targets, weights).take(weights > 0)

    def _take_state(self: Self, state: State) -> Self:
        """Let the model be in another state, with the log it has."""
        self.model_ = model_in(state, self.model_.updates)
        return self

    # --- memory ---------------------------------------------------------------------------------------

    @property
    def update_log_(self) -> list[Record]:
        """What `partial_fit` and `consolidate` did since `fit`, oldest first; see `atlas_splines.Update`.

        Footprints are in the units of the columns; errors are in those of the target, and an update's
        ``measure`` says which error it is. `model_.updates` is the same log in the model's own units.
        `fit_more`, and `fit` with `warm_start`, are parts of a fit: they can change every prediction, cannot
        be reverted, and leave no entry.
        """
        check_is_fitted(self, "model_")
        log: list[Record] = []
        model = snapshot_of(self.model_)
        # Other training may have extended the domain further before an update: then the footprint of its
        # entry is larger than it need be.
        known = np.tile([0.0, 1.0], (model.inputs, 1))
        for record in model.updates:
            log.append(self._in_own_units(record, known))
            if isinstance(record, Update) and not record.reverted:  # that may have given the domain back
                known = record.footprint.domain
        return log

    def _in_own_units(self, record: Record, known: Array) -> Record:
        """An entry of the model's log in the units of columns and target."""
        if isinstance(record, Consolidation):
            unit = self._target_unit
            return replace(record, error=unit * record.error, worst=unit * record.worst)
        if not isinstance(record, Update):
            return record
        return EstimatorUpdate.of(
            record,
            footprint=self._in_columns(record.footprint, known),
            error_before=self._error(record.error_before),
            error_after=self._error(record.error_after),
            held_out=self._held_out(record.held_out),
            measure=self._measure,
            unit=self._unit,
        )

    def _held_out(self, judged: HeldOut | None) -> HeldOut | None:
        """A judgement of the model with errors of the estimator."""
        if judged is None:
            return None
        return replace(judged, error=self._error(judged.error), baseline=self._error(judged.baseline))

    def _in_columns(self, area: Footprint, known: Array) -> ColumnFootprint:
        """A footprint in the units of the columns; `known` is the model's domain before the update."""
        seen = seen_through(self.domain_, area, self._input_names, known)
        if not hasattr(self, "encoding_"):
            return seen
        from atlas_splines.estimators.frame_footprint import FrameFootprint  # it loads pyarrow

        return FrameFootprint.of(seen, self.encoding_)

    def footprint(self, X: ArrayLike) -> ColumnFootprint:
        """Tell which predictions `partial_fit` with inputs X could change, without any training.

        Parameters
        ----------
        X
            Inputs of the new data.
        """
        return self._footprint(X)

    def _footprint(
        self, X: ArrayLike, *, retention: Retention | None = None, far: bool = False
    ) -> ColumnFootprint:
        """The footprint of `_update` with the same parameters."""
        check_is_fitted(self, "model_")
        now, retention = self._now(), retention or self.retention
        model, points = now._to_learn(now._inputs(X), retention, far)
        model = model_in(reaching(state_of(model), points))
        return now._in_columns(footprint(model, points, retention=retention), now.model_.domain)

    def revert(self: Self, id: int) -> Self:
        """Take back the update of this number in `update_log_`, exactly; see `Atlas.revert`.

        If it extended the domain and was the newest, the domain is again what it was, and the model no larger
        than before. If later updates stand, the domain stays: inside that of before, every prediction has its
        bits again.

        Parameters
        ----------
        id
            Number of an update that opened charts, or of one of the latest that were pooled; the rows of
            older ones can be given to `forget`.
        """
        check_is_fitted(self, "model_")
        model = snapshot_of(self.model_)  # entries of its own: readers see the old ones until it is done
        model.revert(id)
        before = next(record.before for record in model.updates if record.id == id)
        earlier = [r.footprint.domain for r in model.updates if isinstance(r, Update) and r.id != id]
        unit = np.tile([0.0, 1.0], (model.inputs, 1))
        take_state(model, given_back(state_of(model), before, [*reversed(earlier), unit]))
        self.model_ = model
        return self

    def consolidate(
        self, X: ArrayLike | None = None, *, tolerance: float = 0.02, **options: Any
    ) -> Consolidation:
        """Fold all charts into the model's coefficients, if that changes predictions by little.

        Parameters
        ----------
        X
            Rows that matter most.
        tolerance
            Largest mean absolute change, in standard deviations of the target; of scores, for a classifier.
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
        options = {"random_state": self._seed(), "progress": self.verbose > 1, **options}
        return consolidate(self.model_, points, tolerance=tolerance, **options)

    # --- prediction -----------------------------------------------------------------------------------

    def _now(self: Self) -> Self:
        """The estimator of this moment without its log, which no later change reaches: to predict with."""
        check_is_fitted(self, "model_")
        now = copy.copy(self)
        now.model_ = model_in(state_of(now.model_))
        return now

    def _outputs(self, X: ArrayLike) -> Array:
        """Outputs of the model in float64, shape (rows, outputs); to be asked of `_now`."""
        return self._outputs_at(self.domain_.to_unit(self._inputs(X)))

    def _outputs_at(self, points: Array) -> Array:
        """The same at coordinates that the columns have, in the domain or not."""
        model = self.model_
        inside = points.clip(*model.domain.T)
        if self.extrapolation == "error":
            self._refuse_outside(points, inside)
        state = state_of(model)
        out = evaluate(state, inside.astype(model.dtype)).astype(np.float64)
        if self.extrapolation == "linear":
            edge = out.copy()
            for j, rows, inward in steps_inward(points, inside):
                step = (inside[rows, j] - inward[:, j])[:, None]
                slope = (edge[rows] - evaluate(state, inward.astype(model.dtype))) / step
                out[rows] += slope * (points[rows, j] - inside[rows, j])[:, None]
        check_overflow(out)
        return out

    def _refuse_outside(self, points: Array, inside: Array) -> None:
        if (points != inside).any():
            row, j = np.argwhere(points != inside)[0].tolist()
            raise ValueError(
                f"row {row} of X lies outside the domain, which is {self._domain_text(j)} in column "
                f"{self._called(j)}; "
                "use extrapolation='constant' or 'linear', or teach such rows with partial_fit"
            )

    def _map(self, function: Callable[[int], Result], numbers: Iterable[int]) -> list[Result]:
        return run_in_threads(function, numbers, self.n_jobs)

    def _seed(self) -> int:
        return seed_of(self.random_state)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "learn"
        return tags


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """A number to seed the library's own generators with."""
    return int(check_random_state(random_state).randint(2**31 - 1))
