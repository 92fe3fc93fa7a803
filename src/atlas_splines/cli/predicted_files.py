"""Files of predictions: one table in order, or a file for each file of a table.

Workers write what they predict, and this process never holds more than a piece of it.
"""

from __future__ import annotations

import glob
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import add, attrgetter
from pathlib import Path

from atlas_splines.cli.checks import check_other, check_predictions
from atlas_splines.cli.workers import Workers
from atlas_splines.tables.reading import Piece, Source, Table, TableError
from atlas_splines.tables.whole_files import WHOLE_ENDINGS
from atlas_splines.tables.writing import TableWriter, read_scratch, write_scratch

__all__ = ["is_several", "write_folder", "write_table"]

Predicted = Callable[[Piece], Table]


def is_several(rows: str) -> bool:
    """Whether a name is that of a folder or a pattern, which may have several files."""
    return Path(rows).is_dir() or (glob.has_magic(rows) and not Path(rows).exists())


def check_count(source: Source, rows: int) -> None:
    """Refuse a table without rows."""
    if not rows:
        raise TableError(f"{source.name} has no rows below its header; check the file")


# --- one table --------------------------------------------------------------------------------------------


def write_table(predicted: Predicted, source: Source, output: str, workers: Workers) -> int:
    """Write a table with its predictions; returns the number of its rows."""
    beside = None if output == "-" else Path(output).absolute().parent
    count = 0
    with TableWriter(output) as writer, tempfile.TemporaryDirectory(prefix=".atlas-", dir=beside) as folder:
        if workers.are_others:
            shares = source.shares(readers=workers.count)
            tables = in_order(workers.each(Keeping(predicted, Path(folder)), shares, add, "predicting"))
        else:
            tables = map(predicted, workers.counted_pieces("predicting", source))
        for table in tables:
            writer.write(table)
            count += table.num_rows
        check_count(source, count)
    return count


@dataclass(frozen=True)
class Kept:
    """Pieces that a worker has predicted, and keeps in a file until they are written in order."""

    path: Path
    places: Sequence[tuple[int, int]]
    batches: Sequence[int]


@dataclass(frozen=True)
class Keeping:
    """Predict pieces, and keep them in a folder."""

    predicted: Predicted
    folder: Path

    def __call__(self, pieces: Iterable[Piece]) -> list[Kept]:
        """What is kept of some pieces of a file."""
        path, places = self.folder / f"{secrets.token_hex(8)}.arrow", []

        def tables() -> Iterator[Table]:
            for piece in pieces:
                places.append(piece.place)
                yield self.predicted(piece)

        batches = write_scratch(path, tables())
        return [Kept(path, places, batches)] if places else []


def in_order(kept: Iterable[Kept]) -> Iterator[Table]:
    """Tables that workers have kept, in the order of their places."""
    for _, group in groupby(kept, lambda part: part.places[0][0]):  # those of one file come together
        parts = list(group)
        tables = [read_scratch(part.path, part.batches) for part in parts]
        for _, k in sorted((place, k) for k, part in enumerate(parts) for place in part.places):
            yield next(tables[k])


# --- a file for each file ---------------------------------------------------------------------------------


def write_folder(
    predicted: Predicted, source: Source, folder: Path, column: str | None, workers: Workers
) -> int:
    """Write each file of a table again into a folder, with its predictions; returns the number of rows.

    Files that are there are replaced if they have a column of this name; None is for any file.
    """
    files = source.parts or (source,)
    outputs = [folder / output_name(file.name) for file in files]
    check_outputs(source, outputs, column)
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".atlas-", dir=folder.absolute()) as scratch:
        asked = WritingFiles(predicted, [str(Path(scratch, output.name)) for output in outputs])
        if workers.are_others:
            count = workers.each(asked, source.shares(), add, "predicting")
        else:
            count = asked(workers.counted_pieces("predicting", source))
        check_count(source, count)
        for output in sorted(Path(scratch).iterdir()):  # all of them, once all are predicted
            os.replace(output, folder / output.name)
    return count


def output_name(name: str) -> str:
    """Name of the file with the predictions for a file.

    Examples
    --------
    >>> output_name("days/monday.csv.gz"), output_name("days/monday.jsonl")
    ('monday.csv', 'monday.parquet')
    """
    path = Path(name)
    return f"{path.stem}.parquet" if path.suffix.lower() in WHOLE_ENDINGS else path.name.removesuffix(".gz")


def check_outputs(source: Source, outputs: Sequence[Path], column: str | None) -> None:
    """Refuse to write two files to one, or over a file of the table, or over what has no such column."""
    for output, file in zip(outputs, source.parts or (source,), strict=True):
        if outputs.count(output) > 1:
            raise TableError(
                f"{source.name} has two files for {output}; give the name of one table to write them to"
            )
        check_other(file.name, output, "the predictions")
        if column is not None:
            check_predictions(output, column)


@dataclass(frozen=True)
class WritingFiles:
    """Predict pieces, and write those of each file to a file of its own."""

    predicted: Predicted
    outputs: Sequence[str]

    def __call__(self, pieces: Iterable[Piece]) -> int:
        """Number of the rows that were written."""
        count = 0
        for number, own in groupby(pieces, attrgetter("file")):
            with TableWriter(self.outputs[number]) as writer:
                for piece in own:
                    writer.write(self.predicted(piece))
                    count += piece.table.num_rows
        return count
