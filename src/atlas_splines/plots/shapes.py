"""Partial dependence (Friedman 2001) with a band of individual conditional expectations, and terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.checks import check_size
from atlas_splines.plots.columns import (
    PLACES,
    Array,
    Column,
    Places,
    check_fitted,
    has_local_terms,
    number_of,
    numbered,
    places_along,
    places_of,
    sketched_rows,
    sums_along,
)
from atlas_splines.plots.intervals import FEW, draw_uncertainty, uncertainty_at
from atlas_splines.plots.style import LINE_COLOURS, MAIN, QUIET, RUG_HEIGHT
from atlas_splines.updates.synthetic_sample import synthetic_sample_of

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = [
    "BAND_LABEL",
    "BAND_PERCENTILES",
    "MEAN_LABEL",
    "SAMPLE_SIZE",
    "as_rows",
    "draw_effect",
    "draw_shape",
    "draw_terms",
    "effect_curves",
    "output_label",
    "predict",
    "sample_points",
]

SAMPLE_SIZE = 200  # points whose predictions are averaged
BAND_PERCENTILES, BAND_LABEL = (10, 90), "effect for 80 % of points"
MEAN_LABEL = "mean prediction"
ADDITIVE_LABEL, SMOOTH_LABEL = "additive part", "additive part of the smooth part"
BARS = PLACES // 3  # of the data's density


def draw_shape(
    axes: Axes, estimator: AtlasEstimator, column: Column, *, X: ArrayLike | None = None, output: int = 0
) -> Axes:
    """Draw the effect of one column on the prediction of a fitted estimator, in the column's units.

    - Thick line: the partial dependence, which is the mean over up to 200 points of the prediction when the
      column of each point is set to the value on the axis.
    - Band: the central 80 % of the individual conditional expectations of these points (Goldstein et al.
      2015), each shifted to the mean of all: it shows interactions, without which it has no width.
      Probabilities are clipped to [0, 1].
    - Thin dashed line: the spline f_j of F, shifted to the same mean, without exponentials, local terms and
      charts; for a regressor only. Where it leaves the thick line, these act. With local terms it is only a
      part of the effect, labelled as the smooth part.
    - Grey band: the mean 90 % prediction interval around the thick line, for a regressor. Dimmed: a stretch
      of values without training rows. A model without an error model has neither.
    - Grey, at the bottom: how often the values on the axis occur.

    Lines cover the middle 99 % of the values of X, or of the rows that were learned, as far as these were
    counted, or else the domain. Beyond the domain, whose end is a dotted line, predictions are extrapolated.
    A column of few whole numbers is drawn as bars.

    Parameters
    ----------
    axes
        Where to draw.
    estimator
        A fitted `AtlasRegressor` or `AtlasClassifier`.
    column
        Its number, or its name.
    X
        Rows to average over, in raw units, such as the training data; without it points like the rows that
        were learned, drawn from counts of these. Rows outside the domain count as on its edge.
    output
        Target of a regressor, or class of a classifier, whose probability is drawn; counted from zero.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from atlas_splines import AtlasRegressor
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = AtlasRegressor(terms=0, density=0, members=1, features=0, random_state=0).fit(X, 3 * X[:, 0])
    >>> axes = draw_shape(Figure().subplots(), model, column=0, X=X)
    >>> axes.get_xlabel(), axes.get_ylabel()
    ('column 0', 'prediction')
    """
    check_fitted(estimator)
    names = estimator._input_names
    j = number_of(column, names)
    check_size("output", output, least=0, most=estimator.model_.outputs - 1)
    rows = None if X is None else as_rows(estimator, X)
    shown = sketched_rows(estimator) if rows is None else rows
    return draw_effect(axes, estimator, j, shown, sample_points(estimator, rows), output)


def draw_effect(
    axes: Axes, estimator: AtlasEstimator, j: int, rows: Array | None, sample: Array, output: int
) -> Axes:
    """Draw the partial dependence on an input over a sample of points in the model's coordinates."""
    places = places_of(estimator, j, rows)
    curves = effect_curves(estimator, j, places.units, sample, output)
    is_classifier = hasattr(estimator, "classes_")
    x, low, high = places.outline, *np.percentile(curves, BAND_PERCENTILES, axis=1)
    if is_classifier:
        low, high = low.clip(0, 1), high.clip(0, 1)  # a shifted curve may leave what a probability can be
    band = places.heights(low), places.heights(high)
    axes.fill_between(x, *band, color=MAIN, alpha=0.2, lw=0, label=BAND_LABEL)
    axes.plot(x, places.heights(curves.mean(axis=1)), color=MAIN, lw=2, label=MEAN_LABEL)
    if not is_classifier:
        spline = places.heights(additive_shape(estimator, j, places.units, output) + curves.mean())
        label = SMOOTH_LABEL if has_local_terms(estimator.model_) else ADDITIVE_LABEL
        axes.plot(x, spline, color="black", lw=0.9, ls=(0, (4, 2)), label=label)
    if rows is not None:
        draw_density(axes, rows[:, j])
    draw_uncertainty_along(axes, estimator, j, places, curves.mean(axis=1), sample, output)
    draw_ends(axes, estimator, j, places)
    if places.whole:
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set(xlabel=estimator._input_names[j], ylabel=output_label(estimator, output), xlim=places.limits)
    return axes


