"""Effects of levels: sums that add up exactly, and effects that are as large as the data tells."""

import pickle
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from level_rows import LEVELS, NEW, PLACES, STEP, known_rows, on_steps
from level_rows import new_rows as rows_of_new_level

from atlas_splines.memory.features import Features
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.posterior import Prior, sums_of
from atlas_splines.memory.random_effects import NO_LEVELS, LevelStatistics
from atlas_splines.memory.statistics import Statistics
from atlas_splines.model.state import level_keys
from atlas_splines.updates.routing import innovation

FEATURES = Features(2, (0, 1), (), (), levels=(1,))
BOTH = Features(3, (0,), (), (), levels=(1, 2))


def random_rows(count, seed=0, columns=1):
    random = np.random.default_rng(seed)
    phi, y, weights = random.uniform(-1, 1, (count, 3)), random.normal(size=(count, 2)), random.random(count)
    keys = random.integers(6, size=(count, columns)) + (np.arange(columns) << 32)
    return phi, y, 3 * weights, keys


def counted(*pieces):
    statistics = Statistics(3, 2)
    for piece in pieces:
        statistics.add(*piece)
    return statistics


def some(rows, part):
    return tuple(column[part] for column in rows)


def rows(pair):
    return pair[0], pair[1][:, None]


def pool(features=FEATURES, fit=None):
    return Pool.start(features, Prior.flat(features.sizes), *(fit or rows(known_rows(500, 0))))


def at_new_level(grown, place=NEW):
    """What a pool predicts for rows of a level, less what their other column does."""
    X, y = rows_of_new_level(200, 7, noise=0.0, place=place)
    return float(np.mean(grown.model(X.astype(np.float32))[:, 0] - (y - 3.0)))


# --- sums -------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 99), columns=st.integers(1, 3), parts=st.integers(1, 6))
def test_sums_are_the_same_in_any_order_and_pieces(seed, columns, parts):
    data = random_rows(60, seed, columns)
    whole, order = counted(data), np.random.default_rng(seed).permutation(60)
    pieces = [counted(some(data, part)) for part in np.array_split(order, parts)]
    assert reduce(add, pieces) == whole
    at_once = Statistics(3, 2)
    at_once.add_pieces(some(data, part) for part in np.array_split(order, parts))
    assert at_once == whole
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert Statistics.from_arrays(whole.to_arrays()) == whole


def test_sums_are_those_of_the_rows_on_the_grid():
    phi, y, weights, keys = random_rows(50, columns=2)
    levels = counted((phi, y, weights, keys)).levels
    has = (keys[:, :, None] == levels.keys).any(axis=1).astype(float)  # (rows, levels)
    scale = 2.0**32
    np.testing.assert_allclose(levels.cross / scale, has.T @ (weights[:, None] * phi), atol=1e-2)
    np.testing.assert_allclose(levels.moment / scale, has.T @ (weights[:, None] * y), atol=1e-2)
    np.testing.assert_allclose(levels.counts.toarray() / scale, (has.T * weights) @ has, atol=1e-2)
    assert levels.counts.dtype == levels.cross.dtype == levels.moment.dtype == np.int64


def test_rows_that_are_taken_away_leave_nothing():
    data = random_rows(60, columns=2)
    rest = counted(data) - counted(some(data, slice(20)))
    assert rest == counted(some(data, slice(20, None)))
    gone = counted(data)
    gone.subtract(*data)
    assert gone == Statistics(3, 2)
    assert not len(gone.levels)
    with pytest.raises(ValueError, match="rows were subtracted that had never been added"):
        counted(some(data, slice(20))).levels - counted(data).levels
    with pytest.raises(ValueError, match="had never been added"):
        NO_LEVELS - counted(data).levels


def test_rows_without_weight_have_no_level():
    phi, y, _, keys = random_rows(5)
    assert not len(counted((phi, y, np.zeros(5), keys)).levels)
    assert "levels.keys" not in counted((phi, y, None)).to_arrays()


def test_sums_follow_features_and_outputs():
    phi, y, weights, keys = random_rows(60)
    places = np.array([2, 0, 4])
    wide = np.zeros((60, 5))
    wide[:, places] = phi
    expected = Statistics(5, 2)
    expected.add(wide, y, weights, keys)
    narrow = counted((phi, y, weights, keys))
    assert narrow.widened(places, 5) == expected
    assert expected.narrowed(places) == narrow
    more = Statistics(3, 3)
    more.add(phi, np.c_[np.zeros(60), y], weights, keys)
    assert narrow.with_outputs(np.array([1, 2]), 3) == more
    decayed = sums_of(narrow)
    assert decayed.widened(places, 5).levels == sums_of(expected).levels
    assert sums_of(expected).narrowed(places).levels == decayed.levels
    assert decayed.with_outputs(np.array([1, 2]), 3).levels == sums_of(more).levels


