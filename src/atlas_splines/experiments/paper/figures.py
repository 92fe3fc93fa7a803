"""Every figure of the paper, and ours beside them, from a table of results and a few images.

Each figure is a short function; `FIGURES` has them all by name, in the paper's order. Titles state findings,
and every number in them is computed from what is drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from atlas_splines import (
    Atlas,
    Trainer,
    expected_off_target,
    gradient_bound,
    gradient_norm,
    orthogonality_distance,
    overlap,
    train,
)
from atlas_splines.experiments.paper.trials import APPENDIX_BOX, STAGE_EPOCHS, STAGES

__all__ = [
    "FIGURES",
    "MODELS",
    "Fit",
    "Look",
    "fit_off_target",
    "gradient_sizes",
    "mean_errors",
    "optimizer_reach",
]

Table = Any  # a pandas DataFrame, with one row for each model of each trial
Array = NDArray[np.floating]
Panels = Any  # an array of Axes, (rows, columns)
Pictures = Mapping[str, Array]
Box = Array  # (low, high) of each input, shape (2, 2)
Line = Literal["-", "--", "-.", ":"]
Draw = Callable[[Table, Pictures], Figure]

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"  # Okabe and Ito
BLUE, VERMILLION, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#767676"
VALUES, SIZES = "cividis", "Greys"  # what a function is, and how large a change is: white means none

STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.titlesize": 11.5,
    "figure.titleweight": "bold",
}
WIDTH = 9.0  # inches
ON_WHITE: dict[str, Any] = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 2}
LINE = 88  # characters in a line of the headline
INPUTS = (1, 2, 8)
LETTERS = "ABCD"
HOLE: Box = APPENDIX_BOX.T  # what Task 2 changes in the appendix
NOISE_MAE = float(np.sqrt(2 / np.pi))  # mean size of a standard normal variable


@dataclass(frozen=True)
class Look:
    """How a model is drawn wherever it appears; the line and the marker tell it apart in grey."""

    label: str
    colour: str
    line: Line
    marker: str


MODELS = {
    "finest": Look("with guaranteed distal orthogonality", BLUE, "-", "o"),
    "all": Look("without the guarantee", ORANGE, "--", "s"),
    "rehearsal": Look("rehearsal", GREEN, ":", "^"),
    "charts": Look("charts", VERMILLION, "-.", "D"),
}


PLAIN_AND_CHARTS = {"finest": "plain training", "charts": "charts"}


class NotInThisRun(LookupError):
    """A partial run has nothing to draw for a figure."""


# --- what the figures share ------------------------------------------------------------------------------


def styled(draw: Draw) -> Draw:
    """Give a figure the common style; a partial run gets an empty figure that says so."""

    @wraps(draw)
    def figure(results: Table, pictures: Pictures) -> Figure:
        with rc_context(STYLE):
            try:
                return draw(results, pictures)
            except NotInThisRun as missing:
                return empty_figure(str(missing))

    return figure


def of_nothing(draw: Callable[[], Figure]) -> Draw:
    """Adapt a figure that shows the theory and needs no results."""
    return styled(wraps(draw)(lambda results, pictures: draw()))


def of_results(draw: Callable[[Table], Figure]) -> Draw:
    """Adapt a figure that is drawn from the table."""
    return styled(lambda results, pictures: draw(results))


def of_pictures(draw: Callable[[Pictures], Figure]) -> Draw:
    """Adapt a figure that is drawn from the images."""
    return styled(lambda results, pictures: draw(pictures))


def empty_figure(text: str) -> Figure:
    """Say in place of a figure what is missing."""
    figure = Figure(figsize=(WIDTH, 1.2))
    figure.text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure


def panels(rows: int, columns: int, height: float, **options: Any) -> tuple[Figure, Panels]:
    """Make a figure of the common width, and its axes as an array (rows, columns)."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def headline(figure: Figure, text: str) -> Figure:
    """State the finding above the panels, in lines of about the same length."""
    for symbol in "=≥>−+":
        text = text.replace(f" {symbol} ", f"\xa0{symbol}\xa0")  # no line ends within an equation
    lines = textwrap.wrap(text, LINE)
    even = next(width for width in range(20, LINE + 1) if len(textwrap.wrap(text, width)) == len(lines))
    figure.suptitle(textwrap.fill(text, even), x=0.01, ha="left")
    return figure


def note(axes: Axes, text: str, x: float = 0.97, y: float = 0.95) -> None:
    """Write into a corner of a panel, on white so that lines do not cross it."""
    side = "right" if x > 0.5 else "left"
    axes.text(x, y, text, transform=axes.transAxes, ha=side, va="top", fontsize=9, bbox=ON_WHITE)


