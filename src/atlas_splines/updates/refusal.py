"""Data validation: batches that are faulty as a whole are refused, unless the caller accepts them.

A file in other units, with two columns exchanged or with one target for all rows has errors far beyond those
on record, and a map of one or two parameters, the same for all rows, reduces them to the usual size. Concept
drift has no such inverse, and a local change does not affect all rows. Compare Breck et al. (2019), Data
validation for machine learning, who check the inputs alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax

from atlas_splines.memory.conformal import MIDDLES, ScoreHistogram
from atlas_splines.memory.data_density import DataDensity
from atlas_splines.memory.error_model import ErrorModel, Residuals
from atlas_splines.memory.pool import RECENT, Pool
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.state import State
from atlas_splines.updates.intervals import deviations, error_model_of
from atlas_splines.updates.synthetic_sample import synthetic_sample_of

__all__ = ["Origin", "RefusalRules", "UpdateRefused", "refuse_faulty"]

Array = NDArray[np.float64]
Map = Callable[[Array], Array]


@dataclass(frozen=True)
class RefusalRules:
    """Thresholds for a batch that is faulty as a whole, chosen by ``benchmarks/refusal.py``.

    Errors of numbers are medians of |target − prediction| over the standard deviation of the error there, in
    units of what that median is on record; those of classes are means of −log p.

    Attributes
    ----------
    min_rows
        Rows from which on a batch is assessed: streams come row by row, and the median of fewer is too noisy.
    max_rows
        Rows that are assessed, evenly spaced: the search over columns evaluates the model some hundred times.
    min_error, max_repaired, min_gain
        Errors before and after a fault is undone, and the least ratio of the two; the shift of targets must
        be that many times those of recent updates, too. Harmful faults that no other rule finds begin at 3.2;
        of 371 ordinary batches of numbers 6 are beyond 3, the worst at 5.5, and one of these has an error 2.8
        times lower with a column shifted. Ordinary errors reach 3 in the first weeks after a fit, below which
        the error after undoing a fault cannot fall.
    min_class_error, min_class_gain, min_class_ratio
        The same for classes: the least error before, relative to those on record, and how far undoing must
        lower it, in nats and as a ratio. Exchanged classes of the streams have 2 to 4 times the error. The
        ratio suffices for numbers too if a shift has moved a column out of its range.
    min_error_outside, min_gain_outside
        Error and ratio that suffice for a column that has left its range and returns by a power of ten:
        extrapolation has small errors, but such rows at the edge of the domain spoil the model.
    constant_error
        Error of a constant target. It has no inverse, but noise never leaves all targets equal to the last
        digit. The smallest of a harmful one is 1.8.
    confident, contradicted, rare
        A constant class is a fault if at least a share `contradicted` of the rows had another class with
        probability `confident`, and as many another than the most common one: in the streams at least 13 in
        100. Streams may be sorted by class: one with a smaller share of the known rows than `rare` is new.
    correlation, standard_errors
        Rank correlation of targets and predictions, relative to that expected under the noise, and relative
        to its standard error 1/√rows: without it any targets fit once they are shifted. Of the paper's second
        tasks, many of which are mostly noise, 20 in 100 were refused without it, and none is with it.
    max_factor, min_variation
        Factor between the median of targets over predictions and a power of ten, for local rows (for others
        it is the nearest power); and the variation of targets over that power, relative to the expected one,
        twice as much for local rows. A shifted level with ordinary noise varies by 0.1 once it is divided (14
        of 15 walks and second tasks by less than 0.15); targets times ten vary by 0.26 at least.
    min_shift
        Shift of the targets, in standard deviations of the predictions: a sudden change of two is learned.
    wide, min_share_in_box
        Share of the inputs that must span such a share of the known rows, and the share of known rows in the
        box of those inputs that span less than in recent updates: otherwise the batch is local.
    usual_span, new_density
        Span relative to recent updates that is as usual, and density of known rows relative to its mean below
        which an input is new: every week has a month and a trend of its own.
    min_distinct, min_known, min_range
        A column can be in other units if it has so many values; undone, such a share of them is in the known
        range, and they vary by such a share of it: nearly every range contains 0.
    min_column_shift, max_returned, precision
        Shifts of a column are faults from such a share of the distance of its first and ninth decile on,
        since prices drift by less. Undoing a fault leaves at most a share `max_returned` of the distance to
        the usual deciles: otherwise a random walk of the targets resembles a fault of an unchanged column.
        Shifts are found up to a share `precision` of the distance, and not searched for in a column that only
        rises.
    """

    min_rows: int = 20
    max_rows: int = 300
    min_error: float = 3.0
    max_repaired: float = 3.0
    min_gain: float = 3.0
    min_class_error: float = 1.5
    min_class_gain: float = 0.5
    min_class_ratio: float = 2.0
    min_error_outside: float = 1.3
    min_gain_outside: float = 1.25
    constant_error: float = 1.7
    confident: float = 0.8
    contradicted: float = 0.1
    rare: float = 0.02
    correlation: float = 0.8
    standard_errors: float = 4.0
    max_factor: float = 1.9
    min_variation: float = 0.2
    min_shift: float = 3.0
    wide: float = 0.5
    min_share_in_box: float = 0.15
    usual_span: float = 0.4
    new_density: float = 0.5
    min_distinct: int = 8
    min_known: float = 0.7
    min_range: float = 0.2
    min_column_shift: float = 0.5
    max_returned: float = 0.5
    precision: float = 0.02


RULES = RefusalRules()
SHOWN = 3  # exchanged classes in a message
LEAST = 1e-9  # standard deviation of errors, in those of targets: exact models have zero
NORMAL = 0.674  # median of |z| for a standard normal z
DECILES = np.linspace(0.1, 0.9, 9)
ENDS = (0.02, 0.98)  # quantiles between which rows span an input, so that outliers do not count
SYNTHETIC_ROWS = 1000  # of which the share in a box is counted
POWERS = (10.0, 0.1, 100.0, 0.01, 1000.0, 0.001)
# Units that are often confused: miles and km, feet and m, pounds and kg, m/s and km/h, minutes and hours.
UNITS = (1.609344, 0.3048, 0.45359237, 3.6, 60.0)
OFFSETS = ((1.8, 32.0), (1.0, 273.15))  # °C in °F or K: a·x + b


class UpdateRefused(ValueError):
    """The rows of an update are faulty as a whole; nothing was learned.

    Attributes
    ----------
    what
        What is wrong with them.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what}; nothing was learned: correct the rows, or give accept=True to learn them all the same"
        )

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return type(self), (self.what,)


