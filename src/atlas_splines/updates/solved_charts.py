"""Solved charts: local models whose content is a Bayesian linear regression on the rows of a window.

A chart replaces the prediction inside its window, equation (23) in docs/math.md. Its content is a memory of
its own, which later rows join: the sufficient statistics of features that were selected on its rows, in the
coordinates of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.data_density import DataDensity
from atlas_splines.memory.error_model import ErrorModel, relevant_inputs
from atlas_splines.memory.expert_weights import ExpertWeights
from atlas_splines.memory.features import Features
from atlas_splines.memory.initial_fit import fit_features
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.posterior import Prior, sums_of
from atlas_splines.memory.softmax import class_scores, class_shares
from atlas_splines.memory.to_atlas import fold
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.charts import Chart, Window
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.immutable import Recomputing
from atlas_splines.model.losses import find_loss
from atlas_splines.model.monotone import constrained
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import Monotonic, State
from atlas_splines.updates.assess import OutOfSample
from atlas_splines.updates.routing import local_rows, needed_pool
from atlas_splines.updates.trained_charts import usual_size

__all__ = [
    "CHART_RULES",
    "ChartRules",
    "SolvedChart",
    "SolvedCharts",
    "chart_blocks",
    "open_charts",
    "solve_chart",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ChartRules:
    """How the content of a chart is solved for; `benchmarks/solved_charts.py` prints the errors.

    Attributes
    ----------
    features
        Of a chart, at most; of few rows there are two for every three. On the paper's second tasks of up to
        4,000 rows the error over that of trained charts is 0.756 with 150, 0.744 with 300 and 0.741 with 550.
    blocks
        Of consecutive rows in block cross-validation. Rows of a time series are correlated with their
        neighbours, so random folds are optimistic; with five blocks, rows that are sorted by an input are
        extrapolated by a fifth of the window, which is pessimistic.
    constant_precision
        Of the prior of the constant, at most: a chart of few rows predicts their mean, and not a tenth less
        of it.
    """

    features: int = 300
    blocks: int = 20
    constant_precision: float = 1e-3


CHART_RULES = ChartRules()


@dataclass(frozen=True, eq=False)
class SolvedChart(Recomputing):
    """A chart whose content was solved for, and out-of-sample predictions of its rows.

    Attributes
    ----------
    update
        Number of the update that it comes with.
    rows
        Its rows.
    window
        Its window.
    size
        Unit of its targets, shape (outputs,).
    pool
        Its memory, without an error model.
    content_predicted
        Predictions of the content for its rows, in that unit, each without the rows of its block; shape
        (rows, outputs).
    keeps_errors
        Whether it has an error model.
    """

    update: int
    rows: Rows
    window: Window
    size: NDArray[np.floating]
    pool: Pool
    content_predicted: Array
    keeps_errors: bool

    @property
    def predicted(self) -> Array:
        """The same predictions in the unit of the rows."""
        return self.content_predicted * self.size

    @cached_property
    def chart(self) -> Chart:
        """The chart, on demand: most are not opened, and the error model takes a third of the time."""
        own, (points, targets, weights) = self.pool, local_rows(self.window, self.size, self.rows)
        if self.keeps_errors:
            own = replace(
                own, error_model=chart_error_model(own, points, self.content_predicted, targets, weights)
            )
        content = model_in(replace(state_of(own.model), pooled=own, monotonic=own.features.monotonic))
        return Chart(self.update, self.window, content, self.size, replaces=True)


@dataclass(frozen=True, eq=False)
class SolvedCharts:
    """A state with new charts, and out-of-sample predictions of all rows."""

    state: State
    held_out: OutOfSample


def open_charts(
    state: State,
    update: int,
    rows: Rows,
    windows: Sequence[Window],
    loss: str,
    rules: ChartRules = CHART_RULES,
) -> SolvedCharts:
    """Open a chart in each window where it has the lower out-of-sample error.

    Each row belongs to one chart: that with the largest window there, the newest of several.

    Parameters
    ----------
    state
        A state with a pool.
    update
        Number of the update.
    rows
        Its rows.
    windows
        Windows of the charts, as planned.
    loss
        Name of the loss that decides.
    rules
        How charts are solved for.
    """
    memberships = np.stack([window.membership(rows.points) for window in windows[::-1]])  # (windows, rows)
    owner = len(windows) - 1 - memberships.argmax(axis=0)
    pool, held_out = needed_pool(state), OutOfSample(cross_validated=True)
    for k, window in enumerate(windows):
        own = rows.take(owner == k)
        if not len(own):
            continue
        solved = solve_chart(update, own, window, pool, chart_blocks(len(own), rules.blocks), rules)
        membership = window.membership(own.points).astype(np.float64)[:, None]
        before = evaluate(state, own.points).astype(np.float64)
        after = (1 - membership) * before + membership * solved.predicted
        opens = is_better(before, after, own, loss)
        if opens:
            state = state.with_charts((*state.charts, solved.chart))
        if len(own) > 1:  # a single row has no others to be predicted from
            held_out.join(OutOfSample([(after if opens else before, own)], cross_validated=True))
    return SolvedCharts(state, held_out)


def is_better(before: Array, after: Array, rows: Rows, loss: str) -> bool:
    """Whether out-of-sample predictions have a lower loss than before, by more than a standard error.

    A single row cannot be cross-validated and always passes.
    """
    if len(rows) == 1:
        return True
    of = find_loss(loss).per_row
    with np.errstate(over="ignore", invalid="ignore"):  # a model that overflows is infinitely wrong
        gain = np.nan_to_num(of(before, rows.targets) - of(after, rows.targets), nan=0.0, posinf=1e300)
    mean = np.average(gain, weights=rows.weights)
    error = np.sqrt(np.average((gain - mean) ** 2, weights=rows.weights) / len(gain))
    return bool(mean > error)


def solve_chart(
    update: int,
    rows: Rows,
    window: Window,
    pool: Pool,
    blocks: Sequence[NDArray[np.intp]],
    rules: ChartRules = CHART_RULES,
) -> SolvedChart:
    """Fit a chart that replaces the predictions of a model with a pool inside a window.

    Parameters
    ----------
    update
        Number of the update that it comes with.
    rows
        Its rows, of which there is at least one.
    window
        Its window.
    pool
        The memory of the model, with the loss, dtype and monotone directions of the chart.
    blocks
        Numbers of the rows of each cross-validation block; together all rows.
    rules
        How charts are solved for.
    """
    size = usual_size(rows.targets, pool.loss).astype(pool.dtype)
    points, targets, weights = local_rows(window, size, rows)
    features, prior = chosen_features(points, targets, pool.features.monotonic, pool.fewest, rules)
    own = Pool.start(features, prior, points, targets, weights, loss=pool.loss, dtype=pool.dtype)
    phi, counted = features(points), own.counted(weights)
    if pool.loss == "cross-entropy":
        model, predicted = class_content(own, phi, targets, counted, blocks)
        own = with_first_model(own, model)
    else:
        posterior = sums_of(own.total).posterior(prior)
        predicted = targets - posterior.block_cross_validated(phi, targets, counted, blocks)
    own = replace(own, fewest=pool.fewest, undo=pool.undo)
    keeps_errors = pool.combined_error_model is not None and len(rows) > 1
    return SolvedChart(update, rows, window, size, own, predicted, keeps_errors)


def chart_blocks(rows: int, count: int = CHART_RULES.blocks) -> list[NDArray[np.intp]]:
    """Numbers of consecutive rows that are left out together."""
    return np.array_split(np.arange(rows), min(count, rows))


def chosen_features(
    points: Array, targets: Array, monotonic: Monotonic, fewest: int, rules: ChartRules
) -> tuple[Features, Prior]:
    """Features for rows and a prior, selected on the outputs that vary.

    A window rarely has rows of all classes, and constant outputs would only add noise to the selection.
    """
    varies = np.ptp(targets, axis=0) > 0
    if not varies.any():
        varies[:] = True
    some = tuple(monotonic[k] for k in np.flatnonzero(varies)) if monotonic else ()
    solved = fit_features(
        points,
        targets[:, varies],
        budget=rules.features,
        monotonic=some,
        is_out_of_sample=False,
        fewest=fewest,
    )
    features = replace(solved.features, monotonic=monotonic)
    precisions = solved.posterior.prior.precisions.copy()
    precisions[0] = min(precisions[0], rules.constant_precision)
    return features, replace(solved.posterior.prior, precisions=precisions, cone=features.cone)


def class_content(
    own: Pool, phi: Array, labels: Array, weights: Array, blocks: Sequence[NDArray[np.intp]]
) -> tuple[Atlas, Array]:
    """Multinomial logistic regression on the features, and out-of-sample scores of the rows."""
    groups = np.empty(len(phi), np.intp)
    for k, block in enumerate(blocks):
        groups[block] = k
    scores = class_scores(phi, labels, weights, own.first, groups)
    share = class_shares([scores.left_out], labels, weights)[0]
    model = fold(own.features, share * scores.weights, own.dtype)
    return constrained(model, own.features.monotonic), share * scores.left_out


def with_first_model(own: Pool, model: Atlas) -> Pool:
    """A memory of classes whose initial model is given; later rows add experts to it."""
    with_base = replace(own, initial=state_of(model))
    return replace(with_base, expert_weights=ExpertWeights.of(with_base.candidates))


def chart_error_model(
    own: Pool, points: Array, predicted: Array, targets: Array, weights: Array
) -> ErrorModel:
    """The error model of a chart, from out-of-sample predictions of its rows."""
    inputs = relevant_inputs(own.features)
    return ErrorModel.of(
        *(points, predicted, targets, own.counted(weights)),
        inputs=inputs,
        loss=own.loss,
        data_density=DataDensity.of(points, inputs),
        monotonic=own.features.monotonic,
    )
