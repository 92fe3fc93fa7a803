import os
from pathlib import Path

import pytest
from command import app, files, ok, refused, run
from filelock import FileLock


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["fit", "no.csv", "-t", "y"], "no.csv does not exist or is not a file; check the name"),
        (["fit", "homes.csv", "-t", "price", "-o", "no/m.atlas"], "no/m.atlas cannot be written: there is no folder no; check the name"),
        (["fit", "homes.csv", "-t", "price", "-o", "."], ". cannot be written: it is a folder; give the name of a file"),
        (["fit", "m.atlas", "-t", "y"], "m.atlas must end in .csv, .tsv, .txt, .parquet or .pq, which tells its format"),
        (["update", "no.atlas", "new.csv"], "no.atlas does not exist or is not a file; check the name"),
        (["update", "m.atlas", "no.csv"], "no.csv does not exist or is not a file; check the name"),
        (["update", "homes.csv", "new.csv"], "homes.csv is not an atlas-splines file; check the name"),
        (["predict", "m.atlas", "new.csv", "-o", "out.doc"], "out.doc must end in .csv, .tsv, .txt, .parquet or .pq, which tells its format"),
        (["predict", "m.atlas", "new.csv", "-o", "no/out.csv"], "no/out.csv cannot be written: there is no folder no; check the name"),
        (["predict", "m.atlas", "new.csv", "-o", "folder"], "folder cannot be written: it is a folder; give the name of a file"),
        (["predict", "m.atlas", "new.csv", "-o", "folder.csv"], "folder.csv cannot be written: it is a folder; give the name of a file"),
        (["fit", "homes.csv", "-t", "price", "-o", "-"], "- is no file: only tables go to standard output; give the name of a file"),
        (["update", "m.atlas", "new.csv", "-o", "-"], "- is no file: only tables go to standard output; give the name of a file"),
        (["inspect", "no.atlas"], "no.atlas does not exist or is not a file; check the name"),
        (["revert", "m.atlas", "7"], "m.atlas: update 7 cannot be reverted; of this model's updates, none can"),
    ],
)  # fmt: skip
def test_names_that_are_wrong(work, command, says):
    before = files(work)
    for folder in ("folder", "folder.csv"):
        (work / folder).mkdir()
    assert refused(*command) == says
    for folder in ("folder", "folder.csv"):
        (work / folder).rmdir()
    assert files(work) == before


def test_a_folder_that_cannot_be_written(work, monkeypatch):
    before = files(work)
    commands_that_write = (
        ["fit", "homes.csv", "-t", "price", "-o", "m.atlas"],
        ["update", "m.atlas", "new.csv"],
        ["revert", "m.atlas", "1"],
        ["predict", "m.atlas", "new.csv", "-o", "out.csv"],
    )
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "access", lambda _, mode, **__: mode != os.W_OK
        )  # permissions do not bind the superuser
        for command in commands_that_write:
            name = "out.csv" if "out.csv" in command else "m.atlas"
            says = f"{name} cannot be written: nothing can in the folder .; choose another one"
            assert refused(*command) == says
        ok("update", "m.atlas", "new.csv", "--dry-run")

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileLock, "acquire", denied)
    result = run(app, ["update", "m.atlas", "new.csv"])
    assert result.stderr == (
        "atlas: m.atlas cannot be changed: its folder cannot be written: Permission denied; choose another folder\n"
    )
    assert files(work) == before


def test_a_model_does_not_take_the_place_of_its_table(work):
    before = Path("new.csv").read_bytes()
    for arguments in (["fit", "new.csv", "--target", "y"], ["update", "m.atlas", "new.csv"]):
        result = run(app, [*arguments, "-o", "./new.csv"])
        assert result.exit_code == 2
        assert "new.csv is the table itself, and would be lost; give the model another name" in result.stderr
    assert Path("new.csv").read_bytes() == before


def test_predictions_do_not_take_the_place_of_their_table_or_model(work):
    (work / "link.csv").symlink_to("new.csv")
    (work / "model.csv").write_bytes((work / "m.atlas").read_bytes())
    before = files(work)
    for output in ("new.csv", "./new.csv", "link.csv"):
        assert refused("predict", "m.atlas", "new.csv", "-o", output) == (
            f"{Path(output)} is the table itself, and would be lost; give the predictions another name"
        )
    assert refused("predict", "model.csv", "new.csv", "-o", "model.csv") == (
        "model.csv is the model itself, and would be lost; give the predictions another name"
    )
    assert files(work) == before
