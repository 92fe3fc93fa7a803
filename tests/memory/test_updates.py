import _thread
import dataclasses
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atlas_splines import (
    Atlas,
    Trainer,
    TrainingDiverged,
    consolidate,
    footprint,
    gradient_norm,
    train,
    update,
)
from atlas_splines.memory import updates as memory_module


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


def box_data(inputs, seed, rows=150):
    random = np.random.default_rng(seed)
    low = random.random(inputs) * 0.6
    X = low + (0.1 + 0.3 * random.random(inputs)) * random.random((rows, inputs))
    return X, random.normal(size=rows)


# --- the guarantee -------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("memory", ["chart", "none"])
def test_footprints_are_the_same_before_and_after(memory):
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    before = footprint(model, X, memory=memory)
    after = update(model, X, y, memory=memory, epochs=2, random_state=0).footprint
    assert repr(before) == repr(after)


def test_plain_updates_keep_every_bit_outside_the_cross():
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    area = footprint(model, X, memory="none")
    assert bits_changed_outside(model, area, lambda: update(model, X, y, memory="none", random_state=0)) == 0


def test_the_check_catches_an_unfrozen_base():
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    area = footprint(model, X)
    assert bits_changed_outside(model, area, lambda: train(model, X, y, epochs=2, random_state=0)) > 0


def test_the_check_catches_dense_adam():
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    trainer = Trainer(model, optimizer="adam", random_state=0)
    everywhere = np.random.default_rng(0).random((500, 2))
    trainer.run(everywhere, np.ones(500), epochs=2)  # leaves momentum
    area = footprint(model, X, memory="none")
    assert bits_changed_outside(model, area, lambda: trainer.run(X, y, epochs=2)) > 0


def test_the_check_catches_a_leaking_chart(monkeypatch):
    model, (X, y) = oracle.randomize(Atlas(2)), box_data(2, 0)
    area = footprint(model, X)
    honest = memory_module.plan_fences
    monkeypatch.setattr(
        memory_module, "plan_fences", lambda points, *options: honest(points - 0.01, *options)
    )
    assert bits_changed_outside(model, area, lambda: update(model, X, y, epochs=2, random_state=0)) > 0


# --- learning ------------------------------------------------------------------------------------------


def bump(X):
    return 3 * np.exp(-20 * ((X - 0.4) ** 2).sum(axis=1))


@pytest.fixture(scope="module")
def trained():
    """A model that knows a smooth function everywhere."""
    X = np.random.default_rng(0).random((4000, 2))
    model = Atlas(2)
    train(model, X, np.sin(4 * X[:, 0]) + X[:, 1], epochs=30, random_state=0)
    return model


@pytest.mark.parametrize("memory", ["chart", "both"])
@pytest.mark.parametrize("cover", ["touch", "inside"])
def test_updates_learn_and_do_not_forget(trained, memory, cover):
    model = trained.copy()
    random = np.random.default_rng(1)
    X = 0.3 + 0.3 * random.random((2000, 2))
    done = update(model, X, bump(X), memory=memory, cover=cover, random_state=0)
    inside = 0.32 + 0.26 * random.random((500, 2))
    assert np.abs(model(inside)[:, 0] - bump(inside)).mean() < 0.05
    far = random.random((2000, 2))
    far = far[~footprint(trained, X).contains(far)]
    change = np.abs(model(far) - trained(far)).mean()
    assert (change == 0) if memory == "chart" else (change < 0.1)
    assert done.error_after < done.error_before / 20


def test_rehearsal_forgets_less_than_plain_training(trained):
    random = np.random.default_rng(1)
    X = 0.3 + 0.3 * random.random((2000, 2))
    far = random.random((2000, 2))
    far = far[~footprint(trained, X).contains(far)]
    changes = {}
    for memory in ("rehearsal", "none"):
        model = trained.copy()
        update(model, X, bump(X), memory=memory, random_state=0)
        changes[memory] = np.abs(model(far) - trained(far)).mean()
    assert changes["rehearsal"] < changes["none"] / 3


