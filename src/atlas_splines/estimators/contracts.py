"""Contracts: rules that predictions keep, proved by bounds or broken by a counterexample.

A file of rules is TOML, with one table for each rule:

    [[rule]]
    name = "never below 0"
    min = 0

    [[rule]]
    max = 2e6
    where = { city = "Cadiz", size = [50, 80] }

    [[rule]]
    rises = "size"

    [[rule]]
    max_change = "5%"

What can be neither proved nor broken in its time is unproven, which is no breach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.estimators.bounded import Box, box_of, row_at
from atlas_splines.estimators.explained import column_of_points, known_points, responses
from atlas_splines.explain.explanation import text_of
from atlas_splines.model.atlas import state_of

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["CONTRACT_RULES", "ContractRules", "Rule", "Verdict", "check_contract", "read_contract"]

Array = NDArray[Any]
Status = Literal["holds", "broken", "unproven"]

KEYS = ("name", "min", "max", "rises", "falls", "max_change", "where", "class", "seconds")


@dataclass(frozen=True)
class ContractRules:
    """How far rules are checked.

    Attributes
    ----------
    seconds
        For a bound of a rule, if the rule has no number of its own.
    steps
        Values of a column at which a rule on its direction is tried: twice as many as a table of the usual
        density has cells for.
    most_tried
        Rows from which it is tried: with `steps` some 16,000 predictions, which take a second or so.
    sampled_rows
        Random rows of a box in which a breach is looked for, beside all known ones.
    most_rows
        Known rows that are looked at: all that a model keeps by default, ten times over.
    slack
        Share of the largest prediction that rounding may be off by without a breach.
    """

    seconds: float = 5.0
    steps: int = 33
    most_tried: int = 500
    sampled_rows: int = 2000
    most_rows: int = 1_000_000
    slack: float = 1e-6


CONTRACT_RULES = ContractRules()


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes
    ----------
    name
        What it is called.
    low, high
        Bounds of predictions, if it bounds them.
    column, way
        A column along which predictions never fall (1) or rise (−1), if it says so; otherwise way is 0.
    max_change, is_share
        How much an update may move the prediction of a known row at most, in units of the target or as a
        share of the prediction.
    where
        The rows that it is for, as in `range`.
    label
        The class whose probability it is about; of two classes the second by default.
    seconds
        Time for each of its bounds.
    """

    name: str
    low: float = -np.inf
    high: float = np.inf
    column: str = ""
    way: int = 0
    max_change: float | None = None
    is_share: bool = False
    where: Mapping[str, Any] = field(default_factory=dict)
    label: Any = None
    seconds: float = CONTRACT_RULES.seconds

    @property
    def bounds(self) -> bool:
        """Whether it bounds predictions."""
        return bool(np.isfinite([self.low, self.high]).any())


