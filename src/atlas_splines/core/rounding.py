"""Rounding: the ends of an interval as text, so that what is printed is never more than what is known."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

__all__ = ["inwards", "outwards"]

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
    # the shortest text of a float is in the order of the floats, and has no digits that nobody wrote
    rounded = Decimal(repr(float(value))).quantize(step, rounding).normalize()
    if not rounded:
        return "0"
    return f"{rounded:f}" if rounded.adjusted() in PLAIN else f"{rounded:e}"
