"""Memory: updates that change a model where their data is, and provably nowhere else.

Equation numbers refer to docs/math.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.core import splines
from atlas_splines.core.checks import check_number, check_size
from atlas_splines.core.lattice import MAX_DENSITY, Domain
from atlas_splines.core.losses import find_loss
from atlas_splines.core.model import Atlas
from atlas_splines.core.records import Record
from atlas_splines.core.training import History, Seed, train
from atlas_splines.memory.covers import Count, Cover, check_cover, plan_fences
from atlas_splines.memory.footprints import BoxFootprint, CrossFootprint, Footprint
from atlas_splines.memory.growth import Recipe, Rows, learn_chart

__all__ = ["Consolidation", "Update", "consolidate", "footprint", "update"]

Memory = Literal["chart", "rehearsal", "both", "none"]
Array = NDArray[np.floating]

LEAST_SEEN = 20_000  # points on which a consolidation is judged


@dataclass(eq=False)
class Update(Record):
    """One update of a model: what it was, what it could change, and what it did.

    Attributes
    ----------
    footprint
        The points whose prediction it could change.
    seconds
        Time spent.
    error_before, error_after
        Mean loss on the new data before and after.
    history
        The last training: of the last chart at its finest, or of the model.
    """

    footprint: Footprint
    seconds: float
    error_before: float
    error_after: float
    history: History

    def __repr__(self) -> str:
        gone = ", reverted" if self.reverted else ""
        return (
            f"<Update {self.id}: {self.kind}, {self.rows} rows, error {self.error_before:.4g} before and "
            f"{self.error_after:.4g} after, {self.footprint.volume:.3g} of the domain, "
            f"{self.seconds:.3g} s{gone}>"
        )


def update(
    model: Atlas,
    X: ArrayLike,
    y: ArrayLike,
    *,
    memory: Memory = "chart",
    cover: Cover = "touch",
    density: int | None = None,
    terms: int | None = None,
    charts: Count = "auto",
    epochs: int | None = None,
    batch_size: int = 100,
    learning_rate: float = 0.01,
    loss: str = "mae",
    sample_weight: ArrayLike | None = None,
    random_state: Seed = None,
    progress: bool = False,
) -> Update:
    """Teach a model new data, in place, without breaking it elsewhere.

    Parameters
    ----------
    model
        The model to update. If the update fails or is interrupted, it is exactly as it was.
    X, y
        The new data: inputs in the domain, shape (rows, inputs), and targets.
    memory
        - "chart": freeze the model and add charts around the data. Outside the footprint no prediction
          changes by a bit, and `Atlas.revert` undoes the update exactly.
        - "rehearsal": train the model on the new data together with as many points from elsewhere,
          labelled by the model as it was. Everything can change a little.
        - "both": rehearsal, then charts for what it leaves. Everything can change a little.
        - "none": the paper's plain training, which changes a cross around the data.
    cover
        "touch": charts count in full on all of the data, and fade out within three cells of their fence.
        "inside": charts change nothing outside the cells of the data, and fade out towards its rim.
    density
        Density of the charts, in coordinates where the data's box is the unit cube. By default a chart grows
        from density 3 to at most 6 as long as a tenth of the rows, held out, says that it helps. With few
        rows it is coarser: at first there are 8 rows for each basis function of an input, and never fewer
        than 2.
    terms
        Pairs of exponentials of each chart; by default 10.
    charts
        How many charts. "auto" splits the data in two along one input as long as that shrinks the volume of
        the bounding boxes to 70 % or less, with 8 charts at most and 50 rows at least in each. A given
        number is kept to while each chart can have a quarter of its even share of the rows.
    epochs
        Passes over the data; by default 50, or more if that makes fewer than 5000 batches. A chart makes at
        most so many for each density and for each of three falling learning rates.
    batch_size, learning_rate, loss, sample_weight, random_state, progress
        As in `train`.

    Returns
    -------
    Update
        Also the newest entry of ``model.updates``.

    Examples
    --------
    >>> import numpy as np
    >>> from atlas_splines import Atlas
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> model = Atlas(inputs=2)
    >>> done = update(model, 0.2 + 0.2 * X, np.ones(500), random_state=0)
    >>> model([[0.3, 0.3]]).round(1), model([[0.3, 0.8]])
    (array([[1.]], dtype=float32), array([[0.]], dtype=float32))
    >>> model.revert(done.id)
    >>> model([[0.3, 0.3]])
    array([[0.]], dtype=float32)
    """
    start = time.perf_counter()
    recipe = Recipe(cover, charts, density, terms, epochs, batch_size, learning_rate, loss, progress)
    random = np.random.default_rng(random_state)
    rows = Rows(*recipe.trainer(model, random).data(X, y, sample_weight))
    rows = rows.take(rows.weights > 0)
    area = footprint(model, rows.points, memory=memory, cover=cover, charts=charts)
    before, error_before = model.fingerprint(), rows.loss(model, loss)
    table, old_charts = model.table.copy(), model.charts
    try:
        history = _learn(model, rows, memory, recipe, random)
        done = Update(
            id=_next_id(model),
            kind=memory,
            time=datetime.now(timezone.utc),
            rows=len(rows),
            before=before,
            after=model.fingerprint(),
            footprint=area,
            seconds=time.perf_counter() - start,
            error_before=error_before,
            error_after=rows.loss(model, loss),
            history=history,
        )
        model.updates.append(done)
    except BaseException:  # Ctrl-C too: the model stays exactly as it was
        model.table[:] = table
        model.charts = old_charts
        raise
    return done


def footprint(
    model: Atlas,
    X: ArrayLike,
    *,
    memory: Memory = "chart",
    cover: Cover = "touch",
    charts: Count = "auto",
) -> Footprint:
    """Tell which predictions an update with inputs X could change, without any training.

    Parameters
    ----------
    model, X, memory, cover, charts
        As in `update`.

    Examples
    --------
    >>> import numpy as np
    >>> from atlas_splines import Atlas
    >>> X = 0.2 + 0.2 * np.random.default_rng(0).random((500, 2))
    >>> footprint(Atlas(inputs=2), X)
    <Footprint: a box, 0.0403 of the domain
      input 0: 0.1999 to 0.4007
      input 1: 0.1991 to 0.4>
    >>> round(footprint(Atlas(inputs=2), X, memory="none").volume, 2)
    0.53
    """
    points = model.points(X)
    if memory not in ("chart", "rehearsal", "both", "none"):
        raise ValueError(f"memory must be 'chart', 'rehearsal', 'both' or 'none', not {memory!r}")
    check_cover(cover, charts)
    if memory in ("chart", "both"):  # charts that cannot be made are refused here, before any training
        fences = plan_fences(points, model.domain, cover, charts)
    if memory == "chart":
        return BoxFootprint(model.domain, model.dtype, fences)
    if memory == "none":
        density = model.trained_densities[0]
        return CrossFootprint(model.domain, model.dtype, density, _touched_cells(points, density))
    everything = tuple(np.arange(np.floor(low), np.ceil(high), dtype=np.intp) for low, high in model.domain)
    return CrossFootprint(model.domain, model.dtype, 0, everything)


def _touched_cells(points: Array, density: int) -> tuple[NDArray[np.intp], ...]:
    """Cells of each input that share a basis function with a cell of the points."""
    cells, _ = splines.active(points, density)
    return tuple(np.unique(np.unique(column)[:, None] + np.arange(-3, 4)) for column in cells.T)


# --- how each kind of update learns -------------------------------------------------------------------


def _learn(model: Atlas, rows: Rows, memory: Memory, recipe: Recipe, random: np.random.Generator) -> History:
    """Change the model as `memory` says; return the last training history."""
    if memory == "none":
        return recipe.train(model, rows, random)
    if memory in ("rehearsal", "both"):
        history = recipe.train(model, rows.join(_elsewhere(model, rows, recipe, random)), random)
    if memory in ("chart", "both"):
        for fence in plan_fences(rows.points, model.domain, recipe.cover, recipe.charts):
            chart, history = learn_chart(model, _next_id(model), rows, fence, recipe, random)
            model.charts = (*model.charts, chart)
    return history


def _elsewhere(model: Atlas, rows: Rows, recipe: Recipe, random: np.random.Generator) -> Rows:
    """Up to as many points again from outside the data's boxes, labelled by the model as it is."""
    points = _points_in(model.domain, 4 * len(rows), random).astype(model.dtype)
    fences = plan_fences(rows.points, model.domain, "touch", recipe.charts)
    points = points[~BoxFootprint(model.domain, model.dtype, fences).contains(points)][: len(rows)]
    labels = find_loss(recipe.loss).labels(model.evaluate(points))
    return Rows(points, labels, np.full(len(points), rows.weights.mean(), model.dtype))


