"""Explanations: time, exactness, blame and bounds, each beside its goal in one run.

python benchmarks/explain.py                 all goals
python benchmarks/explain.py speed           1,000 rows of 20 columns by a model of 10,000 rows, beside shap's TreeExplainer
                                             (interventional, 100 background rows) on CatBoost; both must be installed
python benchmarks/explain.py exact           50 models of all kinds with 10 columns against all 1,024 coalitions in float64
python benchmarks/explain.py blame           sums of contributions, and models without an update against `revert`
python benchmarks/explain.py range           100 boxes with two free columns: gap, seconds, and 10⁶ samples
python benchmarks/explain.py background      values against marginals of fewer known rows
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import time
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the oracle in float64

import float64_arithmetic
import numpy as np

from atlas_splines import AtlasClassifier, AtlasRegressor
from atlas_splines.estimators import contributions, explained
from atlas_splines.explain.background import BACKGROUND_RULES
from atlas_splines.explain.shapley import coalitions_of, shapley_of_table
from atlas_splines.model.log import UpdateWarning

COLUMNS, KNOWN, SHOWN, REFERENCES = 20, 10_000, 1000, 100


def rows(count, seed, columns):
    """Friedman's first function, a product, a kink and noise."""
    random = np.random.default_rng(seed)
    X = random.random((count, columns))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + 2 * X[:, 5] * X[:, 6] + np.abs(X[:, 7] - 0.4) + random.normal(size=count)


def seconds(deed):
    started = time.process_time()
    result = deed()
    return time.process_time() - started, result


def goal(text, measured, most, unit=""):
    met = "met" if measured <= most else "MISSED"
    print(f"{text}: {measured:.3g}{unit} (goal: at most {most:g}{unit}, {met})", flush=True)


def speed():
    X, y = rows(KNOWN + SHOWN, 0, COLUMNS)
    model = AtlasRegressor(random_state=0, n_jobs=1).fit(X[:KNOWN], y[:KNOWN])
    model.explain(X[:1])  # compiles
    own, found = seconds(lambda: model.explain(X[KNOWN:]))
    print(f"{SHOWN:,} rows against {found.background}: {own:.1f} s, {1e3 * own / SHOWN:.1f} ms a row")
    few = 20
    by_rows, _ = seconds(lambda: model.explain(X[KNOWN : KNOWN + few], X[:REFERENCES]))
    print(
        f"{few} rows against {REFERENCES} rows: {by_rows:.1f} s, so {SHOWN / few * by_rows:.0f} s for {SHOWN:,}"
    )
    pairs, _ = seconds(lambda: model.explain_interactions(X[KNOWN : KNOWN + few]))
    print(f"interactions of {few} rows: {pairs:.1f} s, {1e3 * pairs / few:.0f} ms a row")
    if not (find_spec("shap") and find_spec("catboost")):
        print(
            "shap or catboost is not installed, so there is nothing to compare with: pip install shap catboost"
        )
        return
    shap, catboost = import_module("shap"), import_module("catboost")
    trees = catboost.CatBoostRegressor(verbose=0, thread_count=1, allow_writing_files=False, random_seed=0)
    trees.fit(X[:KNOWN], y[:KNOWN])
    explainer = shap.TreeExplainer(trees, data=X[:REFERENCES], feature_perturbation="interventional")
    theirs, _ = seconds(lambda: explainer.shap_values(X[KNOWN:]))
    print(f"TreeExplainer, {SHOWN:,} rows against {REFERENCES} rows: {theirs:.1f} s")
    goal("time over that of TreeExplainer, marginals", own / theirs, 0.5)
    print(f"time over that of TreeExplainer, {REFERENCES} rows: {SHOWN / few * by_rows / theirs:.3g} (told)")


