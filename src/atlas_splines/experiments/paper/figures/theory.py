"""Figures of the theory, which need no results."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from atlas_splines import Atlas, train
from atlas_splines.analysis import orthogonality_distance
from atlas_splines.experiments.drawings import Drawing
from atlas_splines.experiments.paper.results import MODELS, TrialResults
from atlas_splines.experiments.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ON_WHITE,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Line,
    count,
    headline,
    note,
    number,
    panels,
)

__all__ = ["DRAWINGS", "PROOFS", "basis"]

Array = NDArray[np.floating]

COLOURS = [BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, BLACK]  # of neighbouring functions


def basis(x: Array, density: int) -> Array:
    """All basis functions of one input, (points, λ): the gradient of a model without exponentials."""
    model = Atlas(1, terms=0, density=density, dtype="float64")
    return np.asarray(model.gradient(x[:, None]).toarray())


def draw_basis(axes: Axes, density: int, **options: Any) -> Array:
    """Draw all basis functions of a density over [0, 1]; return them."""
    x = np.linspace(0, 1, 801)
    values = basis(x, density)
    visible = np.where(values > 0, values, np.nan)
    for i, colour in zip(range(values.shape[1]), cycle(COLOURS), strict=False):
        axes.plot(x, visible[:, i], **{"color": colour, "linestyle": ("-", "--", "-.")[i % 3], **options})
    axes.set(xlabel="input $x$", xlim=(0, 1), ylim=(0, None))
    return values


def linear_forgetting() -> Figure:
    """Two lines: fitted to Task 1, and then to Task 2."""
    random = np.random.default_rng(0)
    x = [0.4 * random.random(40), 0.6 + 0.4 * random.random(40)]
    y = [np.sin(5 * t) + 0.05 * random.normal(size=40) for t in x]
    figure, grid = panels(1, 2, 3.5, sharex=True, sharey=True)
    errors = []
    for task, axes in enumerate(grid[0]):
        line = np.polynomial.Polynomial.fit(x[task], y[task], 1)
        errors.append([float(np.abs(line(x[k]) - y[k]).mean()) for k in (0, 1)])
        axes.plot(x[0], y[0], "o", color=BLUE, ms=4, label="data of Task 1")
        axes.plot(x[1], y[1], "^", color=ORANGE, ms=4, label="data of Task 2", alpha=1.0 if task else 0.25)
        ends = np.array([0.0, 1.0])
        axes.plot(ends, line(ends), color=BLACK, label="line fitted to the present task")
        axes.set(title=f"after Task {task + 1}: mean error on Task 1 is {number(errors[task][0])}")
        axes.set(xlabel="input $x$", ylim=(-2.2, 2.8))
    grid[0, 0].set_ylabel("output")
    grid[0, 0].legend(loc="lower left")
    (before, _), (after, _) = errors
    text = "A line that learns Task 2 loses Task 1: its error there goes from"
    return headline(figure, f"{text} {number(before)} to {number(after)}")


def basis_functions() -> Figure:
    """The basis functions of three densities, and their sum."""
    figure, grid = panels(1, 3, 3.1, sharey=True)
    sizes = []
    for density, axes in enumerate(grid[0]):
        values = draw_basis(axes, density)
        sizes.append(values.shape[1])
        axes.plot(np.linspace(0, 1, 801), values.sum(axis=1), color=GREY, ls=(0, (1, 1)))
        axes.set(title=f"ρ = {density}: {sizes[-1]} functions, {count([sizes[-1] - 3], 'cell')}")
        axes.set(ylim=(0, 1.12))
    grid[0, 0].set_ylabel("value of a basis function")
    note(grid[0, 0], "their sum is 1", 0.97, 0.8)
    growth = ", ".join(map(str, sizes))
    return headline(figure, f"One shape, scaled and shifted: {growth} functions, which always sum to one")


def sparse_activation() -> Figure:
    """The four functions that are active at a point, and the others."""
    density, point = 2, 0.4
    figure, grid = panels(1, 1, 3.3)
    axes = grid[0, 0]
    values = draw_basis(axes, density, color="#c8c8c8", linestyle="-", linewidth=1.0)
    at = basis(np.array([point]), density)[0]
    mark_active(axes, density, point, BLUE, "-", "o")
    axes.axvline(point, color=BLACK, lw=0.8)
    axes.axhline(values.max(), color=GREY, ls=":", lw=1)
    axes.set(ylabel="value of a basis function", ylim=(0, 0.85))
    note(axes, f"largest value anywhere: {values.max():.3f}", 0.99, 0.96)
    listed = " + ".join(f"{v:.3f}" for v in at[at > 0])
    note(axes, f"active at x = {point}:\n{listed} = {at.sum():.3f}", 0.01, 0.96)
    text = f"Only {np.count_nonzero(at)} of {at.size} functions are active at a point"
    return headline(figure, f"{text}, and none exceeds {number(values.max())}")


def mark_active(axes: Axes, density: int, point: float, colour: str, line: Line, marker: str) -> None:
    """Emphasise the functions that are active at a point, and their values there."""
    x = np.linspace(0, 1, 801)
    at, values = basis(np.array([point]), density)[0], basis(x, density)
    for i in np.flatnonzero(at):
        visible = np.where(values[:, i] > 0, values[:, i], np.nan)
        axes.plot(x, visible, color=colour, ls=line, lw=2)
        axes.plot(point, at[i], marker, color=colour, ms=6)


def distal_orthogonality() -> Figure:
    """Two distant points, and the functions that are active at each."""
    density, points = 2, (0.25, 0.7)
    figure, grid = panels(1, 1, 3.3)
    axes = grid[0, 0]
    draw_basis(axes, density, color="#c8c8c8", linestyle="-", linewidth=1.0)
    for point, name, style in zip(points, "xy", (MODELS["finest"], MODELS["all"]), strict=True):
        mark_active(axes, density, point, style.colour, style.line, style.marker)
        axes.axvline(point, color=BLACK, lw=0.8)
        axes.text(point, 0.8, f"{name} = {point}", ha="center", va="center", bbox=ON_WHITE)
    axes.set(ylabel="value of a basis function", ylim=(0, 0.9))
    first, second = basis(np.array(points), density)
    shared = np.count_nonzero(first * second)
    text = (
        f"x and y share {shared} active functions: the inner product of their gradients is {first @ second:g}"
    )
    return headline(figure, f"{text}, as |x − y| ≥ {number(orthogonality_distance(density))}")


def doubling_densities() -> Figure:
    """A spline that is trained, refined, and trained again."""
    densities = range(4)
    x = np.linspace(0, 1, 400)
    y = np.sin(2 * np.pi * (x + 1.7 * x**3)) + 0.5 * x
    figure, grid = panels(2, len(densities), 4.6, sharex=True, sharey=True)
    model, errors = Atlas(1, terms=0, density=0), []
    for density in densities:
        if density:
            model.expand(density=1, terms=0)
        draw_spline(grid[0, density], model, x, y, f"ρ = {density}, before")
        train(model, x[:, None], y, epochs=150, learning_rate=0.02, random_state=0)
        errors.append(draw_spline(grid[1, density], model, x, y, f"ρ = {density}, after"))
    for axes in grid[1]:
        axes.set(xlabel="input $x$", xlim=(0, 1), xticks=[0, 0.5, 1])
    for axes in grid[:, 0]:
        axes.set_ylabel("output")
    grid[0, 0].legend(loc="lower left", fontsize=8)
    listed = " → ".join(map(number, errors))
    return headline(figure, f"Each doubling starts from what was learned; the mean error goes {listed}")


def draw_spline(axes: Axes, model: Atlas, x: Array, y: Array, title: str) -> float:
    """Draw a one-input model without exponentials over its newest functions; return its error."""
    output = model(x[:, None])[:, 0]
    weighted = basis(x, model.density) * model.f(model.density)[0, 0]
    axes.plot(x, weighted, color=SKY, lw=0.8)
    axes.plot(x, y, color=GREY, ls="--", lw=1.3, label="target")
    axes.plot(x, output, color=BLUE, lw=2, label="model")
    axes.plot([], [], color=SKY, lw=0.8, label="newest functions")
    error = float(np.abs(output - y).mean())
    axes.set_title(f"{title}: MAE {number(error)}")
    return error


def eight_basis_functions() -> Figure:
    """The eight functions of density one, by name."""
    figure, grid = panels(1, 1, 3.4)
    axes = grid[0, 0]
    values = draw_basis(axes, 1)
    for i, top in enumerate(values.argmax(axis=0) / 800):
        side, shift = {0: ("right", -0.01), 1: ("left", 0.01)}.get(top, ("center", 0.0))
        above = 0.0 if shift else 0.04
        axes.text(top + shift, values[:, i].max() + above, f"$S_{i + 1}$", ha=side, va="center", fontsize=12)
    axes.set(ylabel="value of a basis function", xlim=(-0.06, 1.06), ylim=(0, 0.8))
    text = f"{values.shape[1]} uniform cubic B-splines make density 1; none exceeds {number(values.max())}"
    return headline(figure, text)


def visual_proof() -> Figure:
    """The interval on which each function is positive, and two points that no interval joins."""
    density, x = 2, 0.3
    reach = orthogonality_distance(density)
    y = x + reach
    figure, grid = panels(1, 1, 4.2)
    axes = grid[0, 0]
    at = basis(np.array([x, y]), density) > 0
    cells = at.shape[1] - 3
    for i in range(at.shape[1]):
        style = MODELS["finest"] if at[0, i] else MODELS["all"] if at[1, i] else None
        low, high = (i - 3) / cells, (i + 1) / cells  # where function i + 1 is positive
        axes.plot(
            [max(low, 0), min(high, 1)],
            [i + 1, i + 1],
            color=style.colour if style else "#c8c8c8",
            ls=style.line if style else "-",
            lw=4,
            solid_capstyle="butt",
        )
    for point, name in ((x, "x"), (y, "y")):
        axes.axvline(point, color=BLACK, lw=0.8)
        axes.text(point, at.shape[1] + 1.2, f"{name} = {point:.3f}", ha="center", va="center", bbox=ON_WHITE)
    axes.annotate("", (x, 0.2), (y, 0.2), arrowprops={"arrowstyle": "<->", "color": BLACK})
    axes.text(
        (x + y) / 2, 0.35, f"{reach:.3f}", ha="center", va="bottom", backgroundcolor="white", fontsize=9
    )
    axes.set(xlabel="input", ylabel="basis function $i$", xlim=(0, 1), ylim=(-0.4, at.shape[1] + 2.2))
    axes.set_yticks(range(2, at.shape[1] + 1, 2))
    first, second, both = at[0].sum(), at[1].sum(), (at[0] & at[1]).sum()
    text = f"No interval is longer than 4/{cells}: {first} meet x, {second} meet y, {both} meet both"
    return headline(figure, text)


DRAWINGS: list[Drawing[TrialResults]] = [
    Drawing(
        "forgetting-of-a-linear-function",
        "paper",
        "Forgetting of a linear function",
        "Least squares, first on the data of Task 1, then on the data of Task 2. A line has the same two "
        "coefficients everywhere, so what it learns on the right it must change on the left.",
        lambda run: linear_forgetting(),
        beside="Figure 1",
    ),
    Drawing(
        "basis-functions",
        "paper",
        "Basis functions at ρ = 0, 1, 2",
        "Uniform cubic B-splines. Each density has twice as many functions as the one before; the dotted "
        "line is their sum.",
        lambda run: basis_functions(),
        beside="Figure 2",
    ),
    Drawing(
        "sparse-and-bounded-activation",
        "paper",
        "Sparse and bounded activation",
        "The functions that are active at one point, with their values there. All others are exactly zero.",
        lambda run: sparse_activation(),
        beside="Figure 3, left",
    ),
    Drawing(
        "distal-orthogonality",
        "paper",
        "Distal orthogonality in one variable",
        "Functions that are active at x (solid) and at y (dashed). A gradient step at x moves only "
        "coefficients of the former, so it leaves the output at y as it is.",
        lambda run: distal_orthogonality(),
        beside="Figure 3, right",
    ),
    Drawing(
        "doubling-densities",
        "paper",
        "Doubling densities before and after training",
        "A new density starts with coefficients of zero and leaves the function as it was (above); training "
        "then changes only the newest coefficients (below). Computed as this page was made.",
        lambda run: doubling_densities(),
        beside="Figure 4",
    ),
]

# the paper has these at its end
PROOFS: list[Drawing[TrialResults]] = [
    Drawing(
        "eight-basis-functions",
        "paper",
        "The eight basis functions of density 1",
        "Each is the same function, scaled and shifted.",
        lambda run: eight_basis_functions(),
        beside="Figure 26",
    ),
    Drawing(
        "visual-proof",
        "paper",
        "Visual proof of distal orthogonality",
        "Each bar is the interval on which one function is positive. Two points at least as far apart as a "
        "whole bar is long are never on the same bar.",
        lambda run: visual_proof(),
        beside="Figure 27",
    ),
]
