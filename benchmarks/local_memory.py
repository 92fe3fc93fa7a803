"""Local memory: what its rules are worth, how much a seed matters, what intervals hold, and what a model costs.

Each part prints a table of its own, with ratios in the same run. Tables are those of benchmarks/tabular (needs
`pip install '.[bench]'`), with a random fold held out; seconds are of one core.

    python benchmarks/local_memory.py seeds --data FOLDER       five seeds of each table, and of one with 32 columns of which 4 matter
    python benchmarks/local_memory.py rules --data FOLDER       error with other rules ÷ error with the rules there are
    python benchmarks/local_memory.py memory --data FOLDER      rows kept ÷ sums alone
    python benchmarks/local_memory.py intervals --data FOLDER   share of fresh rows in intervals of 90 %
    python benchmarks/local_memory.py cost                      fit, predict and file of 100,000 rows × 30
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
sys.path.insert(0, str(Path(__file__).parent / "tabular"))

import numpy as np
import pandas as pd
from table_sets import TABLES, load

from atlas_splines import AtlasRegressor, save
from atlas_splines.memory import laplace_kernel, stacking

NUMBERS = [
    *("power-plant", "kin8nm", "energy", "bike", "airfoil", "kc-house", "diabetes", "friedman1", "computers"),
    *("concrete", "deliveries", "houses"),
]


def wide(rows=2000, seed=0):
    """A table of 32 columns of which four matter: a product, a kink and a step."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 32))
    y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 2 * (X[:, 3] > 0.5) + 0.2 * random.normal(size=rows)
    return pd.DataFrame(X).rename(columns="x{}".format), y


def table(name, folder):
    return wide() if name == "wide" else load(name, folder)


def split(X, y, seed=0):
    fold = np.random.default_rng(seed).permutation(len(y)) % 5 == 0
    return (X[~fold], y[~fold]), (X[fold], y[fold])


def error(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)) / np.std(y))


def fitted(X, y, seed=0, **options):
    return AtlasRegressor(missing="learn", n_jobs=1, random_state=seed, **options).fit(X, y)


def seeds(names, folder):
    """Five seeds of a fit: how far the largest error is above the smallest."""
    print(f"{'':14}{'mean':>8}{'largest ÷ smallest':>22}")
    for name in [*names, "wide"]:
        known, new = split(*table(name, folder))
        errors = [error(fitted(*known, seed), *new) for seed in range(5)]
        print(f"{name:14}{np.mean(errors):8.4f}{max(errors) / min(errors):22.3f}", flush=True)


@contextmanager
def rules_of(stacked=None, kernel=None):
    """Fit with other rules."""
    with (
        patch.object(stacking, "STACKING_RULES", replace(stacking.STACKING_RULES, **(stacked or {}))),
        patch.object(laplace_kernel, "KERNEL_RULES", replace(laplace_kernel.KERNEL_RULES, **(kernel or {}))),
        patch.object(
            laplace_kernel, "FEW_POINTS_RULES", replace(laplace_kernel.FEW_POINTS_RULES, **(kernel or {}))
        ),
        patch.object(
            stacking.stack,
            "__kwdefaults__",
            stacking.stack.__kwdefaults__ | {"rules": replace(stacking.STACKING_RULES, **(stacked or {}))},
        ),
    ):
        yield


CHOICES = {
    "boxes of 500": {"stacked": {"box_rows": 500}},
    "boxes of 2000": {"stacked": {"box_rows": 2000}},
    "no dense samples": {"kernel": {"dense_samples": 0}},
    "few samples": {"kernel": {"scattered_samples": 1, "dense_samples": 3, "dense_rows": 120, "steps": 10}},
    "30 steps": {"kernel": {"steps": 30}},
    "no factors": {"kernel": {"length_factors": (1.0,), "noise_factors": (1.0,)}},
    "free shares": {"stacked": {"share_deviation": 100.0}},
}


def rules(names, folder):
    """Errors and seconds with other rules, as ratios to the rules there are."""
    print(f"{'':14}" + "".join(f"{name:>20}" for name in CHOICES))
    ratios = []
    for name in names:
        known, new = split(*table(name, folder))

        def measured(choice, known=known, new=new):
            with rules_of(**choice):
                started = time.process_time()
                model = fitted(*known)
                return error(model, *new), time.process_time() - started

        first = measured({})
        found = [np.divide(measured(choice), first) for choice in CHOICES.values()]
        ratios.append(found)
        print(f"{name:14}" + "".join(f"{e:12.3f}{f'({t:.1f} ×)':>8}" for e, t in found), flush=True)
    mean = np.exp(np.log(ratios).mean(axis=0))
    print(f"{'geometric mean':14}" + "".join(f"{e:12.3f}{f'({t:.1f} ×)':>8}" for e, t in mean))


def memory(names, folder):
    """Rows kept beside sums alone."""
    ratios = []
    for name in names:
        known, new = split(*table(name, folder))
        errors = [error(fitted(*known, memory=kind), *new) for kind in ("rows", "sums")]
        ratios.append(errors[0] / errors[1])
        print(f"{name:14}rows {errors[0]:.4f}  sums {errors[1]:.4f}  ratio {ratios[-1]:.3f}", flush=True)
    print(f"geometric mean {np.exp(np.mean(np.log(ratios))):.3f}")


def intervals(names, folder):
    """Share of fresh rows in intervals of 90 %, over three splits."""
    for name in names:
        held = []
        for seed in range(3):
            known, (X, y) = split(*table(name, folder), seed)
            low, high = fitted(*known).predict_interval(X, 0.9)
            held.append(np.mean((y >= low) & (y <= high)))
        print(f"{name:14}{np.mean(held):.3f}  off by {100 * (np.mean(held) - 0.9):+.1f} points", flush=True)


def cost(names, folder):
    """A large table: seconds beside HistGradientBoosting's, and the file beside its rows."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    random = np.random.default_rng(0)
    fitted(*(part[:3000] for part in wide(3000)))  # compiles
    for rows, columns in ((20_000, 18), (100_000, 30)):
        X = random.random((rows, columns))
        y = np.sin(5 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2] - 0.5) + 0.1 * random.normal(size=rows)
        seconds = []
        for model in (
            AtlasRegressor(random_state=0, n_jobs=1),
            HistGradientBoostingRegressor(random_state=0),
        ):
            started = time.process_time()
            model.fit(X, y)
            middle = time.process_time()
            model.predict(X[:20_000])
            seconds.append((middle - started, time.process_time() - middle))
            if isinstance(model, AtlasRegressor):
                with tempfile.TemporaryDirectory() as place:
                    save(model, Path(place) / "m.atlas")
                    size = (Path(place) / "m.atlas").stat().st_size
        fit, predict = np.divide(*seconds)
        room = 2 * 4 * rows * columns + 2e6
        print(
            f"{rows:,} × {columns}: fit {seconds[0][0]:.1f} s, ÷ HistGradientBoosting {fit:.1f}; predict ÷ {predict:.2f}; "
            f"file {size / 1e6:.1f} MB, {size / room:.2f} of twice the rows and 2 MB",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["seeds", "rules", "memory", "intervals", "cost"])
    parser.add_argument("--data", type=Path, help="folder with more tables")
    parser.add_argument("--table", nargs="+", default=NUMBERS)
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    there = [name for name in chosen.table if name == "wide" or not TABLES[name].missing(chosen.data)]
    globals()[chosen.part](there, chosen.data)


if __name__ == "__main__":
    main()
