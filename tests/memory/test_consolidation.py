"""Charts folded in again."""

import level_rows
import numpy as np
import pytest

from atlas_splines import (
    Atlas,
    AtlasRegressor,
    consolidate,
)
from atlas_splines.core.model import state_of


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


def test_a_model_that_keeps_rows_keeps_its_charts():
    X = np.random.default_rng(0).random((300, 2))
    model = AtlasRegressor(features=24, random_state=0).fit(X, X[:, 0])
    model.partial_fit(0.2 + 0.2 * X[:100], np.full(100, 9.0))
    assert model.model_.charts
    before = model.model_.fingerprint()
    with pytest.raises(ValueError, match="this model keeps rows, and each update derives it from them anew"):
        model.consolidate(tolerance=1e9, samples=100, epochs=1)
    assert model.model_.fingerprint() == before
