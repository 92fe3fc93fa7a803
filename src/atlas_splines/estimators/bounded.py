"""Bounds in the units of columns and target: what a model can predict for the rows of a box."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from atlas_splines.estimators.explained import column_of_points, unit_of
from atlas_splines.explain.bounds import BOUND_RULES, Bound, BoundRules, Prepared, largest, prepared
from atlas_splines.model.atlas import state_of

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator
    from atlas_splines.tables.encoding import Column

__all__ = ["Box", "Range", "box_of", "range_of"]

Array = NDArray[Any]
BoxLike = Mapping[Any, Any]

MOST_BOXES = 64  # that values of columns of categories are taken apart into; beyond it they are relaxed


@dataclass(frozen=True, eq=False)
class Range:
    """Certified bounds of the predictions over a box.

    Attributes
    ----------
    low, high
        No prediction is lower, or higher.
    low_reached, high_reached
        Some prediction is at most, or at least, this; beyond a relaxation (see `is_relaxed`) one between
        categories.
    at_low, at_high
        Rows near which these are: values by column.
    is_done
        Whether bounds were found as closely as was asked for, in their time.
    is_relaxed
        Whether categories were so many that predictions between them were bounded too.
    seconds
        What it took.
    unit
        What bounds are in, in words.
    """

    low: float
    high: float
    low_reached: float
    high_reached: float
    at_low: dict[str, Any]
    at_high: dict[str, Any]
    is_done: bool
    is_relaxed: bool
    seconds: float
    unit: str

    @property
    def gap(self) -> float:
        """How far certified bounds are from what is reached, at worst."""
        return max(self.low_reached - self.low, self.high - self.high_reached)

    def __repr__(self) -> str:
        done = "" if self.is_done else f", with a gap of {self.gap:.3g} when time was up"
        return f"<Range: {self.unit} from {self.low:.6g} to {self.high:.6g}{done}>"


@dataclass(frozen=True, eq=False)
class Box:
    """Rows of a box, as boxes of points.

    Attributes
    ----------
    estimator
        Whose columns these are.
    boxes
        Lowest and highest points, shape (inputs,) each: one pair for each choice of categories.
    is_relaxed
        Whether some boxes have points that no row has.
    """

    estimator: AtlasEstimator
    boxes: tuple[tuple[Array, Array], ...]
    is_relaxed: bool

    def contains(self, points: Array) -> NDArray[np.bool_]:
        """Which points lie in the box."""
        inside = [((points >= low) & (points <= high)).all(axis=1) for low, high in self.boxes]
        return np.asarray(np.any(inside, axis=0))

    def largest(
        self,
        direction: Array,
        rules: BoundRules,
        enough: Callable[[float, float], bool] | None = None,
    ) -> Bound:
        """The largest value of a weighted sum of the outputs."""
        state = state_of(self.estimator.model_)
        parts: list[Prepared] = [prepared(state, low, high, direction, rules) for low, high in self.boxes]
        return largest(parts, rules.tolerance * float(np.abs(direction).max()), rules, enough)

    def row(self, point: Array) -> dict[str, Any]:
        """Values by column at a point, or near it."""
        return row_at(self.estimator, point)


def range_of(
    estimator: AtlasEstimator, box: BoxLike, label: Any = None, rules: BoundRules = BOUND_RULES
) -> Range:
    """Bounds of predictions: of targets, of counts, or of the probability of a class."""
    found = box_of(estimator, box)
    if hasattr(estimator, "classes_"):
        return _range_of_class(estimator, found, label, rules)
    if label is not None:
        raise ValueError("label names a class, and this model predicts numbers; leave it out")
    if estimator.loss == "quantile":
        raise ValueError("range is for mean predictions, not for those of loss='quantile'")
    if not estimator._one_column:
        raise ValueError("range is for one target, and this model has several; fit one model for each")
    up = found.largest(np.ones(1), rules)
    left = replace(rules, seconds=max(2 * rules.seconds - up.seconds, 0.0))  # what the first did not need
    down = found.largest(-np.ones(1), left)

    def value(output: float) -> float:
        return float(estimator._values(np.array([[output]]))[0, 0])

    return Range(
        value(-down.certain),
        value(up.certain),
        value(-down.reached),
        value(up.reached),
        found.row(down.at),
        found.row(up.at),
        up.is_done and down.is_done,
        found.is_relaxed,
        up.seconds + down.seconds,
        unit_of(estimator, True),
    )


def _range_of_class(estimator: Any, box: Box, label: Any, rules: BoundRules) -> Range:
    """Bounds of the probability of a class: 1/(1 + Σ e^(other − own)), bounded score by score."""
    classes = estimator.classes_.tolist()
    if label is None and len(classes) > 2:
        raise ValueError(f"there are {len(classes)} classes; say which with label, such as {classes[0]!r}")
    own = 1 if label is None else classes.index(label) if label in classes else -1
    if own < 0:
        raise ValueError(f"there is no class {label!r}; these are {', '.join(map(repr, classes))}")
    odds = np.zeros(4)  # of others against it: most, least, most reached, least reached
    bounds: list[Bound] = []
    share = replace(rules, seconds=rules.seconds / max(len(classes) - 1, 1))
    for other in range(len(classes)):
        if other == own:
            continue
        direction = np.zeros(len(classes))
        direction[other], direction[own] = 1.0, -1.0
        up, down = (box.largest(sign * direction, share) for sign in (1.0, -1.0))
        with np.errstate(over="ignore"):
            odds += np.exp([up.certain, -down.certain, up.reached, -down.reached])
        bounds += [up, down]
    low, high, low_reached, high_reached = expit(-np.log(odds)).tolist()
    return Range(
        low,
        high,
        low_reached,
        high_reached,
        box.row(bounds[0].at),
        box.row(bounds[1].at),
        all(each.is_done for each in bounds) and len(bounds) == 2,
        box.is_relaxed,
        sum(each.seconds for each in bounds),
        f"probability of {classes[own]!r}",
    )


# --- boxes of rows as boxes of points -------------------------------------------------------------------


def box_of(estimator: AtlasEstimator, box: BoxLike) -> Box:
    """A box of rows: for some columns a value, (low, high) or a list of categories; others are free."""
    if not isinstance(box, Mapping):
        raise TypeError("box must be a dict of columns, such as {'size': (50, 80), 'city': 'Cadiz'}")
    names, players = list(estimator.column_names), column_of_points(estimator)
    given: dict[int, Any] = {}
    for key, value in box.items():
        number = key if isinstance(key, int) and not isinstance(key, bool) else None
        number = names.index(key) if key in names else number
        if number is None or not 0 <= number < len(names):
            raise ValueError(f"box names {key!r}, which is not a column; these are {', '.join(names)}")
        given[number] = value
    choices = [_choices(estimator, p, players, given.get(p, ...)) for p in range(len(names))]
    is_relaxed = any(relaxed for _, relaxed in choices)
    parts = [each for each, _ in choices]
    while prod(map(len, parts)) > MOST_BOXES:
        k = max(range(len(parts)), key=lambda p: len(parts[p]))
        low, high = (np.array([pair[side] for pair in parts[k]]) for side in (0, 1))
        parts[k], is_relaxed = [(low.min(axis=0), high.max(axis=0))], True
    boxes = []
    for pairs in itertools.product(*parts):
        low, high = np.zeros(len(players)), np.zeros(len(players))
        for p, (below, above) in enumerate(pairs):
            low[players == p], high[players == p] = below, above
        boxes.append((low, high))
    return Box(estimator, tuple(_in_domain(estimator, *pair) for pair in boxes), is_relaxed)


def _in_domain(estimator: AtlasEstimator, low: Array, high: Array) -> tuple[Array, Array]:
    """A box within the domain, at whose edge predictions go on as they are there."""
    state = state_of(estimator.model_)
    inside = low.clip(*state.lattice.domain.T), high.clip(*state.lattice.domain.T)
    goes_on = estimator.extrapolation != "constant" or (state.later is not None and state.later.slopes.any())
    if goes_on and not (np.array_equal(inside[0], low) and np.array_equal(inside[1], high)):
        raise ValueError(
            "the box reaches beyond the domain, where predictions go on with slopes or are refused; give one "
            "inside it"
        )
    return inside


def _choices(
    estimator: AtlasEstimator, player: int, players: NDArray[np.intp], value: Any
) -> tuple[list[tuple[Array, Array]], bool]:
    """Lowest and highest coordinates of a column's inputs, for each choice of its categories."""
    name = estimator.column_names[player]
    column: Column | None = estimator.encoding_.columns[player] if hasattr(estimator, "encoding_") else None
    coordinates = _Coordinates(estimator, player, players)
    if column is not None and column.categories is not None:
        if value is ...:
            known = [*column.categories, *column.others]
            value = known + ([None] if estimator.missing == "learn" else [])
        elif not isinstance(value, list | tuple | set):
            value = [value]
        points = [coordinates.of(_encoded(column, each, name)) for each in value]
        return [(point, point) for point in points], False
    if column is not None and column.calendar is not None:
        return _date_choices(column, coordinates, value, name)
    is_missing = value is None or (isinstance(value, float) and np.isnan(value))
    if is_missing:
        point = coordinates.of([np.nan])
        return [(point, point)], False
    if value is ...:
        ends, found = coordinates.everywhere(), []
        found.append(ends)
        if len(ends[0]) > 1:  # a value that is missing
            point = coordinates.of([np.nan])
            found.append((point, point))
        return found, False
    pair = value if isinstance(value, list | tuple) else (value, value)
    try:
        low, high = (float(each) for each in pair)
    except (TypeError, ValueError):
        raise ValueError(f"box has {value!r} for column {name!r}; give a number, or (low, high)") from None
    if not low <= high:
        raise ValueError(f"box has {value!r} for column {name!r}; give the lower end first")
    return [(coordinates.of([low]), coordinates.of([high]))], False


