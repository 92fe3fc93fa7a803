import numpy as np
import oracle
import pytest
from configurations import configurations
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_splines import Atlas
from atlas_splines.analysis import (
    expected_off_target,
    gradient_bound,
    gradient_norm,
    orthogonality_distance,
    overlap,
    sparsity,
)
from atlas_splines.model.atlas import state_of

shapes = configurations(inputs=4, outputs=3, terms=5, density=5, damping=st.sampled_from([0.0, 2.0]))


def random_case(configuration, seed, rows=20):
    model = oracle.randomize(Atlas(**configuration, dtype="float64"), seed)
    return model, np.random.default_rng(seed).random((rows, model.inputs))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(shapes, st.integers(0, 99))
def test_gradients_are_sparse(configuration, seed):
    model, X = random_case(configuration, seed)
    most = 4 * model.inputs * (2 * model.terms + 1) * len(state_of(model).trained_densities)
    counts = sparsity(model, X)
    assert counts.shape == (20, model.outputs)
    assert (counts <= most).all()
    assert (counts == most).any()  # reached wherever no coordinate is a knot


def test_a_knot_needs_one_function_less():
    assert sparsity(Atlas(1, terms=0), [[0.0]]) == [[3]]


@settings(max_examples=40, deadline=None)
@given(shapes, st.integers(0, 99))
def test_gradient_norm_is_exact_and_bounded(configuration, seed):
    model, X = random_case(configuration, seed)
    norm = gradient_norm(model, X)
    explicit = np.asarray(abs(model.gradient(X)).sum(axis=1)).reshape(20, model.outputs)
    np.testing.assert_allclose(norm, explicit, rtol=1e-9)
    assert (norm <= gradient_bound(model)).all()


def test_the_bound_is_below_the_papers():
    model = oracle.randomize(Atlas(2, terms=5, density=2, dtype="float64"))
    u_g = sum(model.g(d).max(axis=-1).sum(axis=-1) for d in range(3)).max()
    u_h = sum(model.h(d).max(axis=-1).sum(axis=-1) for d in range(3)).max()
    papers = 4 * 2 * (2 / 3) * np.pi**2 * (1 + np.exp(u_g) + np.exp(u_h))  # u = max S = 2/3
    assert gradient_bound(model)[0] < papers / 10


def test_the_bound_does_not_depend_on_the_number_of_terms():
    few, many = Atlas(2, terms=1), Atlas(2, terms=100)
    assert gradient_bound(few) == gradient_bound(many)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(0, 5), st.integers(0, 999))
def test_distant_points_have_orthogonal_gradients(inputs, density, seed):
    model, X = random_case({"inputs": inputs, "terms": 2, "density": density}, seed, rows=40)
    distance = np.abs(X[:, None] - X[None]).min(axis=2)
    far = distance >= orthogonality_distance(density)
    assert not overlap(model, X, X)[far].any()
    assert (np.diag(overlap(model, X, X)) > 0).all()


def test_the_distance_is_sharp():
    cells, distance = 29, orthogonality_distance(3)
    model = Atlas(1, terms=0, density=3, dtype="float64")
    start, end = [[0.05 / cells]], [[3.95 / cells]]  # the first and the fourth cell share one function
    assert end[0][0] - start[0][0] > 0.97 * distance
    assert overlap(model, start, end) > 0
    assert overlap(model, start, [[0.05 / cells + distance]]) == 0


def test_the_papers_threshold_is_not_enough():
    model = Atlas(1, terms=0, density=1, dtype="float64")
    x, y = 0.05, 0.56
    assert abs(x - y) > 2.0**-1
    assert overlap(model, [[x]], [[y]])[0, 0] == pytest.approx(0.00116, abs=5e-6)
    assert all(orthogonality_distance(r) > 2.0**-r for r in range(20))


def test_training_all_densities_destroys_orthogonality():
    far = [[0.1], [0.9]]
    assert overlap(Atlas(1), far[:1], far[1:]) == 0
    assert overlap(Atlas(1, trainable="all"), far[:1], far[1:]) > 0


@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(0, 99))
def test_overlap_is_the_product_of_dense_gradients(configuration, seed):
    model, X = random_case(configuration, seed, rows=7)
    dense = model.gradient(X).toarray()
    np.testing.assert_allclose(overlap(model, X, X[:3]), dense @ dense[: 3 * model.outputs].T, atol=1e-9)


def test_expected_off_target():
    np.testing.assert_allclose(expected_off_target([0.1, 0.5, 0.9], 8), [0.1, 0.49609375, 0.46953279])
    np.testing.assert_array_equal(expected_off_target(np.linspace(0, 1, 5), 1), 0)
    with pytest.raises(ValueError, match=r"width must lie in \[0, 1\], not 1.5"):
        expected_off_target(1.5, 2)
    with pytest.raises(ValueError, match="inputs must be at least 1"):
        expected_off_target(0.5, 0)
    with pytest.raises(ValueError, match="density must be at least 0"):
        orthogonality_distance(-1)
