"""Local memory: kept rows in boxes, with Gaussian process regression by a Laplace kernel in each.

A table is predicted by a mixture of the smooth part S (splines and radial basis functions, from statistics of
all rows), local regression on the target, and S plus local regression on the residuals of S: local Gaussian
processes on a partition (Snelson and Ghahramani, 2007), stacked by leave-one-out predictions (Wolpert, 1992;
Breiman, 1996). Everything has a closed form. Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from atlas_splines.memory.box_regression import (
    MOST_FACTORS,
    BoxRegression,
    LinearPart,
    linear_left_out,
    rows_without_blocks,
    segments_of,
)
from atlas_splines.memory.features import Features
from atlas_splines.memory.initial_fit import FeaturePieces, out_of_sample_of
from atlas_splines.memory.kept_rows import Distinct, HeldRows
from atlas_splines.memory.laplace_kernel import LaplaceKernel
from atlas_splines.memory.posterior import Posterior
from atlas_splines.memory.softmax import CLASS_RULES, ClassScores, class_scores
from atlas_splines.memory.to_atlas import fold
from atlas_splines.model.atlas import Atlas, state_of
from atlas_splines.model.immutable import Recomputing
from atlas_splines.model.local_terms import LocalTerms
from atlas_splines.model.state import Later, State

__all__ = [
    "RECENT_RULES",
    "Component",
    "LocalFit",
    "LocalMemory",
    "Mixture",
    "Part",
    "RecentRules",
    "Regression",
    "forecasting_shares",
    "grown_regression",
    "stacking_shares",
]

Array = NDArray[np.float64]
Part = Literal["target", "smooth", "linear"]  # of a regression: on the target, or on the residuals of a part
CONSTRAINT = 100.0  # weight of the equation that makes shares add up to 1, over the norm of all predictions
LINE = np.array([-1.0, 0.0, 1.0, 2.0])  # coefficients at density 0 of the spline that is the identity


@dataclass(frozen=True)
class RecentRules:
    """Local regressions that follow drift; `benchmarks/streams.py` compares them with alternatives.

    Attributes
    ----------
    half_lives
        Rows after which the noise variance of a row has doubled, for each regression. Without that of 3,000
        rows the error on seven streams is 0.4 % larger, without both 1.6 %.
    box_rows
        Rows of a box of each. With 1,000 and 500 each regression alone is up to 1 % better, in three times
        the time, and the ensemble no better.
    reach
        Half-lives after which a row is left out: its noise variance is then 16 times that of a new one.
    step
        Half-lives between updates of the ages: in between rows are appended to the factors of their boxes.
    """

    half_lives: tuple[float, ...] = (3000.0, 600.0)
    box_rows: tuple[int, ...] = (500, 300)
    reach: float = 4.0
    step: float = 0.25


RECENT_RULES = RecentRules()


@dataclass(frozen=True, eq=False)
class Component:
    """A local regression in a mixture.

    Attributes
    ----------
    kernel
        Its kernel.
    of
        Its target: that of the rows, or the residuals of the smooth or of the linear part.
    share
        Its weight.
    """

    kernel: LaplaceKernel
    of: Part
    share: float


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights of all parts in a prediction.

    Attributes
    ----------
    smooth, linear
        Weights of the smooth and the linear part, each alone and with a regression on its residuals.
    components
        Local regressions.
    """

    smooth: float
    linear: float
    components: tuple[Component, ...]


@dataclass(frozen=True, eq=False)
class LocalFit:
    """Local regression on all rows: its terms, and leave-one-out predictions of shape (rows, outputs)."""

    terms: LocalTerms
    leave_one_out: Array


