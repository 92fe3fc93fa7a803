"""The whole arena: tuning, runs, table, pictures and page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from atlas_splines.experiments.arena.csv_data import DataFile, check_data
from atlas_splines.experiments.arena.measures import scores
from atlas_splines.experiments.arena.methods import METHODS, STREAM_METHODS, check_names
from atlas_splines.experiments.arena.protocols import PROTOCOLS, Cell, Size, built_in_cells, csv_cell
from atlas_splines.experiments.arena.ranking import Results
from atlas_splines.experiments.arena.report import write_report
from atlas_splines.experiments.arena.runner import FOLDER, Record, RunKey, run
from atlas_splines.experiments.arena.stream_data import (
    BUILT_IN_STREAMS,
    StreamSource,
    check_stream,
    file_stream,
)
from atlas_splines.experiments.arena.streams import DEFAULT_METHODS, run_streams
from atlas_splines.experiments.arena.tuning import Choice, tune
from atlas_splines.experiments.jobs import RunError, result_path
from atlas_splines.files.writer import write_whole

__all__ = ["FULL", "QUICK", "Competition", "compete", "make_competition"]

STREAMS = 7  # the protocol that has batches instead of tasks
QUICK_CELLS = ("two tasks, n = 2", "ten boxes, n = 2", "five peaks", "diagonal, n = 2", "digits by class")


@dataclass(frozen=True)
class Competition:
    """What is run.

    Attributes
    ----------
    cells, methods
        Which columns and rows of the table of tasks.
    seeds
        Repetitions of each.
    size
        How large the tasks are.
    tuned
        Whether methods are tuned first; otherwise the first setting of each grid is used.
    streams, stream_methods
        Which streams, and which methods run on them, each with the first setting of its grid.
    """

    cells: tuple[Cell, ...]
    methods: tuple[str, ...] = tuple(METHODS)
    seeds: int = 10
    size: Size = field(default_factory=Size)
    tuned: bool = True
    streams: tuple[StreamSource, ...] = ()
    stream_methods: tuple[str, ...] = DEFAULT_METHODS

    def __post_init__(self) -> None:
        check_names(self.methods, METHODS)
        check_names(self.stream_methods, METHODS | STREAM_METHODS)

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

    def with_streams(
        self,
        files: Sequence[Path],
        targets: Sequence[str],
        order: Sequence[str],
        drop: Sequence[str],
        first: int | None = None,
        batch: int | None = None,
    ) -> Competition:
        """Stream tables in place of what is built in, if an order is given, and cut all streams as asked."""
        streams = self.streams
        if order and not files:
            raise ValueError("--stream-by orders the rows of a file; give it with --data")
        if order:
            target, by = (
                one_each(files, targets, "--target", ""),
                one_each(files, order, "--stream-by", "random"),
            )
            streams = tuple(
                file_stream(path, column, target=name, drop=tuple(drop))
                for path, name, column in zip(files, target, by, strict=True)
            )
        cut = [replace(each, first=first or each.first, batch=batch or each.batch) for each in streams]
        for stream in cut:
            check_stream(stream)
        return replace(self, streams=tuple(cut))


def one_each(files: Sequence[Path], given: Sequence[str], option: str, default: str) -> list[str]:
    """One value for each file."""
    if len(given) <= 1:
        return [*given, default][:1] * len(files)
    if len(given) != len(files):
        raise ValueError(
            f"{option} is given {len(given)} times for {len(files)} files; give it once or once a file"
        )
    return list(given)


FULL = Competition(tuple(built_in_cells()), streams=BUILT_IN_STREAMS)
QUICK = replace(
    FULL,
    cells=tuple(cell for cell in FULL.cells if cell.label in QUICK_CELLS),
    seeds=1,
    size=Size(samples=500, tests=200, tasks=3, steps=150),
    tuned=False,
    streams=(replace(BUILT_IN_STREAMS[0], first=500, most=1000),),
    stream_methods=("atlas-charts", "never", "boosting-reservoir", "mlp-partial-fit"),
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
    check_names(methods, METHODS | STREAM_METHODS)
    whole = QUICK if quick else FULL
    wanted = protocols or list(PROTOCOLS)
    on_tasks = tuple(name for name in methods or whole.methods if name in METHODS)
    return replace(
        whole,
        cells=tuple(cell for cell in whole.cells if cell.protocol in wanted and on_tasks),
        methods=on_tasks,
        seeds=seeds or whole.seeds,
        streams=whole.streams if STREAMS in wanted else (),
        stream_methods=tuple(methods) or whole.stream_methods,
    )


def compete(
    output: Path, competition: Competition, *, jobs: int = 1, scheduler: str | None = None
) -> Results:
    """Run what is missing; write the results, pictures and report.html; return the results.

    Parameters
    ----------
    output
        Folder for everything; a run that was stopped goes on where it was.
    competition
        What is run.
    jobs, scheduler
        Local processes, or the address of a Dask scheduler.
    """
    if not competition.cells and not competition.streams:
        raise ValueError(
            "there is nothing to run: protocol 5 needs --data, and methods for streams need protocol 7"
        )
    where: Any = {"jobs": jobs, "scheduler": scheduler}
    tasks, facts = run_tasks(output, competition, **where) if competition.cells else ([], {})
    streams: list[Record] = []
    if competition.streams:
        kinds, seeds = competition.stream_methods, range(competition.seeds)
        streams = run_streams(competition.streams, kinds, seeds, output, **where)
        facts |= stream_facts(competition)
    results = Results(tasks, streams)
    try:
        if streams:
            write_whole(output / "streams.json", json.dumps(streams).encode())
        if tasks:
            write_whole(output / "results.json", json.dumps(tasks).encode())
            write_whole(output / "results.csv", flat(tasks).encode())
        write_report(output, results, facts)
    except OSError as error:
        raise RunError(
            f"cannot write the report to {output}: {error.strerror}; the results are kept"
        ) from error
    return results


def run_tasks(
    output: Path, competition: Competition, *, jobs: int, scheduler: str | None
) -> tuple[list[Record], dict[str, str]]:
    """Tune and run; return all records, and what the page says about the run."""
    size = competition.size
    where: Any = {"jobs": jobs, "scheduler": scheduler}
    tuned = competition.tuned
    chosen = tune(output, competition.cells, competition.methods, size, **where) if tuned else {}
    keys = keys_of(competition, chosen)
    records = run(output, keys, size, **where)
    return records, task_facts(competition, [result_path(output / FOLDER, key) for key in keys])


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


def task_facts(competition: Competition, files: Sequence[Path]) -> dict[str, str]:
    """What the page says about the run of the tasks."""
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


def stream_facts(competition: Competition) -> dict[str, str]:
    """What the page says about the run of the streams."""
    counts = (len(competition.stream_methods), len(competition.streams), competition.seeds)
    cuts = (f"{each.label}: {each.first} rows, then {each.batch} each" for each in competition.streams)
    return {
        "runs on streams": "{} methods, {} streams, {} seeds; no tuning".format(*counts),
        "streams": "; ".join(cuts),
    }