def _next_id(model: Atlas) -> int:
    return 1 + max((record.id for record in model.updates), default=0)


# --- consolidation --------------------------------------------------------------------------------------


@dataclass(eq=False)
class Consolidation(Record):
    """What `consolidate` did.

    Attributes
    ----------
    replaced
        Whether the model was replaced by the one without charts.
    error
        Mean absolute change of the predictions: over the domain or in a chart's box, whichever is more.
    worst
        Largest change of a prediction that was seen.
    seconds
        Time spent.
    """

    replaced: bool
    error: float
    worst: float
    seconds: float

    def __repr__(self) -> str:
        verdict = "charts folded in" if self.replaced else "model kept as it was"
        errors = f"error {self.error:.4g}, worst {self.worst:.4g}"
        return f"<Consolidation: {verdict}, {errors}, {self.seconds:.3g} s>"


def consolidate(
    model: Atlas,
    X: ArrayLike | None = None,
    *,
    tolerance: float,
    density: int | None = None,
    terms: int | None = None,
    samples: int = 20_000,
    epochs: int = 50,
    learning_rate: float = 0.01,
    random_state: Seed = None,
    progress: bool = False,
) -> Consolidation:
    """Fold all charts into the coefficients of the model by rehearsal, if that costs little.

    A model of the chosen size learns what the present one says, on points of the whole domain and of each
    chart. It takes its place only if the mean absolute change is at most the tolerance: on new points over
    the domain, on new points of each chart's box, and on X. Its charts are then gone, and can no longer be
    reverted.

    Parameters
    ----------
    model
        The model, changed in place.
    X
        Points that matter most; they are learned too.
    tolerance
        Largest mean absolute change of predictions that is acceptable.
    density, terms
        Size of the new model, at least that of the old one; by default one density finer, and 10 more terms.
    samples
        Points sampled over the domain, and as many again over the boxes of the charts.
    epochs, learning_rate, random_state, progress
        As in `train`.

    Returns
    -------
    Consolidation

    Examples
    --------
    >>> import numpy as np
    >>> from atlas_splines import Atlas
    >>> X = 0.2 + 0.5 * np.random.default_rng(0).random((500, 1))
    >>> model = Atlas(inputs=1)
    >>> done = update(model, X, np.sin(5 * X), random_state=0)
    >>> consolidate(model, tolerance=0.1, random_state=0).replaced, model.charts
    (True, ())
    """
    start, before = time.perf_counter(), model.fingerprint()
    check_number("tolerance", tolerance, least=0)
    if not model.charts:
        raise ValueError("the model has no charts to fold in")
    random = np.random.default_rng(random_state)
    heir = _heir(model, density, terms)
    points = np.vstack(_sample(model, check_size("samples", samples, least=1), random))
    points = points if X is None else np.vstack([points, model.points(X)])
    for slower in (1, 3, 10, 30):
        rate = learning_rate / slower
        train(
            heir, points, model.evaluate(points), epochs=epochs, learning_rate=rate, random_state=random,
            progress=progress,
        )  # fmt: skip
    seen = _sample(model, max(samples, LEAST_SEEN), random) + ([] if X is None else [model.points(X)])
    changes = [np.abs(heir.evaluate(part) - model.evaluate(part)) for part in seen]
    error = float(max(change.mean() for change in changes))
    replaced = bool(error <= tolerance)
    if replaced:
        model.state = heir.state
    done = Consolidation(
        id=_next_id(model),
        kind="consolidation",
        time=datetime.now(timezone.utc),
        rows=len(points),
        before=before,
        after=model.fingerprint(),
        replaced=replaced,
        error=error,
        worst=float(max(change.max() for change in changes)),
        seconds=time.perf_counter() - start,
    )
    if replaced:
        model.updates.append(done)
    return done


def _heir(model: Atlas, density: int | None, terms: int | None) -> Atlas:
    """The model without charts, grown to a size."""
    finest = min(model.density + 1, MAX_DENSITY)
    if density is not None:
        finest = check_size("density", density, least=model.density, most=MAX_DENSITY)
    pairs = model.terms + 10 if terms is None else check_size("terms", terms, least=model.terms)
    heir = model.copy()
    heir.charts = ()
    return heir.expand(density=finest - model.density, terms=pairs - model.terms)


def _sample(model: Atlas, samples: int, random: np.random.Generator) -> list[Array]:
    """Points over the domain, and points over the box of each chart."""
    parts = [_points_in(model.domain, samples, random)]
    for chart in model.charts:
        share = max(samples // len(model.charts), 100)
        parts.append(_points_in(chart.fence.box_in(model.domain), share, random))
    return [part.astype(model.dtype) for part in parts]


def _points_in(box: Domain, rows: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Random points of a box."""
    low, high = box.T
    return low + (high - low) * random.random((rows, low.size))
