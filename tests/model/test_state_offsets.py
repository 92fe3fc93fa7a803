"""Offsets of levels: added at exact coordinates, whatever else changes."""

import pickle
from dataclasses import replace

import numpy as np
import oracle
import pytest

from atlas_splines import Atlas, train
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.resize import expanded, extended
from atlas_splines.model.state import LEVEL_STEPS, Offsets, coordinates_of, level_keys

LEVEL = np.float32(np.rint(0.61 * LEVEL_STEPS) / LEVEL_STEPS)
BESIDE = np.float32(LEVEL + 1 / LEVEL_STEPS)


def with_offset(model, *values):
    keys = level_keys(np.array([[0, LEVEL]]), [1])[0]
    return model_in(replace(state_of(model), offsets=Offsets(keys, np.array([values], model.dtype))))


def test_a_key_is_the_exact_coordinate_of_an_input():
    points = np.array([[0.1, LEVEL], [0.1, BESIDE], [-0.0, 1.0], [0.0, 1.0]], np.float32)
    keys = level_keys(points, [0, 1])
    assert (keys == level_keys(points.astype(np.float64), [0, 1])).all()
    assert (coordinates_of(keys[:, 1]) == points[:, 1]).all()
    assert (keys[2] == keys[3]).all()
    assert len({*keys[:3].ravel().tolist()}) == 5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_offsets_are_added_at_exact_coordinates_and_kept_by_growth(dtype):
    plain = oracle.randomize(Atlas(2, 2, 2, 1, dtype=dtype))
    state = state_of(with_offset(plain, 2.5, -1.0))
    X = np.array([[0.3, LEVEL], [0.3, BESIDE], [0.3, 0.9]], dtype)
    for after in (state, expanded(state, 1, 1), extended(expanded(state, 3, 0), [-0.5, 0], [1, 1.5])):
        change = evaluate(after, X) - evaluate(replace(after, offsets=None), X)
        np.testing.assert_allclose(change[0], [2.5, -1.0], rtol=1e-5)
        assert (change[1:] == 0).all()


def test_offsets_are_a_part_of_the_fingerprint_and_of_copies():
    model = with_offset(Atlas(2), 1.0)
    assert model.fingerprint() != Atlas(2).fingerprint()
    assert model.fingerprint() != with_offset(Atlas(2), 2.0).fingerprint()
    for other in (model.copy(), pickle.loads(pickle.dumps(model))):
        assert other.fingerprint() == model.fingerprint()


def test_training_leaves_to_offsets_what_they_explain():
    model, x = with_offset(Atlas(2, terms=1, density=1), 5.0), np.linspace(0, 1, 100)
    history = train(model, np.c_[x, np.full(100, LEVEL)], np.full(100, 5.0), epochs=3, random_state=0)
    assert history.loss[0] < 1e-6
    assert abs(model([[0.5, LEVEL]])[0, 0] - 5) < 1e-3
    assert abs(model([[0.5, BESIDE]])[0, 0]) < 1e-3
