"""Pictures: the only importer of matplotlib.

Functions that draw take axes first and return them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax

from atlas_splines.core.checks import check_size
from atlas_splines.core.evaluation import sums
from atlas_splines.core.model import Atlas
from atlas_splines.core.training import History
from atlas_splines.estimators.column_footprint import ColumnFootprint
from atlas_splines.memory.footprints import BoxFootprint, Footprint

if TYPE_CHECKING:
    from atlas_splines.core.records import Record
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = [
    "draw_box",
    "draw_footprint",
    "draw_history",
    "draw_map",
    "draw_shape",
    "draw_terms",
    "draw_updates",
    "save_inspection",
    "save_maps",
]

VALUES = "cividis"  # colour-blind safe, and monotone in grey
SIZES = "Greys"  # how large a change is: white means none at all
ACCENT = "#d55e00"
MAIN = "#0072b2"
QUIET = "#777777"
PALE = "#f2c4a0"  # of what was reverted
LANE = "#f3f3f3"
GAP = 0.06  # on either side of a lane
LONGEST_NAME = 12  # letters under a lane
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

GRID = 151  # places along a column
SAMPLE = 200  # points whose predictions are averaged
BAND = (10, 90)  # per cent
DATA = (0.5, 99.5)  # per cent: the range of a column that its data says something about
RIM = 0.02  # of the range shown, left free on either side
CENTRE = (2, 98)  # per cent: the rim of a domain, where data is rare, does not set the scale
RUG = 0.1  # share of the height for the data's density
MOST_COLUMNS = 12
MOST_UPDATES = 20
SUFFIXES = (".png", ".svg", ".pdf")

Array = NDArray[np.float64]
Image = NDArray[np.floating]
Box = tuple[tuple[float, float], tuple[float, float]]
Column = int | str


# --- maps of the unit square ----------------------------------------------------------------------------


def draw_map(axes: Axes, image: Image, *, title: str, low: float, high: float, colours: str = VALUES) -> Axes:
    """Draw values over the unit square, ``image[i, j]`` at x₁ = i and x₂ = j of an even grid.

    Examples
    --------
    >>> axes = Figure().subplots()
    >>> draw_map(axes, np.eye(3), title="identity", low=0, high=1) is axes
    True
    """
    axes.imshow(image.T, origin="lower", extent=(0, 1, 0, 1), cmap=colours, vmin=low, vmax=high)
    axes.set(title=title, xlabel="$x_1$", ylabel="$x_2$", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    return axes


def draw_box(axes: Axes, box: Box, label: str | None = None) -> Axes:
    """Outline a box of the unit square, given as (low, high) for each input.

    Examples
    --------
    >>> axes = draw_box(Figure().subplots(), ((0.2, 0.4), (0.5, 0.9)))
    >>> len(axes.patches)
    1
    """
    (left, right), (bottom, top) = box
    size = (right - left, top - bottom)
    axes.add_patch(Rectangle((left, bottom), *size, fill=False, color=ACCENT, lw=2, label=label))
    return axes


def save_maps(path: Path, values: Mapping[str, Image], changes: Mapping[str, Image], box: Box) -> None:
    """Save a row of value maps above a row of as many change maps, each row with one colour scale."""
    figure = Figure(figsize=(8, 6.8), layout="constrained")
    above, below = figure.subplots(2, len(values), squeeze=False)
    draw_maps(above, values, box, min(float(image.min()) for image in values.values()), VALUES, "prediction")
    draw_maps(below, changes, box, 0.0, SIZES, "size of the change")
    figure.savefig(path, dpi=110)


def draw_maps(
    panels: NDArray[np.object_], maps: Mapping[str, Image], box: Box, low: float, colours: str, label: str
) -> None:
    """Draw maps side by side with one colour scale, and outline a box in each."""
    high = max(float(image.max()) for image in maps.values())
    for axes, (title, image) in zip(panels, maps.items(), strict=True):
        draw_box(draw_map(axes, image, title=title, low=low, high=high, colours=colours), box)
    panels[0].figure.colorbar(panels[0].images[0], ax=list(panels), label=label, shrink=0.85)


# --- shapes: the effect of a column ---------------------------------------------------------------------


def draw_shape(
    axes: Axes, estimator: AtlasEstimator, column: Column, *, X: ArrayLike | None = None, output: int = 0
) -> Axes:
    """Draw the effect of one column on the prediction of a fitted estimator, in the column's units.

    - Thick line: the partial dependence, which is the mean over up to 200 points of the prediction when the
      column of each point is set to the value on the axis.
    - Band: where 80 % of these points are. Each point's own curve is first shifted to the mean of all, so
      that the band shows how much the effect differs from point to point; without interactions it has no
      width. Probabilities are cut to [0, 1].
    - Thin dashed line: the spline f_j of F alone, shifted to the same mean, without exponentials and charts;
      for a regressor only. Where it leaves the thick line, the exponentials or charts act.
    - Grey, at the bottom: how often the values on the axis occur in X.

    Lines cover the domain, or with X the middle 99 % of its values.

    Parameters
    ----------
    axes
        Where to draw.
    estimator
        A fitted `AtlasRegressor` or `AtlasClassifier`.
    column
        Its number, or its name.
    X
        Rows to average over, in raw units, such as the training data; without it random points of the
        domain. Rows outside the domain count as on its edge.
    output
        Target of a regressor, or class of a classifier, whose probability is drawn; counted from zero.

    Examples
    --------
    >>> from atlas_splines import AtlasRegressor
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = AtlasRegressor(terms=0, density=0, random_state=0).fit(X, 3 * X[:, 0])
    >>> axes = draw_shape(Figure().subplots(), model, column=0, X=X)
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('column 0', 'prediction')
    """
    names = names_of(estimator)
    j = number_of(column, names)
    check_size("output", output, least=0, most=estimator.model_.outputs - 1)
    rows = None if X is None else as_rows(estimator, X)
    places = places_along(estimator.model_, j) if rows is None else places_in_data(estimator, j, rows)
    curves = effect(estimator, j, places, sample_points(estimator, rows), output)
    is_classifier = hasattr(estimator, "classes_")
    x, low, high = estimator.domain_.to_raw(j, places), *np.percentile(curves, BAND, axis=1)
    if is_classifier:
        low, high = low.clip(0, 1), high.clip(0, 1)  # a shifted curve may leave what a probability can be
    axes.fill_between(x, low, high, color=MAIN, alpha=0.2, lw=0, label="effect for 80 % of points")
    axes.plot(x, curves.mean(axis=1), color=MAIN, lw=2, label="mean prediction")
    if not is_classifier:
        spline = additive_shape(estimator, j, places, output) + curves.mean()
        axes.plot(x, spline, color="black", lw=0.9, ls=(0, (4, 2)), label="additive part")
    if rows is not None:
        draw_density(axes, rows[:, j])
    rim = RIM * (x[-1] - x[0])
    axes.set(xlabel=names[j], ylabel=meaning(estimator, output), xlim=(x[0] - rim, x[-1] + rim))
    return axes


def effect(estimator: AtlasEstimator, j: int, places: Array, sample: Array, output: int) -> Array:
    """Prediction of each point at places along a column, shape (places, points).

    The curve of each point is shifted so that all have the same mean.
    """
    points = np.repeat(sample[None], places.size, axis=0)  # (places, points, inputs)
    points[:, :, j] = places[:, None]
    indicators = estimator.domain_.indicators
    points[:, :, len(estimator.domain_.knots) + np.flatnonzero(indicators == j)] = 0  # it is not missing
    curves = predict(estimator, points.reshape(-1, sample.shape[1]))[:, output].reshape(places.size, -1)
    return curves - curves.mean(axis=0) + curves.mean()


def predict(estimator: AtlasEstimator, points: Array) -> Array:
    """Targets or probabilities at points in the model's coordinates, shape (points, outputs)."""
    outputs = estimator.model_(points).astype(np.float64)
    if hasattr(estimator, "classes_"):
        return softmax(outputs, axis=1)
    return outputs * estimator.target_scale_ + estimator.target_mean_


