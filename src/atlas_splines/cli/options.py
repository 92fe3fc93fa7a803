"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Force", "Model", "Wait"]

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, such as model.atlas.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for another process on the same file.")]
