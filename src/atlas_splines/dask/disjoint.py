"""Disjoint updates: charts whose boxes do not meet are trained at the same time, each on a worker.

A chart says nothing outside its box, so what one of them learns does not depend on the others: the result is
that of training one after the other, to the bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from atlas_splines.core.charts import Chart, Fence
from atlas_splines.core.model import Atlas, commit, model_in, state_of
from atlas_splines.core.records import next_id
from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.memory.footprints import BoxFootprint
from atlas_splines.memory.log import Update

__all__ = ["charted", "fences_of", "install", "waves"]

Array = NDArray[Any]
Rows = tuple[Array, Array, Array]  # inputs, targets and weights, checked
Charted = tuple[tuple[Chart, ...], Update]


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


def charted(rows: Rows, estimator: AtlasEstimator) -> Charted:
    """The charts of an update, and its entry in the log."""
    known = len(estimator.model_.charts)
    learned = estimator._now()._update(*rows)
    (done,) = learned.model_.updates
    assert isinstance(done, Update)
    return tuple(learned.model_.charts[known:]), done


def install(model: Atlas, new: Charted) -> Atlas:
    """The model with the charts of an update, as if it had learned that by itself."""
    charts, done = new
    grown, id = model_in(state_of(model), model.updates), next_id(model.updates)
    own = (replace(chart, update=id) for chart in charts)
    state = state_of(model).with_charts((*state_of(model).charts, *own))
    entry = replace(done, id=id, before=model.fingerprint(), after=model_in(state).fingerprint())
    commit(grown, state, entry)
    return grown
