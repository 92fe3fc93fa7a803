"""How sure predictions are: intervals on tables and streams, and support, beside other libraries.

Every goal is printed as measured, goal, and reached or missed. Results are lines of a file, and are not run again; a
method whose package is missing is left out. Tables have at most 4,000 rows to learn and 10,000 to judge by.

    python benchmarks/intervals.py                     what scikit-learn draws
    python benchmarks/intervals.py --data FOLDER       bike-hour.csv, transformer-hourly.csv, power-plant.txt, kin8nm.txt too
    python benchmarks/intervals.py --fresh atlas       run a method again
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import LeaveOneOut
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atlas_splines import AtlasRegressor

sys.path.insert(0, str(Path(__file__).parent / "tabular"))
import table_sets

COVERAGE = 0.9
LEARNED, JUDGED = 4000, 10_000
SMALL = 300  # rows that jackknife+ is timed on: it fits a model for each
GAUSSIAN_ROWS = 500  # that a Gaussian process is fitted to, with a length for each input
FILES = ("power-plant", "kin8nm", "bike", "transformer", "diamonds", "deliveries", "computers")
DRAWN = {
    "friedman1": partial(datasets.make_friedman1, noise=1.0),
    "friedman2": partial(datasets.make_friedman2, noise=50.0),
    "friedman3": partial(datasets.make_friedman3, noise=0.1),
}
WEEK, QUARTER = 168, 13 * 168
BIKE_DROP = ["instant", "dteday", "season", "yr", "holiday", "atemp", "casual", "registered"]
WINDOW = 10  # batches
DISTINCT = 20  # values of a column that a region can be cut out of
Rows = tuple[np.ndarray, np.ndarray]
Interval = tuple[np.ndarray, np.ndarray]
warnings.filterwarnings("ignore")  # of other libraries


# --- data ---------------------------------------------------------------------------------------------


@cache
def table(name: str, folder: Path | None) -> Rows:
    """Inputs, an input for each category, and targets of a table, shuffled."""
    if name in DRAWN:
        return DRAWN[name](n_samples=LEARNED + JUDGED, random_state=0)
    X, y = table_sets.load(name, folder)
    order = np.random.default_rng(0).permutation(len(y))[: LEARNED + JUDGED]
    return pd.get_dummies(X).to_numpy(float)[order], np.asarray(y, float)[order]


def tables(folder: Path | None) -> list[str]:
    there = [name for name in FILES if table_sets.TABLES[name].missing(folder) is None]
    return [*there, *DRAWN]


def drifting(rows: int = 11_000) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Noise that doubles at once, and a wave that moves slowly."""
    random, when = np.random.default_rng(0), np.arange(rows)
    X = random.random((rows, 4))
    noise = np.where(when < 6000, 0.2, 0.5) * (0.5 + X[:, 1])
    wave = np.sin(6 * X[:, 0] + np.maximum(when - 5000, 0) / 2000)
    return X, wave + X[:, 1] * X[:, 2] + noise * random.standard_normal(rows), 2000, 150