def test_a_chart_learns_a_constant_coordinate(trained):
    model = trained.copy()
    X = np.random.default_rng(0).random((500, 2))
    X[:, 0] = 0.5
    update(model, X, np.cos(6 * X[:, 1]), random_state=0)
    assert np.abs(model(X)[:, 0] - np.cos(6 * X[:, 1])).mean() < 0.05
    assert (model([[0.51, 0.5]]) == trained([[0.51, 0.5]])).all()


def test_inside_does_not_snap_to_the_faces():
    X = np.linspace(0.091, 0.49, 20)[:, None]
    assert not footprint(Atlas(1), X, cover="inside").contains([[0.0], [0.03], [0.06]]).any()


def test_a_constant_coordinate_does_not_sharpen_the_fence_elsewhere():
    X = np.random.default_rng(0).random((200, 2)) * 0.5 + 0.2
    [wide] = footprint(Atlas(2), X).fences
    X[:, 1] = 0.4
    [narrow] = footprint(Atlas(2), X).fences
    assert narrow.density == wide.density


@pytest.mark.parametrize("rows", [1, 2, 30, 120])
def test_few_rows_are_enough(rows):
    random = np.random.default_rng(0)
    X = 0.3 + 0.3 * random.random((rows, 2))
    model = Atlas(2)
    update(model, X, np.full(rows, 2.0), random_state=0)
    assert np.abs(model(X) - 2).max() < 0.2
    middle = X.mean(axis=0, keepdims=True)
    assert abs(model(middle)[0, 0] - 2) < 0.2  # between the rows too


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_the_size_of_the_targets_does_not_matter(size):
    X = 0.2 + 0.5 * np.random.default_rng(0).random((1000, 1))
    model = Atlas(1)
    update(model, X, size * np.sin(10 * X), random_state=0)
    assert np.abs(model(X) - size * np.sin(10 * X)).mean() < 0.02 * size


def test_several_charts_agree_where_they_meet():
    X = np.repeat(
        np.random.default_rng(0).random((3000, 1)), 2, axis=1
    )  # a diagonal, covered by eight charts
    model = Atlas(2)
    update(model, X, np.sin(8 * X[:, 0]), random_state=0)
    assert len(model.charts) == 8
    assert np.abs(model(X)[:, 0] - np.sin(8 * X[:, 0])).mean() < 0.05


@pytest.mark.parametrize("loss", ["mae", "mse", "huber"])
def test_losses_and_outputs(loss):
    X = 0.2 + 0.5 * np.random.default_rng(0).random((800, 2))
    y = np.stack([X[:, 0], np.sin(6 * X[:, 1])], axis=1)
    model = Atlas(2, outputs=2)
    update(model, X, y, loss=loss, random_state=0)
    assert np.abs(model(X) - y).mean() < 0.03


@pytest.mark.parametrize("rows", [500, 2000])
@pytest.mark.parametrize(
    "target",
    [
        lambda x, y: 100 * (x - 0.35) * (y - 0.35),
        lambda x, y: np.sin(20 * x) * np.sin(20 * y),
        lambda x, y: np.sin(40 * x * y) - 3,
    ],
    ids=["product", "waves", "chirp"],
)
def test_interactions_are_learned_from_few_rows(target, rows):
    X = 0.2 + 0.3 * np.random.default_rng(0).random((rows, 2))
    y = target(*X.T)
    done = update(Atlas(2), X, y, random_state=0)
    assert done.error_after < 0.1 * np.abs(y - np.median(y)).mean()


def test_the_terms_of_a_chart_are_not_all_the_same_function():
    random = np.random.default_rng(0)
    X = random.random((500, 2))
    model = Atlas(inputs=2)
    update(model, X, X[:, 0] * X[:, 1], random_state=0)
    chart = model.charts[0]
    width = 2 * chart.layout.terms + 1
    coefficients = chart.table[:, : width - 1]  # G and H
    assert np.abs(coefficients - coefficients[:, :1])[:, 1 : chart.layout.terms].max(axis=0).min() > 0.1