def additive_shape(estimator: AtlasEstimator, j: int, places: Array, output: int) -> Array:
    """The spline f_j in units of the target, with mean zero."""
    values = sums_along(estimator.model_, j, places, output)[:, -1]
    return (values - values.mean()) * estimator.target_scale_[output]


def sums_along(model: Atlas, j: int, places: Array, output: int) -> Array:
    """G_k, H_k and F along one input, on the lower edge of the others: shape (places, 2M + 1)."""
    points = np.tile(model.domain[:, 0], (places.size, 1))
    points[:, j] = places
    return sums(model.state, model.points(points))[:, output].astype(np.float64)


def places_along(model: Atlas, j: int, grid: int = GRID) -> Array:
    """Coordinates that cover the domain of an input evenly."""
    low, high = model.domain[j].tolist()
    return np.linspace(low, high, grid)


def places_in_data(estimator: AtlasEstimator, j: int, rows: Array) -> Array:
    """Coordinates that cover almost all rows evenly, or the domain if the column is constant in them."""
    column = estimator.domain_.to_unit(rows)[:, j].clip(*estimator.model_.domain[j])
    low, high = np.percentile(column, DATA).tolist()
    return np.linspace(low, high, GRID) if low < high else places_along(estimator.model_, j)


def sample_points(estimator: AtlasEstimator, rows: Array | None) -> Array:
    """Some of the rows, or points of the domain, in the model's coordinates; the same ones each time."""
    random, (low, high) = np.random.default_rng(0), estimator.model_.domain.T
    if rows is None:
        points = low + (high - low) * random.random((SAMPLE, low.size))
        points[:, len(estimator.domain_.knots) :] = 0  # no value is missing
        return points
    chosen = rows[random.permutation(len(rows))[:SAMPLE]]
    return estimator.domain_.to_unit(chosen).clip(low, high)


