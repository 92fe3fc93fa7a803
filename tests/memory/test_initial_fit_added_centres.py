"""Growth: which bumps are missing where."""

import numpy as np

from atlas_splines.memory.features import Features, RadialBasis
from atlas_splines.memory.initial_fit import ROWS_A_CENTRE, RULES, missing_bases

WIDE, NARROW = (RadialBasis(np.array([[0.2, 0.2], [0.3, 0.1]]), np.full(2, length)) for length in (0.5, 0.05))
FEATURES = Features(2, (0, 1), (), (WIDE, NARROW))


def missing(points, most=100):
    return missing_bases(FEATURES, points, FEATURES(points), most)


def test_only_rows_that_no_bump_of_a_group_reaches_ask_for_more():
    random = np.random.default_rng(0)
    near, far = 0.2 + 0.1 * random.random((50, 2)), 0.8 + 0.2 * random.random((40, 2))
    wide, narrow = missing(np.vstack([near, far]))
    assert len(wide) == 0
    assert len(narrow) == len(far) // ROWS_A_CENTRE
    assert (narrow > 0.8).all()
    assert not any(centre in far.tolist() for centre in narrow.tolist())  # each is the mean of several
    assert [len(centres) for centres in missing(far, most=3)] == [0, 2]
    assert [len(centres) for centres in missing(far[: RULES.unreached - 1])] == [0, 0]


def test_rows_beyond_the_cube_where_features_end_ask_for_none():
    beyond = np.random.default_rng(0).uniform([1.1, 0], [2, 1], (50, 2))
    assert [len(centres) for centres in missing(beyond)] == [0, 0]
    assert missing_bases(Features(1, (0,), (), ()), np.ones((30, 1)), np.ones((30, 5)), 9) == ()


def test_a_centre_between_rows_that_lies_near_a_known_bump_is_left_out():
    line = Features(1, (0,), (), (RadialBasis(np.array([[0.5]]), np.array([0.02])),))
    sides = np.concatenate([np.full(10, 0.2), np.full(10, 0.8)])[:, None]
    (centres,) = missing_bases(line, sides, line(sides), most=1)
    assert len(centres) == 0
    (centres,) = missing_bases(line, sides, line(sides), most=9)
    assert centres.ravel().tolist() == [13 / 64, 51 / 64]
