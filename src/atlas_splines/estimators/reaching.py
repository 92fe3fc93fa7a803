"""Domains that grow with new data, and are given back: how far rows may lie, and what was there before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from atlas_splines.estimators.input_space import ColumnMap
from atlas_splines.estimators.inputs import Inputs
from atlas_splines.model.atlas import Atlas, model_in, state_of, take_state
from atlas_splines.model.checks import inwards
from atlas_splines.model.lattice import Domain
from atlas_splines.model.log import Record, folded_of
from atlas_splines.model.resize import cropped, reaching
from atlas_splines.model.state import State
from atlas_splines.updates.change_detection import CHANGE_RULES
from atlas_splines.updates.log import Update
from atlas_splines.updates.plan import BY_EVIDENCE, Retention

__all__ = [
    *("REACHED", "FarRowError", "Reaching"),
    *("far_outside", "given_back", "growth_of", "needed_domain", "reached_by_hand"),
]

Array = NDArray[Any]
Self = TypeVar("Self", bound="Reaching")

# In widths of the first domain, so that one update after the other does not make it grow like a power.
UNIT = np.array([0.0, 1.0])  # the first domain of each input
FAR = 3  # beyond the domain, where a few rows are more likely wrong than new
REACHED = "reached"  # setting of an update: the domain that it found where no entry has extended it
FARTHEST = 30  # beyond the domain, where any number of rows is: a model grows with its domain


class FarRowError(ValueError):
    """Rows lie so far outside the domain that it does not grow to them unless that is asked for.

    Attributes
    ----------
    what
        Which row it is, and where the domain ends.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what}; correct it or leave it out, or call reach(X) first if the domain shall grow that far"
        )


