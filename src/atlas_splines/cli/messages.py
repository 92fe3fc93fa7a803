"""What commands print: lines, tables, notes, and the one line that they fail with.

Names in them may come from files of others: whatever would steer a terminal is escaped here, for all.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TextIO

import typer

from atlas_splines.tables.wording import visible

__all__ = ["Failed", "Say", "aligned", "fail", "note", "say", "sentences", "silent"]

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


def say(message: str) -> None:
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
