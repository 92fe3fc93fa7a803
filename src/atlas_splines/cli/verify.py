"""`atlas verify`: check every hash of a model file."""

from __future__ import annotations

from pathlib import Path

from atlas_splines.cli.checks import check_there
from atlas_splines.cli.messages import Say
from atlas_splines.cli.output import Facts
from atlas_splines.tables.wording import counted
from atlas_splines.versions.verifying import verify

__all__ = ["verify_model"]


def verify_model(path: Path, expect: str | None, say: Say) -> Facts:
    """Say whether a file is as it was written, and if not, where it differs."""
    check_there(path)
    found = verify(path, expect=expect)
    if found:
        say(f"{path}: every hash is right, over {counted(found.updates, 'update')}.")
        say(f"Version: {found.version}")
        if not found.has_parts:
            say("It was written before parts had digests: its checksum and its log were checked.")
    for problem in found.problems:
        say(f"{path}: {problem}.")
    return {
        "model": path,
        "version": found.version,
        "updates": found.updates,
        "problems": list(found.problems),
    }
