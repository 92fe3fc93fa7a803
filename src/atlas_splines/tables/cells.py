"""Cells: the values of one column in a chunk of a table, parsed as numbers, strings or class labels."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from atlas_splines.tables.dialects import PLAIN
from atlas_splines.tables.source import MISSING, Piece, TableError
from atlas_splines.tables.wording import Advice, choice, listed

__all__ = ["Cells", "Label", "as_labels", "as_names", "as_narrow", "has_comma"]

Array = NDArray[np.float64]
Label = str | bool | int | float

# Numbers beyond it are refused: its square is still finite in float64.
LARGEST = 1e150
DATE_TYPES = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_time)
NUMBER_TYPES = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)

# Numbers with a decimal comma: with points between thousands, with a point elsewhere, with the comma itself.
THOUSANDS = r"^\s*[+-]?\d{1,3}(\.\d{3})+(,\d*)?\s*$"
POINTED = r"^\s*[+-]?\d*\.\d*([eE][+-]?\d+)?\s*$"
WITH_DECIMAL_COMMA = r"^(\s*[+-]?\d*),(\d*([eE][+-]?\d+)?\s*)$"

# Parts of messages that are raised in several places.
MISSING_TARGET = "the target is missing; fill it in, or add --skip-missing"
WITH_COMMA = "has a comma; write numbers without commas and with a decimal point, such as 3.5"
NO_NUMBERS = "these are dates or times, and fit had numbers; give numbers"


@dataclass(frozen=True)
class Cells:
    """One column of a piece of a table.

    Attributes
    ----------
    piece
        The piece of a table that they are in.
    column
        Name of the column.
    values
        The cells, as float64, as strings, or as dates or times, whatever they were stored as.
    stored
        The type they were stored as.
    """

    piece: Piece
    column: str
    values: pa.Array
    stored: pa.DataType

    @classmethod
    def of(cls, piece: Piece, column: str) -> Cells:
        """Cells of a piece, parsed by their type."""
        values = piece.table[column].combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        cells = cls(piece, column, values, values.type)._as_text_or_numbers()
        if cells.is_temporal or piece.source.dialect == PLAIN:
            return cells
        return cells._without_missing(piece.source.dialect.missing)._with_points(piece.source.dialect.decimal)

    def _without_missing(self, missing: Sequence[str]) -> Cells:
        """Cells with the dialect's missing values as null; numbers are compared as numbers."""
        if pa.types.is_floating(self.values.type):
            marks = [float(text) for text in missing if as_numbers(pa.array([text])) is not None]
            gone = pc.is_in(self.values, pa.array(marks, pa.float64()))
        else:
            gone = pc.is_in(pc.utf8_trim_whitespace(self.values), pa.array(missing, pa.string()))
        return replace(self, values=pc.if_else(gone, pa.scalar(None, self.values.type), self.values))

    def _with_points(self, decimal: str) -> Cells:
        """Cells whose numbers have decimal points, as numbers have elsewhere."""
        if decimal == "." or pa.types.is_floating(self.values.type):
            return self
        grouped = pc.match_substring_regex(self.values, THOUSANDS)
        values = pc.if_else(grouped, pc.replace_substring(self.values, ".", ""), self.values)
        pointed = pc.fill_null(pc.match_substring_regex(values, POINTED), False).to_numpy(
            zero_copy_only=False
        )
        if pointed.any():
            at = int(np.argmax(pointed))
            self.fail(
                at, f"{self.values[at].as_py()!r} has a point, and the decimal mark is a comma; correct it"
            )
        return replace(self, values=pc.replace_substring_regex(values, WITH_DECIMAL_COMMA, r"\1.\2"))

    def _as_text_or_numbers(self) -> Cells:
        kind = self.values.type
        if is_text(kind) or pa.types.is_boolean(kind):
            return replace(self, values=self.values.cast(pa.string()))
        if any(test(kind) for test in NUMBER_TYPES):
            return replace(self, values=self.values.cast(pa.float64(), safe=False))
        if any(test(kind) for test in DATE_TYPES):
            return self
        self.fail(None, f"values of type {kind} are not understood; {self.advice.leave_out}")

    @property
    def emptied(self) -> Cells:
        """The column without cells, for messages about it."""
        piece = replace(self.piece, table=self.piece.table.schema.empty_table())
        return replace(self, piece=piece, values=pa.array([], self.values.type))

    def fail(self, at: int | None, what: str) -> NoReturn:
        """Raise a `TableError` that names a cell, or the column."""
        row = "" if at is None else f"row {self.piece.first_row + at}, "
        raise TableError(f"{self.piece.source.name}, {row}column {self.column!r}: {what}")

    @property
    def advice(self) -> Advice:
        """What the user can do about it."""
        return self.piece.source.advice

    def missing_advice(self, text: str) -> list[str]:
        """How the user can have a string read as a missing value, if there is an option for it."""
        way = self.advice.missing.format(text=text.strip())
        return [way] if way else []

    @property
    def is_temporal(self) -> bool:
        """Whether dates or times were stored as such."""
        return any(test(self.values.type) for test in DATE_TYPES)

    @property
    def holds_texts(self) -> bool:
        """Whether the cells were stored as strings."""
        return is_text(self.stored)

    @property
    def texts(self) -> pa.Array:
        """The cells as strings."""
        return as_text(self.values)

    def numbers_or_none(self) -> Array | None:
        """Numbers with NaN for missing ones, or None if a cell is not a number."""
        found = None if self.is_temporal else as_numbers(self.values)
        if found is not None and (np.abs(found) > LARGEST).any():
            at = int(np.argmax(np.abs(found) > LARGEST))
            what = "infinite" if np.isinf(found[at]) else f"beyond {LARGEST:g}, too large to compute with"
            self.fail(at, f"the number is {what}; correct it or leave it empty")
        return found

    def numbers(self) -> Array:
        """Numbers with NaN for missing ones."""
        found = self.numbers_or_none()
        if self.is_temporal:
            self.fail(None, NO_NUMBERS)
        if found is None:
            at = self.first_text()
            text = self.values[at].as_py()
            commas = f"{WITH_COMMA}{self.advice.decimal}"
            ways = choice(["correct it", "leave it empty", *self.missing_advice(text)])
            what = commas if has_comma(text) else f"is not a number; {ways}"
            self.fail(at, f"{text!r} {what}")
        return found

    def codes(self, categories: Sequence[Label], unknown: str | None) -> NDArray[np.int64]:
        """Position of each string among the categories, −1 for a missing one.

        For an unknown one `unknown` is the advice to raise; None gives it the number of the categories.
        """
        encoded = self.texts.dictionary_encode()
        texts = as_names(encoded.dictionary)
        found = pc.index_in(texts, as_names(as_text(pa.array(categories))))
        strange = pc.and_(pc.is_null(found), pc.is_valid(texts)).to_numpy(zero_copy_only=False)
        # the last position is that of missing cells: (texts + 1,)
        position = np.append(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), -1).astype(np.int64)
        position[:-1][strange] = len(categories)
        index = pc.fill_null(encoded.indices, len(texts)).to_numpy(zero_copy_only=False)
        if unknown is not None and strange.any():
            at = int(np.flatnonzero(np.append(strange, False)[index])[0])
            had = f"was not there in fit, which had {listed(categories, 6)}"
            self.fail(at, f"{self.values[at].as_py()!r} {had}; {unknown}")
        return position[index]

    def present(self, skip: bool) -> NDArray[np.bool_]:
        """Mask of the cells of a target that are present; a missing one is refused, or skipped."""
        if pa.types.is_floating(self.values.type):
            there = ~np.isnan(with_nan(self.values))
        else:
            there = trimmed(self.texts).is_valid().to_numpy(zero_copy_only=False)
        if not skip and not there.all():
            self.fail(int(np.argmin(there)), MISSING_TARGET)
        return there

    def spellings(self) -> dict[str, str]:
        """The distinct strings by normalised name, each in its first spelling."""
        texts = trimmed(self.texts.unique())
        pairs = zip(as_names(texts).to_pylist(), texts.to_pylist(), strict=True)
        return {name: text for name, text in reversed([*pairs]) if name is not None}

    def unknown(self, categories: Sequence[Label]) -> list[str]:
        """Normalised strings that are not among the categories, in order."""
        known = {*as_names(as_text(pa.array(categories))).to_pylist()}
        return [name for name in self.spellings() if name not in known]

    def unknown_classes(self, classes: Sequence[Label]) -> list[Label]:
        """New class labels, as values of the type of the known ones."""
        new, spelled, kind = self.unknown(classes), self.spellings(), type(classes[0])
        if kind is str:
            return [spelled[name] for name in new]
        try:
            return [{int: int, float: float}[kind](name) for name in new]
        except (KeyError, ValueError):  # of true and false there are but two
            had = f"was not there in fit, which had {listed(classes, 6)}"
            self.fail(None, f"{new[0]!r} {had}; correct it")

    def first_text(self) -> int:
        """Index of the first cell that is not a number, by bisection; there must be one."""
        low, high = 0, len(self.values)
        while high - low > 1:
            middle = (low + high) // 2
            in_first_half = as_numbers(self.values.slice(low, middle - low)) is None
            low, high = (low, middle) if in_first_half else (middle, high)
        return low


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of that type holds text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"