def nothing_here(axes: Axes) -> None:
    """Mark a panel that a partial run cannot fill."""
    axes.text(0.5, 0.5, "no trials yet", transform=axes.transAxes, ha="center", color=GREY)


def count(values: Sequence[int], noun: str) -> str:
    """Write how many there are, as a range where cells differ.

    Examples
    --------
    >>> count([30, 30], "trial"), count([1], "trial"), count([28, 30], "trial")
    ('30 trials', '1 trial', '28–30 trials')
    """
    low, high = min(values), max(values)
    return f"{low} {noun}{'' if low == 1 else 's'}" if low == high else f"{low}–{high} {noun}s"


def number(value: float) -> str:
    """Write a number with three digits that count.

    Examples
    --------
    >>> number(0.001156), number(12.345), number(1234.5), number(0.0)
    ('0.00116', '12.3', '1,234', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def draw_map(axes: Axes, image: Array, title: str, scale: Normalize, colours: str = VALUES) -> None:
    """Draw an image over the unit square, its first index along x₁."""
    axes.imshow(image.T, origin="lower", extent=(0, 1, 0, 1), cmap=colours, norm=scale, interpolation="none")
    axes.set(title=title, xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=5)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.label_outer()


def outline(axes: Axes, box: Box) -> None:
    """Outline what Task 2 changes."""
    (left, right), (bottom, top) = box
    axes.add_patch(
        Rectangle((left, bottom), right - left, top - bottom, fill=False, edgecolor=VERMILLION, lw=1.5)
    )


def colour_bar(figure: Figure, drawn: Any, axes: Any, label: str, **options: Any) -> None:
    """Add the colour bar of a map or of lines beside some panels."""
    bar: Any = figure.colorbar(drawn, ax=list(np.ravel(axes)), label=label, **options)
    bar.solids.set(rasterized=True, alpha=1)  # otherwise an SVG has a polygon for each of its 256 colours
    bar.outline.set_visible(False)


def name_inputs(grid: Panels) -> None:
    """Label the inputs on the outer panels of a grid of maps."""
    for axes in grid[-1]:
        axes.set_xlabel("$x_1$")
    for axes in grid[:, 0]:
        axes.set_ylabel("$x_2$")


def common_scale(images: Sequence[Array], low: float | None = None) -> Normalize:
    """Return one colour scale for all images."""
    least = min(float(image.min()) for image in images) if low is None else low
    return Normalize(least, max(float(image.max()) for image in images))


def outside(box: Box, size: int) -> NDArray[np.bool_]:
    """Which pixels of an image lie outside a box."""
    centres = (np.arange(size) + 0.5) / size
    within = [(low <= centres) & (centres <= high) for low, high in box]
    return ~np.logical_and.outer(*within)


def need(pictures: Pictures, prefix: str, names: Sequence[str]) -> list[Array]:
    """Take images by name, or say that the run has not made them yet."""
    missing = [name for name in names if f"{prefix}/{name}" not in pictures]
    if missing:
        raise NotInThisRun(f"The trial for this picture ({prefix}) is not in this run.")
    return [np.asarray(pictures[f"{prefix}/{name}"], np.float64) for name in names]


def pick(results: Table, experiment: str, model: str, **where: float) -> Table:
    """Rows of one experiment and model; widths are compared as the decimals they stand for."""
    chosen = (results["experiment"] == experiment) & (results["model"] == model)
    for column, value in where.items():
        chosen &= np.isclose(results[column].astype(float), value)
    return results[chosen]


def stack(curves: Sequence[Sequence[float]]) -> Array:
    """Curves as rows (curves, epochs), without the empty ones; short ones end in NaN."""
    kept = [np.asarray(curve, np.float64) for curve in curves if curve is not None and len(curve)]
    if not kept:
        return np.empty((0, 0))
    rows = np.full((len(kept), max(map(len, kept))), np.nan)
    for row, curve in zip(rows, kept, strict=True):
        row[: len(curve)] = curve
    return rows


# --- splines ---------------------------------------------------------------------------------------------


def basis(x: Array, density: int) -> Array:
    """All basis functions of one input, (points, λ): the gradient of a model without exponentials."""
    model = Atlas(1, terms=0, density=density, dtype="float64")
    return np.asarray(model.gradient(x[:, None]).toarray())


def draw_basis(axes: Axes, density: int, **options: Any) -> Array:
    """Draw all basis functions of a density over [0, 1]; return them."""
    x = np.linspace(0, 1, 801)
    values = basis(x, density)
    visible = np.where(values > 0, values, np.nan)
    for i, colour in zip(range(values.shape[1]), _colours(), strict=False):
        axes.plot(x, visible[:, i], **{"color": colour, "linestyle": ("-", "--", "-.")[i % 3], **options})
    axes.set(xlabel="input $x$", xlim=(0, 1), ylim=(0, None))
    return values


def _colours() -> list[str]:
    return [BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE, BLACK] * 10


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
    for point, name, look in zip(points, "xy", (MODELS["finest"], MODELS["all"]), strict=True):
        mark_active(axes, density, point, look.colour, look.line, look.marker)
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
        look = MODELS["finest"] if at[0, i] else MODELS["all"] if at[1, i] else None
        low, high = (i - 3) / cells, (i + 1) / cells  # where function i + 1 is positive
        axes.plot(
            [max(low, 0), min(high, 1)],
            [i + 1, i + 1],
            color=look.colour if look else "#c8c8c8",
            ls=look.line if look else "-",
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


# --- the main experiment ---------------------------------------------------------------------------------


def inspection_2d(pictures: Pictures) -> Figure:
    """The 2-D trial, with the guarantee above and without it below."""
    rows = [need(pictures, "main", ["target_1", f"{m}_1", "target_2", f"{m}_2"]) for m in ("finest", "all")]
    (box,) = need(pictures, "main", ["box"])
    names = ["target of Task 1", "model after Task 1", "target of Task 2", "model after Task 2"]
    changes = [np.abs(row[3] - row[2]) for row in rows]
    figure, grid = panels(2, 5, 4.6, sharex=True, sharey=True)
    values, sizes = common_scale([image for row in rows for image in row]), common_scale(changes, low=0)
    for axes, row, change in zip(grid, rows, changes, strict=True):
        for k, image in enumerate(row):
            draw_map(axes[k], image, names[k] if row is rows[0] else "", values)
        draw_map(axes[4], change, "distance from target" if row is rows[0] else "", sizes, SIZES)
        for panel in axes[2:]:
            outline(panel, box)
    name_inputs(grid)
    grid[0, 0].set_ylabel("with the guarantee\n$x_2$")
    grid[1, 0].set_ylabel("without\n$x_2$")
    colour_bar(
        figure, grid[0, 3].images[0], grid[:, :4], "output", orientation="horizontal", aspect=50, pad=0.02
    )
    colour_bar(
        figure,
        grid[0, 4].images[0],
        grid[:, 4],
        "|model − target|",
        orientation="horizontal",
        aspect=12,
        pad=0.02,
    )
    apart = outside(box, len(changes[0]))
    mean = [number(float(change[apart].mean())) for change in changes]
    text = f"Mean distance from the target outside the box: {mean[0]} with the guarantee, {mean[1]} without"
    return headline(figure, text)


def validation_curves(table: Table, column: str, limits: tuple[float, float] | None, task: str) -> Figure:
    """All validation curves of a task by the number of inputs, coloured by the trial's noise."""
    table = table[[bool(len(curve)) for curve in table[column]]]
    if not len(table):
        raise NotInThisRun(f"No trial with curves of {task} is in this run.")
    figure, grid = panels(1, 3, 3.7, sharey=True)
    noise, ends = Normalize(0, max(1.0, float(np.quantile(table["noise"], 0.95)))), []
    for axes, inputs in zip(grid[0], INPUTS, strict=True):
        rows = table[table["inputs"] == inputs]
        axes.set(title=f"n = {inputs}: {count([len(rows)], 'curve')}", xlabel="epoch", yscale="log")
        if not len(rows):
            nothing_here(axes)
            continue
        curves = stack(list(rows[column]))
        lines = draw_curves(axes, curves, np.asarray(rows["noise"]), noise)
        middle = np.nanmedian(curves, axis=0)
        axes.plot(np.arange(1, middle.size + 1), middle, color=VERMILLION, lw=2.4, label="median")
        ends.append(f"{number(middle[0])} to {number(middle[-1])} (n = {inputs})")
    if limits:
        grid[0, 0].set_ylim(*limits)
    grid[0, 0].set_ylabel("validation MAE (noisy targets)")
    grid[0, 0].legend(*lines_with_label(grid[0]), loc="upper right")
    colour_bar(figure, lines, grid[0], "standard deviation of the noise", extend="max")
    text = "from the first to the last epoch the median goes from"
    return headline(figure, f"{task}: {text} {', '.join(ends)}")


