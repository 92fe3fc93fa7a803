import os
import re
from pathlib import Path

import pytest
from command import app, estimator_of, files, ok, records, refused, run

from atlas_splines.cli import scan as passes
from atlas_splines.cli.files import check_absent, check_folder, check_predictions, check_replaceable
from atlas_splines.files import locks


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["fit", "no.csv", "-t", "y"], "no.csv does not exist or is not a file; check the name"),
        (["fit", "homes.csv", "-t", "price", "-o", "no/m.atlas"], "no/m.atlas cannot be written: there is no folder no; check the name"),
        (["fit", "homes.csv", "-t", "price", "-o", "."], ". cannot be written: it is a folder; give the name of a file"),
        (["fit", "m.atlas", "-t", "y"], "m.atlas must end in .csv, .tsv, .txt, .parquet or .pq, which determines its format"),
        (["update", "no.atlas", "new.csv"], "no.atlas does not exist or is not a file; check the name"),
        (["update", "m.atlas", "no.csv"], "no.csv does not exist or is not a file; check the name"),
        (["update", "homes.csv", "new.csv"], "homes.csv is not an atlas-splines file; check the name"),
        (["predict", "m.atlas", "new.csv", "-o", "out.doc"], "out.doc must end in .csv, .tsv, .txt, .parquet or .pq, which determines its format"),
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

    monkeypatch.setattr(locks, "held", denied)
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


@pytest.mark.slow
def test_update_does_not_replace_what_would_be_lost(work):
    ok("update", "m.atlas", "new.csv", "-o", "updated.atlas")
    (work / "notes.txt").write_text("all my notes", encoding="utf8")
    before = files(work)
    way_out = "choose another name, or replace it with --force"
    for output, wrong in (
        ("homes.csv", f"is there already, and is not a model that can be read; {way_out}"),
        ("notes.txt", f"is there already, and is not a model that can be read; {way_out}"),
        ("updated.atlas", f"has a log of 1 update, which would be lost; {way_out}"),
    ):
        assert refused("update", "m.atlas", "new.csv", "-o", output) == f"{output} {wrong}"
        assert files(work) == before
    ok("update", "m.atlas", "new.csv", "-o", "notes.txt", "--force")
    assert len(estimator_of("notes.txt").update_log_) == 1


@pytest.mark.slow
def test_update_may_replace_its_own_model_and_one_that_has_no_log(work):
    (work / "fresh.atlas").write_bytes((work / "m.atlas").read_bytes())
    (work / "link.atlas").symlink_to("m.atlas")
    ok("update", "m.atlas", "new.csv", "-o", "fresh.atlas")
    ok("update", "m.atlas", "new.csv", "-o", "m.atlas")
    ok("update", "m.atlas", "new.csv", "-o", "link.atlas", "--accept")
    assert len(estimator_of("m.atlas").update_log_) == 2
    ok("update", "m.atlas", "new.csv", "-o", "homes.csv", "--dry-run")  # writes nothing


def test_an_output_that_appears_during_an_update_is_not_replaced(work, monkeypatch):
    def slow_score(self, *arguments):
        (work / "out.atlas").write_text("from someone else", encoding="utf8")
        return score_and_sample(self, *arguments)

    score_and_sample = passes.NewRows.score_and_sample
    monkeypatch.setattr(passes.NewRows, "score_and_sample", slow_score)
    says = refused("update", "m.atlas", "new.csv", "-o", "out.atlas")
    assert says.startswith("out.atlas is there already, and is not a model that can be read")
    assert (work / "out.atlas").read_text(encoding="utf8") == "from someone else"


def test_predictions_replace_predictions_and_nothing_else(work):
    before = files(work)
    says = "homes.csv is there already, and has no column 'price_predicted'; choose another name, or replace it with --force"
    assert refused("predict", "m.atlas", "new.csv", "-o", "homes.csv") == says
    assert files(work) == before
    (work / "broken.csv").write_bytes(b"\xff\n")
    assert "'price_predicted'" in refused("predict", "m.atlas", "new.csv", "-o", "broken.csv")
    ok("predict", "m.atlas", "new.csv", "-o", "out.csv")
    ok("predict", "m.atlas", "homes.csv", "-o", "out.csv")
    assert len(records("out.csv")) == 120
    ok("predict", "m.atlas", "new.csv", "-o", "homes.csv", "--force")
    assert len(records("homes.csv")) == 60


@pytest.mark.parametrize(
    "command",
    [["inspect", "m.atlas", "--plot", "p.png"], ["export", "m.atlas", "p.onnx"], ["demo", "-o", "p.png"]],
)
def test_pictures_and_onnx_do_not_replace_a_file(work, command):
    (output,) = (name for name in command if name.startswith("p."))
    (work / output).write_bytes(b"a photograph")
    before = files(work)
    assert refused(*command) == f"{output} is there already; choose another name, or replace it with --force"
    assert files(work) == before


@pytest.mark.slow
def test_a_picture_is_replaced_with_force(work):
    (work / "p.png").write_bytes(b"a photograph")
    ok("inspect", "m.atlas", "--plot", "p.png", "--force")
    assert (work / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "command",
    [
        "fit homes.csv -t price -o there.csv",
        "update m.atlas new.csv -o there.csv",
        "predict m.atlas new.csv -o there.csv",
        "inspect m.atlas --plot there.png",
        "log m.atlas -o there.csv",
        "diff m.atlas m.atlas --plot there.png",
        "patch m.atlas m.atlas -o there.csv",
        "apply m.atlas there.onnx -o there.csv",
        "merge m.atlas m.atlas m.atlas -o there.csv",
        "forget m.atlas new.csv --receipt there.csv",
        "export m.atlas there.onnx",
        "demo -o there.png",
    ],
)
def test_no_command_replaces_a_file_that_would_be_lost(work, command):
    for ending in ("csv", "png", "onnx"):
        (work / f"there.{ending}").write_text("all,my,notes\n1,2,3\n", encoding="utf8")
    before = files(work)
    says = refused(*command.split())
    assert re.fullmatch(
        r"there\.\w+ is there already.*; choose another name, or replace it with --force", says
    )
    assert files(work) == before


def test_a_stream_holds_nothing_that_could_be_lost():
    nothing = Path(os.devnull)
    check_folder(nothing)
    check_absent(nothing)
    check_replaceable(nothing)
    check_predictions(nothing, "price")