def draw_uncertainty_along(
    axes: Axes,
    estimator: AtlasEstimator,
    j: int,
    places: Places,
    means: Array,
    sample: Array,
    output: int,
) -> None:
    """Shade intervals around the mean prediction along a column, and dim stretches without training rows."""
    points = moved_along(estimator, j, places.units, sample[:FEW])
    uncertainty = uncertainty_at(estimator, j, places.units, points, output)
    if uncertainty is not None:
        draw_uncertainty(axes, places, means, uncertainty)


def draw_ends(axes: Axes, estimator: AtlasEstimator, j: int, places: Places) -> None:
    """Mark each end of the domain that values exceed."""
    low, high = places.values[[0, -1]]
    for end in estimator.domain_.to_raw(j, estimator.model_.domain[j]):
        if low < end < high:
            axes.axvline(end, color=QUIET, lw=1, ls=":", label="end of the domain")


def effect_curves(estimator: AtlasEstimator, j: int, places: Array, sample: Array, output: int) -> Array:
    """Prediction of each point at places along a column, shape (places, points).

    The curve of each point is shifted so that all have the same mean.
    """
    points = moved_along(estimator, j, places, sample)
    curves = predict(estimator, points.reshape(-1, sample.shape[1]))[:, output].reshape(places.size, -1)
    return curves - curves.mean(axis=0) + curves.mean()


def moved_along(estimator: AtlasEstimator, j: int, places: Array, sample: Array) -> Array:
    """Each point at places along a column, shape (places, points, inputs)."""
    points = np.repeat(sample[None], places.size, axis=0)
    points[:, :, j] = places[:, None]
    indicators = estimator.domain_.indicators
    points[:, :, len(estimator.domain_.knots) + np.flatnonzero(indicators == j)] = 0  # it is not missing
    return points


def predict(estimator: AtlasEstimator, points: Array) -> Array:
    """Targets or probabilities at points in the model's coordinates, or beyond them, (points, outputs)."""
    refuses = estimator.extrapolation == "error"  # even what is rounded out of the domain
    reached = points.clip(*estimator.model_.domain.T) if refuses else points
    return estimator._values(estimator._outputs_at(reached))


def additive_shape(estimator: AtlasEstimator, j: int, places: Array, output: int) -> Array:
    """The spline f_j in units of the target, with mean zero."""
    inside = places.clip(*estimator.model_.domain[j])
    values = sums_along(estimator.model_, j, inside, output)[:, -1]
    return (values - values.mean()) * estimator.target_scale_[output]


def sample_points(estimator: AtlasEstimator, rows: Array | None) -> Array:
    """A sample of the rows, or a synthetic sample of learned ones, in the model's coordinates.

    Without rows, and if it was not counted where rows were, they are random points of the domain. They are
    the same ones each time.
    """
    random, (low, high) = np.random.default_rng(0), estimator.model_.domain.T
    known = synthetic_sample_of(state_of(estimator.model_), SAMPLE_SIZE) if rows is None else None
    if known is not None:
        return known.points[random.permutation(len(known.points))].clip(low, high)
    if rows is None:
        points = low + (high - low) * random.random((SAMPLE_SIZE, low.size))
        points[:, len(estimator.domain_.knots) :] = 0  # no value is missing
        return points
    chosen = rows[random.permutation(len(rows))[:SAMPLE_SIZE]]
    return estimator.domain_.to_unit(chosen).clip(low, high)


def as_rows(estimator: AtlasEstimator, X: ArrayLike) -> Array:
    """X as an array, with the columns of the estimator."""
    rows = estimator._inputs(X) if hasattr(estimator, "encoding_") else np.asarray(X, np.float64)
    columns = len(estimator._input_names)
    if rows.ndim != 2 or rows.shape[1] != columns or not len(rows):
        raise ValueError(f"X has shape {rows.shape}; expected rows of the estimator's {columns} columns")
    return rows


