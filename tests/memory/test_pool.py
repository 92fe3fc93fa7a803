"""Pools: memories that follow the world, updates that can be taken back, rows that can be forgotten."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from atlas_splines import Atlas
from atlas_splines.memory.batches import summed
from atlas_splines.memory.expert_weights import EXPERT_RULES, FARTHEST
from atlas_splines.memory.features import Features, RadialBasis
from atlas_splines.memory.initial_fit import design
from atlas_splines.memory.pool import RECENT, Pool
from atlas_splines.memory.posterior import Prior, Sums, sums_of
from atlas_splines.model.atlas import model_in, state_of

FEATURES = Features(3, (0, 1, 2), (), ())


def batch(slope=1.0, rows=100, seed=0):
    random = np.random.default_rng(seed)
    points = random.random((rows, 3))
    return points, slope * (points - 0.5).sum(axis=1, keepdims=True) + 0.1 * random.normal(size=(rows, 1))


def starting_pool(steps=1):
    return Pool.start(FEATURES, Prior.flat(FEATURES.sizes, steps=steps), *batch(seed=1000))


def pool_of(*batches, start=None):
    pool = start or starting_pool()
    for number, rows in enumerate(batches, start=1):
        pool = pool.learned(number, *rows)
    return pool


def says(pool):
    return [posterior.weights for posterior in pool.posteriors] + [pool.weights]


def same_bits(one, other):
    return all(np.array_equal(a, b) for a, b in zip(says(one), says(other), strict=True))


def test_memories_follow_a_world_that_drifts_and_keep_one_that_does_not():
    still = pool_of(*(batch(1.0, seed=k) for k in range(30)))
    moving = pool_of(*(batch(np.cos(k / 3), seed=k) for k in range(30)))
    assert moving.expert_shares[0] == pytest.approx(
        EXPERT_RULES.least_complete, abs=0.01
    )  # the past keeps its share
    assert moving.expert_shares[2] > 0.75
    points = batch(seed=99)[0]
    slopes = FEATURES(points) @ moving.weights / (points - 0.5).sum(axis=1, keepdims=True)
    assert np.median(slopes) == pytest.approx(np.cos(29 / 3), abs=0.35)  # a fifth is that of all rows
    np.testing.assert_allclose(FEATURES(points) @ still.weights, batch(1.0, seed=99)[1], atol=0.5)


def test_how_much_errors_on_known_rows_have_grown_is_what_these_rows_would_tell():
    known = [batch(seed=1000), *(batch(np.cos(k / 3), seed=k) for k in range(12))]
    points, targets = (np.vstack(parts) for parts in zip(*known, strict=True))
    before = pool_of(*known[1:])
    for slope in (before.weights[0, 0], 5.0, -5.0):
        after = before.learned(13, *batch(slope, seed=50))
        predicted, now = (np.mean((FEATURES(points) @ p.weights - targets) ** 2) for p in (before, after))
        assert after.growth_since(before)[0] == pytest.approx(np.sqrt(now / predicted), rel=1e-3)


def test_the_first_memory_does_not_depend_on_order_or_pieces():
    points, targets = batch(rows=500)
    whole = pool_of((points, targets))
    order = np.arange(500)[::-1]
    pieces = pool_of(*((points[rows], targets[rows]) for rows in np.array_split(order, 9)))
    assert whole.total == pieces.total
    assert np.array_equal(whole.first.weights, pieces.first.weights)


def test_the_newest_update_is_taken_back_to_the_bit_for_every_memory():
    before = pool_of(*(batch(seed=k, slope=1 + k) for k in range(7)))
    after = before.learned(8, *batch(seed=8, slope=-3))
    assert not same_bits(before, after)
    if len(before.recent) == RECENT:  # the oldest of them has settled meanwhile: all sums are the same
        assert after.without(8).total == before.total
    assert same_bits(after.without(8), before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("output_mode", ["ensemble", "cumulative", "decayed"])
def test_a_first_model_speaks_again_without_the_first_update(dtype, output_mode):
    base = Atlas(inputs=3, terms=2, density=1, dtype=dtype)
    state_of(base).table[:] = np.random.default_rng(0).random(state_of(base).table.shape)
    start = Pool.start(
        FEATURES, Prior.flat(FEATURES.sizes), *batch(seed=5), base=state_of(base), dtype=dtype
    ).with_output_mode("decayed" if output_mode == "decayed" else "ensemble")
    state = start.learned(1, *batch(seed=6)).with_output_mode(output_mode).state_like(state_of(base))
    points = batch(seed=7)[0]
    assert model_in(state).fingerprint() != base.fingerprint()
    assert np.array_equal(model_in(state.pooled.revert(1, state))(points), base(points))


def test_who_spoke_before_passes_to_the_update_that_comes_next():
    pool = starting_pool()
    for number, output_mode in enumerate(["cumulative", "ensemble", "cumulative"], start=1):
        pool = pool.learned(number, *batch(seed=number)).with_output_mode(output_mode)
    assert [each.before for each in pool.recent] == ["ensemble", "cumulative", "ensemble"]
    assert [each.before for each in pool.without(2).recent] == ["ensemble", "cumulative"]
    assert [pool.without(gone).output_mode for gone in (1, 2, 3)] == ["cumulative", "cumulative", "ensemble"]


@pytest.mark.parametrize("gone", range(6 - RECENT, 6))
def test_any_recent_update_is_taken_back_as_if_it_had_never_come(gone):
    batches = [batch(seed=k, slope=1 + k) for k in range(6)]
    pool = pool_of(*batches).without(gone + 1)
    never = pool_of(*(rows for k, rows in enumerate(batches) if k != gone))
    assert pool.total == never.total
    assert np.array_equal(pool.first.weights, never.first.weights)
    assert pool.holds(gone + 1) is False


def test_sums_that_go_on_from_those_before_have_the_bits_of_sums_from_the_start():
    pool = pool_of(*(batch(seed=k, slope=1 + k) for k in range(9)))
    afresh = replace(pool)
    assert "total" in vars(pool)
    assert "total" not in vars(afresh)
    assert pool.total == afresh.total
    for known, anew in zip(pool.decaying, afresh.decaying, strict=True):
        assert np.array_equal(known.gram, anew.gram)
        assert np.array_equal(known.moment, anew.moment)
        assert (known.count, known.square) == (anew.count, anew.square)
    assert same_bits(pool.with_output_mode("cumulative").with_output_mode("ensemble"), afresh)


def test_errors_in_turn_are_those_of_pools_without_a_block():
    start = pool_of(*(batch(np.cos(k), seed=k) for k in range(3)), start=starting_pool(steps=0))
    points, targets = batch(2.0, seed=9)
    weights, blocks = np.ones(100), np.array_split(np.arange(100), 4)
    grown = start.learned(4, points, targets)
    errors = grown.cross_validated_errors(start, FEATURES(points), points, targets, weights, blocks)
    for held in blocks:
        rest = np.setdiff1d(np.arange(100), held)
        plain = start.learned(4, points[rest], targets[rest])
        predicted = [plain.first.weights]
        for sums in grown.decaying:  # which fade as the whole batch lets them
            gone = sums_of(summed(FEATURES, points[held], targets[held], None))
            parts = (sums.gram - gone.gram, sums.moment - gone.moment, sums.square, sums.count)
            predicted.append(Sums(*parts).posterior(grown.prior).weights)
        squares = [((FEATURES(points[held]) @ w - targets[held]) ** 2).mean(axis=1) for w in predicted]
        np.testing.assert_allclose(errors[held], plain.expert_shares @ squares, rtol=1e-3, atol=1e-5)


def test_memories_that_nobody_listens_to_are_not_asked():
    pool = pool_of(batch(3.0)).with_output_mode("cumulative").learned(2, *batch(4.0, seed=2))
    assert "later" not in vars(pool)
    assert len(set(np.diagonal(pool.recent[-1].products))) == 1
    mixed = pool_of(batch(3.0)).learned(2, *batch(4.0, seed=2))
    assert len(set(np.diagonal(mixed.recent[-1].products))) == 3


def bumpy_pool():
    features = Features(3, (0, 1, 2), (), (RadialBasis(np.full((4, 3), 0.2), np.full(3, 0.05)),) * 2)
    points, targets = batch(seed=1000)
    return Pool.start(features, Prior.flat(features.sizes, steps=0), 0.4 * points, targets)


def test_wider_pools_say_the_same_until_they_learn_and_narrow_again_to_the_bit():
    start = bumpy_pool().learned(1, *batch(seed=1)).learned(2, *batch(seed=2))
    points, targets = batch(seed=3)
    wider = start.widened((np.full((2, 3), 0.8), np.full((1, 3), 0.9)))
    assert wider.features.sizes == (1, 12, 6, 5)
    probe = batch(seed=4)[0]
    np.testing.assert_allclose(
        wider.features(probe) @ wider.weights, start.features(probe) @ start.weights, atol=1e-9
    )
    grown = wider.learned(3, points, targets, grew=(2, 1))
    assert grown.total.count == 400
    assert same_bits(grown.without(3), start)
    later = grown.learned(4, *batch(seed=5))
    assert later.without(3).features.sizes == (1, 12, 6, 5)  # update 4 has learned with them
    assert same_bits(later.without(4).without(3), start)


def test_wider_statistics_are_those_of_features_that_were_there_from_the_start():
    start = bumpy_pool()  # whose rows lie in the lower corner
    wider = start.widened((np.full((1, 3), 0.9), np.zeros((0, 3))))
    points, targets = batch(seed=1000)
    afresh = Pool.start(wider.features, wider.prior, 0.4 * points, targets)
    assert wider.total == afresh.total
    assert np.array_equal(wider.decaying[0].gram, afresh.decaying[0].gram)


def test_a_pickle_holds_no_more_than_a_file_would():
    pool = pool_of(*(batch(seed=k) for k in range(6)))
    fresh = pickle.dumps(pool)
    assert says(pool)
    assert pool.model
    assert len(pickle.dumps(pool)) == len(fresh)
    twin = pickle.loads(fresh)
    assert twin.total == pool.total
    assert same_bits(twin, pool)
    sums = sum(array.nbytes for array in pool.checkpoint.to_arrays().values())
    assert len(fresh) < 1.2 * sums * (1 + len(pool.recent) + len(pool.decayed)) + 5000


def test_a_first_model_that_overflows_is_infinitely_wrong():
    wild = Atlas(inputs=3, terms=2, density=0)
    wild.g(0)[:], wild.h(0)[:] = 300, 300  # infinity less infinity
    pool = Pool.start(FEATURES, Prior.flat(FEATURES.sizes), *batch(), base=state_of(wild))
    points, targets = batch(seed=1)
    grown = pool.learned(1, points, targets).learned(2, *batch(seed=2))
    assert grown.recent[0].products[-1, -1] == pytest.approx(FARTHEST**2)
    assert grown.expert_shares[-1] == 0
    assert grown.expert_shares.sum() == pytest.approx(1)
    assert np.isfinite(grown.model(points)).all()
    halves = [np.arange(50), np.arange(50, 100)]
    errors = grown.cross_validated_errors(pool, FEATURES(points), points, targets, np.ones(100), halves)
    assert np.isfinite(errors).all()


def test_a_first_model_does_not_speak_after_many_rows_that_contradict_it():
    start = Pool.start(
        FEATURES, Prior.flat(FEATURES.sizes), *batch(), base=state_of(Atlas(3, terms=0, density=0))
    )
    points, targets = batch(rows=3000, seed=1)
    pool = start
    for rows in np.array_split(np.arange(3000), 3):
        pool = pool.learned(1, points[rows], targets[rows] + 5)
    assert pool.expert_shares[-1] < 0.01


def test_rows_are_forgotten_whenever_they_came():
    batches = [batch(seed=k) for k in range(9)]
    points, targets = batches[2]
    pool = pool_of(*batches).forgotten(points[:30], targets[:30])
    kept = [rows if k != 2 else (points[30:], targets[30:]) for k, rows in enumerate(batches)]
    assert pool.total == pool_of(*kept).total
    assert pool.recent == ()
    with pytest.raises(ValueError, match="never been added"):
        pool_of().forgotten(*batch(slope=50, rows=400, seed=5))


def test_an_update_can_come_in_pieces():
    points, targets = batch(rows=300, slope=2)
    start = pool_of(*(batch(seed=k) for k in range(1, 7)))
    whole = start.learned(7, points, targets)
    pieces = start
    for rows in np.array_split(np.arange(300), 3):
        pieces = pieces.learned(7, points[rows], targets[rows])
    assert pieces.total == whole.total
    squares = (np.diagonal(each.recent[-1].products) for each in (pieces, whole))
    assert np.less(*squares).all()  # later rows were no surprise
    assert same_bits(pieces.without(7), start)


@pytest.mark.parametrize("first", [0, 100])
def test_further_rows_of_an_update_may_come_as_sums(first):
    points, targets = batch(rows=300, slope=2)
    start = pool_of(*(batch(seed=k) for k in range(1, 7)))
    begun = start.learned(7, points[:first], targets[:first]) if first else start
    joined = begun.joined_by(7, summed(FEATURES, points[first:], targets[first:], None))
    assert joined.total == start.learned(7, points, targets).total
    assert len(joined.recent) == RECENT
    if first:
        assert np.array_equal(joined.recent[-1].products, begun.recent[-1].products)
    else:
        known = start.current_expert_weights
        squares = np.diagonal(joined.recent[-1].products)
        assert squares.sum() == pytest.approx(known.errors.sum())
    assert same_bits(joined.without(7), start)


def test_weights_count_rows():
    points, targets = batch()
    heavy = np.repeat([0.0, 1.0], 50)
    weighted = pool_of().learned(1, points, targets, heavy)
    assert weighted.total == pool_of((points[50:], targets[50:])).total


def test_size_does_not_grow_with_updates():
    sizes = []
    pool = pool_of()
    for number in range(40):
        pool = pool.learned(number, *batch(seed=number, rows=5))
        sizes.append(len(pool.recent))
    assert max(sizes) == RECENT


def test_a_designed_pool_learns_what_a_fit_would():
    random = np.random.default_rng(0)
    points = random.random((1200, 2))
    targets = np.sin(6 * points[:, :1]) * points[:, 1:] + 0.05 * random.normal(size=(1200, 1))
    features, posterior = design(points[:400], targets[:400], budget=120)
    pool = Pool.start(features, posterior.prior, points[:400], targets[:400])
    before = np.abs(features(points[800:]) @ pool.weights - targets[800:]).mean()
    for number, rows in enumerate(np.array_split(np.arange(400, 800), 8)):
        pool = pool.learned(number, points[rows], targets[rows])
    assert np.abs(features(points[800:]) @ pool.weights - targets[800:]).mean() < before


def test_more_outputs_change_no_sum_and_no_memory():
    pool = pool_of(batch(2.0, seed=1), batch(3.0, seed=2), start=starting_pool(steps=0))
    wider = pool.with_outputs(np.array([1]), 3)
    for old, new in zip(says(pool), says(wider), strict=True):
        assert new.shape == (len(FEATURES), 3)
        assert not new[:, [0, 2]].any()
        np.testing.assert_allclose(new[:, 1], old[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(wider.total.gram, pool.total.gram)
    np.testing.assert_array_equal(wider.total.moment[:, 1], pool.total.moment[:, 0])
    assert wider.without(2).total == pool.without(2).total.with_outputs(np.array([1]), 3)
