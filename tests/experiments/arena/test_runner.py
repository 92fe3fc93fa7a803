import json
import re
from dataclasses import replace

import pytest
from killing import kill_at_first_result
from typer.testing import CliRunner

import atlas_splines.experiments.arena.methods as methods
from atlas_splines.cli.app import app
from atlas_splines.experiments.arena import runner
from atlas_splines.experiments.arena.competition import (
    FULL,
    QUICK,
    Competition,
    compete,
    keys_of,
    make_competition,
)
from atlas_splines.experiments.arena.methods.base import Method
from atlas_splines.experiments.arena.protocols import Size
from atlas_splines.experiments.arena.report import findings, markdown_table, text_table
from atlas_splines.experiments.arena.runner import RunKey, run, run_one
from atlas_splines.experiments.arena.tuning import SEEDS, tune
from atlas_splines.experiments.jobs import RunError

TINY = Size(samples=40, tests=20, tasks=2, steps=3)
CELL = next(cell for cell in FULL.cells if cell.kind == "two-tasks" and cell.inputs == 2)
PEAKS = next(cell for cell in FULL.cells if cell.kind == "peaks")
CHEAP = ("linear", "lookup", "knn", "mlp", "mlp-retrained")


@pytest.fixture
def no_pictures(monkeypatch):
    """They take seconds to draw."""
    monkeypatch.setattr("atlas_splines.experiments.arena.report.DRAWINGS", [])


def listing(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}


class Crashing(Method):
    GRID = ({}, {})

    def __init__(self, setup):
        pass

    def fit(self, task):
        raise RuntimeError("the wheels came off")

    def predict(self, X):
        return X

    @property
    def bytes_kept(self):
        return 0


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process", "no_pictures")
def test_a_crashing_method_is_a_row(tmp_path, monkeypatch):
    real = methods.find
    monkeypatch.setattr(runner, "find", lambda name: Crashing if name == "mlp" else real(name))
    results = compete(tmp_path, Competition((CELL,), CHEAP, 2, TINY, tuned=False))
    text = text_table(results)
    (row,) = [line for line in text.splitlines() if line.startswith("MLP  ")]
    assert row.endswith("2 of 2 runs crashed: RuntimeError: the wheels came off")
    assert len(text.splitlines()) == 1 + len(CHEAP)
    assert "the wheels came off" in (tmp_path / "report.html").read_text(encoding="utf8")


def test_divergence_and_missing_packages_are_rows(monkeypatch):
    def missing(name):
        raise methods.MissingPackage("no module 'kan'")

    monkeypatch.setattr(runner, "find", missing)
    assert run_one(RunKey(CELL, "kan", 0, 0, 2), TINY)["status"] == "missing: no module 'kan'"
    monkeypatch.setattr(Crashing, "fit", lambda self, task: None)
    monkeypatch.setattr(Crashing, "predict", lambda self, X: X / 0.0)
    monkeypatch.setattr(runner, "find", lambda name: Crashing)
    status = run_one(RunKey(CELL, "mlp", 0, 0, 2), TINY)["status"]
    assert status == "diverged: predictions are not finite after task 1"


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_tuning_uses_seeds_that_are_not_reported_and_the_same_budget_for_all(tmp_path, monkeypatch):
    chosen = tune(tmp_path, [CELL, PEAKS], ["linear", "lookup"], TINY)
    assert set(chosen) == {(p, m) for p in (1, 3) for m in ("linear", "lookup")}
    names = list(listing(tmp_path))
    assert len(names) == 2 * 2 * 6 * 2  # protocols, methods, settings, problems
    assert all(any(f"-s{seed}-" in name for seed in SEEDS) for name in names)
    assert not set(SEEDS) & set(range(100))
    settings = json.loads((tmp_path / "settings.json").read_text(encoding="utf8"))
    assert set(settings["protocol 1, lookup"]) == {"cells"}
    records = [
        [run_one(RunKey(CELL, "lookup", k, seed, 2), TINY)["R"][1] for seed in SEEDS] for k in range(6)
    ]
    errors = [pytest.approx((sum(a) / 2) * (sum(b) / 2)) for a, b in records]
    assert errors[chosen[1, "lookup"]] == min((sum(a) / 2) * (sum(b) / 2) for a, b in records)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_whole_run_resumes_and_writes_a_page_that_needs_nothing_else(tmp_path):
    competition = Competition((CELL, PEAKS), CHEAP, 2, TINY)
    results = compete(tmp_path, competition)
    before = listing(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf8")
    assert page.count("data:image/png;base64,") == 6
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)  # which the letters of a picture may spell
    for path in ("results.json", "results.csv", "table.md", "settings.json", "figures/cost.svg"):
        assert (tmp_path / path).stat().st_size > 100
    assert len((tmp_path / "results.csv").read_text(encoding="utf8").splitlines()) == 1 + 2 * 2 * len(CHEAP)
    chosen = tune(tmp_path, competition.cells, competition.methods, TINY)
    run(tmp_path, keys_of(replace(competition, seeds=3), chosen), TINY)
    assert listing(tmp_path).items() >= before.items()  # nothing was run twice
    assert len(listing(tmp_path)) == len(before) + 2 * len(CHEAP)
    assert markdown_table(results).splitlines()[1].startswith("| --- |")
    assert findings(results) == []  # no ATLAS in it, so nothing to claim


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path):
    code = (
        "from pathlib import Path\n"
        "from atlas_splines.experiments.arena.competition import Competition, compete, FULL\n"
        "from atlas_splines.experiments.arena.protocols import Size\n"
        "if __name__ == '__main__':\n"
        "    size = Size(samples=40, tests=20, tasks=2, steps=3)\n"
        f"    compete(Path({str(tmp_path)!r}), Competition(FULL.cells[:1], ('linear',), 500, size, tuned=False))\n"
    )
    kill_at_first_result(code, tmp_path, tmp_path / "runs")
    done = listing(tmp_path)
    assert 0 < len([name for name in done if name.endswith(".json")]) < 500
    keys = keys_of(Competition(FULL.cells[:1], ("linear",), len(done) + 1, TINY), {})
    assert len(run(tmp_path, keys, TINY)) == len(keys)
    assert listing(tmp_path).items() >= {k: v for k, v in done.items() if k.endswith(".json")}.items()


