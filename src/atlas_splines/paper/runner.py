"""Running the trials: in local processes or on a Dask cluster, each written when it is done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from atlas_splines import __version__
from atlas_splines.paper.trials import Key, Outcome, Settings, run_trial

__all__ = ["PaperError", "collect", "run"]

Pictures = dict[str, NDArray[np.floating]]
ONE_THREAD = {name: "1" for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


class PaperError(Exception):
    """A folder, a disk or a cluster is not as it should be; the message says what to do."""


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
    prepare(output, settings)
    missing = [key for key in keys if not trial_path(output, key).exists()]
    outcomes = on_cluster(scheduler, missing, settings) if scheduler else on_cores(jobs, missing, settings)
    with tqdm(total=len(keys), initial=len(keys) - len(missing), desc="trials", unit="trial") as bar:
        for key, outcome in outcomes:
            save(output, key, outcome)
            bar.update()


def on_cores(jobs: int, keys: list[Key], settings: Settings) -> Iterator[tuple[Key, Outcome]]:
    """Outcomes of the trials from local processes, as they are done."""
    with one_thread_each(), ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        futures = {pool.submit(run_trial, key, settings): key for key in keys}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes started meanwhile use one thread each: they share the cores already."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def on_cluster(address: str, keys: list[Key], settings: Settings) -> Iterator[tuple[Key, Outcome]]:
    """Outcomes of the trials from a Dask cluster; those of a worker that dies are run by another."""
    from dask.distributed import Client
    from dask.distributed import as_completed as completed

    try:
        client = Client(address, timeout=10)
    except OSError as error:
        raise PaperError(
            f"no Dask scheduler answers at {address}; start one with `dask scheduler`"
        ) from error
    with client:
        futures = {client.submit(run_trial, key, settings, key=f"atlas-{key.name}"): key for key in keys}
        for future in completed(list(futures)):
            yield futures[future], future.result()
            future.release()


# --- files -----------------------------------------------------------------------------------------------


def prepare(output: Path, settings: Settings) -> None:
    """Make the folder, or check that what is in it belongs to this run."""
    made_by = {"version": __version__, **asdict(settings)}
    try:
        (output / "trials").mkdir(parents=True, exist_ok=True)
        manifest = output / "run.json"
        if not manifest.exists():
            write_whole(manifest, json.dumps(made_by, indent=1).encode())
    except OSError as error:
        raise PaperError(f"cannot write to {output}: {error.strerror}; choose another --output") from error
    found = read_json(manifest)
    for name, value in made_by.items():
        if found.get(name) != value:
            raise PaperError(
                f"{output} holds results with {name} {found.get(name)!r}, not {value!r}; "
                "choose another --output, or remove the folder to start again"
            )


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
        raise PaperError(
            f"cannot write {path}: {error.strerror}; finished trials are kept, so make room and run again"
        ) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is never seen half-written."""
    scratch = path.with_suffix(".part")
    try:
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """Content of a file, or one clear error."""
    try:
        return json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise PaperError(f"{path} is damaged; remove it and run again") from error


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
        raise PaperError(f"cannot write {output / 'results.parquet'}: {error.strerror}") from error
    files: Mapping[str, Path] = {p.stem.replace(".", "/"): p for p in (output / "trials").glob("*.npy")}
    return results, {name: np.load(path) for name, path in files.items()}
