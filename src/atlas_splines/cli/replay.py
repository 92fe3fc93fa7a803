"""`atlas replay`: build a model again from its first fit and its tables, and compare."""

from __future__ import annotations

from pathlib import Path

from atlas_splines.cli.checks import check_there
from atlas_splines.cli.data_folder import tables_in
from atlas_splines.cli.messages import Say
from atlas_splines.cli.model_files import load_table_model
from atlas_splines.cli.output import Facts
from atlas_splines.storage.saving import load_with_table
from atlas_splines.tables.reading import TableError
from atlas_splines.tables.wording import counted
from atlas_splines.versions.replaying import replay

__all__ = ["replay_model"]


def replay_model(path: Path, data: Path, first: Path | None, say: Say, note: Say) -> Facts:
    """Say of each update whether it gives the same bits again, and whether the whole model does."""
    check_there(path)
    model = load_table_model(path)
    try:
        found = replay(
            model, tables_in(data, model, note), first=None if first is None else load_with_table(first)
        )
    except TableError:
        raise
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
    for step in found.steps:
        verdict = "the same bits" if step.same else "other bits"
        say(f"Update {step.id}: {verdict}.")
    updates = counted(len(found.steps), "update")
    say(f"{path} was built again with {updates}: {'the same' if found else 'not the same'} model.")
    steps = [{"update": step.id, "same": step.same} for step in found.steps]
    return {"model": path, "same": bool(found), "updates": steps}
