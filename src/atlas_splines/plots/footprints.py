"""Footprints as boxes and areas, and as lanes, one for each column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from atlas_splines.estimators.footprints import ColumnFootprint
from atlas_splines.model.log import Folded
from atlas_splines.plots.columns import Array, Column, check_fitted, number_of, numbered
from atlas_splines.plots.style import ACCENT, DPI, LANE_COLOUR, QUIET, REVERTED, RUG_HEIGHT
from atlas_splines.updates.footprint import BoxFootprint, Footprint, RestFootprint
from atlas_splines.updates.log import Removal

if TYPE_CHECKING:
    from atlas_splines.estimators.base import AtlasEstimator
    from atlas_splines.model.log import Record

__all__ = [
    "EVERYTHING",
    "MOST_RUNS",
    "draw_areas",
    "draw_footprint",
    "draw_updates",
    "row_label",
    "runs_of",
    "save_areas",
    "sentence_on",
]

MOST_RUNS = 20  # rows of a picture
LANE_GAP = 0.06  # on either side of a lane
LONGEST_NAME = 12  # letters under a lane
EVERYTHING = "can change every prediction"

# --- one footprint --------------------------------------------------------------------------------------


def draw_footprint(
    axes: Axes,
    footprint: Footprint,
    columns: Sequence[Column] = (0,),
    *,
    points: ArrayLike | None = None,
) -> Axes:
    """Draw the footprint of an update along one input, as bars, or along two, as areas.

    Boxes are projected onto the inputs shown. Of the cross of plain training only the arms along these inputs
    are drawn: those of other inputs would cover everything.

    Parameters
    ----------
    axes
        Where to draw.
    footprint
        From `footprint`, an entry of ``model.updates``, or an estimator's `footprint`: then in its units.
    columns
        Number of one input or of two; names, too, if it comes from an estimator.
    points
        Rows to show with it, such as the data of the update, shape (rows, inputs).

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from atlas_splines import Atlas, footprint
    >>> area = footprint(Atlas(inputs=2), [[0.1, 0.1], [0.3, 0.3]])
    >>> axes = draw_footprint(Figure().subplots(), area, columns=(0, 1))
    >>> axes.get_xlabel(), axes.get_ylabel(), len(axes.patches)
    ('input 0', 'input 1', 1)
    """
    area, names, to_units = explained(footprint)
    inputs = [number_of(column, names) for column in columns]
    if len(inputs) not in (1, 2):
        raise ValueError(f"columns names {len(inputs)} inputs; give one or two")
    rows = None if points is None else np.asarray(points, np.float64)
    limits = [to_units(j, area.domain[j]) for j in inputs]
    axes.set(xlabel=names[inputs[0]], xlim=limits[0])
    if len(inputs) == 1:
        draw_bars(axes, footprint.intervals(inputs[0]), 0.5, ACCENT)
        axes.set(ylim=(0, 1), yticks=[])
        if rows is not None:
            axes.vlines(rows[:, inputs[0]], 0, RUG_HEIGHT, color="black", lw=0.8, alpha=0.5)
        return axes
    axes.set(ylabel=names[inputs[1]], ylim=limits[1])
    for (left, right), (bottom, top) in projected_boxes(footprint, inputs, limits):
        size = (right - left, top - bottom)
        axes.add_patch(Rectangle((left, bottom), *size, facecolor=(ACCENT, 0.3), edgecolor=ACCENT))
    if rows is not None:
        axes.plot(*rows[:, inputs].T, ".", color="black", ms=2, alpha=0.5)
    return axes


def explained(
    footprint: Footprint,
) -> tuple[Footprint, Sequence[str], Callable[[int, Array], Array]]:
    """A footprint in the model's coordinates, the names of its inputs, and the map to raw units."""
    if isinstance(footprint, ColumnFootprint):
        return footprint.area, footprint.names, footprint.columns.to_raw
    return footprint, numbered("input", footprint.inputs), lambda _, values: values


