"""The two benchmarks that guard a restructuring: the regression net, and the walk through the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def printed(script, *arguments, **environment):
    """The lines that a benchmark prints, run in a process of its own: it holds the clock, or traces all calls."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_net_is_the_same_in_another_process():
    chosen = ["--only", "few_rows", "--only", "theory"]
    heading, *lines = printed("net.py", *chosen, PYTHONHASHSEED="1")
    assert heading.split()[0] == "stage"
    assert [line.split()[0] for line in lines] == ["few_rows/fit", "few_rows/update", "theory/properties"]
    fit, update = (line.split()[1:] for line in lines[:2])
    assert len(fit) == len(update) == 7
    for column in range(3):  # fingerprint, version and predictions are those of the stage
        assert re.fullmatch("[0-9a-f]{10}", fit[column])
        assert fit[column] != update[column]
    full = printed("net.py", *chosen, "--full", PYTHONHASHSEED="2")
    assert [line for line in full[1:] if not line.startswith("    ")] == lines
    assert any(line.startswith("    predictions: (70,) ") for line in full)


@pytest.mark.slow
def test_the_walk_of_a_prediction():
    heading, line, *listed = printed("walk.py", "--only", "predict", "--modules")
    assert heading.split() == ["task", "modules", "lines", "calls", "switches", "pairs", "goals"]
    task, *counts = line.split()
    modules, lines, calls, switches, pairs = (int(count.replace(",", "")) for count in counts)
    assert task == "predict"
    entered = [each.split() for each in listed if " lines " in each]
    assert len(entered) == modules > 3
    assert sum(int(words[1].replace(",", "")) for words in entered) == lines
    assert sum(int(words[3].replace(",", "")) for words in entered) == calls
    assert not any("experiments" in words[0] or "cli" in words[0] for words in entered)
    crossed = [each.split() for each in listed if " -> " in each]
    assert sum(int(words[-2].replace(",", "")) for words in crossed) == switches >= pairs > 0