def has_comma(text: str) -> bool:
    """Whether a string is a number with commas in it.

    Examples
    --------
    >>> has_comma("-3,5"), has_comma("1,234.5"), has_comma("3.5"), has_comma("a,b")
    (True, True, False, False)
    """
    return re.fullmatch(r"\s*[+-]?[\d.]+(,[\d.]+)+(e[+-]?\d+)?\s*", text, re.IGNORECASE) is not None


def as_text(values: pa.Array) -> pa.Array:
    """Numbers as strings, where they serve as categories; whole ones are written as such."""
    if not pa.types.is_floating(values.type):
        return values.cast(pa.string())
    whole = pc.and_(pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), 2.0**53))
    digits = values.cast(pa.int64(), safe=False).cast(pa.string())
    return pc.if_else(whole, digits, values.cast(pa.string()))


def as_labels(texts: Iterable[str], stored: pa.DataType) -> list[Label]:
    """Class labels with the type they were stored as; fractions, which are not labels, stay strings."""
    array = pa.array(texts, pa.string())
    if pa.types.is_floating(stored) and not all(text.lstrip("-").isdigit() for text in array.to_pylist()):
        return array.to_pylist()
    typed = any(test(stored) for test in (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating))
    return array.cast(stored).to_pylist() if typed else array.to_pylist()


