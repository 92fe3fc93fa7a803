"""Classes: the most likely scores, those without a row, and their shares."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from atlas_splines.memory.posterior import Prior, posterior_of
from atlas_splines.memory.softmax import (
    CLASS_RULES,
    class_scores,
    class_shares,
    most_likely,
)


def mean_entropy(scores, labels):
    return -(labels * log_softmax(scores, axis=1)).sum(axis=1).mean()


def three_classes(rows=400, seed=0):
    random = np.random.default_rng(seed)
    phi = np.hstack([np.ones((rows, 1)), random.uniform(-1, 1, (rows, 4))])
    chances = softmax(phi @ random.normal(0, 2, (5, 3)), axis=1)
    return phi, np.eye(3)[[random.choice(3, p=p) for p in chances]], chances


def test_the_same_as_logistic_regression():
    phi, labels, _ = three_classes()
    found = most_likely(phi, labels, np.ones(len(phi)), np.full(5, 2.0), steps=500)
    reference = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=5000).fit(
        phi, labels.argmax(1)
    )
    np.testing.assert_allclose(softmax(phi @ found, axis=1), reference.predict_proba(phi), atol=1e-3)


def test_a_weight_of_two_is_a_row_twice():
    phi, labels, _ = three_classes(120)
    weights = np.where(np.arange(120) < 40, 2.0, 1.0)
    twice = np.concatenate([np.arange(120), np.arange(40)])
    one = most_likely(phi, labels, weights, np.ones(5), steps=500)
    other = most_likely(phi[twice], labels[twice], np.ones(160), np.ones(5), steps=500)
    np.testing.assert_allclose(phi @ one, phi @ other, atol=1e-3)


def scored(phi, labels, weights=None, groups=None):
    weights = np.ones(len(phi)) if weights is None else weights
    return class_scores(
        phi, labels, weights, posterior_of(phi, labels, Prior.flat([phi.shape[1]]), 3), groups
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_the_fast_way_finds_what_the_plain_way_finds(classes):
    phi, labels, _ = three_classes()
    labels = labels if classes == 3 else np.stack([labels[:, 0], 1 - labels[:, 0]], axis=1)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(phi))
    posterior = posterior_of(phi, labels, Prior.flat([5]), 3)
    plain = most_likely(phi, labels, weights, posterior.prior.diagonal / CLASS_RULES.weaker_prior, steps=500)
    fast = class_scores(phi, labels, weights, posterior).weights
    np.testing.assert_allclose(softmax(phi @ fast, axis=1), softmax(phi @ plain, axis=1), atol=3e-3)


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_without_a_row_are_nearly_those_of_a_fit_without_it(classes):
    phi, labels, _ = three_classes(80)
    labels = labels if classes == 3 else np.stack([labels[:, 0], 1 - labels[:, 0]], axis=1)
    prior, found = posterior_of(phi, labels, Prior.flat([5]), 3).prior, scored(phi, labels)
    precision = prior.diagonal / CLASS_RULES.weaker_prior
    for row in range(10):
        rest = np.arange(80) != row
        refitted = most_likely(phi[rest], labels[rest], np.ones(79), precision, steps=500)
        expected, own = (softmax(each) for each in (phi[row] @ refitted, found.left_out[row]))
        np.testing.assert_allclose(own, expected, atol=0.03)


def test_scores_without_a_group_are_nearly_those_of_a_fit_without_it():
    phi, labels, _ = three_classes(200)
    groups = np.arange(200) // 20
    found, prior = scored(phi, labels, groups=groups), posterior_of(phi, labels, Prior.flat([5]), 3).prior
    rest = groups != 3
    precision = prior.diagonal / CLASS_RULES.weaker_prior
    refitted = most_likely(phi[rest], labels[rest], np.ones(180), precision, steps=500)
    expected, own = (softmax(each, axis=1) for each in (phi[~rest] @ refitted, found.left_out[~rest]))
    np.testing.assert_allclose(own, expected, atol=0.05)


@pytest.mark.slow
def test_probabilities_are_those_of_the_world():
    phi, labels, chances = three_classes(6000)
    found = scored(phi[:3000], labels[:3000])
    assert np.abs(softmax(phi[3000:] @ found.weights, axis=1) - chances[3000:]).mean() < 0.02
    errors = [
        mean_entropy(scores, part)
        for scores, part in ((found.left_out, labels[:3000]), (phi[3000:] @ found.weights, labels[3000:]))
    ]
    assert errors[0] == pytest.approx(errors[1], abs=0.05)


def test_scores_that_are_too_sure_get_a_smaller_share():
    _, labels, chances = three_classes(3000)
    share = class_shares([5 * np.log(chances)], labels, np.ones(3000))
    assert share[0] == pytest.approx(0.2, rel=0.1)


def test_classes_without_a_mistake_do_not_make_scores_run_away():
    labels = np.eye(2)[np.arange(200) % 2]
    shares = class_shares([2 * labels, labels], labels, np.ones(200))
    assert (shares < CLASS_RULES.largest_share).all()
    assert mean_entropy(shares[0] * 2 * labels + shares[1] * labels, labels) > 1e-4
