"""Updates: they learn, and do not forget; whatever fails leaves the model as it was."""

import _thread
import dataclasses
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
from boxes import box_data, bump
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atlas_splines import Atlas, Trainer, footprint, train, update
from atlas_splines.analysis import gradient_norm
from atlas_splines.model.atlas import state_of, take_state
from atlas_splines.model.rows import Rows
from atlas_splines.updates import update as updates
from atlas_splines.updates.update import DIVERGED, NO_CHART


def bits_changed_outside(model, area, change, points=4000, seed=0):
    """How many predictions outside a footprint differ by a bit after a change: the guarantee says none."""
    random = np.random.default_rng(seed)
    X = random.random((points, model.inputs)).astype(model.dtype)
    edges = np.array([edge for j in range(model.inputs) for pair in area.intervals(j) for edge in pair])
    near = random.choice(edges, (points, model.inputs)) + random.normal(size=X.shape, scale=1e-4)
    X = np.vstack([X, np.clip(near, 0, 1).astype(model.dtype)])  # half of them around the rim
    X = X[~area.contains(X)]
    before = model(X)
    change()
    return int((model(X) != before).sum())


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 4),
    st.sampled_from(["touch", "inside"]),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([1, 2, "auto"]),
    st.integers(0, 3),
    st.integers(0, 9999),
)
def test_predictions_outside_the_footprint_keep_every_bit(inputs, cover, dtype, charts, terms, seed):
    model = oracle.randomize(Atlas(inputs, 1, terms, 2, dtype=dtype), seed)
    for round in range(2):  # an update on top of another
        X, y = box_data(inputs, seed + round)
        area = footprint(model, X, cover=cover, charts=charts)
        options = {"cover": cover, "charts": charts, "epochs": 3, "terms": 2, "random_state": seed}
        assert bits_changed_outside(model, area, lambda: update(model, X, y, **options)) == 0  # noqa: B023
        assert (model(X) != 0).any()


def test_plain_updates_keep_every_bit_outside_the_cross():
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    area = footprint(model, X, retention="none")
    assert (
        bits_changed_outside(model, area, lambda: update(model, X, y, retention="none", random_state=0)) == 0
    )


def test_the_check_catches_an_unfrozen_base():
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    area = footprint(model, X)
    assert bits_changed_outside(model, area, lambda: train(model, X, y, epochs=2, random_state=0)) > 0


def test_the_check_catches_dense_adam():
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    trainer = Trainer(model, optimizer="adam", random_state=0)
    everywhere = np.random.default_rng(0).random((500, 2))
    trainer.run(everywhere, np.ones(500), epochs=2)  # leaves momentum
    area = footprint(model, X, retention="none")
    assert bits_changed_outside(model, area, lambda: trainer.run(X, y, epochs=2)) > 0


