import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from command import HEADER, app, estimator_of, files, homes, ok, read_csv, refused, run, write_csv


@pytest.fixture
def three(work):
    """A model that has pooled three tables, which are in a folder."""
    Path("data").mkdir()
    shutil.copy("m.atlas", "first.atlas")
    for k in range(3):
        write_csv(f"data/{k}.csv", HEADER, homes(40, seed=10 + k))
        ok("update", "m.atlas", f"data/{k}.csv", "--retention", "pool")
    return work


def test_the_rows_of_an_update_are_forgotten(three):
    predicted = ok("forget", "m.atlas", "data/1.csv").stdout.splitlines()
    assert predicted[0] == "Update 2: 40 rows removed, and the model derived from all others."
    receipt = json.loads(Path("m.receipt.json").read_text(encoding="utf8"))
    assert (receipt["rows"], receipt["remaining"]) == (40, [1, 3])
    assert predicted[1] == f"m.atlas is version {receipt['after'][:12]} now; the receipt is m.receipt.json."
    shutil.copy("first.atlas", "never.atlas")
    for k in (0, 2):
        ok("update", "never.atlas", f"data/{k}.csv", "--retention", "pool")
    models = [estimator_of(name).model_ for name in ("m.atlas", "never.atlas")]
    assert models[0].fingerprint() == models[1].fingerprint()
    ok("verify", "m.atlas")


def test_some_rows_are_found_in_the_tables(three):
    header, *lines = read_csv("data/1.csv")
    write_csv("gone.csv", header, lines[5:9])
    write_csv("never.csv", header, homes(5, seed=99))
    before = Path("m.atlas").read_bytes()
    says = "m.atlas was not changed: 5 of the rows are not among those that the model has learned; check them"
    assert refused("forget", "m.atlas", "never.csv") == says
    assert Path("m.atlas").read_bytes() == before
    predicted = ok("forget", "m.atlas", "gone.csv", "--data", "data", "-o", "clean.atlas").stdout
    assert predicted.startswith("Update 2: 4 rows removed, and the model derived from all others.\n")
    assert Path("clean.receipt.json").exists()
    assert "is there already" in refused(
        "forget", "m.atlas", "gone.csv", "--data", "data", "-o", "clean.atlas"
    )


def test_a_model_is_built_again_from_its_tables(three):
    lines = ok("replay", "m.atlas", "--data", "data", "--first", "first.atlas").stdout.splitlines()
    assert lines == [
        *(f"Update {k}: the same bits." for k in (1, 2, 3)),
        "m.atlas was built again with 3 updates: the same model.",
    ]
    ok("replay", "m.atlas", "--data", "data")
    write_csv("data/other.csv", ["a"], [[1]])
    result = ok("replay", "m.atlas", "--data", "data")
    assert "other.csv was passed over" in result.stderr
    Path("data/1.csv").unlink()
    ok("replay", "m.atlas", "--data", "data")  # the model keeps its rows
    assert (
        refused("replay", "m.atlas", "--data", "data", "--first", "first.atlas")
        == "m.atlas: the data of update 2 is missing; give it too"
    )
    assert "is no folder" in refused("replay", "m.atlas", "--data", "nowhere")
    ok("update", "first.atlas", "data/0.csv", "--retention", "pool")
    assert run(app, ["replay", "m.atlas", "--data", "data", "--first", "first.atlas"]).exit_code == 2


def test_no_receipt_no_change(three, monkeypatch):
    """If either file cannot be written, both are as they were."""
    before = files(three)
    real = os.replace
    for name in ("m.atlas", "m.receipt.json"):

        def replace(source, target, name=name):
            if Path(target).name == name:
                raise OSError(errno.EPERM, "Operation not permitted")
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)
        says = f"{name} could not be written: Operation not permitted; make room or choose another folder"
        assert refused("forget", "m.atlas", "data/1.csv") == says
        monkeypatch.setattr(os, "replace", real)
        assert files(three) == before
    ok("forget", "m.atlas", "data/1.csv", "--receipt", os.devnull)
    assert files(three).keys() == before.keys()
    assert files(three)["m.atlas"] != before["m.atlas"]


def test_a_receipt_that_would_replace_its_model(three):
    before = files(three)
    for arguments in (["--receipt", "m.atlas"], ["-o", "new.atlas", "--receipt", "./new.atlas"]):
        says = f"{Path(arguments[-1])} is the model itself, and would be lost; give the receipt another name"
        assert refused("forget", "m.atlas", "data/1.csv", *arguments, "--force") == says
    assert files(three) == before
