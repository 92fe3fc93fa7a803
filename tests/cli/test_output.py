"""`--json`, `-q`, `-v` and the progress line, as a user types them."""

import io
import json
import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
from command import HEADER, SMALL, app, homes, ok, run, write_csv

from atlas_splines.cli import experiment_commands
from atlas_splines.cli import experiments as arena
from atlas_splines.cli import experiments as demo
from atlas_splines.cli.experiments import PlayServer
from atlas_splines.cli.output import fail, output_of
from atlas_splines.experiments.paper import reproduction

PATIENCE = 20  # seconds
MANUAL = Path(__file__).parents[2] / "docs" / "command.md"


def documented_fields():
    """Names of the fields of each command's object, from the manual."""
    section = MANUAL.read_text(encoding="utf8").partition("| fields of the object |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cells))) for name, cells in rows}


def told(*arguments, code=0):
    """The object that a command prints, and nothing else."""
    result = run(app, [*map(str, arguments), "--json"])
    assert result.exit_code == code, result.output
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert set(found) == documented_fields()[arguments[0]]
    return found


@pytest.mark.slow
def test_every_command_prints_the_documented_object(work, monkeypatch):
    covered = {
        "fit",
        "update",
        "predict",
        "evaluate",
        "inspect",
        "log",
        "verify",
        "diff",
        "patch",
        "apply",
        "merge",
    }
    covered |= {"explain", "blame", "contract"}
    covered |= {"forget", "replay", "revert", "export", "serve", "demo", "play", "paper", "arena"}
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert commands == set(documented_fields()) == covered
    found = told("fit", "homes.csv", "-t", "price", "-o", "f.atlas", "--density", "0", "--terms", "0", "-v")
    assert (found["output"], found["rows"], found["classes"]) == ("f.atlas", 120, None)
    assert found["fit"]["measure"] == "RMSE"
    found = told("update", "m.atlas", "new.csv", "--dry-run")
    assert (found["output"], found["update"], found["after"]) == (None, None, None)
    (work / "data").mkdir()
    (work / "data" / "new.csv").write_bytes((work / "new.csv").read_bytes())
    found = told("update", "m.atlas", "new.csv", "-o", "u.atlas", "--retention", "pool")
    assert (found["update"], found["kind"], found["learned"]) == (1, "pool", 60)
    assert found["after"]["error"] < found["before"]["rmse"]
    found = told("predict", "u.atlas", "new.csv", "-o", "p.csv", "--support")
    assert found == {"output": "p.csv", "rows": 60, "columns": ["price_predicted", "support"]}
    assert told("evaluate", "u.atlas", "new.csv")["models"][0]["rows"] == 60
    found = told("inspect", "u.atlas")
    assert (found["kind"], found["target"], len(found["updates"])) == ("AtlasRegressor", "price", 1)
    assert told("log", "u.atlas")["entries"] == found["updates"]
    for name in ("explain", "blame"):
        assert {*told(name, "u.atlas", "new.csv")} == set(documented_fields()[name])
    (work / "rules.toml").write_text("[[rule]]\nname = 'cheap'\nmax = 1e9\n")
    found = told("contract", "u.atlas", "rules.toml")
    assert {*found} == set(documented_fields()["contract"])
    assert told("verify", "u.atlas")["problems"] == []
    assert told("diff", "m.atlas", "u.atlas", code=1)["only_second"] == [1]
    version = told("patch", "m.atlas", "u.atlas", "-o", "u.patch")["result"]
    assert told("apply", "m.atlas", "u.patch", "-o", "a.atlas")["version"] == version
    assert told("merge", "m.atlas", "u.atlas", "a.atlas", "-o", "b.atlas")["conflicts"] == []
    found = told("replay", "u.atlas", "--data", "data", "--first", "m.atlas")
    assert found["updates"] == [{"update": 1, "same": True}]
    write_csv("gone.csv", HEADER, homes(60, 80, 120, factor=3, seed=1)[:2])
    assert told("forget", "u.atlas", "gone.csv", "--data", "data")["taken"][0]["rows"] == 2
    assert told("revert", "a.atlas", "1")["rows"] == 60
    assert told("export", "m.atlas", "m.onnx", "--support")["outputs"] == ["y", "support"]
    monkeypatch.setattr(experiment_commands, "run_or_stop", lambda arguments: None)
    monkeypatch.setattr(demo, "report_and_draw", lambda output, echo: print("by itself"))
    assert told("demo", "-o", "d.png")["output"].endswith("d.png")
    monkeypatch.setattr(PlayServer, "serve_forever", lambda server: None)
    if find_spec("starlette"):
        monkeypatch.setattr("atlas_splines.serve.server.run", lambda *_: None)
        found = told("serve", "m.atlas", "--port", "0")
        assert (found["read_only"], {*found}) == (False, set(documented_fields()["serve"]))
    assert told("play", "--no-browser")["address"].startswith("http://127.0.0.1:")
    monkeypatch.setattr(reproduction, "reproduce", lambda *_, **__: Path("report.html"))
    assert told("paper") == {"report": "report.html"}
    for name, value in (("compete", []), ("text_table", "a table"), ("findings", ["it is so"])):
        monkeypatch.setattr(arena, name, lambda *_, value=value, **__: value)
    assert told("arena", "-o", "folder")["findings"] == ["it is so"]


def test_an_error_is_an_object_too(work):
    result = run(app, ["predict", "none.atlas", "new.csv", "-o", "p.csv", "--json"])
    says = "none.atlas does not exist or is not a file; check the name"
    assert (result.exit_code, json.loads(result.stdout)) == (2, {"error": says})
    assert result.stderr == f"atlas: {says}\n"
    result = run(app, ["predict", "m.atlas", "new.csv", "--json"])
    says = "--json needs standard output for itself; name a file with -o"
    assert (result.exit_code, json.loads(result.stdout)) == (2, {"error": says})


WRONG = {
    "fit": "no.csv -t price",
    "update": "m.atlas no.csv",
    "predict": "m.atlas no.csv -o p.csv",
    "evaluate": "m.atlas no.csv",
    "inspect": "no.atlas",
    "log": "no.atlas",
    "verify": "no.atlas",
    "diff": "m.atlas no.atlas",
    "patch": "m.atlas no.atlas -o p.patch",
    "apply": "m.atlas no.patch",
    "merge": "m.atlas m.atlas no.atlas -o b.atlas",
    "forget": "m.atlas no.csv",
    "replay": "m.atlas --data no",
    "revert": "m.atlas 7",
    "export": "m.atlas m.txt",
    "demo": "-o no/d.png",
    "play": "no.atlas",
    "serve": "no.atlas",
    "explain": "no.atlas new.csv",
    "blame": "no.atlas new.csv",
    "contract": "no.atlas rules.toml",
    "paper": "-o m.atlas/folder --quick",
    "arena": "--method nobody",
}


@pytest.mark.slow
def test_every_command_fails_with_one_line_and_one_object(work):
    assert set(WRONG) == set(documented_fields())
    for name, options in WRONG.items():
        result = run(app, [name, *options.split(), "--json"])
        found = json.loads(result.stdout)
        assert (result.exit_code, set(found), result.stderr) == (2, {"error"}, f"atlas: {found['error']}\n")
        result = run(app, [name, *options.split(), "-q"])
        assert (result.exit_code, result.output) == (2, f"atlas: {found['error']}\n")


def test_verbose_tells_seconds_whatever_the_exit_code(work):
    ok("update", "m.atlas", "new.csv", "-o", "u.atlas", "--retention", "pool", "-q")
    result = run(app, ["diff", "m.atlas", "u.atlas", "-v"])
    assert (result.exit_code, re.sub(r"\d\.\d", "#", result.stderr)) == (1, "atlas diff: # s\n")


def test_quiet_prints_nothing_and_verbose_tells_steps(work):
    write_csv("more.csv", [*HEADER, "other"], [(*row, 1) for row in homes(5)])
    for command in (["predict", "m.atlas", "more.csv", "-o", "p.csv"], ["inspect", "m.atlas"], ["verify", "m.atlas"]):  # fmt: skip
        assert ok(*command).output
        assert ok(*command, "-q").output == ""
    assert "size,age" in ok("predict", "m.atlas", "more.csv", "-q").stdout  # the result itself
    result = ok("predict", "m.atlas", "more.csv", "-o", "p.csv", "--verbose")
    assert re.search(r"^predicting: \d+\.\d s\n(.*\n)*atlas predict: \d+\.\d s$", result.stderr, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals")
def test_on_a_terminal_a_line_tells_what_goes_on(work):
    """As if two seconds had passed already."""
    code = "from atlas_splines.cli import app, output as progress; progress.DELAY = 0; app.app(prog_name='atlas')"
    command = [sys.executable, "-c", code, "predict", "m.atlas", "new.csv"]
    shown = on_terminal([*command, "-o", "p.csv"])
    assert "atlas predict 00:0" in shown
    assert seen(shown) == ["60 rows predicted, written to p.csv."]  # the line is gone
    piped = subprocess.run([*command, "-o", "p.csv"], capture_output=True, text=True, check=True)
    assert piped.stderr == "60 rows predicted, written to p.csv.\n"
    shown = on_terminal(command)  # the terminal is for the table
    assert "00:0" not in shown
    assert len(seen(shown)) == 62


def on_terminal(command):
    """All that a command writes to a terminal."""
    import fcntl
    import pty
    import struct
    import termios

    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(command, stdout=end, stderr=end):
        os.close(end)
        shown = b""
        while piece := read_terminal(terminal):
            shown += piece
    os.close(terminal)
    return shown.decode()


def seen(written):
    """What stands on a terminal in the end: after a return lines are written over."""
    lines = []
    for line in written.replace("\r\n", "\n").split("\n"):
        cells = ""
        for part in line.split("\r"):
            cells = part + cells[len(part) :]
        lines.append(cells.rstrip())
    return [line for line in lines if line]


def read_terminal(descriptor):
    try:
        return os.read(descriptor, 1000)
    except OSError:  # so Linux says that nobody is there any more
        return b""


def as_terminal(monkeypatch):
    """Standard error as a terminal, to which two seconds are nothing."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def wait_for(self, text):
            deadline = time.monotonic() + PATIENCE
            while text not in self.getvalue():
                assert time.monotonic() < deadline, f"{text!r} was not written, but {self.getvalue()!r}"
                time.sleep(0.01)

    monkeypatch.setattr("atlas_splines.cli.output.DELAY", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_the_line_counts_rows_and_gives_way_to_others(monkeypatch):
    terminal = as_terminal(monkeypatch)
    with output_of("fit", False, False, False) as out:
        for piece in out.progress.counted("adding", [700, 800], rows=int, total=1500):
            terminal.wait_for(f"adding: {piece if piece == 700 else 1500:,} of 1,500 rows")
        out.note("a note")
        terminal.wait_for("a note\n\ratlas fit 00:0")  # it comes again below
    assert seen(terminal.getvalue()) == ["a note"]
    before = terminal.getvalue()
    with output_of("fit", True, False, False), output_of("play", False, False, False, line=False):
        time.sleep(0.05)
    assert terminal.getvalue() == before  # nothing with -q, nor where there is no end to wait for


def test_a_command_within_a_command_has_the_only_line(monkeypatch):
    terminal = as_terminal(monkeypatch)
    with output_of("demo", False, False, False):
        terminal.wait_for("atlas demo 00:0")
        with output_of("fit", False, False, False):
            terminal.wait_for("\ratlas fit 00:0")
            outer = terminal.getvalue().count("atlas demo")
            time.sleep(0.5)
        assert terminal.getvalue().count("atlas demo") == outer
    assert seen(terminal.getvalue()) == []


def fail_in_the_middle(terminal):
    with output_of("fit", False, True, False) as out:
        with out.progress.step("reading"):
            terminal.wait_for("\rreading 00:0")
        terminal.wait_for("\ratlas fit 00:0")
        fail("the table is odd; correct it")


def test_an_error_and_steps_stand_on_lines_of_their_own(monkeypatch):
    terminal = as_terminal(monkeypatch)
    with pytest.raises(typer.Exit):
        fail_in_the_middle(terminal)
    *steps, error = seen(terminal.getvalue())
    assert [re.sub(r"\d\.\d", "#", step) for step in steps] == ["reading: # s", "atlas fit: # s"]
    assert error == "atlas: the table is odd; correct it"


def test_a_name_too_long_for_the_terminal_stays_on_one_line(monkeypatch):
    terminal = as_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "20")
    with output_of("fit", False, False, False) as out, out.progress.step("reading " + "long" * 20):
        terminal.wait_for("reading longlonglon")
    assert max(map(len, terminal.getvalue().split("\r"))) == 19


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("atlas pre", ["predict"]),
        ("atlas predict m", ["m.atlas", "models/"]),
        ("atlas update m.atlas new.csv --re", ["--retention"]),
    ],
)
def test_a_shell_completes_commands_options_and_model_files(work, words, offered):
    (work / "models").mkdir()
    (work / "more.csv").touch()
    place = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    result = run(app, [], prog_name="atlas", env={"_ATLAS_COMPLETE": "complete_bash", **place})
    assert result.output.split() == offered


# one of each kind: an escape, a control character of eight bits, writing from right to left
EVIL = "\x1b[8mowned\x07\x9b31m\u202etotal"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """Models whose columns, categories and classes would steer a terminal."""
    monkeypatch.chdir(tmp_path)
    header = [f"size{EVIL}", f"city{EVIL}", f"price{EVIL}", f"sold{EVIL}"]
    table = [
        (size, f"{city}{EVIL}", price, f"{'yes' if price > 200 else 'no'}{EVIL}")
        for size, _, city, _, price in homes(60)
    ]
    write_csv("homes.csv", header, table)
    write_csv("more.csv", header, table[:30])
    write_csv("other.csv", header, [(*row[:1], f"Oslo{EVIL}", *row[2:]) for row in table])
    for name, target in (("price", 2), ("sold", 3)):
        model = f"{name}.atlas"
        ok("fit", "homes.csv", "-t", header[target], "-o", model, *SMALL)
        ok("update", model, "more.csv", "-o", f"{name}2.atlas", "--retention", "pool")
    return header


@pytest.mark.parametrize("name", ["price", "sold"])
def test_names_in_files_of_others_do_not_steer_the_terminal(name, hostile):
    old, new = f"{name}.atlas", f"{name}2.atlas"
    lines = [
        ("inspect", new),
        ("log", new),
        ("verify", new),
        ("diff", old, new),
        ("diff", "price.atlas", "sold.atlas"),
        ("patch", old, new, "-o", "fix.patch"),
        ("apply", old, "fix.patch", "-o", "applied.atlas"),
        ("merge", old, new, new, "-o", "merged.atlas"),
        ("evaluate", new, "homes.csv", "--by", hostile[1]),
        ("update", new, "other.csv", "-o", "third.atlas"),
        ("fit", "homes.csv", "-t", hostile[2], "-o", "again.atlas", *SMALL),
        ("predict", new, "other.csv", "-o", "predicted.csv"),
        ("forget", new, "other.csv"),
        ("revert", new, "1"),
        ("fit", "homes.csv", "-t", "price", "-o", "again.atlas"),
    ]
    seen = set()
    for words in lines:
        for more in ([], ["--json"]):
            result = run(app, [*words, "--force"][: len(words) + ("-o" in words)] + more, color=True)
            assert not CONTROLS.search(result.output), words
            seen |= {(words[0], *more)} if r"\u001b[8mowned\u0007\u009b31m\u202e" in result.output else set()
            if more:
                json.loads(result.stdout)
    assert {("inspect",), ("evaluate",), ("log",), ("inspect", "--json"), ("evaluate", "--json")} <= seen
