"""Time of a training step and of a prediction, as a ratio to a limit loop measured in the same run.

The limit loop does nothing but read the same rows, read-modify-write the same rows, evaluate the same
number of exponentials and update the touched rows once: no locating, no weights, no loss, no bookkeeping.

    python benchmarks/step.py              the ratios for n = 1, 2, 8
    python benchmarks/step.py --growth     and how the cost grows, as a table and docs/step.png
    python benchmarks/step.py --cold       and the time of the import and of the first call, without caches
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
from matplotlib.figure import Figure

from atlas_splines import Atlas
from atlas_splines.model import kernels
from atlas_splines.model.atlas import state_of
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.kernels import LANES, load, plus, store
from atlas_splines.model.train import OPTIMIZERS, fresh_moments

SAMPLES = 10_000


class Case:
    """A model half trained on random data, ready to run single epochs and predictions."""

    def __init__(
        self, inputs=8, terms=10, density=4, batch=100, outputs=1, optimizer="lazy-adam", fill=False
    ):
        random = np.random.default_rng(0)
        self.model = model = Atlas(inputs, outputs, terms, density)
        self.state = state = state_of(model)
        if fill:  # every frozen density has coefficients, as after expansions
            state.table[: state.first_trained_row] = 1e-3
            state.table[:, outputs * (2 * terms + 1) :] = 0
        X = random.random((SAMPLES, inputs)).astype(model.dtype)
        y = np.sin(5 * X.sum(axis=1, keepdims=True)).repeat(outputs, axis=1)
        frozen = np.zeros((SAMPLES if fill else 0, state.table.shape[1]), model.dtype)
        self.samples = kernels.Samples(X, y, np.ones(SAMPLES, model.dtype), frozen, frozen[:0, 0], y[:0])
        self.moments, self.batch = fresh_moments(model), batch
        self.batches = SAMPLES // batch
        self.order = random.permutation(SAMPLES)[: self.batches * batch]
        densities = np.array(state.trained_densities, np.int64)
        self.step = kernels.Step(kernels.MAE, OPTIMIZERS[optimizer], 0.01, densities, state.first_trained_row)
        self.filled = state.filled_densities(list(range(density + 1))) if fill else densities
        self.out = np.empty_like(y)
        for _ in range(3):
            self.train()

    def train(self):
        kernels.train_batches(
            self.state.table, self.state.layout, self.moments, self.samples, self.order, self.batch, self.step
        )

    def predict(self):
        kernels.predict(self.state.table, self.state.layout, self.filled, self.samples.inputs, self.out)


class Limit:
    """The limit loops for a case, with the rows of every sample worked out beforehand."""

    def __init__(self, case: Case):
        model, X = case.model, case.samples.inputs[case.order]
        self.case, self.table = case, state_of(model).table.copy()
        self.rows = np.empty(X.size, np.int32)
        weights = np.empty((4, X.size), model.dtype)
        kernels.locate(X.ravel(), model.inputs, model.density, self.rows, weights)
        per_batch = self.rows.reshape(-1, case.batch * model.inputs)
        touched = [np.unique(batch[:, None] + np.arange(4)) for batch in per_batch]
        self.touched = np.concatenate(touched).astype(np.int32)
        self.ends = np.cumsum([rows.size for rows in touched])
        self.moments = fresh_moments(model)
        self.moments.gradient[:] = self.moments.second[:] = 1e-3
        self.exponentials = 2 * model.terms * model.outputs

    def train(self):
        case = self.case
        limit_training(
            self.table, self.moments, self.rows, self.touched, self.ends, case.batch * case.model.inputs,
            case.batch * self.exponentials, case.step,
        )  # fmt: skip

    def predict(self):
        out = self.case.out[: self.rows.size // self.case.model.inputs]
        limit_prediction(self.table, self.rows, self.case.model.inputs, self.exponentials, out)


@numba.njit(error_model="numpy", fastmath={"contract"})
def read_rows(table, channels, rows, sums):
    """Read the four rows of each entry, nothing else."""
    for row in rows:
        first = row * channels
        for c in range(0, channels, LANES):
            total = plus(load(table, first + c), load(table, first + channels + c))
            total = plus(total, load(table, first + 2 * channels + c))
            total = plus(total, load(table, first + 3 * channels + c))
            store(sums, c, plus(load(sums, c), total))


@numba.njit(error_model="numpy", fastmath={"contract"})
def limit_training(table, moments, rows, touched, ends, per_batch, exponentials, step):
    channels = table.shape[1]
    gradient = moments.gradient.reshape(-1)
    sums, z = np.zeros(channels, table.dtype), np.zeros(exponentials, table.dtype)
    e = np.zeros_like(z)
    begin = 0
    for b in range(ends.size):
        batch = rows[b * per_batch : (b + 1) * per_batch]
        sums[:] = 0
        read_rows(table.reshape(-1), channels, batch, sums)
        kernels.exponential(z, e)
        for row in batch:
            for c in range(row * channels, (row + 4) * channels, LANES):
                store(gradient, c, plus(load(gradient, c), load(e, 0)))
        kernels.adam_rows(table, moments, step, touched[begin : ends[b]])
        begin = ends[b]


@numba.njit(error_model="numpy", fastmath={"contract"})
def limit_prediction(table, rows, inputs, exponentials, out):
    channels, block = table.shape[1], kernels.BLOCK
    sums, z = np.zeros(channels, table.dtype), np.zeros(block * exponentials, table.dtype)
    e = np.zeros_like(z)
    for begin in range(0, out.shape[0], block):
        end = min(begin + block, out.shape[0])
        sums[:] = 0
        read_rows(table.reshape(-1), channels, rows[begin * inputs : end * inputs], sums)
        kernels.exponential(z[: (end - begin) * exponentials], e)
        for i in range(begin, end):
            out[i] = sums[0] + e[0]


def best_times(runs: list[Callable[[], None]], rounds: int = 40) -> list[float]:
    """Shortest time of each run, taken in turns so that all meet the same disturbances."""
    best = [np.inf] * len(runs)
    for run in runs:
        run()  # compile
    for _ in range(rounds):
        for k, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def print_ratios() -> None:
    print("M = 10, r = 4, batch 100, float32, one thread")
    print(
        f"{'n':>3} {'step µs':>9} {'limit µs':>9} {'ratio':>6}   {'row ns':>7} {'limit ns':>9} {'ratio':>6}"
    )
    for inputs in (1, 2, 8):
        case = Case(inputs)
        limit = Limit(case)
        step, limit_step, row, limit_row = best_times([case.train, limit.train, case.predict, limit.predict])
        micro = 1e6 / case.batches
        print(
            f"{inputs:3d} {step * micro:9.2f} {limit_step * micro:9.2f} {step / limit_step:6.2f}"
            f"   {row / SAMPLES * 1e9:7.1f} {limit_row / SAMPLES * 1e9:9.1f} {row / limit_row:6.2f}"
        )


GROWTH = {
    "inputs": [1, 2, 4, 8, 16, 32, 64],
    "terms": [0, 2, 5, 10, 20, 40],
    "density": [0, 2, 4, 6, 8, 10],
    "batch": [10, 30, 100, 300, 1000, 3000],
    "outputs": [1, 2, 4, 8],
}


def print_growth(picture: Path) -> None:
    figure = Figure(figsize=(13, 7), layout="constrained")
    panels = figure.subplots(2, 3, sharey=True).ravel()
    print("\nGrowth from n = 8, M = 10, r = 4, batch 100, one output: µs per step, ns per predicted row")
    for axes, (name, values) in zip(panels, GROWTH.items(), strict=False):
        steps, limits, rows = [], [], []
        for value in values:
            case = Case(**{name: value})
            limit = Limit(case)
            step, limit_step, row = best_times([case.train, limit.train, case.predict], rounds=15)
            steps.append(step / case.batches * 1e6)
            limits.append(limit_step / case.batches * 1e6)
            rows.append(row / SAMPLES * 1e9)
        print(f"{name:>8} " + " ".join(f"{value:>8}" for value in values))
        print("    step " + " ".join(f"{value:8.1f}" for value in steps))
        print("   limit " + " ".join(f"{value:8.1f}" for value in limits))
        print("     row " + " ".join(f"{value:8.1f}" for value in rows))
        axes.plot(values, steps, "o-", color="black", label="training step, µs")
        axes.plot(values, limits, "^:", color="#d55e00", label="limit loop of the step, µs")
        axes.plot(values, rows, "s--", color="#0072b2", label="predicted row, ns")
        axes.set(xlabel=name, xscale="linear" if name == "density" else "symlog")
        axes.set_xticks(values, map(str, values))
    threads, rows = thread_times()
    panels[-1].plot(threads, rows, "s--", color="#0072b2")
    panels[-1].set(xlabel="threads (prediction, all five densities filled)", xticks=threads)
    for axes in panels:
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        axes.minorticks_off()
    panels[0].set_ylabel("time: µs per step, ns per row")
    panels[3].set_ylabel("time: µs per step, ns per row")
    panels[0].legend()
    figure.suptitle("Cost of a training step and of a prediction, from n = 8, M = 10, r = 4, batch 100")
    figure.savefig(picture, dpi=100)
    print(f"The plot is docs/{picture.name}.")


def thread_times() -> tuple[list[int], list[float]]:
    model = Case(8, fill=True).model
    X = np.random.default_rng(0).random((100_000, 8)).astype(np.float32)
    threads, rows = list(range(1, numba.config.NUMBA_NUM_THREADS + 1)), []
    print("\nPrediction of 100,000 rows with n = 8 and all five densities filled, by threads")
    for count in threads:
        numba.set_num_threads(count)
        (row,) = best_times([lambda: evaluate(state_of(model), X)], rounds=10)
        rows.append(row / len(X) * 1e9)
        print(f"{count} threads: {rows[-1]:.1f} ns per row")
    numba.set_num_threads(1)
    return threads, rows


def print_cold() -> None:
    first_call = (
        "import numpy as np; from atlas_splines import Atlas, train; train(Atlas(2), [[.1, .2]], [1.0])"
    )
    with tempfile.TemporaryDirectory() as empty:
        for name, code in (
            ("import atlas_splines", "import atlas_splines"),
            ("first training call", first_call),
        ):
            start = time.perf_counter()
            environment = os.environ | {"NUMBA_CACHE_DIR": empty}
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            print(f"{name}, no cache: {time.perf_counter() - start:.2f} s with Python's own start")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    numba.set_num_threads(1)
    print_ratios()
    if options.growth:
        print_growth(Path(__file__).parents[1] / "docs" / "step.png")
    if options.cold:
        print_cold()


if __name__ == "__main__":
    main()
