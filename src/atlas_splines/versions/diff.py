"""Differences: which updates two models have, where their predictions can differ, and by how much."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from atlas_splines.estimators.base import AtlasEstimator
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.charts import Chart, Window, chart_layout, chart_table, overlap
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.lattice import Domain
from atlas_splines.model.local_terms import LocalTerms
from atlas_splines.model.log import Folded, Record
from atlas_splines.model.resize import cropped
from atlas_splines.model.state import Later, Offsets, State
from atlas_splines.tables.encoding import Encoding
from atlas_splines.updates.footprint import BoxFootprint, Footprint, RestFootprint
from atlas_splines.updates.routing import memory_in
from atlas_splines.updates.update import points_in
from atlas_splines.versions.version import Versioned, estimator_of, model_of

__all__ = ["Difference", "chart_digest", "diff", "entry_key", "same_frame"]

Array = NDArray[np.floating]

RANDOM_POINTS = 20_000
COLUMN_PARTS = ("knots", "fill", "indicators")
TARGET_PARTS = ("target_mean_", "target_scale_", "classes_")


@dataclass(frozen=True)
class Difference:
    """How two models differ.

    Attributes
    ----------
    same
        Whether they are the same function, to the bit.
    only_first, only_second
        Entries of the log that only one of them has.
    areas
        Where predictions can differ: a footprint for each place, in the units of the columns for estimators.
        Everywhere else they are the same to the bit; if there are none, everywhere.
    rows
        Rows, or random points of these places, that were compared.
    differing
        How many of these have different predictions.
    mean, worst
        Absolute difference of the predictions there, in the unit of the target; of probabilities for classes.
    parts
        What of the models differs, in words: coefficients, effects of levels, local terms, what predicts
        beyond the end of a clock, charts, and the rows that they keep.
    """

    same: bool
    only_first: tuple[Record, ...]
    only_second: tuple[Record, ...]
    areas: tuple[Footprint, ...]
    rows: int = 0
    differing: int = 0
    mean: float = 0.0
    worst: float = 0.0
    parts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether any prediction can differ."""
        return bool(self.areas)


def diff(first: Versioned, second: Versioned, *, rows: ArrayLike | None = None) -> Difference:
    """Compare two versions of a model.

    Parameters
    ----------
    first, second
        Models of the same inputs and outputs, or estimators of the same columns.
    rows
        Inputs to compare predictions on; by default random points of the places where they can differ.

    Examples
    --------
    >>> from atlas_splines import update
    >>> old = Atlas(inputs=2)
    >>> new = old.copy()
    >>> X = 0.2 + 0.2 * np.random.default_rng(0).random((500, 2))
    >>> done = update(new, X, np.ones(500), random_state=0)
    >>> found = diff(old, new, rows=[[0.3, 0.3], [0.3, 0.8]])
    >>> found.areas
    (<Footprint: a box, 0.0403 of the domain
      input 0: 0.1998 to 0.4007
      input 1: 0.1991 to 0.4>,)
    >>> found.rows, found.differing, round(found.worst, 1), [entry.id for entry in found.only_second]
    (2, 1, 1.0, [1])
    """
    one, other = model_of(first), model_of(second)
    check_comparable(first, second)
    framed = same_frame(first, second)
    same = framed and one.fingerprint() == other.fingerprint()
    areas = [] if same else places(state_of(one), state_of(other)) if framed else [everywhere(one)]
    only_first, only_second = missing_entries(one, other), missing_entries(other, one)
    estimator = estimator_of(second)
    if estimator is None:
        shown: Sequence[Footprint] = areas
    else:
        known = common_domain(one.domain, other.domain)
        shown = [estimator._in_columns(area, known) for area in areas]
    parts = tuple(differing_parts(state_of(one), state_of(other)))
    found = Difference(same, tuple(only_first), tuple(only_second), tuple(shown), parts=parts)
    if not areas and rows is None:
        return found
    gaps = gaps_on(first, second, rows) if rows is not None else gaps_at(first, second, areas)
    return replace(
        found,
        rows=len(gaps),
        differing=int((gaps > 0).sum()),
        mean=float(gaps.mean()) if len(gaps) else 0.0,
        worst=float(gaps.max(initial=0.0)),
    )


def check_comparable(first: Versioned, second: Versioned) -> None:
    """Refuse models that do not take the same rows, or do not say the same kind of thing."""
    one, other = model_of(first), model_of(second)
    if type(first) is not type(second) or type(estimator_of(first)) is not type(estimator_of(second)):
        raise ValueError("one is another kind of model than the other; give two versions of one model")
    names = [getattr(estimator_of(each), "_input_names", ()) for each in (first, second)]
    sizes = [(each.inputs, each.outputs, each.dtype) for each in (one, other)]
    if names[0] != names[1] or sizes[0] != sizes[1]:
        raise ValueError("they have other columns, targets or dtypes; give two versions of one model")


