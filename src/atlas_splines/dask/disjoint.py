"""Disjoint updates: charts whose boxes do not meet are trained at the same time, each on a worker.

A chart says nothing outside its box, so what one of them learns does not depend on the others: predictions
are those of training one after the other, to the bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from distributed import Client
from numpy.typing import NDArray

from atlas_splines.core.charts import Fence
from atlas_splines.core.model import snapshot_of
from atlas_splines.core.records import next_id
from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.memory.cautions import warn_of
from atlas_splines.memory.footprints import BoxFootprint
from atlas_splines.versions.merging import merge
from atlas_splines.versions.versioned import with_model

__all__ = ["fences_of", "trained_apart", "waves"]

Array = NDArray[Any]
Rows = tuple[Array, Array, Array]  # inputs, targets and weights, checked


def fences_of(estimator: AtlasEstimator, X: Any) -> tuple[Fence, ...] | None:
    """Boxes that an update with these inputs can change, or None if that is more than boxes in the domain."""
    if not estimator.in_domain(X).all():
        return None
    area = estimator.footprint(X).area
    return area.fences if isinstance(area, BoxFootprint) else None


def waves(footprints: Sequence[tuple[Fence, ...] | None]) -> Iterator[list[int]]:
    """Numbers of the updates that can be trained at once: one wave after the other, in their order."""
    wave: list[int] = []
    for k, fences in enumerate(footprints):
        if wave and not all(are_apart(fences, footprints[other]) for other in wave):
            yield wave
            wave = []
        wave.append(k)
    if wave:
        yield wave


def are_apart(one: Iterable[Fence] | None, other: Iterable[Fence] | None) -> bool:
    """Whether no box of the one meets a box of the other."""
    if one is None or other is None:
        return False
    return all(is_apart(a.box, b.box) for a, b in itertools.product(one, other))


def is_apart(one: Array, other: Array) -> bool:
    """Whether two boxes, shape (inputs, 2), are apart along some input.

    Examples
    --------
    >>> import numpy as np
    >>> is_apart(np.array([[0.0, 0.2], [0, 1]]), np.array([[0.3, 0.4], [0, 1]]))
    True
    >>> is_apart(np.array([[0.0, 0.3], [0, 1]]), np.array([[0.3, 0.4], [0, 1]]))
    False
    """
    return bool(((one[:, 1] < other[:, 0]) | (other[:, 1] < one[:, 0])).any())


def trained_apart(client: Client, estimator: Any, updates: Sequence[Rows], accept: bool = False) -> Any:
    """The estimator with several updates, each trained on a worker: they come together as versions do.

    Warnings of workers stay there, so what they are of is told here.
    """
    if len(updates) == 1:
        return learned(estimator, updates[0], accept)
    base = client.submit(handed_on, estimator, pure=False)
    futures = [client.submit(learned, base, rows, accept, pure=False) for rows in updates]
    together, known = estimator, next_id(estimator.model_.updates)
    for future in futures:
        theirs = future.result()
        if next_id(theirs.model_.updates) == known:
            warn_of(
                "the rows of an update were known, and were not learned again; accept=True learns them twice"
            )
            continue
        if theirs.model_.updates[-1].caution:
            warn_of(theirs.model_.updates[-1].caution)
        theirs.model_.updates[-1].time = datetime.now(timezone.utc)  # of one clock, so that their order stays
        together = merge(estimator, together, theirs)
    return together


def handed_on(estimator: Any) -> Any:
    """What all tasks share: a result of a task, which can be computed again if a worker dies."""
    return estimator


def learned(estimator: Any, rows: Rows, accept: bool) -> Any:
    """An estimator that has learned an update; the one that was given stays as it is."""
    own: Any = with_model(estimator, snapshot_of(estimator.model_))
    return own._update(*rows, accept=accept)
