"""Goals on streams: what is divided by what, over which streams, and what is said of it."""

import numpy as np
import pytest

from atlas_splines.experiments.arena.stream_goals import Goal, StreamGoals, goals_of, halves
from atlas_splines.experiments.arena.streams import Line

NAN = float("nan")


def line(stream, method, prequential, seen=1.0, covered=()):
    return Line(stream, method, method, (), prequential, NAN, seen, NAN, NAN, NAN, NAN, "", covered, NAN, NAN)


def by_key(*lines):
    return {(line.stream, line.method): line for line in lines}


LINES = by_key(
    line("a", "own", 0.5, 0.2, (0.9,) * 10 + (0.5,)), line("a", "boosting", 1.0), line("a", "never", 2.0, 0.4),
    line("b", "own", 0.9, 0.9, (1.0,) * 11), line("b", "boosting", 0.45), line("b", "never", 1.0, 1.0),
    line("c", "own", 0.6, 0.6, (0.9, 0.95)), line("c", "boosting", 0.5), line("c", "never", 0.5, 0.5),
    line("c", "river-amf", 0.4), line("c", "mlp-partial-fit", 0.7),
)  # fmt: skip


def test_each_goal_is_over_its_streams_and_their_halves():
    goals = goals_of(LINES, "own", ["c"], ["a", "b", "c"], StreamGoals())
    found = {goal.what.removeprefix("own: "): goal for goal in goals}
    mean = found["error ÷ boosting, geometric mean"]
    assert mean.measured == pytest.approx(np.sqrt(0.5 * 2))
    assert mean.parts == {"half A": pytest.approx(0.5), "half B": pytest.approx(2)}
    assert found["error ÷ boosting, worst"].measured == pytest.approx(2)
    assert found["error ÷ never updating, worst"].measured == pytest.approx(1.2)
    assert found["log loss ÷ best opponent, worst"].measured == pytest.approx(0.6 / 0.4)
    assert found["all seen ÷ never updating, worst"].measured == pytest.approx(1.2)
    coverage = found["coverage of 10 batches, worst"]
    assert coverage.measured == pytest.approx(0.86)  # any ten batches in a row, or all of a shorter stream
    assert [goal.verdict for goal in goals] == ["missed", "missed", "not run", *["missed"] * 3, "met"]


def test_a_stream_that_an_opponent_did_not_run_on_is_left_out_and_counted():
    without = {
        key: value for key, value in LINES.items() if key not in [("b", "boosting"), ("c", "river-amf")]
    }
    goals = goals_of(without, "own", ["c"], ["a", "b", "c"], StreamGoals())
    assert goals[0].text() == (
        "goal own: error ÷ boosting, geometric mean, 1 of 2 streams ≤ 0.79: measured 0.500 "
        "(half A 0.500, half B –), met so far"
    )
    assert goals[4].text().endswith("0 of 1 streams ≤ 1: measured – (half A –, half B –), not run")


def test_streams_that_boosting_was_ahead_on_have_a_goal_of_their_own():
    lines = by_key(
        line("metro", "own", 1.1, 1, ()), line("metro", "boosting", 1.0), line("a", "own", 3.0, 1, ()),
        line("a", "boosting", 1.0),
    )  # fmt: skip
    (goal,) = (
        goal for goal in goals_of(lines, "own", [], ["a", "metro"], StreamGoals()) if "metro" in goal.what
    )
    assert goal.measured == pytest.approx(1.1)
    assert goal.verdict == "missed"


def test_a_goal_without_a_limit_is_not_judged():
    assert Goal("one row, ms", None, 3.0).text() == "goal one row, ms: measured 3.000, no limit is set"
    assert Goal("coverage", 0.8, 0.7, at_least=True).text() == "goal coverage ≥ 0.8: measured 0.700, missed"


def test_halves_do_not_depend_on_the_order_and_meet_nowhere():
    names = ["bike", "elec2", "seoul", "noaa", "metro"]
    assert halves(names) == halves(names[::-1])
    first, second = halves(names).values()
    assert sorted(first + second) == sorted(names)