def _date_choices(
    column: Column, coordinates: _Coordinates, value: Any, name: str
) -> tuple[list[tuple[Array, Array]], bool]:
    """Those of dates: of a span of time all parts of the calendar are free but the trend."""
    ends = coordinates.everywhere()
    if value is ...:
        return [ends], True
    if not isinstance(value, list | tuple):
        point = coordinates.of(_encoded(column, value, name))
        return [(point, point)], False
    low, high = (coordinates.of(_encoded(column, each, name)) for each in value)
    parts = list(column.calendar.parts) if column.calendar is not None else []
    found = ends[0].copy(), ends[1].copy()
    if "trend" in parts:
        k = parts.index("trend")
        found[0][k], found[1][k] = low[k], high[k]
    return [found], True


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Coordinates of the inputs of one column."""

    estimator: AtlasEstimator
    player: int
    players: NDArray[np.intp]

    @property
    def inputs(self) -> NDArray[np.intp]:
        """Its encoded inputs."""
        return np.flatnonzero(self.estimator._column_of_inputs == self.player)

    def of(self, values: Sequence[float]) -> Array:
        """Coordinates of encoded values of its inputs."""
        row = np.zeros((1, len(self.estimator.domain_.knots)))
        row[0, self.inputs] = values
        return np.asarray(self.estimator.domain_.to_unit(row)[0, self.players == self.player])

    def everywhere(self) -> tuple[Array, Array]:
        """Ends of the domain along its inputs, with values that are not missing."""
        low, high = self.estimator.model_.domain[self.players == self.player].T.copy()
        low[len(self.inputs) :] = high[len(self.inputs) :] = 0.0
        return low, high


def _encoded(column: Column, value: Any, name: str) -> list[float]:
    """Inputs of one value of a column."""
    from atlas_splines.tables.cells import Cells
    from atlas_splines.tables.frames import frame_of_rows, piece_of

    if value is None or (isinstance(value, float) and np.isnan(value)):
        return [float(part[0]) for part in column.missing(1)]
    every = (*(column.categories or ()), *column.others)
    if column.categories is not None:
        value = str(value).lower() if isinstance(value, bool | np.bool_) else str(value)
    if column.categories is not None and value not in every:
        known = ", ".join(every[:8])
        raise ValueError(f"box has {value!r} for column {name!r}, which knows {known}; correct it")
    if column.calendar is not None and isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(
                f"box has {value!r} for column {name!r}; give a date such as 2024-05-01"
            ) from None
    piece = piece_of(frame_of_rows([{name: value}], [name]), [name])
    return [float(part[0]) for part in column.encode(Cells.of(piece, name), None)]


def row_at(estimator: AtlasEstimator, point: Array) -> dict[str, Any]:
    """Values by column at a point, or near it: of dates the parts."""
    columns, players = estimator.domain_, column_of_points(estimator)
    first = len(columns.knots)
    found: dict[str, Any] = {}
    missing = {int(j) for k, j in enumerate(columns.indicators.tolist()) if point[first + k] > 0.5}
    raw = [float(columns.to_raw(j, point[j : j + 1])[0]) for j in range(first)]
    for p, name in enumerate(estimator.column_names):
        own = [j for j in range(first) if players[j] == p]
        column = estimator.encoding_.columns[p] if hasattr(estimator, "encoding_") else None
        if column is None or (column.categories is None and column.calendar is None):
            found[name] = None if own[0] in missing else raw[own[0]]
        elif column.calendar is not None:
            found |= {column.inputs[k]: raw[j] for k, j in enumerate(own)}
        elif column.one_hot:
            best = max(own, key=lambda j: raw[j])
            found[name] = (column.categories or ())[own.index(best)] if raw[best] > 0.5 else None
        else:
            every = (*(column.categories or ()), *column.others)
            code = round(raw[own[0]])
            found[name] = every[code] if 0 <= code < len(every) and own[0] not in missing else None
    return found
