"""Contradictions: when a chart is better than what is known, beyond doubt. Estimators that open charts: test_pooling.py."""

import numpy as np
import pytest

from atlas_splines.core.rows import Rows
from atlas_splines.memory.contradictions import Known, is_convincing

TRUTH = np.random.default_rng(0).normal(size=(200, 1))


def convinces(said, known, beyond=0.0, enough=True, doubt=0.01):
    rows = Rows(np.full((200, 2), 0.5 + beyond), TRUTH, np.ones(200))
    errors = ((known - TRUTH) ** 2).mean(axis=1)
    return is_convincing(
        rows, Known(known, np.zeros((200, 1)), errors), said, np.full((200, 1), doubt), enough
    )


@pytest.mark.parametrize(
    ("off", "enough", "expected"),
    [
        (0.5, True, True),  # a quarter of the error of what is known
        (0.5, False, False),  # which few rows cannot tell from drift
        (0.05, False, True),  # unless it is obvious
        (0.9, True, False),  # not clearly better
        (1.1, True, False),  # worse
    ],
)
def test_a_chart_is_clearly_better_or_there_is_none(off, enough, expected):
    assert convinces(TRUTH + off, TRUTH - 1, enough=enough) is expected


def test_a_chart_that_says_the_same_within_doubt_is_none_unless_rows_lie_where_the_pool_cannot_learn():
    assert not convinces(TRUTH + 0.5, TRUTH - 1, doubt=4.0)
    assert convinces(TRUTH + 0.5, TRUTH - 1, beyond=1.0, doubt=4.0)


def test_a_chart_is_better_on_most_rows_and_not_by_a_few():
    known = TRUTH + 0.1
    known[:2] += 100  # two wild rows
    assert not convinces(TRUTH + 0.09, known)
