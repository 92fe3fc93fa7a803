"""The clients of the guide are typed."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from command import ok
from service import Service

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "serve.md").read_text(encoding="utf8")
pytestmark = pytest.mark.slow


def block(language, what):
    """The block of the guide in a language that has something in it."""
    found = [each for each in re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.M | re.S) if what in each]
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guide")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    ok("fit", folder / "examples" / "homes.csv", "--target", "price", "-o", folder / "homes.atlas")
    with Service(folder / "homes.atlas") as found:
        found.folder = folder
        yield found


def here(text, service):
    return text.replace("127.0.0.1:8000", f"127.0.0.1:{service.port}")


def test_the_client_in_python(service):
    code, printed = here(block("python", "urllib"), service), io.StringIO()
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 10
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "guide", "exec"), {})
    predicted, learned = printed.getvalue().splitlines()
    assert "'intervals': {'0.9': [[" in predicted
    assert "'learned': True" in learned


def test_the_client_in_a_shell(service):
    before = service.get("/model")["updates"]
    lines = here(block("sh", "may-2026"), service).replace("/revert/2", f"/revert/{before + 1}")
    done = subprocess.run(
        ["sh", "-ec", lines], cwd=service.folder, capture_output=True, text=True, check=True
    )
    texts = done.stdout
    assert texts.startswith('{"predictions": [')
    assert "price_predicted" in texts
    assert f'"update": {before + 1}, "learned": true' in texts
    assert f'"reverted": {before + 1}' in texts


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_client_in_javascript(service):
    code = here(block("js", "fetch"), service)
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    assert "predictions: [" in done.stdout
    assert "support: [" in done.stdout


def test_the_unit_starts_the_command_as_it_is():
    unit = block("ini", "ExecStart")
    sections = re.findall(r"^\[(\w+)\]$", unit, re.M)
    assert sections == ["Unit", "Service", "Install"]
    assert all(re.fullmatch(r"\[\w+\]|[A-Z]\w+=\S.*|", line) for line in unit.splitlines())
    command = re.search(r"^ExecStart=\S+/atlas (.*)$", unit, re.M)[1].split()
    assert_options_are_known(command)


def test_the_image_starts_the_command_as_it_is():
    image = block("dockerfile", "FROM")
    steps = [line.split(" ", 1) for line in image.splitlines()]
    assert [name for name, _ in steps] == ["FROM", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "CMD"]
    assert ":latest" not in image
    _, *command = json.loads(steps[-1][1])
    assert_options_are_known(command)


def assert_options_are_known(command):
    from atlas_splines.cli import app

    name, *rest = command
    options = {each for each in rest if each.startswith("--")}
    shown = ok(name, "--help").output
    assert options
    assert all(option in shown for option in options), app
