"""Rows of a table for a model: inputs and targets, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.messages import Say
from atlas_splines.tables.encoding import Encoding
from atlas_splines.tables.reading import Source, Table
from atlas_splines.tables.wording import listed

__all__ = ["Labels", "labelled_pieces", "note_unused_columns", "sample_size"]

Labels = NDArray[Any]

# Rows that are held in memory and learned from at once, at most.
SAMPLE_ROWS = 50_000

# Cells of these rows, at most: there are fewer rows if they are long.
SAMPLE_CELLS = 8_000_000


def sample_size(columns: int) -> int:
    """Rows that a sample of a table with so many columns has at most."""
    return min(SAMPLE_ROWS, SAMPLE_CELLS // columns)


def labelled_pieces(
    source: Source,
    encoding: Encoding,
    *,
    skip_missing: bool,
    unknown: str | None,
    without: NDArray[np.int64] | tuple[()] = (),
) -> Iterator[tuple[Table, Labels]]:
    """Inputs and targets of a table, piece by piece, without the rows of some numbers.

    For a category that was not there in fit `unknown` says what to do, or is None to treat it as missing.
    """
    for piece in source.pieces([*encoding.names, encoding.target]):
        targets, there = encoding.targets(piece, skip_missing)
        there &= ~np.isin(piece.row_numbers, without)
        yield encoding.encode(piece, unknown).filter(there), targets[there]


def note_unused_columns(source: Source, encoding: Encoding, note: Say) -> None:
    """Tell which columns of a table are neither inputs nor the target."""
    used = {*encoding.names, encoding.target, *source.index}
    unused = [name for name in source.columns if name not in used]
    if unused:
        note(f"{source.name}: not used: {listed(unused)}")
