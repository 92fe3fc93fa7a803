import _thread
import pickle
import threading

import numpy as np
import oracle
import pytest

from atlas_splines import Atlas, Trainer, TrainingDiverged, train
from atlas_splines.analysis import orthogonality_distance
from atlas_splines.model import train as training
from atlas_splines.model.atlas import state_of


def smooth(X):
    return np.sin(5 * X[:, 0]) + X[:, -1] ** 2


@pytest.fixture
def data():
    X = np.random.default_rng(0).random((2000, 2))
    return X, smooth(X)


def test_training_learns(data):
    model = Atlas(2)
    history = train(model, *data, epochs=50, random_state=0)
    X = np.random.default_rng(1).random((500, 2))
    assert np.abs(model(X)[:, 0] - smooth(X)).mean() < 0.03
    assert len(history.loss) == 50
    assert history.steps == 50 * 20
    assert history.stopped == "epochs"
    assert history.seconds > 0
    assert history.loss[-1] < history.loss[0] / 10


def test_reported_loss_is_the_mean_over_the_epoch(data):
    X, y = data
    history = train(Atlas(2), X, y, epochs=1, batch_size=5000, random_state=0)
    assert history.loss[0] == pytest.approx(np.abs(y).mean(), rel=1e-5)


def test_the_same_seed_gives_the_same_bits(data):
    first, second, other = Atlas(2), Atlas(2), Atlas(2)
    for model, seed in ((first, 7), (second, 7), (other, 8)):
        train(model, *data, epochs=3, random_state=seed)
    np.testing.assert_array_equal(state_of(first).table, state_of(second).table)
    assert (state_of(first).table != state_of(other).table).any()


def test_a_call_in_parts_gives_the_same_bits(data, monkeypatch):
    whole, parts = Atlas(2), Atlas(2)
    train(whole, *data, epochs=2, random_state=0)
    monkeypatch.setattr(training, "SAMPLES_PER_CALL", 300)
    train(parts, *data, epochs=2, random_state=0)
    np.testing.assert_array_equal(state_of(whole).table, state_of(parts).table)


def test_frozen_densities_stay_and_count(data):
    X, y = data
    model = oracle.randomize(Atlas(2, density=2), size=0.1)
    frozen = state_of(model).table[: state_of(model).first_trained_row].copy()
    train(model, X, y, epochs=20, random_state=0)
    np.testing.assert_array_equal(state_of(model).table[: state_of(model).first_trained_row], frozen)
    assert np.abs(model(X)[:, 0] - y).mean() < 0.1


def two_tasks(optimizer):
    """Train everywhere, then on one corner with the optimiser's state carried over; return far outputs."""
    random = np.random.default_rng(0)
    model = Atlas(2)
    trainer = Trainer(model, optimizer=optimizer, random_state=0)
    X = random.random((2000, 2))
    trainer.run(X, smooth(X), epochs=5)
    corner = 0.3 * random.random((500, 2))
    far = (
        0.3
        + orthogonality_distance(model.density)
        + (0.7 - orthogonality_distance(4)) * random.random((500, 2))
    )
    before = model(far)
    trainer.run(corner, np.ones(500), epochs=5)
    assert np.abs(model(corner)[:, 0] - 1).mean() < 0.2
    return before, model(far)


def test_lazy_adam_leaves_far_predictions_bit_identical():
    before, after = two_tasks("lazy-adam")
    np.testing.assert_array_equal(after, before)


def test_dense_adam_does_not():
    before, after = two_tasks("adam")
    assert (after != before).mean() > 0.5


def test_all_densities_trained_lose_the_guarantee():
    random = np.random.default_rng(0)
    model = Atlas(2, trainable="all")
    far = 0.7 + 0.3 * random.random((100, 2))
    before = model(far)
    train(model, 0.3 * random.random((500, 2)), np.ones(500), epochs=3, random_state=0)
    assert (model(far) != before).all()


# --- optimiser state -----------------------------------------------------------------------------------


