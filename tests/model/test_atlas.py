from pathlib import Path

import numba
import numpy as np
import oracle
import pytest
from configurations import configurations, dtypes
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_splines import Atlas, update
from atlas_splines.model import splines
from atlas_splines.model.atlas import state_of
from atlas_splines.model.kernels import MANY
from atlas_splines.model.state import State

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("case_*.npz"))

models = configurations(
    inputs=5, outputs=4, terms=9, density=4, damping=st.sampled_from([0.0, 1.5]), dtype=dtypes
)
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def random_points(model, rows, seed=0):
    points = np.random.default_rng(seed).random((rows, model.inputs)).astype(model.dtype)
    points[0], points[-1] = 0, 1
    return points


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request):
    """A model with the coefficients of the authors' program, and what that program computed with them."""
    case = np.load(request.param)
    model = Atlas(int(case["n"]), int(case["p"]), int(case["M"]), int(case["r"]))
    for rho in range(model.density + 1):
        model.f(rho)[:] = case[f"theta_f_{rho}"]
        model.g(rho)[:] = case[f"theta_g_{rho}"]
        model.h(rho)[:] = case[f"theta_h_{rho}"]
    return model, case


def test_there_are_golden_cases():
    assert len(GOLDEN) == 2


def test_outputs_agree_with_the_authors_program(golden):
    model, case = golden
    np.testing.assert_allclose(model(case["x"]), case["y"], rtol=1e-4, atol=1e-5)


def test_gradients_agree_with_the_authors_program(golden):
    model, case = golden
    expected = np.concatenate([case[name].ravel() for name in ("grad_f", "grad_g", "grad_h")])
    total = np.asarray(model.gradient(case["x"]).sum(axis=0)).ravel()
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(models, st.integers(1, 150), st.integers(0, 1000))
def test_outputs_agree_with_the_oracle(configuration, rows, seed):
    model = oracle.randomize(Atlas(**configuration), seed)
    X = random_points(model, rows, seed)
    expected = oracle.evaluate(model, X)
    scale = np.abs(expected).max() + np.exp(np.abs(oracle.sums(model, X)[1]).max(initial=0))
    np.testing.assert_allclose(model(X), expected, atol=TOLERANCE[configuration["dtype"]] * scale)


@settings(max_examples=30, deadline=None)
@given(models, st.integers(0, 1000))
def test_gradient_agrees_with_finite_differences(configuration, seed):
    model = oracle.randomize(Atlas(**configuration | {"dtype": "float64"}), seed)
    X = random_points(model, 3, seed)
    direction = np.random.default_rng(seed).normal(size=model.n_trainable)
    slope = oracle.slope_along(model, X, direction).ravel()
    scale = np.abs(slope).max() + 1
    np.testing.assert_allclose(model.gradient(X) @ direction, slope, atol=1e-6 * scale)


@settings(max_examples=60, deadline=None)
@given(models, st.integers(0, 2), st.integers(0, 12), st.integers(0, 1000))
def test_expansion_leaves_every_bit_of_the_output(configuration, density, terms, seed):
    model = oracle.randomize(Atlas(**configuration), seed)
    X = random_points(model, 100, seed)
    before = model(X)
    model.expand(density=density, terms=terms)
    assert model.terms == configuration["terms"] + terms
    assert model.density == configuration["density"] + density
    np.testing.assert_array_equal(model(X), before)


def test_an_expanded_model_has_the_old_coefficients_and_zeros():
    model = oracle.randomize(Atlas(2, 2, terms=3, density=1))
    old = model.copy()
    model.expand(density=1, terms=2)
    for rho in range(2):
        np.testing.assert_array_equal(model.f(rho), old.f(rho))
        np.testing.assert_array_equal(model.g(rho)[:, :3], old.g(rho))
        np.testing.assert_array_equal(model.h(rho)[:, :3], old.h(rho))
        assert not model.g(rho)[:, 3:].any()
    assert not model.f(2).any()


