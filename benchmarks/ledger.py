"""The ledger: what it costs to revert any update, to forget rows, and to choose the frame from a sample.

Each part prints seconds of one core, and ratios in the same run.

    python benchmarks/ledger.py revert [--updates 200]    revert of the first, a middle and the latest of many updates
    python benchmarks/ledger.py forget                    10 rows of a fit of 20,000, and of one of 60,000 outside its frame
    python benchmarks/ledger.py life [--updates 2000]     size of the file, time to load it and time of an update of one row,
                                                          late ÷ after 1,000 (medians of 5 loads and 200 updates)
    python benchmarks/ledger.py frame                     error and time of fits whose frame is chosen from fewer rows
"""

from __future__ import annotations

import argparse
import copy
import os
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import numpy as np

from atlas_splines import AtlasRegressor, load, save
from atlas_splines.estimators import ledger

EARLY = 1000  # updates after which a life is compared with itself later


def rows(count, seed, columns=6):
    """Rows of one world: a product, a kink and noise."""
    random = np.random.default_rng(seed)
    X = random.random((count, columns))
    y = np.sin(5 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2] - 0.5) + X[:, 3] + 0.1 * random.normal(size=count)
    return X, y


def seconds(deed):
    started = time.process_time()
    result = deed()
    return time.process_time() - started, result


def revert(updates):
    model = AtlasRegressor(random_state=0, n_jobs=1).fit(*rows(3000, 0))
    learning = [seconds(lambda k=k: model.partial_fit(*rows(50, k)))[0] for k in range(1, updates + 1)]
    print(f"fit of 3,000 rows, then {updates} updates of 50 rows: {np.median(learning):.3f} s each")
    fresh = AtlasRegressor(random_state=0, n_jobs=1).fit(*rows(3000, 0))
    for number in (1, updates // 2, updates - 3, updates):
        took, without = seconds(lambda number=number: copy.deepcopy(model).revert(number))
        print(f"  revert of update {number:4}: {took:6.2f} s, {took / np.median(learning):6.1f} updates")
        if number == updates // 2:
            expected = copy.deepcopy(fresh)
            for k in range(1, updates + 1):
                if k != number:
                    expected.partial_fit(*rows(50, k))
            probes = rows(500, 99)[0]
            same = np.array_equal(without.predict(probes), expected.predict(probes))
            print(f"    the bits of a life without it: {same}")


def forget(_):
    for count in (20_000, 60_000):
        X, y = rows(count, 0)
        took, model = seconds(lambda X=X, y=y: AtlasRegressor(random_state=0, n_jobs=1).fit(X, y))
        framed = ledger.framed_rows(model.ledger_.fit)
        gone = np.flatnonzero(~framed)[:10] if not framed.all() else np.arange(10)
        again, _ = seconds(lambda model=model, X=X, y=y, gone=gone: model.forget(X[gone], y[gone]))
        where = "outside" if not framed.all() else "inside"
        print(
            f"{count:,} rows: fit {took:.2f} s; forgetting 10 {where} its frame {again:.2f} s, {again / took:.2f}"
        )


def life(updates):
    model = AtlasRegressor(random_state=0, n_jobs=1, max_rows=1000).fit(*rows(990, 0))
    X, y = rows(updates, 1)
    marks = [EARLY * 10**k for k in range(9) if EARLY * 10**k < updates] + [updates]
    times, found = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for k in range(updates):
            took, _ = seconds(lambda k=k: model.partial_fit(X[k : k + 1], y[k : k + 1]))
            times.append(took)
            if k + 1 in marks:
                path = Path(folder) / "m.atlas"
                save(model, path)
                loading = [seconds(lambda path=path: load(path))[0] for _ in range(5)]
                found[k + 1] = np.array([path.stat().st_size, np.median(loading), np.median(times[-200:])])
                size, load_time, update_time = found[k + 1]
                line = (
                    f"{size:,.0f} bytes, load {1000 * load_time:.1f} ms, update {1000 * update_time:.2f} ms"
                )
                print(f"after {k + 1:,} updates of one row: {line}", flush=True)
    early, late = found[min(found)], found[max(found)]
    ratios = ", ".join(
        f"{name} {r:.2f}" for name, r in zip(("size", "load", "update"), late / early, strict=True)
    )
    print(f"after {max(found):,} updates of one row ÷ after {min(found):,}: {ratios}")


def frame(_):
    X, y = rows(60_000, 0)
    test = rows(5_000, 1)
    first = None
    for most in (60_000, 50_000, 20_000, 10_000, 5_000):
        with patch.object(ledger.framed_rows, "__defaults__", (replace(ledger.FRAME_RULES, most_rows=most),)):
            took, model = seconds(lambda: AtlasRegressor(random_state=0, n_jobs=1).fit(X, y))
        error = float(np.sqrt(np.mean((model.predict(test[0]) - test[1]) ** 2)))
        first = first or (error, took)
        print(
            f"frame of {most:6,} rows: RMSE {error:.4f} ({error / first[0]:.3f}), {took:.1f} s ({took / first[1]:.2f})"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["revert", "forget", "life", "frame"])
    parser.add_argument("--updates", type=int)
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    usual = {"revert": 200, "life": 2000}
    globals()[chosen.part](chosen.updates or usual.get(chosen.part))


if __name__ == "__main__":
    main()
