"""Dynamic programming, functional regularisation, spline activations, and the opponents for streams."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from atlas_splines.experiments.arena.methods import find
from atlas_splines.experiments.arena.methods.base import Setup
from atlas_splines.experiments.arena.methods.dynamic import DynamicProgramming
from atlas_splines.experiments.arena.methods.mlp import MLP
from atlas_splines.experiments.arena.methods.online import RESERVOIR, ReservoirBoosting
from atlas_splines.experiments.arena.tasks import Task

SETUP = Setup(inputs=2, classes=0, seed=0, steps=150)
OPPONENTS = ("never", "river-forest", "river-tree", "mlp-partial-fit", "boosting-reservoir", "boosting")


@pytest.fixture(autouse=True)
def one_thread():
    """As in the arena: small matrices on many threads are slow, and add up in another order."""
    with threadpool_limits(1):
        yield


def make(name, setup=SETUP):
    if name.startswith("river"):
        pytest.importorskip("river")
    kind = find(name)
    return kind(setup, **kind.GRID[0])


def wave(X):
    return np.sin(6 * X[:, 0]) + X[:, 1]


def side(k, rows=300):
    """Rows of one function, left for k = 0 and right for k = 1."""
    X = np.random.default_rng(k).random((rows, 2))
    X[:, 0] = 0.45 * X[:, 0] + 0.55 * k
    return Task(X, wave(X), X, wave(X))


def error(method, task):
    return np.abs(method.predict(task.X)[:, 0] - task.y).mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp-dynamic-programming", "functional", "spline-activations"])
def test_a_simple_task_is_learned(name):
    if name != "mlp-dynamic-programming":
        pytest.importorskip("torch")
    method, task = make(name), side(0)
    method.fit(task)
    assert error(method, task) < 0.3 * np.abs(task.y - task.y.mean()).mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp-dynamic-programming", "functional"])
def test_less_is_forgotten_than_by_a_plain_network(name):
    if name == "functional":
        pytest.importorskip("torch")
    plain, method = make("mlp"), make(name)
    for task in (side(0), side(1)):
        plain.fit(task)
        method.fit(task)
    assert error(method, side(0)) < 0.5 * error(plain, side(0))


# --- dynamic programming ---------------------------------------------------------------------------------


def test_without_experience_the_cost_is_that_of_the_new_task():
    method, plain = DynamicProgramming(SETUP, rate=0.01, sensitivity=0.5), MLP(SETUP, rate=0.01)
    new = side(0).X.astype(np.float32), side(0).y[:, None].astype(np.float32)
    nothing = new[0][:0], new[1][:0]
    np.testing.assert_array_equal(method.cost_gradient(new, nothing), plain.network.gradient(*new))


def test_the_sensitivity_is_a_finite_difference_and_leaves_the_prediction_layer_alone():
    method = DynamicProgramming(SETUP, rate=0.01, sensitivity=0.25)
    network = method.network
    new, past = ((side(k).X.astype(np.float32), side(k).y[:, None].astype(np.float32)) for k in (1, 0))
    X, targets = (np.vstack(pair) for pair in zip(new, past, strict=True))
    now, ahead = network.parameters.copy(), method.looked_ahead(*new)
    found = method.cost_gradient(new, past)
    np.testing.assert_array_equal(network.parameters, now)
    last = 64 + 1  # weights and bias of the prediction layer
    np.testing.assert_array_equal(ahead[:-last], now[:-last])
    assert np.abs(ahead[-last:] - now[-last:]).max() > 0
    here = network.gradient(X, targets)
    network.parameters = ahead
    there = network.gradient(X, targets)
    np.testing.assert_array_equal(found[-last:], here[-last:])
    np.testing.assert_allclose(found[:-last], (0.75 * here + 0.25 * there)[:-last], rtol=1e-4, atol=1e-7)


def test_the_copied_layer_goes_down_the_new_cost():
    method = DynamicProgramming(SETUP, rate=0.01, sensitivity=0.5)
    X, targets = side(0).X.astype(np.float32), side(0).y[:, None].astype(np.float32)
    before = np.abs(method.network.outputs(X) - targets).mean()
    method.network.parameters = method.looked_ahead(X, targets)
    assert np.abs(method.network.outputs(X) - targets).mean() < before


# --- functional regularisation ---------------------------------------------------------------------------


def test_kl_of_gaussians_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    from torch.distributions import MultivariateNormal, kl_divergence

    from atlas_splines.experiments.arena.methods.functional import gaussian_kl

    random = np.random.default_rng(0)
    A, B = (torch.from_numpy(random.normal(size=(4, 4))) for _ in range(2))
    S, K = A @ A.T + torch.eye(4), B @ B.T + torch.eye(4)
    mean = torch.from_numpy(random.normal(size=(4, 2)))
    prior = MultivariateNormal(torch.zeros(4, dtype=S.dtype), K)
    whole = sum(kl_divergence(MultivariateNormal(mean[:, k], S), prior) for k in range(2))
    assert gaussian_kl(mean, S, K).item() == pytest.approx(whole.item())


def test_inducing_points_span_the_others():
    pytest.importorskip("torch")
    from atlas_splines.experiments.arena.methods.functional import inducing_rows

    random = np.random.default_rng(0)
    phi = random.normal(size=(50, 3)) @ random.normal(size=(3, 8))  # of rank 3
    rows = inducing_rows(phi, 10)
    assert len(rows) == 3
    assert np.linalg.matrix_rank(phi[rows]) == 3


@pytest.mark.slow
def test_replaced_inducing_points_are_dropped_and_counted():
    pytest.importorskip("torch")
    method = make("functional")
    method.fit(side(0))
    kept, before = method.summaries[0].points, method.bytes_kept
    half = Task(side(1).X, side(1).y, side(1).X, side(1).y, lambda X: X[:, 1] < 0.5)
    method.fit(half)
    assert len(method.summaries) == 2
    np.testing.assert_array_equal(method.summaries[0].points, kept[kept[:, 1] >= 0.5])
    assert method.summaries[0].covariance.shape == (len(method.summaries[0].points),) * 2
    assert method.bytes_kept > before - 4 * len(kept) * (len(kept) + 3)
    everything = Task(side(1).X, side(1).y, side(1).X, side(1).y, lambda X: np.ones(len(X), bool))
    method.fit(everything)
    assert len(method.summaries) == 1


# --- spline activations ----------------------------------------------------------------------------------


def test_a_spline_passes_through_its_control_points_and_is_smooth():
    torch = pytest.importorskip("torch")
    from atlas_splines.experiments.arena.methods.spline_activations import SplineActivation

    activation = SplineActivation(units=2)
    with torch.no_grad():
        activation.points += torch.from_numpy(np.random.default_rng(0).normal(size=(2, 23)))
        places = torch.linspace(-2, 2, 21)
        through = activation(places[:, None].expand(-1, 2))
        np.testing.assert_allclose(through.numpy(), activation.points[:, 1:-1].T.numpy(), atol=1e-5)
    inner = places[1:-1]
    slopes = []
    for shift in (-1e-4, 1e-4):
        x = (inner + shift).clone().requires_grad_()
        activation(x[:, None].expand(-1, 2)).sum().backward()
        slopes.append(x.grad.numpy())
    np.testing.assert_allclose(*slopes, atol=0.2)
    assert np.abs(slopes[0]).max() > 5


@pytest.mark.slow
def test_damping_holds_the_activations():
    pytest.importorskip("torch")
    from atlas_splines.experiments.arena.methods.spline_activations import SplineNetwork

    bends = []
    for damping in (0.0, 1.0):
        method = SplineNetwork(SETUP._replace(steps=60), rate=0.01, damping=damping)
        method.fit(side(0))
        bends.append(sum(activation.bend().item() for activation in method.activations))
    assert bends[1] < 0.5 * bends[0]


# --- opponents for streams -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", OPPONENTS)
def test_opponents_learn_a_first_part_and_repeat_themselves(name):
    first, outputs = side(0, rows=600), []
    for _ in range(2):
        method = make(name)
        method.fit(first)
        outputs.append(method.predict(first.X))
    assert outputs[0].shape == (600, 1)
    np.testing.assert_array_equal(*outputs)
    assert error(method, first) < 0.8 * np.abs(first.y - first.y.mean()).mean()
    assert method.bytes_kept > 100
    assert 1 < len(type(method).GRID) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OPPONENTS if name != "never"])
def test_opponents_learn_what_comes_later(name):
    method = make(name)
    method.fit(side(0, rows=600))
    before = error(method, side(1, rows=600))
    for _ in range(2):
        method.fit(side(1, rows=600))
    assert error(method, side(1, rows=600)) < 0.8 * before


@pytest.mark.slow
def test_never_is_never_updated():
    method = make("never")
    method.fit(side(0))
    before = method.predict(side(1).X)
    method.fit(side(1))
    np.testing.assert_array_equal(method.predict(side(1).X), before)


def test_boosting_on_a_reservoir_keeps_a_uniform_sample():
    method = ReservoirBoosting(SETUP, rate=0.1, iterations=2)
    X = np.random.default_rng(0).random((6000, 2))
    for k in range(2):
        part = X[3000 * k : 3000 * (k + 1)]
        method.fit(Task(part, np.full(3000, float(k)), X[:0], X[:0, 0]))
    assert len(method.X) == len(method.drawn) == RESERVOIR
    assert method.y.mean() == pytest.approx(0.5, abs=0.05)
    method.fit(Task(X[:1], np.zeros(1), X[:0], X[:0, 0], lambda points: points[:, 0] < 0.5))
    assert (method.X[:-1, 0] >= 0.5).all()
