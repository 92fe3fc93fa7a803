"""Linear extrapolation beside a constant one, on streams whose time is an input.

    python benchmarks/extrapolation.py                    # drawn trends only
    python benchmarks/extrapolation.py --data FOLDER      # bike-hour.csv, transformer-hourly.csv and, in streams/,
                                                          # metro.csv, seoul.csv and beijing.csv too, if there

The number of a row is one more column, so nearly all rows to come lie beyond the domain. A model is fitted to the
first 13 weeks of hourly rows. "updated" predicts each week before it learns it; "fitted once" predicts the next 13
weeks and learns nothing. Errors are mean absolute errors in standard deviations of the target; absurd predictions are
further from the mean of the targets seen so far than three times their range. Goals: on files, updated, at most 1.05
of the error of a constant, and nothing absurd; on trends a smaller error than that of a constant.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from atlas_splines import AtlasRegressor

WEEK, QUARTER = 168, 13 * 168  # rows of hourly data
BIKE_DROP = {"instant", "dteday", "season", "yr", "holiday", "atemp", "casual", "registered"}
FILES = {
    "bike": ("bike-hour.csv", "cnt", BIKE_DROP),
    "transformer": ("transformer-hourly.csv", "OT", set()),
    "metro": ("streams/metro.csv", "target", set()),
    "seoul": ("streams/seoul.csv", "target", set()),
    "beijing": ("streams/beijing.csv", "target", set()),
}
TRENDS = {"no trend": 0.0, "slow trend": 0.2, "trend": 0.8}  # standard deviations of the rest in a quarter
DRAWN = QUARTER + 30 * WEEK  # rows
WAYS = "constant", "linear"
ABSURD = 3  # ranges of the targets seen so far
MOST = 1.05  # error of linear extrapolation over that of a constant


def from_file(path, target, drop):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    inputs = [name for name in rows[0] if name != target and name not in drop]
    X = np.array([[float(row[name]) for name in inputs] for row in rows])
    return with_time(X), np.array([float(row[target]) for row in rows])


def drawn(slope):
    random = np.random.default_rng(0)
    X = random.random((DRAWN, 3))
    rest = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * random.normal(size=DRAWN)
    return with_time(X), rest + slope * rest.std() * np.arange(DRAWN) / QUARTER


def with_time(X):
    return np.column_stack([X, np.arange(len(X))])


def streams(folder):
    """Each stream, and whether it is a file."""
    for name, (path, target, drop) in FILES.items():
        if folder and (folder / path).exists():
            yield name, True, from_file(folder / path, target, drop)
    for name, slope in TRENDS.items():
        yield name, False, drawn(slope)


def predictions(model, X):
    return {way: model.set_params(extrapolation=way).predict(X) for way in WAYS}


class ScoreHistogram:
    """Errors, and absurd predictions, of both ways."""

    def __init__(self, deviation):
        self.deviation = deviation
        self.errors = {way: [] for way in WAYS}
        self.absurd = dict.fromkeys(WAYS, 0)

    def add(self, predicted, y, seen):
        for way, values in predicted.items():
            self.errors[way].append(np.abs(values - y) / self.deviation)
            self.absurd[way] += int((np.abs(values - seen.mean()) > ABSURD * np.ptp(seen)).sum())

    def error(self, way):
        return float(np.concatenate(self.errors[way]).mean())

    @property
    def ratio(self):
        return self.error("linear") / self.error("constant")


def life(X, y):
    """Tallies of a model that is updated each week, and of one that is fitted once."""
    updated, once = ScoreHistogram(y.std()), ScoreHistogram(y.std())
    model = AtlasRegressor(random_state=0).fit(X[:QUARTER], y[:QUARTER])
    later = slice(QUARTER, 2 * QUARTER)
    once.add(predictions(model, X[later]), y[later], y[:QUARTER])
    for begin in range(QUARTER, len(X), WEEK):
        week = slice(begin, begin + WEEK)
        updated.add(predictions(model, X[week]), y[week], y[:begin])
        model.partial_fit(X[week], y[week])
    return updated, once


def verdict(is_file, is_trend, updated, once):
    if is_file:
        good = updated.ratio <= MOST and not updated.absurd["linear"]
        return f"goal {MOST} and 0 absurd: {'reached' if good else 'missed'}"
    if is_trend:
        good = updated.ratio < 1 and once.ratio < 1
        return f"goal below 1 and below 1: {'reached' if good else 'missed'}"
    return ""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with data sets")
    folder = parser.parse_args().data
    print(f"{'':12} {'updated':^32} {'fitted once':^32}")
    head = f"{'constant':>9} {'linear':>7} {'ratio':>6} {'absurd':>7}"
    print(f"{'':12} {head} {head}")
    for name, is_file, (X, y) in streams(folder):
        tallies = life(X, y)
        columns = [
            f"{t.error('constant'):9.3f} {t.error('linear'):7.3f} {t.ratio:6.3f} {t.absurd['linear']:7d}"
            for t in tallies
        ]
        print(f"{name:12} {' '.join(columns)}  {verdict(is_file, TRENDS.get(name), *tallies)}", flush=True)


if __name__ == "__main__":
    main()
