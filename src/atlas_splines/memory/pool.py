"""The pool: the memory of a model as sufficient statistics and kept rows, with revertible recent updates.

Its statistics are those of Bayesian linear regression (Bishop, 2006, section 3.3): exact integer sums that
can be added, subtracted and merged bit for bit.
"""

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

HALF_LIVES = (1000.0, 150.0)  # of the decayed memories, in rows
FEWEST_ROWS = (
    20  # of an update whose sums are stored without rows: from the sums of one row, or two, these can be read
)
INDEPENDENT_OF_MODE = (
    "total",
    "total_sums",
    "decaying",
    "first",
    "later",
    "base",
    "recent_terms",
    "current_expert_weights",
    "current_class_weights",
)  # cached values that do not depend on the output mode
UNSEEN = -20.0  # score of a class that the initial model lacks: e⁻²⁰ is negligible beside the others


@dataclass(frozen=True, eq=False)
class Pool(Candidates, Contribution):
    """Statistics and rows that a model has learned, with its updates; immutable.

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
        """The pool of the rows of a fit."""
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
        """The pool of a fit whose statistics are given; `unit` is the mean weight of its rows."""
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
            initial=base,
            loss=loss,
            dtype=dtype,
            weight_unit=unit,
        )

    @property
    def kept_updates(self) -> NDArray[np.int32]:
        """Update number of each kept row, 0 for those of the fit: shape (rows,)."""
        return np.empty(0, np.int32) if self.memory is None else self.memory.rows.updates

    @property
    def prequential_square(self) -> float:
        """Upper bound of the prequential squared error of the latest rows: Σ weight · error, by convexity."""
        return float(self.expert_shares @ self.current_expert_weights.errors)

    def growth_since(self, before: Pool) -> tuple[float, ...]:
        """Factors by which the newest update has changed the root mean squared error on rows known before.

        Computed from the statistics: of all earlier rows first, then of those in each decayed memory. The
        initial model has no weights of features: the earlier cumulative posterior stands for it, and the
        cumulative posterior of the same time for the model of kept rows.
        """
        if len(before.features) < len(self.features):  # added features, which are zero for all earlier rows
            before = replace(self, recent=self.recent[:-1], output_mode=before.output_mode)
        # the initial model is never changed; the model of kept rows learns the update too
        for_base = [before.first.weights, (before if self.memory is None else self).first.weights]
        pairs = zip((before, self), for_base, strict=True)
        then, now = (pool.regression_weights(weights) for pool, weights in pairs)
        memories = (before.total_sums, *before.decaying)
        return tuple(
            float(np.sqrt(sums.error_of(now, self.effects) / sums.error_of(then, before.effects)))
            for sums in memories
        )

    def regression_weights(self, for_base: Array) -> Array:
        """Weights of the ensemble as a regression on targets, `for_base` for candidates without weights."""
        weights = self.weights + self.kept_share * for_base
        # weights of class scores do not add up to 1; those of regressions on indicators do
        return weights / max(self.expert_shares.sum(), 1e-9) if self.loss == "cross-entropy" else weights

    def state_like(self, state: State) -> State:
        """The state of the pool's prediction, with the domain and the charts of another state."""
        # beyond the unit cube it is extended as a model is when its domain grows
        derived = reaching(replace(state_of(self.model), monotonic=state.monotonic), state.lattice.domain.T)
        return replace(derived.with_charts(state.charts), pooled=self)

    def on_unit_cube(self, state: State) -> State | None:
        """The pool's prediction on the unit cube, with the charts of another state; None with kept rows."""
        if self.memory is not None:  # deriving it takes longer than extending it once more
            return None
        derived = replace(state_of(self.model), monotonic=state.monotonic)
        return replace(derived.with_charts(state.charts), pooled=self)

    def following(self, before: Pool, unit: float) -> Pool:
        """The pool that replaces another one of the same rows, with features and length scales chosen anew.

        All rows are kept: decayed statistics are summed from them by their ages, and the prequential errors
        of the candidates are taken over. `unit` converts squared errors of the other pool to units of this
        one.
        """
        assert self.memory is not None
        rows, known = self.memory.rows, before.current_expert_weights
        decayed = tuple(decayed_sums(self.features, rows, life) for life in self.half_lives)
        experts = known.scaled(unit) if len(known.errors) == self.candidates else self.expert_weights
        changed = replace(
            self, decayed=decayed, expert_weights=experts, output_mode=before.output_mode, recent=()
        )
        if self.loss == "cross-entropy":  # the number of recent local regressions may have changed
            form = before.current_class_weights.form.resized(self.candidates)
            experts = replace(self.expert_weights, rows=known.rows)
            changed = replace(changed, expert_weights=experts, class_weights=ClassWeights(form))
        return changed.derived_as(self.base) if self.base is not None else changed

    def derived_as(self, base: State) -> Pool:
        """The pool with the model of its kept rows in the cache, so that it is not derived again."""
        vars(self)["base"] = base
        return self

    def with_error_model(self, error_model: ErrorModel | None) -> Pool:
        """The pool with another error model."""
        changed = replace(self, error_model=error_model)
        vars(changed).update((name, vars(self)[name]) for name in INDEPENDENT_OF_MODE if name in vars(self))
        return changed

    def with_output_mode(self, output_mode: OutputMode) -> Pool:
        """The pool with the same memory in another output mode."""
        if output_mode == self.output_mode:
            return self
        changed = replace(self, output_mode=output_mode)
        vars(changed).update((name, vars(self)[name]) for name in INDEPENDENT_OF_MODE if name in vars(self))
        return changed

    # --- learning and reverting -----------------------------------------------------------------------

    def learned(
        self,
        update: int,
        points: Array,
        targets: Array,
        weights: Array | None = None,
        phi: Array | None = None,
        grew: tuple[int, ...] = (),
    ) -> Pool:
        """The pool with the rows of an update and the prequential errors of the candidates on them.

        Parameters
        ----------
        update
            Number of the update; more rows of the newest update are added to those it has.
        points, targets, weights
            Its rows, shapes (rows, inputs), (rows, outputs) and (rows,).
        phi
            Their features, if already computed.
        grew
            Number of centres that each group of radial basis functions was given for them.
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
        # the same additions in the same order as from the start: equal bit for bit
        vars(grown).update(
            total=self.total + batch.statistics,
            decaying=self._decayed(self.decaying, batch),
        )
        return grown

    def joined_by(self, update: int, statistics: Statistics, held: HeldRows | None = None) -> Pool:
        """The pool with further rows of the newest update, given as statistics alone.

        The candidates' errors on them are taken to be those on the other rows of the update, or the usual
        ones. With a local memory, `held` are all rows of the update to keep from now on.
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
        """The pool whose local memory keeps exactly these rows of the newest update, or of the fit."""
        if self.memory is None or held is None:
            return self
        recent = self.recent[0].update if self.recent else None
        return replace(self, memory=self.memory.with_rows_of(update, held, recent))

    def _with_newest(self, batch: Batch) -> Pool:
        """The pool with one more update."""
        grown = replace(self, recent=(*self.recent, batch))
        return grown if len(grown.recent) <= self.undo else grown._checkpointed()

    def _batch(
        self, update: int, points: Array, targets: Array, weights: Array | None, known: Array | None
    ) -> Batch:
        """Statistics of rows not yet learned, with their prequential errors."""
        statistics = Statistics(len(self.features), targets.shape[1])
        counted, residuals = scaled(weights, self.weight_unit), []
        of_classes = self.loss == "cross-entropy"  # class weights minimise log loss, not squared errors
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
            slice(None)
            if self.initial is None or self.memory is not None
            else slice(1 + len(self.half_lives))
        )

    @property
    def _usual_products(self) -> Array:
        """Recent mean products of residuals, for rows that only the statistics are known of."""
        experts = self.current_expert_weights
        return experts.products / max(float(np.trace(experts.products)), 1e-300) * experts.errors.sum()

    def _apart(self, statistics: Statistics) -> Statistics:
        """Statistics as they may be stored separately: without levels of too few rows."""
        return statistics if self.fewest == 1 else statistics.with_levels_of(self.fewest)

    def keeping(self, rows: HeldRows) -> Pool:
        """The pool with more kept rows, of updates that it has; unchanged if it keeps no rows."""
        if self.memory is None:
            return self
        recent = self.recent[0].update if self.recent else None
        return replace(self, memory=self.memory.with_rows(rows, recent))

    def held(self, points: Array, targets: Array, weights: Array | None, update: int = 0) -> HeldRows:
        """Rows in the form in which they are kept."""
        counted = scaled(weights, self.weight_unit)
        return HeldRows.of(points, targets, np.ones(len(points)) if counted is None else counted, update)

    def _checkpointed(self) -> Pool:
        """The pool whose oldest recent update is added to the checkpoint: removing it then needs its rows."""
        oldest, *recent = self.recent
        return replace(
            self,
            checkpoint=self.checkpoint + oldest.statistics,
            decayed=self._decayed(self.decayed, oldest),
            expert_weights=self.expert_weights.after(oldest.products, oldest.statistics.count),
            recent=tuple(recent),
            error_model=error_model_after(self.error_model, oldest.seen),
            class_weights=self._class_weights_after(oldest, self.candidates),
        )

    def _class_weights_after(self, batch: Batch, candidates: int) -> ClassWeights | None:
        """Log loss of the first candidates up to the checkpoint after one more update; None for numbers."""
        if self.loss != "cross-entropy":
            return None
        return ClassWeights(replace(self, recent=(batch,)).current_class_weights.form.resized(candidates))

    def with_checkpointed(self, update: int) -> Pool:
        """The pool with a recent update added to the checkpoint, as if it had come before the others.

        The decayed memories take its rows with full weight: from sums that weight them differently from older
        ones, and others that do not, the update's own sums could be computed. The initial model is dropped
        for the same reason: its weights w solve the normal equations without one row, so Λw − b with that row
        is along its features.
        """
        if not self.holds(update):
            return self
        (own,) = (batch for batch in self.recent if batch.update == update)
        candidates = 1 + len(self.half_lives)
        experts = self.expert_weights.after(own.products, own.statistics.count)
        others = (batch for batch in self.recent if batch is not own)
        return replace(
            self,
            checkpoint=self.checkpoint + own.statistics,
            decayed=tuple(sums.decay(own.sums, np.inf) for sums in self.decayed),
            expert_weights=experts.first(candidates),
            recent=tuple(batch.of_first(candidates) for batch in others),
            initial=None,
            error_model=error_model_after(self.error_model, own.seen),
            class_weights=self._class_weights_after(own, candidates),
        )

    def holds(self, update: int) -> bool:
        """Whether an update is recent and can be reverted without its rows."""
        return any(batch.update == update for batch in self.recent)

    def without(self, update: int) -> Pool:
        """The pool as if a recent update had never come, bit for bit.

        Without the newest update the previous output mode applies again. Centres that came with it are
        removed, unless rows of later updates reach them. Recorded errors of the candidates on later rows
        stay.
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

        The cumulative statistics lose them bit for bit. Their weights in the decayed memories are unknown, so
        these start again from the cumulative statistics; the initial model, which may have learned them, is
        dropped, and the model of kept rows is derived without them.
        """
        # features of centres added after these rows came do not count them
        pool = self.without_growth(None, points)
        rest = pool.of_all(pool.less(points, targets, weights)).without_base()
        rest = rest.dropping(self.held(points, targets, weights))
        return replace(
            rest, error_model=None if rest.error_model is None else rest.error_model.forgotten(points)
        )

    def less(self, points: Array, targets: Array, weights: Array | None) -> Statistics:
        """Cumulative statistics without some rows.

        Rows of the fit are in no sums by level, unless they came after the sample that was fitted. Kept rows
        show which these are and how their weights were rounded; otherwise rows of the fit and of updates must
        not be mixed.
        """
        counted = np.ones(len(points)) if weights is None else scaled(weights, self.weight_unit)
        assert counted is not None
        updates, total = self.updates_of(points, targets, weights), self.total
        if self.fewest > 1:  # which rows of a level are in its sums is unknown
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
        """Sums by level of the kept rows of updates."""
        if self.memory is None or not self.features.levels:
            return NO_LEVELS
        rows = self.memory.rows.take(self.memory.rows.updates > 0)
        points, targets, weights = rows.points.astype(np.float64), rows.targets, rows.weights
        return summed(self.features, points, targets.astype(np.float64), weights.astype(np.float64)).levels

    def updates_of(self, points: Array, targets: Array, weights: Array | None = None) -> NDArray[np.int32]:
        """Update number of each of some rows, 0 for the fit and −1 if the row is not kept."""
        if self.memory is None:
            return np.full(len(points), -1, np.int32)
        found = self.memory.rows.find(self.held(points, targets, weights))
        return np.where(found < 0, -1, np.append(self.memory.rows.updates, 0)[found]).astype(np.int32)

    @property
    def keeps_all(self) -> bool:
        """Whether all rows that the statistics count are kept."""
        if self.memory is None:
            return False
        return self.total.count <= (1 + 1e-6) * self.memory.rows.weights.sum(dtype=np.float64)

    def dropping(self, rows: HeldRows, update: int | None = None) -> Pool:
        """The pool without some kept rows, or those of an update, and without centres on them."""
        if self.memory is None:
            return self
        left = self.memory.without_rows(rows, update)
        if not len(left.rows):
            raise ValueError("no row would be left to predict from; fit a new model instead")
        return replace(self, memory=left)._without_bases_at(rows.points, left.rows.points)

    def _without_bases_at(self, points: NDArray[np.float32], others: NDArray[np.float32]) -> Pool:
        """The pool without centres on points where no other row lies: clusters of a single row."""
        kept = self.features.away_from(points.astype(np.float64), others.astype(np.float64))
        return self.with_only(kept)

    @property
    def origins(self) -> NDArray[np.intp]:
        """Update that each feature came with, 0 if unknown and −1 for the fit: shape (features,)."""
        groups = [np.full(len(group.centres), -1) for group in self.features.radial_bases]
        for origins, updates in zip(groups, self.grown, strict=False):
            origins[len(origins) - len(updates) :] = updates
        rest = len(self.features) - sum(map(len, groups))
        return np.concatenate([np.full(rest, -1), *groups]).astype(np.intp)

    def noting_growth(self, grew: Sequence[int], update: int) -> Pool:
        """The pool that records which update the last centres of each group came with."""
        known = self.grown or ((),) * len(self.features.radial_bases)
        pairs = zip(known, grew, strict=True)
        return replace(self, grown=tuple((*updates, *[update] * count) for updates, count in pairs))

    def without_growth(self, update: int | None, points: Array) -> Pool:
        """The pool without the centres that came with an update, which are means of its rows.

        For an unknown update: without all centres added after the fit whose functions reach any of the
        points.
        """
        if not self.grown:
            return self
        origins, reached = self.origins, (self.features(points) > 0).any(axis=0)
        unclear = (origins == 0 if update is not None else origins >= 0) & reached
        return self.with_only(~(unclear | (origins == update if update else False)))

    def with_only(self, kept: NDArray[np.bool_]) -> Pool:
        """The pool with some features only, by a mask of all features; splines always stay."""
        if kept.all():
            return self
        features, places, sizes = self.features.with_only(kept), np.flatnonzero(kept), self.features.sizes
        groups = np.repeat(np.arange(len(sizes)), sizes)
        left = np.bincount(groups[kept], minlength=len(sizes))
        precisions = self.prior.precisions[
            (left > 0) | (np.array(sizes) == 0)
        ]  # groups left without centres are dropped
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
            checkpoint=self.checkpoint.narrowed(places),
            decayed=tuple(sums.narrowed(places) for sums in self.decayed),
            statistics=[batch.statistics.narrowed(places) for batch in self.recent],
        )

    def extended_by(
        self, points: Array, targets: Array, weights: Array | None = None, assess: Pool | None = None
    ) -> Pool:
        """The pool with more rows of the fit, such as those of a table beyond the sample.

        Residuals are those of this pool, or of one that has learned less (`assess`), whose model then need
        not be derived again for each piece.
        """
        rest = self.of_all(self.total + self.summed(points, targets, weights))
        rest = rest.keeping(self.held(points, targets, weights))
        seen = (assess or self)._residuals(points, targets, scaled(weights, self.weight_unit))
        if rest.error_model is not None and isinstance(seen, Residuals):
            return replace(rest, error_model=rest.error_model.joined(seen))
        return replace(rest, error_model=seen) if isinstance(seen, ErrorModel) else rest

    def of_all(self, sums: Statistics) -> Pool:
        """The pool with these statistics of the fit, in all memories, and no updates."""
        sums = self._apart(sums)
        decayed = tuple(sums_of(sums) for _ in self.half_lives)
        return replace(
            self, checkpoint=sums, decayed=decayed, recent=(), error_model=self.combined_error_model
        )

    def without_base(self) -> Pool:
        """The pool without the initial model: until the next update the cumulative statistics predict.

        The model of kept rows stays, since it is derived from them alone.
        """
        rest = replace(self, initial=None)
        return replace(rest, expert_weights=ExpertWeights.of(rest.candidates), class_weights=None)

    def summed(self, points: Array, targets: Array, weights: Array | None) -> Statistics:
        """Statistics of some rows, with weights in units of `weight_unit`."""
        return self._apart(summed(self.features, points, targets, scaled(weights, self.weight_unit)))

    # --- further features and classes -----------------------------------------------------------------

    def widened(self, centres: Sequence[Array]) -> Pool:
        """The pool with more centres in each group, whose features are zero for all rows so far."""
        features = self.features.with_bases(centres)
        places, count = self.features.places_in(features), len(features)
        return self._with_features(
            features,
            checkpoint=self.checkpoint.widened(places, count),
            decayed=tuple(sums.widened(places, count) for sums in self.decayed),
            statistics=[batch.statistics.widened(places, count) for batch in self.recent],
        )

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> Pool:
        """The pool with more classes, without rows yet; `places` are those of the present classes."""
        return replace(
            self,
            checkpoint=self.checkpoint.with_outputs(places, outputs),
            decayed=tuple(sums.with_outputs(places, outputs) for sums in self.decayed),
            recent=tuple(
                replace(batch, statistics=batch.statistics.with_outputs(places, outputs))
                for batch in self.recent
            ),
            initial=None if self.initial is None else with_outputs(self.initial, places, outputs, UNSEEN),
            memory=None if self.memory is None else self.memory.with_outputs(places, outputs),
        )

    def _with_features(
        self,
        features: Features,
        checkpoint: Statistics,
        decayed: tuple[Sums, ...],
        statistics: list[Statistics],
    ) -> Pool:
        pairs = zip(self.recent, statistics, strict=True)
        recent = tuple(replace(batch, statistics=sums) for batch, sums in pairs)
        prior = replace(self.prior, sizes=features.sizes, cone=features.cone)
        return replace(
            self, features=features, prior=prior, checkpoint=checkpoint, decayed=decayed, recent=recent
        )
