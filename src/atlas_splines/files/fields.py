"""Fields of a JSON object, each checked as it is read."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from datetime import datetime
from reprlib import repr as shortened
from typing import Any, NoReturn

import numpy as np

from atlas_splines.model.checks import check_size

__all__ = ["Fields"]


class Fields:
    """A JSON object with exactly these fields, each checked as it is read.

    Examples
    --------
    >>> Fields({"rows": -1}, "update 3", ["rows"]).whole("rows")
    Traceback (most recent call last):
    ...
    ValueError: 'rows' of update 3 must be at least 0, not -1
    """

    def __init__(self, value: object, name: str, fields: Collection[str]) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be a JSON object, not {shortened(value)}")
        for field_name in fields:
            if field_name not in value:
                raise ValueError(f"{field_name!r} of {name} is missing")
        for field_name in value:
            if field_name not in fields:
                raise ValueError(f"{shortened(field_name)} has no place in {name}")
        self.value, self.name = value, name

    @classmethod
    def with_optional(cls, value: object, name: str, fields: Collection[str], *optional: str) -> Fields:
        """A JSON object with these fields, and optional ones."""
        there = [field for field in optional if isinstance(value, dict) and field in value]
        return cls(value, name, (*fields, *there))

    def _refuse(self, key: str, wanted: str) -> NoReturn:
        raise ValueError(f"{key!r} of {self.name} must be {wanted}, not {shortened(self.value[key])}")

    def whole(self, key: str, least: int = 0, most: int = 2**53) -> int:
        """Return a whole number."""
        if type(self.value[key]) is not int:
            self._refuse(key, "a whole number")
        return check_size(f"{key!r} of {self.name}", self.value[key], least=least, most=most)

    def number(self, key: str, least: float = -math.inf) -> float:
        """Return a finite number of at least `least`."""
        value = self.value[key]
        if type(value) not in (int, float) or not least <= value <= np.finfo(np.float64).max:
            self._refuse(key, "a finite number" if least == -math.inf else f"a number of at least {least}")
        return float(value)

    def text(self, key: str, pattern: str = "") -> str:
        """Return a string that matches a pattern as a whole."""
        value = self.value[key]
        if not isinstance(value, str) or (pattern and not re.fullmatch(pattern, value)):
            self._refuse(key, f"a string like {pattern}" if pattern else "a string")
        return value

    def choice(self, key: str, options: Collection[str]) -> str:
        """Return one of the options."""
        if not isinstance(self.value[key], str) or self.value[key] not in options:
            self._refuse(key, "one of " + ", ".join(map(repr, options)))
        return str(self.value[key])

    def flag(self, key: str) -> bool:
        """Return true or false."""
        if not isinstance(self.value[key], bool):
            self._refuse(key, "true or false")
        return bool(self.value[key])

    def time(self, key: str) -> datetime:
        """Return a time with its offset from UTC."""
        try:
            time = datetime.fromisoformat(self.text(key))
        except ValueError:
            self._refuse(key, "a time")
        return time if time.tzinfo is not None else self._refuse(key, "a time with its offset from UTC")

    def items(self, key: str) -> list[Any]:
        """Return a list."""
        if not isinstance(self.value[key], list):
            self._refuse(key, "a list")
        return list(self.value[key])

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a JSON object."""
        if not isinstance(self.value[key], dict):
            self._refuse(key, "a JSON object")
        return dict(self.value[key])

    def is_null(self, key: str) -> bool:
        """Whether a field is null."""
        return self.value[key] is None
