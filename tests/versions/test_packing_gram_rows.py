"""Matrices of sums from a few of their rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_splines.model.linear_algebra import upper_triangle
from atlas_splines.versions.packing import rows_of_gram, triangle_of_gram


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=st.integers(0, 5), seed=st.integers(0, 1000), largest=st.sampled_from([1, 3, 65536, 2**28]))
def test_all_of_a_matrix_follows_from_as_many_rows_as_its_rank(rows, seed, largest):
    phi = np.random.default_rng(seed).integers(-largest, largest + 1, (rows, 40))
    gram = phi.T @ phi
    found = rows_of_gram(gram)
    assert found is not None
    assert len(found[0]) == (np.linalg.matrix_rank(phi.astype(float)) if rows else 0)
    assert np.array_equal(triangle_of_gram(*found), upper_triangle(gram))


def test_a_matrix_of_full_rank_is_left_as_it_is():
    phi = np.random.default_rng(0).integers(0, 100, (60, 40))
    assert rows_of_gram(phi.T @ phi) is None


def test_what_is_no_sum_of_squares_is_left_as_it_is():
    crossed = np.zeros((40, 40), np.int64)
    crossed[0, 1] = crossed[1, 0] = 5
    assert rows_of_gram(crossed) is None


def test_rows_that_depend_on_each_other_are_refused():
    with pytest.raises(ValueError, match="rows of a matrix of sums depend on each other"):
        triangle_of_gram(np.array([0, 1]), np.ones((2, 4), np.int64))
