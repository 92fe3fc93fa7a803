"""Figures of the points on which we differ from the paper."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from atlas_splines import Atlas, Trainer, train
from atlas_splines.analysis import gradient_norm, orthogonality_distance, overlap
from atlas_splines.experiments.drawings import Drawing
from atlas_splines.experiments.paper.differences import gradient_sizes, optimizer_reach
from atlas_splines.experiments.paper.figures.theory import basis
from atlas_splines.experiments.paper.results import MODELS, TrialResults
from atlas_splines.experiments.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILLION,
    headline,
    number,
    panels,
)

__all__ = ["DRAWINGS"]


def threshold() -> Figure:
    """The counterexample to the threshold 2^−r, and both thresholds at every density."""
    figure, grid = panels(1, 2, 3.8)
    left, right = grid[0]
    model, x = Atlas(1, terms=0, density=1, dtype="float64"), np.linspace(0, 1, 401)[:, None]
    products = overlap(model, x, x)
    largest = np.array([products.diagonal(k).max() for k in range(len(x))])
    left.fill_between(x[:, 0], 1e-12, np.maximum(largest, 1e-12), color=SKY, alpha=0.5, lw=0)
    left.plot(x[:, 0], np.where(largest > 0, largest, np.nan), color=BLUE, label="largest overlap")
    point, other = 0.05, 0.56
    example = float(overlap(model, [[point]], [[other]])[0, 0])
    left.plot(other - point, example, "D", color=VERMILLION, ms=7, label=f"x = {point}, y = {other}")
    exact = orthogonality_distance(1)
    left.axvline(0.5, color=ORANGE, ls="--", label="the paper's 0.5")
    left.axvline(exact, color=GREEN, ls="-.", label=f"exact: {exact:g}")
    left.set(xlabel="distance |x − y|", ylabel="inner product of the gradients", yscale="log", xlim=(0, 1))
    left.set(ylim=(1e-9, 3), title="r = 1, one input, no exponentials")
    left.legend(loc="lower left")
    draw_thresholds(right)
    text = f"At distance {other - point:.2f} > 2⁻¹ gradients still overlap by {number(example)}"
    return headline(figure, f"{text}; for r = 1 they are orthogonal from {exact:g} on")


def draw_thresholds(axes: Axes) -> None:
    """Draw both thresholds and the largest distance at which two points of a fine grid overlap."""
    densities, x = np.arange(1, 7), np.linspace(0, 1, 20_001)
    reach = []
    for density in densities:
        positive = basis(x, int(density)) > 0
        spans = len(x) - 1 - positive[::-1].argmax(axis=0) - positive.argmax(axis=0)
        reach.append(spans.max() / (len(x) - 1))
    exact = np.array([orthogonality_distance(int(r)) for r in densities])
    unit = 0.5**densities
    axes.plot(densities, reach / unit, "o", color=BLUE, ms=9, mfc="none", label="farthest pair that overlaps")
    axes.plot(densities, exact / unit, color=GREEN, ls="-.", marker="x", label="exact, $4/(2^{r+2} - 3)$")
    axes.plot(densities, unit / unit, color=ORANGE, ls="--", marker="s", label="the paper's $2^{-r}$")
    axes.set(
        xlabel="density $r$", ylabel="distance, in units of $2^{-r}$", title="every density, on a fine grid"
    )
    axes.set_ylim(0.9, 1.7)
    axes.legend(loc="upper right")


def gradient_size() -> Figure:
    """The exact size of the gradient, our bound and the paper's, over the domain and during training."""
    random = np.random.default_rng(0)
    figure, grid = panels(1, 2, 3.8, sharey=True)
    x = np.linspace(0, 1, 400)
    model = Atlas(1)
    train(model, x[:, None], 3 * np.sin(7 * x), epochs=30, random_state=0)
    sizes = gradient_sizes(model, x[:, None])
    grid[0, 0].plot(x, gradient_norm(model, x[:, None])[:, 0], color=BLUE, label="exact")
    grid[0, 0].axhline(sizes.bound, color=GREEN, ls="-.", label="our bound")
    grid[0, 0].axhline(sizes.paper, color=ORANGE, ls="--", label="the paper's U")
    grid[0, 0].set(title="n = 1, after training", xlabel="input $x$", yscale="log")
    grid[0, 0].set_ylabel("1-norm of the gradient")
    X = random.random((2000, 2))
    trainer, history = Trainer(Atlas(2), random_state=0), []
    for _ in range(21):
        history.append(gradient_sizes(trainer.model, X))
        trainer.run(X, 3 * np.sin(7 * X[:, 0]) * X[:, 1], epochs=1)
    looks = (
        ("exact, largest of 2,000 points", BLUE, "-"),
        ("our bound", GREEN, "-."),
        ("the paper's U", ORANGE, "--"),
    )
    for line, (label, colour, style) in zip(np.array(history).T, looks, strict=True):
        grid[0, 1].plot(range(21), line, color=colour, ls=style, label=label)
    grid[0, 1].set(title="n = 2, while training", xlabel="epoch", xticks=range(0, 21, 5))
    grid[0, 1].legend(loc="center right", fontsize=8)
    last = history[-1]
    loose, ours = number(last.paper / last.bound), number(last.bound / last.exact)
    text = f"U is {loose} times our bound, which is {ours} times the largest norm found"
    return headline(figure, f"{text} (n = 2, after 20 epochs)")


