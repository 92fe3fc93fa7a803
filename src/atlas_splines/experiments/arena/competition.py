"""The whole arena: tuning, runs, table, pictures and page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from atlas_splines.experiments.arena.csv_data import DataFile, check_data
from atlas_splines.experiments.arena.measures import scores
from atlas_splines.experiments.arena.methods import METHODS
from atlas_splines.experiments.arena.protocols import PROTOCOLS, Cell, Size, built_in_cells, csv_cell
from atlas_splines.experiments.arena.ranking import Results
from atlas_splines.experiments.arena.report import write_report
from atlas_splines.experiments.arena.runner import FOLDER, Record, RunKey, run
from atlas_splines.experiments.arena.tuning import Choice, tune
from atlas_splines.experiments.jobs import RunError, result_path
from atlas_splines.files.writer import write_whole

__all__ = ["FULL", "QUICK", "Competition", "compete", "make_competition"]

QUICK_CELLS = ("two tasks, n = 2", "ten boxes, n = 2", "five peaks", "diagonal, n = 2", "digits by class")


@dataclass(frozen=True)
class Competition:
    """What is run.

    Attributes
    ----------
    cells, methods
        Which columns and rows.
    seeds
        Repetitions of each.
    size
        How large the tasks are.
    tuned
        Whether methods are tuned first; otherwise the first setting of each grid is used.
    """

    cells: tuple[Cell, ...]
    methods: tuple[str, ...] = tuple(METHODS)
    seeds: int = 10
    size: Size = field(default_factory=Size)
    tuned: bool = True

    def __post_init__(self) -> None:
        unknown = [name for name in self.methods if name not in METHODS]
        if unknown:
            raise ValueError(f"there is no method {unknown[0]!r}; there are {', '.join(METHODS)}")

    def with_data(
        self, files: Sequence[Path], targets: Sequence[str], splits: Sequence[str], drop: Sequence[str]
    ) -> Competition:
        """Add tables; targets and splits are given once for all files, or once for each."""
        target, split = (
            one_each(files, targets, "--target", ""),
            one_each(files, splits, "--split-by", "region"),
        )
        tables = [DataFile(*given, tuple(drop)) for given in zip(files, target, split, strict=True)]
        for table in tables:
            check_data(table)
        return replace(self, cells=(*self.cells, *map(csv_cell, tables)))


def one_each(files: Sequence[Path], given: Sequence[str], option: str, default: str) -> list[str]:
    """One value for each file."""
    if len(given) <= 1:
        return [*given, default][:1] * len(files)
    if len(given) != len(files):
        raise ValueError(
            f"{option} is given {len(given)} times for {len(files)} files; give it once or once a file"
        )
    return list(given)


FULL = Competition(tuple(built_in_cells()))
QUICK = replace(
    FULL,
    cells=tuple(cell for cell in FULL.cells if cell.label in QUICK_CELLS),
    seeds=1,
    size=Size(samples=500, tests=200, tasks=3, steps=150),
    tuned=False,
)


def make_competition(
    quick: bool, seeds: int | None, methods: Sequence[str], protocols: Sequence[int]
) -> Competition:
    """The full or the quick competition, perhaps with some methods and protocols only.

    Examples
    --------
    >>> len(make_competition(True, None, ["mlp"], [3]).cells)
    1
    """
    unknown = set(protocols) - set(PROTOCOLS)
    if unknown:
        raise ValueError(
            f"there is no protocol {min(unknown)}; there are {min(PROTOCOLS)} to {max(PROTOCOLS)}"
        )
    whole = QUICK if quick else FULL
    cells = tuple(cell for cell in whole.cells if not protocols or cell.protocol in protocols)
    return replace(whole, cells=cells, methods=tuple(methods) or whole.methods, seeds=seeds or whole.seeds)


def compete(
    output: Path, competition: Competition, *, jobs: int = 1, scheduler: str | None = None
) -> Results:
    """Run what is missing; write results.json, results.csv, pictures and report.html; return the results.

    Parameters
    ----------
    output
        Folder for everything; a run that was stopped goes on where it was.
    competition
        What is run.
    jobs, scheduler
        Local processes, or the address of a Dask scheduler.
    """
    if not competition.cells:
        raise ValueError("there is nothing to run: protocol 5 needs --data")
    chosen = (
        tune(output, competition.cells, competition.methods, competition.size, jobs=jobs, scheduler=scheduler)
        if competition.tuned
        else {}
    )
    keys = keys_of(competition, chosen)
    records = run(output, keys, competition.size, jobs=jobs, scheduler=scheduler)
    results = Results(records)
    try:
        write_whole(output / "results.json", json.dumps(records).encode())
        write_whole(output / "results.csv", flat(records).encode())
        write_report(
            output, results, facts_of(competition, [result_path(output / FOLDER, key) for key in keys])
        )
    except OSError as error:
        raise RunError(
            f"cannot write the report to {output}: {error.strerror}; the results are kept"
        ) from error
    return results


def keys_of(competition: Competition, chosen: Choice) -> list[RunKey]:
    """All runs; those on the same data stand together, so that a process makes it once."""
    return [
        RunKey(cell, method, chosen.get((cell.protocol, method), 0), seed, competition.size.tasks)
        for seed in range(competition.seeds)
        for cell in competition.cells
        for method in competition.methods
    ]


def flat(records: Sequence[Record]) -> str:
    """The records as CSV, with a line for each run and its scores instead of matrices."""
    lines = [
        {name: value for name, value in record.items() if name not in ("R", "S", "untrained", "changed")}
        | (scores(record) if record["status"] == "ok" else {})
        for record in records
    ]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def facts_of(competition: Competition, files: Sequence[Path]) -> dict[str, str]:
    """What the page says about the run."""
    written = [file.stat().st_mtime for file in files]
    size, counts = competition.size, (len(competition.methods), len(competition.cells), competition.seeds)
    tuning = "six settings for each method and protocol, on two problems with seeds of their own"
    return {
        "runs": "{}: {} methods, {} cells, {} seeds".format(len(files), *counts),
        "tasks": f"at most {size.samples} rows each; tests have {size.tests}",
        "tuning": tuning if competition.tuned else "none, the first setting of each method",
        "gradient steps": f"{size.steps} of 250 rows a task; ten times as many of 100 rows for ATLAS "
        "as in the paper, whose steps cost less; its estimators stop by themselves",
        "from the first run to the last": f"{(max(written) - min(written)) / 60:.1f} minutes",
    }
