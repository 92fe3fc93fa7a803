import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_splines import Atlas, Trainer
from atlas_splines.model import kernels, splines
from atlas_splines.model.atlas import state_of
from atlas_splines.model.losses import LOSSES


def test_float32_exponential_is_accurate_to_rounding():
    x = np.concatenate([np.linspace(-87, 88, 100_001), [0.0, -0.0]]).astype(np.float32)
    result = np.empty_like(x)
    kernels.exponential(x, result)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(result / exact - 1).max() < 1.5e-7
    assert result[-1] == result[-2] == 1.0  # expansion relies on it


def test_float32_exponential_overflows_to_infinity_and_keeps_nan():
    x = np.array([100.0, 1e30, np.inf, np.nan, -100.0, -np.inf, 88.0], np.float32)
    kernels.exponential(x, x)
    assert np.isposinf(x[:3]).all()
    assert np.isnan(x[3])
    assert (x[4:6] < 2e-38).all()
    assert np.isfinite(x[6])


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 6), st.sampled_from(["float32", "float64"]), st.integers(0, 99))
def test_locate_agrees_with_the_oracle(inputs, density, dtype, seed):
    x = np.random.default_rng(seed).random((20, inputs)).astype(dtype)
    x[0], x[-1] = 0, 1
    rows, weights = np.empty(x.size, np.int32), np.empty((4, x.size), dtype)
    kernels.locate(x.ravel(), inputs, density, rows, weights)
    first = np.arange(inputs) * splines.basis_size(density) + kernels.first_row(inputs, density)
    cells = rows.reshape(x.shape) - first
    # a point within rounding of a knot may go to either cell; the basis functions agree all the same
    for i, j in np.ndindex(*x.shape):
        dense = np.zeros(splines.basis_size(density))
        dense[cells[i, j] : cells[i, j] + 4] = weights[:, i * inputs + j]
        expected = splines.basis(x[i : i + 1, j].astype(float), density)[0]
        np.testing.assert_allclose(dense, expected, atol=1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("loss", ["mae", "mse", "huber", "cross-entropy"])
@pytest.mark.parametrize("optimizer", ["lazy-adam", "adam", "sgd"])
@pytest.mark.parametrize("trainable", ["finest", "all"])
def test_training_steps_agree_with_plain_numpy(loss, optimizer, trainable):
    model = oracle.randomize(Atlas(3, outputs=2, terms=3, density=2, trainable=trainable, dtype="float64"))
    plain = model.copy()
    random = np.random.default_rng(5)
    X, y, weight = random.random((60, 3)), random.normal(size=(60, 2)), random.random(60)
    if loss == "cross-entropy":
        y = np.eye(2)[random.integers(2, size=60)]
    trainer = Trainer(model, loss=loss, optimizer=optimizer, batch_size=13, random_state=3)
    trainer.run(X, y, epochs=3, sample_weight=weight)

    order, adam = np.random.default_rng(3), oracle.PlainAdam(plain, 0.01, lazy=optimizer == "lazy-adam")
    for _ in range(3):
        shuffled = order.permutation(60)
        for batch in (shuffled[i : i + 13] for i in range(0, 60, 13)):
            if optimizer == "sgd":
                share = (weight[batch] / weight[batch].sum())[:, None]
                slope = LOSSES[loss].gradient(oracle.evaluate(plain, X[batch]), y[batch]) * share
                gradient = plain.gradient(X[batch]).T @ slope.ravel()
                oracle.assign(plain, oracle.gather(plain) - 0.01 * gradient)
            else:
                adam.step(X[batch], y[batch], loss, weight[batch])
    np.testing.assert_allclose(state_of(model).table, state_of(plain).table, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 11), st.integers(0, 3), st.integers(0, 99))
def test_padding_stays_zero(inputs, outputs, terms, density, seed):
    model = Atlas(inputs, outputs, terms, density)
    random = np.random.default_rng(seed)
    Trainer(model, random_state=seed).run(
        random.random((50, inputs)), random.normal(size=(50, outputs)), epochs=2
    )
    assert not state_of(model).table[:, outputs * (2 * terms + 1) :].any()
