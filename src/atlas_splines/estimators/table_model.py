"""A model that knows the table it was made from: what the command `atlas` saves and loads."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np

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

    @classmethod
    def of(cls, estimator: Estimator) -> TableModel:
        """An estimator that was fitted to a data frame, as the command has it: inputs are numbers."""
        classes = estimator.classes_.tolist() if isinstance(estimator, AtlasClassifier) else None
        encoding = replace(estimator.encoding_, classes=classes and tuple(classes))
        plain = copy.copy(estimator)
        del plain.encoding_
        name_columns(plain, encoding.inputs)
        return cls(plain, encoding)

    def with_estimator(self, estimator: Estimator) -> TableModel:
        """Another estimator in its place, with the columns and categories in the ledger of that."""
        ledger = estimator._current_ledger
        encoding = self.encoding
        if ledger is not None:
            encoding = ledger.encoding_of(encoding)
        return TableModel(estimator, encoding)

    def for_frames(self) -> Estimator:
        """The estimator that takes data frames by itself."""
        estimator = copy.copy(self.estimator)
        estimator.encoding_ = replace(self.encoding, classes=None, of_frame=True)
        name_columns(estimator, self.encoding.names)
        return estimator


def name_columns(estimator: Estimator, names: list[str]) -> None:
    """Let the columns of an estimator be others."""
    estimator.n_features_in_ = len(names)
    estimator.feature_names_in_ = np.array(names, object)
