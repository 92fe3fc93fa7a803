import numpy as np
import pytest

from atlas_splines.memory.random_effects import (
    LATER,
    STEPS,
    LevelSums,
    LevelUnits,
    best_ratio,
    place_levels,
)


def level_rows(levels, rows, effect, seed=0):
    random = np.random.default_rng(seed)
    codes = random.integers(levels, size=rows)
    effects = effect * random.normal(size=levels)
    return codes, effects, (effects[codes] + random.normal(size=rows))[:, None]


def test_the_variance_of_effects_is_found():
    for effect in (0.3, 1.0, 3.0):
        codes, _, y = level_rows(400, 8000, effect)
        sums = LevelSums.of(codes, y, np.ones(len(y)), 400)
        means = sums.sums[:, 0] / sums.counts
        ratio = best_ratio(sums.counts, means, float(sums.squares[0] - sums.counts @ means**2))
        assert ratio == pytest.approx(effect**2, rel=0.2)


def test_effects_are_the_best_linear_predictor():
    codes, effects, y = level_rows(300, 1500, 0.5)
    sums = LevelSums.of(codes, y, np.ones(len(y)), 300)
    found = sums.effects()[:, 0]
    means = np.where(sums.counts > 0, sums.sums[:, 0] / np.maximum(sums.counts, 1), 0)
    assert np.mean((found - effects) ** 2) < 0.8 * np.mean((means - effects) ** 2)


def test_a_weight_of_two_is_two_rows():
    codes, _, y = level_rows(10, 60, 1.0)
    twice = LevelSums.of(np.tile(codes, 2), np.tile(y, (2, 1)), np.ones(120), 10).effects()
    np.testing.assert_allclose(LevelSums.of(codes, y, np.full(60, 2.0), 10).effects(), twice)


def test_no_row_has_a_say_in_its_own_place():
    codes, _, y = level_rows(50, 400, 1.0)
    folds, beside = np.arange(400) % 10, np.random.default_rng(1).random((400, 3))
    placed = place_levels(codes, y, np.ones(400), 50, folds, beside)
    other = y.copy()
    other[folds == 3] += 100  # all rows of one fold
    again = place_levels(codes, other, np.ones(400), 50, folds, beside)
    assert (again.rows[folds == 3] == placed.rows[folds == 3]).all()
    assert not np.allclose(again.rows[folds != 3], placed.rows[folds != 3])


def test_what_other_inputs_explain_is_not_in_the_way():
    random = np.random.default_rng(0)
    codes, effects, _ = level_rows(400, 2000, 1.0)
    x = random.normal(size=2000)
    y = (effects[codes] + 3 * x + 0.5 * random.normal(size=2000))[:, None]
    rest = codes, y, np.ones(2000), 400, np.arange(2000) % 10
    alone = place_levels(*rest, np.ones((2000, 1))).levels
    beside = place_levels(*rest, np.column_stack([np.ones(2000), x])).levels
    assert np.corrcoef(alone, effects)[0, 1] < 0.75 < 0.9 < np.corrcoef(beside, effects)[0, 1]


def test_classes_are_placed_along_the_axis_on_which_levels_differ():
    random = np.random.default_rng(0)
    codes = random.integers(40, size=4000)
    label = np.where(
        random.random(4000) < np.where(codes < 20, 0.9, 0.1), 0, 1 + random.integers(2, size=4000)
    )
    places = place_levels(
        codes, np.eye(3)[label], np.ones(4000), 40, np.arange(4000) % 10, np.ones((4000, 1))
    ).levels
    assert places[:20].max() < places[20:].min() or places[:20].min() > places[20:].max()


def test_every_level_has_a_coordinate_of_its_own():
    places = np.random.default_rng(0).random(10_000).round(2)
    units = LevelUnits.of(places, 0.5)
    codes = np.concatenate([np.arange(10_000), LATER + np.arange(10_000)]).astype(float)
    found = units(codes)
    assert len(np.unique(found.astype(np.float32))) == 20_000
    assert (found.astype(np.float32) == found).all()
    assert abs(found[:10_000] - places).max() < 10_000 / STEPS
    assert (units.nearest(found[:10_000]) == codes[:10_000]).all()