def as_rows(estimator: AtlasEstimator, X: ArrayLike) -> Array:
    """X as an array, with the columns of the estimator."""
    rows = np.asarray(X, np.float64)
    columns = estimator.n_features_in_
    if rows.ndim != 2 or rows.shape[1] != columns or not len(rows):
        raise ValueError(f"X has shape {rows.shape}; expected rows of the estimator's {columns} columns")
    return rows


def draw_density(axes: Axes, values: Array) -> None:
    """Show how often values occur, as grey bars at the bottom."""
    bottom = axes.get_xaxis_transform()  # x in units of the data, y as a share of the height
    known = values[np.isfinite(values)]
    distinct, counts = np.unique(known, return_counts=True)
    axes.margins(y=RUG + 0.05)
    if distinct.size <= GRID // 3:
        axes.vlines(distinct, 0, RUG * counts / counts.max(), color=QUIET, alpha=0.6, lw=3, transform=bottom)
    else:
        counts, edges = np.histogram(known, bins=GRID // 3)
        heights = RUG * np.append(counts, 0) / counts.max()
        axes.fill_between(edges, 0, heights, step="post", color=QUIET, alpha=0.5, lw=0, transform=bottom)


def meaning(estimator: AtlasEstimator, output: int) -> str:
    """What an output says."""
    if hasattr(estimator, "classes_"):
        return f"probability of {estimator.classes_[output]}"
    return "prediction" if estimator.model_.outputs == 1 else f"prediction of target {output}"


def names_of(estimator: AtlasEstimator) -> list[str]:
    """Names of the columns of a fitted estimator."""
    if not hasattr(estimator, "model_"):
        raise ValueError("the estimator has learned nothing yet; call fit first")
    unnamed = numbered("column", estimator.n_features_in_)
    return [str(name) for name in getattr(estimator, "feature_names_in_", unnamed)]


def numbered(kind: str, count: int) -> list[str]:
    """Names for what has none."""
    return [f"{kind} {j}" for j in range(count)]


def number_of(column: Column, names: Sequence[str]) -> int:
    """Number of a column that is given by its number or its name."""
    if not isinstance(column, str):
        return check_size("column", column, least=0, most=len(names) - 1)
    if column not in names:
        raise ValueError(f"there is no column {column!r}; the columns are {', '.join(names)}")
    return list(names).index(column)


# --- the multiplicative terms -----------------------------------------------------------------------------


def draw_terms(
    axes: Axes, model: Atlas | AtlasEstimator, input: Column, *, output: int = 0, most: int = 6
) -> Axes:
    """Draw the strongest factors exp g_kj and exp h_kj along one input j.

    A term k⁻²·exp G_k is a product of one factor for each input. Each factor is divided by its mean along
    the input, and the legend tells the mean of the whole term over the domain, in units of the output. Terms
    are ranked by that mean times the standard deviation of the factor. Terms that are subtracted, those with
    h_kj, are dashed; the two of a pair share a colour, and often cancel in part. Charts do not take part.

    Parameters
    ----------
    axes
        Where to draw.
    model
        A model, or a fitted estimator: then in units of its columns and target.
    input
        Number of the input, or the name of an estimator's column.
    output
        Which output, counted from zero.
    most
        How many factors to draw at most.

    Examples
    --------
    >>> model = Atlas(inputs=2, terms=1)
    >>> model.g(4)[0, 0, 1] = np.linspace(0, 2, 64)
    >>> draw_terms(Figure().subplots(), model, input=1).get_legend_handles_labels()[1]
    ['+3.2 (k = 1)']
    """
    atlas, j, name, x, unit = look_along(model, input)
    check_size("output", output, least=0, most=atlas.outputs - 1)
    factors, sizes = term_factors(atlas, j, output)
    strengths = sizes * factors.std(axis=0)  # (2M,)
    ranked = np.argsort(-strengths)[: check_size("most", most, least=1)]
    colours: dict[int, str] = {}  # one for each pair
    for term in ranked[strengths[ranked] > 0].tolist():
        negative, k = divmod(term, atlas.terms)
        label = f"{'−' if negative else '+'}{sizes[term] * unit[output]:.2g} (k = {k + 1})"
        colour = colours.setdefault(k, LINES[len(colours) % len(LINES)])
        axes.plot(x, factors[:, term], color=colour, ls="--" if negative else "-", label=label)
    axes.axhline(1, color=QUIET, lw=0.8, zorder=0)
    axes.set(xlabel=name, ylabel="factor, relative to its mean", xlim=(x[0], x[-1]))
    return axes


def look_along(model: Atlas | AtlasEstimator, input: Column) -> tuple[Atlas, int, str, Array, Array]:
    """Model, number and name of an input, its values on the grid, and the unit of each output."""
    if isinstance(model, Atlas):
        names = numbered("input", model.inputs)
        j = number_of(input, names)
        return model, j, names[j], places_along(model, j), np.ones(model.outputs)
    names, atlas = names_of(model), model.model_
    j = number_of(input, names)
    x = model.domain_.to_raw(j, places_along(atlas, j))
    return atlas, j, names[j], x, getattr(model, "target_scale_", np.ones(atlas.outputs))


def term_factors(model: Atlas, j: int, output: int) -> tuple[Array, Array]:
    """Factors along an input, each with mean one, shape (grid, 2M), and the means of the terms, shape (2M,).

    Inputs are independent in a term, so its mean over the domain is the product of its factors' means.
    """
    terms = slice(2 * model.terms)
    sums = np.stack(
        [sums_along(model, i, places_along(model, i), output)[:, terms] for i in range(model.inputs)]
    )
    corner = sums[0, 0]  # (2M,): where every grid begins
    log_means = logsumexp(sums - corner, axis=1) - np.log(GRID)  # (inputs, 2M)
    log_sizes = corner + log_means.sum(axis=0) + np.log(np.abs(model.state.layout.slope[terms]))
    return np.exp(sums[j] - corner - log_means[j]), np.exp(log_sizes)


# --- footprints -----------------------------------------------------------------------------------------


def draw_footprint(
    axes: Axes,
    footprint: Footprint,
    columns: Sequence[Column] = (0,),
    *,
    points: ArrayLike | None = None,
) -> Axes:
    """Draw the footprint of an update along one input, as bars, or along two, as areas.

    Boxes are projected to the inputs shown. Of a cross, which plain training leaves, only the arms along
    these inputs are drawn: further inputs have arms of their own, which would cover everything.

    Parameters
    ----------
    axes
        Where to draw.
    footprint
        From `footprint`, an entry of ``model.updates``, or an estimator's `footprint`: then in its units.
    columns
        Number of one input or of two; names, too, if it comes from an estimator.
    points
        Rows to show with it, such as the data of the update, shape (rows, inputs).

    Examples
    --------
    >>> from atlas_splines import footprint
    >>> area = footprint(Atlas(inputs=2), [[0.1, 0.1], [0.3, 0.3]])
    >>> axes = draw_footprint(Figure().subplots(), area, columns=(0, 1))
    >>> axes.get_xlabel(), axes.get_ylabel(), len(axes.patches)
    ('input 0', 'input 1', 1)
    """
    names = names_in(footprint)
    inputs = [number_of(column, names) for column in columns]
    if len(inputs) not in (1, 2):
        raise ValueError(f"columns names {len(inputs)} inputs; give one or two")
    rows = None if points is None else np.asarray(points, np.float64)
    limits = [raw(footprint, j, area_of(footprint).domain[j]) for j in inputs]
    axes.set(xlabel=names[inputs[0]], xlim=limits[0])
    if len(inputs) == 1:
        draw_bars(axes, footprint.intervals(inputs[0]), 0.5, ACCENT)
        axes.set(ylim=(0, 1), yticks=[])
        if rows is not None:
            axes.vlines(rows[:, inputs[0]], 0, RUG, color="black", lw=0.8, alpha=0.5)
        return axes
    axes.set(ylabel=names[inputs[1]], ylim=limits[1])
    for (left, right), (bottom, top) in projected_boxes(footprint, inputs, limits):
        size = (right - left, top - bottom)
        axes.add_patch(Rectangle((left, bottom), *size, facecolor=(ACCENT, 0.3), edgecolor=ACCENT))
    if rows is not None:
        axes.plot(*rows[:, inputs].T, ".", color="black", ms=2, alpha=0.5)
    return axes


def projected_boxes(footprint: Footprint, inputs: list[int], limits: list[Array]) -> list[Any]:
    """Areas of two inputs, each as the (low, high) of both: of boxes, or of the arms of a cross."""
    area, (a, b) = area_of(footprint), inputs
    if isinstance(area, BoxFootprint):
        return [(raw(footprint, a, fence.box[a]), raw(footprint, b, fence.box[b])) for fence in area.fences]
    upright = [(part, limits[1]) for part in footprint.intervals(a)]
    return upright + [(limits[0], part) for part in footprint.intervals(b)]


def draw_bars(axes: Axes, intervals: Sequence[tuple[float, float]], height: float, colour: str) -> None:
    """Draw intervals as horizontal bars at a height, each at least as wide as a line."""
    spans = [(low, high - low) for low, high in intervals]
    axes.broken_barh(spans, (height - 0.3, 0.6), facecolor=colour, edgecolor=colour, lw=0.8)


def area_of(footprint: Footprint) -> Footprint:
    """The footprint in the model's coordinates."""
    return footprint.area if isinstance(footprint, ColumnFootprint) else footprint


def raw(footprint: Footprint, j: int, values: Array) -> Array:
    """Coordinates in the units of the footprint."""
    return footprint.columns.to_raw(j, values) if isinstance(footprint, ColumnFootprint) else values


def names_in(footprint: Footprint) -> Sequence[str]:
    """Names of the inputs."""
    if isinstance(footprint, ColumnFootprint):
        return footprint.names
    return numbered("input", footprint.inputs)


# --- histories ------------------------------------------------------------------------------------------


def draw_history(axes: Axes, history: History | Sequence[Sequence[float]] | AtlasEstimator) -> Axes:
    """Draw the loss after each epoch, with a dot at the best epoch.

    Parameters
    ----------
    axes
        Where to draw.
    history
        From `train` or an entry of ``model.updates``: training and validation loss. Or a fitted estimator or
        its ``validation_loss_``: a line for each member.

    Examples
    --------
    >>> history = History(loss=[3.0, 0.2], validation=[0.4, 0.5], best_epoch=0)
    >>> axes = draw_history(Figure().subplots(), history)
    >>> axes.get_yscale(), [line.get_label() for line in axes.lines]
    ('log', ['training', 'validation', 'best epoch'])
    """
    lines = losses_of(history if isinstance(history, History | Sequence) else losses_in(history))
    values = np.concatenate([np.empty(0), *lines.values()])
    if not values.size:
        raise ValueError("the history has no losses to draw; it takes an epoch, or rows that are held out")
    for number, (label, losses) in enumerate(lines.items()):
        axes.plot(np.arange(1, len(losses) + 1), losses, color=LINES[number % len(LINES)], label=label)
    judged = [losses for label, losses in lines.items() if label != "training" and losses]
    for losses in judged:
        best = int(np.argmin(losses))
        axes.plot(best + 1, losses[best], "o", color="black", ms=5, zorder=3)
    if judged:
        axes.lines[-1].set_label("best epoch")
    spans_decades = values.min() > 0 and values.max() > 10 * values.min()
    axes.set(xlabel="epoch", ylabel="loss", yscale="log" if spans_decades else "linear")
    return axes


def losses_of(history: History | Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """The lines of a history, by their labels."""
    if isinstance(history, History):
        lines = {"training": history.loss, "validation": history.validation}
        return {label: losses for label, losses in lines.items() if losses}
    return {f"member {k + 1}, held-out rows": list(losses) for k, losses in enumerate(history)}


def losses_in(estimator: AtlasEstimator) -> list[list[float]]:
    """Losses of the members of a fitted estimator."""
    names_of(estimator)  # refuses one that is not fitted
    return estimator.validation_loss_


# --- what an estimator is and has been through ----------------------------------------------------------


def draw_updates(axes: Axes, estimator: AtlasEstimator, columns: Sequence[Column] | None = None) -> Axes:
    """Draw the footprint of each update, one row for each, oldest first; reverted ones are pale.

    Each column of the data has a lane from the low to the high end of its domain; bars are the parts of it
    that the footprint projects to. A consolidation has no footprint, and is a line through all lanes.

    Parameters
    ----------
    axes
        Where to draw.
    estimator
        A fitted estimator. Of more than 20 updates the newest 20 are drawn.
    columns
        Which columns, by number or name; by default all.

    Examples
    --------
    >>> from atlas_splines import AtlasRegressor
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = AtlasRegressor(terms=0, density=0, random_state=0).fit(X, X[:, 0])
    >>> axes = draw_updates(Figure().subplots(), model.partial_fit(X / 4, X[:, 1]))
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['1: chart, 200 rows']
    """
    names = names_of(estimator)
    lanes = [number_of(column, names) for column in (range(len(names)) if columns is None else columns)]
    records = estimator.update_log_[-MOST_UPDATES:]
    for row, record in enumerate(records):
        draw_update(axes, estimator, record, lanes, row)
    axes.set_yticks(range(len(records)), [describe(record) for record in records])
    axes.set_xticks(np.arange(len(lanes)) + 0.5, [lane_label(estimator, j, names[j]) for j in lanes])
    for lane in range(len(lanes)):
        axes.axvspan(lane + GAP, lane + 1 - GAP, color=LANE, lw=0, zorder=0)
    axes.tick_params(length=0, labelsize="small")
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0, len(lanes)), ylim=(max(len(records), 1) - 0.5, -0.5))
    return axes


