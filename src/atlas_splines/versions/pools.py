"""Evidence between versions: what was added to a pool, and pools to which rows were added apart.

Exact sums commute, so what rows add up to does not depend on who merges whom. Rows that are kept stand in the
order of their updates. Memories that fade depend on the order of updates: where rows were added on both sides
they start again from the exact sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from atlas_splines.evidence.batches import Batch, Voice
from atlas_splines.evidence.held_rows import HeldRows
from atlas_splines.evidence.local_memory import LocalMemory, Mixture
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.spread import Spread
from atlas_splines.evidence.statistics import Statistics
from atlas_splines.files.parts import digests_of, version_of
from atlas_splines.memory.unlearning import restarted
from atlas_splines.storage.evidence import pool_header, pool_tensors

__all__ = [
    "PoolAdditions",
    "check_memory",
    "followed",
    "merged",
    "pool_additions",
    "pool_digest",
    "renumbered",
]

Array = NDArray[np.float64]

FORGOTTEN = "rows that the base had were forgotten; merge first, and forget afterwards"


@dataclass(frozen=True, eq=False)
class PoolAdditions:
    """What was added to a pool.

    Attributes
    ----------
    batches
        Evidence of the latest updates, each by itself.
    rest
        Sums of all other rows that were added; None if there were none.
    centres
        Bumps that were added to each group, shape (bumps, inputs); empty if none were.
    bumps
        How many each group had before.
    voice
        Who speaks afterwards.
    has_base
        Whether the model as it was fitted at first is still a candidate, or that of kept rows is one.
    spread
        How far off predictions were before; None if that was not watched.
    rows
        The rows that were added, if rows are kept.
    grown
        The update that each of the added bumps came with, for each group; 0 if that is not known.
    """

    batches: tuple[Batch, ...]
    rest: Statistics | None
    centres: tuple[Array, ...]
    bumps: tuple[int, ...]
    voice: Voice
    has_base: bool
    spread: Spread | None
    rows: HeldRows | None = None
    grown: tuple[tuple[int, ...], ...] = ()

    @property
    def grew(self) -> bool:
        """Whether features were added."""
        return any(len(centres) for centres in self.centres)


def pool_digest(pool: Pool) -> str:
    """Hash of all that a pool holds."""
    return version_of("pool", digests_of({"pool": pool_header(pool)}, pool_tensors(pool, "pool")))


def pool_additions(
    old: Pool | None, new: Pool | None, last: int, spread: Spread | None = None
) -> PoolAdditions:
    """What a pool has that an older one had not, by updates after the last of that.

    `spread` is that of the base, with all updates that it had and that stand.
    A pool that is not the older one with something added gets a ValueError.
    """
    if old is None or new is None:
        raise ValueError("evidence was dropped or started since")
    centres = added_bumps(old, new)
    check_same_kind(old, new)
    wider = old.widened(centres) if any(map(len, centres)) else old
    batches = tuple(batch for batch in new.recent if batch.update > last)
    rest = rest_of(wider.total, new.total, batches)
    bumps = tuple(len(group.centres) for group in old.features.bumps)
    rows = added_rows(old.memory, new.memory, last)
    grown = grown_with(new, centres)
    return PoolAdditions(batches, rest, centres, bumps, new.voice, new.has_base, spread, rows, grown)


def grown_with(pool: Pool, centres: Sequence[Array]) -> tuple[tuple[int, ...], ...]:
    """The updates that the last bumps of each group came with, as many as there are centres."""
    known = pool.grown or ((),) * len(centres)
    pairs = zip(known, centres, strict=True)
    return tuple(
        (*[0] * (len(c) - len(updates)), *updates[max(len(updates) - len(c), 0) :]) for updates, c in pairs
    )


def added_rows(old: LocalMemory | None, new: LocalMemory | None, last: int) -> HeldRows | None:
    """Rows that a memory keeps from updates after the last of an older one; None if no rows are kept."""
    if old is None or new is None:
        return None
    is_new = new.rows.updates > last
    known, before = new.rows.take(~is_new).hashes, old.rows.hashes
    if not np.array_equal(
        known, before[len(before) - len(known) :]
    ):  # the oldest may have left by themselves
        raise ValueError(FORGOTTEN)
    return new.rows.take(is_new)


def added_bumps(old: Pool, new: Pool) -> tuple[Array, ...]:
    """Bumps of each group that only the newer pool has."""
    one, other = old.features, new.features
    kinds = [
        (each.coarse, each.linear, each.fine, each.signs, each.levels, [group.sides for group in each.bumps])
        for each in (one, other)
    ]
    same = kinds[0] == kinds[1]
    for a, b in zip(one.bumps, other.bumps, strict=False):
        same = same and np.array_equal(a.lengths, b.lengths)
        same = same and np.array_equal(a.centres, b.centres[: len(a.centres)])
    if not same:
        raise ValueError("its evidence is of other features")
    pairs = zip(one.bumps, other.bumps, strict=True)
    return tuple(b.centres[len(a.centres) :] for a, b in pairs)


def check_same_kind(old: Pool, new: Pool) -> None:
    """Refuse pools that count rows in different ways."""
    ways = [
        (pool.half_lives, pool.loss, pool.dtype, pool.weight_unit, pool.prior.steps, *pool.prior.precisions)
        for pool in (old, new)
    ]
    if ways[0] != ways[1]:
        raise ValueError("its evidence counts rows in another way")
    fits = old.fitted, new.fitted
    same = fits[1] is None or (fits[0] is not None and np.array_equal(fits[0].table, fits[1].table))
    if not same or memory_frame(old.memory) != memory_frame(new.memory):
        raise ValueError("its evidence starts from another fit")


def memory_frame(memory: LocalMemory | None) -> tuple[object, ...]:
    """What the fit chose of a local memory; its rows are another matter."""
    if memory is None:
        return ()

    def chosen(mixture: Mixture | None) -> tuple[object, ...]:
        if mixture is None:
            return ()
        parts = [
            (each.of, each.share, each.kernel.rates.tobytes(), each.kernel.noise)
            for each in mixture.components
        ]
        return (mixture.smooth, mixture.linear, *parts)

    return (chosen(memory.known), chosen(memory.later), memory.clocks, memory.box_rows, memory.budget)


def check_memory(pool: Pool, added: PoolAdditions) -> None:
    """Refuse additions with rows to a model that keeps none, and those without to one that does."""
    if pool.memory is None and added.rows is not None:
        raise ValueError(
            "it carries rows, and the model keeps sums alone; use one of a model with memory='sums'"
        )
    if pool.memory is not None and added.rows is None:
        raise ValueError(
            "it carries sums alone, and the model keeps rows; use one of a model with memory='rows'"
        )


def rest_of(old: Statistics, new: Statistics, batches: Sequence[Batch]) -> Statistics | None:
    """Sums of the rows that came between two totals besides those of some updates."""
    try:
        rest = new - old
        for batch in batches:
            rest = rest - batch.statistics
    except ValueError:
        rest = None
    if rest is None or (np.diagonal(rest.gram) < 0).any():
        raise ValueError(FORGOTTEN)
    return None if rest == Statistics(rest.features, rest.outputs) else rest


def renumbered(pool: Pool, numbers: Mapping[int, int]) -> Pool:
    """The pool with other numbers of its updates."""
    if all(numbers.get(update, update) == update for update in updates_in(pool)):
        return pool
    recent = [replace(batch, update=numbers.get(batch.update, batch.update)) for batch in pool.recent]
    memory = pool.memory
    if memory is not None:
        memory = replace(memory, rows=renumbered_rows(memory.rows, numbers).in_order())
    grown = tuple(tuple(numbers.get(update, update) for update in updates) for updates in pool.grown)
    recent = sorted(recent, key=lambda batch: batch.update)
    return replace(pool, recent=tuple(recent), memory=memory, grown=grown)


def updates_in(pool: Pool) -> list[int]:
    """Numbers of the updates that a pool knows of."""
    kept = [] if pool.memory is None else np.unique(pool.memory.rows.updates).tolist()
    grown = [update for updates in pool.grown for update in updates]
    return [*kept, *grown, *(batch.update for batch in pool.recent)]


def renumbered_rows(rows: HeldRows, numbers: Mapping[int, int]) -> HeldRows:
    """Rows with other numbers of their updates."""
    old, place = np.unique(rows.updates, return_inverse=True)
    new = np.array([numbers.get(update, update) for update in old.tolist()], np.int32)
    return replace(rows, updates=new[place])


def followed(pool: Pool, added: PoolAdditions) -> Pool:
    """The pool after the updates that were added to it, one after the other: every bit as it was there."""
    check_memory(pool, added)
    grown = grown_by(pool, added, {})
    for batch in added.batches:
        grown = replace(grown, recent=(*grown.recent, batch))
        grown = grown if len(grown.recent) <= grown.undo else grown._settled()
    grown = grown if added.rows is None else grown.keeping(added.rows)
    return grown.with_voice(added.voice)


def merged(ours: Pool, added: PoolAdditions, numbers: Mapping[int, int]) -> Pool:
    """The pool of all rows, where some were added on both sides; its own updates have their numbers already.

    `numbers` are those that the added updates get.
    """
    check_memory(ours, added)
    sizes = [len(group.centres) for group in ours.features.bumps]
    grown = [size - before for size, before in zip(sizes, added.bumps, strict=True)]
    if added.grew and any(grown):
        raise ValueError(
            "features have grown on both sides, where rows came that none had reached; "
            "teach one side the rows of the other instead"
        )
    pool = grown_by(ours, added, numbers)
    places = ours.features.without_bumps(grown).places_in(ours.features) if any(grown) else None
    theirs = [
        replace(batch, update=numbers[batch.update], statistics=wide(batch.statistics, places, pool))
        for batch in added.batches
    ]
    parts = [batch.statistics for batch in theirs]
    parts += [] if added.rest is None else [wide(added.rest, places, pool)]
    total = reduce(add, parts, pool.total)
    recent = sorted([*pool.recent, *theirs], key=lambda batch: batch.update)[-pool.undo :]
    both = restarted(pool, total, recent, pool.fitted if added.has_base else None, added.spread)
    if both.memory is None or added.rows is None:
        return both
    rows = both.memory.rows.joined(renumbered_rows(added.rows, numbers)).in_order()
    none = rows.take(slice(0))
    return replace(both, memory=replace(both.memory, rows=none)).keeping(rows)


def grown_by(pool: Pool, added: PoolAdditions, numbers: Mapping[int, int]) -> Pool:
    """The pool with the features that were added, each with the number of its update."""
    if not added.grew:
        return pool
    grown = pool.widened(added.centres)
    known = pool.grown or ((),) * len(added.centres)
    new = [tuple(numbers.get(update, update) for update in updates) for updates in added.grown]
    return replace(grown, grown=tuple((*old, *more) for old, more in zip(known, new, strict=True)))


def wide(sums: Statistics, places: NDArray[np.intp] | None, pool: Pool) -> Statistics:
    """Sums of the features of a pool, which are zero but at some places."""
    return sums if places is None else sums.widened(places, len(pool.features))
