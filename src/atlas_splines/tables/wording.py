"""Words and numbers in the sentences that users read."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["TableError", "counted", "listed", "one_line"]


class TableError(ValueError):
    """Something is wrong with a table; the message names the file, row and column, and says what to do."""


def listed(names: Collection[object], most: int = 12) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(map(repr, list(names)[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(count: int, what: str) -> str:
    """A number of things, one or several.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def one_line(error: object) -> str:
    """A message of a library as a part of a sentence."""
    return " ".join(str(error).split()).rstrip(".;")
