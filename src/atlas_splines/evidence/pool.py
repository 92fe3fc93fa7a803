"""The pool: all that a model has learned as sums of its data, of which recent updates can be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.extension import reaching, with_outputs
from atlas_splines.core.model import state_of
from atlas_splines.core.state import Evidence, State
from atlas_splines.evidence.batches import Batch, Voice, pieces_of, scaled, spread_after, summed
from atlas_splines.evidence.features import Features
from atlas_splines.evidence.memories import Memories
from atlas_splines.evidence.readout import Prior, Sums, sums_of
from atlas_splines.evidence.spread import Seen, Spread
from atlas_splines.evidence.statistics import Statistics
from atlas_splines.evidence.track import Track

__all__ = ["HALF_LIVES", "RECENT", "UNSEEN", "Pool"]

Array = NDArray[np.float64]

HALF_LIVES = (1000.0, 150.0)  # rows after which the evidence of the fading memories counts half
RECENT = 4  # updates that can be taken back without their rows
MUTE = ("total", "fading", "first", "later")  # what does not depend on who speaks
UNSEEN = -20.0  # score of a class that the first model has not seen: e⁻²⁰ is nothing beside the others


@dataclass(frozen=True, eq=False)
class Pool(Memories, Evidence):
    """Evidence of all rows that a model has learned: memories that learn; never changed in place.

    Examples
    --------
    >>> from atlas_splines.evidence.features import Features
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
        fading = tuple(half_lives)
        track = Track(np.zeros(1 + len(fading) + (base is not None)))
        faded = tuple(sums_of(first) for _ in fading)
        return cls(
            features, prior, fading, first, faded, track, base=base, loss=loss, dtype=dtype, weight_unit=unit
        )

    def growth_since(self, before: Pool) -> tuple[float, ...]:
        """By how much the newest update has let the errors on rows known before grow, as their sums tell.

        First on all of them, then on those that each fading memory still holds. The first model, if it
        speaks, has no such sums; the exact memory of before stands for it.
        """
        if len(before.features) < len(self.features):  # the same in features that no row had yet
            before = replace(self, recent=self.recent[:-1], voice=before.voice)
        for_base = before.first.weights
        said, now = (pool.weights + pool.base_share * for_base for pool in (before, self))
        memories = (sums_of(before.total), *before.fading)
        return tuple(
            float(np.sqrt(sums.error_of(now, self.effects) / sums.error_of(said, before.effects)))
            for sums in memories
        )

    def state_like(self, state: State) -> State:
        """The state of a model that says what the pool says, with the domain and charts of another."""
        # beyond the unit cube it levels off as a model does whose domain new rows let grow
        said = reaching(replace(state_of(self.model), signs=state.signs), state.lattice.domain.T)
        return replace(said.with_charts(state.charts), evidence=self)

    def with_voice(self, voice: Voice) -> Pool:
        """The pool with the same evidence, of which another part speaks."""
        if voice == self.voice:
            return self
        changed = replace(self, voice=voice)
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
        batch = replace(self._batch(update, points, targets, weights, phi), grew=grew, before=self.voice)
        if self.holds(update):
            return replace(self, recent=(*self.recent[:-1], self.recent[-1].joined(batch)))
        grown = self._with_newest(batch)
        # the same additions in the same order as from the start: not a bit differs
        vars(grown).update(
            total=self.total + batch.statistics,
            fading=self._faded(self.fading, batch),
        )
        return grown

    def joined_by(self, update: int, statistics: Statistics) -> Pool:
        """The pool with further rows of the newest update, of which only the sums are known.

        How well the candidates predicted is judged by the other rows of the update, or as before.
        """
        if self.holds(update):
            newest = self.recent[-1]
            more = replace(newest, statistics=newest.statistics + statistics)
            return replace(self, recent=(*self.recent[:-1], more))
        return self._with_newest(Batch(update, statistics, self.whole_track.errors))

    def _with_newest(self, batch: Batch) -> Pool:
        """The pool with one more update."""
        grown = replace(self, recent=(*self.recent, batch))
        return grown if len(grown.recent) <= RECENT else grown._settled()

    def _batch(
        self, update: int, points: Array, targets: Array, weights: Array | None, known: Array | None
    ) -> Batch:
        """The evidence of rows that this pool has not learned."""
        statistics = Statistics(len(self.features), targets.shape[1])
        counted, errors = scaled(weights, self.weight_unit), []
        for rows in pieces_of(len(points)):
            phi = self.features(points[rows]) if known is None else known[rows]
            errors.append(self.errors_on(phi, points[rows], targets[rows]))
            levels = self.features.keys(points[rows])
            statistics.add(phi, targets[rows], None if counted is None else counted[rows], levels)
        mean = np.average(np.hstack(errors), axis=1, weights=weights)
        return Batch(update, statistics, mean, seen=self._seen(points, targets, counted))

    def _settled(self) -> Pool:
        """The oldest of the recent updates joins those that need their rows to be taken back."""
        oldest, *recent = self.recent
        return replace(
            self,
            older=self.older + oldest.statistics,
            faded=self._faded(self.faded, oldest),
            track=self.track.after(oldest.errors, oldest.statistics.count),
            recent=tuple(recent),
            spread=spread_after(self.spread, oldest.seen),
        )

    def holds(self, update: int) -> bool:
        """Whether an update is recent, and can be taken back without its rows."""
        return any(batch.update == update for batch in self.recent)

    def without(self, update: int) -> Pool:
        """The pool as if a recent update had never come, to the bit.

        Without the newest, who spoke before it speaks again. Bumps that came with it go too, unless later
        updates have learned with them. How well candidates predicted later rows stays as it was noted.
        """
        place = [batch.update for batch in self.recent].index(update)
        gone, later = self.recent[place], self.recent[place + 1 :]
        if later:
            later = (replace(later[0], before=gone.before), *later[1:])
            return replace(self, recent=(*self.recent[:place], *later))
        rest = replace(self, recent=self.recent[:place], voice=gone.before)
        return rest._narrowed(gone.grew) if gone.grew else rest

    def revert(self, update: int, state: State) -> State:
        """The state of a model as if a recent update had never come."""
        return self.without(update).state_like(state)

    def forgotten(self, points: Array, targets: Array, weights: Array | None = None) -> Pool:
        """The pool as if some rows had never come, whenever that was.

        The exact memory loses them to the bit. How much of them the fading ones still hold is not known, so
        they start again from what the exact one holds; the first model, which may have learned them, is gone.
        Rows of the first data are in no sums by level; they must not come together with rows that are.
        """
        gone = self.summed(points, targets, weights)
        known = self.total.levels.holds(gone.levels)
        rest = self.of_all(self.total - (gone if known else gone.without_levels())).without_base()
        return replace(rest, spread=None if rest.spread is None else rest.spread.forgotten(points))

    def extended_by(self, points: Array, targets: Array, weights: Array | None = None) -> Pool:
        """The pool with more of the first data, such as the rows of a table beyond a sample of it."""
        rest = self.of_all(self.total + self.summed(points, targets, weights))
        seen = self._seen(points, targets, scaled(weights, self.weight_unit))
        if rest.spread is not None and isinstance(seen, Seen):
            return replace(rest, spread=rest.spread.joined(seen))
        return replace(rest, spread=seen) if isinstance(seen, Spread) else rest

    def of_all(self, sums: Statistics) -> Pool:
        """The pool whose first data has these sums; all memories are of the same age."""
        faded = tuple(sums_of(sums) for _ in self.half_lives)
        return replace(self, older=sums, faded=faded, recent=(), spread=self.whole_spread)

    def without_base(self) -> Pool:
        """The pool without the first model: until the next update the exact memory speaks alone."""
        return replace(self, base=None, track=Track(np.zeros(1 + len(self.half_lives))))

    def summed(self, points: Array, targets: Array, weights: Array | None) -> Statistics:
        """Sums of some rows, as the pool counts them."""
        return summed(self.features, points, targets, scaled(weights, self.weight_unit))

    # --- other features, more classes -----------------------------------------------------------------

    def widened(self, centres: Sequence[Array]) -> Pool:
        """The pool with more bumps in each group, which all rows so far count as zero for."""
        features = self.features.with_bumps(centres)
        places, count = self.features.places_in(features), len(features)
        return self._with_features(
            features,
            older=self.older.widened(places, count),
            faded=tuple(sums.widened(places, count) for sums in self.faded),
            statistics=[batch.statistics.widened(places, count) for batch in self.recent],
        )

    def _narrowed(self, grew: Sequence[int]) -> Pool:
        """The pool without the last so many bumps of each group."""
        features = self.features.without_bumps(grew)
        places = features.places_in(self.features)
        return self._with_features(
            features,
            older=self.older.narrowed(places),
            faded=tuple(sums.narrowed(places) for sums in self.faded),
            statistics=[batch.statistics.narrowed(places) for batch in self.recent],
        )

    def with_outputs(self, places: NDArray[np.intp], outputs: int) -> Pool:
        """The pool with more classes, which no row so far was of; the old ones get these places."""
        return replace(
            self,
            older=self.older.with_outputs(places, outputs),
            faded=tuple(sums.with_outputs(places, outputs) for sums in self.faded),
            recent=tuple(
                replace(batch, statistics=batch.statistics.with_outputs(places, outputs))
                for batch in self.recent
            ),
            base=None if self.base is None else with_outputs(self.base, places, outputs, UNSEEN),
        )

    def _with_features(
        self, features: Features, older: Statistics, faded: tuple[Sums, ...], statistics: list[Statistics]
    ) -> Pool:
        pairs = zip(self.recent, statistics, strict=True)
        recent = tuple(replace(batch, statistics=sums) for batch, sums in pairs)
        prior = replace(self.prior, sizes=features.sizes, cone=features.cone)
        return replace(self, features=features, prior=prior, older=older, faded=faded, recent=recent)