@dataclass(frozen=True, eq=False)
class Regression:
    """All parts of a mixture for some rows, each solved for on first use.

    Attributes
    ----------
    rows
        The rows.
    features, posterior
        The smooth part, which may be fitted to more rows than these.
    loss
        Name of the loss; with "cross-entropy" targets are class indicators.
    box_rows
        Most rows of a box.
    segments
        Segments of the rows, at first a single one.
    boxed
        Regressions in boxes by the identity of their kernels: a cache.
    pieces
        Features of rows: a cache.
    """

    rows: HeldRows
    features: Features
    posterior: Posterior
    loss: str
    box_rows: int
    segments: Sequence[slice] = (slice(None),)
    boxed: dict[Hashable, BoxRegression] = field(default_factory=dict)
    pieces: FeaturePieces = field(default_factory=FeaturePieces)

    @cached_property
    def distinct(self) -> Distinct:
        """The distinct points of the rows."""
        return Distinct.of(self.rows)

    @cached_property
    def targets(self) -> Array:
        """Targets without the effects of levels, which are added to all parts: shape (rows, outputs)."""
        targets, effects = self.rows.targets.astype(np.float64), self.posterior.effects
        return targets if effects is None else targets - effects.at(self.features.keys(self.rows.points))

    @cached_property
    def smooth_left_out(self) -> Array:
        """Leave-one-out predictions of the smooth part, clipped to the range of targets, (rows, outputs)."""
        points, targets, copies = self.rows.points, self.targets, self.distinct.copies
        found = out_of_sample_of(self.features, points, targets, copies, self.posterior, self.pieces)
        return found.clip(targets.min(axis=0), targets.max(axis=0))

    @cached_property
    def linear_left_out(self) -> Array:
        """Leave-one-out predictions of the linear part."""
        return linear_left_out(self.rows.points, self.targets, self.distinct.row_weights)[0]

    @cached_property
    def linear(self) -> LinearPart:
        """The linear part."""
        return LinearPart.of(self.rows.points, self.targets, self.distinct.row_weights)

    @cached_property
    def smooth_weights(self) -> Array:
        """Weights of the features in the smooth part, shape (features, outputs)."""
        return self.posterior.weights if self.loss != "cross-entropy" else self.class_scores.weights

    @cached_property
    def class_scores(self) -> ClassScores:
        """Smooth class scores, with leave-one-out scores."""
        return self.scores_without(())

    def scores_without(self, blocks: Sequence[NDArray[np.intp]]) -> ClassScores:
        """The same by blocks, on an evenly spaced subset of the rows if there are too many."""
        step = -(-len(self.rows) // CLASS_RULES.most_rows)
        points, weights = self.rows.points[::step].astype(np.float64), self.distinct.row_weights[::step]
        own = np.zeros(len(self.rows), np.intp)
        for block, numbers in enumerate(blocks):
            own[numbers] = block
        groups = own[::step] if len(blocks) else None
        return class_scores(self.features(points), self.targets[::step], weights, self.posterior, groups)

    def left_by(self, part: Part) -> Array:
        """Leave-one-out residuals of a part, shape (rows, outputs); the targets themselves for "target"."""
        if part == "target":
            return self.targets
        return self.targets - (self.smooth_left_out if part == "smooth" else self.linear_left_out)

    def in_boxes(self, kernel: LaplaceKernel) -> BoxRegression:
        """Local regression with a kernel, continued from the cache."""
        rows = [self.rows.take(each) for each in self.segments]
        return grown_regression(self.boxed, id(kernel), kernel, rows, self.box_rows)

    @cached_property
    def _fits(self) -> dict[tuple[int, Part], LocalFit]:
        return {}

    def fit(self, kernel: LaplaceKernel, part: Part) -> LocalFit:
        """Local regression on the residuals of a part, with leave-one-out predictions; cached."""
        key = id(kernel), part
        if key not in self._fits:
            boxed, targets = self.in_boxes(kernel), self.left_by(part)
            weights = boxed.solve(targets, part)
            self._fits[key] = LocalFit(boxed.terms_of(weights), boxed.left_out(targets, weights))
        return self._fits[key]

    def terms(self, kernel: LaplaceKernel, part: Part) -> LocalTerms:
        """Terms of the local regression on the residuals of a part."""
        return self.in_boxes(kernel).terms(self.left_by(part), part)

    def state(self, mixture: Mixture, dtype: str, local: Sequence[LocalTerms] | None = None) -> State:
        """The state of a model on the unit cube that predicts by a mixture; local terms may be given."""
        model = fold(self.features, mixture.smooth * self.smooth_weights, dtype)
        if mixture.linear:
            add_line(model, self.linear, mixture.linear)
        active = [each for each in mixture.components if each.share > 0]
        if local is None:
            local = [self.terms(each.kernel, each.of) for each in active]
        shares = zip(local, active, strict=True)
        return replace(state_of(model), local=tuple(terms.scaled(each.share) for terms, each in shares))


def grown_regression(
    known: dict[Hashable, BoxRegression],
    key: Hashable,
    kernel: LaplaceKernel,
    segments: Sequence[HeldRows],
    box_rows: int,
) -> BoxRegression:
    """Regression on segments of rows, continued from a cached one of the first segments if there is one."""
    ends, found = tuple(itertools.accumulate(map(len, segments))), known.get(key)
    if found is None or found.ends != ends[: len(found.ends)]:
        found = BoxRegression.of(kernel, segments[:1], box_rows)
    for segment in segments[len(found.ends) :]:
        found = found.joined(segment)
    known[key] = found
    return found


def add_line(model: Atlas, line: LinearPart, share: float) -> None:
    """Add a linear function to a model on the unit cube: splines of density 0 reproduce lines."""
    model.f(0)[:] += share * line.slopes.T[:, :, None] * LINE  # (outputs, inputs, λ)
    model.f(0)[:, 0] += share * line.constant[:, None]  # the weights of one input's functions sum to one, (4)


@dataclass(frozen=True, eq=False)
class LocalMemory(Recomputing):
    """Kept rows, and the mixtures by which they predict; immutable.

    Attributes
    ----------
    rows
        The rows.
    known, later
        Mixture of predictions, and that beyond the end of a clock, if there is one.
    clocks
        Inputs by which the rows of the fit were sorted.
    box_rows
        Most rows of a box.
    budget
        Most rows that predict: older ones remain in the statistics of the smooth part only. They are dropped
        once the updates that replaced them can no longer be reverted.
    """

    rows: HeldRows
    known: Mixture
    later: Mixture | None
    clocks: tuple[int, ...]
    box_rows: int
    budget: int

    @classmethod
    def of(cls, regression: Regression, known: Mixture, budget: int) -> LocalMemory:
        """A memory of the rows of a regression, with its factors in the cache if they are small."""
        memory = cls(regression.rows, known, None, (), regression.box_rows, budget)
        for component in known.components:
            boxed = regression.boxed.get(id(component.kernel))
            if boxed is not None and boxed.nbytes <= MOST_FACTORS:
                memory.boxed[id(component.kernel)] = boxed
        return memory

    @property
    def newest(self) -> HeldRows:
        """The rows that predict."""
        return self.rows if len(self.rows) <= self.budget else self.rows.take(slice(-self.budget, None))

    @property
    def segments(self) -> list[slice]:
        """Segments of the rows that predict; a single one once each update displaces the oldest rows."""
        if len(self.rows) > self.budget:
            return [slice(0, self.budget)]
        return segments_of(self.rows.updates)

    @property
    def points(self) -> NDArray[np.float32]:
        """Distinct points of each segment, the centres of the terms: shape (points, inputs)."""
        return np.vstack([Distinct.of(self.newest.take(each)).points for each in self.segments])

    @cached_property
    def boxed(self) -> dict[Hashable, BoxRegression]:
        """Cache of regressions in boxes, on these rows or the first of them."""
        return {}

    @cached_property
    def pieces(self) -> FeaturePieces:
        """Cache of features, of these rows or the first of them."""
        return FeaturePieces()

    def with_rows(self, rows: HeldRows, recent: int | None = None) -> LocalMemory:
        """The memory with more rows.

        Updates from number `recent` on can be reverted: rows that would predict without them are kept.
        """
        joined = self.rows.joined(rows)
        permanent = np.flatnonzero(joined.updates < (np.inf if recent is None else recent))
        stays = np.ones(len(joined), np.bool_)
        stays[permanent[: max(len(permanent) - self.budget, 0)]] = False
        grown = replace(self, rows=joined.take(stays))
        if len(joined) <= self.budget:  # else the first rows no longer predict
            grown.boxed.update(self.boxed)
            grown.pieces.known.update(self.pieces.known)
        return grown

    def with_rows_of(self, update: int, rows: HeldRows, recent: int | None = None) -> LocalMemory:
        """The memory in which these are all rows of the newest update, or of the fit before any."""
        own = replace(rows, updates=np.full(len(rows), update, np.int32))
        return self.without_update(update).with_rows(own, recent)

    def without_update(self, update: int) -> LocalMemory:
        """The memory without the rows of an update."""
        return replace(self, rows=self.rows.take(self.rows.updates != update))

    def without_rows(self, rows: HeldRows, update: int | None = None) -> LocalMemory:
        """The memory without some rows, as far as they are kept, or came with a given update."""
        own = np.arange(len(self.rows)) if update is None else np.flatnonzero(self.rows.updates == update)
        found = self.rows.take(own).find(rows)
        return replace(
            self, rows=self.rows.take(np.delete(np.arange(len(self.rows)), own[found[found >= 0]]))
        )

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> LocalMemory:
        """The memory with more classes, without rows yet; `places` are those of the present classes."""
        targets = np.zeros((len(self.rows), outputs), np.float32)
        targets[:, places] = self.rows.targets
        return replace(self, rows=replace(self.rows, targets=targets))

    def regression(self, features: Features, posterior: Posterior, loss: str) -> Regression:
        """The parts of its mixtures, with a smooth part fitted to these rows and possibly others."""
        rows, segments = self.newest, self.segments
        return Regression(rows, features, posterior, loss, self.box_rows, segments, self.boxed, self.pieces)

    def state(self, regression: Regression, dtype: str) -> State:
        """The state of a model that predicts as the memory does."""
        known = regression.state(self.known, dtype)
        return (
            known if self.later is None else replace(known, later=self.beyond(regression, self.later, dtype))
        )

    @property
    def target_kernel(self) -> LaplaceKernel | None:
        """The kernel of regression on the target, if there is one."""
        return next((each.kernel for each in self.known.components if each.of == "target"), None)

    def recent_terms(self, regression: Regression, rules: RecentRules = RECENT_RULES) -> list[LocalTerms]:
        """Terms of local regressions on the target whose noise variance doubles with each half-life."""
        found = []
        for k in range(len(rules.half_lives)):
            recent = self._recent(k, rules)
            begin = len(regression.rows) - recent.ends[-1]
            found.append(recent.terms(regression.targets[begin:]))
        return found

    def _recent(self, number: int, rules: RecentRules = RECENT_RULES) -> BoxRegression:
        """Local regression on rows whose noise variance grows with their age, for one of the half-lives."""
        kernel, half_life = self.target_kernel, rules.half_lives[number]
        assert kernel is not None
        clock, rows = self._clock(half_life, rules), self.newest
        aged = aged_rows(rows.take(slice(0, clock)), half_life, rules)
        later = rows.take(slice(clock, None))
        parts = [later.take(each) for each in segments_of(later.updates, np.inf)] if len(later) else []
        segments = [*([aged] if len(aged) else []), *parts]
        key = id(kernel), half_life, clock
        others = [each for each in self.boxed if isinstance(each, tuple) and each[1] == half_life]
        for each in others:
            if each != key:
                del self.boxed[each]
        return grown_regression(self.boxed, key, kernel, segments, rules.box_rows[number])

    def _clock(self, half_life: float, rules: RecentRules) -> int:
        """Number of rows at the last update of ages: factors are continued in between."""
        rows = len(self.newest)
        if len(self.rows) > self.budget:
            return rows
        step = max(int(rules.step * half_life), 1)
        return rows // step * step

    def recent_without(
        self,
        regression: Regression,
        shares: Sequence[float],
        blocks: Sequence[NDArray[np.intp]],
        rules: RecentRules = RECENT_RULES,
    ) -> Array:
        """Weighted sum of these regressions by block cross-validation, shape (rows, outputs).

        It is zero for rows of no block, and for rows too old for a regression.
        """
        found = np.zeros_like(regression.targets)
        for k, share in enumerate(shares):
            if share > 0:
                recent = self._recent(k, rules)
                begin = len(regression.rows) - recent.ends[-1]
                own = [numbers[numbers >= begin] - begin for numbers in blocks]
                targets = [regression.targets[begin:]] * len(blocks)
                weights = recent.rows.row_weights.astype(np.float32)
                rows = replace(regression.rows.take(slice(begin, None)), weights=weights)
                found[begin:] += share * rows_without_blocks(recent.kernel, recent.boxes, rows, targets, own)
        return found

    def clocks_of(self, points: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.int8]]:
        """The clocks, and 1 for each that increases along the rows and −1 for one that decreases.

        Rows of the fit are sorted by them; rows of an update may be in any order, and late.
        """
        clocks = np.array(self.clocks, np.intp)
        place = np.arange(len(points)) - (len(points) - 1) / 2
        return clocks, np.where(place @ points[:, clocks] >= 0, 1, -1).astype(np.int8)

    def beyond(self, regression: Regression, mixture: Mixture, dtype: str) -> Later:
        """The model beyond the end of a clock."""
        points = regression.rows.points
        clocks, directions = self.clocks_of(points)
        ends = np.where(directions > 0, points[:, clocks].max(axis=0), points[:, clocks].min(axis=0))
        slopes = np.zeros((points.shape[1], regression.rows.targets.shape[1]), np.float32)
        if mixture.linear:
            slopes = (mixture.linear * regression.linear.slopes).astype(np.float32)
        return Later(clocks, directions, ends.astype(np.float32), regression.state(mixture, dtype), slopes)


