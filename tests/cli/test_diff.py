import json
import shutil

import pytest
from command import app, ok, refused, run


@pytest.fixture
def two(work):
    shutil.copy("m.atlas", "old.atlas")
    ok("update", "m.atlas", "new.csv", "--retention", "chart", "--message", "prices of May")


def test_diff_tells_where_and_by_how_much(two):
    result = run(app, ["diff", "old.atlas", "m.atlas", "--rows", "new.csv"])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Only in m.atlas: update 1 (chart, 60 rows, ")
    assert lines[0].endswith("): prices of May")
    assert lines[1].startswith("Can differ: rows with all of these, ")
    assert lines[2].startswith("  size    ")
    assert lines[-2] == "Every other prediction is the same, to the bit."
    assert lines[-1].startswith("On 60 rows of new.csv: 60 differ, by ")
    found = json.loads(run(app, ["diff", "old.atlas", "m.atlas", "--json"]).stdout)
    assert (found["same"], found["only_second"], found["rows"] >= 20_000) == (False, [1], True)
    assert list(found["places"][0])[:2] == ["size", "age"]


def test_diff_of_the_same_function(two):
    ok("revert", "m.atlas", 1)
    lines = ok("diff", "old.atlas", "m.atlas").stdout.splitlines()
    assert lines[0] == "old.atlas and m.atlas are the same function, to the bit."
    assert "reverted" in lines[1]


def test_diff_draws_a_picture(two, work):
    assert run(app, ["diff", "old.atlas", "m.atlas", "--plot", "d.png"]).exit_code == 1
    assert (work / "d.png").read_bytes().startswith(b"\x89PNG")
    says = "d.png is there already; choose another name, or replace it with --force"
    assert refused("diff", "old.atlas", "m.atlas", "--plot", "d.png") == says
    assert (
        refused("diff", "old.atlas", "no.atlas") == "no.atlas does not exist or is not a file; check the name"
    )


def test_where_everything_can_differ_nothing_else_is_told_to_stay(work):
    shutil.copy("m.atlas", "old.atlas")
    ok("update", "m.atlas", "new.csv", "--retention", "pool")
    lines = run(app, ["diff", "old.atlas", "m.atlas"]).stdout.splitlines()
    assert lines[1] == "Can differ: every prediction."
    assert lines[2] == "Differs: the coefficients."
    assert lines[3].startswith("On 20,000 random points there: ")
