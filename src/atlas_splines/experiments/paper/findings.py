"""What the table of results says, in sentences."""

from __future__ import annotations

import numpy as np

from atlas_splines.experiments.drawings import NotInThisRun
from atlas_splines.experiments.paper.results import (
    INPUTS,
    LETTERS,
    Table,
    cells_where,
    fit_off_target,
    mean_errors,
    pick,
)
from atlas_splines.experiments.style import count, number

__all__ = ["findings"]


def findings(results: Table) -> list[str]:
    """State in sentences what the table says; nothing that a partial run cannot say."""
    sentences = []
    for finding in (guarantee_finding, fit_finding, charts_finding, appendix_finding):
        try:
            sentences += finding(results)
        except NotInThisRun:
            continue
    return sentences


def guarantee_finding(results: Table) -> list[str]:
    """What the guarantee is worth."""
    means = mean_errors(results)
    better, cells = cells_where(means, "finest", "all")
    if not cells:
        return []
    trials = count(list(means["count"]), "trial")
    overall = means.groupby("model")["mean"].mean()
    return [
        f"Main experiment, {trials} a cell: with guaranteed distal orthogonality the mean test error on "
        f"Task 2 is lower than without in {better} of {cells} cells (means over cells: "
        f"{number(overall['finest'])} and {number(overall['all'])}, noisy targets)."
    ]


def fit_finding(results: Table) -> list[str]:
    """How well δ − δⁿ describes the error with the guarantee, on noisy and on clean targets."""
    parts = []
    for column, name in (("test_noisy", "noisy"), ("test_clean", "clean")):
        means = mean_errors(results, column)
        for inputs in INPUTS[1:]:
            rows = means[(means["inputs"] == inputs) & (means["model"] == "finest")]
            if len(rows) < 3:
                continue
            fit = fit_off_target(np.asarray(rows["width"]), np.asarray(rows["mean"]), inputs)
            parts.append(f"R² = {fit.r2:.2f}, correlation {fit.correlation:.2f} (n = {inputs}, {name})")
    return [f"The estimate a + b(δ − δⁿ), fitted to these means: {'; '.join(parts)}."] if parts else []


def charts_finding(results: Table) -> list[str]:
    """What rehearsal and charts do better."""
    means = mean_errors(results, "test_clean")
    overall = means.groupby("model")["mean"].mean()
    sentences = []
    for model in ("rehearsal", "charts"):
        better, cells = cells_where(means, model, "finest")
        if cells:
            sentences.append(
                f"With {model} the clean test error on Task 2 is lower than with the guarantee alone in "
                f"{better} of {cells} cells (means over cells: {number(overall[model])} and "
                f"{number(overall['finest'])})."
            )
    return sentences


def appendix_finding(results: Table) -> list[str]:
    """What Task 2 costs outside the box in A–D."""
    parts = []
    for letter in LETTERS:
        plain, charts = (pick(results, letter, model) for model in ("finest", "charts"))
        if len(plain) and len(charts):
            after = f"{number(plain['test_outside'].mean())} and {number(charts['test_outside'].mean())}"
            parts.append(f"{letter} {after}")
    text = "Experiments A–D, clean error outside the box after Task 2, plain training and charts"
    return [f"{text}: {'; '.join(parts)}."] if parts else []
