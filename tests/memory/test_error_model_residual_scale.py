import numpy as np
import pytest

from atlas_splines.memory.error_model import ResidualScale


def uneven(rows=3000, seed=0):
    random = np.random.default_rng(seed)
    points, predicted = random.random((rows, 2)), random.normal(size=rows)
    return points, predicted, np.exp(points[:, 0] + 0.5 * predicted) * random.normal(size=rows)


def test_a_scale_follows_place_and_prediction():
    points, predicted, errors = uneven()
    scale, _ = ResidualScale.of(points, predicted, errors, None, [0, 1])
    at = np.array([[0.1, 0.5], [0.9, 0.5], [0.5, 0.5], [0.5, 0.5]])
    low, high, below, above = scale(at, np.array([0.0, 0.0, -1.0, 1.0]))
    assert np.log(high / low) == pytest.approx(0.8, abs=0.3)
    assert np.log(above / below) == pytest.approx(1.0, abs=0.3)


def test_even_noise_has_a_constant_scale():
    points, predicted, _ = uneven()
    scale, _ = ResidualScale.of(points, predicted, np.random.default_rng(1).normal(size=3000), None, [0, 1])
    assert np.std(np.log(scale(points, predicted))) < 0.05


def test_what_is_said_ahead_is_what_the_others_say():
    points, predicted, errors = uneven(60)
    _, out_of_sample = ResidualScale.of(points, predicted, errors, None, [0])
    others, _ = ResidualScale.of(points[1:], predicted[1:], errors[1:], None, [0])
    assert others(points[:1], predicted[:1])[0] == pytest.approx(out_of_sample[0], rel=0.4)


def test_rows_of_little_weight_count_little():
    points, predicted, errors = uneven(400)
    twice = (np.vstack([points, points]), np.tile(predicted, 2), np.concatenate([errors, 100 * errors]))
    weighted, _ = ResidualScale.of(*twice, np.repeat([1.999, 0.001], 400), [0])
    plain, _ = ResidualScale.of(points, predicted, errors, None, [0])
    assert np.median(weighted(points, predicted) / plain(points, predicted)) == pytest.approx(1, abs=0.6)


def test_errors_that_are_all_zero_have_a_scale():
    points, predicted, _ = uneven(50)
    scale, out_of_sample = ResidualScale.of(points, predicted, np.zeros(50), None, [0])
    assert np.isfinite(scale(points, predicted)).all()
    assert (out_of_sample > 0).all()


def test_predictions_that_are_all_the_same_have_a_scale():
    points, _, errors = uneven(50)
    scale, _ = ResidualScale.of(points, np.zeros(50), errors, None, [])
    assert np.isfinite(scale(points, np.full(50, 7.0))).all()
