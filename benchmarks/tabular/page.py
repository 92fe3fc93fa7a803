"""The report: a page of tables, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from opponents import ATLAS, BOOSTING, METHODS
from published import Kept, rows_of
from runs import AUGUST
from summary import (
    CLASSIFICATION,
    REGRESSION,
    SHARED,
    geometric_mean,
    goals,
    grid,
    ranks,
    ratios,
    to_best_of_others,
)

HEAD = """# Tables

ATLAS and other methods, all at their defaults and on one thread, side by side. Five folds at random (three of tables above 20,000
rows); *by time*, two folds that come after all rows that they are predicted from. *To August 2012* is the mean of five seeds.

Tables are handed over as a user has them: pandas frames with all levels of their categories (1,129 cities in `telco`, 3,640 aircraft in `flights`,
70 postcodes in `kc-house`, 167 companies in `hotel-rates`) and with missing values (`credit`, `hotel-rates`, `ames`, `telco`). ATLAS gets that frame
(`missing="learn"`), and so do LightGBM, XGBoost and EBM; RealMLP and TabM get the mean for a missing number, beside a column that says so. CatBoost gets categories as `cat_features`, a missing one as a level
of its own, since it refuses it otherwise. HistGradientBoosting takes 255 levels: of a column with more it gets the 254 that are the most frequent in the fit, and
the rest as one. MLP, *linear* (ridge or logistic regression) and *splines* get columns of 0 and 1, for at most 50 levels of a column with the rarest sharing one,
and the mean for a missing number beside a column that says so; the forest gets levels as numbers. None of this looks at the target.

Seconds are of one core, the median of the folds. A dash: it was not
run; EBM, RealMLP and TabM, which can take minutes a fit, get small tables only. The rank of a method is over the cases that it ran,
whose number stands behind it if there are more.
`results.jsonl` has a line for each fit. To run what is missing, or ATLAS again:

```
pip install '.[bench]'
python benchmarks/tabular --data FOLDER
python benchmarks/tabular --data FOLDER --redo atlas
```
"""
FIGURES = """
![Error and time of each method](methods.png)

![Error of each method on each table, as a ratio to the best](tables.png)
"""

TABARENA = """Four tables are in [TabArena](https://tabarena.ai) too, whose figures are of the first of its splits: errors on a third of the
rows, fitted to the other two. Here they are the mean over three folds of that size; *splits differ*, so the errors of CatBoost at its defaults
here and there show how much a split alone changes. Behind the latter stands CatBoost tuned for hours. The best are one of each family, with its best way to be run; most of
them are large pretrained networks, or tuned and ensembled for hours on a GPU.
"""


def markdown(rows: Iterable[Iterable[str]]) -> str:
    """Rows of cells as a table; the first is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * (lines[0].count("|") - 1), *lines[1:]])


def labels(values: pd.DataFrame) -> list[str]:
    return [METHODS[name].label for name in values]


def shown(value: float, digits: int = 3) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


def error_table(values: pd.DataFrame, digits: int = 3) -> str:
    """Cases × methods with the best in bold, and average ranks."""
    rows = [["", *labels(values)]]
    for case, line in values.iterrows():
        texts = [shown(x, digits) for x in line]
        best = shown(line.min(), digits)
        rows.append([str(case), *(f"**{text}**" if text == best else text for text in texts)])
    return markdown([*rows, ["average rank", *(rank_text(values, name) for name in values)]])


def rank_text(values: pd.DataFrame, method: str) -> str:
    cases = values[method].count()
    return shown(ranks(values)[method], 2) + ("" if cases == len(values) else f" ({cases})")


def seconds_table(values: pd.DataFrame) -> str:
    """Cases × methods, and the geometric mean of the ratios to boosting."""
    rows = [["", *labels(values)]]
    rows += [[str(case), *(seconds(x) for x in line)] for case, line in values.iterrows()]
    means = [ratios(values, name, BOOSTING) for name in values]
    return markdown([*rows, ["÷ boosting, geometric mean", *(shown(geometric_mean(x), 2) for x in means)]])


def seconds(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3g}"


def goal_table(lines: pd.DataFrame) -> str:
    marks = {True: "reached", False: "missed"}
    rows = [[g.name, g.measured, g.wanted, marks[bool(g.reached)]] for g in goals(lines)]
    return markdown([["", "measured", "goal", ""], *rows]) if rows else "ATLAS was not run yet."


def loss_table(lines: pd.DataFrame) -> str:
    """Where another method is better than ATLAS, and by how much."""
    rows = [["", "measure", "ATLAS", "the best", "", "ATLAS ÷ the best"]]
    for task, measure, name in ((REGRESSION, "rmse", "RMSE"), (CLASSIFICATION, "log_loss", "log loss")):
        values = grid(lines, task, measure)
        lost = to_best_of_others(values).loc[lambda ratio: ratio > 1].sort_values(ascending=False)
        for case, ratio in lost.items():
            others = values.loc[case].drop(ATLAS)
            best = [METHODS[others.idxmin()].label, shown(others.min(), 4)]
            rows.append([str(case), name, shown(values.loc[case, ATLAS], 4), *best, shown(ratio, 2)])
    return markdown(rows) if len(rows) > 1 else "Nowhere."


def sections(lines: pd.DataFrame, published: Kept) -> Iterator[tuple[str, str]]:
    """Titles and tables of what was run."""
    yield "Goals", goal_table(lines)
    if ATLAS in set(lines["method"]):
        yield "Where ATLAS is not the best", loss_table(lines)
    every = [*SHARED, AUGUST]
    if REGRESSION in set(lines["task"]):
        yield "Regression: RMSE in standard deviations", error_table(grid(lines, REGRESSION, "rmse"))
        august = grid(lines, REGRESSION, "rmse", [AUGUST])
        if len(august):
            yield "In time order: bike to August 2012, the months after, RMSE", error_table(august)
        yield "Regression: MAE in standard deviations", error_table(grid(lines, REGRESSION, "mae"))
        largest = grid(lines, REGRESSION, "largest", every)
        yield "Regression: largest error in standard deviations", error_table(largest, 2)
    if CLASSIFICATION in set(lines["task"]):
        yield "Classes: log loss", error_table(grid(lines, CLASSIFICATION, "log_loss"))
        yield "Classes: share that is wrong", error_table(grid(lines, CLASSIFICATION, "error"), 4)
    for task in (REGRESSION, CLASSIFICATION):
        if task in set(lines["task"]):
            yield f"Seconds to fit, {task}", seconds_table(grid(lines, task, "fit_seconds"))
            yield f"Seconds to predict, {task}", seconds_table(grid(lines, task, "predict_seconds"))
    if published:
        yield "Beside TabArena", TABARENA + "\n" + markdown(rows_of(published))


def page(lines: pd.DataFrame, published: Kept) -> str:
    """The whole page."""
    (title, first), *rest = sections(lines, published)
    parts = [
        HEAD,
        f"## {title}\n\n{first}",
        FIGURES.strip(),
        *(f"## {name}\n\n{body}" for name, body in rest),
    ]
    return "\n".join(part.strip() + "\n" for part in parts)
