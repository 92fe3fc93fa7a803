"""What a thousand updates cost, as ratios: bytes of the file and time of a prediction after many updates over after ten.

    python benchmarks/life.py [--updates 1000]
    python benchmarks/life.py --long 100000

Also counts the bits in which a pooled model of the same rows differs: in another order, in other pieces, and after
updates that were reverted or forgotten.

With --long it prints bytes, seconds to save and to load, and nanoseconds a row of a small model against the updates made,
at each power of ten: the log keeps its newest entries and folds the others, so all of them level off. A hundred thousand
updates take about ten minutes.
"""

import argparse
import copy
import tempfile
import time
from pathlib import Path

import numpy as np

from atlas_splines import AtlasRegressor, load, save

ROWS = 20  # of an update
GRID = np.random.default_rng(9).random((20_000, 4))


def rows(count, seed):
    random = np.random.default_rng(seed)
    X = random.random((count, 4))
    y = np.sin(6 * X[:, 0] * X[:, 1]) + X[:, 2] ** 2 + 0.1 * random.normal(size=count)
    return X, y


def fitted(retention):
    return AtlasRegressor(members=1, terms=4, retention=retention, random_state=0).fit(*rows(2000, 0))


def cost(model):
    """Bytes of the file, and nanoseconds of a prediction a row, the least of five."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atlas"
        save(model, path)
        size = path.stat().st_size
    times = []
    for _ in range(5):
        start = time.perf_counter()
        model.predict(GRID)
        times.append(time.perf_counter() - start)
    return size, 1e9 * min(times) / len(GRID)


def live(retention, updates):
    model, early = fitted(retention), (np.nan, np.nan)
    for number in range(1, updates + 1):
        model.partial_fit(*rows(ROWS, number))
        if number == 10:
            early = cost(model)
    late = cost(model)
    print(
        f"{retention}: after 10 updates {early[0]:,} bytes and {early[1]:.0f} ns a row, "
        f"after {updates} {late[0]:,} and {late[1]:.0f}: ratios {late[0] / early[0]:.2f} and {late[1] / early[1]:.2f}",
        flush=True,
    )


def long_costs(model):
    """Bytes of the file, seconds to save and to load it, and nanoseconds of a prediction a row; the least of five."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atlas"
        save_time = least_time(lambda: save(model, path))
        load_time = least_time(lambda: load(path))
        loaded, size = load(path), path.stat().st_size
    row_time = 1e9 * least_time(lambda: loaded.predict(GRID[:, :2])) / len(GRID)
    return size, save_time, load_time, row_time


def least_time(function):
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def live_long(updates):
    """Update a small model very often; print what it costs on the way."""
    random = np.random.default_rng(0)
    X = random.random((200, 2))
    options = {"members": 1, "terms": 1, "density": 0, "features": 20, "retention": "pool", "random_state": 0}
    model = AtlasRegressor(**options).fit(X, X[:, 0] * X[:, 1])
    print(
        f"{'updates':>9} {'bytes':>9} {'save s':>8} {'load s':>8} {'ns a row':>9} {'entries':>8}", flush=True
    )
    for number in range(1, updates + 1):
        X = random.random((5, 2))
        model.partial_fit(X, X[:, 0] * X[:, 1])
        if number >= 10 and (number == updates or str(number).strip("0") == "1"):
            size, save_time, load_time, row_time = long_costs(model)
            entries = len(model.model_.updates)
            print(
                f"{number:9,} {size:9,} {save_time:8.3f} {load_time:8.3f} {row_time:9.1f} {entries:8}",
                flush=True,
            )


def differing_bits(one, other):
    bits = one.predict(GRID).view(np.uint64) ^ other.predict(GRID).view(np.uint64)
    return int(np.bitwise_count(bits).sum()) if hasattr(np, "bitwise_count") else int((bits != 0).sum())


def compare():
    start, (X, y) = fitted("pool"), rows(600, 1)
    whole = copy.deepcopy(start).partial_fit(X, y)
    pieces = copy.deepcopy(start)
    for part in np.array_split(np.random.default_rng(2).permutation(600), 7):
        pieces.partial_fit(X[part], y[part])
    reverted = copy.deepcopy(start).partial_fit(*rows(300, 5)).partial_fit(X, y).revert(1)
    forgotten = copy.deepcopy(whole)
    for seed in range(10, 20):
        forgotten.partial_fit(*rows(50, seed))
    for seed in range(10, 20):
        forgotten.forget(*rows(50, seed))
    names = (
        "another order in seven pieces",
        "an update before it reverted",
        "ten updates after it forgotten",
    )
    for name, other in zip(names, (pieces, reverted, forgotten), strict=True):
        print(f"{name}: {differing_bits(whole, other)} bits differ of {64 * len(GRID):,}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--long", type=int, default=0, metavar="UPDATES")
    options = parser.parse_args()
    if options.long:
        live_long(options.long)
        return
    compare()
    for retention in ("pool", "auto"):
        live(retention, options.updates)


if __name__ == "__main__":
    main()
