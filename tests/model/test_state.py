"""The state of a model, replaced as a whole."""

from datetime import datetime, timezone

import numpy as np
import oracle
import pytest

from atlas_splines import Atlas
from atlas_splines.model.atlas import commit, model_in, state_of
from atlas_splines.model.log import Record, next_id


def record(id):
    return Record(id, "none", datetime.now(timezone.utc), 0, "", "")


def test_growth_leaves_the_old_state_as_it_was():
    model = oracle.randomize(Atlas(2, terms=1, density=1))
    X = np.random.default_rng(0).random((50, 2))
    old, before = state_of(model), model(X)
    model.expand().extend([-0.5, 0], [1, 1])
    np.testing.assert_array_equal(model_in(old)(X), before)
    np.testing.assert_array_equal(model(X), before)


def test_a_commit_takes_state_and_entry_at_once():
    model = Atlas(1, density=0)
    new, entry, log = oracle.randomize(Atlas(1, density=0)), record(1), model.updates
    commit(model, state_of(new), entry)
    assert state_of(model) is state_of(new)
    assert model.updates == [entry]
    assert log == []


def test_what_makes_a_model_is_fixed():
    model = Atlas(1)
    for name in ("inputs", "terms", "density", "dtype", "domain", "charts"):
        with pytest.raises(AttributeError):
            setattr(model, name, None)


def test_numbers_of_entries_are_not_used_again():
    assert next_id([record(3), record(1)]) == 4