def aged_rows(rows: HeldRows, half_life: float, rules: RecentRules = RECENT_RULES) -> HeldRows:
    """The newest rows, with weights 2^(−rows since / half-life)."""
    newest = rows.take(slice(max(len(rows) - int(rules.reach * half_life), 0), None))
    ages = np.arange(len(newest) - 1, -1, -1)
    return replace(newest, weights=(newest.weights * 0.5 ** (ages / half_life)).astype(np.float32))


# --- stacking weights
# --------------------------------------------------------------------------------------------


def stacking_shares(columns: Sequence[Array], targets: Array, weights: Array, pull: float) -> Array:
    """Stacking weights by penalised least squares on the simplex, close to (1, 0, …, 0) if rows are few.

    They add up to 1 so that a mixture follows its parts wherever these move.

    Parameters
    ----------
    columns
        Out-of-sample predictions of each candidate, shape (rows, outputs) each.
    targets, weights
        Targets and weights of the rows, shapes (rows, outputs) and (rows,).
    pull
        Prior standard deviation of a share, around 1 for the first candidate and 0 for others.

    Examples
    --------
    >>> columns = np.random.default_rng(0).normal(size=(2, 500, 1))
    >>> stacking_shares(columns, 0.3 * columns[0] + 0.7 * columns[1], np.ones(500), 0.3).round(1)
    array([0.3, 0.7])
    """
    root = np.sqrt(np.repeat(weights, targets.shape[1]))
    table = np.stack([column.ravel() for column in columns], axis=1)  # (rows · outputs, candidates)
    noise = np.average((table[:, 0] - targets.ravel()) ** 2, weights=root**2)
    prior = np.sqrt(noise) / pull * np.eye(table.shape[1])
    measured = np.column_stack([table, targets.ravel()]) * root[:, None]
    constraint = CONSTRAINT * np.sqrt((measured**2).sum()) * np.ones((1, table.shape[1] + 1))
    shares = _non_negative(np.vstack([measured, np.column_stack([prior, prior[0]]), constraint]))
    return shares / shares.sum()


