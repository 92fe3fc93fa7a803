"""Two processes give the result of one, and a run that loses one goes on to the same result."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "examples" / "torch_distributed.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def load_example():
    specification = importlib.util.spec_from_file_location("torch_distributed", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


example = load_example()


def start(folder, *options):
    """Start the example on two processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, str(SCRIPT), "--batch", "100", "--steps", "150", "--every", "10", *options]
    return subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "worker 0: step 150" in out


def result(path):
    saved = torch.load(path, weights_only=True)
    return saved["step"], saved["module"]["tables.3.weight"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    example.write_rows(folder / "atlas-rows.parquet", 30_000, group=10_000)
    return folder


def one_process(folder, sparse):
    """Coefficients after the same steps in this process."""
    run = example.Run(sparse, folder / "one.pt")
    run.train(example.Rows(folder / "atlas-rows.parquet", 100, 0, 1), 150, every=1000, rank=1, world=1)
    return run.module.tables["3"].weight.detach()


def check_same(path, expected):
    step, coefficients = result(path)
    assert step == 150
    torch.testing.assert_close(coefficients, expected, rtol=1e-3, atol=1e-4)
    assert coefficients.abs().max() > 0.1


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(folder):
    finish(start(folder, "--checkpoint", "dense.pt"))
    check_same(folder / "dense.pt", one_process(folder, sparse=False))


@pytest.mark.slow
def test_a_run_that_loses_a_worker_says_so_and_goes_on_to_the_same_result(folder):
    path = folder / "sparse.pt"
    process = start(folder, "--sparse", "--checkpoint", path.name)
    # two workers that print at once may share a line
    found = next(filter(None, (re.search(r"worker 1 is process (\d+)", line) for line in process.stdout)))
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    os.kill(int(found[1]), signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode != 0
    assert re.search(r"a worker was lost at step \d+: .*; the same command goes on from sparse.pt", errors)
    assert 0 < result(path)[0] < 150
    finish(start(folder, "--sparse", "--checkpoint", path.name))
    check_same(path, one_process(folder, sparse=True))


def test_a_process_sees_its_share_of_each_batch(folder):
    whole, *halves = (
        example.Rows(folder / "atlas-rows.parquet", 100, rank, world)
        for rank, world in [(0, 1), (0, 2), (1, 2)]
    )
    for step in (0, 150, 299, 300):
        X, y = whole.at(step)
        parts = [half.at(step) for half in halves]
        assert torch.equal(torch.cat([part[0] for part in parts]), X)
        assert torch.equal(torch.cat([part[1] for part in parts]), y)


def test_a_batch_that_cannot_be_shared_is_named(folder, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--batch", "101"])
    with pytest.raises(SystemExit, match="--batch 101 cannot be shared equally by 2 processes"):
        example.main()
