"""Counts of bicycles: loss="poisson" beside squared errors and beside boosting, by the mean Poisson deviance.

    python benchmarks/counts.py --data FOLDER      # with bike-hour.csv, the hourly counts of Fanaee-T and Gama (2013)

"random" holds out a fifth of the rows, "later" the last fifth. "weekly" learns the first 30 % and then each
week of 168 rows after it has predicted it: never updated, updated, and boosting that is fitted again each
week. Squared errors have no deviance where they predict none or less; they are taken as 0.5 % of the mean.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_poisson_deviance

from atlas_splines import AtlasRegressor

INPUTS = [
    "season",
    "yr",
    "mnth",
    "hr",
    "holiday",
    "weekday",
    "workingday",
    "weathersit",
    "temp",
    "atemp",
    "hum",
    "windspeed",
]
TARGETS = "cnt", "casual"
WEEK, FIRST = 168, 0.3


def table(folder):
    with open(Path(folder) / "bike-hour.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    X = np.array([[float(row[name]) for name in INPUTS] for row in rows])
    return X, {name: np.array([float(row[name]) for row in rows]) for name in TARGETS}


def deviance(y, predicted):
    return mean_poisson_deviance(y, np.maximum(predicted, 0.005 * y.mean()))


def boosting():
    return HistGradientBoostingRegressor(loss="poisson", random_state=0)


def splits(rows):
    held_out = np.random.default_rng(0).random(rows) < 0.2
    return {"random": held_out, "later": np.arange(rows) >= 0.8 * rows}


def once(X, y):
    for name, held_out in splits(len(y)).items():
        models = {
            "poisson": AtlasRegressor(loss="poisson", random_state=0),
            "squared": AtlasRegressor(random_state=0),
            "boosting": boosting(),
        }
        said = {key: m.fit(X[~held_out], y[~held_out]).predict(X[held_out]) for key, m in models.items()}
        yield name, {key: deviance(y[held_out], predicted) for key, predicted in said.items()}


def weekly(X, y):
    first = round(FIRST * len(y))
    never = AtlasRegressor(loss="poisson", random_state=0).fit(X[:first], y[:first])
    updated = AtlasRegressor(loss="poisson", random_state=0).fit(X[:first], y[:first])
    said = {"never": never.predict(X[first:]), "poisson": [], "boosting": []}
    for begin in range(first, len(y), WEEK):
        rows = slice(begin, begin + WEEK)
        said["poisson"].append(updated.predict(X[rows]))
        updated.partial_fit(X[rows], y[rows])
        said["boosting"].append(boosting().fit(X[:begin], y[:begin]).predict(X[rows]))
    return {key: deviance(y[first:], np.hstack(parts)) for key, parts in said.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    X, targets = table(parser.parse_args().data)
    for target, y in targets.items():
        for name, found in [*once(X, y), ("weekly", weekly(X, y))]:
            parts = ", ".join(f"{key} {value:.2f}" for key, value in found.items())
            ratio = found["poisson"] / found["boosting"]
            print(f"{target}, {name}: {parts}; poisson ÷ boosting {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
