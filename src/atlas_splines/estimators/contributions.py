"""Contributions in the units of the target: blame, values of updates, and why two versions differ."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from atlas_splines.estimators.explained import (
    View,
    checked_points,
    column_of_points,
    known_inputs,
    linked_changes,
    links,
    output_names,
    table_of,
    unit_of,
)
from atlas_splines.estimators.ledger import Contribution, Ledger, derive, derived_next, framed_rows
from atlas_splines.explain.background import BACKGROUND_RULES, Background, Marginals
from atlas_splines.explain.blame import blamed
from atlas_splines.explain.explanation import Blame, Explanation
from atlas_splines.explain.shapley import explained
from atlas_splines.explain.valuation import UpdateValues, values_of
from atlas_splines.memory.pool import Pool
from atlas_splines.model.atlas import state_of
from atlas_splines.model.log import UpdateWarning
from atlas_splines.model.losses import find_loss

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["Why", "blame_of", "errors_of_subsets", "value_updates", "why", "why_inputs"]

Array = NDArray[Any]


# --- blame ----------------------------------------------------------------------------------------------


def blame_of(estimator: AtlasEstimator, points: Array) -> Blame:
    """Blame of points in the units of the target."""
    state = state_of(estimator.model_)
    names = output_names(estimator)
    direction = linked_changes(estimator, np.eye(state.outputs))[:, 0]
    origins, numbers = origins_of(estimator)
    found = blamed(state, points, origins, direction)
    values, rest = linked_changes(estimator, found.values), linked_changes(estimator, found.rest)
    base = np.repeat(links(estimator, np.zeros((1, state.outputs))), len(points), axis=0)
    predicted = links(estimator, estimator._outputs_at(points))
    rest = rest + (predicted - (base + values.sum(axis=1) + rest))  # with linear extrapolation, and rounding
    squeezed = len(names) == 1 and (hasattr(estimator, "classes_") or estimator._one_column)
    rows = found.rows if len(names) == 1 else None
    return Blame(
        values[..., 0] if squeezed else values,
        base[:, 0] if squeezed else base,
        rest[:, 0] if squeezed else rest,
        found.updates,
        tuple(f"update {number}" if number else "fit" for number in found.updates),
        None if rows is None else rows.values,
        None if rows is None else rows.updates,
        None if rows is None else numbers[rows.numbers],
        unit_of(estimator, False),
    )


def origins_of(estimator: AtlasEstimator) -> tuple[NDArray[np.intp] | None, NDArray[np.intp]]:
    """Update and number of each row that the memory predicts from, by the ledger; −1 is not known.

    A frame that was chosen anew has all rows as those of one fit: they stand in the order of the ledger, and
    are found there by their targets.
    """
    pool = state_of(estimator.model_).pooled
    if not isinstance(pool, Pool) or pool.memory is None:
        return None, np.zeros(0, np.intp)
    rows, ledger = pool.memory.newest, estimator._current_ledger
    updates, numbers = rows.updates.astype(np.intp), np.full(len(rows), -1, np.intp)
    if ledger is None:
        return updates, numbers
    parts = [each for each in ledger.contributions if each.kind in ("fit", "update")]
    sequences = []
    for each in parts:
        framed = framed_rows(each) if each.kind == "fit" else np.ones(len(each), np.bool_)
        order = np.concatenate([np.flatnonzero(framed), np.flatnonzero(~framed)])
        targets = estimator._targets(each.y[order])
        sequences.append(
            [(each.number, int(k), key.tobytes()) for k, key in zip(order, targets, strict=True)]
        )
    keys = [target.tobytes() for target in rows.targets]
    for update in np.unique(updates).tolist():
        known = [entry for own in sequences for entry in own if not update or entry[0] == update]
        places = np.flatnonzero(updates == update)
        matched = in_order([keys[place] for place in places], [key for *_, key in known])
        for place, k in zip(places.tolist(), matched, strict=True):
            if k >= 0:
                updates[place], numbers[place] = known[k][:2]
    return updates, numbers


def in_order(wanted: Sequence[bytes], known: Sequence[bytes]) -> list[int]:
    """Places of keys among others in the same order, of which some are left out; all −1 where that fails.

    Examples
    --------
    >>> in_order([b"a", b"c"], [b"a", b"b", b"c"]), in_order([b"c", b"a"], [b"a", b"c"])
    ([0, 2], [-1, -1])
    """
    found, k = [], 0
    for key in wanted:
        while k < len(known) and known[k] != key:
            k += 1
        if k == len(known):
            return [-1] * len(wanted)
        found.append(k)
        k += 1
    return found


# --- values of updates ----------------------------------------------------------------------------------


def value_updates(
    estimator: AtlasEstimator, X: ArrayLike, y: ArrayLike, updates: Sequence[int] | None
) -> UpdateValues:
    """What updates did for the error, by deriving the estimator without some of them."""
    check_is_fitted(estimator, "model_")
    ledger = estimator._current_ledger
    standing = ledger.numbers if ledger is not None else revertible(estimator)
    wanted = list(standing if updates is None else dict.fromkeys(updates))
    unknown = [number for number in wanted if number not in standing]
    if unknown:
        known = ", ".join(map(str, standing)) or "none"
        raise ValueError(f"update {unknown[0]} cannot be left out; of this model's updates, {known} can")
    now = estimator._now()
    table, targets, weights = now._checked(X, y, None)

    def error(version: AtlasEstimator) -> float:
        points = version.domain_.to_unit(table[:, : len(version.domain_.knots)])
        labels = version._targets(targets)
        loss = find_loss(version._loss)
        return version._error(loss(version._outputs_at(points).astype(np.float32), labels, weights))

    def errors() -> Array:
        if ledger is not None:
            return errors_of_subsets(estimator, ledger, wanted, error)
        return errors_by_reverting(estimator, wanted, error)

    return values_of(wanted, errors, estimator._measure)


def errors_of_subsets(
    estimator: AtlasEstimator, ledger: Ledger, wanted: Sequence[int], error: Callable[[AtlasEstimator], float]
) -> Array:
    """Error with each subset of some updates; each is derived from the one before its last update."""
    found = np.full(2 ** len(wanted), np.nan)
    place = {number: k for k, number in enumerate(wanted)}

    def visit(version: AtlasEstimator, learned: Ledger, rest: Sequence[Contribution], subset: int) -> None:
        if not rest:
            found[subset] = error(version)
            return
        first, later = rest[0], rest[1:]
        bit = place.get(first.number) if first.number else None
        if bit is not None:
            visit(version, learned, later, subset)
        grown = Ledger((*learned.contributions, first), ledger.parameters)
        visit(derived_next(version, grown), grown, later, subset | (0 if bit is None else 1 << bit))

    start = ledger.until(1)
    start.states.update({key: state for key, state in ledger.states.items() if key in start.keys})
    visit(derive(estimator, start), start, ledger.contributions[1:], 0)
    return found


def revertible(estimator: AtlasEstimator) -> list[int]:
    """Updates that a model of sums alone can take back, oldest first."""
    return [record.id for record in estimator.model_.updates if estimator.model_._can_revert(record)]


def errors_by_reverting(
    estimator: AtlasEstimator, wanted: Sequence[int], error: Callable[[AtlasEstimator], float]
) -> Array:
    """Error with each subset of some updates of a model of sums, which takes the others back."""
    found = np.empty(2 ** len(wanted))
    for subset in range(len(found)):
        version = copy.copy(estimator)
        for k in reversed(range(len(wanted))):
            if not subset >> k & 1:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UpdateWarning)
                    version._revert_sums(wanted[k])
        found[subset] = error(version)
    return found


# --- two versions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Why:
    """Why two versions of a model predict rows otherwise, on the scale of the link.

    Attributes
    ----------
    columns
        What each column adds to the change of each prediction: Shapley values of the difference. Its base
        values are the change of the mean prediction.
    updates
        What each contribution adds to the change: how much more, or less, it adds in the second version.
    """

    columns: Explanation
    updates: Blame

    @property
    def changes(self) -> Array:
        """Change of each prediction, shape (rows,) or (rows, outputs)."""
        return self.columns.predictions

    def lines(self, most: int = 5, first: int = 0) -> list[str]:
        """The change of each row in words: which columns, and which updates, moved it."""
        found = []
        by_column, by_update = self.columns, self.updates
        if by_column.output_names:
            return [*by_column.lines(most, first), *by_update.lines(most, first)]
        for row in range(len(by_column)):
            found.append(
                f"row {row + first}: {self.changes[row]:+.6g}, "
                f"of which {by_column.base_values[row]:+.6g} everywhere"
            )
            for values, names in (
                (by_column.values[row], by_column.feature_names),
                (by_update.values[row], by_update.names),
            ):
                order = np.argsort(-np.abs(values), kind="stable")[:most]
                found.append("  " + ", ".join(f"{names[k]} {values[k]:+.6g}" for k in order.tolist()))
        return found


def why(first: AtlasEstimator, second: AtlasEstimator, X: ArrayLike) -> Why:
    """Why two versions predict rows otherwise; columns are compared with the known rows of the second."""
    table = second._inputs(X)
    for each in (first, second):
        if each.extrapolation == "error":
            checked_points(each._now(), X)
    return why_inputs(first, second, table, table_of(X))


def why_inputs(first: AtlasEstimator, second: AtlasEstimator, table: Array, data: NDArray[Any]) -> Why:
    """The same of encoded inputs, shape (rows, inputs)."""
    pair = first._now(), second._now()
    points = [each.domain_.to_unit(table[:, : len(each.domain_.knots)]) for each in pair]
    views = two_views(*pair, points, data)
    found = [view.explanation(view.shares(explained)) for view in views]
    columns = replace(
        found[1],
        values=found[1].values - found[0].values,
        base_values=found[1].base_values - found[0].base_values,
        unit=f"change of the {found[1].unit}",
    )
    blames = [blame_of(each, own) for each, own in zip(pair, points, strict=True)]
    return Why(columns, change_of_blame(first, second, blames))


def two_views(
    one: AtlasEstimator, other: AtlasEstimator, points: Sequence[Array], data: NDArray[Any]
) -> list[View]:
    """The same rows as two versions see them, against the same known rows if the second holds any."""
    ledger = other._current_ledger
    same_inputs = len(one.domain_.knots) == len(other.domain_.knots)
    backgrounds: list[Background | None] = [None, None]
    if ledger is not None and same_inputs:
        rows = known_inputs(ledger, BACKGROUND_RULES.marginal_rows)
        text = f"the marginals of {len(rows):,} rows of the second"
        backgrounds = [
            Marginals.of_rows(each.domain_.to_unit(rows), column_of_points(each), text)
            for each in (one, other)
        ]
    pairs = zip((one, other), points, backgrounds, strict=True)
    return [View.of_points(each, own, data, background) for each, own, background in pairs]


def change_of_blame(first: AtlasEstimator, second: AtlasEstimator, found: Sequence[Blame]) -> Blame:
    """How much more each contribution adds in the second version.

    An update that two branches have numbered alike is one of each.
    """
    keys = [keys_of_updates(each, part.updates) for each, part in zip((first, second), found, strict=True)]
    every = list(dict.fromkeys([*keys[1], *keys[0]]))
    shape = (len(found[0]), len(every), *found[0].values.shape[2:])
    values = np.zeros(shape)
    names, numbers = [], []
    for k, key in enumerate(every):
        for sign, own, part in zip((-1.0, 1.0), keys, found, strict=True):
            if key in own:
                values[:, k] += sign * part.values[:, own.index(key)]
        here = keys[1] if key in keys[1] else keys[0]
        part = found[1] if key in keys[1] else found[0]
        names.append(part.names[here.index(key)])
        numbers.append(part.updates[here.index(key)])
    return replace(
        found[1],
        values=values,
        base_values=found[1].base_values - found[0].base_values,
        rest=found[1].rest - found[0].rest,
        updates=tuple(numbers),
        names=tuple(names),
        row_values=None,
        row_updates=None,
        row_numbers=None,
        unit=f"change of the {found[1].unit}",
    )


def keys_of_updates(estimator: AtlasEstimator, updates: Sequence[int]) -> list[tuple[object, ...]]:
    """What makes updates what they are, whatever their numbers; the fit is the same in both."""
    entries = {record.id: record for record in estimator.model_.updates}
    return [(entries[n].time, entries[n].rows) if n in entries else (n,) for n in updates]
