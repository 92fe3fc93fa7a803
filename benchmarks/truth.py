"""Whether what `atlas fit` reports is true of fresh rows, on tables with many categories, beside CatBoost.

Telco churn with its city column, three quarters of the rows fitted; and a target of pure noise, with a column of 800 shops.
Everything goes through the command and at its defaults: the error that `atlas fit` reports, that of `atlas evaluate` on rows that
were not in the fit, and CatBoost's on the same rows. Goals are of the means over the seeds, since one fit reports the error of
a few hundred rows. Needs CatBoost and pandas.

    python benchmarks/truth.py                     the target of noise only
    python benchmarks/truth.py --data FOLDER       Telco too, from FOLDER/tables/telco.csv
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, r2_score

sys.path.insert(0, str(Path(__file__).parent / "tabular"))
import table_sets
from opponents import CATBOOST, METHODS
from page import markdown

COMMAND = [sys.executable, "-c", "from atlas_splines.cli.entry import main; main()"]
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SHOPS, LEARNED, FRESH = 800, 3000, 2000
LARGEST_GAP, LARGEST_RATIO, COVERAGE = 0.02, 1.02, (0.88, 0.92)


@dataclass(frozen=True)
class Split:
    """A table, as text for the command and as a frame for CatBoost, and which of its rows are fitted and which are fresh."""

    text: pd.DataFrame
    X: pd.DataFrame
    y: np.ndarray
    fitted: np.ndarray
    fresh: np.ndarray


class Found(NamedTuple):
    """What `atlas fit` reports, what holds for fresh rows, and the share of them in 90 % intervals."""

    reported: float
    fresh: float
    inside: float
    catboost: float


def telco(folder: Path, seed: int) -> Split:
    text = pd.read_csv(folder / table_sets.TABLES["telco"].file, dtype=str, keep_default_na=False)
    order = np.random.default_rng(seed).permutation(len(text))
    fitted = len(text) * 3 // 4
    return Split(text, *table_sets.load("telco", folder), order[:fitted], order[fitted:])


def noise(seed: int) -> Split:
    """Shops, sizes, and sales that depend on neither."""
    random, rows = np.random.default_rng(seed), LEARNED + FRESH
    shops = pd.Series(random.integers(0, SHOPS, rows)).map("shop{}".format)
    text = pd.DataFrame({"shop": shops, "size": random.random(rows), "sales": random.normal(size=rows)})
    X = text.drop(columns="sales").astype({"shop": "category"})
    return Split(text, X, text["sales"].to_numpy(), np.arange(LEARNED), np.arange(LEARNED, rows))


def atlas(folder: Path, *arguments: str) -> dict[str, Any]:
    """What a command writes with `--json`."""
    one_thread = os.environ | dict.fromkeys(THREADS, "1")
    written = subprocess.run(
        [*COMMAND, *arguments, "--json"], cwd=folder, env=one_thread, stdout=subprocess.PIPE, check=True
    )
    return json.loads(written.stdout)


def reported_and_fresh(split: Split, target: str, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The record of a fit, and the errors of the model on fresh rows, both from the command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        split.text.iloc[split.fitted].to_csv(folder / "fitted.csv", index=False)
        split.text.iloc[split.fresh].to_csv(folder / "fresh.csv", index=False)
        record = atlas(folder, "fit", "fitted.csv", "--target", target, "-o", "m.atlas", *options)["fit"]
        assessed = atlas(folder, "evaluate", "m.atlas", "fresh.csv", "--unknown", "missing")["models"][0]
    return record, assessed


def catboost(split: Split, task: str) -> Any:
    """CatBoost at its defaults, fitted to the same rows."""
    estimator = METHODS[CATBOOST].make(task, 0, table_sets.categories(split.X))
    return estimator.fit(split.X.iloc[split.fitted], split.y[split.fitted])


def of_telco(split: Split) -> Found:
    """Log losses."""
    record, assessed = reported_and_fresh(split, "Churn", "--ignore", "customerID")
    model = catboost(split, "classification")
    other = log_loss(split.y[split.fresh], model.predict_proba(split.X.iloc[split.fresh]))
    return Found(record["error"], assessed["log_loss"], assessed["inside"], other)


def of_noise(split: Split) -> Found:
    """R²."""
    record, assessed = reported_and_fresh(split, "sales")
    model = catboost(split, "regression")
    other = r2_score(split.y[split.fresh], model.predict(split.X.iloc[split.fresh]))
    return Found(record["score"], assessed["r2"], assessed["inside"], other)


def gap_goal(mean: Found) -> tuple[str, str, str, bool]:
    gap = abs(mean.reported - mean.fresh)
    return "gap between reported and fresh", f"{gap:.3f}", f"≤ {LARGEST_GAP}", gap <= LARGEST_GAP


def telco_goals(mean: Found) -> list[tuple[str, str, str, bool]]:
    ratio = mean.fresh / mean.catboost
    return [
        gap_goal(mean),
        ("fresh ÷ CatBoost", f"{ratio:.3f}", f"≤ {LARGEST_RATIO}", ratio <= LARGEST_RATIO),
    ]


def noise_goals(mean: Found) -> list[tuple[str, str, str, bool]]:
    low, high = COVERAGE
    lead = mean.fresh - mean.catboost
    inside = ("in 90 % intervals", f"{mean.inside:.3f}", f"{low} to {high}", low <= mean.inside <= high)
    return [gap_goal(mean), ("R², fresh − CatBoost's", f"{lead:.3f}", "≥ 0", lead >= 0), inside]


def report(
    title: str, found: list[Found], goals: Callable[[Found], list[tuple[str, str, str, bool]]]
) -> None:
    """A line for each seed, their mean, and whether it reaches the goals."""
    mean = Found(*np.mean(found, axis=0).tolist())
    named = [*((f"seed {seed}", line) for seed, line in enumerate(found)), ("mean", mean)]
    rows = [[name, *(f"{value:.3f}" for value in line)] for name, line in named]
    head = ["", "reported", "fresh", "in 90 % sets or intervals", "CatBoost, fresh"]
    assessed = [[*texts, "reached" if reached else "missed"] for *texts, reached in goals(mean)]
    print(f"\n{title}\n\n{markdown([head, *rows])}\n")
    print(markdown([["", "measured", "goal", ""], *assessed]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with tables/telco.csv")
    parser.add_argument("--seeds", type=int, default=3, help="splits, and draws of noise")
    options = parser.parse_args()
    if not METHODS[CATBOOST].installed:
        raise SystemExit("CatBoost is missing: pip install '.[bench]'.")
    os.environ.update(dict.fromkeys(THREADS, "1"))
    seeds = range(options.seeds)
    if table_sets.TABLES["telco"].missing(options.data) is None:
        found = [of_telco(telco(options.data, seed)) for seed in seeds]
        report("Telco churn with its city column: log loss", found, telco_goals)
    found = [of_noise(noise(seed)) for seed in seeds]
    report(f"A target of pure noise, {SHOPS} shops, {LEARNED:,} rows: R²", found, noise_goals)


if __name__ == "__main__":
    main()
