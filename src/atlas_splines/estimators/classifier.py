"""AtlasClassifier: classes as targets."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from atlas_splines.estimators.base import Array, AtlasEstimator
from atlas_splines.estimators.fit import LOG_LOSS
from atlas_splines.estimators.ledger import Contribution, knowing_before
from atlas_splines.estimators.predict import checked_coverages
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.updates.assess import warn_of
from atlas_splines.updates.incremental import with_classes
from atlas_splines.updates.intervals import largest_surprisal
from atlas_splines.updates.log import log_in
from atlas_splines.updates.refusal import Origin

if TYPE_CHECKING:
    from atlas_splines.tables.encoding import Encoding
    from atlas_splines.tables.inference import Remote

__all__ = ["AtlasClassifier"]

# What classes can be, by the kind of their dtype; other kinds are numbers.
KINDS = {"U": "texts", "O": "texts", "b": "true and false"}


class AtlasClassifier(ClassifierMixin, AtlasEstimator):
    """Classification that is updated all its life and does not forget.

    One output of the model for each class; their softmax gives the probabilities.
    Parameters are those of `AtlasRegressor`; the only loss is "log_loss", which is also what "auto" means.
    `monotonic_cst` is for two classes: it tells which way the probability of the second one has to go.
    `class_weight` is a dict with the weights of classes, 1 for those that are not in it; or "balanced": each
    class weighs as much as any other in the first data, and a row of later data as much as it would have
    there. Probabilities are then those of a world with such weights.

    Attributes
    ----------
    classes_
        The labels, sorted.
    class_weight_
        Weight of the rows of each, with `class_weight`.
    model_, domain_, update_log_, feature_importances_, n_iter_, validation_loss_
        As in `AtlasRegressor`.
    fit_record_
        As there: its ``error`` is the log loss, ``baseline`` that of the frequencies of the classes, and
        ``score`` the share of rows with the right class.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = AtlasClassifier(members=1, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> bool(model.score(X, X[:, 0] * X[:, 1] > 0) > 0.95)
    True
    """

    _losses = ("log_loss",)
    class_weight_: Array

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        message: str = "",
        author: str = "",
        accept: bool = False,
        assess: bool = False,
        new_columns: bool = False,
    ) -> AtlasClassifier:
        """Learn new data without forgetting; the first call is a `fit`.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes
            Classes that are to be known from the first call on; later it may be left out. Others that come
            later are learned too, and an `UpdateWarning` names them.
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
            return self._fit_announced(X, y, classes, sample_weight)
        self._check_announced(classes)
        notes = {"message": message, "author": author, "accept": accept, "assess": assess}
        return self._learn(X, y, sample_weight, new_columns=new_columns, **notes)

    def _check_announced(self, classes: ArrayLike | None) -> None:
        """Refuse other classes than those that the first call has announced."""
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes is {classes!r}, but the first call said {self.classes_.tolist()}")

    def _fit_announced(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        tolerance: float = 0.0,
        elsewhere: Remote | None = None,
        encoding: Encoding | None = None,
    ) -> AtlasClassifier:
        """Fit from nothing, with all classes that will ever come."""
        self._announced = None if classes is None else np.unique(classes)
        try:
            return self._fit(X, y, sample_weight, groups, tolerance, elsewhere, encoding)
        finally:
            del self._announced

    @ONE_THREAD_EACH
    def add_classes(self, classes: ArrayLike) -> AtlasClassifier:
        """Make room for classes that no row was of so far, for `partial_fit` to learn them.

        The evidence is exactly that of all rows with these classes announced. It is no update: nothing is
        logged, and it cannot be reverted.

        Parameters
        ----------
        classes
            The new labels; those that were announced already are left, and those that an update has brought
            stay without it from now on.

        Returns
        -------
        the estimator itself

        Examples
        --------
        >>> import numpy as np
        >>> X = np.random.default_rng(0).random((200, 1))
        >>> model = AtlasClassifier(random_state=0, members=1).fit(X, np.where(X[:, 0] > 0.5, "b", "a"))
        >>> model = model.add_classes(["c"]).partial_fit(X + 1, np.full(200, "c"))
        >>> model.classes_.tolist(), model.predict([[0.2], [0.7], [1.5]]).tolist()
        (['a', 'b', 'c'], ['a', 'b', 'c'])
        """
        check_is_fitted(self, "model_")
        new = np.unique(np.asarray(classes))
        self._check_labels(new)
        ledger = self._current_ledger
        if np.isin(new, self.classes_ if ledger is None else ledger.announced_classes).all():
            return self
        draft = self._announcing(new)  # readers on other threads see classes and model change at once
        # those alone that are asked for: others belong to what has brought them, and go with it
        own = Contribution(0, self._clock(), *self._no_rows, "classes", {}, classes=new)
        draft.ledger_ = draft._noting(ledger, own)
        return self._become(draft)

    def _knowing_classes(self, classes: Array) -> AtlasClassifier:
        every = np.union1d(self.classes_, classes)
        if len(every) == len(self.classes_):
            return self
        if state_of(self.model_).monotonic:
            self._turns(len(every))  # refuses more than two
        draft, places = copy.copy(self), np.searchsorted(every, self.classes_)
        state = with_classes(state_of(self.model_), places, len(every))
        draft.model_, draft.classes_ = model_in(state, self.model_.updates), every
        if self.class_weight is not None:
            old = dict(zip(self.classes_.tolist(), self.class_weight_, strict=True))
            draft.class_weight_ = weights_by_label(every, old)
        return draft

    def _knowing_labels(self, y: Array) -> AtlasClassifier:
        new = np.setdiff1d(np.unique(y), self.classes_)
        if not len(new):
            return self
        self._check_labels(new)
        warn_of(f"y has new classes, {', '.join(map(repr, new.tolist()))}: they are learned")
        ledger, draft = self._current_ledger, self._announcing(new)
        # the contribution of the update brings them, as deriving it does
        draft.ledger_ = None if ledger is None else ledger.leading_to(draft.model_.fingerprint())
        return draft

    def _announcing(self, new: Array) -> AtlasClassifier:
        """A draft that knows more classes; its ledger is left as it is."""
        ledger = self._current_ledger
        if ledger is None:
            return self._knowing_classes(new)
        draft = copy.copy(knowing_before(self, ledger, new))
        draft.model_ = model_in(state_of(draft.model_), log_in(state_of(draft.model_), self.model_.updates))
        return draft

    def _check_labels(self, new: Array) -> None:
        """Refuse new classes that are of another kind than those known."""
        given, known = (KINDS.get(labels.dtype.kind, "numbers") for labels in (new, self.classes_))
        if given != known:
            raise ValueError(f"the new classes are {given}, but those known are {known}; give such")

    def _all_classes(self, y: Array) -> Array | None:
        announced = getattr(self, "_announced", None)
        return np.unique(y) if announced is None else announced

    @property
    def _known_classes(self) -> Array:
        return self.classes_

    @property
    def _no_rows(self) -> tuple[Array, Array, Array]:
        """Inputs, targets and weights of no rows, as contributions have them."""
        ledger = self._current_ledger
        inputs = self.domain_.knots.shape[0] if ledger is None else ledger.base
        return np.empty((0, inputs)), self.classes_[:0], np.empty(0)

    def _no_targets(self, rows: int) -> Array:
        return np.repeat(self.classes_[:1], rows)

    def decision_function(self, X: ArrayLike) -> Array:
        """Score of each class, or of the second one against the first if there are two.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        """
        scores = self._now()._outputs(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probability of each class, shape (rows, classes).

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        """
        now = self._now()
        return now._values(now._outputs(X))

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithm of the probability of each class, shape (rows, classes).

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        """
        return log_softmax(self._now()._outputs(X), axis=1)

    def predict(self, X: ArrayLike) -> Array:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        """
        now = self._now()
        return now._predictions(now._outputs(X))

    @ONE_THREAD_EACH
    def predict_set(self, X: ArrayLike, coverage: float | Sequence[float] | Array = 0.9) -> Array:
        """Predict which classes each row may have, with a promised share of rows whose class is among them.

        A set has every class that is probable enough, and always the most probable one: where few rows are in
        doubt, more than the promised share have their class in it.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).
        coverage
            Share of rows whose class shall be in their set, between 0 and 1; or several.

        Returns
        -------
        array of truth values, shape (rows, classes), in the order of `classes_`; with several coverages
        (rows, classes, coverages)

        Examples
        --------
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> X = random.uniform(-1, 1, (600, 1))
        >>> y = X[:, 0] + 0.3 * random.normal(size=600) > 0
        >>> model = AtlasClassifier(members=1, random_state=0).fit(X, y)
        >>> model.predict_set([[-0.9], [0.0]], coverage=0.95)
        array([[ True, False],
               [ True,  True]])
        """
        coverages = checked_coverages(coverage)
        now = self._now()
        points = now.domain_.to_unit(now._inputs(X))
        outputs = now._outputs_at(points)
        most = largest_surprisal(*now._predicted(points, outputs), coverages)
        sets = -log_softmax(outputs, axis=1)[:, :, None] <= most[:, None, :]  # (rows, classes, coverages)
        sets |= (outputs == outputs.max(axis=1, keepdims=True))[:, :, None]
        return sets[:, :, 0] if np.ndim(coverage) == 0 else sets

    def _values(self, outputs: Array) -> Array:
        return np.asarray(softmax(outputs, axis=1))

    def _predictions(self, outputs: Array) -> Array:
        return self.classes_[outputs.argmax(axis=1)]

    @property
    def _measure(self) -> str:
        return LOG_LOSS

    @property
    def _unit(self) -> str:
        return "nats"

    def _error(self, loss: float) -> float:
        return loss

    @property
    def _target_unit(self) -> float:
        return 1.0  # scores have no unit

    def _origin(self, X: Array, y: Array) -> Origin:
        names, classes = self._titles, tuple(repr(label) for label in self.classes_.tolist())
        labels = self._targets(y).astype(np.float64)
        maps = self.domain_.to_unit, self.domain_.to_raw, np.asarray, np.asarray
        return Origin(X, labels, *maps, names, self._measured, classes)

    def _start_targets(self, y: Array, weights: Array, classes: Array | None) -> int:
        check_classification_targets(y)
        classes = np.unique(y) if classes is None else classes
        if len(classes) < 2:
            raise ValueError(f"y has one class only, {classes.tolist()[0]!r}; a classifier needs two or more")
        self.classes_ = classes
        if self.class_weight is not None:
            self.class_weight_ = self._first_class_weights(y, weights)
        return len(classes)

    def _first_class_weights(self, y: Array, weights: Array) -> Array:
        """Weight of each class, by the dict or by the first data."""
        if isinstance(self.class_weight, Mapping):
            unknown = [label for label in self.class_weight if label not in self.classes_]
            if unknown:
                raise ValueError(
                    f"class_weight names the class {unknown[0]!r}, which y does not have; leave it out"
                )
            return weights_by_label(self.classes_, self.class_weight)
        found = np.array([weights[y == label].sum() for label in self.classes_], np.float64)
        even = found.sum() / np.count_nonzero(found)
        return np.divide(even, found, out=np.ones_like(found), where=found > 0)

    def _weighed(self, y: Array, weights: Array) -> Array:
        if self.class_weight is None:
            return weights
        self._targets(y)  # refuses classes that are not known
        by_class = self.class_weight_[np.searchsorted(self.classes_, y)]
        return np.asarray(weights * by_class, weights.dtype)

    def _turns(self, outputs: int) -> list[int]:
        if outputs != 2:
            raise ValueError(
                f"monotonic_cst is for two classes, and these are {outputs}; leave it out, or learn one "
                "class against all others"
            )
        return [-1, 1]

    def _targets(self, y: Array) -> Array:
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(
                f"y has the class {y[~known].tolist()[0]!r}, which was not announced; "
                "give all classes to the first call of partial_fit, or call add_classes first"
            )
        return (y[:, None] == self.classes_).astype(np.float32)


def weights_by_label(classes: Array, given: Mapping[Any, float]) -> Array:
    """Weight of each class: 1 if none is given.

    Examples
    --------
    >>> weights_by_label(np.array(["a", "b"]), {"b": 3})
    array([1., 3.])
    """
    return np.array([given.get(label, 1.0) for label in classes.tolist()], np.float64)