def test_state_is_carried_dropped_and_reported(data):
    carried, dropped = Atlas(2), Atlas(2)
    for model, drop in ((carried, False), (dropped, True)):
        trainer = Trainer(model, random_state=0)
        assert trainer.run(*data, epochs=2).state == "fresh"
        if drop:
            trainer.reset()
        assert trainer.run(*data, epochs=2).state == ("fresh" if drop else "carried")
    assert (state_of(carried).table != state_of(dropped).table).any()


def test_carrying_state_equals_one_long_run(data):
    once, twice = Atlas(2), Atlas(2)
    Trainer(once, random_state=0).run(*data, epochs=4)
    trainer = Trainer(twice, random_state=0)
    trainer.run(*data, epochs=2)
    trainer.run(*data, epochs=2)
    np.testing.assert_array_equal(state_of(once).table, state_of(twice).table)


def test_a_grown_model_starts_fresh(data):
    trainer = Trainer(Atlas(2, density=1), random_state=0)
    trainer.run(*data, epochs=1)
    trainer.model.expand()
    assert trainer.run(*data, epochs=1).state == "fresh"
    narrow = Trainer(Atlas(2, terms=1, density=1), random_state=0)
    narrow.run(*data, epochs=1)
    narrow.model.expand(density=0, terms=2)  # the table keeps its shape, but not its columns
    assert narrow.run(*data, epochs=1).state == "fresh"


# --- validation and stopping ---------------------------------------------------------------------------


def test_early_stopping_restores_the_best_coefficients():
    random = np.random.default_rng(0)
    X, Xv = random.random((60, 2)), random.random((500, 2))
    y, yv = smooth(X) + random.normal(size=60), smooth(Xv)  # noise to overfit
    model = Atlas(2, density=5)
    history = train(model, X, y, epochs=500, validation=(Xv, yv), patience=5, random_state=0)
    assert history.stopped == "patience"
    assert len(history.loss) == history.best_epoch + 6
    assert np.argmin(history.validation) == history.best_epoch
    error = np.abs(model(Xv)[:, 0] - yv).mean()
    assert error == pytest.approx(min(history.validation), rel=1e-5)


def test_validation_counts_rows_by_their_weights(data):
    X, y = data
    weights = np.random.default_rng(1).random(len(X))
    model = oracle.randomize(Atlas(2))
    trainer = Trainer(model, learning_rate=1e-12, random_state=0)
    [weighted] = trainer.run(X, y, epochs=1, validation=data, validation_weight=weights).validation
    errors = np.abs(model(X)[:, 0] - np.ravel(y))
    assert weighted == pytest.approx(np.average(errors, weights=weights), rel=1e-5)
    assert weighted != pytest.approx(errors.mean(), rel=1e-5)


def test_equal_weights_stop_at_the_same_bits(data):
    def validation(weight):
        trainer = Trainer(Atlas(2), random_state=0)
        return trainer.run(*data, epochs=3, validation=data, validation_weight=weight).validation

    assert validation(np.full(len(data[0]), 0.3)) == validation(None)
    with pytest.raises(ValueError, match="validation_weight is zero for every row"):
        validation(np.zeros(len(data[0])))


def test_without_patience_validation_only_watches(data):
    watched, alone = Atlas(2), Atlas(2)
    history = train(watched, *data, epochs=3, validation=data, random_state=0)
    train(alone, *data, epochs=3, random_state=0)
    np.testing.assert_array_equal(state_of(watched).table, state_of(alone).table)
    assert len(history.validation) == 3


def test_divergence_restores_the_last_good_epoch(data):
    X, y = data
    model = Atlas(2)
    train(model, X, y, epochs=2, random_state=0)
    before = state_of(model).table.copy()
    with pytest.raises(
        TrainingDiverged, match=r"epoch 1; the model is as it was after epoch 0: lower learning_rate"
    ):
        train(model, X, y, epochs=5, learning_rate=1e4, random_state=0)
    np.testing.assert_array_equal(state_of(model).table, before)


