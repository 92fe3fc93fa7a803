"""`atlas paper`: run every experiment of the paper, and write a report."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from atlas_splines.cli.messages import Say, fail
from atlas_splines.cli.output import Facts

__all__ = ["reproduce_paper"]


def reproduce_paper(
    output: Path, trials: int, *, jobs: int, scheduler: str | None, quiet: bool, say: Say, **settings: Any
) -> Facts:
    """Run the experiments that are missing, draw the figures, and tell where the report is."""
    if find_spec("pandas") is None:
        fail("this command needs more packages: pip install 'atlas-splines[paper]'")
    from atlas_splines.experiments.jobs import RunError, without_bars
    from atlas_splines.experiments.paper.reproduction import reproduce
    from atlas_splines.experiments.paper.trials import Settings

    try:
        with without_bars(quiet):
            report = reproduce(output, trials, Settings(**settings), jobs=jobs, scheduler=scheduler)
    except RunError as error:
        fail(str(error))
    say(f"The report is {report}.")
    return {"report": report}
