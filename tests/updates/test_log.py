"""The log, and taking updates back."""

import numpy as np
import pytest
from boxes import box_data

from atlas_splines import (
    update,
)


def test_the_log_tells_what_happened(trained):
    model = trained.copy()
    X, y = box_data(2, 0)
    fresh = model.fingerprint()
    first = update(model, X, y, epochs=2, random_state=0)
    second = update(model, X, y, retention="none", epochs=2, random_state=0, accept=True)
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
    beside = 0.02 + 0.02 * np.random.default_rng(0).random((60, 2))
    second = update(model, beside, y[:60] + 1, epochs=2, random_state=1)
    kept = model.charts[-1]
    model.revert(first.id)
    assert model.charts == (kept,)
    assert kept.update == second.id
    assert update(model, X, y, epochs=1).id == 3  # numbers are not used again


def test_revert_says_what_can_be_reverted(trained):
    model = trained.copy()
    X, y = box_data(2, 0)
    update(model, X, y, retention="none", epochs=1)
    with pytest.raises(
        ValueError,
        match=r"update 1 cannot be reverted, since it trained .* no copy is kept; of this model's updates, none can",
    ):
        model.revert(1)
    update(model, X, y + 20, epochs=5)
    update(model, X, y, retention="both", epochs=1)
    with pytest.raises(ValueError, match="update 3 cannot be reverted"):
        model.revert(3)  # it changed the coefficients too
    with pytest.raises(ValueError, match="update 7 cannot be reverted; of this model's updates, 2 can"):
        model.revert(7)