def lines_with_label(row: Panels) -> tuple[list[Any], list[str]]:
    """Legend entries of the first panel that has any: in a partial run the first one may be empty."""
    found = [axes.get_legend_handles_labels() for axes in row]
    return next(((handles, labels) for handles, labels in found if handles), ([], []))


def draw_curves(axes: Axes, curves: Array, colour: Array, scale: Normalize) -> LineCollection:
    """Draw many curves as one picture; an SVG of thousands of points would be large."""
    epochs = np.arange(1, curves.shape[1] + 1)
    segments = [np.column_stack([epochs, curve])[np.isfinite(curve)] for curve in curves]
    lines = LineCollection(segments, array=colour, cmap=VALUES, norm=scale, lw=0.7, alpha=0.6)
    lines.set_rasterized(True)
    axes.add_collection(lines)
    axes.autoscale_view()
    return lines


def task_1_validation(results: Table) -> Figure:
    """All validation curves of Task 1."""
    return validation_curves(pick(results, "main", "finest"), "validation_1", None, "Task 1")


def task_2_validation(results: Table, model: str) -> Figure:
    """Validation curves of Task 2 at width 0.1, on the same axis for both models."""
    tables = {name: pick(results, "main", name, width=0.1) for name in ("finest", "all")}
    curves = [stack(list(table["validation_2"])) for table in tables.values()]
    seen = np.concatenate([curve[np.isfinite(curve)] for curve in curves])
    limits = (float(seen.min()) / 1.15, float(seen.max()) * 1.15) if seen.size else None
    figure = validation_curves(tables[model], "validation_2", limits, "Task 2")
    kind = "With the guarantee" if model == "finest" else "Without the guarantee"
    return headline(figure, f"{kind}, δ = 0.1. {figure.get_suptitle()}".replace("\n", " "))


