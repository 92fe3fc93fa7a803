"""Dialects: how a table is written where files differ, and their types do not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from atlas_splines.files.fields import Fields
from atlas_splines.tables.wording import TableError

__all__ = ["BLANKS", "PLAIN", "Dialect"]

# A separator that stands for any number of spaces and tabs.
BLANKS = " "
SPELLED_SEPARATORS = {"tab": "\t", r"\t": "\t", "blank": BLANKS, "blanks": BLANKS, "space": BLANKS}


@dataclass(frozen=True)
class Dialect:
    """How a table is written.

    Attributes
    ----------
    separator
        What separates the cells of a text file: one character, a space for any number of spaces and tabs, or
        "" to find out.
    header
        Whether the first row has the names of columns; if not, these are numbered from 1.
    missing
        What stands for a missing value, besides empty cells, NA and the like.
    decimal
        The decimal mark, "." or ","; with a comma, points between thousands are left out.
    """

    separator: str = ""
    header: bool = True
    missing: tuple[str, ...] = ()
    decimal: str = "."

    def told(
        self,
        separator: str | None = None,
        header: bool | None = None,
        missing: Sequence[str] = (),
        decimal: str | None = None,
    ) -> Dialect:
        r"""The dialect as a user tells it; what is not told stays.

        Examples
        --------
        >>> Dialect(missing=("?",)).told(separator="tab")
        Dialect(separator='\t', header=True, missing=('?',), decimal='.')
        """
        told = {
            "separator": None if separator is None else SPELLED_SEPARATORS.get(separator, separator),
            "header": header,
            "missing": tuple(dict.fromkeys(text.strip() for text in missing)) or None,
            "decimal": decimal,
        }
        new = replace(self, **{name: value for name, value in told.items() if value is not None})  # type: ignore[arg-type]
        new.check()
        return new

    def check(self) -> None:
        """Refuse what no file is written with."""
        if len(self.separator) > 1 or self.separator in ('"', "\n", "\r"):
            raise TableError(
                f"--separator must be one character, tab or blank, not {self.separator!r}; correct it"
            )
        if self.decimal not in (".", ","):
            raise TableError(f"--decimal must be a point or a comma, not {self.decimal!r}; correct it")
        if self.decimal == self.separator:
            raise TableError(f"{self.decimal!r} cannot be separator and decimal mark at once; correct one")

    def to_json(self) -> dict[str, Any]:
        """The dialect as JSON has it."""
        return {**asdict(self), "missing": list(self.missing)}

    @classmethod
    def from_json(cls, value: object) -> Dialect:
        """Read `to_json`, or raise a ValueError that says what is wrong."""
        fields = Fields(value, "the dialect of the table", ("separator", "header", "missing", "decimal"))
        missing = fields.items("missing")
        if any(type(text) is not str for text in missing):
            raise ValueError(f"'missing' of {fields.name} must be texts")
        dialect = cls(fields.text("separator"), fields.flag("header"), tuple(missing), fields.text("decimal"))
        dialect.check()
        return dialect


# How tables are written if nothing is said.
PLAIN = Dialect()