@dataclass(frozen=True, eq=False)
class Origin:
    """Rows in their original coordinates, with the maps to those of the model.

    Attributes
    ----------
    X
        Inputs, shape (rows, columns).
    y
        Targets, shape (rows, outputs); of classes their indicators.
    to_points, to_values
        Inputs to points of the model, also beyond its domain; and coordinates of a column back to its values.
    encode, decode
        Targets to those of the model, and back.
    columns
        Names of columns in messages, such as "column 'size'".
    measured
        Numbers of the columns with a unit: no categories, and no parts of dates.
    classes
        Names of classes; empty for numbers.
    """

    X: Array
    y: Array
    to_points: Map
    to_values: Callable[[int, Array], Array]
    encode: Map
    decode: Map
    columns: tuple[str, ...]
    measured: tuple[int, ...]
    classes: tuple[str, ...] = ()

    @classmethod
    def of_points(cls, points: NDArray[np.floating], targets: NDArray[np.floating], loss: str) -> Origin:
        """The origin of rows in the coordinates of the model."""
        inputs, outputs = points.shape[1], targets.shape[1]
        return cls(
            points.astype(np.float64),
            targets.astype(np.float64),
            *(np.asarray, lambda _, units: units, np.asarray, np.asarray),
            columns=tuple(f"input {j}" for j in range(inputs)),
            measured=tuple(range(inputs)),
            classes=tuple(map(str, range(outputs))) if loss == "cross-entropy" else (),
        )

    def take(self, rows: NDArray[np.intp]) -> Origin:
        """Some of the rows."""
        return replace(self, X=self.X[rows], y=self.y[rows])


