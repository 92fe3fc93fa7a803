"""What a thousand updates cost, as ratios: bytes of the file and time of a prediction after many updates over after ten.

    python benchmarks/life.py [--updates 1000]

Also counts the bits in which a pooled model of the same rows differs: in another order, in other pieces, and after
updates that were reverted or forgotten.
"""

import argparse
import copy
import tempfile
import time
from pathlib import Path

import numpy as np

from atlas_splines import AtlasRegressor, save

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
    options = parser.parse_args()
    compare()
    for retention in ("pool", "auto"):
        live(retention, options.updates)


if __name__ == "__main__":
    main()
