"""Streams of classes: candidates are stacked by their log loss, and what is learned can be taken back and saved."""

import warnings

import numpy as np
import pytest

from atlas_splines import AtlasClassifier, UpdateWarning, load, save
from atlas_splines.model.atlas import state_of
from atlas_splines.versions import forget

OPTIONS = {"features": 60, "random_state": 0}
MEMORIES = pytest.mark.parametrize("memory", ["rows", "sums"])


def drawn(rows, seed, turned=False, classes=("a", "b")):
    """Points of a square, and classes by a curve, which can be turned round."""
    random = np.random.default_rng(seed)
    X = random.random((rows, 2))
    score = np.sin(4 * X[:, 0]) + X[:, 1] - 0.9 + 0.2 * random.normal(size=rows)
    return X, np.array(classes)[((score > 0) != turned).astype(int)]


def living(memory, updates=8, retention="auto", turned=True):
    """A model whose world turned round after its fit, and the log loss of each batch before it was learned."""
    model = AtlasClassifier(memory=memory, retention=retention, **OPTIONS).fit(*drawn(600, 0))
    losses = []
    for k in range(updates):
        X, y = drawn(100, 1 + k, turned)
        losses.append(log_loss(model, X, y))
        model.partial_fit(X, y, accept=True)
    return model, losses


def log_loss(model, X, y):
    chances = model.predict_proba(X)[np.arange(len(X)), np.searchsorted(model.classes_, y)]
    return float(-np.log(np.maximum(chances, 1e-9)).mean())


def pool_of(model):
    return state_of(model.model_).pooled


@MEMORIES
def test_a_changed_world_is_followed_by_what_forgets(memory):
    model, losses = living(memory, 10)
    _, pooled = living(memory, 10, retention="pool")
    assert np.mean(losses[1:]) < 0.75 * np.mean(pooled[1:])
    shares = pool_of(model).expert_shares
    assert shares[2] > shares[0]  # statistics that forget, and cumulative ones
    assert model.score(*drawn(400, 99, turned=True)) > 0.85


@MEMORIES
def test_a_world_that_stays_loses_nothing(memory):
    _, losses = living(memory, turned=False)
    _, pooled = living(memory, retention="pool", turned=False)
    assert np.mean(losses) < 1.03 * np.mean(pooled)


@MEMORIES
def test_updates_are_reverted_to_the_bit(memory):
    model, _ = living(memory, 6)
    X = drawn(200, 99)[0]
    before, known = model.predict_proba(X), pool_of(model).current_class_weights.form
    model.partial_fit(*drawn(100, 50), accept=True)
    assert (model.predict_proba(X) != before).any()
    model.revert(model.update_log_[-1].id)
    assert model.predict_proba(X).tobytes() == before.tobytes()
    assert pool_of(model).current_class_weights.form.curvature.tobytes() == known.curvature.tobytes()


@MEMORIES
def test_a_loaded_model_learns_as_the_saved_one(memory, tmp_path):
    model, _ = living(memory, 6)
    save(model, tmp_path / "model.atlas")
    twin = load(tmp_path / "model.atlas")
    X = drawn(200, 99)[0]
    assert pool_of(twin).expert_shares.tobytes() == pool_of(model).expert_shares.tobytes()
    for each in (model, twin):
        each.partial_fit(*drawn(100, 50), accept=True)
    assert twin.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


def test_pooled_classes_depend_on_no_order():
    parts = [drawn(100, k, turned=k % 2 == 1) for k in range(4)]
    models = []
    for order in (parts, parts[::-1]):
        model = AtlasClassifier(memory="sums", retention="pool", **OPTIONS).fit(*drawn(600, 9))
        for X, y in order:
            model.partial_fit(X, y, accept=True)
        models.append(model.predict_proba(drawn(200, 99)[0]))
    assert models[0].tobytes() == models[1].tobytes()


@MEMORIES
def test_a_class_that_comes_later_is_learned(memory):
    model, _ = living(memory, 3, turned=False)
    X = np.random.default_rng(5).random((300, 2)) + np.array([1.2, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpdateWarning)
        for k in range(3):
            model.partial_fit(X[100 * k : 100 * (k + 1)], np.full(100, "c"), accept=True)
            model.partial_fit(*drawn(100, 20 + k), accept=True)
    assert (model.predict(X) == "c").mean() > 0.95
    X, y = drawn(300, 90)
    assert model.score(X, y) > 0.8
    assert log_loss(model, X, y) < 0.5


def test_weights_of_rows_decide_shares():
    """Rows of weight zero, or nearly, have no say in which candidate is heard."""
    models = []
    for weight in (1e-3, 1.0):
        model = AtlasClassifier(memory="sums", **OPTIONS).fit(*drawn(600, 0))
        for k in range(4):
            X, y = drawn(100, 1 + k, turned=True)
            model.partial_fit(X, y, sample_weight=np.full(100, weight), accept=True)
        models.append(pool_of(model).current_class_weights.form)
    assert np.trace(models[0].curvature) < 0.01 * np.trace(models[1].curvature)


def test_balanced_classes_are_stacked_too():
    model = AtlasClassifier(class_weight="balanced", **OPTIONS).fit(*drawn(600, 0))
    for k in range(3):
        model.partial_fit(*drawn(100, 1 + k), accept=True)
    assert model.score(*drawn(400, 99)) > 0.85


def test_levels_have_effects_in_scores_of_all_candidates():
    random = np.random.default_rng(0)
    pd = pytest.importorskip("pandas")

    def table(rows, shops):
        shop = random.integers(*shops, rows)
        x = random.random(rows)
        y = np.where(x + 0.8 * (shop % 2) + 0.1 * random.normal(size=rows) > 0.9, "much", "little")
        return pd.DataFrame({"x": x, "shop": [f"s{k}" for k in shop]}), y

    model = AtlasClassifier(**OPTIONS).fit(*table(1500, (0, 60)))
    for _ in range(4):
        model.partial_fit(*table(400, (0, 80)), accept=True)
    X, y = table(500, (60, 80))  # shops that came later
    assert model.score(X, y) > 0.8
    pool, points = pool_of(model), model.domain_.to_unit(model._inputs(X))
    scores = pool.class_scores_on(pool.features(points), points) / pool.class_scale[:, None, None]
    mixed = np.tensordot(pool.expert_shares, scores, 1)
    np.testing.assert_allclose(mixed, model._outputs(X), atol=1e-3)  # the model is what was weighed


@MEMORIES
def test_rows_are_forgotten(memory):
    model, _ = living(memory, 3)
    X, y = drawn(100, 3, turned=True)
    rest, _ = forget(model, X, y)
    assert np.isfinite(rest.predict_proba(X)).all()
    rest.partial_fit(*drawn(100, 60), accept=True)
    assert np.isfinite(rest.predict_proba(X)).all()
