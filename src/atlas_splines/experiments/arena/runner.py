"""Running methods on problems: each run is written when it is done, and a failure is a result too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from atlas_splines import TrainingDiverged
from atlas_splines.experiments.arena.measures import Diverged, evaluate
from atlas_splines.experiments.arena.methods import MissingPackage, find
from atlas_splines.experiments.arena.methods.base import Setup
from atlas_splines.experiments.arena.protocols import Cell, Size, make_problem
from atlas_splines.experiments.jobs import read_results, run_missing

__all__ = ["FOLDER", "Record", "RunKey", "attempt", "run", "run_one"]

Record = dict[str, Any]
FOLDER = "runs"
CLASS_STEPS = 0.5  # of the steps on a task: digits are learned sooner
MESSAGE = 160  # characters of a failure that are kept


@dataclass(frozen=True)
class RunKey:
    """One run: a method, with a setting of its grid, on the problem of a cell and a seed."""

    cell: Cell
    method: str
    setting: int
    seed: int
    tasks: int  # at most so many

    @property
    def name(self) -> str:
        """File name of the result."""
        return f"{self.cell.name}-{self.method}-g{self.setting}-s{self.seed}-t{self.tasks}"


def run(
    output: Path,
    keys: Sequence[RunKey],
    size: Size,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    title: str = "",
) -> list[Record]:
    """Run what is missing, as `jobs.run_missing` does; return all records in the order of the keys."""
    folder = output / FOLDER
    run_missing(folder, keys, run_one, size, jobs=jobs, scheduler=scheduler, title=title)
    return read_results(folder, keys)


def run_one(key: RunKey, size: Size) -> Record:
    """Run one method on one problem; whatever goes wrong is said in ``status``."""
    record: Record = {
        "protocol": key.cell.protocol,
        "cell": key.cell.label,
        "method": key.method,
        "seed": key.seed,
    }
    problem = make_problem(key.cell, key.seed, size_of(key, size))
    steps = round(size.steps * (CLASS_STEPS if problem.classes else 1))

    def measure() -> Record:
        kind: Any = find(key.method)
        settings = dict(kind.GRID[key.setting])
        method = kind(Setup(problem.inputs, problem.classes, key.seed, steps), **settings)
        return {"settings": settings, **evaluate(problem, method)}

    return record | attempt(measure)


def attempt(measure: Callable[[], Record]) -> Record:
    """What was measured, with ``status``: ok, or what went wrong."""
    try:
        # one thread each: processes share the cores already, and small matrices gain nothing from more
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # an overflow shows in the result, and says so
            return measure() | {"status": "ok"}
    except MissingPackage as error:
        return {"status": f"missing: {error}"}
    except (Diverged, TrainingDiverged) as error:
        return {"status": f"diverged: {str(error)[:MESSAGE]}"}
    except Exception as error:
        return {"status": f"crashed: {type(error).__name__}: {str(error)[:MESSAGE]}"}


def size_of(key: RunKey, size: Size) -> Size:
    """The size with the number of tasks of a key."""
    return Size(**{**asdict(size), "tasks": key.tasks})