class Reaching(Inputs):
    """The part of an estimator that knows where its domain ends, and lets it grow."""

    model_: Atlas
    domain_: ColumnMap

    def in_domain(self, X: ArrayLike) -> NDArray[np.bool_]:
        """Whether each row of X lies in the domain, where nothing is extrapolated.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> model = AtlasRegressor(terms=0, density=0, domain=[(0, 10)]).fit([[1.0], [9.0]], [1.0, 2.0])
        >>> model.in_domain([[5.0], [11.0]])
        array([ True, False])
        """
        check_is_fitted(self, "model_")
        now = self._now()
        return now._inside(now._inputs(X))

    def _way_to(self, X: Array, retention: Retention | None, far: bool) -> Retention:
        """How rows are learned: a few that are all far outside, and meant, by a chart.

        Evidence would count them at the edge of the domain, and spoil what is known there.
        """
        chosen: Retention = retention or self.retention
        few = far and chosen == "auto" and len(X) < CHANGE_RULES.min_rows
        return "chart" if few and self._far(X).any(axis=1).all() else chosen

    def _to_learn(self, X: Array, retention: Retention, far: bool) -> tuple[Atlas, Array]:
        """A model that an update can change, and the coordinates of the rows in it.

        Evidence levels off beyond the domain. But where enough rows lie there, a chart may want a larger one.
        """
        if not self._levels_off(retention):
            return self._model_reaching(X, far)
        model = model_in(state_of(self.model_), self.model_.updates)
        beyond = int((~self._inside(X)).sum())
        wants_more = (
            retention == "auto" and beyond >= CHANGE_RULES.min_rows and (far or not self._far(X).any())
        )
        if wants_more or state_of(model).later is not None:  # which predicts beyond the domain
            return model, self.domain_.to_unit(X).astype(model.dtype)
        return model, self._points_inside(X)

    def _levels_off(self, retention: Retention) -> bool:
        """Whether an update can do with the domain that is there."""
        by_evidence = retention in BY_EVIDENCE and state_of(self.model_).pooled is not None
        return by_evidence and self.extrapolation != "error"

    def _inside(self, X: Array) -> NDArray[np.bool_]:
        """Whether each row lies in the domain."""
        points = self.domain_.to_unit(X)
        low, high = self.model_.domain.T
        return np.asarray(((points >= low) & (points <= high)).all(axis=1))

    def _points_inside(self, X: Array) -> Array:
        """Coordinates of the nearest points in the domain."""
        return self._points_in(self.model_.domain, X)

    def _points_in(self, domain: Domain, X: Array) -> Array:
        """Coordinates of the nearest points in some domain."""
        return self.domain_.to_unit(X).clip(*domain.T).astype(self.model_.dtype)

    def _model_reaching(self, X: Array, far: bool = False) -> tuple[Atlas, Array]:
        """The model, or a copy whose domain is extended to the rows, and their coordinates in it.

        Rows that are far outside are refused, unless `far` says that they are meant.
        """
        if not far:
            self._refuse_far(X)
        model, points = self.model_, self.domain_.to_unit(X)
        if not self._inside(X).all():
            model = model.copy()
            take_state(model, reaching(state_of(model), points))
        return model, points.clip(*model.domain.T).astype(model.dtype)

    def _far(self, X: Array) -> NDArray[np.bool_]:
        """Coordinates that are far outside the domain, shape (rows, inputs).

        So they are in the coordinates of the model, or in widths of the first data: where rows are rare at
        the rim, a unit of the model is wider than they are.
        """
        far = far_outside(self.domain_.to_unit(X), self.model_.domain)
        first, width = self.domain_.knots[:, 0], np.ptp(self.domain_.knots, axis=1)
        ends = [self.domain_.to_raw(j, self.model_.domain[j]) for j in range(len(width))]
        values = np.where(np.isnan(X), first, X)  # nothing is far of a missing one
        for j, levels in self.domain_.levels.items():  # nor of a category
            values[:, j] = np.where(np.isnan(levels(X[:, j])), values[:, j], first[j])
        far[:, : len(width)] |= far_outside(
            (values - first) / width, (np.array(ends) - first[:, None]) / width[:, None]
        )
        return far

    def _refuse_far(self, X: Array) -> None:
        far = np.argwhere(self._far(X))
        if len(far):
            row, j = far[0].tolist()
            raise FarRowError(
                f"row {row} of X has {X[row, j]:.6g} in column {self._called(j)}, far outside its domain, "
                f"{self._domain_text(j)}"
            )

    def _domain_text(self, j: int, domain: Array | None = None) -> str:
        """Where the domain of a column begins and ends, or another domain of the model."""
        ends = self.model_.domain if domain is None else domain
        low, high = self.domain_.to_raw(j, ends[j]).tolist()
        return " to ".join(inwards((low, high), high - low))

    def reach(self: Self, X: ArrayLike) -> Self:
        """Let the domain reach these rows, however far they are, for `partial_fit` to learn them.

        The model grows with its domain. Predictions inside stay as they are, to the bit. It is no update:
        nothing is logged, and it cannot be reverted.

        Parameters
        ----------
        X
            Inputs, shape (rows, columns).

        Returns
        -------
        the estimator itself

        Examples
        --------
        >>> import numpy as np
        >>> from atlas_splines import AtlasRegressor
        >>> model = AtlasRegressor(terms=0, density=0, domain=[(0, 10)]).fit([[1.0], [9.0]], [1.0, 2.0])
        >>> model.reach([[50.0]]).in_domain([[49.0], [60.0]])
        array([ True, False])
        """
        check_is_fitted(self, "model_")
        table = self._inputs(self._completed(self._usable(X)))  # what an update may lack, its places may too
        larger, _ = self._model_reaching(table, far=True)
        return self._take_reach(state_of(larger), table)

    @abstractmethod
    def _take_reach(self: Self, state: State, X: Array) -> Self:
        """Let the model be in a state whose domain has grown to rows."""


def far_outside(points: Array, domain: Domain) -> NDArray[np.bool_]:
    """Coordinates, shape (rows, inputs), to which the domain does not grow by itself.

    Examples
    --------
    >>> far_outside(np.array([[0.5], [2.0], [900.0]]), np.array([[0.0, 1.0]]))[:, 0]
    array([False, False,  True])
    """
    low, high = domain.T
    beyond = np.maximum(low - points, points - high)
    is_news = (beyond > FAR).any(axis=1).sum() >= CHANGE_RULES.min_rows
    return np.asarray(beyond > (FARTHEST if is_news else FAR))


