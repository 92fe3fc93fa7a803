"""Peak memory and rows per second of the command on a table larger than what it holds in memory.

    python benchmarks/stream.py                    5 million rows of 6 columns
    python benchmarks/stream.py --rows 1000000     fewer
    python benchmarks/stream.py --format parquet   the same as Parquet

Each command runs in a process of its own. The table of the update is a tenth of the first one, from one box.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil

from atlas_splines.tables.encoding import frame
from atlas_splines.tables.writing import TableWriter

PIECE = 100_000
COMMAND = [sys.executable, "-c", "from atlas_splines.cli.app import app; app()"]


def write_table(path: Path, rows: int, low: float, high: float, shift: float) -> None:
    """Rows of a smooth function of six columns with noise, all columns between low and high."""
    random = np.random.default_rng(0)
    with TableWriter(str(path)) as writer:
        for start in range(0, rows, PIECE):
            X = low + (high - low) * random.random((min(PIECE, rows - start), 6))
            y = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + X[:, 3] * X[:, 4] + shift
            y += 0.1 * random.normal(size=len(X))
            writer.write(frame([*(f"x{j}" for j in range(6)), "y"], [*X.T.round(6), y.round(6)]))


def run(*arguments: str) -> tuple[float, float, str]:
    """Seconds, peak resident memory in MB, and output of a command."""
    start = time.perf_counter()
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True)
    peak = [0]

    def watch() -> None:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                peak[0] = max(peak[0], watched.memory_info().rss)
            except psutil.NoSuchProcess:
                return
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = process.communicate()
    watcher.join()
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - start, peak[0] / 2**20, output


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--format", choices=["csv", "parquet"], default="csv")
    parser.add_argument("--fit-options", default="", help="such as '--terms 10 --density 3'")
    options = parser.parse_args()
    seconds = min(run("--help")[0] for _ in range(5))
    print(f"atlas --help: {seconds:.2f} s (best of 5)", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        data, new = Path(f"data.{options.format}"), Path(f"new.{options.format}")
        write_table(data, options.rows, 0.0, 1.0, 0.0)
        write_table(new, options.rows // 10, 0.3, 0.5, 1.0)
        print(f"{data}: {options.rows:,} rows, {data.stat().st_size / 1e6:,.0f} MB", flush=True)
        commands = {
            "fit": (options.rows, ["fit", str(data), "--target", "y", *options.fit_options.split()]),
            "update": (options.rows // 10, ["update", "model.atlas", str(new)]),
            "predict": (options.rows, ["predict", "model.atlas", str(data), "-o", f"out.{options.format}"]),
        }
        for name, (rows, arguments) in commands.items():
            seconds, memory, output = run(*arguments)
            print(f"{name:8} {seconds:8.1f} s {rows / seconds:12,.0f} rows/s, peak memory {memory:,.0f} MB")
            print("    " + output.strip().replace("\n", "\n    "), flush=True)


if __name__ == "__main__":
    main()