def test_many_levels_cost_a_row_of_features_each():
    keys = np.arange(5000)[:, None]
    levels = LevelStatistics.of_rows(keys, np.ones((5000, 4)), np.ones((5000, 1)), np.ones((5000, 1)))
    assert sum(array.size for array in levels.to_arrays().values()) == 5000 * (1 + 2 + 1 + 1 + 4)


def test_sums_that_fade_drop_levels_of_which_nothing_is_left():
    data = random_rows(60)
    sums, fresh = sums_of(counted(some(data, slice(30)))), sums_of(counted(some(data, slice(30, None))))
    decayed = sums.decay(fresh, half_life=fresh.count)
    np.testing.assert_allclose(decayed.levels.rows, sums.levels.rows / 2 + fresh.levels.rows)
    assert len(sums.levels.decayed(1e-6)) == 0


# --- effects ----------------------------------------------------------------------------------------------


def test_effects_solve_the_mixed_model_equations():
    """With the variances found, they are those of ridge regression on features and indicators together."""
    X, y = rows(rows_of_new_level(80, 1))
    Z, z = rows(known_rows(200, 2))
    grown = pool().learned(1, np.vstack([X, Z]), np.vstack([y, z]))
    posterior, levels = grown.first, sums_of(grown.total).levels
    ridge = posterior.effects.precision[:, 0] - levels.rows
    gram = np.block([[grown.total.gram, levels.cross.T], [levels.cross, levels.counts.toarray()]])
    gram[np.diag_indices_from(gram)] += np.r_[posterior.prior.diagonal, ridge]
    both = np.linalg.solve(gram, np.vstack([grown.total.moment, levels.moment]))
    np.testing.assert_allclose(np.vstack([posterior.weights, posterior.effects.values]), both, atol=1e-6)


def test_a_new_level_is_predicted_after_one_update_and_known_ones_are_not_spoiled():
    start = pool()
    plain = replace(start, features=replace(FEATURES, levels=()))
    X, y = rows(known_rows(400, 9, noise=0.0))
    errors = []
    for one in (start, plain):
        grown = one.learned(1, *rows(rows_of_new_level(100, 1)))
        errors.append(np.abs(grown.model(X.astype(np.float32)) - y).mean())
    assert at_new_level(start.learned(1, *rows(rows_of_new_level(100, 1)))) == pytest.approx(3, abs=0.1)
    assert at_new_level(plain.learned(1, *rows(rows_of_new_level(100, 1)))) < 1.5
    assert errors[0] < 0.7 * errors[1]
    beside = NEW + STEP
    grown = start.learned(1, *rows(rows_of_new_level(100, 1)))
    assert abs(at_new_level(grown, place=beside)) < 0.3  # a level that has not come yet has no effect


def test_effects_shrink_with_fewer_rows():
    many = [rows(known_rows(300, 4)), rows(rows_of_new_level(200, 3, noise=1.5))]
    few = [many[0], tuple(column[:2] for column in many[1])]
    found = []
    for parts in (few, many):
        grown = pool().learned(1, *(np.vstack(columns) for columns in zip(*parts, strict=True)))
        left = np.mean([y - np.sin(5 * X[:, :1]) for X, y in parts[1:]])
        found.append(at_new_level(grown) / left)
    assert found[0] < 0.95
    assert found[1] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("levels", [30, 800])
def test_noise_gives_no_effects_but_in_one_of_twenty_columns(levels):
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        places = on_steps(np.sort(random.random(levels)))
        X, y = np.c_[random.random(2000), random.choice(places, 2000)], random.normal(size=(2000, 1))
        grown = pool(fit=(X[:500], y[:500])).learned(1, X[500:], y[500:])
        assert len(grown.total.levels) > 0.8 * levels
        found.append(grown.offsets is not None)
    assert sum(found) <= 3


def test_what_all_later_rows_have_in_common_is_no_effect_of_their_levels():
    grown = pool()
    for update in range(1, 4):
        X, y = rows(known_rows(300, update))
        grown = grown.learned(update, X, y + 1.0)
    assert grown.offsets is None


