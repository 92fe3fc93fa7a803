"""`atlas diff`, and footprints as lines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from atlas_splines.cli.files import Loaded, check_absent, check_picture, check_there
from atlas_splines.cli.output import Facts, Say
from atlas_splines.estimators.classifier import AtlasClassifier
from atlas_splines.estimators.footprints import (
    ColumnFootprint,
    FrameFootprint,
    footprint_lines,
    share_of_rows,
)
from atlas_splines.files.writer import replace_file
from atlas_splines.io.save_load import load
from atlas_splines.model.atlas import Atlas
from atlas_splines.model.log import Record
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.encoding import UNKNOWN, Encoding
from atlas_splines.tables.source import TableError, opened
from atlas_splines.tables.wording import counted
from atlas_splines.updates.footprint import Footprint, RestFootprint
from atlas_splines.versions.diff import Difference, diff

__all__ = ["diff_models", "known_rows_text", "share_of_domain"]


def share_of_domain(area: ColumnFootprint, encoding: Encoding) -> str:
    """Share of the domain, where each category counts as much as the others."""
    return share_of_rows(area, encoding).percent()


def known_rows_text(share: float | None) -> str:
    """A share of the rows that a model knows, as counts of where they were tell it; empty if none do.

    Examples
    --------
    >>> known_rows_text(0.312), known_rows_text(0.001), known_rows_text(0.0)
    ('about 31%', 'less than 1%', 'none')
    """
    if share is None:
        return ""
    if share == 1:
        return "all"
    return "none" if share == 0 else "less than 1%" if share < 0.01 else f"about {share:.0%}"


MOST_PLACES = 8  # that are listed


def diff_models(
    first: Path,
    second: Path,
    *,
    rows: str | None = None,
    plot: Path | None = None,
    force: bool = False,
    echo: Say,
) -> tuple[bool, Facts]:
    """Say how two models differ; return whether any prediction can, and the difference."""
    check_there(first)
    check_there(second)
    if plot is not None:
        check_picture(plot)
        if not force:
            check_absent(plot)
    one, other = load(first), load(second)
    try:
        found = diff(one, other) if rows is None else diff_on_rows(one, other, rows)
    except ValueError as error:
        raise TableError(f"{first} and {second}: {error}") from None
    if plot is not None:
        draw(found, plot)
    report(found, first, second, other, rows, echo)
    return bool(found), as_object(found)


def diff_on_rows(one: Loaded, other: Loaded, rows: str) -> Difference:
    """The difference on the rows of a table."""
    if isinstance(other, Atlas) or not hasattr(other, "encoding_"):
        raise ValueError("--rows needs models that know the columns of a table, made with atlas fit")
    with opened(rows, other.encoding_.dialect) as source:
        source.need(other.encoding_.names)
        pieces = [other.encoding_.encode(piece, UNKNOWN) for piece in source.pieces(other.encoding_.names)]
        if not pieces:
            raise ValueError(f"{source.name} has no rows; check the file")
    X = np.vstack([other._inputs(piece) for piece in pieces])
    return diff(one, other, rows=EncodedRows(X))


def report(found: Difference, first: Path, second: Path, model: Loaded, rows: str | None, echo: Say) -> None:
    """Say it in lines."""
    if found.same:
        echo(f"{first} and {second} are the same function, to the bit.")
    for path, entries in ((first, found.only_first), (second, found.only_second)):
        for entry in entries:
            echo(f"Only in {path}: {entry_text(entry)}")
    if not found.same:
        for line in place_lines(found.areas, model):
            echo(line)
        if found.parts:
            echo(f"Differs: {', '.join(found.parts)}.")
        if not any(map(is_everything, found.areas)):
            other = "Every other prediction" if found else "Every prediction"
            echo(f"{other} is the same, to the bit.")
    if found.rows:
        where = f"{counted(found.rows, 'row')} of {rows}" if rows else f"{found.rows:,} random points there"
        unit = " of a probability" if is_classifier(model) else ""
        echo(
            f"On {where}: {found.differing:,} differ, by {found.mean:.4g}{unit} on average, "
            f"{found.worst:.4g} at worst."
        )


def is_classifier(model: Loaded) -> bool:
    """Whether predictions are classes."""
    return isinstance(model, AtlasClassifier)


def entry_text(entry: Record) -> str:
    """An entry of the log in a few words."""
    gone = ", reverted" if entry.reverted else ""
    why = f": {entry.message}" if entry.message else ""
    when = f"{entry.time:%Y-%m-%d %H:%M}"
    return f"update {entry.id} ({entry.kind}, {counted(entry.rows, 'row')}, {when}{gone}){why}"


def is_everything(area: Footprint) -> bool:
    """Whether no prediction is spared."""
    inner = area.area if isinstance(area, ColumnFootprint) else area
    return isinstance(inner, RestFootprint) and not inner.windows


def place_lines(areas: tuple[Footprint, ...], model: Loaded) -> Iterator[str]:
    """Where predictions can differ, each place in the values of its columns."""
    for area in areas[:MOST_PLACES]:
        inner = area.area if isinstance(area, ColumnFootprint) else area
        if isinstance(inner, RestFootprint):
            spared = " outside the charts that both have" if inner.windows else ""
            yield f"Can differ: every prediction{spared}."
        elif isinstance(area, FrameFootprint):
            yield f"Can differ: rows with all of these, {area.share.percent()} of the domain:"
            is_linear = getattr(model, "extrapolation", "") == "linear"
            yield from footprint_lines(area, area.encoding, is_linear)
        else:
            yield f"Can differ: rows with all of these, {area.share.percent()} of the domain:"
            yield from str(area).removesuffix(">").splitlines()[1:]
    if len(areas) > MOST_PLACES:
        yield f"Can differ: {counted(len(areas) - MOST_PLACES, 'place')} more."


def as_object(found: Difference) -> dict[str, Any]:
    """The difference as JSON."""
    return {
        "same": found.same,
        "only_first": [entry.id for entry in found.only_first],
        "only_second": [entry.id for entry in found.only_second],
        "places": [
            {name: area.intervals(j) for j, name in enumerate(names_of(area))} for area in found.areas
        ],
        "rows": found.rows,
        "differing": found.differing,
        "mean": found.mean,
        "worst": found.worst,
        "parts": list(found.parts),
    }


def names_of(area: Footprint) -> list[str]:
    """Names of the columns of a footprint."""
    names = getattr(area, "names", None)
    return list(names) if names is not None else [f"input {j}" for j in range(area.inputs)]


def draw(found: Difference, plot: Path) -> None:
    """Draw the places."""
    from atlas_splines.plots.footprints import save_areas

    with tempfile.TemporaryDirectory(prefix="atlas-") as folder:
        draft = Path(folder) / plot.name
        save_areas(draft, found.areas)
        replace_file(plot, draft.read_bytes())