@dataclass(frozen=True)
class Verdict:
    """Whether a model keeps a rule.

    Attributes
    ----------
    rule
        The rule.
    status
        "holds" (proved), "broken" (by the counterexample) or "unproven".
    why
        How that is known, in words.
    counterexample
        A row that breaks it: values by column.
    """

    rule: Rule
    status: Status
    why: str
    counterexample: Mapping[str, Any] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The verdict in a line."""
        row = ", ".join(f"{name} = {text_of(value)}" for name, value in self.counterexample.items())
        return f"{self.status}: {self.rule.name}: {self.why}{f' ({row})' if row else ''}"


# --- files ----------------------------------------------------------------------------------------------


def read_contract(path: Path) -> list[Rule]:
    """The rules of a file, or one sentence on what is wrong with it."""
    toml = toml_reader()
    try:
        found = toml.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist; check the name") from None
    except ValueError as error:  # of both readers, and of texts that are none
        raise ValueError(f"{path} is not TOML: {error}") from None
    rules = found.get("rule")
    if not isinstance(rules, list) or not rules or found.keys() != {"rule"}:
        raise ValueError(f"{path} must have [[rule]] tables and nothing else")
    return [_rule(f"{path}, rule {k}", each) for k, each in enumerate(rules, 1)]


def toml_reader() -> Any:
    """What reads TOML: Python itself from 3.11 on, or else the package tomli."""
    for name in ("tomllib", "tomli"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise ValueError("rules are TOML, which Python reads from 3.11 on; install the package tomli")


def _rule(what: str, given: Any) -> Rule:
    if not isinstance(given, dict):
        raise ValueError(f"{what} must be a table")
    for key in given:
        if key not in KEYS:
            raise ValueError(f"{what} has {key!r}, which is not one of {', '.join(KEYS)}; correct it")
    kinds = [kind for kind in ("rises", "falls", "max_change") if kind in given]
    kinds += ["min and max"] if {"min", "max"} & given.keys() else []
    if len(kinds) != 1:
        raise ValueError(f"{what} must have one of min and max, rises, falls, or max_change")
    where, name = given.get("where", {}), given.get("name", "")
    if not isinstance(where, dict) or not isinstance(name, str):
        raise ValueError(f"{what} must have a table of columns in 'where' and a text in 'name'")
    for key in ("rises", "falls"):
        if not isinstance(given.get(key, ""), str):
            raise ValueError(f"{what} must name a column in {key!r}")
    low, high, seconds = (
        _number(what, key, given, other)
        for key, other in (("min", -np.inf), ("max", np.inf), ("seconds", CONTRACT_RULES.seconds))
    )
    if low > high:
        raise ValueError(f"{what} has a min above its max; correct it")
    change, is_share = _change(what, given.get("max_change"))
    column = str(given.get("rises", given.get("falls", "")))
    way = 1 if "rises" in given else -1 if "falls" in given else 0
    rule = Rule(name, low, high, column, way, change, is_share, where, given.get("class"), seconds)
    return replace(rule, name=name or _title(rule, given))


def _number(what: str, key: str, given: Mapping[str, Any], other: float) -> float:
    value = given.get(key, other)
    if isinstance(value, bool) or not isinstance(value, int | float) or np.isnan(value):
        raise ValueError(f"{what} has {value!r} as {key!r}; give a number")
    return float(value)


def _change(what: str, value: Any) -> tuple[float | None, bool]:
    if value is None:
        return None, False
    is_share = isinstance(value, str) and value.rstrip().endswith("%")
    try:
        number = float(value.rstrip().removesuffix("%")) / 100 if is_share else float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not number >= 0:
        raise ValueError(f"{what} has {value!r} as 'max_change'; give a number, or a share such as \"5%\"")
    return number, is_share


def _title(rule: Rule, given: Mapping[str, Any]) -> str:
    """A name for a rule without one."""
    parts = []
    for key in ("min", "max"):
        parts += [f"{key} {given[key]:g}"] if key in given else []
    if rule.way:
        parts.append(f"{'rises' if rule.way > 0 else 'falls'} with {rule.column}")
    if rule.max_change is not None:
        parts.append(f"no known row moves more than {given['max_change']}")
    place = ", ".join(f"{key} = {value}" for key, value in rule.where.items())
    return " and ".join(parts) + (f" where {place}" if place else "")


# --- checks ---------------------------------------------------------------------------------------------


def check_contract(
    estimator: AtlasEstimator, rules: Sequence[Rule], before: AtlasEstimator | None = None
) -> list[Verdict]:
    """Whether an estimator keeps rules; `before` is what it was before an update.

    Examples
    --------
    >>> from atlas_splines import AtlasRegressor
    >>> X = np.random.default_rng(0).random((200, 1))
    >>> model = AtlasRegressor(random_state=0).fit(X, X[:, 0])
    >>> [verdict.status for verdict in check_contract(model, [Rule("high", high=1.5), Rule("low", low=0.5)])]
    ['holds', 'broken']
    """
    now = estimator._now()
    _check_columns(now, rules)
    verdicts = []
    for rule in rules:
        if rule.max_change is not None:
            verdicts.append(_stable(now, rule, before))
        elif rule.way:
            verdicts.append(_directed(now, rule))
        else:
            verdicts.append(_bounded(now, rule))
    return verdicts


def _check_columns(estimator: AtlasEstimator, rules: Sequence[Rule]) -> None:
    """Refuse rules that name what the model does not have, before any is checked."""
    for rule in rules:
        try:
            box_of(estimator, rule.where)
        except ValueError as error:
            raise ValueError(f"rule {rule.name!r}: {error}") from None
        if rule.way and rule.column not in estimator.column_names:
            known = ", ".join(estimator.column_names)
            raise ValueError(f"rule {rule.name!r}: {rule.column!r} is not a column; these are {known}")
        if rule.label is not None and rule.label not in list(getattr(estimator, "classes_", ())):
            raise ValueError(f"rule {rule.name!r}: there is no class {rule.label!r}")


def _own_values(estimator: Any, rule: Rule, points: Array) -> Array:
    """What a rule is about at points: predictions, or the probability of its class, shape (rows,)."""
    values = responses(estimator, points)
    if not hasattr(estimator, "classes_"):
        return np.asarray(values[:, 0])
    classes = estimator.classes_.tolist()
    if len(classes) == 2:
        return np.asarray(values[:, 0] if rule.label in (None, classes[1]) else 1 - values[:, 0])
    if rule.label is None:
        raise ValueError(f"rule {rule.name!r}: there are {len(classes)} classes; say which with class")
    return np.asarray(values[:, classes.index(rule.label)])


def _tried(estimator: AtlasEstimator, box: Box) -> Array:
    """Known rows in a box, and random points of it if it is one of rows."""
    known = known_points(estimator, CONTRACT_RULES.most_rows)
    found = [known[box.contains(known)]] if known is not None and len(known) else []
    random = np.random.default_rng(0)
    if not box.is_relaxed:
        for low, high in box.boxes:
            found.append(
                low
                + (high - low)
                * random.random((max(CONTRACT_RULES.sampled_rows // len(box.boxes), 20), len(low)))
            )
    return np.vstack(found) if found else np.zeros((0, len(box.boxes[0][0])))


def _bounded(estimator: AtlasEstimator, rule: Rule) -> Verdict:
    """A rule of bounds: looked for a breach first, then proved."""
    box, slack = box_of(estimator, rule.where), 0.0
    points = _tried(estimator, box)
    if len(points):
        values = _own_values(estimator, rule, points)
        slack = CONTRACT_RULES.slack * float(np.abs(values).max())
        for worst, is_beyond in (
            (int(values.argmin()), values.min() < rule.low - slack),
            (int(values.argmax()), values.max() > rule.high + slack),
        ):
            if is_beyond:
                what = f"{values[worst]:.6g} is predicted"
                return Verdict(rule, "broken", what, row_at(estimator, points[worst]))
    found = estimator.range(rule.where, label=rule.label, seconds=rule.seconds)
    if found.low >= rule.low - slack and found.high <= rule.high + slack:
        return Verdict(rule, "holds", f"proved: predictions lie between {found.low:.6g} and {found.high:.6g}")
    for at, is_beyond in (
        (found.at_low, found.low_reached < rule.low - slack),
        (found.at_high, found.high_reached > rule.high + slack),
    ):
        if is_beyond and not found.is_relaxed:
            reached = found.low_reached if at is found.at_low else found.high_reached
            return Verdict(rule, "broken", f"{reached:.6g} is predicted", at)
    return Verdict(
        rule,
        "unproven",
        f"no breach was found, and in {found.seconds:.1f} s predictions were bounded by {found.low:.6g} and "
        f"{found.high:.6g} alone",
    )


def _directed(estimator: AtlasEstimator, rule: Rule) -> Verdict:
    """A rule on the direction along a column: by construction, or tried along it from many rows."""
    p = list(estimator.column_names).index(rule.column)
    players = column_of_points(estimator)
    own = [int(j) for j in np.flatnonzero(players == p) if j < len(estimator.domain_.knots)]
    if len(own) != 1 or own[0] in estimator.domain_.levels:
        raise ValueError(f"rule {rule.name!r}: {rule.column!r} is not a column of numbers")
    j, state = own[0], state_of(estimator.model_)
    monotonic = (
        np.array(state.monotonic) if state.monotonic else np.zeros((state.outputs, state.lattice.inputs))
    )
    wanted = [rule.way * turn for turn in estimator._turns(state.outputs)] if state.monotonic else []
    if wanted and monotonic[:, j].tolist() == wanted:
        return Verdict(rule, "holds", "the model was fitted so that it cannot be otherwise")
    box = box_of(estimator, rule.where)
    points = _tried(estimator, box)
    points = points[:: max(-(-len(points) // CONTRACT_RULES.most_tried), 1)]
    low, high = box.boxes[0][0][j], box.boxes[0][1][j]
    steps = np.linspace(low, high, CONTRACT_RULES.steps)
    if len(points) and high > low:
        grid = np.repeat(points, CONTRACT_RULES.steps, axis=0)
        grid[:, j] = np.tile(steps, len(points))
        values = _own_values(estimator, rule, grid).reshape(len(points), CONTRACT_RULES.steps)
        falls = rule.way * np.diff(values, axis=1)
        row, k = np.unravel_index(int(falls.argmin()), falls.shape)
        if falls[row, k] < -CONTRACT_RULES.slack * float(np.abs(values).max()):
            pair = [grid[int(row) * CONTRACT_RULES.steps + int(k) + i] for i in (0, 1)]
            ends = [text_of(row_at(estimator, point)[rule.column]) for point in pair]
            verb = "falls" if rule.way > 0 else "rises"
            what = f"it {verb} from {values[row, k]:.6g} to {values[row, k + 1]:.6g}"
            what += f" between {' and '.join(ends)}"
            others = {
                name: value for name, value in row_at(estimator, pair[0]).items() if name != rule.column
            }
            return Verdict(rule, "broken", what, others)
    return Verdict(
        rule,
        "unproven",
        f"no breach was found from {len(points):,} rows; fit with monotonic_cst or --increasing to make sure",
    )


def _stable(estimator: AtlasEstimator, rule: Rule, before: AtlasEstimator | None) -> Verdict:
    """A rule on how far known rows move: all of them are looked at."""
    if before is None:
        return Verdict(rule, "unproven", "it is about an update, and nothing was given to compare with")
    old = before._now()
    points = known_points(old, CONTRACT_RULES.most_rows)
    if points is None or not len(points):
        return Verdict(rule, "unproven", "the model keeps no rows to compare")
    if len(old.domain_.knots) != len(estimator.domain_.knots):
        return Verdict(rule, "unproven", "the update has brought columns that known rows lack")
    points = points[box_of(old, rule.where).contains(points)] if rule.where else points
    if not len(points):
        return Verdict(rule, "holds", "no known row is there")
    raw = np.column_stack([old.domain_.to_raw(j, points[:, j]) for j in range(len(old.domain_.knots))])
    same = all(
        np.array_equal(getattr(old.domain_, name), getattr(estimator.domain_, name))
        for name in ("knots", "fill", "indicators")
    )
    moved = points if same else estimator.domain_.to_unit(raw)
    was, now = _own_values(old, rule, points), _own_values(estimator, rule, moved)
    change = np.abs(now - was) / (np.maximum(np.abs(was), 1e-12) if rule.is_share else 1.0)
    worst, limit = int(change.argmax()), float(rule.max_change or 0.0)
    shown = f"{100 * change[worst]:.3g} %" if rule.is_share else f"{change[worst]:.6g}"
    if change[worst] > limit * (1 + CONTRACT_RULES.slack):
        what = f"a known row moves by {shown}, from {was[worst]:.6g} to {now[worst]:.6g}"
        return Verdict(rule, "broken", what, row_at(old, points[worst]))
    return Verdict(rule, "holds", f"of {len(points):,} known rows none moves by more than {shown}")
