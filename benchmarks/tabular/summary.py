"""What the results say: tables of cases and methods, ranks, ratios, and the goals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from opponents import ATLAS, BOOSTING, CATBOOST, METHODS
from runs import AUGUST, RANDOM, TIME, Result
from table_sets import TABLES

REGRESSION, CLASSIFICATION = "regression", "classification"
CASES = {RANDOM: "{}", TIME: "{}, by time", AUGUST: "{}, to August 2012"}
SHARED = [RANDOM, TIME]  # the splits that count in ranks: the third is one more of the same table
OVER_FOLDS = {
    "rmse": "mean", "mae": "mean", "largest": "max", "worst_rmse": "max",
    "error": "mean", "log_loss": "mean", "fit_seconds": "median", "predict_seconds": "median",
}  # fmt: skip


class Goal(NamedTuple):
    """What was measured, what is wanted, and whether it is reached; nothing is, where nothing was measured."""

    name: str
    measured: str
    wanted: str
    reached: bool


def over_folds(results: Iterable[Result]) -> pd.DataFrame:
    """A line for each table, split and method that has all its folds."""
    frame = pd.DataFrame(list(results)).reindex(columns=["table", "split", "method", "fold", *OVER_FOLDS])
    frame["worst_rmse"] = frame["rmse"]
    groups = frame.groupby(["table", "split", "method"])
    lines = groups.agg(OVER_FOLDS | {"fold": "count"}).reset_index()
    lines = lines[lines["fold"] == lines.groupby(["table", "split"])["fold"].transform("max")]
    task = lines["table"].map(lambda name: TABLES[name].task)
    case = [CASES[split].format(name) for name, split in zip(lines["table"], lines["split"], strict=True)]
    return lines.assign(task=task, case=case)


def grid(lines: pd.DataFrame, task: str, measure: str, splits: Iterable[str] = SHARED) -> pd.DataFrame:
    """A measure as cases × methods, both in their order."""
    chosen = lines[(lines["task"] == task) & lines["split"].isin(list(splits))]
    cases = [CASES[split].format(name) for split in splits for name in TABLES]
    values = chosen.pivot(index="case", columns="method", values=measure)
    return values.reindex(
        index=[case for case in cases if case in values.index],
        columns=[name for name in METHODS if name in values.columns],
    )


def ranks(values: pd.DataFrame) -> pd.Series:
    """The average rank of each method, in the cases that it ran, among those that ran them too."""
    return values.rank(axis=1).mean()


def geometric_mean(values: pd.Series) -> float:
    return float(np.exp(np.log(values).mean()))


def ratios(values: pd.DataFrame, method: str, other: str) -> pd.Series:
    """A method ÷ another, in the cases of both."""
    known = values.reindex(columns=list(METHODS))
    return (known[method] / known[other]).dropna()


def to_best_of_others(values: pd.DataFrame) -> pd.Series:
    """ATLAS ÷ the best of all others, in the cases of ATLAS."""
    known = values.reindex(columns=list(METHODS))
    return (known[ATLAS] / known.drop(columns=ATLAS).min(axis=1)).dropna()


def worst(values: pd.Series) -> str:
    return f"{values.max():.2f} ({values.idxmax()})"


def goals(lines: pd.DataFrame) -> list[Goal]:
    """The goals of ATLAS that can be measured with what was run."""
    makers = [fit_goals, rank_goal, best_goal, wide_goal, order_goal, largest_goal, class_goals]
    return [goal for make in makers for goal in make(lines)]


def fit_goals(lines: pd.DataFrame) -> Iterable[Goal]:
    seconds = grid(lines, REGRESSION, "fit_seconds")
    to_boosting, to_catboost = ratios(seconds, ATLAS, BOOSTING), ratios(seconds, ATLAS, CATBOOST)
    if len(to_boosting):
        mean = geometric_mean(to_boosting)
        yield Goal(
            "fit, seconds of one core ÷ HistGradientBoosting, geometric mean", f"{mean:.2f}", "≤ 3", mean <= 3
        )
        yield Goal("the same, worst table", worst(to_boosting), "≤ 8", to_boosting.max() <= 8)
    if len(to_catboost):
        yield Goal(
            "fit, seconds of one core ÷ CatBoost, worst table",
            worst(to_catboost),
            "< 1",
            to_catboost.max() < 1,
        )


def rank_goal(lines: pd.DataFrame) -> Iterable[Goal]:
    errors = grid(lines, REGRESSION, "rmse")
    if ATLAS in errors:
        average = ranks(errors.dropna(subset=[ATLAS]))
        second = average.drop(ATLAS).idxmin()
        text = f"{average[ATLAS]:.2f}; {METHODS[second].label} {average[second]:.2f}"
        yield Goal("RMSE: average rank; the best of the others", text, "first", average.idxmin() == ATLAS)


def best_goal(lines: pd.DataFrame) -> Iterable[Goal]:
    to_best = to_best_of_others(grid(lines, REGRESSION, "rmse"))
    if len(to_best):
        text = f"{worst(to_best)}; geometric mean {geometric_mean(to_best):.2f}"
        yield Goal("RMSE ÷ the best of the others, worst table", text, "≤ 1.10", to_best.max() <= 1.1)


def wide_goal(lines: pd.DataFrame) -> Iterable[Goal]:
    ratio = ratios(grid(lines, REGRESSION, "rmse"), ATLAS, BOOSTING).get("friedman100")
    if ratio is not None:
        yield Goal("RMSE, Friedman 1 with 100 columns ÷ boosting", f"{ratio:.2f}", "≤ 0.95", ratio <= 0.95)


def order_goal(lines: pd.DataFrame) -> Iterable[Goal]:
    """ATLAS with its worst seed; boosting with the mean of the same seeds."""
    worst_seed = grid(lines, REGRESSION, "worst_rmse", [AUGUST]).get(ATLAS)
    boosting = grid(lines, REGRESSION, "rmse", [AUGUST]).get(BOOSTING)
    if worst_seed is not None and boosting is not None:
        ratio = worst_seed.iloc[0] / boosting.iloc[0]
        yield Goal(
            "RMSE, bike to August 2012 ÷ boosting, worst of five seeds", f"{ratio:.2f}", "≤ 1.1", ratio <= 1.1
        )


def largest_goal(lines: pd.DataFrame) -> Iterable[Goal]:
    ratio = ratios(grid(lines, REGRESSION, "largest", [*SHARED, AUGUST]), ATLAS, BOOSTING)
    if len(ratio):
        text = f"{worst(ratio)}; geometric mean {geometric_mean(ratio):.2f}"
        yield Goal("largest error ÷ that of boosting, worst table", text, "≤ 1.2", ratio.max() <= 1.2)


def class_goals(lines: pd.DataFrame) -> Iterable[Goal]:
    for measure, name in (("log_loss", "log loss"), ("error", "share of wrong classes")):
        values = grid(lines, CLASSIFICATION, measure)
        if ATLAS in values:
            average = ranks(values.dropna(subset=[ATLAS]))
            best = average.drop(ATLAS).idxmin()
            text = f"{average[ATLAS]:.2f} of {len(average)}; {METHODS[best].label} {average[best]:.2f}"
            yield Goal(f"classes: average rank by {name}", text, "≤ 2", average[ATLAS] <= 2)