def test_a_wild_target_and_outputs_of_different_size_do_no_harm():
    X = 0.2 + 0.5 * np.random.default_rng(0).random((1000, 2))
    u = np.sin(6 * X[:, 0]) + X[:, 1]
    model, wild = Atlas(2), u.copy()
    wild[7] = 1e6
    update(model, X, wild, random_state=0)
    assert np.abs(model(X)[:, 0] - u)[np.arange(1000) != 7].mean() < 0.1
    model = Atlas(2, outputs=3)
    update(model, X, np.stack([u, 1e6 * u, 0 * u], axis=1), random_state=0)
    error = np.abs(model(X) - np.stack([u, 1e6 * u, 0 * u], axis=1)).mean(axis=0)
    assert (error < [0.05, 5e4, 0.05]).all()


def test_classification_updates():
    random = np.random.default_rng(0)
    X = random.random((1500, 2))
    model = Atlas(2, outputs=3)
    train(model, X, (X[:, 0] > 0.5).astype(int), loss="cross-entropy", epochs=20, random_state=0)
    box = 0.1 + 0.2 * random.random((500, 2))
    update(model, box, np.full(500, 2), loss="cross-entropy", random_state=0)
    assert (model(box).argmax(axis=1) == 2).mean() > 0.98


@pytest.mark.parametrize("memory", ["rehearsal", "both"])
def test_rehearsal_of_classes_keeps_the_old_ones(memory):
    random = np.random.default_rng(0)
    X = random.random((1000, 2))
    model = Atlas(2, outputs=3, density=2)
    train(model, X, (X[:, 0] > 0.5).astype(int), loss="cross-entropy", epochs=20, random_state=0)
    box = 0.3 * random.random((500, 2))
    update(model, box, np.full(500, 2), memory=memory, loss="cross-entropy", epochs=20, random_state=0)
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


def test_a_density_and_terms_can_be_given():
    X, y = box_data(2, 0)
    model = Atlas(2)
    update(model, X, y, density=4, terms=3, epochs=2, random_state=0)
    assert model.charts[0].densities.max() == 4
    assert model.charts[0].layout.terms == 3


def test_the_same_seed_gives_the_same_bits():
    X, y = box_data(2, 0)
    first, second = Atlas(2), Atlas(2)
    for model in (first, second):
        update(model, X, y, random_state=3)
    assert first.fingerprint() == second.fingerprint()


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("loss", ["mae", "mse"])
def test_training_sees_what_charts_say(trained, replaces, loss):
    model = trained.copy()
    X = 0.3 + 0.3 * np.random.default_rng(1).random((2000, 2))
    update(model, X, bump(X), random_state=0)
    model.charts = [dataclasses.replace(chart, replaces=replaces) for chart in model.charts]
    everywhere = np.random.default_rng(2).random((3000, 2))
    target = model(everywhere)
    history = train(model, everywhere, target, loss=loss, epochs=1, learning_rate=1e-9, random_state=0)
    assert history.loss[0] < 1e-5
    before = model.copy()
    train(model, everywhere, target + 1, loss="mse", epochs=20, random_state=0)
    inside = np.full((1, 2), 0.45)
    moved = abs(model(inside) - before(inside))[0, 0]
    assert (moved == 0) if replaces else (moved > 0.5)  # what is replaced has no say


def test_gradients_know_what_charts_replace(trained):
    model = trained.copy()
    X = 0.3 + 0.3 * np.random.default_rng(1).random((2000, 2))
    update(model, X, bump(X), random_state=0)
    model.charts = [dataclasses.replace(chart, replaces=True) for chart in model.charts]
    assert gradient_norm(model, [[0.45, 0.45]]) == 0
    assert gradient_norm(model, [[0.9, 0.9]]) > 1


