"""The report: every figure, the tables behind them, and where we differ from the paper, on one page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from html import escape
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from atlas_splines import Atlas, expected_off_target, orthogonality_distance, overlap, train
from atlas_splines.experiments.boxes import rbf_target
from atlas_splines.experiments.paper.figures import (
    FIGURES,
    INPUTS,
    LETTERS,
    MODELS,
    NotInThisRun,
    cells_where,
    count,
    fit_off_target,
    gradient_sizes,
    mean_errors,
    number,
    optimizer_reach,
    pick,
    stack,
)
from atlas_splines.experiments.paper.trials import STAGES

__all__ = ["CAPTIONS", "Caption", "write_report"]

Table = Any  # a pandas DataFrame
Pictures = Mapping[str, NDArray[np.floating]]

DPI = 100
SAVING: Any = {"svg.hashsalt": "atlas", "svg.fonttype": "none"}  # the same results make the same files


class Caption(NamedTuple):
    """What stands around a figure: its name, the paper's figure it belongs beside, and our words."""

    title: str
    beside: str
    text: str


class Difference(NamedTuple):
    """One point on which we differ from the paper, with computed evidence."""

    paper: str
    ours: str
    evidence: str


class Saved(NamedTuple):
    """A drawn figure: its image and the finding in its title."""

    png: bytes
    headline: str


# --- captions --------------------------------------------------------------------------------------------


def _appendix_captions(position: int, letter: str) -> dict[str, Caption]:
    first, name = 10 + 4 * position, f"experiment-{letter.lower()}"
    return {
        f"{name}-training": Caption(
            f"Experiment {letter}: training curves of both tasks",
            f"Figures {first} and {first + 2}",
            "Training and validation error of every trial (thin) and their median (thick). Each dotted line "
            "is an expansion: one more density, two more pairs of exponentials. Task 2 trains in a small "
            "box in the middle only, and is validated everywhere.",
        ),
        f"{name}-expansions": Caption(
            f"Experiment {letter}: outputs after each expansion",
            f"Figure {first + 1}",
            "The model after 30 epochs at each size, and the target. The errors are clean: against the "
            "target without noise, on the test set.",
        ),
        f"{name}-inspection": Caption(
            f"Experiment {letter}: targets and outputs of both tasks",
            f"Figure {first + 3}",
            "Task 2 sets the outlined box to zero. What it changes elsewhere shows in the last panel, as the "
            "distance from the Task 2 target.",
        ),
    }


