import numpy as np
import pytest

from atlas_splines.evidence.scale import Scale


def uneven(rows=3000, seed=0):
    random = np.random.default_rng(seed)
    points, said = random.random((rows, 2)), random.normal(size=rows)
    return points, said, np.exp(points[:, 0] + 0.5 * said) * random.normal(size=rows)


def test_a_scale_follows_place_and_prediction():
    points, said, errors = uneven()
    scale, _ = Scale.of(points, said, errors, None, [0, 1])
    at = np.array([[0.1, 0.5], [0.9, 0.5], [0.5, 0.5], [0.5, 0.5]])
    low, high, below, above = scale(at, np.array([0.0, 0.0, -1.0, 1.0]))
    assert np.log(high / low) == pytest.approx(0.8, abs=0.3)
    assert np.log(above / below) == pytest.approx(1.0, abs=0.3)


def test_even_noise_has_a_constant_scale():
    points, said, _ = uneven()
    scale, _ = Scale.of(points, said, np.random.default_rng(1).normal(size=3000), None, [0, 1])
    assert np.std(np.log(scale(points, said))) < 0.05


def test_what_is_said_ahead_is_what_the_others_say():
    points, said, errors = uneven(60)
    _, ahead = Scale.of(points, said, errors, None, [0])
    others, _ = Scale.of(points[1:], said[1:], errors[1:], None, [0])
    assert others(points[:1], said[:1])[0] == pytest.approx(ahead[0], rel=0.4)


def test_rows_of_little_weight_count_little():
    points, said, errors = uneven(400)
    twice = (np.vstack([points, points]), np.tile(said, 2), np.concatenate([errors, 100 * errors]))
    weighted, _ = Scale.of(*twice, np.repeat([1.999, 0.001], 400), [0])
    plain, _ = Scale.of(points, said, errors, None, [0])
    assert np.median(weighted(points, said) / plain(points, said)) == pytest.approx(1, abs=0.6)


def test_errors_that_are_all_zero_have_a_scale():
    points, said, _ = uneven(50)
    scale, ahead = Scale.of(points, said, np.zeros(50), None, [0])
    assert np.isfinite(scale(points, said)).all()
    assert (ahead > 0).all()


def test_predictions_that_are_all_the_same_have_a_scale():
    points, _, errors = uneven(50)
    scale, _ = Scale.of(points, np.zeros(50), errors, None, [])
    assert np.isfinite(scale(points, np.full(50, 7.0))).all()