def refuse_faulty(state: State, origin: Origin, local: bool = True, rules: RefusalRules = RULES) -> None:
    """Raise `UpdateRefused` if rows are faulty as a whole.

    Parameters
    ----------
    state
        The state before the update; without an error model nothing is refused.
    origin
        The rows.
    local
        Whether local rows are assessed too: not where a chart is requested, whose effect is local.
    rules
        The tuned numbers.
    """
    error_model = error_model_of(state)
    if error_model is None or error_model.data_density is None or len(origin.X) < rules.min_rows:
        return
    chosen = np.linspace(0, len(origin.X) - 1, min(len(origin.X), rules.max_rows)).astype(np.intp)
    kind = _ClassCheck if origin.classes else _NumberCheck
    check = kind(state, error_model, error_model.data_density, origin.take(chosen), rules)
    found = check.fault()
    if found and (local or not check.is_local):
        raise UpdateRefused(found)


@dataclass(frozen=True, eq=False)
class _Fix:
    """Inputs with a fault undone, its description, and the ratio of errors for a column outside its range."""

    X: Array
    fault: str
    min_gain_outside: float | None = None


@dataclass(frozen=True, eq=False)
class _BatchCheck(ABC):
    """Checks of the rows of an update against the state before it."""

    state: State
    error_model: ErrorModel
    data_density: DataDensity
    rows: Origin
    rules: RefusalRules

    @abstractmethod
    def fault(self) -> str:
        """Description of the fault; empty without one."""

    def outputs_for(self, X: Array) -> tuple[Array, Array]:
        """Points in the domain nearest to inputs, and what the model predicts there."""
        points = self.rows.to_points(X).clip(*self.reach.T).astype(self.state.dtype)
        return points, evaluate(self.state, points).astype(np.float64)

    @cached_property
    def reach(self) -> Array:
        """The domain, extended to the ends of charts beyond it, shape (inputs, 2).

        Otherwise the next rows in time would be compared with predictions from before the first chart,
        although the newest chart is nearest.
        """
        domain = self.state.lattice.domain
        if not self.state.charts:
            return domain
        cores = np.stack([chart.window.core_in(domain) for chart in self.state.charts])
        low, high = cores[:, :, 0].min(axis=0), cores[:, :, 1].max(axis=0)
        return np.column_stack([np.where(low < 0, low, domain[:, 0]), np.where(high > 1, high, domain[:, 1])])

    @abstractmethod
    def error_for(self, X: Array) -> float:
        """Error of the rows if these were their inputs."""

    @abstractmethod
    def is_out(self, before: float) -> bool:
        """Whether an error is far beyond those on record."""

    @abstractmethod
    def agrees(self, left: float, before: float) -> bool:
        """Whether an error beyond those on record becomes usual, and much lower."""

    @abstractmethod
    def agrees_off(self, left: float, before: float, gain: float) -> bool:
        """The same with another ratio, for a column outside its range, where errors are smaller."""

    @cached_property
    def is_local(self) -> bool:
        """Whether the rows are confined to a part of the known region."""
        return self.is_confined(self.rows.to_points(self.rows.X))

    def explains(self, X: Array) -> bool:
        """Whether predictions for such inputs are correlated with the targets."""
        return True

    # --- columns --------------------------------------------------------------------------------------

    def column_fault(self, before: float) -> str:
        """The exchange of columns, or the other unit of one, that explains the error.

        Where errors are nearly usual, only columns outside their range are checked.
        """
        is_out = self.is_out(before)
        named = [fix for fix in self.rescaled() if is_out or fix.min_gain_outside]
        found = self.best_of(named + list(self.exchanged() if is_out else ()), before)
        return found or (self.best_of(list(self.moved()), before) if is_out else "")

    def best_of(self, fixes: list[_Fix], before: float) -> str:
        """The fault that lowers the error most, if one does enough."""
        found = [(self.error_for(fix.X), fix) for fix in fixes]
        for left, fix in sorted(found, key=lambda each: each[0]):
            gain = fix.min_gain_outside
            agrees = self.agrees(left, before) if gain is None else self.agrees_off(left, before, gain)
            if agrees and self.explains(fix.X) and not self.is_confined(self.rows.to_points(fix.X)):
                return fix.fault
        return ""

    def exchanged(self) -> Iterator[_Fix]:
        """Inputs with two columns exchanged."""
        names = self.rows.columns
        for i, j in combinations(self.movable, 2):
            X = self.rows.X.copy()
            X[:, [i, j]] = X[:, [j, i]]
            if self.is_known(X, i) or self.is_known(X, j):
                yield _Fix(X, f"{names[i]} and {names[j]} seem to be exchanged")

    def rescaled(self) -> Iterator[_Fix]:
        """Inputs with one column in another unit."""
        inverse = [(1 / unit, 0.0) for unit in UNITS] + [(1 / a, -b / a) for a, b in OFFSETS]
        for j in self.movable:
            gain = self.rules.min_gain_outside if self.is_off(j) else None
            for a, b in [(factor, 0.0) for factor in POWERS + UNITS] + [*OFFSETS, *inverse]:
                X = self.rows.X.copy()
                X[:, j] = (X[:, j] - b) / a
                if self.is_known(X, j) and self.returns(X, j):
                    fault = f"{self.rows.columns[j]} seems to be {times_plus(a, b)} what it was"
                    yield _Fix(X, fault, gain if a in POWERS else None)

    def moved(self) -> Iterator[_Fix]:
        """Inputs with one column shifted to where the error is lowest, by bisection, if that is far."""
        for j in self.movable:
            if is_clock(self.rows.X[:, j]):
                continue
            known = self.known_quantiles(j)
            shifts = float(np.nanmedian(self.rows.X[:, j])) - known
            shift = min(shifts.tolist(), key=lambda by: self.error_moved(j, by))
            step = float(np.abs(np.diff(shifts)).max())
            while step > self.rules.precision * (known[-1] - known[0]):
                step /= 2
                shift = min((shift, shift - step, shift + step), key=lambda by: self.error_moved(j, by))
            X = self.rows.X.copy()
            X[:, j] -= shift
            is_far = abs(shift) >= self.rules.min_column_shift * (known[-1] - known[0])
            if is_far and self.is_known(X, j) and self.returns(X, j):
                fault = f"{self.rows.columns[j]} seems to be shifted by about {shift:.3g}"
                yield _Fix(X, fault, self.rules.min_class_ratio if self.is_off(j) else None)

    @property
    def goes_on(self) -> bool:
        """Whether a column that only rises has left its range."""
        return any(is_clock(self.rows.X[:, j]) and self.is_off(j) for j in self.movable)

    def is_off(self, j: int) -> bool:
        """Whether a column has left its range."""
        return not self.is_known(self.rows.X, j, 1 - self.rules.min_known)

    def returns(self, X: Array, j: int) -> bool:
        """Whether the deciles of a column return to the usual ones: otherwise the targets have shifted."""
        usual = self.known_quantiles(j)
        left, before = (
            np.abs(np.nanquantile(each[:, j], DECILES) - usual).mean() for each in (X, self.rows.X)
        )
        return bool(left <= self.rules.max_returned * before)

    def error_moved(self, j: int, shift: float) -> float:
        """Error of the rows with a column shifted, infinite if it is then outside its known range."""
        X = self.rows.X.copy()
        X[:, j] -= shift
        return self.error_for(X) if self.is_known(X, j) else np.inf

    @cached_property
    def movable(self) -> list[int]:
        """Columns that have a unit, and vary."""
        return [
            j
            for j in self.rows.measured
            if len(np.unique(self.rows.X[~np.isnan(self.rows.X[:, j]), j])) >= self.rules.min_distinct
        ]

    def is_known(self, X: Array, j: int, share: float | None = None) -> bool:
        """Whether such a share of the values of a column, by default nearly all, are in its known range.

        They must vary too: nearly every range contains zero, to which a large divisor maps all values.
        """
        values, known = X[:, j], np.flatnonzero(self.data_density.cell_counts.alone[j])
        points = self.rows.to_points(X)[:, j] * self.data_density.cells
        inside = (points >= known[0]) & (points <= known[-1] + 1) | np.isnan(values)
        own, usual = (
            float(np.ptp(np.nanquantile(each, (0.1, 0.9)))) for each in (values, self.known_quantiles(j))
        )
        return bool(
            inside.mean() >= (share or self.rules.min_known)
            and (share or own >= self.rules.min_range * usual)
        )

    def known_quantiles(self, j: int) -> Array:
        """Deciles of the known values of a column, in its own unit."""
        counts = self.data_density.cell_counts.alone[j]
        cells = (np.arange(len(counts)) + 0.5) / len(counts)
        return self.rows.to_values(j, np.interp(DECILES, np.cumsum(counts) / counts.sum(), cells))

    # --- places ---------------------------------------------------------------------------------------

    def is_confined(self, points: Array) -> bool:
        """Whether points are confined to a part of the known region, unlike those of recent updates."""
        rules, known = self.rules, self.data_density.cell_counts.alone
        own, shares, is_old = self.spans_at(points)
        if self.is_boxed(points):
            return True
        recent = [shares_in(known, spans) for spans in self.recent_spans]
        least = np.min(recent, axis=0) if recent else np.full(len(shares), np.inf)
        narrow = np.flatnonzero((shares < rules.usual_span * least) & is_old)
        alike = synthetic_sample_of(self.state, SYNTHETIC_ROWS)
        if not len(narrow) or alike is None:
            return False
        low, high = own[narrow].T / self.data_density.cells
        inside = ((alike.points[:, narrow] >= low) & (alike.points[:, narrow] <= high)).all(axis=1)
        return bool(inside.mean() < self.rules.min_share_in_box)

    def is_boxed(self, points: Array) -> bool:
        """Whether points span little of most inputs that are not new."""
        _, shares, is_old = self.spans_at(points)
        return bool(not is_old.any() or np.mean(shares[is_old] >= self.rules.wide) <= self.rules.wide)

    def spans_at(self, points: Array) -> tuple[NDArray[np.intp], Array, NDArray[np.bool_]]:
        """Cells of each input that points span, the share of known rows there, and whether it is not new."""
        known, counts = self.data_density.cell_counts.alone, self.data_density.cell_counts_of(points).alone
        own = spans_of(counts)
        return own, shares_in(known, own), densities_at(known, counts) >= self.rules.new_density

    @cached_property
    def recent_spans(self) -> list[NDArray[np.intp]]:
        """Cells of each input that recent updates span."""
        return [spans_of(each.cell_counts.alone) for each in self.recent if each.cell_counts is not None]

    @property
    def recent(self) -> list[Residuals]:
        """Prequential errors and cell counts of recent updates."""
        pool = self.state.pooled
        seen = [batch.seen for batch in pool.recent] if isinstance(pool, Pool) else []
        return [each for each in seen if isinstance(each, Residuals)]