def test_divergence_in_the_last_step_is_noticed(data):
    X, y = data
    model = Atlas(2)
    train(model, X, y, epochs=2, random_state=0)
    before = state_of(model).table.copy()
    with pytest.raises(TrainingDiverged) as caught:
        train(model, X, y, epochs=1, batch_size=len(X), learning_rate=1e4, random_state=0)
    np.testing.assert_array_equal(state_of(model).table, before)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_divergence_in_validation_is_noticed(data):
    X, y = data
    model = Atlas(2)
    left = X[:, 0] < 0.5
    model.g(4)[:, :, 0, 40:] = 200.0  # overflows where there is no training data
    before = state_of(model).table.copy()
    with pytest.raises(TrainingDiverged):
        train(model, X[left], y[left], epochs=2, validation=(X, y), random_state=0)
    np.testing.assert_array_equal(state_of(model).table, before)


def test_divergence_later_keeps_the_good_epochs(data):
    expected = Atlas(2)
    train(expected, *data, epochs=2, random_state=0)
    model = Atlas(2)
    trainer = Trainer(model, random_state=0)
    losses, run_epoch = iter([1.0, 1.0, np.nan]), trainer._epoch

    def diverging(samples):
        run_epoch(samples)
        return next(losses)

    trainer._epoch = diverging
    with pytest.raises(TrainingDiverged, match="epoch 3; the model is as it was after epoch 2") as caught:
        trainer.run(*data, epochs=100)
    assert len(caught.value.history.loss) == 2
    np.testing.assert_array_equal(state_of(model).table, state_of(expected).table)
    assert not trainer.carries_state


def test_interrupt_leaves_a_whole_epoch(data, monkeypatch):
    """Ctrl-C in the middle of an epoch: the model is as after the epoch before."""
    monkeypatch.setattr(training, "SAMPLES_PER_CALL", 100)
    expected = Atlas(2)
    train(expected, *data, epochs=2, random_state=0)

    real, calls = training.kernels.train_batches, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2 * 20 + 7:  # in the third epoch
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(training.kernels, "train_batches", interrupted)
    model = Atlas(2)
    with pytest.raises(KeyboardInterrupt):
        train(model, *data, epochs=5, random_state=0)
    np.testing.assert_array_equal(state_of(model).table, state_of(expected).table)


@pytest.mark.slow
def test_a_real_signal_interrupts(data, interruptible):
    model = Atlas(2)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        train(model, *data, epochs=10**7, random_state=0)
    whole = Trainer(Atlas(2), random_state=0)  # the interrupted model equals one after some number of epochs
    whole_epochs = (
        whole.run(*data, epochs=1) and np.array_equal(state_of(whole.model).table, state_of(model).table)
        for _ in range(3000)
    )
    assert any(whole_epochs)


def test_progress_bar_on_request(data, capsys):
    train(Atlas(2), *data, epochs=2, progress=True)
    assert "training" in capsys.readouterr().err
    train(Atlas(2), *data, epochs=2)
    assert capsys.readouterr().err == ""


# --- weights and targets -------------------------------------------------------------------------------


def test_rows_of_weight_zero_are_left_out(data):
    X, y = data
    kept = np.random.default_rng(0).random(2000) < 0.5
    weighted, removed = Atlas(2), Atlas(2)
    train(weighted, X, y, epochs=2, sample_weight=kept, random_state=0)
    train(removed, X[kept], y[kept], epochs=2, random_state=0)
    np.testing.assert_array_equal(state_of(weighted).table, state_of(removed).table)


def test_weights_decide_between_contradicting_rows():
    model = Atlas(1, terms=0)
    X, y = np.full((200, 1), 0.5), np.repeat([0.0, 1.0], 100)
    train(model, X, y, loss="mse", epochs=300, sample_weight=np.repeat([1.0, 3.0], 100), random_state=0)
    assert model([[0.5]])[0, 0] == pytest.approx(0.75, abs=0.02)


