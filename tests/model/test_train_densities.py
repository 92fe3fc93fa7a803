"""Growing: one engine for fits and charts."""

import dataclasses

import numpy as np
import pytest

from atlas_splines import Atlas, TrainingDiverged
from atlas_splines.model import train as growing
from atlas_splines.model.rows import Rows
from atlas_splines.model.train import Schedule, Split, grow, start_terms, train_density

SCHEDULE = Schedule("mse", 50, 0.01, (1, 10), epochs=20, patience=5, finest=4)


def rows_of(target, rows, seed=0, weights=None):
    X = np.random.default_rng(seed).random((rows, 1)).astype(np.float32)
    weights = np.ones(rows, np.float32) if weights is None else weights
    return Rows(X, target(X).astype(np.float32), weights)


def wave(X):
    return np.sin(40 * X)


def grown(split, schedule):
    random = np.random.default_rng(0)
    return grow(train_density(Atlas(1, terms=0, density=0), split, schedule, random), split, schedule, random)


def test_a_model_grows_as_far_as_held_out_rows_say():
    split = Split(rows_of(wave, 400), rows_of(wave, 100, seed=1))
    assert grown(split, SCHEDULE).model.density >= 2
    flat = Split(rows_of(np.zeros_like, 400), rows_of(np.zeros_like, 100, seed=1))
    assert grown(flat, SCHEDULE).model.density == 0
    assert grown(flat, dataclasses.replace(SCHEDULE, always_grows=True)).model.density == 4


def test_another_judge_may_decide():
    split = Split(rows_of(wave, 400), rows_of(wave, 100, seed=1), assess=lambda model: float(model.density))
    assert grown(split, SCHEDULE).model.density == 0
    assert grown(split, SCHEDULE).loss == 0


def test_without_held_out_rows_all_epochs_run():
    result = grown(Split(rows_of(wave, 100), None), dataclasses.replace(SCHEDULE, finest=0))
    assert (result.loss, result.epochs, result.validation) == (np.inf, 40, [])


def test_a_larger_model_must_be_worth_it():
    schedule = dataclasses.replace(SCHEDULE, worthwhile_ratio=0.9, worthwhile_gain=0.5)
    assert schedule.helps(0.0, 1.0)
    assert not schedule.helps(0.6, 1.0)
    assert not schedule.helps(9.1, 10.0)
    assert not SCHEDULE.helps(1.0, 1.0)


def test_a_density_that_diverges_is_left_out(monkeypatch):
    real = growing.run_at

    def failing(divisor, model, *rest):
        if model.density == 2:
            raise TrainingDiverged(real(divisor, model, *rest), 0.01)
        return real(divisor, model, *rest)

    monkeypatch.setattr(growing, "run_at", failing)
    split = Split(rows_of(wave, 400), rows_of(wave, 100, seed=1))
    assert grown(split, dataclasses.replace(SCHEDULE, always_grows=True)).model.density == 1


def test_offsets_and_weights_count_on_held_out_rows():
    wild = np.array([1.0, 0.0] * 50, np.float32)
    held_out = rows_of(wave, 100, seed=1, weights=wild + 1e-6)
    spoiled = dataclasses.replace(held_out, targets=held_out.targets + 50 * (1 - wild[:, None]))
    offset = np.full((100, 1), 0.25, np.float32)
    split = Split(rows_of(wave, 400), dataclasses.replace(spoiled, offset=offset))
    result = train_density(Atlas(1, terms=0, density=3), split, SCHEDULE, np.random.default_rng(0))
    assert min(result.validation) == pytest.approx(result.loss, rel=1e-5)
    assert result.loss < 0.2  # not 1250


def test_started_terms_say_nothing_and_differ():
    model = Atlas(2, terms=5, density=0)
    start_terms(model, 1.0, np.random.default_rng(0))
    assert (model(np.random.default_rng(0).random((50, 2))) == 0).all()
    assert len({tuple(shape) for shape in model.g(0).reshape(5, -1).tolist()}) == 5


def test_rows_are_repeated_with_all_they_have():
    rows = dataclasses.replace(rows_of(wave, 3), offset=np.arange(3.0)[:, None])
    again = rows.repeated(5)
    assert len(again) == 6
    np.testing.assert_array_equal(again.offset[:, 0], [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(again.points[3:], rows.points)