def same_frame(first: Versioned, second: Versioned) -> bool:
    """Whether rows become points, and outputs predictions, in the same way."""
    one, other = estimator_of(first), estimator_of(second)
    if one is None or other is None:
        return one is other
    parts = [(getattr(one.domain_, name), getattr(other.domain_, name)) for name in COLUMN_PARTS]
    parts += [(getattr(one, name, None), getattr(other, name, None)) for name in TARGET_PARTS]
    encodings = [encoding_of(each) for each in (first, second)]
    same_options = (one.extrapolation, one.missing) == (other.extrapolation, other.missing)
    return same_options and encodings[0] == encodings[1] and all(np.array_equal(*pair) for pair in parts)


def encoding_of(thing: Versioned) -> Encoding | None:
    """How the columns of a table become inputs, if it knows that; whether it was a frame does not matter."""
    estimator = estimator_of(thing)
    found = None if estimator is None else estimator._table
    return None if found is None else replace(found, of_frame=False)


# --- what -----------------------------------------------------------------------------------------------


def differing_parts(one: State, other: State) -> Iterator[str]:
    """What of two states differs, in words."""
    if not same_coefficients(one, other):
        yield "the coefficients"
    if not same_offsets(one.offsets, other.offsets):
        yield "the effects of levels"
    if not same_local(one.local, other.local):
        yield "the local terms"
    if not same_later(one.later, other.later):
        yield "the model beyond the end of a clock"
    if changed_charts(one.charts, other.charts):
        yield "the charts"
    counts = [len(kept_rows(a).without(kept_rows(b))) for a, b in ((one, other), (other, one))]
    if any(counts):
        yield f"the kept rows ({counts[0]:,} only in the first, {counts[1]:,} only in the second)"


def kept_rows(state: State) -> HeldRows:
    """The rows that a state keeps, which may be none."""
    pool = memory_in(state)
    if pool is not None and pool.memory is not None:
        return pool.memory.rows
    return HeldRows.of(np.zeros((0, state.lattice.inputs)), np.zeros((0, state.outputs)), np.zeros(0))


# --- logs -----------------------------------------------------------------------------------------------


def entry_key(record: Record) -> tuple[object, ...]:
    """What makes an entry of a log what it is, whatever its number; entries sort by when they were made."""
    return (record.time, record.kind, record.rows, record.before, record.after, record.data)


def missing_entries(model: Atlas, other: Atlas) -> list[Record]:
    """Entries that a model has and another has not, or has otherwise taken back."""
    folded = [log[0].last for log in (model.updates, other.updates) if log and isinstance(log[0], Folded)]
    known = {(entry_key(record), record.reverted is None) for record in other.updates}
    return [
        record
        for record in model.updates
        if record.id > max(folded, default=0) and (entry_key(record), record.reverted is None) not in known
    ]


# --- where ----------------------------------------------------------------------------------------------


def places(one: State, other: State) -> list[Footprint]:
    """Where two states can differ: everything their charts do not decide, or the boxes of some charts."""
    domain = joint_domain(one.lattice.domain, other.lattice.domain)
    changed = changed_charts(one.charts, other.charts)
    same_domain = np.array_equal(one.lattice.domain, other.lattice.domain)
    if not same_tables(one, other) or not (changed or same_domain):
        return [RestFootprint(domain, one.dtype, deciding(one.charts, other.charts, changed, domain))]
    windows = [replace(chart.window, domain=domain) for chart in changed]
    return [BoxFootprint(domain, one.dtype, (window,)) for window in windows]


def everywhere(model: Atlas) -> Footprint:
    """The footprint of all there is."""
    return RestFootprint(model.domain, model.dtype, ())


def joint_domain(one: Domain, other: Domain) -> Domain:
    """Two domains together, shape (inputs, 2)."""
    return np.stack([np.minimum(one[:, 0], other[:, 0]), np.maximum(one[:, 1], other[:, 1])], axis=1)


def common_domain(one: Domain, other: Domain) -> Domain:
    """What two domains have in common, shape (inputs, 2)."""
    return np.stack([np.maximum(one[:, 0], other[:, 0]), np.minimum(one[:, 1], other[:, 1])], axis=1)


def same_tables(one: State, other: State) -> bool:
    """Whether coefficients, where both domains have them, and all that is added to them are the same."""
    same = same_coefficients(one, other) and same_offsets(one.offsets, other.offsets)
    return same and same_local(one.local, other.local) and same_later(one.later, other.later)