class Fit(NamedTuple):
    """The curve a + b(δ − δⁿ), and how well it agrees; NaN where agreement has no meaning."""

    offset: float
    slope: float
    r2: float
    correlation: float

    def __call__(self, width: Array, inputs: int) -> Array:
        """Evaluate the curve."""
        return self.offset + self.slope * expected_off_target(width, inputs)


def fit_off_target(width: Array, error: Array, inputs: int) -> Fit:
    """Fit a + b(δ − δⁿ) to errors by least squares.

    For one input δ − δⁿ is zero at every width: the curve is a constant, and neither R² nor a correlation
    has a meaning. The same goes for fewer than three widths, through which a curve always passes.

    Examples
    --------
    >>> width = np.array([0.1, 0.5, 0.9])
    >>> fit = fit_off_target(width, 2 + 3 * (width - width**2), inputs=2)
    >>> round(fit.offset, 6), round(fit.slope, 6), round(fit.r2, 6)
    (2.0, 3.0, 1.0)
    >>> fit_off_target(width, np.array([1.0, 2.0, 3.0]), inputs=1)
    Fit(offset=2.0, slope=0.0, r2=nan, correlation=nan)
    """
    width, error = np.asarray(width, np.float64), np.asarray(error, np.float64)
    shape = expected_off_target(width, inputs)
    if width.size < 3 or np.ptp(shape) < 1e-9 or np.ptp(error) == 0:
        return Fit(float(error.mean()), 0.0, float("nan"), float("nan"))
    design = np.column_stack([np.ones_like(shape), shape])
    offset, slope = np.linalg.lstsq(design, error, rcond=None)[0]
    left = np.square(error - offset - slope * shape).sum() / np.square(error - error.mean()).sum()
    return Fit(float(offset), float(slope), float(1 - left), float(np.corrcoef(shape, error)[0, 1]))


def mean_errors(results: Table, column: str = "test_noisy") -> Table:
    """Mean over the trials of the main experiment: columns inputs, model, width, mean, sem, count."""
    main = results[results["experiment"] == "main"]
    if not len(main):
        raise NotInThisRun("No trial of the main experiment is in this run.")
    cells = main.assign(width=main["width"].astype(float).round(3)).groupby(["inputs", "model", "width"])
    return cells[column].agg(["mean", "sem", "count"]).fillna({"sem": 0.0}).reset_index()


def draw_errors(axes: Axes, means: Table, inputs: int, models: Sequence[str]) -> None:
    """Draw mean error against width for some models, with standard errors."""
    for model in models:
        look, rows = MODELS[model], means[(means["inputs"] == inputs) & (means["model"] == model)]
        style: Any = {"color": look.colour, "ls": look.line, "marker": look.marker, "label": look.label}
        axes.errorbar(rows["width"], rows["mean"], rows["sem"], capsize=2, lw=1.3, **style)
    cells = means[(means["inputs"] == inputs) & means["model"].isin(models)]
    trials = f": {count(list(cells['count']), 'trial')} a point" if len(cells) else ""
    axes.set(title=f"n = {inputs}{trials}", xlim=(0.05, 0.95), xticks=[0.1, 0.3, 0.5, 0.7, 0.9])
    if not len(cells):
        nothing_here(axes)


