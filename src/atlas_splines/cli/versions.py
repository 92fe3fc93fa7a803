"""`atlas patch`, `apply`, `merge`, `verify`, `forget`, `replay` and `revert`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from atlas_splines.cli.diff import place_lines
from atlas_splines.cli.files import (
    Loaded,
    alone_with,
    check_absent,
    check_folder,
    check_other,
    check_replaceable,
    check_there,
    load_estimator,
    model_of,
)
from atlas_splines.cli.output import Facts, Say
from atlas_splines.cli.rows import Labels, read_table, tables_in
from atlas_splines.estimators.audit import EstimatorUpdate
from atlas_splines.files.writer import replace_files
from atlas_splines.io.save_load import content_of, load, save
from atlas_splines.model.atlas import Atlas
from atlas_splines.model.log import Record, count_of
from atlas_splines.tables.encoded_rows import EncodedRows
from atlas_splines.tables.source import Located, TableError, opened
from atlas_splines.tables.wording import counted
from atlas_splines.updates.log import Removal, Update
from atlas_splines.versions.forget import forget
from atlas_splines.versions.merge import Conflict, MergeConflict, Side, merge
from atlas_splines.versions.patch import PatchError, apply, patch, read_patch
from atlas_splines.versions.replay import replay
from atlas_splines.versions.verify import verify
from atlas_splines.versions.version import version

__all__ = [
    "apply_patch",
    "forget_rows",
    "merge_models",
    "replay_model",
    "revert_update",
    "verify_model",
    "write_patch",
]


def write_patch(old: Path, new: Path, output: Path, *, portable: bool, force: bool, echo: Say) -> Facts:
    """Write the patch that turns an old version of a model into a new one."""
    check_there(old)
    check_there(new)
    check_folder(output)
    if not force:
        check_absent(output)
    for source in (old, new):
        check_other(str(source), output, "the patch", "the model")
    try:
        made = patch(load(old), load(new), portable=portable)
    except ValueError as error:
        raise TableError(f"{old} and {new}: {error}") from None
    made.save(output)
    sizes = f"{output.stat().st_size:,} bytes, where {new} has {new.stat().st_size:,}"
    echo(f"{output} turns version {made.parent[:12]} into {made.result[:12]}: {sizes}.")
    if made.rows:
        echo(f"It carries {counted(made.rows, 'row')} of data, since the model keeps its rows.")
    return {
        "output": output,
        "bytes": output.stat().st_size,
        "parent": made.parent,
        "result": made.result,
        "rows": made.rows or 0,
    }


def apply_patch(
    path: Path,
    fix: Path,
    *,
    output: Path | None = None,
    merge: bool = False,
    force: bool = False,
    wait: float = 600,
    echo: Say,
    note: Say,
) -> Facts:
    """Turn a model into the version that a patch was made from."""
    check_there(path)
    check_there(fix)
    target = output or path
    check_folder(target)
    check_other(str(fix), target, over="the patch")
    if output is not None and not force:
        check_replaceable(target)
    with alone_with(target, wait, note):
        loaded = load(path)
        try:
            result = apply(loaded, read_patch(fix), merge=merge)
        except PatchError as error:
            raise TableError(f"{fix} does not go with {path}: {error}") from None
        save(result, target)
    more = count_of(model_of(result).updates) - count_of(model_of(loaded).updates)
    echo(f"{target} is version {version(result)[:12]} now, with {counted(more, 'update')} more.")
    return {"output": target, "version": version(result), "updates": more}


def merge_models(
    base: Path,
    ours: Path,
    theirs: Path,
    output: Path,
    *,
    prefer: Side | None = None,
    rows: str | None = None,
    force: bool = False,
    echo: Say,
) -> Facts:
    """Merge two versions of a model, or say where they have a conflict."""
    for path in (base, ours, theirs):
        check_there(path)
    check_folder(output)
    if not force:
        check_replaceable(output)
    loaded = [load(path) for path in (base, ours, theirs)]
    learned = None if rows is None else read_rows(loaded[1], rows)
    try:
        result = merge(*loaded, prefer=prefer, rows=learned)
    except MergeConflict as conflict:
        for found in conflict.conflicts:
            for line in conflict_lines(found, ours, theirs, loaded[1]):
                echo(line)
        echo(
            f"{output} was not written: settle {counted(len(conflict.conflicts), 'conflict')} with --ours or "
            "--theirs, or with --rows TABLE, which is learned there."
        )
        return {"output": None, "version": None, "conflicts": [as_object(c) for c in conflict.conflicts]}
    except ValueError as error:
        raise TableError(f"{output} was not written: {error}") from None
    save(result, output)
    counts = [count_of(model_of(each).updates) for each in (*loaded, result)]
    added = f"{counted(counts[1] - counts[0], 'update')} of {ours} and {counts[2] - counts[0]:,} of {theirs}"
    echo(f"{output} is version {version(result)[:12]}: {added} since {base}.")
    return {"output": output, "version": version(result), "conflicts": []}


def read_rows(model: Loaded, name: str) -> tuple[EncodedRows, Labels]:
    """Inputs and targets of a table."""
    if isinstance(model, Atlas) or not hasattr(model, "encoding_"):
        raise TableError("--rows needs models that know the columns of a table, made with atlas fit")
    with opened(name, model.encoding_.dialect) as source:
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


def verify_model(path: Path, expect: str | None, echo: Say) -> Facts:
    """Say whether a file is as it was written, and if not, where it differs."""
    check_there(path)
    found = verify(path, expect=expect)
    if found:
        echo(f"{path}: every hash is right, over {counted(found.updates, 'update')}.")
        echo(f"Version: {found.version}")
        if not found.has_parts:
            echo("It was written before parts had digests: its checksum and its log were checked.")
    for problem in found.problems:
        echo(f"{path}: {problem}.")
    return {
        "model": path,
        "version": found.version,
        "updates": found.updates,
        "problems": list(found.problems),
    }


def forget_rows(
    path: Path,
    rows: str,
    *,
    data: Path | None = None,
    first: Path | None = None,
    receipt: Path | None = None,
    output: Path | None = None,
    force: bool = False,
    wait: float = 600,
    echo: Say,
    note: Say,
) -> Facts:
    """Let a model be as if its updates had never seen some rows, and say what was done."""
    check_there(path)
    target = output or path
    paper = receipt or target.with_name(f"{target.stem}.receipt.json")
    for name in (target, paper):
        check_folder(name)
    if os.path.realpath(paper) in map(os.path.realpath, (path, target)):
        raise TableError(f"{paper} is the model itself, and would be lost; give the receipt another name")
    if not force:
        check_absent(paper)
        if output is not None:
            check_replaceable(output)
    with Located(rows) as located, alone_with(target, wait, note):
        model = load_estimator(path)
        table = read_table(located.read(model.encoding_.dialect), model)
        tables = None if data is None else tables_in(data, model, note)
        start = None if first is None else load(first)
        try:
            result, done = forget(model, *table, data=tables, first=start)
        except ValueError as error:
            way = " with --data DIR" if "give the data" in str(error) else ""
            raise TableError(f"{path} was not changed: {error}{way}") from None
        text = json.dumps(done.to_json(), indent=2) + "\n"
        # the receipt first: should power fail in between, one without its model tells so by its version
        replace_files({paper: [text.encode()], target: content_of(result, target)})
    for taken in done.taken:
        where = f"Update {taken.update}" if taken.update else "The fit"
        echo(f"{where}: {counted(taken.rows, 'row')} {taken.how}.")
    echo(f"{target} is version {done.after[:12]} now; the receipt is {paper}.")
    return {
        "output": target,
        "version": done.after,
        "receipt": paper,
        "taken": [{"update": each.update, "rows": each.rows, "how": each.how} for each in done.taken],
    }


def replay_model(path: Path, data: Path, first: Path | None, echo: Say, note: Say) -> Facts:
    """Say of each update whether it gives the same bits again, and whether the whole model does."""
    check_there(path)
    model = load_estimator(path)
    try:
        found = replay(model, tables_in(data, model, note), first=None if first is None else load(first))
    except TableError:
        raise
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
    for step in found.steps:
        verdict = "the same bits" if step.same else "other bits"
        echo(f"Update {step.id}: {verdict}.")
    updates = counted(len(found.steps), "update")
    echo(f"{path} was built again with {updates}: {'the same' if found else 'not the same'} model.")
    steps = [{"update": step.id, "same": step.same} for step in found.steps]
    return {"model": path, "same": bool(found), "updates": steps}


def revert_update(path: Path, id: int, *, wait: float = 600, echo: Say, note: Say) -> Facts:
    """Take back an update, exactly."""
    check_there(path)
    check_folder(path)
    with alone_with(path, wait, note):
        loaded = load(path)
        try:
            loaded.revert(id)
        except ValueError as error:
            raise TableError(f"{path}: {error}") from None
        save(loaded, path)
    model = model_of(loaded)
    record = next((each for each in model.updates if each.id == id), model.updates[-1])
    later = [r.id for r in model.updates if r.id > id and not r.reverted and not isinstance(r, Removal)]
    where = " in the domain it had" if model.is_extended else ""
    exact = f"every prediction{where} is as it was before, to the bit"
    if later and any(isinstance(r, Removal) for r in model.updates):
        exact = f"later updates were learned again without it: {', '.join(map(str, later))}"
    elif later:
        exact = f"later updates stay: {', '.join(map(str, later))}"
    elif any(r.reverted and r.id < id and r.reverted > record.time for r in model.updates):
        exact = "updates that had been taken back before it are still gone"
    elif not model.is_extended and model.fingerprint() != record.before:
        exact = "what else has changed since then stays"
    echo(f"Update {id} of {path} ({counted(record.rows, 'row')}) was taken back; {exact}.")
    return {"output": path, "update": id, "rows": record.rows, "what_remains": exact}
