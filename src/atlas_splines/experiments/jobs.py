"""Long runs of many small jobs: in local processes or on a Dask cluster, each written when it is done.

A run has a folder with a file for each job, named after its key. Beside the folder, ``run.json`` says how the
results were made.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tqdm.auto import tqdm

from atlas_splines import __version__
from atlas_splines.files.writer import write_whole

__all__ = [
    "RunError",
    "prepare",
    "read_json",
    "read_results",
    "result_path",
    "run_jobs",
    "run_missing",
    "without_bars",
]

ONE_THREAD = {name: "1" for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}

# Whether progress bars are unwanted, also on a terminal.
_without_bars: ContextVar[bool] = ContextVar("without_bars", default=False)


class RunError(Exception):
    """A folder, a disk or a cluster is not as it should be; the message says what to do."""


class Named(Protocol):
    """What tells a job from the others of its run."""

    @property
    def name(self) -> str:
        """Unique among the keys of a run."""


Job = TypeVar("Job", bound=Named)
Done = TypeVar("Done")


def run_missing(
    folder: Path,
    keys: Sequence[Job],
    work: Callable[[Job, Any], Done],
    settings: Any,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    write: Callable[[Path, Done], None] | None = None,
    title: str = "",
) -> None:
    """Run the jobs that are not there yet; one that is killed is run again, none is counted twice.

    Parameters
    ----------
    folder
        Where the results are; a run that was stopped goes on where it was.
    keys
        Which jobs.
    work
        A function of a module, called as ``work(key, settings)``.
    settings
        A dataclass: what is the same for all jobs. A folder holds results of one version and one setting.
    jobs
        Local processes.
    scheduler
        Address of a Dask scheduler, to run there instead.
    write
        Writes a result to a path; as JSON by default.
    title
        What the progress bar says; by default the name of the folder.
    """
    prepare(folder.parent, folder.name, {"version": __version__, **asdict(settings)})
    missing = [key for key in keys if not result_path(folder, key).exists()]
    done = run_jobs(work, missing, settings, jobs=jobs, scheduler=scheduler) if missing else iter(())
    bar: dict[str, Any] = {"desc": title or folder.name, "unit": folder.name.removesuffix("s")}
    bar["disable"] = _without_bars.get() or None  # None: where standard error is no terminal
    with tqdm(total=len(keys), initial=len(keys) - len(missing), **bar) as progress:
        for key, result in done:
            keep(result_path(folder, key), result, write or write_json)
            progress.update()


@contextmanager
def without_bars(wanted: bool) -> Iterator[None]:
    """Show no progress bars, if that is wanted."""
    before = _without_bars.set(wanted)
    try:
        yield
    finally:
        _without_bars.reset(before)


def run_jobs(
    work: Callable[..., Done], keys: Sequence[Job], *common: Any, jobs: int = 1, scheduler: str | None = None
) -> Iterator[tuple[Job, Done]]:
    """Call ``work(key, *common)`` for each key, and yield each key with its result as it is done.

    Parameters
    ----------
    work
        A function of a module, since other processes import it.
    keys
        One for each call.
    common
        Further arguments, the same for all.
    jobs
        Local processes.
    scheduler
        Address of a Dask scheduler, to run there instead.
    """
    if scheduler:
        return _on_cluster(scheduler, work, keys, common)
    return _on_cores(jobs, work, keys, common)


def _on_cores(
    jobs: int, work: Callable[..., Done], keys: Sequence[Job], common: tuple[Any, ...]
) -> Iterator[tuple[Job, Done]]:
    with one_thread_each(), ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        futures = {pool.submit(work, key, *common): key for key in keys}
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


def _on_cluster(
    address: str, work: Callable[..., Done], keys: Sequence[Job], common: tuple[Any, ...]
) -> Iterator[tuple[Job, Done]]:
    """Results from a Dask cluster; those of a worker that dies are computed by another."""
    from dask.distributed import Client
    from dask.distributed import as_completed as completed

    try:
        client = Client(address, timeout=10)
    except OSError as error:
        raise RunError(f"no Dask scheduler answers at {address}; start one with `dask scheduler`") from error
    with client:
        futures = {client.submit(work, key, *common, key=f"atlas-{key.name}"): key for key in keys}
        for future in completed(list(futures)):
            yield futures[future], future.result()
            future.release()


# --- files -----------------------------------------------------------------------------------------------


def prepare(output: Path, folder: str, made_by: Mapping[str, Any]) -> None:
    """Make the folders, or check that what is in them was made in the same way."""
    try:
        (output / folder).mkdir(parents=True, exist_ok=True)
        manifest = output / "run.json"
        if not manifest.exists():
            write_whole(manifest, json.dumps(made_by, indent=1).encode())
    except OSError as error:
        raise RunError(f"cannot write to {output}: {error.strerror}; choose another --output") from error
    found = read_json(manifest)
    for name, value in made_by.items():
        if found.get(name) != value:
            raise RunError(
                f"{output} holds results with {name} {found.get(name)!r}, not {value!r}; "
                "choose another --output, or remove the folder to start again"
            )


def result_path(folder: Path, key: Named) -> Path:
    """Where the result of a job is."""
    return folder / f"{key.name}.json"


def read_results(folder: Path, keys: Iterable[Named]) -> list[Any]:
    """Results of finished jobs, in the order of the keys."""
    return [read_json(result_path(folder, key)) for key in keys]


def keep(path: Path, result: Done, write: Callable[[Path, Done], None]) -> None:
    """Write a result, or say that those before it are kept."""
    try:
        write(path, result)
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror}; finished {path.parent.name} are kept, "
            "so make room and run again"
        ) from error


def write_json(path: Path, content: Any) -> None:
    """Write a file as JSON, whole or not at all."""
    write_whole(path, json.dumps(content).encode())


def read_json(path: Path) -> Any:
    """Content of a file, or one clear error."""
    try:
        return json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise RunError(f"{path} is damaged; remove it and run again") from error
