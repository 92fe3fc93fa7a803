"""Classes: the most likely readout, and how sure it is."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from atlas_splines.evidence.classes import calibrated, class_prior, mean_entropy, most_likely
from atlas_splines.evidence.readout import Prior, readout_of


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


@pytest.mark.slow
def test_probabilities_are_those_of_the_world():
    phi, labels, chances = three_classes(6000)
    readout = readout_of(phi[:3000], labels[:3000], Prior.flat([5]), steps=3)
    rows = phi[:3000], labels[:3000], np.ones(3000)
    prior = class_prior(*rows, readout)
    weights = prior.sharpness * most_likely(*rows, prior.precision)
    said = softmax(phi[3000:] @ weights, axis=1)
    assert np.abs(said - chances[3000:]).mean() < 0.02
    assert prior.entropy == pytest.approx(
        mean_entropy(phi[3000:] @ weights, labels[3000:], np.ones(3000)), abs=0.05
    )


def test_scores_that_are_too_sure_are_toned_down():
    _, labels, chances = three_classes(3000)
    entropy, factor = calibrated(5 * np.log(chances), labels, np.ones(3000))
    assert factor == pytest.approx(0.2, rel=0.1)
    assert entropy == pytest.approx(mean_entropy(np.log(chances), labels, np.ones(3000)), rel=0.02)
