import numpy as np
import pytest

from atlas_splines.model import kernels
from atlas_splines.model.losses import LOSSES, find_loss


def example(loss, rows=20, outputs=3):
    random = np.random.default_rng(1)
    prediction = random.normal(size=(rows, outputs), scale=2)
    target = random.normal(size=(rows, outputs))
    if loss.name == "cross-entropy":
        target = np.eye(outputs)[random.integers(outputs, size=rows)]
    return prediction, target


@pytest.mark.parametrize("loss", LOSSES.values(), ids=lambda loss: loss.name)
def test_gradient_is_the_derivative_of_the_value(loss):
    prediction, target = example(loss)
    gradient, step = loss.gradient(prediction, target), 1e-6
    for p in range(prediction.shape[1]):
        shift = step * np.eye(prediction.shape[1])[p]
        slope = (loss.per_row(prediction + shift, target) - loss.per_row(prediction - shift, target)) / (
            2 * step
        )
        np.testing.assert_allclose(gradient[:, p], slope, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=lambda loss: loss.name)
def test_the_kernel_computes_the_same(loss):
    prediction, target = example(loss)
    weights = np.random.default_rng(2).random(prediction.shape[0])
    batch = np.array([3, 4, 11, 7])
    samples = kernels.Samples(
        np.empty((0, 1)), target, weights, np.empty((0, 8)), np.empty(0), np.empty((0, 3))
    )
    out = prediction[batch].copy()
    total = kernels.batch_loss(loss.code, samples, batch, out)
    share = weights[batch] / weights[batch].sum()
    np.testing.assert_allclose(total, weights[batch] @ loss.per_row(prediction[batch], target[batch]))
    np.testing.assert_allclose(out, share[:, None] * loss.gradient(prediction[batch], target[batch]))


def test_values_worked_out_by_hand():
    prediction, target = np.array([[3.0, 0.5]]), np.array([[0.0, 0.0]])
    assert LOSSES["mae"](prediction, target) == 1.75
    assert LOSSES["mse"](prediction, target) == 4.625
    assert LOSSES["huber"](prediction, target) == (2.5 + 0.125) / 2
    even = LOSSES["cross-entropy"](np.zeros((1, 2)), np.array([[1.0, 0.0]]))
    assert even == pytest.approx(np.log(2))


def test_weights_average_the_rows():
    prediction, target = np.array([[1.0], [5.0]]), np.zeros((2, 1))
    assert LOSSES["mae"](prediction, target, np.array([3.0, 1.0])) == 2.0


def test_unknown_losses_are_named():
    with pytest.raises(ValueError, match="loss must be one of mae, mse, huber, cross-entropy, not 'mad'"):
        find_loss("mad")
