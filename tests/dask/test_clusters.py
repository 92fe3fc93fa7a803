"""What is said where workers, or the way to them, are lost: with real processes."""

import re
import subprocess
import sys
import time

import pytest
from distributed import KilledWorker

from atlas_splines.dask import clusters
from atlas_splines.dask.clusters import LostWorkersError, awaited, connected


def started(module, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments, "--no-dashboard"], stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def scheduler():
    """A scheduler in a process of its own, and its address."""
    process = started("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    address = next(filter(None, (re.search(r"tcp://127[\d.:]+", line) for line in process.stderr)))[0]
    yield process, address
    process.kill()
    process.communicate()


@pytest.fixture
def worker(scheduler):
    """A worker of this scheduler."""
    options = ["--no-nanny", "--nthreads", "1"]
    process = started("distributed.cli.dask_worker", scheduler[1], *options)
    yield process
    process.kill()
    process.communicate()


def wait_for_a_task(address, killed):
    """Connect, and kill a process while a worker is at a task."""
    with connected(None, address) as client:
        future = client.submit(time.sleep, 60)
        while not any(client.processing().values()):
            time.sleep(0.05)
        killed.kill()
        awaited(client, future, [])


@pytest.mark.slow
def test_what_is_gone_is_named(scheduler, worker, monkeypatch):
    process, address = scheduler
    monkeypatch.setattr(clusters, "PATIENCE", 100)  # processes start slowly on a busy machine
    monkeypatch.setattr(clusters, "GONE", 0.5)
    monkeypatch.setattr(clusters, "LOOK", 0.1)
    with pytest.raises(
        LostWorkersError, match=f"scheduler at {address} has lost all its workers, .* start some"
    ):
        wait_for_a_task(address, worker)
    with monkeypatch.context() as patch:
        patch.setattr(clusters, "PATIENCE", 1)
        sentence = (
            f"{address} has no workers, .* start some with `dask worker {address}`, and run the command"
        )
        with pytest.raises(LostWorkersError, match=sentence), connected(None, address):
            pass
    later = started("distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1")
    with pytest.raises(
        LostWorkersError, match=r"the Dask workers were lost \(.*\), and nothing was written; start"
    ):
        wait_for_a_task(address, process)
    later.kill()
    later.communicate()
    monkeypatch.setattr(clusters, "PATIENCE", 1)
    sentence = f"no Dask scheduler answers at {address}; start one with `dask scheduler`, or use --jobs"
    with pytest.raises(LostWorkersError, match=sentence), connected(None, address):
        pass


def test_workers_that_die_of_a_task_are_named():
    class Lost(KilledWorker):
        def __init__(self):
            super(Exception, self).__init__("lost")

    sentence = r"the Dask workers were lost \(Lost\), and nothing was written; start them again"
    with pytest.raises(LostWorkersError, match=sentence), clusters.naming_losses():
        raise Lost
    with (
        pytest.raises(LostWorkersError, match="install the same version of atlas-splines there"),
        clusters.naming_losses(),
    ):
        raise ModuleNotFoundError("No module named 'atlas_splines'")


def test_it_is_told_how_far_workers_are(client, monkeypatch):
    from dask.delayed import delayed

    monkeypatch.setattr(clusters, "LOOK", 0.05)
    told, leaves = [], [delayed(time.sleep, pure=False)(0.2) for _ in range(3)]
    assert awaited(client, client.compute(delayed(len)(leaves)), leaves, told.append) == 3
    assert told == sorted(told)
    assert told[0] < 3
    assert told[-1] == 3
