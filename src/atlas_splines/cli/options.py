"""Options that several commands have."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AsJson", "Force", "Model", "Quiet", "Verbose", "Wait", "model_files"]


def model_files(begun: str) -> list[str]:
    """Model files, and folders that may have some, whose names begin so: for the completion of shells."""
    paths = sorted(glob.glob(f"{glob.escape(begun)}*"))
    folders = [f"{path}/" for path in paths if os.path.isdir(path)]
    return [path for path in paths if path.endswith(".atlas")] + folders


Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Model file, such as model.atlas.", autocompletion=model_files),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for another process on the same file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tell each step and its seconds.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
