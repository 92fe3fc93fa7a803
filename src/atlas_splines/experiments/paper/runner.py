"""Running the trials: in local processes or on a Dask cluster, each written when it is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from atlas_splines import __version__
from atlas_splines.experiments.jobs import RunError, prepare, read_json, run_jobs
from atlas_splines.experiments.paper.trials import Key, Outcome, Settings, run_trial
from atlas_splines.files.writer import write_whole

__all__ = ["collect", "run"]

Pictures = dict[str, NDArray[np.floating]]


def run(
    output: Path, keys: list[Key], settings: Settings, *, jobs: int = 1, scheduler: str | None = None
) -> None:
    """Run the trials that are not there yet; one that is killed is run again, none is counted twice.

    Parameters
    ----------
    output
        Folder of the results; a run that was stopped goes on where it was.
    keys
        Which trials.
    settings
        What is the same for all of them.
    jobs
        Local processes.
    scheduler
        Address of a Dask scheduler, to run there instead.
    """
    prepare(output, "trials", {"version": __version__, **asdict(settings)})
    missing = [key for key in keys if not trial_path(output, key).exists()]
    outcomes = run_jobs(run_trial, missing, settings, jobs=jobs, scheduler=scheduler)
    with tqdm(total=len(keys), initial=len(keys) - len(missing), desc="trials", unit="trial") as bar:
        for key, outcome in outcomes:
            save(output, key, outcome)
            bar.update()


# --- files -----------------------------------------------------------------------------------------------


def trial_path(output: Path, key: Key) -> Path:
    """Where the rows of a trial are."""
    return output / "trials" / f"{key.name}.json"


def save(output: Path, key: Key, outcome: Outcome) -> None:
    """Write a trial, whole or not at all; its rows come last, and say that it is done."""
    path = trial_path(output, key)
    try:
        for name, picture in outcome.pictures.items():
            target = path.with_name(f"{name.replace('/', '.')}.npy")
            with target.open("wb") as file:
                np.save(file, picture)
        write_whole(path, json.dumps(outcome.rows).encode())
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror}; finished trials are kept, so make room and run again"
        ) from error


def collect(output: Path, keys: Iterable[Key]) -> tuple[Any, Pictures]:
    """Put all trials into results.parquet; return them as a pandas frame, and the pictures."""
    import pandas

    rows = [row for key in keys for row in read_json(trial_path(output, key))]
    results = pandas.DataFrame(rows)
    for name, value in read_json(output / "run.json").items():
        results[name] = value
    try:
        results.to_parquet(output / "results.parquet", index=False, compression="zstd")
    except OSError as error:
        raise RunError(f"cannot write {output / 'results.parquet'}: {error.strerror}") from error
    files: Mapping[str, Path] = {p.stem.replace(".", "/"): p for p in (output / "trials").glob("*.npy")}
    return results, {name: np.load(path) for name, path in files.items()}