def projected_boxes(footprint: Footprint, inputs: list[int], limits: list[Array]) -> list[Any]:
    """Rectangles of two inputs, each as (low, high) of both: of boxes, or of the arms of a cross."""
    (area, _, to_units), (a, b) = explained(footprint), inputs
    if isinstance(area, BoxFootprint):
        return [(to_units(a, window.box[a]), to_units(b, window.box[b])) for window in area.windows]
    upright = [(part, limits[1]) for part in footprint.intervals(a)]
    return upright + [(limits[0], part) for part in footprint.intervals(b)]


def draw_bars(axes: Axes, intervals: Sequence[tuple[float, float]], height: float, colour: str) -> None:
    """Draw intervals as horizontal bars at a height, each at least as wide as a line."""
    spans = [(low, high - low) for low, high in intervals]
    axes.broken_barh(spans, (height - 0.3, 0.6), facecolor=colour, edgecolor=colour, lw=0.8)


# --- all updates ----------------------------------------------------------------------------------------


def draw_updates(axes: Axes, estimator: AtlasEstimator, columns: Sequence[Column] | None = None) -> Axes:
    """Draw the footprints of updates, oldest first; reverted ones are pale.

    Each column of the data has a lane from the low to the high end of its domain; bars are the parts of it
    that the footprint projects to. Consecutive updates that can each change every prediction, or every one
    outside of charts, as pooled ones can, are one row with that sentence. A consolidation has no footprint,
    and is a line through all lanes.

    Parameters
    ----------
    axes
        Where to draw.
    estimator
        A fitted estimator. Of more than 20 rows the newest 20 are drawn.
    columns
        Which columns, by number or name; by default all.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from atlas_splines import AtlasRegressor
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = AtlasRegressor(terms=0, density=0, members=1, features=0, random_state=0).fit(X, X[:, 0])
    >>> axes = draw_updates(Figure().subplots(), model.partial_fit(X / 4, X[:, 1]))
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['1: chart, 200 rows']
    """
    check_fitted(estimator)
    names = estimator._input_names
    lanes = [number_of(column, names) for column in (range(len(names)) if columns is None else columns)]
    runs = runs_of(estimator.update_log_)[-MOST_RUNS:]
    for row, run in enumerate(runs):
        draw_row(axes, estimator, run[0], lanes, row)
    axes.set_yticks(range(len(runs)), [row_label(run) for run in runs])
    axes.set_xticks(np.arange(len(lanes)) + 0.5, [lane_label(estimator, j, names[j]) for j in lanes])
    for lane in range(len(lanes)):
        axes.axvspan(lane + LANE_GAP, lane + 1 - LANE_GAP, color=LANE_COLOUR, lw=0, zorder=0)
    axes.tick_params(length=0, labelsize="small")
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0, len(lanes)), ylim=(max(len(runs), 1) - 0.5, -0.5))
    return axes


def runs_of(log: Sequence[Record]) -> list[list[Record]]:
    """The entries of a log, with neighbours grouped whose footprints are one sentence."""
    runs: list[list[Record]] = []
    for record in log:
        if isinstance(record, Removal):  # which has no footprint, and marks the entry of its update
            continue
        if runs and sentence_on(record) and likeness(record) == likeness(runs[-1][0]):
            runs[-1].append(record)
        else:
            runs.append([record])
    return runs


def sentence_on(record: Record) -> str | None:
    """What an update can change, as a sentence, if its footprint is not a bar in each lane."""
    area = getattr(record, "footprint", None)
    if area is None:
        return None
    if area.volume == 1:
        return EVERYTHING
    return f"{EVERYTHING} outside of charts" if isinstance(explained(area)[0], RestFootprint) else None


def likeness(record: Record) -> tuple[str | None, str, bool]:
    """Key by which consecutive updates are drawn as one row."""
    return sentence_on(record), record.kind, record.reverted is not None


