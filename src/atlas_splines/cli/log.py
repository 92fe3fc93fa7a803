"""`atlas log`: write the log of a model, to be kept elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from atlas_splines.cli.checks import check_absent, check_folder, check_there
from atlas_splines.cli.output import Facts
from atlas_splines.storage.log_export import export_log, log_lines
from atlas_splines.storage.saving import load_with_table

__all__ = ["write_log"]


def write_log(
    path: Path, output: str, *, after: int = 0, force: bool = False, as_json: bool = False
) -> Facts:
    """Write the log of a model as lines of JSON, to a file or to standard output if that is free."""
    check_there(path)
    if output != "-":
        check_folder(Path(output))
        if not force:
            check_absent(Path(output))
    model = load_with_table(path)
    if output != "-":
        export_log(model, output, after=after)
    lines = list(log_lines(model, after))
    if output == "-" and not as_json:
        for line in lines:
            typer.echo(line)
    return {"output": None if output == "-" else output, "entries": [json.loads(line) for line in lines]}
