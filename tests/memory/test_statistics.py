"""Exact sums: the same to the bit in any order and in any pieces."""

import numpy as np
import pytest
from drawn_rows import counted, data

from atlas_splines.memory import statistics as statistics_module
from atlas_splines.memory.posterior import Prior, solve
from atlas_splines.memory.statistics import Statistics, on_grid


@pytest.mark.parametrize("scale", [1.0, 100.0, 9999.0])
def test_any_order_and_any_pieces_give_the_same_bits(scale):
    phi, y, weights = data()
    y = scale * y / np.abs(y).max()
    order, cuts = (
        np.random.default_rng(1).permutation(500),
        np.sort(np.random.default_rng(2).integers(0, 500, 9)),
    )
    shuffled = zip(*(np.split(part[order], cuts) for part in (phi, y, weights)), strict=True)
    whole, pieces = counted((phi, y, weights)), counted(*shuffled)
    assert whole == pieces
    prior = Prior.flat([3, 4])
    assert np.array_equal(solve(whole, prior).weights, solve(pieces, prior).weights)


def test_pieces_are_cut_so_that_no_sum_rounds(monkeypatch):
    phi, y, weights = data()
    whole = counted((phi, y, weights))
    monkeypatch.setattr(statistics_module, "EXACT", 2**40)
    assert counted((phi, y, weights)) == whole


@pytest.mark.parametrize("exact", [2**53, 2**40])
def test_pieces_one_after_the_other_are_the_sum_of_all(exact, monkeypatch):
    phi, y, weights = data()
    whole = counted((phi, y, weights))
    monkeypatch.setattr(statistics_module, "EXACT", exact)
    pieces = Statistics(phi.shape[1], y.shape[1])
    pieces.add_pieces((phi[k::7], y[k::7], weights[k::7]) for k in range(7))
    assert pieces == whole


def test_a_piece_that_is_refused_leaves_the_sums_as_they_were():
    phi, y, weights = data()
    sums = counted((phi, y, weights))
    with pytest.raises(ValueError, match="finite"):
        sums.add_pieces([(phi, y, None), (np.full_like(phi, np.nan), y, None)])
    assert sums == counted((phi, y, weights))


@pytest.mark.parametrize("root", [1.0, 0.7])
def test_numbers_on_the_grid_are_those_of_numpy(root):
    phi = np.random.default_rng(0).normal(size=(40, 9)) * np.logspace(-7, 1, 9)
    phi[0, :4] = [0.5 / 2**16, 1.5 / 2**16, -0.5 / 2**16, -2.5 / 2**16]  # halves go to the even side
    weights = np.full(40, root**2)
    whole = on_grid(phi, np.ones((40, 1)), weights, (9, 1))[0]
    assert np.array_equal(whole, np.rint(phi.clip(-1, 1) * np.sqrt(weights)[:, None] * 2**16))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_one_number_that_is_not_finite_is_refused(wrong):
    phi, y, _ = data()
    phi[123, 3] = wrong
    with pytest.raises(ValueError, match="phi and y must be finite"):
        counted((phi, y))


def test_sums_are_those_of_integers():
    phi, y, _ = data(50)
    exact_phi, exact_y = (
        np.rint(part * 2**16).astype(int).astype(object) for part in (phi, 5000 * y / np.abs(y).max())
    )
    statistics = counted((phi, 5000 * y / np.abs(y).max()))
    assert np.array_equal(statistics._gram, exact_phi.T @ exact_phi)
    assert np.array_equal(statistics._moment, exact_phi.T @ exact_y)
    assert statistics._square == [int(total) for total in (exact_y**2).sum(axis=0)]
    assert statistics.count == 50


def test_rows_taken_away_leave_no_trace():
    phi, y, weights = data()
    without = counted((phi[:300], y[:300], weights[:300]))
    after = counted((phi, y, weights))
    after.subtract(phi[300:], y[300:], weights[300:])
    assert after == without
    assert counted((phi, y, weights)) - without == counted((phi[300:], y[300:], weights[300:]))


def test_models_that_grew_apart_merge_by_addition():
    phi, y, weights = data()
    left, right = counted((phi[:200], y[:200], weights[:200])), counted((phi[200:], y[200:], weights[200:]))
    assert left + right == right + left == counted((phi, y, weights))


def test_a_file_keeps_every_bit():
    phi, y, weights = data()
    statistics = counted((phi, y, weights))
    arrays = statistics.to_arrays()
    assert all(array.dtype == np.int64 for array in arrays.values())
    assert Statistics.from_arrays(arrays) == statistics


def test_a_weight_of_two_is_a_row_twice_within_rounding():
    phi, y, _ = data()
    twice, doubled = counted((phi, y), (phi, y)), counted((phi, y, np.full(500, 2.0)))
    np.testing.assert_allclose(doubled.gram, twice.gram, atol=1e-3)
    np.testing.assert_allclose(doubled.count, twice.count, rtol=1e-5)


def test_targets_beyond_ten_thousand_count_as_that():
    phi = np.ones((1, 1))
    assert counted((phi, np.array([[1e9]])), features=1, outputs=1).moment == 10_000


def test_what_cannot_be_counted_is_refused():
    phi, y, _ = data()
    with pytest.raises(ValueError, match="never been added"):
        Statistics(7, 2).subtract(phi, y)
    with pytest.raises(ValueError, match="must be finite"):
        Statistics(7, 2).add(phi, np.full_like(y, np.nan))
    with pytest.raises(ValueError, match="from 0 to 65536"):
        Statistics(7, 2).add(phi, y, np.full(500, -1.0))
    with pytest.raises(ValueError, match="shapes"):
        Statistics(6, 2).add(phi, y)
    with pytest.raises(ValueError, match="do not combine"):
        Statistics(6, 2) + Statistics(7, 2)


def test_totals_that_leave_their_bits_are_refused():
    statistics = counted((np.ones((1, 1)), np.ones((1, 1))), features=1, outputs=1)
    for _ in range(30):
        statistics = statistics + statistics
    assert statistics.count == 2**30
    with pytest.raises(OverflowError, match="64-bit"):
        statistics + statistics
