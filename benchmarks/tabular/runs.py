"""Every cell of the benchmark, a fit and its prediction, as a line of a file; a run goes on where it was stopped."""

from __future__ import annotations

import json
import logging
import multiprocessing
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
from opponents import METHODS
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold
from table_sets import TABLES, categories, load

RANDOM, TIME, AUGUST = "random", "time", "august"
MANY_ROWS = 20_000  # tables of more have three folds instead of five
SEEDS = 5
WARM_ROWS = 200

Split = tuple[np.ndarray, np.ndarray]
Result = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One fit: of a method, to the rows of a fold."""

    table: str
    split: str
    method: str
    fold: int


def splits(name: str) -> list[str]:
    """How the rows of a table are split: at random; if they have an order, by time too."""
    ways = [RANDOM, TIME] if TABLES[name].ordered else [RANDOM]
    return [*ways, AUGUST] if name == "bike" else ways


@cache
def folds(name: str, split: str, folder: Path | None) -> list[Split]:
    """Rows to fit and rows to predict, for each fold; by time, those of a fold come after all that it is fitted to."""
    X, y = load(name, folder)
    rows = np.arange(len(y))
    if split == AUGUST:  # fitted until August 2012; a fold is a seed
        before = ((X["yr"] == 0) | (X["mnth"] <= 8)).to_numpy()
        return [(rows[before], rows[~before])] * SEEDS
    if split == TIME:
        ends = [int(share * len(y)) for share in (0.6, 0.8, 1.0)]
        return [(rows[:start], rows[start:end]) for start, end in pairwise(ends)]
    splitter = KFold if TABLES[name].task == "regression" else StratifiedKFold
    return list(splitter(3 if len(y) > MANY_ROWS else 5, shuffle=True, random_state=0).split(X, y))


def cells(tables: list[str], methods: list[str], folder: Path | None, unlimited: bool) -> Iterator[Cell]:
    """All that there is to do, method after method."""
    for method in methods:
        for table in tables:
            if unlimited or METHODS[method].takes(*load(table, folder)[0].shape):
                for split in splits(table):
                    for fold in range(len(folds(table, split, folder))):
                        yield Cell(table, split, method, fold)


@cache
def warm(method: str, task: str) -> None:
    """Let a method compile and import what it needs, which counts as nobody's time."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.random((WARM_ROWS, 3)), columns=["a", "b", "c"])
    X["c"] = X["c"].round(1).astype(str).astype("category")
    y = X["a"] + random.random(WARM_ROWS)
    y = y.to_numpy() if task == "regression" else (y > 1).to_numpy().astype(int)
    METHODS[method].make(task, 0, categories(X)).fit(X, y).predict(X)


def measured(cell: Cell, folder: Path | None) -> Result:
    """Errors, and seconds of one core for the fit and for the prediction."""
    warnings.filterwarnings("ignore")  # of opponents: convergence, unknown categories, names of columns
    logging.disable(logging.WARNING)
    X, y = load(cell.table, folder)
    train, test = folds(cell.table, cell.split, folder)[cell.fold]
    task = TABLES[cell.table].task
    warm(cell.method, task)
    seed = cell.fold if cell.split == AUGUST else 0
    estimator = METHODS[cell.method].make(task, seed, categories(X))
    started = time.process_time()
    estimator.fit(X.iloc[train], y[train])
    fitted = time.process_time()
    predicted = (estimator.predict if task == "regression" else estimator.predict_proba)(X.iloc[test])
    ended = time.process_time()
    errors = regression_errors if task == "regression" else class_errors
    seconds = {"fit_seconds": fitted - started, "predict_seconds": ended - fitted}
    return asdict(cell) | errors(np.asarray(predicted, float), y[test], y) | seconds


def regression_errors(predicted: np.ndarray, y: np.ndarray, all_y: np.ndarray) -> dict[str, float]:
    """Errors in standard deviations of the whole target."""
    error = np.abs(predicted.ravel() - y) / np.std(all_y)
    return {"rmse": np.sqrt(np.mean(error**2)), "mae": np.mean(error), "largest": np.max(error)}


def class_errors(predicted: np.ndarray, y: np.ndarray, all_y: np.ndarray) -> dict[str, float]:
    """Share of wrong classes, and log loss, of probabilities (rows, classes)."""
    wrong = np.mean(np.argmax(predicted, axis=1) != y)
    return {"error": wrong, "log_loss": log_loss(y, predicted, labels=np.unique(all_y))}


def read(path: Path) -> dict[Cell, Result]:
    """Results by cell."""
    if not path.exists():
        return {}
    results = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
    return {Cell(r["table"], r["split"], r["method"], r["fold"]): r for r in results}


def rewrite(path: Path, results: dict[Cell, Result]) -> None:
    """Write results in an order of their own, so that the file does not tell in which order they came."""
    path.parent.mkdir(parents=True, exist_ok=True)
    places = {name: place for place, name in enumerate([*TABLES, *METHODS])}
    order = sorted(results, key=lambda cell: (places[cell.table], cell.split, places[cell.method], cell.fold))
    path.write_text("".join(line(results[cell]) for cell in order), encoding="utf8")


def line(result: Result) -> str:
    short = {key: float(f"{x:.5g}") if isinstance(x, float) else x for key, x in result.items()}
    return json.dumps(short) + "\n"


def run(missing: list[Cell], path: Path, folder: Path | None, jobs: int) -> None:
    """Run cells, and append each result as it comes; a cell that fails is told, and left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")  # libraries with threads of their own do not survive a fork
    with path.open("a", encoding="utf8") as file, ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
        started = {pool.submit(measured, cell, folder): cell for cell in missing}
        try:
            for count, future in enumerate(as_completed(started), 1):
                text = kept(future, started[future], file)
                print(f"{count}/{len(missing)} {text}", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupted run ends with the cells that are being run


def kept(future: Future[Result], cell: Cell, file: TextIO) -> str:
    """Append a result to the file, and say what it is."""
    try:
        result = future.result()
    except Exception as error:
        return f"{cell} failed: {error!r}"
    file.write(line(result))
    file.flush()
    return shown(result)


def shown(result: Result) -> str:
    error = f"RMSE {result['rmse']:.4f}" if "rmse" in result else f"log loss {result['log_loss']:.4f}"
    name = f"{result['table']} {result['split']} {result['fold']}"
    return f"{name:24}{result['method']:10}{error:18}{result['fit_seconds']:.2f} s"
