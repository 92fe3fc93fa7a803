import re

import pytest
from typer.testing import CliRunner

from atlas_splines.cli import app

run = CliRunner().invoke


def test_demo_learns_prints_and_draws(tmp_path):
    picture = tmp_path / "demo.png"
    result = run(app, ["demo", "--output", str(picture)])
    assert result.exit_code == 0, result.output
    before, after = map(float, re.search(r"box: (\S+) before, (\S+) after", result.output).groups())
    assert after < before / 5
    assert float(re.search(r"Outside the box (\S+)%", result.output)[1]) > 40
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_names_a_missing_folder(tmp_path):
    result = run(app, ["demo", "--output", str(tmp_path / "nowhere" / "demo.png")])
    assert result.exit_code == 2
    assert re.search(r"cannot write .*demo\.png: the folder .*nowhere does not exist", result.output)


@pytest.mark.parametrize("command", [[], ["demo"]])
def test_help_explains(command):
    result = run(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output