@pytest.mark.usefixtures("in_this_process")
def test_a_folder_holds_runs_of_one_size(tmp_path):
    run(tmp_path, [RunKey(CELL, "linear", 0, 0, 2)], TINY)
    with pytest.raises(RunError, match="holds results with steps 3, not 4; choose another --output"):
        run(tmp_path, [RunKey(CELL, "linear", 0, 0, 2)], replace(TINY, steps=4))


def test_competitions_can_be_parts():
    assert {cell.protocol for cell in FULL.cells} == {1, 2, 3, 4, 6}
    assert make_competition(True, None, [], []).seeds == 1
    assert make_competition(True, 4, [], []).seeds == 4
    assert make_competition(False, 3, ["mlp"], [3]) == replace(
        FULL, seeds=3, methods=("mlp",), cells=(PEAKS,), streams=(), stream_methods=("mlp",)
    )
    with pytest.raises(ValueError, match="there is no method 'nonsense'; there are atlas-auto, "):
        make_competition(False, 1, ["nonsense"], [])
    with pytest.raises(ValueError, match="there is no protocol 9; there are 1 to 7"):
        make_competition(False, 1, [], [9])


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process", "no_pictures")
def test_the_command_prints_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr("atlas_splines.experiments.arena.competition.QUICK", replace(QUICK, size=TINY))
    data = tmp_path / "own.csv"
    data.write_text("\n".join(f"{k},{k * k % 17},{k + 1}" for k in range(60)), encoding="utf8")
    options = ["arena", "--quick", "-o", str(tmp_path / "out"), "--protocol", "3", "--data", str(data)]
    options += [
        option for name in ("atlas-lazy", "linear", "atlas-retrained") for option in ("--method", name)
    ]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    head = next(k for k, line in enumerate(lines) if line.startswith("method"))
    assert lines[head].split() == [
        "method", "rank", "P3", "P5", "ratio", "worst", "changed", "kB", "train", "s", "µs/row",
    ]  # fmt: skip
    assert (
        sum(line.startswith(("ATLAS, lazy", "linear", "ATLAS, retr")) for line in lines[head : head + 4]) == 3
    )
    assert lines[-1].endswith("report.html.")
    assert "ATLAS, lazy Adam is number 1 of 2 by mean rank" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "nonsense"], "there is no method 'nonsense'"),
        (["--protocol", "5"], "there is nothing to run: protocol 5 needs --data"),
        (["--data", "no.csv"], "cannot read no.csv: No such file or directory"),
        (["--data", "a", "--target", "x", "--target", "y"], "--target is given 2 times for 1 files"),
    ],
)
def test_bad_options_are_one_line(tmp_path, options, message):
    result = CliRunner().invoke(app, ["arena", "-o", str(tmp_path / "out"), *options])
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()
