"""Accuracy and speed on tables, next to the best of other methods, everything at its defaults and on one thread.

Five folds at random (three of large tables), and by time where rows have an order. Errors are RMSE, MAE and the largest error in
standard deviations of the target, or the share of wrong classes and the log loss; seconds are of one core, for the fit and for
the prediction. Each result is kept in a file and not run again. Needs `pip install '.[bench]'`; what is missing is skipped.

    python benchmarks/tabular --data FOLDER                  power-plant.txt, kin8nm.txt, energy.txt, bike-hour.csv,
                                                             transformer-hourly.csv, and airfoil.csv, kc-house.csv and
                                                             telco.csv in FOLDER/tables too, if there; and what
                                                             TabArena has published in FOLDER/published
    python benchmarks/tabular --data FOLDER --redo atlas     ATLAS alone once more, next to the kept results of the others
    python benchmarks/tabular --method atlas boosting --table bike diamonds
    python benchmarks/tabular --report                       run nothing
"""

import argparse
import os
from pathlib import Path

from figures import save_figures
from opponents import METHODS
from page import page
from published import compare, read_kept
from runs import cells, read, rewrite, run
from summary import over_folds
from table_sets import TABLES

THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TABARENA = "tabarena.json"
OUTPUT = Path(__file__).parents[2] / "docs" / "tabular"


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with more tables")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of results, page and figures")
    parser.add_argument("--table", nargs="+", choices=TABLES, default=list(TABLES), help="these only")
    parser.add_argument("--method", nargs="+", choices=METHODS, help="these only; or those of --redo, or all")
    parser.add_argument(
        "--redo", nargs="+", choices=METHODS, default=[], help="forget the results of these first"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--unlimited", action="store_true", help="slow methods on large tables too")
    parser.add_argument("--report", action="store_true", help="only the report of what is there")
    chosen = parser.parse_args()
    chosen.method = chosen.method or chosen.redo or list(METHODS)
    return chosen


def there(chosen):
    """Tables and methods that can be run; says what is missing."""
    absent = {name: TABLES[name].missing(chosen.data) for name in chosen.table}
    for name, reason in absent.items():
        if reason:
            print(f"Table {name} is skipped: {reason} is missing.")
    for name in chosen.method:
        if not METHODS[name].installed:
            print(f"Method {name} is skipped: package {METHODS[name].package} is missing.")
    return [name for name in chosen.table if not absent[name]], [
        name for name in chosen.method if METHODS[name].installed
    ]


def run_missing(chosen, path):
    """Run what has no result yet, in processes with one thread each."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    tables, methods = there(chosen)
    kept = {
        cell: result
        for cell, result in read(path).items()
        if cell.method not in chosen.redo or cell.table not in tables
    }
    rewrite(path, kept)
    wanted = cells(tables, methods, chosen.data, chosen.unlimited)
    run([cell for cell in wanted if cell not in kept], path, chosen.data, chosen.jobs)
    rewrite(path, read(path))
    compare(chosen.data, chosen.output / TABARENA, methods, chosen.redo)


def report(folder, path):
    """Print the tables, and write them as a page with its figures."""
    results = read(path)
    if not results:
        raise SystemExit(f"{path} has no results: run without --report first.")
    lines = over_folds(results.values())
    text = page(lines, read_kept(folder / TABARENA))
    print(text)
    (folder / "README.md").write_text(text, encoding="utf8")
    save_figures(lines, folder)


def main():
    chosen = options()
    path = chosen.output / "results.jsonl"
    if not chosen.report:
        run_missing(chosen, path)
    report(chosen.output, path)


if __name__ == "__main__":
    main()