def test_an_effect_beside_a_drift_is_found():
    X, y = rows(known_rows(2000, 1))
    odd = X[:, 1] == PLACES[7]
    y[odd] += 2.0
    grown = pool().learned(1, X, y + 1.0)
    effects = grown.first.effects
    found = effects.of(level_keys(np.array([[0.0, PLACES[7]], [0.0, PLACES[8]]]), [1])[:, 0])
    assert found[0, 0] == pytest.approx(2, abs=0.6)
    assert abs(found[1, 0]) < 0.4


def two_columns(count, seed, joint=0.0, apart=(0.0, 0.0)):
    """Rows with new levels in two columns: both, or one of them, or none."""
    random = np.random.default_rng(seed)
    X = np.c_[random.random(count), random.choice(PLACES, (count, 2))]
    kind = np.arange(count) % 4
    new = [float(NEW) + 0.01, float(NEW) + 0.02]
    X[kind == 1, 1], X[kind == 2, 2] = new
    if joint:
        X[(kind == 1) | (kind == 2), 1:] = new
    y = np.sin(5 * X[:, 0]) + 0.2 * random.normal(size=count)
    y += joint * ((kind == 1) | (kind == 2)) + apart[0] * (kind == 1) + apart[1] * (kind == 2)
    return X, y[:, None], new


@pytest.mark.parametrize("settings", [{"joint": 3.0}, {"apart": (3.0, -2.0)}])
def test_levels_of_two_columns_do_not_count_the_same_effect_twice(settings):
    grown = pool(BOTH, two_columns(500, 0)[:2]).learned(1, *two_columns(400, 1, **settings)[:2])
    x, new = np.linspace(0, 1, 50), two_columns(4, 0)[2]
    places = {(1, 1): new, (1, 0): [new[0], PLACES[3]], (0, 1): [PLACES[3], new[1]]}
    found = {
        which: float(np.mean(grown.model(np.c_[x, np.tile(place, (50, 1))])[:, 0] - np.sin(5 * x)))
        for which, place in places.items()
    }
    if "joint" in settings:
        assert found[1, 1] == pytest.approx(3, abs=0.25)
    else:
        assert found[1, 0] == pytest.approx(3, abs=0.25)
        assert found[0, 1] == pytest.approx(-2, abs=0.25)


def test_five_thousand_levels():
    random = np.random.default_rng(0)
    places = on_steps(np.sort(random.random(5000)))
    effects = random.normal(size=5000)

    def of_levels(count):
        level, x = random.integers(5000, size=count), random.random(count)
        y = np.sin(5 * x) + effects[level] + 0.2 * random.normal(size=count)
        return np.c_[x, places[level]], y[:, None]

    grown = pool(fit=of_levels(1000)).learned(1, *of_levels(20_000))
    X, y = of_levels(2000)
    assert np.sqrt(np.mean((grown.model(X.astype(np.float32)) - y) ** 2)) < 0.35  # of 0.2 that is noise
    assert 4800 < len(grown.offsets.keys) <= 5000


def test_several_outputs_have_effects_of_their_own():
    X, y = known_rows(500, 0)
    start = pool(fit=(X, np.c_[y, -y]))
    new, z = rows_of_new_level(100, 1)
    grown = start.learned(1, new, np.c_[z, np.sin(5 * new[:, 0])])
    found = grown.model(new.astype(np.float32)) - np.sin(5 * new[:, :1])
    np.testing.assert_allclose(found.mean(axis=0), [3, 0], atol=0.15)


def test_weights_in_a_cone_stay_in_it():
    features = replace(FEATURES, monotonic=((1, 0),))
    X, y = known_rows(500, 0)
    fit = X, (2 * X[:, 0] + (y - np.sin(5 * X[:, 0])))[:, None]
    start = Pool.start(features, replace(Prior.flat(features.sizes), cone=features.cone), *fit)
    new = rows_of_new_level(100, 1)[0]
    grown = start.learned(1, new, 2 * new[:, :1] + 3.0)
    line = np.c_[np.linspace(0, 1, 50), np.full(50, NEW)].astype(np.float32)
    assert (np.diff(grown.model(line)[:, 0]) >= -1e-5).all()
    assert np.mean(grown.model(line)[:, 0] - 2 * line[:, 0]) == pytest.approx(3, abs=0.6)


# --- pools ------------------------------------------------------------------------------------------------


def batches():
    return [rows(part) for part in (known_rows(80, 1), rows_of_new_level(60, 2), known_rows(90, 3))]


