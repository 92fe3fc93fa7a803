from dataclasses import replace

import numpy as np
import pytest

from atlas_splines import Atlas, train
from atlas_splines.model.atlas import model_in, state_of
from atlas_splines.model.charts import Chart, window_around
from atlas_splines.model.monotone import constrained, is_monotone, make_monotone
from atlas_splines.model.resize import cropped

SIGNS = ((1, 0),)


def random_model(monotonic=SIGNS, trainable="all"):
    random = np.random.default_rng(0)
    model = constrained(
        Atlas(2, len(monotonic), terms=3, density=2, trainable=trainable, dtype="float64"), monotonic
    )
    state_of(model).table[:] = random.normal(size=state_of(model).table.shape)
    return model


def line(low=0.0, high=1.0):
    return np.stack([np.linspace(low, high, 1000), np.full(1000, 0.3)], axis=1)


def test_coefficients_that_go_one_way_make_outputs_that_do():
    model = random_model(((1, 0), (-1, 0)))
    assert not is_monotone(state_of(model))
    make_monotone(state_of(model))
    assert is_monotone(state_of(model))
    rises, falls = np.diff(model(line()), axis=0).T
    assert (rises >= -1e-12).all()
    assert (falls <= 1e-12).all()
    assert rises.max() > 0 > falls.min()


def test_what_is_monotone_stays_to_the_bit():
    model = random_model()
    make_monotone(state_of(model))
    before = state_of(model).table.copy()
    make_monotone(state_of(model))
    assert (state_of(model).table == before).all()


def test_other_inputs_and_frozen_densities_are_left_alone():
    model = random_model(trainable="finest")
    before = model.copy()
    make_monotone(state_of(model))
    assert (model.f(1) == before.f(1)).all()
    assert (model.g(2)[:, :, 1] == before.g(2)[:, :, 1]).all()
    assert (np.diff(model.h(2)[:, :, 0]) <= 0).all()


@pytest.mark.parametrize("optimizer", ["lazy-adam", "adam", "sgd"])
def test_training_keeps_it(optimizer):
    model = constrained(Atlas(2, terms=2, density=1), SIGNS)
    X = np.random.default_rng(0).random((300, 2))
    train(model, X, np.cos(6 * X[:, 0]), epochs=3, optimizer=optimizer, random_state=0)
    assert is_monotone(state_of(model))
    assert np.ptp(model(X)) > 0


def test_growth_keeps_it():
    model = random_model()
    make_monotone(state_of(model))
    inside = model(line())
    model.expand(density=1, terms=1).extend([-0.5, -0.5], [2, 2])
    assert is_monotone(state_of(model))
    assert (model(line()) == inside).all()
    assert (np.diff(model(line(-0.5, 2.0)), axis=0) >= -1e-9 * np.abs(model(line(-0.5, 2.0))).max()).all()


def test_charts_reach_as_far_as_the_domain():
    model = random_model()
    make_monotone(state_of(model))
    state = state_of(model)
    window = window_around(np.array([[0.2, 0.2], [0.4, 0.4]]), 5, "touch", state.lattice.domain)
    narrow, wide = window, window.spanning(state.monotone_inputs, state.lattice.domain, state.dtype)
    content = constrained(Atlas(2, terms=0, density=0, dtype="float64"), SIGNS)
    chart = Chart(1, wide, content, np.ones(1), replaces=True)
    charted = state.with_charts([chart])
    assert is_monotone(charted)
    assert not is_monotone(state.with_charts([replace(chart, window=narrow)]))
    larger = model_in(charted).extend([-1, 0], [2, 1])
    assert is_monotone(state_of(larger))
    assert (larger(line(-1, 2)) == larger(line(-1, 2))[0]).all()  # the chart says zero all along the line
    smaller = cropped(state_of(larger), state.lattice.domain, state.density)
    assert model_in(smaller).fingerprint() == model_in(charted).fingerprint()
