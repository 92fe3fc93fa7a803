"""Formatting of words and numbers in messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = [
    *("COMMAND", "FRAME", "TableError", "Advice"),
    *("choice", "counted", "listed", "one_line", "byte_size", "visible"),
]

# Characters that control a terminal or cannot be encoded: control characters, line and paragraph separators,
# bidirectional overrides, and lone surrogates.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class TableError(ValueError):
    """An invalid table; the message names the file, row and column, and what to do."""


@dataclass(frozen=True)
class Advice:
    """Advice on a column that cannot be read, in terms of the command or of Python.

    Attributes
    ----------
    leave_out
        How to leave it out.
    category
        How to have it read as categories, whatever it holds; {column} is its name.
    day_first
        How to choose whether days or months come first in its dates.
    decimal
        How to have numbers read that have decimal commas.
    missing
        How to have a string read as a missing value; {text} is that string.
    """

    leave_out: str
    category: str
    day_first: str
    decimal: str
    missing: str


COMMAND = Advice(
    leave_out="leave the column out with --ignore",
    category="add --category {column}",
    day_first="choose with --date {column}=day-first or --date {column}=month-first",
    decimal=", or add --decimal ','",
    missing="add --na {text!r} if it stands for a missing value",
)
FRAME = Advice(
    leave_out="leave the column out",
    category="turn the column into categories",
    day_first="choose with dates={{'{column}': 'day-first'}} or 'month-first'",
    decimal="",
    missing="",
)


def listed(names: Collection[object], most: int = 12) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(map(repr, list(names)[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def choice(ways: Sequence[str]) -> str:
    """Alternatives, joined by commas and "or".

    Examples
    --------
    >>> choice(["a", "b"]), choice(["a", "b", "c"])
    ('a or b', 'a, b, or c')
    """
    if len(ways) < 3:
        return " or ".join(ways)
    return f"{', '.join(ways[:-1])}, or {ways[-1]}"


def counted(count: int, what: str) -> str:
    """A number of things, one or several.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def one_line(error: object) -> str:
    """A library's error message as a part of a sentence."""
    return " ".join(str(error).split()).rstrip(".;")


def visible(line: str) -> str:
    r"""A line with control characters escaped, as names in it may come from an untrusted file.

    Such a name could colour, hide or forge what a terminal shows. Escapes are those of JSON, so that a line
    of JSON means the same afterwards.

    Examples
    --------
    >>> print(visible("price\x1b[8m, São Paulo"))
    price\u001b[8m, São Paulo
    """
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def byte_size(size: int) -> str:
    """The size of a file, in the unit that suits it.

    Examples
    --------
    >>> byte_size(820), byte_size(64_300), byte_size(1_240_000), byte_size(2_460_000_000)
    ('820 bytes', '64 kB', '1.2 MB', '2.5 GB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1000:.0f} kB" if size >= 1000 else f"{size} bytes"