def forecasting_shares(
    one_by_one: Sequence[Array],
    without_block: Sequence[Array],
    targets: Array,
    weights: Array,
    last: NDArray[np.intp],
    pull: float,
) -> Array:
    """Stacking weights for later rows, on the simplex.

    Predictions by blocks count as much as leave-one-out ones (later rows may lie among known ones or beyond),
    and those of the last block as much once more: it alone is predicted from the past only.

    Parameters
    ----------
    one_by_one, without_block
        Leave-one-out predictions of each candidate, and those by blocks: shape (rows, outputs) each.
    targets, weights
        Targets and weights of the rows.
    last
        Numbers of the rows of the last block.
    pull
        Strength of the shrinkage to equal weights, in mean squares of the targets.
    """
    root = np.sqrt(weights / weights.sum())[:, None]
    at_end = np.sqrt(weights[last] / weights[last].sum())[:, None]

    def stacked(apart: Array, alone: Array) -> Array:
        return np.concatenate(
            [(root * apart).ravel(), (at_end * apart[last]).ravel(), (root * alone).ravel()]
        )

    pairs = zip(without_block, one_by_one, strict=True)
    columns = np.stack([stacked(apart, alone) for apart, alone in pairs], axis=1)
    wanted = stacked(targets, targets)
    unit, count = np.sqrt((wanted**2).sum()), columns.shape[1]
    together, constraint = np.sqrt(pull) * unit, CONSTRAINT * unit
    rows = np.vstack([columns, together * np.eye(count), np.full((1, count), constraint)])
    goal = np.concatenate([wanted, np.full(count, together / count), [constraint]])
    shares = _non_negative(np.column_stack([rows, goal]))
    return shares / shares.sum()


def _non_negative(rows: Array) -> Array:
    """Non-negative least squares of the last column on the others, after a QR factorisation of all rows."""
    triangle = np.asarray(np.linalg.qr(rows, mode="r"))
    return np.asarray(nnls(triangle[:, :-1], triangle[:, -1])[0])