def parameter_count() -> Figure:
    """How many coefficients models have, and what two formulas say."""
    inputs, terms, densities = 2, 10, np.arange(9)
    real = np.array([Atlas(inputs, terms=terms, density=int(r)).n_parameters for r in densities])
    ours = (2.0 ** (densities + 3) - 4) * inputs * (2 * terms + 1)
    paper = 2.0 ** (densities + 1) * inputs * (2 * terms + 1)
    figure, grid = panels(1, 2, 3.6)
    left, right = grid[0]
    left.plot(densities, real, "o", color=BLUE, ms=9, mfc="none", label="counted")
    left.plot(densities, ours, color=GREEN, ls="-.", marker="x", label="$(2^{r+3} - 4)\\,n\\,(2M + 1)$")
    left.plot(
        densities, paper, color=ORANGE, ls="--", marker="s", label="the paper's $2^{r+1}\\,n\\,(2M + 1)$"
    )
    left.set(yscale="log", xlabel="density r", ylabel="coefficients of a model", title="n = 2, M = 10")
    left.legend(fontsize=8)
    right.plot(densities, real / paper, color=ORANGE, ls="--", marker="s", label="counted / the paper's")
    right.plot(densities, real / ours, color=GREEN, ls="-.", marker="x", label="counted / ours")
    right.set(xlabel="density r", ylabel="ratio", ylim=(0, 4.5), title="ratio of the count to each formula")
    right.legend(loc="center right", fontsize=8)
    ratio = real[4] / paper[4]
    return headline(
        figure, f"At r = 4 a model has {real[4]:,} coefficients, {ratio:g} times the paper's {paper[4]:,.0f}"
    )


def optimizer() -> Figure:
    """What Task 2 changes with dense and with lazy Adam."""
    figure, grid = panels(1, 1, 3.6)
    axes, farthest = grid[0, 0], []
    for name, label, style in (
        ("adam", "dense Adam", MODELS["all"]),
        ("lazy-adam", "lazy Adam", MODELS["finest"]),
    ):
        x, change, far = optimizer_reach(name)
        axes.plot(x, np.where(change > 0, change, np.nan), color=style.colour, ls=style.line, label=label)
        farthest.append(float(change[far].max()))
    axes.axvspan(0.4, 0.5, color="#dddddd", label="data of Task 2")
    near = x[~far]
    for edge in (near[0], near[-1]):
        axes.axvline(edge, color=GREY, ls=":", lw=1)
    axes.set(xlabel="input $x$ (no line: not one bit has changed; dotted: reach of the data)", xlim=(0, 1))
    axes.set(ylabel="size of the change by Task 2", yscale="log", ylim=(1e-6, 50))
    axes.legend(loc="upper right", ncols=3)
    dense, lazy = map(number, farthest)
    text = f"up to {dense} with dense Adam, by {lazy} with lazy Adam"
    return headline(figure, f"Out of reach of its data Task 2 changes outputs by {text}")


DRAWINGS: list[Drawing[TrialResults]] = [
    Drawing(
        "differences-threshold",
        "differences",
        "The threshold of distal orthogonality",
        "Left: the largest inner product of gradients over all pairs at a distance, for r = 1, and a pair "
        "that contradicts the paper's threshold. Right: the farthest pair with a common function, for each "
        "density.",
        lambda run: threshold(),
        beside="Property 3",
    ),
    Drawing(
        "differences-gradient-bound",
        "differences",
        "The size of the gradient, and two bounds",
        "The exact 1-norm needs no gradient: it follows from the outputs of the exponentials. For U we take "
        "the smallest constants that the paper's proof allows.",
        lambda run: gradient_size(),
        beside="Property 2",
    ),
    Drawing(
        "differences-parameter-count",
        "differences",
        "The number of coefficients",
        "Counted in models that were made for this figure, and by two formulas.",
        lambda run: parameter_count(),
        beside="remark on Property 1",
    ),
    Drawing(
        "differences-optimiser",
        "differences",
        "What the optimiser does to distal orthogonality",
        "One input, r = 4. Task 1 is over the whole domain, Task 2 in the grey strip, with the optimiser's "
        "state carried over. Dense Adam goes on moving coefficients that have no gradient.",
        lambda run: optimizer(),
        beside="Methodology",
    ),
]
