"""Logs as lines of JSON."""

import hashlib
import json

import numpy as np
import pytest
from mutations import pooled_regressor, rich_model, updated_table_model

from atlas_splines import Atlas, export_log
from atlas_splines.io.log_export import log_lines
from atlas_splines.model import log as records
from atlas_splines.model.atlas import commit, state_of
from atlas_splines.model.log import Record, chain_of


def entries_of(model, after=0):
    return [json.loads(line) for line in log_lines(model, after)]


def chain_over(entries, chain="0" * 64):
    for entry in entries:
        parts = [chain, *(entry[key] for key in ("id", "kind", "time", "rows", "before", "after"))]
        notes = [entry[key] for key in ("data", "author", "message")]
        parts += [json.dumps(notes)] if any(notes) else []
        chain = hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()
        assert entry["chain"] == chain
    return chain


@pytest.mark.slow
@pytest.mark.parametrize("make", [rich_model, pooled_regressor, updated_table_model])
def test_every_entry_is_a_line_with_its_hash(make, path):
    model = make()
    export_log(model, path)
    lines = path.read_text(encoding="utf8").splitlines()
    assert lines == list(log_lines(model))
    inner = model
    log = getattr(inner, "model_", inner).updates
    assert [json.loads(line)["id"] for line in lines] == [record.id for record in log]
    assert chain_over(map(json.loads, lines)) == chain_of(log)


@pytest.mark.slow
def test_entries_are_in_the_units_of_the_columns():
    model = updated_table_model()
    (entry,) = entries_of(model)
    (done,) = model.update_log_
    assert entry["measure"] == "RMSE"
    assert entry["error_after"] == done.error_after
    assert entry["footprint"] == {
        name: [list(part) for part in done.footprint.intervals(name)] for name in ("size", "age")
    }


def test_files_written_in_time_hold_the_whole_log(monkeypatch):
    monkeypatch.setattr(records, "KEPT", 5)
    model, kept = Atlas(inputs=1), []
    for number in range(1, 18):
        now = np.datetime64("2024-01-01T00:00:00").item().astimezone()
        commit(model, state_of(model), Record(number, "none", now, 1, "a" * 64, "a" * 64))
        if number % 4 == 0:
            kept += [entry for entry in entries_of(model, after=number - 4) if entry["id"]]
    kept += [entry for entry in entries_of(model, after=16) if entry["id"]]
    assert [entry["id"] for entry in kept] == list(range(1, 18))
    assert chain_over(kept) == chain_of(model.updates)
    folded, *rest = entries_of(model)
    assert (folded["id"], folded["count"], folded["last"]) == (0, 12, 12)
    assert chain_over(rest, folded["chain"]) == chain_of(model.updates)
