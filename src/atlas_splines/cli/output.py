"""What commands print: results as text or JSON, messages, and progress on a terminal."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TextIO, TypeVar

import typer

from atlas_splines.tables.wording import visible

__all__ = [
    "Facts",
    "Failed",
    "Output",
    "Progress",
    "Say",
    "aligned",
    "echo",
    "fail",
    "note",
    "output_of",
    "sentences",
    "silent",
]

Say = Callable[[str], None]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with straight columns.

    Examples
    --------
    >>> aligned([("id", "rows"), ("1", "200")])
    ['id  rows', '1   200']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


class Failed(typer.Exit):
    """A command ends with one line on standard error, and an exit code."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(code)
        self.message = message


@contextlib.contextmanager
def sentences(note: Say) -> Iterator[None]:
    """Turn whatever is wrong with files and options into one line and exit code 2; warnings are lines too."""
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category.__module__.startswith("atlas_splines"):
            note(f"atlas: {message}")
        else:
            show_others(message, category, filename, lineno, file, line)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    except BrokenPipeError:
        raise
    except (ValueError, OSError, ArithmeticError, MemoryError, RuntimeError) as error:
        if isinstance(error, typer.Exit | typer.Abort):
            raise
        fail(" ".join(str(error).split()) or type(error).__name__)


def echo(message: str) -> None:
    """Print a line of a command that changes a file: if nobody reads on, it is finished all the same."""
    try:
        typer.echo(visible(message))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(message: str) -> None:
    """Tell something beside the result, on standard error."""
    typer.echo(visible(message), err=True)


def silent(message: str) -> None:
    """Say nothing."""


def fail(message: str) -> NoReturn:
    """End the command with one line on standard error, which `output_of` writes."""
    raise Failed(message)


Piece = TypeVar("Piece")

DELAY = 2.0  # seconds of a command before anything is shown
PAUSE = 0.2  # seconds between two looks of the line


class Progress:
    """Tells what is going on, and since when.

    A terminal has one such line: while a command runs another one, the line of the inner one is shown.

    Parameters
    ----------
    title
        What is told as long as there is nothing more to say.
    shown
        Whether to show a line, on standard error. A command that is over sooner shows none.
    finished
        Called with a line for each step when it is over.
    """

    _running: ClassVar[list[Progress]] = []  # from the outermost command to the innermost

    def __init__(self, title: str, shown: bool, finished: Callable[[str], None]) -> None:
        self._text, self._shown, self._finished = title, shown, finished
        self._start, self._width = time.monotonic(), 0  # of what stands on the terminal
        self._over, self._drawing = threading.Event(), threading.RLock()

    @classmethod
    def none(cls) -> Progress:
        """No line at all."""
        return cls("", False, lambda line: None)

    def __enter__(self) -> Progress:
        if self._shown:
            self._running.append(self)
            for outer in self._running[:-1]:
                outer.hide()
            self._reporter = threading.Thread(target=self._keep_reporting, daemon=True)
            self._reporter.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._over.set()
        if self._shown:
            self._reporter.join()
            self._running.remove(self)
            self.hide()

    def _keep_reporting(self) -> None:
        """Bring the line up to date, also while one step takes long."""
        pause = DELAY
        while not self._over.wait(pause):
            self._draw()
            pause = PAUSE

    def _draw(self) -> None:
        """Write the line over the one before, as much of it as the terminal has room for."""
        minutes, seconds = divmod(int(time.monotonic() - self._start), 60)
        room = shutil.get_terminal_size().columns - 1
        line = visible(f"{self._text} {minutes:02}:{seconds:02}")[:room]
        with self._drawing:
            if self._running[-1] is self:
                self._write(f"\r{line.ljust(self._width)}")
                self._width = len(line)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def hide(self) -> None:
        """Take the line away, so that another one can be printed."""
        with self.hidden():
            pass

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Keep the line away, as long as others are printed."""
        with self._drawing:
            if self._width:
                self._write(f"\r{' ' * self._width}\r")
                self._width = 0
            yield

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Tell of one thing, as long as it is done."""
        before, start = self._text, time.perf_counter()
        self._text = name
        try:
            yield
        finally:
            self._text = before
            with self.hidden():
                self._finished(f"{name}: {time.perf_counter() - start:.1f} s")

    @contextlib.contextmanager
    def watched(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Tell how many of so many parts of a table are done."""
        with self.step(name):

            def report(done: int) -> None:
                self._text = f"{name}: {done:,} of {total:,} parts"

            report(0)
            yield report

    def counted(
        self, name: str, pieces: Iterable[Piece], rows: Callable[[Piece], int], total: int | None = None
    ) -> Iterator[Piece]:
        """The pieces of a table; tells how many rows have come, of how many if that is known."""
        count, of_all = 0, "" if total is None else f" of {total:,}"
        with self.step(name):
            for piece in pieces:
                count += rows(piece)
                self._text = f"{name}: {count:,}{of_all} rows"
                yield piece


# What a command has done, by name: the fields of its JSON object.
Facts = Mapping[str, Any]


@dataclass
class Output:
    """Where a command tells what.

    Attributes
    ----------
    echo
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

    echo: Say
    note: Say
    progress: Progress
    as_json: bool
    stdout: TextIO
    facts: Facts | None = None

    def report(self, facts: Facts) -> None:
        """Give the result as JSON, if that is wanted; at once, for a command that goes on."""
        if self.as_json:
            with contextlib.redirect_stdout(self.stdout):
                echo(json.dumps(plain(facts), ensure_ascii=False))

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
    told = above(progress, silent if quiet or as_json else echo)
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
            out.report(out.facts)


def above(progress: Progress, report: Say) -> Say:
    """Tell lines in the place of the progress line, which comes again below them."""

    def report_above(line: str) -> None:
        with progress.hidden():
            report(line)

    return report_above


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
