"""Expert weights: products of prequential errors, and the shares that follow from them."""

import numpy as np
import pytest
from scipy.optimize import minimize

from atlas_splines.memory.expert_weights import EXPERT_RULES, FARTHEST, ExpertWeights, products_of


def test_the_latest_rows_count_most():
    known = ExpertWeights.of(2).after(np.diag([4.0, 1.0]), 10)
    assert known.errors.tolist() == [4, 1]  # the first errors are all that is known
    later = known.after(np.diag([0.0, 3.0]), EXPERT_RULES.recent)
    assert later.errors.tolist() == [2, 2]
    assert later.rows == 10 + EXPERT_RULES.recent
    forgotten = known.after(np.diag([0.0, 3.0]), EXPERT_RULES.half_life)
    np.testing.assert_allclose(np.diagonal(forgotten.products), [20, 5 + 3 * EXPERT_RULES.half_life])


def test_a_candidate_that_overflows_has_no_share_and_no_say_in_those_of_others():
    random = np.random.default_rng(0)
    errors = random.normal(size=(2, 200, 1))
    wild = np.concatenate([errors, np.full((1, 200, 1), np.nan)])
    products = products_of(wild, np.ones(200))
    assert products[2, 2] == pytest.approx(FARTHEST**2)
    with_it = ExpertWeights.of(3).after(products, 200).shares(np.zeros(3, bool))
    without = ExpertWeights.of(2).after(products_of(errors, np.ones(200)), 200).shares(np.zeros(2, bool))
    assert with_it[2] == 0
    np.testing.assert_allclose(with_it[:2], without)


def test_shares_minimise_the_error_of_the_mixture_once_rows_are_many():
    random = np.random.default_rng(1)
    common = random.normal(size=(1, 5000, 1))
    errors = np.concatenate([common + 0.5 * random.normal(size=(2, 5000, 1)), 3 + 0 * common])
    products = products_of(errors, np.ones(5000))
    shares = ExpertWeights.of(3).after(products, 1e9).shares(np.zeros(3, bool))
    best = minimize(
        lambda free: (w := np.abs(free) / np.abs(free).sum()) @ products @ w, np.ones(3), method="Nelder-Mead"
    ).x
    best = np.abs(best) / np.abs(best).sum()
    best[best < EXPERT_RULES.least_share] = 0
    np.testing.assert_allclose(shares, best / best.sum(), atol=0.02)


def test_few_rows_decide_little():
    products = np.diag([1.0, 2.0])
    rows = (5, 1500, 1e6)
    few, some, many = (ExpertWeights.of(2).after(products, n).shares(np.zeros(2, bool)) for n in rows)
    np.testing.assert_allclose(few, [0.5, 0.5], atol=0.1)
    assert few[0] < some[0]  # the forecaster that shares are pulled to likes the better one
    assert some[0] > many[0]
    np.testing.assert_allclose(many, [2 / 3, 1 / 3], atol=1e-3)  # independent errors: by inverse variances


def test_candidates_that_always_agree_share_evenly():
    shares = ExpertWeights.of(3).after(np.ones((3, 3)), 1000).shares(np.zeros(3, bool))
    np.testing.assert_allclose(shares, 1 / 3, atol=1e-9)


def test_errors_in_another_unit_give_the_same_shares():
    products = np.array([[1.0, 0.3, 0.2], [0.3, 1.2, 0.1], [0.2, 0.1, 0.9]])
    known = ExpertWeights.of(3).after(products, 700)
    np.testing.assert_allclose(
        known.scaled(7.0).shares(np.zeros(3, bool)), known.shares(np.zeros(3, bool)), rtol=1e-9
    )


def test_weights_of_rows_count():
    errors = np.random.default_rng(2).normal(size=(2, 40, 2))
    twice = np.repeat(errors, 2, axis=1)
    np.testing.assert_allclose(products_of(errors, np.full(40, 2.0)), products_of(twice, np.ones(80)))
    assert products_of(errors, np.ones(40)) == pytest.approx(products_of(errors, np.full(40, 9.0)))


def test_of_candidates_that_are_as_good_those_that_forget_no_row_are_preferred():
    known = ExpertWeights.of(2).after(np.ones((2, 2)), 50)
    shares = known.shares(np.array([False, True]))
    assert shares[1] / shares[0] == pytest.approx(EXPERT_RULES.preference, rel=1e-6)


def test_the_past_keeps_a_share_that_costs_little():
    random = np.random.default_rng(2)
    partial = np.array([False, True, True, False])
    for size, least, most in ((0.8, 0.19, 1), (4.0, 0.05, 0.19), (100.0, 0, 0.01)):
        sizes = np.array([2 * size, 0.5, 0.6, size])[:, None, None]
        errors = random.normal(size=(4, 3000, 1)) * sizes
        known = ExpertWeights.of(4).after(products_of(errors, np.ones(3000)), 3000)
        shares, free = known.shares(partial), known.shares(np.ones(4, bool))
        assert least <= shares[~partial].sum() <= most
        assert shares[3] >= shares[0]  # the better of those that know all rows
        grown, before = (each @ known.products @ each for each in (shares, free))
        assert grown <= 1.02 * (1 + EXPERT_RULES.most_growth) * before


def test_rows_that_no_candidate_predicts_decide_little():
    random = np.random.default_rng(3)
    errors = random.normal(size=(2, 400, 1)) * np.array([1.0, 2.0])[:, None, None]
    errors[:, :4] = np.array([100.0, 50.0])[:, None, None]
    products = products_of(errors, np.ones(400))
    plain = (errors[:, :, 0] @ errors[:, :, 0].T) / 400
    assert plain[0, 0] > plain[1, 1]
    assert products[0, 0] < products[1, 1]
