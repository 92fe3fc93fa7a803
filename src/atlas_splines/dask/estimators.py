"""Estimators whose rows are partitions of Dask collections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.dask.base import DaskEstimator
from atlas_splines.dask.partitions import each
from atlas_splines.dask.tasks import Scored, interval_ends
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.regressor import AtlasRegressor

__all__ = ["DaskAtlasClassifier", "DaskAtlasRegressor"]


class DaskAtlasRegressor(DaskEstimator):
    """`AtlasRegressor` for tables larger than a machine.

    Features are chosen, and a model is fitted, on a sample of the rows; then one pass over all rows gives
    their sufficient statistics, exactly, whose posterior is used if it predicts better. Only the sample and
    sums of rows leave the workers. The result is independent of workers, partitions and the order of rows.

    Parameters
    ----------
    client
        A `distributed.Client`; by default the current one.
    sample
        Rows of the sample. A table that has no more is learned as by `AtlasRegressor`.
    tolerance
        Relative increase of the error on the sample that is accepted for fewer features, or an error of twice
        that fraction of the target's standard deviation: the work for each row grows with the square of their
        number. 0 keeps as many as `features`.
    parameters
        As in `AtlasRegressor`.

    Attributes
    ----------
    client_
        The client that is used.
    model_, domain_, update_log_, feature_importances_, n_iter_, validation_loss_, fit_record_
        As in `AtlasRegressor`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> client = Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    >>> X = da.random.default_rng(0).random((3000, 2), chunks=(500, 2))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = DaskAtlasRegressor(sample=1000, features=60, members=1, random_state=0).fit(X, y)
    >>> round(model.score(X, y), 2)
    1.0
    >>> model.predict(X)
    dask.array<predicted, shape=(3000,), dtype=float64, chunksize=(500,), chunktype=numpy.ndarray>
    >>> model.to_local()
    AtlasRegressor(features=60, members=1, random_state=0)
    >>> client.close()
    """

    _kind = AtlasRegressor

    def predict_interval(
        self, X: Any, coverage: float | Sequence[float] | NDArray[np.float64] = 0.9
    ) -> tuple[da.Array, da.Array]:
        """Predict where the target of each row lies, lazily; see `AtlasRegressor.predict_interval`.

        Parameters
        ----------
        X
            Inputs, a Dask array or data frame.
        coverage
            Probability with which a target shall lie in its interval, between 0 and 1; or several.

        Returns
        -------
        two Dask arrays with the low and the high ends
        """
        learned = self._learned(X)
        shape = (*shape_of(learned), *np.shape(coverage), 2)
        ends = each(interval_ends, (learned, coverage, shape), X, shape, np.float64)
        return ends[..., 0], ends[..., 1]

    def _kind_of_prediction(self, learned: Any) -> tuple[tuple[int, ...], Any]:
        return shape_of(learned), np.float64

    def _score_of(self, scored: Scored) -> float:
        return float(np.mean(1 - scored.errors / np.maximum(scored.spread, 1e-300)))


def shape_of(regressor: Any) -> tuple[int, ...]:
    """Shape of the prediction for one row."""
    return () if regressor._one_column else (len(regressor.target_scale_),)


class DaskAtlasClassifier(DaskEstimator):
    """`AtlasClassifier` for tables larger than a machine; see `DaskAtlasRegressor`.

    Parameters
    ----------
    client, sample, tolerance, parameters
        As in `DaskAtlasRegressor`.

    Attributes
    ----------
    classes_
        The labels, sorted: those of all rows.
    client_, model_, domain_, update_log_, feature_importances_, n_iter_, validation_loss_, fit_record_
        As in `DaskAtlasRegressor`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> client = Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    >>> X = da.random.default_rng(0).normal(size=(3000, 2), chunks=(500, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = DaskAtlasClassifier(sample=1000, features=60, members=1, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.predict_proba(X)
    dask.array<predicted, shape=(3000, 2), dtype=float64, chunksize=(500, 2), chunktype=numpy.ndarray>
    >>> client.close()
    """

    _kind = AtlasClassifier

    def partial_fit(  # type: ignore[override]  # `classes` comes third, as in scikit-learn
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: Any = None,
        *,
        message: str = "",
        author: str = "",
        accept: bool = False,
    ) -> DaskAtlasClassifier:
        """Learn new data without forgetting; the first call is a `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes, message, author, accept
            As in `AtlasClassifier.partial_fit`.

        Returns
        -------
        the estimator itself
        """
        if not hasattr(self, "_local"):
            return self._fit(X, y, sample_weight, classes)
        self._local._check_announced(classes)
        return self._update(X, y, sample_weight, accept, message=message, author=author)

    def predict_proba(self, X: Any) -> da.Array:
        """Probability of each class, lazily: a Dask array of shape (rows, classes).

        Parameters
        ----------
        X
            Inputs, a Dask array or data frame.
        """
        learned = self._learned(X)
        return self._lazily(learned, "predict_proba", X, (len(learned.classes_),), np.float64)

    def _kind_of_prediction(self, learned: Any) -> tuple[tuple[int, ...], Any]:
        return (), learned.classes_.dtype

    def _score_of(self, scored: Scored) -> float:
        return float(1 - scored.errors[0] / scored.weight)
