"""Consolidation: charts distilled into one model."""

import level_rows
import numpy as np
import pytest

from atlas_splines import (
    Atlas,
    AtlasClassifier,
    AtlasRegressor,
    consolidate,
)
from atlas_splines.model.atlas import state_of


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
    with pytest.raises(ValueError, match="the model has no charts to consolidate"):
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


def test_an_interrupt_loses_no_chart_without_an_entry(charted, monkeypatch):
    """Nothing comes between taking the new model and logging it."""
    model, calls, real = charted.copy(), [], Atlas.fingerprint
    before = model.fingerprint()

    def interrupted(self):
        calls.append(1)
        if len(calls) == 2:  # of the model without charts, for the entry
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(Atlas, "fingerprint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        consolidate(model, tolerance=1e9, samples=100, epochs=1, random_state=0)
    monkeypatch.undo()
    assert len(model.updates) == 1
    assert len(model.charts) == 1
    assert model.fingerprint() == before


def test_offsets_of_levels_are_kept():
    model = level_rows.fitted().partial_fit(*level_rows.both(100, 1))
    X = np.random.default_rng(0).random((200, 2)) * [0.3, 0.1] + [0.6, 0.85]
    model.partial_fit(X, np.full(200, 9.0))
    assert model.model_.charts
    before = level_rows.effect_of(model)
    done = model.consolidate(tolerance=10, samples=500, epochs=2)
    assert done.replaced
    assert state_of(model.model_).offsets is not None
    assert level_rows.effect_of(model) == pytest.approx(before, abs=1.5)


def test_rows_that_count_are_fitted_as_one_model():
    X = np.random.default_rng(0).random((300, 2))
    model = AtlasRegressor(features=150, random_state=0).fit(X, X[:, 0])
    model.partial_fit(0.2 + 0.2 * X[:100], np.full(100, 2.0))
    (chart,) = model.model_.charts
    superseded = int((chart.window.membership(model._points_inside(X)) == 1).sum())
    before, predicted = model.model_.fingerprint(), model.predict([[0.3, 0.3], [0.8, 0.8]])
    assert not model.consolidate(tolerance=1e-9).replaced
    assert model.model_.fingerprint() == before
    done = model.consolidate(tolerance=2)
    assert done.replaced
    assert not model.model_.charts
    assert superseded > 3
    assert model.ledger_.rows == 400 - superseded
    assert np.abs(model.predict([[0.3, 0.3], [0.8, 0.8]]) - predicted).max() < 1
    low, high = model.predict_interval(X, 0.9)
    assert np.mean((low <= X[:, 0]) & (X[:, 0] <= high)) > 0.6
    model.partial_fit(X[:50] / 3, np.full(50, 2.0), accept=True).revert(model.update_log_[-1].id)
    assert model.update_log_[-1].kind == "revert"


def test_without_all_of_its_rows_a_model_keeps_its_charts():
    X = np.random.default_rng(0).random((300, 2))
    model = AtlasRegressor(features=24, random_state=0).fit(X, X[:, 0])
    model.partial_fit(0.2 + 0.2 * X[:100], np.full(100, 9.0))
    model.ledger_ = None
    assert model.model_.charts
    before = model.model_.fingerprint()
    with pytest.raises(ValueError, match="this model keeps rows, and each update derives it from them anew"):
        model.consolidate(tolerance=1e9, samples=100, epochs=1)
    assert model.model_.fingerprint() == before


def wavy(X):
    return np.sin(6 * X[:, 0]) + X[:, 1] ** 2


def charted_sums():
    """A regressor that keeps sums, with a chart where targets are larger and noisier."""
    random = np.random.default_rng(0)
    X, box = random.random((2000, 2)), 0.3 + 0.4 * random.random((800, 2))
    model = AtlasRegressor(memory="sums", retention="chart", random_state=0).fit(
        X, wavy(X) + 0.1 * random.normal(size=2000)
    )
    y = wavy(box) + 2 + 0.4 * random.normal(size=800)
    return model.partial_fit(box, y, accept=True).set_params(retention="auto")


def test_a_model_with_sums_is_solved_for_and_keeps_its_memory_and_its_intervals():
    model, random = charted_sums(), np.random.default_rng(9)
    box, everywhere = 0.34 + 0.32 * random.random((2000, 2)), random.random((4000, 2))
    outside = everywhere[~model.update_log_[-1].footprint.contains(everywhere)]
    before = [model.predict(X) for X in (box, outside)]
    support = model.support(outside).mean()
    done = model.consolidate(tolerance=0.2)
    assert done.replaced
    assert model.model_.charts == ()
    pool = state_of(model.model_).pooled
    assert pool.total.count == pytest.approx(2801, abs=1)  # as many as were learned, and one of errors
    for X, old, shift, noise in ((box, before[0], 2, 0.4), (outside, before[1], 0, 0.1)):
        assert np.abs(model.predict(X) - old).mean() < 0.1
        low, high = model.predict_interval(X)
        targets = wavy(X) + shift + noise * random.normal(size=len(X))
        assert 0.87 < ((low <= targets) & (targets <= high)).mean() < 0.98
        assert (high - low).mean() < 8 * noise
    assert model.support(outside).mean() == pytest.approx(support, abs=0.2)
    at, now = np.array([[0.5, 0.5]]), model.predict(box)
    more = 0.35 + 0.3 * random.random((400, 2))
    model.partial_fit(more, wavy(more) + 2 + 0.4 * random.normal(size=400))
    assert model.update_log_[-1].kind == "pool"  # no surprise: the memory has the errors of the rows too
    assert not np.array_equal(model.predict(at), now[:1])
    assert np.array_equal(model.revert(model.update_log_[-1].id).predict(box), now)


def test_a_model_with_sums_stays_as_it_was_beyond_the_tolerance():
    model = charted_sums()
    before = model.model_.fingerprint()
    assert not model.consolidate(tolerance=1e-6).replaced
    assert model.model_.fingerprint() == before


def test_ten_classes_are_folded_within_seconds_and_learn_on():
    random = np.random.default_rng(0)
    X, box = random.random((2000, 2)), 0.3 + 0.4 * random.random((800, 2))
    cuts = np.quantile(wavy(X), np.arange(0.1, 1, 0.1))
    model = AtlasClassifier(memory="sums", retention="chart", random_state=0).fit(
        X, np.digitize(wavy(X), cuts)
    )
    model.partial_fit(box, np.full(800, 3), accept=True)
    assert len(model.model_.charts) == 1
    grid = random.random((2000, 2))
    before = model.predict(grid)
    done = model.consolidate(tolerance=5)
    assert done.replaced
    assert done.seconds < 10  # one on an idle core; training took minutes
    assert (model.predict(grid) == before).mean() > 0.85
    assert model.predict_set(grid).any(axis=1).all()
    model.set_params(retention="pool").partial_fit(X[:200], np.digitize(wavy(X[:200]), cuts), accept=True)
    assert np.isfinite(model.predict_proba(grid)).all()
    model.add_classes([10])  # which charts had refused
    assert model.predict_proba(grid).shape == (2000, 11)
