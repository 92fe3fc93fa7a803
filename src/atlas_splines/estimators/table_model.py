"""A model that knows the table it was made from: what the command `atlas` saves and loads."""

from __future__ import annotations

from dataclasses import dataclass

from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.regressor import AtlasRegressor
from atlas_splines.tables.encoding import Encoding

__all__ = ["Estimator", "TableModel"]

Estimator = AtlasRegressor | AtlasClassifier


@dataclass(frozen=True, eq=False)
class TableModel:
    """An estimator, and how the columns of a table become its inputs and targets.

    `atlas_splines.load` returns one for a file that the command `atlas` wrote, and `atlas_splines.save`
    writes one.

    Attributes
    ----------
    estimator
        The fitted `AtlasRegressor` or `AtlasClassifier`; its inputs are numbers, named as in
        ``encoding.inputs``.
    encoding
        The columns, their categories, and the target.

    Examples
    --------
    >>> import numpy as np
    >>> from atlas_splines.tables.encoding import Column, Encoding, frame
    >>> x = np.linspace(0, 1, 50)
    >>> estimator = AtlasRegressor(density=1, terms=0, members=1).fit(frame(["x"], [x]), 2 * x)
    >>> TableModel(estimator, Encoding((Column("x"),), target="y")).encoding.inputs
    ['x']
    """

    estimator: Estimator
    encoding: Encoding

    def __post_init__(self) -> None:
        names = getattr(self.estimator, "feature_names_in_", None)
        labels = getattr(self.estimator, "classes_", None)
        classes = None if labels is None else tuple(labels.tolist())
        same_inputs = names is not None and self.encoding.inputs == names.tolist()
        if not same_inputs or self.encoding.classes != classes:
            raise ValueError("its table does not go with its model")