def models():
    """50 models of all kinds with 10 columns, and how each predicts on the scale of the link."""
    few = {"members": 1, "features": 40}
    for seed in range(50):
        X, y = rows(240, seed, 10)
        memory, extrapolation = ("rows", "sums")[seed % 2], ("constant", "linear")[seed // 2 % 2]
        options = {**few, "random_state": seed, "memory": memory, "extrapolation": extrapolation}
        kind = seed % 5
        if kind == 3:
            classes = np.digitize(y, np.quantile(y, [0.5] if seed % 4 < 2 else [0.3, 0.6]))
            model, targets = AtlasClassifier(**options), classes
        elif kind == 4:
            model, targets = AtlasRegressor(**options, missing="learn"), y
            X[np.random.default_rng(seed).random(X.shape) < 0.05] = np.nan
        else:
            model, targets = AtlasRegressor(**options), y
        model.fit(X[:200], targets[:200])
        if kind in (1, 2):  # an update that is pooled, and one with charts that replace
            model.partial_fit(X[200:], targets[200:])
            model.set_params(retention="chart").partial_fit(0.4 * X[200:], 30 + targets[200:], accept=True)
        yield model, X, model.decision_function if kind == 3 else model.predict


def exact():
    worst, adding, charts, sampled = 0.0, 0.0, 0, []
    for number, (model, X, predict) in enumerate(models()):
        row, background = X[210:211] * 1.05, X[:2]
        with (
            float64_arithmetic.float64_arithmetic(),
            patch.object(explained, "evaluate_anywhere", float64_arithmetic.evaluate_anywhere),
        ):
            found = model.explain(row, background)
            masks = coalitions_of(10)
            mixed = np.where(masks[:, None], row, background).reshape(-1, 10)
            worth = predict(mixed).reshape(len(masks), len(background), -1).mean(axis=1)
            adding = max(adding, float(np.abs(found.predictions - predict(row)).max()))
        expected = shapley_of_table(worth)
        size = np.abs(expected).max()
        apart = np.abs(found.values[0].reshape(expected.shape) - expected).max()
        worst, charts = max(worst, apart / size), charts + bool(model.model_.charts)
        if find_spec("shap") and number < 5 and expected.shape[1] == 1 and number % 5 != 4:
            kernel = import_module("shap").KernelExplainer(predict, background)
            guess = kernel.shap_values(row, nsamples=200, silent=True)
            sampled.append(np.abs(np.ravel(guess) - expected[:, 0]).max() / size)
    print(f"50 models, {charts} of them with charts; values add up to predictions to {adding:.1e}")
    if sampled:
        print(f"KernelExplainer with 200 samples is off by {np.mean(sampled):.2g} of the largest value")
    goal("difference to all coalitions, over the largest value", worst, 1e-9)


def blame():
    X, y = rows(1400, 0, 8)
    model = AtlasRegressor(random_state=0, n_jobs=1).fit(X[:800], y[:800])
    for k in range(4):
        model.partial_fit(X[800 + 100 * k : 900 + 100 * k], y[800 + 100 * k : 900 + 100 * k])
    model.partial_fit(0.4 * X[1200:1300], 20 + y[1200:1300], accept=True)
    took, found = seconds(lambda: model.blame(X[1300:]))
    predicted = model.predict(X[1300:])
    print(
        f"blame of 100 rows by {', '.join(found.names)}: {took:.1f} s; not attributed: {np.abs(found.rest).max():.1e}"
    )
    goal("sum of contributions less the prediction", float(np.abs(found.predictions - predicted).max()), 1e-9)
    ledger, seen = model._current_ledger, []
    contributions.errors_of_subsets(
        model, ledger, [2], lambda version: float(seen.append(version.predict(X)) or 0)
    )
    reverted = copy.deepcopy(model).revert(2).predict(X)
    goal(
        "predictions without update 2 that differ from those of `revert`",
        float((seen[0] != reverted).sum()),
        0,
    )
    took, values = seconds(lambda: model.value_of_updates(X[1300:], y[1300:]))
    print(f"value of 5 updates from all 32 subsets: {took:.1f} s\n{values}")


def range_():
    X, y = rows(3000, 0, 8)
    model = AtlasRegressor(random_state=0, n_jobs=1).fit(X, y)
    random, width = np.random.default_rng(0), float(np.ptp(y))
    model.range({j: 0.5 for j in range(8)})  # compiles
    gaps, times, violated, samples = [], [], 0, 10_000
    for _ in range(100):
        row, free = random.random(8), random.choice(8, 2, replace=False)
        box = {j: (0.05, 0.95) if j in free else float(row[j]) for j in range(8)}
        started = time.perf_counter()
        found = model.range(box)
        times.append(time.perf_counter() - started)
        gaps.append(found.gap / width)
        inside = np.tile(row, (samples, 1))
        inside[:, free] = random.uniform(0.05, 0.95, (samples, 2))
        predicted = model.predict(inside)
        violated += int(((predicted < found.low) | (predicted > found.high)).sum())
    print(
        f"100 boxes: gap {100 * np.mean(gaps):.2g} % of the target's range, {np.mean(times):.2g} s on average"
    )
    goal("largest gap, over the range of the target", max(gaps), 0.02)
    goal("longest time", max(times), 2, " s")
    goal(f"violations in {100 * samples:,} samples", violated, 0)


def background():
    X, y = rows(6000, 0, 8)
    model = AtlasRegressor(random_state=0, n_jobs=1).fit(X[:5900], y[:5900])
    whole = model.explain(X[5900:]).values
    for count in (4000, 1000, 500, 200, 100):
        fewer = type(BACKGROUND_RULES)(marginal_rows=count)
        with patch.object(explained, "BACKGROUND_RULES", fewer):
            values = model.explain(X[5900:]).values
        print(
            f"{count:5} rows: values differ by {np.abs(values - whole).mean() / np.abs(whole).mean():.2%} of their mean size"
        )


PARTS = {"speed": speed, "exact": exact, "blame": blame, "range": range_, "background": background}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    chosen = parser.parse_args().parts or ["speed", "exact", "blame", "range"]
    warnings.simplefilter("ignore", UpdateWarning)
    for part in chosen:
        PARTS[part]()
