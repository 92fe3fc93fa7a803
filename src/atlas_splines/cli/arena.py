"""`atlas arena`: compare memory retention with other methods, and write a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from atlas_splines.cli.messages import Say, fail
from atlas_splines.cli.output import Facts
from atlas_splines.experiments.arena.competition import compete, make_competition
from atlas_splines.experiments.arena.report import findings, text_table
from atlas_splines.experiments.jobs import RunError, without_bars

__all__ = ["compare_methods"]


def compare_methods(
    output: Path,
    *,
    quick: bool,
    seeds: int | None,
    jobs: int,
    scheduler: str | None,
    methods: Sequence[str],
    protocols: Sequence[int],
    data: Sequence[Path],
    targets: Sequence[str],
    split_by: Sequence[str],
    stream_by: Sequence[str],
    stream_first: int | None,
    stream_batch: int | None,
    drop: Sequence[str],
    quiet: bool,
    say: Say,
) -> Facts:
    """Run what is missing, and tell the results and where the report is."""
    try:
        competition = make_competition(quick, seeds, methods, protocols)
        if split_by or not stream_by:
            competition = competition.with_data(data, targets, split_by, drop)
        competition = competition.with_streams(data, targets, stream_by, drop, stream_first, stream_batch)
        with without_bars(quiet):
            results = compete(output, competition, jobs=jobs, scheduler=scheduler)
    except (RunError, ValueError) as error:
        fail(str(error))
    report, found = output / "report.html", list(findings(results))
    for line in (*text_table(results).splitlines(), "", *found, f"The report is {report}."):
        say(line)
    return {"report": report, "findings": found}
