"""Stacking: kernels and shares of the parts of a local memory, by out-of-sample predictions of its own rows.

Shares are non-negative least squares on leave-one-out predictions (Breiman, 1996, Stacked regressions); for
classes they minimise the cross-entropy. Rows beyond the end of a clock have shares of their own, by block
cross-validation in time. Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.box_regression import linear_left_out, rows_without_blocks
from atlas_splines.memory.features import Features
from atlas_splines.memory.kept_rows import Distinct, HeldRows
from atlas_splines.memory.laplace_kernel import KERNEL_RULES, LaplaceKernel
from atlas_splines.memory.local_memory import (
    Component,
    LocalMemory,
    Mixture,
    Part,
    Regression,
    forecasting_shares,
    stacking_shares,
)
from atlas_splines.memory.posterior import Posterior, sums_of
from atlas_splines.memory.softmax import CLASS_RULES, class_shares
from atlas_splines.memory.statistics import Statistics
from atlas_splines.model.state import State

__all__ = ["STACKING_RULES", "Stacked", "StackingRules", "clocks_of", "stack", "without_blocks"]

Array = NDArray[np.float64]
Numbers = NDArray[np.intp]


@dataclass(frozen=True)
class StackingRules:
    """Rules of the choice of a mixture.

    Chosen by hand on two folds of the tables of `benchmarks/tabular`, which also validate them.
    `benchmarks/local_memory.py` compares some with alternatives.

    Attributes
    ----------
    share_deviation
        Prior standard deviation of shares around the smooth part alone.
    forecasting_pull
        Shrinkage of the shares of later rows to equal ones, in mean squares of the targets.
    least_share
        Smallest share of a part; with less it is left out.
    blocks
        Blocks of neighbouring rows in the cross-validation.
    forecast_rows
        Newest rows that the shares of later rows are found from: half of the time that all 30,000 of a table
        take.
    clock_values
        Distinct values of a sorted input from which on it is a clock and not a flag.
    box_rows, box_rows_of_classes, many_rows
        Rows of a box; that of classes applies up to `many_rows` rows.
    class_steps
        Optimiser steps for length scales of classes: more of them overfit the samples, which are small.
    """

    share_deviation: float = 0.3
    forecasting_pull: float = 0.01
    least_share: float = 0.02
    blocks: int = 5
    forecast_rows: int = 8000
    clock_values: int = 10
    box_rows: int = 1000
    box_rows_of_classes: int = 2000
    many_rows: int = 20_000
    class_steps: int = 8


STACKING_RULES = StackingRules()


@dataclass(frozen=True, eq=False)
class Stacked:
    """A local memory that was chosen for rows.

    Attributes
    ----------
    memory
        The local memory.
    state
        The state of its model.
    left_out
        Out-of-sample predictions of the mixture for its rows, shape (rows, outputs): leave-one-out, or by
        blocks. Length scales, features and shares were chosen with the row.
    """

    memory: LocalMemory
    state: State
    left_out: Array


def stack(
    rows: HeldRows,
    features: Features,
    statistics: Statistics,
    posterior: Posterior,
    *,
    loss: str,
    dtype: str,
    seed: int,
    budget: int,
    blocks: Sequence[Numbers] = (),
    clocks: Sequence[int] = (),
    smooth_left_out: Array | None = None,
    rules: StackingRules = STACKING_RULES,
) -> Stacked:
    """Choose kernels and shares for rows, given the features, statistics and posterior of the smooth part.

    Parameters
    ----------
    rows
        The rows to keep.
    features, statistics, posterior
        The smooth part, which was fitted to these rows and possibly others.
    loss, dtype
        Name of the loss, and dtype of the model.
    seed
        Seed of the samples that kernels are chosen on.
    budget
        Most rows to keep.
    blocks
        Row numbers of each block for cross-validation, together all rows; leave-one-out without any.
    clocks
        Inputs by which the rows are sorted.
    smooth_left_out
        Out-of-sample predictions of the smooth part, if better ones exist than those of its posterior.
    rules
        Rules of the choice.
    """
    of_classes = loss == "cross-entropy"
    few = of_classes and len(rows) <= rules.many_rows
    parts = Regression(rows, features, posterior, loss, rules.box_rows_of_classes if few else rules.box_rows)
    if of_classes:
        return _stack_classes(parts, dtype, seed, budget, blocks, rules)
    found = _stack_numbers(parts, statistics, dtype, seed, budget, blocks, smooth_left_out, rules)
    if not clocks:
        return found
    later = _forecasting_mixture(*_newest(parts, statistics, rules), found.memory.known, clocks, seed, rules)
    memory = replace(found.memory, later=later, clocks=tuple(clocks))
    return replace(found, memory=memory, state=replace(found.state, later=memory.beyond(parts, later, dtype)))


def clocks_of(points: NDArray[np.floating], rules: StackingRules = STACKING_RULES) -> tuple[int, ...]:
    """Inputs that are sorted along the rows, with enough values that later rows lie beyond.

    Examples
    --------
    >>> clocks_of(np.stack([np.arange(50.0), np.arange(50) // 25, np.arange(50) % 7], axis=1))
    (0,)
    """
    steps = np.diff(points, axis=0)
    is_sorted = (steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)
    return tuple(
        j for j in np.flatnonzero(is_sorted).tolist() if (steps[:, j] != 0).sum() + 1 >= rules.clock_values
    )


def without_blocks(
    parts: Regression, statistics: Statistics, blocks: Sequence[Numbers]
) -> tuple[Array, list[Array]]:
    """Predictions of the smooth part without blocks: for their rows, and for all rows without each block.

    Statistics without a block are exact; features and prior stay. Shapes are (rows, outputs).
    """
    points, targets, weights = parts.rows.points.astype(np.float64), parts.targets, parts.distinct.row_weights
    phi, found, everywhere = parts.features(points), np.empty_like(targets), []
    low, high = targets.min(axis=0), targets.max(axis=0)
    for own in blocks:
        apart = Statistics(len(parts.features), targets.shape[1])
        apart.add(phi[own], targets[own], weights[own])
        rest = sums_of(statistics - apart).posterior(parts.posterior.prior)
        everywhere.append((phi @ rest.weights).clip(low, high))
        found[own] = everywhere[-1][own]
    return found, everywhere


def _stack_numbers(
    parts: Regression,
    statistics: Statistics,
    dtype: str,
    seed: int,
    budget: int,
    blocks: Sequence[Numbers],
    smooth_left_out: Array | None,
    rules: StackingRules,
) -> Stacked:
    """Shares of the smooth part, regression on the target, and regression on the smooth part's residuals."""
    kernels = [
        LaplaceKernel.of(parts.distinct, parts.left_by(part), seed + k) for k, part in enumerate(_PARTS)
    ]
    on_target, on_residuals = (parts.fit(kernel, part) for kernel, part in zip(kernels, _PARTS, strict=True))
    if blocks:
        smooth, everywhere = without_blocks(parts, statistics, blocks)
        columns = [
            smooth,
            _without(parts, kernels[0], [parts.targets] * len(blocks), blocks),
            smooth + _without(parts, kernels[1], [parts.targets - each for each in everywhere], blocks),
        ]
    else:
        smooth = parts.smooth_left_out if smooth_left_out is None else smooth_left_out
        residuals = parts.smooth_left_out + on_residuals.leave_one_out
        columns = [smooth, on_target.leave_one_out, residuals]
    weights = parts.distinct.row_weights * _robust_weights(columns, parts.targets)
    shares = stacking_shares(columns, parts.targets, weights, rules.share_deviation)
    shares[1:][shares[1:] < rules.least_share] = 0
    components = [
        Component(k, part, float(s)) for k, part, s in zip(kernels, _PARTS, shares[1:], strict=True)
    ]
    # the kernel of the target is kept in any case: recent local regressions use it
    kept = [each for each in components if each.share > 0 or each.of == "target"]
    fits = {"target": on_target, "smooth": on_residuals}
    known = Mixture(float(shares[0] + shares[2]), 0.0, tuple(kept))
    state = parts.state(known, dtype, [fits[each.of].terms for each in kept if each.share > 0])
    memory = LocalMemory.of(parts, known, budget)
    return Stacked(memory, state, sum(s * column for s, column in zip(shares, columns, strict=True)))


def _robust_weights(columns: Sequence[Array], targets: Array) -> Array:
    """Robust weights of rows, 1/(1 + |e|/median), shape (rows,): large residuals do not determine the shares.

    On 12 tables the error was 0.3 % smaller with them than without, on those with heavy tails 3 %.
    """
    size = np.mean([np.abs(column - targets).mean(axis=1) for column in columns], axis=0)
    return 1 / (1 + size / max(np.median(size), 1e-12))


_PARTS: tuple[Part, Part] = ("target", "smooth")


def _newest(parts: Regression, statistics: Statistics, rules: StackingRules) -> tuple[Regression, Statistics]:
    """Regression on the newest rows alone, with a smooth part of their own, if there are many rows."""
    if len(parts.rows) <= rules.forecast_rows:
        return parts, statistics
    rows = parts.rows.take(slice(-rules.forecast_rows, None))
    sums = Statistics(len(parts.features), rows.targets.shape[1])
    points = rows.points.astype(np.float64)
    sums.add(parts.features(points), rows.targets.astype(np.float64), rows.weights.astype(np.float64))
    return replace(parts, rows=rows, posterior=sums_of(sums).posterior(parts.posterior.prior)), sums


def _without(
    parts: Regression, kernel: LaplaceKernel, targets: Sequence[Array], blocks: Sequence[Numbers]
) -> Array:
    return rows_without_blocks(kernel, parts.in_boxes(kernel).boxes, parts.rows, targets, blocks)


def _forecasting_mixture(
    parts: Regression,
    statistics: Statistics,
    known: Mixture,
    clocks: Sequence[int],
    seed: int,
    rules: StackingRules,
) -> Mixture:
    """Shares for rows beyond the end of a clock, by cross-validation on blocks of neighbouring rows.

    Candidates are the smooth and the linear part, regression on the target with and without the clocks, and
    the linear part plus regression on its residuals, with the kernel of the target: a kernel of its own took
    a tenth of a fit, and errors by time of four tables with clocks in `benchmarks/tabular` were 3 % larger.
    Without clocks length scales differ: with those of the target errors of `hotel-rates` grew by 11 %.
    """
    blocks = np.array_split(np.arange(len(parts.rows)), rules.blocks)
    smooth, _ = without_blocks(parts, statistics, blocks)
    weights = parts.distinct.row_weights
    line, lines = linear_left_out(parts.rows.points, parts.targets, weights, blocks)
    line_apart = np.concatenate([each[own] for each, own in zip(lines, blocks, strict=True)])
    on_target = next((each.kernel for each in known.components if each.of == "target"), None)
    if on_target is None:
        on_target = LaplaceKernel.of(parts.distinct, parts.targets, seed)
    timeless = _without_clocks(parts, clocks, seed + 3)
    local: list[tuple[LaplaceKernel, Part]] = [
        (on_target, "target"),
        (on_target, "linear"),
        (timeless, "target"),
    ]
    alone = [parts.fit(kernel, part).leave_one_out for kernel, part in local]
    wanted = [
        [parts.targets - each for each in lines] if part == "linear" else [parts.targets] * len(blocks)
        for _, part in local
    ]
    apart = [_without(parts, kernel, each, blocks) for (kernel, _), each in zip(local, wanted, strict=True)]
    shares = forecasting_shares(
        [parts.smooth_left_out, line, alone[0], line + alone[1], alone[2]],
        [smooth, line_apart, apart[0], line_apart + apart[1], apart[2]],
        parts.targets,
        weights,
        blocks[-1],
        rules.forecasting_pull,
    )
    shares[shares < rules.least_share] = 0
    shares /= shares.sum()
    components = [
        Component(k, part, float(s)) for (k, part), s in zip(local, shares[2:], strict=True) if s > 0
    ]
    return Mixture(float(shares[0]), float(shares[1] + shares[3]), tuple(components))


def _without_clocks(parts: Regression, clocks: Sequence[int], seed: int) -> LaplaceKernel:
    """A kernel of the target that does not depend on clocks."""
    points = parts.rows.points.copy()
    points[:, list(clocks)] = 0
    return LaplaceKernel.of(Distinct.of(replace(parts.rows, points=points)), parts.targets, seed)


def _stack_classes(
    parts: Regression, dtype: str, seed: int, budget: int, blocks: Sequence[Numbers], rules: StackingRules
) -> Stacked:
    """Shares of smooth scores and of local regression on indicators, with length scales of all classes."""
    labels, weights = parts.targets, parts.distinct.row_weights
    free = labels[:, 1:] if labels.shape[1] == 2 else labels
    kernel_rules = replace(KERNEL_RULES, steps=rules.class_steps, length_factors=(1.0,), noise_factors=(1.0,))
    kernel = LaplaceKernel.of(parts.distinct, free - free.mean(axis=0), seed, kernel_rules)
    fit = parts.fit(kernel, "target")
    local = _without(parts, kernel, [labels] * len(blocks), blocks) if blocks else fit.leave_one_out
    step = -(-len(labels) // CLASS_RULES.most_rows)
    scores = parts.scores_without(blocks)
    columns = [scores.left_out, local[::step]]
    shares = class_shares(columns, labels[::step], weights[::step])
    components: tuple[Component, ...] = (Component(kernel, "target", float(shares[1])),)
    if shares[1] < CLASS_RULES.least_share:
        shares, columns, components = (
            class_shares(columns[:1], labels[::step], weights[::step]),
            columns[:1],
            (),
        )
    known = Mixture(float(shares[0]), 0.0, components)
    state = parts.state(known, dtype, [fit.terms for _ in components])
    left_out = sum(share * column for share, column in zip(shares, columns, strict=True))
    memory = LocalMemory.of(parts, known, budget)
    return Stacked(memory, state, np.asarray(left_out))
