import os
import re

import pytest
from command import app, run

from atlas_splines.cli import fit


@pytest.mark.slow
def test_demo_runs_the_command_and_draws(tmp_path):
    picture, here = tmp_path / "demo.png", os.getcwd()
    result = run(app, ["demo", "--output", str(picture)])
    assert result.exit_code == 0, result.output
    assert os.getcwd() == here
    for line in (
        "$ atlas fit old.csv --target y",
        "$ atlas update model.atlas new.csv",
        "$ atlas inspect after.atlas",
    ):
        assert line in result.output
    assert re.search(r"\n1 .* chart +2,000 ", result.output)
    pattern = (
        r"with (.*): mean error in the box (\S+); outside it\n *(\S+)% of predictions changed, by (\S+) on"
    )
    found = {name: list(map(float, numbers)) for name, *numbers in re.findall(pattern, result.output)}
    plain_error, plain_share, plain_change = found["plain training"]
    error, share, change = found["a chart"]
    assert error < 0.05
    assert share < 1 < 40 < plain_share
    assert change < 0.01 < plain_change
    assert plain_error < 0.1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_stops_where_a_command_fails(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ValueError("the disk is full")

    monkeypatch.setattr(fit, "fit_table", broken)
    result = run(app, ["demo", "--output", str(tmp_path / "demo.png")])
    assert result.exit_code == 2
    assert result.stderr == "atlas: the disk is full\n"
    assert result.stdout.count("$ atlas") == 1
    assert list(tmp_path.iterdir()) == []


def test_demo_names_a_missing_folder(tmp_path):
    result = run(app, ["demo", "--output", str(tmp_path / "nowhere" / "demo.png")])
    assert result.exit_code == 2
    assert re.search(
        r"demo\.png cannot be written: there is no folder .*nowhere; check the name", result.output
    )


def test_demo_names_an_unknown_kind_of_picture(tmp_path):
    result = run(app, ["demo", "--output", str(tmp_path / "demo.xyz")])
    assert result.exit_code == 2
    assert "a picture ends in .png, .svg or .pdf" in result.output
