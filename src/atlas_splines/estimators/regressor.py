"""AtlasRegressor: numbers as targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from atlas_splines.estimators.base import Array, AtlasEstimator
from atlas_splines.estimators.predict import checked_coverages
from atlas_splines.estimators.targets import (
    counts_between,
    counts_of_roots,
    deviation_of_counts,
    least_count,
    root_variance,
    roots_of,
)
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.rows import Rows
from atlas_splines.updates.intervals import deviations, interval_ends, quantile_levels
from atlas_splines.updates.refusal import Origin

__all__ = ["AtlasRegressor"]

LEAST_VARIANCE = 1e-3  # of roots: those of counts that are nearly always 0
FARTHEST = 1e15  # standard deviations of a target; sums of squares of larger ones overflow float32
MEASURES = {"mse": "RMSE", "mae": "MAE", "huber": "Huber loss"}
DEVIANCE = "deviance"  # of counts: the mean square of errors of roots, 1 for the best model of Poisson counts


class AtlasRegressor(RegressorMixin, AtlasEstimator):
    """Regression that is updated all its life and does not forget.

    `fit` finds the model's size by itself. `partial_fit` learns new data without forgetting: by evidence that
    adds up, or in charts that change predictions only in their footprint. Targets are standardised inside.

    Parameters
    ----------
    density
        Finest density of the splines, or "auto": from coarse to fine, as long as that helps on held-out rows.
    terms
        Pairs of exponentials of each member, or "auto". If both sizes are "auto" and the loss is squared,
        most of the model is solved for, and members are trained on top of it; otherwise terms are 0, 4, 16
        or 64, whatever held-out rows ask for.
    members
        Models that are trained from different starts. The weighted sum of all is one model again. On top of
        classes that are solved for there is one, whatever the number.
    domain
        How columns become the model's unit cube. "data": linearly over the range of the first data and 5 %
        on either side of it. "quantiles": halfway between that and the quantiles of the data, so that crowded
        values get more of the resolution. With both, outliers that are 10,000 or 100,000 times as far from
        the median as nearly all rows lie beside these and take little of it. Or a list with the (low, high)
        of each column.
    extrapolation
        What to predict outside the domain: what holds at its edge ("constant"), a continuation of the slope
        there ("linear"), or nothing ("error"). A slope goes on for one width of the first domain, and not
        where rows beyond it have been learned: they have moved the edge already.
    missing
        "learn" takes the median for NaN, and for each column that has NaN in the first data the model learns
        one more input: whether the value is missing. A category that was not there in `fit` counts as
        missing in predictions. "error" refuses both.
    retention
        How `partial_fit` learns, see `atlas_splines.update`. "auto" lets the data decide: rows that noise
        explains are pooled with all before, a contradiction in one place opens charts, and where the world
        drifts shorter memories take over. "pool" and "chart" insist. "pool" depends on no order, can be taken
        back, and changes everything a little; "chart" changes nothing outside boxes around the new rows.
    features
        How many features the evidence may be of, or 0 to keep none: then "auto" means "chart". The model
        keeps a few times features² / 2 numbers of 8 bytes, whatever the number of rows and updates. "auto"
        may add a quarter to them, where rows come to lie that no feature reaches.
    memory
        What is kept of the data. "rows": the rows themselves, up to `max_rows`, which predict best and can be
        forgotten one by one. "sums": sums of rows alone; no row is in the model or its file.
    max_rows
        Rows that are kept at most. Of more the oldest leave, and stay in the sums of the smooth part alone.
    undo
        How many of the latest updates keep their sums apart, so that `revert` can take them back without
        their rows. Each takes as much room as the sums of all older rows: features² / 2 numbers of 8 bytes.
    half_life
        Rows after which evidence counts half. By default memories with several half-lives, and one that
        never forgets, are mixed by how well each predicted the latest rows.
    monotonic_cst
        Which way predictions have to go along each column, whatever the data says, now and after every
        update: an array of 1 (they never fall), -1 (they never rise) and 0 (free), or a dict of these by
        column names. Charts then reach from one end of such a column to the other. `fit` settles it.
    loss
        "squared_error", "absolute_error" or "huber"; "auto" is the first. "quantile" learns as the
        first does, and predicts a quantile of the target instead of its mean, by the errors on held-out rows.
        "poisson" is for counts, whose noise grows with their mean: it learns their roots, and predicts their
        mean, which is never negative, nor below 0.5 % of their mean in the first data.
    quantile
        Which quantile: a share of the rows, between 0 and 1, whose target lies below its prediction.
    dates
        Which parts of the calendar columns of dates become, in a data frame: a dict by column of words with
        commas between them, some of "hour", "weekday", "yearday" and "trend", and "day-first" or
        "month-first" for dates in texts. By default those that vary.
    learning_rate
        First step size of the optimiser; it falls to a tenth of that. This and the next three are for models
        whose size or loss is given, and for charts.
    max_iter
        Largest number of passes over the data for each density and learning rate.
    batch_size
        Rows in a batch.
    early_stopping
        Whether to stop when the loss on held-out rows no longer falls.
    validation_fraction
        Share of the rows that each member holds out, if there are at least 40 rows.
    validation
        Which rows are held out: "random" ones, the "last" ones, "blocks" of neighbouring rows, for data in
        the order of time, or whole "groups", which `fit` is told. "auto" takes groups if there are any;
        otherwise random ones, and blocks too if neighbouring rows have errors alike.
    n_iter_no_change
        Passes without a lower loss after which training stops; "auto" takes 2 to 20, for 2000 batches.
    warm_start
        Whether `fit` goes on from the model that is there.
    n_jobs
        Threads that fit members, or folds of classes. None takes one for each core, but no more than
        OMP_NUM_THREADS, and at most one for each member or fold. The result does not depend on it.
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
    ledger_
        Contributions that the model is derived from, with their rows; None if not all of them are kept.
    feature_importances_
        Share of each column in the variance of the model.
    n_iter_
        Passes over the data, of all members together.
    validation_loss_
        For each member the loss on its held-out rows after each pass, or after each density if most of it
        was solved for.
    dispersion_
        With loss="poisson", how much more each target varies than Poisson counts of the same mean would.
    fit_record_
        What the fit was made from, and how well it predicts rows that it was not trained on: its ``error``,
        that of the mean alone (``baseline``), and R² (``score``). None for a file of an older version.

    Examples
    --------
    >>> import numpy as np
    >>> X = 100 * np.random.default_rng(0).random((500, 2))
    >>> model = AtlasRegressor(members=1, random_state=0).fit(X, X[:, 0] * X[:, 1])
    >>> bool(model.score(X, X[:, 0] * X[:, 1]) > 0.99)
    True
    >>> print(model.fit_record_)
    Cross-validated RMSE ... (R² ...; the mean alone ...)
    >>> X_new = 20 + 10 * np.random.default_rng(1).random((200, 2))
    >>> elsewhere = model.predict([[80.0, 25.0]])
    >>> model.partial_fit(X_new, np.zeros(200)).update_log_
    [<Update 1: chart, 200 rows, RMSE ...>]
    >>> model.predict([[80.0, 25.0]]) == elsewhere
    array([ True])
    >>> bool(abs(model.predict([[25.0, 25.0]])[0]) < 20)
    True
    """

    _losses = ("squared_error", "absolute_error", "huber", "quantile", "poisson")

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        message: str = "",
        author: str = "",
        accept: bool = False,
        assess: bool = False,
        new_columns: bool = False,
    ) -> AtlasRegressor:
        """Learn new data without forgetting; the first call is a `fit`.

        Evidence counts rows outside the domain as if they lay at its edge. A chart there extends the domain
        by whole cells, and no prediction inside it changes by that.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        message, author
            Why, and by whom: for the entry in the log.
        accept
            Whether to learn rows that are otherwise not learned: those that are faulty as a whole, such as
            targets that are ten times those predicted, a constant target or two columns exchanged, which
            raise `UpdateRefused`; and those of an earlier update, of which an `UpdateWarning` tells.
        assess
            Whether `held_out` in the log tells how well these rows are predicted by all others: that can take
            longer than to learn them. The error before learning is there in any case.
        new_columns
            Whether to learn columns of a data frame that the model has not seen: older rows count as missing
            there, and all rows are fitted again. It needs memory="rows" and missing="learn". Otherwise such a
            frame is refused. A column that no longer comes counts as missing.

        Returns
        -------
        the estimator itself
        """
        if not hasattr(self, "model_"):
            return self._fit(X, y, sample_weight)
        notes = {"message": message, "author": author, "accept": accept, "assess": assess}
        return self._learn(X, y, sample_weight, new_columns=new_columns, **notes)

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = False) -> Array: ...

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[Array, Array]: ...

    def predict(self, X: ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict the target of each row.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        return_std
            Whether to return the standard deviation of the error of each prediction too, noise included.

        Returns
        -------
        array of shape (rows,), or (rows, targets) if there were several; or two of them
        """
        now = self._now()
        points = now.domain_.to_unit(now._inputs(X))
        outputs = now._outputs_at(points)
        predicted = now._predictions(now._shifted(points, outputs))
        if not return_std:
            return predicted
        spread = deviations(*now._predicted(points, outputs)) * now.target_scale_
        if now._counts:
            spread = deviation_of_counts(now._unscaled(outputs), spread)
        return predicted, spread[:, 0] if now._one_column else spread

    @ONE_THREAD_EACH
    def predict_interval(
        self, X: ArrayLike, coverage: float | Sequence[float] | Array = 0.9
    ) -> tuple[Array, Array]:
        """Predict where the target of each row lies, with a promised share of rows in their intervals.

        The share holds for rows like those of the fit, whatever the noise, by conformal prediction; after
        updates it is adapted. Intervals are wide where errors are large, and need not be even around a
        prediction. docs/intervals.md says what is promised, and what is not.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        coverage
            Share of rows whose target shall lie in their interval, between 0 and 1; or several.

        Returns
        -------
        two arrays with the low and the high ends, each of the shape of `predict`; with several coverages
        there is one more axis at the end, of that length

        Examples
        --------
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> X = random.random((1000, 2))
        >>> y = X[:, 0] + (0.1 + X[:, 1]) * random.normal(size=1000)
        >>> model = AtlasRegressor(members=1, random_state=0).fit(X[:500], y[:500])
        >>> low, high = model.predict_interval(X[500:], coverage=0.9)
        >>> bool(0.85 < ((y[500:] >= low) & (y[500:] <= high)).mean() < 0.95)
        True
        >>> low, high = model.predict_interval([[0.5, 0.1], [0.5, 0.9]], coverage=[0.5, 0.9])
        >>> (high - low).round()
        array([[0., 1.],
               [1., 3.]])
        """
        coverages = checked_coverages(coverage)
        now = self._now()
        points = now.domain_.to_unit(now._inputs(X))
        outputs = now._outputs_at(points)
        ends = now._ends(outputs, interval_ends(*now._predicted(points, outputs), coverages))
        ends = ends[:, 0] if now._one_column else ends
        ends = ends[..., 0, :] if np.ndim(coverage) == 0 else ends
        return ends[..., 0], ends[..., 1]

    def _shifted(self, points: Array, outputs: Array) -> Array:
        """Outputs of the model, or the quantile that was asked for instead of the mean."""
        if self.loss != "quantile":
            return outputs
        return outputs + quantile_levels(*self._predicted(points, outputs), self.quantile)

    @property
    def _counts(self) -> bool:
        """Whether the model has learned roots of counts."""
        return self.loss == "poisson"

    def _unscaled(self, outputs: Array) -> Array:
        """Outputs of the model, shape (rows, outputs), in units of what it learns: targets, or roots."""
        return outputs * self.target_scale_ + self.target_mean_

    def _values(self, outputs: Array) -> Array:
        values = self._unscaled(outputs)
        if not self._counts:
            return values
        least = least_count(self.target_mean_, self.target_scale_)
        return counts_of_roots(values, self.dispersion_, least)

    def _ends(self, outputs: Array, ends: Array) -> Array:
        """Ends of intervals around outputs, shape (rows, outputs, coverages, 2), in units of the targets."""
        around = np.moveaxis(outputs[:, :, None, None] + ends, 1, -1)  # the targets last
        values = np.moveaxis(self._unscaled(around), -1, 1)
        if not self._counts:
            return values
        counts = counts_between(values)  # below the mean count of the same roots, which is the prediction
        counts[..., 1] = np.maximum(counts[..., 1], self._values(outputs)[:, :, None])
        return counts

    def _predictions(self, outputs: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._values(outputs)
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            raise OverflowError(f"row {row} is predicted beyond what a float can hold; fit again")
        return values[:, 0] if self._one_column else values

    @property
    def _measure(self) -> str:
        unit = "" if len(self.target_scale_) == 1 and self._loss != "huber" else " in standard deviations"
        return (DEVIANCE if self._counts else MEASURES[self._loss]) + unit

    @property
    def _unit(self) -> str:
        if self._counts:
            return "variances of Poisson counts"
        single = len(self.target_scale_) == 1 and self._loss != "huber"
        return "target" if single else "standard deviations"

    def _error(self, loss: float) -> float:
        if self._counts:
            return self._target_unit**2 * loss
        if self._loss == "huber":
            return loss  # it has no unit: it is quadratic below a standard deviation, and linear above
        return self._target_unit * (loss**0.5 if self._loss == "mse" else loss)

    @property
    def _target_unit(self) -> float:
        # several targets are averaged in standard deviations, for each has a unit of its own
        return float(self.target_scale_[0]) if len(self.target_scale_) == 1 else 1.0

    def _start_targets(self, y: Array, weights: Array, classes: Array | None) -> int:
        self._one_column = y.ndim == 1
        columns = self._learned_of(y)
        with np.errstate(over="ignore", invalid="ignore"):
            self.target_mean_ = np.average(columns, axis=0, weights=weights)
            spread = np.sqrt(np.average((columns - self.target_mean_) ** 2, axis=0, weights=weights))
        if not np.isfinite(spread).all():
            raise ValueError("the squares of y are more than a float can hold; correct or rescale it")
        # a constant target has no spread but that of its rounded mean
        self.target_scale_ = np.where(spread > 1e-12 * np.abs(self.target_mean_), spread, 1.0)
        return columns.shape[1]

    def _targets(self, y: Array) -> Array:
        columns = self._learned_of(y)
        if columns.shape[1] != len(self.target_mean_):
            raise ValueError(
                f"y has {columns.shape[1]} columns but the model has {len(self.target_mean_)} targets"
            )
        scaled = (columns - self.target_mean_) / self.target_scale_
        far = np.argwhere(np.abs(scaled) > FARTHEST)
        if len(far):
            row, k = far[0].tolist()
            raise ValueError(
                f"y has {y.reshape(len(y), -1)[row, k]:.6g}, too far from the targets of fit, which are "
                f"{self._values(np.zeros((1, len(scaled.T))))[0, k]:.6g} on average; correct it, or fit again"
            )
        return scaled.astype(np.float32)

    def _origin(self, X: Array, y: Array) -> Origin:
        def encode(targets: Array) -> Array:
            known = targets.clip(0) if self._counts else targets  # a fault that is undone may leave no count
            return (self._learned_of(known) - self.target_mean_) / self.target_scale_

        columns = np.asarray(y.reshape(len(y), -1), np.float64)
        maps = self.domain_.to_unit, self.domain_.to_raw, encode, self._values
        return Origin(X, columns, *maps, self._titles, self._measured)

    def _learned_of(self, y: Array) -> Array:
        """Targets in float64, shape (rows, targets), or their roots if they are counts."""
        columns = np.asarray(y.reshape(len(y), -1), np.float64)
        return roots_of(columns) if self._counts else columns

    def _look_back(self, rows: Rows) -> None:
        """Learn how much more counts vary than Poisson's, so that predictions are right on average."""
        if not self._counts:
            return
        roots = self._unscaled(self.model_(rows.points))
        left = counts_between(self._unscaled(rows.targets)) - counts_between(roots)  # (rows, targets)
        left, usual = (
            np.average(each, axis=0, weights=rows.weights) for each in (left, root_variance(roots))
        )
        self.dispersion_ = np.maximum(4 * left, 0) / np.maximum(usual, LEAST_VARIANCE)

    def _turns(self, outputs: int) -> list[int]:
        return [1] * outputs

    @property
    def _target_scales(self) -> Array | float:
        return np.asarray(self.target_scale_)

    def _no_targets(self, rows: int) -> Array:
        return np.zeros(rows if self._one_column else (rows, len(self.target_scale_)))

    def _as_own(self, other: AtlasRegressor, outputs: Array) -> Array:
        return np.asarray((other._unscaled(outputs) - self.target_mean_) / self.target_scale_)

    def _square_in(self, other: AtlasRegressor) -> float:
        return float(np.mean((self.target_scale_ / other.target_scale_) ** 2))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
