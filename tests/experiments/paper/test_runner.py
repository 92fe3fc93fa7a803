import errno
import json
import os
import subprocess
import sys
import time

import pytest
from killing import kill_at_first_result

from atlas_splines.experiments import jobs
from atlas_splines.experiments.jobs import RunError, keep, result_path
from atlas_splines.experiments.paper.runner import collect, run, write_outcome
from atlas_splines.experiments.paper.trials import (
    Outcome,
    Settings,
    TrialKey,
)

pytestmark = pytest.mark.slow

TINY = Settings(epochs=2, samples=200)
KEYS = [TrialKey("main", n, 0.5, trial) for n in (1, 2) for trial in (0, 1)]


def listing(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "trials").iterdir()}


def test_finished_trials_are_not_run_again(tmp_path, monkeypatch):
    run(tmp_path, KEYS[:2], TINY)
    before = listing(tmp_path)
    run(tmp_path, KEYS, TINY)  # goes on with the rest
    assert len(before) == 2
    assert listing(tmp_path).items() >= before.items()
    after = listing(tmp_path)
    run(tmp_path, KEYS, TINY)
    assert listing(tmp_path) == after
    results, _ = collect(tmp_path, KEYS)
    assert len(results) == 4 * len(KEYS)
    assert (results.version == jobs.__version__).all()
    assert (results.samples == 200).all()
    assert (tmp_path / "results.parquet").exists()


def test_a_killed_run_goes_on(tmp_path):
    code = (
        "from pathlib import Path\n"
        "from atlas_splines.experiments.paper.runner import run\n"
        "from atlas_splines.experiments.paper.trials import Settings, TrialKey\n"
        "if __name__ == '__main__':\n"
        f"    keys = [TrialKey('main', 1, 0.5, t) for t in range(200)]\n"
        f"    run(Path({str(tmp_path)!r}), keys, Settings(epochs=2, samples=200))\n"
    )
    kill_at_first_result(code, tmp_path, tmp_path / "trials")
    done = list((tmp_path / "trials").glob("*.json"))
    assert 0 < len(done) < 200
    for path in done:
        assert len(json.loads(path.read_text(encoding="utf8"))) == 4  # none is half-written
    run(tmp_path, [TrialKey("main", 1, 0.5, t) for t in range(len(done) + 1)], TINY)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(epochs=3, samples=200), "holds results with epochs 2, not 3; choose another --output"),
        (Settings(epochs=2, samples=200, damping=10), "holds results with damping 0.0, not 10"),
    ],
)
def test_other_settings_are_refused(tmp_path, settings, message):
    run(tmp_path, KEYS[:1], TINY)
    with pytest.raises(RunError, match=message):
        run(tmp_path, KEYS[:1], settings)


def test_another_version_is_refused(tmp_path, monkeypatch):
    run(tmp_path, KEYS[:1], TINY)
    before = listing(tmp_path)
    monkeypatch.setattr(jobs, "__version__", "99.0")
    with pytest.raises(RunError, match=r"holds results with version '.*', not '99.0'"):
        run(tmp_path, KEYS, TINY)
    assert listing(tmp_path) == before


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf8")
    with pytest.raises(RunError, match=r"cannot write to .*file: Not a directory; choose another --output"):
        run(tmp_path / "file", KEYS, TINY)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    run(tmp_path, KEYS[:1], TINY)
    before = listing(tmp_path)

    def full(file_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left on device; finished trials are kept"):
        keep(result_path(tmp_path / "trials", KEYS[1]), Outcome([{"a": 1}], {}), write_outcome)
    assert listing(tmp_path) == before


def test_a_damaged_file_is_named(tmp_path):
    run(tmp_path, KEYS[:1], TINY)
    path = tmp_path / "trials" / f"{KEYS[0].name}.json"
    path.write_text("[{", encoding="utf8")
    with pytest.raises(RunError, match=r"main-n1-w0.5-t00.json is damaged; remove it and run again"):
        collect(tmp_path, KEYS[:1])


def test_no_scheduler_is_named(tmp_path):
    with pytest.raises(RunError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        run(tmp_path, KEYS, TINY, scheduler="tcp://127.0.0.1:1")


@pytest.fixture
def cluster(tmp_path):
    """A Dask scheduler and two worker processes on this machine."""
    address_file = tmp_path / "scheduler.json"
    dask = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
    ]
    worker = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([*dask, "--scheduler-file", str(address_file)], **quiet)]
    deadline = time.monotonic() + 60
    while not address_file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    address = json.loads(address_file.read_text(encoding="utf8"))["address"]
    processes += [subprocess.Popen([*worker, address], **quiet) for _ in range(2)]
    yield address, processes[1:]
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_dask_worker_loses_no_trial(tmp_path, cluster, monkeypatch):
    address, workers = cluster
    keys = [TrialKey("main", 1, 0.5, trial) for trial in range(30)]
    saved, real_keep = [], jobs.keep

    def keep_and_kill(path, outcome, write):
        saved.append(path.stem)
        if len(saved) == 3:
            workers[0].kill()
        real_keep(path, outcome, write)

    monkeypatch.setattr(jobs, "keep", keep_and_kill)
    run(tmp_path / "out", keys, TINY, scheduler=address)
    assert workers[0].wait() != 0
    assert sorted(saved) == [key.name for key in keys]  # each once
    results, _ = collect(tmp_path / "out", keys)
    assert len(results) == 4 * len(keys)


def test_a_reproduction_writes_a_report_and_draws_again_without_recomputing(tmp_path, monkeypatch):
    from atlas_splines.experiments.paper import report as page_of_figures
    from atlas_splines.experiments.paper import reproduction

    few = page_of_figures.DRAWINGS[::8]  # the page with all of them has tests of its own
    monkeypatch.setattr(page_of_figures, "DRAWINGS", few)
    monkeypatch.setattr(reproduction, "all_keys", lambda trials: [*KEYS[:2], TrialKey("C", 2, 0.1, 0)])
    report = reproduction.reproduce(tmp_path, 1, TINY)
    before = listing(tmp_path)
    page = report.read_text(encoding="utf8")
    assert "adam, damping 0, 2 epochs a task" in page
    report.unlink()
    assert reproduction.reproduce(tmp_path, 1, TINY) == report
    assert report.exists()
    assert listing(tmp_path) == before
