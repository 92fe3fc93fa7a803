"""Models built again from their first fit and their data."""

import copy

import numpy as np
import pytest
from branches import FEW, branch, changed_rows, charted, fitted, rows

from atlas_splines import Atlas, AtlasClassifier, consolidate, load, save, update
from atlas_splines.model import log as records
from atlas_splines.versions import replay

DEEDS = [1, (0, 2), 3, (0, 4), 5]


def data_of(deeds):
    return [changed_rows(*deed) if isinstance(deed, tuple) else rows(12, deed) for deed in deeds]


@pytest.mark.parametrize("retention", ["pool", "auto"])
@pytest.mark.parametrize("given", [False, True])
def test_a_model_is_built_again_to_the_bit(retention, given, path):
    first = fitted(retention, 0)
    save(branch(first, *DEEDS), path)
    found = replay(load(path), data_of(DEEDS)[::-1], first=first if given else None)
    assert found
    assert [(step.id, step.same) for step in found.steps] == [(k, True) for k in range(1, 6)]


def test_updates_that_were_taken_back_are_taken_back_again():
    first = fitted("auto", 0)
    model = branch(first, 1, 2, 3).revert(2)
    model.partial_fit(*rows(12, 4))
    found = replay(model, data_of([1, 2, 3, 4]), first=first)
    assert found
    assert all(step.same for step in found.steps)


def test_plain_models(path):
    model = charted(Atlas(inputs=2, density=0, terms=1), 0, 2)
    found = replay(model, [changed_rows(corner, corner, 40) for corner in (0, 2)])
    assert found
    assert len(found.steps) == 2


def test_classes_with_names():
    random = np.random.default_rng(0)
    X = random.random((80, 2))
    y = np.where(X[:, 0] > 0.5, "high", "low")
    model = AtlasClassifier(**FEW).fit(X[:40], y[:40])
    first = copy.deepcopy(model)
    model.partial_fit(X[40:60], y[40:60]).partial_fit(X[60:], y[60:])
    assert replay(model, [(X[60:], y[60:]), (X[40:60], y[40:60])], first=first)
    assert replay(model, [(X[60:], y[60:]), (X[40:60], y[40:60])])


def test_a_model_that_is_not_what_its_log_says_is_found_out():
    first = fitted("pool", 0)
    model = branch(first, 1, 2)
    model.fit_more(*rows(5, 50))
    found = replay(model, data_of([1, 2]), first=first)
    assert not found
    assert all(step.same for step in found.steps)
    other = branch(first, 1)
    other.forget(*(column[:5] for column in rows(12, 1))).partial_fit(*rows(12, 2))
    assert [step.same for step in replay(other, data_of([1, 2]), first=first).steps] == [True, False]


def test_what_cannot_be_replayed_is_refused(monkeypatch):
    first = fitted("pool", 0)
    model = branch(first, 1, 2)
    with pytest.raises(ValueError, match="the data of update 2 is missing; give it too"):
        replay(model, data_of([1]), first=first)
    with pytest.raises(ValueError, match="the data of update 1 is missing; give it too"):
        replay(model, [])
    with pytest.raises(ValueError, match="the model to begin with is not an earlier version of this one"):
        replay(model, [], first=branch(first, 3))
    model.model_.updates[0].settings = {}
    with pytest.raises(
        ValueError, match="update 1 cannot be repeated: its log entry lacks its options, or a seed"
    ):
        replay(model, data_of([1, 2]), first=first)
    plain = charted(Atlas(inputs=2, density=0, terms=1), 0)
    consolidate(plain, tolerance=1e6, samples=50, epochs=1, random_state=0)
    with pytest.raises(
        ValueError, match="update 2 is a consolidation, which is not repeated; begin after it"
    ):
        replay(plain, [changed_rows(0, 0, 40)], first=Atlas(inputs=2, density=0, terms=1))
    drawn = Atlas(inputs=1)
    update(drawn, [[0.5]], [1.0], epochs=1, random_state=np.random.default_rng(0))
    with pytest.raises(ValueError, match="lacks its options, or a seed"):
        replay(drawn, [([[0.5]], [1.0])])
    monkeypatch.setattr(records, "KEPT", 3)
    long = branch(fitted("pool", 0), *range(6))
    with pytest.raises(ValueError, match="the oldest updates are folded in the log"):
        replay(long, data_of(range(6)))
    with pytest.raises(
        ValueError, match="the first 3 updates are folded in the log; begin with a version after them"
    ):
        replay(long, data_of(range(6)), first=fitted("pool", 0))