CAPTIONS: dict[str, Caption] = {
    "forgetting-of-a-linear-function": Caption(
        "Forgetting of a linear function",
        "Figure 1",
        "Least squares, first on the data of Task 1, then on the data of Task 2. A line has the same two "
        "coefficients everywhere, so what it learns on the right it must change on the left.",
    ),
    "basis-functions": Caption(
        "Basis functions at ρ = 0, 1, 2",
        "Figure 2",
        "Uniform cubic B-splines. Each density has twice as many functions as the one before; the dotted "
        "line is their sum.",
    ),
    "sparse-and-bounded-activation": Caption(
        "Sparse and bounded activation",
        "Figure 3, left",
        "The functions that are active at one point, with their values there. All others are exactly zero.",
    ),
    "distal-orthogonality": Caption(
        "Distal orthogonality in one variable",
        "Figure 3, right",
        "Functions that are active at x (solid) and at y (dashed). A gradient step at x moves only "
        "coefficients of the former, so it leaves the output at y as it is.",
    ),
    "doubling-densities": Caption(
        "Doubling densities before and after training",
        "Figure 4",
        "A new density starts with coefficients of zero and leaves the function as it was (above); training "
        "then changes only the newest coefficients (below). Computed as this page was made.",
    ),
    "inspection-2d": Caption(
        "One 2-D trial, with and without the guarantee",
        "Figure 5",
        "Task 2 shows new values in the outlined box only. With the guarantee its gradients reach the points "
        "that share a coordinate with the box: a cross. Without it coarse functions carry it further.",
    ),
    "task-1-validation": Caption(
        "All validation curves of Task 1",
        "Figure 6",
        "Every trial and every width, with the guarantee. The targets are noisy: a perfect model would still "
        "have 0.8 times the standard deviation of the noise, which is the colour of a curve.",
    ),
    "task-2-validation-without": Caption(
        "Task 2 validation at width 0.1, without the guarantee",
        "Figure 7",
        "Validation is over the whole domain, training in the box only. The axis is that of the next figure.",
    ),
    "task-2-validation-with": Caption(
        "Task 2 validation at width 0.1, with the guarantee",
        "Figure 8",
        "The same trials as in the figure before, on the same axis.",
    ),
    "test-error-by-width": Caption(
        "Test error against the width of the changed region",
        "Figure 9",
        "Means over trials with their standard errors. The dotted curve is the paper's estimate δ − δⁿ, "
        "scaled and shifted by least squares to the model with the guarantee. For one input the estimate is "
        "zero at every width: it predicts a constant, and there is no R² to give.",
    ),
    **{k: v for i, letter in enumerate(LETTERS) for k, v in _appendix_captions(i, letter).items()},
    "eight-basis-functions": Caption(
        "The eight basis functions of density 1",
        "Figure 26",
        "Each is the same function, scaled and shifted.",
    ),
    "visual-proof": Caption(
        "Visual proof of distal orthogonality",
        "Figure 27",
        "Each bar is the interval on which one function is positive. Two points at least as far apart as a "
        "whole bar is long are never on the same bar.",
    ),
    "test-error-by-width-with-charts": Caption(
        "Test error against width, with rehearsal and charts",
        "Figure 9",
        "The paper's two models and two ways to learn Task 2 without forgetting: rehearsal on points "
        "labelled by the model as it was, and charts that add to the model inside the box only. Above with "
        "noise in the test targets, as in the paper; below without. The error axes are logarithmic.",
    ),
    "inspection-2d-with-charts": Caption(
        "The 2-D trial again, with rehearsal and charts",
        "Figure 5",
        "Outputs, their distance from the Task 2 target, and what Task 2 changed. White in the last row "
        "means that nothing changed.",
    ),
    "experiments-a-to-d-with-charts": Caption(
        "Experiments A–D, Task 2 with charts",
        "Figures 13, 17, 21 and 25",
        "Distance from the Task 2 target after plain training and with a chart, on one scale, and the clean "
        "test errors of all trials (small) with their means (large).",
    ),
    "differences-threshold": Caption(
        "The threshold of distal orthogonality",
        "Property 3",
        "Left: the largest inner product of gradients over all pairs at a distance, for r = 1, and a pair "
        "that contradicts the paper's threshold. Right: the farthest pair with a common function, for each "
        "density.",
    ),
    "differences-gradient-bound": Caption(
        "The size of the gradient, and two bounds",
        "Property 2",
        "The exact 1-norm needs no gradient: it follows from the outputs of the exponentials. For U we take "
        "the smallest constants that the paper's proof allows.",
    ),
    "differences-parameter-count": Caption(
        "The number of coefficients",
        "remark on Property 1",
        "Counted in models that were made for this figure, and by two formulas.",
    ),
    "differences-optimiser": Caption(
        "What the optimiser does to distal orthogonality",
        "Methodology",
        "One input, r = 4. Task 1 is over the whole domain, Task 2 in the grey strip, with the optimiser's "
        "state carried over. Dense Adam goes on moving coefficients that have no gradient.",
    ),
}


# --- findings --------------------------------------------------------------------------------------------


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


# --- differences -----------------------------------------------------------------------------------------


def differences() -> list[Difference]:
    """Every point on which we differ, with evidence computed now."""
    return [
        threshold_difference(),
        bound_difference(),
        count_difference(),
        optimizer_difference(),
        damping_difference(),
        counting_difference(),
    ]


def threshold_difference() -> Difference:
    """The threshold of distal orthogonality."""
    model, x, y = Atlas(1, terms=0, density=1, dtype="float64"), 0.05, 0.56
    product = float(overlap(model, [[x]], [[y]])[0, 0])
    return Difference(
        "Gradients are orthogonal if every input differs by more than 2⁻ʳ.",
        "False for every r ≥ 1. The exact threshold is 4/(2ʳ⁺² − 3).",
        f"r = 1: x = {x} and y = {y} are {y - x:.2f} > {2**-1} apart, and their gradients have inner product "
        f"{product:.8f}. The exact threshold is {orthogonality_distance(1):g}; at r = 4 it is "
        f"{orthogonality_distance(4):.5f}, not {2**-4}.",
    )