def test_classification_by_cross_entropy():
    X = np.random.default_rng(0).random((1000, 2))
    labels = (X[:, 0] > X[:, 1]).astype(int) + (X.sum(axis=1) > 1)
    by_label, by_indicator = Atlas(2, outputs=3), Atlas(2, outputs=3)
    train(by_label, X, labels, loss="cross-entropy", epochs=30, random_state=0)
    train(by_indicator, X, np.eye(3)[labels], loss="cross-entropy", epochs=30, random_state=0)
    assert (by_label(X).argmax(axis=1) == labels).mean() > 0.95
    np.testing.assert_array_equal(state_of(by_label).table, state_of(by_indicator).table)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"y": np.zeros(3)}, ValueError, "y has 3 rows but X has 2000"),
        ({"y": np.zeros((2000, 2))}, ValueError, "y has 2 columns but the model has 1 outputs"),
        ({"y": np.zeros((2000, 1, 1))}, ValueError, r"y has shape \(2000, 1, 1\); expected \(2000, 1\)"),
        ({"y": np.full(2000, np.nan)}, ValueError, r"y\[0\] is nan; remove or fill"),
        ({"y": np.array(["a"] * 2000)}, TypeError, "y has dtype <U1"),
        ({"X": np.full((2000, 3), 0.5)}, ValueError, "X has 3 columns but the model has 2 inputs"),
        ({"loss": "mad"}, ValueError, "loss must be one of"),
        ({"validation": np.ones((3, 2))}, ValueError, r"validation must be a pair \(X, y\)"),
        (
            {"optimizer": "rmsprop"},
            ValueError,
            "optimizer must be one of lazy-adam, adam, sgd, not 'rmsprop'",
        ),
        ({"epochs": -1}, ValueError, "epochs must be at least 0, not -1"),
        ({"epochs": 1.5}, TypeError, "epochs must be a whole number"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, not 0"),
        ({"learning_rate": 0}, ValueError, "learning_rate must be a finite number of at least 1e-300, not 0"),
        ({"learning_rate": np.nan}, ValueError, "learning_rate must be a finite number"),
        ({"patience": 3}, ValueError, r"patience needs validation=\(X, y\)"),
        (
            {"validation": ([[0.5]], [1.0])},
            ValueError,
            "validation X has 1 columns but the model has 2 inputs",
        ),
        ({"sample_weight": np.ones(3)}, ValueError, r"sample_weight has shape \(3,\); expected \(2000,\)"),
        ({"sample_weight": -np.ones(2000)}, ValueError, r"sample_weight\[0\] is -1.0; weights must not be"),
        ({"sample_weight": np.zeros(2000)}, ValueError, "sample_weight is zero for every row"),
        (
            {"sample_weight": np.full(2000, 3e38)},
            ValueError,
            r"sample_weight\[0\] is 3e\+38, the largest of all, which is too large; give all weights in another unit",
        ),
        (
            {"sample_weight": np.full(2000, 1e-45)},
            ValueError,
            r"sample_weight\[0\] is 1.4013e-45, the largest of all, which is too small",
        ),
        ({"loss": "cross-entropy"}, ValueError, "cross-entropy needs a model with two outputs"),
        ({"X": [[0.1, 0.2], [0.3]]}, ValueError, "X is not a table; give all rows the same number of values"),
        ({"y": np.full(2000, 1e39)}, ValueError, r"y\[0\] is 1e\+39; float32 does not reach that far"),
    ],
)
def test_bad_arguments_are_named_and_change_nothing(data, change, error, message):
    model = oracle.randomize(Atlas(2))
    before = state_of(model).table.copy()
    with pytest.raises(error, match=message):
        train(model, **({"X": data[0], "y": data[1], "epochs": 1} | change))
    np.testing.assert_array_equal(state_of(model).table, before)


def test_wrong_class_targets_are_named():
    model = Atlas(1, outputs=3)
    with pytest.raises(ValueError, match="y has 2 columns but the model has 3 outputs"):
        train(model, [[0.1]], [[0.5, 0.5]], loss="cross-entropy")
    with pytest.raises(ValueError, match=r"y\[0\] has a negative probability"):
        train(model, [[0.1]], [[1.5, -0.5, 0.0]], loss="cross-entropy")


def test_wrong_class_numbers_are_named():
    with pytest.raises(ValueError, match=r"y\[1\] is 3; class numbers must be 0 to 2"):
        train(Atlas(1, outputs=3), [[0.1], [0.2]], [0, 3], loss="cross-entropy")