def draw_update(
    axes: Axes, estimator: AtlasEstimator, record: Record, lanes: Sequence[int], row: int
) -> None:
    """Draw one row of `draw_updates`."""
    area = getattr(record, "footprint", None)
    if area is None:
        axes.plot([GAP, len(lanes) - GAP], [row, row], color=QUIET, lw=1)
        return
    for lane, j in enumerate(lanes):
        low, high = estimator.domain_.to_raw(j, estimator.model_.domain[j])
        parts = np.array(area.intervals(j)).reshape(-1, 2)
        shares = GAP + (1 - 2 * GAP) * (parts - low) / (high - low)
        draw_bars(axes, (lane + shares).tolist(), row, PALE if record.reverted else ACCENT)


def describe(record: Record) -> str:
    """A row's label."""
    return f"{record.id}: {record.kind}, {record.rows} rows" + (" (reverted)" if record.reverted else "")


def lane_label(estimator: AtlasEstimator, j: int, name: str) -> str:
    """Name of a column, shortened to its lane, and its domain."""
    low, high = estimator.domain_.to_raw(j, estimator.model_.domain[j])
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return f"{short}\n{low:.4g}\nto {high:.4g}"


def save_inspection(path: Path, estimator: AtlasEstimator) -> None:
    """Save a picture of a fitted estimator: the shape of each column, and the footprint of each update.

    Of more than 12 columns, those with the largest effect are drawn; a column that was constant in the first
    data has none. All shapes have one scale, so that effects can be compared; it holds every mean prediction,
    and all but the most extreme 2 % of the bands on either side. An estimator keeps no data, so
    shapes are averaged over random points of the domain. Of several targets or classes the first is drawn;
    of two classes the second.

    Parameters
    ----------
    path
        Where to write; it ends in .png, .svg or .pdf.
    estimator
        A fitted `AtlasRegressor` or `AtlasClassifier`.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"cannot write {path}: a picture ends in .png, .svg or .pdf")
    inspection(estimator).savefig(path, dpi=110)


def inspection(estimator: AtlasEstimator) -> Figure:
    """The figure that `save_inspection` saves."""
    names, records = names_of(estimator), estimator.update_log_[-MOST_UPDATES:]
    output = 1 if len(getattr(estimator, "classes_", ())) == 2 else 0
    columns = most_influential(estimator, output)
    across = 3 if len(columns) in (5, 6) else min(len(columns), 4)
    down = -(-len(columns) // across)
    heights = [2.6 * down + 0.8, 0.3 * len(records) + 1.2][: 2 if records else 1]
    figure = Figure(figsize=(max(2.9 * across, 7), sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    panels = parts[0].subplots(down, across, sharey=True, squeeze=False)
    draw_shapes(panels, estimator, columns, output)
    which = f"the {len(columns)} most influential of {len(names)} columns"
    shown = "each column" if len(columns) == len(names) else which
    parts[0].suptitle(f"Effect of {shown}, over random points of the domain")
    if records:
        draw_updates(parts[1].subplots(), estimator, columns)
        parts[1].suptitle(updates_title(len(estimator.update_log_)))
    return figure


def updates_title(count: int) -> str:
    """What the lower part of an inspection shows."""
    some = f" (the newest {MOST_UPDATES} of {count})" if count > MOST_UPDATES else ""
    return f"Footprint of each update{some}"


def most_influential(estimator: AtlasEstimator, output: int) -> list[int]:
    """Columns to draw, in their order: all, or those along which predictions vary most.

    A column that was constant has no effect, whatever the model says where it has seen nothing.
    """
    count = estimator.n_features_in_
    if count <= MOST_COLUMNS:
        return list(range(count))
    columns = np.flatnonzero(~estimator.domain_.constant).tolist() or list(range(count))
    sample = sample_points(estimator, None)[: SAMPLE // 4]
    curves = [
        effect(estimator, j, places_along(estimator.model_, j, GRID // 6), sample, output) for j in columns
    ]
    variation = [curve.std(axis=0).mean() for curve in curves]
    return sorted(columns[place] for place in np.argsort(variation)[-MOST_COLUMNS:])


def draw_shapes(
    panels: NDArray[np.object_], estimator: AtlasEstimator, columns: list[int], output: int
) -> None:
    """Draw the shapes of columns on panels that share a scale, and one legend below them."""
    every: list[Axes] = panels.ravel().tolist()
    bands, means = [], []
    for axes, column in zip(every, columns, strict=False):
        draw_shape(axes, estimator, column, output=output).spines[["top", "right"]].set_visible(False)
        bands.append(np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1])
        means.append(np.asarray(axes.lines[0].get_ydata()))
    for axes in panels[:, 1:].ravel().tolist():
        axes.set_ylabel("")
    for axes in every[len(columns) :]:
        axes.remove()
    low, high = np.percentile(np.concatenate(bands), CENTRE)
    low, high = min(low, np.min(means)), max(high, np.max(means))
    every[0].set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    lines = every[0].get_legend_handles_labels()
    every[0].figure.legend(*lines, loc="outside lower center", ncols=3, frameon=False)
