"""Tuning: the same budget for every method, on seeds that are not reported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from atlas_splines.experiments.arena.measures import scores
from atlas_splines.experiments.arena.methods import MissingPackage, find
from atlas_splines.experiments.arena.protocols import Cell, Size
from atlas_splines.experiments.arena.runner import Record, RunKey, run
from atlas_splines.files.writer import write_whole

__all__ = ["Choice", "tune"]

Choice = dict[tuple[int, str], int]  # which setting of its grid a method uses in a protocol
SEEDS = (1000, 1001)  # one for each of the two problems
TASKS = 3  # a sequence is tuned on its beginning
FAILED = 1e6  # in place of an error


def tune(
    output: Path,
    cells: Sequence[Cell],
    methods: Sequence[str],
    size: Size,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
) -> Choice:
    """Choose a setting for each method and protocol, and write them to settings.json.

    Each setting of a method's grid is run on two problems of the protocol: its first and its last cell, with
    a seed each. The least geometric mean of the final errors wins.
    """
    trials = {}
    for protocol in sorted({cell.protocol for cell in cells}):
        among = [cell for cell in cells if cell.protocol == protocol]
        for method in methods:
            trials[protocol, method] = [
                [
                    RunKey(cell, method, setting, seed, min(TASKS, size.tasks))
                    for setting in range(settings_of(method))
                ]
                for cell, seed in zip((among[0], among[-1]), SEEDS, strict=True)
            ]
    keys = [key for problems in trials.values() for settings in problems for key in settings]
    keys.sort(key=lambda key: (key.cell.name, key.seed))  # a process makes the data of a problem once
    records = dict(
        zip(keys, run(output, keys, size, jobs=jobs, scheduler=scheduler, title="tuning"), strict=True)
    )
    chosen = {pair: best_setting(problems, records) for pair, problems in trials.items()}
    listed = {f"protocol {p}, {method}": dict(grid(method)[k]) for (p, method), k in chosen.items()}
    write_whole(output / "settings.json", json.dumps(listed, indent=1).encode())
    return chosen


def grid(method: str) -> list[dict[str, object]]:
    """Settings of a method; one empty setting if its package is missing."""
    try:
        return [dict(settings) for settings in find(method).GRID]
    except MissingPackage:
        return [{}]


def settings_of(method: str) -> int:
    """How many settings a method has."""
    return len(grid(method))


def best_setting(problems: Sequence[Sequence[RunKey]], records: dict[RunKey, Record]) -> int:
    """The setting with the least mean logarithm of the final error."""
    errors = [[final_error(records[key]) for key in settings] for settings in problems]
    return int(np.argmin(np.log(np.maximum(errors, 1e-9)).mean(axis=0)))


def final_error(record: Record) -> float:
    """The final error of a run, or a large number if there is none."""
    return scores(record)["final"] if record["status"] == "ok" else FAILED