def test_the_check_catches_a_leaking_chart(monkeypatch):
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    area = footprint(model, X)
    honest = updates.plan_update
    monkeypatch.setattr(
        updates, "plan_update", lambda state, points, *options: honest(state, points - 0.01, *options)
    )
    assert bits_changed_outside(model, area, lambda: update(model, X, y + 20, epochs=5, random_state=0)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("retention", ["chart", "both"])
@pytest.mark.parametrize("cover", ["touch", "inside"])
def test_updates_learn_and_do_not_forget(trained, retention, cover):
    model = trained.copy()
    random = np.random.default_rng(1)
    X = 0.3 + 0.3 * random.random((2000, 2))
    done = update(model, X, bump(X), retention=retention, cover=cover, random_state=0)
    inside = 0.32 + 0.26 * random.random((500, 2))
    assert np.abs(model(inside)[:, 0] - bump(inside)).mean() < 0.05
    far = random.random((2000, 2))
    far = far[~footprint(trained, X).contains(far)]
    change = np.abs(model(far) - trained(far)).mean()
    assert (change == 0) if retention == "chart" else (change < 0.1)
    assert done.error_after < done.error_before / 20


def test_rehearsal_forgets_less_than_plain_training(trained):
    random = np.random.default_rng(1)
    X = 0.3 + 0.3 * random.random((2000, 2))
    far = random.random((2000, 2))
    far = far[~footprint(trained, X).contains(far)]
    changes = {}
    for retention in ("rehearsal", "none"):
        model = trained.copy()
        update(model, X, bump(X), retention=retention, random_state=0)
        changes[retention] = np.abs(model(far) - trained(far)).mean()
    assert changes["rehearsal"] < changes["none"] / 3


@pytest.mark.slow
def test_classification_updates():
    random = np.random.default_rng(0)
    X = random.random((1500, 2))
    model = Atlas(2, outputs=3)
    train(model, X, (X[:, 0] > 0.5).astype(int), loss="cross-entropy", epochs=20, random_state=0)
    box = 0.1 + 0.2 * random.random((500, 2))
    update(model, box, np.full(500, 2), loss="cross-entropy", random_state=0)
    assert (model(box).argmax(axis=1) == 2).mean() > 0.98


@pytest.mark.parametrize("retention", ["rehearsal", "both"])
def test_rehearsal_of_classes_keeps_the_old_ones(retention):
    random = np.random.default_rng(0)
    X = random.random((1000, 2))
    model = Atlas(2, outputs=3, density=2)
    train(model, X, (X[:, 0] > 0.5).astype(int), loss="cross-entropy", epochs=20, random_state=0)
    box = 0.3 * random.random((500, 2))
    update(model, box, np.full(500, 2), retention=retention, loss="cross-entropy", epochs=20, random_state=0)
    far = X[(X > 0.5).any(axis=1) & (np.abs(X[:, 0] - 0.5) > 0.1)]
    assert (model(far).argmax(axis=1) == (far[:, 0] > 0.5)).mean() > 0.95
    assert (model(box).argmax(axis=1) == 2).mean() > 0.95


def test_weights_of_zero_leave_rows_out():
    X, y = box_data(2, 0)
    kept = np.arange(len(y)) < 100
    model = Atlas(2)
    done = update(model, X, y, sample_weight=kept, epochs=2, random_state=0)
    assert done.rows == 100
    assert repr(done.footprint) == repr(footprint(model, X[kept]))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits():
    X, y = box_data(2, 0)
    first, second = Atlas(2), Atlas(2)
    for model in (first, second):
        update(model, X, y, random_state=3)
    assert first.fingerprint() == second.fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("loss", ["mae", "mse"])
def test_training_sees_what_charts_say(trained, replaces, loss):
    model = trained.copy()
    X = 0.3 + 0.3 * np.random.default_rng(1).random((2000, 2))
    update(model, X, bump(X), random_state=0)
    take_state(
        model,
        state_of(model).with_charts(
            [dataclasses.replace(chart, replaces=replaces) for chart in model.charts]
        ),
    )
    everywhere = np.random.default_rng(2).random((3000, 2))
    target = model(everywhere)
    history = train(model, everywhere, target, loss=loss, epochs=1, learning_rate=1e-9, random_state=0)
    assert history.loss[0] < 1e-5
    before = model.copy()
    train(model, everywhere, target + 1, loss="mse", epochs=20, random_state=0)
    inside = np.full((1, 2), 0.45)
    moved = abs(model(inside) - before(inside))[0, 0]
    assert (moved == 0) if replaces else (moved > 0.5)  # what is replaced has no say


@pytest.mark.slow
def test_gradients_know_what_charts_replace(trained):
    model = trained.copy()
    X = 0.3 + 0.3 * np.random.default_rng(1).random((2000, 2))
    update(model, X, bump(X), random_state=0)
    take_state(
        model,
        state_of(model).with_charts([dataclasses.replace(chart, replaces=True) for chart in model.charts]),
    )
    assert gradient_norm(model, [[0.45, 0.45]]) == 0
    assert gradient_norm(model, [[0.9, 0.9]]) > 1


def test_models_with_charts_survive_pickling(charted):
    X = np.random.default_rng(0).random((500, 2))
    twin = pickle.loads(pickle.dumps(charted))
    np.testing.assert_array_equal(twin(X), charted(X))
    assert twin.fingerprint() == charted.fingerprint()
    assert twin.updates[0].id == 1


def test_two_threads_can_predict_at_once(charted):
    X = np.random.default_rng(0).random((20_000, 2))
    expected = charted(X)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: charted(X), range(12)):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("retention", ["chart", "rehearsal", "both", "none"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError])
