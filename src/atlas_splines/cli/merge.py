"""`atlas merge`: updates that were made apart come together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from atlas_splines.cli.checks import check_folder, check_replaceable, check_there
from atlas_splines.cli.data_folder import read_table
from atlas_splines.cli.diff import place_lines
from atlas_splines.cli.messages import Say
from atlas_splines.cli.model_files import Loaded, model_of
from atlas_splines.cli.output import Facts
from atlas_splines.cli.rows import Labels
from atlas_splines.core.records import Record, count_of
from atlas_splines.estimators.log import EstimatorUpdate
from atlas_splines.estimators.table_model import TableModel
from atlas_splines.memory.log import Update
from atlas_splines.storage.saving import load_with_table, save
from atlas_splines.tables.reading import Table, TableError, opened
from atlas_splines.tables.wording import counted
from atlas_splines.versions.merging import Conflict, MergeConflict, Side, merge
from atlas_splines.versions.versioned import version

__all__ = ["merge_models"]


def merge_models(
    base: Path,
    ours: Path,
    theirs: Path,
    output: Path,
    *,
    prefer: Side | None = None,
    rows: str | None = None,
    force: bool = False,
    say: Say,
) -> Facts:
    """Merge two versions of a model, or say where they have a conflict."""
    for path in (base, ours, theirs):
        check_there(path)
    check_folder(output)
    if not force:
        check_replaceable(output)
    loaded = [load_with_table(path) for path in (base, ours, theirs)]
    learned = None if rows is None else read_rows(loaded[1], rows)
    try:
        result = merge(*loaded, prefer=prefer, rows=learned)
    except MergeConflict as conflict:
        for found in conflict.conflicts:
            for line in conflict_lines(found, ours, theirs, loaded[1]):
                say(line)
        say(
            f"{output} was not written: settle {counted(len(conflict.conflicts), 'conflict')} with --ours or "
            "--theirs, or with --rows TABLE, which is learned there."
        )
        return {"output": None, "version": None, "conflicts": [as_object(c) for c in conflict.conflicts]}
    except ValueError as error:
        raise TableError(f"{output} was not written: {error}") from None
    save(result, output)
    counts = [count_of(model_of(each).updates) for each in (*loaded, result)]
    added = f"{counted(counts[1] - counts[0], 'update')} of {ours} and {counts[2] - counts[0]:,} of {theirs}"
    say(f"{output} is version {version(result)[:12]}: {added} since {base}.")
    return {"output": output, "version": version(result), "conflicts": []}


def read_rows(model: Loaded, name: str) -> tuple[Table, Labels]:
    """Inputs and targets of a table."""
    if not isinstance(model, TableModel):
        raise TableError("--rows needs models that know the columns of a table, made with atlas fit")
    with opened(name, model.encoding.dialect) as source:
        return read_table(source, model)


def conflict_lines(conflict: Conflict, ours: Path, theirs: Path, model: Loaded) -> Iterator[str]:
    """A conflict: both updates with their errors, and the place."""
    yield f"Conflict: {update_text(conflict.ours, ours)}, and {update_text(conflict.theirs, theirs)}:"
    yield from list(place_lines((conflict.area,), model))[1:]


def as_object(conflict: Conflict) -> dict[str, int | None]:
    """A conflict as JSON: the numbers of both updates; None for rows that were pooled."""
    return {
        side: None if record is None else record.id
        for side, record in (("ours", conflict.ours), ("theirs", conflict.theirs))
    }


def update_text(record: Record | None, path: Path) -> str:
    """An update with its errors."""
    if record is None:
        return f"rows that {path} pooled"
    text = f"update {record.id} of {path}"
    if isinstance(record, Update):
        measure = record.measure if isinstance(record, EstimatorUpdate) else "loss"
        text += f" ({measure} {record.error_before:.4g} before, {record.error_after:.4g} after)"
    return text
