"""Every method on two small tasks, and the parts that can be worked out by hand."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from atlas_splines.experiments.arena.methods import METHODS, MissingPackage, find
from atlas_splines.experiments.arena.methods.base import Setup, far_from
from atlas_splines.experiments.arena.methods.ewc import EWC, OnlineEWC, fisher
from atlas_splines.experiments.arena.methods.network import Network, train
from atlas_splines.experiments.arena.methods.ogd import OGD, PCAOGD, orthonormal
from atlas_splines.experiments.arena.methods.pruning import Pruning
from atlas_splines.experiments.arena.methods.replay import CAPACITY, Reservoir
from atlas_splines.experiments.arena.tasks import Task


@pytest.fixture(autouse=True)
def one_thread():
    """As in the arena: small matrices on many threads are slow, and add up in another order."""
    with threadpool_limits(1):
        yield


SETUP = Setup(inputs=2, classes=0, seed=0, steps=60)
KEEPS = {name for name, entry in METHODS.items() if entry.keeps_all}


def left_then_right(classes=0):
    """Two tasks side by side; the second replaces nothing."""
    random = np.random.default_rng(0)
    tasks = []
    for k in range(2):
        X = random.random((120, 2))
        X[:, 0] = 0.45 * X[:, 0] + 0.55 * k
        y = (X[:, 1] > 0.5) + 2.0 * k if classes else X[:, 1] + k
        tasks.append(Task(X, y, X[:20], y[:20]))
    return tasks


def skip_without_its_package(name):
    torch_methods = ("pi-sigma", "kasam", "functional", "spline-activations")
    for method, package in (*((name, "torch") for name in torch_methods), ("kan", "kan")):
        if name.startswith(method):
            pytest.importorskip(package)


def make(name, setup):
    kind = find(name)
    return kind(setup, **kind.GRID[0])


@pytest.mark.slow
@pytest.mark.parametrize("classes", [0, 4])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_two_tasks(name, classes):
    skip_without_its_package(name)
    method = make(name, SETUP._replace(classes=classes))
    first, second = left_then_right(classes)
    for task in (first, second):
        method.fit(task)
        out = method.predict(task.X)
        assert out.shape == (120, classes or 1)
        assert np.isfinite(out).all()
        worst = np.abs(task.y - task.y.mean()).mean() if not classes else 0.5
        wrong = (out.argmax(axis=1) != task.y).mean() if classes else np.abs(out[:, 0] - task.y).mean()
        assert wrong < (2 if name == "pi-sigma" else 1) * worst, name
    assert method.bytes_kept > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_at_most_six_settings_and_repeats_itself(name):
    skip_without_its_package(name)
    assert 1 < len(find(name).GRID) <= 6
    first, _ = left_then_right()
    outputs = []
    for _ in range(2):
        method = make(name, SETUP._replace(steps=5))
        method.fit(first)
        outputs.append(method.predict(first.X))
    # pykan starts from a least-squares fit that does not always round in the same way
    np.testing.assert_allclose(*outputs, rtol=0, atol=0.05 if name == "kan" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KEEPS))
def test_what_keeps_all_data_drops_what_a_task_replaces(name):
    method = make(name, SETUP._replace(steps=400))
    first, _ = left_then_right()
    method.fit(first)
    method.fit(Task(first.X, first.y + 5, first.X, first.y, lambda X: np.ones(len(X), bool)))
    assert len(method.X) == len(first.X)
    assert method.predict(first.X).mean() == pytest.approx(first.y.mean() + 5, abs=0.5)


@pytest.mark.parametrize(("package", "method"), [("kan", "kan"), ("river", "river-forest")])
def test_a_missing_package_is_named(monkeypatch, package, method):
    import atlas_splines.experiments.arena.methods as methods

    def gone(name):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(methods, "import_module", gone)
    with pytest.raises(MissingPackage, match=rf"no module '{package}': pip install 'atlas-splines\[arena\]'"):
        find(method)


# --- the network -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [0, 3])
def test_gradients_are_those_of_pytorch(classes):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    network = Network([2, 5, 4, classes or 1], classes, random)
    X = random.random((7, 2)).astype(np.float32)
    targets = np.eye(3)[random.integers(0, 3, 7)] if classes else random.random((7, 1))
    gradient = network.gradient(X, targets.astype(np.float32))

    theta = torch.tensor(network.parameters, requires_grad=True)
    value, start = torch.from_numpy(X), 0
    for k, (a, b) in enumerate(network.shapes):
        weights, biases = (
            theta[start : start + a * b].reshape(a, b),
            theta[start + a * b : start + (a + 1) * b],
        )
        value, start = value @ weights + biases, start + (a + 1) * b
        value = torch.relu(value) if k < 2 else value
    aim = torch.from_numpy(targets)
    loss = torch.nn.functional.cross_entropy(value, aim) if classes else (value - aim).abs().mean()
    loss.backward()
    np.testing.assert_allclose(gradient, theta.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_gradients_of_rows_add_up_to_the_gradient():
    random = np.random.default_rng(1)
    network = Network([3, 6, 2], 0, random)
    X, targets = random.random((5, 3)), random.random((5, 2))
    direction = np.sign(network.outputs(X) - targets) / 5
    np.testing.assert_allclose(
        network.row_gradients(X, direction).sum(axis=0), network.gradient(X, targets), rtol=1e-4, atol=1e-6
    )


def test_inputs_from_outside_reach_the_layer_they_are_for():
    network = Network([1, 2, 1], 0, np.random.default_rng(0), extra=[0, 1])
    network.parameters[:] = 0
    (_, _), (weights, _) = network.layers(network.parameters)
    weights[2] = 3  # what the output reads from outside
    X, outside = np.ones((2, 1)), [np.zeros((2, 0)), np.array([[1.0], [2.0]])]
    np.testing.assert_allclose(network.outputs(X, outside), [[3], [6]])


# --- EWC -------------------------------------------------------------------------------------------------


def linear(weight, bias):
    """The network w·x + b, without hidden layers."""
    network = Network([1, 1], 0, np.random.default_rng(0))
    network.parameters[:] = weight, bias
    return network


def test_fisher_information_of_a_line():
    # f = w·x + b: the mean of (∂f/∂w)² is that of x², the mean of (∂f/∂b)² is 1
    np.testing.assert_allclose(fisher(linear(0.5, 0.0), np.array([[1.0], [3.0]])), [5.0, 1.0])


def test_fisher_information_of_a_softmax():
    network = Network([1, 2], 2, np.random.default_rng(0))
    network.parameters[:] = 0  # p = (½, ½): ∂ log p_c/∂b is ±½, so each bias has ¼
    np.testing.assert_allclose(fisher(network, np.array([[2.0]])), [1.0, 1.0, 0.25, 0.25])


def test_penalty_of_ewc_by_hand():
    method = EWC(SETUP._replace(inputs=1), rate=0.01, strength=10.0)
    method.network = linear(1.0, 2.0)
    method.remember(Task(np.array([[1.0], [3.0]]), np.zeros(2), np.zeros((0, 1)), np.zeros(0)))
    theta = np.array([1.5, 1.0], np.float32)
    # 10/2 · (5·0.5² + 1·1²) = 11.25, with gradient 10·(5·0.5, −1)
    assert method.penalty(method.network.parameters) == 0
    assert method.penalty(theta) == pytest.approx(11.25)
    np.testing.assert_allclose(method.penalty_gradient(theta), [25.0, -10.0])
    method.remember(Task(np.array([[2.0]]), np.zeros(1), np.zeros((0, 1)), np.zeros(0)))
    assert method.penalty(theta) == pytest.approx(11.25 + 5 * (4 * 0.25 + 1))  # another of its own


def test_online_ewc_fades_and_keeps_one_anchor():
    method = OnlineEWC(SETUP._replace(inputs=1), rate=0.01, strength=2.0)
    method.network = linear(1.0, 0.0)
    for x in (1.0, 2.0):
        method.remember(Task(np.array([[x]]), np.zeros(1), np.zeros((0, 1)), np.zeros(0)))
    np.testing.assert_allclose(method.fishers, [[4 + 0.95 * 1, 1 + 0.95]])
    assert len(method.anchors) == 1


def test_ewc_stays_nearer_than_plain_training():
    first, second = left_then_right()
    moved = {}
    for strength in (0.0, 1000.0):
        method = EWC(SETUP, rate=0.003, strength=strength)
        method.fit(first)
        before = method.predict(first.X)
        method.fit(second)
        moved[strength] = np.abs(method.predict(first.X) - before).mean()
    assert 0 < moved[1000.0] < 0.7 * moved[0.0]


# --- OGD -------------------------------------------------------------------------------------------------


def test_projection_of_ogd_by_hand():
    method = OGD(SETUP._replace(inputs=1), rate=0.01, directions=5)
    method.network = linear(1.0, 0.0)
    method.basis = np.zeros((0, 2), np.float32)
    method.remember(Task(np.array([[0.75]]), np.zeros(1), np.zeros((0, 1)), np.zeros(0)))
    # the gradient of w·x + b at x = ¾ is (¾, 1), of unit length (0.6, 0.8); (1, 0) leaves (0.64, −0.48)
    np.testing.assert_allclose(method.basis, [[0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(method.project(np.array([1.0, 0.0])), [0.64, -0.48], rtol=1e-6)
    np.testing.assert_allclose(method.project(np.array([3.0, 4.0])), [0, 0], atol=1e-6)


def test_a_linear_model_with_ogd_forgets_nothing_at_its_points():
    network = linear(1.0, 0.0)
    basis = orthonormal(np.zeros((0, 2)), np.array([[0.75, 1.0]]))
    old = network.outputs(np.array([[0.75]])).copy()

    def project(g):
        return g - (basis @ g) @ basis

    train(network, lambda: (np.array([[0.2]]), np.array([[5.0]])), 50, 0.05, project=project)
    np.testing.assert_allclose(network.outputs(np.array([[0.75]])), old, rtol=1e-5)
    assert network.outputs(np.array([[0.2]]))[0, 0] > 0.3  # it did learn


def test_pca_ogd_keeps_the_principal_directions():
    method = PCAOGD(SETUP._replace(inputs=2), rate=0.01, directions=1)
    method.gradients = lambda task, rows: np.array([[3.0, 0, 0], [3.0, 0.1, 0], [0, 0.1, 0]])
    method.basis = np.zeros((0, 3))
    method.remember(left_then_right()[0])
    assert method.basis.shape == (1, 3)
    assert abs(method.basis[0, 0]) > 0.999
    method.remember(left_then_right()[0])  # what is left is along the second
    np.testing.assert_allclose(np.abs(method.basis @ method.basis.T), np.eye(2), atol=1e-6)
    assert abs(method.basis[1, 1]) > 0.999


# --- the others ------------------------------------------------------------------------------------------


def test_a_reservoir_is_a_uniform_sample_without_what_is_no_longer_true():
    method = Reservoir(SETUP, rate=0.003, share=0.5)
    X = np.random.default_rng(0).random((4000, 2))
    for k in range(2):
        part = X[2000 * k : 2000 * (k + 1)]
        method.remember(Task(part, np.full(2000, k), X[:0], X[:0, 0]))
    assert len(method.X) == CAPACITY
    assert method.y.mean() == pytest.approx(0.5, abs=0.06)
    method.draw(Task(X, X[:, 0], X[:0], X[:0, 0], lambda points: points[:, 0] < 0.5))
    assert (method.X[:, 0] >= 0.5).all()
    assert 400 < len(method.X) < 600
    half = X[:2000] / 2
    method.remember(Task(half, np.full(2000, 2), X[:0], X[:0, 0]))  # as many as are still true
    assert len(method.X) == CAPACITY
    assert (method.y == 2).mean() == pytest.approx(0.5, abs=0.06)


def test_pruned_units_compute_what_they_did():
    method = Pruning(SETUP, rate=0.003, tolerance=0.5)
    first, second = left_then_right()
    method.fit(first)
    used = [units.copy() for units in method.used]
    assert 0 < used[0].sum() <= used[0].size / 2
    before = method.predict(first.X)
    hidden = [v[:, u] for v, u in zip(method.network.activations(first.X)[1:], used, strict=False)]
    method.fit(second)
    again = [v[:, u] for v, u in zip(method.network.activations(first.X)[1:], used, strict=False)]
    for old, new in zip(hidden, again, strict=True):
        np.testing.assert_allclose(new, old, atol=1e-6)
    np.testing.assert_array_equal(method.predict(first.X), before)
    assert all((now | old == now).all() for now, old in zip(method.used, used, strict=True))


def test_a_progressive_network_never_changes_an_old_column():
    method = make("progressive", SETUP)
    first, second = left_then_right()
    method.fit(first)
    before = method.predict(first.X)
    method.fit(second)
    np.testing.assert_array_equal(method.predict(first.X), before)


def test_random_points_for_rehearsal_are_not_among_the_new_data():
    random = np.random.default_rng(0)
    box = 0.5 * random.random((2000, 2))
    points = far_from(box, 1000, random)
    assert len(points) == 1000
    assert (points < 0.48).all(axis=1).mean() < 0.05
    line = np.stack([np.linspace(0, 1, 500)] * 2, axis=1)
    assert len(far_from(line, 500, random)) == 500
