"""Running methods on problems: each run is written when it is done, and a failure is a result too."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from atlas_splines import TrainingDiverged, __version__
from atlas_splines.experiments.arena.measures import Diverged, evaluate
from atlas_splines.experiments.arena.methods import MissingPackage, find
from atlas_splines.experiments.arena.methods.base import Setup
from atlas_splines.experiments.arena.protocols import Cell, Size, make_problem
from atlas_splines.experiments.jobs import RunError, prepare, read_json, run_jobs
from atlas_splines.files.writer import write_whole

__all__ = ["Key", "Record", "run", "run_one"]

Record = dict[str, Any]
FOLDER = "runs"
CLASS_STEPS = 0.5  # of the steps on a task: digits are learned sooner
MESSAGE = 160  # characters of a failure that are kept


@dataclass(frozen=True)
class Key:
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
    keys: Sequence[Key],
    size: Size,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    title: str = "runs",
) -> list[Record]:
    """Run what is not there yet, and return all records in the order of the keys.

    Parameters
    ----------
    output
        Folder of the results; a run that was stopped goes on where it was.
    keys
        Which runs.
    size
        How large the tasks are; a folder holds runs of one size.
    jobs, scheduler
        Local processes, or the address of a Dask scheduler.
    title
        What the progress bar says.
    """
    prepare(output, FOLDER, {"version": __version__, **asdict(size)})
    missing = [key for key in keys if not record_path(output, key).exists()]
    done = run_jobs(run_one, missing, size, jobs=jobs, scheduler=scheduler) if missing else iter(())
    with tqdm(total=len(keys), initial=len(keys) - len(missing), desc=title, unit="run") as bar:
        for key, record in done:
            save(record_path(output, key), record)
            bar.update()
    return [read_json(record_path(output, key)) for key in keys]


def run_one(key: Key, size: Size) -> Record:
    """Run one method on one problem; whatever goes wrong is said in ``status``."""
    record: Record = {
        "protocol": key.cell.protocol,
        "cell": key.cell.label,
        "method": key.method,
        "seed": key.seed,
    }
    problem = make_problem(key.cell, key.seed, size_of(key, size))
    try:
        kind: Any = find(key.method)
        record["settings"] = dict(kind.GRID[key.setting])
        steps = round(size.steps * (CLASS_STEPS if problem.classes else 1))
        # one thread each: processes share the cores already, and small matrices gain nothing from more
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # an overflow shows in the result, and says so
            method = kind(Setup(problem.inputs, problem.classes, key.seed, steps), **record["settings"])
            record |= evaluate(problem, method)
    except MissingPackage as error:
        return record | {"status": f"missing: {error}"}
    except (Diverged, TrainingDiverged) as error:
        return record | {"status": f"diverged: {str(error)[:MESSAGE]}"}
    except Exception as error:
        return record | {"status": f"crashed: {type(error).__name__}: {str(error)[:MESSAGE]}"}
    return record | {"status": "ok"}


def size_of(key: Key, size: Size) -> Size:
    """The size with the number of tasks of a key."""
    return Size(**{**asdict(size), "tasks": key.tasks})


def record_path(output: Path, key: Key) -> Path:
    """Where a run is written."""
    return output / FOLDER / f"{key.name}.json"


def save(path: Path, record: Record) -> None:
    """Write a record, whole or not at all."""
    try:
        write_whole(path, json.dumps(record).encode())
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror}; finished runs are kept, so make room and run again"
        ) from error
