"""Which columns, and which pairs of them, predictions depend on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atlas_splines.analysis.variances import total_shares, variance_shares
from atlas_splines.estimators.extrapolating import Extrapolating

__all__ = ["Explaining"]

Array = NDArray[np.float64]


class Explaining(Extrapolating):
    """The part of an estimator that tells which columns its predictions depend on."""

    @property
    def feature_importances_(self) -> Array:
        """Importance of each column, shape (columns,): they sum to one, or are zero if nothing was learned.

        It is the variance of the model that vanishes, on average, once the column is known besides all
        others (the total effect of Sobol), over the sum of these. Columns count as independent and uniform
        over the domain of `fit`, as `domain` maps it to the unit cube: not as the data lies in it. Where
        columns go together, that includes places without data. It is computed anew each time, from the model
        alone; charts are left out. With memory="sums" it is exact. With memory="rows" it is estimated from
        some hundred thousand predictions, at the same points each time, to about 0.01.

        Several targets count in units of each one's variance; of a classifier it is the variance of the
        scores. The input that says whether a value is missing counts to its column, and so do those of
        categories and dates.

        Examples
        --------
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).random((500, 3))
        >>> model = AtlasRegressor(members=1, random_state=0).fit(X, 3 * X[:, 0] + X[:, 2])
        >>> model.feature_importances_.round(2)
        array([0.9, 0. , 0.1])
        """
        now = self._now()
        importances: Array = total_shares(now.model_) @ now._inputs_of_columns
        return importances / (importances.sum() or 1.0)

    def interaction_strengths(self) -> Array:
        """Shares of the variance of the model that single columns and pairs of columns have.

        Distribution, targets, charts and accuracy are those of `feature_importances_`.

        Returns
        -------
        array of shape (columns, columns)
            Symmetric. What two columns add together to what each does alone; on the diagonal, what a column
            does alone. Diagonal and one triangle sum to one if no three columns interact.

        Examples
        --------
        >>> from atlas_splines import AtlasRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
        >>> model = AtlasRegressor(members=1, random_state=0).fit(X, X[:, 0] + 3 * X[:, 1] * X[:, 2])
        >>> model.interaction_strengths().round(1)
        array([[0.2, 0. , 0. ],
               [0. , 0. , 0.8],
               [0. , 0.8, 0. ]])
        """
        now = self._now()
        pairs, inputs = variance_shares(now.model_).pairs, now._inputs_of_columns
        strengths: Array = inputs.T @ pairs @ inputs
        # pairs of inputs of one column are the column alone, and were counted from both sides
        own = (np.diagonal(strengths) + np.diagonal(pairs) @ inputs) / 2
        np.fill_diagonal(strengths, own)
        return (strengths + strengths.T) / 2  # sums are rounded differently in the two triangles

    @property
    def _inputs_of_columns(self) -> Array:
        """One where an input of the model tells of a column, shape (inputs, columns)."""
        return np.eye(self.n_features_in_)[self._column_of_inputs[self.domain_.column_of_inputs]]