def stream(name: str, folder: Path | None) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Rows in the order of time, how many come first, and how many at a time."""
    if name == "drifting":
        return drifting()
    file, target, drop = {
        "bike, weekly": ("bike-hour.csv", "cnt", BIKE_DROP),
        "transformer, weekly": ("transformer-hourly.csv", "OT", []),
    }[name]
    frame = pd.read_csv(folder / file).drop(columns=drop)
    y = frame.pop(target).to_numpy(float)
    return frame.to_numpy(float), y, QUARTER, WEEK


def streams(folder: Path | None) -> list[str]:
    files = {"bike, weekly": "bike-hour.csv", "transformer, weekly": "transformer-hourly.csv"}
    there = [name for name, file in files.items() if folder and (folder / file).exists()]
    return [*there, "drifting"]


# --- methods: each returns the ends of intervals of rows to judge --------------------------------------


def boosting() -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(random_state=0)


def atlas(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Interval:
    return AtlasRegressor(random_state=0).fit(X, y).predict_interval(new, COVERAGE)


def split(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Interval:
    from mapie.regression import SplitConformalRegressor

    half = len(y) // 2
    model = SplitConformalRegressor(boosting(), confidence_level=COVERAGE, prefit=False)
    model.fit(X[:half], y[:half]).conformalize(X[half:], y[half:])
    return tuple(model.predict_interval(new)[1][:, :, 0].T)


def cross(X: np.ndarray, y: np.ndarray, new: np.ndarray, cv: object = 10) -> Interval:
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(boosting(), confidence_level=COVERAGE, method="plus", cv=cv)
    return tuple(model.fit_conformalize(X, y).predict_interval(new)[1][:, :, 0].T)


def jackknife(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Interval:
    return cross(X, y, new, cv=LeaveOneOut())


def quantiles(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Interval:
    ends = ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2)
    models = [HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0) for q in ends]
    low, high = (model.fit(X, y).predict(new) for model in models)
    return low, high


def catboost(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Interval:
    from catboost import CatBoostRegressor

    loss = f"MultiQuantile:alpha={(1 - COVERAGE) / 2:.3f},{(1 + COVERAGE) / 2:.3f}"
    model = CatBoostRegressor(loss_function=loss, verbose=0, random_seed=0, thread_count=1)
    return tuple(np.sort(model.fit(X, y).predict(new), axis=1).T)


def bags(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Interval:
    """EBM: the spread of four bags, without interactions, and what it leaves of the rows it learned."""
    from interpret.glassbox import ExplainableBoostingRegressor

    model = ExplainableBoostingRegressor(interactions=0, outer_bags=4, random_state=0, n_jobs=1).fit(X, y)
    left, predicted, each = np.std(y - model.predict(X)), model.predict(new), []
    scores, bagged = model.term_scores_, model.bagged_scores_
    for k in range(len(bagged[0])):
        model.term_scores_, model.intercept_ = [term[k] for term in bagged], model.bagged_intercept_[k]
        each.append(model.predict(new))
    model.term_scores_ = scores
    error_model = 1.645 * np.sqrt(left**2 + np.var(each, axis=0))
    return predicted - error_model, predicted + error_model


def gaussian(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Interval:
    kernel = kernels.ConstantKernel() * kernels.RBF(np.ones(X.shape[1])) + kernels.WhiteKernel()
    model = make_pipeline(
        StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    )
    model.fit(X[:GAUSSIAN_ROWS], y[:GAUSSIAN_ROWS])
    predicted, error_model = model.predict(new, return_std=True)
    return predicted - 1.645 * error_model, predicted + 1.645 * error_model


METHODS: dict[str, tuple[str, Callable[..., Interval]]] = {
    "atlas": ("atlas_splines", atlas),
    "MAPIE split": ("mapie", split),
    "MAPIE CV+": ("mapie", cross),
    "boosting quantiles": ("sklearn", quantiles),
    "CatBoost quantiles": ("catboost", catboost),
    "Gaussian process": ("sklearn", gaussian),
    "EBM bags": ("interpret", bags),
}


# --- measures -----------------------------------------------------------------------------------------


def interval_score(low: np.ndarray, high: np.ndarray, y: np.ndarray) -> float:
    """Mean width, and 2/(1 − coverage) times how far targets are outside (Winkler, 1972)."""
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float(np.mean(high - low + 2 / (1 - COVERAGE) * outside))


def worst_tenth(held: np.ndarray, X: np.ndarray) -> float:
    """Lowest share of covered rows in a tenth of them by any one input."""
    varying = X[:, np.ptp(X, axis=0) > 0]
    parts = (np.array_split(held[np.argsort(column, kind="stable")], 10) for column in varying.T)
    return float(min(part.mean() for tenths in parts for part in tenths))


def run_table(name: str, method: str, folder: Path | None) -> dict[str, float]:
    X, y = table(name, folder)
    rows = min(LEARNED, len(y) // 2)
    started = time.process_time()
    low, high = METHODS[method][1](X[:rows], y[:rows], X[rows:])
    seconds = time.process_time() - started
    held = (y[rows:] >= low) & (y[rows:] <= high)
    return {
        "coverage": float(held.mean()),
        "worst": worst_tenth(held, X[rows:]),
        "score": interval_score(low, high, y[rows:]) / float(np.std(y)),
        "width": float(np.mean(high - low) / np.std(y)),
        "seconds": seconds,
    }


def run_speed(name: str, method: str, folder: Path | None) -> dict[str, float]:
    """Seconds for intervals of a few rows, by ATLAS and by jackknife+."""
    X, y = table(name, folder)
    started = time.process_time()
    (atlas if method == "atlas" else jackknife)(X[:SMALL], y[:SMALL], X[SMALL : 2 * SMALL])
    return {"seconds": time.process_time() - started}


def run_stream(name: str, method: str, folder: Path | None) -> dict[str, float]:
    """Coverage of each batch before it is learned, by windows of batches."""
    X, y, first, batch = stream(name, folder)
    model, held, scores = AtlasRegressor(random_state=0).fit(X[:first], y[:first]), [], []
    for begin in range(first, len(y) - batch + 1, batch):
        rows = slice(begin, begin + batch)
        low, high = model.predict_interval(X[rows], COVERAGE)
        held.append(np.mean((y[rows] >= low) & (y[rows] <= high)))
        scores.append(interval_score(low, high, y[rows]))
        model.partial_fit(X[rows], y[rows])
    windows = np.convolve(held, np.ones(WINDOW) / WINDOW, "valid")
    return {"coverage": float(np.mean(held)), "worst": float(windows.min()), "batches": len(held)}


def cuts(X: np.ndarray, relevant: np.ndarray) -> dict[str, np.ndarray]:
    """Regions that are cut out: a slab of the column that matters most, and boxes of the two that do."""
    many = [j for j in relevant if len(np.unique(X[:, j])) >= DISTINCT]
    first, second = X[:, many[0]], X[:, many[1]]

    def between(column: np.ndarray, low: float, high: float) -> np.ndarray:
        return (column >= np.quantile(column, low)) & (column <= np.quantile(column, high))

    return {
        "slab": between(first, 0.35, 0.65),
        "box": between(first, 0.3, 0.7) & between(second, 0.3, 0.7),
        "corner": between(first, 0.6, 1) & between(second, 0.6, 1),
    }


def run_support(name: str, method: str, folder: Path | None) -> dict[str, float]:
    """AUC of rows of a region that was cut out against known ones, by support and by distance to neighbours."""
    X, y = table(name, folder)
    X, y = X[: 2 * LEARNED], y[: 2 * LEARNED]
    learned = np.arange(len(y)) < len(y) // 2
    relevant = np.argsort(-AtlasRegressor(members=1, random_state=0).fit(X, y).feature_importances_)
    found = {}
    for cut, inside in cuts(X, relevant).items():
        known = learned & ~inside
        model = AtlasRegressor(members=1, random_state=0).fit(X[known], y[known])
        scale = X[known].std(axis=0) + 1e-12
        neighbours = NearestNeighbors(n_neighbors=5).fit(X[known] / scale)
        distance = neighbours.kneighbors(X[~learned] / scale)[0].mean(axis=1)
        found[cut] = float(roc_auc_score(~inside[~learned], model.support(X[~learned])))
        found[f"{cut}, neighbours"] = float(roc_auc_score(inside[~learned], distance))
    return found


def run_cost(name: str, method: str, folder: Path | None) -> dict[str, float]:
    """CPU seconds of a prediction with intervals over those of a plain one, for a thousand features."""
    X, y = table(name, folder)
    model = AtlasRegressor(features=1000, members=1, random_state=0).fit(X[:LEARNED], y[:LEARNED])
    asks = {"plain": model.predict, "interval": model.predict_interval, "support": model.support}
    seconds = {}
    for ask, function in asks.items():
        function(X)  # what is computed once is not counted
        times = []
        for _ in range(5):
            started = time.process_time()
            function(X)
            times.append(time.process_time() - started)
        seconds[ask] = min(times)
    return {ask: seconds[ask] / seconds["plain"] for ask in ("interval", "support")}


RUNS = {
    "table": run_table,
    "speed": run_speed,
    "stream": run_stream,
    "support": run_support,
    "cost": run_cost,
}


def jobs(folder: Path | None) -> list[tuple[str, str, str]]:
    """All that there is to do: what is measured, on which data, by which method."""
    there = [method for method, (package, _) in METHODS.items() if find_spec(package)]
    every, drawn = tables(folder), list(DRAWN)
    timed = ("atlas", "MAPIE jackknife+") if find_spec("mapie") else ("atlas",)
    todo = [("stream", name, "atlas") for name in streams(folder)]
    todo += [("support", name, "atlas") for name in every]
    todo += [("cost", name, "atlas") for name in drawn]
    todo += [("table", name, method) for method in there for name in every]
    return todo + [("speed", name, method) for name in drawn for method in timed]


# --- what is printed ----------------------------------------------------------------------------------


def goal(what: str, measured: float, text: str, is_reached: bool) -> None:
    print(f"{what:76s} {measured:8.3f}   {text:18s} {'reached' if is_reached else 'missed'}")


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def report(results: dict[tuple[str, str, str], dict[str, float]]) -> None:
    """Tables, and the goals."""
    kinds = {kind: {key[1:]: value for key, value in results.items() if key[0] == kind} for kind in RUNS}
    names = list(dict.fromkeys(name for name, _ in kinds["table"]))
    methods = [m for m in METHODS if all((name, m) in kinds["table"] for name in names)]
    for measure in ("coverage", "worst", "score", "seconds"):
        print(f"\n{measure:14s}" + "".join(f"{method:>20s}" for method in methods))
        for name in names:
            values = (kinds["table"][name, method][measure] for method in methods)
            print(f"{name:14s}" + "".join(f"{value:20.3f}" for value in values))
    for kind in ("stream", "support", "cost"):
        for (name, _), found in kinds[kind].items():
            print(f"{kind}, {name}: " + ", ".join(f"{key} {value:.3f}" for key, value in found.items()))
    print(f"\n{'':76s} {'measured':>8s}   goal")
    print_goals(kinds, names, methods)


def print_goals(kinds: dict, names: list[str], methods: list[str]) -> None:
    own = {name: kinds["table"][name, "atlas"] for name in names}
    off = max(abs(found["coverage"] - COVERAGE) for found in own.values())
    goal(f"coverage of {len(names)} tables: farthest from 90 %", off, "at most 0.015", off <= 0.015)
    worst = min(found["worst"] for found in own.values())
    goal("coverage of the worst tenth of rows by any one input", worst, "at least 0.800", worst >= 0.8)
    ratios = {
        method: geometric_mean([own[name]["score"] / kinds["table"][name, method]["score"] for name in names])
        for method in methods
        if method != "atlas"
    }
    if ratios:
        best = max(ratios, key=lambda method: ratios[method])
        goal(
            f"interval score ÷ that of {best}, the best other",
            ratios[best],
            "at most 1.000",
            ratios[best] <= 1,
        )
    timed = {name for name, method in kinds["speed"] if method != "atlas"}
    if timed:
        times = [
            kinds["speed"][n, "MAPIE jackknife+"]["seconds"] / kinds["speed"][n, "atlas"]["seconds"]
            for n in timed
        ]
        faster = geometric_mean(times)
        goal(f"seconds of jackknife+ ÷ ATLAS's, {SMALL} rows", faster, "at least 50", faster >= 50)
    for (name, _), found in kinds["stream"].items():
        goal(
            f"{name}: coverage of the worst window of {WINDOW} batches",
            found["worst"],
            "above 0.800",
            found["worst"] > 0.8,
        )
    both = [(v, found[f"{cut}, neighbours"]) for found in kinds["support"].values() for cut, v in found.items()
            if not cut.endswith("neighbours")]  # fmt: skip
    ours, theirs = np.mean(both, axis=0)
    goal("AUC of support, rows of a region that was cut out, mean", ours, "at least 0.950", ours >= 0.95)
    goal(
        "AUC of support less that of 5 nearest neighbours, mean", ours - theirs, "above 0.000", ours > theirs
    )
    cost = geometric_mean([found["interval"] for found in kinds["cost"].values()])
    goal("prediction with intervals ÷ plain prediction, 1000 features", cost, "at most 3.000", cost <= 3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with data sets")
    parser.add_argument(
        "--results", type=Path, default=Path("intervals-results.jsonl"), help="file of results"
    )
    parser.add_argument("--fresh", action="append", default=[], metavar="NAME", help="run a method again")
    options = parser.parse_args()
    done = {}
    if options.results.exists():
        for line in options.results.read_text(encoding="utf8").splitlines():
            *key, value = json.loads(line)
            if key[2] not in options.fresh:
                done[tuple(key)] = value
        options.results.write_text(
            "".join(json.dumps([*k, v]) + "\n" for k, v in done.items()), encoding="utf8"
        )
    for key in jobs(options.data):
        if key not in done:
            kind, name, method = key
            started = time.process_time()
            done[key] = RUNS[kind](name, method, options.data)
            print(f"{kind}, {name}, {method}: {time.process_time() - started:.1f} s", flush=True)
            with options.results.open("a", encoding="utf8") as file:
                file.write(json.dumps([*key, done[key]]) + "\n")
    report({key: done[key] for key in jobs(options.data) if key in done})


if __name__ == "__main__":
    main()
