"""`atlas forget`: take rows out of the updates of a model, and write a receipt."""

from __future__ import annotations

import json
import os
from pathlib import Path

from atlas_splines.cli.checks import check_absent, check_folder, check_replaceable, check_there
from atlas_splines.cli.data_folder import read_table, tables_in
from atlas_splines.cli.messages import Say
from atlas_splines.cli.model_files import alone_with, load_table_model
from atlas_splines.cli.output import Facts
from atlas_splines.files.writer import replace_files
from atlas_splines.storage.saving import content_of, load_with_table
from atlas_splines.tables.reading import Located, TableError
from atlas_splines.tables.wording import counted
from atlas_splines.versions.forgetting import forget

__all__ = ["forget_rows"]


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
    say: Say,
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
        model = load_table_model(path)
        table = read_table(located.read(model.encoding.dialect), model)
        tables = None if data is None else tables_in(data, model, note)
        start = None if first is None else load_with_table(first)
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
        say(f"{where}: {counted(taken.rows, 'row')} {taken.how}.")
    say(f"{target} is version {done.after[:12]} now; the receipt is {paper}.")
    return {
        "output": target,
        "version": done.after,
        "receipt": paper,
        "taken": [{"update": each.update, "rows": each.rows, "how": each.how} for each in done.taken],
    }
