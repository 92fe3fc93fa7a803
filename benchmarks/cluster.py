"""Rows a second on a Dask cluster, memory, and errors, beside XGBoost on Dask at its defaults.

    python benchmarks/cluster.py --rows 1e5 1e6 1e7 --workers 1 2 --noise 1 0

Rows of Friedman's first function of ten columns are made on the workers, so that no table is stored. Each line
is a run of its own: a scheduler, workers of one thread, and a client, each a new process that has nothing
but its imports behind it. Time is told in seconds by the clock and in seconds of processors; peaks of memory
are those of whole processes. The error is that on new rows without noise, in standard deviations of the target.
Runs that `--out` has already are not made again; at the end the goals are told for all runs in it.
Needs the extras `dask` and `bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client

COLUMNS = 10
PARTITION = 250_000  # rows
TEST_ROWS = 100_000
FEWEST_TO_COMPARE = 1_000_000  # rows, from which on cost is asked to be linear
LIBRARIES = {"atlas": "atlas_splines.dask", "xgboost": "xgboost.dask"}


# --- the table ----------------------------------------------------------------------------------------


def friedman(X):
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def made(block, block_info=None):
    """Inputs of a block, made from its number."""
    number = block_info[None]["chunk-location"][0]
    return np.random.default_rng([1, number]).random((len(block), COLUMNS))


def noisy(X, noise, block_info=None):
    number = block_info[0]["chunk-location"][0]
    return friedman(X) + noise * np.random.default_rng([2, number]).normal(size=len(X))


def table(rows, noise=1.0):
    """Inputs and targets, lazily."""
    sizes = da.zeros((rows, COLUMNS), chunks=(PARTITION, COLUMNS), dtype=np.int8)
    X = sizes.map_blocks(made, dtype=float)
    return X, X.map_blocks(noisy, noise, dtype=float, drop_axis=1)


# --- one run ------------------------------------------------------------------------------------------


def fit_atlas(client, X, y, told):
    """Fit at the defaults; returns what predicts, and tells how long each part took."""
    from atlas_splines.dask import DaskAtlasRegressor
    from atlas_splines.model.atlas import state_of

    class Timed(DaskAtlasRegressor):
        def _sketch(self, *arguments):
            return timed(told, "sample", super()._sketch, *arguments)

        def _summed(self, *arguments):
            return timed(told, "sums", super()._summed, *arguments)

    local = Timed(client=client, random_state=0).fit(X, y).to_local()
    told["features"] = len(state_of(local.model_).pooled.features)
    return local.predict


def fit_xgboost(client, X, y, told):
    from xgboost import dask as xgboost

    model = xgboost.DaskXGBRegressor(random_state=0)
    model.client = client
    model.fit(X, y)
    return model.get_booster().inplace_predict


METHODS = {"atlas": fit_atlas, "xgboost": fit_xgboost}


def timed(told, name, function, *arguments):
    start = time.perf_counter()
    answer = function(*arguments)
    told[name] = round(time.perf_counter() - start, 2)
    return answer


def call_here(function, *arguments):
    return function(*arguments)


def used():
    """Seconds of processors, and the peak of memory in MB, of this process."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def moved(dask_worker):
    """Bytes that a worker has sent to others and to the client."""
    return dask_worker.transfer_outgoing_bytes_total


def run_one(method, rows, workers, noise, address):
    """One fit on a cluster that is there, in this process."""
    with Client(address) as client:
        client.wait_for_workers(workers)
        for everywhere in (client.run, client.run_on_scheduler, call_here):
            everywhere(__import__, LIBRARIES[method])  # no part of it
        before = {"client": used()[0], "workers": sum(cpu for cpu, _ in client.run(used).values())}
        told, start = {}, time.perf_counter()
        predict = METHODS[method](client, *table(rows, noise), told)
        seconds = time.perf_counter() - start
        client_cpu, there = used()[0] - before["client"], client.run(used)
        X = np.random.default_rng(3).random((TEST_ROWS, COLUMNS))
        truth = friedman(X)
        error = np.sqrt(np.mean((predict(X) - truth) ** 2)) / np.std(truth)
        return {
            "method": method,
            "rows": rows,
            "workers": workers,
            "noise": noise,
            "seconds": round(seconds, 2),
            "rows_a_second": round(rows / seconds),
            **told,
            "client_cpu": round(client_cpu, 2),
            "worker_cpu": round(sum(cpu for cpu, _ in there.values()) - before["workers"], 2),
            "moved_mb": round(sum(client.run(moved).values()) / 1e6, 1),
            "client_mb": round(used()[1]),
            "scheduler_mb": round(client.run_on_scheduler(used)[1]),
            "worker_mb": round(max(peak for _, peak in there.values())),
            "error": round(float(error), 4),
        }


