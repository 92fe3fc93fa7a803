"""A walk through the package: which modules and folders a task takes a reader through.

python benchmarks/walk.py [--only partial_fit] [--modules]

For each task it prints how many modules of atlas_splines were entered (one of their functions was called; importing
one does not count), how many lines these have, how often a call led from one folder of the package to another, and how
many different pairs of functions did that: switches depend on loops too, pairs on the code alone. Goals are printed as
met or missed. --modules lists the modules with their lines, by how often they were called, and between which folders
the switches were.

Calls are those of Python functions, on all threads. A call from other code (numpy, scikit-learn) counts as one from
the last function of the package below it on the stack, and returns do not count. Compiled functions cannot be traced:
their module is entered through its wrappers in Python. Modules at the top of the package are the folder "top". Each
task is done once before, so that compiling, imports and caches are not part of it.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})  # before numpy is imported

import numpy as np

import atlas_splines

PACKAGE = Path(atlas_splines.__file__).resolve().parent
INSIDE = str(PACKAGE) + os.sep


@dataclass(frozen=True)
class Goal:
    """The largest numbers that a task may have: those that a restructuring set out to reach."""

    modules: int | None = None
    switches: int | None = None


GOALS = {
    "fit": Goal(modules=20),
    "partial_fit, pooled": Goal(modules=22),
    "partial_fit, chart": Goal(modules=22),
    "atlas update": Goal(modules=45, switches=300),
}


@dataclass
class Walk:
    """Calls of functions of the package, while it is active."""

    calls: Counter[str] = field(default_factory=Counter)
    switches: Counter[tuple[str, str]] = field(default_factory=Counter)
    pairs: set[tuple[CodeType, CodeType]] = field(default_factory=set)

    @property
    def lines(self) -> int:
        return sum(map(lines_of, self.calls))

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not is_walked(frame):
            return
        path = frame.f_code.co_filename
        self.calls[path] += 1
        below = frame.f_back
        while below is not None and not is_walked(below):
            below = below.f_back
        if below is not None:
            step = folder_of(below.f_code.co_filename), folder_of(path)
            if step[0] != step[1]:
                self.switches[step] += 1
                self.pairs.add((below.f_code, frame.f_code))


def is_walked(frame: FrameType) -> bool:
    """Whether a frame is of a function of the package, and not of a module or class that is being defined."""
    code = frame.f_code
    return code.co_filename.startswith(INSIDE) and bool(code.co_flags & inspect.CO_OPTIMIZED)


def folder_of(path: str) -> str:
    """The folder of the package that a file is in."""
    first, _, rest = path.removeprefix(INSIDE).partition(os.sep)
    return first if rest else "top"


def lines_of(path: str) -> int:
    with open(path, encoding="utf8") as file:
        return sum(1 for _ in file)


def walked(task: Callable[[], object]) -> Walk:
    """The walk of a task."""
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        task()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return walk


# --- tasks --------------------------------------------------------------------------------------------------


def rows(count: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    X = random.random((count, 3))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=count)


def changed(count: int, seed: int) -> tuple[Any, Any]:
    """Rows of a corner in which the target has changed."""
    X = 0.3 + 0.2 * rows(count, seed)[0]
    return X, 5 + X[:, 0]


def fitted() -> Any:
    from atlas_splines import AtlasRegressor

    return AtlasRegressor(random_state=0).fit(*rows(300, 0))


def updated(given: tuple[Any, Any], retention: str = "auto") -> Callable[[], object]:
    """The task of an update with these rows."""
    model = fitted().set_params(retention=retention)
    return lambda: model.partial_fit(*given)


def predicting() -> Callable[[], object]:
    model, X = fitted(), rows(100, 3)[0]
    return lambda: model.predict(X)


def reverting() -> Callable[[], object]:
    model = fitted().partial_fit(*rows(60, 1))
    return lambda: model.revert(1)


def command(*arguments: str) -> Callable[[], object]:
    """The task of a command, in this process and in the current folder."""
    from importlib import import_module

    text = (PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf8")
    line = next(line for line in text.splitlines() if line.startswith("atlas = "))
    module, _, name = line.split('"')[1].partition(":")

    def run() -> None:
        with (
            open(os.devnull, "w") as nothing,
            contextlib.redirect_stdout(nothing),
            contextlib.redirect_stderr(nothing),
        ):
            old, sys.argv = sys.argv, ["atlas", *arguments]
            try:
                getattr(import_module(module), name)()
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"atlas {' '.join(arguments)} ended with {end.code}") from None
            finally:
                sys.argv = old

    return run


def write_tables() -> None:
    for name, count, seed in (("old.csv", 300, 0), ("new.csv", 60, 1)):
        X, y = rows(count, seed)
        np.savetxt(name, np.c_[X, y], "%.4f", ",", header="a,b,c,price", comments="")


def fitting_a_table() -> Callable[[], object]:
    write_tables()
    return command("fit", "old.csv", "-t", "price", "-o", "m.atlas", "--force")


def updating_a_file() -> Callable[[], object]:
    fitting_a_table()()
    return command("update", "m.atlas", "new.csv", "-o", "n.atlas", "--force")


TASKS: dict[str, Callable[[], Callable[[], object]]] = {
    "fit": lambda: fitted,
    "partial_fit, pooled": lambda: updated(rows(60, 1)),
    "partial_fit, changed": lambda: updated(changed(60, 1)),
    "partial_fit, chart": lambda: updated(changed(60, 1), "chart"),
    "predict": predicting,
    "revert": reverting,
    "atlas fit": fitting_a_table,
    "atlas update": updating_a_file,
}


# --- running ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def temporary_folder() -> Iterator[None]:
    """Work in a folder that goes afterwards."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def verdict(walk: Walk, goal: Goal) -> str:
    """Which goals are met."""
    found = {"modules": len(walk.calls), "switches": walk.switches.total()}
    return ", ".join(
        f"{name} <= {most} {'met' if found[name] <= most else 'missed'}"
        for name, most in vars(goal).items()
        if most is not None
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAME", help="part of the name of a task")
    parser.add_argument("--modules", action="store_true", help="list the modules")
    options = parser.parse_args()
    chosen = {name: task for name, task in TASKS.items() if (options.only or "") in name}
    if not chosen:
        raise SystemExit(f"no task is named so; there are {'; '.join(TASKS)}")
    warnings.simplefilter("ignore")
    print(f"{'task':22} {'modules':>7} {'lines':>7} {'calls':>8} {'switches':>8} {'pairs':>6}  goals")
    with temporary_folder():
        for name, prepare in chosen.items():
            prepare()()
            walk = walked(prepare())
            counts = len(walk.calls), walk.lines, walk.calls.total(), walk.switches.total(), len(walk.pairs)
            numbers = "{:7,} {:7,} {:8,} {:8,} {:6,}".format(*counts)
            print(f"{name:22} {numbers}  {verdict(walk, GOALS.get(name, Goal()))}", flush=True)
            if options.modules:
                for path, count in walk.calls.most_common():
                    print(f"    {path.removeprefix(INSIDE):40} {lines_of(path):5,} lines {count:8,} calls")
                for (start, end), count in walk.switches.most_common():
                    print(f"    {start + ' -> ' + end:40} {count:8,} times")


if __name__ == "__main__":
    main()
