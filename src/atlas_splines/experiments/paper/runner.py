"""Running the trials, and collecting what they return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.experiments.jobs import RunError, read_json, read_results, run_missing, write_json
from atlas_splines.experiments.paper.trials import Outcome, Settings, TrialKey, run_trial

__all__ = ["FOLDER", "collect", "run"]

FOLDER = "trials"
Pictures = dict[str, NDArray[np.floating]]


def run(
    output: Path, keys: list[TrialKey], settings: Settings, *, jobs: int = 1, scheduler: str | None = None
) -> None:
    """Run the trials that are not there yet, as `jobs.run_missing` does."""
    run_missing(
        output / FOLDER, keys, run_trial, settings, jobs=jobs, scheduler=scheduler, write=write_outcome
    )


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Write a trial; its rows come last, and say that it is done."""
    for name, picture in outcome.pictures.items():
        with path.with_name(f"{name.replace('/', '.')}.npy").open("wb") as file:
            np.save(file, picture)
    write_json(path, outcome.rows)


def collect(output: Path, keys: Iterable[TrialKey]) -> tuple[Any, Pictures]:
    """Put all trials into results.parquet; return them as a pandas frame, and the pictures."""
    import pandas

    results = pandas.DataFrame([row for rows in read_results(output / FOLDER, keys) for row in rows])
    for name, value in read_json(output / "run.json").items():
        results[name] = value
    try:
        results.to_parquet(output / "results.parquet", index=False, compression="zstd")
    except OSError as error:
        raise RunError(f"cannot write {output / 'results.parquet'}: {error.strerror}") from error
    files: Mapping[str, Path] = {p.stem.replace(".", "/"): p for p in (output / FOLDER).glob("*.npy")}
    return results, {name: np.load(path) for name, path in files.items()}
