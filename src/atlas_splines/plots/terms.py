"""The multiplicative terms of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from scipy.special import logsumexp

from atlas_splines.core.checks import check_size
from atlas_splines.core.model import Atlas, state_of
from atlas_splines.plots.columns import (
    PLACES,
    Array,
    Column,
    check_fitted,
    has_local_terms,
    number_of,
    numbered,
    places_along,
    sums_along,
)
from atlas_splines.plots.style import LINE_COLOURS, QUIET

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator

__all__ = ["draw_terms"]


def draw_terms(
    axes: Axes, model: Atlas | AtlasEstimator, input: Column, *, output: int = 0, most: int = 6
) -> Axes:
    """Draw the strongest factors exp g_kj and exp h_kj along one input j.

    A term k⁻²·exp G_k is a product of one factor for each input. Each factor is divided by its mean along
    the input, and the legend tells the mean of the whole term over the domain, in units of the output. Terms
    are ranked by that mean times the standard deviation of the factor. Terms that are subtracted, those with
    h_kj, are dashed; the two of a pair share a colour, and often cancel in part. Charts do not take part, and
    neither do local terms: of a model that has them it is the smooth part, as the axis says.

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
