"""Targets as users give them: what is no target is refused, and members of enumerations become classes."""

from __future__ import annotations

from datetime import date, time, timedelta
from enum import Enum
from typing import Any

import numpy as np

__all__ = ["name_of_target", "plain_target"]

DATES = "y holds dates or times, which are no target; turn them into numbers, such as days since a start"


def plain_target(y: Any, is_numeric: bool) -> Any:
    """Targets that scikit-learn can check, or one sentence on what is wrong with them.

    Examples
    --------
    >>> plain_target(["yes", None], is_numeric=False)
    Traceback (most recent call last):
    ...
    ValueError: y is missing in row 1; fill it in, or leave that row out
    """
    try:
        values = np.asarray(y)
    except (ValueError, TypeError):  # not of one shape: scikit-learn says so
        return y
    if values.dtype.kind in "mM":
        raise ValueError(DATES)
    if is_numeric and values.dtype.kind == "U":
        refuse_texts(values.ravel().tolist())
    if values.dtype.kind != "O" or values.ndim != 1:
        return y
    return plain_objects(values.tolist(), is_numeric, y)


def plain_objects(values: list[Any], is_numeric: bool, y: Any) -> Any:
    """Targets that are objects, as texts if they are members of enumerations."""
    if any(isinstance(value, date | time | timedelta) for value in values):
        raise ValueError(DATES)
    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        raise ValueError(f"y is missing in row {missing[0]}; fill it in, or leave that row out")
    if is_numeric:
        refuse_texts(values)
    if not any(isinstance(value, Enum) for value in values):
        return y
    return np.array([value.value if isinstance(value, Enum) else value for value in values])


def is_missing(value: Any) -> bool:
    """Whether a value says that there is none: None, NaN, and what pandas has for them."""
    return type(value).__name__ in ("NoneType", "NAType", "NaTType") or (
        isinstance(value, float) and value != value
    )


def refuse_texts(values: list[Any]) -> None:
    """Refuse texts that are no numbers, where numbers are needed."""
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"y has {value!r} in row {row}, which is no number; for classes use AtlasClassifier"
            ) from None


def name_of_target(y: Any) -> str:
    """Name of a target that is a column of a frame, or "y"."""
    columns = list(getattr(y, "columns", ()))
    name = columns[0] if len(columns) == 1 else getattr(y, "name", None)
    return "y" if name is None else str(name)