def test_edges_are_learned_too():
    """Noise-free data up to the faces of the cube, and values far from the old ones."""
    random = np.random.default_rng(0)
    for low, high in ((0.0, 1.0), (0.2, 0.7)):
        X = low + (high - low) * random.random((5000, 2))
        model = Atlas(2)
        update(model, X, 5 + np.sin(5 * X[:, 0]), random_state=0)
        interior = low + (high - low) * (0.1 + 0.8 * random.random((1000, 2)))
        assert np.abs(model(interior)[:, 0] - 5 - np.sin(5 * interior[:, 0])).mean() < 0.003
        edge = low + (high - low) * np.stack(
            [0.01 * random.random(1000), 0.01 + 0.98 * random.random(1000)], axis=1
        )
        assert np.abs(model(edge)[:, 0] - 5 - np.sin(5 * edge[:, 0])).mean() < 0.1
    model = Atlas(2)
    X = random.random((5000, 2))
    update(model, X, np.full(5000, 5.0), random_state=0)
    corners = [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert np.abs(model(corners) - 5).max() < 0.1


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


# --- log, revert, failure ------------------------------------------------------------------------------


def test_the_log_tells_what_happened(trained):
    model = trained.copy()
    X, y = box_data(2, 0)
    fresh = model.fingerprint()
    first = update(model, X, y, epochs=2, random_state=0)
    second = update(model, X, y, memory="none", epochs=2, random_state=0)
    assert model.updates == [first, second]
    assert [record.id for record in model.updates] == [1, 2]
    assert [record.kind for record in model.updates] == ["chart", "none"]
    assert (first.before, first.after) == (fresh, second.before)
    assert second.after == model.fingerprint()
    assert first.rows == 150
    assert first.seconds > 0
    assert first.time.tzinfo is not None
    assert "<Update 1: chart, 150 rows" in repr(first)
    assert repr(model).endswith("and 1 chart")


def test_reverting_the_newest_update_restores_every_bit(trained):
    model = trained.copy()
    X, y = box_data(2, 0)
    update(model, X, y, epochs=2, random_state=0)
    queries = np.random.default_rng(0).random((3000, 2))
    before, hash_before = model(queries), model.fingerprint()
    done = update(model, X[:60], y[:60] + 1, epochs=2, random_state=1)
    assert (model(queries) != before).any()
    model.revert(done.id)
    np.testing.assert_array_equal(model(queries), before)
    assert model.fingerprint() == hash_before
    assert done.reverted is not None
    assert "reverted" in repr(done)


def test_reverting_an_older_update_leaves_the_later_ones(trained):
    model = trained.copy()
    X, y = box_data(2, 0)
    first = update(model, X, y, epochs=2, random_state=0)
    second = update(model, X[:60], y[:60] + 1, epochs=2, random_state=1)
    kept = model.charts[-1]
    model.revert(first.id)
    assert model.charts == (kept,)
    assert kept.update == second.id
    assert update(model, X, y, epochs=1).id == 3  # numbers are not used again


def test_revert_says_what_can_be_reverted(trained):
    model = trained.copy()
    X, y = box_data(2, 0)
    update(model, X, y, memory="none", epochs=1)
    with pytest.raises(ValueError, match="update 1 cannot be reverted; of this model's updates, none can"):
        model.revert(1)
    update(model, X, y, epochs=1)
    update(model, X, y, memory="both", epochs=1)
    with pytest.raises(ValueError, match="update 3 cannot be reverted"):
        model.revert(3)  # it changed the coefficients too
    with pytest.raises(ValueError, match="update 7 cannot be reverted; of this model's updates, 2 can"):
        model.revert(7)


@pytest.mark.parametrize("memory", ["chart", "rehearsal", "both", "none"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError])
def test_a_failing_update_leaves_the_model_as_it_was(trained, memory, failure, monkeypatch):
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
        update(model, X, y, memory=memory, epochs=10)
    assert model.fingerprint() == before
    assert model.updates == log


@pytest.mark.parametrize("moment", ["fingerprint", "loss"])
def test_an_interrupt_after_learning_leaves_the_model_as_it_was(trained, moment, monkeypatch):
    model = trained.copy()
    X, y = box_data(2, 0)
    before, calls = model.fingerprint(), []
    owner, name = (Atlas, "fingerprint") if moment == "fingerprint" else (memory_module.Rows, "loss")
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


def test_divergence_leaves_the_model_as_it_was(trained):
    model = trained.copy()
    before = model.fingerprint()
    X, y = box_data(2, 0)
    with pytest.raises(TrainingDiverged):
        update(model, X, y, learning_rate=1e5)
    assert model.fingerprint() == before


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"memory": "replay"},
            ValueError,
            "memory must be 'chart', 'rehearsal', 'both' or 'none', not 'replay'",
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


