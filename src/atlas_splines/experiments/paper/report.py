"""The report: every figure, the tables behind them, and where we differ from the paper, on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

import numpy as np

from atlas_splines.experiments.drawings import NotInThisRun, Saved, save_all
from atlas_splines.experiments.page import Section, bullets, facts_html, figures_html, page_html, table_html
from atlas_splines.experiments.paper.differences import Difference, differences
from atlas_splines.experiments.paper.figures import DRAWINGS
from atlas_splines.experiments.paper.findings import findings
from atlas_splines.experiments.paper.results import (
    INPUTS,
    LETTERS,
    MODELS,
    Pictures,
    Table,
    TrialResults,
    mean_errors,
    pick,
    stack,
)
from atlas_splines.experiments.paper.trials import STAGES
from atlas_splines.experiments.style import count
from atlas_splines.files.writer import write_whole

__all__ = ["write_report"]

TITLE = "The ATLAS paper, reproduced"
INTRODUCTION = """\
Every experiment and figure of <i>ATLAS: Universal Function Approximator for Memory Retention</i> (van
Deventer and Bosman), computed again with atlas-splines, with our own additions beside them. Every number on
this page, in titles too, was computed in this run. MAE is the mean absolute error, n the
number of inputs, δ the width of the region that changes in Task 2, r the finest density and M the number of
pairs of exponentials."""


def write_report(output: Path, results: Table, pictures: Pictures, facts: Mapping[str, str]) -> Path:
    """Draw every figure and write the page.

    Parameters
    ----------
    output
        Folder for ``report.html``, and ``figures/`` with each figure as PNG and SVG.
    results
        A row for each model of each trial; a partial run is drawn as far as it goes.
    pictures
        Images of the trials that are shown, by name.
    facts
        What the page says about the run: version, time, settings.

    Returns
    -------
    path of the page
    """
    run = TrialResults(results, pictures)
    saved = save_all(DRAWINGS, run, output / "figures")
    path = output / "report.html"
    write_whole(path, page(results, facts, saved).encode())
    return path


def page(results: Table, facts: Mapping[str, str], saved: Mapping[str, Saved]) -> str:
    """Put the page together."""
    summary = bullets(findings(results)) or "<p>No trials are in this run yet.</p>\n"
    paper, ours, differ = (
        figures_html(DRAWINGS, saved, section, links=True) for section in ("paper", "ours", "differences")
    )
    sections = [
        Section("summary", "Summary", summary + facts_html(facts)),
        Section("paper", "The paper's figures", paper),
        Section("errors", "Mean test errors", errors_html(results) + appendix_html(results)),
        Section("ours", "Ours beside the paper's", ours),
        Section(
            "differences", "Where our result differs from the paper", differences_html(differences()) + differ
        ),
    ]
    return page_html(TITLE, TITLE, INTRODUCTION, sections)


def errors_html(results: Table) -> str:
    """Mean test errors on Task 2 by inputs, model and width, on noisy and on clean targets."""
    kinds = {"test_noisy": "noisy targets", "test_clean": "clean targets"}
    try:
        return "".join(error_table(mean_errors(results, column), name) for column, name in kinds.items())
    except NotInThisRun as missing:
        return f"<p>{escape(str(missing))}</p>\n"


def error_table(means: Table, name: str) -> str:
    """One table of means; the lowest of each cell is bold."""
    wide = means.pivot_table(index=["inputs", "model"], columns="width", values="mean")
    lowest = wide.groupby(level="inputs").transform("min")
    rows = []
    for inputs in INPUTS:
        for model in (m for m in MODELS if (inputs, m) in wide.index):
            cells = zip(wide.loc[(inputs, model)], lowest.loc[(inputs, model)], strict=True)
            rows.append(
                [str(inputs), escape(MODELS[model].label), *(cell_html(v, v == best) for v, best in cells)]
            )
    trials = count(list(means["count"]), "trial")
    return table_html(
        f"Mean test MAE on Task 2, {name}, by width δ ({trials} a cell; the lowest of each n and δ is bold)",
        ["n", "model", *(f"{width:g}" for width in wide.columns)],
        rows,
    )


def cell_html(value: float, best: bool = False, digits: int = 2) -> str:
    """A number, a dash where there is none."""
    text = "–" if np.isnan(value) else f"{value:.{digits}f}"
    return f"<b>{text}</b>" if best else text


def appendix_html(results: Table) -> str:
    """Clean test errors of A–D: after each stage of Task 1, and after Task 2."""
    rows = []
    for letter in LETTERS:
        plain, charts = (pick(results, letter, model) for model in ("finest", "charts"))
        stages = stack(list(plain["stage_clean"])) if len(plain) else np.empty((0, 0))
        if len(stages):
            after = [table[c].mean() for table in (plain, charts) for c in ("test_inside", "test_outside")]
            values = [cell_html(value, digits=3) for value in (*stages.mean(axis=0), *after)]
            rows.append([f"{letter} ({count([len(plain)], 'trial')})", *values])
    if not rows:
        return ""
    head = ["experiment", *(f"r = {r}" for r in range(STAGES)), "plain, inside", "plain, outside"]
    return table_html(
        "Clean test MAE of Experiments A–D: Task 1 after each stage, and Task 2 inside and outside the box",
        [*head, "charts, inside", "charts, outside"],
        rows,
    )


def differences_html(points: Iterable[Difference]) -> str:
    """The points on which we differ, with their evidence."""
    rows = [[escape(part) for part in point] for point in points]
    return table_html(
        "Computed as this page was made", ["the paper", "what holds", "evidence"], rows
    ).replace("<table>", '<table class="text">')