def in_a_cluster(*run):
    """One fit in processes of its own: method, rows, workers, noise."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    paths = [str(Path(__file__).parent.resolve()), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        start = partial(
            subprocess.Popen,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=folder,
            start_new_session=True,  # each process is scheduled for itself
        )
        common = ["--scheduler-file", str(file), "--no-dashboard"]
        scheduler = ["dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        worker = ["dask_worker", "--nthreads", "1", "--no-nanny", "--memory-limit", "0"]
        processes = [start(command(*scheduler, *common))]
        processes += [start(command(*worker, *common)) for _ in range(run[2])]
        try:
            while not file.exists():
                time.sleep(0.1)
            job = "import json, sys; from cluster import run_one; print(json.dumps(run_one(*json.loads(sys.argv[1]))))"
            address = json.loads(file.read_text())["address"]
            done = subprocess.run(
                [sys.executable, "-c", job, json.dumps([*run, address])],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise SystemExit(done.stderr)
            return json.loads(done.stdout.splitlines()[-1])
        finally:
            for process in processes:
                process.kill()
                process.wait()


def command(program, *options):
    return [sys.executable, "-m", f"distributed.cli.{program}", *options]


# --- what was asked for -------------------------------------------------------------------------------


def goals(runs):
    """Each goal as a line with the ratio that was measured, from means of runs by their keys."""
    means = {key: mean_of(repeats) for key, repeats in sorted(runs.items())}
    ours = {key: run for key, run in means.items() if key[0] == "atlas"}
    lines = []
    for workers, noise in sorted({key[2:] for key in ours}):
        lines += linear(
            {key[1]: run for key, run in ours.items() if key[2:] == (workers, noise)}, workers, noise
        )
    for (_, rows, workers, noise), run in ours.items():
        at = f"({rows:,} rows, {workers} workers, noise {noise:g})"
        alone, other = ours.get(("atlas", rows, 1, noise)), means.get(("xgboost", rows, workers, noise))
        if workers > 1 and alone:
            lines.append(efficiency(alone, run, workers) + " " + at)
        if other:
            lines.append(beside(other, run) + " " + at)
    return lines


def mean_of(repeats):
    """The mean of each number of some runs."""
    numbers = [name for name, value in repeats[0].items() if not isinstance(value, str)]
    return {name: float(np.mean([run[name] for run in repeats])) for name in numbers}


def linear(runs, workers, noise):
    """How work and memory grow with the rows; runs by their rows."""
    large = [rows for rows in runs if rows >= FEWEST_TO_COMPARE]
    if len(large) < 2:
        return []
    few, many = runs[large[0]], runs[large[-1]]
    return [
        f"linear: {large[-1] / large[0]:,.0f} times the rows, "
        f"{many['worker_cpu'] / few['worker_cpu']:.1f} times the work, "
        f"{many['client_mb'] / few['client_mb']:.2f} times the client's memory "
        f"({large[0]:,} to {large[-1]:,} rows, {workers} workers, noise {noise:g})"
    ]


def efficiency(alone, run, workers):
    """How much of a worker more workers are worth, each."""
    whole = alone["seconds"] / run["seconds"] / workers
    passes = (alone["sample"] + alone["sums"]) / (run["sample"] + run["sums"]) / workers
    return (
        f"parallel efficiency: {whole:.2f} by the clock, {passes:.2f} of the passes over rows, "
        f"{alone['worker_cpu'] / run['worker_cpu']:.2f} by seconds of processors"
    )


def beside(other, run):
    """What XGBoost takes, over what is taken here."""
    work = [each["worker_cpu"] + each["client_cpu"] for each in (other, run)]
    return (
        f"XGBoost over Atlas: {other['seconds'] / run['seconds']:.2f} times the seconds, "
        f"{work[0] / work[1]:.2f} times the work, {other['error'] / run['error']:.1f} times the error"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--noise", type=float, nargs="+", default=[1.0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=1, help="runs of each kind; goals are of their means")
    parser.add_argument("--out", type=Path, help="lines of runs: those there are counted, others are added")
    options = parser.parse_args()
    runs = {}
    for line in options.out.read_text().splitlines() if options.out and options.out.exists() else []:
        run = json.loads(line)
        runs.setdefault(tuple(run[name] for name in ("method", "rows", "workers", "noise")), []).append(run)
    for key in product(options.methods, options.rows, options.workers, options.noise):
        while len(runs.setdefault(key, [])) < options.repeats:
            runs[key].append(in_a_cluster(*key))
            line = json.dumps(runs[key][-1])
            print(line, flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(line + "\n")
    print(*goals(runs), sep="\n")


if __name__ == "__main__":
    main()