def bound_difference() -> Difference:
    """The bound of the gradient."""
    random = np.random.default_rng(0)
    model, X = Atlas(8), random.random((2000, 8))
    fresh = gradient_sizes(model, X)
    train(model, X, 3 * np.sin(7 * X[:, 0]) * X[:, 1], epochs=5, random_state=0)
    trained = gradient_sizes(model, X)
    return Difference(
        "The 1-norm of the gradient is below U = 4nuπ²(1 + exp u_g + exp u_h).",
        "True but loose: the norm is known exactly, and n(1 + π²/6·(exp u_g + exp u_h)) bounds it.",
        f"n = 8, M = 10, r = 4, all coefficients zero: exact {number(fresh.exact)}, our bound "
        f"{number(fresh.bound)}, U {number(fresh.paper)}. After five epochs: exact {number(trained.exact)} "
        f"at most, our bound {number(trained.bound)}, U {number(trained.paper)}.",
    )


def count_difference() -> Difference:
    """The number of coefficients."""
    real, paper = Atlas(2).n_parameters, 2**5 * 2 * 21
    return Difference(
        "A model has about 2ʳ⁺¹·n·(2M + 1) coefficients in all.",
        "It has (2ʳ⁺³ − 4)·n·(2M + 1).",
        f"n = 2, M = 10, r = 4: {real:,} counted, {(2**7 - 4) * 2 * 21:,} by our formula, {paper:,} by the "
        f"paper's. The count is {real / paper:g} times the paper's.",
    )


def optimizer_difference() -> Difference:
    """Dense Adam."""
    dense, lazy = ((change, far) for _, change, far in map(optimizer_reach, ("adam", "lazy-adam")))
    farthest = [float(change[far].max()) for change, far in (dense, lazy)]
    moved = float((dense[0][dense[1]] > 0).mean())
    return Difference(
        "Distal orthogonality keeps an update away from distant inputs; training uses Adam.",
        "Dense Adam moves coefficients whose gradient is zero, by momentum from earlier batches. Lazy Adam "
        "does not.",
        "One input, two tasks with the state carried over: of the points out of reach of Task 2, "
        f"{moved:.0%} change with dense Adam, by up to {number(farthest[0])}; with lazy Adam the largest "
        f"change is {farthest[1]:g}.",
    )


def damping_difference() -> Difference:
    """The constant in front of the exponentials."""
    random = np.random.default_rng(1)
    target, (X, T) = rbf_target(random, 2), random.random((2, 4000, 2))
    errors = []
    for damping in (0.0, 10.0):
        model = Atlas(2, damping=damping)
        train(model, X, target(X), epochs=30, optimizer="adam", random_state=0)
        errors.append(float(np.abs(model(T)[:, 0] - target(T)).mean()))
    return Difference(
        "Each pair of exponentials is scaled by k⁻².",
        "The authors' program scales by k⁻²·e⁻¹⁰, which the paper does not mention: the option damping=10.",
        f"e⁻¹⁰ is {np.exp(-10):.2g}. One target of the main experiment, n = 2, 4,000 samples without noise: "
        f"after 30 epochs the test error is {number(errors[0])} without it, {number(errors[1])} with it.",
    )


def counting_difference() -> Difference:
    """What k counts in the estimate of the off-target error."""
    inputs, width, k = 8, 0.3, 2
    formula = comb(inputs, k) * width ** (inputs - k) * (1 - width) ** k
    inside = (np.random.default_rng(0).random((200_000, inputs)) < width).sum(axis=1)
    return Difference(
        "In p(ε_k) = C(n, k)·δⁿ⁻ᵏ·(1 − δ)ᵏ, k is the number of inputs inside the updated region.",
        "k is the number of inputs outside; only so do ε_k = (n − k)/n and p(ε_k) fit together.",
        f"n = {inputs}, δ = {width}, k = {k}: p = {formula:.4f}. Of 200,000 random points "
        f"{(inside == k).mean():.4f} have {k} inputs inside, and {(inputs - inside == k).mean():.4f} have "
        f"{k} outside. The estimate is then δ − δⁿ = {float(expected_off_target(width, inputs)):.4f}.",
    )


# --- the page --------------------------------------------------------------------------------------------


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
    folder = output / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {name: save_figure(draw(results, pictures), folder / name) for name, draw in FIGURES.items()}
    path = output / "report.html"
    unfinished = path.with_suffix(".part")  # a reader never sees half a page
    unfinished.write_text(page(results, facts, drawn), encoding="utf8")
    return unfinished.replace(path)