def draw_row(axes: Axes, estimator: AtlasEstimator, record: Record, lanes: Sequence[int], row: int) -> None:
    """Draw one row of `draw_updates`."""
    area = getattr(record, "footprint", None)
    if area is None:
        axes.plot([LANE_GAP, len(lanes) - LANE_GAP], [row, row], color=QUIET, lw=1)
        return
    colour = REVERTED if record.reverted else ACCENT
    sentence = sentence_on(record)
    if sentence is not None:
        axes.text(len(lanes) / 2, row, sentence, color=colour, ha="center", va="center", fontsize="small")
        return
    for lane, j in enumerate(lanes):
        low, high = estimator.domain_.to_raw(j, estimator.model_.domain[j])
        parts = np.array(area.intervals(j)).reshape(-1, 2)
        shares = LANE_GAP + (1 - 2 * LANE_GAP) * (parts - low) / (high - low)
        draw_bars(axes, (lane + shares).tolist(), row, colour)


def row_label(run: Sequence[Record]) -> str:
    """A row's label: its updates, what was done, and their rows."""
    first, last = run[0], run[-1]
    if isinstance(first, Folded):
        return f"1-{first.last}: {first.kind}, {first.rows:,} rows"
    numbers = f"{first.id}" if first is last else f"{first.id}-{last.id}"
    rows = sum(record.rows for record in run)
    return f"{numbers}: {first.kind}, {rows:,} rows" + (" (reverted)" if first.reverted else "")


def lane_label(estimator: AtlasEstimator, j: int, name: str) -> str:
    """Name of a column, shortened to its lane, and its domain."""
    low, high = estimator.domain_.to_raw(j, estimator.model_.domain[j])
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return f"{short}\n{low:.4g}\nto {high:.4g}"


MOST_AREAS = 20


def draw_areas(axes: Axes, areas: Sequence[Footprint]) -> Axes:
    """Draw regions as rows; each column has a lane, with a bar over the region's interval.

    Parameters
    ----------
    axes
        Where to draw.
    areas
        Footprints, such as ``areas`` of `versions.diff`. Of more than 20 the first 20 are drawn.

    Examples
    --------
    >>> from atlas_splines import Atlas, footprint
    >>> area = footprint(Atlas(inputs=2), [[0.1, 0.1], [0.3, 0.3]])
    >>> axes = draw_areas(Figure().subplots(), [area])
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['place 1']
    """
    shown = areas[:MOST_AREAS]
    names: Sequence[str] = ()
    for row, area in enumerate(shown):
        inner, names, to_units = explained(area)
        for lane in range(len(names)):
            low, high = to_units(lane, inner.domain[lane])
            parts = np.array(area.intervals(lane)).reshape(-1, 2)
            shares = LANE_GAP + (1 - 2 * LANE_GAP) * (parts - low) / (high - low)
            draw_bars(axes, (lane + shares).clip(lane, lane + 1).tolist(), row, ACCENT)
    for lane in range(len(names)):
        axes.axvspan(lane + LANE_GAP, lane + 1 - LANE_GAP, color=LANE_COLOUR, lw=0, zorder=0)
    axes.set_yticks(range(len(shown)), [f"place {k + 1}" for k in range(len(shown))])
    axes.set_xticks(np.arange(len(names)) + 0.5, list(names))
    axes.tick_params(length=0, labelsize="small")
    axes.spines[:].set_visible(False)
    axes.set(xlim=(0, max(len(names), 1)), ylim=(max(len(shown), 1) - 0.5, -0.5))
    return axes


def save_areas(path: Path, areas: Sequence[Footprint]) -> None:
    """Save a picture of regions."""
    figure = Figure(figsize=(8, 1 + 0.35 * min(max(len(areas), 1), MOST_AREAS)), layout="constrained")
    draw_areas(figure.subplots(), areas)
    figure.savefig(path, dpi=DPI)