class _NumberCheck(_BatchCheck):
    """Rows whose targets are numbers; errors are medians relative to those on record."""

    def fault(self) -> str:
        """Description of the fault; empty without one."""
        y, outputs = self.rows.y, range(self.rows.y.shape[1])
        for k in outputs:
            if np.ptp(y[:, k]) == 0 and self.is_faulty_constant(k):
                return f"all {self.called(k)} are {y[0, k]:.6g}, where others were predicted"
        before = [self.error(y, k) for k in outputs]
        for k in outputs:
            found = self.target_fault(k, before[k]) if self.is_out(before[k]) else ""
            if found:
                return found
        varies = all(np.ptp(y[:, k]) > 0 for k in outputs)
        worst = max(before)
        return self.column_fault(worst) if varies and worst >= self.rules.min_error_outside else ""

    @cached_property
    def expected(self) -> tuple[Array, Array]:
        """Predictions of the rows, and the standard deviations of their errors."""
        return self.predicted_for(self.rows.X)

    def predicted_for(self, X: Array) -> tuple[Array, Array]:
        """The same if these were their inputs."""
        points, predicted = self.outputs_for(X)
        return predicted, deviations(self.state, points, predicted)

    def usual(self, k: int) -> float:
        """The median of errors on record, over their standard deviation."""
        counts = self.error_model.scores[k].counts.sum(axis=0)
        sizes = np.abs(MIDDLES)
        order = np.argsort(sizes)
        middle = sizes[order][np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)]
        return float(middle / np.sqrt(counts @ MIDDLES**2 / counts.sum()))

    def error(self, y: Array, k: int, expected: tuple[Array, Array] | None = None) -> float:
        """Median error of the rows in one output if these were their targets, relative to the usual one."""
        predicted, deviation = self.expected if expected is None else expected
        errors = np.abs(self.rows.encode(y)[:, k] - predicted[:, k]) / np.maximum(deviation[:, k], LEAST)
        return float(np.median(errors)) / self.usual(k)

    def error_for(self, X: Array) -> float:
        expected = self.predicted_for(X)
        return max(self.error(self.rows.y, k, expected) for k in range(self.rows.y.shape[1]))

    def explains(self, X: Array) -> bool:
        expected = self.predicted_for(X)
        return all(self.follows(k, expected=expected) for k in range(self.rows.y.shape[1]))

    def agrees(self, left: float, before: float) -> bool:
        rules = self.rules
        return left <= rules.max_repaired and self.is_out(before) and before >= rules.min_gain * left

    def is_out(self, before: float) -> bool:
        return before >= self.rules.min_error

    def agrees_off(self, left: float, before: float, gain: float) -> bool:
        return left <= self.rules.max_repaired and gain * left <= before

    def is_faulty_constant(self, k: int) -> bool:
        """Whether a constant target is implausible, and the rows are not local."""
        return self.error(self.rows.y, k) >= self.rules.constant_error and not self.is_local

    def target_fault(self, k: int, before: float) -> str:
        """The factor or the constant that explains the error of an output."""
        y, name = self.rows.y[:, k], self.called(k)
        for factor in POWERS:
            left = self.error_with(k, y / factor)
            if self.agrees(left, before) and self.is_factor(k, factor):
                return f"{name} are about {self.factor_text(k, factor):g} times those predicted"
        if self.is_local:
            return ""
        predicted = self.rows.decode(self.expected[0])[:, k]
        shift = float(np.median(y - predicted))
        is_far = abs(shift) >= self.rules.min_shift * predicted.std() and self.is_new_level(k)
        if is_far and self.agrees(self.error_with(k, y - shift), before) and self.follows(k):
            return f"{name} are about {abs(shift):.3g} {'above' if shift > 0 else 'below'} those predicted"
        if self.agrees(self.error_with(k, -y), before) and self.follows(k, -1):
            return f"{name} have the opposite sign of those predicted"
        return ""

    def is_new_level(self, k: int) -> bool:
        """Whether the shift is far beyond those of recent updates, as it is not in a random walk.

        Once a column that only rises has left its range, as many updates as are kept are needed to see that
        levels are steady. Without this, walks of 2 in 15 seeds were refused in one of their first weeks.
        """
        if self.goes_on and len(self.recent) < RECENT:
            return False
        points, predicted = self.outputs_for(self.rows.X)
        own = self.error_model.residuals(
            points.astype(np.float64), predicted, self.rows.encode(self.rows.y), None
        )
        recent = [middle_score(seen.histograms[k]) for seen in self.recent]
        return abs(middle_score(own.histograms[k])) >= self.rules.min_gain * max(
            map(abs, recent), default=0.0
        )

    def called(self, k: int) -> str:
        """Name of the targets of an output in messages."""
        return "targets" if self.rows.y.shape[1] == 1 else f"targets of column {k}"

    def is_factor(self, k: int, factor: float) -> bool:
        """Whether this is the power of ten nearest to targets over predictions, and targets vary accordingly.

        Shifted targets with ordinary noise vary too little once they are divided.
        """
        most, least = (
            (self.rules.max_factor, 2 * self.rules.min_variation)
            if self.is_local
            else (10**0.5, self.rules.min_variation)
        )
        if not 1 / most <= self.ratio_to(k, factor) <= most or not self.varies_enough(k, factor, least):
            return False
        return self.follows(k) or not self.is_boxed(self.rows.to_points(self.rows.X))

    def factor_text(self, k: int, factor: float) -> float:
        """A power of ten, or the ratio of targets to predictions if that is far from it."""
        ratio = self.ratio_to(k, factor)
        return (
            factor
            if 1 / self.rules.max_factor <= ratio <= self.rules.max_factor
            else float(f"{ratio * factor:.1g}")
        )

    def ratio_to(self, k: int, factor: float) -> float:
        """The median of targets over predictions that are not small, over a factor."""
        y, predicted = self.rows.y[:, k], self.rows.decode(self.expected[0])[:, k]
        large = (np.abs(predicted) >= np.median(np.abs(predicted))) & (predicted != 0)
        return float(np.median(y[large] / predicted[large])) / factor if large.any() else 0.0

    def varies_enough(self, k: int, factor: float, least: float) -> bool:
        """Whether targets over a factor vary by such a share of the expected variation."""
        predicted, deviation = (each[:, k] for each in self.expected)
        usual = np.hypot(predicted.std() * NORMAL, self.usual(k) * np.sqrt(np.mean(deviation**2)))
        targets = self.rows.encode(self.changed(k, self.rows.y[:, k] / factor))[:, k]
        return bool(middle_deviation(targets) >= least * usual)

    def follows(self, k: int, sign: int = 1, expected: tuple[Array, Array] | None = None) -> bool:
        """Whether the rank correlation of targets and predictions is about as high as the noise allows.

        Where noise dominates, any targets seem to fit once they are shifted.
        """
        predicted, deviation = (each[:, k] for each in expected or self.expected)
        due = predicted.std() / np.hypot(predicted.std(), np.sqrt(np.mean(deviation**2)))
        found = sign * rank_correlation(predicted, self.rows.encode(self.rows.y)[:, k])
        return bool(
            found >= max(self.rules.correlation * due, self.rules.standard_errors / np.sqrt(len(predicted)))
        )

    def error_with(self, k: int, targets: Array) -> float:
        """Error of an output if these were its targets."""
        return self.error(self.changed(k, targets), k)

    def changed(self, k: int, targets: Array) -> Array:
        """Targets with others in one output."""
        y = self.rows.y.copy()
        y[:, k] = targets
        return y


