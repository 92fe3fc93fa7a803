"""A figure as one record: its name, section, words and drawing; and how it is saved."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from matplotlib import rc_context
from matplotlib.figure import Figure

from atlas_splines.experiments.style import GREY, STYLE, WIDTH

__all__ = ["Drawing", "NotInThisRun", "Saved", "save_all", "save_figure"]

Results = TypeVar("Results")

DPI = 100
SAVING: Any = {"svg.hashsalt": "atlas", "svg.fonttype": "none"}  # the same results make the same files


class NotInThisRun(LookupError):
    """A partial run has nothing to draw for a figure."""


@dataclass(frozen=True)
class Drawing(Generic[Results]):
    """A figure of a report.

    Attributes
    ----------
    name
        Of its files and its anchor.
    section
        Anchor of the section of the page that it stands in.
    title
        What stands above it; by default the finding in its headline.
    caption
        What stands below it.
    draw
        Makes it from the results of a run; raises `NotInThisRun` if they are not enough.
    beside
        The paper's figure that it belongs beside, if there is one.
    """

    name: str
    section: str
    title: str
    caption: str
    draw: Callable[[Results], Figure]
    beside: str = ""

    def figure(self, results: Results) -> Figure:
        """Draw it in the common style; a partial run gets an empty figure that says so."""
        with rc_context(STYLE):
            try:
                return self.draw(results)
            except NotInThisRun as missing:
                return empty_figure(str(missing))


class Saved(NamedTuple):
    """A drawn figure: its image and the finding in its headline."""

    png: bytes
    headline: str


def empty_figure(text: str) -> Figure:
    """Say in place of a figure what is missing."""
    figure = Figure(figsize=(WIDTH, 1.2))
    figure.text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure


def save_all(drawings: Iterable[Drawing[Results]], results: Results, folder: Path) -> dict[str, Saved]:
    """Draw every figure, and write it into a folder as PNG and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    return {drawing.name: save_figure(drawing.figure(results), folder / drawing.name) for drawing in drawings}


def save_figure(figure: Figure, path: Path) -> Saved:
    """Write a figure as PNG and SVG."""
    buffer = io.BytesIO()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # it has done its work, and would do it again for each file
    with rc_context(SAVING):
        options: Any = {"dpi": DPI, "metadata": {"Software": None}, "pil_kwargs": {"optimize": True}}
        figure.savefig(buffer, format="png", **options)
        figure.savefig(path.with_suffix(".svg"), dpi=DPI, metadata={"Date": None})
    path.with_suffix(".png").write_bytes(buffer.getvalue())
    return Saved(buffer.getvalue(), figure.get_suptitle().replace("\n", " "))
