import re

import pytest
from typer.testing import CliRunner

from atlas_splines import __version__
from atlas_splines.cli import app

run = CliRunner().invoke


def test_demo_learns_prints_and_draws(tmp_path):
    picture = tmp_path / "demo.png"
    result = run(app, ["demo", "--output", str(picture)])
    assert result.exit_code == 0, result.output
    pattern = (
        r"with (.*), in .*error in the box (\S+); outside it\n *(\S+)% of predictions changed, by (\S+) on"
    )
    found = {name: list(map(float, numbers)) for name, *numbers in re.findall(pattern, result.output)}
    (plain_error, plain_share, plain_change), (error, share, change) = (
        found["plain training"],
        found["a chart"],
    )
    assert error < 0.05
    assert share < 1 < 40 < plain_share
    assert change < 0.01 < plain_change
    assert plain_error < 0.1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_names_a_missing_folder(tmp_path):
    result = run(app, ["demo", "--output", str(tmp_path / "nowhere" / "demo.png")])
    assert result.exit_code == 2
    assert re.search(r"cannot write .*demo\.png: the folder .*nowhere does not exist", result.output)


def test_demo_names_an_unknown_kind_of_picture(tmp_path):
    result = run(app, ["demo", "--output", str(tmp_path / "demo.xyz")])
    assert result.exit_code == 2
    assert "a picture ends in .png, .svg or .pdf" in result.output


@pytest.mark.parametrize(("command", "says"), [([], "demo"), (["demo"], "Where to write the picture")])
def test_help_explains(command, says):
    result = run(app, [*command, "--help"])
    assert result.exit_code == 0
    assert says in result.output


def test_version_is_told():
    assert run(app, ["--version"]).output == f"atlas-splines {__version__}\n"


def test_paper_names_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf8")
    result = run(app, ["paper", "--quick", "--output", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert re.search(r"cannot write to .*file: Not a directory; choose another --output", result.output)


@pytest.mark.parametrize(
    "option", [["--trials", "0"], ["--jobs", "0"], ["--optimizer", "sgd"], ["--damping", "-1"]]
)
def test_paper_refuses_bad_options(option):
    result = run(app, ["paper", *option])
    assert result.exit_code == 2
    assert option[0] in result.output