class _ClassCheck(_BatchCheck):
    """Rows whose targets are classes; errors are means of −log p."""

    def fault(self) -> str:
        """Description of the fault; empty without one."""
        before, varies = self.error_for(self.rows.X), len(np.unique(self.labels)) > 1
        if not varies:
            return self.constant_fault()
        found = self.exchanged_classes(before)
        return found or (
            self.column_fault(before) if before >= self.rules.min_error_outside * self.usual else ""
        )

    def constant_fault(self) -> str:
        """Description of an implausible constant class of rows that are not local; empty without one."""
        sure = self.log_shares.max(axis=1) >= np.log(self.rules.confident)
        expected = self.log_shares.argmax(axis=1)
        others = sure & (expected != self.labels)
        varied = 1 - np.bincount(expected).max() / len(expected)  # share of all but the commonest
        if min(others.mean(), varied) < self.rules.contradicted or self.is_local or self.is_new_class:
            return ""
        return f"all rows are of the class {self.rows.classes[self.labels[0]]}, where others were expected"

    @property
    def is_new_class(self) -> bool:
        """Whether hardly any known row can have the class of these rows."""
        alike = synthetic_sample_of(self.state, SYNTHETIC_ROWS)
        if alike is None:
            return False
        points = alike.points.clip(*self.state.lattice.domain.T).astype(self.state.dtype)
        shares = log_softmax(evaluate(self.state, points).astype(np.float64), axis=1)
        return bool(np.exp(shares[:, self.labels[0]]).mean() < self.rules.rare)

    def exchanged_classes(self, before: float) -> str:
        """The exchange of classes that explains the error: the assignment of the highest likelihood."""
        names, classes = self.rows.classes, range(len(self.rows.classes))
        matrix = -np.array(
            [self.log_shares[self.labels == k].sum(axis=0) for k in classes]
        )  # came, predicted
        meant = linear_sum_assignment(matrix)[1].tolist()
        wrong = [(k, j) for k, j in enumerate(meant) if k != j and (self.labels == k).any()]
        left = float(matrix[np.arange(len(meant)), meant].sum()) / len(self.labels)
        if not wrong or not self.agrees(left, before) or self.is_local:
            return ""
        swaps = ", ".join(f"{names[k]} where {names[j]} was predicted" for k, j in wrong[:SHOWN])
        return f"classes seem to be exchanged: {swaps}"

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        """Number of the class of each row."""
        return self.rows.y.argmax(axis=1)

    @cached_property
    def log_shares(self) -> Array:
        """Logarithms of the predicted probabilities, shape (rows, classes)."""
        return np.asarray(log_softmax(self.outputs_for(self.rows.X)[1], axis=1))

    @cached_property
    def usual(self) -> float:
        """The mean of −log p on record."""
        counts = self.error_model.scores[0].counts.sum(axis=0)
        return float(counts @ MIDDLES / counts.sum())

    def error_for(self, X: Array) -> float:
        shares = log_softmax(self.outputs_for(X)[1], axis=1)
        return float(-(shares * self.rows.y).sum(axis=1).mean())

    def agrees(self, left: float, before: float) -> bool:
        rules = self.rules
        return left <= self.usual * rules.max_repaired and before >= max(
            left + rules.min_class_gain, rules.min_class_ratio * left
        )

    def is_out(self, before: float) -> bool:
        return before >= self.rules.min_class_error * self.usual

    def agrees_off(self, left: float, before: float, gain: float) -> bool:
        return left <= self.rules.max_repaired * self.usual and gain * left <= before


