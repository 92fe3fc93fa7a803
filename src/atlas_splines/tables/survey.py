"""Surveys: what the columns of a table hold, found out piece by piece."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from atlas_splines.tables.cells import DATES, LEAVE_OUT, WITH_COMMA, Cells, Label, as_labels, has_comma
from atlas_splines.tables.encoding import Column

__all__ = ["Survey"]

# Different texts that a column may hold.
MOST_CATEGORIES = 10_000
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b.*|\d{1,2}:\d{2}\b.*")


class Survey:
    """Finds out, piece by piece, whether a column holds numbers or categories, and which.

    Parameters
    ----------
    category
        Whether to take it as categories in any case.
    option
        The option of the command that says so.
    """

    def __init__(self, *, category: bool, option: str) -> None:
        self.forced, self.option = category, option
        self.is_text = category
        self.any_number = False
        self.categories: dict[str, str] = {}  # by name, as spelled first
        self.stored: Any = None

    def add(self, cells: Cells) -> None:
        """See one piece."""
        found = None if self.is_text else cells.numbers_or_none()
        if found is None:
            self.is_text = True
            self._add_texts(cells)
        else:
            self.any_number |= not np.isnan(found).all()

    def _add_texts(self, cells: Cells) -> None:
        new = {name: text for name, text in cells.spellings().items() if name not in self.categories}
        if not self.forced:
            if any(map(has_comma, new)) and all(has_comma(text) or is_number(text) for text in new):
                self._refuse_comma(cells)
            if new and not self.categories and all(map(DATE.fullmatch, new)):
                cells.fail(None, DATES)
            if self.any_number or any(map(is_number, new)):
                self._refuse_mixture(cells)
        self.categories |= new
        if len(self.categories) > MOST_CATEGORIES:
            cells.fail(None, f"there are more than {MOST_CATEGORIES:,} different texts; {LEAVE_OUT}")
        self.stored = cells.stored

    def _refuse_comma(self, cells: Cells) -> None:
        values = cells.values.to_pylist()
        at = next(i for i, value in enumerate(values) if value and has_comma(value))
        cells.fail(at, f"{values[at]!r} {WITH_COMMA}, or add {self.option}")

    def _refuse_mixture(self, cells: Cells) -> None:
        values = cells.values.to_pylist()
        if self.categories:
            at = next(i for i, value in enumerate(values) if value and is_number(value))
            what = "is a number among texts"
        else:
            at, what = cells.first_text(), "is not a number, as other cells are"
        text = values[at]
        cells.fail(at, f"{text!r} {what}; correct it, leave it empty, or add {self.option}")

    @property
    def labels(self) -> list[Label]:
        """The categories as they are in the file."""
        return as_labels(self.categories.values(), self.stored)

    def column(self, name: str) -> Column:
        """The column as a model's input."""
        return Column(name, tuple(sorted(self.categories)) or None)


def is_number(text: str) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