def test_the_exact_memory_is_the_same_in_any_order():
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        grown = pool()
        for update, k in enumerate(order, start=1):
            grown = grown.learned(update, *batches()[k])
        found.append(grown.with_output_mode("cumulative"))
    assert found[0].total == found[1].total
    assert (found[0].model.fingerprint(), found[0].offsets.keys.tolist()) == (
        found[1].model.fingerprint(),
        found[1].offsets.keys.tolist(),
    )


def test_reverted_and_forgotten_rows_leave_the_bits_of_before():
    start = pool().learned(1, *batches()[0])
    grown = start.learned(2, *batches()[1])
    assert grown.offsets is not None
    assert grown.without(2).model.fingerprint() == start.model.fingerprint()
    forgotten = grown.forgotten(*batches()[1])
    assert forgotten.total == start.total
    assert (
        forgotten.with_output_mode("cumulative").model.fingerprint()
        == start.with_output_mode("cumulative").model.fingerprint()
    )
    assert abs(at_new_level(forgotten)) < 0.3
    other = grown.learned(3, *batches()[2])
    rest = pool().learned(1, *batches()[0]).learned(3, *batches()[2])
    assert other.without(2).with_output_mode("cumulative").model.fingerprint() == (
        rest.with_output_mode("cumulative").model.fingerprint()
    )


def test_rows_of_the_first_data_have_no_sums_by_level_and_can_be_forgotten():
    X, y = rows(known_rows(500, 0))
    grown = pool(fit=(X, y)).learned(1, *rows(rows_of_new_level(60, 2)))
    assert len(grown.total.levels) == 1
    rest = grown.forgotten(X[:50], y[:50])
    assert rest.total == pool(fit=(X[50:], y[50:])).learned(1, *rows(rows_of_new_level(60, 2))).total
    assert len(pool(fit=(X, y)).extended_by(*rows(known_rows(100, 3))).total.levels) > 0.8 * LEVELS


def test_errors_ahead_are_those_with_the_effects_known_before():
    start = pool().learned(1, *rows(rows_of_new_level(60, 2)))
    X, y = rows(rows_of_new_level(50, 3))
    known, unknown = (
        (each.residuals_on(start.features(X), X, y) ** 2).mean(axis=(1, 2)) for each in (start, pool())
    )
    assert (known < 0.1).all()
    assert (unknown > 4).all()
    grown = start.learned(2, X, y)
    assert max(grown.growth_since(start)) < 1.2


def test_held_out_rows_of_a_level_are_predicted_by_the_others_of_it():
    X, y = rows(rows_of_new_level(60, 2))
    grown = pool().learned(1, X, y)
    weights, levels = np.ones(60), grown.features.keys(X)
    blocks = np.array_split(np.arange(60), 5)
    left = grown.first.block_cross_validated(grown.features(X), y, weights, blocks, levels)
    assert np.sqrt(np.mean(left**2)) == pytest.approx(0.2, abs=0.06)
    alone = grown.first.block_cross_validated(grown.features(X), y, weights, [np.arange(60)], levels)
    assert np.mean(alone) == pytest.approx(3, abs=0.5)


def test_effects_of_a_new_class_begin_with_it():
    X, y = known_rows(500, 0)
    labels = np.eye(2)[(y > 0.5).astype(int)]
    grown = Pool.start(FEATURES, Prior.flat(FEATURES.sizes), X, labels, loss="cross-entropy")
    new = rows_of_new_level(80, 1)[0]
    grown = grown.learned(1, new, np.tile([0.0, 1.0], (80, 1))).with_output_mode("cumulative")
    wider = grown.with_outputs(np.array([0, 2]), 3)
    np.testing.assert_allclose(wider.effects.values[:, [0, 2]], grown.effects.values, atol=0.01)
    assert (wider.effects.values[:, 1] == 0).all()


def test_a_new_level_is_no_surprise_where_levels_differ():
    random = np.random.default_rng(0)
    places = random.permutation(on_steps(np.linspace(0.01, 0.99, 200)))

    def of_levels(which, count):
        level, x = random.choice(which, count), random.random(count)
        return np.c_[x, places[level]], (np.sin(5 * x) + effects[level] + 0.2 * random.normal(size=count))[
            :, None
        ]

    effects = 3 * random.normal(size=200)
    flat = of_levels(np.arange(200), 500)
    grown = pool(fit=(flat[0], np.sin(5 * flat[0][:, :1]))).learned(1, *of_levels(np.arange(100), 600))
    for which in (np.arange(100), np.arange(100, 200)):
        X, y = of_levels(which, 200)
        assert innovation(grown.first, grown.features(X), y, None, grown.features.keys(X)).is_noise()
        assert not innovation(grown.first, grown.features(X), y).is_noise()
