"""`atlas patch` and `atlas apply`: what turns one version of a model into the next."""

from __future__ import annotations

from pathlib import Path

from atlas_splines.cli.checks import check_absent, check_folder, check_other, check_replaceable, check_there
from atlas_splines.cli.messages import Say
from atlas_splines.cli.model_files import alone_with, model_of
from atlas_splines.cli.output import Facts
from atlas_splines.core.records import count_of
from atlas_splines.storage.saving import load_with_table, save
from atlas_splines.tables.reading import TableError
from atlas_splines.tables.wording import counted
from atlas_splines.versions.patches import PatchError, apply, patch, read_patch
from atlas_splines.versions.versioned import version

__all__ = ["apply_patch", "write_patch"]


def write_patch(old: Path, new: Path, output: Path, *, portable: bool, force: bool, say: Say) -> Facts:
    """Write the patch that turns an old version of a model into a new one."""
    check_there(old)
    check_there(new)
    check_folder(output)
    if not force:
        check_absent(output)
    for source in (old, new):
        check_other(str(source), output, "the patch", "the model")
    try:
        made = patch(load_with_table(old), load_with_table(new), portable=portable)
    except ValueError as error:
        raise TableError(f"{old} and {new}: {error}") from None
    made.save(output)
    sizes = f"{output.stat().st_size:,} bytes, where {new} has {new.stat().st_size:,}"
    say(f"{output} turns version {made.parent[:12]} into {made.result[:12]}: {sizes}.")
    if made.rows:
        say(f"It carries {counted(made.rows, 'row')} of data, since the model keeps its rows.")
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
    say: Say,
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
        loaded = load_with_table(path)
        try:
            result = apply(loaded, read_patch(fix), merge=merge)
        except PatchError as error:
            raise TableError(f"{fix} does not go with {path}: {error}") from None
        save(result, target)
    more = count_of(model_of(result).updates) - count_of(model_of(loaded).updates)
    say(f"{target} is version {version(result)[:12]} now, with {counted(more, 'update')} more.")
    return {"output": target, "version": version(result), "updates": more}
