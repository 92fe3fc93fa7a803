"""What the README and the manual show: their commands are typed, and their links followed."""

import re
import shlex
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from command import run

from atlas_splines.cli.app import app
from atlas_splines.experiments.arena.methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NUMBER = re.compile(
    r"\b[0-9a-f]{12,64}\b|-?\d[\d,.]*(e-?\d+)?"
)  # hashes too; they differ from machine to machine


def commands(page):
    """Commands of a page, in their order, each with the output that is shown."""
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf8"), re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def scripts(page):
    """Python that needs the files which the commands have made; what has prompts is a doctest."""
    return re.findall(r"^```python\n(?!>>>)(.*?)^```", page.read_text(encoding="utf8"), re.M | re.S)


def words(text):
    return NUMBER.sub("#", text).split()


def typed(command):
    """What a command prints, `atlas` in this process."""
    name, *arguments = shlex.split(command)
    if name == "atlas":
        return run(app, arguments).output
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "README",
        "docs/command",
        "docs/guides/tables",
        "docs/guides/undoing",
        "docs/guides/explain",
        "docs/guides/patches",
        "docs/guides/onnx",
    ],
)
def test_commands_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    for command, shown in commands(ROOT / f"{page}.md"):
        assert words(typed(command)) == words(shown), command
    for script in scripts(ROOT / f"{page}.md"):
        exec(compile(script, page, "exec"), {})


def anchors(page):
    """Names of the headings of a page, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        made_by_sphinx = name.endswith(".rst")
        if "://" not in link and not made_by_sphinx:
            assert target.exists(), f"{link}: there is no such file"
            assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_the_manual_has_every_page_once():
    """Each page stands in one table of contents; Sphinx tells too, but takes longer."""
    listed = []
    for page in PAGES:
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf8"), re.M | re.S):
            listed += [
                (page.parent / f"{name}.md").resolve() for name in re.findall(r"^[\w./]+$", tree, re.M)
            ]
    assert len(listed) == len(set(listed))
    apart = {ROOT / "docs" / "index.md", ROOT / "docs" / "arena" / "table.md"}
    assert set(PAGES[1:]) - set(listed) == apart


def test_the_page_of_the_arena_counts_its_methods():
    text = (ROOT / "docs" / "arena" / "README.md").read_text(encoding="utf8")
    assert f"`atlas arena` puts {len(METHODS)} methods through the same" in text


@pytest.mark.parametrize("module", ["", ".plots", ".versions", ".dask", ".river", ".nn"])
def test_the_reference_has_every_name(module):
    text = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf8")
    sections = dict(re.findall(r"currentmodule:: (\S+)\n(.*?)(?=\.\. currentmodule|\Z)", text, re.S))
    listed = re.findall(r"^   (\w+)$", sections[f"atlas_splines{module}"], re.M)
    assert sorted(listed) == sorted(import_module(f"atlas_splines{module}").__all__)
