import io
import sys
from dataclasses import dataclass

import pytest

from atlas_splines.experiments import jobs
from atlas_splines.experiments.jobs import run_missing, without_bars


@dataclass(frozen=True)
class Job:
    name: str


@dataclass(frozen=True)
class Settings:
    factor: int = 2


def work(job, settings):
    return [settings.factor * len(job.name)]


def in_this_process(_, work, keys, common):
    return ((key, work(key, *common)) for key in keys)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "quiet", "shows"),
    [(Terminal, False, True), (Terminal, True, False), (io.StringIO, False, False)],
)
def test_a_bar_is_for_terminals_and_not_for_the_quiet(tmp_path, monkeypatch, stream, quiet, shows):
    monkeypatch.setattr(jobs, "_on_cores", in_this_process)  # others would have to find this file
    monkeypatch.setattr(sys, "stderr", stream())
    with without_bars(quiet):
        run_missing(tmp_path / "runs", [Job("one"), Job("other")], work, Settings())
    assert ("runs: 100%" in sys.stderr.getvalue()) is shows
    assert (sys.stderr.getvalue() == "") is not shows
    assert len(list((tmp_path / "runs").iterdir())) == 2