def draw_density(axes: Axes, values: Array) -> None:
    """Draw a histogram of values as grey bars at the bottom."""
    bottom = axes.get_xaxis_transform()  # x in units of the data, y as a share of the height
    known = values[np.isfinite(values)]
    distinct, counts = np.unique(known, return_counts=True)
    axes.margins(y=RUG_HEIGHT + 0.05)
    if distinct.size <= BARS:
        heights = RUG_HEIGHT * counts / counts.max()
        axes.vlines(distinct, 0, heights, color=QUIET, alpha=0.6, lw=3, transform=bottom)
    else:
        counts, edges = np.histogram(known, bins=BARS)
        heights = RUG_HEIGHT * np.append(counts, 0) / counts.max()
        axes.fill_between(edges, 0, heights, step="post", color=QUIET, alpha=0.5, lw=0, transform=bottom)


def output_label(estimator: AtlasEstimator, output: int) -> str:
    """Axis label of an output."""
    if hasattr(estimator, "classes_"):
        return f"probability of {estimator.classes_[output]}"
    return "prediction" if estimator.model_.outputs == 1 else f"prediction of target {output}"


def draw_terms(
    axes: Axes, model: Atlas | AtlasEstimator, input: Column, *, output: int = 0, most: int = 6
) -> Axes:
    """Draw the strongest factors exp g_kj and exp h_kj along one input j.

    A term k⁻²·exp G_k is a product of one factor for each input. Each factor is divided by its mean along
    the input, and the legend has the mean of the whole term over the domain, in units of the output. Terms
    are ranked by that mean times the standard deviation of the factor. Terms that are subtracted, those with
    h_kj, are dashed; the two of a pair share a colour, and often cancel in part. Charts and local terms are
    left out: of a model that has them it is the smooth part, as on the axis.

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
    >>> from matplotlib.figure import Figure
    >>> model = Atlas(inputs=2, terms=1)
    >>> model.g(4)[0, 0, 1] = np.linspace(0, 2, 64)
    >>> draw_terms(Figure().subplots(), model, input=1).get_legend_handles_labels()[1]
    ['+3.2 (k = 1)']
    """
    atlas, j, name, x, unit = along_input(model, input)
    check_size("output", output, least=0, most=atlas.outputs - 1)
    factors, sizes = term_factors(atlas, j, output)
    strengths = sizes * factors.std(axis=0)  # (2M,)
    ranked = np.argsort(-strengths)[: check_size("most", most, least=1)]
    colours: dict[int, str] = {}  # one for each pair
    for term in ranked[strengths[ranked] > 0].tolist():
        negative, k = divmod(term, atlas.terms)
        label = f"{'−' if negative else '+'}{sizes[term] * unit[output]:.2g} (k = {k + 1})"
        colour = colours.setdefault(k, LINE_COLOURS[len(colours) % len(LINE_COLOURS)])
        axes.plot(x, factors[:, term], color=colour, ls="--" if negative else "-", label=label)
    axes.axhline(1, color=QUIET, lw=0.8, zorder=0)
    of = " (smooth part)" if has_local_terms(atlas) else ""
    axes.set(xlabel=name, ylabel=f"factor, relative to its mean{of}", xlim=(x[0], x[-1]))
    return axes


def along_input(model: Atlas | AtlasEstimator, input: Column) -> tuple[Atlas, int, str, Array, Array]:
    """Model, number and name of an input, its values at the places along it, and the unit of each output."""
    if isinstance(model, Atlas):
        names = numbered("input", model.inputs)
        j = number_of(input, names)
        return model, j, names[j], places_along(model, j), np.ones(model.outputs)
    check_fitted(model)
    atlas, names = model.model_, model._input_names
    j = number_of(input, names)
    x = model.domain_.to_raw(j, places_along(atlas, j))
    return atlas, j, names[j], x, getattr(model, "target_scale_", np.ones(atlas.outputs))


def term_factors(model: Atlas, j: int, output: int) -> tuple[Array, Array]:
    """Factors along an input, each with mean one, shape (places, 2M), and the mean of each term, shape (2M,).

    Inputs are independent in a term, so its mean over the domain is the product of its factors' means.
    """
    terms = slice(2 * model.terms)
    sums = np.stack(
        [sums_along(model, i, places_along(model, i), output)[:, terms] for i in range(model.inputs)]
    )
    corner = sums[0, 0]  # (2M,): where the places of every input begin
    log_means = logsumexp(sums - corner, axis=1) - np.log(PLACES)  # (inputs, 2M)
    log_sizes = corner + log_means.sum(axis=0) + np.log(np.abs(state_of(model).layout.slope[terms]))
    return np.exp(sums[j] - corner - log_means[j]), np.exp(log_sizes)