def middle_deviation(values: Array) -> float:
    """Median absolute deviation."""
    return float(np.median(np.abs(values - np.median(values))))


def is_clock(values: Array) -> bool:
    """Whether values never decrease from row to row, like time, which leaves its range in each update."""
    return bool((np.diff(values) >= 0).all())


def middle_score(histogram: ScoreHistogram) -> float:
    """Median conformal score of an update."""
    shares = np.cumsum(histogram.counts.sum(axis=0))
    return float(MIDDLES[np.searchsorted(shares, shares[-1] / 2)])


def rank_correlation(one: Array, other: Array) -> float:
    """Spearman's rank correlation, 0 for constants."""
    first, second = (np.argsort(np.argsort(each)) for each in (one, other))
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(one) > 0 and np.ptp(other) > 0 else 0.0


def times_plus(a: float, b: float) -> str:
    """An affine map in words."""
    return f"about {a:.4g} times" + (f" plus {b:.4g}" if b else "")


def spans_of(counts: Array) -> NDArray[np.intp]:
    """First cell, and the one after the last, without 2 % of the rows at either end: (inputs, 2)."""
    shares = np.cumsum(counts, axis=1) / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return np.stack([(shares <= ENDS[0]).sum(axis=1), (shares < ENDS[1]).sum(axis=1) + 1], axis=1)


def densities_at(known: Array, counts: Array) -> Array:
    """Known rows in the cells of other rows, relative to the mean of non-empty cells, shape (inputs,)."""
    usual = known.sum(axis=1) / np.maximum((known > 0).sum(axis=1), 1)
    near = (known * counts).sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
    return np.asarray(near / np.maximum(usual, 1))


def shares_in(known: Array, spans: NDArray[np.intp]) -> Array:
    """Share of the known rows in a span of cells of each input."""
    inside = [row[low:high].sum() for row, (low, high) in zip(known, spans, strict=True)]
    return np.asarray(inside / np.maximum(known.sum(axis=1), 1))
