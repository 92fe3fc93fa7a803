"""What a command tells: lines, notes, a progress line, or one JSON object instead of all lines."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from atlas_splines.cli.messages import Failed, Say, note, say, sentences, silent
from atlas_splines.cli.progress import Progress

__all__ = ["Facts", "Output", "output_of"]

# What a command has done, by name: the fields of its JSON object.
Facts = Mapping[str, Any]


@dataclass
class Output:
    """Where a command tells what.

    Attributes
    ----------
    say
        For lines of the result.
    note
        For what stands beside it, on standard error.
    progress
        For what is going on.
    as_json
        Whether the result is one JSON object on standard output, instead of lines.
    stdout
        Standard output, which gets nothing else then.
    facts
        The fields of this object, given when the command is over.
    """

    say: Say
    note: Say
    progress: Progress
    as_json: bool
    stdout: TextIO
    facts: Facts | None = None

    def tell(self, facts: Facts) -> None:
        """Give the result as JSON, if that is wanted; at once, for a command that goes on."""
        if self.as_json:
            with contextlib.redirect_stdout(self.stdout):
                say(json.dumps(plain(facts), ensure_ascii=False))

    def need_file(self, output: str) -> None:
        """Refuse to write both a table and JSON to standard output."""
        if self.as_json and output == "-":
            raise ValueError("--json needs standard output for itself; name a file with -o")


@contextlib.contextmanager
def output_of(
    command: str, quiet: bool, verbose: bool, as_json: bool, *, line: bool = True
) -> Iterator[Output]:
    """The output of a command as its options want it; whatever is wrong becomes one line.

    Without `line` no progress is shown: the command runs until it is stopped, or the terminal is needed.
    """
    title = f"atlas {command}"
    noted = silent if quiet else note
    progress = Progress(title, line and not quiet and sys.stderr.isatty(), noted if verbose else silent)
    told = above(progress, silent if quiet or as_json else say)
    out = Output(told, above(progress, noted), progress, as_json, sys.stdout)
    try:
        with sentences(out.note), quiet_stdout(as_json), progress, progress.step(title):
            yield out
    except Failed as failed:
        note(f"atlas: {failed.message}")
        out.facts = {"error": failed.message}
        raise
    finally:
        if out.facts is not None:
            out.tell(out.facts)


def above(progress: Progress, tell: Say) -> Say:
    """Tell lines in the place of the progress line, which comes again below them."""

    def tell_above(line: str) -> None:
        with progress.hidden():
            tell(line)

    return tell_above


def quiet_stdout(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    """Let whatever prints by itself, such as training, print to standard error."""
    return contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext()


def plain(value: Any) -> Any:
    """A value as JSON has it; what is no number becomes null.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> plain({"a": np.float64(0.5), "b": (float("nan"), Path("m.atlas"))})
    {'a': 0.5, 'b': [None, 'm.atlas']}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):  # of NumPy, which is not imported here: help has to answer at once
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
