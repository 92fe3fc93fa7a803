"""`atlas log`: write the log of a model, to be kept elsewhere."""

from __future__ import annotations

from pathlib import Path

from atlas_splines.cli.checks import check_absent, check_folder, check_there
from atlas_splines.cli.messages import Say
from atlas_splines.storage.log_export import export_log, log_lines
from atlas_splines.storage.saving import load_with_table

__all__ = ["write_log"]


def write_log(path: Path, output: str, *, after: int = 0, force: bool = False, say: Say) -> None:
    """Write the log of a model as lines of JSON, to a file or to standard output."""
    check_there(path)
    if output != "-":
        check_folder(Path(output))
        if not force:
            check_absent(Path(output))
    model = load_with_table(path)
    if output != "-":
        export_log(model, output, after=after)
        return
    for line in log_lines(model, after):
        say(line)
