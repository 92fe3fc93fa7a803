"""The pool: all that a model has learned as sums of its data, of which recent updates can be taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.batches import (
    Batch,
    OutputMode,
    decayed_sums,
    error_model_after,
    pieces_of,
    scaled,
    summed,
)
from atlas_splines.memory.candidates import RECENT, Candidates
from atlas_splines.memory.error_model import ErrorModel, Residuals
from atlas_splines.memory.expert_weights import ClassWeights, ExpertWeights, products_of
from atlas_splines.memory.features import Features
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.posterior import Prior, Sums, sums_of
from atlas_splines.memory.random_effects import NO_LEVELS, LevelStatistics
from atlas_splines.memory.statistics import Statistics
from atlas_splines.model.atlas import state_of
from atlas_splines.model.resize import reaching, with_outputs
from atlas_splines.model.state import Contribution, State

__all__ = ["FEWEST_ROWS", "HALF_LIVES", "RECENT", "UNSEEN", "Pool"]

Array = NDArray[np.float64]

HALF_LIVES = (1000.0, 150.0)  # rows after which the evidence of the fading memories counts half
FEWEST_ROWS = (
    20  # whose sums a model that keeps no rows keeps apart: one row, or two, can be read from theirs
)
MUTE = (
    "total",
    "total_sums",
    "decaying",
    "first",
    "later",
    "base",
    "recent_terms",
    "all_experts",
    "all_class_weights",
)  # what does not depend on who speaks
UNSEEN = -20.0  # score of a class that the first model has not seen: e⁻²⁰ is nothing beside the others


@dataclass(frozen=True, eq=False)
class Pool(Candidates, Contribution):
    """Evidence of all rows that a model has learned: memories that learn; never changed in place.

    Examples
    --------
    >>> from atlas_splines.memory.features import Features
    >>> features = Features(1, (0,), (), ())
    >>> points = np.linspace(0, 1, 50)[:, None]
    >>> start = Pool.start(features, Prior.flat(features.sizes), points, points)
    >>> grown = start.learned(1, points, 2 * points).learned(2, points, 3 * points)
    >>> (features(np.array([[0.5]])) @ grown.first.weights).round(1)
    array([[1.]])
    >>> bool((grown.without(2).first.weights == start.learned(1, points, 2 * points).first.weights).all())
    True
    """

    @classmethod
    def start(
        cls,
        features: Features,
        prior: Prior,
        points: Array,
        targets: Array,
        weights: Array | None = None,
        half_lives: Sequence[float] = HALF_LIVES,
        base: State | None = None,
        loss: str = "mse",
        dtype: str = "float32",
    ) -> Pool:
        """The pool of the first data."""
        unit = 1.0 if weights is None else float(weights.mean())
        first = summed(features, points, targets, scaled(weights, unit), by_level=False)
        return cls.of_sums(features, prior, first, half_lives, base, loss, dtype, unit)

    @classmethod
    def of_sums(
        cls,
        features: Features,
        prior: Prior,
        first: Statistics,
        half_lives: Sequence[float] = HALF_LIVES,
        base: State | None = None,
        loss: str = "mse",
        dtype: str = "float32",
        unit: float = 1.0,
    ) -> Pool:
        """The pool of the first data, of which the sums are known; `unit` is the mean weight of its rows."""
        decaying = tuple(half_lives)
        experts = ExpertWeights.of(1 + len(decaying) + (base is not None))
        decayed = tuple(sums_of(first) for _ in decaying)
        return cls(
            features,
            prior,
            decaying,
            first,
            decayed,
            experts,
            fitted=base,
            loss=loss,
            dtype=dtype,
            weight_unit=unit,
        )

    @property
    def kept_updates(self) -> NDArray[np.int32]:
        """Number of the update of each row that is kept, 0 for those of the fit: shape (rows,)."""
        return np.empty(0, np.int32) if self.memory is None else self.memory.rows.updates

    @property
    def prequential_square(self) -> float:
        """Squared error of the latest predictions before rows were learned; at most this, by convexity."""
        return float(self.expert_shares @ self.all_experts.errors)

    def growth_since(self, before: Pool) -> tuple[float, ...]:
        """By how much the newest update has let the errors on rows known before grow, as their sums tell.

        First on all of them, then on those that each fading memory still holds. The first model, if it
        speaks, has no such sums; the exact memory of before stands for it, and for the model of kept rows
        that of the same time.
        """
        if len(before.features) < len(self.features):  # the same in features that no row had yet
            before = replace(self, recent=self.recent[:-1], output_mode=before.output_mode)
        # the first model stays what it was; that of kept rows learns the update too
        for_base = [before.first.weights, (before if self.memory is None else self).first.weights]
        pairs = zip((before, self), for_base, strict=True)
        predicted, now = (pool.regression_weights(weights) for pool, weights in pairs)
        memories = (before.total_sums, *before.decaying)
        return tuple(
            float(np.sqrt(sums.error_of(now, self.effects) / sums.error_of(predicted, before.effects)))
            for sums in memories
        )

    def regression_weights(self, for_base: Array) -> Array:
        """Weights of the mixture as a regression on targets; candidates without weights have those given."""
        weights = self.weights + self.kept_share * for_base
        # shares of scores of classes do not add up to 1; those of regressions on indicators do
        return weights / max(self.expert_shares.sum(), 1e-9) if self.loss == "cross-entropy" else weights

    def state_like(self, state: State) -> State:
        """The state of a model that says what the pool says, with the domain and charts of another."""
        # beyond the unit cube it levels off as a model does whose domain new rows let grow
        predicted = reaching(replace(state_of(self.model), monotonic=state.monotonic), state.lattice.domain.T)
        return replace(predicted.with_charts(state.charts), pooled=self)

    def on_unit_cube(self, state: State) -> State | None:
        """The state of a model on the unit cube that says what the pool says, with the charts of another."""
        if self.memory is not None:  # to derive it takes longer than to extend it once more
            return None
        predicted = replace(state_of(self.model), monotonic=state.monotonic)
        return replace(predicted.with_charts(state.charts), pooled=self)

    def following(self, before: Pool, unit: float) -> Pool:
        """The pool of rows that are all kept, which takes the place of another one of the same rows.

        Features and length scales were chosen anew: decayed statistics are summed from the rows by their
        ages, and what is known of the candidates stays. The squared error of the other is multiplied by
        `unit` in the units of this one.
        """
        assert self.memory is not None
        rows, known = self.memory.rows, before.all_experts
        decayed = tuple(decayed_sums(self.features, rows, life) for life in self.half_lives)
        experts = known.scaled(unit) if len(known.errors) == self.candidates else self.experts
        changed = replace(self, decayed=decayed, experts=experts, output_mode=before.output_mode, recent=())
        if self.loss == "cross-entropy":  # a recent local regression may have come or gone
            form = before.all_class_weights.form.resized(self.candidates)
            experts = replace(self.experts, rows=known.rows)
            changed = replace(changed, experts=experts, class_weights=ClassWeights(form))
        return changed.derived_as(self.base) if self.base is not None else changed

    def derived_as(self, base: State) -> Pool:
        """The pool, whose kept rows are known to make this model: it need not be derived once more."""
        vars(self)["base"] = base
        return self

    def with_error_model(self, error_model: ErrorModel | None) -> Pool:
        """The pool with another record of its errors."""
        changed = replace(self, error_model=error_model)
        vars(changed).update((name, vars(self)[name]) for name in MUTE if name in vars(self))
        return changed

    def with_output_mode(self, output_mode: OutputMode) -> Pool:
        """The pool with the same evidence, of which another part speaks."""
        if output_mode == self.output_mode:
            return self
        changed = replace(self, output_mode=output_mode)
        vars(changed).update((name, vars(self)[name]) for name in MUTE if name in vars(self))
        return changed

    # --- learning, and taking back --------------------------------------------------------------------

    def learned(
        self,
        update: int,
        points: Array,
        targets: Array,
        weights: Array | None = None,
        phi: Array | None = None,
        grew: tuple[int, ...] = (),
    ) -> Pool:
        """The pool with the rows of an update, after noting how well each candidate predicted them.

        Parameters
        ----------
        update
            Number of the update; more rows of the newest one join those that it has.
        points, targets, weights
            Its rows, shapes (rows, inputs), (rows, outputs) and (rows,).
        phi
            Their features, if these are known already.
        grew
            Bumps of each group that the pool was widened by for them.
        """
        batch = replace(
            self._batch(update, points, targets, weights, phi), grew=grew, before=self.output_mode
        )
        held = self.held(points, targets, weights, update)
        if self.holds(update):
            more = (*self.recent[:-1], self.recent[-1].joined(batch))
            return replace(self, recent=more).keeping(held)
        noted = self.noting_growth(grew, update) if grew else self
        grown = noted._with_newest(batch).keeping(held)
        # the same additions in the same order as from the start: not a bit differs
        vars(grown).update(
            total=self.total + batch.statistics,
            decaying=self._decayed(self.decaying, batch),
        )
        return grown

    def joined_by(self, update: int, statistics: Statistics, held: HeldRows | None = None) -> Pool:
        """The pool with further rows of the newest update, of which only the sums are known.

        How well the candidates predicted is judged by the other rows of the update, or as before. With a
        local memory, `held` are all rows of the update that it keeps from now on.
        """
        statistics = self._apart(statistics)
        if self.holds(update):
            newest = self.recent[-1]
            more = replace(newest, statistics=newest.statistics + statistics)
            joined = replace(self, recent=(*self.recent[:-1], more))
        else:
            joined = self._with_newest(Batch(update, statistics, self._usual_products))
        return joined.keeping_of(update, held)

    def keeping_of(self, update: int, held: HeldRows | None) -> Pool:
        """The pool whose local memory keeps these rows of the newest update, or of the fit, alone."""
        if self.memory is None or held is None:
            return self
        recent = self.recent[0].update if self.recent else None
        return replace(self, memory=self.memory.with_rows_of(update, held, recent))

    def _with_newest(self, batch: Batch) -> Pool:
        """The pool with one more update."""
        grown = replace(self, recent=(*self.recent, batch))
        return grown if len(grown.recent) <= self.undo else grown._settled()

    def _batch(
        self, update: int, points: Array, targets: Array, weights: Array | None, known: Array | None
    ) -> Batch:
        """The evidence of rows that this pool has not learned."""
        statistics = Statistics(len(self.features), targets.shape[1])
        counted, residuals = scaled(weights, self.weight_unit), []
        of_classes = self.loss == "cross-entropy"  # shares are those of least log loss, and not of errors
        for rows in pieces_of(len(points)):
            phi = self.features(points[rows]) if known is None else known[rows]
            if not of_classes:
                residuals.append(self.residuals_on(phi, points[rows], targets[rows]))
            levels = self.features.keys(points[rows])
            statistics.add(phi, targets[rows], None if counted is None else counted[rows], levels)
        every = np.ones(len(points)) if weights is None else weights
        none = np.zeros((self.candidates, self.candidates))
        products = (
            none if of_classes else products_of(np.concatenate(residuals, axis=1), every, self._lasting)
        )
        log_loss = self.log_loss_on(points, targets, counted)
        seen = self._residuals(points, targets, counted)
        return Batch(update, self._apart(statistics), products, seen=seen, log_loss=log_loss)

    @property
    def _lasting(self) -> slice:
        """Candidates that no later update drops: all but the first model, which is the last of sums."""
        return (
            slice(None) if self.fitted is None or self.memory is not None else slice(1 + len(self.half_lives))
        )

    @property
    def _usual_products(self) -> Array:
        """Mean products of errors as they have been lately, for rows of which only sums are known."""
        experts = self.all_experts
        return experts.products / max(float(np.trace(experts.products)), 1e-300) * experts.errors.sum()

    def _apart(self, statistics: Statistics) -> Statistics:
        """Sums as they may be kept apart: those of a level of few rows are not."""
        return statistics if self.fewest == 1 else statistics.with_levels_of(self.fewest)

    def keeping(self, rows: HeldRows) -> Pool:
        """The pool that keeps more rows, of updates that it has, if it keeps any."""
        if self.memory is None:
            return self
        recent = self.recent[0].update if self.recent else None
        return replace(self, memory=self.memory.with_rows(rows, recent))

    def held(self, points: Array, targets: Array, weights: Array | None, update: int = 0) -> HeldRows:
        """Rows as they are kept."""
        counted = scaled(weights, self.weight_unit)
        return HeldRows.of(points, targets, np.ones(len(points)) if counted is None else counted, update)

    def _settled(self) -> Pool:
        """The oldest of the recent updates joins those that need their rows to be taken back."""
        oldest, *recent = self.recent
        return replace(
            self,
            older=self.older + oldest.statistics,
            decayed=self._decayed(self.decayed, oldest),
            experts=self.experts.after(oldest.products, oldest.statistics.count),
            recent=tuple(recent),
            error_model=error_model_after(self.error_model, oldest.seen),
            class_weights=self._class_weights_after(oldest, self.candidates),
        )

    def _class_weights_after(self, batch: Batch, candidates: int) -> ClassWeights | None:
        """What is known of the first candidates' log loss with one more older update; None of numbers."""
        if self.loss != "cross-entropy":
            return None
        return ClassWeights(replace(self, recent=(batch,)).all_class_weights.form.resized(candidates))

    def settling(self, update: int) -> Pool:
        """The pool in which a recent update has joined the older ones, as if it had come before others.

        Nothing fades for it: from sums that count its rows more than older ones, and others that do not, its
        own could be found. The first model is gone for the same reason: for its weights w, which solve the
        normal equations without one row, Λw − b with that row is in the direction of its features.
        """
        if not self.holds(update):
            return self
        (own,) = (batch for batch in self.recent if batch.update == update)
        candidates = 1 + len(self.half_lives)
        experts = self.experts.after(own.products, own.statistics.count)
        others = (batch for batch in self.recent if batch is not own)
        return replace(
            self,
            older=self.older + own.statistics,
            decayed=tuple(sums.fade(own.sums, np.inf) for sums in self.decayed),
            experts=experts.first(candidates),
            recent=tuple(batch.of_first(candidates) for batch in others),
            fitted=None,
            error_model=error_model_after(self.error_model, own.seen),
            class_weights=self._class_weights_after(own, candidates),
        )

    def holds(self, update: int) -> bool:
        """Whether an update is recent, and can be taken back without its rows."""
        return any(batch.update == update for batch in self.recent)

    def without(self, update: int) -> Pool:
        """The pool as if a recent update had never come, to the bit.

        Without the newest, who spoke before it speaks again. Bumps that came with it go too, unless rows of
        later updates lie there. How well candidates predicted later rows stays as it was noted.
        """
        place = [batch.update for batch in self.recent].index(update)
        gone, later = self.recent[place], self.recent[place + 1 :]
        memory = None if self.memory is None else self.memory.without_update(update)
        if later:
            later = (replace(later[0], before=gone.before), *later[1:])
            rest = replace(self, recent=(*self.recent[:place], *later), memory=memory)
        else:
            rest = replace(self, recent=self.recent[:place], output_mode=gone.before, memory=memory)
        own = rest.origins == update
        return rest.with_only(~own | (np.diagonal(rest.total.gram) > 0)) if own.any() else rest

    def revert(self, update: int, state: State) -> State:
        """The state of a model as if a recent update had never come."""
        return self.without(update).state_like(state)

    def forgotten(self, points: Array, targets: Array, weights: Array | None = None) -> Pool:
        """The pool as if some rows had never come, whenever that was.

        The exact memory loses them to the bit. How much of them the fading ones still hold is not known, so
        they start again from what the exact one holds; the first model, which may have learned them, is gone,
        and that of kept rows is derived without them.
        """
        # rows may have come before bumps that reach them, and are not counted in these then
        pool = self.without_growth(None, points)
        rest = pool.of_all(pool.less(points, targets, weights)).without_base()
        rest = rest.dropping(self.held(points, targets, weights))
        return replace(
            rest, error_model=None if rest.error_model is None else rest.error_model.forgotten(points)
        )

    def less(self, points: Array, targets: Array, weights: Array | None) -> Statistics:
        """Exact sums of all rows without some.

        Rows of the first data are in no sums by level, unless they came later than a sample that was fitted.
        Where rows are kept it is known which these are, and how their weights were rounded; else they must
        not come together with rows of updates.
        """
        counted = np.ones(len(points)) if weights is None else scaled(weights, self.weight_unit)
        assert counted is not None
        updates, total = self.updates_of(points, targets, weights), self.total
        if self.fewest > 1:  # which rows of a level are in its sums is not known
            total = total.without_levels_at(self.features.keys(points))
        if self.memory is not None:
            found = self.memory.rows.find(self.held(points, targets, weights))
            counted = np.where(updates == 0, np.append(self.memory.rows.weights, 0)[found], counted)
        for part, more in ((updates == 0, self._levels_of_updates), (updates != 0, NO_LEVELS)):
            gone = summed(self.features, points[part], targets[part], counted[part])
            total = total - (gone if total.levels.holds(gone.levels + more) else gone.without_levels())
        return total

    @property
    def _levels_of_updates(self) -> LevelStatistics:
        """Sums by level of the rows of updates, as far as they are kept."""
        if self.memory is None or not self.features.levels:
            return NO_LEVELS
        rows = self.memory.rows.take(self.memory.rows.updates > 0)
        points, targets, weights = rows.points.astype(np.float64), rows.targets, rows.weights
        return summed(self.features, points, targets.astype(np.float64), weights.astype(np.float64)).levels

    def updates_of(self, points: Array, targets: Array, weights: Array | None = None) -> NDArray[np.int32]:
        """Number of the update that each of some rows came with, 0 for the fit and −1 if it is not kept."""
        if self.memory is None:
            return np.full(len(points), -1, np.int32)
        found = self.memory.rows.find(self.held(points, targets, weights))
        return np.where(found < 0, -1, np.append(self.memory.rows.updates, 0)[found]).astype(np.int32)

    @property
    def keeps_all(self) -> bool:
        """Whether all rows that are in the sums are kept."""
        if self.memory is None:
            return False
        return self.total.count <= (1 + 1e-6) * self.memory.rows.weights.sum(dtype=np.float64)

    def dropping(self, rows: HeldRows, update: int | None = None) -> Pool:
        """The pool that no longer keeps some rows, or those of an update; bumps right there go too."""
        if self.memory is None:
            return self
        left = self.memory.without_rows(rows, update)
        if not len(left.rows):
            raise ValueError("no row would be left to predict from; fit a new model instead")
        return replace(self, memory=left)._without_bases_at(rows.points, left.rows.points)

    def _without_bases_at(self, points: NDArray[np.float32], others: NDArray[np.float32]) -> Pool:
        """The pool without bumps at some points where no others are: those of clusters of one row."""
        kept = self.features.away_from(points.astype(np.float64), others.astype(np.float64))
        return self.with_only(kept)

    @property
    def origins(self) -> NDArray[np.intp]:
        """The update that each feature came with: 0 if that is not known, and −1 for the fit."""
        groups = [np.full(len(group.centres), -1) for group in self.features.radial_bases]
        for origins, updates in zip(groups, self.grown, strict=False):
            origins[len(origins) - len(updates) :] = updates
        rest = len(self.features) - sum(map(len, groups))
        return np.concatenate([np.full(rest, -1), *groups]).astype(np.intp)

    def noting_growth(self, grew: Sequence[int], update: int) -> Pool:
        """The pool that knows which update its last so many bumps of each group came with."""
        known = self.grown or ((),) * len(self.features.radial_bases)
        pairs = zip(known, grew, strict=True)
        return replace(self, grown=tuple((*updates, *[update] * count) for updates, count in pairs))

    def without_growth(self, update: int | None, points: Array) -> Pool:
        """The pool without bumps that came with an update: their centres are means of its rows.

        Of an update that is not known, all go that came later than the fit and that some of the points reach.
        """
        if not self.grown:
            return self
        origins, reached = self.origins, (self.features(points) > 0).any(axis=0)
        unclear = (origins == 0 if update is not None else origins >= 0) & reached
        return self.with_only(~(unclear | (origins == update if update else False)))

    def with_only(self, kept: NDArray[np.bool_]) -> Pool:
        """The pool without some bumps, by a mask of all features; it can no longer tell those of updates."""
        if kept.all():
            return self
        features, places, sizes = self.features.with_only(kept), np.flatnonzero(kept), self.features.sizes
        groups = np.repeat(np.arange(len(sizes)), sizes)
        left = np.bincount(groups[kept], minlength=len(sizes))
        precisions = self.prior.precisions[
            (left > 0) | (np.array(sizes) == 0)
        ]  # groups without bumps are gone
        begin, origins = len(sizes) - len(self.features.radial_bases), np.where(kept, self.origins, -1)
        grown = [tuple(origins[(groups == k) & (origins >= 0)].tolist()) for k in range(begin, len(sizes))]
        grown = [updates for k, updates in zip(range(begin, len(sizes)), grown, strict=True) if left[k]]
        counts = [Counter(updates) for updates in grown]
        fixed = tuple(
            replace(batch, grew=tuple(count[batch.update] for count in counts) if batch.grew else ())
            for batch in self.recent
        )
        fixed = tuple(batch if any(batch.grew) else replace(batch, grew=()) for batch in fixed)
        return replace(
            self,
            prior=replace(self.prior, precisions=precisions),
            recent=fixed,
            grown=tuple(grown) if any(grown) else (),
        )._with_features(
            features,
            older=self.older.narrowed(places),
            decayed=tuple(sums.narrowed(places) for sums in self.decayed),
            statistics=[batch.statistics.narrowed(places) for batch in self.recent],
        )

    def extended_by(
        self, points: Array, targets: Array, weights: Array | None = None, assess: Pool | None = None
    ) -> Pool:
        """The pool with more of the first data, such as the rows of a table beyond a sample of it.

        Errors are those of this pool, or of one that has learned less (`assess`): its model then need not be
        derived for each piece of the data.
        """
        rest = self.of_all(self.total + self.summed(points, targets, weights))
        rest = rest.keeping(self.held(points, targets, weights))
        seen = (assess or self)._residuals(points, targets, scaled(weights, self.weight_unit))
        if rest.error_model is not None and isinstance(seen, Residuals):
            return replace(rest, error_model=rest.error_model.joined(seen))
        return replace(rest, error_model=seen) if isinstance(seen, ErrorModel) else rest

    def of_all(self, sums: Statistics) -> Pool:
        """The pool whose first data has these sums; all memories are of the same age."""
        sums = self._apart(sums)
        decayed = tuple(sums_of(sums) for _ in self.half_lives)
        return replace(self, older=sums, decayed=decayed, recent=(), error_model=self.combined_error_model)

    def without_base(self) -> Pool:
        """The pool without the first model: until the next update the exact memory speaks alone.

        The model of rows that are kept stays: it is made of them alone.
        """
        rest = replace(self, fitted=None)
        return replace(rest, experts=ExpertWeights.of(rest.candidates), class_weights=None)

    def summed(self, points: Array, targets: Array, weights: Array | None) -> Statistics:
        """Sums of some rows, as the pool counts them."""
        return self._apart(summed(self.features, points, targets, scaled(weights, self.weight_unit)))

    # --- other features, more classes -----------------------------------------------------------------

    def widened(self, centres: Sequence[Array]) -> Pool:
        """The pool with more bumps in each group, which all rows so far count as zero for."""
        features = self.features.with_bases(centres)
        places, count = self.features.places_in(features), len(features)
        return self._with_features(
            features,
            older=self.older.widened(places, count),
            decayed=tuple(sums.widened(places, count) for sums in self.decayed),
            statistics=[batch.statistics.widened(places, count) for batch in self.recent],
        )

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> Pool:
        """The pool with more classes, which no row so far was of; the old ones get these places."""
        return replace(
            self,
            older=self.older.with_outputs(places, outputs),
            decayed=tuple(sums.with_outputs(places, outputs) for sums in self.decayed),
            recent=tuple(
                replace(batch, statistics=batch.statistics.with_outputs(places, outputs))
                for batch in self.recent
            ),
            fitted=None if self.fitted is None else with_outputs(self.fitted, places, outputs, UNSEEN),
            memory=None if self.memory is None else self.memory.with_outputs(places, outputs),
        )

    def _with_features(
        self, features: Features, older: Statistics, decayed: tuple[Sums, ...], statistics: list[Statistics]
    ) -> Pool:
        pairs = zip(self.recent, statistics, strict=True)
        recent = tuple(replace(batch, statistics=sums) for batch, sums in pairs)
        prior = replace(self.prior, sizes=features.sizes, cone=features.cone)
        return replace(self, features=features, prior=prior, older=older, decayed=decayed, recent=recent)
