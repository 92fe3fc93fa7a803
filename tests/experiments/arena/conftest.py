import pytest

from atlas_splines.experiments import jobs


@pytest.fixture
def in_this_process(monkeypatch):
    """Run jobs here: processes take seconds to start, and would not see what a test changes."""

    def run_here(work, keys, *common, jobs=1, scheduler=None):
        return ((key, work(key, *common)) for key in keys)

    monkeypatch.setattr(jobs, "run_jobs", run_here)