def error_by_width(results: Table) -> Figure:
    """Both of the paper's models, and its estimate fitted to the first."""
    means = mean_errors(results)
    figure, grid = panels(1, 3, 4.1, sharey=True)
    agreement = []
    for axes, inputs in zip(grid[0], INPUTS, strict=True):
        draw_errors(axes, means, inputs, ["finest", "all"])
        axes.set_xlabel("width δ of the changed region")
        rows = means[(means["inputs"] == inputs) & (means["model"] == "finest")]
        if len(rows):
            agreement.append(draw_fit(axes, rows, inputs))
    grid[0, 0].set(ylabel="test MAE on Task 2, noisy targets")
    grid[0, 0].set_ylim(0, grid[0, 0].get_ylim()[1] * 1.25)
    figure.legend(*grid[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    better, cells = cells_where(means, "finest", "all")
    fits = ", ".join(text for text in agreement if text)
    text = f"The guarantee has the lower mean error in {better} of {cells} cells"
    return headline(figure, f"{text}; a + b(δ − δⁿ) fits it with {fits}" if fits else text)


def draw_fit(axes: Axes, rows: Table, inputs: int) -> str:
    """Draw the fitted estimate, write its agreement into the panel, and return it for the headline."""
    width, error = np.asarray(rows["width"]), np.asarray(rows["mean"])
    fit = fit_off_target(width, error, inputs)
    x = np.linspace(0.1, 0.9, 81)
    axes.plot(x, fit(x, inputs), color=BLACK, lw=1.2, ls=(0, (1, 1)), label="a + b(δ − δⁿ), fitted")
    if np.isnan(fit.r2):
        why = "δ − δⁿ = 0: a constant" if inputs == 1 else "too few widths to judge"
        note(
            axes,
            f"{why}, a = {number(fit.offset)};\nmeans from {number(error.min())} to {number(error.max())}",
        )
        return ""
    curve = f"{number(fit.offset)} {'+' if fit.slope >= 0 else '−'} {number(abs(fit.slope))}(δ − δⁿ)"
    note(axes, f"{curve}\nR² = {fit.r2:.2f}, correlation {fit.correlation:.2f}")
    return f"R² = {fit.r2:.2f} (n = {inputs})"


def cells_where(means: Table, first: str, second: str) -> tuple[int, int]:
    """In how many cells, of those that have both, the first model's mean is lower."""
    pairs = means.pivot_table(index=["inputs", "width"], columns="model", values="mean")
    pairs = pairs.reindex(columns=[first, second]).dropna()
    return int((pairs[first] < pairs[second]).sum()), len(pairs)


# --- the appendix ----------------------------------------------------------------------------------------


def appendix_training(results: Table, letter: str) -> Figure:
    """Training and validation curves of both tasks of an experiment A–D."""
    rows = pick(results, letter, "finest")
    if not len(rows):
        raise NotInThisRun(f"No trial of Experiment {letter} is in this run.")
    figure, grid = panels(1, 2, 3.7, sharey=True, width_ratios=[2.2, 1])
    floor = NOISE_MAE * float(np.mean(rows["noise"]))
    ends = [draw_task(axes, rows, task, floor) for task, axes in enumerate(grid[0], start=1)]
    grid[0, 0].set(ylabel="MAE, noisy targets", yscale="log")
    for stage in range(STAGES):
        grid[0, 0].axvline(STAGE_EPOCHS * stage + 0.5, color=GREY, lw=0.8, ls=":")
        label = f"r = {stage}\nM = {2 * stage}"
        grid[0, 0].text(
            STAGE_EPOCHS * stage + 3,
            0.98,
            label,
            transform=grid[0, 0].get_xaxis_transform(),
            va="top",
            fontsize=9,
        )
    grid[0, 0].set_xticks(range(0, STAGES * STAGE_EPOCHS + 1, STAGE_EPOCHS))
    low, high = grid[0, 0].get_ylim()
    grid[0, 0].set_ylim(low, high * (high / low) ** 0.25)
    grid[0, 1].legend(loc="upper right")
    text = f"Experiment {letter}: the median validation MAE ends at {number(ends[0])} in Task 1"
    return headline(figure, f"{text} and at {number(ends[1])} in Task 2; noise alone makes {number(floor)}")


def draw_task(axes: Axes, rows: Table, task: int, floor: float) -> float:
    """Draw all training and validation curves of a task and their medians; return the last validation."""
    last = float("nan")
    kinds = (("training", BLUE, "-"), ("validation", VERMILLION, "--"))
    for kind, colour, line in kinds:
        curves = stack(list(rows[f"{kind}_{task}"]))
        if not len(curves):
            continue
        epochs, middle = np.arange(1, curves.shape[1] + 1), np.nanmedian(curves, axis=0)
        axes.plot(epochs, curves.T, color=colour, lw=0.5, alpha=0.25, rasterized=True)
        axes.plot(epochs, middle, color=colour, ls=line, lw=1.8, label=f"{kind}, median")
        last = float(middle[-1])
    axes.axhline(floor, color=BLACK, lw=1, ls=(0, (1, 2)), label="noise alone")
    axes.set(title=f"Task {task}: {count([len(rows)], 'trial')}", xlabel="epoch")
    return last


def appendix_expansions(results: Table, pictures: Pictures, letter: str) -> Figure:
    """The model after each expansion, beside the target."""
    images = need(pictures, letter, [*(f"stage_{stage}" for stage in range(STAGES)), "target_1"])
    stages = stack(list(pick(results, letter, "finest")["stage_clean"]))
    errors = (
        stages.mean(axis=0) if len(stages) else np.abs(np.array(images[:STAGES]) - images[-1]).mean((1, 2))
    )
    figure, grid = panels(2, 3, 5.6, sharex=True, sharey=True)
    scale = common_scale(images)
    for stage, (axes, image) in enumerate(zip(grid.flat, images, strict=True)):
        named = f"r = {stage}, M = {2 * stage}: MAE {number(errors[stage])}" if stage < STAGES else "target"
        draw_map(axes, image, named, scale)
    name_inputs(grid)
    colour_bar(figure, grid[0, 0].images[0], grid, "output", aspect=40)
    best = int(np.argmin(errors))
    who = f"mean of {count([len(stages)], 'trial')}" if len(stages) else "this trial"
    ends = f"from {number(errors[0])} at r = 0 to {number(errors[-1])} at r = {STAGES - 1}"
    text = f"Experiment {letter}: the clean test MAE goes {ends}, and is lowest at r = {best} ({who})"
    return headline(figure, text)


def appendix_inspection(pictures: Pictures, letter: str) -> Figure:
    """Targets and outputs of both tasks, and what Task 2 did off target."""
    images = need(pictures, letter, ["target_1", f"stage_{STAGES - 1}", "target_2", "finest_2"])
    names = ["target of Task 1", "model after Task 1", "target of Task 2", "model after Task 2"]
    change = np.abs(images[3] - images[2])
    figure, grid = panels(1, 5, 3.1, sharex=True, sharey=True)
    scale = common_scale(images)
    for axes, image, name in zip(grid[0], images, names, strict=False):
        draw_map(axes, image, name, scale)
    draw_map(grid[0, 4], change, "distance from target", common_scale([change], low=0), SIZES)
    for axes in grid[0, 2:]:
        outline(axes, HOLE)
    name_inputs(grid)
    colour_bar(figure, grid[0, 3].images[0], grid[0, :4], "output", orientation="horizontal", aspect=50)
    colour_bar(
        figure, grid[0, 4].images[0], grid[0, 4], "|model − target|", orientation="horizontal", aspect=12
    )
    apart = outside(HOLE, len(change))
    before, after = np.abs(images[1] - images[2])[apart].mean(), change[apart].mean()
    text = f"Experiment {letter}: Task 2 takes the mean distance outside the box from {number(before)}"
    return headline(figure, f"{text} to {number(after)}")


# --- ours beside the paper's -----------------------------------------------------------------------------


def error_with_charts(results: Table) -> Figure:
    """All four models, on noisy and on clean targets."""
    figure, grid = panels(2, 3, 6.4, sharex=True, sharey="row")
    for row, (column, name) in zip(grid, (("test_noisy", "noisy"), ("test_clean", "clean")), strict=True):
        means = mean_errors(results, column)
        for axes, inputs in zip(row, INPUTS, strict=True):
            draw_errors(axes, means, inputs, list(MODELS))
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.label_outer()
        row[0].set_ylabel(f"test MAE on Task 2, {name} targets")
    for axes in grid[1]:
        axes.set(xlabel="width δ of the changed region", title="")
    figure.legend(*grid[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    better, cells = cells_where(means, "charts", "finest")
    overall = means.groupby("model")["mean"].mean()
    listed = ", ".join(f"{number(overall[m])} {m}" for m in ("charts", "rehearsal") if m in overall)
    plain = f" against {number(overall['finest'])} with the guarantee alone" if "finest" in overall else ""
    text = f"On clean targets charts have a lower error than the paper's model in {better} of {cells} cells"
    return headline(figure, f"{text}; mean error {listed}{plain}" if listed else text)


def inspection_with_charts(pictures: Pictures) -> Figure:
    """The 2-D trial again: what three ways of learning Task 2 change."""
    names = {"finest": "plain training", "rehearsal": "rehearsal", "charts": "charts"}
    before, target = need(pictures, "main", ["finest_1", "target_2"])
    after = need(pictures, "main", [f"{name}_2" for name in names])
    (box,) = need(pictures, "main", ["box"])
    figure, grid = panels(3, 3, 7.9, sharex=True, sharey=True)
    rows = [after, [np.abs(a - target) for a in after], [np.abs(a - before) for a in after]]
    scales = [common_scale(after), common_scale(rows[1], low=0), common_scale(rows[2], low=0)]
    labels = ["output after Task 2", "|model − target|", "|change by Task 2|"]
    apart = outside(box, len(target))
    for k, (axes, images) in enumerate(zip(grid, rows, strict=True)):
        for panel, image, name in zip(axes, images, names.values(), strict=True):
            mean = f"mean outside the box: {number(float(image[apart].mean()))}"
            draw_map(panel, image, mean if k else name, scales[k], SIZES if k else VALUES)
            outline(panel, box)
        colour_bar(figure, axes[0].images[0], axes, labels[k], aspect=18)
    name_inputs(grid)
    moved = [
        f"{(change[apart] > 0).mean():.1%} by {name}"
        for change, name in zip(rows[2], names.values(), strict=True)
    ]
    return headline(figure, f"How much of the picture outside the box Task 2 changed: {', '.join(moved)}")


def appendix_with_charts(results: Table, pictures: Pictures) -> Figure:
    """Task 2 of A–D: off-target difference with plain training and with charts, and the errors."""
    letters = [x for x in LETTERS if {f"{x}/{m}_2" for m in (*PLAIN_AND_CHARTS, "target")} <= set(pictures)]
    if not letters:
        raise NotInThisRun("No trial of Experiments A–D is in this run.")
    figure, grid = panels(3, 4, 7.4)
    maps = {
        (model, letter): np.abs(np.subtract(*need(pictures, letter, [f"{model}_2", "target_2"])))
        for model in PLAIN_AND_CHARTS
        for letter in letters
    }
    scale = common_scale(list(maps.values()), low=0)
    for row, (model, name) in zip(grid, PLAIN_AND_CHARTS.items(), strict=False):
        for axes, letter in zip(row, LETTERS, strict=True):
            draw_difference(axes, maps.get((model, letter)), f"{letter}, {name}", scale)
    name_inputs(grid[:2])
    for axes in grid[1]:
        axes.tick_params(labelbottom=True)
    drawn = next(axes.images[0] for axes in grid[0] if axes.images)
    colour_bar(figure, drawn, grid[:2], "|model − target|", aspect=30)
    for axes in grid[2, 1:]:
        axes.sharey(grid[2, 0])
    ratios = [draw_places(axes, results, letter) for axes, letter in zip(grid[2], LETTERS, strict=True)]
    grid[2, 0].set_ylabel("clean test MAE")
    figure.legend(*lines_with_label(grid[2]), loc="outside lower center", ncols=2)
    known = [f"{ratio:.2g} ({x})" for x, ratio in zip(LETTERS, ratios, strict=True) if np.isfinite(ratio)]
    text = "Outside the box the error of plain training, divided by that of charts, is"
    return headline(figure, f"{text} {', '.join(known) or 'not known yet'}")


def draw_difference(axes: Axes, image: Array | None, title: str, scale: Normalize) -> None:
    """Draw the size of a difference with the hole outlined, or say that there is none yet."""
    axes.set(title=title)
    if image is None:
        nothing_here(axes)
        return
    draw_map(axes, np.abs(image), title, scale, SIZES)
    outline(axes, HOLE)


def draw_places(axes: Axes, results: Table, letter: str) -> float:
    """Draw every trial's error inside and outside the box for both models; return the ratio outside."""
    outer, trials = [], 0
    for shift, (model, name) in zip((-0.15, 0.15), PLAIN_AND_CHARTS.items(), strict=True):
        look, rows, places = MODELS[model], pick(results, letter, model), np.arange(2) + shift
        trials = max(trials, len(rows))
        if len(rows):
            errors = np.asarray(rows[["test_inside", "test_outside"]], np.float64)  # (trials, 2)
            means = np.nanmean(errors, axis=0)
            axes.plot(places, errors.T, look.marker, color=look.colour, ms=3, alpha=0.3, rasterized=True)
            axes.plot(places, means, look.marker, color=look.colour, ms=8, mfc="none", label=f"{name}: mean")
            axes.set_yscale("log")  # without data a logarithmic axis cannot be drawn
            outer.append(float(means[1]))
    axes.set(xticks=[0, 1], xticklabels=["inside", "outside"], xlim=(-0.5, 1.5))
    axes.set_title(f"{letter}: {count([trials], 'trial')}")
    return outer[0] / outer[1] if len(outer) == 2 else float("nan")


# --- where we differ -------------------------------------------------------------------------------------


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


class Sizes(NamedTuple):
    """Size of the gradient of a model: the largest found, our bound on it, and the paper's."""

    exact: float
    bound: float
    paper: float


def gradient_sizes(model: Atlas, X: Array) -> Sizes:
    """Compare the exact 1-norm at some points with our bound and the paper's U.

    U = 4nuπ²(1 + exp u_g + exp u_h), with the least u that it allows, 2/3, and with u_g and u_h the largest
    sums of coefficients in size.

    Examples
    --------
    >>> sizes = gradient_sizes(Atlas(1), np.array([[0.5]]))
    >>> round(sizes.exact, 2), round(sizes.bound, 2), round(sizes.paper, 2)
    (4.1, 4.29, 78.96)
    """
    densities = range(model.density + 1)
    largest = np.exp(
        [_largest_sum([coefficients(rho) for rho in densities]) for coefficients in (model.g, model.h)]
    )
    paper = 4 * model.inputs * 2 / 3 * np.pi**2 * (1 + largest.sum())
    return Sizes(float(gradient_norm(model, X).max()), float(gradient_bound(model)[0]), float(paper))


def _largest_sum(coefficients: Sequence[Array]) -> float:
    """Bound the size of every exponent: sum its largest coefficients over densities and inputs."""
    return float(sum(np.abs(theta[0]).max(axis=-1).sum(axis=-1) for theta in coefficients).max())


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


def optimizer_reach(optimizer: str) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Learn two tasks in a row: points, the change that Task 2 makes there, and which are out of its reach.

    Out of reach are points at least `orthogonality_distance` away from the data of Task 2.

    Examples
    --------
    >>> x, change, far = optimizer_reach("lazy-adam")
    >>> float(change[far].max())
    0.0
    """
    random, x, low, high = np.random.default_rng(0), np.linspace(0, 1, 801), 0.4, 0.5
    trainer = Trainer(Atlas(1), optimizer=optimizer, random_state=0)
    first, second = random.random((2000, 1)), low + (high - low) * random.random((2000, 1))
    trainer.run(first, np.sin(6 * first), epochs=5)
    before = trainer.model(x[:, None])[:, 0]
    trainer.run(second, np.full(2000, 2.0), epochs=5)
    reach = orthogonality_distance(trainer.model.density)
    return x, np.abs(trainer.model(x[:, None])[:, 0] - before), (x <= low - reach) | (x >= high + reach)


def optimizer() -> Figure:
    """What Task 2 changes with dense and with lazy Adam."""
    figure, grid = panels(1, 1, 3.6)
    axes, farthest = grid[0, 0], []
    for name, label, look in (
        ("adam", "dense Adam", MODELS["all"]),
        ("lazy-adam", "lazy Adam", MODELS["finest"]),
    ):
        x, change, far = optimizer_reach(name)
        axes.plot(x, np.where(change > 0, change, np.nan), color=look.colour, ls=look.line, label=label)
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


# --- all of them -----------------------------------------------------------------------------------------


def _appendix_figures(letter: str) -> dict[str, Draw]:
    name = f"experiment-{letter.lower()}"
    return {
        f"{name}-training": of_results(partial(appendix_training, letter=letter)),
        f"{name}-expansions": styled(partial(appendix_expansions, letter=letter)),
        f"{name}-inspection": of_pictures(partial(appendix_inspection, letter=letter)),
    }


FIGURES: dict[str, Draw] = {
    "forgetting-of-a-linear-function": of_nothing(linear_forgetting),
    "basis-functions": of_nothing(basis_functions),
    "sparse-and-bounded-activation": of_nothing(sparse_activation),
    "distal-orthogonality": of_nothing(distal_orthogonality),
    "doubling-densities": of_nothing(doubling_densities),
    "inspection-2d": of_pictures(inspection_2d),
    "task-1-validation": of_results(task_1_validation),
    "task-2-validation-without": of_results(partial(task_2_validation, model="all")),
    "task-2-validation-with": of_results(partial(task_2_validation, model="finest")),
    "test-error-by-width": of_results(error_by_width),
    **{name: draw for letter in LETTERS for name, draw in _appendix_figures(letter).items()},
    "eight-basis-functions": of_nothing(eight_basis_functions),
    "visual-proof": of_nothing(visual_proof),
    "test-error-by-width-with-charts": of_results(error_with_charts),
    "inspection-2d-with-charts": of_pictures(inspection_with_charts),
    "experiments-a-to-d-with-charts": styled(appendix_with_charts),
    "differences-threshold": of_nothing(threshold),
    "differences-gradient-bound": of_nothing(gradient_size),
    "differences-parameter-count": of_nothing(parameter_count),
    "differences-optimiser": of_nothing(optimizer),
}