def as_narrow(labels: NDArray[Any], rows: pa.Table, column: str) -> NDArray[Any]:
    """Classes that are whole numbers with as many bits as in the column they come from."""
    stored = rows.schema.field(column).type
    return labels.astype(stored.to_pandas_dtype()) if pa.types.is_integer(stored) else labels


def as_numbers(values: pa.Array) -> Array | None:
    """Numbers with NaN for missing ones, or None if a string is not a number."""
    with contextlib.suppress(pa.ArrowInvalid):
        return with_nan(values)
    with contextlib.suppress(pa.ArrowInvalid):  # trimming costs time, and is rarely needed
        return with_nan(trimmed(values))
    return None


def with_nan(values: pa.Array) -> Array:
    """Values or strings as numbers."""
    return pc.fill_null(values.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)


def trimmed(texts: pa.Array) -> pa.Array:
    """Strings without surrounding whitespace, and null for missing ones."""
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(texts, pa.array(MISSING)), pa.scalar(None, pa.string()), texts)


def as_names(texts: pa.Array) -> pa.Array:
    """Normalised strings: trimmed, true and false in lower case, integers without a decimal point."""
    texts = pc.replace_substring_regex(trimmed(texts), r"^([+-]?\d+)\.0*$", r"\1")
    is_flag = pc.is_in(texts, pa.array(["True", "TRUE", "False", "FALSE"]))
    return pc.if_else(is_flag, pc.utf8_lower(texts), texts)
