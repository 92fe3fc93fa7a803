"""What AtlasRegressor and AtlasClassifier share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.growing import Grown
from atlas_splines.core.linear_algebra import ONE_THREAD_EACH
from atlas_splines.core.model import Atlas, model_in, state_of, take_state
from atlas_splines.core.monotone import constrained
from atlas_splines.core.rows import Rows
from atlas_splines.core.state import Signs, State
from atlas_splines.estimators.accountable import Accountable
from atlas_splines.estimators.column_map import ColumnMap
from atlas_splines.estimators.fitting import FitOptions, fit_model, train_on
from atlas_splines.estimators.groups import numbered_groups
from atlas_splines.estimators.judging import FitRecord
from atlas_splines.estimators.threads import run_in_threads
from atlas_splines.evidence.design import Solved
from atlas_splines.memory.consolidation import consolidate
from atlas_splines.memory.first_rows import (
    add_first_rows,
    first_spread,
    solve_rows,
    speak_as_fitted,
    start_pool,
)
from atlas_splines.memory.judging import HeldOut, judge
from atlas_splines.memory.log import Consolidation, Update
from atlas_splines.memory.plans import Retention
from atlas_splines.memory.pooling import forget_rows
from atlas_splines.memory.row_digest import RowDigest
from atlas_splines.memory.updates import update

if TYPE_CHECKING:
    from atlas_splines.tables.survey import Elsewhere

__all__ = ["Array", "AtlasEstimator"]

Array = NDArray[Any]
Self = TypeVar("Self", bound="AtlasEstimator")
Result = TypeVar("Result")


class AtlasEstimator(Accountable):
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

    @ONE_THREAD_EACH
    def _fit(
        self: Self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
        tolerance: float = 0.0,
        elsewhere: Elsewhere | None = None,
    ) -> Self:
        """Fit from nothing; whatever fails leaves the estimator as it was.

        Errors may grow by the share `tolerance` for the sake of fewer features. More rows of the same frame
        may be `elsewhere`.
        """
        draft = copy.copy(self)  # readers on other threads see the old model until the new one is whole
        checked = draft._checked(X, y, sample_weight, first=True, elsewhere=elsewhere)
        draft._fit_all(*checked, groups, tolerance)
        return self._become(draft)

    def _fit_all(
        self: Self, X: Array, y: Array, weights: Array, groups: ArrayLike | None, tolerance: float
    ) -> Self:
        self._check_parameters()
        apart = numbered_groups(groups, weights, self.validation)
        outputs = self._start_targets(y, weights)
        weights = self._weighed(y, weights)
        columns = ColumnMap.of(X, self._limits(X))
        rows = Rows(self._first_points(X, columns), self._targets(y), weights).take(weights > 0)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.members)
        options = self._fit_options(outputs, self._signs(columns, outputs))
        solved = self._solved(rows, options, int(seeds[0]), tolerance)
        fitted = fit_model(rows, options, seeds.tolist(), self._map, solved, apart)
        model = constrained(fitted.model, options.signs)
        if solved is not None:
            ahead = fitted.ahead
            spread = first_spread(rows, solved, self._loss, ahead.rows, ahead.said, ahead.factor)
            model = start_pool(model, rows, solved, loss=self._loss, half_life=self.half_life, spread=spread)
        self.domain_, self.model_ = columns, model
        self._remember(fitted.members, len(rows), fitted.held_out)
        self._look_back(rows)
        return self

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

    def _solved(self, rows: Rows, options: FitOptions, seed: int, tolerance: float) -> Solved | None:
        """What is solved for before anything is trained, if evidence is kept."""
        if not self.features:
            return None
        return solve_rows(
            rows,
            self.features,
            seed,
            options.signs,
            looks_ahead=options.stacks,
            # pairs of inputs find edges of classes; members do that for numbers, and overshoot less
            pairs=options.loss == "cross-entropy",
            tolerance=tolerance,
        )

    def _signs(self, columns: ColumnMap, outputs: int) -> Signs:
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

    def _learn(
        self: Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, message: str, author: str
    ) -> Self:
        """Update the fitted model; whatever fails leaves the estimator as it was."""
        draft = self._knowing(X)
        checked = draft._checked(X, y, sample_weight)
        return self._become(draft._update(*checked, message=message, author=author))

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
        seed: int | None = None,
    ) -> Self:
        """Teach the fitted model new data, without forgetting; options for this call only may be given.

        With `far` the domain grows to every row; otherwise a few that are far outside are refused.
        The rest are further rows (X, y) of a table larger than memory, see `atlas_splines.update`.
        `seed` is that of an update that is made again.
        """
        self._check_parameters()
        retention = self._way_to(X, retention, far)
        targets = self._targets(y)
        if seed is None:
            seed = self._seed() if random_state is None else seed_of(random_state)
        digest = RowDigest()
        digest.add(X, y, weights)
        model, points = self._to_learn(X, retention, far)
        extend = self._levels_off(retention)
        reach = np.tile([-np.inf, np.inf], (model.inputs, 1)) if extend else model.domain
        others = digest.watching(self._checked(*piece, None) for piece in rest)
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
            digest=digest,
        )
        done.settings |= {"far": far}
        if not extend and model is not self.model_:  # the domain grew first, as a part of the update
            self._note_growth(model, done)
        self.model_ = model
        return self

    def _note_growth(self, model: Atlas, done: Update) -> None:
        """Let an update begin before the domain grew for it, which it did for nothing if nothing changed."""
        if done.kind != "pool" and done.after == done.before:
            take_state(model, state_of(self.model_))
            done.after = self.model_.fingerprint()
        done.before = self.model_.fingerprint()

    @ONE_THREAD_EACH
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

    @ONE_THREAD_EACH
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
