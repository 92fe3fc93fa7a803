"""`atlas revert`: take back an update, exactly."""

from __future__ import annotations

from pathlib import Path

from atlas_splines.cli.checks import check_folder, check_there
from atlas_splines.cli.messages import Say
from atlas_splines.cli.model_files import alone_with, model_of, without_table
from atlas_splines.cli.output import Facts
from atlas_splines.estimators.table_model import TableModel
from atlas_splines.memory.log import Removal
from atlas_splines.storage.saving import load_with_table, save
from atlas_splines.tables.reading import TableError
from atlas_splines.tables.wording import counted

__all__ = ["revert_update"]


def revert_update(path: Path, id: int, *, wait: float = 600, say: Say, note: Say) -> Facts:
    """Take back an update, exactly."""
    check_there(path)
    check_folder(path)
    with alone_with(path, wait, note):
        loaded = load_with_table(path)
        try:
            without_table(loaded).revert(id)
        except ValueError as error:
            raise TableError(f"{path}: {error}") from None
        if isinstance(loaded, TableModel):  # columns that came with the update are gone
            loaded = loaded.with_estimator(loaded.estimator)
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
    say(f"Update {id} of {path} ({counted(record.rows, 'row')}) was taken back; {exact}.")
    return {"output": path, "update": id, "rows": record.rows, "what_remains": exact}
