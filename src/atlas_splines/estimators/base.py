"""AtlasRegressor and AtlasClassifier: the only importer of scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from atlas_splines.core.checks import check_number, check_overflow, check_size
from atlas_splines.core.growing import Grown
from atlas_splines.core.lattice import MAX_DENSITY
from atlas_splines.core.model import Atlas
from atlas_splines.core.records import Record
from atlas_splines.core.rows import Rows
from atlas_splines.core.training import Trainer
from atlas_splines.estimators.column_map import Domain, DomainChoice
from atlas_splines.estimators.fitting import Auto, FitOptions, fit_model, train_on
from atlas_splines.memory.consolidation import consolidate
from atlas_splines.memory.footprints import Footprint, Interval
from atlas_splines.memory.log import Consolidation, Update
from atlas_splines.memory.plans import RETENTIONS, Retention
from atlas_splines.memory.updates import footprint, update

__all__ = ["AtlasClassifier", "AtlasRegressor", "ColumnFootprint"]

Array = NDArray[Any]
Self = TypeVar("Self", bound="AtlasEstimator")

SLOPE_STEP = 0.01  # linear extrapolation takes the slope over this part of the unit cube
FARTHEST = 1e15  # standard deviations of a target; sums of squares of larger ones overflow float32
LEVELLING = 3  # a model that is extended has at least this density, so that it levels off soon
LOSSES = {"squared_error": "mse", "absolute_error": "mae", "huber": "huber", "log_loss": "cross-entropy"}
CHOICES = {
    "extrapolation": ("constant", "linear", "error"),
    "missing": ("error", "learn"),
    "retention": RETENTIONS,
}


class AtlasEstimator(BaseEstimator, ABC):
    """What the regressor and the classifier share; they say what targets and outputs mean."""

    losses: tuple[str, ...]

    def __init__(
        self,
        *,
        density: Auto = "auto",
        terms: Auto = "auto",
        members: int = 4,
        domain: DomainChoice = "quantiles",
        extrapolation: Literal["constant", "linear", "error"] = "constant",
        missing: Literal["error", "learn"] = "error",
        retention: Retention = "chart",
        loss: str = "auto",
        learning_rate: float = 0.01,
        max_iter: int = 200,
        batch_size: int = 100,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: Auto = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.density = density
        self.terms = terms
        self.members = members
        self.domain = domain
        self.extrapolation = extrapolation
        self.missing = missing
        self.retention = retention
        self.loss = loss
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # --- what targets mean, for subclasses to say -----------------------------------------------------

    @abstractmethod
    def _start_targets(self, y: Array, weights: Array) -> int:
        """Learn the scale of the targets from the first ones; return the number of outputs."""

    @abstractmethod
    def _targets(self, y: Array) -> Array:
        """Targets as the model learns them, shape (rows, outputs)."""

    # --- learning -------------------------------------------------------------------------------------

    def fit(self: Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from data, and forget what was learned before, unless `warm_start` is set.

        Parameters
        ----------
        X
            Inputs of any scale, shape (rows, columns): an array or a data frame.
        y
            Target of each row.
        sample_weight
            Weight of each row.

        Returns
        -------
        the estimator itself
        """
        if self.warm_start and hasattr(self, "model_"):
            return self._fit_on(*self._checked(X, y, sample_weight))
        return self._fit(X, y, sample_weight)

    def _fit(self: Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        """Fit from nothing; whatever fails leaves the estimator as it was."""
        before = self.__dict__.copy()
        try:
            return self._fit_all(*self._checked(X, y, sample_weight, first=True))
        except BaseException:
            self.__dict__ = before
            raise

    def _fit_all(self: Self, X: Array, y: Array, weights: Array) -> Self:
        self._check_parameters()
        outputs = self._start_targets(y, weights)
        domain = Domain.of(X, self.domain)
        units = domain.to_unit(X)
        if (units < 0).any() or (units > 1).any():
            row, j = np.argwhere((units < 0) | (units > 1))[0].tolist()
            raise ValueError(
                f"row {row} of X has {X[row, j]:.6g} in column {j}, outside its domain {self.domain[j]}; "
                "widen it"
            )
        points = units.astype(np.float32)
        rows = Rows(points, self._targets(y), weights).take(weights > 0)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.members)
        model, members = fit_model(rows, self._fit_options(outputs), seeds.tolist(), self._map)
        self.domain_, self.model_ = domain, model
        return self._note(members)

    def _fit_on(self: Self, X: Array, y: Array, weights: Array) -> Self:
        """Train the model that is there."""
        self._check_parameters()
        model, points = self._reach(X)
        rows = Rows(points, self._targets(y), weights).take(weights > 0)
        random = np.random.default_rng(self._seed())
        member = train_on(model.copy(), rows, self._fit_options(model.outputs), random)
        self.model_ = member.model
        return self._note([member])

    def _note(self: Self, members: list[Grown]) -> Self:
        self.n_iter_ = sum(member.epochs for member in members)
        self.validation_loss_ = [member.validation for member in members]
        return self

    def _update(self: Self, X: Array, y: Array, weights: Array) -> Self:
        """Teach the fitted model new data, without forgetting."""
        self._check_parameters()
        model, points = self._reach(X)
        update(
            model,
            points,
            self._targets(y),
            retention=self.retention,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            loss=self._loss,
            sample_weight=weights,
            random_state=self._seed(),
            progress=self.verbose > 1,
        )
        self.model_ = model
        return self

    def fit_more(self: Self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on more rows of the data that `fit` has seen a part of, in one pass with small steps.

        This is for data that does not fit into memory: fit a random part of it, then pass all of it through
        here in pieces. Nothing protects what was learned elsewhere: for new data use `partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        the estimator itself
        """
        check_is_fitted(self, "model_")
        X, y, weights = self._checked(X, y, sample_weight)
        model, points = self._reach(X)
        trainer = Trainer(
            model,
            loss=self._loss,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate / 30,
            random_state=self._seed(),
        )
        trainer.run(points, self._targets(y), epochs=1, sample_weight=weights)
        self.model_ = model
        return self

    def _reach(self, X: Array) -> tuple[Atlas, Array]:
        """The model, or a copy whose domain is extended to the rows, and their coordinates in it."""
        model, points = self.model_, self.domain_.to_unit(X)
        low, high = model.domain.T
        if (points < low).any() or (points > high).any():
            model = model.copy().expand(density=max(LEVELLING - model.density, 0), terms=0)
            model.extend(points.min(axis=0), points.max(axis=0))
        return model, points.clip(*model.domain.T).astype(model.dtype)

    # --- memory ---------------------------------------------------------------------------------------

    @property
    def update_log_(self) -> list[Record]:
        """What `partial_fit` and `consolidate` did since `fit`, oldest first; see `atlas_splines.Update`.

        Errors are in standard deviations of the target. The footprint of an entry is in coordinates of
        `model_`, and so are the points that its ``contains`` takes: `in_columns` gives it in the units of
        the columns. `fit_more`, and `fit` with `warm_start`, are parts of a fit: they can change every
        prediction, cannot be reverted, and leave no entry.
        """
        check_is_fitted(self, "model_")
        return self.model_.updates

    def footprint(self, X: ArrayLike) -> ColumnFootprint:
        """Tell which predictions `partial_fit` with inputs X could change, without any training.

        Parameters
        ----------
        X
            Inputs of the new data.
        """
        check_is_fitted(self, "model_")
        model, points = self._reach(self._inputs(X))
        return self.in_columns(footprint(model, points, retention=self.retention), known=self.model_.domain)

    def in_columns(self, area: Footprint, known: Array | None = None) -> ColumnFootprint:
        """A footprint, such as that of an entry of `update_log_`, in the units of the columns.

        Parameters
        ----------
        area
            A footprint in the coordinates of `model_`.
        known
            The domain before the update, if the update extends it: beyond it predictions change too. For the
            footprint of an entry of `update_log_` it is found there.
        """
        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", [f"column {j}" for j in range(self.n_features_in_)])
        known = self._domain_before(area) if known is None else known
        return ColumnFootprint(area, self.domain_, tuple(map(str, names)), known)

    def _domain_before(self, area: Footprint) -> Array:
        """The domain before the update with this footprint: that of the update before, or of `fit`.

        It may have been larger, if other training extended it: then the footprint is larger than it need be.
        """
        before = np.tile([0.0, 1.0], (area.inputs, 1))
        for record in self.update_log_:
            if isinstance(record, Update):
                if record.footprint is area:
                    return before
                before = record.footprint.domain
        return area.domain

    def revert(self: Self, id: int) -> Self:
        """Take back the update of this number in `update_log_`, exactly; see `Atlas.revert`.

        If it extended the domain, the domain stays as it is now: inside the domain of before, every
        prediction has its bits again.

        Parameters
        ----------
        id
            Number of an update of kind "chart".
        """
        check_is_fitted(self, "model_")
        self.model_.revert(id)
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
        """
        check_is_fitted(self, "model_")
        points = None
        if X is not None:
            points = self.domain_.to_unit(self._inputs(X)).clip(*self.model_.domain.T)
        options = {"random_state": self._seed(), "progress": self.verbose > 1, **options}
        return consolidate(self.model_, points, tolerance=tolerance, **options)

    # --- prediction -----------------------------------------------------------------------------------

    def _outputs(self, X: ArrayLike) -> Array:
        """Outputs of the model in float64, shape (rows, outputs)."""
        check_is_fitted(self, "model_")
        model, points = self.model_, self.domain_.to_unit(self._inputs(X))
        inside = points.clip(*model.domain.T)
        if self.extrapolation == "error":
            self._refuse_outside(points, inside)
        out = model.evaluate(inside.astype(model.dtype)).astype(np.float64)
        if self.extrapolation == "linear":
            edge = out.copy()
            for j, rows, inward in steps_inward(points, inside):
                step = (inside[rows, j] - inward[:, j])[:, None]
                slope = (edge[rows] - model.evaluate(inward.astype(model.dtype))) / step
                out[rows] += slope * (points[rows, j] - inside[rows, j])[:, None]
        check_overflow(out)
        return out

    def _refuse_outside(self, points: Array, inside: Array) -> None:
        if (points != inside).any():
            row, j = np.argwhere(points != inside)[0].tolist()
            low, high = self.domain_.to_raw(j, self.model_.domain[j])
            raise ValueError(
                f"row {row} of X lies outside the domain, which is {low:.6g} to {high:.6g} in column {j}; "
                "use extrapolation='constant' or 'linear', or teach such rows with partial_fit"
            )

    # --- checks ---------------------------------------------------------------------------------------

    def _checked(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, first: bool = False
    ) -> tuple[Array, Array, Array]:
        """Inputs, targets and weights as arrays."""
        numeric = "squared_error" in self.losses
        checked: tuple[Array, Array] = validate_data(
            self,
            X,
            y,
            reset=first,
            dtype=np.float64,
            multi_output=numeric,
            y_numeric=numeric,
            ensure_all_finite="allow-nan",
        )
        self._refuse_missing(checked[0])
        weights = _check_sample_weight(sample_weight, checked[0], dtype=np.float32, ensure_non_negative=True)
        return *checked, weights

    def _inputs(self, X: ArrayLike) -> Array:
        table: Array = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        self._refuse_missing(table)
        return table

    def _refuse_missing(self, X: Array) -> None:
        if self.missing != "learn" and np.isnan(X).any():
            row, j = np.argwhere(np.isnan(X))[0].tolist()
            raise ValueError(
                f'X contains NaN, in row {row} of column {j}; fill it in, or fit with missing="learn"'
            )

    def _check_parameters(self) -> None:
        for name, most in (("density", MAX_DENSITY), ("terms", None), ("n_iter_no_change", None)):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == "auto"):
                check_size(name, value, least=0 if name != "n_iter_no_change" else 1, most=most)
        for name in ("members", "max_iter", "batch_size"):
            check_size(name, getattr(self, name), least=1)
        check_number("learning_rate", self.learning_rate, least=1e-300)
        if not 0 < check_number("validation_fraction", self.validation_fraction, least=0) <= 0.5:
            raise ValueError(f"validation_fraction must be in (0, 0.5], not {self.validation_fraction}")
        choices = {**CHOICES, "loss": ("auto", *self.losses)}
        if isinstance(self.domain, str):
            choices["domain"] = ("data", "quantiles")
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")

    @property
    def _loss(self) -> str:
        return LOSSES[self.losses[0] if self.loss == "auto" else self.loss]

    def _fit_options(self, outputs: int) -> FitOptions:
        return FitOptions(
            outputs=outputs,
            loss=self._loss,
            density=self.density,
            terms=self.terms,
            epochs=self.max_iter,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            held_out=self.validation_fraction,
            patience=self.n_iter_no_change if self.early_stopping else None,
            verbose=bool(self.verbose),
        )

    def _map(self, function: Callable[[int], Grown], numbers: Iterable[int]) -> list[Grown]:
        return list(Parallel(n_jobs=self.n_jobs, require="sharedmem")(delayed(function)(k) for k in numbers))

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "learn"
        return tags


class AtlasRegressor(RegressorMixin, AtlasEstimator):
    """Regression that is updated all its life and does not forget.

    `fit` finds the model's size by itself. `partial_fit` learns new data and changes predictions only in its
    footprint, which is known beforehand. Targets are standardised inside.

    Parameters
    ----------
    density
        Finest density of the splines, or "auto": from coarse to fine, as long as that helps on held-out rows.
    terms
        Pairs of exponentials of each member, or "auto": 0, 4, 16 or 64, whatever held-out rows ask for.
    members
        Models that are fitted from different starts, with different rows held out. Their average is one
        model again, with `members` times as many terms.
    domain
        How columns become the model's unit cube. "data": linearly over the range of the first data and 5 %
        on either side of it. "quantiles": halfway between that and the quantiles of the data, so that crowded
        values get more of the resolution. Or a list with the (low, high) of each column.
    extrapolation
        What to predict outside the domain: what holds at its edge ("constant"), a continuation of the slope
        there ("linear"), or nothing ("error").
    missing
        "error" refuses NaN. "learn" takes the median for it, and for each column that has NaN in the first
        data the model learns one more input: whether the value is missing.
    retention
        How `partial_fit` learns, see `atlas_splines.update`: "chart", "rehearsal", "both" or "none".
    loss
        "squared_error", "absolute_error" or "huber"; "auto" is the first.
    learning_rate
        First step size of the optimiser; it falls to a tenth of that.
    max_iter
        Largest number of passes over the data for each density and learning rate.
    batch_size
        Rows in a batch.
    early_stopping
        Whether to stop when the loss on held-out rows no longer falls.
    validation_fraction
        Share of the rows that each member holds out, if there are at least 40 rows.
    n_iter_no_change
        Passes without a lower loss after which training stops; "auto" takes 2 to 20, for 2000 batches.
    warm_start
        Whether `fit` goes on from the model that is there.
    n_jobs
        Threads that fit members; the result does not depend on it.
    random_state
        Seed of everything random.
    verbose
        1 tells how far the fit is, 2 also shows the progress of updates.

    Attributes
    ----------
    model_
        The `Atlas` model, on the unit cube and beyond.
    domain_
        The map of the columns to it.
    update_log_
        What changed the model since `fit`.
    n_iter_
        Passes over the data, of all members together.
    validation_loss_
        For each member the loss on its held-out rows after each pass.

    Examples
    --------
    >>> import numpy as np
    >>> X = 100 * np.random.default_rng(0).random((500, 2))
    >>> model = AtlasRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> bool(model.score(X, X[:, 0] * X[:, 1]) > 0.99)
    True
    >>> X_new = 20 + 10 * np.random.default_rng(1).random((200, 2))
    >>> elsewhere = model.predict([[80.0, 25.0]])
    >>> model.partial_fit(X_new, np.zeros(200)).update_log_
    [<Update 1: chart, 200 rows, error ...>]
    >>> model.predict([[80.0, 25.0]]) == elsewhere
    array([ True])
    >>> bool(abs(model.predict([[25.0, 25.0]])[0]) < 20)
    True
    """

    losses = ("squared_error", "absolute_error", "huber")

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> AtlasRegressor:
        """Learn new data without forgetting; the first call is a `fit`.

        Data outside the domain extends it by whole cells; no prediction inside it changes by that.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        the estimator itself
        """
        if not hasattr(self, "model_"):
            return self._fit(X, y, sample_weight)
        return self._update(*self._checked(X, y, sample_weight))

    def predict(self, X: ArrayLike) -> Array:
        """Predict the target of each row.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).

        Returns
        -------
        array of shape (rows,), or (rows, targets) if there were several
        """
        values = self._outputs(X) * self.target_scale_ + self.target_mean_
        return values[:, 0] if self._one_column else values

    def _start_targets(self, y: Array, weights: Array) -> int:
        self._one_column = y.ndim == 1
        columns = y.reshape(len(y), -1).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            self.target_mean_ = np.average(columns, axis=0, weights=weights)
            spread = np.sqrt(np.average((columns - self.target_mean_) ** 2, axis=0, weights=weights))
        if not np.isfinite(spread).all():
            raise ValueError("the squares of y are more than a float can hold; correct or rescale it")
        # a constant target has no spread but that of its rounded mean
        self.target_scale_ = np.where(spread > 1e-12 * np.abs(self.target_mean_), spread, 1.0)
        return columns.shape[1]

    def _targets(self, y: Array) -> Array:
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != len(self.target_mean_):
            raise ValueError(
                f"y has {columns.shape[1]} columns but the model has {len(self.target_mean_)} targets"
            )
        scaled = (columns - self.target_mean_) / self.target_scale_
        far = np.argwhere(np.abs(scaled) > FARTHEST)
        if len(far):
            row, k = far[0].tolist()
            raise ValueError(
                f"y has {columns[row, k]:.6g}, too far from the targets of fit, which are "
                f"{self.target_mean_[k]:.6g} on average; correct it, or fit again"
            )
        return scaled.astype(np.float32)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class AtlasClassifier(ClassifierMixin, AtlasEstimator):
    """Classification that is updated all its life and does not forget.

    One output of the model for each class; their softmax gives the probabilities.
    Parameters are those of `AtlasRegressor`; the only loss is "log_loss", which is also what "auto" means.

    Attributes
    ----------
    classes_
        The labels, sorted.
    model_, domain_, update_log_, n_iter_, validation_loss_
        As in `AtlasRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = AtlasClassifier(random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> bool(model.score(X, X[:, 0] * X[:, 1] > 0) > 0.95)
    True
    """

    losses = ("log_loss",)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> AtlasClassifier:
        """Learn new data without forgetting; the first call is a `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes
            All classes that will ever come, in the first call; later it may be left out.

        Returns
        -------
        the estimator itself
        """
        if not hasattr(self, "model_"):
            self._announced = None if classes is None else np.unique(classes)
            try:
                return self._fit(X, y, sample_weight)
            finally:
                del self._announced
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes is {classes!r}, but the first call said {self.classes_.tolist()}")
        return self._update(*self._checked(X, y, sample_weight))

    def decision_function(self, X: ArrayLike) -> Array:
        """Score of each class, or of the second one against the first if there are two.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        """
        scores = self._outputs(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class, shape (rows, classes).

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        """
        return softmax(self._outputs(X), axis=1)

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the probability of each class, shape (rows, classes).

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        """
        return log_softmax(self._outputs(X), axis=1)

    def predict(self, X: ArrayLike) -> Array:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        """
        scores = self._outputs(X)
        return self.classes_[scores.argmax(axis=1)]

    def _start_targets(self, y: Array, weights: Array) -> int:
        check_classification_targets(y)
        announced = getattr(self, "_announced", None)
        classes = np.unique(y) if announced is None else announced
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes.tolist()[0]!r}; a classifier needs two or more")
        self.classes_ = classes
        return len(classes)

    def _targets(self, y: Array) -> Array:
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(
                f"y has the class {y[~known].tolist()[0]!r}, which was not announced; "
                "give all classes to the first call of partial_fit, or fit again"
            )
        return (y[:, None] == self.classes_).astype(np.float32)


def steps_inward(points: Array, inside: Array) -> Iterator[tuple[int, NDArray[np.intp], Array]]:
    """For each input that some rows leave the domain along: the rows, and their edge points a step inward."""
    for j in np.flatnonzero((points != inside).any(axis=0)).tolist():
        rows = np.flatnonzero(points[:, j] != inside[:, j])
        inward = inside[rows].copy()
        inward[:, j] -= SLOPE_STEP * np.sign(points[rows, j] - inside[rows, j])
        yield j, rows, inward


@dataclass(frozen=True, eq=False)
class ColumnFootprint:
    """A footprint in the units of an estimator's columns: where an update can change predictions.

    Attributes
    ----------
    area
        The footprint in the model's coordinates.
    domain
        The map of the columns to these coordinates.
    names
        Names of the columns.
    known
        The model's domain before the update, shape (inputs, 2). An update that extends it changes what is
        said beyond it.
    """

    area: Footprint
    domain: Domain
    names: tuple[str, ...]
    known: Array

    def contains(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Whether the prediction of each row of X can change.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns). Outside the domain, predictions follow those at its edge.
        """
        table = np.asarray(X, np.float64)
        if table.ndim != 2 or table.shape[1] != len(self.names):
            raise ValueError(f"X has shape {table.shape}; expected (rows, {len(self.names)})")
        points = self.domain.to_unit(table)
        inside = points.clip(*self.area.domain.T)
        found = self.area.contains(inside)
        grown = self.known != self.area.domain  # (inputs, 2)
        low, high = self.known.T
        found |= (((points < low) & grown[:, 0]) | ((points > high) & grown[:, 1])).any(axis=1)
        for _, rows, inward in steps_inward(points, inside):
            found[rows] |= self.area.contains(inward)
        return found

    def intervals(self, column: int | str) -> list[Interval]:
        """Parts of one column that the footprint projects to, as sorted (low, high).

        Parameters
        ----------
        column
            Its number, or its name.
        """
        if isinstance(column, str) and column not in self.names:
            raise ValueError(f"there is no column {column!r}; there are {', '.join(self.names)}")
        j = self.names.index(column) if isinstance(column, str) else column
        return [tuple(self.domain.to_raw(j, np.array(part)).tolist()) for part in self.area.intervals(j)]

    @property
    def volume(self) -> float:
        """Share of the domain that is in the footprint, measured in the model's coordinates."""
        return self.area.volume

    def __repr__(self) -> str:
        width = max(map(len, self.names))
        lines = []
        for j, name in enumerate(self.names):
            parts = " and ".join(f"{low:.4g} to {high:.4g}" for low, high in self.intervals(j)) or "nowhere"
            lines.append(f"  {name:{width}}  {parts}")
        return f"<Footprint: {self.volume:.3g} of the domain\n" + "\n".join(lines) + ">"
