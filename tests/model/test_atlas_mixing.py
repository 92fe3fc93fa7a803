"""Mixtures say the weighted sum of what their parts say."""

import numpy as np
import pytest

from atlas_splines import Atlas
from atlas_splines.model.atlas import average, mixture, state_of


def random_model(seed, **options):
    model = Atlas(inputs=2, dtype="float64", **options)
    used = model.outputs * (2 * model.terms + 1)
    table = state_of(model).table
    table[:, :used] = np.random.default_rng(seed).normal(size=(len(table), used), scale=0.3)
    return model


@pytest.mark.parametrize("damping", [(0, 0), (2, 2), (0, 3), (3, 0)])
def test_a_mixture_is_the_sum_of_its_parts_whatever_their_damping(damping):
    one = random_model(0, terms=3, density=2, damping=damping[0])
    two = random_model(1, terms=1, density=1, damping=damping[1])
    points = np.random.default_rng(2).random((50, 2))
    np.testing.assert_allclose(mixture([one, two], [4, 0.5])(points), one(points) / 4 + 2 * two(points))
    np.testing.assert_allclose(average([one, two])(points), (one(points) + two(points)) / 2)
