"""Accuracy on tabular data, next to scikit-learn's regressors and classifiers at their defaults.

Five-fold cross-validation; every method sees the same folds, scaled inputs where it needs them, and one thread.
Errors are RMSE and MAE in standard deviations of the target, or the share of wrong classes. Prints each method's
errors and seconds, its rank, and how far AtlasRegressor is from the best of the others.

    python benchmarks/tabular.py --data FOLDER    # power-plant.txt, kin8nm.txt, energy.txt and bike-hour.csv, if there
"""

import argparse
import csv
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import rankdata
from sklearn import datasets
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler

from atlas_splines import AtlasClassifier, AtlasRegressor

warnings.filterwarnings("ignore", category=ConvergenceWarning)

NOT_INPUTS = [
    "instant",
    "dteday",
    "casual",
    "registered",
    "cnt",
]  # of the bike data: two add up to the target


def scaled(estimator, *steps):
    return make_pipeline(StandardScaler(), *steps, estimator)


REGRESSORS = {
    "atlas": AtlasRegressor(random_state=0),
    "boosting": HistGradientBoostingRegressor(random_state=0),
    "mlp": TransformedTargetRegressor(scaled(MLPRegressor(random_state=0)), transformer=StandardScaler()),
    "forest": RandomForestRegressor(random_state=0),
    "ridge": scaled(Ridge()),
    "spline-ridge": scaled(Ridge(), SplineTransformer()),
}
CLASSIFIERS = {
    "atlas": AtlasClassifier(random_state=0),
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "mlp": scaled(MLPClassifier(random_state=0)),
    "forest": RandomForestClassifier(random_state=0),
    "logistic": scaled(LogisticRegression()),
    "spline-logistic": scaled(LogisticRegression(), SplineTransformer()),
}


def regression_sets(folder):
    """Name → (X, y): files of the folder, then scikit-learn's own."""
    for name in ("power-plant", "kin8nm", "energy"):
        if folder and (folder / f"{name}.txt").exists():
            table = np.loadtxt(folder / f"{name}.txt")
            yield name, (table[:, :-1], table[:, -1])
    if folder and (folder / "bike-hour.csv").exists():
        with (folder / "bike-hour.csv").open() as file:
            rows = list(csv.DictReader(file))
        X = np.array([[float(row[name]) for name in row if name not in NOT_INPUTS] for row in rows])
        yield "bike", (X, np.array([float(row["cnt"]) for row in rows]))
    yield "diabetes", datasets.load_diabetes(return_X_y=True)
    yield "friedman1", datasets.make_friedman1(2000, noise=1.0, random_state=0)
    yield "friedman2", datasets.make_friedman2(2000, noise=50.0, random_state=0)
    yield "friedman3", datasets.make_friedman3(2000, noise=0.1, random_state=0)


def classification_sets():
    for name in ("iris", "wine", "breast_cancer", "digits"):
        yield name, getattr(datasets, f"load_{name}")(return_X_y=True)


def regression_errors(truth, prediction, spread):
    error = prediction - truth
    return np.sqrt(np.mean(error**2)) / spread, np.abs(error).mean() / spread


def class_errors(truth, prediction, spread):
    wrong = np.mean(truth != prediction)
    return wrong, wrong


def measure(estimator, X, y, folds, errors):
    """Mean errors over the folds, and seconds for a fit and prediction."""
    start, found = time.perf_counter(), []
    for train, test in folds.split(X, y):
        prediction = clone(estimator).fit(X[train], y[train]).predict(X[test])
        found.append(errors(y[test], prediction, np.std(y)))
    return (*np.mean(found, axis=0), (time.perf_counter() - start) / len(found))


def compare(title, sets, methods, folds, errors, unit):
    """Measure all methods on all sets, and print errors, seconds, ranks and ratios."""
    print(f"\n{title}\n{'':14}" + "".join(f"{name:>22}" for name in methods))
    table = []
    for name, (X, y) in sets:
        row = [measure(method, X, y, folds, errors) for method in methods.values()]
        table.append([first for first, _, _ in row])
        cells = "".join(f"{first:9.4f} {second:6.4f} {seconds:4.1f}s" for first, second, seconds in row)
        best = min(table[-1][1:])
        ratio = table[-1][0] / best if best else np.nan
        print(f"{name:14}{cells}   atlas / best other {ratio:.3f}", flush=True)
    ranks = np.mean([rankdata(row) for row in table], axis=0)
    print(f"{'average rank':14}" + "".join(f"{rank:22.2f}" for rank in ranks) + f"   by {unit}")
    ratios = [row[0] / min(row[1:]) for row in table if min(row[1:])]
    print(
        f"largest ratio to the best of the others: {max(ratios):.3f}, geometric mean {np.exp(np.mean(np.log(ratios))):.3f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with more data sets")
    folder = parser.parse_args().data
    AtlasRegressor(max_iter=1).fit(np.random.default_rng(0).random((50, 2)), np.arange(50))  # compile
    compare(
        "Regression: RMSE and MAE in standard deviations, seconds a fit",
        regression_sets(folder), REGRESSORS, KFold(5, shuffle=True, random_state=0), regression_errors, "RMSE",
    )  # fmt: skip
    compare(
        "Classification: share of wrong classes, twice, seconds a fit",
        classification_sets(), CLASSIFIERS, StratifiedKFold(5, shuffle=True, random_state=0), class_errors, "error",
    )  # fmt: skip


if __name__ == "__main__":
    main()
