"""The recipe for git in docs/versions.md, tried with git itself."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from branches import charted
from command import COMMAND

from atlas_splines import Atlas, load, save
from atlas_splines.versions import merge, version

DOCS = Path(__file__).parents[2] / "docs" / "versions.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository set up as documented, with a model that two branches have taught something."""
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):  # those of whoever runs the tests do not count
        monkeypatch.setenv(name, os.devnull)
    atlas = tmp_path / "bin" / "atlas"
    atlas.parent.mkdir()
    atlas.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n', encoding="utf8")
    atlas.chmod(0o755)
    monkeypatch.setenv("PATH", f"{atlas.parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    git("init", "-q", "-b", "main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    for line in documented():
        subprocess.run(line, shell=True, check=True)
    return tmp_path / "work"


def documented():
    """The lines of the recipe."""
    recipe = DOCS.read_text(encoding="utf8").split("## Git")[1]
    return [line[2:] for line in re.search("```console\n(.*?)```", recipe, re.S)[1].splitlines()]


def git(*arguments, check=True):
    result = subprocess.run(["git", *arguments], capture_output=True, text=True)
    assert result.returncode == 0 or not check, result.stdout + result.stderr
    return result


def commit(model, name="m.atlas"):
    save(model, name)
    git("add", "-A")
    git("commit", "-q", "-m", "another version")


def two_branches(base, ours, theirs):
    commit(base)
    git("checkout", "-q", "-b", "theirs")
    commit(theirs)
    git("checkout", "-q", "main")
    commit(ours)


def test_git_merges_models_and_shows_their_differences(repository):
    base = Atlas(inputs=2, density=0, terms=1)
    ours, theirs = charted(base, 0), charted(base, 1, 2)
    two_branches(base, ours, theirs)
    shown = git("diff", "theirs", "main").stdout
    assert "Only in" in shown
    assert "Can differ: rows with all of these" in shown
    git("merge", "-q", "-m", "both", "theirs")
    assert version(load("m.atlas")) == version(merge(base, theirs, ours))
    assert git("status", "--porcelain").stdout == ""


def test_a_conflict_is_one_for_git_too(repository):
    base = Atlas(inputs=2, density=0, terms=1)
    ours, theirs = charted(base, 0), charted(base, 0, 2)
    two_branches(base, ours, theirs)
    result = git("merge", "-q", "-m", "both", "theirs", check=False)
    assert result.returncode == 1
    assert "CONFLICT (content): Merge conflict in m.atlas" in result.stdout
    assert "Conflict: update 1 of " in result.stdout + result.stderr
    assert version(load("m.atlas")) == version(ours)
    for stage, name in enumerate(("base", "ours", "theirs"), start=1):
        data = subprocess.run(["git", "show", f":{stage}:m.atlas"], capture_output=True, check=True).stdout
        Path(f"../{name}.atlas").write_bytes(data)
    command = ["atlas", "merge", "../base.atlas", "../ours.atlas", "../theirs.atlas", "-o", "m.atlas"]
    subprocess.run([*command, "--theirs", "--force"], check=True, capture_output=True)
    git("add", "m.atlas")
    git("commit", "-q", "-m", "both")
    assert version(load("m.atlas")) == version(merge(base, ours, theirs, prefer="theirs"))
