"""The pool: all that a model has learned as sums of its data, of which recent updates can be taken back.

One memory never forgets, and is exact: it depends on no order and on no pieces. Others fade. The model that
was fitted at first takes part as it is: doing nothing is one of the candidates. What all of them say is mixed
by how well they predicted lately; a weighted sum of features and of models is a model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.evaluation import evaluate
from atlas_splines.core.extension import reaching, with_outputs
from atlas_splines.core.losses import find_loss
from atlas_splines.core.mixing import mixture
from atlas_splines.core.model import Atlas, model_in, state_of
from atlas_splines.core.remembering import Remembering
from atlas_splines.core.state import Evidence, State
from atlas_splines.evidence.features import Features
from atlas_splines.evidence.folding import fold
from atlas_splines.evidence.presence import Presence
from atlas_splines.evidence.readout import LEAST_NOISE, Prior, Readout, Sums, solve, sums_of
from atlas_splines.evidence.spread import LEAST_ROWS, Seen, Spread, telling_inputs
from atlas_splines.evidence.statistics import HEAVIEST, Statistics

__all__ = ["HALF_LIVES", "RECENT", "UNSEEN", "Batch", "Pool", "Track", "Voice", "spread_after"]

Array = NDArray[np.float64]
Voice = Literal["mixture", "exact", "fading"]

HALF_LIVES = (1000.0, 150.0)  # rows after which the evidence of the fading memories counts half
RECENT = 4  # updates that can be taken back without their rows
SMOOTHING = 500.0  # rows after which an error ahead counts half
ROWS_A_COMPARISON = 150  # neighbouring rows have errors that are alike: so many count as one
MOST_COMPARISONS = 30
FADING_SHARE = 0.1  # of a fading memory that is as good as the exact one, over the share of that
FARTHEST = 1e15  # what a model that overflows is taken to say
ROWS_AT_ONCE = 8192  # whose features are held in memory
LEAST_SHARE = 0.01  # in the mixture; what would have less is left out, so that the model stays small
MUTE = ("total", "fading", "first", "later")  # what does not depend on who speaks
UNSEEN = -20.0  # score of a class that the first model has not seen: e⁻²⁰ is nothing beside the others
SHARPNESS = 2.0  # scores of classes are multiplied by this over the standard deviation of their noise


@dataclass(frozen=True, eq=False)
class Track:
    """How well each candidate predicted rows that it had not learned yet.

    Attributes
    ----------
    errors
        Mean squared error of the exact memory, of the fading ones and of the first model, if it is kept; the
        latest rows count most.
    rows
        Rows that they come from.
    """

    errors: Array  # (candidates,)
    rows: float = 0.0

    def after(self, errors: Array, rows: float) -> Track:
        """The track with the errors on some more rows."""
        keep = 0.5 ** (rows / SMOOTHING) if self.rows else 0.0
        old = keep * self.errors if keep else 0.0  # whose errors can be infinite
        return Track(old + (1 - keep) * errors, self.rows + rows)

    def shares(self, preference: Array) -> Array:
        """Share of each candidate in the mixture; those that are as good as each other share as preferred.

        Examples
        --------
        >>> Track(np.array([1.0, 1.0, 2.0]), rows=3000).shares(np.array([1, 0.1, 0.1])).round(2)
        array([0.91, 0.09, 0.  ])
        """
        comparisons = min(self.rows / ROWS_A_COMPARISON, MOST_COMPARISONS)
        shares = preference * np.exp(-comparisons * (self.errors / max(self.errors.min(), LEAST_NOISE) - 1))
        shares /= shares.sum()
        shares[shares < LEAST_SHARE] = 0
        return shares / shares.sum()


@dataclass(frozen=True, eq=False)
class Batch:
    """The evidence of one update.

    Attributes
    ----------
    update
        Number of the update.
    statistics
        Sums of its rows.
    errors
        Mean squared error of each candidate on its rows before they were learned, shape (candidates,).
    grew
        Bumps that came with it, for each group; empty if none did.
    seen
        What its rows add to the spread of the pool, or the spread that begins with them.
    before
        Who spoke before it came.
    """

    update: int
    statistics: Statistics
    errors: Array
    grew: tuple[int, ...] = ()
    seen: Seen | Spread | None = None
    before: Voice = "mixture"

    @cached_property
    def sums(self) -> Sums:
        """Its statistics as floats."""
        return sums_of(self.statistics)

    def __getstate__(self) -> dict[str, Any]:
        return stored(self)

    def joined(self, more: Batch) -> Batch:
        """The evidence of these rows and of more rows of the same update."""
        counts = np.array([self.statistics.count, more.statistics.count])
        errors = counts @ [self.errors, more.errors] / counts.sum()
        seen = spread_after(self.seen, more.seen) if isinstance(self.seen, Spread) else self.seen
        if isinstance(self.seen, Seen) and isinstance(more.seen, Seen):
            seen = self.seen.joined(more.seen)
        return replace(self, statistics=self.statistics + more.statistics, errors=errors, seen=seen)


@dataclass(frozen=True, eq=False)
class Pool(Remembering, Evidence):
    """Evidence of all rows that a model has learned; never changed in place.

    Attributes
    ----------
    features
        What the statistics are of.
    prior
        The prior that suited the first data.
    half_lives
        Rows after which evidence counts half, for each fading memory.
    older
        Exact sums of the first data and of all updates that are no longer recent.
    faded
        The same sums, faded, for each half-life.
    track
        How well the candidates predicted, up to there.
    recent
        The latest updates, oldest first.
    base
        The model as it was fitted at first, without charts, if it is a candidate too.
    voice
        Who speaks: the "mixture" of all candidates, the "exact" memory alone, or the first "fading" one.
        Until there is an update the first model, if it is kept, speaks for all but the exact memory.
    loss
        Name of the model's loss; with "cross-entropy" targets are indicators of classes.
    dtype
        Dtype of the model.
    weight_unit
        Mean weight of the first rows: it counts as one row.
    spread
        How far off predictions were, up to the recent updates; None if that was never watched.

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

    features: Features
    prior: Prior
    half_lives: tuple[float, ...]
    older: Statistics
    faded: tuple[Sums, ...]
    track: Track
    recent: tuple[Batch, ...] = ()
    base: State | None = None
    voice: Voice = "mixture"
    loss: str = "mse"
    dtype: str = "float32"
    weight_unit: float = 1.0
    spread: Spread | None = None

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
        first = summed(features, points, targets, scaled(weights, unit))
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

    def __getstate__(self) -> dict[str, Any]:
        return stored(self)

    # --- what the candidates say ----------------------------------------------------------------------

    @cached_property
    def total(self) -> Statistics:
        """Exact sums of all rows."""
        return reduce(lambda total, batch: total + batch.statistics, self.recent, self.older)

    @property
    def readouts(self) -> list[Readout]:
        """What each memory says, the exact one first."""
        return [self.first, *self.later]

    @cached_property
    def first(self) -> Readout:
        """What the exact memory says: a function of the data, whatever its order."""
        return solve(self.total, self.prior)

    @cached_property
    def later(self) -> list[Readout]:
        """What each fading memory says."""
        # they keep the prior of the first data: what they still hold may be too little to find one
        return [sums.readout(self.prior) for sums in self.fading]

    @cached_property
    def fading(self) -> tuple[Sums, ...]:
        """Sums of all rows as each fading memory holds them."""
        fading = self.faded
        for batch in self.recent:
            fading = self._faded(fading, batch)
        return fading

    def _faded(self, memories: Sequence[Sums], batch: Batch) -> tuple[Sums, ...]:
        """Fading memories after one more batch."""
        lives = zip(memories, self.half_lives, strict=True)
        return tuple(sums.fade(batch.sums, life) for sums, life in lives)

    @property
    def most_trusted(self) -> Readout:
        """What the memory with the largest share says."""
        if self.voice == "fading":
            return self.later[0]
        memory = int(np.argmax(self.trust[: 1 + len(self.half_lives)]))
        return self.later[memory - 1] if memory else self.first

    @cached_property
    def trust(self) -> Array:
        """Share of each candidate: the exact memory, the fading ones, and the first model if it is kept."""
        return self._trust_by(self.whole_track)

    def _trust_by(self, track: Track) -> Array:
        candidates = np.eye(len(track.errors))
        if self.voice != "exact" and self.base is not None and not track.rows:
            return candidates[-1]  # the model stays what it was fitted to be
        if self.voice != "mixture" or not track.rows:
            return candidates[1 if self.voice == "fading" else 0]
        fading = [FADING_SHARE] * len(self.half_lives)
        return track.shares(np.array([1.0, *fading, *[1.0] * (self.base is not None)]))

    @property
    def whole_track(self) -> Track:
        """How well the candidates predicted, up to now."""
        return reduce(
            lambda track, batch: track.after(batch.errors, batch.statistics.count), self.recent, self.track
        )

    @cached_property
    def whole_spread(self) -> Spread | None:
        """How far off predictions were, up to now."""
        return reduce(lambda spread, batch: spread_after(spread, batch.seen), self.recent, self.spread)

    @cached_property
    def weights(self) -> Array:
        """Weights of the features in what the pool says, shape (features, outputs)."""
        if self.trust[0] == 1:
            return self.first.weights
        shares = zip(self.trust, self.readouts, strict=False)
        return np.asarray(sum(share * readout.weights for share, readout in shares))

    @property
    def base_share(self) -> float:
        """Share of the first model in what the pool says."""
        return 0.0 if self.base is None else float(self.trust[-1])

    @property
    def sharpness(self) -> float:
        """What scores of classes are multiplied by, before the softmax makes them probabilities."""
        if self.loss != "cross-entropy":
            return 1.0
        return float(SHARPNESS / np.sqrt(self.first.noise.mean()))

    @cached_property
    def model(self) -> Atlas:
        """What the pool says, as one model on the unit cube."""
        parts, divisors = [], []
        if self.base_share < 1:
            parts.append(fold(self.features, self.sharpness * self.weights, self.dtype))
            divisors.append(1.0)
        if self.base is not None and self.base_share > 0:
            parts.append(model_in(self.base))
            divisors.append(1 / self.base_share)
        return parts[0] if len(parts) == 1 else mixture(parts, divisors)

    def state_like(self, state: State) -> State:
        """The state of a model that says what the pool says, with the domain and charts of another."""
        # beyond the unit cube it levels off as a model does whose domain new rows let grow
        said = reaching(replace(state_of(self.model), signs=state.signs), state.lattice.domain.T)
        return replace(said.with_charts(state.charts), evidence=self)

    def errors_on(self, points: Array, targets: Array) -> Array:
        """Squared error of each candidate on each row, shape (candidates, rows)."""
        return self._errors(self.features(points), points, targets)

    def _errors(self, phi: Array, points: Array, targets: Array) -> Array:
        # where nobody listens to the fading memories they are not asked: they count as good as the exact one
        alone = self.voice == "exact"
        asked = [self.first] * (1 + len(self.half_lives)) if alone else self.readouts
        said: list[NDArray[np.floating]] = [phi @ readout.weights for readout in asked]
        if self.base is not None:
            outputs = evaluate(self.base, points.clip(0, 1).astype(self.base.dtype))
            with np.errstate(over="ignore", invalid="ignore"):
                said.append(find_loss(self.loss).labels(outputs))
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.stack([((outputs - targets) ** 2).mean(axis=1) for outputs in said])
        return np.where(np.isnan(errors), np.inf, errors)  # whoever overflows is infinitely wrong

    # --- learning, and taking back --------------------------------------------------------------------

    def with_voice(self, voice: Voice) -> Pool:
        """The pool with the same evidence, of which another part speaks."""
        if voice == self.voice:
            return self
        changed = replace(self, voice=voice)
        vars(changed).update((name, vars(self)[name]) for name in MUTE if name in vars(self))
        return changed

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
        grown = replace(self, recent=(*self.recent, batch))
        grown = grown if len(grown.recent) <= RECENT else grown._settled()
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
        batch = Batch(update, statistics, self.whole_track.errors)
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
            errors.append(self._errors(phi, points[rows], targets[rows]))
            statistics.add(phi, targets[rows], None if counted is None else counted[rows])
        mean = np.average(np.hstack(errors), axis=1, weights=weights)
        return Batch(update, statistics, mean, seen=self._seen(points, targets, counted))

    def _seen(self, points: Array, targets: Array, counted: Array | None) -> Seen | Spread | None:
        """What rows that this pool has not learned add to its spread, or the spread that begins with them."""
        spread, inside = self.whole_spread, points.clip(0, 1)
        if spread is None and (self.base is None or len(points) < LEAST_ROWS):
            return None
        if spread is None:
            return self._spread_by(inside, targets, counted)
        return spread.seen(inside, self._said(inside), targets, counted)

    def _said(self, inside: Array) -> Array:
        """What the model of the pool says at points of the unit cube, shape (rows, outputs)."""
        with np.errstate(over="ignore", invalid="ignore"):
            said = evaluate(state_of(self.model), inside.astype(self.dtype)).astype(np.float64)
        return np.nan_to_num(said, nan=FARTHEST, posinf=FARTHEST, neginf=-FARTHEST)

    def _spread_by(
        self, inside: Array, targets: Array, counted: Array | None, presence: Presence | None = None
    ) -> Spread:
        """A spread that begins with rows of the unit cube."""
        return Spread.of(
            inside,
            self._said(inside),
            targets,
            counted,
            inputs=telling_inputs(self.features),
            loss=self.loss,
            presence=presence,
        )

    def judged_by(self, points: Array, targets: Array, weights: Array | None = None) -> Spread | None:
        """How far off the pool is on rows that it has not learned; with few of them, what it knew before."""
        known = self.whole_spread
        if len(points) < LEAST_ROWS:
            return known
        presence = None if known is None else known.presence
        return self._spread_by(points.clip(0, 1), targets, scaled(weights, self.weight_unit), presence)

    def errors_in_turn(
        self,
        before: Pool,
        phi: Array,
        points: Array,
        targets: Array,
        weights: Array,
        blocks: Sequence[NDArray[np.intp]],
    ) -> Array:
        """Squared error of each row of the newest update, had the rows of its block not come: shape (rows,).

        Parameters
        ----------
        before
            The pool without the update.
        phi, points, targets, weights
            All rows of the update, and their features.
        blocks
            Numbers of the rows of each block; together all rows.
        """
        counted = self.counted(weights)
        ahead = before._errors(phi, points, targets)  # (candidates, rows)
        left = [(r.left_in_turn(phi, targets, counted, blocks) ** 2).mean(axis=1) for r in self.readouts]
        errors = np.stack([*left, *ahead[len(left) :]])
        found = np.empty(len(points))
        for held in blocks:
            rest = np.setdiff1d(np.arange(len(points)), held)
            track = before.whole_track
            if len(rest):
                seen = np.average(ahead[:, rest], axis=1, weights=weights[rest])
                track = track.after(seen, counted[rest].sum())
            trust = self._trust_by(track)
            found[held] = trust[trust > 0] @ errors[trust > 0][:, held]  # others may be infinitely wrong
        return found

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
        """
        rest = self.of_all(self.total - self._summed(points, targets, weights)).without_base()
        return replace(rest, spread=None if rest.spread is None else rest.spread.forgotten(points))

    def extended_by(self, points: Array, targets: Array, weights: Array | None = None) -> Pool:
        """The pool with more of the first data, such as the rows of a table beyond a sample of it."""
        rest = self.of_all(self.total + self._summed(points, targets, weights))
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

    def _summed(self, points: Array, targets: Array, weights: Array | None) -> Statistics:
        return summed(self.features, points, targets, scaled(weights, self.weight_unit))

    def counted(self, weights: Array) -> Array:
        """Weights as the statistics count them."""
        return np.minimum(weights / self.weight_unit, HEAVIEST)


def spread_after(spread: Spread | None, seen: Seen | Spread | None) -> Spread | None:
    """A spread after what was seen: none is left that has no beginning."""
    if isinstance(seen, Spread):
        return seen
    return spread if spread is None or seen is None else spread.after(seen)


def stored(record: Batch | Pool) -> dict[str, Any]:
    """Fields for a pickle; what follows from them is found again when it is asked for."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def summed(features: Features, points: Array, targets: Array, weights: Array | None) -> Statistics:
    """Statistics of some rows."""
    statistics = Statistics(len(features), targets.shape[1])
    statistics.add_pieces(
        (features(points[rows]), targets[rows], None if weights is None else weights[rows])
        for rows in pieces_of(len(points))
    )
    return statistics


def pieces_of(rows: int) -> list[slice]:
    """Cuts of rows: their features take much more memory than the rows."""
    return [slice(begin, begin + ROWS_AT_ONCE) for begin in range(0, rows, ROWS_AT_ONCE)]


def scaled(weights: Array | None, unit: float) -> Array | None:
    """Weights in units of the usual one; none counts more than statistics can hold."""
    return None if weights is None else np.minimum(weights / unit, HEAVIEST)
