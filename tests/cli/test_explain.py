import json
import shutil

import numpy as np
import pytest
from command import HEADER, app, homes, ok, read_csv, records, refused, run, write_csv


def test_explain_adds_up_to_the_prediction(work):
    found = json.loads(ok("explain", "m.atlas", "new.csv", "--json").stdout)
    ok("predict", "m.atlas", "new.csv", "-o", "p.csv")
    predicted = [float(row["price_predicted"]) for row in records("p.csv")]
    values, base = np.array(found["values"]), np.array(found["base_values"])
    np.testing.assert_allclose(values.sum(axis=1) + base, predicted, rtol=1e-5)
    assert found["columns"] == ["size", "age", "city", "garden"]
    assert found["exact"]
    assert found["data"][0][2] in ("Aarhus", "Bergen", "Cadiz")


def test_explain_in_words(work):
    lines = ok("explain", "m.atlas", "new.csv").stdout.splitlines()
    assert lines[0].startswith("row 1: ")
    assert any("city = " in line for line in lines[1:5])


def test_explain_draws_and_writes_a_page(work):
    ok("explain", "m.atlas", "new.csv", "--plot", "e.png", "--html", "e.html", "--row", 2)
    assert (work / "e.png").read_bytes().startswith(b"\x89PNG")
    page = (work / "e.html").read_text(encoding="utf8")
    assert "price of row 2 of new.csv" in page
    assert "What it was learned from" in page
    assert "http" not in page
    says = "e.png is there already; choose another name, or replace it with --force"
    assert refused("explain", "m.atlas", "new.csv", "--plot", "e.png") == says
    says = "new.csv has 60 rows, and --row asks for 99"
    assert refused("explain", "m.atlas", "new.csv", "--html", "f.html", "--row", 99) == says


def test_blame(work):
    ok("update", "m.atlas", "new.csv", "--retention", "chart")
    found = json.loads(ok("blame", "m.atlas", "new.csv", "--json").stdout)
    assert found["contributions"] == ["fit", "update 1"]
    total = np.array(found["base_values"]) + np.array(found["values"]).sum(axis=1) + found["rest"]
    np.testing.assert_allclose(total, found["predictions"], rtol=1e-9)
    assert "update 1" in ok("blame", "m.atlas", "new.csv").stdout


def test_predict_explains(work):
    ok("predict", "m.atlas", "new.csv", "-o", "p.csv", "--explain")
    row = records("p.csv")[0]
    parts = [float(row[f"price_by_{name}"]) for name in ("size", "age", "city", "garden")]
    assert abs(sum(parts) + float(row["price_base"]) - float(row["price_predicted"])) < 1e-3
    found = json.loads(ok("predict", "m.atlas", "new.csv", "-o", "q.csv", "--explain", "--json").stdout)
    assert found["columns"] == read_csv("q.csv")[0][len(HEADER) :]


def test_why_versions_differ(work):
    shutil.copy("m.atlas", "old.atlas")
    ok("update", "m.atlas", "new.csv", "--retention", "chart")
    result = run(app, ["diff", "old.atlas", "m.atlas", "--rows", "new.csv", "--why"])
    assert result.exit_code == 1
    assert any("update 1 +" in line or "update 1 -" in line for line in result.stdout.splitlines())
    says = "--why needs --rows, and models that know their table, made with atlas fit"
    assert refused("diff", "old.atlas", "m.atlas", "--why") == says


RULES = '[[rule]]\nname = "cheap"\nmax = {}\n[[rule]]\nname = "steady"\nmax_change = {}\n'


@pytest.mark.parametrize("command", [["contract", "m.atlas", "rules.toml"]])
def test_a_contract(work, command):
    (work / "rules.toml").write_text('[[rule]]\nmax = 1e9\n[[rule]]\nmax = 50\nname = "low"\n')
    result = run(app, command)
    assert result.exit_code == 3
    lines = result.stdout.splitlines()
    assert lines[1].startswith("broken: low: ")
    assert "city = " in lines[1]
    (work / "rules.toml").write_text("[[rule]]\nmin = -1e9\nmax = 1e9\nseconds = 1\n")
    assert ok(*command).stdout.startswith("holds: min -1e+09 and max 1e+09: proved")


def test_an_update_that_breaks_a_rule_is_refused(work):
    write_csv(work / "dear.csv", HEADER, homes(60, 80, 120, factor=30, seed=1))
    (work / "rules.toml").write_text(RULES.format(2000, 1e6))
    before = (work / "m.atlas").read_bytes()
    arguments = [
        "update",
        "m.atlas",
        "dear.csv",
        "--accept",
        "--retention",
        "chart",
        "--contract",
        "rules.toml",
    ]
    result = run(app, arguments)
    assert result.exit_code == 3
    assert result.stderr.splitlines()[-1].startswith("atlas: nothing was learned: broken: cheap: ")
    assert (work / "m.atlas").read_bytes() == before
    (work / "rules.toml").write_text(RULES.format(1e9, 1e6))
    result = run(app, arguments)
    assert result.exit_code == 0, result.output
    assert "Contract holds: cheap: proved" in result.stdout
    assert (work / "m.atlas").read_bytes() != before
    says = "no.toml does not exist; check the name"
    assert refused("update", "m.atlas", "new.csv", "--contract", "no.toml") == says
