"""The whole reproduction: trials, table, figures and report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from atlas_splines.experiments.jobs import RunError, result_path
from atlas_splines.experiments.paper.report import write_report
from atlas_splines.experiments.paper.runner import FOLDER, collect, run
from atlas_splines.experiments.paper.trials import Settings, all_keys

__all__ = ["reproduce"]


def reproduce(
    output: Path, trials: int, settings: Settings, *, jobs: int = 1, scheduler: str | None = None
) -> Path:
    """Run the trials that are missing, draw everything, and return the path of the report.

    Parameters
    ----------
    output
        Folder of results, figures and report.
    trials
        Trials of each cell of the main experiment, and of each experiment of the appendix.
    settings, jobs, scheduler
        As in `jobs.run_missing`.
    """
    keys = all_keys(trials)
    run(output, keys, settings, jobs=jobs, scheduler=scheduler)
    results, pictures = collect(output, keys)
    facts = facts_of(results, trials, settings, [result_path(output / FOLDER, key) for key in keys])
    try:
        return write_report(output, results, pictures, facts)
    except OSError as error:
        raise RunError(
            f"cannot write the report to {output}: {error.strerror}; the results are kept"
        ) from error


def facts_of(results: Any, trials: int, settings: Settings, files: list[Path]) -> dict[str, str]:
    """What the report says of the run: version, settings, and where the time went."""
    written = [file.stat().st_mtime for file in files]
    spent = results.groupby("model").seconds.sum().sort_values(ascending=False) / 60
    return {
        "version": f"atlas-splines {results.version.iloc[0]}",
        "trials": f"{trials} for each of 27 cells and 4 experiments of the appendix",
        "settings": f"{settings.optimizer}, damping {settings.damping:g}, {settings.epochs} epochs a task",
        "from the first trial to the last": f"{(max(written) - min(written)) / 60:.1f} minutes",
        "where the time goes": ", ".join(f"{model} {minutes:.1f} min" for model, minutes in spent.items())
        + " of one core, and the rest making targets and data",
    }
