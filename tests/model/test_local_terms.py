"""Local terms: compiled sums of kernels in boxes, beside the plain ones."""

from dataclasses import replace

import numpy as np
import pytest

from atlas_splines import Atlas
from atlas_splines.model import kernels
from atlas_splines.model.atlas import mixture, model_in, state_of
from atlas_splines.model.evaluate import evaluate, share_kept
from atlas_splines.model.local_terms import Boxes, BoxRules, LocalTerms
from atlas_splines.model.state import Later


def terms_of(rows=700, inputs=3, outputs=2, most=100, seed=0):
    random = np.random.default_rng(seed)
    centres = random.random((rows, inputs)).astype(np.float32)
    rates = random.uniform(0, 4, inputs).astype(np.float32)
    rates[0] = 0  # an input that does not matter
    boxes = Boxes.of(centres, rates, BoxRules(most))
    weights = random.normal(size=(rows, outputs)).astype(np.float32)
    constants = random.normal(size=(len(boxes), outputs)).astype(np.float32)
    return LocalTerms(boxes, rates, centres, weights, constants)


def plain(terms, points):
    """The same, term by term, in float64."""
    inside = points.clip(0, 1).astype(np.float32)
    boxes, own = terms.boxes.find(inside), terms.boxes.find(terms.centres)
    found = np.empty((len(points), terms.weights.shape[1]))
    for i, box in enumerate(boxes):
        centres = terms.centres[own == box].astype(np.float64)
        values = np.exp(-(np.abs(inside[i] - centres) * terms.rates).sum(axis=1))
        found[i] = terms.constants[box] + values @ terms.weights[own == box]
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("outputs", [1, 2, 9])
def test_the_compiled_sum_is_the_plain_one(outputs, dtype):
    terms = terms_of(outputs=outputs)
    points = np.random.default_rng(1).uniform(-0.2, 1.2, (200, 3)).astype(dtype)
    out = np.ones((200, outputs), dtype)
    terms.add_to(points, out)
    np.testing.assert_allclose(out - 1, plain(terms, points), atol=2e-4)


def test_bits_do_not_depend_on_threads_or_company(monkeypatch):
    terms = terms_of()
    points = np.random.default_rng(1).random((3000, 3)).astype(np.float32)
    alone, together, threaded = (np.zeros((3000, 2), np.float32) for _ in range(3))
    terms.add_to(points, together)
    for i in range(0, 3000, 7):
        terms.add_to(points[i : i + 7], alone[i : i + 7])
    monkeypatch.setattr(kernels, "MANY", 1)
    terms.add_to(points, threaded)
    assert np.array_equal(alone, together)
    assert np.array_equal(threaded, together)


def test_a_box_without_terms_has_its_constant():
    terms = terms_of(rows=10, most=4)
    rest = terms.boxes.find(terms.centres) != 0
    emptied = replace(terms, centres=terms.centres[rest], weights=terms.weights[rest])
    out = np.zeros((10, 2), np.float32)
    emptied.add_to(terms.centres, out)
    np.testing.assert_allclose(out[~rest], np.tile(terms.constants[0], ((~rest).sum(), 1)))


def local_model(share=1.0, **more):
    return model_in(replace(state_of(Atlas(inputs=3, outputs=2)), local=(terms_of().scaled(share),), **more))


def test_a_model_adds_them_and_its_fingerprint_knows_them():
    points = np.random.default_rng(1).random((50, 3)).astype(np.float32)
    np.testing.assert_allclose(local_model()(points), plain(terms_of(), points), atol=2e-4)
    assert len({local_model(share).fingerprint() for share in (0.5, 1.0, 1.0)}) == 2
    assert local_model().fingerprint() != Atlas(inputs=3, outputs=2).fingerprint()


def test_a_mixture_has_the_terms_of_all():
    points = np.random.default_rng(1).random((50, 3)).astype(np.float32)
    mixed = mixture([local_model(), Atlas(inputs=3, outputs=2), local_model(3.0)], [2.0, 1.0, 4.0])
    np.testing.assert_allclose(mixed(points), 1.25 * local_model()(points), atol=1e-4)


def test_more_outputs_get_nothing():
    wider = terms_of().with_outputs(np.array([2, 0]), 3)
    points = np.random.default_rng(1).random((50, 3)).astype(np.float32)
    out = np.zeros((50, 3), np.float32)
    wider.add_to(points, out)
    np.testing.assert_allclose(out[:, [2, 0]], plain(terms_of(), points), atol=2e-4)
    assert not out[:, 1].any()


def later_at(end, sign=1):
    state = state_of(local_model(2.0))
    clocks, signs = np.array([1]), np.array([sign], np.int8)
    return Later(clocks, signs, np.array([end], np.float32), state, np.ones((3, 2), np.float32))


@pytest.mark.parametrize("sign", [1, -1])
def test_beyond_the_end_of_a_clock_another_state_predicts(sign):
    model, later = local_model(later=later_at(0.6, sign)), later_at(0.6, sign)
    points = np.random.default_rng(1).random((100, 3)).astype(np.float32)
    is_later = (points[:, 1] > 0.6) if sign > 0 else (points[:, 1] < 0.6)
    assert np.array_equal(later.includes(points), is_later)
    expected = np.where(is_later[:, None], local_model(2.0)(points), local_model()(points))
    assert np.array_equal(model(points), expected)
    assert np.array_equal(share_kept(state_of(model), points), (~is_later).astype(np.float32))
    assert model.fingerprint() != local_model().fingerprint()


def test_beyond_the_domain_its_slopes_go_on_and_level_off():
    later, points = later_at(0.6), np.array([[0.5, 1.5, 0.5], [0.5, 9.0, 0.5], [0.5, 0.5, 9.0]])
    np.testing.assert_allclose(later.continued(points)[:, 0], [0.5, 1.0, 0.0])


def test_a_mixture_has_one_for_later_rows_too():
    points = np.random.default_rng(1).random((100, 3)).astype(np.float32)
    mixed = mixture([local_model(later=later_at(0.6)), local_model()], [2.0, 2.0])
    is_later = points[:, 1] > 0.6
    expected = np.where(is_later[:, None], 1.5, 1.0) * local_model()(points)
    np.testing.assert_allclose(evaluate(state_of(mixed), points), expected, atol=2e-4)