def test_views_are_writable_and_independent():
    model = Atlas(2, outputs=2, terms=3, density=2)
    model.f(2)[1, 0, 5] = 1.0
    model.g(2)[0, 2, 1, 7] = 2.0
    model.h(1)[1, 0, 1, 3] = 3.0
    assert np.count_nonzero(state_of(model).table) == 3
    assert model.f(2)[1, 0, 5] == 1.0
    assert model.g(2)[0, 2, 1, 7] == 2.0
    assert model.h(1)[1, 0, 1, 3] == 3.0


@given(models)
def test_counts_follow_the_corrected_formula(configuration):
    model = Atlas(**configuration)
    width = model.inputs * (2 * model.terms + 1) * model.outputs
    everything = (2 ** (model.density + 3) - 4) * width
    finest = 2 ** (model.density + 2) * width
    assert model.n_parameters == everything
    assert model.n_trainable == (finest if model.trainable == "finest" else everything)
    assert model.gradient(np.full((1, model.inputs), 0.5)).shape == (model.outputs, model.n_trainable)


def test_an_empty_model_is_zero():
    assert not Atlas(3, outputs=2, terms=0, density=0)(np.random.default_rng(0).random((10, 3))).any()


def test_threads_do_not_change_a_bit():
    model = oracle.randomize(Atlas(3, outputs=2))
    X = random_points(model, MANY + 17)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        serial = model(X)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(model(X), serial)
    np.testing.assert_array_equal(np.vstack([model(X[i : i + 1]) for i in range(50)]), serial[:50])


def test_a_copy_is_independent():
    model = oracle.randomize(Atlas(2))
    X = random_points(model, 10)
    twin = model.copy()
    twin.f(4)[:] += 1
    assert (twin(X) != model(X)).any()


def test_repr_names_the_configuration_and_size():
    assert repr(Atlas(2, terms=3, density=1, damping=10)) == (
        "Atlas(inputs=2, outputs=1, terms=3, density=1, trainable='finest', damping=10.0, dtype='float32')\n"
        "with 168 coefficients, 112 of them trainable"
    )


# --- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"inputs": 0}, ValueError, "inputs must be at least 1, not 0"),
        ({"inputs": 2.5}, TypeError, r"inputs must be a whole number, not 2\.5"),
        ({"inputs": 2, "outputs": -1}, ValueError, "outputs must be at least 1, not -1"),
        ({"inputs": 2, "terms": -1}, ValueError, "terms must be at least 0, not -1"),
        ({"inputs": 2, "density": "4"}, TypeError, "density must be a whole number, not '4'"),
        ({"inputs": 2, "density": 21}, ValueError, "density must be at most 20, not 21"),
        ({"inputs": 2, "trainable": "some"}, ValueError, "trainable must be 'finest' or 'all', not 'some'"),
        ({"inputs": 2, "damping": -1}, ValueError, "damping must be a finite number of at least 0, not -1"),
        ({"inputs": 2, "damping": "a"}, ValueError, "damping must be a finite number of at least 0, not 'a'"),
        (
            {"inputs": 2, "dtype": "float16"},
            ValueError,
            "dtype must be 'float32' or 'float64', not 'float16'",
        ),
    ],
)
def test_bad_configurations_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        Atlas(**arguments)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([0.1, 0.2], ValueError, r"X has shape \(2,\); expected two dimensions, \(rows, 2\)"),
        ([[0.1]], ValueError, "X has 1 columns but the model has 2 inputs"),
        ([[0.1, 0.2, 0.3]], ValueError, "X has 3 columns but the model has 2 inputs"),
        ([[0.1, 0.2], [0.3, np.nan]], ValueError, r"X\[1, 1\] is nan; remove or fill"),
        ([[np.inf, 0.2]], ValueError, r"X\[0, 0\] is inf; remove or fill"),
        ([[0.5, 0.2], [0.5, 1.5]], ValueError, r"X\[1, 1\] is 1\.5; inputs must lie in \[0, 1\].*column 1"),
        ([[-0.25, 0.2]], ValueError, r"X\[0, 0\] is -0\.25; inputs must lie in \[0, 1\]"),
        (np.array([[0.1, 0.2]], object), TypeError, "X has dtype object; give it as an array of real"),
        ([["a", "b"]], TypeError, "X has dtype <U1"),
        ([[0.1j, 0.2]], TypeError, "X has dtype complex128"),
        (np.empty((0, 2)), ValueError, r"X is empty, with shape \(0, 2\)"),
    ],
)
@pytest.mark.parametrize("method", ["__call__", "gradient"])
def test_bad_points_are_named(X, error, message, method):
    with pytest.raises(error, match=message):
        getattr(Atlas(2), method)(X)


