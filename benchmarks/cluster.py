"""Rows a second on a Dask cluster, memory, and errors, beside XGBoost on Dask at its defaults.

    python benchmarks/cluster.py --rows 100000 1000000 --workers 1 2

Rows of Friedman's first function with noise of one are made on the workers, so that no table is stored. Each
line is a run of its own: a scheduler, workers of one thread, and a client, each a process. Time is told in
seconds by the clock and in seconds of processors; peaks of memory are those of whole processes. The error is
that on new rows without noise, in standard deviations of the target. Needs the extras `dask` and `bench`.
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
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client

COLUMNS = 10
PARTITION = 250_000  # rows
TEST_ROWS = 100_000


def friedman(X):
    return 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def made(block, block_info=None):
    """Inputs of a block, made from its number."""
    number = block_info[None]["chunk-location"][0]
    return np.random.default_rng([1, number]).random((len(block), COLUMNS))


def noisy(X, block_info=None):
    number = block_info[0]["chunk-location"][0]
    return friedman(X) + np.random.default_rng([2, number]).normal(size=len(X))


def table(rows):
    """Inputs and targets, lazily."""
    sizes = da.zeros((rows, COLUMNS), chunks=(PARTITION, COLUMNS), dtype=np.int8)
    X = sizes.map_blocks(made, dtype=float)
    return X, X.map_blocks(noisy, dtype=float, drop_axis=1)


def fit_atlas(client, rows, parts, **options):
    from atlas_splines.dask import DaskAtlasRegressor

    class Timed(DaskAtlasRegressor):
        """Tells how long each part takes."""

        def _sketch(self, *arguments):
            return timed(parts, "sample", super()._sketch, *arguments)

        def _summed(self, *arguments):
            return timed(parts, "sums", super()._summed, *arguments)

    return Timed(client=client, random_state=0, **options).fit(*table(rows)).to_local().predict


def fit_fewer(client, rows, parts):
    return fit_atlas(client, rows, parts, features=150)


def fit_xgboost(client, rows, parts):
    from xgboost import dask as xgboost

    model = xgboost.DaskXGBRegressor(random_state=0)
    model.client = client
    model.fit(*table(rows))
    return model.get_booster().inplace_predict


def timed(parts, name, function, *arguments):
    start = time.perf_counter()
    answer = function(*arguments)
    parts[name] = round(time.perf_counter() - start, 2)
    return answer


METHODS = {"atlas": fit_atlas, "atlas-150": fit_fewer, "xgboost": fit_xgboost}


def used():
    """Seconds of processors, and the peak of memory in MB, of this process."""
    return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def moved(dask_worker):
    """Bytes that a worker has sent to others and to the client."""
    return dask_worker.transfer_outgoing_bytes_total


def run_one(method, rows, workers, address):
    """One fit on a cluster that is there, in this process."""
    with Client(address) as client:
        client.wait_for_workers(workers)
        client.run(
            __import__, "xgboost.dask" if method == "xgboost" else "atlas_splines.dask"
        )  # no part of it
        before = {"client": used()[0], "workers": sum(cpu for cpu, _ in client.run(used).values())}
        parts, start = {}, time.perf_counter()
        predict = METHODS[method](client, rows, parts)
        seconds = time.perf_counter() - start
        there = client.run(used)
        X = np.random.default_rng(3).random((TEST_ROWS, COLUMNS))
        truth = friedman(X)
        error = np.sqrt(np.mean((predict(X) - truth) ** 2)) / np.std(truth)
        return {
            "method": method,
            "rows": rows,
            "workers": workers,
            "seconds": round(seconds, 2),
            **parts,
            "client_cpu": round(used()[0] - before["client"], 2),
            "worker_cpu": round(sum(cpu for cpu, _ in there.values()) - before["workers"], 2),
            "moved_mb": round(sum(client.run(moved).values()) / 1e6, 1),
            "client_mb": round(used()[1]),
            "scheduler_mb": round(client.run_on_scheduler(used)[1]),
            "worker_mb": round(max(peak for _, peak in there.values())),
            "error": round(float(error), 4),
        }


def in_a_cluster(method, rows, workers):
    """One fit in processes of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        common = ["--scheduler-file", str(file), "--no-dashboard"]
        quiet = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "env": environment,
            "cwd": folder,
        }
        scheduler = [
            sys.executable,
            "-m",
            "distributed.cli.dask_scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
        ]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny"]
        processes = [subprocess.Popen([*scheduler, *common], **quiet)]
        processes += [subprocess.Popen([*worker, *common], **quiet) for _ in range(workers)]
        try:
            while not file.exists():
                time.sleep(0.1)
            address = json.loads(file.read_text())["address"]
            job = [
                "from cluster import run_one",
                f"print(__import__('json').dumps(run_one{(method, rows, workers, address)!r}))",
            ]
            done = subprocess.run(
                [sys.executable, "-c", "; ".join(job)],
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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args()
    for rows in options.rows:
        for method in options.methods:
            for workers in options.workers:
                print(json.dumps(in_a_cluster(method, rows, workers)), flush=True)


if __name__ == "__main__":
    main()
