"""Fences around data."""

import numpy as np

from atlas_splines import (
    Atlas,
    footprint,
)


def test_inside_does_not_snap_to_the_faces():
    X = np.linspace(0.091, 0.49, 20)[:, None]
    assert not footprint(Atlas(1), X, cover="inside").contains([[0.0], [0.03], [0.06]]).any()


def test_a_constant_coordinate_does_not_sharpen_the_fence_elsewhere():
    X = np.random.default_rng(0).random((200, 2)) * 0.5 + 0.2
    [wide] = footprint(Atlas(2), X).windows
    X[:, 1] = 0.4
    [narrow] = footprint(Atlas(2), X).windows
    assert narrow.density == wide.density
