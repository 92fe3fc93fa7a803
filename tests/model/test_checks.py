"""Intervals as text: never narrower than they are."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_splines.model.checks import inwards, outwards

ENDS = st.floats(-1e300, 1e300)


@given(ENDS, ENDS, st.integers(1, 8))
def test_the_text_holds_the_interval_and_little_more(one, other, digits):
    low, high = sorted((one, other))
    width = high - low or max(abs(high), 1.0)
    if not math.isfinite(width):
        return
    exact_low, exact_high = Decimal(repr(low)), Decimal(repr(high))
    first, last = map(Decimal, outwards((low, high), width, digits))
    assert first <= exact_low
    assert exact_high <= last
    step = Decimal(width).scaleb(-digits)
    assert exact_low - first <= step
    assert last - exact_high <= step
    within, up_to = map(Decimal, inwards((low, high), width, digits))
    assert exact_low <= within
    assert up_to <= exact_high


@pytest.mark.parametrize(
    ("interval", "width", "says"),
    [
        ((2.0, 5.0), 9.0, ("2", "5")),
        ((58.40691, 101.07901), 186.3, ("58.4069", "101.0791")),
        ((1699998765.43, 1700001234.56), 2e7, ("1699998760", "1700001240")),
        ((-0.25, 0.0), 1.0, ("-0.25", "0")),
        ((-1.5e-9, 2.5e-9), 1e-8, ("-1.5e-9", "2.5e-9")),
        ((1e20, 3.00000000001e20), 4e20, ("1e+20", "3.000001e+20")),
        ((100.0, 2000.0), 5000.0, ("100", "2000")),
    ],
)
def test_digits_are_as_many_as_needed(interval, width, says):
    assert outwards(interval, width) == says
