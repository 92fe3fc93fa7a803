"""Pictures of streams. Titles state findings, and every number in them is computed from what is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from atlas_splines.experiments.arena.runner import Record
from atlas_splines.experiments.arena.streams import LAST, Line, stream_lines
from atlas_splines.experiments.drawings import Drawing
from atlas_splines.experiments.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    headline,
)

__all__ = ["STREAM_DRAWINGS", "draw_streams"]

Array = NDArray[np.floating]
WIDTH, HEIGHT = 10.5, 2.9  # of one stream, in inches
TOP = 3.0  # errors above it are not drawn: three standard deviations are no prediction
LOOKS = {  # of the usual methods; others get a grey line each
    "atlas-auto": (VERMILLION, "-"),
    "atlas-pool": (ORANGE, "-"),
    "atlas-charts": (PURPLE, "-"),
    "never": (BLACK, ":"),
    "atlas-retrained": (BLACK, "-"),
    "boosting": (BLUE, "-"),
    "boosting-reservoir": (SKY, "-"),
    "river-forest": (GREEN, "-"),
    "river-tree": (GREEN, ":"),
    "mlp-partial-fit": (GREY, "--"),
}
OTHER = (GREY, "-.")


def draw_streams(results: Sequence[Record]) -> Figure:
    """For each stream the prequential error over time, one line a method, and the error against bytes."""
    lines = stream_lines(results)
    streams = list(dict.fromkeys(line.stream for line in lines))
    figure = Figure(figsize=(WIDTH, 1.4 + HEIGHT * len(streams)), layout="constrained")
    panels = figure.subplots(len(streams), 2, squeeze=False, width_ratios=(2, 1))
    for stream, (over_time, cost) in zip(streams, panels, strict=True):
        chosen = [line for line in lines if line.stream == stream and np.isfinite(line.prequential)]
        draw_time(over_time, stream, chosen)
        draw_cost(cost, chosen)
    handles = {line.get_label(): line for axes in panels[:, 0] for line in axes.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return headline(figure, finding(lines, streams))


def draw_time(axes: Axes, stream: str, lines: Sequence[Line]) -> None:
    """Error of each batch before it is learned, as the mean of five."""
    for line in lines:
        colour, style = LOOKS.get(line.method, OTHER)
        smooth = running_mean(np.array(line.errors), LAST)
        axes.plot(np.arange(1, 1 + len(smooth)), smooth, color=colour, ls=style, label=line.label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    highest = max((line.prequential for line in lines), default=1.0)
    axes.set(
        title=stream, xlabel="batch", ylabel=f"error ahead, mean of {LAST}", ylim=(0, min(2 * highest, TOP))
    )


def draw_cost(axes: Axes, lines: Sequence[Line]) -> None:
    """Prequential error against what is kept."""
    for line in lines:
        colour, style = LOOKS.get(line.method, OTHER)
        filled = "none" if style == ":" else colour
        axes.plot(line.kilobytes, min(line.prequential, TOP), "o", color=colour, mfc=filled)
    axes.set(xscale="log", xlabel="kept, kB", ylabel="mean error ahead")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(bottom=0)


def running_mean(errors: Array, width: int) -> Array:
    """Mean of the last values at each place, of fewer at the beginning.

    Examples
    --------
    >>> running_mean(np.array([1.0, 3.0, 5.0]), 2)
    array([1., 2., 4.])
    """
    sums = np.cumsum(np.append(0.0, errors))
    ends = np.arange(1, len(errors) + 1)
    starts = np.maximum(ends - width, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def finding(lines: Sequence[Line], streams: Sequence[str]) -> str:
    """Which method has the least prequential error most often."""
    best = [
        next(
            (line.label for line in lines if line.stream == stream and np.isfinite(line.prequential)), "none"
        )
        for stream in streams
    ]
    first = max(dict.fromkeys(best), key=best.count)
    return f"Least error ahead on {best.count(first)} of {len(streams)} streams: {first}"


STREAM_DRAWINGS: list[Drawing[Sequence[Record]]] = [
    Drawing(
        "streams",
        "streams",
        "",
        "Left: mean absolute error of each batch before it is learned, in standard deviations of the target. "
        "Right: its mean over the stream against what is kept for the next update.",
        draw_streams,
    ),
]