def save_figure(figure: Figure, path: Path) -> Saved:
    """Write a figure as PNG and SVG."""
    buffer = io.BytesIO()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # it has done its work, and would do it again for each file
    with rc_context(SAVING):
        options: Any = {"dpi": DPI, "metadata": {"Software": None}, "pil_kwargs": {"optimize": True}}
        figure.savefig(buffer, format="png", **options)
        figure.savefig(path.with_suffix(".svg"), dpi=DPI, metadata={"Date": None})
    path.with_suffix(".png").write_bytes(buffer.getvalue())
    return Saved(buffer.getvalue(), figure.get_suptitle().replace("\n", " "))


def page(results: Table, facts: Mapping[str, str], drawn: Mapping[str, Saved]) -> str:
    """Put the page together."""
    names = list(FIGURES)
    ours, apart = map(names.index, ("test-error-by-width-with-charts", "differences-threshold"))
    groups = (names[:ours], names[ours:apart], names[apart:])
    paper, beside, differ = ("\n".join(figure_html(name, drawn[name]) for name in group) for group in groups)
    sections = [
        ("summary", "Summary", bullets(findings(results)) + facts_html(facts)),
        ("paper", "The paper's figures", paper),
        ("errors", "Mean test errors", errors_html(results) + appendix_html(results)),
        ("ours", "Ours beside the paper's", beside),
        ("differences", "Where our result differs from the paper", differences_html(differences()) + differ),
    ]
    links = " · ".join(f'<a href="#{anchor}">{escape(title)}</a>' for anchor, title, _ in sections)
    body = "\n".join(
        f'<section id="{anchor}"><h2>{escape(title)}</h2>\n{content}</section>'
        for anchor, title, content in sections
    )
    return PAGE.replace("{style}", STYLE).replace("{links}", links).replace("{body}", body)


def figure_html(name: str, saved: Saved) -> str:
    """One figure with its caption."""
    title, beside, text = map(escape, CAPTIONS[name])
    image = base64.b64encode(saved.png).decode("ascii")
    return (
        f'<figure id="{name}"><h3>{title}</h3>\n'
        f'<img src="data:image/png;base64,{image}" alt="{escape(saved.headline)}">\n'
        f'<figcaption>{text} <span class="beside">Beside the paper&#x27;s {beside}.</span> '
        f'<a href="figures/{name}.svg">SVG</a> <a href="figures/{name}.png">PNG</a></figcaption></figure>'
    )


def bullets(sentences: Iterable[str]) -> str:
    """A list of sentences."""
    items = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in sentences)
    return f"<ul>\n{items}</ul>\n" if items else "<p>No trials are in this run yet.</p>\n"


def facts_html(facts: Mapping[str, str]) -> str:
    """What is known about the run, as a table of two columns."""
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>\n" for k, v in facts.items())
    return f'<table class="facts">\n{rows}</table>\n' if rows else ""


def table_html(caption: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are already escaped."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption>\n"
        f"<thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table>\n"
    )


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


STYLE = """
body { max-width: 940px; margin: 2em auto; padding: 0 1em; color: #1a1a1a; background: #fff;
       font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { line-height: 1.2; margin-bottom: 0.2em; }
h2 { margin-top: 2.5em; border-bottom: 2px solid #0072b2; padding-bottom: 0.2em; }
h3 { margin: 0 0 0.4em; font-size: 1.05em; }
a { color: #005a8d; }
figure { margin: 2em 0; padding-top: 1em; border-top: 1px solid #ddd; }
figure img { width: 100%; height: auto; }
figcaption { font-size: 0.92em; color: #333; }
.beside { color: #666; }
table { border-collapse: collapse; margin: 1.5em 0; font-size: 0.85em; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; padding-bottom: 0.4em; }
th, td { border-bottom: 1px solid #ddd; padding: 0.25em 0.6em; text-align: right; vertical-align: top; }
thead th { border-bottom: 2px solid #999; }
.facts th, .facts td, .text th, .text td, td:nth-child(2) { text-align: left; }
@media print { body { max-width: none; font-size: 11pt; } figure, tr { break-inside: avoid; }
               nav { display: none; } }
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The ATLAS paper, reproduced</title>
<style>{style}</style>
</head>
<body>
<h1>The ATLAS paper, reproduced</h1>
<p>Every experiment and figure of <i>ATLAS: Universal Function Approximator for Memory Retention</i> (van
Deventer and Bosman), computed again with atlas-splines, with our own additions beside them. Every number on
this page, in titles too, was computed in this run. MAE is the mean absolute error, n the
number of inputs, δ the width of the region that changes in Task 2, r the finest density and M the number of
pairs of exponentials.</p>
<nav>{links}</nav>
{body}
</body>
</html>
"""
