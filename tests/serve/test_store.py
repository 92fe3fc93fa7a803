import os
import shutil
from dataclasses import replace

import pytest
from command import ok
from service import csv_of

from atlas_splines import StorageError, load
from atlas_splines.estimators.contracts import Rule
from atlas_splines.serve import store as module
from atlas_splines.serve.contract import Contract, ContractBroken
from atlas_splines.serve.snapshot import Snapshot
from atlas_splines.serve.store import Change, KeyReused, Store
from atlas_splines.tables import bodies


def learning(seed=1, count=25):
    def make(snapshot):
        table = bodies.of_csv(csv_of(count, seed), snapshot.encoding.dialect)
        learned = snapshot.learn(table)
        return Change(learned.snapshot, {"update": learned.entry["id"], "coverage": learned.coverage})

    return make


def test_a_version_is_that_of_its_file(model):
    store = Store(model)
    assert f"Version: {store.snapshot.version}" in ok("verify", model).output
    before = store.snapshot
    reply = store.change("", b"", learning())
    assert store.snapshot is not before
    assert f"Version: {store.snapshot.version}" in ok("verify", model).output
    assert (before.newest, store.snapshot.newest) == (0, 1)
    assert store.coverage_of_updates() == {1: reply["coverage"]}
    assert not store.refresh()  # its own change is no news


def test_it_learns_with_the_bits_of_the_command(model, tmp_path):
    other = shutil.copy(model, tmp_path / "other.atlas")
    (tmp_path / "new.csv").write_bytes(csv_of(25))
    ok("update", other, tmp_path / "new.csv")
    Store(model).change("", b"", learning())
    assert load(model).estimator.model_.fingerprint() == load(other).estimator.model_.fingerprint()


def test_another_process_may_replace_the_file(model, tmp_path):
    store = Store(model)
    (tmp_path / "new.csv").write_bytes(csv_of(25, seed=7))
    ok("update", model, tmp_path / "new.csv")
    assert store.refresh()
    assert store.snapshot.newest == 1
    ok("revert", model, "1")
    assert store.change("", b"", learning())["update"] == 3  # it has looked by itself
    model.write_bytes(b"rubbish")
    assert not store.refresh()
    assert "is not an atlas-splines file" in store.problem
    with pytest.raises(StorageError, match=r"nothing was learned: .* is not an atlas-splines file"):
        store.change("", b"", learning(3))
    assert store.snapshot.newest == 3
    model.unlink()
    assert not store.refresh()
    assert store.problem == "homes.atlas cannot be read: No such file or directory"


def test_a_key_belongs_to_one_request(model):
    store = Store(model)
    done = store.change("k", b"one", learning())
    assert store.change("k", b"one", learning()) == done | {"repeated": True}
    with pytest.raises(KeyReused, match="'k' came with another request"):
        store.change("k", b"two", learning())
    assert Store(model).change("k", b"one", learning()) == done | {"repeated": True}


@pytest.mark.parametrize("place", ["journal", "model"])
def test_a_full_disk_is_an_error_before_anything_is_acknowledged(model, monkeypatch, place):
    store, before = Store(model), model.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    if place == "journal":
        monkeypatch.setattr(store.journal, "intend", full)
    else:
        monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StorageError, match="No space left on device; make room"):
        store.change("k", b"", learning())
    monkeypatch.undo()
    assert model.read_bytes() == before
    assert (store.snapshot.newest, Store(model).snapshot.newest) == (0, 0)
    assert store.change("k", b"", learning())["update"] == 1  # it was not learned, so it is learned now


def test_a_change_that_others_were_told_of_too_late_is_known(model, monkeypatch):
    store = Store(model)

    def lost(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.journal, "confirm", lost)
    done = store.change("k", b"", learning())  # the model's file holds it
    assert Store(model).change("k", b"", learning()) == done | {"repeated": True}


def test_a_folder_that_fails_after_the_file_was_replaced_leaves_no_doubt(model, monkeypatch):
    store, save = Store(model), Snapshot.save

    def fail(self, path):
        save(self, path)
        raise StorageError("the folder could not be synchronised")

    monkeypatch.setattr(Snapshot, "save", fail)
    with pytest.raises(StorageError):
        store.change("k", b"", learning())
    monkeypatch.undo()
    assert store.change("k", b"", learning())["repeated"]  # the file has it: it is not learned twice
    assert store.snapshot.newest == 1


def test_a_contract_is_kept(model):
    store = Store(model, contract=Contract((Rule("steady", max_change=1e-9),)))
    make = learning()
    with pytest.raises(
        ContractBroken, match=r"nothing was learned: broken: steady: a known row moves by .*size ="
    ):
        store.change("k", b"", lambda snapshot: replace(make(snapshot), is_update=True))
    assert store.snapshot.newest == Store(model).snapshot.newest == 0
    assert store.journal.find("k") is None
    loose = Store(model, contract=Contract((Rule("low", low=-1e9),)))
    reply = loose.change("k", b"", lambda snapshot: replace(make(snapshot), is_update=True))
    assert [each["status"] for each in reply["contract"]] == ["holds"]
    assert loose.change("k", b"", make) == reply | {"repeated": True}


def test_what_is_reverted_goes_whatever_the_contract_says(model):
    Store(model).change("", b"", learning())
    store = Store(model, contract=Contract((Rule("steady", max_change=1e-9),)))
    store.change("", b"", lambda snapshot: Change(snapshot.revert(1)[0], {"kind": "revert"}))
    assert store.snapshot.newest == 2


def test_another_process_that_changes_the_file_is_waited_for(model, monkeypatch):
    from atlas_splines import lock

    monkeypatch.setattr(module, "LOCK_WAIT", 0.05)
    store = Store(model)
    with lock(model), pytest.raises(StorageError, match="another process is updating"):
        store.change("", b"", learning())
    assert store.change("", b"", learning())["update"] == 1


def test_files_that_cannot_be_served_are_named(tmp_path):
    import numpy as np

    from atlas_splines import Atlas, AtlasRegressor, save

    save(Atlas(inputs=1), tmp_path / "bare.atlas")
    with pytest.raises(StorageError, match="is a bare model without columns; serve a fitted estimator"):
        Snapshot.load(tmp_path / "bare.atlas")
    random = np.random.default_rng(0)
    save(
        AtlasRegressor(terms=0, density=0).fit(random.random((50, 1)), random.random((50, 2))),
        tmp_path / "two.atlas",
    )
    with pytest.raises(StorageError, match="has 2 targets, and the service knows one"):
        Snapshot.load(tmp_path / "two.atlas")
