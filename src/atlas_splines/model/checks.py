"""Argument validation: each check returns its argument in canonical form, or raises one clear sentence.

Interval bounds are formatted here too, with outward rounding as in interval arithmetic (Moore 1966).
"""

from __future__ import annotations

import operator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "check_inputs",
    "check_note",
    "check_number",
    "check_numbers",
    "check_overflow",
    "check_size",
    "check_weight_sizes",
    "inwards",
    "outwards",
]

LARGEST_WEIGHT = {"float32": 1e30, "float64": 1e200}  # sums of weights times losses are far from an overflow
LONGEST_NOTE = 1000  # characters of a log message


def check_size(name: str, value: SupportsIndex, *, least: int, most: int | None = None) -> int:
    """Return a whole number within bounds, or raise."""
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if size < least:
        raise ValueError(f"{name} must be at least {least}, not {size}")
    if most is not None and size > most:
        raise ValueError(f"{name} must be at most {most}, not {size}")
    return size


def check_number(name: str, value: Any, *, least: float) -> float:
    """Return a finite number that is at least `least`, or raise."""
    if not isinstance(value, Real) or not np.isfinite(float(value)) or value < least:
        raise ValueError(f"{name} must be a finite number of at least {least}, not {value!r}")
    return float(value)


def as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array, or raise if the rows have different lengths."""
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} is not a table; give all rows the same number of values") from None


def check_numbers(name: str, values: ArrayLike, dtype: np.dtype[Any]) -> NDArray[np.floating]:
    """Return a contiguous array of finite real numbers, or raise with the place of the first that is not."""
    array = as_array(name, values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {array.dtype}; give it as an array of real numbers")
    if array.size == 0:
        raise ValueError(f"{name} is empty, with shape {array.shape}; give at least one row")
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(array, dtype)
    finite = np.isfinite(numbers)
    if not finite.all():
        where = tuple(np.argwhere(~finite)[0].tolist())
        advice = (
            f"{dtype.name} does not reach that far"
            if np.isfinite(array[where])
            else "remove or fill such values"
        )
        raise ValueError(f"{name}{list(where)} is {array[where]}; {advice}")
    return numbers


def check_inputs(
    X: ArrayLike, domain: NDArray[np.float64], dtype: np.dtype[np.floating], name: str = "X"
) -> NDArray[np.floating]:
    """Return X in the model's dtype, contiguous and in the domain (inputs, 2), or raise one clear error."""
    inputs = len(domain)
    shape = as_array(name, X).shape
    if len(shape) != 2:
        raise ValueError(f"{name} has shape {shape}; expected two dimensions, (rows, {inputs})")
    if shape[1] != inputs:
        raise ValueError(f"{name} has {shape[1]} columns but the model has {inputs} inputs")
    array = check_numbers(name, X, dtype)
    if array.min() < 0 or array.max() > 1:  # a domain is never smaller than the unit cube
        low, high = domain.T.astype(dtype)
        outside = (array < low) | (array > high)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise ValueError(
                f"{name}[{row}, {column}] is {array[row, column]}; inputs must lie in "
                f"[{domain[column, 0]:g}, {domain[column, 1]:g}], so rescale column {column}"
            )
    return array


def check_note(name: str, text: str) -> str:
    """Return a string for the log: one line of bounded length, or raise."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, not {text!r}")
    if len(text) > LONGEST_NOTE or not text.isprintable():
        raise ValueError(f"{name} must be one line of at most {LONGEST_NOTE:,} letters")
    return text


def check_weight_sizes(name: str, weights: NDArray[np.floating]) -> None:
    """Raise if weights are so large or so small that their sums are no longer numbers."""
    row, most = int(np.argmax(weights)), LARGEST_WEIGHT[weights.dtype.name]
    if not 1 / most <= weights[row] <= most:
        kind = "large" if weights[row] > 1 else "small"
        raise ValueError(
            f"{name}[{row}] is {weights[row]:g}, the largest of all, which is too {kind}; "
            "give all weights in another unit"
        )


def check_overflow(values: NDArray[np.floating]) -> None:
    """Raise where an exponential left the range of the dtype, instead of returning inf or NaN."""
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise OverflowError(
            f"an exponential overflowed {values.dtype.name} at row {row}; "
            "train with a lower learning rate, or use dtype='float64'"
        )


# Digits that an end has of the width that matters: a millionth of a domain.
DIGITS = 6

# Powers of ten between which numbers are written without an exponent.
PLAIN = range(-5, 16)


def outwards(interval: tuple[float, float], width: float, digits: int = DIGITS) -> tuple[str, str]:
    """The ends of an interval, rounded away from it.

    Parameters
    ----------
    interval
        Its low and high end.
    width
        The width of what it is a part of, such as the domain.
    digits
        How many digits of that width are shown.

    Examples
    --------
    >>> outwards((1699998765.43, 1700001234.56), width=2e7)
    ('1699998760', '1700001240')
    """
    low, high = interval
    return _text(low, width, digits, ROUND_FLOOR), _text(high, width, digits, ROUND_CEILING)


def inwards(interval: tuple[float, float], width: float, digits: int = DIGITS) -> tuple[str, str]:
    """The ends of an interval, rounded towards its middle.

    Examples
    --------
    >>> inwards((0.12345678, 0.87654321), width=1)
    ('0.123457', '0.876543')
    """
    low, high = interval
    return _text(low, width, digits, ROUND_CEILING), _text(high, width, digits, ROUND_FLOOR)


def _text(value: float, width: float, digits: int, rounding: str) -> str:
    """A number to as many digits of a width, without zeros at its end."""
    step = Decimal(1).scaleb(Decimal(repr(float(width))).adjusted() - digits)
    # the shortest representation of a float that round-trips: monotone in the value, with no spurious digits
    rounded = Decimal(repr(float(value))).quantize(step, rounding).normalize()
    if not rounded:
        return "0"
    return f"{rounded:f}" if rounded.adjusted() in PLAIN else f"{rounded:e}"
