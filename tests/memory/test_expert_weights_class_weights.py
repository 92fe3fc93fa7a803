"""Class weights: forms of the log loss before learning, and the shares that follow from them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from atlas_splines.memory.expert_weights import CLASS_WEIGHT_RULES, ClassWeights, LossForm, loss_form

RULES = replace(CLASS_WEIGHT_RULES, smoothing=0.0, least_share=0.0)


def drawn(rows, seed=0, classes=3):
    """Scores of two candidates that each know a half, and one of noise; and labels."""
    random = np.random.default_rng(seed)
    one, two, noise = random.normal(size=(3, rows, classes))
    labels = np.eye(classes)[(one + two + random.gumbel(size=one.shape)).argmax(axis=1)]
    return np.stack([one, two, noise]), labels


def nothing(candidates=3):
    return ClassWeights(LossForm.none(candidates))


def test_shares_minimise_log_loss_and_pull_together():
    scores, labels = drawn(300)
    reference = np.array([0.5, 0.2, 0.3])
    form = loss_form(scores, labels, np.ones(300), nothing(), reference, RULES)
    shares = nothing().after(form, 300, RULES).shares(reference, RULES)

    def loss(a):
        logs = log_softmax(np.tensordot(a, scores, 1), axis=1)
        pull = 0.5 * RULES.pull * ((a - reference) ** 2).sum()
        return -(labels * logs).sum() / RULES.rows_a_comparison + pull

    best = minimize(loss, reference, bounds=[(0, None)] * 3).x
    np.testing.assert_allclose(shares, best, atol=1e-3)


def test_many_rows_find_the_powers_that_rows_came_from():
    scores, labels = drawn(20_000)
    form = loss_form(scores, labels, np.ones(20_000), nothing(), np.full(3, 0.3))
    np.testing.assert_allclose(nothing().after(form, 1).shares(np.full(3, 0.3)), [1, 1, 0], atol=0.05)


def test_few_rows_decide_little():
    scores, labels = drawn(5)
    form = loss_form(scores, labels, np.ones(5), nothing(), np.full(3, 0.3))
    np.testing.assert_allclose(nothing().after(form, 5).shares(np.full(3, 0.3)), 0.3, atol=0.1)


def test_rows_without_a_mistake_do_not_make_shares_grow_without_end():
    labels = np.eye(2)[np.arange(2000) % 2]
    known, reference = nothing(1), np.array([0.7])
    for _ in range(20):
        form = loss_form(8 * labels[None], labels, np.ones(2000), known, reference)
        known = known.after(form, 2000)
    assert 0.5 < known.shares(reference)[0] < 1.5


def test_a_row_of_weight_two_counts_as_two():
    scores, labels = drawn(200)
    reference = np.full(3, 0.3)
    twice = [np.concatenate([part, part], axis=axis) for part, axis in ((scores, 1), (labels, 0))]
    one = loss_form(scores, labels, np.full(200, 2.0), nothing(), reference)
    other = loss_form(*twice, np.ones(400), nothing(), reference)
    np.testing.assert_allclose(one.curvature, other.curvature, rtol=1e-9)
    np.testing.assert_allclose(one.slope, other.slope, rtol=1e-9)


def test_what_is_the_same_for_all_classes_does_not_count():
    scores, labels = drawn(200)
    shifted = scores + np.random.default_rng(1).normal(size=(3, 200, 1))
    forms = [loss_form(s, labels, np.ones(200), nothing(), np.full(3, 0.3)) for s in (scores, shifted)]
    np.testing.assert_allclose(forms[0].curvature, forms[1].curvature, rtol=1e-6)


def test_forms_decay_and_candidates_come_and_go():
    form = LossForm(np.eye(2), np.ones(2))
    later = ClassWeights(form).after(form, CLASS_WEIGHT_RULES.half_life)
    np.testing.assert_allclose(later.form.slope, 1.5)
    np.testing.assert_allclose(ClassWeights(form).after(None, CLASS_WEIGHT_RULES.half_life).form.slope, 0.5)
    assert form.resized(3).slope.tolist() == [1, 1, 0]
    assert form.resized(3).resized(1).curvature.tolist() == [[1]]


@pytest.mark.parametrize("wild", [1e15, -1e15, 0.0])
def test_a_candidate_that_overflows_loses_its_share_alone(wild):
    scores, labels = drawn(2000)
    scores[2, :, 0] = wild
    form = loss_form(scores, labels, np.ones(2000), nothing(), np.full(3, 0.3))
    shares = nothing().after(form, 2000).shares(np.full(3, 0.3))
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares[:2], 1, atol=0.15)
