"""Goals on streams: ratios of errors to those of other methods, coverage and cost, each met or missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atlas_splines.experiments.arena.streams import Line, shown

__all__ = ["Goal", "StreamGoals", "geometric_mean", "goals_of", "halves"]

BOOSTING, NEVER = "boosting", "never"
OPPONENTS_OF_CLASSES = (BOOSTING, "river-amf", "mlp-partial-fit")
LOST_BEFORE = ("beijing", "metro", "power-plant", "seoul")  # streams where boosting was ahead of sums alone
WINDOW = 10  # batches over which coverage is taken
Lines = Mapping[tuple[str, str], Line]  # by stream and method


@dataclass(frozen=True)
class StreamGoals:
    """Limits of the goals, for `benchmarks/streams.py`; one that is None is measured and not judged.

    Attributes
    ----------
    boosting, boosting_worst
        Prequential error of numbers ÷ that of boosting refitted on all rows: geometric mean, and largest.
    lost_before
        The same, the largest over the streams where boosting was ahead before there was a stack.
    never_worst, seen_worst
        Error ÷ that of never updating, the largest over all streams: prequential, and on all rows at the end.
    classes_worst
        Log loss ÷ the least of boosting refitted, Mondrian forest and network, the largest.
    coverage_worst
        Share of targets in 90 % intervals over ten batches in a row, the least over all streams.
    sums_update, rows_update
        Seconds of an update with 200 rows ÷ those of boosting refitted on 3,000.
    sums_row, rows_row
        Milliseconds of an update with one row, by `learn_one` of the model for river and by `partial_fit`.
    """

    boosting: float | None = 0.79
    boosting_worst: float | None = 1.01
    lost_before: float | None = 1.0
    never_worst: float | None = 0.97
    seen_worst: float | None = 0.8
    classes_worst: float | None = 1.0
    coverage_worst: float | None = 0.84
    sums_update: float | None = 0.15
    rows_update: float | None = 0.5
    sums_row: float | None = 3.0
    rows_row: float | None = 10.0


@dataclass(frozen=True)
class Goal:
    """A limit and what was measured, with parts of it that are printed beside.

    Examples
    --------
    >>> Goal("error ÷ boosting", 0.8, 0.75, parts={"half A": 0.7}).text()
    'goal error ÷ boosting ≤ 0.8: measured 0.750 (half A 0.700), met'
    """

    what: str
    limit: float | None
    measured: float
    at_least: bool = False
    parts: Mapping[str, float] | None = None
    complete: bool = True  # whether all streams were run

    @property
    def verdict(self) -> str:
        """Met, missed, or why that is not known."""
        if np.isnan(self.measured):
            return "not run"
        if self.limit is None:
            return "no limit is set"
        met = self.measured >= self.limit if self.at_least else self.measured <= self.limit
        if not met:
            return "missed"
        return "met" if self.complete else "met so far"

    def text(self) -> str:
        """One line."""
        limit = "" if self.limit is None else f" {'≥' if self.at_least else '≤'} {self.limit:g}"
        parts = ", ".join(f"{name} {shown(value, '.3f')}" for name, value in (self.parts or {}).items())
        beside = f" ({parts})" if parts else ""
        return f"goal {self.what}{limit}: measured {shown(self.measured, '.3f')}{beside}, {self.verdict}"


def halves(streams: Sequence[str]) -> dict[str, list[str]]:
    """Two halves of the streams, which alternate by name: what is chosen on one is reported on the other.

    Examples
    --------
    >>> halves(["metro", "bike", "elec2"])
    {'half A': ['bike', 'metro'], 'half B': ['elec2']}
    """
    ordered = sorted(streams)
    return {"half A": ordered[::2], "half B": ordered[1::2]}


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of positive numbers; NaN of none.

    Examples
    --------
    >>> round(geometric_mean([0.5, 2.0]), 12)
    1.0
    """
    return float(np.exp(np.log(values).mean())) if len(values) else float("nan")


def largest(values: Sequence[float]) -> float:
    """Largest value; NaN of none."""
    return float(np.max(values)) if len(values) else float("nan")


def least(values: Sequence[float]) -> float:
    """Least value; NaN of none."""
    return float(np.min(values)) if len(values) else float("nan")


def ratio(lines: Lines, stream: str, method: str, others: Sequence[str], measure: str) -> float:
    """Measure of a method ÷ the least of others; NaN if one of them has none."""
    own = lines.get((stream, method))
    found = [lines[stream, other] for other in others if (stream, other) in lines]
    if own is None or len(found) < len(others):
        return float("nan")
    return float(getattr(own, measure) / min(getattr(line, measure) for line in found))


def goals_of(
    lines: Lines, method: str, classes: Sequence[str], streams: Sequence[str], limits: StreamGoals
) -> list[Goal]:
    """Goals of a method that depend on errors, over all streams and over each half.

    Parameters
    ----------
    lines
        What methods reached, by stream and method.
    method
        The method that is judged.
    classes, streams
        Names of the streams whose targets are classes, and of all.
    limits
        What is to be reached.
    """
    numbers = [stream for stream in streams if stream not in classes]
    lost = [stream for stream in numbers if stream in LOST_BEFORE]
    parts = halves(streams)

    def goal(
        what: str,
        limit: float | None,
        chosen: Sequence[str],
        value: Callable[[str], float],
        summary: Callable[[Sequence[float]], float],
        at_least: bool = False,
    ) -> Goal:
        """A summary of values; streams where something was not run are left out of it and counted."""
        values = {stream: value(stream) for stream in chosen}
        there = {stream: x for stream, x in values.items() if np.isfinite(x)}
        short = f", {len(there)} of {len(chosen)} streams" if len(there) < len(chosen) else ""
        halved = {
            name: summary([there[stream] for stream in half if stream in there])
            for name, half in parts.items()
        }
        measured = summary(list(there.values()))
        return Goal(f"{method}: {what}{short}", limit, measured, at_least, halved, complete=not short)

    def to(others: Sequence[str], measure: str = "prequential") -> Callable[[str], float]:
        return lambda stream: ratio(lines, stream, method, others, measure)

    def coverage(stream: str) -> float:
        line = lines.get((stream, method))
        return line.worst_coverage(WINDOW) if line else float("nan")

    boosted, never = to([BOOSTING]), to([NEVER])
    best = to(OPPONENTS_OF_CLASSES)
    return [
        goal("error ÷ boosting, geometric mean", limits.boosting, numbers, boosted, geometric_mean),
        goal("error ÷ boosting, worst", limits.boosting_worst, numbers, boosted, largest),
        goal(
            f"error ÷ boosting, worst of {', '.join(lost) or 'none'}",
            limits.lost_before,
            lost,
            boosted,
            largest,
        ),
        goal("error ÷ never updating, worst", limits.never_worst, streams, never, largest),
        goal("log loss ÷ best opponent, worst", limits.classes_worst, classes, best, largest),
        goal("all seen ÷ never updating, worst", limits.seen_worst, streams, to([NEVER], "seen"), largest),
        goal(f"coverage of {WINDOW} batches, worst", limits.coverage_worst, streams, coverage, least, True),
    ]
