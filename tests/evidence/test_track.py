"""Tracks: errors ahead, smoothed, and the shares that follow from them."""

import numpy as np

from atlas_splines.evidence.track import LEAST_SHARE, MOST_COMPARISONS, ROWS_A_COMPARISON, SMOOTHING, Track


def test_the_latest_rows_count_most():
    track = Track(np.zeros(2)).after(np.array([4.0, 1.0]), 10)
    assert track.errors.tolist() == [4, 1]  # the first errors are all that is known
    later = track.after(np.array([0.0, 3.0]), SMOOTHING)
    assert later.errors.tolist() == [2, 2]
    assert later.rows == 10 + SMOOTHING


def test_whoever_overflowed_long_ago_is_judged_by_what_came_since():
    assert Track(np.array([1.0, np.inf]), 5).after(np.array([2.0, 3.0]), 1e7).errors.tolist() == [2, 3]


def test_shares_follow_errors_the_more_the_longer_the_track():
    errors, even = np.array([1.0, 1.1]), np.ones(2)
    short, long, longest = (Track(errors, rows).shares(even) for rows in (0, 3 * ROWS_A_COMPARISON, 1e9))
    assert short.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(long[1] / long[0], np.exp(-0.3))
    np.testing.assert_allclose(longest[1] / longest[0], np.exp(-0.1 * MOST_COMPARISONS))


def test_small_shares_are_left_out():
    shares = Track(np.array([1.0, 1.0]), 0).shares(np.array([1.0, LEAST_SHARE / 2]))
    assert shares.tolist() == [1, 0]