def test_a_failing_update_leaves_the_model_as_it_was(trained, retention, failure, monkeypatch):
    model = trained.copy()
    X, y = box_data(2, 0)
    update(model, X, y, epochs=1)
    before, log = model.fingerprint(), list(model.updates)
    real, calls = Trainer._epoch, []

    def failing(self, samples):
        calls.append(1)
        if len(calls) == 5:
            raise failure
        return real(self, samples)

    monkeypatch.setattr(Trainer, "_epoch", failing)
    with pytest.raises(failure):
        update(model, X, y, retention=retention, epochs=10)
    assert model.fingerprint() == before
    assert model.updates == log


@pytest.mark.parametrize("moment", ["fingerprint", "loss"])
def test_an_interrupt_after_learning_leaves_the_model_as_it_was(trained, moment, monkeypatch):
    model = trained.copy()
    X, y = box_data(2, 0)
    before, calls = model.fingerprint(), []
    owner, name = (Atlas, "fingerprint") if moment == "fingerprint" else (Rows, "loss")
    real = getattr(owner, name)

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        update(model, X, y, epochs=1)
    monkeypatch.undo()
    assert model.fingerprint() == before
    assert model.updates == []


def test_a_real_interrupt_leaves_the_model_as_it_was(trained, interruptible):
    model = trained.copy()
    before = model.fingerprint()
    X, y = box_data(2, 0, rows=5000)
    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        update(model, X, y, epochs=10**6, density=3)
    assert model.fingerprint() == before


@pytest.mark.parametrize(
    ("retention", "reason"),
    [("chart", NO_CHART), ("none", DIVERGED), ("rehearsal", DIVERGED), ("both", DIVERGED)],
)
def test_divergence_leaves_the_model_as_it_was_and_the_log_says_so(trained, retention, reason):
    model = trained.copy()
    before = model.fingerprint()
    X, y = box_data(2, 0)
    done = update(model, X, y, retention=retention, learning_rate=1e5)
    assert done.reason == reason
    assert model.fingerprint() == before == done.after


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"retention": "replay"},
            ValueError,
            "retention must be one of auto, pool, chart, rehearsal, both, none, not 'replay'",
        ),
        ({"cover": "all"}, ValueError, "cover must be 'touch' or 'inside', not 'all'"),
        ({"density": -1}, ValueError, "density must be at least 0, not -1"),
        ({"density": 13}, ValueError, "density must be at most 12, not 13"),
        ({"terms": 1.5}, TypeError, "terms must be a whole number, not 1.5"),
        ({"epochs": 0}, ValueError, "epochs must be at least 1, not 0"),
        ({"charts": "many"}, TypeError, "charts must be a whole number, not 'many'"),
        ({"loss": "mad"}, ValueError, "loss must be one of"),
        ({"y": np.zeros(3)}, ValueError, "y has 3 rows but X has 150"),
        ({"X": np.full((150, 2), 1.5)}, ValueError, r"X\[0, 0\] is 1.5; inputs must lie in"),
        ({"sample_weight": np.zeros(150)}, ValueError, "sample_weight is zero for every row"),
    ],
)
def test_bad_arguments_are_named_and_change_nothing(trained, change, error, message):
    model = trained.copy()
    before = model.fingerprint()
    X, y = box_data(2, 0)
    with pytest.raises(error, match=message):
        update(model, **({"X": X, "y": y} | change))
    assert model.fingerprint() == before
    assert model.updates == []