def given_back(state: State, before: str, domains: Iterable[Domain]) -> State:
    """The state without an extension, if one of these domains makes it what its content hash was before."""
    different = {domain.tobytes(): domain for domain in domains}
    different.pop(state.lattice.domain.tobytes(), None)
    for domain in different.values():
        for density in range(state.density + 1):
            smaller = cropped(state, domain, density)
            if smaller is not None and model_in(smaller).fingerprint() == before:
                return smaller
    return state


def needed_domain(state: State, log: Sequence[Record]) -> Domain:
    """The domain that the updates of a log need which stand: that of a life without those taken back.

    Where a chart has extended the domain, that is as far as its entry says; where it had been extended by an
    update that is gone, it is as far as the box of the chart reaches. Whatever else has extended it stays.
    """
    now = state.lattice.domain
    if state.pooled is None and folded_of(log) is not None:  # entries that trained it may be gone
        return now
    low, high = joint([lasting_domain(log, len(now)), *(chart.window.box for chart in state.charts)]).T
    return np.stack([np.maximum(low, now[:, 0]), np.minimum(high, now[:, 1])], axis=1)


def lasting_domain(log: Sequence[Record], inputs: int) -> Domain:
    """How far updates that stand have extended the domain, and `reach` before an update."""
    grown = [
        each.own for each in growth_of(log) if each.update.reverted is None or each.update.kind != "chart"
    ]
    return joint([np.tile(UNIT, (inputs, 1)), *grown, *reached_before(log, inputs)])


def reached_by_hand(state: State, log: Sequence[Record]) -> str:
    """The part of a domain that no entry of the log has extended, for the next entry to tell; often none."""
    now = state.lattice.domain
    beyond = np.sign(now - lasting_domain(log, len(now))) == (-1, 1)
    ends = np.where(beyond, now, UNIT)
    return " ".join(map(repr, ends.ravel().tolist())) if beyond.any() else ""


def reached_before(log: Sequence[Record], inputs: int) -> list[Domain]:
    """Domains that `reach` had made, as entries tell; a sentence if one cannot be read."""
    texts = [each.settings[REACHED] for each in log if isinstance(each, Update) and REACHED in each.settings]
    try:
        found = [np.array(text.split(), np.float64).reshape(inputs, 2) for text in texts]
    except (AttributeError, ValueError):
        raise ValueError(f"an entry of the log tells no domain in {REACHED!r}; load another file") from None
    return [domain for domain in found if np.isfinite(domain).all()]


@dataclass(frozen=True, eq=False)
class Growth:
    """An update, the domain before it, and how far it wanted the domain to reach where that was further."""

    update: Update
    known: Domain
    own: Domain


def growth_of(log: Sequence[Record]) -> list[Growth]:
    """How the domain has grown: each update found it as those had left it that stood then."""
    found: list[Growth] = []
    for record in log:
        if isinstance(record, Update):
            domain = record.footprint.domain
            unit = np.broadcast_to(UNIT, domain.shape)
            standing = [each.own for each in found if stands(each.update, record)]
            known = joint([unit, *standing, *reached_before([record], len(domain))])
            beyond = (np.sign(domain - known) == (-1, 1)) & (record.after != record.before)
            found.append(Growth(record, known, np.where(beyond, domain, unit)))
    return found


def stands(update: Update, later: Update) -> bool:
    """Whether the domain still was as an update had left it when a later one was made."""
    return update.reverted is None or update.reverted > later.time or update.kind != "chart"


def joint(domains: Sequence[Domain]) -> Domain:
    """The smallest domain that holds some others."""
    every = np.stack(list(domains))
    return np.stack([every[:, :, 0].min(axis=0), every[:, :, 1].max(axis=0)], axis=1)