def same_coefficients(one: State, other: State) -> bool:
    """Whether the coefficients are the same, where both domains have them."""
    if (one.outputs, one.terms, one.damping) != (other.outputs, other.terms, other.damping):
        return False
    domain, density = common_domain(one.lattice.domain, other.lattice.domain), min(one.density, other.density)
    parts = [cropped(each, domain, density) for each in (one, other)]
    if parts[0] is None or parts[1] is None:
        return False
    used = one.outputs * one.width
    return np.array_equal(parts[0].table[:, :used], parts[1].table[:, :used])


def same_local(one: Sequence[LocalTerms], other: Sequence[LocalTerms]) -> bool:
    """Whether local terms are the same."""
    return len(one) == len(other) and all(
        np.array_equal(part, its)
        for terms, others in zip(one, other, strict=True)
        for part, its in zip(terms.parts, others.parts, strict=True)
    )


def same_later(one: Later | None, other: Later | None) -> bool:
    """Whether the same is predicted beyond the end of a clock."""
    if one is None or other is None:
        return one is other
    parts = [(each.clocks, each.directions, each.ends, each.slopes) for each in (one, other)]
    same = all(np.array_equal(*pair) for pair in zip(*parts, strict=True))
    return same and model_in(one.state).fingerprint() == model_in(other.state).fingerprint()


def same_offsets(one: Offsets | None, other: Offsets | None) -> bool:
    """Whether levels have the same offsets."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one.keys, other.keys) and np.array_equal(one.values, other.values)


def changed_charts(one: Sequence[Chart], other: Sequence[Chart]) -> list[Chart]:
    """Charts that only one of two states has, or that stand in another order."""
    keys = [[chart_digest(chart) for chart in charts] for charts in (one, other)]
    common = [key for key in keys[0] if key in keys[1]]
    if common != [key for key in keys[1] if key in keys[0]]:
        common = []
    return [
        chart
        for charts, names in zip((one, other), keys, strict=True)
        for chart, key in zip(charts, names, strict=True)
        if key not in common
    ]


def chart_digest(chart: Chart) -> str:
    """Hash of what a chart says, and where."""
    digest = hashlib.sha256()
    window = (chart.window.density, chart.window.first, chart.window.last, chart.window.domain)
    width = chart.content.outputs * (2 * chart.content.terms + 1)
    table = chart_table(chart)[:, :width]
    for part in (*window, chart.replaces, chart_layout(chart).slope[:width], table.shape, table):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def deciding(
    one: Sequence[Chart], other: Sequence[Chart], changed: Sequence[Chart], domain: Domain
) -> tuple[Window, ...]:
    """Fences of the charts that both have and that speak alone, with no other chart at their place."""
    differing = [chart.window.box_in(domain) for chart in changed]
    names = {chart_digest(chart) for chart in other}
    return tuple(
        chart.window
        for chart in one
        if chart.replaces
        and chart_digest(chart) in names
        and not any(overlap(chart.window.box_in(domain), box) for box in differing)
    )


# --- by how much ----------------------------------------------------------------------------------------


def gaps_on(first: Versioned, second: Versioned, rows: ArrayLike) -> NDArray[np.float64]:
    """Absolute difference of the predictions of each row, the largest of its outputs."""
    one, other = estimator_of(first), estimator_of(second)
    if one is None or other is None:
        predicted = [model_of(each)(rows).astype(np.float64) for each in (first, second)]
    else:
        predicted = [in_units(each, each._now()._outputs(rows)) for each in (one, other)]
    return np.asarray(np.abs(predicted[0] - predicted[1]).max(axis=1))


def gaps_at(first: Versioned, second: Versioned, areas: Sequence[Footprint]) -> NDArray[np.float64]:
    """The same at random points of some places, as many of each."""
    random, share = np.random.default_rng(0), -(-RANDOM_POINTS // len(areas))
    points = np.vstack([points_in(box_of(area), share, random) for area in areas])
    predicted = []
    for each in (first, second):
        model, estimator = model_of(each), estimator_of(each)
        inside = points.clip(*model.domain.T).astype(model.dtype)
        outputs = evaluate(state_of(model), inside).astype(np.float64)
        predicted.append(outputs if estimator is None else in_units(estimator, outputs))
    return np.asarray(np.abs(predicted[0] - predicted[1]).max(axis=1))


def box_of(area: Footprint) -> Domain:
    """The box of a place, shape (inputs, 2)."""
    return area.windows[0].box_in(area.domain) if isinstance(area, BoxFootprint) else area.domain


def in_units(estimator: AtlasEstimator, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Outputs in the unit of the target, or as probabilities of classes, shape (rows, outputs)."""
    if isinstance(estimator, AtlasClassifier):
        return np.asarray(softmax(outputs, axis=1))
    return np.asarray(estimator._predictions(outputs)).reshape(outputs.shape)