def test_a_failed_expansion_changes_nothing():
    model = oracle.randomize(Atlas(2, terms=3, density=1))
    before, text = state_of(model).table.copy(), repr(model)
    with pytest.raises(ValueError, match="density must be at least 0, not -1"):
        model.expand(density=-1)
    with pytest.raises(TypeError, match="terms must be a whole number"):
        model.expand(terms=1.5)
    with pytest.raises(ValueError, match="density must be at most 19, not 20"):
        model.expand(density=20)
    assert repr(model) == text
    np.testing.assert_array_equal(state_of(model).table, before)


def test_unknown_densities_are_named():
    with pytest.raises(ValueError, match="density must be at most 4, not 5"):
        Atlas(2).f(5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["__call__", "gradient"])
def test_overflow_is_an_error_and_never_a_silent_nan(dtype, method):
    model = Atlas(1, terms=1, density=0, dtype=dtype)
    model.g(0)[:] = model.h(0)[:] = 1e4  # inf − inf
    with pytest.raises(OverflowError, match=f"an exponential overflowed {dtype} at row 0"):
        getattr(model, method)([[0.5]])


@pytest.mark.parametrize(("outputs", "terms"), [(2, 1), (3, 2), (8, 1), (8, 3)])
def test_narrow_layouts_with_many_outputs(outputs, terms):
    model = oracle.randomize(Atlas(2, outputs, terms, density=1))
    X = random_points(model, 40)
    np.testing.assert_allclose(model(X), oracle.evaluate(model, X), atol=1e-4)


def test_integers_and_bools_are_numbers():
    model = oracle.randomize(Atlas(2))
    np.testing.assert_array_equal(model([[0, 1]]), model([[0.0, 1.0]]))
    np.testing.assert_array_equal(model([[False, True]]), model([[0.0, 1.0]]))


def test_only_the_finest_density_has_gradients_unless_all_are_trained():
    finest, every = (Atlas(2, terms=1, density=3, trainable=kind) for kind in ("finest", "all"))
    X = [[0.3, 0.6]]
    assert finest.gradient(X).nnz == 4 * 2 * 3
    assert every.gradient(X).nnz == 4 * 4 * 2 * 3
    assert every.gradient(X).shape[1] == sum(splines.basis_size(d) for d in range(4)) * 2 * 3


def test_an_expansion_that_does_not_fit_into_memory_changes_nothing(monkeypatch):
    model = Atlas(inputs=2, terms=1, density=0)
    model.f(0)[:] = 1
    before = model([[0.5, 0.5]])

    def full(*arguments):
        raise MemoryError

    monkeypatch.setattr(State, "zero", full)
    with pytest.raises(MemoryError):
        model.expand(density=3, terms=5)
    assert (model.terms, model.density) == (1, 0)
    assert (model([[0.5, 0.5]]) == before).all()


def test_a_fingerprint_that_is_remembered_follows_whatever_is_written_to_the_tables():
    model = Atlas(inputs=2, terms=1, density=1)
    view, before = model.f(1), model.fingerprint()
    assert model.fingerprint() == before == model._content_hash()
    view[0, 0, 3] = 0.5
    assert model.fingerprint() == model._content_hash() != before
    view[0, 0, 3] = 0
    assert model.fingerprint() == before


def test_a_fingerprint_that_is_remembered_follows_what_is_written_to_a_chart():
    model = Atlas(inputs=1, density=1)
    points = np.linspace(0.2, 0.4, 100)[:, None]
    update(model, points, np.ones(100), random_state=0)
    before = model.fingerprint()
    model.charts[0].content.g(0)[:] += 0.25
    assert model.fingerprint() == model._content_hash() != before