def test_only_charts_need_room_inside_the_data(trained):
    X = np.stack([np.full(150, 0.5), np.random.default_rng(0).random(150)], axis=1)
    refused = "cover='inside' leaves nothing open along input 0"
    for memory in ("none", "rehearsal"):
        done = update(
            trained.copy(), X, np.ones(150), memory=memory, cover="inside", epochs=1, random_state=0
        )
        assert done.kind == memory
        with pytest.raises(ValueError, match="cover must be 'touch' or 'inside', not 'all'"):
            footprint(trained, X, memory=memory, cover="all")
        with pytest.raises(ValueError, match="charts must be at least 1, not 0"):
            footprint(trained, X, memory=memory, charts=0)
    for memory in ("chart", "both"):
        with pytest.raises(ValueError, match=refused):
            footprint(trained, X, memory=memory, cover="inside")


# --- consolidation -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def charted(trained):
    model = trained.copy()
    X = 0.3 + 0.3 * np.random.default_rng(1).random((2000, 2))
    update(model, X, bump(X), random_state=0)
    return model


def test_consolidation_folds_charts_in_and_tells_its_error(charted):
    model = charted.copy()
    done = consolidate(model, tolerance=0.3, samples=5000, epochs=20, random_state=0)
    assert done.replaced
    assert model.charts == ()
    assert model.density == 5
    assert model.terms == 20
    X = np.random.default_rng(5).random((20_000, 2))
    assert np.abs(model(X) - charted(X)).mean() < done.error * 1.3
    assert done.error <= done.worst
    assert model.updates[-1] is done
    with pytest.raises(ValueError, match="update 1 cannot be reverted; of this model's updates, none can"):
        model.revert(1)


def test_consolidation_never_exceeds_the_tolerance(charted):
    model = charted.copy()
    before = model.fingerprint()
    done = consolidate(model, np.full((5, 2), 0.4), tolerance=1e-6, samples=1000, epochs=1, random_state=0)
    assert not done.replaced
    assert done.error > 1e-6
    assert model.fingerprint() == before
    assert len(model.updates) == 1
    assert "model kept as it was" in repr(done)


def test_consolidation_learns_the_points_that_matter(charted):
    X = np.full((3000, 2), 0.45)
    model = charted.copy()
    consolidate(model, X, tolerance=1.0, samples=1000, epochs=10, random_state=0)
    assert np.abs(model(X[:1]) - charted(X[:1]))[0, 0] < 0.05


def test_consolidation_names_bad_arguments(charted):
    before = charted.fingerprint()
    with pytest.raises(ValueError, match="the model has no charts to fold in"):
        consolidate(Atlas(2), tolerance=1)
    with pytest.raises(ValueError, match="density must be at most 20, not 21"):
        consolidate(charted, tolerance=1, density=21)
    with pytest.raises(ValueError, match="tolerance must be a finite number of at least 0, not -1"):
        consolidate(charted, tolerance=-1)
    with pytest.raises(ValueError, match="density must be at least 4, not 2"):
        consolidate(charted, tolerance=1, density=2)
    with pytest.raises(ValueError, match="terms must be at least 10, not 3"):
        consolidate(charted, tolerance=1, terms=3)
    assert charted.fingerprint() == before
