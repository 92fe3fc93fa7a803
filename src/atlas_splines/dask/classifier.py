"""DaskAtlasClassifier."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import ArrayLike

from atlas_splines.dask.asking import Scored
from atlas_splines.dask.base import DaskEstimator
from atlas_splines.estimators.classifier import AtlasClassifier

__all__ = ["DaskAtlasClassifier"]


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
